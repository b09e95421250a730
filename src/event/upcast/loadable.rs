//! Events that the reference loads, made from any: for folders that SDK 1.58 is to open.
//!
//! One event that the reference does not know makes it refuse the whole conversation. What can be left out is left
//! out, and an event that cannot be had otherwise travels within one that it does know; [`unpack`] takes it out
//! again. The log keeps what was written, whatever is exported.

use crate::event::Event;
use crate::event::common::{Common, Source};
use crate::event::decode::{DecodeError, Mismatch, Unfamiliar, decode};
use crate::event::draft::{Draft, Members};
use crate::event::json::Raw;
use crate::event::telemetry::LLMCompletionLogEvent;

/// What an event had to lose to be loadable.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Loss {
    /// A member that the reference does not know, or a word it does not know, was left out.
    Member {
        /// Where: `observation.new_field`.
        path: String,
    },
    /// An action of an unknown kind became a server's tool call with the same members.
    Action {
        /// The kind.
        kind: String,
    },
    /// An observation of an unknown kind became a server's answer with the same content.
    Observation {
        /// The kind.
        kind: String,
    },
    /// The event travels within another.
    Packed {
        /// The kind.
        kind: String,
    },
}

/// What the file name of an event that carries another begins with.
const PACKED: &str = "annals-event-";

/// How many things about one event are mended before it is packed.
const MENDS_MAX: usize = 64;

/// The event, or one in its place that SDK 1.58 loads, and what was lost on the way.
///
/// Id, time and parent stay the same, so that the tree does.
#[must_use]
pub fn loadable(event: &Event) -> (Event, Vec<Loss>) {
    let mut text = event.dump();
    let mut losses = Vec::new();
    for _ in 0..MENDS_MAX {
        let error = match decode(&text, Unfamiliar::Refuse) {
            Ok(event) => return (event, losses),
            Err(error) => error,
        };
        match mend(&text, &error) {
            Some((mended, loss)) => {
                text = mended;
                losses.push(loss);
            }
            None => break,
        }
    }
    (pack(event), vec![Loss::Packed { kind: event.kind().to_owned() }])
}

/// The event that travels within another, as it was written.
#[must_use]
pub fn unpack(event: &Event) -> Option<&str> {
    let Event::CompletionLog(log) = event else { return None };
    log.filename.starts_with(PACKED).then_some(&*log.log_data)
}

/// Puts an event into the record of a model call, which is part of the tree and which no model reads.
fn pack(event: &Event) -> Event {
    let common = event.common();
    let source = match &common.source {
        Source::Other(_) => Source::Environment,
        known => known.clone(),
    };
    let common = Common { source, ..common.clone() };
    LLMCompletionLogEvent::new(common, format!("{PACKED}{}.json", event.kind()), event.dump()).into()
}

/// Changes the one thing that `error` complains of; `None` where that cannot be helped.
fn mend(text: &str, error: &DecodeError) -> Option<(String, Loss)> {
    let mut event = Draft::Raw(Raw::parse(text).ok()?);
    let loss = match &error.what {
        Mismatch::Unfamiliar | Mismatch::Word { .. } => {
            let (around, name) = error.path.rsplit_once('.').unwrap_or(("", &error.path));
            at(&mut event, around)?.object()?.remove(name)?;
            Loss::Member { path: error.path.clone() }
        }
        Mismatch::Kind { of: "action", kind } if error.path == "action" => {
            let place = event.object()?.get_mut("action")?;
            let data = std::mem::take(place.object()?);
            *place = Draft::Object(Members::default().with("data", data).tagged("MCPToolAction"));
            Loss::Action { kind: kind.clone() }
        }
        Mismatch::Kind { of: "observation", kind } if error.path == "observation" => {
            let event = event.object()?;
            let tool_name = event.str("tool_name")?.into_owned();
            let observation = event.object("observation")?;
            let mut kept = Members::default();
            for member in ["content", "is_error"] {
                if let Some(value) = observation.remove(member) {
                    kept.set(member, value);
                }
            }
            kept.set_text("tool_name", tool_name);
            *event.get_mut("observation")? = Draft::Object(kept.tagged("MCPToolObservation"));
            Loss::Observation { kind: kind.clone() }
        }
        _ => return None,
    };
    let mut out = crate::event::dump::Out::default();
    event.write(&mut out);
    Some((out.finish(), loss))
}

/// The value at a path such as `observation.content[2]`.
fn at<'e, 'a>(event: &'e mut Draft<'a>, path: &str) -> Option<&'e mut Draft<'a>> {
    let mut place = event;
    for part in path.split('.').filter(|part| !part.is_empty()) {
        let (name, indices) = part.split_once('[').unwrap_or((part, ""));
        place = place.object()?.get_mut(name)?;
        for index in indices.split('[').filter(|index| !index.is_empty()) {
            place = place.array()?.get_mut(index.strip_suffix(']')?.parse::<usize>().ok()?)?;
        }
    }
    Some(place)
}
