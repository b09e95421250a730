//! Macros that make the types of events from tables: models, events, vocabularies and enums of kinds.
//!
//! The tables follow `docs/reference/fields.md`. Fields have the order in which the reference dumps them. `=` gives the
//! default of a field that may be missing. The macros make plain structs with public fields, and enums. All of these
//! except events implement [`Field`].

pub(crate) use super::field::{Field, Model, Reading, expected, kind_of, last, members, optional, required};
pub(crate) use super::value::{CLIENT_ACTION, Policy};
pub use super::value::{Extra, Json, Map, Text, UnknownValue};

/// The name of a field in JSON.
macro_rules! wire {
    ($field:ident) => {
        stringify!($field)
    };
    ($field:ident $wire:literal) => {
        $wire
    };
}

/// Reads one field from its member. The member is required if the table gives no default.
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

/// Writes the constructor of a struct: a parameter for each field without a default. A struct whose fields all have one
/// implements `Default` instead, and a struct with a constructor of its own gets none.
///
/// `Name [by hand]? [] [] field: Type (= default)?, ..`. The two lists collect the fields without and with a default.
macro_rules! constructor {
    ($name:ident [hand] $($rest:tt)*) => {};
    ($name:ident [] [$($required:tt)*] [$($given:tt)*] $field:ident: $type:ty = $default:expr, $($rest:tt)*) => {
        $crate::event::model::constructor!($name [] [$($required)*] [$($given)* $field = $default,] $($rest)*);
    };
    ($name:ident [] [$($required:tt)*] [$($given:tt)*] $field:ident: $type:ty, $($rest:tt)*) => {
        $crate::event::model::constructor!($name [] [$($required)* $field: $type,] [$($given)*] $($rest)*);
    };
    ($name:ident [] [] [$($given:ident = $default:expr,)*]) => {
        impl Default for $name {
            fn default() -> Self {
                Self { $($given: $default,)* extra: $crate::event::model::Extra::default() }
            }
        }
    };
    ($name:ident [] [$($required:ident: $type:ty,)+] [$($given:ident = $default:expr,)*]) => {
        impl $name {
            /// Makes it from the fields that have no default. The other fields have theirs.
            #[must_use]
            #[allow(clippy::too_many_arguments, reason = "the reference gives these fields no default")]
            pub fn new($($required: impl Into<$type>),+) -> Self {
                Self {
                    $($required: $required.into(),)+
                    $($given: $default,)*
                    extra: $crate::event::model::Extra::default(),
                }
            }
        }
    };
}

