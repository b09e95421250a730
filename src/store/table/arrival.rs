//! Table `arrival`: conversations whose import, copy or fork is not finished.
//!
//! An import, a copy from another file and a fork write in steps, so that neither memory nor a transaction grows
//! with a conversation. The row exists from the first step to the last. A row that is left afterwards shows
//! that it was interrupted. It names the path to repeat an import or a copy from, or the conversation that is forked.

use rusqlite::{Connection, Params, params};

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
/// A fork has the id of its source there, where an import and a copy have a path.
const UNFINISHED: &str = "SELECT c.id, a.source, a.began_at, a.source IS c.forked_from FROM arrival AS a \
     JOIN conversation AS c ON c.key = a.conversation";

/// A conversation whose import, copy or fork began and did not end.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Unfinished {
    /// The conversation.
    pub conversation: ConversationId,
    /// The path it was read from, or the conversation that is forked.
    pub source: String,
    /// Whether it is a fork.
    pub is_fork: bool,
    /// When the import, copy or fork began.
    pub began_at: Timestamp,
}

impl Unfinished {
    /// Says what it is, and since when.
    pub(crate) fn describe(&self) -> String {
        let what = if self.is_fork { "fork of" } else { "import from" };
        format!("its {what} {:?} began at {}", self.source, self.began_at)
    }

    /// Says how it is completed or removed, unless it is still running.
    pub(crate) fn way_out(&self) -> &'static str {
        if self.is_fork {
            "; `annals delete` removes what there is of it, and the conversation can be forked again"
        } else {
            "; the same import again completes it"
        }
    }
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

/// Returns what is known of a conversation's unfinished import, copy or fork.
pub(in crate::store) fn of(db: &Connection, key: i64) -> Result<Option<Unfinished>> {
    Ok(read(db, " WHERE c.key = ?1", [key])?.pop())
}

fn read(db: &Connection, which: &str, parameters: impl Params) -> Result<Vec<Unfinished>> {
    let row = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?));
    let rows: Vec<(String, String, i64, bool)> = db
        .prepare_cached(&format!("{UNFINISHED}{which}"))
        .and_then(|mut statement| statement.query_map(parameters, row)?.collect())
        .doing("looking for unfinished imports")?;
    let known = |(id, source, began_at, is_fork): (String, String, i64, bool)| {
        let conversation = ConversationId::new(&id).map_err(Error::damaged("the id of a conversation"))?;
        Ok(Unfinished { conversation, source, is_fork, began_at: Timestamp(began_at) })
    };
    rows.into_iter().map(known).collect()
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
    /// `None` if nothing is unfinished, or a fork is.
    pub(crate) fn unfinished_source(&self, conversation: &ConversationId) -> Result<Option<String>> {
        self.read(|db| {
            let Some(key) = catalogue::find(db, conversation)? else { return Ok(None) };
            Ok(of(db, key)?.filter(|unfinished| !unfinished.is_fork).map(|unfinished| unfinished.source))
        })
    }
}

impl Maintenance<'_> {
    /// Returns the conversations whose import, copy from another file or fork began and did not end.
    ///
    /// It was interrupted, or another process is doing it right now. The order is that of their creation.
    ///
    /// # Errors
    /// Any error of reading the file.
    pub fn unfinished(&self) -> Result<Vec<Unfinished>> {
        self.store.read(|db| read(db, " ORDER BY c.key", []))
    }
}
