//! Events of a host's own kinds: a value becomes an event, and the event becomes the value again.
//!
//! Such an event is stored, chained, searched, exported and followed like every other one. No model sees it, and it
//! changes no status. It decodes to [`Event::Unknown`](super::Event::Unknown).

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::envelope::PayloadError;
use super::new_event::NewEvent;
use super::own_kinds::{Stamp, VERSION_MEMBER, has_version};
use super::transcript::TEXT_MEMBERS;
use crate::ids::{EventId, Timestamp};
use crate::json::{Out, Raw};

/// The members that [`NewEvent::of`] writes first, in this order.
const FIRST: [&str; 3] = ["id", "timestamp", "source"];

/// The source of an event whose value names none: the host is the environment of the conversation.
const SOURCE: &str = "environment";

impl NewEvent {
    /// Makes an event of the host's own `kind` from a value that serde writes as a JSON object.
    ///
    /// The members of the value are in the payload under their own names. The event gets an `id` (a new UUID), a
    /// `timestamp` (now, local time without a zone, as all events have it) and the `source` `environment`, unless the
    /// value has members of these names. A host that retries gives the value an `id` of its own: an append of the same
    /// event then changes nothing. `parent_id` in the value chooses the parent, as in every event.
    ///
    /// serde_json writes a float that is NaN or infinite as `null`.
    ///
    /// ```
    /// use annals::event::NewEvent;
    ///
    /// #[derive(serde::Serialize, serde::Deserialize, Debug, PartialEq)]
    /// struct Shipped {
    ///     order: u64,
    ///     carrier: String,
    /// }
    ///
    /// let shipped = Shipped { order: 17, carrier: "DHL".into() };
    /// let event = NewEvent::of("shop.shipped", &shipped)?;
    /// assert_eq!(event.envelope().kind, "shop.shipped");
    /// assert_eq!(annals::event::body::<Shipped>(event.payload())?, shipped);
    /// # Ok::<(), annals::event::PayloadError>(())
    /// ```
    ///
    /// # Errors
    /// [`PayloadError::Body`] if the value cannot be written as JSON, [`PayloadError::NotAnObject`] if it is not an
    /// object, [`PayloadError::OtherKind`] if it has a member `kind` that differs from `kind`, and the errors of
    /// [`NewEvent::parse`].
    pub fn of(kind: &str, value: &impl Serialize) -> Result<Self, PayloadError> {
        Self::of_own(kind, value, Stamp::default())
    }

    /// Makes an event as [`NewEvent::of`] does, with what `stamp` says of it.
    pub(super) fn of_own(kind: &str, value: &impl Serialize, stamp: Stamp<'_>) -> Result<Self, PayloadError> {
        let body = serde_json::to_string(value).map_err(|error| shape_error(&error))?;
        let body = Raw::parse(&body)?;
        if !body.is_object() {
            return Err(PayloadError::NotAnObject);
        }
        let has_text_members = body.get(TEXT_MEMBERS).is_some_and(|own| !own.is_null());
        let Stamp { version, text_members } = stamp;
        let text_members = text_members.filter(|_| !has_text_members);
        if let Some(known) = version.filter(|version| !has_version(body, *version)) {
            return Err(PayloadError::OtherVersion { kind: kind.to_owned(), known });
        }
        let mut out = Out::default();
        out.open("{");
        for name in FIRST {
            match (body.get(name).filter(|own| !own.is_null()), name) {
                (Some(own), _) => {
                    out.key(name);
                    out.raw(own.text());
                }
                (None, "id") => out.constant(name, EventId::mint().as_str()),
                (None, "timestamp") => out.constant(name, &Timestamp::now().to_naive_local()),
                (None, _) => out.constant(name, SOURCE),
            }
        }
        if let Some(version) = version {
            out.key(VERSION_MEMBER);
            out.raw(&version.to_string());
        }
        if let Some(names) = text_members {
            out.key(TEXT_MEMBERS);
            out.raw(&serde_json::Value::from(names).to_string());
        }
        let is_written = |name: &str| {
            FIRST.contains(&name)
                || (version.is_some() && name == VERSION_MEMBER)
                || (text_members.is_some() && name == TEXT_MEMBERS)
        };
        for (name, member) in body.members().filter(|(name, _)| !is_written(name)) {
            if name != "kind" {
                out.key(&name);
                out.raw(member.text());
            } else if member.as_str().as_deref() != Some(kind) {
                return Err(PayloadError::OtherKind { kind: kind.to_owned() });
            }
        }
        out.constant("kind", kind);
        out.close("}");
        Self::parse(out.finish())
    }
}

