//! A parser for command lines, as exact as its callers need: pipelines, their commands, their words, and the lines
//! between which commands are complete.
//!
//! The analyzers of risk read with [`read`] what a command does. The terminal finds with [`split`] where a command ends.
//! It removes quotes, marks words as unknown if only a running shell would know their value, and keeps nested sources
//! (substitutions, here-documents) as text for the caller. It reads as bash does. A source is unclear if shells do not
//! agree on it, or if it ends within something that is open: a command may be hidden in it. It is not a shell: syntax
//! that it does not know is read as plain words, and no input makes it run for long.
//!
//! Why not the crate `brush-parser`: it is one shell's grammar, which either accepts a source or not, while a risk is
//! found where shells differ. It brings 67 crates more, and has no bound on depth.

mod expansion;
mod grammar;
mod lines;
mod quote;
mod redirection;
mod syntax;

use grammar::Place;
pub(crate) use lines::split;
use redirection::{Awaited, Target};
use syntax::Open;

/// Stands for an unknown part of a word if the word is the source of another shell.
const UNKNOWN: char = '\u{10fffd}';

/// Variables whose values bash runs, expands or reads as a file by itself.
pub(crate) const EVALUATED: &[&str] =
    &["BASH_ENV", "MAILPATH", "PROMPT_COMMAND", "PS0", "PS1", "PS2", "PS3", "PS4"];

/// A word of a command.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Word {
    /// The text, without quotes and without its unknown parts.
    pub text: String,
    /// Whether the word has a part that only a running shell would know.
    pub is_unknown: bool,
    /// The unknown parts, in their order.
    pub gaps: Vec<Gap>,
    /// Whether the word begins with an unquoted tilde.
    pub is_home: bool,
    /// Whether a part of the word is quoted or escaped.
    pub is_quoted: bool,
    /// Whether the word is a pattern: a shell puts the names of files in its place.
    pub is_pattern: bool,
    /// Whether a shell may make several words of it: because of its braces, or because of an unknown part that no
    /// quotes keep together.
    pub is_several: bool,
}

/// An unknown part of a word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Gap {
    /// Its place in the text, in bytes.
    pub at: usize,
    /// Whether it is `$IFS` without quotes. Its value is white space, unless a command has changed it.
    pub is_blank: bool,
}

impl Word {
    /// Returns the text as the source of a shell. Each unknown part is an unknown part there too.
    pub fn source(&self) -> String {
        let mut source = String::with_capacity(self.text.len());
        let mut begin = 0;
        for gap in &self.gaps {
            source.push_str(&self.text[begin..gap.at]);
            source.push(UNKNOWN);
            begin = gap.at;
        }
        source.push_str(&self.text[begin..]);
        if self.is_several && self.gaps.is_empty() {
            source.push(UNKNOWN);
        }
        source
    }

    /// Returns whether the word assigns to a variable or to an element of an array. The name has no unknown part.
    pub fn is_assignment(&self) -> bool {
        let Some((name, _)) = self.text.split_once('=') else { return false };
        let target = name.strip_suffix('+').unwrap_or(name);
        let (variable, subscript) = match target.strip_suffix(']').and_then(|text| text.split_once('[')) {
            Some((variable, _)) => (variable, variable.len() + 1..target.len()),
            None => (target, 0..0),
        };
        let is_in_name = |gap: &Gap| gap.at <= name.len() && !subscript.contains(&gap.at);
        is_name(variable) && !self.gaps.iter().any(is_in_name)
    }

    /// Returns the words that a shell makes of it if the value of `IFS` is white space.
    pub fn separated(&self) -> Vec<Self> {
        let mut words = Vec::new();
        let mut word = Self { is_home: self.is_home, ..Self::default() };
        let mut begin = 0;
        for gap in &self.gaps {
            word.text.push_str(&self.text[begin..gap.at]);
            begin = gap.at;
            if gap.is_blank {
                words.push(std::mem::take(&mut word));
            } else {
                word.is_unknown = true;
                word.gaps.push(Gap { at: word.text.len(), is_blank: false });
            }
        }
        word.text.push_str(&self.text[begin..]);
        words.push(word);
        words.retain(|word| word.is_unknown || !word.text.is_empty());
        for word in &mut words {
            (word.is_quoted, word.is_pattern, word.is_several) =
                (self.is_quoted, self.is_pattern, word.is_unknown);
        }
        words
    }

    /// Returns whether a shell may put other words in its place, and another number of them.
    pub fn may_be_several(&self) -> bool {
        self.is_several || self.is_pattern
    }

    /// Returns whether the word may be an option, because its first part is unknown. No option has a slash in its first
    /// part.
    pub fn may_be_option(&self) -> bool {
        let begins = self.text.is_empty() || self.text.starts_with('-');
        self.is_unknown
            && !self.text.contains('/')
            && (begins || self.gaps.first().is_some_and(|gap| gap.at == 0))
    }

    /// Returns whether the word is this text, without quotes and without unknown parts.
    fn is_plain(&self, text: &str) -> bool {
        !self.is_quoted && !self.is_unknown && self.text == text
    }
}

