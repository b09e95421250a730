//! Finds the program that a command really runs, and the shell source that it runs.

use std::borrow::Cow;
use std::collections::BTreeSet;

use super::evaluated::{self, has_substitution};
use super::options;
use super::rail::normalize;
use super::wrapper::{Added, Wrapped, has_option, joined, wrapped};
use crate::shell::{self, Command, Inputs, Word};

const SHELLS: &[&str] = &[
    "ash",
    "bash",
    "csh",
    "dash",
    "elvish",
    "fish",
    "hush",
    "ksh",
    "lksh",
    "mksh",
    "nu",
    "oksh",
    "pdksh",
    "posh",
    "powershell",
    "pwsh",
    "rbash",
    "rksh",
    "rzsh",
    "sh",
    "tcsh",
    "xonsh",
    "yash",
    "zsh",
];

/// Shells that may not know `$'...'`.
const PLAIN_SHELLS: [&str; 4] = ["sh", "dash", "ash", "yash"];

/// Shells with other rules of quotes.
const FOREIGN_SHELLS: &[&str] = &["csh", "elvish", "fish", "nu", "powershell", "pwsh", "tcsh", "xonsh"];

/// Long options of shells that take no word.
const LONG_FLAGS: &[&str] = &[
    "debug",
    "debugger",
    "dump-po-strings",
    "dump-strings",
    "login",
    "noediting",
    "noprofile",
    "norc",
    "posix",
    "pretty-print",
    "restricted",
    "verbose",
];

/// How many places are tried at which the command behind its wrappers may begin. If there are more, it is unclear.
const READINGS_MAX: usize = 16;

/// A command without its wrappers.
#[derive(Debug, Clone)]
pub(super) struct Run<'c> {
    /// The command's name without the folder, in lower case. `None` if only a running shell would know it.
    pub name: Option<String>,
    pub arguments: Cow<'c, [Word]>,
    /// The shell sources that the command runs, or may run.
    pub sources: Vec<String>,
    /// Whether the command is a shell that runs its standard input, and the input is not known here.
    pub runs_input: bool,
    /// Whether the command may be another one, or may run another one: only the file system or the shell that runs
    /// knows.
    pub is_unclear: bool,
}

/// What a command prints.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Output {
    Text(String),
    /// What it reads.
    Input,
    Unknown,
}

/// What a shell runs.
pub(super) enum Reads<'w> {
    Source(&'w Word),
    File,
    Input,
    Nothing,
    /// Only the shell that runs knows.
    Unclear,
}

impl<'c> Run<'c> {
    /// Returns the command that is really run. There are several if it is not known where it begins. Empty if no
    /// command follows the assignments and wrappers.
    pub fn of(command: &'c Command) -> Vec<Self> {
        let inputs = &command.inputs;
        let mut runs = Self::of_words(&command.words, inputs);
        if command.words.iter().any(|word| word.gaps.iter().any(|gap| gap.is_blank)) {
            let n_assignments = n_assignments(&command.words);
            let separate = |(place, word): (usize, &Word)| {
                if place < n_assignments { vec![word.clone()] } else { word.separated() }
            };
            let words: Vec<Word> = command.words.iter().enumerate().flat_map(separate).collect();
            runs.extend(Run::of_words(&words, inputs).into_iter().map(Run::into_owned));
        }
        if command.is_data {
            for run in &mut runs {
                (run.runs_input, run.is_unclear) = (false, false);
            }
        }
        let values = evaluated::values(command);
        if values.is_unclear || !values.sources.is_empty() {
            let (sources, is_unclear) = (values.sources, values.is_unclear);
            runs.push(Self { sources, is_unclear, ..Self::named(String::new(), &[]) });
        }
        runs
    }

