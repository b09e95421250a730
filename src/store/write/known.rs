//! What the writer still knows from its last commit: the rows of the catalogue that it wrote, and the last position.
//!
//! An append needs the row of its conversation, checked against the end of the log, and the last position. As long as no
//! other connection has committed, they are what this writer has written last, so three statements are saved. The engine
//! says whether another connection has: `PRAGMA data_version` differs then. Whatever else the writer itself does with its
//! connection ends the knowledge; so does every error.

use std::collections::HashMap;

use rusqlite::Connection;

use crate::error::Result;
use crate::ids::{ConversationId, Position};
use crate::store::engine::WhileDoing as _;
use crate::store::table::catalogue::Entry;

/// The number of conversations after which everything is forgotten, so that a file with many of them needs no memory for
/// each.
const ENTRIES_MAX: usize = 1024;

const VERSION: &str = "PRAGMA data_version";

/// What was true after the last commit of a writer.
#[derive(Default)]
pub(super) struct Known {
    /// The engine's number of the state of the file. `None` if nothing is known.
    version: Option<i64>,
    position: Option<Position>,
    entries: HashMap<ConversationId, Entry>,
}

impl Known {
    /// Returns what is still true, in a transaction that has begun on the writer's connection.
    pub(super) fn still(self, db: &Connection) -> Result<Self> {
        let version = version(db)?;
        let is_true = self.version == Some(version);
        let known = if is_true { self } else { Self::default() };
        Ok(Self { version: Some(version), ..known })
    }

    /// Returns the last position that was assigned.
    pub(super) fn position(&self) -> Option<Position> {
        self.position
    }

    /// Takes the row of a conversation out, for an append that may change it.
    pub(super) fn take(&mut self, conversation: &ConversationId) -> Option<Entry> {
        self.entries.remove(conversation)
    }

    /// Adds what a transaction has left. It may be used once the transaction is committed.
    pub(super) fn add(
        &mut self,
        position: Option<Position>,
        entries: impl ExactSizeIterator<Item = (ConversationId, Entry)>,
    ) {
        self.position = position.or(self.position);
        if self.entries.len() + entries.len() > ENTRIES_MAX {
            self.entries.clear();
        }
        self.entries.extend(entries.take(ENTRIES_MAX));
    }
}

fn version(db: &Connection) -> Result<i64> {
    db.prepare_cached(VERSION)
        .and_then(|mut statement| statement.query_row([], |row| row.get(0)))
        .doing("looking for commits of other programs")
}
