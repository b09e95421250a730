//! Writes a text again without the parts to redact.
//!
//! In JSON only strings, names of members and long numbers change, and only their redacted parts. Order, white space
//! and every other byte stay. The parts that give an event its shape stay too, and are reported in
//! `Rewritten::left`. An event that SDK 1.58 could read before is readable afterwards. A matching number of six or
//! more digits becomes 0 if it is in a tool's input or output, or anywhere in a `Form::Document`.

use std::collections::HashSet;
use std::fmt;
use std::ops::Range;

use super::finder::{Finder, Found, MATCHED, TEXT};
use super::shape;
use crate::event::{DecodeError, Unfamiliar, decode};
use crate::json::{self, Leaf, Path, Raw, Sort, Step};

/// The text that replaces a redacted part.
pub const REDACTED: &str = "[redacted]";

/// The minimum number of digits of a number that is checked.
const DIGITS_MIN: usize = 6;

/// The parts to redact.
#[derive(Debug, Clone, Copy)]
pub enum RedactScope<'a> {
    /// All text.
    Everything,
    /// The matches of a finder.
    Matches(&'a Finder),
}

/// The kind of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// An event's payload.
    Event,
    /// A base state.
    BaseState,
    /// Any other JSON.
    Document,
    /// Text that is not JSON.
    Plain,
}

/// A place of a match.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Spot {
    /// The path: `observation.content[0].text`; "" for the text itself. Names that hold a secret are masked.
    pub path: String,
    /// The kind; see [`Found::kind`].
    pub kind: &'static str,
    /// The hint; see `Found::hint`.
    pub hint: String,
    /// The matched text, to distinguish two secrets. It is never shown.
    pub(crate) value: String,
}

/// Without the value.
impl fmt::Debug for Spot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Spot")
            .field("path", &self.path)
            .field("kind", &self.kind)
            .field("hint", &self.hint)
            .finish_non_exhaustive()
    }
}

/// The result of a rewrite.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Rewritten {
    /// The new text. `None` if nothing changes.
    pub text: Option<String>,
    /// The redacted places.
    pub taken: Vec<Spot>,
    /// The places that matched and had to stay: part of the shape, or of a number.
    pub left: Vec<Spot>,
}

/// Returns `text` without the parts to redact. A text that is not JSON, such as a damaged payload, is rewritten as
/// [`Form::Plain`].
#[must_use]
pub fn rewrite(text: &str, form: Form, wanted: RedactScope<'_>) -> Rewritten {
    let value = match Raw::parse(text) {
        Ok(value) if form != Form::Plain => value,
        _ => return rewrite_plain(text, wanted),
    };
    let start = value.offset_in(text);
    let mut editor = Editor { form, wanted, edits: Vec::new(), left: Vec::new(), names: HashSet::new() };
    json::walk(value, &mut |leaf, path| editor.leaf(Leaf { at: start + leaf.at, ..leaf }, path));
    let Editor { mut edits, mut left, .. } = editor;
    if edits.is_empty() {
        return Rewritten { text: None, taken: Vec::new(), left };
    }
    let mut new = applied(text, &edits);
    if form == Form::Event && decode(text, Unfamiliar::Refuse).is_ok() {
        // A word that the event's schema requires is no secret, so it is restored.
        while let Err(error) = decode(&new, Unfamiliar::Refuse) {
            // If no edit is at the place of the error, a changed name is the cause: then all names are restored.
            let places = match failing_edit(&edits, &error) {
                Some(place) => place..place + 1,
                None => 0..edits.len(),
            };
            let is_restored = |index: usize, edit: &Edit| {
                places.contains(&index) && (places.len() == 1 || edit.sort == Sort::Name)
            };
            let before = edits.len();
            let mut kept = Vec::with_capacity(before);
            for (index, mut edit) in edits.into_iter().enumerate() {
                if is_restored(index, &edit) {
                    left.append(&mut edit.spots);
                } else {
                    kept.push(edit);
                }
            }
            edits = kept;
            if edits.len() == before {
                break;
            }
            new = applied(text, &edits);
        }
    }
    let taken = edits.into_iter().flat_map(|edit| edit.spots).collect();
    Rewritten { text: (new != text).then_some(new), taken, left }
}