    fn of_words(words: &'c [Word], inputs: &Inputs) -> Vec<Self> {
        let mut runs: Vec<Self> = Vec::new();
        let mut readings = vec![(&words[n_assignments(words)..], Added::Nothing)];
        let mut known = BTreeSet::new();
        while let Some((words, added)) = readings.pop() {
            if runs.len() >= READINGS_MAX {
                runs[0].is_unclear = true;
                break;
            }
            let Some((first, arguments)) = words.split_first() else { continue };
            if !known.insert(words.as_ptr()) {
                continue;
            }
            let Some(name) = name(first) else {
                runs.push(Self::unknown(first, arguments));
                continue;
            };
            let is_bracket = matches!(first.text.as_str(), "[" | "[[");
            let is_other = (first.is_pattern && !is_bracket) || added.changes(&first.text);
            let wrapped = wrapped(&name, arguments);
            let is_wrapper = wrapped.is_some();
            let mut texts = options::texts(&name, arguments);
            // It divides the command by itself, so an unknown part stays within its word.
            let separate = if name == "rsync" { std::mem::take(&mut texts) } else { Vec::new() };
            let mut run = match wrapped {
                Some(wrapped) => {
                    let added = if wrapped.added == Added::Nothing { added } else { wrapped.added };
                    readings.extend(wrapped.commands.iter().map(|words| (*words, added)));
                    Self::wrapper(name, wrapped, added)
                }
                None => Self::known(name, arguments, added),
            };
            run.is_unclear |= is_other;
            run.take_inputs(inputs);
            run.sources.append(&mut texts);
            run.check_sources(added);
            run.sources.extend(separate);
            // Most wrappers run no more than the commands in their words.
            if !is_wrapper || run.is_unclear || run.runs_input || !run.sources.is_empty() {
                runs.push(run);
            }
        }
        runs
    }

    fn named(name: String, arguments: &'c [Word]) -> Self {
        let arguments = Cow::Borrowed(arguments);
        Self { name: Some(name), arguments, sources: Vec::new(), runs_input: false, is_unclear: false }
    }

    fn unknown(first: &Word, arguments: &'c [Word]) -> Self {
        // The unknown parts may be white space.
        let pieces = pieces(first);
        let arguments = if pieces.is_empty() {
            Cow::Borrowed(arguments)
        } else {
            pieces.into_iter().chain(arguments.iter().cloned()).collect()
        };
        Self { name: None, arguments, sources: Vec::new(), runs_input: false, is_unclear: true }
    }

    /// Returns what a wrapper runs besides the commands in its words.
    fn wrapper(name: String, wrapped: Wrapped<'_>, added: Added<'_>) -> Self {
        // The input of another wrapper may give the command.
        let is_open = wrapped.commands.is_empty() && added == Added::AtEnd && name != "xargs";
        Self {
            sources: wrapped.source.into_iter().collect(),
            runs_input: wrapped.runs_input,
            is_unclear: wrapped.is_unclear || is_open,
            ..Self::named(name, &[])
        }
    }

    fn known(name: String, arguments: &'c [Word], added: Added<'_>) -> Self {
        let mut run = Self::named(name, arguments);
        let grows = added == Added::AtEnd;
        let is_changed = || added != Added::File && arguments.iter().any(|word| added.changes(&word.text));
        let reads = match run.name.as_deref().unwrap_or_default() {
            "eval" => {
                run.sources.push(without_options(arguments));
                run.is_unclear = grows;
                return run;
            }
            "trap" => {
                let action = arguments.iter().find(|word| !word.text.starts_with('-'));
                run.sources.extend(action.map(Word::source));
                return run;
            }
            "alias" => {
                run.sources.push(aliases(arguments));
                return run;
            }
            "bind" => {
                // A key with a command, or with keys that are typed.
                let keys = arguments.iter().map(Word::source);
                let actions = keys.filter_map(|key| Some(key.split_once(':')?.1.to_owned()));
                run.sources.extend(actions);
                return run;
            }
            // What it reads is the source of a shell.
            "at" | "batch" => {
                run.runs_input = !has_option(arguments, &['c', 'd', 'f', 'l', 'q', 'r', 'V']);
                return run;
            }
            "rm" => {
                run.is_unclear = may_have_options(arguments, grows) || is_changed();
                return run;
            }
            "dd" => {
                run.is_unclear = grows || is_changed();
                return run;
            }
            "." | "source" => sourced(arguments),
            name if is_shell(name) => script(arguments),
            other => {
                run.is_unclear = may_run_another(other, arguments, grows);
                return run;
            }
        };
        run.is_unclear =
            matches!(reads, Reads::Unclear) || (grows && !matches!(reads, Reads::Source(_) | Reads::File));
        run.runs_input = matches!(reads, Reads::Input);
        if let Reads::Source(word) = reads {
            run.sources.push(word.source());
        }
        run
    }

    /// Gives the command its here-documents and here-strings. A shell may run each of them, whatever the descriptor is.
    fn take_inputs(&mut self, inputs: &Inputs) {
        let is_shell = self.name.as_deref().is_some_and(is_shell);
        if (self.runs_input || self.is_unclear || is_shell) && self.sources.is_empty() {
            self.runs_input &= !inputs.is_known();
            self.sources.extend(inputs.texts.iter().cloned());
        }
    }

