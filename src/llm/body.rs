//! The body of a request: members in the order they are set, each kept as JSON text, so that schemas go out with their
//! members in the order the model is to read them.

use serde_json::Value;

use crate::event::dump::Out;
use crate::event::json::Raw;
use crate::event::model::Json;

/// A JSON object in the making.
#[derive(Debug, Clone, Default)]
pub(super) struct Body(Vec<(String, String)>);

impl Body {
    /// Sets a member; one of the same name keeps its place.
    pub fn set(&mut self, name: &str, value: impl Into<Value>) {
        self.set_text(name, value.into().to_string());
    }

    /// Sets a member, if there is something to set.
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

    /// Sets the members of an object; anything else sets none.
    pub fn extend(&mut self, object: &Json) {
        for (name, value) in object.raw().members() {
            self.set_text(&name, value.text().to_owned());
        }
    }

    /// The JSON text.
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

/// A list of JSON texts as one.
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

/// What is at this place of a JSON text, compact and with its members in their order: names of members, and numbers for
/// the places of a list.
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

/// The text of a JSON string, or the JSON text of anything else.
pub(super) fn text_of(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}
