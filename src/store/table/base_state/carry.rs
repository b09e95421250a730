//! Copies a base state with its whole history into another file.

use rusqlite::{Connection, OptionalExtension as _, Row, params};
use sha2::{Digest as _, Sha256};

use super::{COUNT_HEADS, LOAD, STALE_USAGE};
use crate::chain::Digest;
use crate::error::Result;
use crate::store::engine::WhileDoing as _;

const ADD: &str = "INSERT INTO base_state (conversation, version, document, document_version, first_document) \
     VALUES (?1, ?2, ?3, ?4, ?5) ON CONFLICT (conversation) DO UPDATE SET version = excluded.version, \
     document = excluded.document, document_version = excluded.document_version, \
     first_document = excluded.first_document";
const CHANGES: &str = "SELECT version, field, value, sequence, recorded_at, actor FROM base_state_change \
     WHERE conversation = ?1 AND version > ?2 AND version <= ?3 ORDER BY version, rowid";
const ADD_CHANGE: &str = "INSERT INTO base_state_change (conversation, version, field, value, sequence, recorded_at, \
     actor) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)";
const HEADS: &str = "SELECT sequence, leaf_event_id, recorded_at FROM head_change \
     WHERE conversation = ?1 ORDER BY rowid LIMIT ?2";
const ADD_HEAD: &str =
    "INSERT INTO head_change (conversation, sequence, leaf_event_id, recorded_at) VALUES (?1, ?2, ?3, ?4)";

const READING: &str = "reading the history of a base state";
const CARRYING: &str = "taking a base state over";

/// A base state's row and the number of moves of HEAD without an event, as of one snapshot.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(in crate::store) struct Carried {
    row: Option<StoredRow>,
    heads: i64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct StoredRow {
    version: i64,
    document: String,
    document_version: i64,
    first_document: Option<String>,
}

/// One row of the history of changes.
struct Change {
    version: i64,
    field: String,
    value: Option<String>,
    sequence: i64,
    recorded_at: i64,
    actor: Option<String>,
}

fn change(row: &Row<'_>) -> rusqlite::Result<Change> {
    Ok(Change {
        version: row.get(0)?,
        field: row.get(1)?,
        value: row.get(2)?,
        sequence: row.get(3)?,
        recorded_at: row.get(4)?,
        actor: row.get(5)?,
    })
}

/// How the history there compares with the history here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::store) enum Histories {
    /// The two are the same.
    Same,
    /// The history there has everything of the one here, and more.
    Longer,
    /// The history here has everything of the one there, and more.
    Shorter,
    /// Each has something that the other does not have.
    Apart,
}

impl Histories {
    /// Returns the result of two comparisons together.
    pub(in crate::store) fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::Same, other) | (other, Self::Same) => other,
            (one, other) if one == other => one,
            _ => Self::Apart,
        }
    }
}

/// Reads what is stored now.
pub(in crate::store) fn load(db: &Connection, key: i64) -> Result<Carried> {
    let row = db
        .prepare_cached(LOAD)
        .and_then(|mut statement| {
            let read = |row: &Row<'_>| {
                Ok(StoredRow {
                    version: row.get(0)?,
                    document: row.get(1)?,
                    document_version: row.get(2)?,
                    first_document: row.get(3)?,
                })
            };
            statement.query_row([key], read).optional()
        })
        .doing(READING)?;
    let heads = db
        .prepare_cached(COUNT_HEADS)
        .and_then(|mut statement| statement.query_row([key], |row| row.get(0)))
        .doing(READING)?;
    Ok(Carried { row, heads })
}

/// Compares the base state `here` with the one that is copied from `there`.
pub(in crate::store) fn compare(
    here: (&Connection, i64, &Carried),
    there: (&Connection, i64, &Carried),
) -> Result<Histories> {
    let ((db, key, mine), (from, from_key, theirs)) = (here, there);
    let states = match (&mine.row, &theirs.row) {
        (None, None) => Histories::Same,
        (None, Some(_)) => Histories::Longer,
        (Some(_), None) => Histories::Shorter,
        (Some(one), Some(other)) => {
            let version = one.version.min(other.version);
            let together = history(db, key, one, version)? == history(from, from_key, other, version)?;
            match one.version.cmp(&other.version) {
                _ if !together => Histories::Apart,
                std::cmp::Ordering::Less => Histories::Longer,
                std::cmp::Ordering::Greater => Histories::Shorter,
                std::cmp::Ordering::Equal if one.document == other.document => Histories::Same,
                std::cmp::Ordering::Equal => Histories::Apart,
            }
        }
    };
    let count = mine.heads.min(theirs.heads);
    let heads = match mine.heads.cmp(&theirs.heads) {
        _ if head_moves(db, key, count)? != head_moves(from, from_key, count)? => Histories::Apart,
        std::cmp::Ordering::Less => Histories::Longer,
        std::cmp::Ordering::Greater => Histories::Shorter,
        std::cmp::Ordering::Equal => Histories::Same,
    };
    Ok(states.and(heads))
}

