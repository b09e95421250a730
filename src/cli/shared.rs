//! `annals shared`: the log that several machines share.

use clap::{Args, Subcommand};
use serde_json::json;

use super::print::{Output, bytes, count, plural};
use super::{DONE, Place, REFUSED};
use crate::error::{Result, SharedError};
use crate::shared::SharedLog;

/// A log in PostgreSQL that several machines share: make, look at and drop it
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

fn status(log: &SharedLog, output: &Output) -> Result<()> {
    let held = log.status()?;
    if output.json {
        return output.value(&json!({
            "log_id": held.log_id,
            "file_schema": held.file_schema,
            "entries": held.entries,
            "conversations": held.conversations,
            "events": held.events,
            "bytes": held.bytes,
        }));
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
