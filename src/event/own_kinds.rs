//! What a host says of its own kinds: which members have text, the versions of their payloads, and how an old one becomes
//! a new one.
//!
//! What has text is written into each new payload (`text_members`). So the payload alone gives the text, and every program
//! that opens the file has the same transcript and the same search index, also one that does not know the kind.
//!
//! A payload has its version in the member `schema_version`. Without the member it is version 1. Upcasters change a
//! value in memory when an event is read as a type. What is stored, exported, searched and followed stays as it is.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::envelope::PayloadError;
use super::new_event::NewEvent;
use super::own::{body, shape_error};
use super::transcript::TEXT_MEMBERS_MAX;
use crate::json::{Object, Raw};

/// The member of a payload that has its version.
pub(super) const VERSION_MEMBER: &str = "schema_version";

/// Changes the members of a payload of one version to those of the next version.
///
/// It is a plain function, so that the same payload always gives the same result. It says what is wrong with a payload
/// in a fixed text, which therefore never repeats a value. Whole numbers that do not fit 64 bits are floats here.
pub type Upcaster = fn(&mut Map<String, Value>) -> Result<(), &'static str>;

/// A kind of the host's own.
///
/// ```
/// use annals::event::{OwnKind, OwnKinds};
///
/// #[derive(serde::Deserialize)]
/// struct Shipped {
///     carrier: String,
///     grams: u64,
/// }
///
/// let shipped = OwnKind::new("shop.shipped").upcaster(|members| {
///     // Version 1 had kilograms.
///     let kilograms = members.remove("kilograms").and_then(|weight| weight.as_u64()).ok_or("no weight")?;
///     members.insert("grams".into(), (kilograms * 1000).into());
///     Ok(())
/// });
/// let kinds = OwnKinds::default().with(shipped);
/// let old = r#"{"id":"e1","carrier":"DHL","kilograms":2,"kind":"shop.shipped"}"#;
/// let body: Shipped = kinds.body("shop.shipped", old)?;
/// assert_eq!((&*body.carrier, body.grams), ("DHL", 2000));
/// # Ok::<(), annals::event::PayloadError>(())
/// ```
#[derive(Clone)]
pub struct OwnKind {
    name: String,
    /// The members with text. `None`: the usual ones.
    text_members: Option<Vec<String>>,
    /// The first one raises version 1 to 2, the next one 2 to 3, and so on.
    upcasters: Vec<Upcaster>,
}

/// The kinds of the host's own, for [`Options::own_kinds`](crate::Options::own_kinds). Cloning is cheap.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OwnKinds(Arc<BTreeMap<String, OwnKind>>);

impl OwnKind {
    /// Names a kind, exactly as its events have it. Its version is 1.
    #[must_use]
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), text_members: None, upcasters: Vec::new() }
    }

    /// Names the members of new events that have text, in the order in which a person reads it, at most
    /// [`TEXT_MEMBERS_MAX`](super::transcript::TEXT_MEMBERS_MAX). All strings within them are text. Without any names, no
    /// member has text.
    ///
    /// The transcript and full-text search get this text. If this is not called, they get that of the usual members,
    /// such as `content`, `message`, `text`, `summary` and `title`. Events that are already stored keep their text.
    ///
    /// ```
    /// use annals::event::json::Object;
    /// use annals::event::transcript::Line;
    /// use annals::event::{OwnKind, OwnKinds};
    ///
    /// let kinds = OwnKinds::default().with(OwnKind::new("shop.shipped").text_members(["carrier", "note"]));
    /// let value = serde_json::json!({"order": 17, "carrier": "DHL", "note": "fragile"});
    /// let event = kinds.event("shop.shipped", &value)?;
    /// assert_eq!(Line::read("shop.shipped", &Object::of(event.payload())).to_text(), "DHL\nfragile");
    /// # Ok::<(), annals::event::PayloadError>(())
    /// ```
    #[must_use]
    pub fn text_members<N: Into<String>>(mut self, names: impl IntoIterator<Item = N>) -> Self {
        self.text_members = Some(names.into_iter().map(Into::into).collect());
        self
    }

    /// Adds a version: the upcaster raises a payload of the version before to it.
    #[must_use]
    pub fn upcaster(mut self, upcaster: Upcaster) -> Self {
        self.upcasters.push(upcaster);
        self
    }

    /// Returns its newest version.
    #[must_use]
    pub fn version(&self) -> u64 {
        self.upcasters.len() as u64 + 1
    }

    /// Returns the version of a payload.
    fn version_of(&self, payload: &Object<'_>) -> Result<u64, PayloadError> {
        let Some(given) = payload.get(VERSION_MEMBER).filter(|given| !given.is_null()) else { return Ok(1) };
        let version = given.as_i64().and_then(|version| u64::try_from(version).ok());
        match version {
            Some(version) if version > self.version() => {
                Err(PayloadError::NewerVersion { kind: self.name.clone(), version, known: self.version() })
            }
            Some(version) if version > 0 => Ok(version),
            Some(_) | None => Err(PayloadError::Version { kind: self.name.clone() }),
        }
    }

    /// Returns the value of the newest version. `None` if the payload has that version already.
    fn raise(&self, payload: &str) -> Result<Option<Value>, PayloadError> {
        let mut version = self.version_of(&Object::of(payload))?;
        if version == self.version() {
            return Ok(None);
        }
        let mut members: Map<String, Value> = body(payload)?;
        for upcaster in self.upcasters.iter().skip(usize::try_from(version - 1).unwrap_or(usize::MAX)) {
            upcaster(&mut members).map_err(|reason| PayloadError::Upcast {
                kind: self.name.clone(),
                version,
                reason,
            })?;
            version += 1;
        }
        members.insert(VERSION_MEMBER.into(), version.into());
        Ok(Some(Value::Object(members)))
    }
}

