//! The command line: arguments in, text or JSON out, an exit code at the end.
//!
//! It contains no rules of its own: every command makes a few calls of the library and prints the results.
//! Environment variables are read here, and elsewhere only to keep them from child processes.

mod actor;
mod admin_log;
mod alive;
#[cfg(all(feature = "server", unix))]
mod anew;
mod answer;
mod archive;
mod arguments;
mod backup;
#[cfg(feature = "server")]
mod backups;
mod branches;
mod carry;
mod commands;
mod complete;
mod completions;
#[cfg(feature = "agent")]
mod config;
mod delete;
mod diff;
mod doctor;
#[cfg(all(test, feature = "agent", feature = "server"))]
mod documented;
mod edits;
mod ends;
mod erase;
mod events;
mod export;
mod fit;
#[cfg(feature = "server")]
mod heads;
mod help;
mod import;
#[cfg(feature = "server")]
mod journal;
#[cfg(feature = "agent")]
mod keys;
mod list;
mod list_rows;
#[cfg(feature = "server")]
mod listening;
mod loading;
mod man;
#[cfg(feature = "server")]
mod mcp;
mod messages;
#[cfg(feature = "agent")]
mod near;
#[cfg(feature = "server")]
mod open;
#[cfg(unix)]
mod pager;
mod print;
mod proof;
mod prune;
mod query;
mod rebuild;
mod recover;
mod redact;
mod replay;
mod report;
mod restore;
#[cfg(feature = "agent")]
mod run;
mod scan_secrets;
mod search;
mod seen;
mod select;
mod self_check;
#[cfg(feature = "server")]
mod serve;
mod server_keys;
#[cfg(feature = "server")]
mod serving;
#[cfg(feature = "agent")]
mod settings;
#[cfg(feature = "postgres")]
mod shared;
mod show;
#[cfg(feature = "agent")]
mod signals;
mod state;
mod stats;
mod stopped;
#[cfg(all(feature = "server", target_os = "linux"))]
mod sweep;
mod tail;
mod transcript;
mod upgrade;
mod vacuum;
mod verify;
mod view;
#[cfg(feature = "server")]
mod watch_log;

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::FromArgMatches as _;
use clap::error::{ContextKind, ContextValue};

use crate::error::{Error, ErrorClass, InputError, Result, SetupError, SharedError};
use crate::store::{Options, Store};
use arguments::Arguments;
use print::Output;

/// Exit code: done.
const DONE: u8 = 0;
/// Exit code: the command cannot be done as it was given. Nothing is broken.
const REFUSED: u8 = 1;
/// Exit code: something failed.
const FAILED: u8 = 2;

/// Runs the program with the arguments it was given.
#[must_use]
pub fn main() -> ExitCode {
    #[cfg(all(feature = "server", target_os = "linux"))]
    if let Some(swept) = sweep::is_asked() {
        return swept;
    }
    complete::answer_shell();
    let given = match help::command().try_get_matches() {
        Ok(given) => given,
        Err(error) => return refuse(&error),
    };
    let arguments = match Arguments::from_arg_matches(&given) {
        Ok(arguments) => arguments,
        Err(error) => return refuse(&error),
    };
    let output = Output::new(arguments.json, is_paged(&given));
    let place = Place { path: &arguments.db, shared: arguments.shared.as_deref() };
    let done = arguments.command.run(&place, &output).and_then(|code| output.flush().map(|()| code));
    ends::wait_for_the_end();
    ends::close();
    match done {
        Ok(code) => ExitCode::from(code),
        Err(error) if is_closed_pipe(&error) => ExitCode::from(DONE),
        Err(error) => {
            output.error(&error, hint(&error));
            ExitCode::from(code_of(&error))
        }
    }
}

/// What a program says that knows no shared logs.
#[cfg(not(feature = "postgres"))]
const WITHOUT_SHARED: &str = "this program was built without the feature `postgres`; `cargo install annals --features postgres` \
     builds one with it, and without --shared and ANNALS_SHARED the file is on its own";

