//! Simplifies a server's schema to the few keywords that every provider understands.
//!
//! It does so as the reference does: references are followed, the first alternative that is not null is taken, and
//! other restrictions of a value are left out. If a schema refers to itself or grows too large, the part there becomes
//! a plain object.

use crate::event::Json;
use crate::json::{Out, Raw};

/// The maximum number of parts of a simplified schema.
const PARTS_MAX: usize = 5000;

/// The maximum depth of a simplified schema.
const DEPTH_MAX: usize = 64;

/// Returns the simplified schema.
pub(super) fn simplified(schema: Raw<'_>) -> Json {
    let mut scope = Scope { definitions: schema.get("$defs"), visiting: Vec::new(), parts: 0, depth: 0 };
    let mut members = scope.node(schema);
    if !members.iter().any(|(key, _)| key == "properties") {
        members.push(("properties".to_owned(), "{}".to_owned()));
    }
    let text = object(&members);
    Json::from(Raw::checked(&text))
}

/// The members of a simplified node, each with its name and its JSON text.
type Members = Vec<(String, String)>;

struct Scope<'a> {
    definitions: Option<Raw<'a>>,
    visiting: Vec<String>,
    parts: usize,
    depth: usize,
}

impl<'a> Scope<'a> {
    fn node(&mut self, node: Raw<'a>) -> Members {
        self.depth += 1;
        let members = self.node_within(node);
        self.depth -= 1;
        members
    }

    fn node_within(&mut self, node: Raw<'a>) -> Members {
        self.parts += 1;
        if self.parts > PARTS_MAX || self.depth > DEPTH_MAX {
            return vec![("type".to_owned(), r#""object""#.to_owned())];
        }
        match node.text() {
            "true" => return Vec::new(),
            "false" => return vec![("not".to_owned(), "{}".to_owned())],
            _ => {}
        }
        if let Some(members) = self.reference(node) {
            return members;
        }
        let mut members = Members::new();
        let kind = node.get("type");
        if let Some(kind) = kind {
            set(&mut members, "type", kind.text().to_owned());
        }
        if let Some(any) = node.get("anyOf").filter(|any| any.is_array()) {
            let is_null =
                |branch: &Raw<'_>| branch.get("type").and_then(Raw::as_str).as_deref() == Some("null");
            let first = any
                .elements()
                .find(|branch| branch.text() == "true" || branch.is_object() && !is_null(branch));
            let none = || any.elements().find(|branch| branch.text() == "false");
            if let Some(branch) = first.or_else(none) {
                for (key, value) in self.node(branch) {
                    set(&mut members, &key, value);
                }
            }
        }
        if let Some(description) = node.get("description") {
            set(&mut members, "description", description.text().to_owned());
        }
        let is = |name: &str| kind.and_then(Raw::as_str).as_deref() == Some(name);
        if let Some(properties) =
            node.get("properties").filter(|properties| is("object") && properties.is_object())
        {
            let inner: Members = properties
                .members()
                .map(|(name, property)| (name.into_owned(), object(&self.node(property))))
                .collect();
            set(&mut members, "properties", object(&inner));
            if let Some(required) = node.get("required") {
                set(&mut members, "required", required.text().to_owned());
            }
        }
        if let Some(items) = node.get("items").filter(|_| is("array")) {
            let items = object(&self.node(items));
            set(&mut members, "items", items);
        }
        if let Some(words) = node.get("enum") {
            set(&mut members, "enum", words.text().to_owned());
        }
        members
    }

    /// Returns the simplified target of a reference. `None` if the node is no reference, or has no known target.
    fn reference(&mut self, node: Raw<'a>) -> Option<Members> {
        let path = node.get("$ref")?.as_str()?.into_owned();
        let name = path.strip_prefix("#/$defs/")?.rsplit('/').next()?.to_owned();
        let definition = self.definitions?.get(&name)?;
        if self.visiting.contains(&name) {
            let mut members = vec![("type".to_owned(), r#""object""#.to_owned())];
            if let Some(description) = definition.get("description") {
                set(&mut members, "description", description.text().to_owned());
            }
            return Some(members);
        }
        self.visiting.push(name);
        let members = self.node(definition);
        self.visiting.pop();
        Some(members)
    }
}

fn set(members: &mut Members, key: &str, value: String) {
    match members.iter_mut().find(|(known, _)| known == key) {
        Some(member) => member.1 = value,
        None => members.push((key.to_owned(), value)),
    }
}

fn object(members: &[(String, String)]) -> String {
    let mut out = Out::default();
    out.open("{");
    for (key, value) in members {
        out.key(key);
        out.raw(value);
    }
    out.close("}");
    out.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn simplified_text(schema: &str) -> String {
        let json = simplified(Raw::parse(schema).unwrap());
        assert!(Raw::parse(json.text()).is_ok());
        json.text().to_owned()
    }

    /// The expected schemas are from the reference's `_process_schema_node`.
    #[test]
    fn schemas_are_simplified_as_the_reference_does_it() {
        let cases = include_str!("../../../tests/golden/tools/simplified.json");
        let cases: serde_json::Value = serde_json::from_str(cases).unwrap();
        for case in cases["cases"].as_array().unwrap() {
            let (schema, expected) = (case["schema"].as_str().unwrap(), case["simplified"].as_str().unwrap());
            assert_eq!(simplified_text(schema), expected, "{schema}");
        }
    }

    #[test]
    fn a_schema_that_grows_exponentially_is_limited() {
        let defs: Vec<String> = (0..40)
            .map(|number| {
                let next = number + 1;
                format!(
                    r##""d{number}":{{"type":"object","properties":{{"a":{{"$ref":"#/$defs/d{next}"}},"b":{{"$ref":"#/$defs/d{next}"}}}}}}"##
                )
            })
            .collect();
        let schema = format!(
            r##"{{"type":"object","properties":{{"x":{{"$ref":"#/$defs/d0"}}}},"$defs":{{{}}}}}"##,
            defs.join(",")
        );
        assert!(simplified_text(&schema).len() < 1_000_000);
    }
}
