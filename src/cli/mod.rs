//! The command line: arguments in, text or JSON out, an exit code at the end.
//!
//! It holds no rules of its own; every command is a few calls of the library and their output. The
//! environment is read here and nowhere else.

mod actor;
mod admin_log;
#[cfg(all(feature = "server", unix))]
mod anew;
mod answer;
mod archive;
mod arguments;
mod backup;
mod branches;
mod carry;
mod delete;
mod diff;
mod doctor;
mod erase;
mod events;
mod export;
mod import;
#[cfg(feature = "agent")]
mod keys;
mod list;
mod loading;
mod messages;
#[cfg(feature = "server")]
mod open;
mod print;
mod proof;
mod prune;
mod query;
mod rebuild;
mod redact;
mod replay;
mod report;
mod restore;
#[cfg(feature = "agent")]
mod run;
mod scan_secrets;
mod search;
#[cfg(feature = "server")]
mod serve;
#[cfg(feature = "server")]
mod serving;
#[cfg(feature = "agent")]
mod settings;
mod show;
mod state;
mod stats;
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

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Parser as _;

use crate::error::{Error, Result};
use crate::store::{Options, Store};
use arguments::{Arguments, Command};
use print::Output;

/// Exit code: done.
const DONE: u8 = 0;
/// Exit code: what was asked cannot be done as it was asked; nothing is broken.
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
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => {
            let _ = error.print();
            return ExitCode::from(if error.use_stderr() { REFUSED } else { DONE });
        }
    };
    let output = Output::new(arguments.json);
    match run(&arguments, &output).and_then(|code| output.flush().map(|()| code)) {
        Ok(code) => ExitCode::from(code),
        Err(error) if is_closed_pipe(&error) => ExitCode::from(DONE),
        Err(error) => {
            output.error(&error, hint(&error));
            ExitCode::from(code_of(&error))
        }
    }
}

fn run(arguments: &Arguments, output: &Output) -> Result<u8> {
    let place = Place { path: &arguments.db };
    match &arguments.command {
        #[cfg(feature = "agent")]
        Command::Run(command) => run::run(&place, command, output),
        #[cfg(feature = "agent")]
        Command::Resume(command) => run::resume(&place, command, output),
        #[cfg(feature = "agent")]
        Command::Send(command) => run::send(&place, command, output),
        #[cfg(feature = "agent")]
        Command::Approve(command) => run::approve(&place, command, output),
        #[cfg(feature = "agent")]
        Command::Reject(command) => run::reject(&place, command, output),
        #[cfg(feature = "agent")]
        Command::Pause(command) => run::pause(&place, command, output),
        #[cfg(feature = "agent")]
        Command::Fork(command) => run::fork(&place, command, output),
        #[cfg(feature = "agent")]
        Command::Ask(command) => run::ask(&place, command, output),
        #[cfg(feature = "agent")]
        Command::Secrets(command) => run::secrets(&place, command, output),
        #[cfg(feature = "agent")]
        Command::Profiles(command) => run::profiles(&place, command, output),
        #[cfg(feature = "agent")]
        Command::Config(command) => run::config(command, output),
        Command::Import(command) => import::run(&place, command, output),
        Command::Export(command) => export::run(&place, command, output),
        Command::List(command) => list::run(&place, command, output),
        Command::Show(command) => show::run(&place, command, output),
        Command::Events(command) => events::run(&place, command, output),
        Command::Transcript(command) => transcript::run(&place, command, output),
        Command::Tail(command) => tail::run(&place, command, output),
        Command::Search(command) => search::run(&place, command, output),
        Command::State(command) => state::run(&place, command, output),
        Command::Query(command) => query::run(&place, command, output),
        Command::Report(command) => report::run(&place, command, output),
        Command::View(command) => view::run(&place, command, output),
        Command::Messages(command) => messages::run(&place, command, output),
        Command::Convert(command) => messages::convert(command, output),
        Command::Branches(command) => branches::run(&place, command, output),
        Command::Diff(command) => diff::run(&place, command, output),
        Command::Replay(command) => replay::run(&place, command, output),
        Command::Stats(command) => stats::run(&place, command, output),
        Command::Verify(command) => verify::run(&place, command, output),
        Command::Head(command) => proof::head(&place, command, output),
        Command::Keys(command) => proof::keys(command, output),
        Command::Bundle(command) => proof::bundle(&place, command, output),
        Command::Doctor(command) => doctor::run(&place, command, output),
        Command::Rebuild(command) => rebuild::run(&place, command, output),
        #[cfg(feature = "server")]
        Command::Open(command) => open::run(&place, command, output),
        #[cfg(feature = "server")]
        Command::Serve(command) => serve::run(&place, command, output),
        Command::Upgrade(command) => upgrade::run(&place, command, output),
        Command::Backup(command) => backup::run(&place, command, output),
        Command::Restore(command) => restore::run(command, output),
        Command::Merge(command) => carry::merge(command, output),
        Command::Split(command) => carry::split(&place, command, output),
        Command::Copy(command) => carry::copy(&place, command, output),
        Command::Delete(command) => delete::run(&place, command, output),
        Command::ScanSecrets(command) => scan_secrets::run(&place, command, output),
        Command::Redact(command) => redact::run(&place, command, output),
        Command::Erase(command) => erase::run(&place, command, output),
        Command::AdminLog(command) => admin_log::run(&place, command, output),
        Command::Prune(command) => prune::run(&place, command, output),
        Command::Archive(command) => archive::run(&place, command, output),
        Command::Unarchive(command) => archive::undo(&place, command, output),
        Command::Vacuum => vacuum::run(&place, output),
        Command::Completions(command) => {
            command.print(output)?;
            Ok(DONE)
        }
    }
}

