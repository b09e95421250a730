//! The result of an import, as JSON and as tables.

use std::collections::{BTreeMap, HashSet};
use std::path::PathBuf;

use serde_json::{Value, json};

use super::Gone;
use crate::cli::print::{Output, bytes, count, one_line, plural, row, table};
use crate::cli::{DONE, FAILED, Place, REFUSED, quoted};
use crate::error::{Error, InputError, Result};
use crate::ids::ConversationId;
use crate::transfer::{Discovery, ImportReport, ImportStatus};

/// The maximum number of problems to print for one conversation. `show` prints all of them.
const PROBLEMS_SHOWN: usize = 3;
/// The maximum number of conversations with problems to print.
const DAMAGED_SHOWN: usize = 25;
/// The maximum number of conversations to list. If there are more, those without a problem are only counted.
const LISTED_MOST: usize = 50;
/// The maximum number of skipped files to print.
const SKIPPED_SHOWN: usize = 10;

/// The files that were not imported.
#[derive(Debug, Default)]
pub(super) struct Skipped {
    /// The first of them, with the reasons.
    files: Vec<(PathBuf, String)>,
    /// Their number.
    count: u64,
    /// The number of those that the caller named.
    named: u64,
}

impl Skipped {
    /// Adds the files that a search has ignored.
    pub(super) fn add(&mut self, discovery: &Discovery) {
        self.count += discovery.ignored_count;
        self.files.extend(discovery.ignored.iter().map(|file| (file.path.clone(), file.reason.clone())));
    }

    /// Adds a file that the caller named.
    pub(super) fn refuse(&mut self, error: &Error) {
        if let Error::Input(InputError::NotRecognised { path, seen, .. }) = error {
            self.count += 1;
            self.named += 1;
            self.files.push((path.clone(), seen.clone()));
        }
    }

    pub(super) fn is_any(&self) -> bool {
        self.count > 0
    }

    fn value(&self) -> Value {
        let value =
            |(path, reason): &(PathBuf, String)| json!({"path": path.to_string_lossy(), "reason": reason});
        self.files.iter().map(value).collect()
    }

    fn print(&self, output: &Output) -> Result<()> {
        if self.count == 0 {
            return Ok(());
        }
        output
            .line(format!("\nskipped {}, in no format that can be imported", plural(self.count, "file")))?;
        let shown = self.files.iter().take(SKIPPED_SHOWN);
        for (path, reason) in shown {
            output.line(output.dim(&one_line(&format!("  {}: {reason}", path.to_string_lossy()), 400)))?;
        }
        match self.count.saturating_sub(SKIPPED_SHOWN as u64) {
            0 => Ok(()),
            more => output.line(output.dim(&format!("  and {} more (--json lists them)", count(more)))),
        }
    }
}

/// Returns the exit code of an import.
pub(super) fn code(reports: &[ImportReport], skipped: &Skipped) -> u8 {
    let any = |status| reports.iter().any(|report| report.status == status);
    let is_unread = |report: &ImportReport| match report.status {
        ImportStatus::Unread => true,
        // What was reported before is not reported again.
        ImportStatus::Unchanged => false,
        _ => report.is_barely_understood(),
    };
    if any(ImportStatus::Failed) {
        FAILED
    } else if any(ImportStatus::Conflict)
        || reports.iter().any(is_unread)
        || reports.is_empty()
        || skipped.named > 0
    {
        REFUSED
    } else {
        DONE
    }
}

/// Returns the report on a conversation as JSON.
pub(super) fn value(report: &ImportReport) -> Value {
    let problems: Vec<Value> = report
        .problems
        .iter()
        .map(|problem| json!({"path": problem.path, "problem": problem.problem, "action": problem.action}))
        .collect();
    json!({
        "id": report.id.as_ref().map(ConversationId::as_str),
        "path": report.path.to_string_lossy(),
        "status": report.status.as_str(),
        "events": report.events,
        "added": report.added,
        "problems": problems,
        "format": report.format,
        "records": report.records,
        "unread": report.unread,
        "not_understood": report.not_understood,
    })
}

