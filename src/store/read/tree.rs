//! Reads a conversation's tree from the columns of the log. Payloads are not read.

use crate::error::Result;
use crate::ids::ConversationId;
use crate::store::Store;
use crate::store::engine::WhileDoing as _;
use crate::store::table::catalogue;
use crate::tree::Tree;

const NODES: &str = "SELECT id, parent_id, kind, sequence FROM event WHERE conversation = ?1 AND sequence >= ?2 ORDER BY sequence LIMIT ?3";

/// The most nodes that one read transaction reads.
const PAGE: i64 = 10_000;

impl Store {
    /// Returns the tree of a conversation's log.
    ///
    /// # Errors
    /// [`UnknownConversation`](crate::Error::UnknownConversation).
    pub fn tree(&self, conversation: &ConversationId) -> Result<Tree> {
        self.tree_until(conversation, u64::MAX)
    }

    /// Returns the tree of the first `length` events of a conversation's log.
    ///
    /// # Errors
    /// [`UnknownConversation`](crate::Error::UnknownConversation).
    pub fn tree_until(&self, conversation: &ConversationId, length: u64) -> Result<Tree> {
        let doing = "reading the tree";
        let mut tree = Tree::new();
        loop {
            let next = tree.len() as i64;
            let limit = i64::try_from(length).unwrap_or(i64::MAX).saturating_sub(next).min(PAGE);
            self.read(|db| {
                let key = catalogue::key(db, conversation)?;
                let mut statement = db.prepare_cached(NODES).doing(doing)?;
                let mut rows = statement.query([key, next, limit]).doing(doing)?;
                while let Some(row) = rows.next().doing(doing)? {
                    let text = |column| {
                        row.get_ref(column).and_then(|value| Ok(value.as_str_or_null()?)).doing(doing)
                    };
                    tree.push(text(0)?.unwrap_or_default(), text(1)?, text(2)?.unwrap_or_default());
                }
                Ok(())
            })?;
            if tree.len() as i64 == next {
                return Ok(tree);
            }
        }
    }
}
