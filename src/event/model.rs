//! How a value of an event is read from JSON and written back: one trait, and the macros that make
//! a struct or a closed vocabulary out of its table of fields.
//!
//! The tables follow `events_fields.md`: fields in the order the reference dumps them, `=` gives the
//! default of a field that may be missing. Reading coerces as pydantic's lax mode does, so that a text
//! which the reference loads is loaded here with the same values. It does not know any event.

use std::borrow::Cow;
use std::sync::Arc;

use super::decode::{DecodeError, Mismatch, Unfamiliar};
use super::dump::Out;
use super::json::{Fault, Raw};

/// A text that an event holds. Clones share it.
pub type Text = Arc<str>;

/// How the value at hand is being read.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Reading {
    /// What to do with names that are not known.
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
}

/// A struct that can be read from the members of an object.
pub(crate) trait Model: Sized {
    /// Reads the members of an object, in the order they stand.
    fn read_members<'a>(
        members: impl Iterator<Item = (std::borrow::Cow<'a, str>, Raw<'a>)>,
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

/// A free-form JSON value: its text, checked once and kept as it came.
///
/// Two are equal when their texts are.
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

    /// What was written.
    pub(crate) fn written(out: Out) -> Self {
        Self(out.finish().into())
    }

    /// `{}`.
    pub(crate) fn empty_object() -> Self {
        Self("{}".into())
    }

    /// The value, to look into.
    #[must_use]
    pub fn raw(&self) -> Raw<'_> {
        Raw::checked(&self.0)
    }

    /// The value's characters.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.0
    }

    /// The value as a tree. A number that is no JSON number becomes null.
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

/// Members that the table of a value does not name, in the order they came.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Extra(Option<Box<Vec<(Text, Json)>>>);

impl Extra {
    /// No members.
    pub const NONE: Self = Self(None);

    /// The members.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Json)> {
        self.0.iter().flat_map(|members| members.iter()).map(|(name, value)| (&**name, value))
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// Adds a member; one of the same name is replaced.
    pub fn insert(&mut self, name: &str, value: Json) {
        let members = self.0.get_or_insert_default();
        match members.iter_mut().find(|(known, _)| &**known == name) {
            Some(member) => member.1 = value,
            None => members.push((name.into(), value)),
        }
    }

    /// Meets a name that the table does not have.
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

/// What the reference does with a name it does not know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Policy {
    /// It refuses the value: `extra=forbid`.
    Forbid,
    /// It loads the value without it: `extra=ignore`.
    Drop,
}

/// A JSON object with values of one type, in the order they came.
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

pub(crate) fn expected(what: &'static str) -> DecodeError {
    DecodeError::new(Mismatch::Type { expected: what })
}

/// Reads a member that may not be missing.
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
        // A float without a fraction is a whole number to pydantic.
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
        &*self.0 == "null"
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

/// The name a field has in JSON.
macro_rules! wire {
    ($field:ident) => {
        stringify!($field)
    };
    ($field:ident $wire:literal) => {
        $wire
    };
}

/// Reads one field from its member: required where the table gives no default.
macro_rules! take {
    ($name:expr, $raw:expr, $reading:expr, [], []) => {
        $crate::event::model::required($name, $raw, $reading, $crate::event::model::Field::read)?
    };
    ($name:expr, $raw:expr, $reading:expr, [$read:path], []) => {
        $crate::event::model::required($name, $raw, $reading, $read)?
    };
    ($name:expr, $raw:expr, $reading:expr, [], [$default:expr]) => {
        $crate::event::model::optional($name, $raw, $reading, $crate::event::model::Field::read, || $default)?
    };
    ($name:expr, $raw:expr, $reading:expr, [$read:path], [$default:expr]) => {
        $crate::event::model::optional($name, $raw, $reading, $read, || $default)?
    };
}

