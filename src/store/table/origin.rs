//! Tables `origin`, `event_file` and `problem`: where an imported conversation came from, and which problems it had, so
//! that an export can write it as it was.

use std::collections::HashMap;

use rusqlite::{Connection, OptionalExtension as _, Row, params};

use super::catalogue;
use super::change::{self, Subject};
use super::kept::{Edit, Kept, Part};
use crate::error::{Error, Result};
use crate::ids::{ConversationId, Position, Sequence, Timestamp};
use crate::store::Store;
use crate::store::engine::WhileDoing as _;

const SAVE: &str = "INSERT INTO origin (conversation, source, folder, is_file, events_directory, container, \
     prefix, separator, suffix, events, base_state_path, imported_at) \
     VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12) \
     ON CONFLICT (conversation) DO UPDATE SET source = excluded.source, folder = excluded.folder, \
     is_file = excluded.is_file, events_directory = excluded.events_directory, container = excluded.container, \
     prefix = excluded.prefix, separator = excluded.separator, suffix = excluded.suffix, \
     events = excluded.events, base_state_path = excluded.base_state_path, imported_at = excluded.imported_at";
const LOAD: &str = "SELECT source, folder, is_file, events_directory, container, prefix, separator, suffix, \
     events, base_state_path FROM origin WHERE conversation = ?1";
const NAME_FILE: &str = "INSERT INTO event_file (position, path) VALUES (?1, ?2)";
const FILES: &str = "SELECT e.sequence, f.path FROM event_file AS f JOIN event AS e ON e.position = f.position \
     WHERE e.conversation = ?1 AND e.sequence BETWEEN ?2 AND ?3";
const ADD_PROBLEM: &str =
    "INSERT INTO problem (conversation, path, problem, action, found_at) VALUES (?1, ?2, ?3, ?4, ?5)";
const CLEAR_PROBLEMS: &str = "DELETE FROM problem WHERE conversation = ?1";
const PROBLEMS: &str = "SELECT path, problem, action FROM problem WHERE conversation = ?1 ORDER BY rowid";
const PROBLEM_TEXTS: &str = "SELECT rowid, path, problem FROM problem WHERE conversation = ?1 ORDER BY rowid";
#[cfg(feature = "cli")]
const BELOW: &str =
    "SELECT count(*) FROM origin WHERE source = ?1 OR substr(source, 1, length(?1) + 1) = ?1 || '/'";
const BY_FOLDER: &str = "SELECT c.id FROM origin AS o JOIN conversation AS c ON c.key = o.conversation \
     WHERE o.folder = ?1 ORDER BY c.key";

/// A single file that holds all events of a conversation.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Container {
    /// Its name within the folder.
    pub file: String,
    /// The text before, between and after the events. `None` if it is not regular; then the whole file is stored as an
    /// attachment.
    pub glue: Option<Glue>,
}

/// The text around the events of a container.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Glue {
    /// The text before the first event.
    pub prefix: String,
    /// The text between two events.
    pub separator: String,
    /// The text after the last event.
    pub suffix: String,
}

/// Where a conversation came from.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Origin {
    /// The path that it was read from.
    pub source: String,
    /// The name of its folder, or of its file.
    pub folder: String,
    /// Whether it was a single file and not a folder.
    pub is_file: bool,
    /// The directory of its events within the folder: "" or a path ending in `/`.
    pub events_directory: String,
    /// The single file that held all events, if there was one.
    pub container: Option<Container>,
    /// The number of events that were imported.
    pub events: u64,
    /// The path of its base state within the folder.
    pub base_state_path: Option<String>,
}

/// A problem that an import found, and what the import did about it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Problem {
    /// The file, within the conversation's folder.
    pub path: String,
    /// What is wrong.
    pub problem: String,
    /// What the import did about it.
    pub action: String,
}

pub(in crate::store) fn save(db: &Connection, key: i64, origin: &Origin, now: Timestamp) -> Result<()> {
    // `Created` too: the chain of changes includes the creation time only if there is an origin.
    let subjects = &[Subject::Origin, Subject::Created];
    change::replaced(db, key, subjects, || write(db, key, origin, now))
}