/// Where the database is, opened as a command needs it.
struct Place<'a> {
    path: &'a Path,
}

impl Place<'_> {
    /// The option that names the database, as it has to be typed; "" where it may be left out.
    fn option(&self) -> String {
        if self.path == default_database() { String::new() } else { format!(" --db {}", quoted(self.path)) }
    }

    /// Opens for writing, creating the file where there is none.
    fn create(&self) -> Result<Store> {
        self.open(&Options { follow_projections: false, ..Options::default() })
    }

    /// Opens for writing what must be there.
    fn write(&self) -> Result<Store> {
        self.open(&Options { follow_projections: false, create: false, ..Options::default() })
    }

    /// Opens to read, and to catch projections up where the file may be written.
    fn read(&self) -> Result<Store> {
        match self.write() {
            Err(Error::ReadOnly { .. }) => self.read_only(),
            Err(Error::CannotOpen { .. }) if self.path.exists() => self.read_only(),
            opened => opened,
        }
    }

    fn read_only(&self) -> Result<Store> {
        self.open(&Options { read_only: true, ..Options::default() })
    }

    fn open(&self, options: &Options) -> Result<Store> {
        let store = Store::open_with(self.path, &Options { actor: actor::who(), ..options.clone() })?;
        upgrade::tell(&store, self.path);
        loading::tell(&store);
        if let Some(warning) = store.write_log().warning() {
            print::tell(format_args!("annals: {}: {warning}", self.path.display()));
        }
        Ok(store)
    }
}

/// Whether the reader of our output has gone, as `head` does: the work is done then.
fn is_closed_pipe(error: &Error) -> bool {
    matches!(error, Error::Io { source, .. } if source.kind() == std::io::ErrorKind::BrokenPipe)
}

fn code_of(error: &Error) -> u8 {
    match error {
        Error::Storage { .. }
        | Error::Corrupt { .. }
        | Error::LostTable { .. }
        | Error::NotDerived { .. }
        | Error::CatalogueContradicts(_)
        | Error::DiskFull { .. }
        | Error::Busy { .. }
        | Error::Overloaded { .. }
        | Error::Moved { .. }
        | Error::Serve { .. }
        | Error::WrongSignature { .. } => FAILED,
        Error::Io { source, .. } if source.kind() != std::io::ErrorKind::NotFound => FAILED,
        _ => REFUSED,
    }
}

/// What to do about an error, where the error itself does not say so.
fn hint(error: &Error) -> Option<String> {
    Some(match error {
        Error::CannotOpen { path, what } if what.starts_with("there is no") => {
            format!("make it with `annals --db {} import FOLDER`, or name another with --db", quoted(path))
        }
        Error::UnknownConversation { .. } => "`annals list` shows the ids there are".into(),
        Error::UnknownEvent { .. } => "`annals events ID` shows the ids there are".into(),
        Error::AmbiguousId { .. } => "write more of the id".into(),
        Error::Busy { .. } => "another process is writing; try again when it is done".into(),
        Error::Moved { .. } => {
            "put the file back at its path, with its -wal and -shm beside it, and start again".into()
        }
        Error::DiskFull { .. } => "make room and try again; nothing that was acknowledged is lost".into(),
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
        Error::NoRoom { .. } => "make room on that disk; what was taken out so far stays taken out".into(),
        Error::ForeignFile { .. } => "name another file with --db; this one was not touched".into(),
        Error::OlderFile { path, .. } => {
            format!("`annals --db {} upgrade` brings it up to date, with a backup first", quoted(path))
        }
        Error::NotItsBackup { .. } => "name another folder or file; this one was not touched".into(),
        Error::BackupAstray { .. } => {
            "one of them was put back or written to apart from the other: begin anew, in a folder with --full"
                .into()
        }
        Error::NoRemedy { .. } => "`annals doctor` says what to do about it".into(),
        Error::QueryRefused { hint, .. } => return hint.clone(),
        Error::QueryTooLong { .. } => "narrow it (WHERE, LIMIT), or allow it more with --seconds".into(),
        Error::QueryTooLarge { what: "a single value", .. } => "build smaller values (substr, LIMIT)".into(),
        Error::QueryTooLarge { .. } => "narrow it (WHERE, LIMIT), or allow it more with --memory".into(),
        Error::OpenToEverybody { .. } => "give it one with --api-key KEY, or say --without-key".into(),
        Error::Serve { source, .. } if source.kind() == std::io::ErrorKind::AddrInUse => {
            "another program listens there; choose another --port, or 0 for a free one".into()
        }
        Error::NotAHead { .. } => "a head is what `annals head` prints, unchanged".into(),
        Error::WrongSignature { .. } => {
            "the head was changed after it was signed: it proves nothing; ask for it again".into()
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

/// The database that a command works on where `--db` and `ANNALS_DB` say nothing.
fn default_database() -> PathBuf {
    PathBuf::from("annals.db")
}
