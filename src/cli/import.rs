//! `annals import`: imports conversations, and prints the result of each.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Instant;

use clap::builder::PossibleValue;
use clap::{Args, ValueEnum};
use serde_json::{Value, json};

use super::print::{Output, bytes, count, one_line, plural, row, table};
use super::{DONE, FAILED, Place, REFUSED};
use crate::error::{Error, Result};
use crate::ids::ConversationId;
use crate::transfer::{ImportOptions, ImportReport, ImportStatus, Importer, SourceFormat};

/// The maximum number of problems to print for one conversation. `show` prints all of them.
const PROBLEMS_SHOWN: usize = 3;
/// The maximum number of conversations with problems to print.
const DAMAGED_SHOWN: usize = 25;
/// The maximum number of conversations to list. If there are more, those without a problem are only counted.
const LISTED_MOST: usize = 50;

/// Find conversations under the given paths, and import them with every byte
///
/// Reads OpenHands conversations of any age (current layout, event_service/, V0 sessions), JSON lines and
/// JSON arrays of events; logs of Claude Code, Codex, LangGraph and the OpenAI Agents SDK become read-only copies
/// (docs/formats.md). Damaged conversations are imported as far as they can be read, and data that cannot be an
/// event is kept beside the events. Another import adds only new events.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  annals import ~/.openhands/conversations
  annals import trajectory.json session/
  annals import ~/.claude/projects ~/.codex/sessions checkpoints.sqlite
  annals --json import backup/ | jq '.conversations[] | select(.status != \"imported\")'")]
pub(super) struct Arguments {
    /// Conversation folders, folders of them, or files of events
    #[arg(required = true, value_name = "PATH")]
    pub paths: Vec<PathBuf>,
    /// Give the conversation this id instead of its own (for a single one)
    #[arg(long = "as", value_name = "ID")]
    pub id: Option<String>,
    /// Accept changes of files beside the events, even if no event was added
    #[arg(long)]
    pub accept_changed_files: bool,
    /// Import conversations again that were erased here
    #[arg(long)]
    pub accept_erased: bool,
    /// The format of the sources, instead of detecting it
    #[arg(long, value_enum)]
    pub format: Option<SourceFormat>,
}

impl ValueEnum for SourceFormat {
    fn value_variants<'a>() -> &'a [Self] {
        &Self::ALL
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        Some(PossibleValue::new(self.as_str()).help(self.description()))
    }
}

pub(super) fn run(place: &Place<'_>, command: &Arguments, output: &Output) -> Result<u8> {
    for path in &command.paths {
        // Checked before the database is created, so that a mistyped path leaves no empty file behind.
        std::fs::metadata(path).map_err(Error::io("reading", path))?;
    }
    let id = command.id.as_deref().map(ConversationId::new).transpose()?;
    let store = place.create()?;
    let options = ImportOptions {
        id,
        accept_changed_files: command.accept_changed_files,
        accept_erased: command.accept_erased,
        format: command.format,
    };
    let mut importer = Importer::new(&store, options);
    let started = Instant::now();
    let bar = output.progress("conversations");
    let mut reports = Vec::new();
    for path in &command.paths {
        reports.extend(importer.import(path, &mut |progress| {
            bar.set_length(progress.conversations as u64);
            bar.set_position(progress.conversation as u64);
            let per_second = progress.events as f64 / started.elapsed().as_secs_f64().max(0.001);
            bar.set_message(format!("{} events, {}/s", count(progress.events), count(per_second as u64)));
        })?);
    }
    bar.finish_and_clear();
    if reports.is_empty() {
        output.remark("no conversations were found there");
    }
    store.catch_up()?;
    if output.json {
        let conversations: Vec<Value> = reports.iter().map(value).collect();
        output.value(&json!({ "conversations": conversations }))?;
    } else {
        print(place, &reports, started.elapsed().as_secs_f64(), output)?;
    }
    Ok(code(&reports))
}

fn code(reports: &[ImportReport]) -> u8 {
    let any = |status| reports.iter().any(|report| report.status == status);
    if any(ImportStatus::Failed) {
        FAILED
    } else if any(ImportStatus::Conflict) || reports.is_empty() {
        REFUSED
    } else {
        DONE
    }
}

fn value(report: &ImportReport) -> Value {
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

fn print(place: &Place<'_>, reports: &[ImportReport], seconds: f64, output: &Output) -> Result<()> {
    let mut rows = table(&["id", "format", "status", "events", "new", "problems", "from"], &[3, 4, 5]);
    let (listed, counted): (Vec<_>, Vec<_>) =
        reports.iter().partition(|report| reports.len() <= LISTED_MOST || !is_without_problems(report));
    for report in &listed {
        rows.add_row(row([
            report.id.as_ref().map_or_else(|| "-".into(), |id| one_line(id.as_str(), 37)),
            report.format.into(),
            report.status.as_str().into(),
            count(report.events),
            count(report.added),
            if report.problems.is_empty() { String::new() } else { count(report.problems.len() as u64) },
            report.path.to_string_lossy().into_owned(),
        ]));
    }
    if !listed.is_empty() {
        output.line(rows.trim_fmt())?;
    }
    if !counted.is_empty() {
        let mut statuses: BTreeMap<&str, u64> = BTreeMap::new();
        for report in &counted {
            *statuses.entry(report.status.as_str()).or_default() += 1;
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
    print_unread(reports, output)?;
    let added: u64 = reports.iter().map(|report| report.added).sum();
    let added_bytes: u64 = reports.iter().map(|report| report.added_bytes).sum();
    output.line(format!(
        "\n{} into {}: {} ({}) in {seconds:.1} s, {} events/s",
        plural(reports.len() as u64, "conversation"),
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
        super::quoted(place.path)
    ))
}
