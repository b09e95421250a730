//! Converts MessagePack to JSON, and back to the same bytes.
//!
//! A value that JSON cannot express becomes an object with a member that begins with a dollar sign:
//! `{"$bin": "base64"}`, `{"$ext": [code, value]}`, `{"$map": [[key, value], ..]}`. LangGraph keeps objects of Python
//! classes as extensions whose bytes are MessagePack themselves, `[module, class, members, ..]`; these bytes are
//! converted, too. A value is only converted if its JSON gives the same bytes again. The crate `rmp` knows the bytes of
//! MessagePack, this file what they are in JSON. Source: `langgraph.checkpoint.serde.jsonplus` of
//! langgraph-checkpoint 4.3.

use rmp::{Marker, decode, encode};

use crate::event::foreign::{base64_decode, base64_encode};
use crate::json::{Out, Raw};

/// The maximum nesting of values. An event that holds the record must not exceed the maximum nesting of events.
const DEPTH_MAX: usize = 60;

/// The codes of the extensions whose bytes are MessagePack: objects of Python classes, and a wrapped value.
const READ_THROUGH: std::ops::RangeInclusive<i8> = 0..=7;

/// Returns the value as JSON text. `None` if the bytes are not MessagePack, nest too deep, or are not in the shortest
/// form, so that the JSON would not give the same bytes.
pub(super) fn to_json(bytes: &[u8]) -> Option<String> {
    let (mut rest, mut out) = (bytes, Out::default());
    value(&mut rest, 0, &mut out)?;
    let json = out.finish();
    (rest.is_empty() && from_json(Raw::parse(&json).ok()?).as_deref() == Some(bytes)).then_some(json)
}

/// Returns the MessagePack bytes of JSON from [`to_json`]. `None` if the JSON is invalid as such.
pub(super) fn from_json(json: Raw<'_>) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    write(json, 0, &mut bytes)?;
    Some(bytes)
}

/// Returns the next `length` bytes, and moves the slice behind them.
fn take<'a>(bytes: &mut &'a [u8], length: u32) -> Option<&'a [u8]> {
    let (taken, rest) = bytes.split_at_checked(usize::try_from(length).ok()?)?;
    *bytes = rest;
    Some(taken)
}

/// Reads a value at the beginning of the bytes, and moves the slice behind it.
fn value(bytes: &mut &[u8], depth: usize, out: &mut Out) -> Option<()> {
    if depth > DEPTH_MAX {
        return None;
    }
    match Marker::from_u8(*bytes.first()?) {
        Marker::Null => {
            decode::read_nil(bytes).ok()?;
            out.raw("null");
        }
        Marker::True | Marker::False => out.raw(&decode::read_bool(bytes).ok()?.to_string()),
        Marker::FixPos(_) | Marker::U8 | Marker::U16 | Marker::U32 | Marker::U64 => {
            out.raw(&decode::read_int::<u64, _>(bytes).ok()?.to_string());
        }
        Marker::FixNeg(_) | Marker::I8 | Marker::I16 | Marker::I32 | Marker::I64 => {
            out.raw(&decode::read_int::<i64, _>(bytes).ok()?.to_string());
        }
        Marker::F64 => {
            let number = decode::read_f64(bytes).ok()?;
            // The shortest form that reads as the same number, with a point or an exponent: a float, no integer.
            let text = number.is_finite().then(|| format!("{number:?}"))?;
            out.raw(&text);
        }
        Marker::FixStr(_) | Marker::Str8 | Marker::Str16 | Marker::Str32 => {
            let length = decode::read_str_len(bytes).ok()?;
            out.text(std::str::from_utf8(take(bytes, length)?).ok()?);
        }
        Marker::Bin8 | Marker::Bin16 | Marker::Bin32 => {
            let length = decode::read_bin_len(bytes).ok()?;
            binary(take(bytes, length)?, out);
        }
        Marker::FixArray(_) | Marker::Array16 | Marker::Array32 => array(bytes, depth, out)?,
        Marker::FixMap(_) | Marker::Map16 | Marker::Map32 => map(bytes, depth, out)?,
        Marker::FixExt1
        | Marker::FixExt2
        | Marker::FixExt4
        | Marker::FixExt8
        | Marker::FixExt16
        | Marker::Ext8
        | Marker::Ext16
        | Marker::Ext32 => extension(bytes, depth, out)?,
        // `number` writes no 32-bit floats.
        Marker::F32 | Marker::Reserved => return None,
    }
    Some(())
}

