//! Cuts long texts in events, for clients that only display them. The size of a page then depends on its number of
//! events.

use std::borrow::Cow;

use serde_json::{Map, Value};

/// Returns the payload with every text cut to at most `characters`, and the original length in characters of each text
/// that was cut, by its JSON pointer (RFC 6901). If no text is cut, returns the payload as it is stored, and `None`.
pub(super) fn shorten(payload: Cow<'_, str>, characters: usize) -> (Cow<'_, str>, Option<Value>) {
    // Each character takes at least one byte.
    if payload.len() <= characters {
        return (payload, None);
    }
    let Ok(mut value) = serde_json::from_str::<Value>(&payload) else { return (payload, None) };
    let mut cut = Map::new();
    walk(&mut value, &mut String::new(), characters, &mut cut);
    if cut.is_empty() { (payload, None) } else { (value.to_string().into(), Some(Value::Object(cut))) }
}

fn walk(value: &mut Value, pointer: &mut String, characters: usize, cut: &mut Map<String, Value>) {
    let length = pointer.len();
    match value {
        Value::String(text) => {
            if let Some((end, _)) = text.char_indices().nth(characters) {
                cut.insert(pointer.clone(), text.chars().count().into());
                text.truncate(end);
            }
        }
        Value::Array(items) => {
            for (index, item) in items.iter_mut().enumerate() {
                pointer.push_str(&format!("/{index}"));
                walk(item, pointer, characters, cut);
                pointer.truncate(length);
            }
        }
        Value::Object(members) => {
            for (name, member) in members {
                pointer.push('/');
                pointer.push_str(&name.replace('~', "~0").replace('/', "~1"));
                walk(member, pointer, characters, cut);
                pointer.truncate(length);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn long_texts_are_cut_at_any_depth_and_reported() {
        let payload = json!({"a/b": ["short", {"~": "ääääää"}], "n": 123_456, "t": "abcdef"}).to_string();
        let (text, cut) = shorten(payload.as_str().into(), 5);
        let shortened = json!({"a/b": ["short", {"~": "äääää"}], "n": 123_456, "t": "abcde"});
        assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), shortened);
        assert_eq!(cut, Some(json!({"/a~1b/1/~0": 6, "/t": 6})));
    }

    #[test]
    fn a_short_payload_stays_byte_for_byte() {
        for payload in [r#"{ "z": 1.0, "a": "12345" }"#, "\"no object\"", "{broken"] {
            assert_eq!(shorten(payload.into(), 1000), (payload.into(), None));
            assert_eq!(shorten(payload.into(), 9), (payload.into(), None));
        }
    }
}
