//! Derived tables: what anyone may read with plain SQL, caught up from the log and rebuilt at will.
//!
//! A projection is a fold from events to rows with a name, a version and a checkpoint: the position up
//! to which it has read. [`catch_up`] moves all of them on, a bounded step at a time, each step one
//! transaction. [`rebuild`](rebuild::rebuild) makes one again from position 0 beside the old one and
//! swaps. Invariants: a projection holds nothing that the log and the base states do not; rebuilt equals
//! incremental; nobody outside this room writes its tables; a checkpoint that cannot be, or rows ahead of it, let
//! a projection start afresh.
//!
//! A new projection is one file and one line in [`all`]: what its tables are to everything else stands in
//! [`Table`], what they are to the engine in a migration. The catalogue (`conversation`) is the one that is moved
//! inline, by every append; see `catalogue.rs` here for how it is made again.

pub(super) mod catalogue;
pub(super) mod compare;
pub(super) mod rebuild;
pub(super) mod sample;
pub(super) mod search;
mod table;
mod tasks;
mod tool_calls;
mod transcript;
mod usage;

use rusqlite::{Connection, OptionalExtension as _, params};

pub(super) use table::{Key, Table};

use super::archive::Payloads;
use super::engine::Doing as _;
use super::log;
use super::schema::{Difference, ObjectKind, Role, State};
use crate::error::Result;
use crate::event::json::Object;
use crate::ids::Position;

/// The table of the checkpoints.
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

/// The most events one step takes.
const STEP_EVENTS_MAX: i64 = 1000;

/// The most payload bytes one step takes, unless a single event has more: 8 MiB.
const STEP_BYTES_MAX: usize = 8 << 20;

/// One event as a projection sees it.
pub(super) struct LogEvent<'a> {
    pub position: i64,
    pub conversation: i64,
    pub id: &'a str,
    pub kind: &'a str,
    pub source: Option<&'a str>,
    pub timestamp: Option<&'a str>,
    pub tool_call_id: Option<&'a str>,
    pub action_id: Option<&'a str>,
    pub tool_name: Option<&'a str>,
    pub payload: &'a str,
    /// The payload's members.
    pub members: &'a Object<'a>,
}

/// A fold from events to rows.
pub(super) trait Projection {
    /// Its name: the key of its checkpoint and what `annals rebuild` calls it.
    fn name(&self) -> &'static str;

    /// Raised whenever the same log would give other rows; a stored lower one is rebuilt.
    fn version(&self) -> i64;

    /// The tables it fills, all of them its own.
    fn tables(&self) -> &'static [Table];

    /// Called when it begins at position 0 again, in the transaction that makes it the current one.
    fn restarted(&self, _db: &Connection) -> Result<()> {
        Ok(())
    }

    /// Takes in the next event.
    fn apply(&mut self, db: &Connection, event: &LogEvent<'_>) -> Result<()>;

    /// Writes what it has held back; called at the end of every step, with nothing held across steps.
    fn flush(&mut self, db: &Connection) -> Result<()>;

    /// A statement that answers no row when its tables are as they should be.
    fn check(&self) -> &'static str;
}

/// The projections that follow every log. Full-text search follows only once someone has asked for it.
pub(super) fn all() -> Vec<Box<dyn Projection + Send>> {
    vec![
        Box::new(transcript::Transcript),
        Box::new(tool_calls::ToolCalls::default()),
        Box::new(usage::Usage::default()),
        Box::new(tasks::Tasks::default()),
    ]
}

/// Where a projection stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProjectionStatus {
    /// Its name.
    pub name: &'static str,
    /// It has read the log up to here.
    pub position: Position,
    /// The newest position of the log.
    pub head: Position,
    /// False where another version of Annals filled it, a table is lost, or it was never filled.
    pub current: bool,
}

/// Where each projection stands.
pub(super) fn status(db: &Connection) -> Result<Vec<ProjectionStatus>> {
    let head = log::head(db)?;
    let mut found = Vec::new();
    for projection in all() {
        let version = projection.version();
        found.push((projection.name(), version, checkpoint(db, projection.as_ref())?));
    }
    found.push((search::NAME, search::VERSION, search::checkpoint(db)?));
    let mut statuses = Vec::new();
    for (name, version, current) in found {
        // One that is ahead of the log is no place to go on from, and is told all the same.
        let stored = stored_checkpoint(db, name)?.filter(|(stored, _)| *stored == version);
        let position = current.or(stored.map(|(_, position)| position.max(0))).unwrap_or(0);
        let position = Position(position.cast_unsigned());
        statuses.push(ProjectionStatus { name, position, head, current: current.is_some() });
    }
    Ok(statuses)
}

