//! Table `event`: the log. It has one row for each event, written once, in the order of commit.
//!
//! `position` is the rowid and so the place in the whole file. `(conversation, sequence)` and `(conversation, id)`
//! are unique. `payload` is the event byte for byte. The table's triggers (guards) refuse inserts of other programs,
//! and they refuse updates and deletes unless the table `maintenance` has a row.

use rusqlite::types::ValueRef;
use rusqlite::{Connection, OptionalExtension as _, Row, params};

use super::archive::Payloads;
use super::kept::{Edit, Kept, Part};
use super::row::StoredRow;
use crate::chain::Digest;
use crate::error::{Error, Result};
use crate::event::NewEvent;
use crate::ids::{EventId, Position, Sequence, Timestamp};
use crate::store::engine::{WhileDoing as _, is_known_id};

/// No log reaches a larger position. Programs that read numbers of JSON as floats still read it exactly.
pub(in crate::store) const POSITION_MAX: i64 = (1 << 53) - 1;

pub(super) const INSERT: &str = "INSERT OR FAIL INTO event (position, conversation, sequence, id, kind, source, timestamp, \
     parent_id, tool_call_id, action_id, llm_response_id, tool_name, recorded_at, hash, payload) \
     VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15)";
const INSERT_ROW: &str = "INSERT OR FAIL INTO event (position, conversation, sequence, id, kind, source, timestamp, \
     parent_id, tool_call_id, action_id, llm_response_id, tool_name, recorded_at, hash, redacted_digest, payload) \
     VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16)";
const HEAD: &str =
    "SELECT max(coalesce((SELECT max(position) FROM event), 0), (SELECT position_floor FROM log))";
const END: &str = "SELECT sequence, hash FROM event WHERE conversation = ?1 ORDER BY sequence DESC LIMIT 1";
const FIND: &str = "SELECT position, sequence, redacted_digest, payload FROM event \
     WHERE conversation = ?1 AND id = ?2";
const PAYLOADS: &str = "SELECT position, sequence, id, payload FROM event \
     WHERE conversation = ?1 AND sequence >= ?2 ORDER BY sequence LIMIT 256";
const REPLACE: &str = "UPDATE event SET payload = ?2, redacted_digest = coalesce(redacted_digest, ?3) \
     WHERE position = ?1";
const PUT: &str = "UPDATE event SET payload = ?2 WHERE position = ?1";
const IS_REDACTED: &str =
    "SELECT 1 FROM event WHERE conversation = ?1 AND id = ?2 AND redacted_digest IS NOT NULL";
const HAS: &str = "SELECT 1 FROM event WHERE conversation = ?1 AND id = ?2";

/// The number of payload bytes at which [`edit`] ends a page: 8 MiB.
const EDIT_BYTES: usize = 8 << 20;

/// Goes from conversation to conversation in the index, without reading every event.
const UNKNOWN: &str = "WITH RECURSIVE named (key) AS (SELECT min(conversation) FROM event UNION ALL \
     SELECT (SELECT min(conversation) FROM event WHERE conversation > named.key) FROM named WHERE key IS NOT NULL) \
     SELECT key FROM named WHERE key NOT IN (SELECT key FROM conversation) AND key IS NOT NULL ORDER BY key";

/// The columns of a [`StoredEvent`], for every statement that reads them.
macro_rules! columns {
    () => {
        "position, sequence, id, kind, source, timestamp, parent_id, tool_call_id, action_id, \
         llm_response_id, tool_name, recorded_at, payload, redacted_digest"
    };
}
pub(in crate::store) use columns;

/// One event as it is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct StoredEvent {
    /// Its place in the whole log.
    pub position: Position,
    /// Its place in its conversation.
    pub sequence: Sequence,
    /// Its id, unique within its conversation.
    pub id: EventId,
    /// Its kind; "" if the payload has none.
    pub kind: String,
    /// The source of the event, such as `user` or `agent`.
    pub source: Option<String>,
    /// The event's own time, as written: usually local time without a zone.
    pub timestamp: Option<String>,
    /// Its parent event, as written; `__root__` for an explicit root.
    pub parent_id: Option<String>,
    /// The model's id of the tool call.
    pub tool_call_id: Option<String>,
    /// The action that it answers.
    pub action_id: Option<String>,
    /// The model's reply that it came from.
    pub llm_response_id: Option<String>,
    /// The name of the tool.
    pub tool_name: Option<String>,
    /// When this store recorded it, by the clock of the machine.
    pub recorded_at: Timestamp,
    /// The event, byte for byte as it was received. If it is redacted, without the removed parts.
    pub payload: String,
    /// The SHA-256 of the original payload, if it is redacted.
    pub redacted_digest: Option<Digest>,
}

