//! Reads the mark of a conversation: its event count, HEAD and the version of its base state, all at once.

use rusqlite::{Connection, OptionalExtension as _, Row};

use crate::error::{Error, Result};
use crate::ids::{ConversationId, Version};
use crate::store::engine::WhileDoing as _;
use crate::store::table::catalogue;

const MARK: &str = "SELECT event_count, leaf_event_id, head_is_empty, \
     (SELECT version FROM base_state WHERE conversation = key) FROM conversation WHERE id = ?1";

/// A mark of a conversation's state. It changes when events, HEAD or the base state change.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Mark {
    /// The number of events.
    pub event_count: u64,
    /// HEAD. `None` if it was never set, or is before all events.
    pub leaf_event_id: Option<String>,
    /// Whether HEAD was set before all events.
    pub head_is_empty: bool,
    /// The version of the base state, if there is one.
    pub version: Option<Version>,
}

/// Returns the mark of a conversation.
///
/// # Errors
/// [`Error::UnknownConversation`] if there is no such conversation.
pub(in crate::store) fn mark(db: &Connection, id: &ConversationId) -> Result<Mark> {
    let read = |row: &Row<'_>| {
        Ok(Mark {
            event_count: row.get::<_, i64>(0)?.cast_unsigned(),
            leaf_event_id: catalogue::text(row, 1)?,
            head_is_empty: row.get(2)?,
            version: row.get::<_, Option<i64>>(3)?.map(|version| Version(version.cast_unsigned())),
        })
    };
    db.prepare_cached(MARK)
        .and_then(|mut statement| statement.query_row([id.as_str()], read).optional())
        .doing("reading the mark of a conversation")?
        .ok_or_else(|| Error::UnknownConversation { conversation: id.to_string() })
}
