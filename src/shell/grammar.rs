//! Looks for errors of the grammar.
//!
//! After an error, an interactive shell drops the rest of the line and reads the next line as commands, although a
//! quote or a here-document seems to be open there. So a source with an error and with a line end within a word is
//! unclear. What is not known to be right counts as an error.

use super::redirection::Target;
use super::syntax::Open;
use super::{Reader, Word, is_name};

/// The place in the grammar where the next word or operator stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Place {
    /// A command may begin.
    #[default]
    Free,
    /// A command has to begin.
    Needed,
    /// The body of a function has to begin.
    Body,
    /// After `function NAME`: brackets or the body follow.
    Named,
    /// Within a command of words.
    Words,
    /// After a group, a loop, a condition or a `case`. No word follows.
    Ended,
}

/// Commands whose arguments may be arrays.
const DECLARING: [&str; 5] = ["declare", "typeset", "local", "export", "readonly"];

/// The operators between two words of a condition.
const COMPARISONS: [&str; 13] =
    ["=", "==", "!=", "=~", "-eq", "-ne", "-lt", "-le", "-gt", "-ge", "-nt", "-ot", "-ef"];

impl Reader<'_> {
    /// Notes an error unless `is_right`.
    pub(super) fn check(&mut self, is_right: bool) {
        self.is_doubtful |= !is_right;
    }

    /// Returns whether something has to follow.
    pub(super) fn waits(&self) -> bool {
        matches!(self.place, Place::Needed | Place::Body | Place::Named)
    }

    /// Takes a word of a command.
    pub(super) fn take_word(&mut self, word: &Word) {
        let is_prefix = self.begins() && (word.is_plain("time") || word.is_plain("coproc"));
        self.take_words(if is_prefix { Place::Needed } else { Place::Words });
    }

    /// Takes words of a command, after which `next` is the place.
    pub(super) fn take_words(&mut self, next: Place) {
        if self.is_in_words() {
            return;
        }
        let is_right = match self.place {
            // The body of a loop has to begin.
            Place::Free => self.open.last() != Some(&Open::Head),
            Place::Needed | Place::Words => true,
            Place::Ended | Place::Body | Place::Named => false,
        };
        self.check(is_right);
        self.place = next;
    }

    /// Takes the operator of a redirection.
    pub(super) fn take_redirection(&mut self) {
        let is_body = matches!(self.place, Place::Body | Place::Named);
        self.check(self.target == Target::Word && !is_body && !self.is_in_words());
        if self.place != Place::Ended {
            self.place = Place::Words;
        }
    }

    /// Takes `;`, or the end of the commands after a pattern of a `case`: `;;`, `;&` or `;;&`.
    pub(super) fn take_semicolon(&mut self) {
        let next = self.peek(0);
        if !matches!(next, Some(';' | '&')) {
            return self.take_separator();
        }
        self.at += 1;
        self.at += usize::from(next == Some(';') && self.peek(0) == Some('&'));
        let is_body = self.open.last() == Some(&Open::CaseBody);
        self.check(is_body && self.place != Place::Needed);
        if is_body {
            self.turn(Open::CasePattern { is_fresh: true });
        }
        self.place = Place::Free;
    }

    /// Takes `;` or `&`.
    pub(super) fn take_separator(&mut self) {
        self.check(matches!(self.place, Place::Words | Place::Ended) && !self.is_in_words());
        self.place = Place::Free;
    }

    /// Takes `|`.
    pub(super) fn take_pipe(&mut self) {
        self.command.is_group = self.place == Place::Ended;
        // It separates the alternatives of a pattern.
        if !matches!(self.open.last(), Some(Open::Pattern | Open::CasePattern { .. })) {
            self.take_connector();
        }
    }

    /// Takes `&&` or `||`.
    pub(super) fn take_junction(&mut self) {
        if self.open.last() == Some(&Open::Condition) {
            self.check_condition();
        } else {
            self.take_connector();
        }
    }

    fn take_connector(&mut self) {
        self.take_separator();
        self.place = Place::Needed;
    }

    pub(super) fn take_line_end(&mut self) {
        match self.open.last().copied() {
            Some(Open::Condition | Open::CaseHead { has_subject: false }) => self.check(false),
            Some(Open::CasePattern { is_fresh }) => self.check(is_fresh),
            Some(Open::CaseHead { .. } | Open::List | Open::Pattern) => {}
            _ => match self.place {
                Place::Words | Place::Ended => self.place = Place::Free,
                Place::Named => self.place = Place::Body,
                Place::Free | Place::Needed | Place::Body => {}
            },
        }
    }

    /// Begins a group, a loop, a condition, a `case` or an `if`.
    pub(super) fn begin(&mut self, open: Open) {
        // Only braces may stand in the place of `do` and `done`.
        let follows_head = self.place == Place::Free && self.open.last() == Some(&Open::Head);
        self.check(self.place != Place::Ended && (!follows_head || open == Open::Brace));
        self.open.push(open);
        self.place = Place::Needed;
    }

    /// Ends a part of what is open, at `then`, `elif`, `else`, `fi`, `do`, `done` or `}`.
    pub(super) fn end_part(&mut self, keyword: &str) {
        let next = match (keyword, self.open.last()) {
            ("then", Some(Open::If)) => Some(Open::Then),
            ("elif", Some(Open::Then)) => Some(Open::If),
            ("else", Some(Open::Then)) => Some(Open::Else),
            ("do", Some(Open::Head | Open::Loop)) => Some(Open::Do),
            ("fi", Some(Open::Then | Open::Else)) | ("done", Some(Open::Do)) | ("}", Some(Open::Brace)) => {
                None
            }
            _ => return self.check(false),
        };
        self.check(matches!(self.place, Place::Free | Place::Ended));
        self.open.pop();
        match next {
            Some(next) => {
                self.open.push(next);
                self.place = Place::Needed;
            }
            None => {
                if keyword == "}" && self.open.last() == Some(&Open::Head) {
                    self.open.pop();
                }
                self.place = Place::Ended;
            }
        }
    }

    /// Checks the head of a `for` or a `select`, which is the command that ends.
    pub(super) fn check_head(&mut self) {
        if self.open.last() != Some(&Open::Head) {
            return;
        }
        let is_variable = |word: &Word| is_name(&word.text) && !word.is_quoted && !word.is_unknown;
        let is_right = match self.after_time() {
            [] => true,
            // `for ((;;))`
            [_] => self.command.expressions.first().is_some_and(|text| text.matches(';').count() == 2),
            [_, name] => is_variable(name),
            [_, name, keyword, ..] => is_variable(name) && keyword.is_plain("in"),
        };
        self.check(is_right);
    }

    /// Checks the words of a condition up to its end or its next operator.
    pub(super) fn check_condition(&mut self) {
        let mut words = self.command.words.as_slice();
        while let [first, rest @ ..] = words
            && (first.is_plain("[[") || first.is_plain("!"))
        {
            words = rest;
        }
        let is_option = |word: &Word| word.text.starts_with('-') && !word.is_quoted;
        let is_right = match words {
            [word] => !is_option(word),
            [operator, _] => is_option(operator) && operator.text.len() == 2,
            [first, operator, _] => {
                let is_operator = COMPARISONS.contains(&operator.text.as_str()) && !operator.is_quoted;
                !is_option(first) && is_operator
            }
            _ => false,
        };
        self.check(is_right);
    }

    /// Checks the words before an array.
    pub(super) fn check_array(&mut self) {
        let first = self.after_time().iter().find(|word| !word.is_assignment());
        let is_right = first.is_none_or(|word| DECLARING.contains(&word.text.as_str()));
        self.check(is_right);
    }
}
