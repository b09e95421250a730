//! The content to look for, and how it is recognised in a text of an event.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::chain::Digest;

/// The content that a search for sightings looks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wanted {
    /// Recognised wherever a text has it, also if its lines are numbered there.
    text: Option<String>,
    /// Recognised if a whole text or file has this digest.
    digest: Option<Digest>,
    /// The longest part of `text` that JSON writes as it is.
    plain: String,
}

/// How a text had the content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Likeness {
    /// The text is the content.
    Same,
    /// The text has the content as a part.
    Part,
    /// The text has the content, with a number before each line.
    Numbered,
}

impl Likeness {
    /// Returns `same`, `part` or `numbered`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Same => "same",
            Self::Part => "part",
            Self::Numbered => "numbered",
        }
    }
}

impl Wanted {
    /// Looks for a text. White space at its ends is left out. `None` if nothing else is in it.
    #[must_use]
    pub fn text(text: &str) -> Option<Self> {
        let text = text.trim();
        (!text.is_empty()).then(|| Self { plain: plain(text), text: Some(text.to_owned()), digest: None })
    }

    /// Looks for the content of a file: for its digest, and if it is text, for the text. `None` if it is empty or has only
    /// white space.
    #[must_use]
    pub fn content(bytes: &[u8]) -> Option<Self> {
        let digest = Some(Digest::of(bytes));
        match std::str::from_utf8(bytes) {
            Ok(text) => Self::text(text).map(|wanted| Self { digest, ..wanted }),
            Err(_) => Some(Self { text: None, digest, plain: String::new() }),
        }
    }

    /// Looks for a text or a file with this SHA-256.
    #[must_use]
    pub fn digest(digest: Digest) -> Self {
        Self { text: None, digest: Some(digest), plain: String::new() }
    }

    /// Returns whether a file has the digest that is looked for.
    pub(super) fn is_digest(&self, is_or_was: impl Fn(Digest) -> bool) -> bool {
        self.digest.is_some_and(is_or_was)
    }

    /// Returns whether a JSON text may have the content in one of its strings. Reads no string.
    pub(super) fn may_be_in(&self, json: &str) -> bool {
        // A writer may escape any character, but hardly a letter.
        self.text.is_none()
            || memchr::memmem::find(json.as_bytes(), self.plain.as_bytes()).is_some()
            || ["\\u003", "\\u004", "\\u005", "\\u006", "\\u007"].iter().any(|escaped| json.contains(escaped))
    }

    /// Returns how a text has the content. `None` if it does not.
    pub(super) fn is_in(&self, text: &str) -> Option<Likeness> {
        if let Some(wanted) = &self.text {
            if text.trim() == wanted {
                return Some(Likeness::Same);
            }
            if text.contains(wanted.as_str()) {
                return Some(Likeness::Part);
            }
            if let Some(bare) = without_numbers(text)
                && bare.contains(wanted.as_str())
            {
                return Some(Likeness::Numbered);
            }
            return None;
        }
        let digest = self.digest?;
        let is_it = Digest::of(text.as_bytes()) == digest
            || embedded(text).is_some_and(|bytes| Digest::of(&bytes) == digest)
            || without_numbers(text).is_some_and(|bare| {
                // The last line break of a file is not always shown.
                [&*bare, bare.trim_end_matches('\n')].iter().any(|bare| Digest::of(bare.as_bytes()) == digest)
            });
        is_it.then_some(Likeness::Same)
    }
}

/// Returns the longest part of a text of ASCII letters and digits, which JSON writes as they are.
fn plain(text: &str) -> String {
    let parts = text.split(|character: char| !character.is_ascii_alphanumeric());
    parts.max_by_key(|part| part.len()).unwrap_or_default().to_owned()
}

/// Returns the bytes of a file that a text has in base64, such as a picture's `data:` address.
fn embedded(text: &str) -> Option<Vec<u8>> {
    const BASE64_BYTES_MIN: usize = 16;
    let data = match text.strip_prefix("data:") {
        Some(rest) => rest.split_once(";base64,")?.1,
        None => text,
    };
    let could_be =
        data.len() >= BASE64_BYTES_MIN && data.len().is_multiple_of(4) && !data.contains(char::is_whitespace);
    could_be.then(|| STANDARD.decode(data).ok()).flatten()
}

/// Returns the text without the numbers before its lines, as tools show files (`   12\tcode`, `12→code`). Other lines are
/// left out. `None` if no line has a number.
fn without_numbers(text: &str) -> Option<String> {
    let mut out = String::new();
    for line in text.lines().filter_map(numbered) {
        out.push_str(line);
        out.push('\n');
    }
    (!out.is_empty()).then_some(out)
}

/// Returns a line without its number. `None` if it has none.
fn numbered(line: &str) -> Option<&str> {
    let number = line.trim_start_matches(' ');
    let rest = number.trim_start_matches(|character: char| character.is_ascii_digit());
    if rest.len() == number.len() {
        return None;
    }
    rest.strip_prefix('\t').or_else(|| rest.strip_prefix('→'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_recognised_in_the_forms_that_tools_show() {
        let file = "def f():\n    return \"é\"\n";
        let wanted = Wanted::content(file.as_bytes()).unwrap();
        assert_eq!(wanted.is_in(file), Some(Likeness::Same));
        assert_eq!(wanted.is_in(&format!("before\n{file}after")), Some(Likeness::Part));
        let shown = "Here is the file:\n     1\tdef f():\n     2\t    return \"é\"\n";
        assert_eq!(wanted.is_in(shown), Some(Likeness::Numbered));
        assert_eq!(wanted.is_in("1→def f():\n2→    return \"é\""), Some(Likeness::Numbered));
        assert_eq!(wanted.is_in("def f():\n    return 1\n"), None);
        let digest = Wanted::digest(Digest::of(file.as_bytes()));
        for (text, likeness) in [
            (file, Some(Likeness::Same)),
            (shown, Some(Likeness::Same)),
            ("1→def f():\n2→    return \"é\"", Some(Likeness::Same)),
            ("other", None),
        ] {
            assert_eq!(digest.is_in(text), likeness, "{text}");
        }
        assert_eq!(Wanted::text(" \n"), None);
        assert_eq!(Wanted::content(b""), None);
    }

    #[test]
    fn a_picture_is_recognised_by_its_bytes() {
        let picture = b"\x89PNG\r\n\x1a\n and some more";
        let wanted = Wanted::content(picture).unwrap();
        let encoded = STANDARD.encode(picture);
        assert_eq!(wanted.is_in(&format!("data:image/png;base64,{encoded}")), Some(Likeness::Same));
        assert_eq!(wanted.is_in(&encoded), Some(Likeness::Same));
        assert_eq!(wanted.is_in("data:image/png;base64,AAAA"), None);
    }

    #[test]
    fn no_event_that_has_it_is_passed_over() {
        for text in ["a\"b", "\u{e9}", "one two\nthree", "x"] {
            let wanted = Wanted::text(text).unwrap();
            for json in [
                serde_json::to_string(text).unwrap(),
                // Everything escaped.
                format!(
                    "\"{}\"",
                    text.chars().map(|it| format!("\\u{:04x}", u32::from(it))).collect::<String>()
                ),
            ] {
                assert!(wanted.may_be_in(&json), "{text} {json}");
            }
        }
        assert!(!Wanted::text("needle").unwrap().may_be_in("{\"a\":\"hay\"}"));
    }
}