fn rewrite_plain(text: &str, wanted: RedactScope<'_>) -> Rewritten {
    let finder = match wanted {
        RedactScope::Everything if text.is_empty() || text == REDACTED => return Rewritten::default(),
        RedactScope::Everything => {
            let spot = Spot { path: String::new(), kind: TEXT, hint: String::new(), value: text.into() };
            return Rewritten { text: Some(REDACTED.into()), taken: vec![spot], left: Vec::new() };
        }
        RedactScope::Matches(finder) => finder,
    };
    let found = finder.find(None, text);
    if found.is_empty() {
        return Rewritten::default();
    }
    let mut new = String::with_capacity(text.len());
    let mut from = 0;
    for one in &found {
        new.push_str(&text[from..one.range.start]);
        new.push_str(REDACTED);
        from = one.range.end;
    }
    new.push_str(&text[from..]);
    let taken = found.iter().map(|one| spot(String::new(), one, text)).collect();
    Rewritten { text: (new != text).then_some(new), taken, left: Vec::new() }
}

/// One change of the text.
struct Edit {
    range: Range<usize>,
    new: String,
    /// The path, as a decoding error gives it.
    place: String,
    sort: Sort,
    spots: Vec<Spot>,
}

fn applied(text: &str, edits: &[Edit]) -> String {
    let mut new = String::with_capacity(text.len());
    let mut from = 0;
    for edit in edits {
        new.push_str(&text[from..edit.range.start]);
        new.push_str(&edit.new);
        from = edit.range.end;
    }
    new.push_str(&text[from..]);
    new
}

/// Returns the index of the edit that makes an event unreadable: the one at the path of the error, or the first one
/// within it.
fn failing_edit(edits: &[Edit], error: &DecodeError) -> Option<usize> {
    let exact = edits.iter().position(|edit| edit.place == error.path);
    exact.or_else(|| edits.iter().position(|edit| edit.place.starts_with(&error.path)))
}

struct Editor<'a> {
    form: Form,
    wanted: RedactScope<'a>,
    edits: Vec<Edit>,
    left: Vec<Spot>,
    /// The new names of members, so that no two members get the same name.
    names: HashSet<String>,
}

