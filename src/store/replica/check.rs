//! The ends of a conversation's chains, which two files compare, and the links of the events that came from elsewhere.

use std::collections::BTreeSet;

use rusqlite::{Connection, OptionalExtension as _};

use super::row::Row;
use crate::chain::{self, Digest};
use crate::error::{Result, SharedError};
use crate::store::engine::WhileDoing as _;
use crate::store::table::archive::Payloads;
use crate::store::table::log;

const HEAD: &str = "SELECT c.id, c.event_count, c.head_hash, \
     coalesce((SELECT max(number) FROM change WHERE conversation = c.key), 0), \
     coalesce((SELECT hash FROM change WHERE conversation = c.key ORDER BY number DESC LIMIT 1), zeroblob(32)) \
     FROM conversation AS c WHERE c.key = ?1";
const LINK: &str = "SELECT c.id, e.sequence, e.id, e.payload, e.redacted_digest, e.hash, \
     (SELECT b.hash FROM event AS b WHERE b.conversation = e.conversation AND b.sequence = e.sequence - 1) \
     FROM event AS e JOIN conversation AS c ON c.key = e.conversation WHERE e.position = ?1";

const DOING: &str = "comparing a file with the shared log";

/// The ends of a conversation's chains.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Head {
    /// The conversation's key.
    pub key: i64,
    /// The conversation's id.
    pub conversation: String,
    /// The number of its events.
    pub events: u64,
    /// The hash of the last one.
    pub hash: Digest,
    /// The number of changes beside the events.
    pub changes: u64,
    /// The hash of the last one.
    pub changes_hash: Digest,
}

/// Returns the ends of the chains of the conversations that rows belong to.
pub(super) fn heads(db: &Connection, rows: &[Row]) -> Result<Vec<Head>> {
    let keys: BTreeSet<i64> = rows.iter().filter_map(|row| row.conversation).collect();
    keys.into_iter().filter_map(|key| head(db, key).transpose()).collect()
}

fn head(db: &Connection, key: i64) -> Result<Option<Head>> {
    db.prepare_cached(HEAD)
        .and_then(|mut statement| {
            let read = |row: &rusqlite::Row<'_>| {
                Ok(Head {
                    key,
                    conversation: row.get(0)?,
                    events: row.get::<_, i64>(1)?.cast_unsigned(),
                    hash: Digest(row.get(2)?),
                    changes: row.get::<_, i64>(3)?.cast_unsigned(),
                    changes_hash: Digest(row.get(4)?),
                })
            };
            statement.query_row([key], read).optional()
        })
        .doing(DOING)
}

/// Compares the ends that the log recorded with those of this file.
///
/// # Errors
/// [`SharedError::Differs`] at the first difference.
pub(super) fn compare(db: &Connection, wanted: &[Head]) -> Result<()> {
    for wanted in wanted {
        let found = head(db, wanted.key)?;
        if found.as_ref() == Some(wanted) && log::end(db, wanted.key)? != (wanted.events, wanted.hash) {
            let what =
                format!("conversation {} does not have its {} events", wanted.conversation, wanted.events);
            return Err(SharedError::Differs { what }.into());
        }
        if found.as_ref() != Some(wanted) {
            let what = match found {
                None => format!("it has no conversation {}", wanted.conversation),
                Some(found) => format!(
                    "conversation {} has {} events and {} changes with other hashes; the log has {} and {}",
                    wanted.conversation, found.events, found.changes, wanted.events, wanted.changes
                ),
            };
            return Err(SharedError::Differs { what }.into());
        }
    }
    Ok(())
}

/// Checks that each of the events at `positions` has the hash that follows from its payload and the event before it.
///
/// # Errors
/// [`SharedError::Differs`] at the first that has not.
pub(super) fn check_links(db: &Connection, positions: &[i64]) -> Result<()> {
    let mut payloads = Payloads::new(db);
    let mut statement = db.prepare_cached(LINK).doing(DOING)?;
    for position in positions {
        let mut rows = statement.query([position]).doing(DOING)?;
        // It may have been removed by a later entry.
        let Some(row) = rows.next().doing(DOING)? else { continue };
        let conversation: String = row.get(0).doing(DOING)?;
        let sequence = row.get::<_, i64>(1).doing(DOING)?.cast_unsigned();
        let id: String = row.get(2).doing(DOING)?;
        let stored: String = row.get(3).doing(DOING)?;
        let redacted: Option<[u8; 32]> = row.get(4).doing(DOING)?;
        let hash = Digest(row.get(5).doing(DOING)?);
        let before: Option<[u8; 32]> = row.get(6).doing(DOING)?;
        let digest = match redacted {
            Some(digest) => Digest(digest),
            None => Digest::of(payloads.payload(*position, &stored)?.as_bytes()),
        };
        let previous = match (sequence, before) {
            (0, _) => Some(Digest::START),
            (_, before) => before.map(Digest),
        };
        let link = previous.map(|previous| chain::link(&conversation, sequence, &id, digest, previous));
        if link != Some(hash) {
            let what =
                format!("event {sequence} of conversation {conversation} does not follow the one before it");
            return Err(SharedError::Differs { what }.into());
        }
    }
    Ok(())
}