/// Reads a [`StoredEvent`] from a row of [`columns!`].
pub(in crate::store) fn stored(row: &Row<'_>) -> rusqlite::Result<StoredEvent> {
    Ok(StoredEvent {
        position: Position(row.get::<_, i64>(0)?.cast_unsigned()),
        sequence: Sequence(row.get::<_, i64>(1)?.cast_unsigned()),
        id: EventId::new(row.get_ref(2)?.as_str()?).map_err(|error| conversion(2, error))?,
        kind: row.get_ref(3)?.as_str()?.to_owned(),
        source: optional_text(row, 4)?,
        timestamp: optional_text(row, 5)?,
        parent_id: optional_text(row, 6)?,
        tool_call_id: optional_text(row, 7)?,
        action_id: optional_text(row, 8)?,
        llm_response_id: optional_text(row, 9)?,
        tool_name: optional_text(row, 10)?,
        recorded_at: Timestamp(row.get(11)?),
        payload: text(row, 12)?.to_owned(),
        redacted_digest: row.get::<_, Option<[u8; 32]>>(13)?.map(Digest),
    })
}

#[inline]
fn optional_text(row: &Row<'_>, column: usize) -> rusqlite::Result<Option<String>> {
    match row.get_ref(column)? {
        ValueRef::Null => Ok(None),
        value => value.as_str().map(|text| Some(text.to_owned())).map_err(Into::into),
    }
}

/// Returns a text column, borrowed. Most of the data that is read are payloads, and the UTF-8 check is most of the
/// work on them. SIMD does the check several times faster than the standard library.
pub(in crate::store) fn text<'a>(row: &'a Row<'_>, column: usize) -> rusqlite::Result<&'a str> {
    utf8(row.get_ref(column)?.as_bytes()?, column)
}

#[inline]
fn utf8(bytes: &[u8], column: usize) -> rusqlite::Result<&str> {
    simdutf8::basic::from_utf8(bytes).map_err(|error| conversion(column, error))
}

/// Returns the error for a stored value that is invalid for its column.
pub(in crate::store) fn conversion(
    column: usize,
    error: impl std::error::Error + Send + Sync + 'static,
) -> rusqlite::Error {
    rusqlite::Error::FromSqlConversionFailure(column, rusqlite::types::Type::Text, Box::new(error))
}

/// Returns the newest position that was ever assigned.
pub(in crate::store) fn last_position(db: &Connection) -> Result<Position> {
    let position: Option<i64> = db
        .prepare_cached(HEAD)
        .and_then(|mut s| s.query_row([], |row| row.get(0)))
        .doing("reading the last position")?;
    match position {
        Some(position) => Ok(Position(position.cast_unsigned())),
        None => Err(Error::Corrupt { what: "the row of the table log is missing".into() }),
    }
}

const FILLED: &str = "SELECT EXISTS (SELECT 1 FROM conversation) OR EXISTS (SELECT 1 FROM admin_act)";

/// Returns whether nothing was ever written to the file: it was made, and that is all.
pub(in crate::store) fn was_never_filled(db: &Connection) -> Result<bool> {
    let filled = db.prepare_cached(FILLED).and_then(|mut s| s.query_row([], |row| row.get::<_, bool>(0)));
    Ok(last_position(db)? == Position::START && !filled.doing("looking for what was written")?)
}

/// Returns the number of events of a conversation, by its last sequence, and the hash of the last event.
pub(in crate::store) fn end(db: &Connection, conversation: i64) -> Result<(u64, Digest)> {
    let last = db
        .prepare_cached(END)
        .and_then(|mut statement| {
            let read = |row: &Row<'_>| Ok((row.get::<_, i64>(0)?, row.get::<_, [u8; 32]>(1)?));
            statement.query_row([conversation], read).optional()
        })
        .doing("reading the end of a conversation")?;
    let Some((last, hash)) = last else { return Ok((0, Digest::START)) };
    let last = u64::try_from(last).map_err(|_| Error::Corrupt {
        what: format!("the last event of the conversation with key {conversation} has the sequence {last}"),
    })?;
    Ok((last + 1, Digest(hash)))
}

