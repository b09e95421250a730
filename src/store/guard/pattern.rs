//! LIKE and GLOB, as SQLite defines them, looking at the clock.
//!
//! SQLite's own can be busy with a single long text and a hostile pattern for minutes, and nothing can stop
//! it meanwhile. Source of the rules: `patternCompare` in SQLite's `func.c`, <https://sqlite.org/lang_expr.html>.

/// A pattern, taken apart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Pattern {
    parts: Vec<Part>,
    /// LIKE takes ASCII letters of both cases for the same.
    folds_case: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Part {
    /// These bytes.
    Literal(Vec<u8>),
    /// Any one character.
    One,
    /// Any characters, or none.
    Any,
    /// One character within these ranges, or outside of them.
    Set { ranges: Vec<(char, char)>, inverted: bool },
    /// Nothing matches: the pattern is torn.
    Never,
}

impl Pattern {
    /// A LIKE pattern: `%` is any text, `_` any character, `escape` takes the meaning from what follows it.
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

    /// A GLOB pattern: `*` is any text, `?` any character, `[a-z]` one of these, `[^a-z]` one that is none.
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

    /// Whether all of `text` matches. `tick` is asked every few thousand steps and ends it with its error.
    pub(super) fn matches<E>(&self, text: &[u8], mut tick: impl FnMut() -> Result<(), E>) -> Result<bool, E> {
        let (mut at, mut part) = (0, 0);
        // Behind the last `Any`: the part to go on with, and how far the text goes that it has swallowed.
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
                    if let Some(bytes) = self.taken(one, &text[at..]) {
                        at += bytes;
                        part += 1;
                        continue;
                    }
                }
                None if at == text.len() => return Ok(true),
                None => {}
            }
            let Some((behind, swallowed)) = retry else { return Ok(false) };
            if swallowed >= text.len() {
                return Ok(false);
            }
            let next = swallowed + character_bytes(&text[swallowed..]);
            let Some(next) = self.candidate(behind, text, next) else { return Ok(false) };
            retry = Some((behind, next));
            (at, part) = (next, behind);
            steps = steps.wrapping_add(1);
            if steps.is_multiple_of(1024) {
                tick()?;
            }
        }
    }

    /// How many bytes at the start of `text` a part takes; `None` where it does not match.
    fn taken(&self, part: &Part, text: &[u8]) -> Option<usize> {
        match part {
            Part::Literal(bytes) => {
                let there = text.get(..bytes.len())?;
                let same = if self.folds_case { there.eq_ignore_ascii_case(bytes) } else { there == bytes };
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

    /// The next place from `from` on at which the part could match; `None` where there is none.
    ///
    /// It looks for the next literal, which is what a text without a match is left by soonest.
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

/// Adds a character to the literal at the end.
fn literal(parts: &mut Vec<Part>, character: char) {
    let mut buffer = [0; 4];
    let bytes = character.encode_utf8(&mut buffer).as_bytes();
    match parts.last_mut() {
        Some(Part::Literal(literal)) => literal.extend_from_slice(bytes),
        _ => parts.push(Part::Literal(bytes.to_vec())),
    }
}

/// Reads a set behind its `[`; answers it and what follows its `]`, or `None` where that is missing.
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
            // A minus between two characters is a range; anywhere else it is itself.
            '-' if previous.is_some() && !rest.starts_with(']') && !rest.is_empty() => {
                let last = rest.chars().next()?;
                rest = &rest[last.len_utf8()..];
                ranges.push((previous.take()?, last));
            }
            other => {
                ranges.push((other, other));
                // The engine begins no range with a bracket that stands first.
                previous = (!first || other != ']').then_some(other);
            }
        }
        first = false;
    }
}

/// The bytes of the first character of a text that is not empty; 1 where it is none.
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
