//! Converts a row of another program's database into a record: a JSON object of its columns. The row can be written
//! again from it with the same values.

use super::msgpack;
use crate::event::foreign::{base64_decode, base64_encode};
use crate::json::{Out, Raw};
use crate::store::ForeignValue;

/// Returns the row as JSON, with the columns in order.
///
/// Bytes are `{"utf8": ".."}`, `{"msgpack": ..}` or `{"base64": ".."}`: the first form that gives the same bytes again,
/// so that their text can be searched and redacted. Text that is not UTF-8 is `{"text_base64": ".."}`, an infinite
/// number is `{"real": "inf"}`.
pub(super) fn to_json(columns: &[String], values: &[ForeignValue]) -> String {
    let mut out = Out::default();
    out.open("{");
    for (column, value) in columns.iter().zip(values) {
        out.key(column);
        match value {
            ForeignValue::Null => out.raw("null"),
            ForeignValue::Integer(number) => out.raw(&number.to_string()),
            ForeignValue::Real(number) if number.is_finite() => out.raw(&format!("{number:?}")),
            ForeignValue::Real(number) => wrapped(&mut out, "real", &number.to_string()),
            ForeignValue::Text(bytes) => match std::str::from_utf8(bytes) {
                Ok(text) => out.text(text),
                Err(_) => wrapped(&mut out, "text_base64", &base64_encode(bytes)),
            },
            ForeignValue::Blob(bytes) => match (std::str::from_utf8(bytes), msgpack::to_json(bytes)) {
                (Ok(text), _) => wrapped(&mut out, "utf8", text),
                (Err(_), Some(json)) => out.raw(&format!("{{\"msgpack\":{json}}}")),
                (Err(_), None) => wrapped(&mut out, "base64", &base64_encode(bytes)),
            },
        }
    }
    out.close("}");
    out.finish()
}

fn wrapped(out: &mut Out, name: &str, text: &str) {
    out.open("{");
    out.constant(name, text);
    out.close("}");
}

/// Returns the row for an object from [`to_json`]. `None` if it is no such object.
pub(super) fn from_json(record: Raw<'_>) -> Option<Vec<(String, ForeignValue)>> {
    record.members().map(|(column, value)| Some((column.into_owned(), value_of(value)?))).collect()
}

fn value_of(value: Raw<'_>) -> Option<ForeignValue> {
    if value.is_null() {
        return Some(ForeignValue::Null);
    }
    if let Some(text) = value.as_str() {
        return Some(ForeignValue::Text(text.into_owned().into_bytes()));
    }
    if let Some(number) = value.as_i64() {
        return Some(ForeignValue::Integer(number));
    }
    if let Some(number) = value.as_f64() {
        return Some(ForeignValue::Real(number));
    }
    let text = |member: &str| value.get(member).and_then(Raw::as_str);
    if let Some(text) = text("utf8") {
        return Some(ForeignValue::Blob(text.into_owned().into_bytes()));
    }
    if let Some(json) = value.get("msgpack") {
        return msgpack::from_json(json).map(ForeignValue::Blob);
    }
    if let Some(base64) = text("base64") {
        return base64_decode(&base64).map(ForeignValue::Blob);
    }
    if let Some(base64) = text("text_base64") {
        return base64_decode(&base64).map(ForeignValue::Text);
    }
    text("real").and_then(|number| number.parse().ok()).map(ForeignValue::Real)
}

/// Returns a column's value as JSON. `None` if it is neither MessagePack nor JSON text.
pub(super) fn json(value: Raw<'_>) -> Option<String> {
    if let Some(json) = value.get("msgpack") {
        return Some(json.text().to_owned());
    }
    let text = match value_of(value)? {
        ForeignValue::Blob(bytes) | ForeignValue::Text(bytes) => String::from_utf8(bytes).ok()?,
        ForeignValue::Null | ForeignValue::Integer(_) | ForeignValue::Real(_) => return None,
    };
    Raw::parse(&text).is_ok().then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_becomes_json_and_back() {
        let values = [
            ForeignValue::Null,
            ForeignValue::Integer(i64::MIN),
            ForeignValue::Integer(7),
            ForeignValue::Real(1.0),
            ForeignValue::Real(-0.0),
            ForeignValue::Real(1.5e-300),
            ForeignValue::Real(f64::INFINITY),
            ForeignValue::Text(b"a \"b\" \0 \n \xf0\x9f\x98\x80".to_vec()),
            ForeignValue::Text(vec![0xff, 0xfe]),
            ForeignValue::Blob(vec![0, 1, 0xff]),
            ForeignValue::Blob(Vec::new()),
            ForeignValue::Blob(b"{\"a\": 1}".to_vec()),
            ForeignValue::Blob(b"\x81\xa1a\x93\x01\xc3\xcb\x3f\xf8\0\0\0\0\0\0".to_vec()),
        ];
        let columns: Vec<String> = (0..values.len()).map(|at| format!("column {at}")).collect();
        let json = to_json(&columns, &values);
        let back = from_json(Raw::parse(&json).unwrap()).unwrap();
        let expected: Vec<(String, ForeignValue)> = columns.into_iter().zip(values).collect();
        assert_eq!(back, expected, "{json}");
        assert!(
            json.ends_with(r#"{"utf8":"{\"a\": 1}"},"column 12":{"msgpack":{"a":[1,true,1.5]}}}"#),
            "{json}"
        );
        assert!(json.contains("\"column 3\":1.0,\"column 4\":-0.0,"), "{json}");
        assert_eq!(from_json(Raw::parse(r#"{"a":{"base64":"*"}}"#).unwrap()), None);
    }
}
