//! Writing what records became, and counting it.

use std::collections::BTreeMap;
use std::path::Path;

use super::translation::{Arriving, Encoded, Translation};
use crate::error::Result;
use crate::event::foreign::ForeignFormat;
use crate::ids::ConversationId;
use crate::store::{Arrival, Door, Problem, Store};
use crate::transfer::folder;

/// How much is written in one transaction; a record's events are never parted.
const CHUNK_EVENTS: usize = 1000;
const CHUNK_BYTES: usize = 4 << 20;

/// How many records of one conversation are told of one by one, where something is wrong with them.
const PROBLEMS_MAX: usize = 100;

/// Takes in the events of one conversation's records.
pub(super) struct Intake<'a> {
    store: &'a Store,
    id: &'a ConversationId,
    /// The file, as it is found again.
    source: String,
    format: ForeignFormat,
    chunk: Vec<Arrival>,
    chunk_bytes: usize,
    pub counts: Counts,
    pub problems: Vec<Problem>,
    untold: u64,
}

/// What was counted.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(super) struct Counts {
    /// Events that are here now.
    pub events: u64,
    /// Those of them that this import added.
    pub added: u64,
    /// Payload bytes that this import added.
    pub added_bytes: u64,
    /// Records in the file.
    pub records: u64,
    /// Those of them that are events of a kind of their own, by type.
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
            problems: Vec::new(),
            untold: 0,
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

    /// Writes down something that is wrong.
    pub(super) fn tell(&mut self, path: String, problem: String, action: String) {
        if self.problems.len() < PROBLEMS_MAX {
            self.problems.push(Problem { path, problem, action });
        } else {
            self.untold += 1;
        }
    }

    /// Takes in the events of a record that is new.
    pub(super) fn take(&mut self, encoded: Encoded) -> Result<()> {
        for event in encoded.events {
            self.chunk_bytes += event.payload().len();
            self.chunk.push(Arrival { event, file: None });
        }
        if self.chunk.len() >= CHUNK_EVENTS || self.chunk_bytes >= CHUNK_BYTES {
            self.write()?;
        }
        Ok(())
    }

    /// Writes what was taken in so far.
    pub(super) fn write(&mut self) -> Result<()> {
        if self.chunk.is_empty() {
            return Ok(());
        }
        let door = Door::Log(&self.source, self.format);
        let landings = self.store.import_events(self.id, door, &self.chunk)?;
        for (arrival, landing) in std::mem::take(&mut self.chunk).into_iter().zip(landings) {
            let event = arrival.event;
            if landing.written {
                self.counts.events += 1;
                self.counts.added += 1;
                self.counts.added_bytes += event.payload().len() as u64;
            } else {
                let problem = format!("an event {} of another record is stored already", event.id());
                self.tell(event.id().to_string(), problem, "left out".into());
            }
        }
        self.chunk_bytes = 0;
        Ok(())
    }

    /// What was found wrong.
    pub(super) fn finish(self) -> (Counts, Vec<Problem>) {
        let mut problems = self.problems;
        if self.untold > 0 {
            problems.push(Problem {
                path: String::new(),
                problem: format!("{} more records are not as they should be", self.untold),
                action: "kept as they are".into(),
            });
        }
        (self.counts, problems)
    }
}

/// A record's place, for people.
pub(super) fn place_of(arriving: &Arriving<'_>) -> String {
    match arriving.table {
        Some(table) => format!("{} {table} row {}", arriving.file, arriving.place),
        None => format!("{} line {}", arriving.file, arriving.place),
    }
}
