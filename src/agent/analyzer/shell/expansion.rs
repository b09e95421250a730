//! Reads expansions: parameters, arithmetic and substitutions. Keeps the sources of the substitutions.
//!
//! A shell expands what is within a parameter or an arithmetic expression too, at any depth. The end of a substitution
//! is found by reading its commands, since quotes, comments and here-documents within them may contain its closer.

use super::grammar::Place;
use super::redirection::Target;
use super::{Reader, is_name_character};

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

/// A bracket of an old arithmetic expression (`$[1 + 2]`) or of a subscript.
const SUBSCRIPT: Part = (Some(']'), true);

impl Reader<'_> {
    /// Reads what follows a dollar or a backquote: an unknown part, which may hold nested sources. `is_quoted` tells
    /// whether it is within double quotes.
    pub(super) fn expand(&mut self, character: char, is_quoted: bool) {
        if character == '`' {
            return self.backquoted(is_quoted);
        }
        match self.peek(0) {
            Some('{') if self.is_separator(1, is_quoted) => {
                self.separate();
                self.at += 1;
                self.parts(vec![(Some('}'), false)]);
                self.word = None;
            }
            Some('(' | '{' | '[') => {
                if let Some(parts) = self.opened(is_quoted) {
                    self.parts(parts);
                }
            }
            Some('\'') if !is_quoted => {
                // Not every shell takes such a text for the same marker.
                self.is_unclear |= self.awaits_marker();
                self.ansi_part();
            }
            // A text to be translated.
            Some('"') if !is_quoted => self.is_unclear |= self.awaits_marker(),
            // A line continuation: the dollar belongs to what follows it, but is not read so.
            Some('\\') if self.peek(1) == Some('\n') => {
                self.is_unclear = true;
                self.push('$');
            }
            Some(next) if next.is_ascii_alphanumeric() || "_@*#?$!-".contains(next) => {
                let separates = self.is_separator(0, is_quoted);
                self.at += 1;
                if next.is_ascii_alphabetic() || next == '_' {
                    while self.peek(0).is_some_and(is_name_character) {
                        self.at += 1;
                    }
                }
                if separates {
                    self.separate();
                } else {
                    self.unknown();
                }
            }
            Some(_) | None => self.push('$'),
        }
    }

    /// Returns whether the variable `IFS` stands here and separates words. Its value is white space.
    fn is_separator(&self, ahead: usize, is_quoted: bool) -> bool {
        let name = "IFS".chars().enumerate();
        let is_here = name.map(|(place, c)| (ahead + place, c)).all(|(place, c)| self.peek(place) == Some(c))
            && !self.peek(ahead + 3).is_some_and(is_name_character);
        is_here && !is_quoted && self.target == Target::Word && !self.is_in_words()
    }

    /// Ends a word at an expansion. Neither that word nor the next one is a keyword.
    fn separate(&mut self) {
        if let Some(word) = &mut self.word {
            word.is_quoted = true;
        }
        self.end_word();
        self.take_words(Place::Words);
        self.has_begun = true;
    }

    /// Keeps the source of a substitution, which makes its word unknown.
    pub(super) fn substitute(&mut self, source: String) {
        self.unknown();
        self.command.nested.push(source);
    }

    /// Reads the commands of a substitution and their closer. Returns their source.
    pub(super) fn commands(&mut self, closer: char) -> String {
        let begin = self.at.min(self.text.len());
        let mut end = self.text.len();
        if self.depth >= DEPTH_MAX || self.has_looked_enough() {
            self.at = end;
            self.is_unclear = true;
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
            self.is_unclear |= inner.is_unclear || !inner.is_closed;
            self.is_doubtful |= inner.is_doubtful;
            end = if inner.is_closed { inner.at - 1 } else { end };
        }
        self.text[begin..end].iter().collect()
    }

    /// Reads an arithmetic expression after the first of its two opening brackets.
    pub(super) fn arithmetic(&mut self) {
        self.at += 1;
        self.parts(vec![ARITHMETIC, ARITHMETIC]);
    }

    /// Reads a subscript after its opening bracket.
    pub(super) fn subscript(&mut self) {
        self.push('[');
        self.parts(vec![SUBSCRIPT]);
        self.push(']');
    }

    /// Returns whether two opening brackets, the first of which was read, are closed by two that stand together, too.
    /// Then a shell reads an arithmetic expression, and otherwise a subshell.
    pub(super) fn is_arithmetic(&mut self) -> bool {
        if self.depth >= DEPTH_MAX || self.has_looked_enough() {
            self.is_unclear = true;
            return false;
        }
        let mut trial = Reader {
            text: self.text,
            at: self.at + 1,
            depth: self.depth + 1,
            looked: self.looked,
            ..Reader::default()
        };
        let is_closed = trial.parts(vec![ARITHMETIC]);
        self.looked = trial.looked + trial.at - self.at;
        self.is_unclear |= trial.is_unclear;
        is_closed && trial.peek(0) == Some(')')
    }

    fn has_looked_enough(&self) -> bool {
        self.looked > LOOKS_MAX * self.text.len()
    }

    /// Returns the sources of the substitutions in a text in which quotes are ordinary characters.
    pub(super) fn substitutions(&mut self, text: &str) -> Vec<String> {
        // What is within a substitution is read once more by itself.
        if self.depth > 0 {
            return Vec::new();
        }
        let (nested, is_unclear) = expanded(text);
        self.is_unclear |= is_unclear;
        nested
    }

    /// Reads the opening bracket or brace after a dollar. Returns the parts that it opens. If it opens a substitution,
    /// reads that whole and returns `None`.
    fn opened(&mut self, is_quoted: bool) -> Option<Vec<Part>> {
        let opening = self.peek(0);
        self.at += 1;
        let closer = match (opening, self.peek(0)) {
            (Some('['), _) => return Some(vec![SUBSCRIPT]),
            (Some('{'), Some(' ' | '\t' | '\n' | '|')) => {
                // Only newer shells know these.
                self.is_unclear = true;
                self.at += usize::from(self.peek(0) == Some('|'));
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
    /// and keeps the sources of the substitutions in it. The text itself is unknown. Returns whether all are closed.
    fn parts(&mut self, mut parts: Vec<Part>) -> bool {
        let begin = self.at;
        let is_all_expression = parts.first().is_some_and(|(closer, _)| is_expression(*closer));
        let mut is_crossed = false;
        while let (Some((closer, is_quoted)), Some(next)) = (parts.last().copied(), self.peek(0)) {
            self.at += 1;
            match (next, self.peek(0)) {
                ('\\', Some(_)) => self.at += 1,
                _ if Some(next) == closer => {
                    parts.pop();
                }
                ('"', _) if closer.is_some() => parts.push((Some('"'), true)),
                ('\'', _) if is_expression(closer) => is_crossed |= self.expanded_quote(),
                ('\'', _) if closer == Some('}') && is_quoted => self.doubtful_quote(),
                ('\'', _) if !is_quoted => self.skip_quote(),
                ('`', _) => self.backquoted(is_quoted),
                ('$', Some('\\')) if self.peek(1) == Some('\n') => self.is_unclear = true,
                ('$', Some('(' | '{' | '[')) => parts.extend(self.opened(is_quoted).into_iter().flatten()),
                ('$', Some('\'')) if !is_quoted => drop(self.ansi_quoted()),
                ('<' | '>', Some('(')) if !is_quoted => {
                    self.at += 1;
                    let source = self.commands(')');
                    self.substitute(source);
                }
                ('(', _) if closer == ARITHMETIC.0 => parts.push(ARITHMETIC),
                ('[', _) if closer == SUBSCRIPT.0 => parts.push(SUBSCRIPT),
                // Some shells know no such expression: a command begins or ends here.
                (';' | '&' | '|' | '<' | '>' | '(' | ')' | '#' | '\n', _) if closer == SUBSCRIPT.0 => {
                    self.is_unclear = true;
                }
                _ => {}
            }
        }
        if is_crossed {
            self.is_unclear = true;
        }
        if is_crossed && is_all_expression {
            let text: String = self.text[begin..self.at].iter().collect();
            let nested = self.substitutions(&text);
            self.command.nested.extend(nested);
        }
        self.unknown();
        let is_closed = parts.iter().all(|(closer, _)| closer.is_none());
        self.is_unclear |= !is_closed;
        is_closed
    }

    /// Skips a text up to the single quote that ends it.
    fn skip_quote(&mut self) {
        while self.peek(0).is_some_and(|quoted| quoted != '\'') {
            self.at += 1;
        }
        self.is_unclear |= self.peek(0).is_none();
        self.at += usize::from(self.peek(0).is_some());
    }

    /// Reads a single quote of an expression. No closer counts within it, but a shell expands its text. Returns whether
    /// a substitution that begins in it does not end in it.
    fn expanded_quote(&mut self) -> bool {
        let begin = self.at;
        self.skip_quote();
        if self.depth > 0 {
            return false;
        }
        let text: String = self.text[begin..self.at].iter().collect();
        let (nested, is_unclear) = expanded(&text);
        self.command.nested.extend(nested);
        is_unclear
    }

    /// Reads a single quote of a parameter within double quotes. To bash it is a quote, to others a character. If both
    /// find the same end, its text is skipped.
    fn doubtful_quote(&mut self) {
        let rest = &self.text[self.at..];
        let length = rest.iter().position(|c| *c == '\'');
        match length.filter(|length| !rest[..*length].iter().any(|c| "}\"`\\({[".contains(*c))) {
            Some(length) => self.at += length + 1,
            None => self.is_unclear = true,
        }
    }

    /// Reads a substitution in backquotes. In its source, some characters are escaped once more.
    fn backquoted(&mut self, is_quoted: bool) {
        let mut source = String::new();
        let mut is_closed = false;
        while let Some(next) = self.peek(0)
            && !is_closed
        {
            self.at += 1;
            match (next, self.peek(0)) {
                ('`', _) => is_closed = true,
                ('\\', Some(escaped))
                    if matches!(escaped, '`' | '\\' | '$') || (escaped == '"' && is_quoted) =>
                {
                    self.at += 1;
                    source.push(escaped);
                }
                _ => source.push(next),
            }
        }
        self.is_unclear |= !is_closed;
        self.substitute(source);
    }
}

fn is_expression(closer: Option<char>) -> bool {
    closer == ARITHMETIC.0 || closer == SUBSCRIPT.0
}

/// Returns the sources of the substitutions in a text in which quotes are ordinary characters, and whether the text is
/// unclear.
fn expanded(text: &str) -> (Vec<String>, bool) {
    let text: Vec<char> = text.chars().collect();
    let mut reader = Reader { text: &text, ..Reader::default() };
    reader.parts(vec![(None, true)]);
    (reader.command.nested, reader.is_unclear)
}
