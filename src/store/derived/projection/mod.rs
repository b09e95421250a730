//! Derived tables: any program may read them with plain SQL. They follow the log and can be rebuilt at any time.
//!
//! A projection is a fold from events to rows with a name, a version and a checkpoint: the position up to which it
//! has read. `Store::catch_up` moves all projections forward in steps of bounded size, each step one transaction.
//! [`rebuild`](rebuild::rebuild) rebuilds a projection from position 0 in temporary tables and then swaps the rows.
//! Invariants: a projection holds only data of the log and the base states; rebuilding gives the same rows as
//! following; only this module writes its tables; a projection with an impossible checkpoint, or with rows ahead of
//! its checkpoint, starts again from position 0; damage of one event or base state ends no fold: what is no text, and a
//! payload or base state that cannot be read, count as missing.
//!
//! A new projection needs one file and one line in [`PROJECTIONS`]. Its [`Description`] tells the rest of the code
//! everything else, and `tests.rs` names what it lacks. The catalogue (`conversation`) is the only projection that every
//! append updates itself; `catalogue.rs` rebuilds it.

pub(in crate::store) mod catalogue;
pub(in crate::store) mod compare;
pub(in crate::store) mod correlations;
mod description;
mod facts;
pub(in crate::store) mod hosted;
pub(in crate::store) mod rebuild;
pub(super) mod sample;
pub(in crate::store) mod search;
pub(in crate::store) mod snapshots;
mod status;
mod table;
mod tasks;
#[cfg(test)]
mod tests;
mod tool_calls;
mod transcript;
mod usage;

use std::borrow::Cow;

use rusqlite::{Connection, OptionalExtension as _, Row, params};

pub(in crate::store) use description::Description;
pub use description::SqlView;
pub use status::ProjectionStatus;
pub(in crate::store) use status::status;
pub(super) use table::{Key, Table};

use super::schema::{Difference, ObjectKind, Role, State};
use crate::error::Result;
use crate::json::Object;
use crate::store::engine::{WhileDoing as _, is_damage};
use crate::store::table::archive::Payloads;
use crate::store::table::log;

/// The name of the table of checkpoints.
const CHECKPOINTS: &str = "projection";
const CHECKPOINT: &str = "SELECT version, position FROM projection WHERE name = ?1";
const SAVE: &str = "INSERT INTO projection (name, version, position) VALUES (?1, ?2, ?3) \
     ON CONFLICT (name) DO UPDATE SET version = excluded.version, position = excluded.position";
const IMPOSSIBLE: &str = "SELECT 1 FROM projection WHERE position NOT BETWEEN 0 AND ?1";
const FORGET_IMPOSSIBLE: &str = "DELETE FROM projection WHERE position NOT BETWEEN 0 AND ?1";
const FORGET: &str = "DELETE FROM projection WHERE name = ?1";
const FORGET_ALL: &str = "DELETE FROM projection";
const EVENTS: &str = "SELECT position, conversation, id, kind, timestamp, tool_call_id, action_id, tool_name, \
     source, payload FROM event WHERE position > ?1 AND +conversation IN (SELECT key FROM conversation) \
     ORDER BY position LIMIT ?2";
const EVENTS_OF: &str = "SELECT position, conversation, id, kind, timestamp, tool_call_id, action_id, tool_name, \
     source, payload FROM event WHERE conversation = ?1 AND sequence >= ?2 ORDER BY sequence LIMIT ?3";

/// The most events in one step.
const STEP_EVENTS_MAX: i64 = 1000;

/// The most payload bytes in one step, unless a single event has more: 8 MiB.
const STEP_BYTES_MAX: usize = 8 << 20;

/// One event as a projection sees it.
pub(super) struct LogEvent<'a> {
    pub position: i64,
    pub conversation: i64,
    /// "" if it is damaged.
    pub id: &'a str,
    /// "" if the payload has none, or if it is damaged.
    pub kind: &'a str,
    pub source: Option<&'a str>,
    pub timestamp: Option<&'a str>,
    pub tool_call_id: Option<&'a str>,
    pub action_id: Option<&'a str>,
    pub tool_name: Option<&'a str>,
    /// "" if it is damaged.
    pub payload: &'a str,
    /// The payload's members.
    pub members: &'a Object<'a>,
}

/// A fold from events to rows.
pub(super) trait Projection {
    /// Returns what the rest of the code knows about it.
    fn description(&self) -> &'static Description;

