//! Words for full-text search: prepares texts and queries for the index.
//!
//! The index splits text at every character that is neither a letter nor a digit, and it ignores case. With that alone,
//! a search would not find two kinds of words, so [`spread`] changes the text first. It puts spaces around CJK
//! characters (a phrase of characters finds a run of them), and it adds the parts of a `camelCase` name after the name.
//! Queries are changed in the same way.

use std::collections::HashSet;

/// A parsed search query.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Query {
    /// The query in the query language of the index.
    pub expression: String,
    /// Lower-case texts that every hit must contain exactly, because the index does not contain punctuation.
    pub literals: Vec<String>,
}

/// The most different words of a query. The index takes time with the square of their number.
pub const QUERY_WORDS_MAX: usize = 256;

/// The text cannot be searched for.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Unsearchable {
    /// It has nothing to search for.
    #[error("nothing to search for: {text:?} has no letter or digit outside excluded words")]
    Empty {
        /// The text.
        text: String,
    },
    /// It has more different words than [`QUERY_WORDS_MAX`].
    #[error(
        "a search has at most {QUERY_WORDS_MAX} different words, and this one has {words}: search for fewer of them"
    )]
    Long {
        /// The number of different words.
        words: usize,
    },
}

/// Puts spaces around the CJK characters of `text`, and adds the parts of camel-case names after each name.
#[must_use]
pub fn spread(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + text.len() / 8);
    let mut word_start = None;
    for (at, character) in text.char_indices() {
        if is_cjk(character) {
            end_word(&mut out, text, word_start.take(), at);
            out.push(' ');
            out.push(character);
            out.push(' ');
        } else if character.is_alphanumeric() {
            if word_start.is_none() {
                word_start = Some(at);
            }
            out.push(character);
        } else {
            end_word(&mut out, text, word_start.take(), at);
            out.push(character);
        }
    }
    end_word(&mut out, text, word_start, text.len());
    out
}

/// Adds the parts of the word that ends at `end`, if it is a camel-case name.
fn end_word(out: &mut String, text: &str, start: Option<usize>, end: usize) {
    let Some(start) = start else { return };
    let parts = camel_case_parts(&text[start..end]);
    if parts.len() > 1 {
        for part in parts {
            out.push(' ');
            out.push_str(part);
        }
    }
}

/// The parts of a camel-case name: `getHTTPStatus` gives get, HTTP, Status. Any other word is one part.
fn camel_case_parts(word: &str) -> Vec<&str> {
    if word.len() > 80 || !word.bytes().any(|byte| byte.is_ascii_uppercase()) {
        return vec![word];
    }
    let characters: Vec<(usize, char)> = word.char_indices().collect();
    let mut parts = Vec::new();
    let mut start = 0;
    for window in 1..characters.len() {
        let (at, here) = characters[window];
        let before = characters[window - 1].1;
        let after_is_small = characters.get(window + 1).is_some_and(|(_, next)| next.is_lowercase());
        let starts_part =
            here.is_uppercase() && (before.is_lowercase() || (before.is_uppercase() && after_is_small));
        if starts_part {
            parts.push(&word[start..at]);
            start = at;
        }
    }
    parts.push(&word[start..]);
    parts
}

/// Whether the character belongs to a script without spaces between words. Each such character is a word in the index.
fn is_cjk(character: char) -> bool {
    matches!(character,
        '\u{2e80}'..='\u{2fdf}'     // radicals
        | '\u{3005}'..='\u{3007}'
        | '\u{3040}'..='\u{30ff}'   // kana
        | '\u{3400}'..='\u{4dbf}'
        | '\u{4e00}'..='\u{9fff}'   // ideographs
        | '\u{ac00}'..='\u{d7af}'   // hangul
        | '\u{f900}'..='\u{faff}'
        | '\u{ff66}'..='\u{ff9f}'
        | '\u{20000}'..='\u{3134f}')
}

impl Query {
    /// Parses the text that a person typed: words that must all occur, `"exact phrases"`, `beginnings*`, and `-words`
    /// that must not occur.
    ///
    /// # Errors
    /// [`Unsearchable`] if nothing is left to search for, or if there are too many words.
    pub fn read(text: &str) -> Result<Self, Unsearchable> {
        let mut wanted = Vec::new();
        let mut unwanted = Vec::new();
        let mut literals = Vec::new();
        let mut seen = HashSet::new();
        let mut words = 0;
        for term in terms(text) {
            if !seen.insert((term.text, term.negative, term.prefix, term.quoted)) {
                continue;
            }
            words += term.words();
            let Some(expression) = term.expression() else {
                if !term.negative && !term.text.trim().is_empty() {
                    literals.push(term.text.to_lowercase());
                }
                continue;
            };
            if term.negative {
                unwanted.push(expression);
                continue;
            }
            if term.text.contains(|c: char| !c.is_alphanumeric() && !c.is_whitespace()) {
                literals.push(term.text.to_lowercase());
            }
            wanted.push(expression);
        }
        if words > QUERY_WORDS_MAX {
            return Err(Unsearchable::Long { words });
        }
        if wanted.is_empty() {
            return Err(Unsearchable::Empty { text: text.to_owned() });
        }
        let mut expression = wanted.join(" AND ");
        // Only one NOT. Each further NOT would nest one level deeper, and the index's parser has a depth limit.
        match unwanted.as_slice() {
            [] => {}
            [term] => expression = format!("({expression}) NOT {term}"),
            terms => expression = format!("({expression}) NOT ({})", terms.join(" OR ")),
        }
        Ok(Self { expression, literals })
    }
}

