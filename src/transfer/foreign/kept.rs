//! Reads the stored records in order, to compare them with arriving ones.

use std::borrow::Cow;

use crate::chain::Digest;
use crate::error::Result;
use crate::event::foreign::{ForeignFormat, Provenance, Record};
use crate::ids::{ConversationId, EventId, Sequence};
use crate::json::Object;
use crate::store::{Problem, Store, StoredEvent};
use crate::transfer::bounds;
use crate::transfer::pages::Pages;

/// A stored record.
#[derive(Debug)]
pub(super) struct KeptRecord {
    /// The id of its first event.
    pub id: EventId,
    pub sequence: Sequence,
    /// The number of its events.
    pub events: u64,
    /// Whether it is an event of a kind of its own.
    pub is_unread: bool,
    /// The problems with texts of its events.
    pub problems: Vec<Problem>,
    /// The place of the record in its file. `None` if a redaction removed it from the event.
    pub place: Option<Place>,
}

/// The place and the content of a stored record.
#[derive(Debug)]
pub(super) struct Place {
    pub table: Option<String>,
    pub place: i64,
    pub digest: Digest,
    /// The record. `None` if the event does not contain it.
    pub record: Option<Record<'static>>,
}

/// The stored records of a conversation, in order.
pub(super) struct Kept<'a> {
    events: Pages<'a>,
}

impl<'a> Kept<'a> {
    /// Makes a reader of the records of a conversation. It reads none if `exists` is false.
    pub(super) fn new(store: &'a Store, conversation: &'a ConversationId, exists: bool) -> Self {
        Self { events: Pages::new(store, conversation, exists.then_some(Sequence(0))) }
    }

    /// Returns the next record. `None` after the last one.
    pub(super) fn next(&mut self) -> Result<Option<KeptRecord>> {
        let Some(first) = self.events.next()? else { return Ok(None) };
        let object = Object::of(&first.payload);
        let place = Provenance::of(&object).map(|provenance| Place {
            table: provenance.table.map(Cow::into_owned),
            place: provenance.place,
            digest: provenance.digest,
            record: provenance.record.map(owned),
        });
        let is_unread = ForeignFormat::of_kind(&first.kind).is_some();
        let problems = problem(&first).into_iter().collect();
        let (id, sequence) = (first.id, first.sequence);
        let mut kept = KeptRecord { id, sequence, events: 1, is_unread, problems, place };
        while let Some(further) = self.events.peek()?
            && is_further(further)
        {
            kept.problems.extend(problem(further));
            self.events.next()?;
            kept.events += 1;
        }
        Ok(Some(kept))
    }
}

fn problem(event: &StoredEvent) -> Option<Problem> {
    bounds::of_event(event.id.as_str(), &event.kind, &event.payload)
}

/// Returns whether an event belongs to the same record as the event before it.
fn is_further(event: &StoredEvent) -> bool {
    Provenance::of(&Object::of(&event.payload)).is_some_and(|provenance| provenance.part > 1)
}

fn owned(record: Record<'_>) -> Record<'static> {
    match record {
        Record::Json(text) => Record::Json(Cow::Owned(text.into_owned())),
        Record::Text(text) => Record::Text(Cow::Owned(text.into_owned())),
        Record::Bytes(bytes) => Record::Bytes(bytes),
        Record::Attached(path) => Record::Attached(Cow::Owned(path.into_owned())),
    }
}
