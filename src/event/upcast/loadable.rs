//! Makes events that the reference can load, for folders that SDK 1.58 will open.
//!
//! The reference rejects a whole conversation if it does not know one of its events. So unknown members are left out,
//! and an unknown action or observation becomes one of a server's tool, unless the agent has that tool. Any other event is packed into an event of a
//! known kind; [`unpack`] takes it out again. An export never changes the log.

use std::borrow::Cow;

use crate::event::Event;
use crate::event::common::{Common, Source};
use crate::event::decode::{DecodeError, Mismatch, Unfamiliar, decode};
use crate::event::telemetry::LLMCompletionLogEvent;
use crate::event::tool::catalogue::{self, OwnTools};
use crate::event::tool::{Action, Observation, beside_content};
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
    /// An observation of an unknown kind became a server's answer with the same content. What its class could render
    /// follows as JSON text.
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

/// An event that SDK 1.58 loads.
pub(crate) struct Loadable {
    pub event: Event,
    /// What was lost.
    pub losses: Vec<Loss>,
    /// The kinds in it that only a program with the agent's own tools knows.
    pub kept: Vec<String>,
}

/// Makes an event that SDK 1.58 loads, and lists what was lost. It is the event itself if SDK 1.58 loads that.
///
/// The id, the time and the parent stay the same, so the tree stays the same too.
#[must_use]
pub fn loadable(event: &Event) -> (Event, Vec<Loss>) {
    let Loadable { event, losses, .. } = loadable_beside(event, &OwnTools::default());
    (event, losses)
}

/// Does the same for a program that has the classes of an agent's own tools: what they made stays as it is.
pub(crate) fn loadable_beside(event: &Event, own: &OwnTools) -> Loadable {
    let original = event.dump();
    let (mut text, own_values) = set_aside(&original, own).unwrap_or_else(|| (original.clone(), Vec::new()));
    let mut losses = Vec::new();
    for _ in 0..REPAIRS_MAX {
        let error = match decode(&text, Unfamiliar::Refuse) {
            Ok(event) if own_values.is_empty() => return Loadable { event, losses, kept: Vec::new() },
            Ok(_) => match put_back(&text, &own_values) {
                Some(event) => {
                    let kept = own_values.into_iter().map(|value| value.kind).collect();
                    return Loadable { event, losses, kept };
                }
                None => break,
            },
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
    let losses = vec![Loss::Packed { kind: event.kind().to_owned() }];
    Loadable { event: pack(event), losses, kept: Vec::new() }
}

/// A value that one of the agent's own tools made.
struct OwnValue {
    path: String,
    kind: String,
    json: String,
}

/// Takes the values out that the agent's own tools made, and puts known ones in their places. `None` if they made nothing.
fn set_aside(event: &str, own: &OwnTools) -> Option<(String, Vec<OwnValue>)> {
    let mut event = Draft::Raw(Raw::parse(event).ok()?);
    let members = event.object()?;
    let tool = members.str("tool_name").map(Cow::into_owned).unwrap_or_default();
    let mut places = Vec::new();
    if own.has(&tool) {
        let action = members.object("action").and_then(|action| action.str("kind").map(Cow::into_owned));
        if action.is_some_and(|kind| !Action::KINDS.contains(&&*kind)) {
            places.push(("action".to_owned(), r#"{"kind":"MCPToolAction"}"#));
        }
        let answer = members.object("observation").and_then(|answer| answer.str("kind").map(Cow::into_owned));
        if answer.is_some_and(|kind| !Observation::KINDS.contains(&&*kind)) {
            places.push(("observation".to_owned(), r#"{"tool_name":"","kind":"MCPToolObservation"}"#));
        }
    }
    let tools = members.get_mut("tools").and_then(Draft::array).into_iter().flatten();
    for (number, tool) in tools.filter_map(Draft::object).enumerate() {
        let is_own = |class: Cow<'_, str>| !catalogue::knows(&class) && own.has(&catalogue::name_of(&class));
        if tool.str("kind").is_some_and(is_own) {
            places.push((
                format!("tools[{number}]"),
                r#"{"description":"","action_type":"ThinkAction","kind":"ThinkTool"}"#,
            ));
        }
    }
    let mut values = Vec::new();
    for (path, in_its_place) in places {
        let place = at(&mut event, &path)?;
        let kind = place.object()?.str("kind")?.into_owned();
        let json = to_json(&std::mem::replace(place, Draft::json(in_its_place)));
        values.push(OwnValue { path, kind, json });
    }
    (!values.is_empty()).then(|| (to_json(&event), values))
}

/// Puts the values of the agent's own tools back where they were.
fn put_back(text: &str, values: &[OwnValue]) -> Option<Event> {
    let mut event = Draft::Raw(Raw::parse(text).ok()?);
    for value in values {
        *at(&mut event, &value.path)? = Draft::Raw(Raw::parse(&value.json).ok()?);
    }
    decode(&to_json(&event), Unfamiliar::Keep).ok()
}

fn to_json(value: &Draft<'_>) -> String {
    let mut out = crate::json::Out::default();
    value.write(&mut out);
    out.finish()
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
            if let Some(others) = beside_content(observation.clone()) {
                let text = super::message::text_part(others);
                match observation.get_mut("content").and_then(Draft::array) {
                    Some(content) => content.push(text),
                    None => observation.set("content", Draft::Array(vec![text])),
                }
            }
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
    Some((to_json(&event), loss))
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
