//! Reads the file of one event: its text, the event that it is, and what is wrong with it.

use std::path::Path;

use super::layout;
use super::source::read_bounded;
use crate::error::Result;
use crate::event::{NewEvent, PAYLOAD_BYTES_MAX};
use crate::ids::EventId;
use crate::json::Object;
use crate::store::Problem;

/// An event, or the reason why it is not an event.
pub(super) type Read = std::result::Result<NewEvent, String>;

/// The text of a file, or the reason why it is not an event.
pub(super) type Text = std::result::Result<String, String>;

/// Returns the event that the file of this name and text is, if that is known without checking the text. Else it returns
/// the text.
pub(super) type Known<'a> = &'a mut dyn FnMut(&str, String) -> Result<std::result::Result<NewEvent, String>>;

/// Why a file is no event that was listed and has vanished since. No program of the reference removes one.
pub(super) const GONE: &str = "it is not there any more";

/// What was read of a file ahead.
pub(super) enum FileRead {
    Text(Text),
    Event(Read, Vec<Problem>),
}

impl FileRead {
    pub(super) fn event(text: Text, name: &str, directory: &str) -> Self {
        let (event, problems) = event_of_file(text, name, &format!("{directory}{name}"));
        Self::Event(event, problems)
    }

    pub(super) fn bytes(&self) -> usize {
        match self {
            Self::Text(text) => text.as_ref().map_or(0, String::len),
            Self::Event(event, _) => event.as_ref().map_or(0, |event| event.payload().len()),
        }
    }
}

/// Reads the text of a file, or the reason why it is not an event.
pub(super) fn read_text(file: &Path) -> Result<Text> {
    Ok(match read_bounded(file, PAYLOAD_BYTES_MAX as u64)? {
        Ok(bytes) if bytes.is_empty() => Err("it is empty".into()),
        Ok(bytes) => String::from_utf8(bytes).map_err(|_| "it is not UTF-8".into()),
        Err(bytes) => Err(format!("it has {bytes} bytes, a payload may have {PAYLOAD_BYTES_MAX}")),
    })
}

/// Reads the event of a file. Returns also what is wrong with it and does not keep it from being stored.
pub(super) fn event_of_file(text: Text, name: &str, path: &str) -> (Read, Vec<Problem>) {
    let text = match text {
        Ok(text) => text,
        Err(reason) => return (Err(reason), Vec::new()),
    };
    let mut problems = Vec::new();
    let named_id = layout::read_event_name(name).and_then(|read| read.id);
    let stem = name.strip_suffix(".json").unwrap_or(name);
    let event = event_of(text, || {
        let id = fallback_id(named_id.as_deref().unwrap_or(stem));
        problems.push(Problem {
            path: path.to_owned(),
            problem: "the event has no id".into(),
            action: format!("it gets the id {id} here"),
        });
        id
    });
    if let (Ok(event), Some(named_id)) = (&event, &named_id)
        && problems.is_empty()
        && layout::event_file(0, event.id().as_str()) != layout::event_file(0, named_id)
    {
        problems.push(Problem {
            path: path.to_owned(),
            problem: format!("its name says {named_id}, but its event has the id {}", event.id()),
            action: "the event's own id counts; the name is kept".into(),
        });
    }
    (event, problems)
}

/// Makes an event of a text. `fallback` makes a missing id.
pub(super) fn event_of(text: String, fallback: impl FnOnce() -> EventId) -> Read {
    // Lines of other agents have their id in `uuid`.
    let foreign =
        |text: &str| Object::of(text).text("uuid").and_then(|id| EventId::new(id.into_owned()).ok());
    NewEvent::parse_with(text, |text| foreign(text).unwrap_or_else(fallback))
        .map_err(|error| error.to_string())
}

/// Makes an id of a name.
pub(super) fn fallback_id(name: &str) -> EventId {
    EventId::new(name).unwrap_or_else(|_| EventId::mint())
}
