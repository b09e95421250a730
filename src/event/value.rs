//! The values of an event's fields: texts, free-form JSON, and members and kinds that no table lists.

use std::sync::Arc;

use super::decode::{DecodeError, Mismatch, Unfamiliar};
use super::draft::Members;
use super::dump::Out;
use super::field::Reading;
use super::json::{Fault, Raw};

/// A text that an event holds. Clones share it.
pub type Text = Arc<str>;

/// A free-form JSON value: its text, checked once and kept as it came.
///
/// Two values are equal if their texts are equal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Json(Text);

impl Json {
    /// Checks that `text` is one JSON value and keeps it, without the white space around it.
    ///
    /// # Errors
    /// [`Fault`] at the first byte that is wrong.
    pub fn parse(text: &str) -> Result<Self, Fault> {
        Raw::parse(text).map(Self::from)
    }

    /// The value that was written to `out`.
    pub(crate) fn written(out: Out) -> Self {
        Self(out.finish().into())
    }

    /// `{}`.
    pub(crate) fn empty_object() -> Self {
        Self("{}".into())
    }

    /// The value, for reading.
    #[must_use]
    pub fn raw(&self) -> Raw<'_> {
        Raw::checked(&self.0)
    }

    /// The value's characters.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.0
    }

    /// The value as a tree. A number that JSON does not allow becomes null.
    #[must_use]
    pub fn to_value(&self) -> serde_json::Value {
        let mut out = Out::default();
        out.json(self.raw());
        serde_json::from_str(&out.finish()).unwrap_or_default()
    }
}

impl From<Raw<'_>> for Json {
    fn from(raw: Raw<'_>) -> Self {
        Self(raw.text().into())
    }
}

impl From<&serde_json::Value> for Json {
    fn from(value: &serde_json::Value) -> Self {
        Self(value.to_string().into())
    }
}

/// Members that the table of a value does not list, in the order in which they came.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[expect(clippy::box_collection, reason = "one word in each of very many values, almost all without any")]
pub struct Extra(Option<Box<Vec<(Text, Json)>>>);

impl Extra {
    /// No members.
    pub const NONE: Self = Self(None);

    /// The members.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Json)> {
        self.0.iter().flat_map(|members| members.iter()).map(|(name, value)| (&**name, value))
    }

    /// Whether there are no members.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// Adds a member, or replaces the member with the same name.
    pub fn insert(&mut self, name: &str, value: Json) {
        let members = self.0.get_or_insert_default();
        match members.iter_mut().find(|(known, _)| &**known == name) {
            Some(member) => member.1 = value,
            None => members.push((name.into(), value)),
        }
    }

    /// Keeps, drops or rejects a member whose name is not in the table.
    pub(crate) fn meet(
        &mut self,
        name: &str,
        value: Raw<'_>,
        policy: Policy,
        reading: Reading,
    ) -> Result<(), DecodeError> {
        match (reading.unfamiliar, policy) {
            (Unfamiliar::Keep, _) => self.insert(name, value.into()),
            (Unfamiliar::Refuse, Policy::Drop) => {}
            (Unfamiliar::Refuse, Policy::Forbid) => {
                return Err(DecodeError::new(Mismatch::Unfamiliar).within(name));
            }
        }
        Ok(())
    }

    pub(crate) fn write(&self, out: &mut Out) {
        for (name, value) in self.iter() {
            out.key(name);
            out.json(value.raw());
        }
    }
}

/// What the reference does with an unknown name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Policy {
    /// It rejects the value: `extra=forbid`.
    Forbid,
    /// It loads the value without that member: `extra=ignore`.
    Drop,
}

/// A JSON object with values of one type, in the order in which they came.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Map<T>(pub Vec<(Text, T)>);

impl<T> Default for Map<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T> Map<T> {
    /// The value of `key`.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&T> {
        self.0.iter().find(|(name, _)| &**name == key).map(|(_, value)| value)
    }
}

/// The prefix of the kinds that the reference generates for the tools of clients.
pub(crate) const CLIENT_ACTION: &str = "ClientAction_";

/// A value of a kind that has no table here, as it came.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Untabled {
    kind: Text,
    json: Json,
}

impl Untabled {
    /// Its kind.
    #[must_use]
    pub fn kind(&self) -> &str {
        &self.kind
    }

    /// The whole value, `kind` included.
    #[must_use]
    pub fn json(&self) -> &Json {
        &self.json
    }

    /// Makes a value of the kind `kind` with these members. None of them may be called `kind`.
    pub(crate) fn new(kind: &str, members: Members<'_>) -> Self {
        Self { kind: kind.into(), json: Json(members.tagged(kind).to_json().into()) }
    }

    pub(crate) fn read(
        what: &'static str,
        kind: &str,
        raw: Raw<'_>,
        reading: Reading,
    ) -> Result<Self, DecodeError> {
        let of_a_client = what == "action" && kind.starts_with(CLIENT_ACTION);
        if !reading.keeps() && !of_a_client {
            return Err(DecodeError::new(Mismatch::Kind { of: what, kind: kind.to_owned() }));
        }
        Ok(Self { kind: kind.into(), json: raw.into() })
    }
}
