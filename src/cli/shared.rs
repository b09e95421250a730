//! `annals shared`: the log that several machines share.

use std::path::Path;

use clap::{Args, Subcommand, ValueEnum};
use serde_json::{Value, json};

use super::print::{self, Output, bytes, count, harmless, plural};
use super::{DONE, Place, REFUSED, actor};
#[cfg(feature = "server")]
use crate::error::{Error, SetupError};
use crate::error::{Result, SharedError};
#[cfg(feature = "server")]
use crate::server::{Config, Consistency};
use crate::shared::{SharedLog, SharedStatus};
use crate::store::{Options, ReplicaProgress, Store};

/// A log in PostgreSQL that several machines share: make, look at, check and drop it
///
/// With --shared (or ANNALS_SHARED) every command works on a replica of the log: --db names its file on this machine, which is
/// made when it is missing. What a command writes goes to the log first. An address that holds a password belongs into
/// ANNALS_SHARED: arguments can be seen by every user of the machine.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  export ANNALS_SHARED='postgres://annals:password@db.example/agents?schema=team&sslmode=require'
  annals shared make
  annals --db replica.db import ~/.openhands/conversations
  annals shared status
  annals --db replica.db shared check          compare every row of the file with the log
  annals shared list                           all logs of the database
  annals shared purge                          nothing that was redacted stays in the server's tables
  annals shared drop --yes                     removes it from the server; files stay")]
pub(super) struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Make the log, once
    Make,
    /// Show what the log holds
    Status,
    /// List all logs of the database that this role may read
    List,
    /// Compare every row of this machine's file with the log
    Check,
    /// Make this machine's file anew from the log. A copy of it as it was stays beside it
    Rebuild,
    /// Rewrite the log's tables on the server, so that nothing is left in them that was removed or redacted. Writers wait
    /// meanwhile
    Purge,
    /// Remove the log and all it holds from the server. Replicas stay, and can be read
    Drop {
        /// Do it
        #[arg(long)]
        yes: bool,
    },
}

pub(super) fn run(place: &Place<'_>, command: &Arguments, output: &Output) -> Result<u8> {
    let missing =
        || SharedError::Address { what: "none is given; --shared or ANNALS_SHARED names it".into() };
    let log = SharedLog::at(place.shared.ok_or_else(missing)?)?;
    match &command.command {
        Command::Make => {
            let id = log.make()?;
            if output.json {
                output.value(&json!({"log_id": id}))?;
            } else {
                output.line(format!(
                    "made the shared log {id}; open it on each machine with --shared and a --db of its own"
                ))?;
            }
        }
        Command::Status => status(&log, output)?,
        Command::List => list(&log, output)?,
        Command::Check => return check(place, output),
        Command::Rebuild => rebuild(&log, place, output)?,
        Command::Purge => return purge(&log, output),
        Command::Drop { yes } => {
            let held = log.status()?;
            let (events, conversations) =
                (plural(held.events, "event"), plural(held.conversations, "conversation"));
            if !yes {
                let what = format!("it holds {events} of {conversations}");
                output.remark(format!("nothing was removed: {what}; --yes removes them from the server"));
                return Ok(REFUSED);
            }
            log.drop_all()?;
            if output.json {
                output.value(&json!({"log_id": held.log_id, "events": held.events}))?;
            } else {
                output.line(format!(
                    "removed the shared log {} with {events} of {conversations}",
                    held.log_id
                ))?;
            }
        }
    }
    Ok(DONE)
}

/// What requests to a server on a shared log see.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
#[cfg(feature = "server")]
pub(super) enum Sees {
    /// What this machine's file has; writes of other machines come some milliseconds later
    File,
    /// Everything that any machine had written when the request came
    Log,
}

#[cfg(feature = "server")]
impl From<Sees> for Consistency {
    fn from(sees: Sees) -> Self {
        match sees {
            Sees::File => Self::File,
            Sees::Log => Self::Log,
        }
    }
}

/// Returns the address for other servers, if it can be one.
#[cfg(feature = "server")]
pub(super) fn advertised(address: Option<String>) -> Result<Option<String>> {
    let Some(address) = address.filter(|address| !address.is_empty()) else { return Ok(None) };
    let host = address.strip_prefix("http://").map(|rest| rest.trim_end_matches('/'));
    match host.and_then(|host| host.rsplit_once(':')) {
        Some((host, port)) if !host.is_empty() && !host.contains('/') && port.parse::<u16>().is_ok() => {
            Ok(Some(address))
        }
        _ => Err(Error::Setup(SetupError::Setting {
            place: "--advertise, or serve.advertise in the settings file".to_owned(),
            reason: format!("{address:?} is not http://HOST:PORT"),
        })),
    }
}

/// Adds the address at which the server listens, if none is given and others can reach it there.
#[cfg(feature = "server")]
pub(super) fn advertising(config: Config, url: &str) -> Config {
    let address = url.strip_prefix("http://").and_then(|at| at.parse::<std::net::SocketAddr>().ok());
    match address {
        Some(at) if config.advertise.is_none() && !at.ip().is_unspecified() => {
            config.advertise(url.to_owned())
        }
        _ => config,
    }
}

/// Opens a replica, and shows how it gets what it lacks.
pub(super) fn open(address: &str, path: &Path, options: &Options) -> Result<Store> {
    let bar = print::bar("rows");
    let store = SharedLog::at(address)?.open(path, options, &mut |progress| show(&bar, progress));
    bar.finish_and_clear();
    let store = store?;
    if let Some(rebuilt) = store.replica().and_then(|replica| replica.status().rebuilt) {
        print::tell(format_args!(
            "annals: {}: {}; it was made anew, and {} is as it was",
            path.display(),
            rebuilt.why,
            rebuilt.copy.display()
        ));
    }
    Ok(store)
}

