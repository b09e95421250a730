//! Making a file what it was at an earlier point: what came later is cut off, and the catalogue, base states
//! and HEADs are made again as the rest tells them.
//!
//! Titles and what is kept of an import have no history; they stay as they are.

use rusqlite::{Connection, params};

use super::super::admin::{self, ActKind, Actor, NewAct};
use super::super::archive::Payloads;
use super::super::catalogue::{self, Entry};
use super::super::engine::Doing as _;
use super::super::{archive, base_state, delete, log, origin, projection};
use crate::chain::Digest;
use crate::error::Result;
use crate::event::{NewEvent, kind};
use crate::ids::{ConversationId, EventId, Position, Timestamp};
use crate::state::status::Effect;

const AFTER: &str = "SELECT min(position) - 1 FROM event WHERE recorded_at > ?1";
const LENGTHS: &str = "SELECT c.key, c.id, (SELECT count(*) FROM event AS e WHERE e.conversation = c.key \
     AND e.position <= ?1) FROM conversation AS c ORDER BY c.key";
const EVENTS: &str = "SELECT sequence, id, hash, recorded_at, payload, position FROM event WHERE conversation = ?1 \
     AND sequence > ?2 ORDER BY sequence LIMIT 1000";

const DOING: &str = "cutting off what came later";

/// Where to cut.
#[derive(Debug, Clone, Copy)]
pub(super) enum Cut<'a> {
    /// Behind a position.
    Position(Position),
    /// Behind the events, and the changes of base states, that were recorded by a time.
    Time(Timestamp),
    /// Behind so many events of one conversation.
    Conversation { id: &'a ConversationId, length: u64 },
}

/// Cuts; answers how many events went. Runs within a transaction.
pub(super) fn cut(db: &Connection, at: &Cut<'_>, actor: &Actor) -> Result<u64> {
    let (position, until) = match at {
        Cut::Position(position) => (*position, None),
        Cut::Time(time) => {
            // Up to the first event that is later: what was copied here from another file has older times.
            let first: Option<i64> = db.query_row(AFTER, [time.0], |row| row.get(0)).doing(DOING)?;
            let position = first.map_or(log::head(db)?, |position| Position(position.cast_unsigned()));
            (position, Some(*time))
        }
        Cut::Conversation { id, length } => {
            return cut_conversation(db, catalogue::key(db, id)?, id, *length, None);
        }
    };
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
    let before = log::found_anew(db, position)?;
    let detail = serde_json::json!({ "store": before, "position": position.0, "events_cut": events });
    let act = NewAct { act: ActKind::Restore, conversation: None, reason: None, detail, receipts: &[] };
    admin::write(db, actor, &act, Timestamp::now())?;
    Ok(events)
}

/// Cuts one conversation after `length` events, and changes beside them after `until`; one of which nothing is
/// left goes.
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
    log::permit(db, "restore")?;
    origin::cut(db, key, length)?;
    archive::cut(db, key, length)?;
    let cut = log::cut(db, key, length)?;
    let changed = base_state::history::cut(db, key, length, until)?;
    log::forbid(db)?;
    if cut > 0 || changed {
        let imported = origin::load(db, key)?.map(|origin| origin.events);
        let (replayed, moved) = replay(db, key, &entry, imported)?;
        let status = base_state::told_status(db, key)?;
        catalogue::put_back(db, &entry, replayed, status, imported.is_some())?;
        base_state::history::put_head_back(db, key, moved, imported, length)?;
    }
    Ok(cut)
}

/// The row as the events make it, and the last one behind the imported that moved HEAD.
fn replay(
    db: &Connection,
    key: i64,
    entry: &Entry,
    imported: Option<u64>,
) -> Result<(Entry, Option<(u64, String)>)> {
    let mut replayed = entry.emptied();
    let mut moved = None;
    let mut last = -1_i64;
    let mut payloads = Payloads::new(db);
    loop {
        let mut statement = db.prepare_cached(EVENTS).doing(DOING)?;
        let mut rows = statement.query(params![key, last]).doing(DOING)?;
        let mut any = false;
        while let Some(row) = rows.next().doing(DOING)? {
            any = true;
            let (sequence, id): (i64, String) =
                row.get(0).and_then(|at| Ok((at, row.get(1)?))).doing(DOING)?;
            let (hash, at): ([u8; 32], i64) =
                row.get(2).and_then(|hash| Ok((hash, row.get(3)?))).doing(DOING)?;
            let stored = log::text(row, 4).doing(DOING)?;
            let payload = payloads.payload(row.get(5).doing(DOING)?, stored)?;
            last = sequence;
            let name = EventId::new(&*id)?;
            let Ok(event) = NewEvent::keep(&*payload, || name) else { continue };
            let effect = Effect::of(event.envelope(), event.payload());
            replayed.take(event.envelope(), event.payload(), Digest(hash), effect, Timestamp(at));
            let appended = imported.is_none_or(|count| sequence.cast_unsigned() >= count);
            if appended && kind::moves_head(&event.envelope().kind) {
                moved = Some((sequence.cast_unsigned(), id));
            }
        }
        if !any {
            return Ok((replayed, moved));
        }
    }
}
