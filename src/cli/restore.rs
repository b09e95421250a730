//! `annals restore`: makes a file from a backup, as of its end or an earlier point, and verifies it.

use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::{Value, json};

use super::print::{Output, bytes, count, plural, row, table, time};
use super::{DONE, FAILED, Place, REFUSED, actor};
use crate::error::{Error, Result};
use crate::ids::{ConversationId, Position, Timestamp};
use crate::replay::Point;
use crate::store::{Backup, BackupFile, RestoreOptions, RestorePoint, Restored, Store, Verification};
use crate::transfer::{CopyReport, CopyStatus, Scratch, bring_back};

/// Make a file from a backup, as of its end or of any earlier point, and verify all of it
///
/// FROM is a folder of backups or a single file. The backup is not changed, and an existing file at TO is not
/// overwritten. With --id, one conversation is restored into TO, which may be the file in use. A deleted
/// conversation is restored as it was last.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  annals restore backups/ annals.db
  annals restore backups/ before.db --at 2026-01-31T12:00   by the clock of the machine that recorded it (UTC)
  annals restore backups/ before.db --at 81234              up to this position
  annals restore backups/ annals.db --id 5610a7             one conversation back into the file in use
  annals restore backups/ draft.db --id 5610a7 --at 40      and only up to its event 40
  annals restore backups/ --list
  annals restore backups/ --check                           restore and verify, and keep nothing")]
pub(super) struct Arguments {
    /// A folder of backups, or a single file
    pub from: PathBuf,
    /// The file to make
    #[arg(required_unless_present_any = ["list", "check"], conflicts_with_all = ["list", "check"])]
    pub to: Option<PathBuf>,
    /// As of a position, or a time of the machine's clock (UTC if no zone is given); with --id a sequence, an
    /// event's id, or a time of the events' own clocks
    #[arg(long, value_name = "POINT")]
    pub at: Option<String>,
    /// Only this conversation, by id or the start of one
    #[arg(long, value_name = "ID", conflicts_with_all = ["list", "check"])]
    pub id: Option<String>,
    /// Show what is in a folder of backups
    #[arg(long, conflicts_with_all = ["check", "at"])]
    pub list: bool,
    /// Restore and verify, and keep nothing
    #[arg(long)]
    pub check: bool,
}

pub(super) fn run(_place: &Place<'_>, command: &Arguments, output: &Output) -> Result<u8> {
    if command.list {
        return list(&command.from, output);
    }
    if !command.from.exists() {
        let what = "there is nothing at this path".to_owned();
        return Err(Error::NotItsBackup { path: command.from.clone(), what });
    }
    match (&command.to, &command.id) {
        (Some(to), Some(id)) => one(command, to, id, output),
        (Some(to), None) => {
            let point = point(command.at.as_deref())?;
            let restored = restore(&command.from, to, &point, output)?;
            print_restored(&restored, Some(to), output)
        }
        (None, _) => {
            let point = point(command.at.as_deref())?;
            let scratch = Scratch::beside(&command.from);
            let restored = restore(&command.from, scratch.path(), &point, output)?;
            print_restored(&restored, None, output)
        }
    }
}

fn point(text: Option<&str>) -> Result<RestorePoint> {
    let Some(text) = text.map(str::trim) else { return Ok(RestorePoint::Newest) };
    if let Ok(position) = text.parse() {
        return Ok(RestorePoint::Position(Position(position)));
    }
    let time = Timestamp::parse_relative(text, Timestamp::now());
    time.map(RestorePoint::Time).ok_or_else(|| Error::NotATime { text: text.to_owned() })
}

fn restore(from: &Path, to: &Path, point: &RestorePoint, output: &Output) -> Result<Restored> {
    let bar = output.progress("events verified");
    let how = RestoreOptions { point: point.clone(), actor: actor::who() };
    let restored = Backup::restore(from, to, &how, &mut |progress| bar.set_position(progress.events))?;
    bar.finish_and_clear();
    Ok(restored)
}

/// Restores one conversation into a file that may contain others.
fn one(command: &Arguments, to: &Path, id: &str, output: &Output) -> Result<u8> {
    let id = Backup::find(&command.from, id)?;
    let target = Place::alone(to).create()?;
    let length = |source: &Store| match &command.at {
        None => Ok(None),
        Some(at) => {
            let events = source.conversation(&id)?.event_count;
            Ok(Some(Point::parse(source, &id, at)?.length(events)))
        }
    };
    let report = bring_back(&command.from, &id, length, &target)?;
    target.catch_up()?;
    let verification = match report.status.is_whole() {
        true => target.audit().verify(Some(&id), &mut |_| ())?,
        false => Verification::default(),
    };
    if output.json {
        output.value(&json!({
            "file": to.to_string_lossy(),
            "id": id.as_str(),
            "status": report.status.as_str(),
            "events": report.events,
            "added": report.added,
            "problems": report.problems,
            "findings": verification.findings.iter().map(|finding| &finding.what).collect::<Vec<_>>(),
        }))?;
    } else {
        output.line(outcome(to, &id, &report))?;
        for problem in report.problems.iter().chain(verification.findings.iter().map(|finding| &finding.what))
        {
            output.line(format!("  {problem}"))?;
        }
    }
    Ok(match report.status {
        _ if !verification.findings.is_empty() => FAILED,
        CopyStatus::Conflict | CopyStatus::Erased | CopyStatus::Gone => REFUSED,
        CopyStatus::Damaged => FAILED,
        CopyStatus::Copied | CopyStatus::Unchanged | CopyStatus::Updated | CopyStatus::Ahead => DONE,
    })
}

