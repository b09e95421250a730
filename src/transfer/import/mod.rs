//! Imports conversations: one flow for all formats.
//!
//! A search finds the conversations (`discover.rs`). What differs between the formats is behind the trait [`Incoming`],
//! which has two implementers: OpenHands conversations (`openhands.rs`) and logs of other programs (`foreign/`). The flow
//! for each conversation:
//!
//! 1. It is opened and gets its id, the same one as in an earlier import that ended or was interrupted (`identity.rs`).
//! 2. It is refused if it was erased here (`past.rs`), or if what is stored under its id can take no event of it.
//! 3. Its records are compared with the stored ones. New ones are written in chunks, in bounded memory (`intake.rs`).
//! 4. What is beside the events is compared with what is stored: files, base state, problems, origin. It is written, or
//!    left if that would lose something (`settle.rs`, `losses.rs`).
//!
//! The formats differ where their sources do. An OpenHands conversation may have gone on here, so a later event here is
//! no difference, and no change of a file is taken over without a new event. A log is a read-only copy that grows: its
//! records must be those that are stored, and new files beside it are added. A file of a folder that is no event, or the
//! second with its id, is kept aside as an attachment. A record of a log is kept in its event, whatever it is.

mod identity;
mod incoming;
mod intake;
mod losses;
mod past;
mod settle;

pub(super) use incoming::{Changes, Incoming, Names, Others};
pub(super) use intake::Intake;

use identity::Planned;

use std::collections::HashSet;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use super::container::TornTail;
use super::discover::{Discovery, Found, Shape, discover};
use super::report::{ImportOptions, ImportProgress, ImportReport, ImportStatus, OnProgress};
use crate::error::{AroundError, Error, Result};
use crate::ids::ConversationId;
use crate::store::{Problem, Store};

/// What is done about a conversation that differs from the stored one.
pub(super) const CONFLICT: &str = "left as stored; import it under another id with --as to have both";

/// Imports conversations into a store.
#[derive(Debug)]
pub struct Importer<'a> {
    store: &'a Store,
    options: ImportOptions,
    read: Read,
    planned: Planned,
    tail: TornTail,
}

#[derive(Debug, Default, Clone, Copy)]
struct Read {
    events: u64,
    bytes: u64,
}

impl Read {
    /// Counts an event of this size, and reports the progress from time to time.
    fn count(&mut self, bytes: u64, on_progress: &mut dyn FnMut(Self)) {
        self.events += 1;
        self.bytes += bytes;
        if self.events.is_multiple_of(256) {
            on_progress(*self);
        }
    }
}

impl<'a> Importer<'a> {
    /// Makes an importer into `store`.
    #[must_use]
    pub fn new(store: &'a Store, options: ImportOptions) -> Self {
        Self { store, options, read: Read::default(), planned: Planned::default(), tail: TornTail::Keep }
    }

    /// Makes it follow conversations that are being written: a last line that is not whole waits for its rest, and a new
    /// base state of a conversation that has not gone on here is taken over.
    #[cfg_attr(not(feature = "cli"), allow(dead_code, reason = "only the command line follows files"))]
    pub(crate) fn following(mut self) -> Self {
        self.tail = TornTail::Await;
        self
    }

    /// Imports every conversation at and below `path`. Returns their reports in the order found.
    ///
    /// A conversation that cannot be read does not stop the others. Repeating an import changes nothing. After a
    /// crash, it continues where it stopped.
    ///
    /// # Errors
    /// [`Error::Io`] if `path` does not exist, [`Error::Input`] if it is a file in no known format, and errors of writing to
    /// the store.
    pub fn import(&mut self, path: &Path, progress: OnProgress<'_>) -> Result<Vec<ImportReport>> {
        let discovery = discover(path, self.options.format)?;
        self.import_found(&discovery, &|_| true, progress)
    }

