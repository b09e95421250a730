//! Imports conversations.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use super::compare::{CHANGED_FILES, CONFLICT, Losses, Stored, changed_file, changed_files};
use super::discover::{Found, Shape, discover};
use super::intake::{Intake, is_v0};
use super::meta::Meta;
use super::report::{ImportOptions, ImportProgress, ImportReport, ImportStatus, OnProgress};
use super::source::Source;
use super::{foreign, layout};
use crate::error::{Error, Result};
use crate::ids::ConversationId;
use crate::state::BaseDocument;
use crate::store::{ArrivingFile, Attachment, LogCopy, Problem, Store, Surroundings};

/// The format of a conversation of OpenHands V0. It is a copy, because no current program writes such events.
const OPENHANDS_V0: &str = "openhands-v0";

/// Imports conversations into a store.
#[derive(Debug)]
pub struct Importer<'a> {
    pub(super) store: &'a Store,
    pub(super) options: ImportOptions,
    read: Read,
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
        Self { store, options, read: Read::default() }
    }

    /// Imports every conversation at and below `path`. Returns their reports in the order found.
    ///
    /// A conversation that cannot be read does not stop the others. Repeating an import changes nothing. After a
    /// crash, it continues where it stopped.
    ///
    /// # Errors
    /// [`Error::Io`] if `path` does not exist, and errors of writing to the store.
    pub fn import(&mut self, path: &Path, progress: OnProgress<'_>) -> Result<Vec<ImportReport>> {
        let found = discover(path, self.options.format)?.found;
        let mut reports: Vec<ImportReport> = Vec::with_capacity(found.len());
        // The folders within each conversation's folder that belong to others.
        let mut apart = vec![HashSet::new(); found.len()];
        for other in &found {
            if let Some(parent) = other.parent {
                apart[parent].insert(other.path.clone());
            }
        }
        for (index, conversation) in found.iter().enumerate() {
            let parent = conversation.parent.and_then(|parent| reports[parent].id.clone());
            let apart = &apart[index];
            let total = found.len();
            let mut on_progress = |read: Read| {
                progress(ImportProgress {
                    path: &conversation.path,
                    conversation: index,
                    conversations: total,
                    events: read.events,
                    bytes: read.bytes,
                });
            };
            on_progress(self.read);
            let report = match self.import_one(conversation, parent.as_ref(), apart, &mut on_progress) {
                Ok(report) => report,
                Err(error) if concerns_one_conversation(&error) => failed(conversation, &error),
                Err(error) => return Err(error),
            };
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
        if let Shape::Log { format, key } = &found.shape {
            let log = foreign::Log { found, format: *format, key: key.as_deref() };
            return self.import_log(&log, on_progress);
        }
        let source = Source::open(found, apart)?;
        let (base_state, mut problems) = source.base_state()?;
        let meta = source.meta(&mut problems)?;
        problems.extend(source.listing.problems.iter().cloned());
        let id = self.choose_id(&source, parent, base_state.as_ref(), &meta, &mut problems)?;
        if let Some(refusal) = self.past(found, &id, &mut problems)? {
            return Ok(refusal);
        }
        if let Some(conflict) = self.copy_conflict(&source, &id)? {
            problems.push(conflict);
            return Ok(ImportReport {
                problems,
                ..ImportReport::of(found, Some(id), ImportStatus::Conflict)
            });
        }
        let mut intake = Intake::new(self.store, &id, source.place(), problems)?;
        let read = &mut self.read;
        let shape = source.each(&mut |candidate| {
            read.count(candidate.bytes(), on_progress);
            intake.take(candidate)
        })?;
        intake.write_chunk()?;
        let is_v0 = intake.v0_only;
        let Intake { aside, mut problems, stored, added, added_bytes, conflict, unread, .. } = intake;
        let mut report = ImportReport {
            events: stored.matched + added,
            added,
            added_bytes,
            ..ImportReport::of(found, Some(id.clone()), ImportStatus::Conflict)
        };
        if is_v0 {
            report.format = OPENHANDS_V0;
            report.records = report.events + aside.len() as u64;
            report.unread = unread;
        }
        if let Some(conflict) = conflict {
            let mut problems = problems.finish();
            problems.push(conflict);
            return Ok(ImportReport { problems, ..report });
        }
        // A container with an element that is no event cannot be written again from the events alone.
        let glued = aside.is_empty();
        let mut left_out = Vec::new();
        let files = source.files(&mut left_out, base_state.is_some(), shape.as_ref(), aside)?;
        problems.extend(left_out);
        let problems = problems.finish();
        let around = Surroundings {
            origin: source.origin(report.events, base_state.is_some(), shape, glued),
            base_state,
            files,
            kept: HashSet::new(),
            problems: problems.clone(),
            title: meta.title,
            tags: meta.tags,
            created_at: meta.created_at,
            parent: parent.cloned().or(meta.parent),
            forked_from: meta.forked_from,
            copy: is_v0.then_some(LogCopy { format: OPENHANDS_V0, head: None }),
        };
        report.problems = problems;
        self.settle(&id, &source, stored, around, report)
    }

    /// Returns the problem if the conversation `id` is a copy to which the source cannot add its events.
    ///
    /// A copy of another program's log gets the events of that log alone. A copy of an OpenHands V0 session gets only
    /// V0 events: with others, the conversation would be no copy, as after an import of the whole source.
    fn copy_conflict(&self, source: &Source<'_>, id: &ConversationId) -> Result<Option<Problem>> {
        let Some(row) = self.store.find(id)? else { return Ok(None) };
        let conflict = |path: &str, problem: String| {
            Some(Problem { path: path.to_owned(), problem, action: CONFLICT.into() })
        };
        if let Some(format) = row.foreign() {
            let problem =
                format!("the conversation {id} is here already and is a read-only copy of a {format} log");
            return Ok(conflict(&source.folder, problem));
        }
        if row.foreign_format.as_deref() != Some(OPENHANDS_V0) {
            return Ok(None);
        }
        let mut newer = None;
        source.each(&mut |candidate| {
            if newer.is_none() && candidate.event.as_ref().is_ok_and(|event| !is_v0(event)) {
                newer = Some(candidate.path);
            }
            Ok(())
        })?;
        Ok(newer.and_then(|path| {
            let problem = format!(
                "it is no event of OpenHands V0, and the conversation {id} is here already as a read-only copy of a V0 \
                 session"
            );
            conflict(&path, problem)
        }))
    }

    /// Imports another program's log.
    fn import_log(
        &mut self,
        log: &foreign::Log<'_>,
        on_progress: &mut dyn FnMut(Read),
    ) -> Result<ImportReport> {
        let id = foreign::choose_id(self.store, &self.options, log)?;
        let mut problems = Vec::new();
        if let Some(refusal) = self.past(log.found, &id, &mut problems)? {
            return Ok(refusal);
        }
        let read = &mut self.read;
        let mut on_record = |bytes| read.count(bytes, on_progress);
        foreign::import(self.store, &self.options, log, &id, problems, &mut on_record)
    }

    /// Compares the data beside the events with the stored data, and stores it if necessary.
    fn settle(
        &self,
        id: &ConversationId,
        source: &Source<'_>,
        mut stored: Stored<'_>,
        mut around: Surroundings,
        mut report: ImportReport,
    ) -> Result<ImportReport> {
        let before = if self.store.contains(id)? { self.store.origin(id)? } else { None };
        let Some(before) = before else {
            self.store.finish_import(id, &around)?;
            let whole = report.problems.is_empty();
            report.status = if whole { ImportStatus::Imported } else { ImportStatus::Partial };
            return Ok(report);
        };
        // After an interrupted import, the data beside the events may be missing even if no event is new.
        if report.added > 0 || self.store.is_unfinished(id)? {
            let follows =
                |stored: &Attachment, arriving: Option<&ArrivingFile>| source.follows(stored, arriving);
            let losses = Losses::of(self.store, id, &around.files, &follows)?;
            losses.settle(self.store, id, &self.options, &mut around)?;
            report.problems = around.problems;
            report.status = ImportStatus::Updated;
            return Ok(report);
        }
        if stored.matched < before.events {
            report.problems.push(Problem {
                path: around.origin.folder.clone(),
                problem: format!("it has {} events, {} were imported from it", stored.matched, before.events),
                action: "left as stored".into(),
            });
            return Ok(report);
        }
        let has_later_events = !stored.is_exhausted()?;
        let mut changed = changed_files(self.store, id, &around.files)?;
        let base_state = around.base_state.as_ref().map(|document| self.store.without_redacted(id, document));
        if self.store.stored_document(id)? != base_state.transpose()? {
            changed.push(around.origin.base_state_path.clone().unwrap_or_else(|| layout::BASE_STATE.into()));
        }
        if changed.is_empty() || has_later_events {
            report.status = ImportStatus::Unchanged;
        } else if self.options.accept_changed_files {
            self.store.finish_import(id, &around)?;
            self.store.note_acceptance(id, CHANGED_FILES)?;
            report.status = ImportStatus::Updated;
        } else {
            report.problems.extend(changed.into_iter().map(changed_file));
        }
        Ok(report)
    }

    /// Returns the id for this conversation.
    ///
    /// It is the conversation's own id, unless another folder was imported under that id: a copy of a folder under
    /// another name, changed or not, is a separate conversation and gets the name of its folder. Sub-agents of two
    /// conversations are separate, even if they have the same name.
    fn choose_id(
        &self,
        source: &Source<'_>,
        parent: Option<&ConversationId>,
        base_state: Option<&BaseDocument>,
        meta: &Meta,
        problems: &mut Vec<Problem>,
    ) -> Result<ConversationId> {
        if let Some(id) = &self.options.id {
            return Ok(id.clone());
        }
        let declared = base_state.and_then(|document| document.text("id").map(|id| id.into_owned()));
        let declared = declared.or_else(|| meta.id.clone()).and_then(|id| ConversationId::new(&id).ok());
        let named = ConversationId::new(&source.name()).ok();
        let mut known = self.store.conversations_of_folder(&source.folder)?;
        if parent.is_some() {
            let siblings: Vec<ConversationId> =
                parent.map_or(Ok(Vec::new()), |id| self.store.children(id))?;
            known.retain(|id| siblings.contains(id));
        }
        let by_id = |id: &Option<ConversationId>| id.as_ref().filter(|id| known.contains(id)).cloned();
        let numbered =
            || known.iter().find(|id| id.as_str().starts_with(&format!("{}~", source.name()))).cloned();
        if let Some(id) = by_id(&declared).or_else(|| by_id(&named)).or_else(numbered) {
            return Ok(id);
        }
        let Some(own) = declared.or_else(|| named.clone()) else { return Ok(ConversationId::mint()) };
        if !self.store.contains(&own)? {
            return Ok(own);
        }
        let canonical = |folder: &str| ConversationId::new(folder).ok().as_ref() == Some(&own);
        match self.store.origin(&own)? {
            Some(_) if parent.is_some() => {}
            // Another import of this folder may have ended since `known` was read.
            Some(origin) if origin.folder == source.folder => return Ok(own),
            Some(origin) if named.as_ref() != Some(&own) && !canonical(&origin.folder) => {}
            _ => return Ok(own),
        }
        let mut other = named.unwrap_or_else(ConversationId::mint);
        let mut number = 2;
        while self.store.contains(&other)? {
            other = ConversationId::new(&format!("{}~{number}", source.name()))?;
            number += 1;
        }
        problems.push(Problem {
            path: layout::BASE_STATE.into(),
            problem: format!("another folder was imported as {own}"),
            action: format!("kept as {other}"),
        });
        Ok(other)
    }
}

/// Returns whether an error concerns only one conversation, so that the others can still be imported.
fn concerns_one_conversation(error: &Error) -> bool {
    // What is damaged in the store concerns the conversation that it is of.
    Store::is_damage(error)
        || matches!(error, Error::Io { .. } | Error::AttachmentTooLarge { .. } | Error::Payload(_))
}

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
    /// Returns whether the conversation is a single file.
    pub(super) fn is_file(&self) -> bool {
        self.shape == Shape::File
    }
}
