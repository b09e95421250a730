//! Repairs arguments whose type does not match the tool's schema, if the intended value is obvious.
//!
//! A list or an object that is JSON in a string is parsed, and rubbish after it is cut off. A list of strings is joined
//! if a string is required. Source: `docs/reference/calls.md#arguments`.

use crate::event::Json;
use crate::json::Raw;

use super::arguments::Arguments;

/// The types that a schema allows, as far as they matter here.
#[derive(Debug, Clone, Copy, Default)]
struct Allowed {
    text: bool,
    nested: bool,
}

/// The maximum depth to which a schema's alternatives and references are followed.
const DEPTH_MAX: usize = 8;

/// Repairs the arguments according to the JSON schema of the arguments' object.
pub(super) fn repair(arguments: &mut Arguments, schema: Raw<'_>) {
    let definitions = schema.get("$defs");
    let properties = schema.get("properties");
    for (name, property) in properties.into_iter().flat_map(Raw::members) {
        let Some(value) = arguments.get(&name) else { continue };
        let mut allowed = Allowed::default();
        collect(property, definitions, &mut allowed, DEPTH_MAX);
        if let Some(repaired) = repaired(value.raw(), allowed) {
            arguments.set(&name, repaired);
        }
    }
}

fn collect(schema: Raw<'_>, definitions: Option<Raw<'_>>, allowed: &mut Allowed, depth: usize) {
    let Some(depth) = depth.checked_sub(1) else { return };
    if let Some(reference) = schema.get("$ref").and_then(Raw::as_str) {
        let name = reference.rsplit('/').next().unwrap_or_default();
        if let Some(target) = definitions.and_then(|definitions| definitions.get(name)) {
            collect(target, definitions, allowed, depth);
        }
    }
    for alternatives in ["anyOf", "oneOf"] {
        for alternative in schema.get(alternatives).into_iter().flat_map(Raw::elements) {
            collect(alternative, definitions, allowed, depth);
        }
    }
    if let Some(types) = schema.get("type") {
        let one = types.as_str().into_iter();
        for word in one.chain(types.elements().filter_map(Raw::as_str)) {
            allowed.text |= word == "string";
            allowed.nested |= word == "array" || word == "object";
        }
    }
}

/// Returns the repaired value. `None` if nothing is to be repaired.
fn repaired(value: Raw<'_>, allowed: Allowed) -> Option<Json> {
    if value.is_array() && allowed.text && !allowed.nested {
        let pieces: Option<Vec<_>> = value.elements().map(Raw::as_str).collect();
        return Some(Json::from(&serde_json::Value::from(pieces?.concat())));
    }
    if allowed.nested {
        let text = value.as_str()?;
        let ends = [text.len()]
            .into_iter()
            .chain(['}', ']'].into_iter().filter_map(|end| text.rfind(end).map(|at| at + 1)));
        return ends.filter_map(|end| parsed(&text[..end])).next();
    }
    None
}

/// Returns the list or object that a text contains. Unescaped control characters within strings are accepted.
fn parsed(text: &str) -> Option<Json> {
    let escaped = || {
        let mut out = String::with_capacity(text.len());
        let (mut within, mut escape) = (false, false);
        for character in text.chars() {
            if within && character < ' ' {
                out.push_str(&format!("\\u{:04x}", character as u32));
            } else {
                out.push(character);
            }
            within ^= character == '"' && !escape;
            escape = within && character == '\\' && !escape;
        }
        out
    };
    let json = Json::parse(text).or_else(|_| Json::parse(&escaped())).ok()?;
    (json.raw().is_array() || json.raw().is_object()).then_some(json)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SCHEMA: &str = r##"{"properties":{"s":{"type":"string"},"n":{"anyOf":[{"type":"string"},{"type":"null"}]},
        "l":{"type":"array"},"either":{"type":["string","array"]},"r":{"$ref":"#/$defs/T"},"i":{"type":"integer"}},
        "$defs":{"T":{"oneOf":[{"type":"object"}]}}}"##;

    #[test]
    fn only_obvious_mistakes_are_repaired() {
        for (given, repaired) in [
            (r#"{"s":["a","b"],"n":["c"]}"#, r#"{"s": "ab", "n": "c"}"#),
            (r#"{"s":["a",1],"either":["a"]}"#, r#"{"s": ["a", 1], "either": ["a"]}"#),
            (r#"{"l":"[1, 5]</x>","r":"{\"a\":\"x\ny\"} rubbish"}"#, r#"{"l": [1, 5], "r": {"a": "x\ny"}}"#),
            (
                r#"{"l":"5","either":"[1]","i":"[1]","other":"[1]"}"#,
                r#"{"l": "5", "either": [1], "i": "[1]", "other": "[1]"}"#,
            ),
        ] {
            let mut arguments = Arguments::read(given).unwrap();
            repair(&mut arguments, Raw::parse(SCHEMA).unwrap());
            assert_eq!(arguments.dumps(), repaired);
        }
    }
}
