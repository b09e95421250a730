//! The searchable members of an event, read once from its payload. They become the columns that a search uses.
//!
//! Reading is tolerant: a member that is missing or has another type is absent, and unknown members are ignored. Only
//! two things are errors: a payload that is not a JSON object, and a member that could not be stored or found again.
//! The payload stays the source of truth; these are copies of a few of its members.

use crate::ids::{EventId, IdError, ROOT};
use crate::json::{self, Fault, Notes, Raw};

/// The longest text of a searchable member other than the id, in bytes.
pub const MEMBER_BYTES_MAX: usize = 1024;

/// The searchable members of one event.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Envelope {
    /// `id`. A whole number (OpenHands V0) becomes the text of its digits.
    pub id: Option<EventId>,
    /// `kind`. For an OpenHands V0 event, `action:NAME` or `observation:NAME`. Empty if there is neither.
    pub kind: String,
    /// `source`: who made the event (`agent`, `user`, `environment`, `hook`, or another text).
    pub source: Option<String>,
    /// `timestamp`, as written.
    pub timestamp: Option<String>,
    /// `parent_id`, as written. It can be [`ROOT`].
    pub parent_id: Option<String>,
    /// `tool_call_id`: the model's id of a tool call. The call and its result have the same id.
    pub tool_call_id: Option<String>,
    /// `action_id`: the id of the event that an observation answers.
    pub action_id: Option<String>,
    /// `llm_response_id`: the id of the model's reply that the event came from.
    pub llm_response_id: Option<String>,
    /// `tool_name`.
    pub tool_name: Option<String>,
}

/// Why a text cannot be an event.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PayloadError {
    /// The text is not one JSON object.
    #[error("not a JSON object: {0}")]
    Json(#[from] Fault),
    /// The text contains `NaN` or `Infinity`, which are not valid JSON.
    #[error("NaN and Infinity are not JSON; write null or a string instead")]
    NonFinite,
    /// An object in the payload has two members of the same name. Readers differ in which of them counts.
    #[error(
        "an object names a member that it has already, at byte {at}; readers of JSON differ in which counts: write it once"
    )]
    Repeated {
        /// The first byte of the second one's name.
        at: usize,
    },
    /// There is no `id`, or it is neither a text nor a whole number.
    #[error("the event has no \"id\"; give it one (EventId::mint)")]
    NoId,
    /// The `id` is not valid.
    #[error("the event's id cannot be used")]
    Id(#[source] IdError),
    /// A value cannot be written as an event, or a payload does not fit the type that it is read as.
    #[error("the event does not fit its type: {reason}")]
    Body {
        /// What was expected. It does not repeat the value.
        reason: String,
    },
    /// A value cannot become an event, because it is not a JSON object.
    #[error("only a struct or a map can be an event, because an event is a JSON object")]
    NotAnObject,
    /// The value has a member `kind` that differs from the kind that the caller gave.
    #[error("the value has a member \"kind\" that is not {kind:?}")]
    OtherKind {
        /// The kind that the caller gave.
        kind: String,
    },
    /// An upcaster of a host's own kind refused a payload.
    #[error("the upcaster of {kind} from version {version} refused the event: {reason}")]
    Upcast {
        /// The kind.
        kind: String,
        /// The version that the upcaster was given.
        version: u64,
        /// What the upcaster says.
        reason: &'static str,
    },
    /// The `schema_version` of a payload is not a version.
    #[error("the \"schema_version\" of an event of the kind {kind} is not a whole number from 1 on")]
    Version {
        /// The kind.
        kind: String,
    },
    /// The version of a payload is newer than those that the host has named.
    #[error("version {version} of {kind} is newer than {known}, the newest that this program knows")]
    NewerVersion {
        /// The kind.
        kind: String,
        /// The version of the payload.
        version: u64,
        /// The newest version that the host has named.
        known: u64,
    },
    /// A value for a new event has a `schema_version` that is not the newest.
    #[error("a new event of the kind {kind} has version {known}; leave \"schema_version\" out of the value")]
    OtherVersion {
        /// The kind.
        kind: String,
        /// The newest version that the host has named.
        known: u64,
    },
    /// More members of a kind were named as text than a payload can name.
    #[error("at most {max} members of the kind {kind} can be named as text")]
    TooManyTextMembers {
        /// The kind.
        kind: String,
        /// The most that can be named.
        max: usize,
    },
    /// There is no `kind`.
    #[error("the event has no \"kind\"")]
    NoKind,
    /// A searchable member is too long. Both lengths are in bytes.
    #[error("\"{member}\" of {bytes} bytes is longer than the {max} allowed")]
    MemberTooLong {
        /// The member's name.
        member: &'static str,
        /// Its length.
        bytes: usize,
        /// The longest that is allowed.
        max: usize,
    },
    /// A searchable member contains a NUL character. SQL's text functions would stop there.
    #[error("\"{member}\" holds a NUL character; leave it out")]
    Nul {
        /// The member's name.
        member: &'static str,
    },
    /// The payload is too large. Both sizes are in bytes.
    #[error(
        "a payload of {bytes} bytes is larger than the {max} allowed; keep large content as an attachment"
    )]
    TooLarge {
        /// The payload's size.
        bytes: usize,
        /// The largest that is allowed.
        max: usize,
    },
}

