//! LIKE and GLOB as SQLite defines them, with checks of the clock.
//!
//! SQLite's own functions can be busy for minutes with a long text and a hostile pattern, and cannot be stopped
//! meanwhile. Source of the rules: `patternCompare` in SQLite's `func.c`, <https://sqlite.org/lang_expr.html>.

/// A parsed pattern.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Pattern {
    parts: Vec<Part>,
    /// Whether ASCII letters match in both cases, as in LIKE.
    folds_case: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Part {
    /// These bytes.
    Literal(Vec<u8>),
    /// Any one character.
    One,
    /// Any number of characters, also zero.
    Any,
    /// One character within these ranges; if `inverted`, one outside of them.
    Set { ranges: Vec<(char, char)>, inverted: bool },
    /// Matches nothing, because the pattern is incomplete.
    Never,
}

impl Pattern {
    /// Parses a LIKE pattern: `%` is any text, `_` is any character, and the character after `escape` is literal.
    pub(super) fn like(text: &str, escape: Option<char>) -> Self {
        let mut parts = Vec::new();
        let mut characters = text.chars();
        while let Some(character) = characters.next() {
            if Some(character) == escape {
                match characters.next() {
                    Some(escaped) => literal(&mut parts, escaped),
                    None => parts.push(Part::Never),
                }
                continue;
            }
            match character {
                '%' => parts.push(Part::Any),
                '_' => parts.push(Part::One),
                other => literal(&mut parts, other),
            }
        }
        Self { parts, folds_case: true }
    }

    /// Parses a GLOB pattern: `*` is any text, `?` is any character, `[a-z]` is one of these characters, and `[^a-z]`
    /// is one other character.
    pub(super) fn glob(text: &str) -> Self {
        let mut parts = Vec::new();
        let mut rest = text;
        while let Some(character) = rest.chars().next() {
            rest = &rest[character.len_utf8()..];
            match character {
                '*' => parts.push(Part::Any),
                '?' => parts.push(Part::One),
                '[' => match set(rest) {
                    Some((part, after)) => {
                        parts.push(part);
                        rest = after;
                    }
                    None => {
                        parts.push(Part::Never);
                        break;
                    }
                },
                other => literal(&mut parts, other),
            }
        }
        Self { parts, folds_case: false }
    }

    /// Returns whether all of `text` matches. `tick` is called every 1024 retries; its error ends the matching.
    pub(super) fn matches<E>(&self, text: &[u8], mut tick: impl FnMut() -> Result<(), E>) -> Result<bool, E> {
        let (mut at, mut part) = (0, 0);
        // After the last `Any`: the part to continue with, and the end of the text that the `Any` has matched.
        let mut retry: Option<(usize, usize)> = None;
        let mut steps = 0_u32;
        loop {
            match self.parts.get(part) {
                Some(Part::Any) => {
                    part += 1;
                    if part == self.parts.len() {
                        return Ok(true);
                    }
                    retry = Some((part, at));
                    continue;
                }
                Some(Part::Never) => return Ok(false),
                Some(one) => {
                    if let Some(bytes) = self.matched_bytes(one, &text[at..]) {
                        at += bytes;
                        part += 1;
                        continue;
                    }
                }
                None if at == text.len() => return Ok(true),
                None => {}
            }
            let Some((after_any, matched)) = retry else { return Ok(false) };
            if matched >= text.len() {
                return Ok(false);
            }
            let next = matched + character_bytes(&text[matched..]);
            let Some(next) = self.candidate(after_any, text, next) else { return Ok(false) };
            retry = Some((after_any, next));
            (at, part) = (next, after_any);
            steps = steps.wrapping_add(1);
            if steps.is_multiple_of(1024) {
                tick()?;
            }
        }
    }

    /// Returns how many bytes at the start of `text` a part matches. `None` if it does not match.
    fn matched_bytes(&self, part: &Part, text: &[u8]) -> Option<usize> {
        match part {
            Part::Literal(bytes) => {
                let start = text.get(..bytes.len())?;
                let same = if self.folds_case { start.eq_ignore_ascii_case(bytes) } else { start == bytes };
                same.then_some(bytes.len())
            }
            Part::One => (!text.is_empty()).then(|| character_bytes(text)),
            Part::Set { .. } if text.is_empty() => None,
            Part::Set { ranges, inverted } => {
                let bytes = character_bytes(text);
                let character = std::str::from_utf8(text.get(..bytes)?).ok()?.chars().next()?;
                let within = ranges.iter().any(|(first, last)| (*first..=*last).contains(&character));
                (within != *inverted).then_some(bytes)
            }
            Part::Any | Part::Never => None,
        }
    }