struct Term<'a> {
    text: &'a str,
    negative: bool,
    prefix: bool,
    quoted: bool,
}

impl Term<'_> {
    /// The number of words that the index looks for. At least one: a term without a letter is looked for in the text.
    fn words(&self) -> usize {
        let spread = spread(self.text);
        let words = spread.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
        words.count().max(1)
    }

    /// The term in the query language of the index. `None` if it has neither a letter nor a digit.
    fn expression(&self) -> Option<String> {
        let star = if self.prefix { " *" } else { "" };
        let phrase = |text: &str| {
            let words: Vec<&str> =
                text.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()).collect();
            (!words.is_empty()).then(|| format!("\"{}\"{star}", words.join(" ")))
        };
        let parts = camel_case_parts(self.text);
        if !self.quoted && parts.len() > 1 && self.text.chars().all(char::is_alphanumeric) {
            // It finds the name itself, or its parts within a longer name.
            return Some(format!("(\"{}\"{star} OR \"{}\"{star})", self.text, parts.join(" ")));
        }
        phrase(&spread(self.text))
    }
}

fn terms(text: &str) -> Vec<Term<'_>> {
    let mut terms = Vec::new();
    let mut rest = text.trim_start();
    while !rest.is_empty() {
        let negative =
            rest.starts_with('-') && rest[1..].starts_with(|c: char| c.is_alphanumeric() || c == '"');
        if negative {
            rest = &rest[1..];
        }
        if let Some(quoted) = rest.strip_prefix('"') {
            let end = quoted.find('"').unwrap_or(quoted.len());
            terms.push(Term { text: &quoted[..end], negative, prefix: false, quoted: true });
            rest = quoted.get(end + 1..).unwrap_or("").trim_start();
            continue;
        }
        let end = rest.find(char::is_whitespace).unwrap_or(rest.len());
        let word = &rest[..end];
        let (word, prefix) = match word.strip_suffix('*') {
            Some(start) if start.ends_with(char::is_alphanumeric) => (start, true),
            _ => (word, false),
        };
        terms.push(Term { text: word, negative, prefix, quoted: false });
        rest = rest[end..].trim_start();
    }
    terms
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_spread_so_that_names_and_cjk_can_be_found() {
        assert_eq!(spread("call getHTTPStatus now"), "call getHTTPStatus get HTTP Status now");
        assert_eq!(spread("snake_case stays"), "snake_case stays");
        assert_eq!(spread("日本x"), " 日  本 x");
        assert_eq!(camel_case_parts("ABC"), ["ABC"]);
    }

    #[test]
    fn queries_are_read_as_people_type_them() {
        let read = |text| Query::read(text).map(|query| (query.expression, query.literals));
        let plain = |expression: &str| Ok((expression.to_owned(), Vec::new()));
        assert_eq!(read("error build"), plain(r#""error" AND "build""#));
        assert_eq!(read(r#"-test "two words" buil*"#), plain(r#"("two words" AND "buil" *) NOT "test""#));
        assert_eq!(read("userName"), plain(r#"("userName" OR "user Name")"#));
        assert_eq!(read("日本語"), plain(r#""日 本 語""#));
        assert_eq!(
            read("Store::append C++"),
            Ok((r#""Store append" AND "C""#.into(), vec!["store::append".into(), "c++".into()]))
        );
        assert_eq!(read(r#"a" OR b"#), Ok((r#""a" AND "OR" AND "b""#.into(), vec!["a\"".into()])));
        assert_eq!(read("-> "), Err(Unsearchable::Empty { text: "-> ".into() }));
        assert_eq!(read(""), Err(Unsearchable::Empty { text: String::new() }));
    }

    #[test]
    fn a_query_is_bounded_in_its_different_words() {
        let read = |text: &str| Query::read(text);
        assert_eq!(read(&"a ".repeat(100_000)), read("a"));
        assert_eq!(read(&"-a b* \"c d\" ".repeat(10_000)), read("-a b* \"c d\""));
        let words =
            |count: usize| (0..count).map(|number| format!("w{number}")).collect::<Vec<_>>().join(" ");
        assert!(read(&words(QUERY_WORDS_MAX)).is_ok());
        let long = Err(Unsearchable::Long { words: QUERY_WORDS_MAX + 1 });
        for many in [
            words(QUERY_WORDS_MAX + 1),
            format!("\"{}\"", words(QUERY_WORDS_MAX + 1)),
            "日".repeat(QUERY_WORDS_MAX + 1),
            (0..=QUERY_WORDS_MAX).map(|number| format!("-w{number} ")).collect(),
            (0..=QUERY_WORDS_MAX).map(|number| format!("{} ", "#".repeat(number + 1))).collect(),
        ] {
            assert_eq!(read(&many), long);
        }
    }
}
