//! Reads JSON text in place: the text is checked once, and then read without building a tree.
//!
//! A payload is kept byte for byte, so nothing here changes text. Every [`Raw`] is a slice of the input. [`scan`]
//! checks a whole text in one pass (RFC 8259, plus what the reference's parser adds or forbids,
//! `docs/reference/events.md#reading-json`). During this pass, it gives the members of the outermost object to a
//! callback. After that, [`Raw::members`] and [`Raw::elements`] iterate over nested values.
//!
//! This module does not know what an event is.

use std::borrow::Cow;

use super::decode::{decode, hex4};
use super::names::Names;

/// How deep arrays and objects may nest. The reference's parser stops at 200.
pub const DEPTH_MAX: usize = 200;

/// Where and why a text is not valid JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{what} at byte {at}")]
#[non_exhaustive]
pub struct Fault {
    /// The offending byte, counted from the start of the text.
    pub at: usize,
    /// What is wrong there.
    pub what: &'static str,
}

/// Things in a checked text that a caller may want to reject.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Notes {
    /// Whether the text contains `NaN`, `Infinity` or `-Infinity`. Python writes and reads them, but they are not JSON.
    pub non_finite: bool,
    /// The byte, from 0, where a name begins that its object has already. Readers differ in which of the two members counts:
    /// the last one here and in Python, the first one in SQLite's `json_extract`. `None` if no object has a name twice, and
    /// from [`scan`], which does not look for it.
    pub repeated: Option<usize>,
}

/// One JSON value of a checked text: exactly its characters, without white space around them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Raw<'a>(&'a str);

/// The members of one object. They are read once, so that finding several of them needs only one pass.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Object<'a>(Vec<(Cow<'a, str>, Raw<'a>)>);

impl<'a> Object<'a> {
    /// Reads the members of a text that was checked before. There are none if it is not an object.
    #[must_use]
    pub fn of(checked: &'a str) -> Self {
        Raw(checked.trim_matches([' ', '\n', '\r', '\t'])).to_object()
    }

    /// Reads the members at the beginning of an object that may be damaged or cut off, as far as they can be read.
    pub(crate) fn of_beginning(text: &'a str) -> Self {
        let mut members = Vec::new();
        // What is wrong behind these members does not matter.
        let _fault = scan(text, |name, value| members.push((name, value)));
        Self(members)
    }

    /// The member called `key`, or the last one if there are several.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<Raw<'a>> {
        self.0.iter().rev().find(|(name, _)| name == key).map(|(_, value)| *value)
    }

    /// The members' names, in order.
    pub fn keys(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|(name, _)| name.as_ref())
    }

    /// The text of the member called `key`, if it is a non-empty string.
    #[must_use]
    pub fn text(&self, key: &str) -> Option<Cow<'a, str>> {
        self.get(key).and_then(Raw::as_text)
    }
}

/// Checks that `text` is one JSON object, and calls `visit` with each of its members, in order.
///
/// For a key that occurs twice, `visit` is called twice. In the reference the last one counts.
///
/// # Errors
/// [`Fault`] at the first wrong byte. The caller must then discard the members that `visit` received.
pub fn scan<'a>(text: &'a str, visit: impl FnMut(Cow<'a, str>, Raw<'a>)) -> Result<Notes, Fault> {
    Reader::new(text, 0).whole_object(visit)
}

/// Does what [`scan`] does, and looks also for a member that its object has already.
///
/// # Errors
/// As [`scan`].
pub(crate) fn scan_names<'a>(
    text: &'a str,
    visit: impl FnMut(Cow<'a, str>, Raw<'a>),
) -> Result<Notes, Fault> {
    Reader { names: Some(Names::default()), ..Reader::new(text, 0) }.whole_object(visit)
}

impl<'a> Raw<'a> {
    /// Checks that `text` is one JSON value.
    ///
    /// # Errors
    /// [`Fault`] at the first wrong byte.
    pub fn parse(text: &'a str) -> Result<Self, Fault> {
        let mut reader = Reader::new(text, 0);
        reader.white_space();
        let value = reader.value(0)?;
        reader.end()?;
        Ok(value)
    }

    /// Takes `text` as one value, which must have been checked before.
    pub(crate) fn checked(text: &'a str) -> Self {
        Self(text)
    }

