//! New events. They are checked before they are appended, so that an append cannot fail because of their content.

use std::sync::{Arc, OnceLock};

use super::envelope::{Envelope, PayloadError};
use crate::chain::Digest;
use crate::ids::EventId;

/// The largest payload, in bytes: 64 MiB.
pub const PAYLOAD_BYTES_MAX: usize = 64 << 20;

/// Who reads which of two members of the same name.
pub(crate) const NAMED_TWICE: &str =
    "Annals and Python take the last one, and SQL (json_extract, the views) the first";

/// An event to append: its payload as it came, and the members that were read from it.
///
/// ```
/// use annals::event::NewEvent;
///
/// let event = NewEvent::parse(r#"{"id":"e1","kind":"PauseEvent","source":"user"}"#)?;
/// assert_eq!(event.envelope().kind, "PauseEvent");
/// # Ok::<(), annals::event::PayloadError>(())
/// ```
///
/// Cloning is cheap: clones share the payload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewEvent(Arc<Checked>);

#[derive(Debug)]
struct Checked {
    payload: String,
    id: EventId,
    envelope: Envelope,
    /// Computed on the thread that checks the payload, before the one that writes waits for it.
    digest: OnceLock<Digest>,
    repeated: Option<usize>,
}

/// All else follows from these.
impl PartialEq for Checked {
    fn eq(&self, other: &Self) -> bool {
        self.id == other.id && self.payload == other.payload && self.envelope == other.envelope
    }
}

impl Eq for Checked {}

impl NewEvent {
    /// Checks a payload and makes an event of it. It must be one JSON object with an `id` and a `kind`.
    ///
    /// Every kind and all other members are accepted and kept as they are.
    ///
    /// # Errors
    /// [`PayloadError`] if the text is too large or not JSON, if it has no `id` or no `kind`, if an object in it names a
    /// member twice, or if a searchable member cannot be kept.
    pub fn parse(payload: impl Into<String>) -> Result<Self, PayloadError> {
        let payload = payload.into();
        let (envelope, notes) = read(&payload)?;
        if notes.non_finite {
            return Err(PayloadError::NonFinite);
        }
        if let Some(at) = notes.repeated {
            return Err(PayloadError::Repeated { at });
        }
        if envelope.kind.is_empty() {
            return Err(PayloadError::NoKind);
        }
        let id = envelope.id.clone().ok_or(PayloadError::NoId)?;
        Ok(Self::new(payload, id, envelope, None))
    }

    /// Makes an event of an old payload. `NaN`, a member that is named twice and a missing kind are allowed. `fallback` makes a
    /// missing id.
    ///
    /// Imports use it, because an import must not lose anything that can be kept.
    ///
    /// # Errors
    /// [`PayloadError`] if the text is too large or not a JSON object, or if a searchable member cannot be kept.
    pub fn parse_lenient(
        payload: impl Into<String>,
        fallback: impl FnOnce() -> EventId,
    ) -> Result<Self, PayloadError> {
        Self::parse_with(payload.into(), |_| fallback())
    }

    /// Makes an event of an old payload, as [`Self::parse_lenient`] does. `fallback` makes a missing id from the payload.
    pub(crate) fn parse_with(
        payload: String,
        fallback: impl FnOnce(&str) -> EventId,
    ) -> Result<Self, PayloadError> {
        let (envelope, notes) = read(&payload)?;
        let id = envelope.id.clone().unwrap_or_else(|| fallback(&payload));
        Ok(Self::new(payload, id, envelope, notes.repeated))
    }

    fn new(payload: String, id: EventId, envelope: Envelope, repeated: Option<usize>) -> Self {
        let digest = Digest::of(payload.as_bytes()).into();
        Self(Arc::new(Checked { payload, id, envelope, digest, repeated }))
    }

    /// Makes an event that is stored already, with the members that the store has of it. Nothing is checked.
    pub(crate) fn known(payload: String, id: EventId, envelope: Envelope) -> Self {
        Self(Arc::new(Checked { payload, id, envelope, digest: OnceLock::new(), repeated: None }))
    }

    /// The event's id.
    #[must_use]
    pub fn id(&self) -> &EventId {
        &self.0.id
    }

    /// The searchable members of the payload.
    #[must_use]
    pub fn envelope(&self) -> &Envelope {
        &self.0.envelope
    }

    /// The payload, as it came.
    #[must_use]
    pub fn payload(&self) -> &str {
        &self.0.payload
    }

    /// Where an object in an old payload names a member that it has already, in bytes from its start.
    pub(crate) fn repeated(&self) -> Option<usize> {
        self.0.repeated
    }

    /// The SHA-256 of the payload's bytes.
    #[must_use]
    pub fn digest(&self) -> Digest {
        *self.0.digest.get_or_init(|| Digest::of(self.0.payload.as_bytes()))
    }
}

fn read(payload: &str) -> Result<(Envelope, crate::json::Notes), PayloadError> {
    if payload.len() > PAYLOAD_BYTES_MAX {
        return Err(PayloadError::TooLarge { bytes: payload.len(), max: PAYLOAD_BYTES_MAX });
    }
    Envelope::read(payload)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_event_needs_an_id_and_a_kind_and_an_imported_one_does_not() {
        assert_eq!(NewEvent::parse(r#"{"kind":"PauseEvent"}"#).unwrap_err(), PayloadError::NoId);
        assert_eq!(NewEvent::parse(r#"{"id":"a"}"#).unwrap_err(), PayloadError::NoKind);
        assert_eq!(NewEvent::parse(r#"{"id":"a","kind":"K","x":NaN}"#).unwrap_err(), PayloadError::NonFinite);
        let twice = r#"{"id":"a","kind":"K","action":{"command":"ls","command":"curl evil"}}"#;
        assert_eq!(NewEvent::parse(twice).unwrap_err(), PayloadError::Repeated { at: 46 });
        assert_eq!(NewEvent::parse_lenient(twice, EventId::mint).unwrap().repeated(), Some(46));
        let kept = NewEvent::parse_lenient(r#"{"x":NaN}"#, || EventId::new("line-1").unwrap()).unwrap();
        assert_eq!((kept.id().as_str(), kept.payload()), ("line-1", r#"{"x":NaN}"#));
        assert_eq!(
            NewEvent::parse(" ".repeat(PAYLOAD_BYTES_MAX + 1)).unwrap_err(),
            PayloadError::TooLarge { bytes: PAYLOAD_BYTES_MAX + 1, max: PAYLOAD_BYTES_MAX }
        );
    }
}
