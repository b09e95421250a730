//! `annals upgrade`: brings a file of an older schema up to date, and keeps a copy of the old file.

use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::json;

use super::print::{Output, bytes, plural};
use super::{DONE, Place, quoted};
use crate::error::Result;
use crate::store::{Maintenance, SCHEMA_VERSION, Store, Upgrade};

/// Bring a file of an older Annals up to date, and keep a copy of the old file
///
/// The log does not change; the tables and views around it do. Other commands also upgrade an older file when
/// they open it for writing, but they keep no copy. They print a notice. A file of a newer Annals is refused.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  annals upgrade                          the copy is annals.db.schema5
  annals upgrade --backup /safe/old.db
  annals upgrade --check                  only show what would be done")]
pub(super) struct Arguments {
    /// Path of the copy, which must not exist yet [default: the file's path followed by .schemaN]
    #[arg(long, value_name = "FILE")]
    pub backup: Option<PathBuf>,
    /// Keep no copy
    #[arg(long, conflicts_with = "backup")]
    pub no_backup: bool,
    /// Only show what would be done
    #[arg(long)]
    pub check: bool,
}

pub(super) fn run(place: &Place<'_>, command: &Arguments, output: &Output) -> Result<u8> {
    let from = Maintenance::schema_of(place.path)?;
    if command.check {
        return check(place.path, from, output);
    }
    let backup = match &command.backup {
        _ if command.no_backup => None,
        Some(path) => Some(path.clone()),
        None => Some(beside(place.path, from)),
    };
    let done = Maintenance::upgrade(place.path, backup.as_deref())?;
    let store = place.write()?;
    store.catch_up()?;
    if output.json {
        output.value(&value(&done))?;
        return Ok(DONE);
    }
    if done.from == done.to {
        output.line(format!("{} has schema {}, which is the newest", place.path.display(), done.to))?;
        return Ok(DONE);
    }
    if let Some((path, size)) = &done.backup {
        output.line(format!("{} is a copy of the file as it was ({})", path.display(), bytes(*size)))?;
    }
    output.line(format!(
        "{}: schema {} to {} ({}); {} with {}, all there",
        place.path.display(),
        done.from,
        done.to,
        done.steps.join(", "),
        plural(done.conversations, "conversation"),
        plural(done.events, "event"),
    ))?;
    output.remark(format!("\n`annals{} verify` checks the whole log", place.option()));
    Ok(DONE)
}

fn check(path: &Path, from: u32, output: &Output) -> Result<u8> {
    let steps = Maintenance::upgrade_steps(from);
    if output.json {
        output.value(&json!({"schema": from, "newest": SCHEMA_VERSION, "steps": steps}))?;
    } else if steps.is_empty() {
        output.line(format!("{} has schema {from}, which is the newest", path.display()))?;
    } else {
        output.line(format!(
            "{} has schema {from}; an upgrade to {SCHEMA_VERSION} adds: {}",
            path.display(),
            steps.join(", ")
        ))?;
    }
    Ok(DONE)
}

fn value(done: &Upgrade) -> serde_json::Value {
    json!({
        "from": done.from,
        "to": done.to,
        "steps": done.steps,
        "backup": done.backup.as_ref().map(|(path, _)| path.to_string_lossy()),
        "backup_bytes": done.backup.as_ref().map(|(_, bytes)| bytes),
        "conversations": done.conversations,
        "events": done.events,
    })
}

/// Returns the default path of the copy.
fn beside(path: &Path, schema: u32) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".schema{schema}"));
    name.into()
}

/// Prints a notice if opening the file has upgraded it.
pub(super) fn tell(store: &Store, path: &Path) {
    if let Some(from) = store.maintenance().upgraded_from() {
        super::print::tell(format_args!(
            "annals: {} had schema {from} and was brought to {SCHEMA_VERSION} (`annals --db {} upgrade` keeps a copy first)",
            path.display(),
            quoted(path)
        ));
    }
}
