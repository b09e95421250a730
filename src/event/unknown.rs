//! Events whose kind has no table here, or whose body does not fit its table. They stay readable and are never lost.

use std::borrow::Cow;

use super::common::{Common, Given, Parts};
use super::decode::{DecodeError, Unfamiliar};
use super::model::{self, Json, Reading, Text};
use crate::json::Raw;

/// An event of an unknown kind, or of a known kind with a body of another shape.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Unknown {
    /// The members that every event has, if its payload has them. The source is an empty word if there is none.
    pub common: Common,
    /// Its kind. Empty if it has none.
    pub kind: Text,
    /// The payload, as it came.
    pub payload: Json,
    /// Why it could not be read, if its kind is known.
    pub fault: Option<DecodeError>,
}

impl Unknown {
    pub(crate) fn read<'a>(
        kind: &str,
        payload: &'a str,
        members: &[(Cow<'a, str>, Raw<'a>)],
        given: &Given<'_>,
    ) -> Result<Self, DecodeError> {
        let mut parts = Parts::default();
        for (key, value) in members {
            parts.take(key, *value);
        }
        let common = parts.lenient(Reading { unfamiliar: Unfamiliar::Keep }, given)?;
        Ok(Self { common, kind: kind.into(), payload: Json::parse(payload)?, fault: None })
    }

    /// An event of a known kind that could not be read because of `fault`.
    pub(crate) fn malformed(
        payload: &str,
        given: &Given<'_>,
        fault: DecodeError,
    ) -> Result<Self, DecodeError> {
        let members = model::members(Raw::parse(payload)?)?;
        let kind = model::last(&members, "kind").and_then(Raw::as_str).unwrap_or_default();
        Ok(Self { fault: Some(fault), ..Self::read(&kind, payload, &members, given)? })
    }
}
