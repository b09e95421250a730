//! Other programs' logs: taken in as read-only copies that read as conversations and go out again as they were.
//!
//! A file is a list of records: lines, or rows of a database. Each record is kept whole, in the event that it
//! became or in the first of them, with the SHA-256 of its bytes; what it says is said by events of the kinds
//! that every conversation has, and where it says nothing that they could say, it is an event of a kind of its
//! own. Nothing is made up: what such an event lacks, the record does not tell. A session that has grown brings
//! what is new; one that differs from what is stored changes nothing.

mod claude_code;
mod codex;
mod content;
mod intake;
mod kept;
mod lines;
mod original;
pub(super) mod recognise;
mod responses;
mod session_file;
mod translation;

pub(super) use original::write as write_original;

use std::path::Path;

use crate::error::{Error, Result};
use crate::event::foreign::ForeignFormat;
use crate::ids::{ConversationId, Sequence};
use crate::store::{ArrivingFile, Container, LogCopy, Origin, Problem, Store, Surroundings};
use intake::Counts;
use session_file::SessionFile;
use translation::About;

use super::compare::changed_files;
use super::discover::Found;
use super::import::{ImportOptions, ImportReport, ImportStatus};

/// What arrived of a log.
struct Arrived {
    counts: Counts,
    problems: Vec<Problem>,
    files: Vec<ArrivingFile>,
    about: About,
    container: Option<Container>,
}

/// Why nothing of a log was taken in: it is not what was imported before.
struct Conflict {
    path: String,
    problem: String,
    sequence: Sequence,
}

/// Takes in one log.
pub(super) fn import(
    store: &Store,
    options: &ImportOptions,
    found: &Found,
    format: ForeignFormat,
    apart: &[std::path::PathBuf],
    tell: &mut dyn FnMut(u64),
) -> Result<ImportReport> {
    let file = SessionFile { path: &found.path, format, name: &found.folder, apart };
    let (about, first) = file.peek()?;
    let id = choose_id(store, options, found, format, &about, first)?;
    let stored = stored_format(store, &id)?;
    let mut report =
        ImportReport::new(Some(id.clone()), &found.path, ImportStatus::Conflict, format.as_str());
    if let Some(stored) = &stored
        && stored.as_deref() != Some(format.as_str())
    {
        report.problems.push(Problem {
            path: found.folder.clone(),
            problem: format!("the conversation {id} is here already and is no copy of a {format} log"),
            action: "left as stored; import it under another id with --as to have both".into(),
        });
        return Ok(report);
    }
    let arrived = match file.arrive(store, &id, stored.is_some(), tell)? {
        Ok(arrived) => arrived,
        Err(conflict) => {
            report.problems.push(Problem {
                path: conflict.path,
                problem: format!("{} (sequence {})", conflict.problem, conflict.sequence),
                action: "left as stored; import it under another id with --as to have both".into(),
            });
            return Ok(report);
        }
    };
    settle(store, &id, found, format, arrived, report)
}

/// Writes what stands beside the events, where there is anything new.
fn settle(
    store: &Store,
    id: &ConversationId,
    found: &Found,
    format: ForeignFormat,
    arrived: Arrived,
    mut report: ImportReport,
) -> Result<ImportReport> {
    let Arrived { counts, problems, files, about, container } = arrived;
    let before = match stored_format(store, id)? {
        Some(_) => store.origin(id)?,
        None => None,
    };
    let source = std::path::absolute(&found.path).unwrap_or_else(|_| found.path.clone());
    let own = |told: Option<String>| told.and_then(|id| ConversationId::new(&id).ok());
    let around = Surroundings {
        origin: Origin {
            source: source.to_string_lossy().into_owned(),
            folder: found.folder.clone(),
            is_file: true,
            events_directory: String::new(),
            container,
            events: counts.events,
            base_state_path: None,
        },
        base_state: None,
        files,
        problems: problems.clone(),
        title: about.title,
        tags: None,
        created_at: first_time(store, id)?,
        parent: own(about.parent),
        forked_from: about.forked_from.map(|from| (from, None)),
        copy: Some(LogCopy { format, head: about.head }),
    };
    report.events = counts.events;
    report.added = counts.added;
    report.added_bytes = counts.added_bytes;
    report.records = counts.records;
    report.unread = counts.unread;
    report.problems = problems;
    report.status = match before {
        None if report.problems.is_empty() => ImportStatus::Imported,
        None => ImportStatus::Partial,
        Some(before) => {
            let same = report.added == 0
                && before.container == around.origin.container
                && changed_files(store, id, &around.files)?.is_empty();
            if same {
                report.status = ImportStatus::Unchanged;
                return Ok(report);
            }
            ImportStatus::Updated
        }
    };
    store.finish_import(id, &around)?;
    Ok(report)
}

/// The time of the first event that tells one.
fn first_time(store: &Store, id: &ConversationId) -> Result<Option<crate::ids::Timestamp>> {
    match store.conversation(id) {
        Ok(conversation) => {
            Ok(conversation.first_timestamp.as_deref().and_then(crate::ids::Timestamp::parse))
        }
        Err(Error::UnknownConversation { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Whether the conversation is here, and of which log it is a copy.
fn stored_format(store: &Store, id: &ConversationId) -> Result<Option<Option<String>>> {
    match store.conversation(id) {
        Ok(conversation) => Ok(Some(conversation.foreign_format)),
        Err(Error::UnknownConversation { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

/// The id the log has here: its own, unless another log has brought that one already.
fn choose_id(
    store: &Store,
    options: &ImportOptions,
    found: &Found,
    format: ForeignFormat,
    about: &About,
    first: Option<crate::chain::Digest>,
) -> Result<ConversationId> {
    if let Some(id) = &options.id {
        return Ok(id.clone());
    }
    for known in store.conversations_of_folder(&found.folder)? {
        if stored_format(store, &known)?.flatten().as_deref() == Some(format.as_str())
            && begins_with(store, &known, first)?
        {
            return Ok(known);
        }
    }
    let stem = Path::new(&found.folder).file_stem().map(|stem| stem.to_string_lossy().into_owned());
    let own = [about.id.clone(), stem].into_iter().flatten().find_map(|id| ConversationId::new(&id).ok());
    let Some(own) = own else { return Ok(ConversationId::mint()) };
    let mut id = own.clone();
    let mut number = 2;
    while let Some(stored) = stored_format(store, &id)? {
        // Begun and never ended, or the same under another file's name.
        let mine = stored.as_deref() == Some(format.as_str()) && begins_with(store, &id, first)?;
        if mine {
            return Ok(id);
        }
        id = ConversationId::new(&format!("{own}~{number}"))?;
        number += 1;
    }
    Ok(id)
}

/// Whether a conversation's first record is the one with this digest; one without records is anyone's.
fn begins_with(store: &Store, id: &ConversationId, first: Option<crate::chain::Digest>) -> Result<bool> {
    let Some(kept) = kept::Kept::new(store, id, true).next()? else { return Ok(true) };
    Ok(kept.place.is_none_or(|place| Some(place.digest) == first))
}

