//! Putting a base state and HEAD back to where they were when a conversation was shorter.

use rusqlite::{Connection, params};

use super::super::catalogue;
use super::super::engine::Doing as _;
use super::{LOAD, document_at, follow, last_head_move, stored_document};
use crate::error::Result;
use crate::event::kind;
use crate::ids::{Sequence, Timestamp};

const LATER: &str = "SELECT min(version) FROM base_state_change \
     WHERE conversation = ?1 AND (sequence >= ?2 OR recorded_at > ?3)";
const CUT: &str = "DELETE FROM base_state_change WHERE conversation = ?1 AND version >= ?2";
const KEPT: &str = "SELECT coalesce(max(version), 0) FROM base_state_change WHERE conversation = ?1";
const CUT_HEADS: &str =
    "DELETE FROM head_change WHERE conversation = ?1 AND (sequence >= ?2 OR recorded_at > ?3)";
const SHORTEN: &str = "UPDATE base_state SET version = ?2 WHERE conversation = ?1";
const PUT_BACK: &str = "UPDATE base_state SET version = ?2, document = ?3, document_version = ?2, \
     first_document = CASE WHEN ?2 = 0 THEN NULL ELSE first_document END WHERE conversation = ?1";
const DROP: &str = "DELETE FROM base_state WHERE conversation = ?1";
const LAST_MOVING: &str = "SELECT id, kind FROM event WHERE conversation = ?1 ORDER BY sequence DESC";
const ADD_HEAD: &str =
    "INSERT INTO head_change (conversation, sequence, leaf_event_id, recorded_at) VALUES (?1, ?2, ?3, ?4)";

const DOING: &str = "putting a base state back";

/// Takes back every change that followed a later event than the `length`th or was recorded after `until`;
/// answers whether there was one.
pub(in super::super) fn cut(
    db: &Connection,
    key: i64,
    length: u64,
    until: Option<Timestamp>,
) -> Result<bool> {
    let until = until.map_or(i64::MAX, |time| time.0);
    let heads = db.execute(CUT_HEADS, params![key, length.cast_signed(), until]).doing(DOING)?;
    let later: Option<i64> =
        db.query_row(LATER, params![key, length.cast_signed(), until], |row| row.get(0)).doing(DOING)?;
    let Some(later) = later else { return Ok(heads > 0) };
    let document_version: i64 = db.query_row(LOAD, [key], |row| row.get(2)).doing(DOING)?;
    let first = document_at(db, key, 0)?;
    let kept = document_at(db, key, later - 1)?;
    db.execute(CUT, [key, later]).doing(DOING)?;
    let version: i64 = db.query_row(KEPT, [key], |row| row.get(0)).doing(DOING)?;
    if version == 0 && first.as_str() == "{}" {
        // The first of the changes had made it.
        db.execute(DROP, [key]).doing(DOING)?;
    } else if document_version <= version {
        db.execute(SHORTEN, [key, version]).doing(DOING)?;
    } else {
        db.execute(PUT_BACK, params![key, version, kept.as_str()]).doing(DOING)?;
    }
    for field in ["execution_status", "tags", "stats"] {
        follow(db, key, field, kept.field(field))?;
    }
    Ok(true)
}

/// Puts HEAD where it was once a conversation had `length` events: where it was moved last by an event (`moved`,
/// behind those that came with an import) or by itself, else where the base state of an import tells it. Where
/// that is not there any more, it goes to the last event that is, and the move is written down.
pub(in super::super) fn put_head_back(
    db: &Connection,
    key: i64,
    moved: Option<(u64, String)>,
    imported: Option<u64>,
    length: u64,
) -> Result<()> {
    let by_itself = last_head_move(db, key, Sequence(i64::MAX.cast_unsigned()))?;
    if let Some((behind, leaf)) = by_itself
        && moved.as_ref().is_none_or(|(sequence, _)| behind >= Some(Sequence(*sequence)))
    {
        return catalogue::set_head(db, key, leaf.as_deref(), leaf.is_none());
    }
    if let Some((_, id)) = moved {
        return catalogue::set_head(db, key, Some(&id), false);
    }
    if imported.is_none() {
        return catalogue::set_head(db, key, None, false);
    }
    let (leaf, is_empty) = stored_document(db, key)?.map_or((None, false), |document| document.head());
    let is_there = match &leaf {
        Some(leaf) => super::super::log::has(db, key, leaf)?,
        None => true,
    };
    if is_there {
        return catalogue::set_head(db, key, leaf.as_deref(), is_empty);
    }
    let leaf = last_moving(db, key)?;
    let last = length.cast_signed() - 1;
    db.execute(ADD_HEAD, params![key, last, leaf, Timestamp::now().0]).doing(DOING)?;
    catalogue::set_head(db, key, leaf.as_deref(), leaf.is_none())
}

/// The last event of a kind that moves HEAD.
fn last_moving(db: &Connection, key: i64) -> Result<Option<String>> {
    let mut statement = db.prepare_cached(LAST_MOVING).doing(DOING)?;
    let mut rows = statement.query([key]).doing(DOING)?;
    while let Some(row) = rows.next().doing(DOING)? {
        let (id, of_kind): (String, String) = (row.get(0).doing(DOING)?, row.get(1).doing(DOING)?);
        if kind::moves_head(&of_kind) {
            return Ok(Some(id));
        }
    }
    Ok(None)
}
