//! Compresses and decompresses conversations, and removes deleted conversations from archives.

use rusqlite::{Connection, OptionalExtension as _, params};

use super::dictionary::{Lesson, Teacher, compressor, drop_one, drop_unused};
use super::read::{Payloads, lost};
use super::{Archived, DOING, STUB, has_fresh, is_archived, keys, run, sizes};
use crate::error::{Error, Result};
use crate::ids::{ConversationId, Timestamp};
use crate::store::engine::WhileDoing as _;
use crate::store::table::change::{self, Subject};
use crate::store::table::{guards, log};

const PAGE: &str = "SELECT position, sequence, payload FROM event \
     WHERE conversation = ?1 AND sequence >= ?2 ORDER BY sequence LIMIT 256";
const PAYLOAD: &str = "SELECT payload FROM event WHERE position = ?1";
const FRESH: &str = "SELECT position FROM event AS e WHERE conversation = ?1 \
     AND NOT EXISTS (SELECT 1 FROM archived_payload AS p WHERE p.position = e.position) ORDER BY sequence";
const ARCHIVED: &str = "SELECT p.position FROM archived_payload AS p JOIN event AS e ON e.position = p.position \
     WHERE e.conversation = ?1 ORDER BY p.position";
const STUBS: &str = "SELECT position FROM event WHERE conversation = ?1 AND octet_length(payload) = octet_length(?2) \
     AND payload = ?2 ORDER BY sequence LIMIT 1";
const PUT: &str = "INSERT INTO archived_payload (position, bytes, content) VALUES (?1, ?2, ?3)";
const CHANGE: &str = "UPDATE archived_payload SET content = ?2 WHERE position = ?1";
const TAKE: &str = "DELETE FROM archived_payload WHERE position IN \
     (SELECT position FROM event WHERE conversation = ?1)";
const CUT: &str = "DELETE FROM archived_payload WHERE position IN \
     (SELECT position FROM event WHERE conversation = ?1 AND sequence >= ?2)";
const BEGIN: &str = "INSERT INTO archived_conversation (conversation, dictionary, archived_at) \
     VALUES (?1, ?2, ?3) ON CONFLICT (conversation) DO UPDATE SET archived_at = excluded.archived_at";
const END: &str = "DELETE FROM archived_conversation WHERE conversation = ?1";
const DICTIONARY_OF: &str = "SELECT dictionary FROM archived_conversation WHERE conversation = ?1";
const SET_DICTIONARY: &str = "UPDATE archived_conversation SET dictionary = ?2 WHERE conversation = ?1";
const USERS: &str = "SELECT conversation FROM archived_conversation WHERE dictionary = ?1";
const TRAINED_ON: &str = "SELECT dictionary FROM archive_source WHERE conversation = ?1";
const FORGET_SOURCE: &str = "DELETE FROM archive_source WHERE conversation = ?1";
const MARK_STALE: &str = "UPDATE archive_dictionary SET is_stale = 1 \
     WHERE key IN (SELECT dictionary FROM archive_source WHERE conversation = ?1)";
const STALE: &str = "SELECT key FROM archive_dictionary WHERE is_stale = 1";

/// Calls `visit` with the position and the payload of every event. The payload is as the log holds it.
pub(super) fn each(
    db: &Connection,
    conversation: i64,
    visit: &mut dyn FnMut(i64, &str) -> Result<()>,
) -> Result<()> {
    let mut next = 0;
    loop {
        let mut statement = db.prepare_cached(PAGE).doing(DOING)?;
        let mut rows = statement.query(params![conversation, next]).doing(DOING)?;
        let from = next;
        while let Some(row) = rows.next().doing(DOING)? {
            next = row.get::<_, i64>(1).doing(DOING)? + 1;
            visit(row.get(0).doing(DOING)?, log::text(row, 2).doing(DOING)?)?;
        }
        if next == from {
            return Ok(());
        }
    }
}

/// Compresses the payloads of a conversation that are not compressed yet, with the dictionary chosen for its `group`.
pub(super) fn pack(
    db: &Connection,
    conversation: i64,
    lesson: &mut Lesson,
    group: &[ConversationId],
) -> Result<Archived> {
    let mut packed = Archived::default();
    if !has_fresh(db, conversation)? {
        return Ok(packed);
    }
    let before = dictionary_of(db, conversation)?;
    let own = match before {
        Some(Some(own)) => Some(own),
        Some(None) | None => lesson.dictionary(db, group)?,
    };
    if before == Some(None) && own.is_some() {
        restore(db, conversation)?; // It was archived without a dictionary, and now one helps.
    }
    change::replaced(db, conversation, &[Subject::Archive], || {
        run(db, BEGIN, params![conversation, own, Timestamp::now().0])
    })?;
    let fresh = keys(db, FRESH, [conversation])?;
    let mut compressor = compressor(db, own)?;
    guards::permit(db, "archive")?;
    for position in fresh {
        let payload: String = db
            .prepare_cached(PAYLOAD)
            .and_then(|mut statement| statement.query_row([position], |row| row.get(0)))
            .doing(DOING)?;
        if payload == STUB {
            return Err(lost(db, position));
        }
        let content = compressor.compress(payload.as_bytes()).map_err(broken)?;
        run(db, PUT, params![position, payload.len() as i64, content])?;
        log::put(db, position, STUB)?;
        packed.events += 1;
        packed.payload_bytes += payload.len() as u64;
        packed.stored_bytes += content.len() as u64;
    }
    guards::forbid(db)?;
    Ok(packed)
}

