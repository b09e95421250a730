//! How far a conversation has come: the place of its next event, HEAD and the version of its base state at once.

use rusqlite::{Connection, OptionalExtension as _, Row};

use super::engine::Doing as _;
use crate::error::{Error, Result};
use crate::ids::{ConversationId, Version};

const MARK: &str = "SELECT event_count, leaf_event_id, head_is_empty, \
     (SELECT version FROM base_state WHERE conversation = key) FROM conversation WHERE id = ?1";

/// How far a conversation has come: what changes with everything that is written of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mark {
    /// How many events there are.
    pub event_count: u64,
    /// HEAD; `None` where it was never set, or stands before everything.
    pub leaf_event_id: Option<String>,
    /// Whether HEAD was set to stand before everything.
    pub head_is_empty: bool,
    /// The version of the base state, where there is one.
    pub version: Option<Version>,
}

/// How far the conversation has come.
///
/// # Errors
/// [`Error::UnknownConversation`] where there is none.
pub(super) fn mark(db: &Connection, id: &ConversationId) -> Result<Mark> {
    let read = |row: &Row<'_>| {
        Ok(Mark {
            event_count: row.get::<_, i64>(0)?.cast_unsigned(),
            leaf_event_id: row.get(1)?,
            head_is_empty: row.get(2)?,
            version: row.get::<_, Option<i64>>(3)?.map(|version| Version(version.cast_unsigned())),
        })
    };
    db.prepare_cached(MARK)
        .and_then(|mut statement| statement.query_row([id.as_str()], read).optional())
        .doing("looking how far a conversation has come")?
        .ok_or_else(|| Error::UnknownConversation { conversation: id.to_string() })
}
