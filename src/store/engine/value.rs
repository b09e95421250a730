//! A value of a statement, without the engine's types.

use rusqlite::types::{ToSqlOutput, ValueRef};

use crate::ids::{Position, Sequence};

/// A value in an answer, or bound to a parameter.
#[derive(Debug, Clone, PartialEq)]
pub enum SqlValue {
    /// No value.
    Null,
    /// A whole number.
    Integer(i64),
    /// Any other number.
    Real(f64),
    /// Text. Bytes that are not UTF-8 are replaced.
    Text(String),
    /// Bytes.
    Blob(Vec<u8>),
}

impl SqlValue {
    /// Copies a value of the engine.
    pub(in crate::store) fn of(value: ValueRef<'_>) -> Self {
        match value {
            ValueRef::Null => Self::Null,
            ValueRef::Integer(number) => Self::Integer(number),
            ValueRef::Real(number) => Self::Real(number),
            ValueRef::Text(text) => Self::Text(String::from_utf8_lossy(text).into_owned()),
            ValueRef::Blob(bytes) => Self::Blob(bytes.to_vec()),
        }
    }

    /// Returns the value for a parameter of a statement. A method, so that no trait of the engine is in the public
    /// interface.
    pub(in crate::store) fn bound(&self) -> ToSqlOutput<'_> {
        ToSqlOutput::Borrowed(match self {
            Self::Null => ValueRef::Null,
            Self::Integer(number) => ValueRef::Integer(*number),
            Self::Real(number) => ValueRef::Real(*number),
            Self::Text(text) => ValueRef::Text(text.as_bytes()),
            Self::Blob(bytes) => ValueRef::Blob(bytes),
        })
    }
}

impl From<&str> for SqlValue {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<String> for SqlValue {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<i64> for SqlValue {
    fn from(number: i64) -> Self {
        Self::Integer(number)
    }
}

impl From<i32> for SqlValue {
    fn from(number: i32) -> Self {
        Self::Integer(number.into())
    }
}

impl From<u32> for SqlValue {
    fn from(number: u32) -> Self {
        Self::Integer(number.into())
    }
}

impl From<bool> for SqlValue {
    fn from(flag: bool) -> Self {
        Self::Integer(flag.into())
    }
}

impl From<f64> for SqlValue {
    fn from(number: f64) -> Self {
        Self::Real(number)
    }
}

impl From<Vec<u8>> for SqlValue {
    fn from(bytes: Vec<u8>) -> Self {
        Self::Blob(bytes)
    }
}

/// No place is above 2^53.
impl From<Sequence> for SqlValue {
    fn from(sequence: Sequence) -> Self {
        Self::Integer(sequence.0.cast_signed())
    }
}

/// No place is above 2^53.
impl From<Position> for SqlValue {
    fn from(position: Position) -> Self {
        Self::Integer(position.0.cast_signed())
    }
}

/// `None` is NULL.
impl<T: Into<SqlValue>> From<Option<T>> for SqlValue {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Null, Into::into)
    }
}