/// The commands that print rows.
const WITH_ROWS: [&str; 2] = ["report", "query"];

/// Prints why the arguments are wrong, or the help that they ask for.
fn refuse(error: &clap::Error) -> ExitCode {
    let usage = error.get(ContextKind::Usage).map(ToString::to_string).unwrap_or_default();
    let names_format = error.get(ContextKind::InvalidArg) == Some(&ContextValue::String("--format".into()));
    // The program may have another name.
    let command = usage.split_whitespace().find(|word| WITH_ROWS.contains(word));
    if let Some(command) = command.filter(|_| names_format) {
        print::tell(format_args!(
            "annals: `{command}` has no --format: --csv prints its rows as CSV, `annals --json {command} …` as JSON"
        ));
        return ExitCode::from(REFUSED);
    }
    #[cfg(not(feature = "postgres"))]
    if error.get(ContextKind::InvalidSubcommand) == Some(&ContextValue::String("shared".into())) {
        print::tell(format_args!("annals: there is no command `shared`: {WITHOUT_SHARED}"));
        return ExitCode::from(REFUSED);
    }
    let _ = error.print();
    ExitCode::from(if error.use_stderr() { REFUSED } else { DONE })
}

/// Returns whether long output of the command goes through a pager.
#[cfg(unix)]
fn is_paged(given: &clap::ArgMatches) -> bool {
    given.subcommand_name().is_some_and(pager::is_paged)
}

/// Returns whether long output of the command goes through a pager. Pagers are for Unix only.
#[cfg(not(unix))]
fn is_paged(_given: &clap::ArgMatches) -> bool {
    false
}

/// A reading command does not write to a disk with fewer free bytes.
const ROOM_TO_WRITE: u64 = 1 << 20;

/// How an error ends if nothing of a file can be read.
const OPENING: [&str; 2] = ["(while opening the database)", "(while turning on the write-ahead log)"];

/// The path of the database, with methods that open it as a command needs it.
struct Place<'a> {
    path: &'a Path,
    /// The address of the log that the file is a replica of. `None` if it is on its own.
    shared: Option<&'a str>,
}

impl<'a> Place<'a> {
    /// Another file, on the same log if there is one.
    fn of<'b>(&'b self, path: &'b Path) -> Place<'b> {
        Place { path, shared: self.shared }
    }

    /// A file on its own.
    fn alone(path: &'a Path) -> Self {
        Self { path, shared: None }
    }

    /// Returns the `--db` option as the user must type it. Empty for the default database.
    fn option(&self) -> String {
        if self.path == default_database() { String::new() } else { format!(" --db {}", quoted(self.path)) }
    }

    /// Opens the file for writing. Creates it if it is missing.
    fn create(&self) -> Result<Store> {
        self.open(&Options { follow_projections: false, ..Options::default() })
    }

    /// Opens the file for writing. It must exist.
    fn write(&self) -> Result<Store> {
        self.open(&Options { follow_projections: false, create: false, ..Options::default() })
    }

    /// Opens the file for reading. If it may be written and the disk has room, projections can catch up.
    fn read(&self) -> Result<Store> {
        let is_full = match self.write() {
            Err(Error::ReadOnly { .. }) => false,
            Err(Error::CannotOpen { .. }) if self.path.exists() => false,
            Err(Error::DiskFull { .. }) => true,
            Ok(store) if store.maintenance().free_bytes().is_some_and(|free| free < ROOM_TO_WRITE) => true,
            opened => return opened,
        };
        if is_full {
            print::tell(format_args!(
                "annals: {}: the disk is full, so the file is only read: derived tables and the search index stay as they are",
                self.path.display()
            ));
        }
        self.read_only()
    }

    fn read_only(&self) -> Result<Store> {
        self.open(&Options { read_only: true, ..Options::default() })
    }