    /// Returns its name.
    fn name(&self) -> &'static str {
        self.description().name
    }

    /// Returns its version.
    fn version(&self) -> i64 {
        self.description().version
    }

    /// Returns the tables that it fills.
    fn tables(&self) -> &'static [Table] {
        self.description().tables
    }

    /// Called if the projection starts again from position 0, in the same transaction.
    fn restarted(&self, _db: &Connection) -> Result<()> {
        Ok(())
    }

    /// Applies the next event.
    fn apply(&mut self, db: &Connection, event: &LogEvent<'_>) -> Result<()>;

    /// Writes the rows that it has buffered. Called at the end of every step; no row stays buffered after it.
    fn flush(&mut self, db: &Connection) -> Result<()>;
}

/// The projections that follow every log. Full-text search follows only after the first search.
pub(in crate::store) const PROJECTIONS: &[&Description] = &[
    // In the order of their views in `docs/format.md`.
    &transcript::DESCRIPTION,
    &tool_calls::DESCRIPTION,
    &usage::DESCRIPTION,
    &tasks::DESCRIPTION,
    &correlations::DESCRIPTION,
    &facts::DESCRIPTION,
    &snapshots::DESCRIPTION,
];

/// Begins every projection.
pub(super) fn all() -> Vec<Box<dyn Projection + Send>> {
    PROJECTIONS.iter().map(|projection| (projection.begin)()).collect()
}

/// Returns whether a projection is behind the log. Cheap enough to call before every read.
pub(in crate::store) fn lags(db: &Connection) -> Result<bool> {
    let head = log::last_position(db)?.0.cast_signed();
    for projection in all() {
        match checkpoint(db, projection.as_ref())? {
            Some(position) if position == head && !is_ahead(db, projection.as_ref(), head, Look::AtKeys)? => {
            }
            _ => return Ok(true),
        }
    }
    Ok(usage::has_stale(db)? || facts::has_stale(db)?)
}

/// Returns the position up to which every projection has read the log.
pub(in crate::store) fn reached(db: &Connection) -> Result<i64> {
    all().iter().try_fold(i64::MAX, |least, projection| {
        Ok(least.min(checkpoint(db, projection.as_ref())?.unwrap_or(0)))
    })
}

/// Takes one step: applies up to [`STEP_EVENTS_MAX`] events to every projection that has not read them.
///
/// Returns whether there are more events. Runs within a write transaction. A projection that already has rows of later
/// events, as far as `look` checks, starts again from position 0.
pub(in crate::store) fn step(db: &Connection, look: Look) -> Result<bool> {
    let mut projections = Vec::new();
    for projection in all() {
        match checkpoint(db, projection.as_ref())? {
            Some(position) if !is_ahead(db, projection.as_ref(), position, look)? => {
                projections.push((projection, position));
            }
            _ => {
                empty(db, projection.as_ref())?;
                projection.restarted(db)?;
                projections.push((projection, 0));
            }
        }
    }
    let from = projections.iter().map(|(_, position)| *position).min().unwrap_or(0);
    let (reached, more) = feed(db, &mut projections, from)?;
    for (projection, position) in &mut projections {
        projection.flush(db)?;
        save(db, projection.name(), projection.version(), reached.max(*position))?;
    }
    if !more {
        renew_stale(db)?;
    }
    Ok(more)
}

/// Reads what stands beside the events again, for every conversation where it changed since the last read.
fn renew_stale(db: &Connection) -> Result<()> {
    usage::renew_stale(db)?;
    facts::renew_stale(db)
}

/// How thoroughly the tables are searched for rows ahead of a checkpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::store) enum Look {
    /// Checks only tables whose key is the position of an event: one look-up per table.
    AtKeys,
    /// Checks every column with a position: scans whole tables, once after a file is opened.
    AtEverything,
}

/// Returns whether a projection's tables have rows of an event after its checkpoint.
fn is_ahead(db: &Connection, projection: &dyn Projection, checkpoint: i64, look: Look) -> Result<bool> {
    for table in projection.tables() {
        if table.is_ahead(db, checkpoint, look == Look::AtEverything)? {
            return Ok(true);
        }
    }
    Ok(false)
}

fn empty(db: &Connection, projection: &dyn Projection) -> Result<()> {
    projection.tables().iter().try_for_each(|table| table.empty(db))
}

/// A projection and the position up to which it has read.
type Standing = (Box<dyn Projection + Send>, i64);