/// A struct with the fields of one of the reference's models.
///
/// `Name: POLICY { field (@ "name in JSON")?: Type (=> reader)? (= default)?, .. } kind "Tag"?`; a field may be
/// preceded by `["key" = "value"]`, a constant member that stands before it.
macro_rules! model {
    (
        $(#[$meta:meta])*
        $name:ident: $policy:ident {
            $(
                $([$constant:literal = $value:literal])?
                $(#[$field_meta:meta])*
                $field:ident $(@ $wire:literal)?: $type:ty $(=> $read:path)? $(= $default:expr)?
            ),* $(,)?
        }
        $(kind $kind:literal)?
        $(dropped $dropped:pat)?
    ) => {
        $(#[$meta])*
        #[derive(Debug, Clone, PartialEq)]
        pub struct $name {
            $( $(#[$field_meta])* pub $field: $type, )*
            /// Members that SDK 1.58 does not know.
            pub extra: $crate::event::model::Extra,
        }

        impl $crate::event::model::Model for $name {
            fn read_members<'a>(
                members: impl Iterator<Item = (std::borrow::Cow<'a, str>, $crate::event::json::Raw<'a>)>,
                reading: $crate::event::model::Reading,
            ) -> Result<Self, $crate::event::decode::DecodeError> {
                $( let mut $field = None; )*
                let mut extra = $crate::event::model::Extra::default();
                for (key, value) in members {
                    match key.as_ref() {
                        $( name if name == wire!($field $($wire)?) => $field = Some(value), )*
                        $( $( $constant => {
                            if value.as_str().as_deref() != Some($value) {
                                return Err($crate::event::model::expected(concat!("\"", $value, "\""))
                                    .within($constant));
                            }
                        } )? )*
                        $( "kind" if !$kind.is_empty() => {} )?
                        $( $dropped => {} )?
                        name => extra.meet(name, value, $crate::event::model::Policy::$policy, reading)?,
                    }
                }
                Ok(Self {
                    $( $field: take!(wire!($field $($wire)?), $field, reading, [$($read)?], [$($default)?]), )*
                    extra,
                })
            }
        }

        impl $crate::event::model::Field for $name {
            fn read(
                raw: $crate::event::json::Raw<'_>,
                reading: $crate::event::model::Reading,
            ) -> Result<Self, $crate::event::decode::DecodeError> {
                <Self as $crate::event::model::Model>::read_object(raw, reading)
            }

            fn write(&self, out: &mut $crate::event::dump::Out) {
                out.open("{");
                self.write_members(out);
                $( out.constant("kind", $kind); )?
                out.close("}");
            }
        }

        impl $name {
            /// Writes the members, without the braces and the kind.
            pub(crate) fn write_members(&self, out: &mut $crate::event::dump::Out) {
                $(
                    $( out.constant($constant, $value); )?
                    out.member(wire!($field $($wire)?), &self.$field);
                )*
                self.extra.write(out);
            }
        }
    };
}

/// An event: a struct with [`Common`](crate::event::Common) first and the kind's own fields after it.
///
/// `Name = "Kind", from (Source)? { fields as in model! }`; without a source the payload has to name it.
macro_rules! event {
    (
        $(#[$meta:meta])*
        $name:ident = $kind:literal, from ($($source:ident)?) {
            $(
                $(#[$field_meta:meta])*
                $field:ident: $type:ty $(=> $read:path)? $(= $default:expr)?
            ),* $(,)?
        }
    ) => {
        $(#[$meta])*
        #[derive(Debug, Clone, PartialEq)]
        pub struct $name {
            /// What every event carries.
            pub common: $crate::event::Common,
            $( $(#[$field_meta])* pub $field: $type, )*
            /// Members that SDK 1.58 does not know.
            pub extra: $crate::event::model::Extra,
        }

        impl $name {
            pub(crate) fn read<'a>(
                members: impl Iterator<Item = (std::borrow::Cow<'a, str>, $crate::event::json::Raw<'a>)>,
                reading: $crate::event::model::Reading,
                given: &$crate::event::Given<'_>,
            ) -> Result<Self, $crate::event::decode::DecodeError> {
                let mut common = $crate::event::common::Parts::default();
                let mut extra = $crate::event::model::Extra::default();
                $( let mut $field = None; )*
                for (key, value) in members {
                    match key.as_ref() {
                        "kind" => {}
                        $( stringify!($field) => $field = Some(value), )*
                        _ if common.take(&key, value) => {}
                        name => extra.meet(name, value, $crate::event::model::Policy::Forbid, reading)?,
                    }
                }
                let source = None$(.or(Some($crate::event::Source::$source)))?;
                Ok(Self {
                    common: common.common(source, reading, given)?,
                    $( $field: take!(stringify!($field), $field, reading, [$($read)?], [$($default)?]), )*
                    extra,
                })
            }

            pub(crate) fn write(&self, out: &mut $crate::event::dump::Out) {
                out.open("{");
                self.common.write(out);
                $( out.member(stringify!($field), &self.$field); )*
                self.extra.write(out);
                out.constant("kind", $kind);
                out.close("}");
            }
        }
    };
}

/// A closed vocabulary: an enum of words, and `Other` for one that is not in it but is to be kept.
macro_rules! words {
    (
        $(#[$meta:meta])*
        $name:ident { $( $(#[$variant_meta:meta])* $variant:ident = $word:literal ),* $(,)? }
    ) => {
        $(#[$meta])*
        #[derive(Debug, Clone, PartialEq, Eq, Hash)]
        pub enum $name {
            $( $(#[$variant_meta])* $variant, )*
            /// A word that SDK 1.58 does not know.
            Other($crate::event::model::Text),
        }

        impl $name {
            /// The words that SDK 1.58 knows.
            pub const WORDS: &'static [&'static str] = &[$($word),*];

            /// The word.
            #[must_use]
            pub fn as_str(&self) -> &str {
                match self {
                    $( Self::$variant => $word, )*
                    Self::Other(word) => word,
                }
            }

            /// The variant of a known word.
            #[must_use]
            pub fn from_word(word: &str) -> Option<Self> {
                match word {
                    $( $word => Some(Self::$variant), )*
                    _ => None,
                }
            }
        }

        impl $crate::event::model::Field for $name {
            fn read(
                raw: $crate::event::json::Raw<'_>,
                reading: $crate::event::model::Reading,
            ) -> Result<Self, $crate::event::decode::DecodeError> {
                let Some(word) = raw.as_str() else {
                    return Err($crate::event::model::expected("a string"));
                };
                match Self::from_word(&word) {
                    Some(known) => Ok(known),
                    None if reading.keeps() => Ok(Self::Other((&*word).into())),
                    None => Err($crate::event::decode::DecodeError::word(&word, Self::WORDS)),
                }
            }

            fn write(&self, out: &mut $crate::event::dump::Out) {
                out.text(self.as_str());
            }
        }
    };
}

/// An enum over models that are told apart by their `kind`; `Unknown` keeps one that is in no table.
macro_rules! kinds {
    (
        $(#[$meta:meta])*
        $name:ident, $what:literal { $( $(#[$variant_meta:meta])* $variant:ident($type:ty) = $kind:literal ),* $(,)? }
    ) => {
        $(#[$meta])*
        #[derive(Debug, Clone, PartialEq)]
        pub enum $name {
            $( $(#[$variant_meta])* $variant($type), )*
            /// One of a kind that is not built in: a client's tool, or a newer version's.
            Unknown($crate::event::model::Untabled),
        }

        impl $name {
            /// The kinds that SDK 1.58 knows.
            pub const KINDS: &'static [&'static str] = &[$($kind),*];

            /// The name of its kind: the reference's class.
            #[must_use]
            pub fn kind(&self) -> &str {
                match self {
                    $( Self::$variant(_) => $kind, )*
                    Self::Unknown(unknown) => unknown.kind(),
                }
            }
        }

        impl $crate::event::model::Field for $name {
            fn read(
                raw: $crate::event::json::Raw<'_>,
                reading: $crate::event::model::Reading,
            ) -> Result<Self, $crate::event::decode::DecodeError> {
                let members = $crate::event::model::members(raw)?;
                let kind = $crate::event::model::kind_of(&members)?;
                match &*kind {
                    $( $kind => <$type as $crate::event::model::Model>::read_members(members.into_iter(), reading)
                        .map(Self::$variant), )*
                    _ => $crate::event::model::Untabled::read($what, &kind, raw, reading).map(Self::Unknown),
                }
            }

            fn write(&self, out: &mut $crate::event::dump::Out) {
                match self {
                    $( Self::$variant(value) => $crate::event::model::Field::write(value, out), )*
                    Self::Unknown(unknown) => out.json(unknown.json().raw()),
                }
            }
        }
    };
}

pub(crate) use {event, kinds, model, take, wire, words};

/// The prefix of the kinds that the reference makes up for tools that clients bring along.
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

/// The members of an object, read once so that a tag among them can decide how the others are read.
pub(crate) fn members(raw: Raw<'_>) -> Result<Vec<(Cow<'_, str>, Raw<'_>)>, DecodeError> {
    if !raw.is_object() {
        return Err(expected("an object"));
    }
    let mut members = Vec::with_capacity(8);
    members.extend(raw.members());
    Ok(members)
}

/// The value of the last member of that name.
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
