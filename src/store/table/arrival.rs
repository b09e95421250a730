//! Table `arrival`: conversations whose import or copy is not finished.
//!
//! An import and a copy from another file write in steps, so that neither memory nor a transaction grows
//! with a conversation. The row exists from the first step to the last. A row that is left afterwards shows
//! that the import was interrupted, and names the source to repeat it from.

use rusqlite::{Connection, OptionalExtension as _, params};

use super::catalogue;
use super::change::{self, Subject};
use crate::error::{Error, Result};
use crate::ids::{ConversationId, Timestamp};
use crate::store::engine::WhileDoing as _;
use crate::store::{Maintenance, Store};

const BEGIN: &str = "INSERT INTO arrival (conversation, source, began_at) VALUES (?1, ?2, ?3) \
     ON CONFLICT (conversation) DO UPDATE SET source = excluded.source";
const END: &str = "DELETE FROM arrival WHERE conversation = ?1";
const IS_UNDER_WAY: &str = "SELECT 1 FROM arrival WHERE conversation = ?1";
const SOURCE: &str = "SELECT source FROM arrival WHERE conversation = ?1";
const UNFINISHED: &str = "SELECT c.id, a.source, a.began_at FROM arrival AS a \
     JOIN conversation AS c ON c.key = a.conversation ORDER BY c.key";

/// A conversation whose import or copy began and did not end.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Unfinished {
    /// The conversation.
    pub conversation: ConversationId,
    /// The path it was read from.
    pub source: String,
    /// When the import or copy began.
    pub began_at: Timestamp,
}

/// Records that the import of a conversation from `source` has begun.
pub(in crate::store) fn begin(db: &Connection, key: i64, source: &str, now: Timestamp) -> Result<()> {
    change::replaced(db, key, &[Subject::Arrival], || {
        db.prepare_cached(BEGIN)
            .and_then(|mut statement| statement.execute(params![key, source, now.0]))
            .doing("beginning an import")?;
        Ok(())
    })
}

/// Returns whether the import of a conversation is not finished.
pub(in crate::store) fn is_under_way(db: &Connection, key: i64) -> Result<bool> {
    db.prepare_cached(IS_UNDER_WAY)
        .and_then(|mut statement| statement.exists([key]))
        .doing("looking for an unfinished import")
}

/// Returns the source of a conversation's unfinished import.
pub(in crate::store) fn source(db: &Connection, key: i64) -> Result<Option<String>> {
    db.prepare_cached(SOURCE)
        .and_then(|mut statement| statement.query_row([key], |row| row.get(0)).optional())
        .doing("looking for an unfinished import")
}

/// Records that the import of a conversation has ended.
pub(in crate::store) fn end(db: &Connection, key: i64) -> Result<()> {
    change::replaced(db, key, &[Subject::Arrival], || forget(db, key))
}

/// Deletes the row of a conversation.
pub(in crate::store) fn forget(db: &Connection, key: i64) -> Result<()> {
    db.prepare_cached(END).and_then(|mut statement| statement.execute([key])).doing("ending an import")?;
    Ok(())
}

impl Store {
    /// Returns the path from which an import of this conversation, or its copy from another file, began and did not end.
    /// `None` if nothing is unfinished.
    pub(crate) fn unfinished_source(&self, conversation: &ConversationId) -> Result<Option<String>> {
        self.read(|db| catalogue::find(db, conversation)?.map_or(Ok(None), |key| source(db, key)))
    }
}

impl Maintenance<'_> {
    /// Returns the conversations whose import, or copy from another file, began and did not end.
    ///
    /// The import was interrupted, or another process is doing it right now. The order is that of their creation.
    ///
    /// # Errors
    /// Any error of reading the file.
    pub fn unfinished(&self) -> Result<Vec<Unfinished>> {
        let rows: Vec<(String, String, i64)> = self.store.read(|db| {
            db.prepare_cached(UNFINISHED)
                .and_then(|mut statement| {
                    statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?.collect()
                })
                .doing("listing unfinished imports")
        })?;
        rows.into_iter()
            .map(|(id, source, began_at)| {
                let conversation =
                    ConversationId::new(&id).map_err(Error::damaged("the id of a conversation"))?;
                Ok(Unfinished { conversation, source, began_at: Timestamp(began_at) })
            })
            .collect()
    }
}
