//! The records that are stored already, walked in order beside those that arrive.

use std::borrow::Cow;

use crate::chain::Digest;
use crate::error::Result;
use crate::event::foreign::{Provenance, Record};
use crate::event::json::Object;
use crate::ids::{ConversationId, EventId, Sequence};
use crate::store::{EventQuery, Store, StoredEvent};

/// How many events are held in memory at a time.
const PAGE: usize = 100;

/// A record that is stored.
#[derive(Debug)]
pub(super) struct KeptRecord {
    /// Its first event.
    pub id: EventId,
    pub sequence: Sequence,
    /// How many events it became.
    pub events: u64,
    /// Where it was; `None` where its event no longer tells, having been redacted.
    pub place: Option<Place>,
}

/// Where a stored record was, and what it was.
#[derive(Debug)]
pub(super) struct Place {
    pub table: Option<String>,
    pub place: i64,
    pub digest: Digest,
    /// The record; `None` where the event does not have it.
    pub record: Option<Record<'static>>,
}

/// The stored records of a conversation, one after the other.
pub(super) struct Kept<'a> {
    store: &'a Store,
    conversation: &'a ConversationId,
    page: std::vec::IntoIter<StoredEvent>,
    next: Option<Sequence>,
}

impl<'a> Kept<'a> {
    /// Those of a conversation; none where `exists` is false.
    pub(super) fn new(store: &'a Store, conversation: &'a ConversationId, exists: bool) -> Self {
        Self { store, conversation, page: Vec::new().into_iter(), next: exists.then_some(Sequence(0)) }
    }

    /// The next record; `None` behind the last one.
    pub(super) fn next(&mut self) -> Result<Option<KeptRecord>> {
        let Some(first) = self.event()? else { return Ok(None) };
        let object = Object::of(&first.payload);
        let place = Provenance::of(&object).map(|told| Place {
            table: told.table.map(Cow::into_owned),
            place: told.place,
            digest: told.digest,
            record: told.record.map(owned),
        });
        let mut kept = KeptRecord { id: first.id, sequence: first.sequence, events: 1, place };
        while let Some(further) = self.peek()?
            && is_further(further)
        {
            self.page.next();
            kept.events += 1;
        }
        Ok(Some(kept))
    }

    fn event(&mut self) -> Result<Option<StoredEvent>> {
        self.peek()?;
        Ok(self.page.next())
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
}

/// Whether an event is a further one of the record before.
fn is_further(event: &StoredEvent) -> bool {
    Provenance::of(&Object::of(&event.payload)).is_some_and(|told| told.part > 1)
}

fn owned(record: Record<'_>) -> Record<'static> {
    match record {
        Record::Json(text) => Record::Json(Cow::Owned(text.into_owned())),
        Record::Text(text) => Record::Text(Cow::Owned(text.into_owned())),
        Record::Bytes(bytes) => Record::Bytes(bytes),
        Record::Attached(path) => Record::Attached(Cow::Owned(path.into_owned())),
    }
}
