//! The members of every event: its id, its time, its source and its parent.

use std::borrow::Cow;

use super::decode::{DecodeError, Mismatch};
use super::model::{Field, Reading, Text, words};
use crate::ids::{EventId, ROOT};
use crate::json::{Out, Raw};

words! {
    /// The origin of an event.
    Source {
        /// The agent.
        Agent = "agent",
        /// A person.
        User = "user",
        /// The system around the agent.
        Environment = "environment",
        /// A hook.
        Hook = "hook",
    }
}

/// The members that every event begins with, in this order.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Common {
    /// The event's id, unique in its conversation.
    pub id: EventId,
    /// The time of the event, as written: ISO 8601. The reference writes local time without a zone. Empty if the
    /// payload has no time.
    pub timestamp: Text,
    /// The event's origin.
    pub source: Source,
    /// The event that it follows. [`ROOT`] for a root event. `None` if the payload does not name a parent.
    pub parent_id: Option<Text>,
}

impl Common {
    /// Makes the members of a new event without a parent. The log sets the parent.
    #[must_use]
    pub fn new(id: EventId, timestamp: impl Into<Text>, source: Source) -> Self {
        Self { id, timestamp: timestamp.into(), source, parent_id: None }
    }

    /// Returns the id of the parent event. `None` for [`ROOT`] or if no parent is named.
    #[must_use]
    pub fn named_parent(&self) -> Option<&str> {
        self.parent_id.as_deref().filter(|parent| *parent != ROOT)
    }

    pub(crate) fn write(&self, out: &mut Out) {
        out.key("id");
        out.text(self.id.as_str());
        self.timestamp.write_member("timestamp", out);
        self.source.write_member("source", out);
        self.parent_id.write_member("parent_id", out);
    }
}

/// Values from outside an event's payload. They are used if the payload does not contain them.
#[derive(Debug, Clone, Copy, Default)]
#[non_exhaustive]
pub struct Given<'a> {
    /// The event's id.
    pub id: Option<&'a EventId>,
    /// The event's time, in ISO 8601.
    pub timestamp: Option<&'a str>,
}

/// The members of [`Common`], collected while a payload is read.
#[derive(Debug, Default)]
pub(crate) struct Parts<'a> {
    id: Option<Raw<'a>>,
    timestamp: Option<Raw<'a>>,
    source: Option<Raw<'a>>,
    parent_id: Option<Raw<'a>>,
}

impl<'a> Parts<'a> {
    /// Takes the member if it is one of these. Returns whether it is.
    pub fn take(&mut self, key: &str, value: Raw<'a>) -> bool {
        let place = match key {
            "id" => &mut self.id,
            "timestamp" => &mut self.timestamp,
            "source" => &mut self.source,
            "parent_id" => &mut self.parent_id,
            _ => return false,
        };
        *place = Some(value);
        true
    }

    /// Checks the members and returns them. `source` is the default of the event's kind, if it has one.
    pub fn common(
        self,
        source: Option<Source>,
        reading: Reading,
        given: &Given<'_>,
    ) -> Result<Common, DecodeError> {
        Ok(Common {
            id: id(self.id, reading, given)?,
            timestamp: match self.timestamp {
                Some(raw) => Text::read(raw, reading).map_err(|error| error.within("timestamp"))?,
                None => given.timestamp.unwrap_or_default().into(),
            },
            source: match (self.source, source) {
                (Some(raw), _) => Source::read(raw, reading).map_err(|error| error.within("source"))?,
                (None, Some(source)) => source,
                (None, None) => return Err(DecodeError::new(Mismatch::Missing).within("source")),
            },
            parent_id: match self.parent_id {
                Some(raw) => Option::read(raw, reading).map_err(|error| error.within("parent_id"))?,
                None => None,
            },
        })
    }

    /// Returns the members of an event of an unknown kind. A member of a wrong type counts as absent.
    pub fn lenient(self, reading: Reading, given: &Given<'_>) -> Result<Common, DecodeError> {
        let text = |raw: Option<Raw<'_>>| raw.and_then(Raw::as_str).map(|text| Text::from(&*text));
        Ok(Common {
            id: id(self.id, reading, given)?,
            timestamp: text(self.timestamp).unwrap_or_else(|| given.timestamp.unwrap_or_default().into()),
            source: text(self.source).map_or_else(
                || Source::Other(Text::from("")),
                |word| Source::from_word(&word).unwrap_or(Source::Other(word)),
            ),
            parent_id: text(self.parent_id),
        })
    }
}

/// Reads the id. If unfamiliar values are kept, an integer, as OpenHands V0 wrote it, is read as its digits.
fn id(raw: Option<Raw<'_>>, reading: Reading, given: &Given<'_>) -> Result<EventId, DecodeError> {
    let text = match raw {
        Some(raw) => match raw.as_i64().filter(|_| reading.keeps()) {
            Some(number) => Some(Cow::Owned(number.to_string())),
            None if raw.is_null() && reading.keeps() => None,
            None => Some(raw.as_str().ok_or_else(|| super::model::expected("a string").within("id"))?),
        },
        None => None,
    };
    match (text, given.id) {
        (Some(text), _) => {
            EventId::new(text).map_err(|error| DecodeError::new(Mismatch::Id(error)).within("id"))
        }
        (None, Some(id)) => Ok(id.clone()),
        (None, None) => Err(DecodeError::new(Mismatch::Missing).within("id")),
    }
}
