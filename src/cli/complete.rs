//! Completes ids of conversations in a shell: the program answers the shell itself, from the database that is typed.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::builder::StyledStr;
use clap::{Arg, Command};
use clap_complete::engine::{ArgValueCompleter, CompletionCandidate};
use clap_complete::env::Shells;
use clap_complete::{CompleteEnv, Shell};

use super::print::one_line;
use super::select::short_id;
use super::{default_database, help};
use crate::error::{Error, Result};
use crate::store::{ConversationFilter, Options, Order, Store};

/// The variable by which a shell asks the program. It has the program's name, because every command ends as an answer to
/// a shell where it is set.
const VARIABLE: &str = "ANNALS_COMPLETE";

/// How long a tab waits for a database that another process locks.
const PATIENCE: Duration = Duration::from_millis(200);

/// The most ids that a shell is offered: those that changed last.
const IDS_MAX: usize = 100;

/// The most conversations that are looked at, so that a tab never takes long.
const LOOKED_AT_MAX: usize = 20_000;

/// The number of conversations that are read at once.
const PAGE: usize = 500;

/// The most characters of the title beside an id.
const TITLE_MAX: usize = 60;

/// Answers a shell that asks for completions, and ends the program then.
pub(super) fn answer_shell() {
    CompleteEnv::with_factory(help::command).var(VARIABLE).complete();
}

/// Returns the script that makes a shell ask the program.
pub(super) fn script(shell: Shell) -> Result<Vec<u8>> {
    let name = shell.to_string();
    let unknown =
        || Error::Storage { doing: "writing completions", source: format!("no script for {name}").into() };
    let mut text = Vec::new();
    Shells::builtins()
        .completer(&name)
        .ok_or_else(unknown)?
        .write_registration(VARIABLE, "annals", "annals", "annals", &mut text)
        .map_err(Error::io("writing", "completions"))?;
    Ok(text)
}

/// Lets every argument that names a conversation be completed.
pub(super) fn with_ids(command: Command) -> Command {
    let names: Vec<String> = command.get_subcommands().map(|command| command.get_name().to_owned()).collect();
    names.into_iter().fold(command, |command, name| {
        command.mut_subcommand(name, |command| {
            with_ids(command).mut_args(|arg| {
                if is_conversation(&arg) { arg.add(ArgValueCompleter::new(ids)) } else { arg }
            })
        })
    })
}

/// Returns whether an argument names conversations of the database.
fn is_conversation(arg: &Arg) -> bool {
    let help = arg.get_help().map(ToString::to_string).unwrap_or_default();
    arg.get_action().takes_values() && help.contains("by id or the start of one")
}

/// Returns the ids that begin as `typed`, those of the conversations that changed last first. Empty without a database.
fn ids(typed: &OsStr) -> Vec<CompletionCandidate> {
    typed.to_str().and_then(|typed| candidates(typed, &database()).ok()).unwrap_or_default()
}

fn candidates(typed: &str, database: &Path) -> Result<Vec<CompletionCandidate>> {
    let store = Store::open_with(database, &Options::default().read_only(true).busy_timeout(PATIENCE))?;
    let mut found = Vec::new();
    let filter = ConversationFilter::default();
    let mut after = None;
    for _ in 0..LOOKED_AT_MAX / PAGE {
        let page = store.conversations(&filter, Order::UpdatedDescending, after.as_ref(), PAGE)?;
        for conversation in page.conversations {
            if !conversation.id.as_str().starts_with(typed) {
                continue;
            }
            let short = short_id(&store, &conversation.id)?;
            let value = if short.len() < typed.len() { conversation.id.to_string() } else { short };
            let title = conversation.title.unwrap_or_default();
            let help = (!title.is_empty()).then(|| StyledStr::from(one_line(&title, TITLE_MAX)));
            found.push(CompletionCandidate::new(value).help(help).display_order(Some(found.len())));
            if found.len() == IDS_MAX {
                return Ok(found);
            }
        }
        match page.next {
            Some(next) => after = Some(next),
            None => break,
        }
    }
    Ok(found)
}

/// Returns the database of the line that is being completed: that of `--db`, of its variable, or the default.
fn database() -> PathBuf {
    let words: Vec<OsString> = std::env::args_os().collect();
    let typed = words.iter().enumerate().rev().find_map(|(at, word)| match word.to_str()? {
        "--db" => words.get(at + 1).map(PathBuf::from),
        word => word.strip_prefix("--db=").map(PathBuf::from),
    });
    typed.or_else(|| std::env::var_os("ANNALS_DB").map(PathBuf::from)).unwrap_or_else(default_database)
}
