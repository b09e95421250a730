//! `annals backup`: copies the whole file while it is in use, at once or in parts.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use clap::Args;
use serde_json::json;

use super::print::{Output, bytes, plural, time};
use super::{DONE, Place};
use crate::error::{Error, Result};
use crate::store::{BackupFolder, BackupResult, Store};

/// The maximum time of one wait for changes. The next wait begins at once.
const WAIT: Duration = Duration::from_secs(3600);

/// Copy the whole file while it is in use: to a file, or part by part into a folder
///
/// A file is a copy of one moment; --update brings it up to date. A folder (an existing one, or a name that ends
/// in /) first gets a full copy, and then each time a part with what is new. `annals restore` makes a file of any
/// point in it. Every backup is checked before it gets its final name, so an interrupted backup leaves no file that
/// looks like a backup.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  annals backup copy.db
  annals backup copy.db --follow               a second file, never more than seconds behind
  annals backup backups/                       what is new since the last backup
  annals backup backups/ --follow --every 60
  annals backup backups/ --full --keep 4       a new series; the last four stay")]
pub(super) struct Arguments {
    /// A file, which must not exist without --update or --follow, or a folder
    pub target: PathBuf,
    /// Bring an earlier copy up to date
    #[arg(long)]
    pub update: bool,
    /// Keep running, and write new data when there is some
    #[arg(long)]
    pub follow: bool,
    /// The minimum time between two writes of --follow
    #[arg(long, value_name = "SECONDS", default_value_t = 10, requires = "follow")]
    pub every: u64,
    /// Begin with a full copy again (folders)
    #[arg(long)]
    pub full: bool,
    /// Keep only this many series, a full copy with its parts each, when a new one begins (folders)
    #[arg(long, value_name = "SERIES", value_parser = clap::value_parser!(u64).range(1..))]
    pub keep: Option<u64>,
}

pub(super) fn run(place: &Place<'_>, command: &Arguments, output: &Output) -> Result<u8> {
    let store = place.read()?;
    let is_folder = command.target.is_dir() || command.target.to_string_lossy().ends_with('/');
    if !is_folder && !command.update && !command.follow {
        return copy(&store, &command.target, output);
    }
    let mut changes = store.backup().changes();
    let mut full = command.full;
    loop {
        let began = Instant::now();
        let step = match is_folder {
            true => {
                let keep = command.keep.map(|keep| usize::try_from(keep).unwrap_or(usize::MAX));
                store.backup().to_folder(&command.target, BackupFolder { full, keep })?
            }
            false => store.backup().to_file(&command.target)?,
        };
        full = false;
        let left_out = match &step {
            Some(step) => step.left_out.clone(),
            None => store.backup().foreign_tables()?,
        };
        print_step(step.as_ref(), &left_out, command, output)?;
        if !left_out.is_empty() {
            let way = if is_folder { "--full begins a series that has them" } else { "a new file has them" };
            output.remark(format!("without the tables of other programs: {}; {way}", left_out.join(", ")));
        }
        tell_triggers(&store, output)?;
        if !command.follow {
            return Ok(DONE);
        }
        while !changes.wait(WAIT)? {}
        std::thread::sleep(Duration::from_secs(command.every).saturating_sub(began.elapsed()));
    }
}

/// Copies the store to a new file.
fn copy(store: &Store, file: &Path, output: &Output) -> Result<u8> {
    let report = store.backup().to_new_file(file).inspect_err(|error| {
        if let Error::WouldOverwrite { .. } = error {
            output.remark(format!(
                "`annals backup {} --update` brings an earlier copy up to date",
                file.display()
            ));
        }
    })?;
    let size = std::fs::metadata(file).map_err(Error::io("reading", file))?.len();
    tell_triggers(store, output)?;
    if output.json {
        output.value(&json!({
            "file": file.to_string_lossy(),
            "bytes": size,
            "position": report.last_position.0,
            "conversations": report.conversations,
            "events": report.events,
        }))?;
        return Ok(DONE);
    }
    output.line(format!(
        "{}: {} with {} ({}), checked",
        file.display(),
        plural(report.conversations, "conversation"),
        plural(report.events, "event"),
        bytes(size),
    ))?;
    Ok(DONE)
}

/// Names the triggers of other programs: a restore has them too, and reports them.
fn tell_triggers(store: &Store, output: &Output) -> Result<()> {
    for (name, table) in store.maintenance().strange_triggers()? {
        output.remark(format!(
            "the trigger {name} on {table} is of another program; what is restored has it too, and `restore` ends with 2"
        ));
    }
    Ok(())
}

/// Prints what was written. With `--follow`, prints nothing if nothing was new.
fn print_step(
    step: Option<&BackupResult>,
    left_out: &[String],
    command: &Arguments,
    output: &Output,
) -> Result<()> {
    let Some(step) = step else {
        let target = &command.target;
        return match (command.follow, output.json) {
            (true, _) => Ok(()),
            (false, true) => {
                output.value(&json!({"file": null, "target": target.to_string_lossy(), "left_out": left_out}))
            }
            (false, false) => output.line(format!("{}: nothing is new", target.display())),
        };
    };
    if output.json {
        return output.value(&json!({
            "file": step.path.to_string_lossy(),
            "full": step.is_full,
            "taken_at": step.taken_at.to_rfc3339(),
            "after": step.from.0,
            "position": step.to.0,
            "conversations": step.changed,
            "removed": step.removed,
            "events": step.events,
            "pruned": step.pruned,
            "outdated": step.outdated,
            "left_out": left_out,
            "bytes": step.bytes,
        }));
    }
    let what = if step.is_full {
        format!("{} with {}", plural(step.changed, "conversation"), plural(step.events, "event"))
    } else {
        let changed = format!("{} changed", plural(step.changed, "conversation"));
        let parts = [
            (step.events, format!("{} new", plural(step.events, "event"))),
            (step.changed, changed),
            (step.removed, format!("{} gone", plural(step.removed, "conversation"))),
        ];
        let parts: Vec<String> =
            parts.into_iter().filter(|(number, _)| *number > 0).map(|(_, part)| part).collect();
        if parts.is_empty() { "acts of the administrative log".to_owned() } else { parts.join(", ") }
    };
    output.line(format!(
        "{}: {what}, up to position {} at {} UTC ({})",
        step.path.display(),
        step.to,
        time(step.taken_at),
        bytes(step.bytes),
    ))?;
    if step.pruned > 0 {
        output.line(format!("{} of older series deleted", plural(step.pruned as u64, "file")))?;
    }
    if step.outdated > 0 {
        output.line(format!(
            "{} made before something was erased or redacted may still contain it (--full --keep 1 deletes them)",
            plural(step.outdated as u64, "backup"),
        ))?;
    }
    Ok(())
}