    /// Reads the value at the beginning of `text`. Returns it and the text after it.
    ///
    /// # Errors
    /// [`Fault`] at the first wrong byte.
    pub fn parse_first(text: &'a str) -> Result<(Self, &'a str), Fault> {
        let mut reader = Reader::new(text, 0);
        reader.white_space();
        let value = reader.value(0)?;
        Ok((value, &text[reader.at..]))
    }

    /// The value's characters.
    #[must_use]
    pub fn text(self) -> &'a str {
        self.0
    }

    /// The offset of this value in `whole`, in bytes. `whole` is the text that the value was read from.
    #[must_use]
    pub fn offset_in(self, whole: &str) -> usize {
        (self.0.as_ptr() as usize).wrapping_sub(whole.as_ptr() as usize)
    }

    /// The decoded text of a string; `None` for every other value.
    #[must_use]
    pub fn as_str(self) -> Option<Cow<'a, str>> {
        self.0.strip_prefix('"')?.strip_suffix('"').map(decode)
    }

    /// The decoded text of a string that is not empty.
    #[must_use]
    pub fn as_text(self) -> Option<Cow<'a, str>> {
        self.as_str().filter(|text| !text.is_empty())
    }

    /// Whether the value is a string.
    #[must_use]
    pub fn is_str(self) -> bool {
        self.0.starts_with('"')
    }

    /// Whether the value is an object.
    #[must_use]
    pub fn is_object(self) -> bool {
        self.0.starts_with('{')
    }

    /// Whether the value is an array.
    #[must_use]
    pub fn is_array(self) -> bool {
        self.0.starts_with('[')
    }

    /// Whether the value is `null`.
    #[must_use]
    pub fn is_null(self) -> bool {
        self.0 == "null"
    }

    /// The number, if the value is a whole number within 64 bits.
    #[must_use]
    pub fn as_i64(self) -> Option<i64> {
        self.0.parse().ok()
    }

    /// The number, if the value is one.
    #[must_use]
    pub fn as_f64(self) -> Option<f64> {
        if self.0.starts_with(['-', '0', '1', '2', '3', '4', '5', '6', '7', '8', '9']) {
            self.0.parse().ok()
        } else {
            None
        }
    }

    /// The members of an object, in order. There are none for any other value.
    pub fn members(self) -> impl Iterator<Item = (Cow<'a, str>, Raw<'a>)> {
        let mut reader = Reader::new(self.0, 1);
        let mut more = self.is_object();
        std::iter::from_fn(move || {
            if !more {
                return None;
            }
            reader.white_space();
            let member = reader.member(0).ok()?;
            reader.white_space();
            more = reader.take(b',');
            Some(member)
        })
    }

    /// The elements of an array, in order. There are none for any other value.
    pub fn elements(self) -> impl Iterator<Item = Raw<'a>> {
        let mut reader = Reader::new(self.0, 1);
        let mut more = self.is_array();
        std::iter::from_fn(move || {
            if !more {
                return None;
            }
            reader.white_space();
            let element = reader.value(0).ok()?;
            reader.white_space();
            more = reader.take(b',');
            Some(element)
        })
    }

    /// Reads all members of an object at once. There are none for any other value.
    #[must_use]
    pub fn to_object(self) -> Object<'a> {
        Object(self.members().collect())
    }

    /// The member called `key`, or the last one if there are several.
    #[must_use]
    pub fn get(self, key: &str) -> Option<Raw<'a>> {
        self.members().filter(|(name, _)| name == key).last().map(|(_, value)| value)
    }
}

struct Reader<'a> {
    text: &'a str,
    at: usize,
    notes: Notes,
    /// `None` if it is not asked for a member that is named twice.
    names: Option<Names>,
}

impl<'a> Reader<'a> {
    fn new(text: &'a str, at: usize) -> Self {
        Self { text, at, notes: Notes::default(), names: None }
    }

    /// Reads a text that is one object.
    fn whole_object(mut self, mut visit: impl FnMut(Cow<'a, str>, Raw<'a>)) -> Result<Notes, Fault> {
        self.white_space();
        if self.peek() != Some(b'{') {
            return Err(self.fault("expected an object"));
        }
        self.object(1, &mut visit)?;
        self.end()?;
        Ok(self.notes)
    }

