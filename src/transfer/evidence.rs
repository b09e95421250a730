//! Recognises files of OpenHands by their content: events of any age, and outputs of evaluations.
//!
//! A file is recognised if one of its first records is one that only such a file has. A record that is damaged or cut
//! off counts by the members that can be read. The name of a file says nothing.

use std::io::Read as _;
use std::path::Path;

use crate::event::foreign::ForeignFormat;
use crate::event::{Event, kind};
use crate::json::{Object, Raw};
use crate::untrusted;

/// The number of bytes of a file that are read.
const PEEK_BYTES: u64 = 1 << 20;

/// The number of records that are examined.
const PEEK_RECORDS: usize = 32;

/// What a file of OpenHands holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Evidence {
    /// Events: lines or an array.
    Events,
    /// The output of an evaluation: a line for each instance, with its history.
    Evaluation,
}

/// Returns what the first records of a file are evidence for. `None` also if the file cannot be read.
pub(super) fn of_file(path: &Path) -> Option<Evidence> {
    of_text(&peek(path).ok()?)
}

/// Returns the beginning of a file as text, up to the first bytes that are no text.
///
/// # Errors
/// Any error of the system, and the errors of [`untrusted::open`].
pub(super) fn peek(path: &Path) -> std::io::Result<String> {
    let mut bytes = Vec::new();
    untrusted::open(path)?.0.take(PEEK_BYTES).read_to_end(&mut bytes)?;
    if let Err(error) = std::str::from_utf8(&bytes) {
        // A file with some bad bytes may hold good records, so only the bad bytes are replaced.
        return Ok(match error.error_len() {
            None => String::from_utf8_lossy(&bytes[..error.valid_up_to()]).into_owned(),
            Some(_) => String::from_utf8_lossy(&bytes).into_owned(),
        });
    }
    Ok(String::from_utf8(bytes).unwrap_or_default())
}

fn of_text(text: &str) -> Option<Evidence> {
    let text = text.trim_start_matches('\u{feff}').trim_start();
    match text.strip_prefix('[') {
        Some(rest) => elements(rest).any(|members| is_event(&members)).then_some(Evidence::Events),
        None => lines(text).find_map(|members| of_record(&members)),
    }
}

fn of_record(members: &Object<'_>) -> Option<Evidence> {
    if is_event(members) {
        Some(Evidence::Events)
    } else {
        let is_evaluation = is_evaluation(members) || is_beginning_of_evaluation(members);
        is_evaluation.then_some(Evidence::Evaluation)
    }
}

/// Returns the members of the first lines, as far as they can be read.
pub(super) fn lines(text: &str) -> impl Iterator<Item = Object<'_>> {
    let lines = text.lines().filter(|line| !line.trim().is_empty());
    lines.take(PEEK_RECORDS).map(Object::of_beginning)
}

/// Returns the members of the first elements of an array, as far as they can be read. `rest` is the text after its
/// opening bracket.
pub(super) fn elements(rest: &str) -> impl Iterator<Item = Object<'_>> {
    let mut rest = Some(rest);
    std::iter::from_fn(move || {
        let text = rest.take()?.trim_start();
        match Raw::parse_first(text) {
            Ok((element, after)) => {
                rest = after.trim_start().strip_prefix(',');
                Some(element.to_object())
            }
            // It is damaged or cut off.
            Err(_) => Some(Object::of_beginning(text)),
        }
    })
    .take(PEEK_RECORDS)
}

/// Returns whether an object is an event: of a known kind, of any kind with an id, or of OpenHands V0.
pub(super) fn is_event(members: &Object<'_>) -> bool {
    let has = |names: &[&str]| names.iter().any(|name| members.get(name).is_some());
    if let Some(kind) = members.text("kind") {
        let has_id = members.get("id").is_some_and(|id| id.is_str() || id.as_i64().is_some());
        // The kinds of some web services have a number sign.
        return Event::KINDS.contains(&kind::canonical(&kind))
            || ForeignFormat::of_kind(&kind).is_some()
            || has_id && !kind.contains('#');
    }
    let source = members.text("source");
    let is_from_v0 = matches!(source.as_deref(), Some("agent" | "user" | "environment"));
    let is_action = members.text("action").is_some() && (is_from_v0 || has(&["args"]));
    let is_observation =
        members.text("observation").is_some() && (is_from_v0 || has(&["extras", "content", "cause"]));
    is_action || is_observation
}

