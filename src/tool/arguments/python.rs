//! Prints JSON values as Python does.

use std::fmt::Write as _;

use crate::json::Raw;

/// Returns the name of the Python type of the value.
pub(super) fn type_name(value: Raw<'_>) -> &'static str {
    match value.text().as_bytes().first() {
        Some(b'"') => "str",
        Some(b'{') => "dict",
        Some(b'[') => "list",
        Some(b't' | b'f') => "bool",
        Some(b'n') => "NoneType",
        _ if is_float(value) => "float",
        _ => "int",
    }
}

/// Returns whether Python reads the number as a float.
pub(super) fn is_float(value: Raw<'_>) -> bool {
    value.text().contains(['.', 'e', 'E', 'N', 'I'])
}

/// Returns the value as `repr` writes it.
pub(super) fn repr(value: Raw<'_>) -> String {
    let mut out = String::new();
    write_value(&mut out, value);
    out
}

/// Returns the text as `repr` writes it.
pub(in crate::tool) fn repr_text(text: &str) -> String {
    let mut out = String::new();
    write_text(&mut out, text);
    out
}

fn write_value(out: &mut String, value: Raw<'_>) {
    if value.is_object() {
        // A dict has each key once: at its first place, with its last value.
        let mut members: Vec<(String, Raw<'_>)> = Vec::new();
        for (key, member) in value.members() {
            match members.iter_mut().find(|(name, _)| **name == *key) {
                Some(place) => place.1 = member,
                None => members.push((key.into_owned(), member)),
            }
        }
        out.push('{');
        for (at, (key, member)) in members.iter().enumerate() {
            out.push_str(if at == 0 { "" } else { ", " });
            write_text(out, key);
            out.push_str(": ");
            write_value(out, *member);
        }
        out.push('}');
    } else if value.is_array() {
        out.push('[');
        for (at, element) in value.elements().enumerate() {
            out.push_str(if at == 0 { "" } else { ", " });
            write_value(out, element);
        }
        out.push(']');
    } else if let Some(text) = value.as_str() {
        write_text(out, &text);
    } else {
        out.push_str(&match value.text() {
            "true" => "True".to_owned(),
            "false" => "False".to_owned(),
            "null" => "None".to_owned(),
            "-0" => "0".to_owned(),
            "NaN" => "nan".to_owned(),
            "Infinity" => "inf".to_owned(),
            "-Infinity" => "-inf".to_owned(),
            number if is_float(value) => number.parse().map_or_else(|_| number.to_owned(), float),
            number => number.to_owned(),
        });
    }
}

/// Prints a float as Python does. From 1e16 upward and below 1e-4 it has an exponent of at least two digits.
pub(in crate::tool) fn float(number: f64) -> String {
    let size = number.abs();
    if number.is_infinite() {
        return if number > 0.0 { "inf" } else { "-inf" }.to_owned();
    }
    if size != 0.0 && !(1e-4..1e16).contains(&size) {
        let text = format!("{number:e}");
        let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
        let (sign, exponent) = exponent.strip_prefix('-').map_or(('+', exponent), |rest| ('-', rest));
        return format!("{digits}e{sign}{exponent:0>2}");
    }
    let text = number.to_string();
    if text.contains('.') { text } else { text + ".0" }
}

/// Writes a string with the quotes that need fewer escapes. Characters that cannot be printed are escaped.
fn write_text(out: &mut String, text: &str) {
    let quote = if text.contains('\'') && !text.contains('"') { '"' } else { '\'' };
    out.push(quote);
    for character in text.chars() {
        match character {
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            _ if character == quote => {
                out.push('\\');
                out.push(quote);
            }
            _ if can_be_printed(character) => out.push(character),
            _ => {
                let code = u32::from(character);
                match code {
                    0..0x100 => write!(out, "\\x{code:02x}"),
                    0x100..0x1_0000 => write!(out, "\\u{code:04x}"),
                    _ => write!(out, "\\U{code:08x}"),
                }
                .expect("writing to a String cannot fail");
            }
        }
    }
    out.push(quote);
}

/// Returns the same as Python's `str.isprintable`. The standard library's `escape_debug` has the same table, but it
/// also escapes a combining character at the beginning of a text. So the text here begins with another character.
fn can_be_printed(character: char) -> bool {
    let text: String = ['a', character].iter().collect();
    !text.escape_debug().skip(1).eq(character.escape_unicode())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The expected texts are from Python 3.12.
    #[test]
    fn values_are_printed_as_python_prints_them() {
        for (json, expected) in [
            (r#"{"a": 1.5, "b": null, "c": [true, -0], "a": 2}"#, "{'a': 2, 'b': None, 'c': [True, 0]}"),
            (r#""it's""#, "\"it's\""),
            (r#""it's \"so\"""#, r#"'it\'s "so"'"#),
            (r#""\u00e4\n\t\u0001\u200b\u0301\\""#, "'ä\\n\\t\\x01\\u200b\u{301}\\\\'"),
            ("1e16", "1e+16"),
            ("0.00001", "1e-05"),
            ("0.0001", "0.0001"),
            ("1.5e300", "1.5e+300"),
            ("1E5", "100000.0"),
            ("1e400", "inf"),
            ("12345678901234567890123", "12345678901234567890123"),
            ("NaN", "nan"),
        ] {
            assert_eq!(repr(Raw::parse(json).unwrap()), expected, "{json}");
        }
    }
}
