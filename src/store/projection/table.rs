//! What a projected table is to the code around it: how its rows are deleted, ordered and dated. Whatever
//! works on all projections asks here, so that a new one is one file and one line.

use rusqlite::Connection;

use super::super::engine::Doing as _;
use super::super::schema;
use crate::error::Result;

/// How the rows of a conversation are found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) enum Key {
    /// By column `position`, the row's own key: they are those of the conversation's events.
    Position,
    /// By column `conversation`.
    Conversation,
}

/// A table that a projection fills.
#[derive(Debug, Clone, Copy)]
pub(in super::super) struct Table {
    pub name: &'static str,
    pub key: Key,
    /// What puts its rows in an order of their own, to compare two of its kind row by row; `None` where its
    /// rows only say what is still to be done.
    pub order: Option<&'static str>,
    /// What tells the position of an event that a row comes from: none is behind the checkpoint.
    pub places: &'static [&'static str],
    /// The documented view that shows it.
    pub view: &'static str,
}

impl Table {
    /// Deletes the rows of one conversation, whose events must still be there.
    pub(super) fn delete_rows(&self, db: &Connection, conversation: i64) -> Result<()> {
        let own = match self.key {
            Key::Position => "position IN (SELECT position FROM event WHERE conversation = ?1)",
            Key::Conversation => "conversation = ?1",
        };
        db.execute(&format!("DELETE FROM {} WHERE {own}", self.name), [conversation])
            .doing("deleting projected rows")?;
        Ok(())
    }

    /// Deletes the rows of events and conversations that are gone: while tables are made again beside the
    /// present ones, a conversation may be deleted that was already read.
    pub(super) fn prune(&self, db: &Connection) -> Result<()> {
        let gone = match self.key {
            Key::Position => "position NOT IN (SELECT position FROM event)",
            Key::Conversation => "conversation NOT IN (SELECT key FROM conversation)",
        };
        db.execute(&format!("DELETE FROM {} WHERE {gone}", self.name), [])
            .doing("deleting projected rows")?;
        Ok(())
    }

    /// Deletes every row.
    pub(super) fn empty(&self, db: &Connection) -> Result<()> {
        db.execute(&format!("DELETE FROM {}", self.name), []).doing("emptying a projection")?;
        Ok(())
    }

    /// Whether it holds something of an event behind `checkpoint`; looks at its key alone where it is not to
    /// be `thorough`.
    pub(super) fn is_ahead(&self, db: &Connection, checkpoint: i64, thorough: bool) -> Result<bool> {
        let cheap = usize::from(self.key == Key::Position);
        let places = if thorough { self.places } else { &self.places[..cheap.min(self.places.len())] };
        for place in places {
            let sql = format!("SELECT 1 FROM {} WHERE {place} > ?1 LIMIT 1", self.name);
            let found = db.prepare_cached(&sql).and_then(|mut statement| statement.exists([checkpoint]));
            if found.doing("looking for rows ahead of a checkpoint")? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Makes an empty temporary table, with its indexes, that stands before the file's own of the same name.
    pub(super) fn make_shadow(&self, db: &Connection) -> Result<()> {
        for object in schema::statements(self.name)? {
            let (table, index) = ("CREATE TABLE ", "CREATE INDEX ");
            // Temporary tables cannot refer to the file's; the swap's own tables check the references.
            let sql = match object.sql.strip_prefix(table) {
                Some(rest) => format!("CREATE TEMP TABLE {rest}"),
                None => object.sql.replacen(index, "CREATE INDEX temp.", 1),
            };
            db.execute_batch(&sql).doing("making a table beside another")?;
        }
        Ok(())
    }
}