fn is_name(text: &str) -> bool {
    !text.starts_with(|c: char| c.is_ascii_digit()) && !text.is_empty() && text.chars().all(is_name_character)
}

fn is_name_character(character: char) -> bool {
    character.is_ascii_alphanumeric() || character == '_'
}

/// A command with its input and its nested sources.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Command {
    pub words: Vec<Word>,
    pub inputs: Inputs,
    /// The sources of the substitutions within the command's words and its here-document.
    pub nested: Vec<String>,
    /// The expressions of arithmetic commands. Some shells read commands there.
    pub expressions: Vec<String>,
    /// Whether the words are no command: they are values of an array, or the subject or a pattern of a `case`, or they
    /// stand in a condition.
    pub is_data: bool,
    /// Whether the end of a group or of a loop stands here, and a pipe follows.
    pub is_group: bool,
}

/// What the redirections of a command let it read.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Inputs {
    /// The texts of the here-documents and here-strings, of any file descriptor.
    pub texts: Vec<String>,
    /// How many of these belong to the standard input. Only the last of them is read.
    pub n_standard: usize,
    /// Whether the standard input may be a file or a copy of another descriptor.
    pub is_open: bool,
}

impl Inputs {
    /// Returns whether the standard input is one of the texts, and nothing else.
    pub fn is_known(&self) -> bool {
        self.n_standard == 1 && !self.is_open
    }

    /// Returns whether the command keeps the standard input that it gets from its pipe or its shell.
    pub fn is_kept(&self) -> bool {
        self.n_standard == 0 && !self.is_open
    }
}

/// Commands that are connected by pipes.
pub(crate) type Pipeline = Vec<Command>;

/// What was read of a source.
#[derive(Debug, Clone, Default)]
pub(crate) struct Script {
    /// The pipelines, in order.
    pub pipelines: Vec<Pipeline>,
    /// Whether a command may be hidden: the source ends within something that is open, or shells do not agree on it.
    pub is_unclear: bool,
    /// How many characters were read, with those that were read in advance.
    pub work: usize,
}

/// Returns whether a source has a part that only a running shell would know.
pub(crate) fn is_incomplete(source: &str) -> bool {
    source.contains(UNKNOWN)
}

/// Returns the sources of the substitutions in a text that a shell expands, and how many characters were read. Quotes
/// are ordinary characters in it.
pub(crate) fn substitutions(text: &str) -> (Vec<String>, usize) {
    let mut reader = Reader::default();
    let nested = reader.expanded(text).nested;
    (nested, reader.looked)
}

/// Reads a source.
pub(crate) fn read(source: &str) -> Script {
    let text: Vec<char> = source.chars().collect();
    // A terminal may act on a control character, and a carriage return is a line end to some programs.
    let is_unclear = text.iter().any(|c| c.is_control() && !matches!(c, '\n' | '\t'));
    let mut reader = Reader { text: &text, is_unclear, ..Reader::default() };
    reader.read();
    let has_inner_line_ends = text.iter().filter(|c| **c == '\n').count() > reader.line_ends;
    let is_unclear = reader.is_unclear || (reader.is_doubtful && has_inner_line_ends);
    Script { pipelines: reader.pipelines, is_unclear, work: text.len() + reader.looked }
}

/// Reads a source, or the commands of one substitution within it.
#[derive(Default)]
struct Reader<'t> {
    text: &'t [char],
    at: usize,
    /// The character that ends the commands of a substitution. `None` if the end of the text ends them.
    closer: Option<char>,
    /// Whether the closer was read.
    is_closed: bool,
    /// In how many substitutions the commands are.
    depth: usize,
    /// How many characters were read in advance, or read once more.
    looked: usize,
    /// Whether the text is a part of another one that is read once more.
    is_part: bool,
    /// Whether a command may be hidden in what was read.
    is_unclear: bool,
    /// Whether what was read may have an error.
    is_doubtful: bool,
    /// How many line ends were read outside of words, comments and here-documents.
    line_ends: usize,
    /// Whether all before this place is complete, so that the next word or operator begins a line of commands.
    is_between_lines: bool,
    /// The places at which lines of commands begin.
    starts: Vec<usize>,
    place: Place,
    pipelines: Vec<Pipeline>,
    pipeline: Pipeline,
    command: Command,
    word: Option<Word>,
    /// The role of the next word.
    target: Target,
    /// Whether the command has a redirection or an array. No keyword follows then.
    has_begun: bool,
    /// Whether the command has `&>`. To some shells, another command begins there.
    is_split: bool,
    /// Here-documents whose bodies begin with the next line.
    awaited: Vec<Awaited>,
    /// The brackets, braces, conditions and `case` commands that are open.
    open: Vec<Open>,
}