/// Returns whether an object is a line of an evaluation's output: it has a history of events, or an empty one with what
/// else such a line says.
pub(super) fn is_evaluation(members: &Object<'_>) -> bool {
    let Some(history) = members.get("history").filter(|history| history.is_array()) else { return false };
    let mut events = history_of(history).take(PEEK_RECORDS).peekable();
    match events.peek() {
        None => said_by_evaluations(members) >= 2,
        Some(_) => events.any(|event| is_event(&event.to_object())),
    }
}

/// Returns whether an object is the beginning of such a line, cut off before its history.
fn is_beginning_of_evaluation(members: &Object<'_>) -> bool {
    members.get("history").is_none() && said_by_evaluations(members) >= 2
}

/// Returns how many of the members that an evaluation's line has beside its history an object has.
fn said_by_evaluations(members: &Object<'_>) -> usize {
    let names = ["instance_id", "instance", "test_result", "instruction", "metadata", "final_message"];
    names.iter().filter(|name| members.get(name).is_some()).count()
}

/// Returns the events of a history. In 2024 it was a list of pairs of an action and an observation.
pub(super) fn history_of(history: Raw<'_>) -> impl Iterator<Item = Raw<'_>> {
    history.elements().flat_map(|element| {
        let (pair, single) = match element.is_array() {
            true => (Some(element.elements()), None),
            false => (None, Some(element)),
        };
        pair.into_iter().flatten().chain(single)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_good_record_among_the_first_is_evidence() {
        let event = r#"{"id":"a","kind":"PauseEvent"}"#;
        let v0 = r#"{"id":0,"source":"agent","action":"run","args":{"command":"ls"}}"#;
        let (events, evaluation) = (Some(Evidence::Events), Some(Evidence::Evaluation));
        for (text, expected) in [
            (event.to_owned(), events),
            (format!("\u{feff}\n{event}\n"), events),
            (format!("torn {{\n{event}"), events),
            (format!("[{{}}, {v0}]"), events),
            (format!("[\n{event},{{\"to"), events),
            (r#"{"id":"a","kind":"MessageEvent","llm_mess"#.into(), events),
            (r#"[{"kind":"MessageEvent","llm_mess"#.into(), events),
            (r#"{"kind":"shop.shipped","id":"x"}"#.into(), events),
            (r#"{"kind":"user_message","content":"hi"}"#.into(), events),
            (r#"{"observation":"null","content":"","extras":{}}"#.into(), events),
            (format!(r#"{{"instance_id":"a","history":[{v0}]}}"#), evaluation),
            (format!(r#"{{"id":"a","history":[[{v0},{v0}]]}}"#), evaluation),
            (r#"{"instance_id":"a","test_result":{},"history":[]}"#.into(), evaluation),
            (r#"{"instance_id":"a","test_result":{},"instruction":"long"#.into(), evaluation),
            (r#"{"history":[]}"#.into(), None),
            (r#"{"history":[{"url":"x"}]}"#.into(), None),
            (r#"{"type":"user","message":{"role":"user"}}"#.into(), None),
            (r#"{"kind":"Pod","apiVersion":"v1"}"#.into(), None),
            (r#"{"kind":"youtube#video","id":"x"}"#.into(), None),
            (r#"{"action":"created","issue":{}}"#.into(), None),
            (r#"[1,2,{"type":"x"}]"#.into(), None),
            ("[]".into(), None),
            ("root:x:0:0:root".into(), None),
            (String::new(), None),
            (format!("{}{event}", "{}\n".repeat(PEEK_RECORDS)), None),
        ] {
            assert_eq!(of_text(&text), expected, "{text}");
        }
    }
}
