//! Finds the program that a command really runs: behind wrappers, nested shells and `find -exec`.

use std::borrow::Cow;
use std::collections::BTreeSet;

use super::shell::{Command, Word};

/// Commands that run another command, and their options that take an argument.
const WRAPPERS: &[(&str, &[&str])] = &[
    ("env", &["-u", "--unset", "-C", "--chdir"]),
    ("sudo", &["-u", "--user", "-g", "--group", "-D", "--chdir"]),
    ("builtin", &[]),
    ("command", &[]),
    ("time", &["-f", "--format", "-o", "--output"]),
    ("timeout", &["-k", "--kill-after", "-s", "--signal"]),
    ("exec", &["-a"]),
    ("nice", &["-n", "--adjustment"]),
    ("nohup", &[]),
    ("chroot", &["--userspec", "--groups"]),
    ("busybox", &[]),
    ("toybox", &[]),
    ("setsid", &[]),
    ("stdbuf", &["-i", "--input", "-o", "--output", "-e", "--error"]),
    ("strace", &["-o", "-e", "-p", "-s"]),
    ("xargs", &["-I", "-n", "-P", "-L", "-d", "-a", "-s", "-E"]),
];

/// Wrappers with an operand of their own before the command.
const WITH_OPERAND: [&str; 2] = ["timeout", "chroot"];

const SHELLS: [&str; 6] = ["sh", "bash", "zsh", "dash", "ksh", "ash"];

/// Shells that may not know `$'...'`.
const PLAIN_SHELLS: [&str; 3] = ["sh", "dash", "ash"];

/// Commands that expand the subscripts of arrays in their arguments, even if these are quoted.
const EXPANDING: [&str; 14] = [
    "[",
    "[[",
    "declare",
    "export",
    "let",
    "local",
    "mapfile",
    "printf",
    "read",
    "readarray",
    "readonly",
    "test",
    "typeset",
    "unset",
];

/// How many places are tried at which the command behind its wrappers may begin. If there are more, it is unclear.
const READINGS_MAX: usize = 64;

/// A command without its wrappers.
#[derive(Debug, Clone)]
pub(super) struct Run<'c> {
    /// The command's name without the folder, in lower case. `None` if only a running shell would know it.
    pub name: Option<String>,
    pub arguments: Cow<'c, [Word]>,
    /// The shell source that the command runs.
    pub source: Option<String>,
    /// Whether the command may be another one: only the file system or the shell that runs knows.
    pub is_unclear: bool,
}

impl<'c> Run<'c> {
    /// Returns the command that is really run. There are several if it is not known where it begins. Empty if no
    /// command follows the assignments and wrappers.
    pub fn of(command: &'c Command) -> Vec<Self> {
        let begin = command.words.iter().take_while(|word| word.is_assignment()).count();
        let mut runs: Vec<Self> = Vec::new();
        let mut readings = vec![&command.words[begin..]];
        let mut known = BTreeSet::new();
        while let Some(words) = readings.pop() {
            if runs.len() >= READINGS_MAX {
                runs[0].is_unclear = true;
                break;
            }
            let Some((first, arguments)) = words.split_first() else { continue };
            if !known.insert(words.as_ptr()) {
                continue;
            }
            if first.is_unknown {
                runs.push(Self::unknown(first, arguments));
                continue;
            }
            let name = first.text.rsplit('/').next().unwrap_or_default().to_lowercase();
            match wrapped(&name, arguments) {
                Some(inner) => readings.extend(inner),
                None => runs.push(Self::known(first, name, arguments, command.input.as_deref())),
            }
        }
        runs
    }

    fn unknown(first: &Word, arguments: &'c [Word]) -> Self {
        // The unknown parts may be white space.
        let pieces = pieces(first);
        let arguments = if pieces.is_empty() {
            Cow::Borrowed(arguments)
        } else {
            pieces.into_iter().chain(arguments.iter().cloned()).collect()
        };
        Self { name: None, arguments, source: None, is_unclear: first.is_several }
    }

    fn known(first: &Word, name: String, arguments: &'c [Word], input: Option<&str>) -> Self {
        let source = match name.as_str() {
            "eval" => Some(joined(arguments)),
            shell if SHELLS.contains(&shell) => {
                script(arguments).map(Word::source).or_else(|| input.map(str::to_owned))
            }
            other if EXPANDING.contains(&other) && arguments.iter().any(has_subscript) => {
                Some(joined(arguments))
            }
            _ => None,
        };
        let has_quote = |source: &String| source.contains("$'") && source.contains("\\'");
        let is_option = |word: &Word| word.is_several && word.text.starts_with(['{', '-']);
        let is_unclear = (first.is_pattern && !matches!(first.text.as_str(), "[" | "[["))
            || (PLAIN_SHELLS.contains(&&*name) && source.as_ref().is_some_and(has_quote))
            || (name == "rm" && arguments.iter().any(is_option));
        Self { name: Some(name), arguments: Cow::Borrowed(arguments), source, is_unclear }
    }

    /// Returns whether the command is a shell that runs its standard input.
    pub fn is_shell(&self) -> bool {
        let reads = |word: &Word| is_short_option(word) && word.text.contains('s');
        self.name.as_deref().is_some_and(|name| SHELLS.contains(&name))
            && (script(&self.arguments).is_none() || self.arguments.iter().any(reads))
    }

