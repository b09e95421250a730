//! Reads expansions: parameters, arithmetic and substitutions. Keeps the sources of the substitutions.
//!
//! A shell expands what is within a parameter or an arithmetic expression too, at any depth. The end of a substitution
//! is found by reading its commands, since quotes, comments and here-documents within them may contain its closer.

use super::{EVALUATED, Reader, is_name_character};

/// How many substitutions may lie within each other. If there are more, the rest of the text counts as the source of
/// the innermost.
const DEPTH_MAX: usize = 32;

/// How often, on average, each character may be read in advance. After that, the rest of the text counts as the source
/// of the next substitution.
pub(super) const LOOKS_MAX: usize = 64;

/// What ends an open part of an expansion, and whether quotes are ordinary characters in it.
type Part = (char, bool);

/// A bracket of an arithmetic expression.
const ARITHMETIC: Part = (')', true);

/// A bracket of an old arithmetic expression (`$[1 + 2]`) or of a subscript.
const SUBSCRIPT: Part = (']', true);

/// The quotes in which an expansion stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Quotes {
    None,
    /// Double quotes of a word.
    Double,
    /// What a shell expands as in double quotes: a here-document, an expression, or a parameter that is quoted.
    Inner,
}

/// A text that a shell expands, but in which quotes are ordinary characters.
#[derive(Default)]
pub(super) struct Expanded {
    /// The text without its escapes. Its expansions are unknown parts.
    pub source: String,
    /// The sources of its substitutions.
    pub nested: Vec<String>,
    pub is_unclear: bool,
}

impl Reader<'_> {
    /// Reads what follows a dollar or a backquote: an unknown part, which may hold nested sources.
    pub(super) fn expand(&mut self, character: char, quotes: Quotes) {
        let begin = self.at;
        let is_blank = character == '$' && quotes == Quotes::None && self.is_ifs();
        self.expansion(character, quotes);
        // Even in quotes, these are several words: all parameters, all values of an array, what another variable names.
        let text = self.text.get(begin..self.at).unwrap_or_default();
        let is_list = text.starts_with(&['{']) && text.iter().any(|c| matches!(c, '@' | '!'));
        let is_several = quotes == Quotes::None || is_list || text.starts_with(&['@']);
        let Some(word) = self.word.as_mut().filter(|word| word.is_unknown) else { return };
        word.is_several |= is_several;
        if let Some(gap) = word.gaps.last_mut().filter(|_| is_blank) {
            gap.is_blank = true;
        }
    }

    fn expansion(&mut self, character: char, quotes: Quotes) {
        if character == '`' {
            return self.backquoted(quotes);
        }
        let is_quoted = quotes != Quotes::None;
        match self.peek(0) {
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
                self.at += 1;
                if next.is_ascii_alphabetic() || next == '_' {
                    while self.peek(0).is_some_and(is_name_character) {
                        self.at += 1;
                    }
                }
                self.unknown();
            }
            Some(_) | None => self.push('$'),
        }
    }

    /// Returns whether the variable `IFS` stands here.
    fn is_ifs(&self) -> bool {
        let begin = usize::from(self.peek(0) == Some('{'));
        let is_here = "IFS".chars().enumerate().all(|(place, c)| self.peek(begin + place) == Some(c));
        is_here && !self.peek(begin + 3).is_some_and(is_name_character)
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

    /// Reads a text that a shell expands, but in which quotes are ordinary characters.
    pub(super) fn expanded(&mut self, text: &str) -> Expanded {
        // What is within a substitution is read once more by itself.
        if self.depth > 0 {
            return Expanded::default();
        }
        let text: Vec<char> = text.chars().collect();
        let mut reader = Reader { text: &text, is_part: true, ..Reader::default() };
        while let Some(next) = reader.peek(0) {
            reader.at += 1;
            match (next, reader.peek(0)) {
                ('\\', Some(escaped @ ('$' | '`' | '\\'))) => {
                    reader.at += 1;
                    reader.push(escaped);
                }
                ('$' | '`', _) => reader.expand(next, Quotes::Inner),
                _ => reader.push(next),
            }
        }
        self.looked += text.len() + reader.looked;
        Expanded {
            source: reader.word.map(|word| word.source()).unwrap_or_default(),
            nested: reader.command.nested,
            is_unclear: reader.is_unclear,
        }
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
            (Some('{'), _) => return Some(vec![('}', is_quoted)]),
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
                _ if next == closer => {
                    parts.pop();
                }
                ('"', _) => parts.push(('"', true)),
                ('\'', _) if is_expression(closer) => is_crossed |= self.expanded_quote(),
                ('\'', _) if closer == '}' && is_quoted => self.doubtful_quote(),
                ('\'', _) if !is_quoted => self.skip_quote(),
                ('`', _) => self.backquoted(if is_quoted { Quotes::Inner } else { Quotes::None }),
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
                // Some shells know no such expression: a command begins or ends here ..
                (';' | '&' | '|' | '(' | ')' | '#' | '\n', _) if closer == SUBSCRIPT.0 => {
                    self.is_unclear = true;
                }
                // .. or a file or a here-document is named. To these shells, the next lines have other quotes.
                ('<' | '>', _) if closer == SUBSCRIPT.0 => self.check(false),
                _ => {}
            }
        }
        let is_evaluated = is_evaluated(self.text.get(begin..self.at).unwrap_or_default());
        self.is_unclear |= is_crossed || is_evaluated;
        if is_crossed && is_all_expression && !self.is_part {
            let text: String = self.text[begin..self.at].iter().collect();
            let nested = self.expanded(&text).nested;
            self.command.nested.extend(nested);
        }
        self.unknown();
        let is_closed = parts.is_empty();
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
        let text: String = self.text[begin..self.at].iter().collect();
        let expanded = self.expanded(&text);
        self.command.nested.extend(expanded.nested);
        expanded.is_unclear
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
    fn backquoted(&mut self, quotes: Quotes) {
        let mut source = String::new();
        let mut is_closed = false;
        while let Some(next) = self.peek(0)
            && !is_closed
        {
            self.at += 1;
            match (next, self.peek(0)) {
                ('`', _) => is_closed = true,
                ('\\', Some(escaped))
                    if matches!(escaped, '`' | '\\' | '$')
                        || (escaped == '"' && quotes == Quotes::Double) =>
                {
                    self.at += 1;
                    source.push(escaped);
                }
                ('\\', Some('"')) if quotes == Quotes::Inner => {
                    // Bash keeps the backslash, and other shells remove it.
                    self.is_unclear = true;
                    source.push('\\');
                }
                _ => source.push(next),
            }
        }
        self.is_unclear |= !is_closed;
        self.substitute(source);
    }
}

/// Returns whether bash evaluates a value here: as a prompt (`${x@P}`), or because a variable gets it that bash
/// evaluates by itself (`${PS4:=x}`).
fn is_evaluated(text: &[char]) -> bool {
    if !text.iter().any(|character| matches!(character, '@' | '=')) {
        return false;
    }
    let text: String = text.iter().collect();
    let is_given = |name: &&str| {
        let mut places = text.match_indices(*name).map(|(at, _)| &text[at + name.len()..]);
        places.any(|rest| rest.starts_with('=') || rest.starts_with(":="))
    };
    text.contains("@P}") || EVALUATED.iter().any(is_given)
}

fn is_expression(closer: char) -> bool {
    closer == ARITHMETIC.0 || closer == SUBSCRIPT.0
}
