//! A log that was found, as an import reads it.

use std::collections::HashSet;
use std::path::Path;

use super::database::Session;
use super::importer::{self, Records};
use super::session_file::{Beside, SessionFile};
use super::translation::About;
use super::{kept, records};
use crate::error::Result;
use crate::event::foreign::ForeignFormat;
use crate::ids::{CONVERSATION_ID_BYTES_MAX, ConversationId, Sequence, Timestamp};
use crate::store::{
    ArrivingFile, Attachment, Container, LogCopy, Origin, Problem, Store, Surroundings, TITLE_BYTES_MAX,
};
use crate::transfer::discover::Found;
use crate::transfer::folder;
use crate::transfer::import::{CONFLICT, Changes, Incoming, Intake, Names, Others};
use crate::transfer::pages::Pages;

/// A log that was found in a search.
pub(in crate::transfer) struct Log<'a> {
    found: &'a Found,
    format: ForeignFormat,
    /// The key of the conversation in a database. `None` for a session file.
    key: Option<&'a str>,
    /// What reading the records found.
    read: Read,
    /// The paths of files beside the log that are conversations of their own.
    logs: HashSet<String>,
}

/// What reading the records of a log found.
#[derive(Default)]
pub(super) struct Read {
    /// The records that are kept as files.
    pub files: Vec<ArrivingFile>,
    pub about: About,
    pub container: Option<Container>,
}

