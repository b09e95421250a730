//! Steps for observations.

use std::borrow::Cow;

use crate::json::{Draft, Members};

use super::message::{is, text_part};

/// Until 2025-11-05 each observation had its own members for its content: `output`, `message`, `error`.
///
/// An error replaced the output then, and it still does.
pub(super) fn output(event: &mut Members<'_>) -> bool {
    let Some(inner) = observation(event) else { return false };
    let kind = inner.str("kind").map(Cow::into_owned).unwrap_or_default();
    let member = match kind.as_str() {
        "TerminalObservation"
        | "FileEditorObservation"
        | "PlanningFileEditorObservation"
        | "BrowserObservation" => "output",
        "FinishObservation" | "DelegateObservation" => "message",
        _ => return false,
    };
    if inner.has("content") || !(inner.has(member) || inner.has("error")) {
        return false;
    }
    let output = inner.remove(member);
    let error = inner.remove("error");
    let failed = match &error {
        Some(error) => error.is_true() || error.as_str().is_some_and(|text| !text.is_empty()),
        None => false,
    };
    let text = match error.as_ref().and_then(Draft::as_str).filter(|text| !text.is_empty()) {
        Some(error) => Some(error.into_owned()),
        None => output.as_ref().and_then(Draft::as_str).map(Cow::into_owned),
    };
    inner.set("content", Draft::Array(text.map(text_part).into_iter().collect()));
    inner.set("is_error", Draft::json(if failed { "true" } else { "false" }));
    if kind == "TerminalObservation" {
        exit_code(inner);
    }
    true
}

/// Adds missing members to a terminal's observation: a null `command`, and the `exit_code` from the metadata.
fn exit_code(terminal: &mut Members<'_>) {
    if terminal.get("command").is_none() {
        terminal.set("command", Draft::json("null"));
    }
    if terminal.has("exit_code") {
        return;
    }
    if let Some(code) = terminal.object("metadata").and_then(|metadata| metadata.get("exit_code").cloned()) {
        terminal.set("exit_code", code);
    }
}

/// Until 2025-11-05 the content of the observations of a thought and of a task list was one string.
pub(super) fn content_list(event: &mut Members<'_>) -> bool {
    let Some(inner) = observation(event) else { return false };
    let Some(text) = inner.str("content").map(Cow::into_owned) else { return false };
    inner.set("content", Draft::Array(vec![text_part(text)]));
    true
}

/// Until 2025-11-05 the text of a search result was not stored. It was generated for each message.
pub(super) fn search_content(event: &mut Members<'_>) -> bool {
    let Some(inner) = observation(event) else { return false };
    let (found, doing) = match inner.str("kind").as_deref() {
        Some("GlobObservation") => ("files", "matching"),
        Some("GrepObservation") => ("matches", "containing"),
        _ => return false,
    };
    if inner.has("content") {
        return false;
    }
    let error = inner.remove("error").and_then(|error| error.as_str().map(Cow::into_owned));
    let error = error.filter(|error| !error.is_empty());
    let failed = error.is_some();
    let text = error.unwrap_or_else(|| search_text(inner, found, doing));
    inner.set("content", Draft::Array(vec![text_part(text)]));
    inner.set("is_error", Draft::json(if failed { "true" } else { "false" }));
    true
}

fn search_text(search: &mut Members<'_>, found: &str, doing: &str) -> String {
    let text = |search: &Members<'_>, name: &str| search.str(name).map(Cow::into_owned).unwrap_or_default();
    let (pattern, place) = (text(search, "pattern"), text(search, "search_path"));
    let filter = match text(search, "include_pattern") {
        include if include.is_empty() => String::new(),
        include => format!(" (filtered by '{include}')"),
    };
    let files: Vec<String> = search
        .get_mut(found)
        .and_then(Draft::array)
        .map(|files| files.iter().filter_map(Draft::as_str).map(Cow::into_owned).collect())
        .unwrap_or_default();
    if files.is_empty() {
        return format!("No files found {doing} pattern '{pattern}' in directory '{place}'{filter}");
    }
    let mut text = format!(
        "Found {} file(s) {doing} pattern '{pattern}' in '{place}'{filter}:\n{}",
        files.len(),
        files.join("\n")
    );
    if search.get("truncated").is_some_and(Draft::is_true) {
        text.push_str("\n\n[Results truncated to first 100 files. Consider using a more specific pattern.]");
    }
    text
}

fn observation<'e, 'a>(event: &'e mut Members<'a>) -> Option<&'e mut Members<'a>> {
    if is(event, "ObservationEvent") { event.object("observation") } else { None }
}
