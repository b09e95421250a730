//! Decodes JSON text to an [`Event`]: the tag first, then the body.
//!
//! A known kind with an invalid body is an error, and never silently "unknown". The caller chooses whether an
//! unfamiliar kind, member or word, which no table here has, is rejected or kept. The reference rejects them.

use std::borrow::Cow;

use super::kind;
use super::model::{Reading, last};
use super::{Event, Unknown};
use super::{common::Given, seed};
use crate::json::{self, Fault};

/// What to do with kinds, members and words that SDK 1.58 does not know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unfamiliar {
    /// Reject them with an error, as the reference does.
    Refuse,
    /// Keep them unchanged.
    Keep,
}

/// Why a payload is not an event: the place, and what is wrong there.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}{what}", if path.is_empty() { String::new() } else { format!("{path}: ") })]
#[non_exhaustive]
pub struct DecodeError {
    /// The path of the member from the event on: `tool_call.name`, `observation.content[2].text`. Empty for the event
    /// itself.
    pub path: String,
    /// What is wrong.
    #[source]
    pub what: Mismatch,
}

/// The ways in which a member can be wrong.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Mismatch {
    /// The text is not one JSON object.
    #[error("not a JSON object: {0}")]
    Json(Fault),
    /// The kind is unknown.
    #[error("unknown kind of {of} {kind:?}")]
    Kind {
        /// The type of the object: `event`, `action`, `observation`, `tool`.
        of: &'static str,
        /// The kind.
        kind: String,
    },
    /// The member is unknown.
    #[error("unknown member")]
    Unfamiliar,
    /// A required member is missing.
    #[error("is missing")]
    Missing,
    /// The member has a wrong type.
    #[error("is not {expected}")]
    Type {
        /// The expected type.
        expected: &'static str,
    },
    /// The member is not one of its possible words.
    #[error("is {found:?}, not one of {}", known.join(", "))]
    Word {
        /// The word.
        found: String,
        /// The known words.
        known: &'static [&'static str],
    },
    /// The number is out of bounds.
    #[error("is not within {bounds}")]
    Bounds {
        /// The bounds, both included.
        bounds: &'static str,
    },
    /// The text is not a valid id.
    #[error("cannot be an id: {0}")]
    Id(crate::ids::IdError),
}

impl DecodeError {
    pub(crate) fn new(what: Mismatch) -> Self {
        Self { path: String::new(), what }
    }

    pub(crate) fn word(found: &str, known: &'static [&'static str]) -> Self {
        Self::new(Mismatch::Word { found: found.to_owned(), known })
    }

    /// Returns the same error with the path extended by the outer member `name`.
    #[must_use]
    pub(crate) fn within(mut self, name: &str) -> Self {
        let dot = if self.path.is_empty() || self.path.starts_with('[') { "" } else { "." };
        self.path = format!("{name}{dot}{}", self.path);
        self
    }
}

impl From<Fault> for DecodeError {
    fn from(fault: Fault) -> Self {
        Self::new(Mismatch::Json(fault))
    }
}

/// Reads one event.
///
/// The seed's kinds (`user_message`, `action`, ..) are read as the corresponding classes. Values are coerced (`"3"` is
/// 3) and ignored as in SDK 1.58. The last of two equal keys counts. Members with a default may be missing. `id` is
/// required, because no ids are made here. A missing `timestamp` is read as the empty text. A payload of an older
/// version has to go through [`super::upcast`] first.
///
/// # Errors
/// [`DecodeError`] if the text is not a JSON object or the body does not fit its kind. With [`Unfamiliar::Refuse`],
/// also if SDK 1.58 does not know the kind, a member or a word.
///
/// ```
/// use annals::event::{Event, Unfamiliar, decode};
///
/// let event = decode(r#"{"id":"e1","timestamp":"2026-01-01T00:00:00","kind":"PauseEvent"}"#, Unfamiliar::Refuse)?;
/// assert!(matches!(event, Event::Pause(_)));
/// let error = decode(r#"{"id":"e1","kind":"FutureEvent"}"#, Unfamiliar::Refuse).unwrap_err();
/// assert_eq!(error.to_string(), r#"kind: unknown kind of event "FutureEvent""#);
/// # Ok::<(), annals::event::DecodeError>(())
/// ```
pub fn decode(payload: &str, unfamiliar: Unfamiliar) -> Result<Event, DecodeError> {
    decode_with(payload, unfamiliar, &Given::default())
}

/// Reads one event whose id or time may be known from another place, such as a row or a file name.
///
/// # Errors
/// As [`decode`].
pub fn decode_with(payload: &str, unfamiliar: Unfamiliar, given: &Given<'_>) -> Result<Event, DecodeError> {
    let mut members = Vec::with_capacity(16);
    json::scan(payload, |key, value| members.push((key, value)))?;
    let tag = match last(&members, "kind") {
        Some(tag) => tag.as_str().ok_or_else(|| super::model::expected("a string").within("kind"))?,
        None if unfamiliar == Unfamiliar::Keep => Cow::Borrowed(""),
        None => return Err(DecodeError::new(Mismatch::Missing).within("kind")),
    };
    let reading = Reading { unfamiliar };
    let class = kind::canonical(&tag);
    if class != tag
        && let Some(body) = seed::body(&tag, &members)
    {
        return Event::read_body(class, body.raw().members(), reading, given).unwrap_or_else(|| refuse(&tag));
    }
    if let Some(event) = Event::read_body(class, members.iter().cloned(), reading, given) {
        return event;
    }
    match unfamiliar {
        Unfamiliar::Refuse => refuse(&tag),
        Unfamiliar::Keep => Unknown::read(&tag, payload, &members, given).map(Event::from),
    }
}

fn refuse<T>(kind: &str) -> Result<T, DecodeError> {
    Err(DecodeError::new(Mismatch::Kind { of: "event", kind: kind.to_owned() }).within("kind"))
}