fn show(bar: &indicatif::ProgressBar, progress: ReplicaProgress) {
    bar.set_length(progress.rows_total.max(progress.rows));
    bar.set_position(progress.rows);
}

fn json_of(held: &SharedStatus) -> Value {
    json!({
        "log_id": held.log_id,
        "file_schema": held.file_schema,
        "entries": held.entries,
        "conversations": held.conversations,
        "events": held.events,
        "bytes": held.bytes,
    })
}

fn status(log: &SharedLog, output: &Output) -> Result<()> {
    let held = log.status()?;
    if output.json {
        return output.value(&json_of(&held));
    }
    let line =
        |name: &str, text: String| output.line(format!("{}{text}", output.dim(&format!("{name:<16}"))));
    line("log", held.log_id.clone())?;
    line("schema of files", held.file_schema.to_string())?;
    line("entries", count(held.entries))?;
    line("conversations", count(held.conversations))?;
    line("events", count(held.events))?;
    line("on the server", bytes(held.bytes))
}

fn list(log: &SharedLog, output: &Output) -> Result<()> {
    let logs = log.list()?;
    if output.json {
        let logs = logs.iter().map(|(schema, held)| {
            let mut log = json_of(held);
            log["schema"] = json!(schema);
            log
        });
        return output.value(&json!({"logs": logs.collect::<Vec<_>>()}));
    }
    if logs.is_empty() {
        return output.line("the database has no shared log; `annals shared make` makes one");
    }
    let mut table = print::table(&["schema", "conversations", "events", "entries", "size"], &[1, 2, 3, 4]);
    for (schema, held) in &logs {
        let (entries, events) = (count(held.entries), count(held.events));
        table.add_row(print::row(vec![
            harmless(schema),
            count(held.conversations),
            events,
            entries,
            bytes(held.bytes),
        ]));
    }
    output.table(table)
}

fn purge(log: &SharedLog, output: &Output) -> Result<u8> {
    let bar = output.progress("bytes");
    let purged = log.purge(&mut |progress| {
        bar.set_length(progress.bytes_total);
        bar.set_position(progress.bytes);
    })?;
    bar.finish_and_clear();
    let is_complete = purged.rows_kept == Some(0);
    if output.json {
        output.value(&json!({
            "log_id": purged.log_id,
            "entry": purged.entry,
            "bytes_before": purged.bytes_before,
            "bytes_after": purged.bytes_after,
            "rows_kept": purged.rows_kept,
        }))?;
    } else {
        let (before, after) = (bytes(purged.bytes_before), bytes(purged.bytes_after));
        output.line(format!(
            "rewrote the tables of the shared log {}: {before} before, {after} now",
            purged.log_id
        ))?;
        output.line(match purged.rows_kept {
            Some(0) => {
                let entry = count(purged.entry);
                format!("what was removed or redacted up to entry {entry} is in none of them")
            }
            Some(rows) => format!(
                "{} had to stay, because an open transaction still sees them; end it (pg_stat_activity shows it) and purge again",
                plural(rows, "old row")
            ),
            None => "the server does not say whether old rows had to stay".to_owned(),
        })?;
        output.remark("the server's write-ahead log, its copies and its backups are not reached by this: see docs/shared.md");
    }
    Ok(if is_complete { DONE } else { REFUSED })
}

fn check(place: &Place<'_>, output: &Output) -> Result<u8> {
    let store = place.create()?;
    let bar = output.progress("rows");
    let no_log = || SharedError::Address { what: "the file is not opened on a log".into() };
    let found = store.replica().ok_or_else(no_log)?.check(&mut |progress| show(&bar, progress))?;
    bar.finish_and_clear();
    if output.json {
        output.value(&json!({
            "entry": found.entry,
            "rows": found.rows,
            "differing": found.differing,
            "differences": found.differences,
        }))?;
    } else if found.differing == 0 {
        output.line(format!(
            "{} and the log are the same: {} at entry {}",
            place.path.display(),
            plural(found.rows, "row"),
            count(found.entry)
        ))?;
    } else {
        for difference in &found.differences {
            output.line(harmless(difference))?;
        }
        let many = plural(found.differing, "difference");
        output.line(format!(
            "{many} at entry {}; `annals verify` says which side is wrong, `annals shared rebuild` makes the file anew",
            count(found.entry)
        ))?;
    }
    Ok(if found.differing == 0 { DONE } else { REFUSED })
}

fn rebuild(log: &SharedLog, place: &Place<'_>, output: &Output) -> Result<()> {
    let options = Options { follow_projections: false, actor: actor::who(), ..Options::default() };
    let bar = output.progress("rows");
    let store = log.rebuild(place.path, &options, &mut |progress| show(&bar, progress))?;
    bar.finish_and_clear();
    let Some(status) = store.replica().map(|replica| replica.status()) else { return Ok(()) };
    let copy = status.rebuilt.map(|rebuilt| rebuilt.copy);
    if output.json {
        return output.value(&json!({"entry": status.entry, "copy": copy}));
    }
    output.line(format!("made {} anew at entry {}", place.path.display(), count(status.entry)))?;
    match copy {
        Some(copy) => output.line(format!("{} is a copy of it as it was", copy.display())),
        None => Ok(()),
    }
}
