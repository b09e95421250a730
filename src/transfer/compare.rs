//! Compares arriving events and files with the stored ones.

use std::collections::HashMap;

use crate::error::Result;
use crate::event::NewEvent;
use crate::ids::{ConversationId, Sequence};
use crate::store::{ArrivingFile, Attachment, EventQuery, Store, StoredEvent};

/// The number of events that are held in memory at a time.
const PAGE: usize = 100;

/// The stored events of a conversation, in order.
pub(super) struct Stored<'a> {
    store: &'a Store,
    conversation: &'a ConversationId,
    page: std::vec::IntoIter<StoredEvent>,
    next: Option<Sequence>,
    /// The number of events that were matched.
    pub matched: u64,
}

/// How an arriving event compares with the next stored one.
pub(super) enum Match {
    /// The events are equal.
    Same,
    /// No further event is stored, so the event is new.
    New,
    /// Another event, or another payload, is stored in its place.
    Different(Box<StoredEvent>),
}

impl<'a> Stored<'a> {
    pub(super) fn new(store: &'a Store, conversation: &'a ConversationId) -> Self {
        Self { store, conversation, page: Vec::new().into_iter(), next: Some(Sequence(0)), matched: 0 }
    }

    /// Marks the stored conversation as empty, so that every event is new.
    pub(super) fn nothing(&mut self) {
        self.next = None;
    }

    fn peek(&mut self) -> Result<Option<&StoredEvent>> {
        if self.page.len() == 0
            && let Some(from) = self.next
        {
            let query = EventQuery { from: Some(from), ..EventQuery::default() };
            let page = self.store.events(self.conversation, &query, PAGE)?;
            self.page = page.events.into_iter();
            self.next = page.next;
        }
        Ok(self.page.as_slice().first())
    }

    /// Compares `event` with the next stored one. Moves on to the following one if they are equal.
    pub(super) fn compare(&mut self, event: &NewEvent) -> Result<Match> {
        let Some(stored) = self.peek()? else { return Ok(Match::New) };
        let same = stored.payload == event.payload() || stored.redacted_digest == Some(event.digest());
        if stored.id != *event.id() || !same {
            return Ok(Match::Different(Box::new(stored.clone())));
        }
        self.page.next();
        self.matched += 1;
        Ok(Match::Same)
    }

    /// Returns whether every stored event was matched.
    pub(super) fn is_exhausted(&mut self) -> Result<bool> {
        Ok(self.peek()?.is_none())
    }
}

/// Returns the paths of the files that differ from the stored ones: changed, new or missing.
pub(super) fn changed_files(
    store: &Store,
    conversation: &ConversationId,
    arriving: &[ArrivingFile],
) -> Result<Vec<String>> {
    let mut stored: HashMap<String, Attachment> =
        store.attachments(conversation)?.into_iter().map(|file| (file.path.clone(), file)).collect();
    let mut changed = Vec::new();
    for file in arriving {
        if !stored.remove(&file.path).is_some_and(|stored| stored.is_or_was(file.digest)) {
            changed.push(file.path.clone());
        }
    }
    changed.extend(stored.into_keys());
    changed.sort();
    Ok(changed)
}
