//! `annals merge`, `annals split`, `annals copy`: conversations from one file to another.

use std::path::{Path, PathBuf};
use std::time::Instant;

use clap::Args;
use serde_json::{Value, json};

use super::print::{Output, bytes, count, one_line, plural, row, table};
use super::{DONE, FAILED, Place, REFUSED, list};
use crate::error::{Error, Result};
use crate::ids::ConversationId;
use crate::store::{ConversationFilter, Order, PAGE_MAX, Store};
use crate::transfer::{Copier, CopyOptions, CopyReport, CopyStatus};

/// How many conversations with problems a person is shown.
const REFUSED_SHOWN: usize = 25;

/// Bring the conversations of several files together in one
///
/// Everything comes along, byte for byte: payloads, times of recording, base states with their history, moves
/// of HEAD, attachments, where it was imported from. What is there already and the same is left, what has grown
/// is added to, what is another story is reported and left. Doing it again goes on where it was.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  annals merge laptop.db server.db --into all.db
  annals merge other.db --into all.db --dry-run
  annals merge other.db --into all.db --rename     conflicts come as ID~FILE")]
pub(super) struct Merge {
    /// The files to take from; they are only read
    #[arg(required = true, value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// The file to bring them into; created where it is missing
    #[arg(long, value_name = "FILE")]
    pub into: PathBuf,
    #[command(flatten)]
    pub how: How,
}

/// Copy some conversations to a file of their own, or move them there
///
/// Conditions narrow each other down; sub-agents' conversations come with the ones they belong to.
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
    /// Only those that last went on before this time (2026-01-31 or 2026-01-31T12:00:00)
    #[arg(long, value_name = "TIME", group = "which")]
    pub before: Option<String>,
    /// Only those that went on at or after this time
    #[arg(long, value_name = "TIME", group = "which")]
    pub after: Option<String>,
    /// Only these statuses
    #[arg(long, value_name = "STATUS", group = "which")]
    pub status: Vec<String>,
    /// The file to copy to; created where it is missing
    #[arg(long, value_name = "FILE")]
    pub to: PathBuf,
    /// Delete here what has arrived there, each one once it is verified
    #[arg(long = "move")]
    pub moves: bool,
    #[command(flatten)]
    pub how: How,
}

/// Copy conversations to another file, with their sub-agents'
#[derive(Debug, Args)]
#[command(after_help = "Example:
  annals copy 5610a7 --to other.db")]
pub(super) struct Copy {
    /// Conversations, by id or the start of one
    #[arg(required = true, value_name = "ID")]
    pub ids: Vec<String>,
    /// The file to copy to; created where it is missing
    #[arg(long, value_name = "FILE")]
    pub to: PathBuf,
    #[command(flatten)]
    pub how: How,
}

/// What is common to all three.
#[derive(Debug, Args)]
pub(super) struct How {
    /// Bring what is there already and is another story under another id
    #[arg(long)]
    pub rename: bool,
    /// Only say what would be done
    #[arg(long)]
    pub dry_run: bool,
}

impl How {
    fn options(&self) -> CopyOptions {
        CopyOptions { rename: self.rename, dry_run: self.dry_run }
    }
}

pub(super) fn merge(command: &Merge, output: &Output) -> Result<u8> {
    let mut sources = Vec::new();
    for file in &command.files {
        refuse_same(file, &command.into)?;
        sources.push(Place { path: file }.read_only()?);
    }
    let target = Target::open(&command.into, command.how.dry_run)?;
    let mut outcome = Outcome::new(&command.into, &command.how);
    for source in &sources {
        let ids = all(source, &ConversationFilter::default())?;
        outcome.carry(source, target.store(), &ids, output)?;
    }
    outcome.finish(target.store(), output)
}

pub(super) fn split(place: &Place<'_>, command: &Split, output: &Output) -> Result<u8> {
    refuse_same(place.path, &command.to)?;
    let source = if command.moves && !command.how.dry_run { place.write()? } else { place.read()? };
    let filter = ConversationFilter {
        statuses: command.status.clone(),
        tags: list::tags(&command.tag),
        updated_from: command.after.as_deref().map(list::moment).transpose()?,
        updated_before: command.before.as_deref().map(list::moment).transpose()?,
        ..ConversationFilter::default()
    };
    let mut ids = all(&source, &filter)?;
    if !command.ids.is_empty() {
        let named = command.ids.iter().map(|id| source.resolve(id)).collect::<Result<Vec<_>>>()?;
        ids.retain(|id| named.contains(id));
    }
    let target = Target::open(&command.to, command.how.dry_run)?;
    let mut outcome = Outcome::new(&command.to, &command.how);
    outcome.moves = command.moves;
    let ids = with_sub_agents(&source, ids)?;
    outcome.carry(&source, target.store(), &ids, output)?;
    outcome.finish(target.store(), output)
}

pub(super) fn copy(place: &Place<'_>, command: &Copy, output: &Output) -> Result<u8> {
    refuse_same(place.path, &command.to)?;
    let source = place.read()?;
    let ids = command.ids.iter().map(|id| source.resolve(id)).collect::<Result<Vec<_>>>()?;
    let target = Target::open(&command.to, command.how.dry_run)?;
    let mut outcome = Outcome::new(&command.to, &command.how);
    let ids = with_sub_agents(&source, ids)?;
    outcome.carry(&source, target.store(), &ids, output)?;
    outcome.finish(target.store(), output)
}