/// Removes a conversation from every projection and applies its events again, up to each projection's checkpoint.
///
/// The search index is not included. Projections of hosts lose their rows, and make them again later. Runs within a write
/// transaction.
pub(in crate::store) fn again(db: &Connection, conversation: i64) -> Result<()> {
    delete_rows(db, conversation)?;
    hosted::redo(db, conversation)?;
    let mut projections = Vec::new();
    for projection in all() {
        // A projection without a checkpoint starts from position 0 anyway.
        if let Some(position) = checkpoint(db, projection.as_ref())? {
            projections.push((projection, position));
        }
    }
    let doing = "projecting a conversation again";
    let mut next = 0;
    loop {
        let mut statement = db.prepare_cached(EVENTS_OF).doing(doing)?;
        let rows = statement.query(params![conversation, next, STEP_EVENTS_MAX]).doing(doing)?;
        let mut apply = |event: &LogEvent<'_>| {
            let mut reading = projections.iter_mut().filter(|(_, position)| event.position <= *position);
            reading.try_for_each(|(projection, _)| projection.apply(db, event))
        };
        let step = each(db, rows, &mut apply)?;
        for (projection, _) in &mut projections {
            projection.flush(db)?;
        }
        if !step.more {
            break;
        }
        next += step.events;
    }
    usage::renew_one(db, conversation)?;
    facts::renew_one(db, conversation)
}

/// Applies a step's events to `projections`. Returns the last position read and whether there are more events.
fn feed(db: &Connection, projections: &mut [Standing], from: i64) -> Result<(i64, bool)> {
    let doing = "catching projections up";
    let mut statement = db.prepare_cached(EVENTS).doing(doing)?;
    let rows = statement.query(params![from, STEP_EVENTS_MAX]).doing(doing)?;
    let step = each(db, rows, &mut |event| {
        let mut reading = projections.iter_mut().filter(|(_, position)| *position < event.position);
        reading.try_for_each(|(projection, _)| projection.apply(db, event))
    })?;
    let reached = step.reached.unwrap_or(from);
    if step.more {
        return Ok((reached, true));
    }
    // After the last event there may be positions whose events were deleted.
    Ok((reached.max(log::last_position(db)?.0.cast_signed()), false))
}

/// The events that one step has read.
struct Step {
    /// The last event's position.
    reached: Option<i64>,
    events: i64,
    /// Whether there may be more events.
    more: bool,
}

/// Calls `apply` with each event of a step.
fn each(
    db: &Connection,
    mut rows: rusqlite::Rows<'_>,
    apply: &mut dyn FnMut(&LogEvent<'_>) -> Result<()>,
) -> Result<Step> {
    let doing = "reading events for projections";
    let mut bytes = 0;
    let mut payloads = Payloads::new(db);
    let mut step = Step { reached: None, events: 0, more: false };
    while let Some(row) = rows.next().doing(doing)? {
        let position = row.get(0).doing(doing)?;
        let payload = readable_payload(&mut payloads, row, (position, 9))?.unwrap_or_default();
        let payload = &*payload;
        let members = Object::of(payload);
        let event = LogEvent {
            position,
            conversation: row.get(1).doing(doing)?,
            id: readable_text(row, 2).unwrap_or_default(),
            kind: readable_text(row, 3).unwrap_or_default(),
            timestamp: readable_text(row, 4),
            tool_call_id: readable_text(row, 5),
            action_id: readable_text(row, 6),
            tool_name: readable_text(row, 7),
            source: readable_text(row, 8),
            payload,
            members: &members,
        };
        step.reached = Some(event.position);
        apply(&event)?;
        step.events += 1;
        bytes += payload.len();
        step.more = step.events == STEP_EVENTS_MAX || bytes >= STEP_BYTES_MAX;
        if step.more {
            break;
        }
    }
    Ok(step)
}

/// Returns a column of an event's row. `None` if it is NULL, or damaged and no text: one event must not keep the
/// others from being projected, and `verify` reports the damage.
fn readable_text<'a>(row: &'a Row<'_>, column: usize) -> Option<&'a str> {
    row.get_ref(column).ok()?.as_str_or_null().ok().flatten()
}

/// Returns the payload of the event at `position`, whose stored text is in `column`. `None` if it is damaged and no
/// text.
fn readable_payload<'a>(
    payloads: &mut Payloads<'_>,
    row: &'a Row<'_>,
    (position, column): (i64, usize),
) -> Result<Option<Cow<'a, str>>> {
    let Ok(stored) = log::text(row, column) else { return Ok(None) };
    match payloads.payload(position, stored) {
        Err(error) if is_damage(&error) => Ok(None),
        payload => payload.map(Some),
    }
}

/// Returns how far a projection has read. `None` if it must start from position 0: another version filled it, or its
/// checkpoint is impossible in this log.
fn checkpoint(db: &Connection, projection: &dyn Projection) -> Result<Option<i64>> {
    let head = log::last_position(db)?.0.cast_signed();
    let stored = stored_checkpoint(db, projection.name())?;
    let possible =
        |(version, position): &(i64, i64)| *version == projection.version() && (0..=head).contains(position);
    Ok(stored.filter(possible).map(|(_, position)| position))
}