/// Returns whether a conversation was imported, or is already here, without problems.
fn is_without_problems(report: &ImportReport) -> bool {
    matches!(report.status, ImportStatus::Imported | ImportStatus::Unchanged | ImportStatus::Updated)
        && report.problems.is_empty()
}

/// Prints which records of other programs' logs have no counterpart here. They are kept as events of separate kinds.
fn print_unread(reports: &[ImportReport], output: &Output) -> Result<()> {
    let mut all: BTreeMap<&str, (u64, u64, BTreeMap<&str, u64>)> = BTreeMap::new();
    for report in reports.iter().filter(|report| report.records > 0) {
        let (logs, records, unread) = all.entry(report.format).or_default();
        *logs += 1;
        *records += report.records;
        for (name, number) in &report.unread {
            *unread.entry(name).or_default() += number;
        }
    }
    for (format, (logs, records, unread)) in all {
        let kept: u64 = unread.values().sum();
        let mut names: Vec<(&str, u64)> = unread.into_iter().collect();
        names.sort_by_key(|(name, number)| (std::cmp::Reverse(*number), *name));
        let names: Vec<String> =
            names.iter().map(|(name, number)| format!("{name} {}", count(*number))).collect();
        output.line(format!(
            "\n{format}: {} with {}, {} of them kept without a counterpart",
            plural(logs, "log"),
            plural(records, "record"),
            count(kept),
        ))?;
        if !names.is_empty() {
            output.line(output.dim(&one_line(&format!("  {}", names.join(", ")), 400)))?;
        }
    }
    Ok(())
}

/// Returns the result as JSON.
pub(super) fn result(reports: &[ImportReport], skipped: &Skipped, gone: &[Gone], is_dry: bool) -> Value {
    let conversations: Vec<Value> = reports.iter().map(value).collect();
    json!({
        "dry_run": is_dry,
        "conversations": conversations,
        "skipped": skipped.value(),
        "skipped_count": skipped.count,
        "gone": gone.iter().map(|Gone { path, kept }| json!({"path": path.to_string_lossy(), "kept": kept})).collect::<Value>(),
    })
}

/// Prints what an import would do.
pub(super) fn show_plan(
    place: &Place<'_>,
    reports: &[ImportReport],
    skipped: &Skipped,
    gone: &[Gone],
    output: &Output,
) -> Result<()> {
    if output.json {
        return output.value(&result(reports, skipped, gone, true));
    }
    print_conversations(reports, planned, output)?;
    skipped.print(output)?;
    let count_of = |wanted: &[ImportStatus]| {
        reports.iter().filter(|report| wanted.contains(&report.status)).count() as u64
    };
    let added: u64 = reports.iter().map(|report| report.added).sum();
    let added_bytes: u64 = reports.iter().map(|report| report.added_bytes).sum();
    output.line(format!(
        "\nnothing was written to {}; an import would bring {} ({}): {} new, {} changed, {} there already, {} refused",
        place.path.display(),
        plural(added, "new event"),
        bytes(added_bytes),
        plural(count_of(&[ImportStatus::Imported, ImportStatus::Partial, ImportStatus::Unread]), "conversation"),
        count(count_of(&[ImportStatus::Updated])),
        count(count_of(&[ImportStatus::Unchanged])),
        count(count_of(&[ImportStatus::Conflict, ImportStatus::Failed])),
    ))
}

/// Returns the number of conversations. One may have been found twice.
fn conversations(reports: &[ImportReport]) -> u64 {
    let (named, nameless): (Vec<_>, Vec<_>) = reports.iter().partition(|report| report.id.is_some());
    let ids: HashSet<_> = named.iter().map(|report| &report.id).collect();
    (ids.len() + nameless.len()) as u64
}

/// Returns what an import would do about a conversation, in a word.
fn planned(status: ImportStatus) -> &'static str {
    match status {
        ImportStatus::Imported | ImportStatus::Partial => "new",
        ImportStatus::Unread => "unread",
        ImportStatus::Updated => "changed",
        ImportStatus::Unchanged => "there already",
        ImportStatus::Conflict => "conflict",
        ImportStatus::Failed => "failed",
    }
}