fn outcome(to: &Path, id: &ConversationId, report: &CopyReport) -> String {
    let to = to.display();
    match report.status {
        CopyStatus::Copied => format!("{to}: {id} is back with {}, verified", plural(report.events, "event")),
        CopyStatus::Updated => {
            format!("{to}: {id} has {} more from the backup, verified", plural(report.added, "event"))
        }
        CopyStatus::Unchanged => format!("{to}: {id} is already there and the same"),
        CopyStatus::Ahead => format!("{to}: {id} is already there, with more events than the backup holds"),
        CopyStatus::Erased => {
            format!("{to}: {id} was erased from this file and stays out of it; restore it into another file")
        }
        CopyStatus::Conflict => {
            format!(
                "{to}: {id} is already there with other contents and was left; restore it into another file"
            )
        }
        CopyStatus::Gone => format!("{to}: {id} is not in the backup"),
        CopyStatus::Damaged => format!("{to}: {id} is damaged in the backup; it was not restored"),
    }
}

fn print_restored(restored: &Restored, to: Option<&Path>, output: &Output) -> Result<u8> {
    let seen = &restored.verification;
    let code = if seen.findings.is_empty() { DONE } else { FAILED };
    if output.json {
        let findings: Vec<Value> = seen
            .findings
            .iter()
            .map(|finding| {
                json!({
                    "conversation": finding.conversation.as_ref().map(ConversationId::as_str),
                    "sequence": finding.sequence.map(|sequence| sequence.0),
                    "what": finding.what,
                })
            })
            .collect();
        output.value(&json!({
            "file": to.map(Path::to_string_lossy),
            "taken_at": restored.taken_at.map(Timestamp::to_rfc3339),
            "files": restored.files,
            "position": restored.last_position.0,
            "conversations": seen.conversations,
            "events": seen.events,
            "cut": restored.cut,
            "cut_early": restored.cut_early.map(|early| json!({
                "events": early.events,
                "last": early.last.0,
                "behind": early.behind.0,
                "recorded_at": early.recorded_at.to_rfc3339(),
            })),
            "spared": restored.spared,
            "left_out": restored.left_out,
            "bytes": restored.bytes,
            "findings": findings,
        }))?;
        return Ok(code);
    }
    let name = to.map_or_else(|| "the backup".to_owned(), |to| to.display().to_string());
    output.line(format!(
        "{name}: {} with {} up to position {}{}{} ({})",
        plural(seen.conversations, "conversation"),
        plural(seen.events, "event"),
        restored.last_position,
        restored.taken_at.map(|at| format!(", from a backup of {} UTC", time(at))).unwrap_or_default(),
        if restored.files > 1 {
            format!(" in {} files", count(restored.files as u64))
        } else {
            String::new()
        },
        bytes(restored.bytes),
    ))?;
    if restored.cut > 0 {
        output.line(format!("{} after that point were left out", plural(restored.cut, "event")))?;
    }
    if let Some(early) = restored.cut_early {
        output.line(format!(
            "{} of them were recorded by then, but stand behind position {}, which the clock says was recorded at {} UTC; \
             --at {} has them",
            count(early.events),
            early.behind,
            time(early.recorded_at),
            early.last
        ))?;
    }
    for id in &restored.spared {
        output.line(format!("{id} was deleted before the next backup was taken; it is in the file"))?;
    }
    if !restored.left_out.is_empty() {
        output.line(format!(
            "the tables of other programs ({}) are as the last full backup has them, or missing: parts do not hold them",
            restored.left_out.join(", ")
        ))?;
    }
    if seen.findings.is_empty() {
        output.line("every event, attachment and derived table is verified")?;
        return Ok(code);
    }
    output.line(format!("\nthe verification found {}:", plural(seen.findings.len() as u64, "fault")))?;
    for finding in seen.findings.iter().take(25) {
        let id = finding.conversation.as_ref().map_or("the file", ConversationId::as_str);
        output.line(format!("  {id}: {}", finding.what))?;
    }
    Ok(code)
}

fn list(folder: &Path, output: &Output) -> Result<u8> {
    let files = Backup::list(folder)?;
    if output.json {
        for file in &files {
            output.value(&json!({
                "number": file.number,
                "full": file.is_full,
                "taken_at": file.taken_at.to_rfc3339(),
                "position": file.to.0,
                "bytes": file.bytes,
                "file": file.path.to_string_lossy(),
            }))?;
        }
        return Ok(DONE);
    }
    let mut rows = table(&["number", "kind", "taken at (UTC)", "position", "size", "file"], &[0, 3, 4]);
    for file in &files {
        let BackupFile { number, is_full, taken_at, to, path, bytes: size } = file;
        rows.add_row(row([
            count(*number),
            if *is_full { "full" } else { "part" }.to_owned(),
            time(*taken_at),
            count(to.0),
            bytes(*size),
            path.file_name().unwrap_or_default().to_string_lossy().into_owned(),
        ]));
    }
    if files.is_empty() {
        return output.line(format!("{}: there is no backup in it", folder.display())).map(|()| DONE);
    }
    output.table(rows)?;
    Ok(DONE)
}
