//! Puts a base state and HEAD back to their state at an earlier length of the conversation.

use rusqlite::{Connection, params};

use super::{FOLLOWED, LOAD, document_at, follow, last_head_move, stored_document};
use crate::error::Result;
use crate::event::kind;
use crate::ids::{Sequence, Timestamp};
use crate::state::upcast::CurrentField;
use crate::store::engine::WhileDoing as _;
use crate::store::table::catalogue;
use crate::store::table::log;

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

/// Undoes every change that followed an event at sequence `length` or later, or was recorded after `until`.
///
/// Returns whether there was one.
pub(in crate::store) fn cut(
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
        // The base state was created by the first of its changes, which was undone.
        db.execute(DROP, [key]).doing(DOING)?;
    } else if document_version <= version {
        db.execute(SHORTEN, [key, version]).doing(DOING)?;
    } else {
        db.execute(PUT_BACK, params![key, version, kept.as_str()]).doing(DOING)?;
    }
    for field in FOLLOWED {
        let value = kept.current_field(field);
        follow(db, key, field, value.as_ref().map(CurrentField::raw))?;
    }
    Ok(true)
}

/// Puts HEAD where it was when a conversation had `length` events.
///
/// That is where it was last moved by an event (`moved`, without imported events) or without an event. If there was no
/// such move, it is the leaf in the base state of an import. If that leaf does not exist any more, HEAD moves to the
/// last event that can be HEAD, and the move is recorded.
pub(in crate::store) fn put_head_back(
    db: &Connection,
    key: i64,
    moved: Option<(u64, String)>,
    imported: Option<u64>,
    length: u64,
) -> Result<()> {
    let direct_move = last_head_move(db, key, Sequence(i64::MAX.cast_unsigned()))?;
    if let Some((behind, leaf)) = direct_move
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
    let (leaf, is_empty) = stored_document(db, key)?.map_or((None, false), |document| document.leaf());
    let leaf_exists = match &leaf {
        Some(leaf) => log::has(db, key, leaf)?,
        None => true,
    };
    if leaf_exists {
        return catalogue::set_head(db, key, leaf.as_deref(), is_empty);
    }
    let leaf = last_moving(db, key)?;
    let last = length.cast_signed() - 1;
    db.execute(ADD_HEAD, params![key, last, leaf, Timestamp::now().0]).doing(DOING)?;
    catalogue::set_head(db, key, leaf.as_deref(), leaf.is_none())
}

/// Returns the last event of a kind that moves HEAD.
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
