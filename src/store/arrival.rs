//! Table `arrival`: conversations that are on their way in and not all here yet.
//!
//! An import and a copy from another file write in steps, so that neither memory nor a transaction grows
//! with a conversation. A row here stands from the first step to the last: whoever finds one afterwards
//! knows that the way was cut short, and from where it can be gone again.

use rusqlite::{Connection, params};

use super::Store;
use super::catalogue;
use super::change::{self, Subject};
use super::engine::Doing as _;
use crate::error::Result;
use crate::ids::{ConversationId, Timestamp};

const BEGIN: &str = "INSERT INTO arrival (conversation, source, began_at) VALUES (?1, ?2, ?3) \
     ON CONFLICT (conversation) DO UPDATE SET source = excluded.source";
const END: &str = "DELETE FROM arrival WHERE conversation = ?1";
const IS_UNDER_WAY: &str = "SELECT 1 FROM arrival WHERE conversation = ?1";
const UNFINISHED: &str = "SELECT c.id, a.source, a.began_at FROM arrival AS a \
     JOIN conversation AS c ON c.key = a.conversation ORDER BY c.key";

/// A conversation whose import, or copy, began and never ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unfinished {
    /// The conversation.
    pub conversation: ConversationId,
    /// The path it was read from.
    pub source: String,
    /// When that began.
    pub began_at: Timestamp,
}

/// Says that a conversation is on its way in from `source`.
pub(super) fn begin(db: &Connection, key: i64, source: &str, now: Timestamp) -> Result<()> {
    change::replaced(db, key, &[Subject::Arrival], || {
        db.prepare_cached(BEGIN)
            .and_then(|mut statement| statement.execute(params![key, source, now.0]))
            .doing("beginning an import")?;
        Ok(())
    })
}

/// Whether a conversation is on its way in.
pub(super) fn is_under_way(db: &Connection, key: i64) -> Result<bool> {
    db.prepare_cached(IS_UNDER_WAY)
        .and_then(|mut statement| statement.exists([key]))
        .doing("looking for an unfinished import")
}

/// Says that it is all here.
pub(super) fn end(db: &Connection, key: i64) -> Result<()> {
    change::replaced(db, key, &[Subject::Arrival], || forget(db, key))
}

/// Forgets it with the conversation.
pub(super) fn forget(db: &Connection, key: i64) -> Result<()> {
    db.prepare_cached(END).and_then(|mut statement| statement.execute([key])).doing("ending an import")?;
    Ok(())
}

impl Store {
    /// Whether an import of this conversation, or its copy from another file, began and did not end.
    pub(crate) fn is_unfinished(&self, conversation: &ConversationId) -> Result<bool> {
        self.read(|db| catalogue::find(db, conversation)?.map_or(Ok(false), |key| is_under_way(db, key)))
    }

    /// The conversations whose import, or copy from another file, began and did not end: it was cut short,
    /// or another process is at it right now. In the order they came.
    ///
    /// # Errors
    /// What reading can meet.
    pub fn unfinished(&self) -> Result<Vec<Unfinished>> {
        let rows: Vec<(String, String, i64)> = self.read(|db| {
            db.prepare_cached(UNFINISHED)
                .and_then(|mut statement| {
                    statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?.collect()
                })
                .doing("listing unfinished imports")
        })?;
        rows.into_iter()
            .map(|(id, source, began_at)| {
                let conversation = ConversationId::new(&id)?;
                Ok(Unfinished { conversation, source, began_at: Timestamp(began_at) })
            })
            .collect()
    }
}
