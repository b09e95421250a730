//! Reads expansions: parameters, arithmetic and substitutions. Keeps the sources of the substitutions.
//!
//! A shell expands what is within a parameter or an arithmetic expression too, at any depth. The end of a substitution
//! is found by reading its commands, since quotes, comments and here-documents within them may contain its closer.

use super::Reader;

/// How many substitutions may lie within each other. If there are more, the rest of the text counts as the source of
/// the innermost.
const DEPTH_MAX: usize = 32;

/// How often, on average, each character may be read in advance. After that, the rest of the text counts as the source
/// of the next substitution.
const LOOKS_MAX: usize = 64;

/// What ends an open part of an expansion, and whether quotes are ordinary characters in it.
type Part = (Option<char>, bool);

/// A bracket of an arithmetic expression.
const ARITHMETIC: Part = (Some(')'), true);

impl Reader<'_> {
    /// Reads what follows a dollar or a backquote: an unknown part, which may hold nested sources. `is_quoted` tells
    /// whether it is within double quotes.
    pub(super) fn expand(&mut self, character: char, is_quoted: bool) {
        if character == '`' {
            return self.backquoted(is_quoted);
        }
        match self.peek(0) {
            Some('(' | '{') => {
                if let Some(parts) = self.opened(is_quoted) {
                    self.parts(parts);
                }
            }
            Some('\'') if !is_quoted => {
                let (text, is_unknown) = self.ansi_quoted();
                let word = self.word.get_or_insert_default();
                word.text.push_str(&text);
                word.is_unknown |= is_unknown;
                word.is_quoted = true;
            }
            // A text to be translated.
            Some('"') if !is_quoted => {}
            Some(next) if next.is_alphanumeric() || "_@*#?$!-".contains(next) => {
                self.at += 1;
                if next.is_alphabetic() || next == '_' {
                    while self.peek(0).is_some_and(|c| c.is_alphanumeric() || c == '_') {
                        self.at += 1;
                    }
                }
                self.word.get_or_insert_default().is_unknown = true;
            }
            Some(_) | None => self.push('$'),
        }
    }

    /// Keeps the source of a substitution, which makes its word unknown.
    pub(super) fn substitute(&mut self, source: String) {
        self.word.get_or_insert_default().is_unknown = true;
        self.command.nested.push(source);
    }

    /// Reads the commands of a substitution and their closer. Returns their source.
    pub(super) fn commands(&mut self, closer: char) -> String {
        let begin = self.at.min(self.text.len());
        let mut end = self.text.len();
        if self.depth >= DEPTH_MAX || self.has_looked_enough() {
            self.at = end;
        } else {
            let mut inner = Reader {
                text: self.text,
                at: begin,
                closer: Some(closer),
                depth: self.depth + 1,
                looked: self.looked,
                ..Reader::default()
            };
            inner.read();
            (self.at, self.looked) = (inner.at, inner.looked);
            end = if inner.is_closed { inner.at - 1 } else { end };
        }
        self.text[begin..end].iter().collect()
    }

    /// Reads an arithmetic expression after the first of its two opening brackets.
    pub(super) fn arithmetic(&mut self) {
        self.at += 1;
        self.parts(vec![ARITHMETIC, ARITHMETIC]);
    }

    /// Returns whether two opening brackets, the first of which was read, are closed by two that stand together, too.
    /// Then a shell reads an arithmetic expression, and otherwise a subshell.
    pub(super) fn is_arithmetic(&mut self) -> bool {
        if self.has_looked_enough() {
            return false;
        }
        let (mut at, mut depth) = (self.at + 1, 2);
        while depth > 1
            && let Some(next) = self.text.get(at)
        {
            at += 1;
            match next {
                '\\' => at += 1,
                '\'' | '"' => {
                    while let Some(quoted) = self.text.get(at)
                        && quoted != next
                    {
                        at += if (*quoted, *next) == ('\\', '"') { 2 } else { 1 };
                    }
                    at += 1;
                }
                '(' => depth += 1,
                ')' => depth -= 1,
                _ => {}
            }
        }
        self.looked += at - self.at;
        depth == 1 && self.text.get(at) == Some(&')')
    }

    fn has_looked_enough(&self) -> bool {
        self.looked > LOOKS_MAX * self.text.len()
    }

    /// Returns the sources of the substitutions in the body of a here-document.
    pub(super) fn substitutions(&self, body: &str) -> Vec<String> {
        // What is within a substitution is read once more by itself.
        if self.depth > 0 {
            return Vec::new();
        }
        let text: Vec<char> = body.chars().collect();
        let mut reader = Reader { text: &text, ..Reader::default() };
        reader.parts(vec![(None, true)]);
        reader.command.nested
    }

    /// Reads the opening bracket or brace after a dollar. Returns the parts that it opens. If it opens a substitution,
    /// reads that whole and returns `None`.
    fn opened(&mut self, is_quoted: bool) -> Option<Vec<Part>> {
        let opening = self.peek(0);
        self.at += 1;
        let closer = match (opening, self.peek(0)) {
            (Some('{'), Some(' ' | '\t' | '\n')) => '}',
            (Some('{'), Some('|')) => {
                self.at += 1;
                '}'
            }
            (Some('{'), _) => return Some(vec![(Some('}'), is_quoted)]),
            (_, Some('(')) if self.is_arithmetic() => {
                self.at += 1;
                return Some(vec![ARITHMETIC, ARITHMETIC]);
            }
            _ => ')',
        };
        let source = self.commands(closer);
        self.substitute(source);
        None
    }

    /// Reads the inside of a parameter or of an arithmetic expression up to the end of the first of the open `parts`,
    /// and keeps the sources of the substitutions in it. The text itself is unknown.
    fn parts(&mut self, mut parts: Vec<Part>) {
        while let (Some((closer, is_quoted)), Some(next)) = (parts.last().copied(), self.peek(0)) {
            self.at += 1;
            match (next, self.peek(0)) {
                ('\\', Some(_)) => self.at += 1,
                _ if Some(next) == closer => {
                    parts.pop();
                }
                ('"', _) if closer != Some('\'') => parts.push((Some('"'), true)),
                // As `is_arithmetic` reads it: no closer counts within these quotes.
                ('\'', _) if closer == ARITHMETIC.0 => parts.push((Some('\''), true)),
                ('\'', _) if !is_quoted => {
                    while self.peek(0).is_some_and(|quoted| quoted != '\'') {
                        self.at += 1;
                    }
                    self.at += usize::from(self.peek(0).is_some());
                }
                ('`', _) => self.backquoted(is_quoted),
                ('$', Some('(' | '{')) => parts.extend(self.opened(is_quoted).into_iter().flatten()),
                ('$', Some('\'')) if !is_quoted => drop(self.ansi_quoted()),
                ('<' | '>', Some('(')) if !is_quoted => {
                    self.at += 1;
                    let source = self.commands(')');
                    self.substitute(source);
                }
                ('(', _) if closer == ARITHMETIC.0 => parts.push(ARITHMETIC),
                _ => {}
            }
        }
        self.word.get_or_insert_default().is_unknown = true;
    }

    /// Reads a substitution in backquotes. In its source, some characters are escaped once more.
    fn backquoted(&mut self, is_quoted: bool) {
        let mut source = String::new();
        while let Some(next) = self.peek(0) {
            self.at += 1;
            match (next, self.peek(0)) {
                ('`', _) => break,
                ('\\', Some(escaped))
                    if matches!(escaped, '`' | '\\' | '$') || (escaped == '"' && is_quoted) =>
                {
                    self.at += 1;
                    source.push(escaped);
                }
                _ => source.push(next),
            }
        }
        self.substitute(source);
    }

    /// Reads a text in `$'...'` from its first quote on. Returns it, and whether a part of it is unknown: escapes other
    /// than those of quotes and backslashes are not decoded.
    fn ansi_quoted(&mut self) -> (String, bool) {
        self.at += 1;
        let (mut text, mut is_unknown) = (String::new(), false);
        while let Some(next) = self.peek(0) {
            self.at += 1;
            match (next, self.peek(0)) {
                ('\'', _) => break,
                ('\\', Some(escaped)) => {
                    self.at += 1;
                    match escaped {
                        '\\' | '\'' | '"' => text.push(escaped),
                        _ => is_unknown = true,
                    }
                }
                _ => text.push(next),
            }
        }
        (text, is_unknown)
    }
}