fn stored_checkpoint(db: &Connection, name: &str) -> Result<Option<(i64, i64)>> {
    db.prepare_cached(CHECKPOINT)
        .and_then(|mut s| s.query_row([name], |row| Ok((row.get(0)?, row.get(1)?))).optional())
        .doing("reading a checkpoint")
}

fn save(db: &Connection, name: &str, version: i64, position: i64) -> Result<()> {
    db.prepare_cached(SAVE)
        .and_then(|mut statement| statement.execute(params![name, version, position]))
        .doing("writing a checkpoint")?;
    Ok(())
}

/// Returns whether a checkpoint is impossible in this log. If the log grows past it, it looks possible, and events
/// that were never read are not noticed.
pub(in crate::store) fn has_impossible(db: &Connection) -> Result<bool> {
    let head = log::last_position(db)?.0.cast_signed();
    db.prepare_cached(IMPOSSIBLE).and_then(|mut s| s.exists([head])).doing("looking at checkpoints")
}

/// Makes projections with an impossible checkpoint start from position 0. Runs within a write transaction.
pub(in crate::store) fn forget_impossible(db: &Connection) -> Result<()> {
    let head = log::last_position(db)?.0.cast_signed();
    db.execute(FORGET_IMPOSSIBLE, [head]).doing("resetting a projection")?;
    Ok(())
}

/// Makes every projection start from position 0. Works in a file of any schema version.
pub(super) fn forget_all(db: &Connection) -> Result<()> {
    db.execute(FORGET_ALL, []).doing("resetting projections")?;
    Ok(())
}

/// Returns whether a table of this name is derived: a table of a projection or of the search index, or the table of
/// checkpoints.
pub(in crate::store) fn owns(table: &str) -> bool {
    table == CHECKPOINTS
        || table == search::TABLE
        || search::is_beneath(table)
        || tables().any(|own| own.name == table)
}

/// Makes the projections of `tables`, which were just recreated and are empty, start from position 0 at the next step.
///
/// The search index starts only if it was in use (`searched`). Runs within a write transaction.
pub(super) fn remade(db: &Connection, tables: &[&str], searched: bool) -> Result<()> {
    for projection in all() {
        if projection.tables().iter().any(|table| tables.contains(&table.name)) {
            empty(db, projection.as_ref())?;
            db.execute(FORGET, [projection.name()]).doing("resetting a projection")?;
        }
    }
    if !tables.contains(&search::TABLE) {
        return Ok(());
    }
    if searched {
        return search::restarted(db);
    }
    db.execute(FORGET, [search::NAME]).doing("resetting the search index")?;
    Ok(())
}

/// Returns a derived table that is missing or altered, or that another program's unique index keeps rows out of, in
/// words. Ignores views, other indexes and guards.
pub(in crate::store) fn torn(differences: &[Difference]) -> Option<String> {
    let difference = differences.iter().find(|difference| {
        let object = &difference.object;
        difference.state != State::Strange
            && object.role() == Role::Derived
            && (object.kind == ObjectKind::Table || object.keeps_rows_out())
    });
    difference.map(|difference| format!("table {}", difference.object.table))
}

/// Makes every projection start from position 0 at the next step, also those of hosts, and the search index if it is in
/// use.
pub(in crate::store) fn start_over(db: &Connection) -> Result<()> {
    hosted::start_over(db)?;
    for projection in all() {
        db.execute(FORGET, [projection.name()]).doing("resetting projections")?;
    }
    match search::checkpoint(db)? {
        Some(_) => search::restart(db),
        None => Ok(()),
    }
}

/// Empties every projection, and makes it start from position 0 at the next step.
#[cfg(feature = "postgres")]
pub(in crate::store) fn empty_all(db: &Connection) -> Result<()> {
    start_over(db)?;
    tables().try_for_each(|table| table.empty(db))
}

/// Returns the names of everything that can be rebuilt from the log.
pub(in crate::store) fn names() -> Vec<&'static str> {
    let names = PROJECTIONS.iter().map(|projection| projection.name);
    names.chain([search::NAME, catalogue::NAME]).collect()
}

/// Returns the tables of every projection.
pub(in crate::store) fn tables() -> impl Iterator<Item = &'static Table> {
    PROJECTIONS.iter().flat_map(|projection| projection.tables)
}

/// Deletes every row of a conversation. Its events must not be deleted yet.
pub(in crate::store) fn delete(db: &Connection, conversation: i64) -> Result<()> {
    search::forget(db, conversation)?;
    hosted::remove(db, conversation)?;
    delete_rows(db, conversation)
}

/// Deletes every row of a conversation, except in the search index.
fn delete_rows(db: &Connection, conversation: i64) -> Result<()> {
    tables().try_for_each(|table| table.delete_rows(db, conversation))
}