/// Whether there is something to catch up with; cheap enough to ask before every read.
pub(super) fn lags(db: &Connection) -> Result<bool> {
    let head = log::head(db)?.0.cast_signed();
    for projection in all() {
        match checkpoint(db, projection.as_ref())? {
            Some(position) if position == head && !is_ahead(db, projection.as_ref(), head, Look::AtKeys)? => {
            }
            _ => return Ok(true),
        }
    }
    usage::has_stale(db)
}

/// Takes one step: up to [`STEP_EVENTS_MAX`] events into every projection that has not read them.
/// Answers whether there is more. Runs within a write transaction. One whose tables already hold something of
/// what comes now, as far as `look` sees it, starts afresh.
pub(super) fn step(db: &Connection, look: Look) -> Result<bool> {
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
        usage::renew_stale(db)?;
    }
    Ok(more)
}

/// How thoroughly rows ahead of a checkpoint are looked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Look {
    /// At the keys of rows that are an event's: a look-up each.
    AtKeys,
    /// At everything that names a position: through whole tables, once when a file is loaded.
    AtEverything,
}

/// Whether a projection's tables hold something of an event behind its checkpoint.
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

/// A projection and the position it has read up to.
type Standing = (Box<dyn Projection + Send>, i64);

/// Takes a conversation out of every projection and reads its events into them again, each as far as it
/// has read the log. The search index is not among them. Runs within a write transaction.
pub(super) fn again(db: &Connection, conversation: i64) -> Result<()> {
    delete_rows(db, conversation)?;
    let mut projections = Vec::new();
    for projection in all() {
        // One without a checkpoint starts afresh anyway.
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
    usage::renew_one(db, conversation)
}

/// Feeds a step's events to `projections`; answers the last position read and whether there is more.
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
    // Behind the last event may be positions whose events were deleted.
    Ok((reached.max(log::head(db)?.0.cast_signed()), false))
}

/// What one step has read.
struct Step {
    /// The last event's position.
    reached: Option<i64>,
    events: i64,
    /// Whether there may be more.
    more: bool,
}

/// Shows a step's events to `apply`.
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
        let text = |column| row.get_ref(column).and_then(|value| Ok(value.as_str_or_null()?)).doing(doing);
        let position = row.get(0).doing(doing)?;
        let payload = &*payloads.payload(position, text(9)?.unwrap_or_default())?;
        let members = Object::of(payload);
        let event = LogEvent {
            position,
            conversation: row.get(1).doing(doing)?,
            id: text(2)?.unwrap_or_default(),
            kind: text(3)?.unwrap_or_default(),
            timestamp: text(4)?,
            tool_call_id: text(5)?,
            action_id: text(6)?,
            tool_name: text(7)?,
            source: text(8)?,
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

/// How far a projection has read; `None` where it must start afresh: another version filled it, or the
/// checkpoint is one that no log like this one has.
fn checkpoint(db: &Connection, projection: &dyn Projection) -> Result<Option<i64>> {
    let head = log::head(db)?.0.cast_signed();
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

/// Whether a checkpoint is one that no log like this one has. As the log grows it may become possible, and hide
/// what was never read.
pub(super) fn has_impossible(db: &Connection) -> Result<bool> {
    let head = log::head(db)?.0.cast_signed();
    db.prepare_cached(IMPOSSIBLE).and_then(|mut s| s.exists([head])).doing("looking at checkpoints")
}

/// Lets projections with an impossible checkpoint start afresh. Runs within a write transaction.
pub(super) fn forget_impossible(db: &Connection) -> Result<()> {
    let head = log::head(db)?.0.cast_signed();
    db.execute(FORGET_IMPOSSIBLE, [head]).doing("mending a projection")?;
    Ok(())
}

/// Lets every projection start afresh, in a file of whichever schema.
pub(super) fn forget_all(db: &Connection) -> Result<()> {
    db.execute(FORGET_ALL, []).doing("starting projections over")?;
    Ok(())
}

/// Whether a table of this name is derived: a projection's, the search index's or that of the checkpoints.
pub(super) fn owns(table: &str) -> bool {
    table == CHECKPOINTS
        || table == search::TABLE
        || search::is_beneath(table)
        || all().iter().any(|projection| projection.tables().iter().any(|own| own.name == table))
}

/// Lets what fills `tables`, which were just made again and are empty, start afresh at the next step; the search
/// index where it was in use. Runs within a write transaction.
pub(super) fn remade(db: &Connection, tables: &[&str], searched: bool) -> Result<()> {
    for projection in all() {
        if projection.tables().iter().any(|table| tables.contains(&table.name)) {
            empty(db, projection.as_ref())?;
            db.execute(FORGET, [projection.name()]).doing("mending a projection")?;
        }
    }
    if !tables.contains(&search::TABLE) {
        return Ok(());
    }
    if searched {
        return search::restarted(db);
    }
    db.execute(FORGET, [search::NAME]).doing("mending the search index")?;
    Ok(())
}

/// What is not as it should be among the derived tables, where something is not; guards and views aside.
pub(super) fn torn(differences: &[Difference]) -> Option<String> {
    let torn = differences.iter().find(|difference| {
        let object = &difference.object;
        difference.state != State::Strange
            && object.kind == ObjectKind::Table
            && object.role() == Role::Derived
    });
    torn.map(|difference| format!("table {}", difference.object.name))
}

/// Lets every projection, and the search index where it is in use, start afresh at the next step.
pub(super) fn start_over(db: &Connection) -> Result<()> {
    for projection in all() {
        db.execute(FORGET, [projection.name()]).doing("starting projections over")?;
    }
    match search::checkpoint(db)? {
        Some(_) => search::restart(db),
        None => Ok(()),
    }
}

/// The names of everything that can be made again from the log.
pub(super) fn names() -> Vec<&'static str> {
    let names = all().into_iter().map(|projection| projection.name());
    names.chain([search::NAME, catalogue::NAME]).collect()
}

/// The tables of every projection.
pub(super) fn tables() -> impl Iterator<Item = &'static Table> {
    all().into_iter().flat_map(|projection| projection.tables())
}

