//! Projections of a host's own, in the transaction of the append.
//!
//! The writer calls [`Hosted::apply`] for each event that it appends, and [`Hosted::save`] before it commits. Before that,
//! [`Hosted::step`] brings a projection up to date that is behind: another program appended without it, its version or its
//! tables are other ones, or a conversation was redacted. Invariants: the rows, the checkpoint and the events of an
//! append are one transaction; no event is applied before those before it; a projection that cannot apply a
//! stored event keeps every append of its program from going on, and skips nothing.

mod registry;
mod status;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use rusqlite::{Connection, OptionalExtension as _, Row, params};

pub(in crate::store) use registry::{drop_all, redo, remove, start_over, tables};
pub use status::OwnProjectionStatus;
pub(in crate::store) use status::status;

use super::super::schema;
use super::{STEP_BYTES_MAX, STEP_EVENTS_MAX, readable_payload, readable_text, save, stored_checkpoint};
use crate::error::{Error, OwnProjectionError, Result};
use crate::ids::{Position, Sequence};
use crate::store::engine::WhileDoing as _;
use crate::store::own::{
    Made, OwnEvent, OwnFailure, OwnProjection, OwnProjections, OwnRows, OwnScope, Shape,
};
use crate::store::table::archive::Payloads;
use crate::store::table::log;

const EVENTS: &str = "SELECT e.position, e.sequence, c.id, e.id, e.kind, e.payload FROM event AS e \
     CROSS JOIN conversation AS c ON c.key = e.conversation WHERE e.position > ?1 ORDER BY e.position LIMIT ?2";
const EVENTS_OF: &str = "SELECT e.position, e.sequence, c.id, e.id, e.kind, e.payload FROM conversation AS c \
     CROSS JOIN event AS e ON e.conversation = c.key WHERE c.id = ?1 AND e.position <= ?2 ORDER BY e.sequence";
const MADE: &str = "SELECT sql FROM main.sqlite_schema WHERE type = ?1 AND name = ?2";
const OTHER: &str = "SELECT 1 FROM main.sqlite_schema WHERE name = ?1 COLLATE NOCASE";

const DOING: &str = "applying events to a projection of the host's own";

/// The projections of this program's own, with what is known of their tables.
pub(in crate::store) struct Hosted {
    each: Vec<One>,
    /// The cookie of the last schema in which every table was as it should be. `i64::MIN` before the first check.
    compared: AtomicI64,
}

struct One {
    projection: Arc<dyn OwnProjection>,
    shape: Shape,
}

/// How far a step has brought the projections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::store) enum Stepped {
    /// They were up to date, and the step wrote nothing.
    WereCurrent,
    /// They are up to date now, as soon as the transaction is committed.
    AreCurrent,
    /// There is more to do.
    More,
}

impl Hosted {
    /// Checks the projections of a host. `None` if the host gives no projection.
    ///
    /// # Errors
    /// [`OwnProjectionError::Unusable`] if the name or the statements of one are not allowed.
    pub(in crate::store) fn of(projections: &OwnProjections) -> Result<Option<Self>> {
        let mut each = Vec::new();
        for projection in projections.each() {
            let shape = Shape::of(projection.as_ref())?;
            each.push(One { projection: Arc::clone(projection), shape });
        }
        Ok((!each.is_empty()).then_some(Self { each, compared: AtomicI64::new(i64::MIN) }))
    }

    /// Returns the names of the projections.
    pub(in crate::store) fn names(&self) -> impl Iterator<Item = &str> {
        self.each.iter().map(|one| &*one.shape.name)
    }

    /// Returns the shape of a projection. `None` if this program does not have it.
    pub(in crate::store) fn shape(&self, name: &str) -> Option<&Shape> {
        self.each.iter().map(|one| &one.shape).find(|shape| shape.name == name)
    }

    /// Returns whether every projection has read the whole log, and every table is as it should be.
    pub(in crate::store) fn is_current(&self, db: &Connection) -> Result<bool> {
        let head = log::last_position(db)?.0.cast_signed();
        let whole = schema::cookie(db)? == self.compared.load(Ordering::Acquire);
        for one in &self.each {
            let current = one.checkpoint(db, head)? == Some(head)
                && registry::stale(db, &one.shape.name)?.is_none()
                && (whole || one.is_made(db)?);
            if !current {
                return Ok(false);
            }
        }
        if !whole {
            self.compared.store(schema::cookie(db)?, Ordering::Release);
        }
        Ok(true)
    }

