//! Finds the command that another one runs: behind `sudo`, `env`, `xargs`, `find -exec` and the like.
//!
//! Where the command begins depends on the wrapper's options. An option that is not known may take the next word, so
//! there are several places then. A word that only a running shell knows may be anything, so the wrapper is unclear.

mod table;

use crate::shell::{Gap, Word};
use table::{Wrapper, has};

/// What a wrapper adds to the words of the command that it runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Added<'w> {
    Nothing,
    /// Words of its input follow at the end.
    AtEnd,
    /// A part of its input stands in the place of this text.
    Inside(&'w str),
    /// The name of a file stands in the place of `{}`.
    File,
}

impl Added<'_> {
    /// Returns whether a part of the text is replaced.
    pub fn changes(self, text: &str) -> bool {
        match self {
            Self::Nothing | Self::AtEnd => false,
            Self::Inside(mark) => text.contains(mark),
            Self::File => text.contains("{}"),
        }
    }
}

/// What a wrapper runs.
#[derive(Debug)]
pub(super) struct Wrapped<'w> {
    /// Where the command may begin.
    pub commands: Vec<&'w [Word]>,
    pub added: Added<'w>,
    /// The text that it gives to a shell.
    pub source: Option<String>,
    /// Whether it begins a shell that runs its standard input.
    pub runs_input: bool,
    /// Whether it may run another command: only the shell that runs knows.
    pub is_unclear: bool,
}

/// Returns what a command runs. `None` if it is no wrapper.
pub(super) fn wrapped<'w>(name: &str, arguments: &'w [Word]) -> Option<Wrapped<'w>> {
    if name == "find" {
        return executed(arguments);
    }
    let mut options = Options::default();
    let wrapper = Wrapper::of(name).map(|wrapper| (wrapper, arguments));
    let wrapper = wrapper.or_else(|| Wrapper::within(name, arguments));
    let commands = match wrapper {
        // It only prints where the command is.
        Some(_) if name == "command" && has_option(arguments, &['v', 'V']) => Vec::new(),
        Some((wrapper, words)) => options.skip(name, wrapper, words),
        // The first word is a name if a shell takes the next one for the beginning of a command.
        None if name == "coproc" => vec![arguments, arguments.get(1..).unwrap_or_default()],
        None => return None,
    };
    let wrapper = wrapper.map(|(wrapper, _)| wrapper);
    let first = commands.first().copied().unwrap_or_default();
    let source = if name == "env" && !options.texts.is_empty() {
        format!("{} {}", options.texts.join(" "), joined(first))
    } else {
        // Some run several texts.
        let words = commands.iter().filter(|_| wrapper.is_some_and(|wrapper| wrapper.joins));
        options.texts.iter().cloned().chain(words.map(|words| joined(words))).collect::<Vec<_>>().join("\n")
    };
    let source = Some(source).filter(|source| !source.is_empty());
    let names_user =
        || arguments.iter().any(|word| word.text.starts_with("-u") || word.text.starts_with("--user"));
    let runs_input = match wrapper {
        Some(wrapper) if wrapper.begins_shell => {
            // A single word may be the operand.
            commands.is_empty() || (wrapper.may_lack_operands && first.len() == 1 && !names_user())
        }
        _ => commands.is_empty() && begins_shell(name, arguments),
    };
    // The words of such a line are divided by rules that are not those of a shell.
    let is_divided = name == "env" && source.as_ref().is_some_and(|source| source.contains(['\\', '$']));
    let added = match (name, options.mark) {
        ("xargs", Some(mark)) => Added::Inside(mark),
        ("parallel" | "xargs", _) => Added::AtEnd,
        _ => Added::Nothing,
    };
    Some(Wrapped {
        runs_input: source.is_none() && runs_input,
        // The input has commands too.
        is_unclear: options.is_unclear || is_divided || name == "parallel",
        commands,
        added,
        source,
    })
}

/// Returns whether the options of a wrapper without a command begin a shell.
fn begins_shell(name: &str, arguments: &[Word]) -> bool {
    match name {
        // After one of these, bash gets the words.
        "capsh" => arguments.iter().any(|word| matches!(word.text.as_str(), "--" | "-+" | "==")),
        "doas" | "sudo" => {
            let is_long = |word: &Word| matches!(word.text.as_str(), "--login" | "--shell");
            has_option(arguments, &['i', 's']) || arguments.iter().any(is_long)
        }
        _ => false,
    }
}

/// Returns whether one of the first words has one of these short options.
pub(super) fn has_option(words: &[Word], letters: &[char]) -> bool {
    let is_option = |word: &&Word| word.text.starts_with('-');
    words.iter().take_while(is_option).any(|word| !word.text.starts_with("--") && word.text.contains(letters))
}

