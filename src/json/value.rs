//! A free-form JSON value that is kept as text.

use std::sync::Arc;

use super::dump::Out;
use super::raw::{Fault, Raw};

/// A free-form JSON value: its text, checked once and kept as it came.
///
/// Two values are equal if their texts are equal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Json(Arc<str>);

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
