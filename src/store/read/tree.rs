//! Reads a conversation's tree from the columns of the log. Payloads are not read.

use crate::error::Result;
use crate::ids::{ConversationId, Sequence};
use crate::store::Store;
use crate::store::engine::{self, WhileDoing as _};
use crate::store::table::{catalogue, log};
use crate::tree::Tree;

const LAST: &str = "SELECT sequence, id, kind FROM event WHERE conversation = ?1 AND sequence < ?2 ORDER BY sequence DESC LIMIT 64";
const REPLIES: &str = "SELECT sequence, llm_response_id, kind FROM event WHERE conversation = ?1 AND sequence >= ?2 AND sequence < ?3 ORDER BY sequence LIMIT ?4";
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

    /// Returns the sequence and the id of the last of a conversation's first `length` events whose kind `admits` accepts.
    ///
    /// Reads from the end, so the cost depends on the number of later events.
    ///
    /// # Errors
    /// [`UnknownConversation`](crate::Error::UnknownConversation).
    pub(crate) fn last_event_with(
        &self,
        conversation: &ConversationId,
        length: u64,
        admits: impl Fn(&str) -> bool,
    ) -> Result<Option<(Sequence, String)>> {
        let doing = "looking for the last event of a kind";
        let mut before = engine::place(length);
        while before > 0 {
            let (first, found) = self.read(|db| {
                let key = catalogue::key(db, conversation)?;
                let mut statement = db.prepare_cached(LAST).doing(doing)?;
                let mut rows = statement.query([key, before]).doing(doing)?;
                let mut first: i64 = 0;
                while let Some(row) = rows.next().doing(doing)? {
                    first = row.get(0).doing(doing)?;
                    if admits(log::text(row, 2).doing(doing)?) {
                        let id = log::text(row, 1).doing(doing)?.to_owned();
                        return Ok((first, Some((Sequence(first.cast_unsigned()), id))));
                    }
                }
                Ok((first, None))
            })?;
            if found.is_some() {
                return Ok(found);
            }
            before = first;
        }
        Ok(None)
    }

    /// Calls `visit` with the sequence, the id of the model's reply and the kind of each of a conversation's first `length`
    /// events. Reads no payload.
    ///
    /// # Errors
    /// [`UnknownConversation`](crate::Error::UnknownConversation).
    pub(crate) fn each_reply(
        &self,
        conversation: &ConversationId,
        length: u64,
        mut visit: impl FnMut(Sequence, Option<&str>, &str),
    ) -> Result<()> {
        let doing = "reading the replies of a conversation";
        let (mut next, mut is_full) = (0_i64, true);
        while is_full {
            self.read(|db| {
                let key = catalogue::key(db, conversation)?;
                let mut statement = db.prepare_cached(REPLIES).doing(doing)?;
                let mut rows = statement.query([key, next, engine::place(length), PAGE]).doing(doing)?;
                let mut count = 0;
                while let Some(row) = rows.next().doing(doing)? {
                    let sequence: i64 = row.get(0).doing(doing)?;
                    let reply = row.get_ref(1).and_then(|value| Ok(value.as_str_or_null()?)).doing(doing)?;
                    visit(Sequence(sequence.cast_unsigned()), reply, log::text(row, 2).doing(doing)?);
                    (next, count) = (sequence + 1, count + 1);
                }
                is_full = count == PAGE;
                Ok(())
            })?;
        }
        Ok(())
    }
}
