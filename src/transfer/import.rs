//! Taking conversations in.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use super::compare::{Match, Stored, changed_files};
use super::discover::{Found, Shape, discover};
use super::layout;
use super::meta::Meta;
use super::source::{Candidate, Source};
use crate::error::{Error, Result};
use crate::ids::ConversationId;
use crate::state::BaseDocument;
use crate::store::{Arrival, Attachment, Problem, Store, Surroundings};

/// How much is written in one transaction.
const CHUNK_EVENTS: usize = 1000;
const CHUNK_BYTES: usize = 4 << 20;

/// How to import.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ImportOptions {
    /// Give the conversation this id instead of its own; for a single one.
    pub id: Option<ConversationId>,
    /// Take over files beside the events that have changed although no event was added.
    pub accept_changed_files: bool,
    /// Take in conversations again that were erased here.
    pub accept_erased: bool,
}

/// What became of a conversation that was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ImportStatus {
    /// It is new here, and all of it was taken in.
    Imported,
    /// It is here already, and is the same.
    Unchanged,
    /// It was here and has grown; what is new was added.
    Updated,
    /// It is new here; something in it could not be an event, or is not as it should be.
    Partial,
    /// It is here and differs; nothing was touched.
    Conflict,
    /// It could not be read at all.
    Failed,
}

impl ImportStatus {
    /// The name in JSON and on the command line.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Imported => "imported",
            Self::Unchanged => "unchanged",
            Self::Updated => "updated",
            Self::Partial => "partial",
            Self::Conflict => "conflict",
            Self::Failed => "failed",
        }
    }
}

/// What became of one conversation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImportReport {
    /// Its id here; `None` where it has none because it failed.
    pub id: Option<ConversationId>,
    /// Where it was found.
    pub path: PathBuf,
    /// What became of it.
    pub status: ImportStatus,
    /// How many of its events are here now.
    pub events: u64,
    /// How many of them this import added.
    pub added: u64,
    /// Payload bytes that this import added.
    pub added_bytes: u64,
    /// What is wrong with it, and what was done about that.
    pub problems: Vec<Problem>,
}

/// How far an import is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImportProgress<'a> {
    /// The conversation that is read.
    pub path: &'a Path,
    /// Its number, from 0.
    pub conversation: usize,
    /// How many were found.
    pub conversations: usize,
    /// Events read so far, in all of them.
    pub events: u64,
    /// Payload bytes read so far, in all of them.
    pub bytes: u64,
}

/// Takes conversations into a store.
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

