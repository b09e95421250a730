//! The values of an event's fields: texts, free-form JSON, and members and kinds that no table lists.

use std::sync::Arc;

use super::decode::{DecodeError, Mismatch, Unfamiliar};
use super::field::Reading;
pub use crate::json::Json;
use crate::json::{Members, Out, Raw};

/// A text that an event holds. Clones share it.
pub type Text = Arc<str>;

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
    pub(crate) fn apply_policy(
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
pub struct UnknownValue {
    kind: Text,
    json: Json,
}

impl UnknownValue {
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
        let mut out = Out::default();
        members.with_text("kind", kind).write(&mut out);
        Self { kind: kind.into(), json: Json::written(out) }
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
