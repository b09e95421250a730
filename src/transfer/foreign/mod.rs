//! Imports logs of other programs as read-only copies. They read as conversations and can be exported as they were.
//!
//! A file is a list of records: lines, or rows of a database. Each record is kept whole, in its event or in the first
//! of its events, with the SHA-256 of its bytes. If its content has a counterpart among the kinds of events that every
//! conversation has, it becomes such events. Otherwise it becomes an event of a kind of its own. Nothing is invented:
//! if such an event lacks a member, the record has no value for it. If a session has grown, its new records are added.
//! If it differs from what is stored, nothing changes.

mod claude_code;
mod codex;
mod content;
mod database;
mod importer;
mod intake;
mod kept;
mod langgraph;
mod lines;
mod msgpack;
mod openai_agents;
mod original;
pub(super) mod recognise;
mod responses;
mod row;
mod session_file;
mod translation;

pub(super) use database::conversations;
pub(super) use importer::{description, has_folder, is_database};
pub(super) use original::{write as write_original, write_database};

use std::collections::HashSet;
use std::path::Path;

use crate::error::Result;
use crate::event::foreign::ForeignFormat;
use crate::ids::{CONVERSATION_ID_BYTES_MAX, ConversationId, Sequence};
use crate::store::{
    ArrivingFile, Attachment, Container, LogCopy, Origin, Problem, Store, Surroundings, TITLE_BYTES_MAX,
};
use database::Session;
use importer::Records;
use intake::Counts;
use session_file::SessionFile;
use translation::About;

use super::compare::{CONFLICT, Losses, changed_files};
use super::discover::Found;
use super::folder;
use super::report::{ImportOptions, ImportReport, ImportStatus};

/// The result of reading a log.
struct Arrived {
    counts: Counts,
    problems: Vec<Problem>,
    files: Vec<ArrivingFile>,
    /// The paths of files beside the log that are conversations of their own.
    logs: HashSet<String>,
    about: About,
    container: Option<Container>,
}

/// The reason why a log was not imported: it differs from what was imported before.
struct Conflict {
    path: String,
    problem: String,
    sequence: Sequence,
}

/// A log that was found in a search.
pub(super) struct Log<'a> {
    pub found: &'a Found,
    pub format: ForeignFormat,
    /// The key of the conversation in a database. `None` for a session file.
    pub key: Option<&'a str>,
}

/// What a log is read from.
enum Reader<'a> {
    File(SessionFile<'a>),
    Session(Session<'a>),
}

impl Log<'_> {
    fn reader(&self) -> Reader<'_> {
        let importer = importer::of(self.format);
        let Found { path, folder: name, .. } = self.found;
        match &importer.records {
            Records::Lines(lines) => Reader::File(SessionFile { path, name, importer, lines }),
            Records::Rows(rows) => {
                // Every conversation that is found in a database has a key.
                Reader::Session(Session { path, name, importer, rows, key: self.key.unwrap_or_default() })
            }
        }
    }

    /// Returns its name in the conversation's origin: the file's name, and the key in a database.
    fn folder(&self) -> String {
        match self.key {
            Some(key) => format!("{}#{key}", self.found.folder),
            None => self.found.folder.clone(),
        }
    }

    /// Returns the id that the conversation has in the log.
    fn own_id(&self) -> Result<Option<ConversationId>> {
        let own = match self.reader() {
            Reader::Session(session) => Some(session.key.to_owned()),
            Reader::File(file) => file.peek()?.0.id,
        };
        let stem = Path::new(&self.found.folder).file_stem().map(|stem| stem.to_string_lossy().into_owned());
        let legal = |id: String| ConversationId::new(&id.replace(['/', '\\'], "-")).ok();
        Ok([own, stem].into_iter().flatten().find_map(legal))
    }

    /// Returns whether a stored conversation was imported from this log. The import may be incomplete.
    fn is_of(&self, store: &Store, id: &ConversationId) -> Result<bool> {
        if stored_format(store, id)?.flatten().as_deref() != Some(self.format.as_str()) {
            return Ok(false);
        }
        let file = match self.reader() {
            Reader::Session(session) => return session.is_of(store, id),
            Reader::File(file) => file,
        };
        let Some(kept) = kept::Kept::new(store, id, true).next()? else { return Ok(true) };
        let (_, first) = file.peek()?;
        Ok(kept.place.is_none_or(|place| Some(place.digest) == first))
    }
}

/// Imports one log as the conversation `id`. `problems` are the problems that are known already.
pub(super) fn import(
    store: &Store,
    options: &ImportOptions,
    log: &Log<'_>,
    id: &ConversationId,
    problems: Vec<Problem>,
    on_record: &mut dyn FnMut(u64),
) -> Result<ImportReport> {
    let format = log.format;
    let stored = stored_format(store, id)?;
    let mut report = ImportReport::of(log.found, Some(id.clone()), ImportStatus::Conflict);
    report.problems = problems;
    let other = match &stored {
        Some(stored) if stored.as_deref() != Some(format.as_str()) => Some("is no copy of a log like this"),
        Some(_) if log.key.is_some() && !log.is_of(store, id)? => Some("has none of its rows"),
        _ => None,
    };
    if let Some(other) = other {
        report.problems.push(Problem {
            path: log.folder(),
            problem: format!("the conversation {id} is here already and {other}"),
            action: CONFLICT.into(),
        });
        return Ok(report);
    }
    let arrived = match log.reader() {
        Reader::Session(session) => Ok(session.arrive(store, id, stored.is_some(), on_record)?),
        Reader::File(file) => file.arrive(store, id, stored.is_some(), on_record)?,
    };
    match arrived {
        Ok(arrived) => settle(store, options, id, log, arrived, report),
        Err(conflict) => {
            report.problems.push(Problem {
                path: conflict.path,
                problem: format!("{} (sequence {})", conflict.problem, conflict.sequence),
                action: CONFLICT.into(),
            });
            Ok(report)
        }
    }
}

