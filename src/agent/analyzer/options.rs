//! Finds commands in the options of programs that are neither shells nor wrappers.
//!
//! The table cannot be complete. The page `docs/security.md#agent-and-model` lists what is not seen.

use crate::shell::Word;

/// An option that holds a command.
struct Holder {
    program: &'static str,
    /// A word that has to stand among the arguments. Empty if none has to.
    subcommand: &'static str,
    option: &'static str,
    /// What the value of the option begins with before a command. Empty if all of it is a command.
    prefix: &'static str,
}

const fn holder(program: &'static str, option: &'static str) -> Holder {
    Holder { program, subcommand: "", option, prefix: "" }
}

const fn marked(program: &'static str, option: &'static str, prefix: &'static str) -> Holder {
    Holder { program, subcommand: "", option, prefix }
}

const fn within(program: &'static str, subcommand: &'static str, option: &'static str) -> Holder {
    Holder { program, subcommand, option, prefix: "" }
}

/// Sources: the manuals of bash, git, tar, rsync, OpenSSH and others.
const HOLDERS: &[Holder] = &[
    holder("compgen", "-C"),
    holder("complete", "-C"),
    holder("mapfile", "-C"),
    holder("readarray", "-C"),
    holder("cpio", "--rsh-command"),
    within("git", "clone", "-u"),
    within("git", "difftool", "--extcmd"),
    within("git", "difftool", "-x"),
    within("git", "filter-branch", "--commit-filter"),
    within("git", "filter-branch", "--env-filter"),
    within("git", "filter-branch", "--index-filter"),
    within("git", "filter-branch", "--msg-filter"),
    within("git", "filter-branch", "--parent-filter"),
    within("git", "filter-branch", "--setup"),
    within("git", "filter-branch", "--tag-name-filter"),
    within("git", "filter-branch", "--tree-filter"),
    within("git", "grep", "--open-files-in-pager"),
    within("git", "grep", "-O"),
    holder("git", "--receive-pack"),
    holder("git", "--upload-pack"),
    within("git", "rebase", "--exec"),
    within("git", "rebase", "-x"),
    marked("gdb", "--eval-command", "!"),
    marked("gdb", "--eval-command", "shell "),
    marked("gdb", "-ex", "!"),
    marked("gdb", "-ex", "shell "),
    holder("man", "--pager"),
    holder("man", "-P"),
    holder("nix-shell", "--command"),
    holder("nix-shell", "--run"),
    within("npm", "exec", "--call"),
    within("npm", "exec", "-c"),
    holder("npx", "--call"),
    holder("npx", "-c"),
    holder("rsync", "--rsh"),
    holder("rsync", "--rsync-path"),
    holder("rsync", "-e"),
    holder("sort", "--compress-program"),
    holder("split", "--filter"),
    marked("scp", "-o", "localcommand="),
    marked("scp", "-o", "proxycommand="),
    marked("sftp", "-o", "localcommand="),
    marked("sftp", "-o", "proxycommand="),
    marked("ssh", "-o", "knownhostscommand="),
    marked("ssh", "-o", "localcommand="),
    marked("ssh", "-o", "localcommand "),
    marked("ssh", "-o", "proxycommand="),
    marked("ssh", "-o", "proxycommand "),
    marked("tar", "--checkpoint-action", "exec="),
    holder("tar", "--info-script"),
    holder("tar", "--new-volume-script"),
    holder("tar", "--rmt-command"),
    holder("tar", "--rsh-command"),
    holder("tar", "--to-command"),
    holder("tar", "--use-compress-program"),
    holder("tar", "-F"),
    holder("tar", "-I"),
    marked("vi", "-c", ":!"),
    marked("vi", "-c", "!"),
    marked("vim", "--cmd", ":!"),
    marked("vim", "--cmd", "!"),
    marked("vim", "-c", ":!"),
    marked("vim", "-c", "!"),
    marked("nvim", "--cmd", "!"),
    marked("nvim", "-c", ":!"),
    marked("nvim", "-c", "!"),
    holder("zip", "--unzip-command"),
    holder("zip", "-TT"),
];

/// The ends of the names of git's settings whose values are commands.
const SETTINGS: &[&str] = &[
    ".askpass",
    ".clean",
    ".cmd",
    ".command",
    ".driver",
    ".editor",
    ".external",
    ".fsmonitor",
    ".gitproxy",
    ".helper",
    ".packobjectshook",
    ".pager",
    ".process",
    ".program",
    ".receivepack",
    ".smudge",
    ".sshcommand",
    ".textconv",
    ".uploadpack",
];

