//! `annals merge`, `annals split`, `annals copy`: copy conversations from one file to another.

use std::path::{Path, PathBuf};
use std::time::Instant;

use clap::Args;
use serde_json::{Value, json};

use super::print::{Output, bytes, count, one_line, plural, row, table, tell};
use super::stopped::Stopped;
use super::{DONE, FAILED, Place, REFUSED, select};
use crate::error::{Error, Result};
use crate::ids::ConversationId;
use crate::store::{ConversationFilter, Order, Store, discard};
use crate::transfer::{Copier, CopyOptions, CopyReport, CopyStatus};

/// The maximum number of conversations with problems to print.
const PROBLEMS_SHOWN: usize = 25;

/// Merge the conversations of several files into one file
///
/// Everything is copied byte for byte: payloads, times of recording, base states with their history, moves of HEAD,
/// attachments, and the origin of imports. If a conversation is already there, its new events are added. If it has
/// the same id but other contents, it is reported and not copied. A repeated merge continues where the last one ended.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  annals merge laptop.db server.db --into all.db
  annals merge other.db --into all.db --dry-run
  annals merge other.db --into all.db --rename     conflicts are copied as ID~FILE")]
pub(super) struct Merge {
    /// The files to copy from; they are only read
    #[arg(required = true, value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// The file to copy into; created if it is missing
    #[arg(long, value_name = "FILE")]
    pub into: PathBuf,
    #[command(flatten)]
    pub how: How,
}

/// Copy some conversations to a separate file, or move them there
///
/// A conversation must meet all conditions. The conversations of its sub-agents are copied with it.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  annals split --tag team=core --to core.db
  annals split --before 2026-01-01 --to 2025.db --move
  annals split --ids 5610a7 dc3e --to two.db --dry-run")]
#[command(group(clap::ArgGroup::new("which").required(true).multiple(true)))]
pub(super) struct Split {
    /// Only these, by id or the start of one
    #[arg(long, value_name = "ID", num_args = 1.., group = "which")]
    pub ids: Vec<String>,
    /// Only with this tag, or with this value of it
    #[arg(long, value_name = "TAG[=VALUE]", group = "which")]
    pub tag: Vec<String>,
    /// Only conversations last updated before this time (2026-01-31 or 2026-01-31T12:00:00)
    #[arg(long, value_name = "TIME", group = "which")]
    pub before: Option<String>,
    /// Only conversations last updated at or after this time
    #[arg(long, value_name = "TIME", group = "which")]
    pub after: Option<String>,
    /// Only these statuses
    #[arg(long, value_name = "STATUS", group = "which")]
    pub status: Vec<String>,
    /// The file to copy to; created if it is missing
    #[arg(long, value_name = "FILE")]
    pub to: PathBuf,
    /// Delete each conversation here after its copy is verified
    #[arg(long = "move")]
    pub moves: bool,
    #[command(flatten)]
    pub how: How,
}

/// Copy conversations to another file, with those of their sub-agents
#[derive(Debug, Args)]
#[command(after_help = "Example:
  annals copy 5610a7 --to other.db")]
pub(super) struct Copy {
    /// Conversations, by id or the start of one
    #[arg(required = true, value_name = "ID")]
    pub ids: Vec<String>,
    /// The file to copy to; created if it is missing
    #[arg(long, value_name = "FILE")]
    pub to: PathBuf,
    #[command(flatten)]
    pub how: How,
}

/// The options of all three commands.
#[derive(Debug, Args)]
pub(super) struct How {
    /// Copy conversations with the same id but other contents under another id
    #[arg(long)]
    pub rename: bool,
    /// Only show what would be done
    #[arg(long)]
    pub dry_run: bool,
}

impl How {
    fn options(&self) -> CopyOptions {
        CopyOptions { rename: self.rename, dry_run: self.dry_run }
    }
}

