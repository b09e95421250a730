//! The arguments of a tool: one table gives the schema for the model and the check of a call.
//!
//! Errors have the words of pydantic 2.14, which the reference uses. An agent that repeats itself is recognised by
//! equal errors, and recorded conversations contain these words.

mod check;
mod foreign;
mod python;

pub(super) use check::check;
pub(super) use foreign::{coerced, of_schema};
pub(super) use python::{float, repr_text};

use std::borrow::Cow;

use crate::event::Json;
use crate::json::Out;

/// One argument.
#[derive(Debug)]
pub(super) struct Parameter {
    pub name: Cow<'static, str>,
    pub of: Of,
    pub need: Need,
    pub description: Cow<'static, str>,
}

impl Parameter {
    /// Makes an argument of a built-in tool.
    pub const fn new(name: &'static str, of: Of, need: Need, description: &'static str) -> Self {
        Self { name: Cow::Borrowed(name), of, need, description: Cow::Borrowed(description) }
    }
}

/// Whether an argument may be left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Need {
    Required,
    /// The argument has a default.
    Optional,
    /// The argument has a default, and null means the default.
    Nullable,
}

/// The type of an argument.
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
    /// One of these words.
    Words(&'static [&'static str]),
    /// One of these words, or another word that the function accepts.
    Alias(&'static [&'static str], fn(&str) -> bool),
    List(Inner),
    /// An object of a class of the reference, with its members. Other members are ignored.
    Object(&'static str, &'static [Parameter]),
    /// Any object.
    Map,
    /// Anything.
    Any,
}

/// The type of the elements of a list.
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

/// Returns the JSON schema of the arguments. It uses only the few keywords that every provider understands.
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