    /// Returns the next offset from `from` on at which the part could match. `None` if there is none.
    ///
    /// It searches for the literal that follows, because this is the fastest way to reject a text without a match.
    fn candidate(&self, part: usize, text: &[u8], from: usize) -> Option<usize> {
        let singles =
            self.parts[part..].iter().take_while(|part| matches!(part, Part::One | Part::Set { .. })).count();
        let Some(Part::Literal(bytes)) = self.parts.get(part + singles) else { return Some(from) };
        let mut start = from;
        for _ in 0..singles {
            start += if start < text.len() { character_bytes(&text[start..]) } else { return None };
        }
        let rest = text.get(start..)?;
        let found = if self.folds_case {
            let first = bytes[0];
            memchr::memchr2(first.to_ascii_lowercase(), first.to_ascii_uppercase(), rest)
        } else {
            memchr::memmem::find(rest, bytes)
        };
        let mut at = start + found?;
        for _ in 0..singles {
            at -= 1;
            while at > from && text[at] & 0xc0 == 0x80 {
                at -= 1;
            }
        }
        Some(at)
    }
}

/// Appends a character to the last literal, or adds a new literal.
fn literal(parts: &mut Vec<Part>, character: char) {
    let mut buffer = [0; 4];
    let bytes = character.encode_utf8(&mut buffer).as_bytes();
    match parts.last_mut() {
        Some(Part::Literal(literal)) => literal.extend_from_slice(bytes),
        _ => parts.push(Part::Literal(bytes.to_vec())),
    }
}

/// Parses a set, starting after its `[`. Returns the set and the text after its `]`, or `None` if there is no `]`.
fn set(text: &str) -> Option<(Part, &str)> {
    let (inverted, text) = match text.strip_prefix('^') {
        Some(rest) => (true, rest),
        None => (false, text),
    };
    let mut ranges: Vec<(char, char)> = Vec::new();
    let mut previous: Option<char> = None;
    let mut rest = text;
    let mut first = true;
    loop {
        let character = rest.chars().next()?;
        rest = &rest[character.len_utf8()..];
        match character {
            ']' if !first => return Some((Part::Set { ranges, inverted }, rest)),
            // A minus between two characters makes a range; anywhere else it is a literal minus.
            '-' if previous.is_some() && !rest.starts_with(']') && !rest.is_empty() => {
                let last = rest.chars().next()?;
                rest = &rest[last.len_utf8()..];
                ranges.push((previous.take()?, last));
            }
            other => {
                ranges.push((other, other));
                // In the engine, a `]` at the start of a set cannot begin a range.
                previous = (!first || other != ']').then_some(other);
            }
        }
        first = false;
    }
}

/// Returns the size in bytes of the first character of `text`, which must not be empty. 1 if the first byte does not
/// start a character of several bytes.
fn character_bytes(text: &[u8]) -> usize {
    let continuation = text.iter().skip(1).take_while(|byte| **byte & 0xc0 == 0x80).count();
    if text[0] >= 0xc0 { 1 + continuation } else { 1 }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use proptest::prelude::*;
    use rusqlite::Connection;

    use super::*;

    fn matches(pattern: &Pattern, text: &str) -> bool {
        pattern.matches(text.as_bytes(), || Ok::<(), Infallible>(())).unwrap()
    }

    proptest! {
        #[test]
        fn like_is_what_sqlite_says(
            pattern in "[aAbé日%_\\\\]{0,8}",
            text in "[aAbBéÉ日_%]{0,12}",
            escapes in any::<bool>(),
        ) {
            let db = Connection::open_in_memory().unwrap();
            let sql = if escapes { "SELECT ?2 LIKE ?1 ESCAPE '\\'" } else { "SELECT ?2 LIKE ?1" };
            let expected: bool = db.query_row(sql, (&pattern, &text), |row| row.get(0)).unwrap();
            let own = Pattern::like(&pattern, escapes.then_some('\\'));
            prop_assert_eq!(matches(&own, &text), expected);
        }

        #[test]
        fn glob_is_what_sqlite_says(
            pattern in "[ab日c*?\\[\\]^-]{0,9}",
            text in "[ab日c\\[\\]^-]{0,10}",
        ) {
            let db = Connection::open_in_memory().unwrap();
            let expected: bool =
                db.query_row("SELECT ?2 GLOB ?1", (&pattern, &text), |row| row.get(0)).unwrap();
            prop_assert_eq!(matches(&Pattern::glob(&pattern), &text), expected, "{} {}", pattern, text);
        }
    }

    #[test]
    fn a_hostile_pattern_can_be_stopped() {
        let text = vec![b'a'; 4 << 20];
        let pattern = Pattern::like(&format!("%{}b%", "a".repeat(900)), None);
        assert_eq!(pattern.matches(&text, || Err("late")), Err("late"));
    }
}