/// Makes a struct with the fields of one of the reference's models.
///
/// `Name: POLICY { field (@ "name in JSON")?: Type (=> reader)? (= default)?, .. } kind "Tag"? new by hand?
/// dropped PATTERN?`. `["key" = "value"]` before a field is a constant member that is written before it. Members whose
/// name matches the pattern after `dropped` are ignored. [`constructor`] writes the constructor, unless it is written by
/// hand.
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
        $(new by $hand:ident)?
        $(dropped $dropped:pat)?
    ) => {
        $(#[$meta])*
        #[derive(Debug, Clone, PartialEq)]
        #[non_exhaustive]
        pub struct $name {
            $( $(#[$field_meta])* pub $field: $type, )*
            /// Members that SDK 1.58 does not know.
            pub extra: $crate::event::model::Extra,
        }

        $crate::event::model::constructor!($name [$($hand)?] [] [] $($field: $type $(= $default)?,)*);

        impl $crate::event::model::Model for $name {
            fn read_members<'a>(
                members: impl Iterator<Item = (std::borrow::Cow<'a, str>, $crate::json::Raw<'a>)>,
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
                        name => {
                            extra.apply_policy(name, value, $crate::event::model::Policy::$policy, reading)?;
                        }
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
                raw: $crate::json::Raw<'_>,
                reading: $crate::event::model::Reading,
            ) -> Result<Self, $crate::event::decode::DecodeError> {
                <Self as $crate::event::model::Model>::read_object(raw, reading)
            }

            fn write(&self, out: &mut $crate::json::Out) {
                out.open("{");
                self.write_members(out);
                $( out.constant("kind", $kind); )?
                out.close("}");
            }
        }

        impl $name {
            /// Writes the members, without the braces and the kind.
            pub(crate) fn write_members(&self, out: &mut $crate::json::Out) {
                $(
                    $( out.constant($constant, $value); )?
                    $crate::event::model::Field::write_member(&self.$field, wire!($field $($wire)?), out);
                )*
                self.extra.write(out);
            }
        }
    };
}

/// Makes an event: a struct with [`Common`](crate::event::Common) first, and then the kind's own fields.
///
/// `Name = "Kind", from (Source)? { fields as in model! } new by hand?`. Without a source here, the payload must name
/// it.
macro_rules! event {
    (
        $(#[$meta:meta])*
        $name:ident = $kind:literal, from ($($source:ident)?) {
            $(
                $(#[$field_meta:meta])*
                $field:ident: $type:ty $(=> $read:path)? $(= $default:expr)?
            ),* $(,)?
        }
        $(new by $hand:ident)?
    ) => {
        $(#[$meta])*
        #[derive(Debug, Clone, PartialEq)]
        #[non_exhaustive]
        pub struct $name {
            /// The members that every event has.
            pub common: $crate::event::Common,
            $( $(#[$field_meta])* pub $field: $type, )*
            /// Members that SDK 1.58 does not know.
            pub extra: $crate::event::model::Extra,
        }

        $crate::event::model::constructor!($name [$($hand)?] [] [] common: $crate::event::Common, $($field: $type $(= $default)?,)*);

        impl $name {
            /// The name of the kind, which is the name of the reference's class.
            pub const KIND: &'static str = $kind;

            pub(crate) fn read<'a>(
                members: impl Iterator<Item = (std::borrow::Cow<'a, str>, $crate::json::Raw<'a>)>,
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
                        name => {
                            extra.apply_policy(name, value, $crate::event::model::Policy::Forbid, reading)?;
                        }
                    }
                }
                let source = None$(.or(Some($crate::event::Source::$source)))?;
                Ok(Self {
                    common: common.common(source, reading, given)?,
                    $( $field: take!(stringify!($field), $field, reading, [$($read)?], [$($default)?]), )*
                    extra,
                })
            }

            pub(crate) fn write(&self, out: &mut $crate::json::Out) {
                out.open("{");
                self.common.write(out);
                $( $crate::event::model::Field::write_member(&self.$field, stringify!($field), out); )*
                self.extra.write(out);
                out.constant("kind", Self::KIND);
                out.close("}");
            }
        }
    };
}

/// Makes a closed vocabulary: an enum of words. `Other` keeps a word that is not in the vocabulary.
macro_rules! words {
    (
        $(#[$meta:meta])*
        $name:ident { $( $(#[$variant_meta:meta])* $variant:ident = $word:literal ),* $(,)? }
    ) => {
        $(#[$meta])*
        #[derive(Debug, Clone, PartialEq, Eq, Hash)]
        #[non_exhaustive]
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

            /// The variant of a known word. `None` for any other word.
            #[must_use]
            pub fn from_word(word: &str) -> Option<Self> {
                match word {
                    $( $word => Some(Self::$variant), )*
                    _ => None,
                }
            }
        }

        /// Keeps a word that is not in the vocabulary.
        impl From<&str> for $name {
            fn from(word: &str) -> Self {
                Self::from_word(word).unwrap_or_else(|| Self::Other(word.into()))
            }
        }

        impl $crate::event::model::Field for $name {
            fn read(
                raw: $crate::json::Raw<'_>,
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

            fn write(&self, out: &mut $crate::json::Out) {
                out.text(self.as_str());
            }
        }
    };
}

/// Makes an enum of models that differ in their `kind`. `Unknown` keeps a value whose kind has no table.
macro_rules! kinds {
    (
        $(#[$meta:meta])*
        $name:ident, $what:literal { $( $(#[$variant_meta:meta])* $variant:ident($type:ty) = $kind:literal ),* $(,)? }
    ) => {
        $(#[$meta])*
        #[derive(Debug, Clone, PartialEq)]
        #[non_exhaustive]
        pub enum $name {
            $( $(#[$variant_meta])* $variant($type), )*
            /// A value of a kind that is not built in: from a client's tool, or from a newer version.
            Unknown($crate::event::model::UnknownValue),
        }

        impl $name {
            /// The kinds that SDK 1.58 knows.
            pub const KINDS: &'static [&'static str] = &[$($kind),*];

            /// The name of its kind, which is the name of the reference's class.
            #[must_use]
            pub fn kind(&self) -> &str {
                match self {
                    $( Self::$variant(_) => $kind, )*
                    Self::Unknown(unknown) => unknown.kind(),
                }
            }

            /// The value as one JSON object, in the reference's form.
            #[must_use]
            pub fn to_json(&self) -> $crate::event::model::Json {
                let mut out = $crate::json::Out::default();
                $crate::event::model::Field::write(self, &mut out);
                $crate::event::model::Json::written(out)
            }
        }

        impl $crate::event::model::Field for $name {
            fn read(
                raw: $crate::json::Raw<'_>,
                reading: $crate::event::model::Reading,
            ) -> Result<Self, $crate::event::decode::DecodeError> {
                let members = $crate::event::model::members(raw)?;
                let kind = $crate::event::model::kind_of(&members)?;
                match &*kind {
                    $( $kind => <$type as $crate::event::model::Model>::read_members(members.into_iter(), reading)
                        .map(Self::$variant), )*
                    _ => $crate::event::model::UnknownValue::read($what, &kind, raw, reading)
                        .map(Self::Unknown),
                }
            }

            fn write(&self, out: &mut $crate::json::Out) {
                match self {
                    $( Self::$variant(value) => $crate::event::model::Field::write(value, out), )*
                    Self::Unknown(unknown) => out.json(unknown.json().raw()),
                }
            }
        }
    };
}

pub(crate) use {constructor, event, kinds, model, take, wire, words};
