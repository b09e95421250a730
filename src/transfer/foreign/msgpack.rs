//! Converts MessagePack to JSON, and back to the same bytes.
//!
//! A value that JSON cannot express becomes an object with a member that begins with a dollar sign:
//! `{"$bin": "base64"}`, `{"$ext": [code, value]}`, `{"$map": [[key, value], ..]}`. LangGraph keeps objects of Python
//! classes as extensions whose bytes are MessagePack themselves, `[module, class, members, ..]`; these bytes are
//! converted, too. A value is only converted if its JSON gives the same bytes again. Source: the MessagePack
//! specification; `langgraph.checkpoint.serde.jsonplus` of langgraph-checkpoint 4.3.

use crate::event::foreign::{base64_decode, base64_encode};
use crate::json::{Out, Raw};

/// The maximum nesting of values. An event that holds the record must not exceed the maximum nesting of events.
const DEPTH_MAX: usize = 60;

/// The codes of the extensions whose bytes are MessagePack: objects of Python classes, and a wrapped value.
const READ_THROUGH: std::ops::RangeInclusive<i8> = 0..=7;

/// Returns the value as JSON text. `None` if the bytes are not MessagePack, nest too deep, or are not in the shortest
/// form, so that the JSON would not give the same bytes.
pub(super) fn to_json(bytes: &[u8]) -> Option<String> {
    let mut reader = Reader { bytes, at: 0 };
    let mut out = Out::default();
    reader.value(0, &mut out)?;
    let json = out.finish();
    let whole = reader.at == bytes.len();
    (whole && from_json(Raw::parse(&json).ok()?).as_deref() == Some(bytes)).then_some(json)
}

/// Returns the MessagePack bytes of JSON from [`to_json`]. `None` if the JSON is invalid as such.
pub(super) fn from_json(json: Raw<'_>) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    write(json, 0, &mut bytes)?;
    Some(bytes)
}

struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let taken = self.bytes.get(self.at..self.at.checked_add(length)?)?;
        self.at += length;
        Some(taken)
    }

    fn number<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.take(N)?.try_into().ok()
    }

    /// Reads a length of 1, 2 or 4 bytes.
    fn length(&mut self, bytes: usize) -> Option<usize> {
        let number = self.take(bytes)?.iter().fold(0u64, |number, byte| number << 8 | u64::from(*byte));
        usize::try_from(number).ok()
    }

    fn value(&mut self, depth: usize, out: &mut Out) -> Option<()> {
        if depth > DEPTH_MAX {
            return None;
        }
        let tag = *self.take(1)?.first()?;
        match tag {
            0x00..=0x7f => out.raw(&tag.to_string()),
            0x80..=0x8f => self.map(usize::from(tag & 0x0f), depth, out)?,
            0x90..=0x9f => self.array(usize::from(tag & 0x0f), depth, out)?,
            0xa0..=0xbf => self.text(usize::from(tag & 0x1f), out)?,
            0xc0 => out.raw("null"),
            0xc2 => out.raw("false"),
            0xc3 => out.raw("true"),
            0xc4..=0xc6 => {
                let length = self.length(1 << (tag - 0xc4))?;
                binary(self.take(length)?, out);
            }
            0xc7..=0xc9 => {
                let length = self.length(1 << (tag - 0xc7))?;
                self.extension(length, depth, out)?;
            }
            0xcb => {
                let number = f64::from_be_bytes(self.number()?);
                // The shortest form that reads as the same number, with a point or an exponent: a float, no integer.
                let text = number.is_finite().then(|| format!("{number:?}"))?;
                out.raw(&text);
            }
            0xcc => out.raw(&u8::from_be_bytes(self.number()?).to_string()),
            0xcd => out.raw(&u16::from_be_bytes(self.number()?).to_string()),
            0xce => out.raw(&u32::from_be_bytes(self.number()?).to_string()),
            0xcf => out.raw(&u64::from_be_bytes(self.number()?).to_string()),
            0xd0 => out.raw(&i8::from_be_bytes(self.number()?).to_string()),
            0xd1 => out.raw(&i16::from_be_bytes(self.number()?).to_string()),
            0xd2 => out.raw(&i32::from_be_bytes(self.number()?).to_string()),
            0xd3 => out.raw(&i64::from_be_bytes(self.number()?).to_string()),
            0xd4..=0xd8 => self.extension(1 << (tag - 0xd4), depth, out)?,
            0xd9..=0xdb => {
                let length = self.length(1 << (tag - 0xd9))?;
                self.text(length, out)?;
            }
            0xdc | 0xdd => {
                let length = self.length(if tag == 0xdc { 2 } else { 4 })?;
                self.array(length, depth, out)?;
            }
            0xde | 0xdf => {
                let length = self.length(if tag == 0xde { 2 } else { 4 })?;
                self.map(length, depth, out)?;
            }
            0xe0..=0xff => out.raw(&tag.cast_signed().to_string()),
            0xc1 | 0xca => return None, // 0xc1 is unused; `number` writes no 32-bit floats
        }
        Some(())
    }

    fn text(&mut self, length: usize, out: &mut Out) -> Option<()> {
        out.text(std::str::from_utf8(self.take(length)?).ok()?);
        Some(())
    }

    fn array(&mut self, length: usize, depth: usize, out: &mut Out) -> Option<()> {
        out.open("[");
        for place in 0..length {
            if place > 0 {
                out.raw(",");
            }
            self.value(depth + 1, out)?;
        }
        out.close("]");
        Some(())
    }

    fn map(&mut self, length: usize, depth: usize, out: &mut Out) -> Option<()> {
        let mut entries = Vec::new();
        for _ in 0..length {
            let (mut key, mut value) = (Out::default(), Out::default());
            self.value(depth + 1, &mut key)?;
            self.value(depth + 1, &mut value)?;
            entries.push((key.finish(), value.finish()));
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

    fn extension(&mut self, length: usize, depth: usize, out: &mut Out) -> Option<()> {
        let code = i8::from_be_bytes(self.number()?);
        let bytes = self.take(length)?;
        out.raw(&format!("{{\"$ext\":[{code},"));
        let mut inner = Reader { bytes, at: 0 };
        let mut read = Out::default();
        let through = READ_THROUGH.contains(&code) && inner.value(depth + 1, &mut read).is_some();
        if through && inner.at == bytes.len() {
            out.raw(&read.finish());
        } else {
            binary(bytes, out);
        }
        out.close("]}");
        Some(())
    }
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
        length(text.len(), &[(31, 0xa0)], [0xd9, 0xda, 0xdb], bytes)?;
        bytes.extend_from_slice(text.as_bytes());
        return Some(());
    }
    if json.is_array() {
        let elements: Vec<Raw<'_>> = json.elements().collect();
        length(elements.len(), &[(15, 0x90)], [0, 0xdc, 0xdd], bytes)?;
        return elements.into_iter().try_for_each(|element| write(element, depth + 1, bytes));
    }
    if json.is_object() {
        return object(json, depth, bytes);
    }
    match json.text() {
        "null" => bytes.push(0xc0),
        "false" => bytes.push(0xc2),
        "true" => bytes.push(0xc3),
        number => self::number(number, bytes)?,
    }
    Some(())
}