/// Deletes every row of a conversation; its events must still be there.
pub(super) fn delete(db: &Connection, conversation: i64) -> Result<()> {
    search::forget(db, conversation)?;
    delete_rows(db, conversation)
}

/// Deletes every row of a conversation but those of the search index.
fn delete_rows(db: &Connection, conversation: i64) -> Result<()> {
    tables().try_for_each(|table| table.delete_rows(db, conversation))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::super::guard::VIEWS;
    use super::super::schema;
    use super::*;
    use crate::store::database;

    /// Tables beside those of projections that hold what nothing else knows, or what runs the file.
    fn is_declared(object: &schema::Object) -> bool {
        tables().any(|table| table.name == object.name)
            || object.name == CHECKPOINTS
            || object.name == search::TABLE
            || search::is_beneath(&object.name)
    }

    #[test]
    fn whatever_a_projection_needs_to_be_known_elsewhere_is_told_by_its_table() {
        let db = database::open_fresh().unwrap();
        for table in tables() {
            let name = table.name;
            let made = schema::statements(name).unwrap();
            assert!(
                made.first().is_some_and(|first| first.kind == ObjectKind::Table),
                "no migration makes {name}"
            );
            assert!(
                VIEWS.iter().any(|view| view.name == table.view),
                "{name}: {} is no documented view",
                table.view
            );
            let is_shown = schema::wanted().unwrap().iter().any(|object| {
                object.kind == ObjectKind::View && object.name == table.view && object.sql.contains(name)
            });
            assert!(
                is_shown || table.order.is_none() || name == "usage_total",
                "{name}: {} does not show it",
                table.view
            );
            table.delete_rows(&db, 1).unwrap();
            table.prune(&db).unwrap();
            assert!(!table.is_ahead(&db, 0, true).unwrap(), "{name}");
            if let Some(order) = table.order {
                db.prepare(&format!("SELECT 1 FROM {name} ORDER BY {order}")).unwrap();
            }
            let columns = db.prepare(&format!("SELECT * FROM {name}")).unwrap();
            let dated = columns.column_names().contains(&"position");
            assert!(!dated || table.places.contains(&"position"), "{name}: rows ahead would not be seen");
        }
        let names: Vec<_> = names();
        assert_eq!(names.len(), names.iter().collect::<BTreeSet<_>>().len());
    }

    #[test]
    fn a_table_is_derived_where_a_projection_says_so_and_truth_otherwise() {
        for object in schema::wanted().unwrap().iter().filter(|object| object.kind == ObjectKind::Table) {
            assert_eq!(object.role() == Role::Derived, is_declared(object), "{}", object.name);
        }
    }

    #[test]
    fn a_table_beside_another_is_the_same_in_every_column_and_index() {
        let db = database::open_fresh().unwrap();
        let count = |schema: &str, name: &str| -> (i64, i64) {
            let sql = format!(
                "SELECT (SELECT count(*) FROM pragma_table_info('{name}', '{schema}')), \
                 (SELECT count(*) FROM pragma_index_list('{name}', '{schema}'))"
            );
            db.query_row(&sql, [], |row| Ok((row.get(0)?, row.get(1)?))).unwrap()
        };
        for table in tables() {
            table.make_shadow(&db).unwrap();
            assert_eq!(count("temp", table.name), count("main", table.name), "{}", table.name);
        }
        assert_eq!(count("temp", "tool_call").1, 3, "with the index that a later migration added");
    }
}