    fn fault(&self, what: &'static str) -> Fault {
        Fault { at: self.at, what }
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn take(&mut self, byte: u8) -> bool {
        let found = self.peek() == Some(byte);
        self.at += usize::from(found);
        found
    }

    fn white_space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\n' | b'\r' | b'\t')) {
            self.at += 1;
        }
    }

    fn end(&mut self) -> Result<(), Fault> {
        self.white_space();
        if self.at < self.text.len() { Err(self.fault("text after the end of the value")) } else { Ok(()) }
    }

    /// Reads one value; `depth` is the number of arrays and objects around it.
    fn value(&mut self, depth: usize) -> Result<Raw<'a>, Fault> {
        let start = self.at;
        match self.peek() {
            Some(b'"') => self.string()?,
            Some(b'{') => self.object(depth + 1, &mut |_, _| ())?,
            Some(b'[') => self.array(depth + 1)?,
            Some(b'-' | b'0'..=b'9') => self.number()?,
            Some(b't') => self.word("true")?,
            Some(b'f') => self.word("false")?,
            Some(b'n') => self.word("null")?,
            Some(b'N') => self.non_finite("NaN")?,
            Some(b'I') => self.non_finite("Infinity")?,
            Some(_) => return Err(self.fault("expected a value")),
            None => return Err(self.fault("the text ends where a value should be")),
        }
        Ok(Raw(&self.text[start..self.at]))
    }

    fn object(&mut self, depth: usize, visit: &mut impl FnMut(Cow<'a, str>, Raw<'a>)) -> Result<(), Fault> {
        if depth > DEPTH_MAX {
            return Err(self.fault("nested too deep"));
        }
        self.at += 1;
        self.white_space();
        if self.take(b'}') {
            return Ok(());
        }
        let base = self.names.as_ref().map_or(0, Names::len);
        loop {
            let (key, value) = self.member(depth)?;
            visit(key, value);
            self.white_space();
            if self.take(b'}') {
                self.end_names(base);
                return Ok(());
            }
            if !self.take(b',') {
                return Err(self.fault("expected ',' or '}'"));
            }
            self.white_space();
        }
    }

    fn member(&mut self, depth: usize) -> Result<(Cow<'a, str>, Raw<'a>), Fault> {
        if self.peek() != Some(b'"') {
            return Err(self.fault("expected a key in quotes"));
        }
        let start = self.at;
        self.string()?;
        let key = decode(&self.text[start + 1..self.at - 1]);
        if let Some(names) = &mut self.names {
            names.add(start, &key);
        }
        self.white_space();
        if !self.take(b':') {
            return Err(self.fault("expected ':'"));
        }
        self.white_space();
        Ok((key, self.value(depth)?))
    }

    /// Notes a name that an object has twice, whose names are those from `base` on.
    fn end_names(&mut self, base: usize) {
        let text = self.text;
        let read = |at| {
            let mut name = Reader::new(text, at);
            match name.string() {
                Ok(()) => decode(&text[at + 1..name.at - 1]),
                Err(_) => Cow::Borrowed(""),
            }
        };
        let again = self.names.as_mut().and_then(|names| names.end(base, read));
        self.notes.repeated = self.notes.repeated.or(again);
    }

    fn array(&mut self, depth: usize) -> Result<(), Fault> {
        if depth > DEPTH_MAX {
            return Err(self.fault("nested too deep"));
        }
        self.at += 1;
        self.white_space();
        if self.take(b']') {
            return Ok(());
        }
        loop {
            self.value(depth)?;
            self.white_space();
            if self.take(b']') {
                return Ok(());
            }
            if !self.take(b',') {
                return Err(self.fault("expected ',' or ']'"));
            }
            self.white_space();
        }
    }

    fn word(&mut self, word: &'static str) -> Result<(), Fault> {
        if self.text.as_bytes()[self.at..].starts_with(word.as_bytes()) {
            self.at += word.len();
            return Ok(());
        }
        Err(self.fault("expected a value"))
    }

    fn non_finite(&mut self, word: &'static str) -> Result<(), Fault> {
        self.notes.non_finite = true;
        self.word(word)
    }

    fn number(&mut self) -> Result<(), Fault> {
        if self.take(b'-') && self.peek() == Some(b'I') {
            return self.non_finite("Infinity");
        }
        if !self.take(b'0') {
            self.digits()?;
        }
        if self.take(b'.') {
            self.digits()?;
        }
        if matches!(self.peek(), Some(b'e' | b'E')) {
            self.at += 1;
            if matches!(self.peek(), Some(b'+' | b'-')) {
                self.at += 1;
            }
            self.digits()?;
        }
        Ok(())
    }

    fn digits(&mut self) -> Result<(), Fault> {
        let start = self.at;
        while matches!(self.peek(), Some(b'0'..=b'9')) {
            self.at += 1;
        }
        if self.at == start { Err(self.fault("expected a digit")) } else { Ok(()) }
    }

    /// Skips a string, from its opening quote to after its closing quote.
    fn string(&mut self) -> Result<(), Fault> {
        self.at += 1;
        loop {
            self.plain();
            match self.peek() {
                Some(b'"') => {
                    self.at += 1;
                    return Ok(());
                }
                Some(b'\\') => self.escape()?,
                Some(0..0x20) => return Err(self.fault("a control character must be escaped")),
                Some(_) => self.at += 1,
                None => return Err(self.fault("the text ends inside a string")),
            }
        }
    }

    /// Skips bytes without a special meaning, eight at a time. Stops at a quote, a backslash or a control character, or
    /// when fewer than eight bytes are left.
    fn plain(&mut self) {
        const ONES: u64 = 0x0101_0101_0101_0101;
        const HIGH: u64 = 0x8080_8080_8080_8080;
        let bytes = self.text.as_bytes();
        while let Some(chunk) = bytes.get(self.at..).and_then(|rest| rest.first_chunk::<8>()) {
            let word = u64::from_le_bytes(*chunk);
            let quote = word ^ (ONES * 0x22);
            let backslash = word ^ (ONES * 0x5c);
            let hits = ((quote.wrapping_sub(ONES) & !quote)
                | (backslash.wrapping_sub(ONES) & !backslash)
                | (word.wrapping_sub(ONES * 0x20) & !word))
                & HIGH;
            if hits != 0 {
                // A borrow only affects higher bytes, so the lowest hit is always correct.
                self.at += (hits.trailing_zeros() / 8) as usize;
                return;
            }
            self.at += 8;
        }
    }

    fn escape(&mut self) -> Result<(), Fault> {
        let bytes = self.text.as_bytes();
        match bytes.get(self.at + 1) {
            Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => self.at += 2,
            Some(b'u') => {
                let code = bytes.get(self.at + 2..).and_then(hex4);
                let Some(code) = code else { return Err(self.fault("expected four hex digits after \\u")) };
                match code {
                    0xd800..0xdc00 => {
                        let low = bytes
                            .get(self.at + 6..)
                            .and_then(|rest| rest.strip_prefix(b"\\u"))
                            .and_then(hex4)
                            .filter(|low| (0xdc00..0xe000).contains(low));
                        if low.is_none() {
                            return Err(self.fault("half of a surrogate pair is not text"));
                        }
                        self.at += 12;
                    }
                    0xdc00..0xe000 => return Err(self.fault("half of a surrogate pair is not text")),
                    _ => self.at += 6,
                }
            }
            Some(_) => return Err(self.fault("unknown escape")),
            None => return Err(self.fault("the text ends inside a string")),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn whole(text: &str) -> Result<Notes, Fault> {
        let mut reader = Reader::new(text, 0);
        reader.white_space();
        reader.value(0)?;
        reader.end()?;
        Ok(reader.notes)
    }

    #[test]
    fn members_are_found_with_their_places() {
        let text = r#" {"a": "x\u00e9\n", "b":[1, {"c":null}], "a":-2.5e3 } "#;
        let mut seen = Vec::new();
        scan(text, |key, raw| seen.push((key.into_owned(), raw.text(), raw.offset_in(text)))).unwrap();
        assert_eq!(
            seen,
            [
                ("a".into(), r#""x\u00e9\n""#, 7),
                ("b".into(), r#"[1, {"c":null}]"#, 24),
                ("a".into(), "-2.5e3", 45)
            ]
        );
        let object = Raw::parse(text).unwrap();
        assert_eq!(object.get("a").unwrap().as_f64(), Some(-2500.0));
        let elements: Vec<_> = object.get("b").unwrap().elements().collect();
        assert_eq!(elements[0].as_i64(), Some(1));
        assert!(elements[1].get("c").unwrap().is_null());
        assert_eq!(Raw::parse(r#""\ud83d\ude00\/""#).unwrap().as_str().unwrap(), "😀/");
        assert_eq!(Raw::parse("{ }").unwrap().members().count(), 0);
        assert_eq!(Raw::parse("[\n]").unwrap().elements().count(), 0);
    }

    #[test]
    fn faults_name_the_byte_and_the_reason() {
        for (text, at, what) in [
            ("", 0, "the text ends where a value should be"),
            ("{\"a\":1", 6, "expected ',' or '}'"),
            ("{\"a\":1,}", 7, "expected a key in quotes"),
            ("[01]", 2, "expected ',' or ']'"),
            ("\"\u{1}\"", 1, "a control character must be escaped"),
            ("\"abcdefgh\n\"", 9, "a control character must be escaped"),
            (r#""\ud800""#, 1, "half of a surrogate pair is not text"),
            (r#""\ud800A""#, 1, "half of a surrogate pair is not text"),
            (r#""\udc00""#, 1, "half of a surrogate pair is not text"),
            (r#""\x""#, 1, "unknown escape"),
            ("{} x", 3, "text after the end of the value"),
            ("\u{feff}{}", 0, "expected a value"),
        ] {
            assert_eq!(whole(text), Err(Fault { at, what }), "{text:?}");
        }
        assert_eq!(whole(&"[".repeat(201)), Err(Fault { at: 200, what: "nested too deep" }));
        assert!(whole(&format!("{}{}", "[".repeat(200), "]".repeat(200))).is_ok());
        assert_eq!(scan("[]", |_, _| ()), Err(Fault { at: 0, what: "expected an object" }));
    }

    #[test]
    fn pythons_nan_and_infinity_are_accepted_and_noted() {
        assert_eq!(whole("[NaN,-Infinity,Infinity]"), Ok(Notes { non_finite: true, repeated: None }));
        assert_eq!(whole("[1]"), Ok(Notes { non_finite: false, repeated: None }));
    }

    fn json() -> impl Strategy<Value = serde_json::Value> {
        let leaf = prop_oneof![
            Just(serde_json::Value::Null),
            any::<bool>().prop_map(Into::into),
            any::<i64>().prop_map(Into::into),
            any::<f64>().prop_map(Into::into),
            ".*".prop_map(Into::into),
        ];
        leaf.prop_recursive(4, 32, 6, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..6).prop_map(Into::into),
                prop::collection::hash_map(".*", inner, 0..6)
                    .prop_map(|map| serde_json::Value::Object(map.into_iter().collect())),
            ]
        })
    }

    /// Builds a serde_json value from what `Raw` reads.
    fn rebuilt(raw: Raw<'_>) -> serde_json::Value {
        if raw.is_object() {
            return serde_json::Value::Object(
                raw.members().map(|(key, value)| (key.into_owned(), rebuilt(value))).collect(),
            );
        }
        if raw.is_array() {
            return raw.elements().map(rebuilt).collect();
        }
        match raw.as_str() {
            Some(text) => text.into(),
            None => serde_json::from_str(raw.text()).unwrap(),
        }
    }

    proptest! {
        #[test]
        fn agrees_with_serde_json_on_json(value in json(), pretty: bool) {
            let text = if pretty { serde_json::to_string_pretty(&value) } else { serde_json::to_string(&value) }.unwrap();
            let read: serde_json::Value = serde_json::from_str(&text).unwrap();
            prop_assert_eq!(rebuilt(Raw::parse(&text).unwrap()), read);
        }

        #[test]
        fn accepts_exactly_what_serde_json_accepts(text in r#"[\[\]{},:"\\ \n0-9a-fnrtulse.eE+\-\u{1}é😀]{0,24}"#) {
            // serde_json also rejects numbers that are too large for a double. JSON itself allows them.
            let accepted = serde_json::from_str::<serde_json::Value>(&text)
                .map_or_else(|error| error.to_string().contains("out of range"), |_| true);
            prop_assert_eq!(whole(&text).is_ok(), accepted, "{}", text);
        }
    }
}