/// Told how far an import is.
pub type OnProgress<'p> = &'p mut dyn FnMut(ImportProgress<'_>);

impl<'a> Importer<'a> {
    /// An importer into `store`.
    #[must_use]
    pub fn new(store: &'a Store, options: ImportOptions) -> Self {
        Self { store, options, read: Read::default() }
    }

    /// Takes in every conversation at and below `path`; answers what became of each, in the order found.
    ///
    /// A conversation that cannot be read does not keep the others out. Doing it again changes nothing;
    /// after a crash it goes on where it was.
    ///
    /// # Errors
    /// [`Error::Io`] where `path` is not there, and what writing to the store can meet.
    pub fn import(&mut self, path: &Path, progress: OnProgress<'_>) -> Result<Vec<ImportReport>> {
        let found = discover(path)?.found;
        let mut reports: Vec<ImportReport> = Vec::with_capacity(found.len());
        for (index, one) in found.iter().enumerate() {
            let parent = one.parent.and_then(|parent| reports[parent].id.clone());
            let apart: Vec<PathBuf> = found
                .iter()
                .filter(|other| other.parent == Some(index))
                .map(|other| other.path.clone())
                .collect();
            let total = found.len();
            let mut tell = |read: Read| {
                progress(ImportProgress {
                    path: &one.path,
                    conversation: index,
                    conversations: total,
                    events: read.events,
                    bytes: read.bytes,
                });
            };
            tell(self.read);
            let report = match self.import_one(one, parent.as_ref(), &apart, &mut tell) {
                Ok(report) => report,
                Err(error) if concerns_one_conversation(&error) => failed(one, &error),
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
        apart: &[PathBuf],
        tell: &mut dyn FnMut(Read),
    ) -> Result<ImportReport> {
        let source = Source::open(found, apart)?;
        let (base_state, mut problems) = source.base_state()?;
        let meta = source.meta()?;
        problems.extend(source.listing.problems.iter().cloned());
        let id = self.choose_id(&source, parent, base_state.as_ref(), &meta, &mut problems)?;
        if let Some(refusal) = self.past(found, &id, &mut problems)? {
            return Ok(refusal);
        }
        let mut intake = Intake::new(self.store, &id, problems);
        let read = &mut self.read;
        let shape = source.each(&mut |candidate| {
            read.events += 1;
            read.bytes += candidate.bytes();
            if read.events.is_multiple_of(256) {
                tell(*read);
            }
            intake.take(candidate)
        })?;
        intake.write_chunk()?;
        let Intake { aside, mut problems, stored, added, added_bytes, conflict, .. } = intake;
        let mut report = ImportReport {
            id: Some(id.clone()),
            path: found.path.clone(),
            status: ImportStatus::Conflict,
            events: stored.matched + added,
            added,
            added_bytes,
            problems: Vec::new(),
        };
        if let Some(conflict) = conflict {
            problems.push(conflict);
            return Ok(ImportReport { problems, ..report });
        }
        // A container that has lost an element cannot be made up again from the others.
        let glued = aside.is_empty();
        let files = source.files(base_state.is_some(), shape.as_ref(), aside)?;
        let around = Surroundings {
            origin: source.origin(report.events, base_state.is_some(), shape, glued),
            base_state,
            files,
            problems: problems.clone(),
            title: meta.title,
            tags: meta.tags,
            created_at: meta.created_at,
            parent: parent.cloned().or(meta.parent),
            forked_from: meta.forked_from,
        };
        report.problems = problems;
        self.settle(&id, stored, &around, report)
    }

    /// Compares what stands beside the events with what is stored, and writes it where it is to be written.
    fn settle(
        &self,
        id: &ConversationId,
        mut stored: Stored<'_>,
        around: &Surroundings,
        mut report: ImportReport,
    ) -> Result<ImportReport> {
        let before = if self.exists(id)? { self.store.origin(id)? } else { None };
        let Some(before) = before else {
            self.store.finish_import(id, around)?;
            let whole = report.problems.is_empty();
            report.status = if whole { ImportStatus::Imported } else { ImportStatus::Partial };
            return Ok(report);
        };
        if report.added > 0 {
            self.store.finish_import(id, around)?;
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
        let went_on_here = !stored.is_exhausted()?;
        let mut changed = changed_files(self.store, id, &around.files)?;
        let base_state = around.base_state.as_ref().map(|document| self.store.without_redacted(id, document));
        if self.store.stored_document(id)? != base_state.transpose()? {
            changed.push(around.origin.base_state_path.clone().unwrap_or_else(|| layout::BASE_STATE.into()));
        }
        if changed.is_empty() || went_on_here {
            report.status = ImportStatus::Unchanged;
        } else if self.options.accept_changed_files {
            self.store.finish_import(id, around)?;
            self.store.note_acceptance(id, "changed files")?;
            report.status = ImportStatus::Updated;
        } else {
            report.problems.extend(changed.into_iter().map(|path| Problem {
                path,
                problem: "it is not the file that was imported, and no event is new".into(),
                action: "left as stored; --accept-changed-files takes it over".into(),
            }));
        }
        Ok(report)
    }

    pub(super) fn exists(&self, id: &ConversationId) -> Result<bool> {
        match self.store.conversation(id) {
            Ok(_) => Ok(true),
            Err(Error::UnknownConversation { .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// The id this conversation has here.
    ///
    /// Its own, unless another folder has brought that one already: a copy under another name, changed or
    /// not, is a conversation of its own and is called like its folder. Sub-agents of two conversations are
    /// two, whatever they are called.
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
        let told = base_state.and_then(|document| document.text("id").map(|id| id.into_owned()));
        let told = told.or_else(|| meta.id.clone()).and_then(|id| ConversationId::new(&id).ok());
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
        if let Some(id) = by_id(&told).or_else(|| by_id(&named)).or_else(numbered) {
            return Ok(id);
        }
        let Some(own) = told.or_else(|| named.clone()) else { return Ok(ConversationId::mint()) };
        if !self.exists(&own)? {
            return Ok(own);
        }
        let canonical = |folder: &str| ConversationId::new(folder).ok().as_ref() == Some(&own);
        match self.store.origin(&own)? {
            Some(_) if parent.is_some() => {}
            Some(origin) if named.as_ref() != Some(&own) && !canonical(&origin.folder) => {}
            _ => return Ok(own),
        }
        let mut other = named.unwrap_or_else(ConversationId::mint);
        let mut number = 2;
        while self.exists(&other)? {
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

/// Takes in one conversation's events: those that are stored are compared, the others written.
struct Intake<'a> {
    store: &'a Store,
    id: &'a ConversationId,
    stored: Stored<'a>,
    /// Where files with a reason are that an earlier import kept aside.
    known_aside: HashMap<String, Attachment>,
    chunk: Vec<Arrival>,
    /// The files of the chunk's events, as they are told in problems.
    chunk_paths: Vec<String>,
    chunk_bytes: usize,
    aside: Vec<(String, String)>,
    problems: Vec<Problem>,
    conflict: Option<Problem>,
    added: u64,
    added_bytes: u64,
}

impl<'a> Intake<'a> {
    fn new(store: &'a Store, id: &'a ConversationId, problems: Vec<Problem>) -> Self {
        let exists = store.conversation(id).is_ok();
        let known_aside = if exists { store.attachments(id).unwrap_or_default() } else { Vec::new() };
        let mut stored = Stored::new(store, id);
        if !exists {
            stored.nothing();
        }
        Self {
            store,
            id,
            stored,
            known_aside: known_aside
                .into_iter()
                .filter(|file| file.reason.is_some())
                .map(|file| (file.path.clone(), file))
                .collect(),
            chunk: Vec::new(),
            chunk_paths: Vec::new(),
            chunk_bytes: 0,
            aside: Vec::new(),
            problems,
            conflict: None,
            added: 0,
            added_bytes: 0,
        }
    }

    fn take(&mut self, candidate: Candidate) -> Result<()> {
        if self.conflict.is_some() {
            return Ok(());
        }
        self.problems.extend(candidate.problems);
        let event = match candidate.event {
            Ok(event) => event,
            Err(reason) => {
                self.keep_aside(candidate.path, reason);
                return Ok(());
            }
        };
        if self.known_aside.get(&candidate.path).is_some_and(|file| file.is_or_was(event.digest())) {
            self.keep_aside(candidate.path, second_event(event.id().as_str()));
            return Ok(());
        }
        match self.stored.compare(&event)? {
            Match::Same => Ok(()),
            Match::Different(stored) => {
                let problem = if stored.id == *event.id() {
                    format!("event {} has another payload than the stored one", event.id())
                } else {
                    format!(
                        "event {} stands where {} is stored (sequence {})",
                        event.id(),
                        stored.id,
                        stored.sequence
                    )
                };
                let action = "left as stored; import it under another id with --as to have both".into();
                self.conflict = Some(Problem { path: candidate.path, problem, action });
                Ok(())
            }
            Match::New => {
                self.chunk_bytes += event.payload().len();
                self.chunk.push(Arrival { event, file: candidate.file });
                self.chunk_paths.push(candidate.path);
                if self.chunk.len() >= CHUNK_EVENTS || self.chunk_bytes >= CHUNK_BYTES {
                    self.write_chunk()?;
                }
                Ok(())
            }
        }
    }

    fn write_chunk(&mut self) -> Result<()> {
        if self.chunk.is_empty() {
            return Ok(());
        }
        let written = self.store.import_events(self.id, &self.chunk)?;
        self.chunk_bytes = 0;
        let paths = std::mem::take(&mut self.chunk_paths);
        for ((arrival, path), written) in std::mem::take(&mut self.chunk).into_iter().zip(paths).zip(written)
        {
            if written {
                self.added += 1;
                self.added_bytes += arrival.event.payload().len() as u64;
            } else {
                self.keep_aside(path, second_event(arrival.event.id().as_str()));
            }
        }
        Ok(())
    }

    fn keep_aside(&mut self, path: String, reason: String) {
        self.problems.push(Problem {
            path: path.clone(),
            problem: reason.clone(),
            action: "kept as an attachment".into(),
        });
        self.aside.push((path, reason));
    }
}

fn second_event(id: &str) -> String {
    format!("a second event with the id {id}")
}

/// Whether a failure is one conversation's and the others can still be taken in.
fn concerns_one_conversation(error: &Error) -> bool {
    matches!(
        error,
        Error::Io { .. }
            | Error::AttachmentTooLarge { .. }
            | Error::Payload(_)
            | Error::BaseState(_)
            | Error::Id(_)
    )
}

fn failed(found: &Found, error: &Error) -> ImportReport {
    ImportReport {
        id: None,
        path: found.path.clone(),
        status: ImportStatus::Failed,
        events: 0,
        added: 0,
        added_bytes: 0,
        problems: vec![Problem {
            path: found.path.to_string_lossy().into_owned(),
            problem: error.to_string(),
            action: "nothing of it was finished; import it again once this is mended".into(),
        }],
    }
}

impl Found {
    /// Whether it is one file.
    pub(super) fn is_file(&self) -> bool {
        self.shape == Shape::File
    }
}