    fn open(&self, options: &Options) -> Result<Store> {
        let options = Options { actor: actor::who(), ..options.clone() };
        let store = ends::opened(|| self.open_here_or_shared(&options))?;
        upgrade::tell(&store, self.path);
        loading::tell(&store);
        for damaged in store.maintenance().damaged_logs() {
            print::tell(format_args!("annals: {}: {}", self.path.display(), damaged.describe()));
        }
        if let Some(warning) = store.maintenance().write_log().warning() {
            print::tell(format_args!("annals: {}: {warning}", self.path.display()));
        }
        Ok(store)
    }
}

impl Place<'_> {
    /// Opens the file. If a shared log is named, that is refused: the user believes that it gets what is written, and that the
    /// file has what others wrote.
    #[cfg(not(feature = "postgres"))]
    fn open_here_or_shared(&self, options: &Options) -> Result<Store> {
        match self.shared {
            Some(_) if !options.read_only => Err(SharedError::Address { what: WITHOUT_SHARED.into() }.into()),
            Some(_) | None => Store::open_with(self.path, options),
        }
    }

    /// Opens the file, on its shared log if one is named and the file may be written.
    #[cfg(feature = "postgres")]
    fn open_here_or_shared(&self, options: &Options) -> Result<Store> {
        match self.shared {
            // What is not in the file is in the log, so a missing file is made.
            Some(address) if !options.read_only => {
                shared::open(address, self.path, &options.clone().create(true))
            }
            Some(_) | None => Store::open_with(self.path, options),
        }
    }
}

/// Returns whether the reader of our output has closed the pipe, as `head` does. Then the work is done.
fn is_closed_pipe(error: &Error) -> bool {
    matches!(error, Error::Io { source, .. } if source.kind() == ErrorKind::BrokenPipe)
}

fn code_of(error: &Error) -> u8 {
    match error.class() {
        ErrorClass::Busy | ErrorClass::Full | ErrorClass::Failed => FAILED,
        ErrorClass::Missing
        | ErrorClass::Conflict
        | ErrorClass::Invalid
        | ErrorClass::TooLarge
        | ErrorClass::Cancelled
        | ErrorClass::Unusable => REFUSED,
    }
}

/// Returns what to do about an error of a shared log.
fn hint_of_shared(error: &SharedError) -> Option<String> {
    let hint = match error {
        SharedError::Replica { .. } => {
            "name the log with --shared or ANNALS_SHARED; `annals merge --into NEW FILE` makes a store of its own of it"
        }
        SharedError::None { .. } => {
            "`annals shared make` makes it; ?schema=NAME in the address names another"
        }
        SharedError::Exists { .. } => {
            "`annals shared status` shows what it holds; ?schema=NAME in the address names another"
        }
        SharedError::NotItsReplica { .. } => {
            "name another file with --db, which is made; `annals merge --into REPLICA FILE` brings what is in this one"
        }
        SharedError::OtherVersion { .. } => {
            "all machines that share a log use one version of annals; a log of another version is made anew (docs/shared.md)"
        }
        SharedError::Unknown | SharedError::OnlyThere { .. } => {
            "do it again: what was written is not written twice"
        }
        SharedError::Unreachable { .. } => {
            "look whether the server runs, and whether the address is right; without --shared and ANNALS_SHARED the file is read as it is"
        }
        SharedError::Ahead { .. } | SharedError::Differs { .. } => {
            "`annals shared rebuild` makes this file anew from the log, and keeps a copy of it as it is (docs/shared.md)"
        }
        _ => return None,
    };
    Some(hint.into())
}

