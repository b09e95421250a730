//! Takes in one conversation's events: has the stored ones to compare with, writes the new ones, and counts.

use std::collections::{BTreeMap, HashMap};

use crate::chain::Digest;
use crate::error::{Error, Result};
use crate::event::foreign::ForeignFormat;
use crate::ids::{ConversationId, EventId, Sequence};
use crate::store::{Arrival, Footing, ImportSource, Problem, Store};
use crate::transfer::container::TornTail;
use crate::transfer::discover::{Found, Shape};
use crate::transfer::folder;
use crate::transfer::pages::Pages;
use crate::transfer::problems::Problems;
use crate::transfer::report::ImportReport;

/// Events are written in one transaction as soon as there are this many of them, or this many payload bytes.
const CHUNK_EVENTS: usize = 1000;
const CHUNK_BYTES: usize = 4 << 20;

/// A log that is followed and has fewer records may still get its first message.
const BEGINNING_RECORDS: u64 = 32;

/// Takes in the events of one conversation.
pub(in crate::transfer) struct Intake<'a> {
    pub store: &'a Store,
    pub id: &'a ConversationId,
    /// The full path that the conversation is read from.
    source: String,
    /// What there was of the conversation when the import began, or what it has made.
    pub footing: Footing,
    /// The format of the log that the conversation is a copy of, if it is one.
    copy_of: Option<ForeignFormat>,
    /// The stored events that were not compared yet, in order.
    pub stored: Pages<'a>,
    /// The sequence after the last event that was matched or written.
    next: Sequence,
    chunk: Vec<Arrival>,
    /// The places of the chunk's events, as problems name them.
    places: Vec<String>,
    chunk_bytes: usize,
    pub counts: Counts,
    pub problems: Problems,
    /// The new events that were not written, because the conversation has an event with their id.
    pub rejected: Vec<Rejected>,
    /// What is done about a last line that is not whole.
    pub tail: TornTail,
    /// The ids and digests of the new events, if nothing is written. `None` if they are written.
    planned: Option<HashMap<EventId, Digest>>,
}

/// The counts of one import.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(in crate::transfer) struct Counts {
    /// The format, if it is another one than the search found.
    pub format: Option<&'static str>,
    /// The events that are stored now.
    pub events: u64,
    /// The events that this import added.
    pub added: u64,
    /// The payload bytes that this import added.
    pub added_bytes: u64,
    /// The records that were read.
    pub records: u64,
    /// The records that became messages or calls.
    pub messages: u64,
    /// The records of unknown types, and those that violate their format and became no event of a known kind.
    pub not_understood: u64,
    /// The records without a counterpart among the known kinds of events, by type.
    pub unread: BTreeMap<String, u64>,
}

/// A new event that was not written.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::transfer) struct Rejected {
    pub id: EventId,
    /// The place of the event, as problems name it.
    pub place: String,
    /// Whether the event that is stored with its id is the same.
    pub is_same: bool,
}

impl<'a> Intake<'a> {
    /// Makes the intake of the conversation `id`. `problems` are those that are known already.
    pub(in crate::transfer) fn new(
        store: &'a Store,
        id: &'a ConversationId,
        found: &Found,
        problems: Vec<Problem>,
    ) -> Result<Self> {
        let copy_of = match &found.shape {
            Shape::Log { format, .. } => Some(*format),
            Shape::Files { .. } | Shape::Container { .. } | Shape::File | Shape::Evaluation(_) => None,
        };
        let footing = store.footing(id)?;
        let first = footing.is_there().then_some(Sequence(0));
        let mut intake = Self {
            store,
            id,
            source: folder::in_full(&found.path),
            footing,
            copy_of,
            stored: Pages::new(store, id, first),
            next: Sequence(0),
            chunk: Vec::new(),
            places: Vec::new(),
            chunk_bytes: 0,
            counts: Counts::default(),
            problems: Problems::default(),
            rejected: Vec::new(),
            tail: TornTail::Keep,
            planned: None,
        };
        intake.problems.extend(problems);
        Ok(intake)
    }

    /// Makes it write nothing, and count what it would write.
    pub(super) fn write_nothing(&mut self) {
        self.planned = Some(HashMap::new());
    }

    /// Adds a problem.
    pub(in crate::transfer) fn tell(&mut self, path: String, problem: String, action: &str) {
        self.problems.add(Problem { path, problem, action: action.into() });
    }

