//! The body of a request. Members keep the order in which they are set. Each is stored as JSON text, so that the
//! members of a schema also keep their order.

use serde_json::Value;

use crate::event::model::Json;
use crate::json::{Out, Raw};

/// A JSON object under construction.
#[derive(Debug, Clone, Default)]
pub(super) struct Body(Vec<(String, String)>);

impl Body {
    /// Sets a member. A member of the same name is replaced and keeps its place.
    pub fn set(&mut self, name: &str, value: impl Into<Value>) {
        self.set_text(name, value.into().to_string());
    }

    /// Sets a member if there is a value.
    pub fn set_some(&mut self, name: &str, value: Option<impl Into<Value>>) {
        if let Some(value) = value {
            self.set(name, value);
        }
    }

    /// Sets a member to JSON text.
    pub fn set_text(&mut self, name: &str, json: String) {
        match self.0.iter_mut().find(|(known, _)| known == name) {
            Some(member) => member.1 = json,
            None => self.0.push((name.to_owned(), json)),
        }
    }

    /// Sets the members of an object. Any other value has no members, so nothing is set.
    pub fn extend(&mut self, object: &Json) {
        for (name, value) in object.raw().members() {
            self.set_text(&name, value.text().to_owned());
        }
    }

    /// Returns the JSON text.
    pub fn finish(&self) -> String {
        let mut out = Out::default();
        out.open("{");
        for (name, json) in &self.0 {
            out.key(name);
            out.raw(json);
        }
        out.close("}");
        out.finish()
    }
}

/// Joins JSON texts into the text of a list.
pub(super) fn array(items: impl IntoIterator<Item = String>) -> String {
    let mut out = Out::default();
    out.open("[");
    for item in items {
        out.next();
        out.raw(&item);
    }
    out.close("]");
    out.finish()
}

/// Returns the value at a path of a JSON text, as compact text with its members in their order. A step of the path is
/// the name of a member, or a number for an element of a list.
pub(super) fn text_at(text: &str, path: &[&str]) -> Option<String> {
    let mut value = Raw::parse(text).ok()?;
    for step in path {
        value = match step.parse() {
            Ok(place) => value.elements().nth(place)?,
            Err(_) => value.get(step)?,
        };
    }
    let mut out = Out::default();
    out.json(value);
    Some(out.finish())
}

/// Returns the text of a JSON string, or the JSON text of any other value.
pub(super) fn text_of(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}
