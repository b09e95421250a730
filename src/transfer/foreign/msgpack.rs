//! MessagePack as LangGraph writes it, read as JSON.
//!
//! Objects of Python classes, which it keeps as extensions, become what LangChain's own JSON has for them:
//! `{"lc": 2, "type": "constructor", "id": [module, class], "kwargs": {..}}`. Source: the MessagePack
//! specification; `langgraph.checkpoint.serde.jsonplus` of langgraph-checkpoint 4.3.

use crate::event::dump::Out;
use crate::event::foreign::base64_encode;

/// How deep values may nest.
const DEPTH_MAX: usize = 100;

/// The extensions: constructors and methods with one argument, with several, with named ones; pydantic objects of
/// both versions; an array; a wrapped value.
const SINGLE: i8 = 0;
const POSITIONAL: i8 = 1;
const NAMED: i8 = 2;
const METHOD: i8 = 3;
const PYDANTIC_1: i8 = 4;
const PYDANTIC_2: i8 = 5;
const SNAPSHOT: i8 = 7;

/// The value as JSON text; `None` where the bytes are no MessagePack, or nest too deep.
pub(super) fn to_json(bytes: &[u8]) -> Option<String> {
    let mut reader = Reader { bytes, at: 0, out: Out::default() };
    reader.value(0)?;
    (reader.at == bytes.len()).then(|| reader.out.finish())
}

struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
    out: Out,
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

    /// A length of 1, 2 or 4 bytes.
    fn length(&mut self, bytes: usize) -> Option<usize> {
        let number = self.take(bytes)?.iter().fold(0u64, |number, byte| number << 8 | u64::from(*byte));
        usize::try_from(number).ok()
    }

    fn value(&mut self, depth: usize) -> Option<()> {
        if depth > DEPTH_MAX {
            return None;
        }
        let tag = *self.take(1)?.first()?;
        match tag {
            0x00..=0x7f => self.out.raw(&tag.to_string()),
            0x80..=0x8f => self.map(usize::from(tag & 0x0f), depth)?,
            0x90..=0x9f => self.array(usize::from(tag & 0x0f), depth)?,
            0xa0..=0xbf => self.text(usize::from(tag & 0x1f))?,
            0xc0 => self.out.raw("null"),
            0xc1 => return None,
            0xc2 => self.out.raw("false"),
            0xc3 => self.out.raw("true"),
            0xc4..=0xc6 => {
                let length = self.length(1 << (tag - 0xc4))?;
                let bytes = self.take(length)?;
                self.wrapped("base64", &base64_encode(bytes));
            }
            0xc7..=0xc9 => {
                let length = self.length(1 << (tag - 0xc7))?;
                self.extension(length, depth)?;
            }
            0xca => {
                let number = f64::from(f32::from_be_bytes(self.number()?));
                self.float(number);
            }
            0xcb => {
                let number = f64::from_be_bytes(self.number()?);
                self.float(number);
            }
            0xcc => self.integer(|bytes: [u8; 1]| u64::from(bytes[0]))?,
            0xcd => self.integer(|bytes| u64::from(u16::from_be_bytes(bytes)))?,
            0xce => self.integer(|bytes| u64::from(u32::from_be_bytes(bytes)))?,
            0xcf => self.integer(u64::from_be_bytes)?,
            0xd0 => self.integer(|bytes| i64::from(i8::from_be_bytes(bytes)))?,
            0xd1 => self.integer(|bytes| i64::from(i16::from_be_bytes(bytes)))?,
            0xd2 => self.integer(|bytes| i64::from(i32::from_be_bytes(bytes)))?,
            0xd3 => self.integer(i64::from_be_bytes)?,
            0xd4..=0xd8 => self.extension(1 << (tag - 0xd4), depth)?,
            0xd9..=0xdb => {
                let length = self.length(1 << (tag - 0xd9))?;
                self.text(length)?;
            }
            0xdc | 0xdd => {
                let length = self.length(if tag == 0xdc { 2 } else { 4 })?;
                self.array(length, depth)?;
            }
            0xde | 0xdf => {
                let length = self.length(if tag == 0xde { 2 } else { 4 })?;
                self.map(length, depth)?;
            }
            0xe0..=0xff => self.out.raw(&tag.cast_signed().to_string()),
        }
        Some(())
    }

    fn integer<const N: usize, T: ToString>(&mut self, read: impl Fn([u8; N]) -> T) -> Option<()> {
        let number = read(self.number()?);
        self.out.raw(&number.to_string());
        Some(())
    }

    /// What JSON has no number for is null.
    fn float(&mut self, number: f64) {
        if number.is_finite() { self.out.float(number) } else { self.out.raw("null") }
    }

    fn text(&mut self, length: usize) -> Option<()> {
        let bytes = self.take(length)?;
        match std::str::from_utf8(bytes) {
            Ok(text) => self.out.text(text),
            Err(_) => self.out.text(&String::from_utf8_lossy(bytes)),
        }
        Some(())
    }

    fn array(&mut self, length: usize, depth: usize) -> Option<()> {
        self.out.open("[");
        for place in 0..length {
            if place > 0 {
                self.out.raw(",");
            }
            self.value(depth + 1)?;
        }
        self.out.close("]");
        Some(())
    }

    fn map(&mut self, length: usize, depth: usize) -> Option<()> {
        self.out.open("{");
        for place in 0..length {
            if place > 0 {
                self.out.raw(",");
            }
            // A key that is no text becomes the text of its JSON.
            let mut key = Reader { bytes: self.bytes, at: self.at, out: Out::default() };
            key.value(depth + 1)?;
            self.at = key.at;
            let key = key.out.finish();
            if key.starts_with('"') {
                self.out.raw(&key);
            } else {
                self.out.text(&key);
            }
            self.out.raw(":");
            self.value(depth + 1)?;
        }
        self.out.close("}");
        Some(())
    }

    fn wrapped(&mut self, name: &str, text: &str) {
        self.out.open("{");
        self.out.constant(name, text);
        self.out.close("}");
    }

    fn extension(&mut self, length: usize, depth: usize) -> Option<()> {
        let code = i8::from_be_bytes(self.number()?);
        let bytes = self.take(length)?;
        let mut inner = Reader { bytes, at: 0, out: Out::default() };
        match code {
            SNAPSHOT => {
                inner.value(depth + 1)?;
                self.out.raw(&inner.out.finish());
            }
            SINGLE | POSITIONAL | NAMED | METHOD | PYDANTIC_1 | PYDANTIC_2 => {
                inner.value(depth + 1)?;
                let parts = inner.out.finish();
                let parts = crate::event::json::Raw::parse(&parts).ok()?;
                let mut parts = parts.elements();
                let (module, class, given) = (parts.next()?, parts.next()?, parts.next()?);
                self.out.open("{\"lc\":2,\"type\":\"constructor\",\"id\":[");
                self.out.raw(module.text());
                self.out.raw(",");
                self.out.raw(class.text());
                self.out.raw(if given.is_object() { "],\"kwargs\":" } else { "],\"args\":" });
                self.out.raw(given.text());
                self.out.close("}");
            }
            _ => {
                self.out.open("{");
                self.out.key("extension");
                self.out.raw(&code.to_string());
                self.out.constant("base64", &base64_encode(bytes));
                self.out.close("}");
            }
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_read_as_json() {
        for (bytes, json) in [
            (&b"\xc0"[..], "null"),
            (b"\x93\x01\xff\xcb\x3f\xf8\0\0\0\0\0\0", "[1,-1,1.5]"),
            (b"\x82\xa1a\xc3\x07\xa2hi", r#"{"a":true,"7":"hi"}"#),
            (b"\xcf\xff\xff\xff\xff\xff\xff\xff\xff", "18446744073709551615"),
            (b"\xc4\x02\x00\xff", r#"{"base64":"AP8="}"#),
            (b"\xcb\x7f\xf8\0\0\0\0\0\0", "null"),
            (b"\xd4\x63\x07", r#"{"extension":99,"base64":"Bw=="}"#),
            (
                b"\xc7\x0d\x05\x93\xa1m\xa5Human\x81\xa1c\x01",
                r#"{"lc":2,"type":"constructor","id":["m","Human"],"kwargs":{"c":1}}"#,
            ),
            (b"\xdc\x00\x01\x80", "[{}]"),
        ] {
            assert_eq!(to_json(bytes).as_deref(), Some(json));
        }
    }

    #[test]
    fn what_is_cut_or_deep_is_none() {
        let deep = vec![0x91; 1_000_000];
        for bytes in [
            &b""[..],
            b"\x92\x01",
            b"\xa5hi",
            b"\xc1",
            b"\xdd\xff\xff\xff\xff",
            b"\xc0\xc0",
            b"\xc7\x01\x05\xc0",
            &deep,
        ] {
            assert_eq!(to_json(bytes), None, "{:?}", &bytes[..bytes.len().min(8)]);
        }
    }
}
