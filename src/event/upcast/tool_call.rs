//! Steps for tool calls: their shape, their risk, and the names of the tools.

use crate::json::{Draft, Members};

use super::message::is;

/// Until 2025-10-03 a call had the format of chat completions: `{id, type, index, function: {name, arguments}}`.
pub(super) fn flat(event: &mut Members<'_>) -> bool {
    let mut changed = false;
    if is(event, "ActionEvent")
        && let Some(call) = event.object("tool_call")
    {
        changed |= flatten(call);
    }
    if is(event, "MessageEvent")
        && let Some(calls) = event.object("llm_message").and_then(|message| message.get_mut("tool_calls"))
        && let Some(calls) = calls.array()
    {
        for call in calls.iter_mut().filter_map(Draft::object) {
            changed |= flatten(call);
        }
    }
    changed
}

fn flatten(call: &mut Members<'_>) -> bool {
    if call.has("name") {
        return false;
    }
    let Some(function) = call.object("function") else { return false };
    let (name, arguments) = (function.remove("name"), function.remove("arguments"));
    call.remove("function");
    call.remove("type");
    call.remove("index");
    for (key, value) in [("name", name), ("arguments", arguments)] {
        if let Some(value) = value {
            call.set(key, value);
        }
    }
    call.set_text("origin", "completion");
    true
}

/// Until 2025-09-18 the risk was a member of the action itself.
pub(super) fn action_risk(event: &mut Members<'_>) -> bool {
    if !is(event, "ActionEvent") {
        return false;
    }
    let Some(risk) = event.object("action").and_then(|action| action.remove("security_risk")) else {
        return false;
    };
    if !event.has("security_risk") && risk.as_str().is_some() {
        event.set("security_risk", risk);
    }
    true
}

/// Today's name of a tool that had another name. `None` for any other tool.
///
/// The terminal was `execute_bash` and the file editor `str_replace_editor`, both until 2025-11-04.
pub(super) fn new_name(name: &str) -> Option<&'static str> {
    match name {
        "execute_bash" => Some("terminal"),
        "str_replace_editor" => Some("file_editor"),
        _ => None,
    }
}

/// Today's kind of an action or observation that had another kind. `None` for any other kind.
///
/// The terminal's were `ExecuteBash..` until 1.4.1. The file editor's were `StrReplaceEditor..` until 2025-10-02.
fn new_kind(kind: &str) -> Option<&'static str> {
    match kind {
        "ExecuteBashAction" => Some("TerminalAction"),
        "ExecuteBashObservation" => Some("TerminalObservation"),
        "StrReplaceEditorAction" | "DynamicStrReplaceEditorAction" => Some("FileEditorAction"),
        "StrReplaceEditorObservation" => Some("FileEditorObservation"),
        _ => None,
    }
}

/// Gives the old tools, and their actions and observations, their new names.
///
/// A server's tool may have an old name today, so it is not changed. An event is not changed either if it has a member
/// that was added to events after the tools were renamed.
pub(super) fn names(event: &mut Members<'_>) -> bool {
    let mut changed = false;
    for member in ["action", "observation"] {
        let Some(inner) = event.object(member) else { continue };
        let Some(new) = inner.str("kind").and_then(|kind| new_kind(&kind)) else { continue };
        inner.set_text("kind", new);
        changed = true;
    }
    let Some(new) = event.str("tool_name").and_then(|name| new_name(&name)) else { return changed };
    if !is_old_tool(event) {
        return changed;
    }
    event.set_text("tool_name", new);
    if let Some(call) = event.object("tool_call")
        && call.str("name").is_some_and(|name| new_name(&name).is_some())
    {
        call.set_text("name", new);
    }
    true
}

/// Whether the event's tool is certainly one of those that were renamed.
fn is_old_tool(event: &mut Members<'_>) -> bool {
    let renamed = ["TerminalAction", "TerminalObservation", "FileEditorAction", "FileEditorObservation"];
    for member in ["action", "observation"] {
        if let Some(inner) = event.object(member) {
            return inner.str("kind").is_some_and(|kind| renamed.contains(&&*kind));
        }
    }
    let newer = ["summary", "classification", "rejection_source", "parent_id"];
    !newer.iter().any(|member| event.has(member))
}
