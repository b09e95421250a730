//! Reads the stored records in order, to compare them with arriving ones.

use std::borrow::Cow;

use crate::chain::Digest;
use crate::error::Result;
use crate::event::foreign::{ForeignFormat, Provenance, Record};
use crate::ids::{EventId, Sequence};
use crate::json::{Object, Raw};
use crate::store::{Problem, StoredEvent};
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
    /// The place of the record in its file. `None` if a redaction removed it from its events.
    pub place: Option<Place>,
    /// The number of its row in a database. A redaction leaves it.
    pub row: Option<i64>,
    /// Whether its event follows no other one.
    is_apart: bool,
}

impl KeptRecord {
    /// Returns the number of its events, as a translator gets it ([`Arriving`](super::translation::Arriving)).
    pub(super) fn stored(&self) -> u64 {
        if self.is_apart { 0 } else { self.events }
    }
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

/// Returns the next record of the stored events. `None` after the last one.
pub(super) fn next(events: &mut Pages<'_>) -> Result<Option<KeptRecord>> {
    let Some(first) = events.next()? else { return Ok(None) };
    let object = Object::of(&first.payload);
    let place = place_of(&object);
    let row = object.get("provenance").and_then(|provenance| provenance.get("row")).and_then(Raw::as_i64);
    let is_unread = ForeignFormat::of_kind(&first.kind).is_some();
    let is_apart = is_unread && object.get("parent_id").is_none();
    let problems = problems_of(&first).collect();
    let (id, sequence) = (first.id, first.sequence);
    let mut kept = KeptRecord { id, sequence, events: 1, is_unread, problems, place, row, is_apart };
    while let Some(further) = events.peek()?
        && is_further(further)
    {
        kept.problems.extend(problems_of(further));
        // Every event of a record says where the record is. Only the first has the record itself.
        kept.place = kept.place.or_else(|| place_of(&Object::of(&further.payload)));
        events.next()?;
        kept.events += 1;
    }
    Ok(Some(kept))
}

fn place_of(event: &Object<'_>) -> Option<Place> {
    Provenance::of(event).map(|provenance| Place {
        table: provenance.table.map(Cow::into_owned),
        place: provenance.place,
        digest: provenance.digest,
        record: provenance.record.map(owned),
    })
}

fn problems_of(event: &StoredEvent) -> impl Iterator<Item = Problem> + use<> {
    bounds::of_stored(event.id.as_str(), event)
}

/// Returns whether an event belongs to the same record as the event before it. A redaction leaves the number of its part.
fn is_further(event: &StoredEvent) -> bool {
    let part = Object::of(&event.payload).get("provenance").and_then(|provenance| provenance.get("part"));
    part.and_then(Raw::as_i64).is_some_and(|part| part > 1)
}

fn owned(record: Record<'_>) -> Record<'static> {
    match record {
        Record::Json(text) => Record::Json(Cow::Owned(text.into_owned())),
        Record::Text(text) => Record::Text(Cow::Owned(text.into_owned())),
        Record::Bytes(bytes) => Record::Bytes(bytes),
        Record::Attached(path) => Record::Attached(Cow::Owned(path.into_owned())),
    }
}
