//! `annals export`: writes conversations to files.

use std::collections::HashSet;
use std::path::PathBuf;
use std::time::Instant;

use clap::{Args, ValueEnum};
use serde_json::{Value, json};

use super::print::{Output, bytes, count, one_line, plural, row, table, tell};
use super::select::About;
use super::stopped::Stopped;
use super::{DONE, FAILED, Place, REFUSED};
use crate::error::{Error, Result, SetupError};
use crate::ids::ConversationId;
use crate::store::{ConversationFilter, Order, Store};
use crate::transfer::{
    Dataset, ExportOutcome, ExportReport, ExportStatus, Exporter, Format, Selection, TrainingOptions,
    UpgradeReport, export_dataset,
};

/// The maximum number of conversations to list. If there are more, only their number is printed.
const LISTED_MOST: usize = 50;

/// The options that select conversations in the place of ids.
const SELECTORS: [&str; 5] = ["all", "workspace", "source", "model", "user"];

/// Export conversations: byte for byte as they were imported, or as a data set
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  annals export 5610a7 --to out/              its folder or its log, as it was imported
  annals export --all --to out/
  annals export --workspace . --to out/       what was done in this folder
  annals export 5610a7 --to out/ --format jsonl
  annals export --all --to today/ --upgrade   in the format of today's SDK
  annals export --all --to set/ --format chat   a training set: one row per branch, messages and tools
  annals export --all --to set/ --format parquet")]
pub(super) struct Arguments {
    /// Conversations, by id or the start of one
    #[arg(value_name = "ID", required_unless_present_any = SELECTORS, conflicts_with_all = SELECTORS)]
    pub ids: Vec<String>,
    /// Write every conversation
    #[arg(long)]
    pub all: bool,
    #[command(flatten)]
    pub about: About,
    /// The folder to write into; created if it is missing
    #[arg(long, value_name = "DIR")]
    pub to: PathBuf,
    /// What to write
    #[arg(long, value_enum, default_value_t)]
    pub format: FormatOption,
    /// Upgrade every event and base state to the format of today's SDK (1.58)
    #[arg(long, conflicts_with = "format")]
    pub upgrade: bool,
    /// In training sets, write what the model saw last, after condensation, instead of all messages
    #[arg(long)]
    pub view: bool,
    /// In training sets, include the model's reasoning
    #[arg(long)]
    pub reasoning: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Default)]
pub(super) enum FormatOption {
    /// As imported, byte for byte: another program's log, or the conversation's folder as the OpenHands SDK reads it
    #[default]
    #[value(alias = "openhands")]
    Original,
    /// One file per conversation, one event per line
    Jsonl,
    /// chat.jsonl, a training set: one row per branch, in the format of chat completions
    Chat,
    /// chat.parquet: the same (if the program was built with the feature parquet)
    ChatParquet,
    /// events.parquet: one row per event (if the program was built with the feature parquet)
    Parquet,
}

/// What to write.
enum Wanted {
    /// One file or folder per conversation.
    Each(Format),
    /// One file for all conversations.
    Together(Dataset),
}

impl Arguments {
    /// Returns the conversations to write.
    fn selection(&self, store: &Store, exporter: &Exporter<'_>) -> Result<Selection> {
        if !self.ids.is_empty() {
            return named(store, &self.ids);
        }
        let mut all = exporter.select_all()?;
        if !self.about.is_empty() {
            let filter = self.about.narrow(ConversationFilter::default());
            let wanted: HashSet<ConversationId> = store
                .iter(&filter, Order::Created)
                .map(|row| row.map(|row| row.id))
                .collect::<Result<_>>()?;
            all.conversations.retain(|id| wanted.contains(id));
        }
        Ok(all)
    }

