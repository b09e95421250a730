//! Table `state_snapshot`, read through the view `state_snapshots`: the state of a long conversation after every 256th
//! event, so that the state at any point takes a fold over a few events and not over the whole log. The larger a state is,
//! the later the next one follows, so that they take a small part of the log's size.
//!
//! Snapshots are made when a state is asked for that is far from the last one ([`fold_next`]), and from then on as the log
//! grows. So a conversation without such a question has none, and appends and imports do not pay for them. Each row
//! follows from the log alone, so comparing and rebuilding work as with every other projection: they make the rows again
//! that the file has.

mod fold;

use std::collections::BTreeMap;

use rusqlite::{Connection, OptionalExtension as _, params};

use super::{Description, Key, LogEvent, Projection, STEP_BYTES_MAX, SqlView, Table};
use crate::error::Result;
use crate::store::engine::WhileDoing as _;
use crate::store::table::admin;

pub(in crate::store) use fold::{End, Folding, Snapshot};

const NAME: &str = "snapshots";

pub(super) const DESCRIPTION: Description = Description {
    name: NAME,
    // Also raised if the fold changes: if an event is read in another way, or if the table of prices changes.
    // `another_fold_needs_a_new_version` names the digest of what it gives.
    version: 2,
    schema: 23,
    statements: &[
        "CREATE TABLE state_snapshot (
    position     INTEGER PRIMARY KEY,            -- of the last event
    conversation INTEGER NOT NULL REFERENCES conversation (key),
    sequence     INTEGER NOT NULL,               -- of the last event: 255, 511, ...
    leaf         INTEGER,                        -- the sequence of the event at which the branch ends; NULL: no event was on one
    whole        TEXT    NOT NULL,               -- JSON: the state that follows from all events
    branch       TEXT,                           -- JSON: the state that follows from the events of the branch; NULL: the same
    UNIQUE (conversation, sequence)
) STRICT",
        "CREATE VIEW state_snapshots AS
SELECT c.id AS conversation_id, s.sequence AS sequence, s.leaf AS leaf_sequence,
       s.whole AS whole, CAST(coalesce(s.branch, s.whole) AS TEXT) AS branch
FROM state_snapshot AS s
JOIN conversation AS c ON c.key = s.conversation",
    ],
    tables: &[Table {
        name: "state_snapshot",
        key: Key::Position,
        order: Some("position"),
        places: &["position"],
        view: "state_snapshots",
    }],
    views: &[SqlView {
        name: "state_snapshots",
        row: "the state after an event, from which later states are computed",
        columns: &["conversation_id", "sequence", "leaf_sequence", "whole", "branch"],
    }],
    check: "SELECT 1 FROM state_snapshot WHERE position NOT IN (SELECT position FROM event) LIMIT 1",
    begin: || Box::new(Snapshots::default()),
};

/// The number of events from one snapshot to the next, for each [`SPACING_BYTES`] of the first that are begun.
pub(in crate::store) const SPACING: i64 = 256;

/// 32 KiB. A state of many unanswered actions, or with a long last message, may have more.
const SPACING_BYTES: i64 = 32 << 10;

/// The most events between snapshots. Beyond it, a state is folded from the start, and snapshots are not continued while
/// the log grows.
pub(in crate::store) const FOLD_EVENTS_MAX: i64 = 64 * SPACING;

/// A snapshot with more bytes is not kept: 1 MiB.
const SNAPSHOT_BYTES_MAX: usize = 1 << 20;

/// The most snapshots that one step makes.
const STEP_SNAPSHOTS: usize = 4;

const NEWEST: &str = "SELECT sequence, octet_length(whole) + coalesce(octet_length(branch), 0) FROM state_snapshot \
     WHERE conversation = ?1 ORDER BY sequence DESC LIMIT 1";
const IS_SHADOW: &str = "SELECT 1 FROM temp.sqlite_schema WHERE name = 'state_snapshot'";
const KEPT: &str = "SELECT sequence FROM main.state_snapshot WHERE conversation = ?1 AND sequence > ?2 \
     AND sequence <= ?3 ORDER BY sequence";
const SEQUENCE: &str = "SELECT sequence FROM event WHERE position = ?1";
const POSITION: &str = "SELECT position FROM event WHERE conversation = ?1 AND sequence = ?2";
const BYTES: &str = "SELECT sum(octet_length(payload)) FROM event \
     WHERE conversation = ?1 AND sequence > ?2 AND sequence <= ?3";
