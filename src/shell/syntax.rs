//! Follows what the keywords, brackets and braces of a source open and close.

use super::grammar::Place;
use super::redirection::Target;
use super::{Reader, Word, is_name};

/// Something that has to be closed before the closer of a substitution counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Open {
    Bracket,
    /// The brackets after the name of a function.
    Definition,
    /// The values of an array. No word in it is a keyword.
    List,
    /// The alternatives of a pattern, or a bracket of a condition. No word in it is a keyword.
    Pattern,
    /// A condition in `[[` and `]]`.
    Condition,
    Brace,
    /// An `if` before its `then`.
    If,
    /// The commands after a `then`.
    Then,
    /// The commands after an `else`.
    Else,
    /// A `for` or a `select` before its body.
    Head,
    /// A `while` or an `until` before its `do`.
    Loop,
    /// The commands after a `do`.
    Do,
    /// A `case` before its `in`.
    CaseHead {
        has_subject: bool,
    },
    /// A pattern of a `case`, up to its bracket. It is fresh until its first word.
    CasePattern {
        is_fresh: bool,
    },
    /// The commands after a pattern.
    CaseBody,
}

impl Reader<'_> {
    /// Returns whether a word belongs to the syntax and not to a command. Follows what it opens or closes.
    pub(super) fn is_syntax(&mut self, word: &Word) -> bool {
        let text = if word.is_quoted || word.is_unknown { "" } else { word.text.as_str() };
        match (self.open.last().copied(), text) {
            (Some(Open::CaseHead { has_subject: true }), "in") => {
                self.end_pipeline();
                self.turn(Open::CasePattern { is_fresh: true });
                true
            }
            (Some(Open::CaseHead { has_subject }), _) => {
                self.check(!has_subject);
                self.turn(Open::CaseHead { has_subject: true });
                false
            }
            (Some(Open::CasePattern { is_fresh: true }), "esac") => {
                self.open.pop();
                self.place = Place::Ended;
                true
            }
            (Some(Open::CasePattern { .. }), _) => {
                self.check(self.command.words.is_empty());
                self.turn(Open::CasePattern { is_fresh: false });
                false
            }
            (Some(Open::Condition), "]]") => {
                self.check_condition();
                self.open.pop();
                self.place = Place::Ended;
                true
            }
            (Some(Open::List | Open::Pattern | Open::Condition), _) => false,
            // A loop without `in`.
            (_, "do") if self.is_loop_head() => {
                self.end_pipeline();
                self.place = Place::Free;
                self.end_part(text);
                true
            }
            _ => self.begins() && self.is_keyword(text),
        }
    }

    /// Returns whether a word that begins a command belongs to the syntax. Follows what it opens or closes.
    fn is_keyword(&mut self, text: &str) -> bool {
        match text {
            "if" => self.begin(Open::If),
            "while" | "until" => self.begin(Open::Loop),
            "case" => self.begin(Open::CaseHead { has_subject: false }),
            "{" => self.begin(Open::Brace),
            "then" | "elif" | "else" | "fi" | "do" | "done" | "}" => self.end_part(text),
            "esac" if self.open.last() == Some(&Open::CaseBody) => {
                self.check(self.place != Place::Needed);
                self.open.pop();
                self.place = Place::Ended;
            }
            "esac" => self.check(false),
            "!" => self.take_words(Place::Needed),
            "function" => {
                self.take_words(Place::Named);
                self.target = Target::Name;
            }
            "[[" => {
                self.begin(Open::Condition);
                return false;
            }
            "for" | "select" => {
                self.begin(Open::Head);
                self.place = Place::Words;
                return false;
            }
            "in" | "]]" => {
                self.check(false);
                return false;
            }
            _ => return false,
        }
        true
    }

    /// Returns whether the next word begins a command.
    pub(super) fn begins(&self) -> bool {
        !self.has_begun && is_prefix(self.after_time())
    }

    /// Returns whether the command is the head of a loop without `in`: `for NAME`.
    fn is_loop_head(&self) -> bool {
        match self.after_time() {
            [before @ .., head, _] => {
                is_prefix(before) && (head.is_plain("for") || head.is_plain("select")) && !self.has_begun
            }
            _ => false,
        }
    }

    /// Returns the words of the command after `time` and its options.
    pub(super) fn after_time(&self) -> &[Word] {
        let mut words = self.command.words.as_slice();
        while let [first, rest @ ..] = words
            && first.is_plain("time")
        {
            let options = rest.iter().take_while(|word| word.text.starts_with('-')).count();
            words = &rest[options..];
        }
        words
    }

    /// Returns whether an opening square bracket begins the subscript of an array to which the word assigns.
    pub(super) fn begins_subscript(&self) -> bool {
        if self.target != Target::Word {
            return false;
        }
        match (self.open.last(), &self.word) {
            (Some(Open::List), word) => word.is_none(),
            (_, Some(word)) => {
                let is_name = is_name(&word.text) && !word.is_quoted && !word.is_unknown;
                let mut before = self.after_time().iter().filter(|word| !word.is_plain("coproc"));
                is_name && !self.is_in_words() && before.all(Word::is_assignment)
            }
            (_, None) => false,
        }
    }

    /// Returns whether the words are not those of a command: they are the subject or a pattern of a `case`, or they
    /// stand in an array, in a pattern or in a condition.
    pub(super) fn is_in_words(&self) -> bool {
        matches!(
            self.open.last(),
            Some(
                Open::List
                    | Open::Pattern
                    | Open::Condition
                    | Open::CaseHead { .. }
                    | Open::CasePattern { .. }
            )
        )
    }

    /// Returns whether a pattern or a condition is open. What begins a comment or a here-document elsewhere may be a
    /// part of it.
    pub(super) fn is_in_pattern(&self) -> bool {
        matches!(self.open.last(), Some(Open::Pattern | Open::Condition))
    }

    /// Reads an opening bracket: of a subshell, a function, an array, a pattern, or of an arithmetic command.
    pub(super) fn open_bracket(&mut self) {
        let begins = self.word.is_none();
        let is_empty = self.peek(0) == Some(')');
        match self.open.last().copied() {
            Some(Open::CasePattern { is_fresh }) if begins => {
                self.check(is_fresh);
                self.turn(Open::CasePattern { is_fresh: false });
            }
            Some(open @ (Open::List | Open::Pattern | Open::Condition | Open::CasePattern { .. })) => {
                self.check(!begins || open == Open::Pattern);
                self.open.push(Open::Pattern);
            }
            _ if begins && self.peek(0) == Some('(') && self.is_arithmetic() => {
                return self.arithmetic_command();
            }
            _ if self.target == Target::Word
                && self.word.as_ref().is_some_and(|word| word.text.ends_with('=')) =>
            {
                self.check_array();
                self.open.push(Open::List);
            }
            _ if is_empty && (!begins || self.place == Place::Named || self.is_name_alone()) => {
                let is_first = self.begins() && matches!(self.place, Place::Free | Place::Needed);
                self.check(is_first || self.place == Place::Named || self.is_name_alone());
                self.open.push(Open::Definition);
            }
            _ if begins => {
                self.check(self.begins() && self.place != Place::Ended);
                self.open.push(Open::Bracket);
                self.end_pipeline();
                self.place = Place::Needed;
                return;
            }
            _ => {
                // Only a shell with another setting reads a pattern here.
                self.is_unclear = true;
                self.open.push(Open::Pattern);
            }
        }
        self.end_pipeline();
    }

    /// Returns whether a single word stands before the brackets, with blanks between them: the name of a function.
    fn is_name_alone(&self) -> bool {
        let is_command = self.place == Place::Words && !self.has_begun && self.word.is_none();
        matches!(&*self.command.words, [name] if is_command && is_name(&name.text) && name.is_plain(&name.text))
    }

    /// Reads an arithmetic command after the first of its opening brackets. Some shells read two subshells here, so the
    /// text is kept. It is read by itself, because `<<` and `#` mean something else in an expression. If a here-document
    /// begins there to some shells, then to these the next lines have other quotes.
    fn arithmetic_command(&mut self) {
        let begin = self.at + 1;
        self.arithmetic();
        self.word = None;
        let end = self.at.saturating_sub(2).max(begin).min(self.text.len());
        let expression: String = self.text[begin.min(end)..end].iter().collect();
        self.check(!expression.contains("<<"));
        self.command.expressions.push(expression);
        let is_head = self.open.last() == Some(&Open::Head);
        self.check((self.begins() || is_head) && self.place != Place::Ended);
        self.end_pipeline();
        self.place = Place::Ended;
    }

    /// Closes what a closing bracket closes. Returns whether it ends the commands of this substitution.
    pub(super) fn close_bracket(&mut self) -> bool {
        // What is still open within brackets is an error of the source.
        while let Some(
            Open::Brace | Open::If | Open::Then | Open::Else | Open::Head | Open::Loop | Open::Do,
        ) = self.open.last()
        {
            self.open.pop();
            self.is_unclear = true;
        }
        match self.open.last().copied() {
            Some(Open::Bracket) => {
                self.check(!self.waits());
                self.open.pop();
                self.place = Place::Ended;
            }
            Some(Open::Definition) => {
                self.open.pop();
                self.place = Place::Body;
            }
            Some(Open::List) => {
                self.open.pop();
                self.has_begun = true;
                self.place = Place::Words;
                // The word ends at the next blank or operator, and not here.
                self.word = Some(Word::default());
                self.target = Target::Rest;
            }
            Some(Open::Pattern) => {
                self.open.pop();
            }
            Some(Open::CasePattern { is_fresh }) => {
                self.check(!is_fresh);
                self.turn(Open::CaseBody);
                self.place = Place::Free;
            }
            None if self.closer == Some(')') => return true,
            Some(_) | None => self.is_unclear = true,
        }
        false
    }

    pub(super) fn is_block_end(&self) -> bool {
        let begins = self.word.is_none() && self.command.words.is_empty();
        self.closer == Some('}') && self.open.is_empty() && begins
    }

    /// Replaces the innermost of what is open.
    pub(super) fn turn(&mut self, open: Open) {
        self.open.pop();
        self.open.push(open);
    }
}

/// Returns whether nothing stands before a command but `coproc` and a name.
fn is_prefix(words: &[Word]) -> bool {
    match words {
        [] => true,
        [first] | [first, _] => first.is_plain("coproc"),
        _ => false,
    }
}
