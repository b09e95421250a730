//! `annals events`: prints events as JSON lines.

use clap::Args;
use serde_json::json;
use serde_json::value::RawValue;

use super::print::Output;
use super::{DONE, Place};
use crate::error::Result;
use crate::ids::Sequence;
use crate::store::{EventQuery, StoredEvent};

/// The maximum number of events in memory at once.
const PAGE: usize = 500;

/// Print events, one JSON object a line
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  annals events 5610a7 --kind ActionEvent
  annals events 5610a7 --from 100 --to 120 --raw
  annals events 5610a7 --raw | jq -r 'select(.kind == \"MessageEvent\") | .timestamp'")]
pub(super) struct Arguments {
    /// The conversation, by id or the start of one
    pub id: String,
    /// From this sequence on
    #[arg(long, value_name = "SEQUENCE")]
    pub from: Option<u64>,
    /// Up to this sequence
    #[arg(long, value_name = "SEQUENCE")]
    pub to: Option<u64>,
    /// Only these kinds
    #[arg(long, value_name = "KIND")]
    pub kind: Vec<String>,
    /// Only these sources (agent, user, environment, hook)
    #[arg(long, value_name = "SOURCE")]
    pub source: Vec<String>,
    /// At most this many
    #[arg(long, value_name = "N")]
    pub limit: Option<usize>,
    /// Print payloads exactly as they are stored, and nothing else
    #[arg(long)]
    pub raw: bool,
}

pub(super) fn run(place: &Place<'_>, command: &Arguments, output: &Output) -> Result<u8> {
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

/// Prints the payload as it is stored, and a line break unless it ends with one. On a terminal, control characters are
/// replaced by the equivalent JSON escapes.
fn raw(event: &StoredEvent, output: &Output) -> Result<()> {
    output.json_text(&event.payload)?;
    if event.payload.ends_with('\n') { Ok(()) } else { output.raw(b"\n") }
}

/// Prints an event as one line of JSON: its place, its kind, and its payload as a member.
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

/// Returns the payload on one line, otherwise unchanged. A raw line break in JSON is always white space, because
/// strings escape theirs. A payload that the parser rejects is returned as a JSON string.
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
