//! The error messages of Python's JSON parser. The model reads them, so they have the same words as in the reference.
//! Every agent that runs here needs them, when its model writes arguments that are no JSON.
//!
//! Source: the messages of Python 3.13's `json` for many texts.

use crate::json::DEPTH_MAX;

/// Python's message, and the index of the character at fault.
struct SyntaxError(&'static str, usize);

/// Returns Python's error message for a text. `None` if the text is valid JSON to Python.
pub(super) fn complaint(text: &str) -> Option<String> {
    let characters: Vec<char> = text.chars().collect();
    let reader = Reader { text: &characters };
    let Err(SyntaxError(message, at)) = reader.document() else { return None };
    let line = 1 + characters[..at].iter().filter(|c| **c == '\n').count();
    let column = at - characters[..at].iter().rposition(|c| *c == '\n').map_or(0, |newline| newline + 1) + 1;
    Some(format!("{message}: line {line} column {column} (char {at})"))
}

struct Reader<'t> {
    text: &'t [char],
}

/// The index of the first character after what was read.
type End = Result<usize, SyntaxError>;

impl Reader<'_> {
    fn document(&self) -> Result<(), SyntaxError> {
        let end = self.value(self.skip_space(0), 0)?;
        let end = self.skip_space(end);
        if end < self.text.len() { Err(SyntaxError("Extra data", end)) } else { Ok(()) }
    }

    fn at(&self, place: usize) -> Option<char> {
        self.text.get(place).copied()
    }

    fn skip_space(&self, mut place: usize) -> usize {
        while matches!(self.at(place), Some(' ' | '\t' | '\n' | '\r')) {
            place += 1;
        }
        place
    }

    fn value(&self, place: usize, depth: usize) -> End {
        let none = SyntaxError("Expecting value", place);
        if depth > DEPTH_MAX {
            return Err(SyntaxError("maximum recursion depth exceeded", place));
        }
        match self.at(place) {
            Some('"') => self.string(place),
            Some('{') => self.object(place, depth),
            Some('[') => self.array(place, depth),
            Some('-' | '0'..='9') => self.number(place).ok_or(none),
            Some(_) => {
                let word = |word: &&str| self.text[place..].iter().copied().take(word.len()).eq(word.chars());
                let words = ["null", "true", "false", "NaN", "Infinity"];
                words.iter().find(|candidate| word(candidate)).map(|word| place + word.len()).ok_or(none)
            }
            None => Err(none),
        }
    }

    fn number(&self, place: usize) -> Option<usize> {
        let mut end = place + usize::from(self.at(place) == Some('-'));
        if self.text[end..].starts_with(&['I', 'n', 'f', 'i', 'n', 'i', 't', 'y']) && end > place {
            return Some(end + 8);
        }
        let digits = |mut end: usize| {
            while self.at(end).is_some_and(|c| c.is_ascii_digit()) {
                end += 1;
            }
            end
        };
        end = match self.at(end) {
            Some('0') => end + 1,
            Some('1'..='9') => digits(end),
            Some(_) | None => return None,
        };
        if self.at(end) == Some('.') && digits(end + 1) > end + 1 {
            end = digits(end + 1);
        }
        if matches!(self.at(end), Some('e' | 'E')) {
            let sign = usize::from(matches!(self.at(end + 1), Some('+' | '-')));
            if digits(end + 1 + sign) > end + 1 + sign {
                end = digits(end + 1 + sign);
            }
        }
        Some(end)
    }

    fn string(&self, begin: usize) -> End {
        let mut place = begin + 1;
        loop {
            match self.at(place) {
                None => return Err(SyntaxError("Unterminated string starting at", begin)),
                Some('"') => return Ok(place + 1),
                Some('\\') => place = self.escape(begin, place)?,
                Some(control) if control < ' ' => {
                    return Err(SyntaxError("Invalid control character at", place));
                }
                Some(_) => place += 1,
            }
        }
    }

    fn escape(&self, begin: usize, place: usize) -> End {
        match self.at(place + 1) {
            None => Err(SyntaxError("Unterminated string starting at", begin)),
            Some('u') => {
                let digits = self.text.get(place + 2..place + 6);
                let is_hex = digits.is_some_and(|digits| digits.iter().all(char::is_ascii_hexdigit));
                if is_hex { Ok(place + 6) } else { Err(SyntaxError("Invalid \\uXXXX escape", place + 1)) }
            }
            Some('"' | '\\' | '/' | 'b' | 'f' | 'n' | 'r' | 't') => Ok(place + 2),
            Some(_) => Err(SyntaxError("Invalid \\escape", place)),
        }
    }

    fn object(&self, begin: usize, depth: usize) -> End {
        let mut place = self.skip_space(begin + 1);
        if self.at(place) == Some('}') {
            return Ok(place + 1);
        }
        loop {
            if self.at(place) != Some('"') {
                return Err(SyntaxError("Expecting property name enclosed in double quotes", place));
            }
            place = self.skip_space(self.string(place)?);
            if self.at(place) != Some(':') {
                return Err(SyntaxError("Expecting ':' delimiter", place));
            }
            place = self.skip_space(self.value(self.skip_space(place + 1), depth + 1)?);
            match self.at(place) {
                Some('}') => return Ok(place + 1),
                Some(',') => {}
                Some(_) | None => return Err(SyntaxError("Expecting ',' delimiter", place)),
            }
            let comma = place;
            place = self.skip_space(place + 1);
            if self.at(place) == Some('}') {
                return Err(SyntaxError("Illegal trailing comma before end of object", comma));
            }
        }
    }

    fn array(&self, begin: usize, depth: usize) -> End {
        let mut place = self.skip_space(begin + 1);
        if self.at(place) == Some(']') {
            return Ok(place + 1);
        }
        loop {
            place = self.skip_space(self.value(place, depth + 1)?);
            match self.at(place) {
                Some(']') => return Ok(place + 1),
                Some(',') => {}
                Some(_) | None => return Err(SyntaxError("Expecting ',' delimiter", place)),
            }
            let comma = place;
            place = self.skip_space(place + 1);
            if self.at(place) == Some(']') {
                return Err(SyntaxError("Illegal trailing comma before end of array", comma));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The messages are those of Python 3.13 for the same texts.
    #[test]
    fn error_messages_are_those_of_python() {
        for (text, message) in [
            ("", "Expecting value: line 1 column 1 (char 0)"),
            (r#"{"command": "ls"#, "Unterminated string starting at: line 1 column 13 (char 12)"),
            ("{\"a\":\n 1,}", "Illegal trailing comma before end of object: line 2 column 3 (char 8)"),
            ("[1,]", "Illegal trailing comma before end of array: line 1 column 3 (char 2)"),
            ("{a: 1}", "Expecting property name enclosed in double quotes: line 1 column 2 (char 1)"),
            (r#"{"a" 1}"#, "Expecting ':' delimiter: line 1 column 6 (char 5)"),
            (r#"{"a": 1 "b": 2}"#, "Expecting ',' delimiter: line 1 column 9 (char 8)"),
            (r#"{"a": }"#, "Expecting value: line 1 column 7 (char 6)"),
            ("{} {}", "Extra data: line 1 column 4 (char 3)"),
            (r#"{"a": "\q"}"#, "Invalid \\escape: line 1 column 8 (char 7)"),
            (r#"{"a": "\u12"}"#, "Invalid \\uXXXX escape: line 1 column 9 (char 8)"),
            ("01", "Extra data: line 1 column 2 (char 1)"),
            ("{\"a\": \"x\ny\"}", "Invalid control character at: line 1 column 9 (char 8)"),
        ] {
            assert_eq!(complaint(text).as_deref(), Some(message), "{text}");
        }
        for text in ["{}", r#"{"a":[1,-2.5e3,null,true]}"#, "NaN", "-Infinity", " \"x\" "] {
            assert_eq!(complaint(text), None, "{text}");
        }
    }
}
