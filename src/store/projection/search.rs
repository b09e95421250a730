//! Table `transcript_search`: words of the transcript to positions (FTS5, contentless).
//!
//! Filled from the first search on: an index costs about as much time and a third as much room as the
//! text it covers, and many stores are never searched. From then on it follows like the others, and it
//! never keeps text that the log does not show: what is deleted is taken out first, while its words can
//! still be read, because a contentless index forgets a row only when it is told the words again.

use rusqlite::{Connection, params};

use super::super::archive::Payloads;
use super::super::engine::Doing as _;
use super::super::log;
use crate::error::Result;
use crate::event::json::Object;
use crate::event::terms;
use crate::event::transcript::Line;

pub(in super::super) const NAME: &str = "search";
const VERSION: i64 = 1;

const EVENTS: &str = "SELECT position, kind, payload FROM event \
     WHERE position > ?1 ORDER BY position LIMIT ?2";
const INSERT: &str = "INSERT INTO transcript_search (rowid, text) VALUES (?1, ?2)";
const DELETE: &str =
    "INSERT INTO transcript_search (transcript_search, rowid, text) VALUES ('delete', ?1, ?2)";
const EVENTS_OF: &str = "SELECT position, kind, payload FROM event \
     WHERE conversation = ?1 AND position <= ?2";
/// Merges the index into one piece: only then are the words of rows that were taken out really gone.
const MERGE: &str = "INSERT INTO transcript_search (transcript_search) VALUES ('optimize')";
const CLEAR: &str = "DROP TABLE IF EXISTS transcript_search";

/// The most events and payload bytes of one step.
const STEP_EVENTS_MAX: i64 = 500;
const STEP_BYTES_MAX: usize = 4 << 20;

const DOING: &str = "indexing the transcript";

/// How far the index reaches; `None` where nobody has searched yet, another version made it, or it is lost.
pub(in super::super) fn checkpoint(db: &Connection) -> Result<Option<i64>> {
    match super::stored_checkpoint(db, NAME)? {
        Some((VERSION, position)) if super::schema::missing(db, &["transcript_search"])?.is_empty() => {
            Ok(Some(position))
        }
        _ => Ok(None),
    }
}

/// Whether the index is in use and behind.
pub(in super::super) fn lags(db: &Connection) -> Result<bool> {
    let head = log::head(db)?.0.cast_signed();
    Ok(checkpoint(db)?.is_some_and(|position| position < head))
}

/// Indexes the next events; answers whether there are more. Begins the index where there is none.
pub(in super::super) fn step(db: &Connection) -> Result<bool> {
    let from = match checkpoint(db)? {
        Some(position) => position,
        None => {
            restart(db)?;
            0
        }
    };
    let mut statement = db.prepare_cached(EVENTS).doing(DOING)?;
    let mut rows = statement.query(params![from, STEP_EVENTS_MAX]).doing(DOING)?;
    let (mut reached, mut events, mut bytes) = (from, 0, 0);
    let mut payloads = Payloads::new(db);
    while let Some(row) = rows.next().doing(DOING)? {
        reached = row.get(0).doing(DOING)?;
        let payload = payloads.payload(reached, log::text(row, 2).doing(DOING)?)?;
        bytes += payload.len();
        events += 1;
        if let Some(text) = text(log::text(row, 1).doing(DOING)?, &payload) {
            db.prepare_cached(INSERT)
                .and_then(|mut statement| statement.execute(params![reached, text]))
                .doing(DOING)?;
        }
        if bytes >= STEP_BYTES_MAX {
            break;
        }
    }
    let more = events == STEP_EVENTS_MAX || bytes >= STEP_BYTES_MAX;
    if !more {
        reached = log::head(db)?.0.cast_signed(); // behind the last event may be deleted ones
    }
    super::save(db, NAME, VERSION, reached)?;
    Ok(more)
}

/// Empties the index and lets it begin again at position 0.
pub(in super::super) fn restart(db: &Connection) -> Result<()> {
    db.execute_batch(CLEAR).doing(DOING)?;
    db.execute_batch(super::schema::virtual_table()).doing(DOING)?;
    super::save(db, NAME, VERSION, 0)
}

/// Takes a conversation out of the index; its events must still be there as they were indexed.
pub(in super::super) fn forget(db: &Connection, conversation: i64) -> Result<()> {
    tell(db, conversation, DELETE)
}

/// Puts a conversation back into the index, as far as that has read the log, and sees to it that nothing
/// is left of words that were taken out before.
pub(in super::super) fn remember(db: &Connection, conversation: i64) -> Result<()> {
    tell(db, conversation, INSERT)?;
    merge(db)
}

/// Sees to it that nothing is left of words that were taken out.
pub(in super::super) fn merge(db: &Connection) -> Result<()> {
    if checkpoint(db)?.is_some() {
        db.execute(MERGE, []).doing(DOING)?;
    }
    Ok(())
}

/// Tells the index the words of a conversation's events, by the statement `sql`.
fn tell(db: &Connection, conversation: i64, sql: &str) -> Result<()> {
    let doing = "telling the index a conversation's words";
    let Some(position) = checkpoint(db)? else { return Ok(()) };
    let mut statement = db.prepare_cached(EVENTS_OF).doing(doing)?;
    let mut rows = statement.query(params![conversation, position]).doing(doing)?;
    let mut payloads = Payloads::new(db);
    while let Some(row) = rows.next().doing(doing)? {
        let position: i64 = row.get(0).doing(doing)?;
        let payload = payloads.payload(position, log::text(row, 2).doing(doing)?)?;
        if let Some(text) = text(log::text(row, 1).doing(doing)?, &payload) {
            db.prepare_cached(sql)
                .and_then(|mut statement| statement.execute(params![position, text]))
                .doing(doing)?;
        }
    }
    Ok(())
}

/// The words of an event; `None` where it has none.
fn text(kind: &str, payload: &str) -> Option<String> {
    let text = Line::read(kind, &Object::of(payload)).to_text();
    (!text.is_empty()).then(|| terms::spread(&text))
}