    /// Adds a problem if a log was not understood: no record became a message, or less than half of them are of known
    /// types. Returns whether there is no message.
    pub(super) fn tell_what_was_not_understood(&mut self, report: &ImportReport) -> bool {
        let Counts { records, messages, .. } = self.counts;
        // A log that is followed may just have begun.
        let enough = if self.tail == TornTail::Await { BEGINNING_RECORDS } else { 1 };
        let is_unread = self.copy_of.is_some() && records >= enough && messages == 0;
        let what = if is_unread {
            format!("no message was found in its {records} records")
        } else if report.is_barely_understood() {
            format!("{} of its {records} records were not understood", report.not_understood)
        } else {
            return false;
        };
        let path = report.path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let action = "every record is kept as it is; another version of the program may have written it, or another program";
        self.tell(path, what, action);
        is_unread
    }

    /// Counts the next stored events, which the source has too.
    pub(in crate::transfer) fn count_matched(&mut self, events: u64) {
        self.counts.events += events;
        self.next = Sequence(self.counts.events);
    }

    /// Adds the new events of one record, each with its place. They are never split between two transactions.
    pub(in crate::transfer) fn take(
        &mut self,
        events: impl IntoIterator<Item = (Arrival, String)>,
    ) -> Result<()> {
        for (arrival, place) in events {
            self.chunk_bytes += arrival.event.payload().len();
            self.chunk.push(arrival);
            self.places.push(place);
        }
        if self.chunk.len() >= CHUNK_EVENTS || self.chunk_bytes >= CHUNK_BYTES {
            self.write()?;
        }
        Ok(())
    }

    /// Stores the events that were added so far.
    pub(in crate::transfer) fn write(&mut self) -> Result<()> {
        if self.chunk.is_empty() {
            return Ok(());
        }
        if self.planned.is_some() {
            return self.plan();
        }
        let source = match self.copy_of {
            Some(format) => ImportSource::Log(&self.source, format),
            None => ImportSource::Folder(&self.source),
        };
        let landings = self.store.import_events(self.id, &mut self.footing, source, &self.chunk)?;
        self.chunk_bytes = 0;
        let arrivals = std::mem::take(&mut self.chunk).into_iter().zip(std::mem::take(&mut self.places));
        for ((Arrival { event, .. }, place), landing) in arrivals.zip(landings) {
            if landing.written {
                self.counts.added += 1;
                self.counts.added_bytes += event.payload().len() as u64;
            } else if !landing.same || landing.sequence < self.next {
                self.rejected.push(Rejected { id: event.id().clone(), place, is_same: landing.same });
                continue;
            }
            // Otherwise another import wrote this event in the meantime.
            self.counts.events += 1;
            self.next = Sequence(landing.sequence.0 + 1);
        }
        Ok(())
    }
}

impl Intake<'_> {
    /// Does with the events that were added so far what [`Intake::write`] does, without writing them.
    fn plan(&mut self) -> Result<()> {
        self.chunk_bytes = 0;
        let is_stored = self.store.contains(self.id)?;
        let arrivals = std::mem::take(&mut self.chunk).into_iter().zip(std::mem::take(&mut self.places));
        for (Arrival { event, .. }, place) in arrivals {
            let planned = self.planned.get_or_insert_default();
            let known = match planned.get(event.id()) {
                Some(digest) => Some(*digest),
                None if is_stored => match self.store.event(self.id, event.id()) {
                    Ok(stored) => Some(Digest::of(stored.payload.as_bytes())),
                    Err(Error::UnknownEvent { .. }) => None,
                    Err(error) => return Err(error),
                },
                None => None,
            };
            if let Some(known) = known {
                let is_same = known == event.digest();
                self.rejected.push(Rejected { id: event.id().clone(), place, is_same });
                continue;
            }
            planned.insert(event.id().clone(), event.digest());
            self.counts.added += 1;
            self.counts.added_bytes += event.payload().len() as u64;
            self.counts.events += 1;
        }
        Ok(())
    }
}

