//! The arguments of a built-in tool: one table that is shown to the model and that a call is checked against.
//!
//! What a call that does not fit is told is what pydantic 2.14 says in the reference: a model that goes in
//! circles is recognised by its errors being the same, and recorded conversations hold these words.

mod check;
mod python;

pub(super) use check::check;
pub(super) use python::{float, repr_text};

use crate::event::Json;
use crate::event::dump::Out;

/// One argument.
#[derive(Debug)]
pub(super) struct Parameter {
    pub name: &'static str,
    pub of: Of,
    pub need: Need,
    pub description: &'static str,
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
    /// A whole number.
    Integer,
    /// A whole number, 0 or more.
    Count,
    /// One of these.
    Words(&'static [&'static str]),
    /// One of these, or a word that this makes one of them.
    Alias(&'static [&'static str], fn(&str) -> bool),
    List(&'static Of),
    /// An object of the reference's class; members that it does not name are ignored.
    Object(&'static str, &'static [Parameter]),
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
        out.key(parameter.name);
        write_type(out, &parameter.of, Some(parameter.description));
    }
    out.close("}");
    let required = parameters.iter().filter(|parameter| parameter.need == Need::Required);
    let required: Vec<&str> = required.map(|parameter| parameter.name).collect();
    if !required.is_empty() {
        write_words(out, "required", &required);
    }
}

fn write_type(out: &mut Out, of: &Of, description: Option<&str>) {
    out.open("{");
    let name = match of {
        Of::Text | Of::Words(_) | Of::Alias(..) => "string",
        Of::Boolean => "boolean",
        Of::Number => "number",
        Of::Integer | Of::Count => "integer",
        Of::List(_) => "array",
        Of::Object(..) => "object",
    };
    out.constant("type", name);
    if let Some(description) = description {
        out.constant("description", description);
    }
    match of {
        Of::Words(words) | Of::Alias(words, _) => write_words(out, "enum", words),
        Of::List(of) => {
            out.key("items");
            write_type(out, of, None);
        }
        Of::Object(_, parameters) => write_members(out, parameters),
        Of::Text | Of::Boolean | Of::Number | Of::Integer | Of::Count => {}
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
