//! What was run and what it printed, in order, bounded. Who listens has nothing besides: what is forgotten before they
//! heard it shows that they are too far behind.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use chrono::{DateTime, Utc};
use tokio::sync::{broadcast, watch};
use uuid::Uuid;

use super::histories::Total;
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
    listeners: broadcast::Sender<Weak<BashEvent>>,
    /// The most bytes of output that are kept; the oldest go first.
    bytes_max: usize,
    /// What it has together with others.
    total: Arc<Total>,
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.total.less(self.state.get_mut().unwrap_or_else(PoisonError::into_inner).bytes);
    }
}

#[derive(Default)]
struct State {
    events: VecDeque<Arc<BashEvent>>,
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

impl State {
    /// Forgets the oldest event; how many bytes it had.
    fn forget_oldest(&mut self) -> Option<usize> {
        let oldest = self.events.pop_front()?;
        if let BashEvent::Output(BashOutput { command_id, exit_code: Some(_), .. }) = &*oldest {
            self.ended.remove(command_id);
        }
        self.bytes -= oldest.bytes();
        Some(oldest.bytes())
    }
}

impl History {
    /// Nothing was run yet.
    pub(super) fn new(bytes_max: usize, total: &Arc<Total>) -> Self {
        let (listeners, _) = broadcast::channel(LISTENER_LAG);
        Self(Arc::new(Shared { state: Mutex::default(), listeners, bytes_max, total: Arc::clone(total) }))
    }

    /// Keeps an event and tells those who listen.
    pub fn add(&self, event: BashEvent) {
        let event = Arc::new(event);
        let mut state = self.lock();
        state.bytes += event.bytes();
        self.0.total.more(self, event.bytes());
        state.events.push_back(Arc::clone(&event));
        while state.bytes > self.0.bytes_max || state.events.len() > EVENTS_MAX {
            let Some(bytes) = state.forget_oldest() else { break };
            self.0.total.less(bytes);
        }
        drop(state);
        self.0.total.keep();
        // Nobody listens as a rule.
        let _nobody = self.0.listeners.send(Arc::downgrade(&event));
    }

    /// Forgets its oldest event, for others.
    pub(super) fn give_way(&self) {
        if let Some(bytes) = self.lock().forget_oldest() {
            self.0.total.less(bytes);
        }
    }

    /// It, for somebody who does not keep it.
    pub(super) fn watched(&self) -> Watched {
        Watched(Arc::downgrade(&self.0))
    }

    /// How many listen.
    pub fn listeners(&self) -> usize {
        self.0.listeners.receiver_count()
    }

    /// Events from now on.
    pub fn listen(&self) -> broadcast::Receiver<Weak<BashEvent>> {
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

    /// A page: the events, as long as `admits` lets the next one in, and the place of the first of the next page.
    pub(super) fn page(
        &self,
        wanted: &Wanted,
        first: Option<Uuid>,
        limit: usize,
        mut admits: impl FnMut(usize) -> bool,
    ) -> (Vec<Arc<BashEvent>>, Option<Uuid>) {
        let state = self.lock();
        let fitting = state.events.iter().filter(|event| wanted.fits(event));
        let mut ordered: Vec<&Arc<BashEvent>> = fitting.collect();
        if wanted.descending {
            ordered.reverse();
        }
        let from = first.and_then(|id| ordered.iter().position(|event| event.id() == id)).unwrap_or_default();
        let mut page = Vec::new();
        for event in &ordered[from..] {
            if page.len() >= limit || !admits(event.bytes()) {
                return (page, Some(event.id()));
            }
            page.push(Arc::clone(event));
        }
        (page, None)
    }

    /// All events, for as long as they are kept.
    pub fn all(&self) -> Vec<Weak<BashEvent>> {
        self.lock().events.iter().map(Arc::downgrade).collect()
    }

    /// The event of that id.
    pub(super) fn get(&self, id: Uuid) -> Option<Arc<BashEvent>> {
        self.lock().events.iter().find(|event| event.id() == id).cloned()
    }

    /// Forgets everything; how many events that were.
    pub(super) fn clear(&self) -> usize {
        let mut state = self.lock();
        self.0.total.less(std::mem::take(&mut state.bytes));
        state.ended.clear();
        std::mem::take(&mut state.events).len()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A history that somebody else keeps.
pub(super) struct Watched(Weak<Shared>);

impl Watched {
    /// It, where it is still there.
    pub fn history(&self) -> Option<History> {
        self.0.upgrade().map(History)
    }
}
