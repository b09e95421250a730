//! The names of kinds: the reference's names of its event classes, and the seed's older names for them.

use super::foreign::ForeignFormat;

/// A message of a person, the agent or the environment.
pub const MESSAGE: &str = "MessageEvent";
/// The agent asks for a tool.
pub const ACTION: &str = "ActionEvent";
/// A tool answered.
pub const OBSERVATION: &str = "ObservationEvent";
/// A person or a hook rejected an action.
pub const REJECTION: &str = "UserRejectObservation";
/// A tool call failed before or instead of an observation.
pub const AGENT_ERROR: &str = "AgentErrorEvent";
/// The run failed.
pub const CONVERSATION_ERROR: &str = "ConversationErrorEvent";
/// The instructions that the model has before anything else.
pub const SYSTEM_PROMPT: &str = "SystemPromptEvent";
/// Events were forgotten. A summary may replace them.
pub const CONDENSATION: &str = "Condensation";
/// A condensation was requested.
pub const CONDENSATION_REQUEST: &str = "CondensationRequest";
/// The summary of a condensation, as the model sees it.
pub const CONDENSATION_SUMMARY: &str = "CondensationSummaryEvent";
/// A field of the base state changed. HEAD never moves to such an event.
pub const STATE_UPDATE: &str = "ConversationStateUpdateEvent";
/// A person paused the run.
pub const PAUSE: &str = "PauseEvent";
/// A person interrupted the run.
pub const INTERRUPT: &str = "InterruptEvent";
/// A hook ran.
pub const HOOK: &str = "HookExecutionEvent";
/// An external agent called a tool of its own.
pub const ACP_TOOL_CALL: &str = "ACPToolCallEvent";
/// The record of one model call, as text.
pub const COMPLETION_LOG: &str = "LLMCompletionLogEvent";

/// The class name of a kind. The seed's snake-case names are aliases; every other name is its own class name.
///
/// Source: `docs/reference/seeds.md#names-of-kinds`.
#[must_use]
pub fn canonical(kind: &str) -> &str {
    match kind {
        "user_message" | "agent_message" | "message" => MESSAGE,
        "action" => ACTION,
        "observation" => OBSERVATION,
        "user_reject" | "user_reject_observation" => REJECTION,
        "agent_error" => AGENT_ERROR,
        "conversation_error" => CONVERSATION_ERROR,
        "system_prompt" => SYSTEM_PROMPT,
        "condensation" => CONDENSATION,
        "condensation_request" => CONDENSATION_REQUEST,
        "condensation_summary" => CONDENSATION_SUMMARY,
        "conversation_state_update" | "state_update" => STATE_UPDATE,
        "pause" => PAUSE,
        "interrupt" => INTERRUPT,
        "hook_execution" => HOOK,
        other => other,
    }
}

/// Whether appending an event of this kind moves HEAD to it.
///
/// Source: `docs/reference/events.md#head`: every kind does, except a state update. Another program's record without a
/// counterpart (`claude-code:progress`) does not move it either.
#[must_use]
pub fn moves_head(kind: &str) -> bool {
    canonical(kind) != STATE_UPDATE && ForeignFormat::of_kind(kind).is_none()
}

/// Whether HEAD can be at an event of this kind if no leaf is set: if it moves HEAD, except a conversation's error.
#[must_use]
pub(crate) fn can_hold_head(kind: &str) -> bool {
    moves_head(kind) && canonical(kind) != CONVERSATION_ERROR
}
