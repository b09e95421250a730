//! Cuts a file back to an earlier point.
//!
//! Everything later is removed. The catalogue, base states and HEADs are rebuilt from the rest. Titles and the records
//! of an import have no history, so they stay as they are. An event that cannot be read adds nothing to its conversation's
//! row, and the verification that follows names it: the row as of that point stands nowhere else.

use rusqlite::{Connection, OptionalExtension as _};

use crate::error::Result;
use crate::ids::{ConversationId, Position, Timestamp};
use crate::store::derived::projection;
use crate::store::derived::projection::catalogue::{Replayed, replay};
use crate::store::engine::WhileDoing as _;
use crate::store::maintenance::delete;
use crate::store::options::Actor;
use crate::store::read::subscription;
use crate::store::table::admin::{self, ActKind, NewAct};
use crate::store::table::catalogue::{self, Entry};
use crate::store::table::{archive, base_state, change, guards, log, origin};

const AFTER: &str = "SELECT min(position) - 1 FROM event WHERE recorded_at > ?1";
const EARLY: &str = "SELECT count(*), max(e.position), f.position, f.recorded_at FROM event AS e, \
     (SELECT position, recorded_at FROM event WHERE position > ?1 ORDER BY position LIMIT 1) AS f \
     WHERE e.position > ?1 AND e.recorded_at <= ?2 HAVING count(*) > 0";
const LENGTHS: &str = "SELECT c.key, c.id, (SELECT count(*) FROM event AS e WHERE e.conversation = c.key \
     AND e.position <= ?1) FROM conversation AS c ORDER BY c.key";

const DOING: &str = "cutting off what came later";

/// The point after which everything is removed.
#[derive(Debug, Clone, Copy)]
pub(super) enum Cut<'a> {
    /// After a position.
    Position(Position),
    /// After the events, and the changes of base states, that were recorded by a time.
    Time(Timestamp),
    /// After the first `length` events of one conversation.
    Conversation { id: &'a ConversationId, length: u64 },
}

/// What was removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Removed {
    /// The number of events.
    pub(super) events: u64,
    /// What was removed although it was recorded by the time of the cut.
    pub(super) early: Option<CutEarly>,
}

/// Events that a cut at a time has removed although they were recorded by then, because they stand behind one that was
/// recorded later: the clock was wrong, then or since, or they were copied from another file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct CutEarly {
    /// Their number.
    pub events: u64,
    /// The position of the last one. A restore to it leaves none of them out.
    pub last: Position,
    /// The position of the event that was recorded later.
    pub behind: Position,
    /// When that one was recorded.
    pub recorded_at: Timestamp,
}

/// Removes everything after a point. Runs within a transaction.
pub(super) fn cut(db: &Connection, at: &Cut<'_>, actor: &Actor) -> Result<Removed> {
    let (position, until) = match at {
        Cut::Position(position) => (*position, None),
        Cut::Time(time) => {
            // The cut is before the first later event, because events copied from another file may have older times.
            let first: Option<i64> = db.query_row(AFTER, [time.0], |row| row.get(0)).doing(DOING)?;
            let position =
                first.map_or(log::last_position(db)?, |position| Position(position.cast_unsigned()));
            (position, Some(*time))
        }
        Cut::Conversation { id, length } => {
            let events = cut_conversation(db, catalogue::key(db, id)?, id, *length, None)?;
            return Ok(Removed { events, early: None });
        }
    };
    let early = until.map_or(Ok(None), |until| early(db, position, until))?;
    let conversations: Vec<(i64, String, i64)> = db
        .prepare(LENGTHS)
        .and_then(|mut statement| {
            let row = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get(1)?, row.get(2)?));
            statement.query_map([position.0.cast_signed()], row)?.collect()
        })
        .doing(DOING)?;
    let mut events = 0;
    for (key, id, length) in conversations {
        let id = ConversationId::new(&id)?;
        events += cut_conversation(db, key, &id, length.cast_unsigned(), until)?;
    }
    subscription::cut(db, position)?;
    let before = log::found_anew(db, position)?;
    let detail = serde_json::json!({ "store": before, "position": position.0, "events_cut": events });
    let act = NewAct { act: ActKind::Restore, conversation: None, reason: None, detail, receipts: &[] };
    admin::write(db, actor, &act, Timestamp::now())?;
    Ok(Removed { events, early })
}

/// Returns what stands behind a position and was recorded by a time.
fn early(db: &Connection, position: Position, until: Timestamp) -> Result<Option<CutEarly>> {
    let read = |row: &rusqlite::Row<'_>| {
        let position =
            |column| Ok::<_, rusqlite::Error>(Position(row.get::<_, i64>(column)?.cast_unsigned()));
        Ok(CutEarly {
            events: row.get::<_, i64>(0)?.cast_unsigned(),
            last: position(1)?,
            behind: position(2)?,
            recorded_at: Timestamp(row.get(3)?),
        })
    };
    let found = db.query_row(EARLY, [position.0.cast_signed(), until.0], read).optional();
    found.doing(DOING)
}

/// Cuts one conversation after `length` events, and its other changes after `until`.
///
/// Returns the number of events removed. The conversation is deleted if it loses all of its events.
fn cut_conversation(
    db: &Connection,
    key: i64,
    id: &ConversationId,
    length: u64,
    until: Option<Timestamp>,
) -> Result<u64> {
    let Some(entry) = Entry::load(db, id)? else { return Ok(0) };
    let gone = entry.event_count.saturating_sub(length);
    if gone > 0 {
        projection::start_over(db)?;
    }
    if length == 0 && gone > 0 {
        delete::take_out(db, id)?;
        return Ok(gone);
    }
    change::taken_back(db, key, || shorten(db, key, &entry, length, until))
}

/// Cuts one conversation that is not deleted. Returns the number of events removed.
fn shorten(db: &Connection, key: i64, entry: &Entry, length: u64, until: Option<Timestamp>) -> Result<u64> {
    guards::permit(db, "restore")?;
    origin::cut(db, key, length)?;
    archive::cut(db, key, length)?;
    let cut = log::cut(db, key, length)?;
    let changed = base_state::history::cut(db, key, length, until)?;
    guards::forbid(db)?;
    if cut > 0 || changed {
        let Replayed { entry: replayed, moved, imported, .. } = replay(db, entry)?;
        let status = base_state::explicit_status(db, key)?;
        catalogue::put_back(db, entry, replayed, status, imported.is_some())?;
        base_state::history::put_head_back(db, key, moved, imported, length)?;
    }
    Ok(cut)
}
