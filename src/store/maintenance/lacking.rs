//! What the log names and the file does not have any more: rows that another program took away.
//!
//! An export, a merge and a backup compare it with what they write, so that none of them ends as if it were complete.

use rusqlite::{Connection, OptionalExtension as _, Params};

use super::lost_row::{stray, strays};
use super::verify::changes;
use crate::error::Result;
use crate::ids::ConversationId;
use crate::store::engine::WhileDoing as _;
use crate::store::table::archive::{self, STUB};
use crate::store::{Store, table::catalogue};

/// The length is compared first, because it is known without reading the payload.
const STUBS: &str = "SELECT e.position FROM event AS e WHERE octet_length(e.payload) = octet_length(?1) AND e.payload = ?1 \
     AND NOT EXISTS (SELECT 1 FROM archived_payload AS p JOIN archived_conversation AS a \
     ON a.conversation = e.conversation WHERE p.position = e.position)";
const OF_THESE: &str = "AND e.conversation = ?2 AND e.sequence >= ?3";
const EVENTS: &str = "SELECT event_count, (SELECT count(*) FROM event WHERE conversation = key AND sequence >= ?2) FROM \
     conversation WHERE key = ?1";
const STANDS: &str = "SELECT 1 FROM conversation WHERE key = ?1 AND id = ?2";
const CONVERSATIONS: &str = "SELECT key, id FROM conversation ORDER BY key";

const DOING: &str = "comparing the file with what its log names";

impl Store {
    /// Compares what stands beside the events of a conversation with its chain of changes. Returns what the chain names and the
    /// file does not have, and what else differs, in words.
    ///
    /// # Errors
    /// [`UnknownConversation`](crate::Error::UnknownConversation), and any read error.
    pub(crate) fn compare_changes(
        &self,
        conversation: &ConversationId,
    ) -> Result<(Vec<String>, Vec<String>)> {
        self.snapshot(|db| {
            let mut changed = Vec::new();
            let key = catalogue::key(db, conversation)?;
            let (_, gone) = changes::compared(db, key, conversation, &mut |what| changed.push(what))?;
            Ok((gone, changed))
        })
    }

    /// Returns what the chain of changes of a conversation names and the file does not have, in words: attachments, base
    /// states, origins and the like.
    ///
    /// # Errors
    /// [`UnknownConversation`](crate::Error::UnknownConversation), and any read error.
    pub(crate) fn lacking(&self, conversation: &ConversationId) -> Result<Vec<String>> {
        self.snapshot(|db| changes::gone(db, catalogue::key(db, conversation)?, conversation))
    }

    /// Returns how many events of a conversation are gone, in words. `None` if it has as many as its row says.
    ///
    /// # Errors
    /// [`UnknownConversation`](crate::Error::UnknownConversation), and any read error.
    pub(crate) fn lacking_events(&self, conversation: &ConversationId) -> Result<Option<String>> {
        self.snapshot(|db| events_gone(db, catalogue::key(db, conversation)?, 0))
    }
}

/// What a part of a backup has of a conversation that it changes: the key, the id, and the first event's sequence number.
pub(super) type PartOf = (i64, String, i64);

/// Returns the first thing that the log names and the file does not have, in words, of what a part of a backup has. What was
/// deleted since is passed over. `removed` are the keys of the conversations that the part removes.
pub(super) fn of_part(db: &Connection, changed: &[PartOf], removed: &[i64]) -> Result<Option<String>> {
    for key in removed {
        if let Some(stray) = stray(db, *key)? {
            return Ok(Some(stray.describe()));
        }
    }
    for (key, id, from) in changed {
        let stands =
            db.prepare_cached(STANDS).and_then(|mut statement| statement.exists((key, id))).doing(DOING)?;
        if !stands {
            continue;
        }
        let id = ConversationId::new(id)?;
        let gone = match events_gone(db, *key, *from)? {
            Some(gone) => Some(gone),
            None => match stub(db, OF_THESE, (STUB, key, from))? {
                Some(lost) => return Ok(Some(lost)),
                None => changes::gone(db, *key, &id)?.into_iter().next(),
            },
        };
        if let Some(gone) = gone {
            return Ok(Some(format!("conversation {id}: {gone}")));
        }
    }
    Ok(None)
}

/// Returns how many events of a conversation are gone, in words, of those from the sequence number `from` on.
fn events_gone(db: &Connection, key: i64, from: i64) -> Result<Option<String>> {
    let read = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get(1)?));
    let (named, found): (i64, i64) = db
        .prepare_cached(EVENTS)
        .and_then(|mut statement| statement.query_row([key, from], read))
        .doing(DOING)?;
    let gone = named - from - found;
    Ok((gone > 0).then(|| format!("{gone} of its {named} events are gone")))
}

/// Returns the first event, in words, whose payload is archived and gone.
fn stub(db: &Connection, which: &str, parameters: impl Params) -> Result<Option<String>> {
    let read = |row: &rusqlite::Row<'_>| row.get(0);
    let stub: Option<i64> = db
        .prepare_cached(&format!("{STUBS} {which} LIMIT 1"))
        .and_then(|mut statement| statement.query_row(parameters, read).optional())
        .doing(DOING)?;
    Ok(stub.map(|position| archive::lost(db, position).to_string()))
}

/// Returns the first thing that the log names and the file does not have, in words. Reads what stands beside the events
/// of every conversation, and the length of every payload.
pub(super) fn first(db: &Connection) -> Result<Option<String>> {
    if let Some(stray) = strays(db, None)?.first() {
        return Ok(Some(stray.describe()));
    }
    if let Some(lost) = stub(db, "", [STUB])? {
        return Ok(Some(lost));
    }
    let conversations: Vec<(i64, String)> = db
        .prepare(CONVERSATIONS)
        .and_then(|mut statement| {
            statement
                .query_map([], |row| Ok((row.get(0)?, catalogue::text(row, 1)?.unwrap_or_default())))?
                .collect()
        })
        .doing(DOING)?;
    for (key, id) in conversations {
        let id = ConversationId::new(&id)?;
        if let Some(gone) = changes::gone(db, key, &id)?.into_iter().next() {
            return Ok(Some(format!("conversation {id}: {gone}")));
        }
    }
    Ok(None)
}