    /// Returns the requested output. The error is the name of a feature that this program was built without.
    fn wanted(&self) -> std::result::Result<Wanted, &'static str> {
        let options = TrainingOptions { view: self.view, reasoning: self.reasoning };
        Ok(match (self.format, self.upgrade) {
            (FormatOption::Original, true) => Wanted::Each(Format::Upgraded),
            (FormatOption::Original, false) => Wanted::Each(Format::OpenHands),
            (FormatOption::Jsonl, _) => Wanted::Each(Format::Jsonl),
            (FormatOption::Chat, _) => Wanted::Together(Dataset::Chat(options)),
            #[cfg(feature = "parquet")]
            (FormatOption::ChatParquet, _) => Wanted::Together(Dataset::ChatParquet(options)),
            #[cfg(feature = "parquet")]
            (FormatOption::Parquet, _) => Wanted::Together(Dataset::EventsParquet),
            #[cfg(not(feature = "parquet"))]
            (FormatOption::ChatParquet | FormatOption::Parquet, _) => return Err("parquet"),
        })
    }
}

pub(super) fn run(place: &Place<'_>, command: &Arguments, output: &Output) -> Result<u8> {
    let format = match command.wanted() {
        Ok(Wanted::Each(format)) => format,
        Ok(Wanted::Together(dataset)) => return together(place, command, dataset, output),
        Err(feature) => return Err(Error::Setup(SetupError::NotBuilt { feature })),
    };
    let store = open(place)?;
    let exporter = Exporter::new(&store, format);
    let selection = command.selection(&store, &exporter)?;
    let started = Instant::now();
    let bar = output.progress("conversations");
    let words = Stopped::says(&bar, "each of them is whole; the same command writes the others");
    bar.set_length(selection.conversations.len() as u64);
    let outcome = exporter.export_each(&selection, &command.to, &mut |progress| {
        bar.set_position(progress.conversations);
        if progress.events.is_multiple_of(1000) {
            bar.set_message(format!("{} events", count(progress.events)));
        }
    })?;
    bar.finish_and_clear();
    drop(words);
    let ExportOutcome { reports, failed, damage } = &outcome;
    if output.json {
        let mut conversations: Vec<Value> = reports.iter().map(value).collect();
        conversations.extend(
            failed.iter().map(
                |(id, error)| json!({"id": id.as_str(), "status": "refused", "error": error.to_string()}),
            ),
        );
        output.value(&json!({ "conversations": conversations, "damage": damage }))?;
    } else {
        print(reports, started.elapsed().as_secs_f64(), output)?;
        if format == Format::Upgraded {
            print_upgrade(reports, output)?;
        }
        for what in damage {
            tell(format_args!("annals: {what}"));
        }
        for (id, error) in failed {
            tell(format_args!("annals: {id}: {error}"));
        }
    }
    let is_refusal = |error: &Error| {
        matches!(
            error,
            Error::WouldOverwrite { .. } | Error::Undecodable { .. } | Error::UnknownConversation { .. }
        )
    };
    Ok(match &failed[..] {
        [] if damage.is_empty() => DONE,
        failed if damage.is_empty() && failed.iter().all(|(_, error)| is_refusal(error)) => REFUSED,
        _ => FAILED,
    })
}

/// Opens the file. An export changes nothing, so a file that damage keeps from being opened for writing is only read.
fn open(place: &Place<'_>) -> Result<Store> {
    match place.read() {
        Err(Error::Corrupt { .. }) => place.read_only(),
        opened => opened,
    }
}