    /// Brings the projections further. Runs within a write transaction, in which no event was appended yet.
    ///
    /// # Errors
    /// [`OwnProjectionError::Stuck`] if one does not accept a stored event. [`Error::NameTaken`] if another program's
    /// object has a name of its tables.
    pub(in crate::store) fn step(&self, db: &Connection) -> Result<Stepped> {
        if self.is_current(db)? {
            return Ok(Stepped::WereCurrent);
        }
        for one in &self.each {
            if one.step(db)? {
                return Ok(Stepped::More);
            }
        }
        Ok(Stepped::AreCurrent)
    }

    /// Applies an event that was just appended.
    ///
    /// # Errors
    /// [`OwnProjectionError::Refused`] if a projection does not accept it. Any error of the file.
    pub(in crate::store) fn apply(&self, db: &Connection, event: &OwnEvent<'_>) -> Result<()> {
        self.each
            .iter()
            .try_for_each(|one| one.apply(db, event).map_err(|failure| one.refused(event, failure)))
    }

    /// Records that every event up to `position` was applied.
    pub(in crate::store) fn save(&self, db: &Connection, position: Position) -> Result<()> {
        let position = position.0.cast_signed();
        self.each
            .iter()
            .try_for_each(|One { shape, .. }| save(db, &shape.checkpoint, shape.version.into(), position))
    }

    /// Returns how far the slowest projection has read.
    pub(in crate::store) fn reached(&self, db: &Connection) -> Result<Position> {
        let head = log::last_position(db)?;
        self.each.iter().try_fold(head, |least, one| {
            let position = one.checkpoint(db, head.0.cast_signed())?.unwrap_or(0);
            Ok(least.min(Position(position.cast_unsigned())))
        })
    }
}

/// Why an event was not applied.
enum Failure {
    /// The projection does not accept it.
    Host(OwnFailure),
    /// The file failed.
    File(Error),
}

impl One {
    /// Returns how far it has read. `None` if it must start from position 0.
    fn checkpoint(&self, db: &Connection, head: i64) -> Result<Option<i64>> {
        let stored = stored_checkpoint(db, &self.shape.checkpoint)?;
        let possible = |(version, position): &(i64, i64)| {
            *version == i64::from(self.shape.version) && (0..=head).contains(position)
        };
        Ok(stored.filter(possible).map(|(_, position)| position))
    }

    /// Returns whether its tables and indexes are as it declares them.
    fn is_made(&self, db: &Connection) -> Result<bool> {
        for Made { is_table, name, sql } in &self.shape.made {
            let kind = if *is_table { "table" } else { "index" };
            let found: Option<String> = db
                .prepare_cached(MADE)
                .and_then(|mut statement| statement.query_row([kind, name], |row| row.get(0)).optional())
                .doing(DOING)?;
            if found.as_ref() != Some(sql) {
                return Ok(false);
            }
        }
        registry::names_all(db, &self.shape)
    }

    /// Brings it further. Returns whether there is more to do.
    fn step(&self, db: &Connection) -> Result<bool> {
        let head = log::last_position(db)?.0.cast_signed();
        let from = match self.checkpoint(db, head)? {
            Some(position) if self.is_made(db)? => position,
            _ => {
                self.make(db)?;
                0
            }
        };
        if let Some(conversation) = registry::stale(db, &self.shape.name)? {
            self.redo(db, &conversation, from)?;
            return Ok(true);
        }
        let mut statement = db.prepare_cached(EVENTS).doing(DOING)?;
        let rows = statement.query(params![from, STEP_EVENTS_MAX]).doing(DOING)?;
        let (reached, more) = self.feed(db, rows, Bounds::Step)?;
        // After the last event there may be positions whose events were deleted.
        let reached = if more { reached.unwrap_or(from) } else { head };
        save(db, &self.shape.checkpoint, self.shape.version.into(), reached)?;
        Ok(more)
    }

