//! The parts that give a text its shape: ids, join keys and kinds. They must stay as they are.

use super::rewrite::Form;
use crate::json::Path;

/// Members of an event that other events refer to, or that determine the kind of the event
/// (`docs/reference/events.md#names-within-an-event`).
const EVENT: &[&str] = &[
    "id",
    "kind",
    "source",
    "timestamp",
    "parent_id",
    "tool_call_id",
    "action_id",
    "llm_response_id",
    "tool_name",
    "security_risk",
    "forgotten_event_ids",
    "rejection_source",
    "hook_event_type",
    "usage_id",
    "model_name",
    "tool_kind",
    "status",
];

/// Members of a tool call (in Chat Completions: next to `function`).
const CALL: &[&str] = &["id", "name", "origin", "type", "responses_item_id", "item_id"];

/// Fields of a base state that other data refers to, or that hold the status of the conversation.
const BASE_STATE: &[&str] = &["id", "execution_status", "leaf_event_id", "last_user_message_id"];

/// Returns whether the string at `path` is part of the shape.
pub(super) fn is_structural(form: Form, path: &Path, text: &str) -> bool {
    let inner = path.name().unwrap_or_default();
    if inner == "kind" && is_word(text) {
        return true;
    }
    match form {
        Form::Event => in_event(path, inner, text),
        Form::BaseState => path.steps().len() == 1 && BASE_STATE.contains(&inner),
        Form::Document | Form::Plain => false,
    }
}

fn in_event(path: &Path, inner: &str, text: &str) -> bool {
    let depth = path.steps().len();
    let outer = path.member(0).unwrap_or_default();
    match depth {
        // In an OpenHands V0 event, `action` or `observation` is the kind. In a state update, `key` names the field.
        1 => EVENT.contains(&outer) || (matches!(outer, "action" | "observation" | "key") && is_word(text)),
        2 if outer == "forgotten_event_ids" => true,
        2 if matches!(outer, "tool_call" | "tool_call_metadata") => CALL.contains(&inner),
        2 if outer == "llm_message" => matches!(inner, "role" | "tool_call_id" | "name"),
        3 if path.member(1) == Some("function") => inner == "name",
        // llm_message.tool_calls[0].id
        4 if outer == "llm_message" && path.member(1) == Some("tool_calls") => CALL.contains(&inner),
        _ => inner == "type" && is_word(text) && !is_tool_data(path),
    }
}

/// Returns whether the member's name at `path` is an event's id.
pub(super) fn is_id(form: Form, path: &Path) -> bool {
    form == Form::Event && path.steps().len() == 2 && path.member(0) == Some("risks")
}

/// Returns whether `path` leads into a tool's input or output.
pub(super) fn is_tool_data(path: &Path) -> bool {
    let outer = path.member(0).unwrap_or_default();
    matches!(outer, "action" | "args" | "observation" | "extras" | "raw_input" | "raw_output")
}

/// Returns whether `path` is that of a tool call's arguments: JSON within a string. Models are shown it again, so it
/// must stay JSON.
pub(super) fn is_arguments(path: &Path) -> bool {
    path.name() == Some("arguments") && matches!(path.member(0), Some("tool_call" | "llm_message"))
}

/// Returns whether `text` is an identifier of a program, not a person's words.
pub(super) fn is_word(text: &str) -> bool {
    let mut bytes = text.bytes();
    let first = bytes.next().is_some_and(|byte| byte.is_ascii_alphabetic() || byte == b'_');
    first && text.len() <= 64 && bytes.all(|byte| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte))
}
