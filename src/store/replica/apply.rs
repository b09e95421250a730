//! Puts the changes of others into this file, in an open transaction.

use std::collections::BTreeSet;

use rusqlite::{Connection, OptionalExtension as _, ffi, params_from_iter};

use super::check::{self, Head};
use super::row::Row;
use super::shape::{Of, Shape};
use crate::error::{Result, SharedError};
use crate::store::derived::projection::{self, search};
use crate::store::engine::SqlValue;
use crate::store::engine::WhileDoing as _;
use crate::store::table::{base_state, guards, stale};

const PLACE: &str = "SELECT conversation FROM event WHERE position = ?1";
const IS_THERE: &str = "SELECT 1 FROM conversation WHERE key = ?1";
/// A row may come before the one that it refers to, or go after it. Only then are these checks put off to the commit: with this
/// statement the engine prepares all others again.
const DEFER: &str = "PRAGMA defer_foreign_keys = ON";

/// Tables whose rows change what a projection knows of a conversation, without an event.
const BESIDE: &[&str] =
    &["arrival", "attachment", "base_state", "base_state_change", "conversation", "origin"];

const DOING: &str = "following the shared log";

/// Changes of others on their way into a file. Each is applied at once; [`Applying::finish`] checks the result.
pub(in crate::store) struct Applying<'a> {
    db: &'a Connection,
    shapes: &'static [Shape],
    /// The events that were added or changed.
    positions: Vec<i64>,
    /// The conversations of which an event was changed in place or removed.
    again: BTreeSet<i64>,
    /// The conversations of which something beside the events changed.
    beside: BTreeSet<i64>,
    /// Whether anything was removed or changed that must not stay in free space.
    wipes: bool,
}

impl<'a> Applying<'a> {
    /// Begins.
    pub(in crate::store) fn begin(db: &'a Connection) -> Result<Self> {
        guards::permit(db, "shared log")?;
        let (positions, again, beside) = (Vec::new(), BTreeSet::new(), BTreeSet::new());
        Ok(Self { db, shapes: Shape::all(db)?, positions, again, beside, wipes: false })
    }

    /// Empties the file: everything that is stored, and everything that is derived.
    pub(in crate::store) fn empty(&mut self) -> Result<()> {
        self.wipes = true;
        // Some of them forbid every removal.
        guards::lift(self.db)?;
        self.db.execute_batch(DEFER).doing(DOING)?;
        projection::empty_all(self.db)?;
        for shape in self.shapes.iter().rev() {
            self.db.execute(&format!("DELETE FROM main.{}", shape.table), []).doing(DOING)?;
        }
        Ok(())
    }

    /// Removes a conversation with everything that is stored or derived for it.
    pub(in crate::store) fn remove(&mut self, conversation: i64) -> Result<()> {
        let is_there = self
            .db
            .prepare_cached(IS_THERE)
            .and_then(|mut statement| statement.exists([conversation]))
            .doing(DOING)?;
        if !is_there {
            return Ok(());
        }
        self.wipes = true;
        projection::delete(self.db, conversation)?;
        // Last the events and the row itself, which the other rows refer to.
        for shape in self.shapes.iter().rev() {
            let sql = match shape.of {
                Of::Store => continue,
                Of::Column(column) => format!("DELETE FROM main.{} WHERE {column} = ?1", shape.table),
                Of::Event => format!(
                    "DELETE FROM main.{} WHERE position IN (SELECT position FROM event WHERE conversation = ?1)",
                    shape.table
                ),
            };
            self.execute(&sql, &[SqlValue::Integer(conversation)])?;
        }
        self.again.remove(&conversation);
        self.beside.remove(&conversation);
        Ok(())
    }

    /// Puts or removes a row.
    pub(in crate::store) fn apply(&mut self, row: &Row) -> Result<()> {
        let Some(shape) = Shape::number(row.table).map(|number| &self.shapes[number]) else { return Ok(()) };
        if row.table == "event" {
            self.note_event(row)?;
        }
        // A redaction may have changed no event, but a title, a base state or a file. It always leaves an act.
        self.wipes |= row.table == "admin_act";
        if let Some(conversation) = row.conversation.filter(|_| BESIDE.contains(&row.table)) {
            self.beside.insert(conversation);
        }
        match &row.values {
            None => self.execute(&shape.delete, &row.key).map(drop),
            Some(values) if values.len() == shape.columns.len() => {
                // An event is mostly new, and any other row mostly there. A row that is replaced is removed first, from all
                // indexes, and looked for in all tables that may refer to it.
                let update = shape.update.as_ref().filter(|_| row.table != "event");
                let changed = update.map(|sql| self.execute(sql, values)).transpose()?;
                if changed.is_none_or(|count| count == 0) {
                    self.execute(&shape.insert, values)?;
                }
                Ok(())
            }
            Some(values) => {
                let what = format!(
                    "a row of the table {} has {} values and not {}",
                    shape.table,
                    values.len(),
                    shape.columns.len()
                );
                Err(SharedError::Differs { what }.into())
            }
        }
    }

    /// Executes a statement. Returns how many rows it found.
    fn execute(&self, sql: &str, values: &[SqlValue]) -> Result<usize> {
        let execute = || {
            let mut statement = self.db.prepare_cached(sql)?;
            statement.execute(params_from_iter(values.iter().map(SqlValue::bound)))
        };
        match execute() {
            Err(error) if refers_to_nothing(&error) => {
                self.db.execute_batch(DEFER).doing(DOING)?;
                execute().doing(DOING)
            }
            executed => executed.doing(DOING),
        }
    }

    /// Notes an event, before its row is put or removed. What is derived from an event that was changed has to go while
    /// the event is still as it was.
    fn note_event(&mut self, row: &Row) -> Result<()> {
        let Some(SqlValue::Integer(position)) = row.key.first() else { return Ok(()) };
        let present: Option<i64> = self
            .db
            .prepare_cached(PLACE)
            .and_then(|mut statement| statement.query_row([position], |row| row.get(0)).optional())
            .doing(DOING)?;
        if let Some(conversation) = present
            && self.again.insert(conversation)
        {
            self.wipes = true;
            search::forget(self.db, conversation)?;
        }
        if row.values.is_some() {
            self.positions.push(*position);
        }
        Ok(())
    }

    /// Ends, and returns whether anything was removed or changed that must not stay in free space, and the positions of the
    /// events that came. Derives again what changed in place, and compares the file with `heads`, the ends of the chains that the log
    /// recorded.
    ///
    /// # Errors
    /// [`SharedError::Differs`] if this file is another one now than that of the writer was. The transaction must not be
    /// committed then.
    pub(in crate::store) fn finish(self, heads: &[Head]) -> Result<(bool, Vec<i64>)> {
        let db = self.db;
        for conversation in &self.again {
            projection::again(db, *conversation)?;
            search::remember(db, *conversation)?;
        }
        for conversation in &self.beside {
            stale::all(db, *conversation)?;
            base_state::mark_usage(db, *conversation)?;
        }
        if self.wipes {
            search::merge(db)?;
        }
        guards::forbid(db)?;
        check::check_links(db, &self.positions)?;
        check::compare(db, heads)?;
        Ok((self.wipes, self.positions))
    }
}

/// Returns whether a row would refer to one that is not there now.
fn refers_to_nothing(error: &rusqlite::Error) -> bool {
    error.sqlite_error().is_some_and(|error| error.extended_code == ffi::SQLITE_CONSTRAINT_FOREIGNKEY)
}
