//! `annals --help`: the commands in groups, by what the user wants to do.

use std::fmt::Write as _;

use clap::{Command, CommandFactory as _};

use super::arguments::Arguments;
use super::complete;
use super::print::width;

/// The groups in their order, each with its commands.
const GROUPS: &[(&str, &[&str])] = &[
    (
        "Start an agent, and steer it",
        &[
            "run", "resume", "send", "approve", "reject", "pause", "fork", "ask", "secrets", "profiles",
            "config",
        ],
    ),
    ("Look at conversations", &["list", "show", "search", "stats", "tail", "open"]),
    (
        "Read one: transcript is for people, events for programs",
        &[
            "transcript",
            "events",
            "view",
            "messages",
            "replay",
            "state",
            "branches",
            "diff",
            "edits",
            "convert",
        ],
    ),
    ("Ask questions", &["report", "query", "seen"]),
    (
        "Keep and prove",
        &[
            "verify",
            "doctor",
            "rebuild",
            "backup",
            "restore",
            "recover",
            "upgrade",
            "archive",
            "unarchive",
            "vacuum",
            "head",
            "keys",
            "bundle",
        ],
    ),
    ("Carry", &["import", "export", "merge", "split", "copy"]),
    ("Remove", &["delete", "prune", "redact", "erase", "scan-secrets", "admin-log"]),
    ("Serve and set up", &["serve", "mcp", "shared", "self-check", "completions", "man", HELP]),
];

/// The command that the library adds.
const HELP: &str = "help";

/// The column in which descriptions begin.
const INDENT: usize = 16;

/// The maximum number of characters in a line of help.
const WIDTH_MAX: usize = 100;

/// Returns the program's command, whose help lists the commands in groups.
pub(super) fn command() -> Command {
    let command = complete::with_ids(Arguments::command());
    let groups = groups(&command, usize::from(width()).min(WIDTH_MAX));
    command.help_template(format!(
        "{{about-with-newline}}\n{{usage-heading}} {{usage}}\n\n{groups}Options:\n{{options}}{{after-help}}"
    ))
}

/// Returns the groups with the descriptions of their commands. Commands of features that are not built in are left out.
fn groups(command: &Command, width: usize) -> String {
    let about = |name: &str| match name {
        HELP => Some("Print this message, or the help of a command".to_owned()),
        _ => command.find_subcommand(name).and_then(Command::get_about).map(ToString::to_string),
    };
    let mut text = String::new();
    for (title, names) in GROUPS {
        let known: Vec<_> = names.iter().filter_map(|name| Some((name, about(name)?))).collect();
        if known.is_empty() {
            continue;
        }
        let _ = writeln!(text, "{title}:");
        for (name, about) in known {
            let mut line = format!("  {name:<0$}", INDENT - 2);
            for word in about.split_whitespace() {
                if line.chars().count() + 1 + word.chars().count() > width && line.chars().count() > INDENT {
                    let _ = writeln!(text, "{}", line.trim_end());
                    line = " ".repeat(INDENT);
                }
                if !line.ends_with(' ') {
                    line.push(' ');
                }
                line.push_str(word);
            }
            let _ = writeln!(text, "{line}");
        }
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_is_in_one_group() {
        let command = Arguments::command();
        let grouped: Vec<&str> = GROUPS.iter().flat_map(|(_, names)| *names).copied().collect();
        for name in command.get_subcommands().filter(|command| !command.is_hide_set()).map(Command::get_name)
        {
            let found = grouped.iter().filter(|grouped| **grouped == name).count();
            assert_eq!(found, 1, "{name} is in {found} groups of src/cli/help.rs");
        }
        if cfg!(all(feature = "agent", feature = "server")) {
            let is_left_out = |name: &str| name == "shared" && cfg!(not(feature = "postgres"));
            for name in grouped.into_iter().filter(|name| !is_left_out(name)) {
                assert!(
                    name == HELP || command.find_subcommand(name).is_some(),
                    "there is no command {name}"
                );
            }
        }
    }

    #[test]
    fn descriptions_are_wrapped_to_the_width() {
        for width in [40, 80, 100] {
            let text = groups(&Arguments::command(), width);
            for line in text.lines().filter(|line| line.starts_with("  ")) {
                assert!(line.chars().count() <= width, "{line:?}");
            }
        }
        assert!(groups(&Arguments::command(), 80).contains("\n  list          List conversations\n"));
    }
}
