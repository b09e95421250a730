//! Reads the parts of words: quotes, escapes, and characters that are special within a word.

use super::expansion::Quotes;
use super::{Reader, Word};

impl Reader<'_> {
    /// Reads a character of a word, or a quoted, escaped or expanded part that begins with it.
    pub(super) fn word_part(&mut self, character: char) {
        match character {
            '\'' => self.single_quoted(),
            '"' => self.double_quoted(),
            '\\' => self.escaped(),
            '$' | '`' => self.expand(character, Quotes::None),
            '~' if self.word.is_none() => {
                self.push('~');
                self.word.get_or_insert_default().is_home = true;
            }
            '[' if self.begins_subscript() => self.subscript(),
            '}' => {
                self.push('}');
                self.end_braces();
            }
            other => {
                let is_pattern = matches!(other, '*' | '?' | '[') && !self.is_in_words();
                self.push(other);
                self.word.get_or_insert_default().is_pattern |= is_pattern;
            }
        }
    }

    /// Returns the word, which has a quoted part now.
    fn quoted(&mut self) -> &mut Word {
        let word = self.word.get_or_insert_default();
        word.is_quoted = true;
        word
    }

    fn single_quoted(&mut self) {
        self.quoted();
        while let Some(quoted) = self.peek(0) {
            self.at += 1;
            if quoted == '\'' {
                return;
            }
            self.push(quoted);
        }
        self.is_unclear = true;
    }

    fn double_quoted(&mut self) {
        self.quoted();
        while let Some(quoted) = self.peek(0) {
            self.at += 1;
            match quoted {
                '"' => return,
                '\\' if matches!(self.peek(0), Some('"' | '\\' | '$' | '`' | '\n')) => self.escaped(),
                '$' | '`' => self.expand(quoted, Quotes::Double),
                other => self.push(other),
            }
        }
        self.is_unclear = true;
    }

    fn escaped(&mut self) {
        match self.peek(0) {
            // It continues the line.
            Some('\n') => self.at += 1,
            Some(next) => {
                self.at += 1;
                self.push(next);
                self.quoted();
            }
            None => self.is_unclear = true,
        }
    }

    /// Notes if a closing brace ends alternatives (`{a,b}`) or a range (`{1..3}`).
    fn end_braces(&mut self) {
        if let Some(word) = &mut self.word
            && !word.is_several
            && let Some((_, inner)) = word.text.split_once('{')
            && (inner.contains(',') || inner.contains(".."))
        {
            word.is_several = true;
            word.is_unknown = true;
        }
    }

    /// Adds a text in `$'...'` to the word.
    pub(super) fn ansi_part(&mut self) {
        let (text, is_unknown) = self.ansi_quoted();
        self.quoted();
        text.chars().for_each(|character| self.push(character));
        if is_unknown {
            self.unknown();
        }
    }

    /// Reads a text in `$'...'` from its first quote on. Returns it, and whether a part of it is unknown.
    pub(super) fn ansi_quoted(&mut self) -> (String, bool) {
        self.at += 1;
        let (mut text, mut is_unknown, mut is_cut) = (String::new(), false, false);
        while let Some(next) = self.peek(0) {
            self.at += 1;
            let character = match next {
                '\'' => return (text, is_unknown),
                '\\' => self.ansi_escape(),
                other => Some(other),
            };
            match character {
                // A shell drops what follows a zero.
                Some('\0') => is_cut = true,
                Some(_) if is_cut => {}
                Some(character) => text.push(character),
                None => is_unknown = true,
            }
        }
        self.is_unclear = true;
        (text, is_unknown)
    }

    /// Reads what follows the backslash of an escape in `$'...'`. `None` if the character is not ASCII, or if not every
    /// shell knows the escape.
    fn ansi_escape(&mut self) -> Option<char> {
        let escaped = self.peek(0)?;
        if escaped.is_digit(8) {
            return self.ansi_number(8, 3);
        }
        self.at += 1;
        match escaped {
            'a' => Some('\u{7}'),
            'b' => Some('\u{8}'),
            'e' | 'E' => Some('\u{1b}'),
            'f' => Some('\u{c}'),
            'n' => Some('\n'),
            'r' => Some('\r'),
            't' => Some('\t'),
            'v' => Some('\u{b}'),
            '\\' | '\'' | '"' | '?' => Some(escaped),
            'x' => self.ansi_number(16, 2),
            'u' => self.ansi_number(16, 4),
            'U' => self.ansi_number(16, 8),
            _ => None,
        }
    }

    fn ansi_number(&mut self, radix: u32, digits_max: usize) -> Option<char> {
        let (mut value, mut n_digits) = (0, 0);
        while n_digits < digits_max
            && let Some(digit) = self.peek(0).and_then(|c| c.to_digit(radix))
        {
            self.at += 1;
            value = value * radix + digit;
            n_digits += 1;
        }
        char::from_u32(value).filter(|character| n_digits > 0 && character.is_ascii())
    }
}
