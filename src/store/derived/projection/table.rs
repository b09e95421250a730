//! Describes a table of a projection to the rest of the code: how its rows are deleted and ordered, and which events
//! they come from. Code that works on all projections uses this description, so it has no list of their tables.

use rusqlite::Connection;

use crate::error::Result;
use crate::store::derived::schema;
use crate::store::engine::WhileDoing as _;

/// How the rows of a conversation are found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::store) enum Key {
    /// By column `position`, the row's key. The rows are those of the conversation's events.
    Position,
    /// By column `conversation`.
    Conversation,
}

/// A table that a projection fills.
#[derive(Debug, Clone, Copy)]
pub(in crate::store) struct Table {
    pub name: &'static str,
    pub key: Key,
    /// The columns that give its rows a fixed order, to compare two such tables row by row. `None` if its rows are only
    /// a list of pending work.
    pub order: Option<&'static str>,
    /// Expressions for the positions of the events that a row comes from. None is greater than the checkpoint.
    pub places: &'static [&'static str],
    /// The documented view that shows it.
    pub view: &'static str,
}

impl Table {
    /// Deletes the rows of one conversation. Its events must not be deleted yet.
    pub(super) fn delete_rows(&self, db: &Connection, conversation: i64) -> Result<()> {
        let own = match self.key {
            Key::Position => "position IN (SELECT position FROM event WHERE conversation = ?1)",
            Key::Conversation => "conversation = ?1",
        };
        db.execute(&format!("DELETE FROM {} WHERE {own}", self.name), [conversation])
            .doing("deleting projected rows")?;
        Ok(())
    }

    /// Deletes the rows of events and conversations that no longer exist: during a rebuild, a conversation may be
    /// deleted after it was read.
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

    /// Returns whether it has a row of an event after `checkpoint`. Checks only the key `position`, if it has that key,
    /// unless `thorough`.
    pub(super) fn is_ahead(&self, db: &Connection, checkpoint: i64, thorough: bool) -> Result<bool> {
        let key_places = usize::from(self.key == Key::Position);
        let places = if thorough { self.places } else { &self.places[..key_places.min(self.places.len())] };
        for place in places {
            let sql = format!("SELECT 1 FROM {} WHERE {place} > ?1 LIMIT 1", self.name);
            let found = db.prepare_cached(&sql).and_then(|mut statement| statement.exists([checkpoint]));
            if found.doing("looking for rows ahead of a checkpoint")? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Makes an empty temporary table of the same name, with its indexes. It hides the file's table.
    pub(super) fn make_shadow(&self, db: &Connection) -> Result<()> {
        for object in schema::statements(self.name)? {
            let (table, index) = ("CREATE TABLE ", "CREATE INDEX ");
            // A temporary table cannot refer to tables of the file, so the callers turn foreign keys off.
            let sql = match object.sql.strip_prefix(table) {
                Some(rest) => format!("CREATE TEMP TABLE {rest}"),
                None => object.sql.replacen(index, "CREATE INDEX temp.", 1),
            };
            db.execute_batch(&sql).doing("making a temporary table")?;
        }
        Ok(())
    }
}