/// A row of another program may be in the way.
const INSERT: &str = "INSERT OR REPLACE INTO state_snapshot (position, conversation, sequence, leaf, whole, branch) \
     VALUES (?1, ?2, ?3, ?4, ?5, ?6)";

const DOING: &str = "keeping snapshots of states";

#[derive(Default)]
struct Snapshots {
    /// The conversations with events in this step, with the position of their last one.
    reached: BTreeMap<i64, i64>,
}

impl Projection for Snapshots {
    fn description(&self) -> &'static Description {
        &DESCRIPTION
    }

    fn apply(&mut self, _db: &Connection, event: &LogEvent<'_>) -> Result<()> {
        self.reached.insert(event.conversation, event.position);
        Ok(())
    }

    fn flush(&mut self, db: &Connection) -> Result<()> {
        let is_shadow = db.prepare_cached(IS_SHADOW).and_then(|mut s| s.exists([])).doing(DOING)?;
        for (conversation, position) in std::mem::take(&mut self.reached) {
            let until = || number(db, SEQUENCE, params![position]);
            if !is_shadow {
                follow(db, conversation, until)?;
            } else if let Some(until) = until()? {
                make_again(db, conversation, until)?;
            }
        }
        Ok(())
    }
}

/// Returns the sequence of the newest snapshot of a conversation, and the one after which the next is due. `None` if it has
/// none.
fn newest(db: &Connection, conversation: i64) -> Result<Option<(i64, i64)>> {
    let read = |row: &rusqlite::Row<'_>| {
        let (sequence, bytes): (i64, i64) = (row.get(0)?, row.get(1)?);
        Ok((sequence, sequence.saturating_add(spacing(bytes))))
    };
    db.prepare_cached(NEWEST)
        .and_then(|mut statement| statement.query_row([conversation], read).optional())
        .doing(DOING)
}

/// Returns the sequence of the event after which the next snapshot of a conversation is due.
pub(in crate::store) fn due(db: &Connection, conversation: i64) -> Result<i64> {
    Ok(newest(db, conversation)?.map_or(SPACING - 1, |(_, due)| due))
}

/// Returns the number of events from a snapshot with this many bytes to the next.
fn spacing(bytes: i64) -> i64 {
    SPACING * (bytes.max(1) + SPACING_BYTES - 1).div_euclid(SPACING_BYTES)
}

/// Returns whether snapshots were made by this version. Others are not used.
pub(in crate::store) fn are_current(db: &Connection) -> Result<bool> {
    Ok(super::checkpoint(db, &Snapshots::default())?.is_some())
}

/// Returns whether the projection has read the event at `sequence`, so that a snapshot of it may be there.
fn has_read(db: &Connection, conversation: i64, sequence: i64) -> Result<bool> {
    let Some(position) = number(db, POSITION, params![conversation, sequence])? else { return Ok(false) };
    Ok(super::checkpoint(db, &Snapshots::default())?.is_some_and(|checkpoint| position <= checkpoint))
}

/// A snapshot as the file has it.
pub(in crate::store) struct Row {
    sequence: i64,
    leaf: Option<i64>,
    whole: String,
    /// `None` if it is the same.
    branch: Option<String>,
}

impl Row {
    /// `None` if the snapshot is too large or cannot be read back.
    fn of(snapshot: &Snapshot) -> Option<Self> {
        let (whole, branch) = (snapshot.whole.saved()?, snapshot.branch.saved()?);
        let branch = (branch != whole).then_some(branch);
        let row = Self { sequence: snapshot.sequence, leaf: snapshot.leaf, whole, branch };
        (row.bytes() <= SNAPSHOT_BYTES_MAX).then_some(row)
    }

    fn bytes(&self) -> usize {
        self.whole.len() + self.branch.as_ref().map_or(0, String::len)
    }

    fn insert(&self, db: &Connection, conversation: i64) -> Result<()> {
        let Self { sequence, leaf, whole, branch } = self;
        let Some(position) = number(db, POSITION, params![conversation, sequence])? else { return Ok(()) };
        db.prepare_cached(INSERT)
            .and_then(|mut s| s.execute(params![position, conversation, sequence, leaf, whole, branch]))
            .doing(DOING)?;
        Ok(())
    }
}