pub(super) fn merge(place: &Place<'_>, command: &Merge, output: &Output) -> Result<u8> {
    let mut sources = Vec::new();
    for file in &command.files {
        refuse_same(file, &command.into)?;
        sources.push(Place::alone(file).read_only()?);
    }
    let target = Target::open(&place.of(&command.into), command.how.dry_run)?;
    target.fill(|target| {
        let mut outcome = Outcome::new(&command.into, &command.how);
        for source in &sources {
            let ids = all(source, &ConversationFilter::default())?;
            outcome.carry((&source.path(), source), target, &ids, output)?;
            let strays = source.strays(None)?.into_iter();
            outcome
                .damage
                .extend(strays.map(|stray| format!("{}: {}", source.path().display(), stray.describe())));
        }
        outcome.finish(target, output)
    })
}

pub(super) fn split(place: &Place<'_>, command: &Split, output: &Output) -> Result<u8> {
    refuse_same(place.path, &command.to)?;
    let source = if command.moves && !command.how.dry_run { place.write()? } else { place.read()? };
    let filter = ConversationFilter {
        statuses: command.status.clone(),
        tags: select::tags(&command.tag),
        updated_from: command.after.as_deref().map(select::moment).transpose()?,
        updated_before: command.before.as_deref().map(select::moment).transpose()?,
        ..ConversationFilter::default()
    };
    let mut ids = all(&source, &filter)?;
    if !command.ids.is_empty() {
        let named = command.ids.iter().map(|id| source.resolve(id)).collect::<Result<Vec<_>>>()?;
        ids.retain(|id| named.contains(id));
    }
    let target = Target::open(&Place::alone(&command.to), command.how.dry_run)?;
    target.fill(|target| {
        let mut outcome = Outcome::new(&command.to, &command.how);
        outcome.moves = command.moves;
        let ids = with_sub_agents(&source, ids)?;
        outcome.carry((&source.path(), &source), target, &ids, output)?;
        outcome.finish(target, output)
    })
}

pub(super) fn copy(place: &Place<'_>, command: &Copy, output: &Output) -> Result<u8> {
    refuse_same(place.path, &command.to)?;
    let source = place.read()?;
    let ids = command.ids.iter().map(|id| source.resolve(id)).collect::<Result<Vec<_>>>()?;
    let target = Target::open(&Place::alone(&command.to), command.how.dry_run)?;
    target.fill(|target| {
        let mut outcome = Outcome::new(&command.to, &command.how);
        let ids = with_sub_agents(&source, ids)?;
        outcome.carry((&source.path(), &source), target, &ids, output)?;
        outcome.finish(target, output)
    })
}

/// Returns an error if both paths are the same file.
pub(super) fn refuse_same(from: &Path, to: &Path) -> Result<()> {
    let real = |path: &Path| std::fs::canonicalize(path).ok();
    if from == to || (real(from).is_some() && real(from) == real(to)) {
        return Err(Error::SameFile { path: to.to_owned() });
    }
    Ok(())
}

/// The store to copy to. A dry run creates no file, and uses an empty store in memory if there is none.
pub(super) enum Target {
    File(Store),
    /// A file that was just made.
    NewFile(Store),
    InMemory(Store),
}

impl Target {
    pub(super) fn open(place: &Place<'_>, dry_run: bool) -> Result<Self> {
        match (dry_run, place.path.exists()) {
            (false, true) => place.create().map(Self::File),
            (false, false) => place.create().map(Self::NewFile),
            (true, true) => place.read_only().map(Self::File),
            (true, false) => Store::in_memory(&crate::store::Options::default()).map(Self::InMemory),
        }
    }

    /// Does `work` on the store. A new file to which it has written nothing is removed, unless it has ended well.
    pub(super) fn fill(self, work: impl FnOnce(&Store) -> Result<u8>) -> Result<u8> {
        let (Self::File(store) | Self::NewFile(store) | Self::InMemory(store)) = &self;
        let done = work(store);
        if matches!(self, Self::NewFile(_))
            && !matches!(done, Ok(DONE))
            && store.maintenance().was_never_filled().is_ok_and(|empty| empty)
        {
            let path = store.path();
            if store.close().is_ok() {
                discard(&path);
            }
        }
        done
    }
}

