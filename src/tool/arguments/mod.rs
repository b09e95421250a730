//! The arguments of a built-in tool: one table that is shown to the model and that a call is checked against.
//!
//! What a call that does not fit is told is what pydantic 2.14 says in the reference: a model that goes in
//! circles is recognised by its errors being the same, and recorded conversations hold these words.

mod check;
mod foreign;
mod python;

pub(super) use check::check;
pub(super) use foreign::{coerced, of_schema};
pub(super) use python::{float, repr_text};

use std::borrow::Cow;

use crate::event::Json;
use crate::event::dump::Out;

/// One argument.
#[derive(Debug)]
pub(super) struct Parameter {
    pub name: Cow<'static, str>,
    pub of: Of,
    pub need: Need,
    pub description: Cow<'static, str>,
}

impl Parameter {
    /// An argument of a built-in tool.
    pub const fn new(name: &'static str, of: Of, need: Need, description: &'static str) -> Self {
        Self { name: Cow::Borrowed(name), of, need, description: Cow::Borrowed(description) }
    }
}

/// Whether an argument may be left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Need {
    Required,
    /// It has a default.
    Optional,
    /// It has a default, and null stands for it.
    Nullable,
}

/// What an argument is.
#[derive(Debug)]
pub(super) enum Of {
    Text,
    Boolean,
    /// A number, 0 or more.
    Number,
    /// A number.
    AnyNumber,
    /// A whole number.
    Integer,
    /// A whole number, 0 or more.
    Count,
    /// One of these.
    Words(&'static [&'static str]),
    /// One of these, or a word that this makes one of them.
    Alias(&'static [&'static str], fn(&str) -> bool),
    List(Inner),
    /// An object of the reference's class; members that it does not name are ignored.
    Object(&'static str, &'static [Parameter]),
    /// Any object.
    Map,
    /// Anything.
    Any,
}

/// What the elements of a list are.
#[derive(Debug)]
pub(super) enum Inner {
    Fixed(&'static Of),
    Made(Box<Of>),
}

impl Inner {
    fn of(&self) -> &Of {
        match self {
            Self::Fixed(of) => of,
            Self::Made(of) => of,
        }
    }
}

/// The arguments as a JSON schema of an object, in the few words that every provider understands.
pub(super) fn schema(parameters: &[Parameter]) -> Json {
    let mut out = Out::default();
    out.open("{");
    out.constant("type", "object");
    write_members(&mut out, parameters);
    out.close("}");
    Json::written(out)
}

fn write_members(out: &mut Out, parameters: &[Parameter]) {
    out.key("properties");
    out.open("{");
    for parameter in parameters {
        out.key(&parameter.name);
        write_type(out, &parameter.of, Some(&parameter.description));
    }
    out.close("}");
    let required = parameters.iter().filter(|parameter| parameter.need == Need::Required);
    let required: Vec<&str> = required.map(|parameter| &*parameter.name).collect();
    if !required.is_empty() {
        write_words(out, "required", &required);
    }
}

fn write_type(out: &mut Out, of: &Of, description: Option<&str>) {
    out.open("{");
    let name = match of {
        Of::Text | Of::Words(_) | Of::Alias(..) => "string",
        Of::Boolean => "boolean",
        Of::Number | Of::AnyNumber => "number",
        Of::Integer | Of::Count => "integer",
        Of::List(_) => "array",
        Of::Object(..) | Of::Map => "object",
        Of::Any => "",
    };
    if !name.is_empty() {
        out.constant("type", name);
    }
    if let Some(description) = description {
        out.constant("description", description);
    }
    match of {
        Of::Words(words) | Of::Alias(words, _) => write_words(out, "enum", words),
        Of::List(of) => {
            out.key("items");
            write_type(out, of.of(), None);
        }
        Of::Object(_, parameters) => write_members(out, parameters),
        Of::Text | Of::Boolean | Of::Number | Of::AnyNumber | Of::Integer | Of::Count | Of::Map | Of::Any => {
        }
    }
    out.close("}");
}

fn write_words(out: &mut Out, key: &str, words: &[&str]) {
    out.key(key);
    out.open("[");
    for word in words {
        out.next();
        out.text(word);
    }
    out.close("]");
}
