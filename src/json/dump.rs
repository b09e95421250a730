//! Writes JSON as the reference does: `model_dump_json(exclude_none=True)` of pydantic 2.
//!
//! The text is compact and on one line. Only `"`, `\` and control characters are escaped. Floats have their shortest
//! form, with an exponent from 1e16 upward and below 1e-5. Nulls of models are left out, nulls of free-form values are
//! kept, and numbers that are not finite become null. Source: `docs/reference/events.md#writing-json`, and the
//! reference's behaviour.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt::Write as _;

use super::raw::Raw;

/// A writer of JSON text.
#[derive(Debug, Default)]
pub(crate) struct Out {
    text: String,
    nulls: bool,
}

impl Out {
    /// Makes a writer that also writes members that are null.
    pub fn with_nulls() -> Self {
        Self { nulls: true, ..Self::default() }
    }

    /// Returns the text.
    pub fn finish(self) -> String {
        self.text
    }

    /// Begins an array or object.
    pub fn open(&mut self, bracket: &str) {
        self.text.push_str(bracket);
    }

    /// Ends an array or object.
    pub fn close(&mut self, bracket: &str) {
        self.text.push_str(bracket);
    }

    /// Writes a comma, unless the next value is the first of its array or object.
    pub fn next(&mut self) {
        if !self.text.ends_with(['[', '{']) {
            self.text.push(',');
        }
    }

    /// Writes a key and its colon.
    pub fn key(&mut self, name: &str) {
        self.next();
        self.text(name);
        self.text.push(':');
    }

    /// Writes a member with a constant value.
    pub fn constant(&mut self, name: &str, value: &str) {
        self.key(name);
        self.text(value);
    }

    /// Returns whether this writer also writes members that are null.
    pub fn writes_nulls(&self) -> bool {
        self.nulls
    }

    /// Writes JSON text unchanged.
    pub fn raw(&mut self, json: &str) {
        self.text.push_str(json);
    }

    /// Writes a string.
    pub fn text(&mut self, text: &str) {
        self.text.reserve(text.len() + 2);
        self.text.push('"');
        let mut plain = 0;
        for (at, byte) in text.bytes().enumerate() {
            if byte >= 0x20 && byte != b'"' && byte != b'\\' {
                continue;
            }
            self.text.push_str(&text[plain..at]);
            plain = at + 1;
            match byte {
                b'"' => self.text.push_str("\\\""),
                b'\\' => self.text.push_str("\\\\"),
                b'\n' => self.text.push_str("\\n"),
                b'\r' => self.text.push_str("\\r"),
                b'\t' => self.text.push_str("\\t"),
                0x8 => self.text.push_str("\\b"),
                0xc => self.text.push_str("\\f"),
                control => {
                    write!(self.text, "\\u{control:04x}").expect("writing to a String cannot fail");
                }
            }
        }
        self.text.push_str(&text[plain..]);
        self.text.push('"');
    }

    /// Writes a float.
    pub fn float(&mut self, number: f64) {
        self.text.push_str(&float(number));
    }

    /// Writes a free-form value as the reference would after reading it.
    pub fn json(&mut self, value: Raw<'_>) {
        if value.is_object() {
            self.open("{");
            for (key, value) in last_of_each(value.members().collect()) {
                self.key(&key);
                self.json(value);
            }
            self.close("}");
        } else if value.is_array() {
            self.open("[");
            for element in value.elements() {
                self.next();
                self.json(element);
            }
            self.close("]");
        } else if let Some(text) = value.as_str() {
            self.text(&text);
        } else {
            self.number(value.text());
        }
    }

    /// Writes a number, `true`, `false` or `null`.
    fn number(&mut self, text: &str) {
        match text {
            "NaN" | "Infinity" | "-Infinity" => self.text.push_str("null"),
            "-0" => self.text.push('0'),
            _ if text.starts_with(['t', 'f', 'n']) => self.text.push_str(text),
            _ => match text.contains(['.', 'e', 'E']).then(|| text.parse()) {
                Some(Ok(number)) => self.float(number),
                // An integer of any length is written unchanged.
                Some(Err(_)) | None => self.text.push_str(text),
            },
        }
    }
}

/// Returns the members of an object as a Python dict holds them: a repeated key has its first place and its last value.
fn last_of_each<'a>(members: Vec<(Cow<'a, str>, Raw<'a>)>) -> Vec<(Cow<'a, str>, Raw<'a>)> {
    let mut places: HashMap<Cow<'a, str>, usize> = HashMap::with_capacity(members.len());
    let mut kept: Vec<(Cow<'a, str>, Raw<'a>)> = Vec::with_capacity(members.len());
    for (key, value) in members {
        match places.get(&key) {
            Some(place) => kept[*place].1 = value,
            None => {
                places.insert(key.clone(), kept.len());
                kept.push((key, value));
            }
        }
    }
    kept
}

/// Returns a float in the shortest form that reads back as the same number.
pub(crate) fn float(number: f64) -> String {
    let size = number.abs();
    if !number.is_finite() {
        return "null".to_owned();
    }
    if size != 0.0 && !(1e-5..1e16).contains(&size) {
        let text = format!("{number:e}");
        return if text.contains("e-") { text } else { text.replace('e', "e+") };
    }
    let mut text = number.to_string();
    if !text.contains('.') {
        text.push_str(".0");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dumped(json: &str) -> String {
        let mut out = Out::default();
        out.json(Raw::parse(json).unwrap());
        out.finish()
    }

    /// The expected values are the reference's answers for the same texts.
    #[test]
    fn free_form_values_are_written_as_the_reference_writes_them() {
        for (json, expected) in [
            ("1e15", "1000000000000000.0"),
            ("1e16", "1e+16"),
            ("123456789012345678.0", "1.2345678901234568e+17"),
            ("1.5e300", "1.5e+300"),
            ("1e-5", "0.00001"),
            ("1e-6", "1e-6"),
            ("0.00001234", "0.00001234"),
            ("-0.0", "-0.0"),
            ("-0", "0"),
            ("1e400", "null"),
            ("NaN", "null"),
            ("12345678901234567890123", "12345678901234567890123"),
            ("1E5", "100000.0"),
            ("9007199254740993.0", "9007199254740992.0"),
            (r#""\u007f\u2028\u001f\u0008\/\ud83d\ude00\u00e9""#, "\"\u{7f}\u{2028}\\u001f\\b/😀é\""),
            (r#"{"a":1,"b":2,"a":3}"#, r#"{"a":3,"b":2}"#),
            (r#"[1 , 2,{ "x" : null }]"#, r#"[1,2,{"x":null}]"#),
            ("[[], {}, [{}], \"[\"]", "[[],{},[{}],\"[\"]"),
        ] {
            assert_eq!(dumped(json), expected, "{json}");
        }
    }
}