/// Returns the commands in the options of a program.
pub(super) fn texts(name: &str, arguments: &[Word]) -> Vec<String> {
    let is_cluster = |word: &&Word| !word.text.starts_with('-') && word.text.contains(['F', 'I']);
    let mut texts = match (name, arguments.split_first()) {
        ("git", _) => settings(arguments),
        ("hyperfine", _) => arguments.iter().map(Word::source).collect(),
        // Its first word may hold options without a dash, whose values follow.
        ("tar", Some((first, rest))) if is_cluster(&first) => rest.iter().map(Word::source).collect(),
        _ => Vec::new(),
    };
    for holder in HOLDERS.iter().filter(|holder| holder.program == name) {
        let is_meant = |word: &Word| holder.subcommand.is_empty() || word.text == holder.subcommand;
        if arguments.iter().any(is_meant) {
            texts
                .extend(of_option(holder.option, arguments).filter_map(|value| after(holder.prefix, &value)));
        }
    }
    texts
}

/// Returns the values of an option: `-x` or `--long`. A long option may be cut. A short one may stand behind others.
fn of_option<'w>(option: &'w str, arguments: &'w [Word]) -> impl Iterator<Item = String> + 'w {
    arguments.iter().enumerate().filter_map(move |(place, word)| {
        let next = || arguments.get(place + 1).map(Word::source);
        let word = word.source();
        if let Some(long) = option.strip_prefix("--") {
            let given = word.strip_prefix("--").filter(|given| !given.is_empty())?;
            return match given.split_once('=') {
                Some((name, value)) => long.starts_with(name).then(|| value.to_owned()),
                None if long.starts_with(given) => next(),
                None => None,
            };
        }
        let cluster = word.strip_prefix('-').filter(|cluster| !cluster.starts_with('-'))?;
        let (_, value) = cluster.split_once(option.strip_prefix('-')?)?;
        if value.is_empty() { next() } else { Some(value.to_owned()) }
    })
}

/// Returns what follows a prefix, in any case of its letters.
fn after(prefix: &str, value: &str) -> Option<String> {
    let (head, rest) = value.split_at_checked(prefix.len())?;
    head.eq_ignore_ascii_case(prefix).then(|| rest.to_owned())
}

/// Returns the commands in the settings of git: `-c KEY=VALUE` or `config KEY VALUE`.
fn settings(arguments: &[Word]) -> Vec<String> {
    let mut texts = Vec::new();
    for (place, word) in arguments.iter().enumerate() {
        let word = word.source();
        let setting = word.strip_prefix("--config=").or_else(|| word.strip_prefix("-c")).unwrap_or(&word);
        let (key, value) = match setting.split_once('=') {
            Some((key, value)) => (key.to_lowercase(), Some(value.to_owned())),
            None => (setting.to_lowercase(), arguments.get(place + 1).map(Word::source)),
        };
        let is_alias = key.starts_with("alias.");
        let is_command =
            is_alias || key.starts_with("pager.") || SETTINGS.iter().any(|end| key.ends_with(*end));
        if let Some(value) = value.filter(|_| is_command) {
            texts.push(match value.strip_prefix('!') {
                Some(command) => command.to_owned(),
                None if is_alias => format!("git {value}"),
                None => value,
            });
        }
    }
    texts
}

/// Returns whether a script of `sed` may run a command: by `e`, or by this flag of `s`.
pub(super) fn runs_command(word: &Word) -> bool {
    let text = word.text.as_str();
    let cluster = text.strip_prefix('-').filter(|cluster| !cluster.starts_with('-'));
    let script = cluster.and_then(|cluster| cluster.split_once('e')).map_or(text, |(_, script)| script);
    let characters: Vec<char> = script.chars().collect();
    let begins = |at: usize| {
        let before = characters[..at].iter().rev().find(|c| !matches!(**c, ' ' | '\t'));
        before.is_none_or(|c| c.is_ascii_digit() || "$/;{}\n!,~=IM".contains(*c))
    };
    let is_command = |at: usize| {
        let ends = characters.get(at + 1).is_none_or(|c| c.is_whitespace() || matches!(*c, ';' | '}'));
        ends && begins(at)
    };
    characters.iter().enumerate().any(|(at, c)| match *c {
        'e' => is_command(at),
        's' => begins(at) && has_flag(&characters[at + 1..]),
        _ => false,
    })
}

/// Returns whether the text after the `s` of a replacement has the flag `e`.
fn has_flag(text: &[char]) -> bool {
    let Some((divider, rest)) = text.split_first() else { return false };
    let (mut n_dividers, mut is_escaped) = (1, false);
    let mut flags = rest.iter().skip_while(|c| {
        n_dividers += usize::from(*c == divider && !is_escaped);
        is_escaped = **c == '\\' && !is_escaped;
        n_dividers < 3
    });
    // The last divider.
    flags.next();
    flags.take_while(|c| c.is_ascii_alphanumeric()).any(|c| *c == 'e')
}