impl Reader<'_> {
    fn peek(&self, ahead: usize) -> Option<char> {
        self.text.get(self.at + ahead).copied()
    }

    fn read(&mut self) {
        while let Some(character) = self.peek(0) {
            self.note_start(character);
            self.at += 1;
            if ";&|<>(".contains(character) {
                self.check_operator();
            }
            match character {
                ' ' | '\t' | '\r' => self.end_word(),
                '\n' => self.end_line(),
                ';' => {
                    self.end_word();
                    self.take_semicolon();
                    self.end_pipeline();
                }
                '(' => self.open_bracket(),
                ')' => {
                    self.end_pipeline();
                    if self.close_bracket() {
                        return self.close();
                    }
                }
                '}' if self.is_block_end() => return self.close(),
                '&' if self.peek(0) == Some('>') => {
                    self.redirect();
                    self.is_split = true;
                }
                '&' | '|' if self.peek(0) == Some(character) => {
                    self.at += 1;
                    self.end_word();
                    self.take_junction();
                    self.end_pipeline();
                }
                '&' => {
                    self.end_word();
                    self.take_separator();
                    self.end_pipeline();
                }
                '|' => {
                    self.at += usize::from(self.peek(0) == Some('&'));
                    self.end_word();
                    self.take_pipe();
                    self.end_command();
                }
                '<' | '>' if self.peek(0) == Some('(') => {
                    self.at += 1;
                    let source = self.commands(')');
                    self.substitute(source);
                    self.word.get_or_insert_default().is_several = true;
                }
                '<' | '>' => {
                    self.at -= 1;
                    self.redirect();
                }
                // A shell does not separate words at a carriage return.
                '#' if self.word.is_none() && self.text.get(self.at.wrapping_sub(2)) != Some(&'\r') => {
                    self.comment();
                }
                other => self.word_part(other),
            }
        }
        self.end_word();
        self.is_unclear |= !self.open.is_empty() || !self.awaited.is_empty() || self.waits();
        self.end_pipeline();
    }

    /// Notes a line continuation within an operator: the operator is not read as one here.
    fn check_operator(&mut self) {
        let mut ahead = 0;
        while (self.peek(ahead), self.peek(ahead + 1)) == (Some('\\'), Some('\n')) {
            ahead += 2;
        }
        let goes_on = self.peek(ahead).is_some_and(|next| ";&|<>()-".contains(next));
        self.is_unclear |= ahead > 0 && goes_on;
    }

    /// Ends the commands of a substitution at their closer.
    fn close(&mut self) {
        self.is_closed = true;
        // Shells do not agree where the body of such a here-document is.
        self.is_unclear |= !self.awaited.is_empty();
        self.check(!self.waits());
    }

    fn comment(&mut self) {
        self.is_unclear |= self.is_in_pattern();
        while self.peek(0).is_some_and(|c| c != '\n') {
            self.at += 1;
        }
    }

    /// Adds a character to the word.
    fn push(&mut self, character: char) {
        if character == UNKNOWN {
            self.unknown();
        } else {
            self.word.get_or_insert_default().text.push(character);
        }
    }

    /// Adds an unknown part to the word.
    fn unknown(&mut self) {
        let word = self.word.get_or_insert_default();
        word.is_unknown = true;
        word.gaps.push(Gap { at: word.text.len(), is_blank: false });
    }

    fn end_word(&mut self) {
        let Some(word) = self.word.take() else { return };
        match std::mem::take(&mut self.target) {
            Target::Word => {
                if !self.is_syntax(&word) {
                    self.take_word(&word);
                    self.is_unclear |= self.is_split;
                    self.command.is_data |= self.is_in_words();
                    self.command.words.push(word);
                }
            }
            Target::Name | Target::Rest | Target::File => {}
            Target::HereString => self.command.inputs.texts.push(word.source()),
            // If a marker has an expansion, shells do not agree on the end: the lines are read as commands.
            Target::HereDocument { .. } if word.is_unknown => self.is_unclear = true,
            Target::HereDocument { ignores_tabs } => {
                let (pipeline, command) = (self.pipelines.len(), self.pipeline.len());
                self.awaited.push(Awaited { pipeline, command, end: word, ignores_tabs });
            }
        }
    }

    fn end_command(&mut self) {
        self.end_word();
        self.check(self.target == Target::Word);
        self.check_head();
        self.target = Target::Word;
        self.has_begun = false;
        self.is_split = false;
        self.pipeline.push(std::mem::take(&mut self.command));
    }

    fn end_pipeline(&mut self) {
        self.end_command();
        let pipeline = std::mem::take(&mut self.pipeline);
        let is_empty = |command: &Command| {
            let has_source = !command.nested.is_empty() || !command.expressions.is_empty();
            command.words.is_empty() && !has_source && command.inputs.texts.is_empty()
        };
        // A pipeline with a pending here-document is kept, because the here-document refers to its index.
        let is_awaited = self.awaited.iter().any(|awaited| awaited.pipeline == self.pipelines.len());
        if is_awaited || !pipeline.iter().all(is_empty) {
            self.pipelines.push(pipeline);
        }
    }

    fn end_line(&mut self) {
        self.line_ends += 1;
        self.end_word();
        self.take_line_end();
        if !self.goes_on() {
            self.end_pipeline();
        }
        self.note_line_end();
        self.here_documents();
    }

    /// Returns whether the last word was a pipe: its next command stands in the next line.
    fn goes_on(&self) -> bool {
        !self.pipeline.is_empty() && !self.has_begun && self.command == Command::default()
    }
}

#[cfg(test)]
mod tests;