impl Envelope {
    /// Checks that `payload` is one JSON object and reads its searchable members.
    ///
    /// It makes one pass and copies only the text of these members. If a key occurs twice, the last one counts, as in
    /// the reference.
    ///
    /// # Errors
    /// [`PayloadError`] if the text is not a JSON object, or if one of these members cannot be kept.
    pub fn read(payload: &str) -> Result<(Self, Notes), PayloadError> {
        let mut envelope = Self::default();
        let mut id = None;
        let mut v0 = None;
        let mut wrong = None;
        let notes = json::scan_names(payload, |key, raw| {
            let place = match key.as_ref() {
                "id" => {
                    id = Some(raw);
                    return;
                }
                "kind" => {
                    keep("kind", raw, &mut wrong, |text| envelope.kind = text.unwrap_or_default());
                    return;
                }
                "action" | "observation" if raw.is_str() => {
                    v0 = Some((key, raw));
                    return;
                }
                "source" => ("source", &mut envelope.source),
                "timestamp" => ("timestamp", &mut envelope.timestamp),
                "parent_id" => ("parent_id", &mut envelope.parent_id),
                "tool_call_id" => ("tool_call_id", &mut envelope.tool_call_id),
                "action_id" => ("action_id", &mut envelope.action_id),
                "llm_response_id" => ("llm_response_id", &mut envelope.llm_response_id),
                "tool_name" => ("tool_name", &mut envelope.tool_name),
                _ => return,
            };
            keep(place.0, raw, &mut wrong, |text| *place.1 = text);
        })?;
        if envelope.kind.is_empty()
            && let Some((class, raw)) = v0
        {
            keep("kind", raw, &mut wrong, |name| {
                envelope.kind = name.map(|name| format!("{class}:{name}")).unwrap_or_default();
            });
        }
        if let Some(error) = wrong {
            return Err(error);
        }
        envelope.id = id.map(read_id).transpose()?.flatten();
        Ok((envelope, notes))
    }

    /// The id of the event that this one follows. `None` if the payload names none, or [`ROOT`].
    #[must_use]
    pub fn named_parent(&self) -> Option<&str> {
        self.parent_id.as_deref().filter(|parent| *parent != ROOT)
    }
}

fn read_id(raw: Raw<'_>) -> Result<Option<EventId>, PayloadError> {
    let text = match raw.as_str() {
        Some(text) => text.into_owned(),
        None => match raw.as_i64() {
            Some(number) => number.to_string(),
            None => return Ok(None),
        },
    };
    EventId::new(text).map(Some).map_err(PayloadError::Id)
}

fn keep(
    member: &'static str,
    raw: Raw<'_>,
    wrong: &mut Option<PayloadError>,
    set: impl FnOnce(Option<String>),
) {
    let Some(text) = raw.as_str() else { return set(None) };
    if text.len() > MEMBER_BYTES_MAX {
        *wrong = Some(PayloadError::MemberTooLong { member, bytes: text.len(), max: MEMBER_BYTES_MAX });
    } else if text.contains('\0') {
        *wrong = Some(PayloadError::Nul { member });
    } else {
        set(Some(text.into_owned()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_are_read_wherever_they_stand() {
        let payload = r#"{"kind":"ActionEvent","id":"e1","timestamp":"2026-01-01T00:00:00","source":"agent",
            "parent_id":"__root__","tool_name":"terminal","tool_call_id":"call_1","action":{"id":"not this"},
            "llm_response_id":"r1","new_field":[1]}"#;
        let (envelope, notes) = Envelope::read(payload).unwrap();
        assert_eq!(
            envelope,
            Envelope {
                id: Some(EventId::new("e1").unwrap()),
                kind: "ActionEvent".into(),
                source: Some("agent".into()),
                timestamp: Some("2026-01-01T00:00:00".into()),
                parent_id: Some(ROOT.into()),
                tool_call_id: Some("call_1".into()),
                action_id: None,
                llm_response_id: Some("r1".into()),
                tool_name: Some("terminal".into()),
            }
        );
        assert_eq!(notes, Notes::default());
        assert_eq!(envelope.named_parent(), None);
    }

    #[test]
    fn a_v0_event_gets_a_kind_from_what_it_did() {
        let (envelope, _) =
            Envelope::read(r#"{"id": 3, "source":"agent", "action":"run", "args":{}}"#).unwrap();
        assert_eq!(envelope.id.unwrap().as_str(), "3");
        assert_eq!(envelope.kind, "action:run");
        assert_eq!(Envelope::read(r#"{"observation":"read"}"#).unwrap().0.kind, "observation:read");
    }

    #[test]
    fn strange_types_are_absent_and_the_last_of_two_counts() {
        let (envelope, _) =
            Envelope::read(r#"{"id":null,"source":7,"tool_name":"a","tool_name":"b"}"#).unwrap();
        assert_eq!((envelope.id, envelope.source, envelope.tool_name), (None, None, Some("b".into())));
        assert_eq!(Envelope::read(r#"{"tool_name":"a","tool_name":1}"#).unwrap().0.tool_name, None);
    }

    #[test]
    fn what_cannot_be_kept_is_an_error() {
        let long = "x".repeat(2000);
        assert_eq!(
            Envelope::read(&format!(r#"{{"tool_name":"{long}"}}"#)).unwrap_err(),
            PayloadError::MemberTooLong { member: "tool_name", bytes: 2000, max: MEMBER_BYTES_MAX }
        );
        assert_eq!(
            Envelope::read(r#"{"kind":"a\u0000"}"#).unwrap_err(),
            PayloadError::Nul { member: "kind" }
        );
        assert!(matches!(
            Envelope::read(r#"{"id":"\u0000"}"#),
            Err(PayloadError::Id(IdError::Character { .. }))
        ));
        assert!(matches!(Envelope::read("[]"), Err(PayloadError::Json(_))));
        // Free text may contain NUL, because terminals can print it.
        assert!(Envelope::read(r#"{"id":"a","content":"\u0000"}"#).is_ok());
    }
}