/// Stores the data beside the events, if anything is new.
fn settle(
    store: &Store,
    options: &ImportOptions,
    id: &ConversationId,
    log: &Log<'_>,
    mut arrived: Arrived,
    mut report: ImportReport,
) -> Result<ImportReport> {
    let Counts { events, added, added_bytes, records, unread } = arrived.counts.clone();
    report = ImportReport { events, added, added_bytes, records, unread, ..report };
    arrived.problems.splice(0..0, std::mem::take(&mut report.problems));
    let logs = std::mem::take(&mut arrived.logs);
    let mut around = surroundings(store, id, log, arrived)?;
    report.problems.clone_from(&around.problems);
    let before = match stored_format(store, id)? {
        Some(_) => store.origin(id)?,
        None => None,
    };
    let Some(before) = before else {
        store.finish_import(id, &around)?;
        let whole = report.problems.is_empty();
        report.status = if whole { ImportStatus::Imported } else { ImportStatus::Partial };
        return Ok(report);
    };
    let brings_nothing = report.added == 0 && !store.is_unfinished(id)?;
    if brings_nothing
        && changed_files(store, id, &around.files)?.is_empty()
        && before.container == around.origin.container
    {
        report.status = ImportStatus::Unchanged;
        return Ok(report);
    }
    // A part of the log that is kept as a file changes when the log grows. A file that was kept before anything of a
    // log was in it is a conversation of its own now.
    let is_taken = |stored: &Attachment, _: Option<&ArrivingFile>| {
        let after_name = stored.path.strip_prefix(&log.found.folder);
        after_name.is_some_and(|rest| rest.starts_with('.')) || logs.contains(&stored.path)
    };
    let losses = Losses::of(store, id, &around.files, &is_taken)?;
    if brings_nothing && !losses.is_empty() && !options.accept_changed_files {
        report.problems.extend(losses.into_refusals());
        return Ok(report);
    }
    losses.settle(store, id, options, &mut around)?;
    report.problems = around.problems;
    report.status = ImportStatus::Updated;
    Ok(report)
}

/// Returns the data beside the events.
fn surroundings(store: &Store, id: &ConversationId, log: &Log<'_>, arrived: Arrived) -> Result<Surroundings> {
    let Arrived { counts, mut problems, files, about, container, .. } = arrived;
    let mut bounded = |text: Option<String>, what: &str, max: usize, action: &str| {
        text.filter(|text| {
            let fits = text.len() <= max;
            if !fits {
                problems.push(Problem {
                    path: log.folder(),
                    problem: format!("its {what} has {} bytes, at most {max} are allowed", text.len()),
                    action: action.into(),
                });
            }
            fits
        })
    };
    let untitled = "kept in the log; the conversation does not get this title";
    let title = bounded(about.title, "title", TITLE_BYTES_MAX, untitled);
    let unused = "kept in the log; the value is not used";
    let parent = bounded(about.parent, "parent's id", CONVERSATION_ID_BYTES_MAX, unused);
    let forked_from = bounded(about.forked_from, "original's id", CONVERSATION_ID_BYTES_MAX, unused);
    Ok(Surroundings {
        origin: Origin {
            source: folder::in_full(&log.found.path),
            folder: log.folder(),
            is_file: log.key.is_none(),
            events_directory: String::new(),
            container,
            events: counts.events,
            base_state_path: None,
        },
        base_state: None,
        files,
        kept: HashSet::new(),
        problems,
        title,
        tags: None,
        created_at: first_time(store, id)?,
        parent: parent.and_then(|id| ConversationId::new(&id).ok()),
        forked_from: forked_from.map(|from| (from, None)),
        copy: Some(LogCopy { format: log.format.as_str(), head: about.head }),
    })
}

/// Returns the time of the first event that has one.
fn first_time(store: &Store, id: &ConversationId) -> Result<Option<crate::ids::Timestamp>> {
    let row = store.find(id)?;
    Ok(row.and_then(|row| row.first_timestamp.as_deref().and_then(crate::ids::Timestamp::parse)))
}

/// Returns the format of the log that a stored conversation is a copy of. The outer `None` means that there is no such
/// conversation, the inner `None` that it is no copy.
fn stored_format(store: &Store, id: &ConversationId) -> Result<Option<Option<String>>> {
    Ok(store.find(id)?.map(|row| row.foreign_format))
}

/// Returns the id for the log: its own id, unless another log was imported under that id.
pub(super) fn choose_id(store: &Store, options: &ImportOptions, log: &Log<'_>) -> Result<ConversationId> {
    if let Some(id) = &options.id {
        return Ok(id.clone());
    }
    for known in store.conversations_of_folder(&log.folder())? {
        if log.is_of(store, &known)? {
            return Ok(known);
        }
    }
    let Some(own) = log.own_id()? else { return Ok(ConversationId::mint()) };
    let mut id = own.clone();
    let mut number = 2;
    while stored_format(store, &id)?.is_some() {
        // An interrupted import of this log, or an import of the same log under another file name.
        if log.is_of(store, &id)? {
            return Ok(id);
        }
        id = ConversationId::new(&format!("{own}~{number}"))?;
        number += 1;
    }
    Ok(id)
}