impl Counts {
    /// Writes the counts into a report.
    pub(super) fn report(&self, report: &mut ImportReport) {
        let Self { format, events, added, added_bytes, records, messages: _, not_understood, unread } =
            self.clone();
        report.format = format.unwrap_or(report.format);
        (report.events, report.added, report.added_bytes) = (events, added, added_bytes);
        (report.records, report.not_understood, report.unread) = (records, not_understood, unread);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::AroundError;
    use crate::event::NewEvent;
    use crate::store::Options;
    use crate::transfer::discover::discover;

    /// Imports events into `id`, as an import does that has found nothing stored.
    fn import(store: &Store, id: &ConversationId, text: &str, ids: &[u64]) -> (Counts, Vec<Rejected>) {
        let file = tempfile::Builder::new().suffix(".jsonl").tempfile().unwrap();
        std::fs::write(file.path(), r#"{"id":"e1","kind":"Note"}"#).unwrap();
        let found = discover(file.path(), None).unwrap().found.remove(0);
        let mut intake = Intake::new(store, id, &found, Vec::new()).unwrap();
        for number in ids {
            let payload = format!(r#"{{"id":"e{number}","kind":"Note","text":"{text}"}}"#);
            let event = NewEvent::parse(payload).unwrap();
            intake.take([(Arrival { event, file: None }, format!("line {number}"))]).unwrap();
        }
        intake.write().unwrap();
        (intake.counts, intake.rejected)
    }

    #[test]
    fn nothing_is_written_to_a_conversation_that_was_deleted_or_erased_since_the_import_looked() {
        let options = Options { follow_projections: false, ..Options::default() };
        let store = Store::in_memory(&options).unwrap();
        let id = ConversationId::new("talk").unwrap();
        let file = tempfile::Builder::new().suffix(".jsonl").tempfile().unwrap();
        std::fs::write(file.path(), r#"{"id":"e1","kind":"Note"}"#).unwrap();
        let found = discover(file.path(), None).unwrap().found.remove(0);
        let arrival = |number: u64| {
            let event = NewEvent::parse(format!(r#"{{"id":"e{number}","kind":"Note"}}"#)).unwrap();
            (Arrival { event, file: None }, format!("line {number}"))
        };
        let is_gone =
            |written: Result<()>| matches!(written, Err(Error::Around(AroundError::GoneMeanwhile { .. })));
        // It had an event, and the import brings a second one.
        import(&store, &id, "old", &[1]);
        let mut grown = Intake::new(&store, &id, &found, Vec::new()).unwrap();
        grown.count_matched(1);
        grown.take([arrival(2)]).unwrap();
        store.retention().delete(&id).unwrap();
        assert!(is_gone(grown.write()), "deleted");
        assert!(!store.contains(&id).unwrap());
        // It was not there, and was made anew and erased since.
        let mut late = Intake::new(&store, &id, &found, Vec::new()).unwrap();
        late.take([arrival(1)]).unwrap();
        import(&store, &id, "new", &[1]);
        let mut again = Intake::new(&store, &id, &found, Vec::new()).unwrap();
        again.count_matched(1);
        again.take([arrival(2)]).unwrap();
        store.retention().erase(&id, "a test").unwrap();
        assert!(is_gone(late.write()), "erased before its first event");
        assert!(is_gone(again.write()), "erased between two of its events");
        let footing = again.footing;
        assert!(!store.contains(&id).unwrap());
        // What is made anew under the id is another conversation.
        import_accepted(&store, &id, &found, &[arrival(1)]);
        assert!(footing.is_there() && is_gone(again.take([arrival(3)]).and_then(|()| again.write())));
    }

    /// Imports events into a conversation that was erased, as `--accept-erased` does.
    fn import_accepted(store: &Store, id: &ConversationId, found: &Found, arrivals: &[(Arrival, String)]) {
        let mut intake = Intake::new(store, id, found, Vec::new()).unwrap();
        intake.footing.accepts_erased = true;
        intake.take(arrivals.iter().cloned()).unwrap();
        intake.write().unwrap();
    }

    #[test]
    fn events_that_another_import_wrote_in_the_meantime_are_not_rejected() {
        let options = Options { follow_projections: false, ..Options::default() };
        let store = Store::in_memory(&options).unwrap();
        let id = ConversationId::new("talk").unwrap();
        let rejected = |number: u64, is_same: bool| Rejected {
            id: EventId::new(format!("e{number}")).unwrap(),
            place: format!("line {number}"),
            is_same,
        };
        for added in [3, 0] {
            // The last one is a second event with its id in the same source.
            let (counts, refused) = import(&store, &id, "same", &[1, 2, 3, 2]);
            assert_eq!((counts.events, counts.added), (3, added));
            assert_eq!(refused, [rejected(2, true)]);
        }
        let (counts, refused) = import(&store, &id, "other", &[1, 2]);
        assert_eq!((counts.events, counts.added), (0, 0));
        assert_eq!(refused, [rejected(1, false), rejected(2, false)]);
    }
}