/// Writes all conversations into one file.
fn together(place: &Place<'_>, command: &Arguments, dataset: Dataset, output: &Output) -> Result<u8> {
    let store = open(place)?;
    // In a training set, a sub-agent's conversation is a row like any other.
    let exporter = Exporter::new(&store, Format::Jsonl);
    let selection = command.selection(&store, &exporter)?;
    let ids = &selection.conversations;
    let started = Instant::now();
    let bar = output.progress("conversations");
    bar.set_length(ids.len() as u64);
    let report = export_dataset(&store, ids, &command.to, dataset, &mut |done| bar.set_position(done))?;
    bar.finish_and_clear();
    let unread = report.unread.iter().map(|(id, error)| format!("{id}: {error}"));
    let damage: Vec<String> = selection.damage.iter().cloned().chain(unread).collect();
    let code = if damage.is_empty() { DONE } else { FAILED };
    if output.json {
        output.value(&json!({
            "path": report.path.to_string_lossy(),
            "status": word(report.status),
            "conversations": report.conversations,
            "rows": report.rows,
            "left_out": report.left_out,
            "bytes": report.bytes,
            "damage": damage,
        }))?;
        return Ok(code);
    }
    output.line(format!(
        "{}: {}, {} of {} ({}) in {:.1} s",
        report.path.to_string_lossy(),
        word(report.status),
        plural(report.rows, "row"),
        plural(report.conversations, "conversation"),
        bytes(report.bytes),
        started.elapsed().as_secs_f64(),
    ))?;
    if report.left_out > 0 {
        let branches = if report.left_out == 1 { "branch" } else { "branches" };
        output.line(format!("{} {branches} without a reply of a model left out", count(report.left_out)))?;
    }
    for what in damage {
        tell(format_args!("annals: {what}"));
    }
    Ok(code)
}

fn named(store: &Store, prefixes: &[String]) -> Result<Selection> {
    let ids = prefixes.iter().map(|prefix| store.resolve_in_damage(prefix)).collect::<Result<Vec<_>>>()?;
    Ok(Selection::of(ids))
}

fn value(report: &ExportReport) -> Value {
    json!({
        "id": report.id.as_str(),
        "path": report.path.to_string_lossy(),
        "status": word(report.status),
        "events": report.events,
        "files": report.files,
        "bytes": report.bytes,
        "upgrade": {
            "current": report.upgrade.current,
            "steps": report.upgrade.steps,
            "losses": report.upgrade.losses,
            "kept": report.upgrade.kept,
        },
    })
}

/// Prints what was upgraded, and what was lost.
fn print_upgrade(reports: &[ExportReport], output: &Output) -> Result<()> {
    let mut all = UpgradeReport::default();
    reports.iter().for_each(|report| all.add(&report.upgrade));
    output.line(format!("\n{} of today's format", plural(all.current, "event")))?;
    for (step, number) in &all.steps {
        output.line(format!("{:>8}  upgraded: {step}", count(*number)))?;
    }
    for (kind, number) in &all.kept {
        let line = format!("{kind} kept; the SDK needs the class of the agent's own tool");
        output.line(format!("{:>8}  {}", count(*number), one_line(&line, 120)))?;
    }
    for (loss, number) in &all.losses {
        output.line(format!("{:>8}  {}", count(*number), one_line(loss, 120)))?;
    }
    Ok(())
}

fn word(status: ExportStatus) -> &'static str {
    match status {
        ExportStatus::Written => "written",
        ExportStatus::Unchanged => "unchanged",
    }
}

fn print(reports: &[ExportReport], seconds: f64, output: &Output) -> Result<()> {
    let mut rows = table(&["id", "status", "events", "files", "bytes", "to"], &[2, 3, 4]);
    for report in reports {
        rows.add_row(row([
            report.id.to_string(),
            word(report.status).into(),
            count(report.events),
            count(report.files),
            bytes(report.bytes),
            report.path.to_string_lossy().into_owned(),
        ]));
    }
    if reports.len() > LISTED_MOST {
        let written = reports.iter().filter(|report| report.status == ExportStatus::Written).count() as u64;
        let unchanged = reports.len() as u64 - written;
        output.line(format!(
            "{} written, {} unchanged (--json lists them)",
            count(written),
            count(unchanged)
        ))?;
    } else if !reports.is_empty() {
        output.table(rows)?;
    }
    let events: u64 = reports.iter().map(|report| report.events).sum();
    output.line(format!(
        "\n{} with {} in {seconds:.1} s",
        plural(reports.len() as u64, "conversation"),
        plural(events, "event")
    ))
}
