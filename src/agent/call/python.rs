//! Writes values as Python does. The reference's texts contain arguments and names in the form of `json.dumps` and
//! `repr`. `arguments` and `names` need it, for answers to a model that are the reference's to the letter.

use std::fmt::Write as _;

use crate::json::Raw;

/// Writes a value as `json.dumps` does: with `, ` and `: ` as separators, and everything beyond ASCII escaped.
pub(super) fn dumps(out: &mut String, raw: Raw<'_>) {
    if let Some(text) = raw.as_str() {
        dump_text(out, &text);
    } else if raw.is_object() {
        dump_members(out, &once(raw.members()));
    } else if raw.is_array() {
        out.push('[');
        for (place, element) in raw.elements().enumerate() {
            out.push_str(if place == 0 { "" } else { ", " });
            dumps(out, element);
        }
        out.push(']');
    } else {
        out.push_str(&number(raw));
    }
}

/// Writes members as `json.dumps` writes an object.
pub(super) fn dump_members(out: &mut String, members: &[(String, Raw<'_>)]) {
    out.push('{');
    for (place, (name, value)) in members.iter().enumerate() {
        out.push_str(if place == 0 { "" } else { ", " });
        dump_text(out, name);
        out.push_str(": ");
        dumps(out, *value);
    }
    out.push('}');
}

/// Returns the members without duplicate names. Of two with the same name, the last value takes the first's place.
pub(super) fn once<'a>(
    members: impl Iterator<Item = (std::borrow::Cow<'a, str>, Raw<'a>)>,
) -> Vec<(String, Raw<'a>)> {
    let mut once: Vec<(String, Raw<'a>)> = Vec::new();
    for (name, value) in members {
        match once.iter_mut().find(|(known, _)| *known == *name) {
            Some(known) => known.1 = value,
            None => once.push((name.into_owned(), value)),
        }
    }
    once
}

fn dump_text(out: &mut String, text: &str) {
    out.push('"');
    for character in text.chars() {
        match character {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            ' '..='~' => out.push(character),
            other => {
                for unit in other.encode_utf16(&mut [0; 2]) {
                    let _ = write!(out, "\\u{unit:04x}");
                }
            }
        }
    }
    out.push('"');
}

/// Returns the value as `repr` writes it.
pub(super) fn repr(raw: Raw<'_>) -> String {
    if let Some(text) = raw.as_str() {
        return repr_text(&text);
    }
    let list = |parts: Vec<String>| parts.join(", ");
    if raw.is_object() {
        let members = once(raw.members());
        let members = members.iter().map(|(name, value)| format!("{}: {}", repr_text(name), repr(*value)));
        return format!("{{{}}}", list(members.collect()));
    }
    if raw.is_array() {
        return format!("[{}]", list(raw.elements().map(repr).collect()));
    }
    match raw.text() {
        "true" => "True".to_owned(),
        "false" => "False".to_owned(),
        "null" => "None".to_owned(),
        _ => number(raw),
    }
}

/// Returns the text as `repr` writes it: in single quotes, unless it contains single quotes and no double quotes.
pub(super) fn repr_text(text: &str) -> String {
    let quote = if text.contains('\'') && !text.contains('"') { '"' } else { '\'' };
    let mut out = String::with_capacity(text.len() + 2);
    out.push(quote);
    for character in text.chars() {
        match character {
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            other if other == quote => {
                out.push('\\');
                out.push(other);
            }
            other if other < ' ' || ('\u{7f}'..='\u{a0}').contains(&other) || other == '\u{ad}' => {
                let _ = write!(out, "\\x{:02x}", other as u32);
            }
            other => out.push(other),
        }
    }
    out.push(quote);
    out
}

/// Returns the texts as `repr` writes a list of them.
pub(super) fn repr_list<'t>(texts: impl IntoIterator<Item = &'t str>) -> String {
    let texts: Vec<String> = texts.into_iter().map(repr_text).collect();
    format!("[{}]", texts.join(", "))
}

/// Returns a number as Python writes it after parsing: integers unchanged, floats in their shortest form.
fn number(raw: Raw<'_>) -> String {
    let text = raw.text();
    let is_float = text.starts_with(['-', '0', '1', '2', '3', '4', '5', '6', '7', '8', '9'])
        && text.contains(['.', 'e', 'E']);
    match text.parse::<f64>() {
        Ok(value) if is_float => float(value),
        Ok(_) | Err(_) => {
            if text == "-0" {
                "0".to_owned()
            } else {
                text.to_owned()
            }
        }
    }
}

/// Returns a float as `repr` writes it: with an exponent below 1e-4 and from 1e16 on.
fn float(value: f64) -> String {
    if value.is_infinite() {
        return if value > 0.0 { "Infinity" } else { "-Infinity" }.to_owned();
    }
    let shortest = format!("{value:e}");
    let Some((digits, exponent)) = shortest.split_once('e') else { return shortest };
    match exponent.parse::<i32>() {
        Ok(exponent) if value != 0.0 && !(-4..16).contains(&exponent) => {
            let sign = if exponent < 0 { '-' } else { '+' };
            format!("{digits}e{sign}{:02}", exponent.abs())
        }
        Ok(_) | Err(_) => {
            let plain = format!("{value}");
            if plain.contains('.') { plain } else { format!("{plain}.0") }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The expected texts are those of Python 3.13.
    #[test]
    fn values_are_written_as_python_writes_them() {
        for (json, dumped, shown) in [
            (
                r#"{"a":[1,2.0,-0],"é\n":"\"𝄞"}"#,
                r#"{"a": [1, 2.0, 0], "\u00e9\n": "\"\ud834\udd1e"}"#,
                r#"{'a': [1, 2.0, 0], 'é\n': '"𝄞'}"#,
            ),
            (r#"{"x":1,"y":2,"x":3}"#, r#"{"x": 3, "y": 2}"#, "{'x': 3, 'y': 2}"),
            (
                "[1e20,1e-7,0.0001,1e16,123456789012345.5,-0.0]",
                "[1e+20, 1e-07, 0.0001, 1e+16, 123456789012345.5, -0.0]",
                "[1e+20, 1e-07, 0.0001, 1e+16, 123456789012345.5, -0.0]",
            ),
            ("[true,false,null,[],{}]", "[true, false, null, [], {}]", "[True, False, None, [], {}]"),
            (r#""it's\u007f""#, r#""it's\u007f""#, "\"it's\\x7f\""),
        ] {
            let raw = Raw::parse(json).unwrap();
            let mut out = String::new();
            dumps(&mut out, raw);
            assert_eq!((out.as_str(), repr(raw).as_str()), (dumped, shown), "{json}");
        }
        assert_eq!(repr_list(["a", "b'\""]), "['a', 'b\\'\"']");
    }
}