fn object(json: Raw<'_>, depth: usize, bytes: &mut Vec<u8>) -> Option<()> {
    let members: Vec<_> = json.members().collect();
    match members.as_slice() {
        [(name, value)] if name == "$bin" => {
            let content = base64_decode(&value.as_str()?)?;
            length(content.len(), &[], [0xc4, 0xc5, 0xc6], bytes)?;
            bytes.extend_from_slice(&content);
            return Some(());
        }
        [(name, value)] if name == "$ext" => return extension(*value, depth, bytes),
        [(name, value)] if name == "$map" => {
            let entries: Vec<Raw<'_>> = value.elements().collect();
            length(entries.len(), &[(15, 0x80)], [0, 0xde, 0xdf], bytes)?;
            for entry in entries {
                let mut pair = entry.elements();
                write(pair.next()?, depth + 1, bytes)?;
                write(pair.next()?, depth + 1, bytes)?;
            }
            return Some(());
        }
        _ => {}
    }
    length(members.len(), &[(15, 0x80)], [0, 0xde, 0xdf], bytes)?;
    for (name, value) in members {
        length(name.len(), &[(31, 0xa0)], [0xd9, 0xda, 0xdb], bytes)?;
        bytes.extend_from_slice(name.as_bytes());
        write(value, depth + 1, bytes)?;
    }
    Some(())
}

fn extension(json: Raw<'_>, depth: usize, bytes: &mut Vec<u8>) -> Option<()> {
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
    match content.len() {
        length @ (1 | 2 | 4 | 8 | 16) => bytes.push(0xd4 + length.trailing_zeros() as u8),
        length => self::length(length, &[], [0xc7, 0xc8, 0xc9], bytes)?,
    }
    bytes.push(code.cast_unsigned());
    bytes.extend_from_slice(&content);
    Some(())
}

/// Writes a length in its shortest form: within a tag if it is small, or else after one of three tags (0: no such tag).
fn length(length: usize, short: &[(usize, u8)], tags: [u8; 3], bytes: &mut Vec<u8>) -> Option<()> {
    if let Some((_, tag)) = short.iter().find(|(most, _)| length <= *most) {
        bytes.push(tag | length as u8);
    } else if let (Ok(length), true) = (u8::try_from(length), tags[0] != 0) {
        bytes.extend_from_slice(&[tags[0], length]);
    } else if let Ok(length) = u16::try_from(length) {
        bytes.push(tags[1]);
        bytes.extend_from_slice(&length.to_be_bytes());
    } else {
        bytes.push(tags[2]);
        bytes.extend_from_slice(&u32::try_from(length).ok()?.to_be_bytes());
    }
    Some(())
}

fn number(text: &str, bytes: &mut Vec<u8>) -> Option<()> {
    if text.contains(['.', 'e', 'E']) {
        bytes.push(0xcb);
        bytes.extend_from_slice(&text.parse::<f64>().ok()?.to_be_bytes());
        return Some(());
    }
    if let Ok(number) = text.parse::<u64>() {
        match number {
            0..=0x7f => bytes.push(number as u8),
            0x80..=0xff => bytes.extend_from_slice(&[0xcc, number as u8]),
            0x100..=0xffff => {
                bytes.push(0xcd);
                bytes.extend_from_slice(&(number as u16).to_be_bytes());
            }
            0x1_0000..=0xffff_ffff => {
                bytes.push(0xce);
                bytes.extend_from_slice(&(number as u32).to_be_bytes());
            }
            _ => {
                bytes.push(0xcf);
                bytes.extend_from_slice(&number.to_be_bytes());
            }
        }
        return Some(());
    }
    let number: i64 = text.parse().ok()?;
    match number {
        -0x20..=-1 => bytes.push((number as i8).cast_unsigned()),
        -0x80..=-0x21 => bytes.extend_from_slice(&[0xd0, (number as i8).cast_unsigned()]),
        -0x8000..=-0x81 => {
            bytes.push(0xd1);
            bytes.extend_from_slice(&(number as i16).to_be_bytes());
        }
        -0x8000_0000..=-0x8001 => {
            bytes.push(0xd2);
            bytes.extend_from_slice(&(number as i32).to_be_bytes());
        }
        _ => {
            bytes.push(0xd3);
            bytes.extend_from_slice(&number.to_be_bytes());
        }
    }
    Some(())
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