/// The place and the hash that a new event gets.
pub(in crate::store) struct EventPlace {
    pub position: Position,
    pub conversation: i64,
    pub sequence: Sequence,
    pub recorded_at: Timestamp,
    pub hash: Digest,
}

/// Writes one event. Returns false, and writes nothing, if the conversation already has an event with this id.
pub(in crate::store) fn insert(db: &Connection, event_place: &EventPlace, event: &NewEvent) -> Result<bool> {
    let envelope = event.envelope();
    let inserted = db.prepare_cached(INSERT).and_then(|mut statement| {
        statement.execute(params![
            event_place.position.0.cast_signed(),
            event_place.conversation,
            event_place.sequence.0.cast_signed(),
            event.id().as_str(),
            envelope.kind,
            envelope.source,
            envelope.timestamp,
            envelope.parent_id,
            envelope.tool_call_id,
            envelope.action_id,
            envelope.llm_response_id,
            envelope.tool_name,
            event_place.recorded_at.0,
            event_place.hash.0,
            event.payload(),
        ])
    });
    match inserted {
        Ok(_) => Ok(true),
        Err(error) if is_known_id(&error) => Ok(false),
        Err(error) => Err(error).doing("appending an event"),
    }
}

/// Writes one event's row as it is in another file.
pub(in crate::store) fn insert_row(db: &Connection, event_place: &EventPlace, row: &StoredRow) -> Result<()> {
    db.prepare_cached(INSERT_ROW)
        .and_then(|mut statement| {
            statement.execute(params![
                event_place.position.0.cast_signed(),
                event_place.conversation,
                event_place.sequence.0.cast_signed(),
                row.id,
                row.kind,
                row.source,
                row.timestamp,
                row.parent_id,
                row.tool_call_id,
                row.action_id,
                row.llm_response_id,
                row.tool_name,
                event_place.recorded_at.0,
                event_place.hash.0,
                row.redacted_digest.map(|digest| digest.0),
                row.payload,
            ])
        })
        .doing("taking an event over")?;
    Ok(())
}

/// The place of a stored event, and whether it has the same bytes as the given event.
pub(in crate::store) struct ExistingEvent {
    pub position: Position,
    pub sequence: Sequence,
    pub same: bool,
}

/// Finds the stored event with the id of `event`.
pub(in crate::store) fn find(
    db: &Connection,
    conversation: i64,
    event: &NewEvent,
) -> Result<Option<ExistingEvent>> {
    let doing = "looking for an event";
    let mut statement = db.prepare_cached(FIND).doing(doing)?;
    let mut rows = statement.query(params![conversation, event.id().as_str()]).doing(doing)?;
    let Some(row) = rows.next().doing(doing)? else { return Ok(None) };
    let position: i64 = row.get(0).doing(doing)?;
    let redacted: Option<Vec<u8>> = row.get(2).doing(doing)?;
    let same = match redacted {
        Some(digest) => digest == event.digest().0,
        None => {
            let stored = text(row, 3).doing(doing)?;
            stored == event.payload() || Payloads::new(db).payload(position, stored)? == event.payload()
        }
    };
    Ok(Some(ExistingEvent {
        position: Position(position.cast_unsigned()),
        sequence: Sequence(row.get::<_, i64>(1).doing(doing)?.cast_unsigned()),
        same,
    }))
}

/// Returns whether the conversation has a redacted event with this id.
pub(in crate::store) fn is_redacted(db: &Connection, conversation: i64, id: &str) -> Result<bool> {
    db.prepare_cached(IS_REDACTED)
        .and_then(|mut statement| statement.exists(params![conversation, id]))
        .doing("looking for a redacted event")
}

/// Returns whether the conversation has an event with this id.
pub(in crate::store) fn has(db: &Connection, conversation: i64, id: &str) -> Result<bool> {
    db.prepare_cached(HAS)
        .and_then(|mut statement| statement.exists(params![conversation, id]))
        .doing("looking for a parent")
}