fn array(bytes: &mut &[u8], depth: usize, out: &mut Out) -> Option<()> {
    let length = decode::read_array_len(bytes).ok()?;
    out.open("[");
    for place in 0..length {
        if place > 0 {
            out.raw(",");
        }
        value(bytes, depth + 1, out)?;
    }
    out.close("]");
    Some(())
}

fn map(bytes: &mut &[u8], depth: usize, out: &mut Out) -> Option<()> {
    let length = decode::read_map_len(bytes).ok()?;
    let mut entries = Vec::new();
    for _ in 0..length {
        let (mut key, mut member) = (Out::default(), Out::default());
        value(bytes, depth + 1, &mut key)?;
        value(bytes, depth + 1, &mut member)?;
        entries.push((key.finish(), member.finish()));
    }
    let plain = entries.iter().all(|(key, _)| key.starts_with('"') && !key.starts_with("\"$"));
    let (open, between, close) = if plain { ("", ":", "") } else { ("[", ",", "]") };
    out.open(if plain { "{" } else { "{\"$map\":[" });
    for (place, (key, value)) in entries.iter().enumerate() {
        let comma = if place > 0 { "," } else { "" };
        out.raw(&format!("{comma}{open}{key}{between}{value}{close}"));
    }
    out.close(if plain { "}" } else { "]}" });
    Some(())
}

fn extension(bytes: &mut &[u8], depth: usize, out: &mut Out) -> Option<()> {
    let meta = decode::read_ext_meta(bytes).ok()?;
    let content = take(bytes, meta.size)?;
    out.raw(&format!("{{\"$ext\":[{},", meta.typeid));
    let (mut rest, mut read) = (content, Out::default());
    let through = READ_THROUGH.contains(&meta.typeid) && value(&mut rest, depth + 1, &mut read).is_some();
    if through && rest.is_empty() {
        out.raw(&read.finish());
    } else {
        binary(content, out);
    }
    out.close("]}");
    Some(())
}

fn binary(bytes: &[u8], out: &mut Out) {
    out.open("{");
    out.constant("$bin", &base64_encode(bytes));
    out.close("}");
}

fn write(json: Raw<'_>, depth: usize, bytes: &mut Vec<u8>) -> Option<()> {
    if depth > DEPTH_MAX {
        return None;
    }
    if let Some(text) = json.as_str() {
        return write_text(&text, bytes);
    }
    if json.is_array() {
        let elements: Vec<Raw<'_>> = json.elements().collect();
        encode::write_array_len(bytes, length(elements.len())?).ok()?;
        return elements.into_iter().try_for_each(|element| write(element, depth + 1, bytes));
    }
    if json.is_object() {
        return write_object(json, depth, bytes);
    }
    match json.text() {
        "null" => encode::write_nil(bytes).ok(),
        "false" => encode::write_bool(bytes, false).ok(),
        "true" => encode::write_bool(bytes, true).ok(),
        number => write_number(number, bytes),
    }
}

fn write_text(text: &str, bytes: &mut Vec<u8>) -> Option<()> {
    encode::write_str_len(bytes, length(text.len())?).ok()?;
    bytes.extend_from_slice(text.as_bytes());
    Some(())
}

fn write_object(json: Raw<'_>, depth: usize, bytes: &mut Vec<u8>) -> Option<()> {
    let members: Vec<_> = json.members().collect();
    match members.as_slice() {
        [(name, value)] if name == "$bin" => {
            let content = base64_decode(&value.as_str()?)?;
            encode::write_bin_len(bytes, length(content.len())?).ok()?;
            bytes.extend_from_slice(&content);
            return Some(());
        }
        [(name, value)] if name == "$ext" => return write_extension(*value, depth, bytes),
        [(name, value)] if name == "$map" => {
            let entries: Vec<Raw<'_>> = value.elements().collect();
            encode::write_map_len(bytes, length(entries.len())?).ok()?;
            for entry in entries {
                let mut pair = entry.elements();
                write(pair.next()?, depth + 1, bytes)?;
                write(pair.next()?, depth + 1, bytes)?;
            }
            return Some(());
        }
        _ => {}
    }
    encode::write_map_len(bytes, length(members.len())?).ok()?;
    for (name, value) in members {
        write_text(&name, bytes)?;
        write(value, depth + 1, bytes)?;
    }
    Some(())
}