/// Returns what to do about an error. `None` if the error says it itself.
fn hint(error: &Error) -> Option<String> {
    Some(match error {
        Error::CannotOpen { path, what } if what.starts_with("there is no") => {
            format!("make it with `annals --db {} import FOLDER`, or name another with --db", quoted(path))
        }
        Error::Shared(error) => return hint_of_shared(error),
        Error::Input(InputError::NotRecognised { .. }) => {
            "docs/formats.md describes the formats; --format NAME reads a file as that format all the same".into()
        }
        Error::UnknownConversation { .. } => "`annals list` shows the ids there are".into(),
        Error::UnknownEvent { .. } => "`annals events ID` shows the ids there are".into(),
        Error::AmbiguousId { .. } => "write more of the id".into(),
        Error::Busy { .. } => "another process is writing; try again when it is done".into(),
        Error::Conflict { .. } | Error::VersionConflict { .. } => {
            "another act has changed it meanwhile; the same command again begins with what is there now".into()
        }
        Error::Moved { .. } => {
            "put the file back at its path, with its -wal and -shm beside it, and start again".into()
        }
        Error::DiskFull { .. } => "make room and try again; nothing that was acknowledged is lost".into(),
        Error::Corrupt { what } if OPENING.iter().any(|doing| what.ends_with(doing)) => {
            "keep a copy of the file, with its -wal, as it is; a backup may have its content (`annals restore`), and the \
             `.recover` of the sqlite3 shell writes what it finds in single pages into a new file"
                .into()
        }
        Error::Corrupt { .. } => {
            "`annals verify` says where; `annals export --all` saves what can be read, a backup may have the rest"
                .into()
        }
        Error::LostTable { .. } => {
            "put a backup back (`annals restore`); keep a copy of this file, with its -wal, as it is".into()
        }
        Error::NotDerived { .. } => "run the command once where the file may be written".into(),
        Error::CatalogueContradicts(_) => {
            "`annals verify` says what was changed, `annals doctor --repair` makes the row again from the log"
                .into()
        }
        Error::NoRoom { .. } => "make room on that disk; what was removed so far stays removed".into(),
        Error::ForeignFile { .. } => "name another file with --db; this one was not touched".into(),
        Error::OlderFile { path, .. } => {
            format!("`annals --db {} upgrade` brings it up to date, with a backup first", quoted(path))
        }
        Error::NotItsBackup { .. } => "name another folder or file; this one was not touched".into(),
        Error::BackupAstray { .. } => {
            "one of them was restored or written to without the other: start a new backup, in a folder with --full"
                .into()
        }
        Error::NoRemedy { .. } => "`annals doctor` says what to do about it".into(),
        Error::QueryRefused { hint, .. } => return hint.clone(),
        Error::QueryTooLong { .. } => "narrow it (WHERE, LIMIT), or allow it more with --seconds".into(),
        Error::QueryTooLarge { what: "a single value", .. } => "build smaller values (substr, LIMIT)".into(),
        Error::QueryTooLarge { .. } => "narrow it (WHERE, LIMIT), or allow it more with --memory".into(),
        Error::Setup(SetupError::Watched { .. }) => {
            "end that process first, or watch another path; nothing was imported".into()
        }
        Error::Setup(SetupError::OpenToEverybody { .. }) => "give it a key in SESSION_API_KEY or with `annals keys server add`, or use --without-key".into(),
        Error::Setup(SetupError::Serve { source, address }) => match (source.kind(), address.strip_prefix("unix:")) {
            (ErrorKind::AddrInUse, None) => {
                "another program listens there; choose another --port, or 0 for a free one".into()
            }
            (ErrorKind::AddrInUse, Some(_)) => "another server listens there; choose another path".into(),
            (ErrorKind::AlreadyExists, Some(_)) => "choose another path; the file stays as it is".into(),
            (ErrorKind::NotFound, Some(_)) => "make its folder first".into(),
            _ => return None,
        },
        Error::NotAHead { .. } => "a head is what `annals head` prints, unchanged".into(),
        Error::WrongSignature { .. } => {
            "either another key signed it (--key names the public key of the one who did), or it was changed since and proves nothing".into()
        }
        Error::NotAKey { .. } => "`annals keys FILE --new` makes one".into(),
        Error::NoIndex { .. } => "run the search once where the file may be written".into(),
        _ => return None,
    })
}

fn quoted(path: &Path) -> String {
    let text = path.to_string_lossy();
    if text.contains(char::is_whitespace) { format!("'{text}'") } else { text.into_owned() }
}

/// Returns the database of a command without `--db` and `ANNALS_DB`.
fn default_database() -> PathBuf {
    PathBuf::from("annals.db")
}