impl Editor<'_> {
    fn leaf(&mut self, leaf: Leaf<'_>, path: &Path) {
        match leaf.sort {
            Sort::Name => self.name(leaf, path),
            Sort::Text => self.text(leaf, path),
            Sort::Number => self.number(leaf, path),
        }
    }

    fn text(&mut self, leaf: Leaf<'_>, path: &Path) {
        let text = json::decoded(leaf.raw);
        if text.is_empty() {
            return;
        }
        let stays = shape::is_structural(self.form, path, &text);
        if !stays
            && self.form == Form::Event
            && shape::is_arguments(path)
            && self.arguments(leaf, path, &text)
        {
            return;
        }
        let found = match self.wanted {
            RedactScope::Everything if stays || text == REDACTED => return,
            RedactScope::Everything => {
                let hint = format!("{} characters", text.chars().count());
                return self.replace(
                    leaf,
                    path,
                    format!("\"{REDACTED}\""),
                    vec![Found { range: 0..text.len(), kind: TEXT, hint }],
                );
            }
            RedactScope::Matches(finder) => finder.find(path.name(), &text),
        };
        if found.is_empty() {
            return;
        }
        if stays {
            self.keep(path, &found, &text);
        } else {
            self.replace(leaf, path, splice(leaf.raw, &found), found);
        }
    }

    /// Rewrites a JSON object within a string. Returns false if the string holds no object.
    fn arguments(&mut self, leaf: Leaf<'_>, path: &Path, text: &str) -> bool {
        if !Raw::parse(text).is_ok_and(Raw::is_object) {
            return false;
        }
        let mut inner = rewrite(text, Form::Document, self.wanted);
        let mut new = inner.text.take().unwrap_or_else(|| text.to_owned());
        if let RedactScope::Matches(finder) = self.wanted {
            // A match that spans several members is only found in the text as a whole.
            let whole = rewrite_plain(&new, RedactScope::Matches(finder));
            match whole.text {
                Some(spanning) if Raw::parse(&spanning).is_ok() => {
                    new = spanning;
                    inner.taken.extend(whole.taken);
                }
                Some(_) => inner.left.extend(whole.taken),
                None => {}
            }
        }
        let within = |mut spot: Spot| {
            let dot = if spot.path.is_empty() { "" } else { "." };
            spot.path = format!("{}{dot}{}", self.shown(path), spot.path);
            spot
        };
        let spots: Vec<Spot> = inner.taken.into_iter().map(within).collect();
        let left: Vec<Spot> = inner.left.into_iter().map(within).collect();
        self.left.extend(left);
        if new != text {
            let new = serde_json::Value::from(new).to_string();
            self.edits.push(Edit {
                range: leaf.at..leaf.at + leaf.raw.len(),
                new,
                place: path.to_string(),
                sort: leaf.sort,
                spots,
            });
        }
        true
    }

    fn name(&mut self, leaf: Leaf<'_>, path: &Path) {
        let name = json::decoded(leaf.raw);
        let found = match self.wanted {
            RedactScope::Everything
                if shape::is_word(&name) || name.is_empty() || shape::is_id(self.form, path) =>
            {
                return;
            }
            RedactScope::Everything => vec![Found { range: 0..name.len(), kind: TEXT, hint: String::new() }],
            RedactScope::Matches(finder) => finder.find(None, &name),
        };
        if found.is_empty() {
            return;
        }
        let is_ours = self.form != Form::Document && path.steps().len() == 1;
        if is_ours || (shape::is_word(&name) && found.iter().all(|one| one.kind == MATCHED)) {
            return self.keep(path, &found, &name);
        }
        let mut new = splice(leaf.raw, &found);
        let mut number = 2;
        while !self.names.insert(new.clone()) {
            new = splice(leaf.raw, &found);
            new.insert_str(new.len() - 1, &format!(" {number}"));
            number += 1;
        }
        self.replace(leaf, path, new, found);
    }

    fn number(&mut self, leaf: Leaf<'_>, path: &Path) {
        let digits = leaf.raw.bytes().filter(u8::is_ascii_digit).count();
        let token_ids = path.name().is_some_and(|name| name.ends_with("token_ids"));
        if let RedactScope::Everything = self.wanted {
            if leaf.raw != "0" && (token_ids || (digits >= DIGITS_MIN && self.holds_data(path))) {
                let hint = format!("a number of {digits} digits");
                self.replace(
                    leaf,
                    path,
                    "0".into(),
                    vec![Found { range: 0..leaf.raw.len(), kind: TEXT, hint }],
                );
            }
            return;
        }
        let RedactScope::Matches(finder) = self.wanted else { return };
        if digits < DIGITS_MIN {
            return;
        }
        let found = finder.find(path.name(), leaf.raw);
        if found.is_empty() {
            return;
        }
        if self.holds_data(path) {
            self.replace(leaf, path, "0".into(), found);
        } else {
            self.keep(path, &found, leaf.raw);
        }
    }

    /// Returns whether numbers at `path` are content, not counters.
    fn holds_data(&self, path: &Path) -> bool {
        match self.form {
            Form::Event => shape::is_tool_data(path),
            Form::Document => true,
            Form::BaseState | Form::Plain => false,
        }
    }

    fn replace(&mut self, leaf: Leaf<'_>, path: &Path, new: String, found: Vec<Found>) {
        let text = if leaf.sort == Sort::Number { leaf.raw.to_owned() } else { json::decoded(leaf.raw) };
        let shown = self.shown(path);
        let spots = found.iter().map(|one| spot(shown.clone(), one, &text)).collect();
        self.edits.push(Edit {
            range: leaf.at..leaf.at + leaf.raw.len(),
            new,
            place: path.to_string(),
            sort: leaf.sort,
            spots,
        });
    }

    fn keep(&mut self, path: &Path, found: &[Found], text: &str) {
        let shown = self.shown(path);
        self.left.extend(found.iter().map(|one| spot(shown.clone(), one, text)));
    }

    /// Returns the path for reports. Names that hold a secret are masked.
    fn shown(&self, path: &Path) -> String {
        let hides = |step: &Step| match (step, self.wanted) {
            (Step::Element(_), _) => false,
            (Step::Member(name), RedactScope::Everything) => !shape::is_word(name),
            (Step::Member(name), RedactScope::Matches(finder)) => !finder.find(None, name).is_empty(),
        };
        if !path.steps().iter().any(hides) {
            return path.to_string();
        }
        let mut shown = Path::default();
        for step in path.steps() {
            shown.push(if hides(step) { Step::Member(REDACTED.into()) } else { step.clone() });
        }
        shown.to_string()
    }
}