/// Reads the value of an event that [`NewEvent::of`] made, or of any other event, from its payload.
///
/// Members that `T` does not know are ignored, unless `T` has `deny_unknown_fields`.
///
/// # Errors
/// [`PayloadError::Body`] if the payload does not have the shape of `T`. Its text does not repeat the payload.
pub fn body<T: DeserializeOwned>(payload: &str) -> Result<T, PayloadError> {
    serde_json::from_str(payload).map_err(|error| shape_error(&error))
}

/// The error for a value that does not have the shape of a type.
pub(super) fn shape_error(error: &serde_json::Error) -> PayloadError {
    PayloadError::Body { reason: reason(error) }
}

/// The text of serde's error, without the value in it, because the value may be a secret.
fn reason(error: &serde_json::Error) -> String {
    let text = error.to_string();
    match text.rsplit_once(", expected ") {
        Some((_, expected)) => format!("expected {expected}"),
        None if text.starts_with("missing field `") => text,
        None => format!("line {}, column {}", error.line(), error.column()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_the_value_says_counts_and_the_rest_is_added() {
        let event =
            NewEvent::of("k", &json!({"text": "\u{e9}\n", "n": 1.5, "id": "own", "kind": "k"})).unwrap();
        let time = event.envelope().timestamp.clone().unwrap();
        assert_eq!(
            event.payload(),
            format!(
                r#"{{"id":"own","timestamp":"{time}","source":"environment","n":1.5,"text":"{}\n","kind":"k"}}"#,
                '\u{e9}'
            )
        );
        let event =
            NewEvent::of("k", &json!({"source": "user", "timestamp": "2026-01-31T09:30:00"})).unwrap();
        assert_eq!(event.envelope().source.as_deref(), Some("user"));
        assert_eq!(event.envelope().timestamp.as_deref(), Some("2026-01-31T09:30:00"));
        assert_eq!(event.id().as_str().len(), 36);
    }

    #[test]
    fn what_is_no_event_is_refused_by_a_typed_error() {
        assert_eq!(NewEvent::of("k", &json!([1])).unwrap_err(), PayloadError::NotAnObject);
        assert_eq!(NewEvent::of("k", &"text").unwrap_err(), PayloadError::NotAnObject);
        let other = PayloadError::OtherKind { kind: "k".into() };
        assert_eq!(NewEvent::of("k", &json!({"kind": "other"})).unwrap_err(), other);
        assert_eq!(NewEvent::of("k", &json!({"kind": 7})).unwrap_err(), other);
        assert_eq!(NewEvent::of("", &json!({})).unwrap_err(), PayloadError::NoKind);
        let keys = std::collections::BTreeMap::from([((1, 2), 3)]);
        assert!(matches!(NewEvent::of("k", &keys), Err(PayloadError::Body { .. })));
        assert!(matches!(NewEvent::of("k", &json!({"id": ""})), Err(PayloadError::Id(_))));
    }

    #[test]
    fn a_shape_that_does_not_fit_is_reported_without_the_value() {
        #[derive(serde::Deserialize, Debug)]
        #[expect(dead_code, reason = "only its shape matters")]
        struct Token {
            token: u64,
        }
        let error = body::<Token>(r#"{"token":"sk-hush, expected nothing"}"#).unwrap_err().to_string();
        assert!(error.contains("expected u64") && !error.contains("hush"), "{error}");
        let error = body::<Token>(r#"{"id":"e"}"#).unwrap_err().to_string();
        assert!(error.contains("missing field `token`"), "{error}");
    }
}