/// Decompresses all archived payloads of a conversation.
///
/// # Errors
/// [`Error::Corrupt`] if one of them is missing.
pub(super) fn unpack(db: &Connection, conversation: i64) -> Result<Archived> {
    let unpacked = take(db, conversation)?;
    match keys(db, STUBS, params![conversation, STUB])?.first() {
        Some(position) => Err(lost(db, *position)),
        None => Ok(unpacked),
    }
}

/// Decompresses the payloads of a conversation that the archive has.
fn take(db: &Connection, conversation: i64) -> Result<Archived> {
    let unpacked = sizes(db, conversation)?;
    restore(db, conversation)?;
    drop_unused(db)?;
    Ok(unpacked)
}

/// Puts the payloads back into the log. The dictionaries stay.
fn restore(db: &Connection, conversation: i64) -> Result<()> {
    if !is_archived(db, conversation)? {
        return Ok(());
    }
    let mut payloads = Payloads::new(db);
    guards::permit(db, "unarchive")?;
    for position in positions(db, conversation)? {
        if let Some(payload) = payloads.fetch(position)? {
            log::put(db, position, &payload)?;
        }
    }
    guards::forbid(db)?;
    run(db, TAKE, [conversation])?;
    change::replaced(db, conversation, &[Subject::Archive], || run(db, END, [conversation]))
}

/// Returns the dictionary of an archived conversation: `Some(None)` if it has none, `None` if it is not archived.
pub(super) fn dictionary_of(db: &Connection, conversation: i64) -> Result<Option<Option<i64>>> {
    db.prepare_cached(DICTIONARY_OF)
        .and_then(|mut statement| statement.query_row([conversation], |row| row.get(0)).optional())
        .doing(DOING)
}

/// Removes a conversation from every archive for good.
///
/// It is decompressed, and every dictionary that was trained on it is replaced.
pub(in crate::store) fn leave(db: &Connection, conversation: i64) -> Result<()> {
    // What is lost is gone already, and must not keep the rest in the file.
    take(db, conversation)?;
    for dictionary in keys(db, TRAINED_ON, [conversation])? {
        renew(db, dictionary, Some(conversation))?;
    }
    Ok(())
}

/// Deletes the archived payloads of a conversation. Its events must still be stored.
///
/// From then on, dictionaries that were trained on it are stale.
pub(in crate::store) fn forget(db: &Connection, conversation: i64) -> Result<()> {
    run(db, TAKE, [conversation])?;
    run(db, END, [conversation])?;
    run(db, MARK_STALE, [conversation])?;
    run(db, FORGET_SOURCE, [conversation])?;
    drop_unused(db)
}

/// Deletes the archived payloads of the events from sequence `length` on. These events must still be stored.
pub(in crate::store) fn cut(db: &Connection, conversation: i64, length: u64) -> Result<()> {
    run(db, CUT, params![conversation, length.cast_signed()])
}

/// Renews every stale dictionary.
pub(in crate::store) fn renew_stale(db: &Connection) -> Result<()> {
    for dictionary in keys(db, STALE, [])? {
        renew(db, dictionary, None)?;
    }
    Ok(())
}

/// Replaces a dictionary by one that is trained only on its users, without `except`, and compresses the users again.
fn renew(db: &Connection, dictionary: i64, except: Option<i64>) -> Result<()> {
    let users = keys(db, USERS, [dictionary])?;
    let mut teacher = Teacher::default();
    for user in users.iter().filter(|user| Some(**user) != except) {
        teacher.listen(db, *user)?;
    }
    let next = teacher.save(db, &teacher.teach()?)?;
    let mut compressor = compressor(db, next)?;
    for user in users {
        let mut payloads = Payloads::new(db);
        for position in positions(db, user)? {
            if let Some(payload) = payloads.fetch(position)? {
                let content = compressor.compress(payload.as_bytes()).map_err(broken)?;
                run(db, CHANGE, params![position, content])?;
            }
        }
        run(db, SET_DICTIONARY, params![user, next])?;
    }
    drop_one(db, dictionary)
}

fn positions(db: &Connection, conversation: i64) -> Result<Vec<i64>> {
    keys(db, ARCHIVED, [conversation])
}

pub(super) fn broken(error: std::io::Error) -> Error {
    Error::Storage { doing: DOING, source: error.into() }
}
