//! Stores the events of records and counts them.

use std::collections::BTreeMap;
use std::path::Path;

use super::translation::{Arriving, Encoded, Translation};
use crate::error::Result;
use crate::event::foreign::ForeignFormat;
use crate::ids::ConversationId;
use crate::store::{Arrival, ImportSource, Problem, Store};
use crate::transfer::intake::{CHUNK_BYTES, CHUNK_EVENTS};
use crate::transfer::problems::Problems;
use crate::transfer::{bounds, folder};

/// Stores the events of one conversation's records.
pub(super) struct Intake<'a> {
    store: &'a Store,
    id: &'a ConversationId,
    /// The absolute path of the file.
    source: String,
    format: ForeignFormat,
    chunk: Vec<Arrival>,
    chunk_bytes: usize,
    pub counts: Counts,
    problems: Problems,
}

/// The counts of one import.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(super) struct Counts {
    /// The events that are stored now.
    pub events: u64,
    /// The events that this import added.
    pub added: u64,
    /// The payload bytes that this import added.
    pub added_bytes: u64,
    /// The records in the file.
    pub records: u64,
    /// The records that became an event of a kind of their own, by type.
    pub unread: BTreeMap<String, u64>,
}

impl<'a> Intake<'a> {
    pub(super) fn new(store: &'a Store, id: &'a ConversationId, path: &Path, format: ForeignFormat) -> Self {
        Self {
            store,
            id,
            source: folder::in_full(path),
            format,
            chunk: Vec::new(),
            chunk_bytes: 0,
            counts: Counts::default(),
            problems: Problems::default(),
        }
    }

    /// Counts a record.
    pub(super) fn count(&mut self, arriving: &Arriving<'_>, translation: &Translation) {
        self.counts.records += 1;
        if translation.events.is_empty() {
            *self.counts.unread.entry(translation.name.clone()).or_default() += 1;
        }
        if let Some(problem) = &translation.problem {
            let action = if translation.events.is_empty() {
                "kept as it is"
            } else {
                "kept beside what was read of it"
            };
            self.tell(place_of(arriving), problem.clone(), action.into());
        }
    }

    /// Adds a problem.
    pub(super) fn tell(&mut self, path: String, problem: String, action: String) {
        self.problems.add(Problem { path, problem, action });
    }

    /// Adds the problems with the events of a stored record, which an import of the whole log would find too.
    pub(super) fn tell_again(&mut self, problems: Vec<Problem>) {
        self.problems.extend(problems);
    }

    /// Adds the events of a new record. They are never split between two transactions.
    pub(super) fn take(&mut self, encoded: Encoded) -> Result<()> {
        for event in encoded.events {
            let kind = &event.envelope().kind;
            self.problems.extend(bounds::of_event(event.id().as_str(), kind, event.payload()));
            self.chunk_bytes += event.payload().len();
            self.chunk.push(Arrival { event, file: None });
        }
        if self.chunk.len() >= CHUNK_EVENTS || self.chunk_bytes >= CHUNK_BYTES {
            self.write()?;
        }
        Ok(())
    }

    /// Stores the events that were added so far.
    pub(super) fn write(&mut self) -> Result<()> {
        if self.chunk.is_empty() {
            return Ok(());
        }
        let import_source = ImportSource::Log(&self.source, self.format);
        let landings = self.store.import_events(self.id, import_source, &self.chunk)?;
        for (arrival, landing) in std::mem::take(&mut self.chunk).into_iter().zip(landings) {
            let event = arrival.event;
            if landing.written {
                self.counts.events += 1;
                self.counts.added += 1;
                self.counts.added_bytes += event.payload().len() as u64;
            } else if landing.same {
                // Another import wrote this event in the meantime.
                self.counts.events += 1;
            } else {
                let problem = format!("an event {} of another record is stored already", event.id());
                self.tell(event.id().to_string(), problem, "left out".into());
            }
        }
        self.chunk_bytes = 0;
        Ok(())
    }

    /// Returns the counts and the problems.
    pub(super) fn finish(self) -> (Counts, Vec<Problem>) {
        (self.counts, self.problems.finish())
    }
}

/// Returns the place of a record, as text for people.
pub(super) fn place_of(arriving: &Arriving<'_>) -> String {
    match arriving.table {
        Some(table) => format!("{} {table} row {}", arriving.file, arriving.place),
        None => format!("{} line {}", arriving.file, arriving.place),
    }
}

#[cfg(test)]
mod tests {
    use super::super::translation::encode;
    use super::*;
    use crate::chain::Digest;
    use crate::store::Options;

    /// Imports three records into `id`, as an import does that has found nothing stored.
    fn import(store: &Store, id: &ConversationId, text: &str) -> (Counts, Vec<Problem>) {
        let mut intake = Intake::new(store, id, Path::new("talk.jsonl"), ForeignFormat::Codex);
        for place in 1..=3 {
            let bytes = format!("{{\"{text}\":{place}}}").into_bytes();
            let arriving = Arriving {
                format: ForeignFormat::Codex,
                file: "talk.jsonl",
                table: None,
                place,
                before: None,
                bytes: &bytes,
                digest: Digest::of(&bytes),
            };
            let translation = Translation::unread("record");
            intake.count(&arriving, &translation);
            intake.take(encode(&arriving, &translation)).unwrap();
        }
        intake.write().unwrap();
        intake.finish()
    }

    #[test]
    fn events_that_another_import_wrote_in_the_meantime_are_no_problem() {
        let options = Options { follow_projections: false, ..Options::default() };
        let store = Store::in_memory(&options).unwrap();
        let id = ConversationId::new("talk").unwrap();
        for added in [3, 0] {
            let (counts, problems) = import(&store, &id, "same");
            assert_eq!((counts.events, counts.added, problems), (3, added, Vec::new()));
        }
        let (counts, problems) = import(&store, &id, "other");
        assert_eq!((counts.events, counts.added, problems.len()), (0, 0, 3));
        assert_eq!(problems[0].problem, "an event line-1 of another record is stored already");
    }
}
