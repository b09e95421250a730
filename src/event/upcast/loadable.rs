//! Makes events that the reference can load, for folders that SDK 1.58 will open.
//!
//! The reference rejects a whole conversation if it does not know one of its events. So unknown members are left out,
//! and an unknown action or observation becomes one of a server's tool. Any other event is packed into an event of a
//! known kind; [`unpack`] takes it out again. An export never changes the log.

use crate::event::Event;
use crate::event::common::{Common, Source};
use crate::event::decode::{DecodeError, Mismatch, Unfamiliar, decode};
use crate::event::telemetry::LLMCompletionLogEvent;
use crate::json::{Draft, Members, Raw};

/// What an event lost so that the reference can load it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Loss {
    /// A member was left out, because the reference does not know the member or the word in it.
    Member {
        /// The path of the member: `observation.new_field`.
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
    /// The event was packed into another event.
    Packed {
        /// The kind.
        kind: String,
    },
}

/// The prefix of the file name in an event that carries another event.
const PACKED: &str = "annals-event-";

/// The most repairs to one event. An event that needs more is packed.
const REPAIRS_MAX: usize = 64;

/// Makes an event that SDK 1.58 loads, and lists what was lost. It is the event itself if SDK 1.58 loads that.
///
/// The id, the time and the parent stay the same, so the tree stays the same too.
#[must_use]
pub fn loadable(event: &Event) -> (Event, Vec<Loss>) {
    let mut text = event.dump();
    let mut losses = Vec::new();
    for _ in 0..REPAIRS_MAX {
        let error = match decode(&text, Unfamiliar::Refuse) {
            Ok(event) => return (event, losses),
            Err(error) => error,
        };
        match repair(&text, &error) {
            Some((repaired, loss)) => {
                text = repaired;
                losses.push(loss);
            }
            None => break,
        }
    }
    (pack(event), vec![Loss::Packed { kind: event.kind().to_owned() }])
}

/// The text of the event that is packed into `event`, as it was written. `None` if there is none.
#[must_use]
pub fn unpack(event: &Event) -> Option<&str> {
    let Event::CompletionLog(log) = event else { return None };
    log.filename.starts_with(PACKED).then_some(&*log.log_data)
}

/// Packs an event into the record of a model call. Such a record is part of the tree, and no model reads it.
fn pack(event: &Event) -> Event {
    let common = event.common();
    let source = match &common.source {
        Source::Other(_) => Source::Environment,
        known => known.clone(),
    };
    let common = Common { source, ..common.clone() };
    LLMCompletionLogEvent::new(common, format!("{PACKED}{}.json", event.kind()), event.dump()).into()
}

/// Repairs the member that `error` reports. `None` if it cannot be repaired.
fn repair(text: &str, error: &DecodeError) -> Option<(String, Loss)> {
    let mut event = Draft::Raw(Raw::parse(text).ok()?);
    let loss = match &error.what {
        Mismatch::Unfamiliar | Mismatch::Word { .. } => {
            let (parent, name) = error.path.rsplit_once('.').unwrap_or(("", &error.path));
            at(&mut event, parent)?.object()?.remove(name)?;
            Loss::Member { path: error.path.clone() }
        }
        Mismatch::Kind { of: "action", kind } if error.path == "action" => {
            let place = event.object()?.get_mut("action")?;
            let data = std::mem::take(place.object()?);
            *place = Draft::Object(Members::default().with("data", data).with_text("kind", "MCPToolAction"));
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
            *event.get_mut("observation")? = Draft::Object(kept.with_text("kind", "MCPToolObservation"));
            Loss::Observation { kind: kind.clone() }
        }
        _ => return None,
    };
    let mut out = crate::json::Out::default();
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
