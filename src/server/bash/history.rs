//! What was run and what it printed, in order, bounded.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use chrono::{DateTime, Utc};
use tokio::sync::{broadcast, watch};
use uuid::Uuid;

use super::{BashEvent, BashOutput};

/// The most events that are kept.
const EVENTS_MAX: usize = 100_000;

/// The most commands that run at once.
const RUNNING_MAX: usize = 256;

/// How many events a slow listener may be behind.
const LISTENER_LAG: usize = 1024;

/// How long the server's end waits for a command's.
const PATIENCE: Duration = Duration::from_secs(3);

/// What to look for.
#[derive(Debug, Clone, Default)]
pub(super) struct Wanted {
    pub kind: Option<String>,
    pub command_id: Option<Uuid>,
    pub timestamp_from: Option<DateTime<Utc>>,
    pub timestamp_before: Option<DateTime<Utc>>,
    pub order_above: Option<u64>,
    pub descending: bool,
}

impl Wanted {
    fn fits(&self, event: &BashEvent) -> bool {
        self.kind.as_ref().is_none_or(|kind| kind == event.kind())
            && self.command_id.is_none_or(|id| id == event.command_id())
            && self.timestamp_from.is_none_or(|from| event.timestamp() >= from)
            && self.timestamp_before.is_none_or(|before| event.timestamp() < before)
            && self.order_above.is_none_or(|above| event.order().is_none_or(|order| order > above))
    }
}

/// What was run, shared by all requests.
#[derive(Clone)]
pub(in crate::server) struct History(Arc<Shared>);

struct Shared {
    state: Mutex<State>,
    listeners: broadcast::Sender<BashEvent>,
    /// The most bytes of output that are kept; the oldest go first.
    bytes_max: usize,
}

#[derive(Default)]
struct State {
    events: VecDeque<BashEvent>,
    bytes: usize,
    /// Commands that run, with the way to stop them.
    running: HashMap<Uuid, watch::Sender<Stop>>,
    /// Commands that ended.
    ended: HashMap<Uuid, ()>,
}

/// Whether a command is to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stop {
    No,
    Yes,
}

impl History {
    /// Nothing was run yet.
    pub fn new(bytes_max: usize) -> Self {
        let (listeners, _) = broadcast::channel(LISTENER_LAG);
        Self(Arc::new(Shared { state: Mutex::default(), listeners, bytes_max }))
    }

    /// Keeps an event and tells those who listen.
    pub fn add(&self, event: BashEvent) {
        let mut state = self.lock();
        state.bytes += bytes(&event);
        state.events.push_back(event.clone());
        while state.bytes > self.0.bytes_max || state.events.len() > EVENTS_MAX {
            let Some(oldest) = state.events.pop_front() else { break };
            state.bytes -= bytes(&oldest);
            if let BashEvent::Output(BashOutput { command_id, exit_code: Some(_), .. }) = oldest {
                state.ended.remove(&command_id);
            }
        }
        drop(state);
        // Nobody listens as a rule.
        let _nobody = self.0.listeners.send(event);
    }

    /// How many listen.
    pub fn listeners(&self) -> usize {
        self.0.listeners.receiver_count()
    }

    /// Events from now on.
    pub fn listen(&self) -> broadcast::Receiver<BashEvent> {
        self.0.listeners.subscribe()
    }

    /// A command begins: what tells it to end.
    ///
    /// `None` where as many run as may.
    pub(super) fn begin(&self, command: Uuid) -> Option<watch::Receiver<Stop>> {
        let (stop, told) = watch::channel(Stop::No);
        let mut state = self.lock();
        if state.running.len() >= RUNNING_MAX {
            return None;
        }
        state.running.insert(command, stop);
        Some(told)
    }

    /// A command has ended.
    pub(super) fn end(&self, command: Uuid) {
        let mut state = self.lock();
        state.running.remove(&command);
        state.ended.insert(command, ());
    }

    /// Tells a command to end; what shows when it has. `None` where nobody knows it.
    pub(super) fn stop(&self, command: Uuid) -> Option<Option<watch::Sender<Stop>>> {
        let state = self.lock();
        if let Some(stop) = state.running.get(&command) {
            stop.send_replace(Stop::Yes);
            return Some(Some(stop.clone()));
        }
        state.ended.contains_key(&command).then_some(None)
    }

    /// Tells every command to end, and waits a little for it.
    pub async fn stop_all(&self) {
        let stops: Vec<watch::Sender<Stop>> = self.lock().running.values().cloned().collect();
        for stop in &stops {
            stop.send_replace(Stop::Yes);
        }
        let ended = async {
            for stop in &stops {
                stop.closed().await;
            }
        };
        let _still_dying = tokio::time::timeout(PATIENCE, ended).await;
    }

    /// A page: the events, and the place of the first of the next.
    pub(super) fn page(
        &self,
        wanted: &Wanted,
        first: Option<Uuid>,
        limit: usize,
    ) -> (Vec<BashEvent>, Option<Uuid>) {
        let state = self.lock();
        let fitting = state.events.iter().filter(|event| wanted.fits(event));
        let mut ordered: Vec<&BashEvent> = fitting.collect();
        if wanted.descending {
            ordered.reverse();
        }
        let from = first.and_then(|id| ordered.iter().position(|event| event.id() == id)).unwrap_or_default();
        let next = ordered.get(from + limit).map(|event| event.id());
        (ordered.into_iter().skip(from).take(limit).cloned().collect(), next)
    }

    /// All events.
    pub fn all(&self) -> Vec<BashEvent> {
        self.lock().events.iter().cloned().collect()
    }

    /// The event of that id.
    pub(super) fn get(&self, id: Uuid) -> Option<BashEvent> {
        self.lock().events.iter().find(|event| event.id() == id).cloned()
    }

    /// Forgets everything; how many events that were.
    pub(super) fn clear(&self) -> usize {
        let mut state = self.lock();
        state.bytes = 0;
        state.ended.clear();
        std::mem::take(&mut state.events).len()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn bytes(event: &BashEvent) -> usize {
    match event {
        BashEvent::Command(command) => command.command.len(),
        BashEvent::Output(output) => {
            [&output.stdout, &output.stderr].into_iter().flatten().map(String::len).sum()
        }
    }
}