/// Returns the commands that `find` runs. `None` if it runs none.
fn executed(arguments: &[Word]) -> Option<Wrapped<'_>> {
    let begins = |word: &Word| matches!(word.text.as_str(), "-exec" | "-execdir" | "-ok" | "-okdir");
    // An unknown word may begin a command that has a known end.
    let may_execute = |words: &[Word]| {
        let end = words.iter().rposition(|word| matches!(word.text.as_str(), ";" | "+"));
        words[..end.unwrap_or(0)].iter().any(Word::may_be_option)
    };
    let mut is_unclear = arguments.iter().any(|word| word.is_several);
    let mut commands = Vec::new();
    let mut rest = arguments;
    while let Some(at) = rest.iter().position(begins) {
        is_unclear |= may_execute(&rest[..at]);
        rest = &rest[at + 1..];
        let end = rest.iter().position(|word| begins(word) || word.text == ";").unwrap_or(rest.len());
        commands.push(&rest[..end]);
        rest = &rest[end..];
    }
    is_unclear |= may_execute(rest);
    let wrapped = Wrapped { commands, added: Added::File, source: None, runs_input: false, is_unclear };
    Some(wrapped).filter(|wrapped| wrapped.is_unclear || !wrapped.commands.is_empty())
}

/// What is known of a wrapper's options.
#[derive(Default)]
struct Options<'w> {
    /// The arguments of options that take a text for a shell.
    texts: Vec<String>,
    /// The text that `xargs` replaces.
    mark: Option<&'w str>,
    /// How many options are not known. Each of them may take the next word.
    n_unknown: usize,
    /// Whether an option or an operand may be another one, or several.
    is_unclear: bool,
}

impl<'w> Options<'w> {
    /// Returns where the command may begin that follows the options and operands of a wrapper.
    fn skip(&mut self, name: &str, wrapper: &Wrapper, words: &'w [Word]) -> Vec<&'w [Word]> {
        let mut found = Vec::new();
        let mut rest = words;
        let mut operands = wrapper.operands;
        while let [first, more @ ..] = rest {
            if first.text.starts_with('-') {
                let takes = self.read(name, wrapper, (first, more.first()));
                rest = more.get(usize::from(takes)..).unwrap_or_default();
                continue;
            }
            if matches!(name, "capsh" | "doas" | "env" | "sudo") && first.text.contains('=') {
                self.is_unclear |= first.may_be_several() || first.may_be_option();
            } else if operands > 0 {
                self.is_unclear |= first.may_be_several() || first.may_be_option();
                operands -= 1;
                if wrapper.may_lack_operands {
                    found.push(rest);
                }
            } else {
                found.push(rest);
                if self.n_unknown == 0 {
                    break;
                }
                self.n_unknown -= 1;
            }
            rest = more;
        }
        found
    }

    /// Reads an option, before the word that follows it. Returns whether it takes that word.
    fn read(&mut self, name: &str, wrapper: &Wrapper, (word, next): (&'w Word, Option<&'w Word>)) -> bool {
        let is_value = |gap: &Gap| word.text.starts_with("--") && word.text[..gap.at].contains('=');
        self.is_unclear |= word.may_be_several() || !word.gaps.iter().all(is_value);
        if let Some(long) = word.text.strip_prefix("--") {
            let (long, value) =
                long.split_once('=').map_or((long, None), |(long, value)| (long, Some(value)));
            let takes = value.is_none() && has(wrapper.long_with_word, long);
            let is_known = value.is_some() || long.is_empty() || has(wrapper.long_flags, long);
            self.n_unknown += usize::from(!takes && !is_known);
            let mut texts = wrapper.long_texts.split_whitespace();
            if !long.is_empty() && texts.any(|option| option.starts_with(long)) {
                self.texts.extend(value.map(str::to_owned).or_else(|| next.map(Word::source)));
            }
            // A long option may be cut.
            if name == "xargs" && !long.is_empty() && "replace".starts_with(long) {
                self.mark = Some(value.unwrap_or("{}"));
            }
            return takes && self.takes(next);
        }
        for (at, letter) in word.text.char_indices().skip(1) {
            let value = Some(&word.text[at + letter.len_utf8()..]).filter(|value| !value.is_empty());
            let takes = wrapper.with_word.contains(letter);
            if wrapper.texts.contains(letter) {
                self.texts.extend(value.map(str::to_owned).or_else(|| next.map(Word::source)));
            }
            if name == "xargs" && matches!(letter, 'I' | 'J' | 'i') {
                let next = next.filter(|_| takes).map(|word| word.text.as_str());
                self.mark = value.or(next).or(Some("{}"));
            }
            if takes {
                return value.is_none() && self.takes(next);
            }
            // Only the same word has the argument of these.
            if name == "xargs" && matches!(letter, 'e' | 'i' | 'l') {
                return false;
            }
            if !wrapper.flags.contains(letter) {
                self.n_unknown += 1;
                return false;
            }
        }
        false
    }

    /// Takes the next word as the argument of an option.
    fn takes(&mut self, next: Option<&Word>) -> bool {
        self.is_unclear |= next.is_some_and(Word::may_be_several);
        true
    }
}

/// Returns the words of a command as one source.
pub(super) fn joined(words: &[Word]) -> String {
    words.iter().map(Word::source).collect::<Vec<_>>().join(" ")
}
