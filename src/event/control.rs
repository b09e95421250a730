//! Events that control a run or record what happened around it: pauses, state updates, hooks, risk analyses.

use super::action::Risk;
use super::common::Common;
use super::model::{Extra, Json, Map, Text, event, take, words};

words! {
    /// The point at which a hook runs.
    HookType {
        /// Before a tool is used.
        PreToolUse = "PreToolUse",
        /// After a tool was used.
        PostToolUse = "PostToolUse",
        /// When a person sent a message.
        UserPromptSubmit = "UserPromptSubmit",
        /// When a conversation begins.
        SessionStart = "SessionStart",
        /// When a conversation ends.
        SessionEnd = "SessionEnd",
        /// When the agent wants to stop.
        Stop = "Stop",
    }
}

event! {
    /// A person paused the run.
    PauseEvent = "PauseEvent", from (User) {}
}

event! {
    /// A person interrupted the run.
    InterruptEvent = "InterruptEvent", from (User) {}
}

event! {
    /// A field of the base state changed. HEAD never moves to it.
    ConversationStateUpdateEvent = "ConversationStateUpdateEvent", from (Environment) {
        /// The field, or `full_state`. If there is none, the reference makes up a name; here it is empty.
        key: Text = Text::from(""),
        /// Its new value.
        value: Json = Json::empty_object(),
    }
    new by hand
}

event! {
    /// A hook ran.
    HookExecutionEvent = "HookExecutionEvent", from (Hook) {
        /// The point at which the hook ran.
        hook_event_type: HookType,
        /// The command of the hook.
        hook_command: Text,
        /// The tool that was used.
        tool_name: Option<Text> = None,
        /// Whether the hook succeeded.
        success: bool,
        /// Whether the hook blocked the action or message.
        blocked: bool = false,
        /// The command's exit code.
        exit_code: i64,
        /// The standard output.
        stdout: Text = Text::from(""),
        /// The standard error output.
        stderr: Text = Text::from(""),
        /// Why the hook blocked it.
        reason: Option<Text> = None,
        /// The hook's additional text for the model.
        additional_context: Option<Text> = None,
        /// Why the hook did not run.
        error: Option<Text> = None,
        /// The action that the hook was asked about.
        action_id: Option<Text> = None,
        /// The message that the hook was asked about.
        message_id: Option<Text> = None,
        /// The input of the hook.
        hook_input: Option<Map<Json>> = None,
    }
}

event! {
    /// The rated risks of a batch of actions.
    SecurityAnalysisEvent = "SecurityAnalysisEvent", from (Environment) {
        /// The class of the analyzer.
        analyzer: Text,
        /// The class of the confirmation policy.
        policy: Text,
        /// The risk of each action, by the id of its event.
        risks: Map<Risk>,
        /// Details of each rating, by the id of the action's event.
        details: Map<Map<Json>> = Map::default(),
    }
}

impl ConversationStateUpdateEvent {
    /// Makes an update: the field `key` has the new value `value`.
    #[must_use]
    pub fn new(common: Common, key: impl Into<Text>, value: Json) -> Self {
        Self { common, key: key.into(), value, extra: Extra::default() }
    }
}