/// Returns the digest of the first document and of every change up to `version`.
fn history(db: &Connection, key: i64, row: &StoredRow, version: i64) -> Result<Digest> {
    let mut hasher = Sha256::new();
    let mut add = |text: &str| {
        hasher.update((text.len() as u64).to_be_bytes());
        hasher.update(text.as_bytes());
    };
    add(row.first_document.as_ref().unwrap_or(&row.document));
    let mut statement = db.prepare_cached(CHANGES).doing(READING)?;
    let mut rows = statement.query(params![key, 0, version]).doing(READING)?;
    while let Some(row) = rows.next().doing(READING)? {
        let change = change(row).doing(READING)?;
        add(&format!("{} {} {}", change.version, change.sequence, change.recorded_at));
        add(&change.field);
        add(change.value.as_deref().unwrap_or(""));
        add(if change.value.is_some() { "set" } else { "taken away" });
    }
    Ok(Digest(hasher.finalize().into()))
}

/// Returns the digest of the first `count` moves of HEAD without an event.
fn head_moves(db: &Connection, key: i64, count: i64) -> Result<Digest> {
    let mut hasher = Sha256::new();
    let mut statement = db.prepare_cached(HEADS).doing(READING)?;
    let mut rows = statement.query([key, count]).doing(READING)?;
    while let Some(row) = rows.next().doing(READING)? {
        let (sequence, leaf, at): (i64, Option<String>, i64) =
            row.get(0).and_then(|sequence| Ok((sequence, row.get(1)?, row.get(2)?))).doing(READING)?;
        hasher.update(format!("{sequence} {at} {leaf:?}\n"));
    }
    Ok(Digest(hasher.finalize().into()))
}

/// Copies the document from `there`, and all of its history that is not here yet.
pub(in crate::store) fn carry(here: (&Connection, i64), there: (&Connection, i64, &Carried)) -> Result<()> {
    let ((db, key), (from, from_key, theirs)) = (here, there);
    let mine = load(db, key)?;
    if let Some(row) = &theirs.row {
        db.prepare_cached(ADD)
            .and_then(|mut statement| {
                let StoredRow { version, document, document_version, first_document } = row;
                statement.execute(params![key, version, document, document_version, first_document])
            })
            .doing(CARRYING)?;
        let known = mine.row.map_or(0, |row| row.version);
        let mut statement = from.prepare_cached(CHANGES).doing(CARRYING)?;
        let mut rows = statement.query(params![from_key, known, row.version]).doing(CARRYING)?;
        while let Some(row) = rows.next().doing(CARRYING)? {
            let Change { version, field, value, sequence, recorded_at, actor } =
                change(row).doing(CARRYING)?;
            db.prepare_cached(ADD_CHANGE)
                .and_then(|mut s| {
                    s.execute(params![key, version, field, value, sequence, recorded_at, actor])
                })
                .doing(CARRYING)?;
        }
        db.prepare_cached(STALE_USAGE).and_then(|mut s| s.execute([key])).doing(CARRYING)?;
    }
    let mut statement = from.prepare_cached(HEADS).doing(CARRYING)?;
    let mut rows = statement.query([from_key, theirs.heads]).doing(CARRYING)?;
    let mut place = 0;
    while let Some(row) = rows.next().doing(CARRYING)? {
        place += 1;
        if place <= mine.heads {
            continue;
        }
        let (sequence, leaf, at): (i64, Option<String>, i64) =
            row.get(0).and_then(|sequence| Ok((sequence, row.get(1)?, row.get(2)?))).doing(CARRYING)?;
        db.prepare_cached(ADD_HEAD)
            .and_then(|mut statement| statement.execute(params![key, sequence, leaf, at]))
            .doing(CARRYING)?;
    }
    Ok(())
}
