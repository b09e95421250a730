//! Reads the stored events of a conversation in order, a page at a time.

use crate::error::Result;
use crate::ids::{ConversationId, Sequence};
use crate::store::{EventQuery, Store, StoredEvent};

/// The number of events that are held in memory at a time.
const PAGE: usize = 100;

/// The payload bytes after which a page ends: 4 MiB.
const PAGE_BYTES: usize = 4 << 20;

/// The stored events of a conversation, in order.
pub(super) struct Pages<'a> {
    store: &'a Store,
    conversation: &'a ConversationId,
    page: std::vec::IntoIter<StoredEvent>,
    /// The first event of the next page. `None` after the last page.
    next: Option<Sequence>,
}

impl<'a> Pages<'a> {
    /// Makes a reader that begins at the event `from`. It reads none if `from` is `None`.
    pub(super) fn new(store: &'a Store, conversation: &'a ConversationId, from: Option<Sequence>) -> Self {
        Self { store, conversation, page: Vec::new().into_iter(), next: from }
    }

    /// Returns the next event without moving on to the one after it. `None` after the last event.
    pub(super) fn peek(&mut self) -> Result<Option<&StoredEvent>> {
        if self.page.len() == 0
            && let Some(from) = self.next
        {
            let query = EventQuery { from: Some(from), ..EventQuery::default() };
            let mut bytes = 0_usize;
            let page = self.store.events_while(self.conversation, &query, PAGE, |payload| {
                let admits = bytes < PAGE_BYTES;
                bytes = bytes.saturating_add(payload);
                admits
            })?;
            self.page = page.events.into_iter();
            self.next = page.next;
        }
        Ok(self.page.as_slice().first())
    }

    /// Returns the next event. `None` after the last event.
    pub(super) fn next(&mut self) -> Result<Option<StoredEvent>> {
        self.peek()?;
        Ok(self.page.next())
    }
}