/// Folds the next snapshots of a conversation, up to the event at `until`: at most [`STEP_SNAPSHOTS`]. Writes nothing.
pub(in crate::store) fn fold_next(db: &Connection, conversation: i64, until: i64) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    let Some(mut last) = Snapshot::newest(db, conversation, until)? else { return Ok(rows) };
    let bound = until.min(last.sequence + FOLD_EVENTS_MAX);
    loop {
        let to = last.sequence + spacing(last.bytes);
        if to > bound || rows.len() == STEP_SNAPSHOTS {
            return Ok(rows);
        }
        let folded = Folding::new(db, conversation, last.sequence, to)?.finish(last, End::Head)?;
        let Some(mut next) = folded else { return Ok(rows) };
        if let Some(row) = Row::of(&next) {
            next.bytes = row.bytes() as i64;
            rows.push(row);
        }
        last = next;
    }
}

/// Inserts snapshots that were folded before this write transaction, if nothing was removed from the file since the act
/// `last_removal`, and if the projection has read the event at `until`. Returns whether it inserted them.
pub(in crate::store) fn insert(
    db: &Connection,
    conversation: i64,
    rows: &[Row],
    (last_removal, until): (i64, i64),
) -> Result<bool> {
    if admin::last_removal(db)? != last_removal || !has_read(db, conversation, until)? {
        return Ok(false);
    }
    rows.iter().try_for_each(|row| row.insert(db, conversation))?;
    Ok(true)
}

/// Makes the snapshots that are due up to the event at `until`, if there are some already and few bytes have to be read for
/// it: the caller holds the write lock. Otherwise the next question makes them.
fn follow(db: &Connection, conversation: i64, until: impl Fn() -> Result<Option<i64>>) -> Result<()> {
    while let Some((newest, due)) = newest(db, conversation)?
        && let Some(until) = until()?
        && until >= due
        && until - newest <= FOLD_EVENTS_MAX
        && number(db, BYTES, params![conversation, newest, until])? <= Some(STEP_BYTES_MAX as i64)
    {
        let rows = fold_next(db, conversation, until)?;
        if rows.is_empty() {
            break;
        }
        rows.iter().try_for_each(|row| row.insert(db, conversation))?;
    }
    Ok(())
}

/// Makes those snapshots in a temporary table that the file has, up to the event at `until`.
fn make_again(db: &Connection, conversation: i64, until: i64) -> Result<()> {
    let Some(mut last) = Snapshot::newest(db, conversation, until)? else { return Ok(()) };
    let kept: Vec<i64> = db
        .prepare_cached(KEPT)
        .and_then(|mut statement| {
            statement
                .query_map(params![conversation, last.sequence, until], |row| row.get(0))
                .and_then(Iterator::collect)
        })
        .doing(DOING)?;
    for to in kept {
        let folded = Folding::new(db, conversation, last.sequence, to)?.finish(last, End::Head)?;
        let Some(next) = folded else { return Ok(()) };
        Row::of(&next).map_or(Ok(()), |row| row.insert(db, conversation))?;
        last = next;
    }
    Ok(())
}

fn number(db: &Connection, sql: &str, values: &[&dyn rusqlite::ToSql]) -> Result<Option<i64>> {
    db.prepare_cached(sql)
        .and_then(|mut statement| statement.query_row(values, |row| row.get::<_, Option<i64>>(0)).optional())
        .doing(DOING)
        .map(Option::flatten)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chain::Digest;
    use crate::event::{Event, Given};
    use crate::ids::EventId;
    use crate::price;
    use crate::state::State;

    /// The version, and the digest of the table of prices and of the states of all golden conversations.
    const STATES: (i64, &str) = (2, "0b971391e0cb22e94e2dae80406b00c0eff95b49f870ab1c216620dc20b2e5c0");

    #[test]
    fn another_fold_needs_a_new_version() {
        let root = std::path::Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden"));
        let mut found = price::BUILT_IN.to_owned();
        let mut folders: Vec<_> = std::fs::read_dir(root.join("conversations"))
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .collect();
        folders.sort();
        for folder in folders {
            let mut files: Vec<_> = std::fs::read_dir(folder.join("events"))
                .unwrap()
                .map(|entry| entry.unwrap().path())
                .collect();
            files.sort();
            let mut state = State::new();
            for file in files.iter().filter(|file| file.extension().is_some_and(|kind| kind == "json")) {
                let (text, id) = (std::fs::read_to_string(file).unwrap(), EventId::new("none").unwrap());
                state.apply(&Event::read(&text, &Given { id: Some(&id), timestamp: None }).unwrap());
            }
            found.push_str(&state.saved().unwrap());
        }
        assert_eq!(
            (DESCRIPTION.version, Digest::of(found.as_bytes()).to_hex().as_str()),
            STATES,
            "the fold or the prices give other states: raise the version of the projection"
        );
    }
}
