//! Derived tables: what anyone may read with plain SQL, caught up from the log and rebuilt at will.
//!
//! A projection is a fold from events to rows with a name, a version and a checkpoint: the position up
//! to which it has read. [`catch_up`] moves all of them on, a bounded step at a time, each step one
//! transaction. [`rebuild`](rebuild::rebuild) makes one again from position 0 beside the old one and
//! swaps. Invariants: a projection holds nothing that the log and the base states do not; rebuilt equals
//! incremental; nobody outside this room writes its tables.
//!
//! The catalogue (`conversation`) is the one projection that is moved inline; see `catalogue.rs`.

pub(super) mod compare;
pub(super) mod rebuild;
pub(super) mod sample;
mod schema;
pub(super) mod search;
mod tasks;
mod tool_calls;
mod transcript;
mod usage;

use rusqlite::{Connection, OptionalExtension as _, params};

use super::archive::Payloads;
use super::engine::Doing as _;
use super::log;
use crate::error::Result;
use crate::event::json::Object;
use crate::ids::Position;

const CHECKPOINT: &str = "SELECT version, position FROM projection WHERE name = ?1";
const SAVE: &str = "INSERT INTO projection (name, version, position) VALUES (?1, ?2, ?3) \
     ON CONFLICT (name) DO UPDATE SET version = excluded.version, position = excluded.position";
const FORGET: &str = "DELETE FROM projection WHERE name = ?1";
const EVENTS: &str = "SELECT position, conversation, id, kind, timestamp, tool_call_id, action_id, tool_name, \
     source, payload FROM event WHERE position > ?1 ORDER BY position LIMIT ?2";
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
    fn tables(&self) -> &'static [&'static str];

    /// Called when it begins at position 0 again, in the transaction that makes it the current one.
    fn restarted(&self, _db: &Connection) -> Result<()> {
        Ok(())
    }

    /// Takes in the next event.
    fn apply(&mut self, db: &Connection, event: &LogEvent<'_>) -> Result<()>;

    /// Writes what it has held back; called at the end of every step, with nothing held across steps.
    fn flush(&mut self, db: &Connection) -> Result<()>;

    /// Deletes the rows of events and conversations that are gone: while tables are made again beside the
    /// present ones, a conversation may be deleted that was already read.
    fn prune(&self) -> &'static str;

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
    let mut statuses = Vec::new();
    for projection in all() {
        let checkpoint = checkpoint(db, projection.as_ref())?;
        statuses.push(ProjectionStatus {
            name: projection.name(),
            position: Position(checkpoint.unwrap_or(0).cast_unsigned()),
            head,
            current: checkpoint.is_some(),
        });
    }
    statuses.push(ProjectionStatus {
        name: search::NAME,
        position: Position(search::checkpoint(db)?.unwrap_or(0).cast_unsigned()),
        head,
        current: search::checkpoint(db)?.is_some(),
    });
    Ok(statuses)
}

/// Whether there is something to catch up with; cheap enough to ask before every read.
pub(super) fn lags(db: &Connection) -> Result<bool> {
    let head = log::head(db)?.0.cast_signed();
    for projection in all() {
        if checkpoint(db, projection.as_ref())?.unwrap_or(-1) < head {
            return Ok(true);
        }
    }
    usage::has_stale(db)
}

/// Takes one step: up to [`STEP_EVENTS_MAX`] events into every projection that has not read them.
/// Answers whether there is more. Runs within a write transaction.
pub(super) fn step(db: &Connection) -> Result<bool> {
    let mut projections = Vec::new();
    for projection in all() {
        match checkpoint(db, projection.as_ref())? {
            Some(position) => projections.push((projection, position)),
            None => {
                schema::empty(db, projection.tables())?;
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

/// How far a projection has read; `None` where it must start afresh.
fn checkpoint(db: &Connection, projection: &dyn Projection) -> Result<Option<i64>> {
    let stored = stored_checkpoint(db, projection.name())?;
    Ok(stored.filter(|(version, _)| *version == projection.version()).map(|(_, position)| position))
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

/// Makes lost tables again and lets what filled them start afresh. Runs within a write transaction.
pub(super) fn mend(db: &Connection) -> Result<()> {
    for projection in all() {
        if schema::restore(db, projection.tables())? {
            db.execute(FORGET, [projection.name()]).doing("mending a projection")?;
        }
    }
    Ok(())
}

/// Whether a table of a projection is lost.
pub(super) fn is_torn(db: &Connection) -> Result<bool> {
    for projection in all() {
        if !schema::missing(db, projection.tables())?.is_empty() {
            return Ok(true);
        }
    }
    Ok(false)
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

/// The tables of every projection, and of the search index.
#[cfg(test)]
pub(super) fn tables() -> Vec<&'static str> {
    let tables = all().into_iter().flat_map(|projection| projection.tables().to_vec());
    tables.chain(["transcript_search"]).collect()
}

/// Deletes every row of a conversation; its events must still be there.
pub(super) fn delete(db: &Connection, conversation: i64) -> Result<()> {
    search::forget(db, conversation)?;
    delete_rows(db, conversation)
}

/// Deletes every row of a conversation but those of the search index.
fn delete_rows(db: &Connection, conversation: i64) -> Result<()> {
    for sql in [
        "DELETE FROM transcript_line WHERE position IN (SELECT position FROM event WHERE conversation = ?1)",
        "DELETE FROM tool_call WHERE position IN (SELECT position FROM event WHERE conversation = ?1)",
        "DELETE FROM usage_entry WHERE conversation = ?1",
        "DELETE FROM usage_total WHERE conversation = ?1",
        "DELETE FROM usage_stale WHERE conversation = ?1",
        "DELETE FROM task WHERE conversation = ?1",
    ] {
        db.execute(sql, [conversation]).doing("deleting projected rows")?;
    }
    Ok(())
}
