//! How one value of an event is read from JSON and written back.
//!
//! Reading coerces values as pydantic's lax mode does. So a text that the reference loads is loaded here with the same
//! values. `Field::is_none` reports whether a value is a null that a dump leaves out.

use std::borrow::Cow;

use super::decode::{DecodeError, Mismatch, Unfamiliar};
use super::value::{Json, Map, Text};
use crate::json::{Out, Raw};

/// How a value is read.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Reading {
    /// What to do with unknown names.
    pub unfamiliar: Unfamiliar,
}

impl Reading {
    /// Whether unknown names are kept.
    pub fn keeps(self) -> bool {
        self.unfamiliar == Unfamiliar::Keep
    }
}

/// A value that a field of an event can hold.
pub(crate) trait Field: Sized {
    /// Reads the value.
    fn read(raw: Raw<'_>, reading: Reading) -> Result<Self, DecodeError>;

    /// Writes the value as the reference dumps it.
    fn write(&self, out: &mut Out);

    /// Whether the value is a null that a dump leaves out.
    fn is_none(&self) -> bool {
        false
    }

    /// Writes the value as a member of its model. A null is left out, unless this writer writes nulls.
    fn write_member(&self, name: &str, out: &mut Out) {
        if self.is_none() && !out.writes_nulls() {
            return;
        }
        out.key(name);
        self.write(out);
    }
}

/// A struct that can be read from the members of an object.
pub(crate) trait Model: Sized {
    /// Reads the members of an object, in their order.
    fn read_members<'a>(
        members: impl Iterator<Item = (Cow<'a, str>, Raw<'a>)>,
        reading: Reading,
    ) -> Result<Self, DecodeError>;

    /// Reads an object.
    fn read_object(raw: Raw<'_>, reading: Reading) -> Result<Self, DecodeError> {
        if !raw.is_object() {
            return Err(expected("an object"));
        }
        Self::read_members(raw.members(), reading)
    }
}

pub(crate) fn expected(what: &'static str) -> DecodeError {
    DecodeError::new(Mismatch::Type { expected: what })
}

/// Reads a required member.
pub(crate) fn required<'a, T>(
    name: &'static str,
    raw: Option<Raw<'a>>,
    reading: Reading,
    read: impl FnOnce(Raw<'a>, Reading) -> Result<T, DecodeError>,
) -> Result<T, DecodeError> {
    match raw {
        Some(raw) => read(raw, reading).map_err(|error| error.within(name)),
        None => Err(DecodeError::new(Mismatch::Missing).within(name)),
    }
}

/// Reads a member that has a default.
pub(crate) fn optional<'a, T>(
    name: &'static str,
    raw: Option<Raw<'a>>,
    reading: Reading,
    read: impl FnOnce(Raw<'a>, Reading) -> Result<T, DecodeError>,
    default: impl FnOnce() -> T,
) -> Result<T, DecodeError> {
    match raw {
        Some(raw) => read(raw, reading).map_err(|error| error.within(name)),
        None => Ok(default()),
    }
}

/// Reads the members of an object once, so that a tag among them can decide how the others are read.
pub(crate) fn members(raw: Raw<'_>) -> Result<Vec<(Cow<'_, str>, Raw<'_>)>, DecodeError> {
    if !raw.is_object() {
        return Err(expected("an object"));
    }
    let mut members = Vec::with_capacity(8);
    members.extend(raw.members());
    Ok(members)
}

/// The value of the last member with this name.
pub(crate) fn last<'a>(members: &[(Cow<'a, str>, Raw<'a>)], name: &str) -> Option<Raw<'a>> {
    members.iter().rev().find(|(key, _)| key == name).map(|(_, value)| *value)
}

/// The `kind` among the members of an object.
pub(crate) fn kind_of<'a>(members: &[(Cow<'a, str>, Raw<'a>)]) -> Result<Cow<'a, str>, DecodeError> {
    match last(members, "kind") {
        Some(kind) => kind.as_str().ok_or_else(|| expected("a string").within("kind")),
        None => Err(DecodeError::new(Mismatch::Missing).within("kind")),
    }
}

impl Field for Text {
    fn read(raw: Raw<'_>, _: Reading) -> Result<Self, DecodeError> {
        raw.as_str().map(|text| Self::from(&*text)).ok_or_else(|| expected("a string"))
    }

    fn write(&self, out: &mut Out) {
        out.text(self);
    }
}

impl Field for bool {
    fn read(raw: Raw<'_>, _: Reading) -> Result<Self, DecodeError> {
        let text = raw.as_str();
        let word = text.as_deref().unwrap_or(raw.text()).to_ascii_lowercase();
        match word.as_str() {
            "true" | "1" => Ok(true),
            "false" | "0" => Ok(false),
            "1.0" if text.is_none() => Ok(true),
            "0.0" if text.is_none() => Ok(false),
            "on" | "t" | "y" | "yes" => Ok(true),
            "off" | "f" | "n" | "no" => Ok(false),
            _ => Err(expected("true or false")),
        }
    }

