//! Finds the conversations related to one: its forks, its original, its sub-agents and its parent.

use rusqlite::Connection;

use super::catalogue;
use crate::error::{Error, Result};
use crate::ids::ConversationId;
use crate::store::Store;
use crate::store::engine::WhileDoing as _;

const RELATED: &str = "SELECT other.id FROM conversation AS this JOIN conversation AS other \
     ON other.forked_from = this.id OR other.id = this.forked_from OR other.parent = this.key \
     OR other.key = this.parent WHERE this.key = ?1 AND other.key <> this.key ORDER BY other.key";
const CHILDREN: &str = "SELECT key FROM conversation WHERE parent = ?1";

impl Store {
    /// Records that the conversation is a sub-agent's of `parent`. Changes nothing if `parent` is already below it.
    ///
    /// # Errors
    /// [`Error::UnknownConversation`] if either is unknown, and any write error.
    pub fn set_parent(&self, conversation: &ConversationId, parent: &ConversationId) -> Result<()> {
        self.write(|db| {
            let key = catalogue::key(db, conversation)?;
            catalogue::key(db, parent)?;
            catalogue::set_parent(db, key, parent)
        })
    }
}

/// Returns the conversations that may have copies of this one's data: its forks, the conversation that it was forked
/// from, its sub-agents and its parent.
pub(in crate::store) fn related(db: &Connection, key: i64) -> Result<Vec<ConversationId>> {
    let ids: Vec<String> = db
        .prepare_cached(RELATED)
        .and_then(|mut statement| statement.query_map([key], |row| row.get(0))?.collect())
        .doing("listing related conversations")?;
    ids.iter().map(|id| ConversationId::new(id).map_err(Error::damaged("the id of a conversation"))).collect()
}

/// Returns the conversations of its sub-agents.
pub(super) fn children(db: &Connection, key: i64) -> Result<Vec<i64>> {
    db.prepare_cached(CHILDREN)
        .and_then(|mut statement| statement.query_map([key], |row| row.get(0))?.collect())
        .doing("listing related conversations")
}