/// Returns every conversation that matches a filter, the oldest first.
pub(super) fn all(store: &Store, filter: &ConversationFilter) -> Result<Vec<ConversationId>> {
    store.iter(filter, Order::Created).map(|row| Ok(row?.id)).collect()
}

/// Returns `ids` and the conversations of their sub-agents, each once. A sub-agent's conversation follows its parent.
fn with_sub_agents(store: &Store, ids: Vec<ConversationId>) -> Result<Vec<ConversationId>> {
    let mut seen = std::collections::HashSet::new();
    let mut all = Vec::new();
    let mut open: Vec<ConversationId> = ids.into_iter().rev().collect();
    while let Some(id) = open.pop() {
        if seen.insert(id.clone()) {
            open.extend(store.children(&id)?.into_iter().rev());
            all.push(id);
        }
    }
    Ok(all)
}

/// Why a conversation was copied and not deleted here.
const STAYS: &str = "it was copied, and not deleted here: it has changed since, or its copy differs; the same command again \
     copies the rest and deletes it";
const DELETED: &str =
    "it was copied, and then deleted here by another act; the copy stands, with what it was copied with";

/// The results of all copies.
pub(super) struct Outcome<'a> {
    target: &'a Path,
    how: &'a How,
    moves: bool,
    started: Instant,
    /// The source file, the report, and whether the conversation was deleted from the source.
    reports: Vec<(PathBuf, CopyReport, bool)>,
    /// What could not be listed in a source, in words.
    damage: Vec<String>,
}

impl<'a> Outcome<'a> {
    pub(super) fn new(target: &'a Path, how: &'a How) -> Self {
        Self { target, how, moves: false, started: Instant::now(), reports: Vec::new(), damage: Vec::new() }
    }

    /// Copies conversations from a source, which the reports call `name`.
    pub(super) fn carry(
        &mut self,
        (name, source): (&Path, &Store),
        target: &Store,
        ids: &[ConversationId],
        output: &Output,
    ) -> Result<()> {
        let mut copier = Copier::new(source, target, self.how.options());
        let bar = output.progress("conversations");
        let words = Stopped::says(&bar, "each of them is whole; the same command carries the others");
        let reports = copier.copy(ids, &mut |progress| {
            bar.set_length(progress.conversations as u64);
            bar.set_position(progress.conversation as u64);
            bar.set_message(format!("{} events", count(progress.events)));
        })?;
        for report in reports {
            let mut report = report;
            let mut moved = false;
            if self.moves && !self.how.dry_run && report.status.is_whole() {
                moved = match copier.remove(&report) {
                    Err(Error::UnknownConversation { .. }) => {
                        report.problems.push(DELETED.into());
                        false
                    }
                    removed => removed?,
                };
                if !moved && report.problems.is_empty() {
                    report.problems.push(STAYS.into());
                }
            }
            self.reports.push((name.to_owned(), report, moved));
        }
        bar.finish_and_clear();
        drop(words);
        Ok(())
    }

    /// The conversations that do not verify in a source.
    pub(super) fn damaged(&self) -> Vec<ConversationId> {
        let is_damaged = |(_, report, _): &&(PathBuf, CopyReport, bool)| report.status == CopyStatus::Damaged;
        self.reports.iter().filter(is_damaged).map(|(_, report, _)| report.id.clone()).collect()
    }