/// Two kinds are equal if they have the same name, the same members with text, and the same functions as upcasters.
impl PartialEq for OwnKind {
    fn eq(&self, other: &Self) -> bool {
        let (ours, theirs) = (&self.upcasters, &other.upcasters);
        self.name == other.name
            && self.text_members == other.text_members
            && ours.len() == theirs.len()
            && ours.iter().zip(theirs).all(|(one, other)| std::ptr::fn_addr_eq(*one, *other))
    }
}

impl Eq for OwnKind {}

impl fmt::Debug for OwnKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OwnKind")
            .field("name", &self.name)
            .field("text_members", &self.text_members)
            .field("version", &self.version())
            .finish_non_exhaustive()
    }
}

impl OwnKinds {
    /// Adds a kind. It replaces a kind of the same name.
    #[must_use]
    pub fn with(mut self, kind: OwnKind) -> Self {
        Arc::make_mut(&mut self.0).insert(kind.name.clone(), kind);
        self
    }

    /// Makes an event as [`NewEvent::of`] does. If the newest version of `kind` is above 1, the payload has it as
    /// `schema_version`. If members with text are named, the payload has their names as `text_members`, unless the value
    /// has this member.
    ///
    /// # Errors
    /// As [`NewEvent::of`]. [`PayloadError::OtherVersion`] if the value has a `schema_version` that is not the newest,
    /// and [`PayloadError::TooManyTextMembers`].
    pub fn event(&self, kind: &str, value: &impl Serialize) -> Result<NewEvent, PayloadError> {
        let Some(own) = self.0.get(kind) else { return NewEvent::of(kind, value) };
        let text_members = own.text_members.as_deref();
        if text_members.is_some_and(|names| names.len() > TEXT_MEMBERS_MAX) {
            return Err(PayloadError::TooManyTextMembers { kind: kind.to_owned(), max: TEXT_MEMBERS_MAX });
        }
        let version = Some(own.version()).filter(|version| *version > 1);
        NewEvent::of_own(kind, value, Stamp { version, text_members })
    }

    /// Reads the value of an event of `kind` from its payload. A payload of an older version is raised first. A kind
    /// that is not named here is read as it is.
    ///
    /// # Errors
    /// [`PayloadError::Body`] if the payload, or what became of it, does not have the shape of `T`.
    /// [`PayloadError::Upcast`] if an upcaster refused it. [`PayloadError::Version`] and
    /// [`PayloadError::NewerVersion`] if its version cannot be used.
    pub fn body<T: DeserializeOwned>(&self, kind: &str, payload: &str) -> Result<T, PayloadError> {
        match self.0.get(kind).map(|own| own.raise(payload)).transpose()?.flatten() {
            Some(raised) => serde_json::from_value(raised).map_err(|error| shape_error(&error)),
            None => body(payload),
        }
    }
}

/// What the payload of a new event says of itself.
#[derive(Clone, Copy, Default)]
pub(super) struct Stamp<'a> {
    /// Its version. `None` if it need not be written.
    pub version: Option<u64>,
    /// The members with text. `None` for the usual ones.
    pub text_members: Option<&'a [String]>,
}

