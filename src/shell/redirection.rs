//! Reads redirections and here-documents.

use super::{Reader, Word, is_name};

/// The role of a word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Target {
    #[default]
    Word,
    /// The name of a function. It is not needed.
    Name,
    /// What follows the closing bracket of an array without a blank. It belongs to the word of the array, and is not
    /// needed.
    Rest,
    /// A file of a redirection. Its name is not needed.
    File,
    HereString,
    HereDocument {
        /// Whether tabs before the end marker do not count.
        ignores_tabs: bool,
    },
}

/// A here-document whose body is still to be read.
pub(super) struct Awaited {
    pub pipeline: usize,
    pub command: usize,
    /// The end marker.
    pub end: Word,
    pub ignores_tabs: bool,
}

/// A line of a here-document.
struct Line {
    text: String,
    /// Whether line continuations were removed from it.
    is_joined: bool,
}

/// The operators of redirections, the longest first.
const REDIRECTIONS: [&str; 8] = ["<<<", "<<-", "<<", "<&", "<>", ">>", ">&", ">|"];

impl Reader<'_> {
    pub(super) fn redirect(&mut self) {
        // A number or a variable in braces before the sign is the file descriptor, not a word.
        let is_descriptor = |word: &Word| {
            let name = word.text.strip_prefix('{').and_then(|rest| rest.strip_suffix('}'));
            name.is_some_and(is_name)
                || (!word.text.is_empty() && word.text.chars().all(|c| c.is_ascii_digit()))
        };
        let is_dropped = |word: &Word| is_descriptor(word) && !word.is_quoted && !word.is_unknown;
        let mut descriptor = None;
        if self.target == Target::Word && self.word.as_ref().is_some_and(is_dropped) {
            descriptor = self.word.take();
        }
        self.end_word();
        self.take_redirection();
        self.has_begun = true;
        let stands_here =
            |sign: &&&str| sign.chars().enumerate().all(|(ahead, c)| self.peek(ahead) == Some(c));
        let sign = REDIRECTIONS.iter().find(stands_here).copied();
        let is_input = self.peek(0) == Some('<');
        let is_standard =
            descriptor.map_or(is_input, |word| word.text.chars().all(|character| character == '0'));
        // Every other sign is a single character.
        self.at += sign.map_or(1, str::len);
        self.check_operator();
        self.target = match sign {
            Some("<<<") => Target::HereString,
            Some("<<") => Target::HereDocument { ignores_tabs: false },
            Some("<<-") => Target::HereDocument { ignores_tabs: true },
            Some(_) | None => Target::File,
        };
        let inputs = &mut self.command.inputs;
        match self.target {
            Target::HereString | Target::HereDocument { .. } => inputs.n_standard += usize::from(is_standard),
            // A copy of any descriptor may be copied once more.
            _ => inputs.is_open |= is_input || is_standard,
        }
        self.is_unclear |= self.is_in_pattern() && self.awaits_marker();
    }

    /// Returns whether the next word is the end marker of a here-document.
    pub(super) fn awaits_marker(&self) -> bool {
        matches!(self.target, Target::HereDocument { .. })
    }

    /// Reads the bodies of the here-documents that the last line began.
    pub(super) fn here_documents(&mut self) {
        for Awaited { pipeline, command, end, ignores_tabs } in std::mem::take(&mut self.awaited) {
            let mut body = String::new();
            let mut is_ended = false;
            while !is_ended && self.at < self.text.len() {
                let begin = self.at;
                let line = self.line(&end);
                let content =
                    if ignores_tabs { line.text.trim_start_matches('\t') } else { line.text.as_str() };
                let rest = content.strip_prefix(&*end.text);
                if rest == Some("") {
                    is_ended = true;
                    // Not every shell finds a marker in parts.
                    self.is_unclear |= line.is_joined;
                } else if self.closer == Some(')') && rest.is_some_and(|rest| rest.starts_with(')')) {
                    // Within a substitution, bash takes a marker with the closer right behind it.
                    is_ended = true;
                    self.is_unclear = true;
                    let tabs = line.text.len() - content.len();
                    self.at = begin + tabs + end.text.chars().count();
                } else {
                    body.push_str(&line.text);
                    body.push('\n');
                }
            }
            self.is_unclear |= !is_ended;
            // A shell expands the body unless the marker is quoted.
            let (input, nested) = if end.is_quoted {
                (body, Vec::new())
            } else {
                let expanded = self.expanded(&body);
                self.is_unclear |= expanded.is_unclear;
                (expanded.source, expanded.nested)
            };
            let found = if pipeline == self.pipelines.len() {
                Some(&mut self.pipeline)
            } else {
                self.pipelines.get_mut(pipeline)
            };
            if let Some(command) = found.and_then(|found| found.get_mut(command)) {
                command.inputs.texts.push(input);
                command.nested.extend(nested);
            }
        }
    }

    /// Reads a line of the here-document that ends with `end`. A backslash continues it, unless the marker is quoted.
    fn line(&mut self, end: &Word) -> Line {
        let mut line = Line { text: String::new(), is_joined: false };
        while let Some(character) = self.peek(0) {
            self.at += 1;
            match (character, self.peek(0)) {
                ('\n', _) => break,
                ('\\', Some('\n')) if !end.is_quoted => {
                    self.at += 1;
                    line.is_joined = true;
                }
                ('\\', Some(next)) if !end.is_quoted => {
                    self.at += 1;
                    line.text.extend(['\\', next]);
                }
                _ => line.text.push(character),
            }
        }
        line
    }
}
