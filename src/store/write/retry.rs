//! Recognizes a retry: an append whose events, change of the base state and move of HEAD were all made before.
//!
//! A change and a move are stored with the sequence of the event before them. If all events of an append are known, its
//! change and its move are searched at the last of them, so a retry finds them whatever has happened since. A change
//! or a move whose result is already the present state also counts as made.

use rusqlite::{Connection, OptionalExtension as _, params};

use super::append::{Append, Appended, Leaf};
use crate::error::Result;
use crate::ids::Sequence;
use crate::json::Raw;
use crate::state::base::FieldChange;
use crate::store::engine::{self, WhileDoing as _};
use crate::store::table::base_state::{self, BaseStateChange};
use crate::store::table::catalogue::Entry;
use crate::store::table::log;

const CHANGES_BEHIND: &str = "SELECT version, field, value FROM base_state_change \
     WHERE conversation = ?1 AND sequence = ?2 ORDER BY version, rowid";
const MOVE_BEHIND: &str = "SELECT 1 FROM head_change \
     WHERE conversation = ?1 AND sequence = ?2 AND leaf_event_id IS ?3 LIMIT 1";

/// The parts of an append that are not made yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Missing {
    /// The change of the base state.
    pub base_state: bool,
    /// The move of HEAD.
    pub leaf: bool,
}

/// Returns the places of all events of `append` if it was made before: each event is in the log with the same bytes,
/// and the append's change and move are made.
pub(super) fn made_before(db: &Connection, entry: &Entry, append: &Append) -> Result<Option<Vec<Appended>>> {
    let mut places = Vec::with_capacity(append.events.len());
    for event in &append.events {
        match log::find(db, entry.key, event)? {
            Some(known) if known.same => {
                places.push(Appended { sequence: known.sequence, position: known.position, known: true });
            }
            _ => return Ok(None),
        }
    }
    let nothing = Missing { base_state: false, leaf: false };
    let was_made = !places.is_empty() && missing(db, entry, append, &places)? == nothing;
    Ok(was_made.then_some(places))
}

/// Returns the parts of `append` that are still to be made after its events were put at `places`.
pub(super) fn missing(
    db: &Connection,
    entry: &Entry,
    append: &Append,
    places: &[Appended],
) -> Result<Missing> {
    let mut missing = Missing { base_state: append.base_state.is_some(), leaf: append.leaf.is_some() };
    let is_retry = places.iter().all(|place| place.known);
    let Some(last) = places.iter().map(|place| place.sequence).max().filter(|_| is_retry) else {
        return Ok(missing);
    };
    if let Some(change) = &append.base_state {
        missing.base_state = !was_changed(db, entry, change, last)? && !is_current(db, entry, change)?;
    }
    if let Some(leaf) = &append.leaf {
        missing.leaf = !was_moved(db, entry, leaf, last)?;
    }
    Ok(missing)
}

/// Returns whether a version after the event at `behind` consists of exactly this change.
fn was_changed(db: &Connection, entry: &Entry, change: &BaseStateChange, behind: Sequence) -> Result<bool> {
    let doing = "looking for a change of the base state";
    let rows: Vec<(i64, FieldChange)> = db
        .prepare_cached(CHANGES_BEHIND)
        .and_then(|mut statement| {
            let read = |row: &rusqlite::Row<'_>| {
                Ok((row.get(0)?, FieldChange { field: row.get(1)?, value: row.get(2)? }))
            };
            statement.query_map(params![entry.key, engine::place(behind.0)], read)?.collect()
        })
        .doing(doing)?;
    for written in rows.chunk_by(|a, b| a.0 == b.0) {
        let before = written[0].0 - 1;
        if change.expected.is_some_and(|expected| engine::place(expected.0) != before) {
            continue;
        }
        let wanted = base_state::rows(db, entry.key, before, &change.fields)?;
        if written.iter().map(|(_, change)| change).eq(&wanted) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Returns whether each field already has its new value. False if the writer expects a version.
fn is_current(db: &Connection, entry: &Entry, change: &BaseStateChange) -> Result<bool> {
    if change.expected.is_some() {
        return Ok(false);
    }
    let Some(stored) = base_state::stored_document(db, entry.key)? else { return Ok(false) };
    let Some(fields) = base_state::merged(&change.fields) else { return Ok(false) };
    Ok(fields.iter().all(|change| {
        let (field, extends) = change.target();
        !extends && stored.field(field).map(Raw::text) == change.value.as_deref()
    }))
}

/// Returns whether HEAD was moved there after the event at `behind`, or is there now.
fn was_moved(db: &Connection, entry: &Entry, target: &Leaf, behind: Sequence) -> Result<bool> {
    let leaf = match target {
        Leaf::At(id) => Some(id.as_str()),
        Leaf::Empty => None,
    };
    if (entry.leaf.as_deref(), entry.head_is_empty) == (leaf, leaf.is_none()) {
        return Ok(true);
    }
    db.prepare_cached(MOVE_BEHIND)
        .and_then(|mut statement| {
            statement.query_row(params![entry.key, engine::place(behind.0), leaf], |_| Ok(())).optional()
        })
        .doing("looking for a move of HEAD")
        .map(|found| found.is_some())
}
