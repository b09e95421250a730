//! `annals events`: events as JSON lines.

use serde_json::json;
use serde_json::value::RawValue;

use super::arguments::Events;
use super::print::Output;
use super::{DONE, Place};
use crate::error::Result;
use crate::ids::Sequence;
use crate::store::{EventQuery, StoredEvent};

/// How many events are held at once.
const PAGE: usize = 500;

pub(super) fn run(place: &Place<'_>, command: &Events, output: &Output) -> Result<u8> {
    let store = place.read()?;
    let id = store.resolve(&command.id)?;
    let mut query = EventQuery {
        from: command.from.map(Sequence),
        to: command.to.map(Sequence),
        kinds: command.kind.clone(),
        sources: command.source.clone(),
        ..EventQuery::default()
    };
    let mut left = command.limit.unwrap_or(usize::MAX);
    while left > 0 {
        let page = store.events(&id, &query, left.min(PAGE))?;
        left -= page.events.len();
        for event in &page.events {
            if command.raw { raw(event, output)? } else { line(event, output)? }
        }
        match page.next {
            Some(next) => query.from = Some(next),
            None => break,
        }
    }
    Ok(DONE)
}

/// The payload as it is stored, and a line break where it has none of its own; on a terminal with escapes that say the same.
fn raw(event: &StoredEvent, output: &Output) -> Result<()> {
    output.json_text(&event.payload)?;
    if event.payload.ends_with('\n') { Ok(()) } else { output.raw(b"\n") }
}

/// Where the event stands and what it is, its payload as a value within; one line.
pub(super) fn line(event: &StoredEvent, output: &Output) -> Result<()> {
    let payload = compact(&event.payload);
    let around = json!({
        "position": event.position.0,
        "sequence": event.sequence.0,
        "id": event.id.as_str(),
        "kind": event.kind,
        "recorded_at": event.recorded_at.to_rfc3339(),
    });
    let mut text = around.to_string();
    text.truncate(text.len() - 1);
    output.json_text(&format!("{text},\"payload\":{payload}}}\n"))
}

/// The payload on one line, otherwise as it is (a line break within JSON is white space, strings escape
/// theirs); as a string where it is no JSON that a parser takes.
fn compact(payload: &str) -> String {
    match serde_json::from_str::<&RawValue>(payload) {
        Ok(_) => payload.replace(['\n', '\r'], " "),
        Err(_) => json!(payload).to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_payload_of_several_lines_becomes_one_line() {
        assert_eq!(compact("{\n \"a\": \"x\\ny\"\r\n}"), "{  \"a\": \"x\\ny\"  }");
        assert_eq!(compact("{\"a\": NaN}"), "\"{\\\"a\\\": NaN}\"");
    }
}