    pub(super) fn finish(&self, target: &Store, output: &Output) -> Result<u8> {
        if !target.is_read_only() {
            target.catch_up()?;
        }
        if output.json {
            let conversations: Vec<Value> = self.reports.iter().map(value).collect();
            output.value(&json!({
                "target": self.target.to_string_lossy(),
                "dry_run": self.how.dry_run,
                "conversations": conversations,
                "damage": self.damage,
            }))?;
        } else {
            self.print(output)?;
            for what in &self.damage {
                tell(format_args!("annals: {what}"));
            }
        }
        let any = |status| self.reports.iter().any(|(_, report, _)| report.status == status);
        Ok(
            match (
                any(CopyStatus::Damaged) || !self.damage.is_empty(),
                any(CopyStatus::Conflict) || any(CopyStatus::Erased) || any(CopyStatus::Gone) || self.stays(),
            ) {
                (true, _) => FAILED,
                (false, true) => REFUSED,
                (false, false) => DONE,
            },
        )
    }

    /// Returns whether something that was to be moved was only copied.
    fn stays(&self) -> bool {
        let is_left = |(_, report, moved): &(_, CopyReport, bool)| report.status.is_whole() && !moved;
        self.moves && !self.how.dry_run && self.reports.iter().any(is_left)
    }

    fn print(&self, output: &Output) -> Result<()> {
        let mut rows = table(&["id", "status", "events", "new", "from"], &[2, 3]);
        for (file, report, moved) in &self.reports {
            let id = report.renamed.as_ref().unwrap_or(&report.id);
            let status = if *moved { "moved" } else { report.status.as_str() };
            rows.add_row(row([
                one_line(id.as_str(), 48),
                status.into(),
                count(report.events),
                count(report.added),
                file.to_string_lossy().into_owned(),
            ]));
        }
        if !self.reports.is_empty() {
            output.table(rows)?;
        }
        let refused: Vec<_> =
            self.reports.iter().filter(|(_, report, _)| !report.problems.is_empty()).collect();
        for (_, report, _) in refused.iter().take(PROBLEMS_SHOWN) {
            output.line(format!("\n{}", output.bold(report.id.as_str())))?;
            for problem in &report.problems {
                output.line(one_line(&format!("  {problem}"), 400))?;
            }
            output.line(output.dim(&format!("  {}", advice(report))))?;
        }
        if let Some(more @ 1..) = refused.len().checked_sub(PROBLEMS_SHOWN) {
            output.line(format!("\nand {more} more (--json has all of them)"))?;
        }
        let added: u64 = self.reports.iter().map(|(_, report, _)| report.added).sum();
        let added_bytes: u64 = self.reports.iter().map(|(_, report, _)| report.added_bytes).sum();
        let verb = if self.how.dry_run { "would be copied" } else { "copied" };
        output.line(format!(
            "\n{} of {}: {} ({}) {verb} into {} in {:.1} s",
            count(self.reports.iter().filter(|(_, report, _)| report.status.is_whole()).count() as u64),
            plural(self.reports.len() as u64, "conversation"),
            plural(added, "event"),
            bytes(added_bytes),
            self.target.display(),
            self.started.elapsed().as_secs_f64(),
        ))
    }
}

fn advice(report: &CopyReport) -> &'static str {
    match report.status {
        CopyStatus::Erased => "it was erased from that file and stays out of it; copy it to another file",
        CopyStatus::Conflict => "the file keeps its own one; --rename copies this one too, under another id",
        CopyStatus::Damaged => "not copied; `annals verify` says more, and a backup may have it intact",
        CopyStatus::Gone => "the others were carried",
        _ if report.problems.iter().any(|problem| [STAYS, DELETED].contains(&problem.as_str())) => {
            "not moved"
        }
        _ if report.renamed.is_some() => "copied under another id",
        CopyStatus::Copied | CopyStatus::Unchanged | CopyStatus::Updated | CopyStatus::Ahead => {
            "a copy does not redact; run `annals redact` on the other file too"
        }
    }
}

fn value((file, report, moved): &(PathBuf, CopyReport, bool)) -> Value {
    json!({
        "from": file.to_string_lossy(),
        "id": report.id.as_str(),
        "renamed": report.renamed.as_ref().map(ConversationId::as_str),
        "status": report.status.as_str(),
        "events": report.events,
        "added": report.added,
        "added_bytes": report.added_bytes,
        "moved": moved,
        "problems": report.problems,
    })
}
