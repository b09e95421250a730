//! Steps for tool calls: their shape, their risk, and what the tools were called.

use crate::event::draft::{Draft, Members};

use super::message::is;

/// Until 2025-10-03 a call was kept in the words of chat completions: `{id, type, index, function: {name, arguments}}`.
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

/// Until 2025-09-18 the risk stood in the action itself.
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

/// What a tool that had another name is called today.
///
/// The terminal was `execute_bash` and the file editor `str_replace_editor`, both until 2025-11-04.
pub(super) fn new_name(name: &str) -> Option<&'static str> {
    match name {
        "execute_bash" => Some("terminal"),
        "str_replace_editor" => Some("file_editor"),
        _ => None,
    }
}

/// What the action or observation of a tool that had another name is called today.
///
/// The terminal's were `ExecuteBash..` until 1.4.1, the file editor's `StrReplaceEditor..` until 2025-10-02.
fn new_kind(kind: &str) -> Option<&'static str> {
    match kind {
        "ExecuteBashAction" => Some("TerminalAction"),
        "ExecuteBashObservation" => Some("TerminalObservation"),
        "StrReplaceEditorAction" | "DynamicStrReplaceEditorAction" => Some("FileEditorAction"),
        "StrReplaceEditorObservation" => Some("FileEditorObservation"),
        _ => None,
    }
}

/// New names for the old tools, and for their actions and observations.
///
/// A server's tool may bear an old name today; it is left alone, as is whatever has a member that events have only had since
/// the tools were renamed.
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

/// Whether the event's tool can only be the one that had another name.
fn is_old_tool(event: &mut Members<'_>) -> bool {
    let ours = ["TerminalAction", "TerminalObservation", "FileEditorAction", "FileEditorObservation"];
    for member in ["action", "observation"] {
        if let Some(inner) = event.object(member) {
            return inner.str("kind").is_some_and(|kind| ours.contains(&&*kind));
        }
    }
    let newer = ["summary", "classification", "rejection_source", "parent_id"];
    !newer.iter().any(|member| event.has(member))
}