/// Prints the result for people.
pub(super) fn print(
    place: &Place<'_>,
    reports: &[ImportReport],
    skipped: &Skipped,
    seconds: f64,
    output: &Output,
) -> Result<()> {
    print_conversations(reports, ImportStatus::as_str, output)?;
    skipped.print(output)?;
    let added: u64 = reports.iter().map(|report| report.added).sum();
    let added_bytes: u64 = reports.iter().map(|report| report.added_bytes).sum();
    output.line(format!(
        "\n{} into {}: {} ({}) in {seconds:.1} s, {} events/s",
        plural(conversations(reports), "conversation"),
        place.path.display(),
        plural(added, "new event"),
        bytes(added_bytes),
        count((added as f64 / seconds.max(0.001)) as u64),
    ))?;
    // A refused conversation may not be in the database.
    let is_there =
        |report: &&ImportReport| !matches!(report.status, ImportStatus::Failed | ImportStatus::Conflict);
    let Some(first) = reports.iter().filter(is_there).find_map(|report| report.id.as_ref()) else {
        return Ok(());
    };
    let db = place.option();
    output.line(format!(
        "\nNext:\n  annals{db} list\n  annals{db} show {first}\n  annals{db} search 'some words'\n  sqlite3 {} 'SELECT title, event_count, status FROM conversations'",
        quoted(place.path)
    ))
}

/// Prints a table of the conversations, and their problems. `word` names a status.
fn print_conversations(
    reports: &[ImportReport],
    word: fn(ImportStatus) -> &'static str,
    output: &Output,
) -> Result<()> {
    let mut rows = table(&["id", "format", "status", "events", "new", "problems", "from"], &[3, 4, 5]);
    let (listed, counted): (Vec<_>, Vec<_>) =
        reports.iter().partition(|report| reports.len() <= LISTED_MOST || !is_without_problems(report));
    for report in &listed {
        rows.add_row(row([
            report.id.as_ref().map_or_else(|| "-".into(), |id| one_line(id.as_str(), 37)),
            report.format.into(),
            word(report.status).into(),
            count(report.events),
            count(report.added),
            if report.problems.is_empty() { String::new() } else { count(report.problems.len() as u64) },
            report.path.to_string_lossy().into_owned(),
        ]));
    }
    if !listed.is_empty() {
        output.table(rows)?;
    }
    if !counted.is_empty() {
        let mut statuses: BTreeMap<&str, u64> = BTreeMap::new();
        for report in &counted {
            *statuses.entry(word(report.status)).or_default() += 1;
        }
        let parts: Vec<String> =
            statuses.iter().map(|(status, number)| format!("{} {status}", count(*number))).collect();
        let others = if listed.is_empty() { "" } else { " besides" };
        output.line(format!("{}{others}, without a problem (--json lists them)", parts.join(", ")))?;
    }
    let damaged = reports.iter().filter(|report| !report.problems.is_empty());
    let unlisted = damaged.clone().count().saturating_sub(DAMAGED_SHOWN);
    for report in damaged.take(DAMAGED_SHOWN) {
        let name = report
            .id
            .as_ref()
            .map_or_else(|| report.path.to_string_lossy().into_owned(), ToString::to_string);
        output.line(format!("\n{}", output.bold(&name)))?;
        for problem in report.problems.iter().take(PROBLEMS_SHOWN) {
            let path = if problem.path.is_empty() { String::new() } else { format!("{}: ", problem.path) };
            output.line(one_line(&format!("  {path}{}; {}", problem.problem, problem.action), 400))?;
        }
        if let Some(more @ 1..) = report.problems.len().checked_sub(PROBLEMS_SHOWN) {
            let shown = report.id.as_ref().map_or_else(String::new, |id| format!(": `annals show {id}`"));
            output.line(output.dim(&format!("  and {more} more{shown}")))?;
        }
    }
    if unlisted > 0 {
        output.line(format!(
            "\nand {} with problems (--json has all of them)",
            plural(unlisted as u64, "more conversation")
        ))?;
    }
    print_unread(reports, output)
}