    /// Returns whether the command downloads something.
    pub fn is_fetch(&self) -> bool {
        matches!(self.name.as_deref(), Some("curl" | "wget"))
    }

    /// Returns the command's output: the arguments of `echo` and `printf`, the input of `cat`. `None` for others.
    pub fn output(&self, input: Option<&str>) -> Option<String> {
        match self.name.as_deref() {
            Some("echo" | "printf") => Some(joined(&self.arguments)),
            Some("cat") => input.map(str::to_owned),
            Some(_) | None => None,
        }
    }

    /// Returns whether the arguments contain the options recursive and force (`-rf`), in any form.
    pub fn is_recursive_and_forced(&self) -> bool {
        let (mut recursive, mut force) = (false, false);
        for word in self.arguments.iter().take_while(|word| word.text != "--") {
            if let Some(long) = word.text.strip_prefix("--") {
                // A long option may be cut.
                recursive |= "recursive".starts_with(long);
                force |= "force".starts_with(long);
            } else if let Some(short) = word.text.strip_prefix('-') {
                recursive |= short.contains(['r', 'R']);
                force |= short.contains(['f', 'F']);
            }
        }
        recursive && force
    }
}

/// Returns the commands that a wrapper may run. `None` if the command is no wrapper.
fn wrapped<'c>(name: &str, arguments: &'c [Word]) -> Option<Vec<&'c [Word]>> {
    match name {
        "find" => {
            let found = executed(arguments);
            (!found.is_empty()).then_some(found)
        }
        // The first word is a name if a shell takes the next one for the beginning of a command.
        "coproc" => Some(vec![arguments, arguments.get(1..).unwrap_or_default()]),
        _ => {
            let (_, with_word) = WRAPPERS.iter().find(|(wrapper, _)| *wrapper == name)?;
            Some(after_options(name, arguments, with_word))
        }
    }
}

/// Returns the commands that `find` runs.
fn executed(arguments: &[Word]) -> Vec<&[Word]> {
    let begins = |word: &Word| matches!(word.text.as_str(), "-exec" | "-execdir" | "-ok" | "-okdir");
    let mut found = Vec::new();
    let mut rest = arguments;
    while let Some(at) = rest.iter().position(begins) {
        rest = &rest[at + 1..];
        let end = rest.iter().position(|word| begins(word) || word.text == ";");
        found.push(&rest[..end.unwrap_or(rest.len())]);
    }
    found
}

/// Returns where the command may begin that follows a wrapper's options and operands. An option that is not known may
/// take the next word.
fn after_options<'w>(wrapper: &str, words: &'w [Word], with_word: &[&str]) -> Vec<&'w [Word]> {
    let mut found = Vec::new();
    let mut rest = words;
    let mut operands = usize::from(WITH_OPERAND.contains(&wrapper));
    let mut may_take = false;
    while let [first, more @ ..] = rest {
        if first.text.starts_with('-') && !first.is_unknown {
            let takes = with_word.contains(&first.text.as_str());
            rest = more.get(usize::from(takes)..).unwrap_or_default();
            may_take = !takes && first.text != "--" && !first.text.contains('=');
            continue;
        }
        let is_setting = matches!(wrapper, "env" | "sudo") && first.is_assignment();
        if !is_setting && operands > 0 {
            operands -= 1;
        } else if !is_setting {
            found.push(rest);
            if !may_take {
                break;
            }
        }
        may_take = false;
        rest = more;
    }
    found
}

/// Returns the source that follows a shell's `-c`: the first word after it that is no option.
fn script(arguments: &[Word]) -> Option<&Word> {
    let mut rest = arguments;
    let mut is_command = false;
    while let [first, more @ ..] = rest {
        rest = more;
        if matches!(first.text.as_str(), "--" | "-") {
            return rest.first().filter(|_| is_command);
        }
        if is_short_option(first) {
            is_command |= first.text.contains('c');
            // The name of a setting follows.
            let takes = first.text.ends_with(['o', 'O']);
            rest = rest.get(usize::from(takes)..).unwrap_or_default();
        } else if matches!(first.text.as_str(), "--rcfile" | "--init-file") {
            rest = rest.get(1..).unwrap_or_default();
        } else if is_command && !first.text.starts_with("--") {
            return Some(first);
        }
    }
    None
}

fn is_short_option(word: &Word) -> bool {
    word.text.starts_with(['-', '+']) && !word.text.starts_with("--")
}

/// Returns the words of a command as one source, without the options before them.
fn joined(words: &[Word]) -> String {
    let words = words.iter().skip_while(|word| word.text.starts_with('-'));
    words.map(Word::source).collect::<Vec<_>>().join(" ")
}

/// Returns the pieces of a word between its unknown parts if one of them may be an option.
fn pieces(word: &Word) -> Vec<Word> {
    let mut pieces = Vec::new();
    let mut begin = 0;
    for end in word.gaps.iter().copied().chain([word.text.len()]) {
        pieces.push(&word.text[begin..end]);
        begin = end;
    }
    if !pieces.iter().any(|piece| piece.starts_with('-')) {
        return Vec::new();
    }
    let words = pieces.into_iter().filter(|piece| !piece.is_empty());
    words.map(|piece| Word { text: piece.to_owned(), ..Word::default() }).collect()
}

/// Returns whether the text of a word contains a substitution in a subscript.
fn has_subscript(word: &Word) -> bool {
    word.text.contains('[') && (word.text.contains("$(") || word.text.contains('`'))
}