/// Returns whether a value's `schema_version` is `version`, or is missing.
pub(super) fn has_version(value: Raw<'_>, version: u64) -> bool {
    let given = value.get(VERSION_MEMBER).filter(|given| !given.is_null());
    given.is_none_or(|given| given.as_i64().is_some_and(|given| u64::try_from(given) == Ok(version)))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn rename(members: &mut Map<String, Value>) -> Result<(), &'static str> {
        let old = members.remove("old").ok_or("it has no \"old\"")?;
        members.insert("new".into(), old);
        Ok(())
    }

    fn count(members: &mut Map<String, Value>) -> Result<(), &'static str> {
        let length = members.get("new").and_then(Value::as_str).ok_or("\"new\" is no text")?.len();
        members.insert("length".into(), length.into());
        Ok(())
    }

    fn kinds() -> OwnKinds {
        OwnKinds::default().with(OwnKind::new("k").upcaster(rename).upcaster(count))
    }

    #[test]
    fn each_version_goes_through_the_upcasters_behind_it() {
        let raised = |payload: &str| kinds().body::<Value>("k", payload);
        let new = json!({"new": "abc", "length": 3, "schema_version": 3});
        for payload in [
            r#"{"old":"abc"}"#,
            r#"{"old":"abc","schema_version":null}"#,
            r#"{"old":"abc","schema_version":1}"#,
            r#"{"new":"abc","schema_version":2}"#,
            r#"{"new":"abc","length":3,"schema_version":3}"#,
        ] {
            assert_eq!(raised(payload).unwrap(), new, "{payload}");
        }
        // A kind that was not named is read as it is.
        let other = r#"{"old":"abc","schema_version":9}"#;
        assert_eq!(
            kinds().body::<Value>("other", other).unwrap(),
            json!({"old": "abc", "schema_version": 9})
        );
    }

    #[test]
    fn what_cannot_be_raised_is_a_typed_error_without_the_value() {
        let kind = || "k".to_owned();
        for (payload, error) in [
            ("{}", PayloadError::Upcast { kind: kind(), version: 1, reason: "it has no \"old\"" }),
            (r#"{"old":7}"#, PayloadError::Upcast { kind: kind(), version: 2, reason: "\"new\" is no text" }),
            (
                r#"{"new":"hush","schema_version":4}"#,
                PayloadError::NewerVersion { kind: kind(), version: 4, known: 3 },
            ),
            (r#"{"schema_version":0}"#, PayloadError::Version { kind: kind() }),
            (r#"{"schema_version":-1}"#, PayloadError::Version { kind: kind() }),
            (r#"{"schema_version":1.5}"#, PayloadError::Version { kind: kind() }),
            (r#"{"schema_version":"2"}"#, PayloadError::Version { kind: kind() }),
        ] {
            assert_eq!(kinds().body::<Value>("k", payload).unwrap_err(), error, "{payload}");
        }
        #[derive(Debug, serde::Deserialize)]
        #[expect(dead_code, reason = "only its shape matters")]
        struct Other {
            new: u64,
        }
        let error = kinds().body::<Other>("k", r#"{"old":"hush"}"#).unwrap_err().to_string();
        assert!(error.contains("expected u64") && !error.contains("hush"), "{error}");
    }

    #[test]
    fn a_new_event_has_the_newest_version() {
        let event = |value: Value| kinds().event("k", &value);
        let made = event(json!({"new": "abc", "length": 3, "id": "e", "timestamp": "t"})).unwrap();
        assert_eq!(
            made.payload(),
            r#"{"id":"e","timestamp":"t","source":"environment","schema_version":3,"length":3,"new":"abc","kind":"k"}"#
        );
        for given in [json!(3), json!(null)] {
            let value =
                json!({"new": "abc", "length": 3, "id": "e", "timestamp": "t", "schema_version": given});
            assert_eq!(event(value).unwrap(), made, "{given}");
        }
        for given in [json!(2), json!(4), json!("3"), json!(3.5)] {
            let error = event(json!({"schema_version": given})).unwrap_err();
            assert_eq!(error, PayloadError::OtherVersion { kind: "k".into(), known: 3 }, "{given}");
        }
        // Version 1 is not written.
        let plain = OwnKinds::default().with(OwnKind::new("k"));
        let value = json!({"id": "e", "timestamp": "t"});
        assert_eq!(plain.event("k", &value).unwrap(), NewEvent::of("k", &value).unwrap());
        assert_eq!(kinds().event("other", &value).unwrap(), NewEvent::of("other", &value).unwrap());
    }

    #[test]
    fn a_new_event_names_its_members_with_text() {
        let kinds = OwnKinds::default().with(OwnKind::new("k").text_members(["note", "a\"b"]));
        let base = json!({"id": "e", "timestamp": "t"});
        assert_eq!(
            kinds.event("k", &base).unwrap().payload(),
            r#"{"id":"e","timestamp":"t","source":"environment","text_members":["note","a\"b"],"kind":"k"}"#
        );
        let own = json!({"id": "e", "timestamp": "t", "text_members": ["other"]});
        assert_eq!(kinds.event("k", &own).unwrap(), NewEvent::of("k", &own).unwrap());
        let none = OwnKinds::default().with(OwnKind::new("k").text_members([""; 0]));
        assert!(none.event("k", &base).unwrap().payload().contains(r#""text_members":[],"#));
        let many = OwnKinds::default().with(OwnKind::new("k").text_members([""; TEXT_MEMBERS_MAX + 1]));
        let error = PayloadError::TooManyTextMembers { kind: "k".into(), max: TEXT_MEMBERS_MAX };
        assert_eq!(many.event("k", &base).unwrap_err(), error);
    }

    #[test]
    fn equal_registries_have_the_same_functions() {
        assert_eq!(kinds(), kinds());
        assert_ne!(kinds(), OwnKinds::default());
        assert_ne!(kinds(), OwnKinds::default().with(OwnKind::new("k").upcaster(rename)));
        let plain = OwnKinds::default().with(OwnKind::new("k"));
        assert_ne!(plain, OwnKinds::default().with(OwnKind::new("k").text_members(["note"])));
        let text = format!("{:?}", kinds());
        assert!(text.contains("\"k\"") && text.contains("version: 3"), "{text}");
    }
}