fn write(db: &Connection, key: i64, origin: &Origin, now: Timestamp) -> Result<()> {
    let container = origin.container.as_ref();
    let glue = container.and_then(|container| container.glue.as_ref());
    db.prepare_cached(SAVE)
        .and_then(|mut statement| {
            statement.execute(params![
                key,
                origin.source,
                origin.folder,
                origin.is_file,
                origin.events_directory,
                container.map(|container| &container.file),
                glue.map(|glue| &glue.prefix),
                glue.map(|glue| &glue.separator),
                glue.map(|glue| &glue.suffix),
                origin.events.cast_signed(),
                origin.base_state_path,
                now.0,
            ])
        })
        .doing("writing an origin")?;
    Ok(())
}

pub(in crate::store) fn load(db: &Connection, key: i64) -> Result<Option<Origin>> {
    db.prepare_cached(LOAD)
        .and_then(|mut statement| statement.query_row([key], origin).optional())
        .doing("reading an origin")
}

fn origin(row: &Row<'_>) -> rusqlite::Result<Origin> {
    let file: Option<String> = row.get(4)?;
    let prefix: Option<String> = row.get(5)?;
    let glue = match prefix {
        Some(prefix) => Some(Glue { prefix, separator: row.get(6)?, suffix: row.get(7)? }),
        None => None,
    };
    Ok(Origin {
        source: row.get(0)?,
        folder: row.get(1)?,
        is_file: row.get(2)?,
        events_directory: row.get(3)?,
        container: file.map(|file| Container { file, glue }),
        events: row.get::<_, i64>(8)?.cast_unsigned(),
        base_state_path: row.get(9)?,
    })
}

/// Stores the file name of an event, because an export would choose another name.
pub(in crate::store) fn name_file(
    db: &Connection,
    key: i64,
    place: (Position, Sequence),
    path: &str,
) -> Result<()> {
    let (position, sequence) = place;
    change::tracked_item(db, key, (Subject::EventFile, &sequence.to_string()), || {
        db.prepare_cached(NAME_FILE)
            .and_then(|mut statement| statement.execute(params![position.0.cast_signed(), path]))
            .doing("remembering a file's name")?;
        Ok(())
    })
}

/// Replaces the stored problems of a conversation.
pub(in crate::store) fn save_problems(
    db: &Connection,
    key: i64,
    problems: &[Problem],
    now: Timestamp,
) -> Result<()> {
    let doing = "writing down a problem";
    change::replaced(db, key, &[Subject::Problems], || {
        db.execute(CLEAR_PROBLEMS, [key]).doing(doing)?;
        for Problem { path, problem, action } in problems {
            db.prepare_cached(ADD_PROBLEM)
                .and_then(|mut s| s.execute(params![key, path, problem, action, now.0]))
                .doing(doing)?;
        }
        Ok(())
    })
}

/// Returns the problems of a conversation, in the order in which they were found.
pub(in crate::store) fn problems(db: &Connection, key: i64) -> Result<Vec<Problem>> {
    db.prepare_cached(PROBLEMS)
        .and_then(|mut statement| {
            let rows = statement.query_map([key], |row| {
                Ok(Problem { path: row.get(0)?, problem: row.get(1)?, action: row.get(2)? })
            })?;
            rows.collect()
        })
        .doing("reading problems")
}

/// Deletes the file names of the events after the first `length` and limits the number of imported events to `length`.
/// The events must still be there.
pub(in crate::store) fn cut(db: &Connection, key: i64, length: u64) -> Result<()> {
    for sql in [
        "DELETE FROM event_file WHERE position IN \
         (SELECT position FROM event WHERE conversation = ?1 AND sequence >= ?2)",
        "UPDATE origin SET events = min(events, ?2) WHERE conversation = ?1",
    ] {
        db.execute(sql, params![key, length.cast_signed()]).doing("cutting off what was imported")?;
    }
    Ok(())
}

