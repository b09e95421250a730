//! What steers a run and what happened around it: pauses, state updates, hooks, the analysis of risks.

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
        /// When a person said something.
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
        /// The field, or `full_state`. The reference makes up a name where there is none; here it is empty.
        key: Text = Text::from(""),
        /// Its new value.
        value: Json = Json::empty_object(),
    }
}

event! {
    /// A hook ran.
    HookExecutionEvent = "HookExecutionEvent", from (Hook) {
        /// When it ran.
        hook_event_type: HookType,
        /// What was run.
        hook_command: Text,
        /// The tool that was used.
        tool_name: Option<Text> = None,
        /// Whether it ran well.
        success: bool,
        /// Whether it stopped what it was asked about.
        blocked: bool = false,
        /// The command's exit code.
        exit_code: i64,
        /// What it printed.
        stdout: Text = Text::from(""),
        /// What it printed as errors.
        stderr: Text = Text::from(""),
        /// Why it stopped it.
        reason: Option<Text> = None,
        /// What it wants the model to know.
        additional_context: Option<Text> = None,
        /// Why it did not run.
        error: Option<Text> = None,
        /// The action it was asked about.
        action_id: Option<Text> = None,
        /// The message it was asked about.
        message_id: Option<Text> = None,
        /// What it was given.
        hook_input: Option<Map<Json>> = None,
    }
}

event! {
    /// How risky a batch of actions was found.
    SecurityAnalysisEvent = "SecurityAnalysisEvent", from (Environment) {
        /// The class of the analyzer.
        analyzer: Text,
        /// The class of the confirmation policy.
        policy: Text,
        /// The risk of each action, by the id of its event.
        risks: Map<Risk>,
        /// More about each, by the id of its event.
        details: Map<Map<Json>> = Map::default(),
    }
}

impl PauseEvent {
    /// A pause.
    #[must_use]
    pub fn new(common: Common) -> Self {
        Self { common, extra: Extra::default() }
    }
}

impl InterruptEvent {
    /// An interruption.
    #[must_use]
    pub fn new(common: Common) -> Self {
        Self { common, extra: Extra::default() }
    }
}

impl ConversationStateUpdateEvent {
    /// The field `key` is now `value`.
    #[must_use]
    pub fn new(common: Common, key: impl Into<Text>, value: Json) -> Self {
        Self { common, key: key.into(), value, extra: Extra::default() }
    }
}

impl SecurityAnalysisEvent {
    /// What `analyzer` found under `policy`.
    #[must_use]
    pub fn new(common: Common, analyzer: impl Into<Text>, policy: impl Into<Text>, risks: Map<Risk>) -> Self {
        Self {
            common,
            analyzer: analyzer.into(),
            policy: policy.into(),
            risks,
            details: Map::default(),
            extra: Extra::default(),
        }
    }
}
