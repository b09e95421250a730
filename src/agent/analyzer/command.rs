//! Finds the program that a command really runs: behind wrappers, nested shells and `find -exec`.

use super::shell::{Command, Word};

/// Commands that run another command, and their options that take an argument.
const WRAPPERS: &[(&str, &[&str])] = &[
    ("env", &["-u", "--unset", "-C", "--chdir"]),
    ("sudo", &["-u", "--user", "-g", "--group", "-D", "--chdir"]),
    ("builtin", &[]),
    ("command", &[]),
    ("time", &[]),
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

/// A command without its wrappers.
#[derive(Debug, Clone, Default)]
pub(super) struct Run {
    /// The command's name without the folder, in lower case. `None` if only a running shell would know it.
    pub name: Option<String>,
    pub arguments: Vec<Word>,
    /// The shell source that the command runs.
    pub source: Option<String>,
}

impl Run {
    /// Returns the command that is really run. Empty if no command follows the assignments and wrappers.
    pub fn of(command: &Command) -> Vec<Self> {
        let mut words = command.words.as_slice();
        while let [first, rest @ ..] = words
            && is_assignment(first)
        {
            words = rest;
        }
        Self::of_words(words, command.input.as_deref())
    }

    fn of_words(words: &[Word], input: Option<&str>) -> Vec<Self> {
        let Some((first, arguments)) = words.split_first() else { return Vec::new() };
        if first.is_unknown {
            return vec![Self { name: None, arguments: arguments.to_vec(), source: None }];
        }
        let name = first.text.rsplit('/').next().unwrap_or_default().to_lowercase();
        if let Some((_, with_word)) = WRAPPERS.iter().find(|(wrapper, _)| *wrapper == name) {
            let wrapped = after_options(&name, arguments, with_word);
            return Self::of_words(wrapped, input);
        }
        if name == "find"
            && let Some(at) =
                arguments.iter().position(|word| word.text == "-exec" || word.text == "-execdir")
        {
            return Self::of_words(&arguments[at + 1..], None);
        }
        let source = match name.as_str() {
            "eval" => Some(joined(arguments)),
            shell if SHELLS.contains(&shell) => script(arguments).or_else(|| input.map(str::to_owned)),
            _ => None,
        };
        vec![Self { name: Some(name), arguments: arguments.to_vec(), source }]
    }

    /// Returns whether the command is a shell without `-c`, which runs its standard input.
    pub fn is_shell(&self) -> bool {
        self.name.as_deref().is_some_and(|name| SHELLS.contains(&name)) && script(&self.arguments).is_none()
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
                recursive |= long == "recursive";
                force |= long == "force";
            } else if let Some(short) = word.text.strip_prefix('-') {
                recursive |= short.contains(['r', 'R']);
                force |= short.contains(['f', 'F']);
            }
        }
        recursive && force
    }
}

fn is_assignment(word: &Word) -> bool {
    let name = word.text.split_once('=').map(|(name, _)| name);
    name.is_some_and(|name| {
        name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
            && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
    })
}

/// Returns the words after a wrapper's options and operands.
fn after_options<'w>(wrapper: &str, words: &'w [Word], with_word: &[&str]) -> &'w [Word] {
    let mut rest = words;
    let mut operands = usize::from(WITH_OPERAND.contains(&wrapper));
    while let [first, more @ ..] = rest {
        if first.text.starts_with('-') && !first.is_unknown {
            let takes = with_word.contains(&first.text.as_str());
            rest = more.get(usize::from(takes)..).unwrap_or_default();
        } else if matches!(wrapper, "env" | "sudo") && is_assignment(first) {
            rest = more;
        } else if operands > 0 {
            operands -= 1;
            rest = more;
        } else {
            break;
        }
    }
    rest
}

/// Returns the source that follows a shell's `-c`.
fn script(arguments: &[Word]) -> Option<String> {
    let is_c =
        |word: &Word| word.text.starts_with('-') && !word.text.starts_with("--") && word.text.ends_with('c');
    let at = arguments.iter().position(is_c)?;
    arguments.get(at + 1).map(|word| word.text.clone())
}

fn joined(words: &[Word]) -> String {
    let texts: Vec<&str> =
        words.iter().map(|word| word.text.as_str()).filter(|text| !text.starts_with('-')).collect();
    texts.join(" ")
}
