//! Repairs a conversation by appending to it.

use rusqlite::Connection;

use super::append::{Append, Request, Session};
use super::known::Known;
use crate::error::{Error, Result};
use crate::ids::ConversationId;
use crate::store::Maintenance;
use crate::store::table::catalogue;
use crate::store::table::repair::{Mending, Repair, blank, note};

impl Maintenance<'_> {
    /// Repairs a conversation: appends `append` and writes a receipt, both or neither.
    ///
    /// # Errors
    /// As [`Store::append_all`](crate::store::Store::append_all).
    pub(crate) fn mend(
        &self,
        conversation: &ConversationId,
        append: Append,
        why: &Mending,
    ) -> Result<Repair> {
        let event_ids = append.events.iter().map(|event| event.id().to_string()).collect();
        let request = Request::new(conversation.clone(), append);
        self.store.write(|db| {
            let before = head(db, conversation)?;
            let mut session = Session::new(db, None, Known::default());
            session.append_or_undo(&request)?;
            session.finish()?;
            let after = head(db, conversation)?;
            let moved = before != after;
            let receipt = Repair {
                head_before: moved.then_some(before),
                head_after: moved.then_some(after),
                event_ids,
                ..blank(Some(conversation), why)
            };
            note(db, &receipt)?;
            Ok(receipt)
        })
    }
}

fn head(db: &Connection, conversation: &ConversationId) -> Result<String> {
    match catalogue::Entry::load(db, conversation)? {
        Some(entry) => Ok(entry.leaf.unwrap_or_default()),
        None => Err(Error::UnknownConversation { conversation: conversation.to_string() }),
    }
}