    /// Imports the conversations of a search that `is_wanted` accepts, and those that they are sub-agents of.
    ///
    /// # Errors
    /// As [`Importer::import`].
    pub(crate) fn import_found(
        &mut self,
        discovery: &Discovery,
        is_wanted: &dyn Fn(&Found) -> bool,
        progress: OnProgress<'_>,
    ) -> Result<Vec<ImportReport>> {
        let found = &discovery.found;
        let mut wanted: Vec<bool> = found.iter().map(is_wanted).collect();
        // The folders within each conversation's folder that belong to others.
        let mut apart = vec![HashSet::new(); found.len()];
        // A parent comes before its sub-agents.
        for (index, other) in found.iter().enumerate().rev() {
            if let Some(parent) = other.parent {
                apart[parent].insert(other.path.clone());
                wanted[parent] |= wanted[index];
            }
        }
        let total = wanted.iter().filter(|wanted| **wanted).count();
        let mut reports: Vec<ImportReport> = Vec::with_capacity(total);
        let mut ids: Vec<Option<ConversationId>> = vec![None; found.len()];
        for (index, conversation) in found.iter().enumerate().filter(|(index, _)| wanted[*index]) {
            let parent = conversation.parent.and_then(|parent| ids[parent].clone());
            let apart = &apart[index];
            let done = reports.len();
            let mut on_progress = |read: Read| {
                progress(ImportProgress {
                    path: &conversation.path,
                    conversation: done,
                    conversations: total,
                    events: read.events,
                    bytes: read.bytes,
                });
            };
            on_progress(self.read);
            let mut one = || self.import_one(conversation, parent.as_ref(), apart, &mut on_progress);
            let mut outcome = one();
            for _ in 0..RETRIES_MAX {
                if !matches!(&outcome, Err(error) if is_of_the_moment(error)) {
                    break;
                }
                outcome = one();
            }
            let report = match outcome {
                Ok(report) => report,
                Err(error) if concerns_one_conversation(&error) => failed(conversation, &error),
                Err(error) => return Err(error),
            };
            ids[index].clone_from(&report.id);
            reports.push(report);
        }
        Ok(reports)
    }

    fn import_one(
        &mut self,
        found: &Found,
        parent: Option<&ConversationId>,
        apart: &HashSet<PathBuf>,
        on_progress: &mut dyn FnMut(Read),
    ) -> Result<ImportReport> {
        let mut problems = Vec::new();
        let mut incoming = incoming::open(found, parent, apart, self.tail, &mut problems)?;
        self.planned.begin(&found.path);
        let id = identity::choose(self.store, &self.options, &self.planned, &*incoming, &mut problems)?;
        if self.options.dry_run {
            self.planned.add(&id);
        }
        if let Some(refusal) = self.past(found, &id, &mut problems)? {
            return Ok(refusal);
        }
        let mut report = ImportReport::of(found, Some(id.clone()), ImportStatus::Conflict);
        if let Some(refusal) = incoming.refusal(self.store, &id)? {
            problems.push(refusal);
            return Ok(ImportReport { problems, ..report });
        }
        let mut intake = Intake::new(self.store, &id, found, problems)?;
        intake.tail = self.tail;
        intake.footing.accepts_erased = self.options.accept_erased;
        if self.options.dry_run {
            intake.write_nothing();
        }
        let read = &mut self.read;
        let conflict = incoming.read(&mut intake, &mut |bytes| read.count(bytes, on_progress))?;
        if let Some(conflict) = conflict {
            intake.counts.report(&mut report);
            report.problems = intake.problems.finish();
            report.problems.push(conflict);
            return Ok(report);
        }
        intake.write()?;
        let around = incoming.surroundings(&mut intake)?;
        intake.counts.report(&mut report);
        self.settle(&*incoming, intake, around, report)
    }
}

/// Returns whether an error concerns only one conversation, so that the others can still be imported.
fn concerns_one_conversation(error: &Error) -> bool {
    // What is damaged in the store concerns the conversation that it is of.
    Store::is_damage(error)
        || matches!(
            error,
            Error::Io { .. }
                | Error::AttachmentTooLarge { .. }
                | Error::Payload(_)
                | Error::Around(AroundError::GoneMeanwhile { .. })
        )
}

/// Returns whether a conversation, or a file of it, was deleted or changed since the import looked. What was decided about it
/// does not hold any more.
fn is_of_the_moment(error: &Error) -> bool {
    match error {
        Error::Around(AroundError::GoneMeanwhile { .. }) => true,
        Error::Io { source, .. } => matches!(source.kind(), ErrorKind::NotFound | ErrorKind::Other),
        _ => false,
    }
}

/// How often a conversation is imported from its beginning again because it was deleted or changed meanwhile.
const RETRIES_MAX: usize = 3;

fn failed(found: &Found, error: &Error) -> ImportReport {
    let mut report = ImportReport::of(found, None, ImportStatus::Failed);
    report.problems.push(Problem {
        path: found.path.to_string_lossy().into_owned(),
        problem: error.to_string(),
        action: "its import was not finished; import it again after this is fixed".into(),
    });
    report
}

impl Found {
    /// Returns whether the conversation is a single file, or a line of one.
    pub(super) fn is_file(&self) -> bool {
        matches!(self.shape, Shape::File | Shape::Evaluation(_))
    }
}