    /// Checks that the sources are whole, and that the shell reads them as is done here.
    fn check_sources(&mut self, added: Added<'_>) {
        let name = bare(self.name.as_deref().unwrap_or_default());
        // Their options have other names.
        let has_option = self.arguments.first().is_some_and(|word| {
            word.text.starts_with('-') && !matches!(word.text.as_str(), "--help" | "--version")
        });
        let is_foreign =
            FOREIGN_SHELLS.contains(&name) && (has_option || self.runs_input || !self.sources.is_empty());
        let is_misread = self.sources.iter().any(|source| {
            let has_quote = source.contains("$'") && source.contains("\\'");
            shell::is_incomplete(source)
                || added.changes(source)
                || (PLAIN_SHELLS.contains(&name) && has_quote)
        });
        self.is_unclear |= is_foreign || is_misread;
    }

    fn into_owned<'o>(self) -> Run<'o> {
        let Self { name, arguments, sources, runs_input, is_unclear } = self;
        Run { name, arguments: Cow::Owned(arguments.into_owned()), sources, runs_input, is_unclear }
    }

    /// Returns whether the command downloads something.
    pub fn is_fetch(&self) -> bool {
        matches!(self.name.as_deref(), Some("curl" | "wget"))
    }

    /// Returns what the command prints.
    pub fn output(&self) -> Output {
        let reads_only = |word: &Word| matches!(word.text.as_str(), "-" | "--" | "-u") && !word.is_unknown;
        match self.name.as_deref() {
            Some("echo" | "printf" | "yes") => Output::Text(without_options(&self.arguments)),
            Some("cat") if self.arguments.iter().all(reads_only) => Output::Input,
            Some("tee") => Output::Input,
            Some(_) | None => Output::Unknown,
        }
    }

    /// Returns whether the arguments contain the options recursive and force (`-rf`), in any form.
    pub fn is_recursive_and_forced(&self) -> bool {
        let (mut recursive, mut force) = (false, false);
        for word in before_operands(&self.arguments) {
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

/// Returns how many of the first words are assignments.
fn n_assignments(words: &[Word]) -> usize {
    words.iter().take_while(|word| word.is_assignment()).count()
}

/// Returns the name of a command without the folder, in lower case. `None` if only a running shell would know it.
fn name(word: &Word) -> Option<String> {
    let begin = word.text.rfind('/').map_or(0, |slash| slash + 1);
    let is_known = !word.is_unknown || (!word.is_several && word.gaps.iter().all(|gap| gap.at < begin));
    is_known.then(|| word.text[begin..].to_lowercase())
}

/// Returns whether a command may run another one that is not known here. `grows`: more words follow.
fn may_run_another(name: &str, arguments: &[Word], grows: bool) -> bool {
    match name {
        "compgen" | "complete" => grows || arguments.iter().any(|word| has_substitution(&word.text)),
        // A name for a program, a program in a file, or a command of the history.
        "hash" => grows || has_option(arguments, &['p']),
        "enable" => grows || has_option(arguments, &['f']),
        "fc" => grows || !has_option(arguments, &['l']),
        // Its lines have commands.
        "crontab" => !has_option(arguments, &['l', 'r']),
        "gsed" | "sed" => arguments.iter().any(options::runs_command),
        "start-stop-daemon" => true,
        _ => false,
    }
}

/// Returns what a shell runs: the first word that is no option is its source after `-c`, and a file otherwise.
fn script(arguments: &[Word]) -> Reads<'_> {
    let mut rest = arguments;
    let (mut is_command, mut is_input, mut is_ended) = (false, false, false);
    while let [first, more @ ..] = rest {
        if first.may_be_several() || (first.may_be_option() && !more.is_empty()) {
            return Reads::Unclear;
        }
        rest = more;
        match first.text.as_str() {
            "--" | "-" if !is_ended && !first.is_unknown => is_ended = true,
            "--help" | "--version" if !is_ended => return Reads::Nothing,
            "--rcfile" | "--init-file" if !is_ended => {
                let is_other = |file: &Word| {
                    file.may_be_several() || matches!(read_of(&file.text), Reads::Input | Reads::Unclear)
                };
                if rest.first().is_some_and(is_other) {
                    return Reads::Unclear;
                }
                rest = rest.get(1..).unwrap_or_default();
            }
            // Another one may take the next word, or be a command.
            long if !is_ended && long.starts_with("--") => {
                if !LONG_FLAGS.contains(&&long[2..]) {
                    return Reads::Unclear;
                }
            }
            short if !is_ended && short.starts_with(['-', '+']) => {
                is_command |= short.contains('c');
                is_input |= short.contains('s');
                // The names of settings follow.
                let n_names = short.matches(['o', 'O']).count();
                rest = rest.get(n_names..).unwrap_or_default();
            }
            _ if is_command => return Reads::Source(first),
            _ if is_input => return Reads::Input,
            file => return read_of(file),
        }
    }
    if is_command { Reads::Nothing } else { Reads::Input }
}

/// Returns what `source` runs.
fn sourced(arguments: &[Word]) -> Reads<'_> {
    match arguments.iter().find(|word| word.text != "--") {
        None => Reads::Nothing,
        // A substitution of a process, or several words.
        Some(file) if file.is_several && !file.text.contains('/') => Reads::Unclear,
        // An option, or a file that only the file system knows.
        Some(file) if file.is_pattern || file.text.starts_with('-') => Reads::Unclear,
        Some(file) => read_of(&file.text),
    }
}

/// Returns what a shell reads from a file. The standard input has many names: a part of the path may be a link.
pub(super) fn read_of(path: &str) -> Reads<'static> {
    // From another folder than the root, these do not lead there.
    let is_below = !path.starts_with('/') && !path.contains("..");
    let path = normalize(path);
    let (folder, name) = path.rsplit_once('/').unwrap_or_default();
    let is_number = !name.is_empty() && name.chars().all(|character| character.is_ascii_digit());
    let is_descriptor = is_number && folder.ends_with("/fd");
    let is_within =
        |root: &&str| path.strip_prefix(*root).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
    // Files below these are devices, descriptors and parts of processes.
    let is_device = !is_below
        && ["/dev", "/proc"].iter().any(is_within)
        && !is_within(&"/dev/shm")
        && path != "/dev/null";
    match name {
        "stdin" => Reads::Input,
        "0" if is_descriptor => Reads::Input,
        _ if is_descriptor || is_device => Reads::Unclear,
        _ => Reads::File,
    }
}