fn spot(path: String, found: &Found, text: &str) -> Spot {
    Spot { path, kind: found.kind, hint: found.hint.clone(), value: text[found.range.clone()].to_owned() }
}

/// Returns the string literal `raw` with [`REDACTED`] in place of the matches. `found` has the ranges in the decoded
/// text. Every other character stays as it is written.
fn splice(raw: &str, found: &[Found]) -> String {
    let mut new = String::with_capacity(raw.len());
    let mut ranges = found.iter().map(|one| one.range.clone()).peekable();
    let inner = raw.get(1..raw.len().saturating_sub(1)).unwrap_or_default();
    // `at` counts bytes of the decoded text. `inner` is read one written character at a time.
    let (mut at, mut from) = (0, 0);
    new.push('"');
    while from < inner.len() {
        let (written, bytes) = character(&inner[from..]);
        while ranges.peek().is_some_and(|range| range.end <= at) {
            ranges.next();
        }
        match ranges.peek() {
            Some(range) if range.start == at => new.push_str(REDACTED),
            Some(range) if range.start < at => {}
            _ => new.push_str(&inner[from..from + written]),
        }
        at += bytes;
        from += written;
    }
    new.push('"');
    new
}

/// Returns the length of the first character of a string literal's content in bytes: as written, and decoded.
fn character(inner: &str) -> (usize, usize) {
    let first = inner.chars().next().map_or(1, char::len_utf8);
    if !inner.starts_with('\\') {
        return (first, first);
    }
    let written = match inner.as_bytes().get(1) {
        Some(b'u') if is_high_surrogate(inner) => 12,
        Some(b'u') => 6,
        _ => 2,
    };
    let literal = format!("\"{}\"", inner.get(..written).unwrap_or(inner));
    (written, json::decoded(&literal).len())
}

