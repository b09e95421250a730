//! Takes in one conversation's events: compares them with the stored events and writes the new ones.

use std::collections::{BTreeMap, HashMap};

use super::bounds;
use super::compare::{CONFLICT, Match, Stored};
use super::problems::Problems;
use super::source::Candidate;
use crate::error::Result;
use crate::event::{Event, Given, NewEvent};
use crate::ids::{ConversationId, Sequence};
use crate::store::{Arrival, Attachment, ImportSource, Problem, Store};

/// Events are written in one transaction as soon as there are this many of them, or this many payload bytes.
pub(super) const CHUNK_EVENTS: usize = 1000;
pub(super) const CHUNK_BYTES: usize = 4 << 20;

/// Takes in one conversation's events: compares those that are stored and writes the others.
pub(super) struct Intake<'a> {
    store: &'a Store,
    id: &'a ConversationId,
    /// The path that the conversation is read from.
    source: String,
    /// Whether there are events and all of them are events of OpenHands V0.
    pub(super) v0_only: bool,
    seen: bool,
    /// The number of OpenHands V0 events that have no counterpart among today's events, by their V0 kind.
    pub(super) unread: BTreeMap<String, u64>,
    pub(super) stored: Stored<'a>,
    /// The files that an earlier import kept aside for a reason, by path.
    known_aside: HashMap<String, Attachment>,
    /// The sequence after the last event that was matched or written.
    next: Sequence,
    chunk: Vec<Arrival>,
    /// The paths of the chunk's events, as problems name them.
    chunk_paths: Vec<String>,
    chunk_bytes: usize,
    pub(super) aside: Vec<(String, String)>,
    pub(super) problems: Problems,
    pub(super) conflict: Option<Problem>,
    pub(super) added: u64,
    pub(super) added_bytes: u64,
}

impl<'a> Intake<'a> {
    pub(super) fn new(
        store: &'a Store,
        id: &'a ConversationId,
        source: String,
        known_problems: Vec<Problem>,
    ) -> Result<Self> {
        let mut problems = Problems::default();
        problems.extend(known_problems);
        let exists = store.contains(id)?;
        let known_aside = if exists { store.attachments(id)? } else { Vec::new() };
        Ok(Self {
            store,
            id,
            source,
            v0_only: false,
            seen: false,
            unread: BTreeMap::new(),
            stored: Stored::new(store, id, exists.then_some(Sequence(0))),
            known_aside: known_aside
                .into_iter()
                .filter(|file| file.reason.is_some())
                .map(|file| (file.path.clone(), file))
                .collect(),
            next: Sequence(0),
            chunk: Vec::new(),
            chunk_paths: Vec::new(),
            chunk_bytes: 0,
            aside: Vec::new(),
            problems,
            conflict: None,
            added: 0,
            added_bytes: 0,
        })
    }

    pub(super) fn take(&mut self, candidate: Candidate) -> Result<()> {
        if self.conflict.is_some() {
            return Ok(());
        }
        self.problems.extend(candidate.problems);
        let event = match candidate.event {
            Ok(event) => event,
            Err(reason) => {
                self.keep_aside(candidate.path, reason);
                return Ok(());
            }
        };
        self.note_v0(&event);
        if self.known_aside.get(&candidate.path).is_some_and(|file| file.is_or_was(event.digest())) {
            self.keep_aside(candidate.path, second_event(event.id().as_str()));
            return Ok(());
        }
        self.problems.extend(bounds::of_event(&candidate.path, &event.envelope().kind, event.payload()));
        match self.stored.compare(&event)? {
            Match::Same => {
                self.next = Sequence(self.stored.matched);
                Ok(())
            }
            Match::Different(stored) => {
                let problem = if stored.id == *event.id() {
                    format!("event {} has another payload than the stored one", event.id())
                } else {
                    format!(
                        "event {} stands where {} is stored (sequence {})",
                        event.id(),
                        stored.id,
                        stored.sequence
                    )
                };
                self.conflict = Some(Problem { path: candidate.path, problem, action: CONFLICT.into() });
                Ok(())
            }
            Match::New => {
                self.chunk_bytes += event.payload().len();
                self.chunk.push(Arrival { event, file: candidate.file });
                self.chunk_paths.push(candidate.path);
                if self.chunk.len() >= CHUNK_EVENTS || self.chunk_bytes >= CHUNK_BYTES {
                    self.write_chunk()?;
                }
                Ok(())
            }
        }
    }

    pub(super) fn write_chunk(&mut self) -> Result<()> {
        if self.chunk.is_empty() {
            return Ok(());
        }
        let landings = self.store.import_events(self.id, ImportSource::Folder(&self.source), &self.chunk)?;
        self.chunk_bytes = 0;
        let paths = std::mem::take(&mut self.chunk_paths);
        let arrivals = std::mem::take(&mut self.chunk).into_iter().zip(paths);
        for ((arrival, path), landing) in arrivals.zip(landings) {
            if landing.written {
                self.added += 1;
                self.added_bytes += arrival.event.payload().len() as u64;
            } else if landing.same && landing.sequence >= self.next {
                // Another import wrote this event in the meantime. It is not a duplicate within this import.
                self.stored.matched += 1;
            } else {
                self.keep_aside(path, second_event(arrival.event.id().as_str()));
                continue;
            }
            self.next = Sequence(landing.sequence.0 + 1);
        }
        Ok(())
    }

    /// Notes whether the event is one of OpenHands V0. Counts it if it cannot be read as one of today's events.
    fn note_v0(&mut self, event: &NewEvent) {
        let kind = &event.envelope().kind;
        let is_v0 = is_v0(event);
        self.v0_only = is_v0 && (self.v0_only || !self.seen);
        self.seen = true;
        let given = Given { id: Some(event.id()), timestamp: None };
        if is_v0 && matches!(Event::read(event.payload(), &given), Ok(Event::Unknown(_)) | Err(_)) {
            *self.unread.entry(kind.to_string()).or_default() += 1;
        }
    }

    fn keep_aside(&mut self, path: String, reason: String) {
        self.problems.add(Problem {
            path: path.clone(),
            problem: reason.clone(),
            action: "kept as an attachment".into(),
        });
        self.aside.push((path, reason));
    }
}

/// Returns whether an event is one of OpenHands V0.
pub(super) fn is_v0(event: &NewEvent) -> bool {
    let kind = &event.envelope().kind;
    kind.starts_with("action:") || kind.starts_with("observation:")
}

fn second_event(id: &str) -> String {
    format!("a second event with the id {id}")
}
