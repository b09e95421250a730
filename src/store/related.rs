//! Which conversations have to do with one: forks, what it is a fork of, sub-agents, whose sub-agent it is.

use rusqlite::Connection;

use super::engine::Doing as _;
use super::{Store, catalogue};
#[cfg(doc)]
use crate::error::Error;
use crate::error::Result;
use crate::ids::ConversationId;

const RELATED: &str = "SELECT other.id FROM conversation AS this JOIN conversation AS other \
     ON other.forked_from = this.id OR other.id = this.forked_from OR other.parent = this.key \
     OR other.key = this.parent WHERE this.key = ?1 AND other.key <> this.key ORDER BY other.key";
const CHILDREN: &str = "SELECT key FROM conversation WHERE parent = ?1";

impl Store {
    /// Says that the conversation is a sub-agent's of `parent`. Nothing changes where `parent` is below it already.
    ///
    /// # Errors
    /// [`Error::UnknownConversation`] where either is not here, and what writing can meet.
    pub fn set_parent(&self, conversation: &ConversationId, parent: &ConversationId) -> Result<()> {
        self.write(|db| {
            let key = catalogue::key(db, conversation)?;
            catalogue::key(db, parent)?;
            catalogue::set_parent(db, key, parent)
        })
    }
}

/// The conversations that may hold copies of what this one holds: forks of it, what it is a fork of, its
/// sub-agents and whose sub-agent it is.
pub(super) fn related(db: &Connection, key: i64) -> Result<Vec<ConversationId>> {
    let ids: Vec<String> = db
        .prepare_cached(RELATED)
        .and_then(|mut statement| statement.query_map([key], |row| row.get(0))?.collect())
        .doing("listing related conversations")?;
    ids.iter().map(|id| Ok(ConversationId::new(id)?)).collect()
}

/// The conversations of its sub-agents.
pub(super) fn children(db: &Connection, key: i64) -> Result<Vec<i64>> {
    db.prepare_cached(CHILDREN)
        .and_then(|mut statement| statement.query_map([key], |row| row.get(0))?.collect())
        .doing("listing related conversations")
}