fn is_shell(name: &str) -> bool {
    SHELLS.contains(&bare(name))
}

/// Returns the name of a program without its version: `bash-5.2`.
fn bare(name: &str) -> &str {
    name.trim_end_matches(|character: char| character.is_ascii_digit() || matches!(character, '.' | '-'))
}

/// Returns whether `rm` may get other options than those in its words. `grows`: more words follow.
fn may_have_options(arguments: &[Word], grows: bool) -> bool {
    let n_operands = arguments.iter().filter(|word| !word.text.starts_with('-')).count();
    let is_other = |word: &Word| {
        let begins_known = word.gaps.is_empty() && !word.text.starts_with(['{', '-']);
        let n_own = usize::from(!word.text.starts_with('-'));
        (word.is_several && !begins_known) || (word.may_be_option() && n_operands > n_own)
    };
    let n_before = before_operands(arguments).count();
    arguments[..n_before].iter().any(is_other) || (grows && n_before == arguments.len())
}

/// Returns the words before `--`, after which there are no options.
fn before_operands(arguments: &[Word]) -> impl Iterator<Item = &Word> {
    arguments.iter().take_while(|word| word.text != "--" || word.is_unknown)
}

/// Returns the commands for which an alias stands.
fn aliases(arguments: &[Word]) -> String {
    let sources = arguments.iter().map(Word::source);
    let commands = sources.filter_map(|source| Some(source.split_once('=')?.1.to_owned()));
    commands.collect::<Vec<_>>().join("\n")
}

/// Returns the words of a command as one source, without the options before them.
fn without_options(words: &[Word]) -> String {
    let n_options = words.iter().take_while(|word| word.text.starts_with('-')).count();
    joined(&words[n_options..])
}

/// Returns the pieces of a word between its unknown parts if one of them may be an option.
fn pieces(word: &Word) -> Vec<Word> {
    let mut pieces = Vec::new();
    let mut begin = 0;
    for end in word.gaps.iter().map(|gap| gap.at).chain([word.text.len()]) {
        pieces.push(&word.text[begin..end]);
        begin = end;
    }
    if !pieces.iter().any(|piece| piece.starts_with('-')) {
        return Vec::new();
    }
    let words = pieces.into_iter().filter(|piece| !piece.is_empty());
    words.map(|piece| Word { text: piece.to_owned(), ..Word::default() }).collect()
}