/// Passes the source of a conversation, the text around its events and its problems to `edit`, and stores the texts
/// that it returns.
pub(in crate::store) fn edit(db: &Connection, key: i64, edit: Edit<'_>) -> Result<()> {
    let doing = "reading an origin";
    for (name, column) in
        [("source", "source"), ("prefix", "prefix"), ("separator", "separator"), ("suffix", "suffix")]
    {
        let text: Option<String> = db
            .query_row(&format!("SELECT {column} FROM origin WHERE conversation = ?1"), [key], |row| {
                row.get(0)
            })
            .optional()
            .doing(doing)?
            .flatten();
        let Some(text) = text else { continue };
        if let Some(new) = edit(Kept { part: Part::Origin, sequence: None, name, text: &text })? {
            let sql = format!("UPDATE origin SET {column} = ?2 WHERE conversation = ?1");
            db.execute(&sql, params![key, new]).doing("redacting an origin")?;
        }
    }
    let problems: Vec<(i64, String, String)> = db
        .prepare_cached(PROBLEM_TEXTS)
        .and_then(|mut s| s.query_map([key], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?.collect())
        .doing(doing)?;
    for (row, path, problem) in problems {
        if let Some(new) = edit(Kept { part: Part::Problem, sequence: None, name: &path, text: &problem })? {
            db.execute("UPDATE problem SET problem = ?2 WHERE rowid = ?1", params![row, new])
                .doing("redacting a problem")?;
        }
    }
    Ok(())
}

/// Deletes all rows of a conversation from these tables. Its events must still be there.
pub(in crate::store) fn delete(db: &Connection, key: i64) -> Result<()> {
    for sql in [
        "DELETE FROM event_file WHERE position IN (SELECT position FROM event WHERE conversation = ?1)",
        CLEAR_PROBLEMS,
        "DELETE FROM origin WHERE conversation = ?1",
    ] {
        db.execute(sql, [key]).doing("deleting an origin")?;
    }
    Ok(())
}

impl Store {
    /// Returns where a conversation came from. `None` if it was not imported, or the import is not complete.
    ///
    /// # Errors
    /// [`UnknownConversation`](crate::Error::UnknownConversation).
    pub fn origin(&self, conversation: &ConversationId) -> Result<Option<Origin>> {
        self.snapshot(|db| load(db, catalogue::key(db, conversation)?))
    }

    /// Returns the problems that the import of a conversation found.
    ///
    /// # Errors
    /// [`UnknownConversation`](crate::Error::UnknownConversation).
    pub fn problems(&self, conversation: &ConversationId) -> Result<Vec<Problem>> {
        self.snapshot(|db| problems(db, catalogue::key(db, conversation)?))
    }

    /// Returns how many conversations were imported from a path, or from below it. Reads the origins of all.
    #[cfg(feature = "cli")]
    pub(crate) fn imported_below(&self, path: &str) -> Result<u64> {
        let count: i64 = self.read(|db| {
            db.query_row(BELOW, [path.trim_end_matches('/')], |row| row.get(0)).doing("looking for a folder")
        })?;
        Ok(count.unsigned_abs())
    }

    /// Returns the conversations whose folder or file had this name, the oldest first.
    pub(crate) fn conversations_of_folder(&self, folder: &str) -> Result<Vec<ConversationId>> {
        let ids: Vec<String> = self.read(|db| {
            db.prepare_cached(BY_FOLDER)
                .and_then(|mut statement| statement.query_map([folder], |row| row.get(0))?.collect())
                .doing("looking for a folder")
        })?;
        ids.iter()
            .map(|id| ConversationId::new(id).map_err(Error::damaged("the id of a conversation")))
            .collect()
    }

    /// Returns the stored file names of the events from `first` to `last`, by sequence. An event without one has the
    /// name that an export chooses.
    pub(crate) fn event_files(
        &self,
        conversation: &ConversationId,
        first: u64,
        last: u64,
    ) -> Result<HashMap<u64, String>> {
        self.snapshot(|db| {
            let key = catalogue::key(db, conversation)?;
            db.prepare_cached(FILES)
                .and_then(|mut statement| {
                    let bounds = params![key, first.cast_signed(), last.cast_signed()];
                    let rows = statement
                        .query_map(bounds, |row| Ok((row.get::<_, i64>(0)?.cast_unsigned(), row.get(1)?)))?;
                    rows.collect()
                })
                .doing("reading file names")
        })
    }
}