fn is_high_surrogate(escape: &str) -> bool {
    let code = escape.get(2..6).and_then(|digits| u32::from_str_radix(digits, 16).ok());
    code.is_some_and(|code| (0xd800..0xdc00).contains(&code))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn without(text: &str, form: Form, expression: &str) -> Rewritten {
        rewrite(text, form, RedactScope::Matches(&Finder::expression(expression).unwrap()))
    }

    fn paths(spots: &[Spot]) -> Vec<&str> {
        spots.iter().map(|spot| spot.path.as_str()).collect()
    }

    #[test]
    fn only_what_was_found_changes() {
        let text =
            "{ \"a\" : \"x canary \\u00e9 canary\\n\", \"canary\":[1,\"\\ud83d\\ude00canary\"] , \"b\":2.50}";
        let new = without(text, Form::Document, "canary");
        assert_eq!(
            new.text.unwrap(),
            "{ \"a\" : \"x [redacted] \\u00e9 [redacted]\\n\", \"canary\":[1,\"\\ud83d\\ude00[redacted]\"] , \"b\":2.50}"
        );
        assert_eq!(paths(&new.taken), ["a", "a", "[redacted][1]"]);
        assert_eq!(paths(&new.left), ["[redacted]"], "a name that programs use stays");
        assert_eq!(
            format!("{:?}", new.taken[0]),
            r#"Spot { path: "a", kind: "pattern", hint: "… (6 characters)", .. }"#
        );
        assert_eq!(without(text, Form::Document, "nothing"), Rewritten::default());
    }

    #[test]
    fn ids_and_kinds_and_join_keys_stay() {
        let text = r#"{"id":"canary-1","kind":"PauseEvent","timestamp":"canary","note":"canary"}"#;
        let new = without(text, Form::Event, "canary");
        assert_eq!(
            new.text.unwrap(),
            r#"{"id":"canary-1","kind":"PauseEvent","timestamp":"canary","note":"[redacted]"}"#
        );
        assert_eq!(paths(&new.left), ["id", "timestamp"]);
    }

    const ACTION: &str = r#"{"id":"a1","timestamp":"2026-01-01T00:00:00","source":"agent","thought":[{"type":"text","text":"I look at canary"}],"action":{"kind":"FileEditorAction","command":"view","path":"/canary/file"},"tool_name":"file_editor","tool_call_id":"call_1","tool_call":{"id":"call_1","name":"file_editor","arguments":"{\"command\": \"view\", \"path\": \"\\/canary\\/file\", \"pin\": 12345678}","origin":"completion"},"llm_response_id":"r1","security_risk":"LOW","kind":"ActionEvent"}"#;

    #[test]
    fn a_text_that_was_cut_anywhere_is_searched_to_its_end() {
        let secret = "canary";
        let starts: Vec<usize> = ACTION.match_indices(secret).map(|(at, _)| at).collect();
        for end in (0..ACTION.len()).filter(|end| ACTION.is_char_boundary(*end)) {
            for cut in [&ACTION[..end], &ACTION[ACTION.len() - end..], &format!("{}\\\"", &ACTION[..end])] {
                let whole = cut.matches(secret).count();
                for form in [Form::Event, Form::BaseState, Form::Document, Form::Plain] {
                    let new = without(cut, form, secret);
                    assert!(new.taken.len() + new.left.len() >= whole, "{form:?}: {cut}");
                    assert!(new.text.is_none_or(|text| !text.contains(secret)), "{form:?}: {cut}");
                }
                let _listed = crate::redact::open_secrets(cut);
            }
        }
        assert_eq!(starts.len(), 3);
        for odd in ["\"\\\"", "\"", "\"\\", "\"\\u", "\"\\u12\"", "\"\\ud800\\\"", "{\"a\":\"\\\"", "[\"\\é"]
        {
            without(odd, Form::Event, secret);
            assert_eq!(rewrite("[redacted]", Form::Plain, RedactScope::Everything).text, None);
        }
    }

    #[test]
    fn an_action_can_be_read_as_before() {
        assert!(decode(ACTION, Unfamiliar::Refuse).is_ok());
        let new = without(ACTION, Form::Event, "canary|view|12345678");
        let text = new.text.unwrap();
        assert!(decode(&text, Unfamiliar::Refuse).is_ok(), "{text}");
        assert!(!text.contains("canary"), "{text}");
        // The editor's command must be one of five words, so it stays. The arguments have no schema: there it is
        // redacted.
        assert_eq!(paths(&new.left), ["action.command"]);
        assert!(text.contains(r#""command":"view""#), "{text}");
        assert!(
            text.contains(r#"{\"command\": \"[redacted]\", \"path\": \"\\/[redacted]\\/file\", \"pin\": 0}"#),
            "{text}"
        );
        assert!(paths(&new.taken).contains(&"tool_call.arguments.path"));
    }

    #[test]
    fn everything_is_redacted_except_the_shape() {
        let new = rewrite(ACTION, Form::Event, RedactScope::Everything);
        assert_eq!(
            new.text.unwrap(),
            r#"{"id":"a1","timestamp":"2026-01-01T00:00:00","source":"agent","thought":[{"type":"text","text":"[redacted]"}],"action":{"kind":"FileEditorAction","command":"view","path":"[redacted]"},"tool_name":"file_editor","tool_call_id":"call_1","tool_call":{"id":"call_1","name":"file_editor","arguments":"{\"command\": \"[redacted]\", \"path\": \"[redacted]\", \"pin\": 0}","origin":"completion"},"llm_response_id":"r1","security_risk":"LOW","kind":"ActionEvent"}"#
        );
        let strange = r#"{"id":"x","kind":"FromTheFuture","data":{"type":"t","Dear Bob":"hi","Dear Eve":"ho","ids":[7]},"prompt_token_ids":[15,3]}"#;
        assert_eq!(
            rewrite(strange, Form::Event, RedactScope::Everything).text.unwrap(),
            r#"{"id":"x","kind":"FromTheFuture","data":{"type":"t","[redacted]":"[redacted]","[redacted] 2":"[redacted]","ids":[7]},"prompt_token_ids":[0,0]}"#
        );
    }

    #[test]
    fn a_match_across_members_of_arguments_is_found() {
        let text = r#"{"id":"a","kind":"X","tool_call":{"arguments":"{\"user\":\"bob\",\"n\":1}"}}"#;
        let new = without(text, Form::Event, r#""bob","n""#);
        assert_eq!(new.text, None);
        assert_eq!(paths(&new.left), ["tool_call.arguments"], "without it there would be no JSON any more");
        let finder = Finder::secrets();
        let text =
            r#"{"id":"a","kind":"X","tool_call":{"arguments":"{\"api_key\":\"aB3dE5gH7jK9\",\"n\":1}"}}"#;
        let new = rewrite(text, Form::Event, RedactScope::Matches(&finder));
        assert_eq!(
            new.text.unwrap(),
            r#"{"id":"a","kind":"X","tool_call":{"arguments":"{\"api_key\":\"[redacted]\",\"n\":1}"}}"#
        );
    }

    #[test]
    fn a_base_state_keeps_its_shape() {
        let text =
            r#"{"id":"canary","agent":{"kind":"canary","llm":{"api_key":"canary"}},"tags":{"canary":"1"}}"#;
        let new = without(text, Form::BaseState, "canary");
        assert_eq!(
            new.text.unwrap(),
            r#"{"id":"canary","agent":{"kind":"canary","llm":{"api_key":"[redacted]"}},"tags":{"canary":"1"}}"#
        );
        assert_eq!(paths(&new.left), ["id", "agent.kind", "tags.[redacted]"]);
    }

    #[test]
    fn a_text_that_is_redacted_already_does_not_change() {
        for (text, form) in [(REDACTED, Form::Plain), ("\"[redacted]\"", Form::Document)] {
            let new = rewrite(text, form, RedactScope::Everything);
            assert_eq!(new, Rewritten::default(), "{form:?}");
            assert_eq!(
                without(text, form, "redacted").text.as_deref(),
                Some(&*text.replace("redacted", "[redacted]"))
            );
            assert_eq!(without(text, form, r"\[redacted\]").text, None, "{form:?}");
        }
    }

    #[test]
    fn plain_text_need_not_be_json() {
        let new = without("{not json: canary", Form::Plain, "canary");
        assert_eq!(new.text.unwrap(), "{not json: [redacted]");
    }

    proptest! {
        /// With any text around the secret and in any encoding.
        #[test]
        fn nothing_is_left_of_what_was_found(before in ".{0,20}", after in ".{0,20}", ascii: bool, nested: bool) {
            let secret = "cänary😀\"\\\n";
            let mut value = serde_json::json!({"id": "a", "kind": "X", "text": format!("{before}{secret}{after}")});
            if nested {
                value["tool_call"]["arguments"] = serde_json::json!({"a": format!("{before}{secret}{after}")}).to_string().into();
            }
            let mut text = value.to_string();
            if ascii {
                text = text.chars().map(|c| match c {
                    ' '..='~' => c.to_string(),
                    c => c.encode_utf16(&mut [0; 2]).iter().map(|unit| format!("\\u{unit:04x}")).collect(),
                }).collect();
            }
            let finder = Finder::default().with_values(&[("v".into(), secret.into())]).unwrap();
            let new = rewrite(&text, Form::Event, RedactScope::Matches(&finder));
            let read: serde_json::Value = serde_json::from_str(&new.text.unwrap()).unwrap();
            let expected = format!("{before}{REDACTED}{after}");
            prop_assert_eq!(&read["text"], &serde_json::Value::from(expected.clone()));
            if nested {
                let inner: serde_json::Value = serde_json::from_str(read["tool_call"]["arguments"].as_str().unwrap()).unwrap();
                prop_assert_eq!(&inner["a"], &serde_json::Value::from(expected));
            }
        }
    }
}
