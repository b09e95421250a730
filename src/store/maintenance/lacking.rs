//! What the log names and the file does not have any more: rows that another program took away.
//!
//! An export, a merge and a backup compare it with what they write, so that none of them ends as if it were complete.

use rusqlite::{Connection, OptionalExtension as _};

use super::lost_row::strays;
use super::verify::changes;
use crate::error::Result;
use crate::ids::ConversationId;
use crate::store::engine::WhileDoing as _;
use crate::store::table::archive::{self, STUB};
use crate::store::{Store, table::catalogue};

/// The length is compared first, because it is known without reading the payload.
const STUBS: &str = "SELECT e.position FROM event AS e WHERE octet_length(e.payload) = octet_length(?1) AND e.payload = ?1 \
     AND NOT EXISTS (SELECT 1 FROM archived_payload AS p JOIN archived_conversation AS a \
     ON a.conversation = e.conversation WHERE p.position = e.position) LIMIT 1";
const EVENTS: &str = "SELECT event_count, (SELECT count(*) FROM event WHERE conversation = key) FROM conversation \
     WHERE key = ?1";
const CONVERSATIONS: &str = "SELECT key, id FROM conversation ORDER BY key";

const DOING: &str = "comparing the file with what its log names";

impl Store {
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
        self.snapshot(|db| {
            let key = catalogue::key(db, conversation)?;
            let read = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get(1)?));
            let (named, found): (i64, i64) = db
                .prepare_cached(EVENTS)
                .and_then(|mut statement| statement.query_row([key], read))
                .doing(DOING)?;
            Ok((found < named).then(|| format!("{} of its {named} events are gone", named - found)))
        })
    }
}

/// Returns the first thing that the log names and the file does not have, in words. Reads what stands beside the events
/// of every conversation, and the length of every payload.
pub(super) fn first(db: &Connection) -> Result<Option<String>> {
    if let Some(stray) = strays(db, None)?.first() {
        return Ok(Some(stray.describe()));
    }
    let stub: Option<i64> = db.query_row(STUBS, [STUB], |row| row.get(0)).optional().doing(DOING)?;
    if let Some(position) = stub {
        return Ok(Some(archive::lost(db, position).to_string()));
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
