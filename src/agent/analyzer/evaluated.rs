//! Finds the texts that are run although no command gets them as its source.
//!
//! Bash expands the value of a variable in an arithmetic expression, wherever the value comes from. It runs or expands
//! the values of some variables by itself. Other programs run the values of further variables.

use super::Work;
use super::command::{Reads, read_of};
use crate::shell::{Command, EVALUATED, Word, is_incomplete};

/// Variables whose values are run as commands, by bash or by other programs.
const COMMANDS: &[&str] = &[
    "EDITOR",
    "FCEDIT",
    "GIT_EDITOR",
    "GIT_EXTERNAL_DIFF",
    "GIT_PAGER",
    "GIT_SEQUENCE_EDITOR",
    "GIT_SSH_COMMAND",
    "LESSCLOSE",
    "LESSOPEN",
    "MANPAGER",
    "PAGER",
    "PROMPT_COMMAND",
    "SUDO_EDITOR",
    "VISUAL",
];

/// Commands that set the variables that their words name.
const SETTERS: &[&str] = &["for", "getopts", "mapfile", "printf", "read", "readarray", "select"];

/// The escapes of a prompt that stand for a dollar or a backquote.
const ESCAPES: [&str; 4] = ["\\044", "\\44", "\\140", "\\0140"];

/// What begins a substitution in a text that a shell expands, or makes it expand a value once more.
const SUBSTITUTIONS: &[&str] = &["`", "$(", "${ ", "${\t", "${\n", "${|", "@P}"];

/// What the variables of a command let a shell run.
#[derive(Debug, Default)]
pub(super) struct Values {
    pub sources: Vec<String>,
    /// Whether a shell may run a text that is not known.
    pub is_unclear: bool,
}

/// Returns the sources in a command's words and inputs that a shell may run: of its expressions, and of what counts as
/// one if a variable gets it. `None` if too much was read already.
pub(super) fn expressions(command: &Command, work: &mut Work) -> Option<Vec<String>> {
    let mut expressions = command.expressions.clone();
    let words = command.words.iter().filter(|word| has_substitution(&word.text)).map(Word::source);
    let texts = command.inputs.texts.iter().filter(|text| has_subscript(text)).cloned();
    for text in words.chain(texts) {
        expressions.extend(work.expand(&text)?);
    }
    Some(expressions)
}

/// Returns what the variables that a command sets let a shell run. The words may be assignments, or arguments of
/// `export`, `env` and the like.
pub(super) fn values(command: &Command) -> Values {
    let mut values = Values::default();
    let sets = command.words.iter().any(|word| SETTERS.contains(&word.text.as_str()));
    for word in &command.words {
        values.is_unclear |= sets && EVALUATED.contains(&word.text.as_str());
        if word.text.contains('=') {
            values.take(word, !command.nested.is_empty());
        }
    }
    values
}

impl Values {
    /// Takes the value of an assignment. `has_nested`: a substitution stands in the command.
    fn take(&mut self, word: &Word, has_nested: bool) {
        let text = word.source();
        let Some((target, value)) = text.split_once('=') else { return };
        let target = target.strip_suffix('+').unwrap_or(target);
        let variable = target.split_once('[').map_or(target, |(variable, _)| variable);
        // Such a value may be the name of another variable.
        self.is_unclear |= EVALUATED.contains(&value);
        match variable {
            "BASH_ENV" => self.is_unclear |= is_incomplete(value) || !is_file(value),
            "ENV" => self.is_unclear |= (is_incomplete(value) && has_nested) || !is_file(value),
            // The values of an array follow.
            "PROMPT_COMMAND" if value.is_empty() && !word.is_quoted => self.is_unclear = true,
            function if function.starts_with("BASH_FUNC_") => {
                self.is_unclear = true;
                self.sources.push(format!("f{value}"));
            }
            command if COMMANDS.contains(&command) => {
                self.is_unclear |= is_incomplete(value);
                self.sources.push(value.trim_start_matches(['|', '-']).to_owned());
            }
            prompt if EVALUATED.contains(&prompt) => {
                let is_escaped = ESCAPES.iter().any(|escape| value.contains(*escape));
                self.is_unclear |= is_escaped || has_substitution(&value.replace('\\', ""));
            }
            _ => {}
        }
    }
}

/// Returns whether the value of `ENV` or `BASH_ENV` names a file, and holds no command itself.
fn is_file(value: &str) -> bool {
    !has_substitution(value) && matches!(read_of(value), Reads::File)
}

/// Returns whether a text contains a substitution.
pub(super) fn has_substitution(text: &str) -> bool {
    SUBSTITUTIONS.iter().any(|begin| text.contains(*begin))
}

/// Returns whether a text contains a substitution in a subscript.
fn has_subscript(text: &str) -> bool {
    text.split_once('[').is_some_and(|(_, rest)| has_substitution(rest))
}