/// Passes a page of payloads to `edit`, beginning at `from`, and stores the texts that it returns, each with the digest
/// of the original payload. Archived payloads can only be read. Returns the start of the next page; `None` at the end.
pub(in crate::store) fn edit(
    db: &Connection,
    conversation: i64,
    from: i64,
    edit: Edit<'_>,
) -> Result<Option<i64>> {
    let doing = "reading payloads";
    let mut changes: Vec<(i64, Digest, String)> = Vec::new();
    let mut payloads = Payloads::new(db);
    let mut next = None;
    {
        let mut statement = db.prepare_cached(PAYLOADS).doing(doing)?;
        let mut rows = statement.query(params![conversation, from]).doing(doing)?;
        let mut bytes = 0;
        while let Some(row) = rows.next().doing(doing)? {
            let (position, sequence): (i64, i64) = (row.get(0).doing(doing)?, row.get(1).doing(doing)?);
            let payload = payloads.payload(position, text(row, 3).doing(doing)?)?;
            let kept = Kept {
                part: Part::Event,
                sequence: Some(sequence.cast_unsigned()),
                name: text(row, 2).doing(doing)?,
                text: &payload,
            };
            next = Some(sequence + 1);
            bytes += payload.len();
            if let Some(new) = edit(kept)? {
                changes.push((position, Digest::of(payload.as_bytes()), new));
            }
            if bytes >= EDIT_BYTES {
                break;
            }
        }
    }
    for (position, digest, new) in changes {
        db.prepare_cached(REPLACE)
            .and_then(|mut statement| statement.execute(params![position, new, digest.0]))
            .doing("redacting an event")?;
    }
    Ok(next)
}

/// Replaces a payload by a stub, or the stub by the payload. Call it between [`permit`](super::guards::permit) and [`forbid`](super::guards::forbid).
pub(super) fn put(db: &Connection, position: i64, payload: &str) -> Result<()> {
    db.prepare_cached(PUT)
        .and_then(|mut statement| statement.execute(params![position, payload]))
        .doing("archiving")?;
    Ok(())
}

/// Returns the keys of conversations that have events but no row in the catalogue.
pub(in crate::store) fn unknown_conversations(db: &Connection) -> Result<Vec<i64>> {
    db.prepare_cached(UNKNOWN)
        .and_then(|mut statement| statement.query_map([], |row| row.get(0))?.collect())
        .doing("looking for events of no conversation")
}

/// Writes the file's own row again as it is, so that it counts as changed.
#[cfg(feature = "postgres")]
pub(in crate::store) fn touch(db: &Connection) -> Result<()> {
    db.execute("UPDATE log SET store_id = store_id", []).map(drop).doing("naming the store")
}

/// Deletes every event of a conversation and makes sure that no position is assigned twice.
pub(in crate::store) fn delete(db: &Connection, conversation: i64) -> Result<u64> {
    let head = last_position(db)?;
    db.execute("UPDATE log SET position_floor = max(position_floor, ?1)", [head.0.cast_signed()])
        .doing("deleting events")?;
    let deleted =
        db.execute("DELETE FROM event WHERE conversation = ?1", [conversation]).doing("deleting events")?;
    Ok(deleted as u64)
}

/// Deletes the events of a conversation after its first `length`. Returns how many were deleted.
pub(in crate::store) fn cut(db: &Connection, conversation: i64, length: u64) -> Result<u64> {
    let sql = "DELETE FROM event WHERE conversation = ?1 AND sequence >= ?2";
    let cut = db.execute(sql, params![conversation, length.cast_signed()]).doing("cutting events off")?;
    Ok(cut as u64)
}

/// Records from when on the chains of changes are valid, in a file that is older than these chains.
pub(super) fn changes_begin(db: &Connection, now: Timestamp) -> Result<()> {
    db.execute("UPDATE log SET changes_since = ?1", [now.0]).doing("beginning the chains of changes")?;
    Ok(())
}

/// Gives the file a new store id and makes its next event follow `head`. Returns the previous id.
pub(in crate::store) fn found_anew(db: &Connection, head: Position) -> Result<String> {
    let doing = "naming the store anew";
    let before = db.query_row("SELECT store_id FROM log", [], |row| row.get(0)).doing(doing)?;
    let id = uuid::Uuid::new_v4().to_string();
    db.execute("UPDATE log SET store_id = ?1, position_floor = ?2", params![id, head.0.cast_signed()])
        .doing(doing)?;
    Ok(before)
}

/// Returns the error for an event id that the conversation does not have.
pub(in crate::store) fn not_found(conversation: &crate::ids::ConversationId, event: &str) -> Error {
    Error::UnknownEvent { conversation: conversation.clone(), event: event.to_owned() }
}