    fn write(&self, out: &mut Out) {
        out.raw(if *self { "true" } else { "false" });
    }
}

impl Field for i64 {
    fn read(raw: Raw<'_>, _: Reading) -> Result<Self, DecodeError> {
        let text = raw.as_str();
        let digits = text.as_deref().map_or(raw.text(), str::trim);
        match digits {
            "true" if text.is_none() => return Ok(1),
            "false" if text.is_none() => return Ok(0),
            _ => {}
        }
        if let Ok(number) = digits.parse() {
            return Ok(number);
        }
        // Pydantic accepts a float without a fraction as a whole number.
        match digits.parse::<f64>() {
            Ok(number) if number.fract() == 0.0 && number.abs() < 9.0e15 => Ok(number as Self),
            _ => Err(expected("a whole number")),
        }
    }

    fn write(&self, out: &mut Out) {
        out.raw(&self.to_string());
    }
}

impl Field for u64 {
    fn read(raw: Raw<'_>, reading: Reading) -> Result<Self, DecodeError> {
        let number = i64::read(raw, reading)?;
        Self::try_from(number).map_err(|_| expected("a whole number of at least 0"))
    }

    fn write(&self, out: &mut Out) {
        out.raw(&self.to_string());
    }
}

impl Field for f64 {
    fn read(raw: Raw<'_>, _: Reading) -> Result<Self, DecodeError> {
        let text = raw.as_str();
        let word = text.as_deref().map_or(raw.text(), str::trim);
        match word {
            "true" if text.is_none() => Ok(1.0),
            "false" if text.is_none() => Ok(0.0),
            "Infinity" => Ok(Self::INFINITY),
            "-Infinity" => Ok(Self::NEG_INFINITY),
            _ => word.parse().map_err(|_| expected("a number")),
        }
    }

    fn write(&self, out: &mut Out) {
        out.float(*self);
    }
}

impl Field for Json {
    fn read(raw: Raw<'_>, _: Reading) -> Result<Self, DecodeError> {
        Ok(raw.into())
    }

    fn write(&self, out: &mut Out) {
        out.json(self.raw());
    }

    fn is_none(&self) -> bool {
        self.text() == "null"
    }
}

impl<T: Field> Field for Option<T> {
    fn read(raw: Raw<'_>, reading: Reading) -> Result<Self, DecodeError> {
        if raw.is_null() { Ok(None) } else { T::read(raw, reading).map(Some) }
    }

    fn write(&self, out: &mut Out) {
        match self {
            Some(value) => value.write(out),
            None => out.raw("null"),
        }
    }

    fn is_none(&self) -> bool {
        self.as_ref().is_none_or(Field::is_none)
    }
}

impl<T: Field> Field for Box<T> {
    fn read(raw: Raw<'_>, reading: Reading) -> Result<Self, DecodeError> {
        T::read(raw, reading).map(Self::new)
    }

    fn write(&self, out: &mut Out) {
        (**self).write(out);
    }
}

impl<T: Field> Field for Vec<T> {
    fn read(raw: Raw<'_>, reading: Reading) -> Result<Self, DecodeError> {
        if !raw.is_array() {
            return Err(expected("an array"));
        }
        let read = |(place, element)| {
            T::read(element, reading).map_err(|error: DecodeError| error.within(&format!("[{place}]")))
        };
        raw.elements().enumerate().map(read).collect()
    }

    fn write(&self, out: &mut Out) {
        out.open("[");
        for element in self {
            out.next();
            element.write(out);
        }
        out.close("]");
    }
}

impl Field for (i64, i64) {
    fn read(raw: Raw<'_>, reading: Reading) -> Result<Self, DecodeError> {
        match Vec::<i64>::read(raw, reading)?.as_slice() {
            [first, last] => Ok((*first, *last)),
            _ => Err(expected("two whole numbers")),
        }
    }

    fn write(&self, out: &mut Out) {
        vec![self.0, self.1].write(out);
    }
}

impl<T: Field> Field for Map<T> {
    fn read(raw: Raw<'_>, reading: Reading) -> Result<Self, DecodeError> {
        if !raw.is_object() {
            return Err(expected("an object"));
        }
        let mut map = Self::default();
        for (key, value) in raw.members() {
            let value = T::read(value, reading).map_err(|error| error.within(&key))?;
            match map.0.iter_mut().find(|(name, _)| **name == *key) {
                Some(member) => member.1 = value,
                None => map.0.push((Text::from(&*key), value)),
            }
        }
        Ok(map)
    }

    fn write(&self, out: &mut Out) {
        out.open("{");
        for (key, value) in &self.0 {
            out.key(key);
            value.write(out);
        }
        out.close("}");
    }
}