fn write_extension(json: Raw<'_>, depth: usize, bytes: &mut Vec<u8>) -> Option<()> {
    let mut parts = json.elements();
    let code = i8::try_from(parts.next()?.as_i64()?).ok()?;
    let inner = parts.next()?;
    let content = match inner.get("$bin") {
        Some(binary) => base64_decode(&binary.as_str()?)?,
        None => {
            let mut content = Vec::new();
            write(inner, depth + 1, &mut content)?;
            content
        }
    };
    encode::write_ext_meta(bytes, length(content.len())?, code).ok()?;
    bytes.extend_from_slice(&content);
    Some(())
}

/// Writes a number in its shortest form. A number with a point or an exponent is a float.
fn write_number(text: &str, bytes: &mut Vec<u8>) -> Option<()> {
    if text.contains(['.', 'e', 'E']) {
        encode::write_f64(bytes, text.parse().ok()?).ok()
    } else if let Ok(number) = text.parse::<u64>() {
        encode::write_uint(bytes, number).ok().map(drop)
    } else {
        encode::write_sint(bytes, text.parse().ok()?).ok().map(drop)
    }
}

/// Returns a length as MessagePack has it. `None` if it is too large.
fn length(length: usize) -> Option<u32> {
    u32::try_from(length).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_go_to_json_and_back_to_the_same_bytes() {
        let long = format!("\"{}\"", "x".repeat(70_000));
        for json in [
            "null",
            "[0,127,128,255,256,65535,65536,4294967295,4294967296,18446744073709551615]",
            "[-1,-32,-33,-128,-129,-32768,-32769,-2147483648,-2147483649,-9223372036854775808]",
            "[1.5,1.0,-0.0,1e300,5e-324]",
            r#"{"a":true,"b":{"c":[false,"\u0000\"é"]}}"#,
            r#"{"$bin":"AP8="}"#,
            r#"{"$map":[[7,"hi"],["$a",1]]}"#,
            r#"{"$ext":[5,["m","Human",{"content":"hi","id":null},"model_validate_json"]]}"#,
            r#"{"$ext":[0,["m","C",{"$ext":[7,[1]]}]]}"#,
            r#"{"$ext":[99,{"$bin":"Bw=="}]}"#,
            r#"{"$ext":[-1,{"$bin":"ZgAAAA=="}]}"#, // a time of MessagePack's own
            long.as_str(),
            "[[],{},\"\"]",
        ] {
            let bytes = from_json(Raw::parse(json).unwrap()).unwrap_or_else(|| panic!("{json:.80}"));
            let back = to_json(&bytes).unwrap_or_else(|| panic!("{json:.80}"));
            assert_eq!(from_json(Raw::parse(&back).unwrap()), Some(bytes));
            if json.len() < 1000 && !json.contains("\\u") {
                assert_eq!(back, json);
            }
        }
    }

    #[test]
    fn bytes_that_json_would_not_give_again_are_not_converted() {
        let deep = vec![0x91; 1_000_000];
        for bytes in [
            &b""[..],
            b"\x92\x01",
            b"\xa5hi",
            b"\xc1",
            b"\xdd\xff\xff\xff\xff",
            b"\xc0\xc0",
            b"\xcc\x07",                 // a number that is not in its shortest form
            b"\xa1\xff",                 // text that is not UTF-8
            b"\xcb\x7f\xf8\0\0\0\0\0\0", // NaN
            b"\xca\x3f\xc0\0\0",         // a 32-bit float
            &deep,
        ] {
            assert_eq!(to_json(bytes), None, "{:?}", &bytes[..bytes.len().min(8)]);
        }
        // The content of an extension stays bytes if it is not MessagePack.
        assert_eq!(to_json(b"\xd4\x05\xc1").as_deref(), Some(r#"{"$ext":[5,{"$bin":"wQ=="}]}"#));
    }
}