/// What a log is read from.
enum Reader<'a> {
    File(SessionFile<'a>),
    Session(Session<'a>),
}

impl<'a> Log<'a> {
    /// Makes the reader of a log. `key` is the key of the conversation in a database.
    pub(in crate::transfer) fn new(found: &'a Found, format: ForeignFormat, key: Option<&'a str>) -> Self {
        Self { found, format, key, read: Read::default(), logs: HashSet::new() }
    }

    fn reader(&self) -> Reader<'a> {
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

    /// Returns a text of the log, or `None` and a problem if it is too long.
    fn bounded(
        &self,
        text: Option<String>,
        (what, max): (&str, usize),
        action: &str,
        intake: &mut Intake<'_>,
    ) -> Option<String> {
        let text = text?;
        if text.len() <= max {
            return Some(text);
        }
        let problem = format!("its {what} has {} bytes, at most {max} are allowed", text.len());
        intake.tell(self.folder(), problem, action);
        None
    }
}

impl Incoming for Log<'_> {
    /// It has the id that the log says, or else that of its file. Logs of other conversations may have the same file name.
    fn names(&self) -> Result<Names> {
        let says = match self.reader() {
            Reader::Session(session) => Some(session.key.to_owned()),
            Reader::File(file) => file.peek()?.0.id,
        };
        let stem = Path::new(&self.found.folder).file_stem().map(|stem| stem.to_string_lossy().into_owned());
        let legal = |id: String| ConversationId::new(&id.replace(['/', '\\'], "-")).ok();
        let own = [says, stem].into_iter().flatten().find_map(legal);
        let stem = own.as_ref().map_or_else(String::new, ToString::to_string);
        Ok(Names { folder: self.folder(), own, others: Others { first: None, stem }, declared_in: None })
    }

    fn is_of(&self, store: &Store, id: &ConversationId) -> Result<bool> {
        if stored_format(store, id)?.flatten().as_deref() != Some(self.format.as_str()) {
            return Ok(false);
        }
        let file = match self.reader() {
            Reader::Session(session) => return session.is_of(store, id),
            Reader::File(file) => file,
        };
        let first = kept::next(&mut Pages::new(store, id, Some(Sequence(0))))?;
        let Some(place) = first.and_then(|first| first.place) else { return Ok(true) };
        Ok(file.peek()?.1 == Some(place.digest))
    }

    /// The stored conversation must be a copy of a log of this format. Rows may be deleted in a database, so some of its
    /// rows must be those of the stored conversation.
    fn refusal(&self, store: &Store, id: &ConversationId) -> Result<Option<Problem>> {
        let other = match stored_format(store, id)? {
            Some(stored) if stored.as_deref() != Some(self.format.as_str()) => {
                "is no copy of a log like this"
            }
            Some(_) if self.key.is_some() && !self.is_of(store, id)? => "has none of its rows",
            _ => return Ok(None),
        };
        let problem = format!("the conversation {id} is here already and {other}");
        Ok(Some(Problem { path: self.folder(), problem, action: CONFLICT.into() }))
    }

    fn read(&mut self, intake: &mut Intake<'_>, on_record: &mut dyn FnMut(u64)) -> Result<Option<Problem>> {
        let read = match self.reader() {
            Reader::Session(session) => Ok(session.read(intake, on_record)?),
            Reader::File(file) => file.read(intake, on_record)?,
        };
        match read {
            Ok(read) => {
                self.read = read;
                Ok(None)
            }
            Err(difference) => Ok(Some(difference)),
        }
    }

    fn surroundings(&mut self, intake: &mut Intake<'_>) -> Result<Surroundings> {
        records::tell_rejected(intake);
        let Read { mut files, about, container } = std::mem::take(&mut self.read);
        if let Reader::File(file) = self.reader() {
            let beside: Beside = file.beside()?;
            files.extend(beside.files);
            intake.problems.extend(beside.problems);
            self.logs = beside.logs;
        }
        let untitled = "kept in the log; the conversation does not get this title";
        let beside = || match &importer::of(self.format).records {
            Records::Lines(lines) => about.id.as_deref().and_then(|id| (lines.title)(&self.found.path, id)),
            Records::Rows(_) => None,
        };
        let title =
            self.bounded(about.title.clone().or_else(beside), ("title", TITLE_BYTES_MAX), untitled, intake);
        let unused = "kept in the log; the value is not used";
        let max = CONVERSATION_ID_BYTES_MAX;
        let parent = self.bounded(about.parent, ("parent's id", max), unused, intake);
        let forked_from = self.bounded(about.forked_from, ("original's id", max), unused, intake);
        Ok(Surroundings {
            origin: Origin {
                source: folder::in_full(&self.found.path),
                folder: self.folder(),
                is_file: self.key.is_none(),
                events_directory: String::new(),
                container,
                events: intake.counts.events,
                base_state_path: None,
            },
            base_state: None,
            files,
            kept: HashSet::new(),
            problems: Vec::new(),
            title,
            tags: None,
            created_at: first_time(intake.store, intake.id)?,
            parent: parent.and_then(|id| ConversationId::new(&id).ok()),
            forked_from: forked_from.map(|from| (from, None)),
            copy: Some(LogCopy { format: self.format.as_str(), head: about.head }),
        })
    }

    /// A part of the log that is kept as a file changes when the log grows. A file that was kept before anything of a log
    /// was in it is a conversation of its own now.
    fn follows(&self, stored: &Attachment, _: Option<&ArrivingFile>) -> bool {
        let after_name = stored.path.strip_prefix(&self.found.folder);
        after_name.is_some_and(|rest| rest.starts_with('.')) || self.logs.contains(&stored.path)
    }

    fn changes(&self) -> Changes {
        Changes::Added
    }
}

/// Returns the time of the first event that has one.
fn first_time(store: &Store, id: &ConversationId) -> Result<Option<Timestamp>> {
    let row = store.find(id)?;
    Ok(row.and_then(|row| row.first_timestamp.as_deref().and_then(Timestamp::parse)))
}

/// Returns the format of the log that a stored conversation is a copy of. The outer `None` means that there is no such
/// conversation, the inner `None` that it is no copy.
fn stored_format(store: &Store, id: &ConversationId) -> Result<Option<Option<String>>> {
    Ok(store.find(id)?.map(|row| row.foreign_format))
}