/// Refuses to carry conversations of a file into the same file.
fn refuse_same(from: &Path, to: &Path) -> Result<()> {
    let real = |path: &Path| std::fs::canonicalize(path).ok();
    if from == to || (real(from).is_some() && real(from) == real(to)) {
        return Err(Error::SameFile { path: to.to_owned() });
    }
    Ok(())
}

/// The store to carry to; a dry run makes no file.
enum Target {
    File(Store),
    Nothing(Store),
}

impl Target {
    fn open(path: &Path, dry_run: bool) -> Result<Self> {
        let place = Place { path };
        match (dry_run, path.exists()) {
            (false, _) => place.create().map(Self::File),
            (true, true) => place.read_only().map(Self::File),
            (true, false) => Store::in_memory(&crate::store::Options::default()).map(Self::Nothing),
        }
    }

    fn store(&self) -> &Store {
        match self {
            Self::File(store) | Self::Nothing(store) => store,
        }
    }
}

/// Every conversation a filter fits, the oldest first.
fn all(store: &Store, filter: &ConversationFilter) -> Result<Vec<ConversationId>> {
    let (mut ids, mut after) = (Vec::new(), None);
    loop {
        let page = store.conversations(filter, Order::Created, after.as_ref(), PAGE_MAX)?;
        ids.extend(page.conversations.into_iter().map(|conversation| conversation.id));
        match page.next {
            Some(next) => after = Some(next),
            None => return Ok(ids),
        }
    }
}

/// The same with their sub-agents' conversations, each once, a sub-agent's behind the one it belongs to.
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

/// What became of everything, file by file.
struct Outcome<'a> {
    target: &'a Path,
    how: &'a How,
    moves: bool,
    started: Instant,
    /// The file, the report, and whether it was deleted there.
    reports: Vec<(PathBuf, CopyReport, bool)>,
}

impl<'a> Outcome<'a> {
    fn new(target: &'a Path, how: &'a How) -> Self {
        Self { target, how, moves: false, started: Instant::now(), reports: Vec::new() }
    }

    fn carry(
        &mut self,
        source: &Store,
        target: &Store,
        ids: &[ConversationId],
        output: &Output,
    ) -> Result<()> {
        let mut copier = Copier::new(source, target, self.how.options());
        let bar = output.progress("conversations");
        let reports = copier.copy(ids, &mut |progress| {
            bar.set_length(progress.conversations as u64);
            bar.set_position(progress.conversation as u64);
            bar.set_message(format!("{} events", count(progress.events)));
        })?;
        for report in reports {
            let moved = self.moves && !self.how.dry_run && copier.remove(&report)?;
            self.reports.push((source.path(), report, moved));
        }
        bar.finish_and_clear();
        Ok(())
    }

    fn finish(&self, target: &Store, output: &Output) -> Result<u8> {
        if !target.is_read_only() {
            target.catch_up()?;
        }
        if output.json {
            let conversations: Vec<Value> = self.reports.iter().map(value).collect();
            output.value(&json!({
                "target": self.target.to_string_lossy(),
                "dry_run": self.how.dry_run,
                "conversations": conversations,
            }))?;
        } else {
            self.print(output)?;
        }
        let any = |status| self.reports.iter().any(|(_, report, _)| report.status == status);
        Ok(match (any(CopyStatus::Damaged), any(CopyStatus::Conflict) || any(CopyStatus::Erased)) {
            (true, _) => FAILED,
            (false, true) => REFUSED,
            (false, false) => DONE,
        })
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
            output.line(rows.trim_fmt())?;
        }
        let refused: Vec<_> =
            self.reports.iter().filter(|(_, report, _)| !report.problems.is_empty()).collect();
        for (_, report, _) in refused.iter().take(REFUSED_SHOWN) {
            output.line(format!("\n{}", output.bold(report.id.as_str())))?;
            for problem in &report.problems {
                output.line(one_line(&format!("  {problem}"), 400))?;
            }
            output.line(output.dim(&format!("  {}", way_out(report))))?;
        }
        if let Some(more @ 1..) = refused.len().checked_sub(REFUSED_SHOWN) {
            output.line(format!("\nand {more} more (--json has all of them)"))?;
        }
        let added: u64 = self.reports.iter().map(|(_, report, _)| report.added).sum();
        let added_bytes: u64 = self.reports.iter().map(|(_, report, _)| report.added_bytes).sum();
        let verb = if self.how.dry_run { "would come" } else { "came" };
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

fn way_out(report: &CopyReport) -> &'static str {
    match report.status {
        CopyStatus::Erased => "what is erased stays out of that file; copy it to another one",
        CopyStatus::Conflict => "left as it is there; --rename brings this one too, under another id",
        CopyStatus::Damaged => "left where it is; `annals verify` says more, a backup may have it as it was",
        _ if report.renamed.is_some() => "came under another id",
        CopyStatus::Copied | CopyStatus::Unchanged | CopyStatus::Updated | CopyStatus::Ahead => {
            "nothing is taken out by a copy; `annals redact` does it in the other file too"
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