    /// Makes its tables anew, empty.
    fn make(&self, db: &Connection) -> Result<()> {
        registry::drop_all(db, &self.shape.name)?;
        for Made { is_table, name, sql } in &self.shape.made {
            // What is there now is not a table of this projection: no other program loses it.
            if db.prepare_cached(OTHER).and_then(|mut s| s.exists([name])).doing(DOING)? {
                let kind = if *is_table { "table" } else { "index" };
                return Err(Error::NameTaken(format!("{kind} {name}")));
            }
            db.execute_batch(sql).doing("making the tables of a projection of the host's own")?;
        }
        registry::name_all(db, &self.shape)?;
        save(db, &self.shape.checkpoint, self.shape.version.into(), 0)
    }

    /// Makes the rows of one conversation again, from its events up to the checkpoint.
    fn redo(&self, db: &Connection, conversation: &str, checkpoint: i64) -> Result<()> {
        if self.shape.scope == OwnScope::Log {
            // Rows of a conversation cannot be recognised.
            return registry::drop_all(db, &self.shape.name);
        }
        for table in self.shape.tables() {
            db.execute(&format!("DELETE FROM main.\"{table}\" WHERE conversation = ?1"), [conversation])
                .doing(DOING)?;
        }
        let mut statement = db.prepare_cached(EVENTS_OF).doing(DOING)?;
        let rows = statement.query(params![conversation, checkpoint]).doing(DOING)?;
        self.feed(db, rows, Bounds::None)?;
        registry::unmark(db, &self.shape.name, conversation)
    }

    /// Applies stored events. Returns the position of the last one, and whether there may be more.
    fn feed(
        &self,
        db: &Connection,
        mut rows: rusqlite::Rows<'_>,
        bounds: Bounds,
    ) -> Result<(Option<i64>, bool)> {
        let (mut reached, mut events, mut bytes) = (None, 0, 0);
        let mut payloads = Payloads::new(db);
        while let Some(row) = rows.next().doing(DOING)? {
            let position: i64 = row.get(0).doing(DOING)?;
            reached = Some(position);
            events += 1;
            if let Some(payload) = readable_payload(&mut payloads, row, (position, 5))? {
                bytes += payload.len();
                self.apply_stored(db, row, position, &payload)?;
            }
            if bounds == Bounds::Step && (events == STEP_EVENTS_MAX || bytes >= STEP_BYTES_MAX) {
                return Ok((reached, true));
            }
        }
        Ok((reached, false))
    }

    fn apply_stored(&self, db: &Connection, row: &Row<'_>, position: i64, payload: &str) -> Result<()> {
        // A row that cannot be read is passed over, as by every projection. `verify` reports it.
        let (Some(conversation), Some(id), Some(kind)) =
            (readable_text(row, 2), readable_text(row, 3), readable_text(row, 4))
        else {
            return Ok(());
        };
        let Ok(sequence) = row.get::<_, i64>(1) else { return Ok(()) };
        let event = OwnEvent {
            conversation,
            sequence: Sequence(sequence.cast_unsigned()),
            position: Position(position.cast_unsigned()),
            id,
            kind,
            payload,
        };
        self.apply(db, &event).map_err(|failure| match failure {
            Failure::Host(source) => {
                let name = self.shape.name.clone();
                OwnProjectionError::Stuck { name, position: event.position, source }.into()
            }
            Failure::File(error) => error,
        })
    }

    fn apply(&self, db: &Connection, event: &OwnEvent<'_>) -> Result<(), Failure> {
        let rows = OwnRows::new(db, &self.shape);
        // The rows of a projection that panics are undone with the append, and it keeps no other state.
        let done = catch_unwind(AssertUnwindSafe(|| self.projection.apply(&rows, event)));
        if let Some(failure) = rows.take_failure() {
            return Err(Failure::File(failure));
        }
        match done {
            Ok(applied) => applied.map_err(Failure::Host),
            Err(_) => Err(Failure::Host("it panicked".into())),
        }
    }

    fn refused(&self, event: &OwnEvent<'_>, failure: Failure) -> Error {
        match failure {
            Failure::Host(source) => OwnProjectionError::Refused {
                name: self.shape.name.clone(),
                conversation: event.conversation.to_owned(),
                event: event.id.to_owned(),
                source,
            }
            .into(),
            Failure::File(error) => error,
        }
    }
}

/// The bounds of the events that are applied in one transaction.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Bounds {
    /// [`STEP_EVENTS_MAX`] and [`STEP_BYTES_MAX`].
    Step,
    /// All events of one conversation, as redaction reads them.
    None,
}
