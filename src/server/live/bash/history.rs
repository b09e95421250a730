//! The commands that were run and their outputs, in order and bounded. Subscribers receive only weak references: if an
//! event is removed before a subscriber has processed it, the subscriber is too far behind.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use chrono::{DateTime, Utc};
use tokio::sync::{broadcast, watch};
use uuid::Uuid;

use super::BashEvent;
use super::histories::Total;

/// The maximum number of events that are kept.
const EVENTS_MAX: usize = 100_000;

/// The maximum number of commands that run at once.
const RUNNING_MAX: usize = 256;

/// How many events a slow subscriber may be behind.
const LISTENER_LAG: usize = 1024;

/// How long the server waits at its end for commands to end.
const PATIENCE: Duration = Duration::from_secs(3);

/// A filter and order of events.
#[derive(Debug, Clone, Default)]
pub(in crate::server) struct Wanted {
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

/// The commands that were run and their outputs. Clones share them.
#[derive(Clone)]
pub(in crate::server) struct History(Arc<Shared>);

struct Shared {
    state: Mutex<State>,
    listeners: broadcast::Sender<Weak<BashEvent>>,
    /// The maximum bytes that are kept. The oldest events are removed first.
    bytes_max: usize,
    /// The sum of all histories.
    total: Arc<Total>,
}

impl Drop for Shared {
    fn drop(&mut self) {
        let state = self.state.get_mut().unwrap_or_else(PoisonError::into_inner);
        self.total.less(state.events.iter().map(|(number, _)| *number));
    }
}

#[derive(Default)]
struct State {
    /// The events, each with its number in the sum of all histories.
    events: VecDeque<(u64, Arc<BashEvent>)>,
    bytes: usize,
    /// The running commands, with the senders that stop them.
    running: HashMap<Uuid, watch::Sender<Stop>>,
}

/// Whether a command has to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::server) enum Stop {
    No,
    Yes,
}

impl State {
    /// Removes the oldest event. Returns its number.
    fn forget_oldest(&mut self) -> Option<u64> {
        let (number, oldest) = self.events.pop_front()?;
        self.bytes -= oldest.bytes();
        Some(number)
    }

    /// Returns whether the last output of a command is kept. It is found among the events, so that nothing else has to
    /// be removed with them.
    fn has_end_of(&self, command: Uuid) -> bool {
        self.events.iter().any(|(_, event)| match &**event {
            BashEvent::Output(output) => output.command_id == command && output.exit_code.is_some(),
            BashEvent::Command(_) => false,
        })
    }
}

impl History {
    /// Makes an empty history.
    pub(super) fn new(bytes_max: usize, total: &Arc<Total>) -> Self {
        let (listeners, _) = broadcast::channel(LISTENER_LAG);
        Self(Arc::new(Shared { state: Mutex::default(), listeners, bytes_max, total: Arc::clone(total) }))
    }

    /// Adds an event and notifies the subscribers.
    pub fn add(&self, event: BashEvent) {
        let event = Arc::new(event);
        let mut state = self.lock();
        state.bytes += event.bytes();
        let number = self.0.total.more(self, event.bytes());
        state.events.push_back((number, Arc::clone(&event)));
        while state.bytes > self.0.bytes_max || state.events.len() > EVENTS_MAX {
            let Some(removed) = state.forget_oldest() else { break };
            self.0.total.less([removed]);
        }
        drop(state);
        self.0.total.keep();
        // It fails if there are no subscribers, which is usual.
        let _no_subscribers = self.0.listeners.send(Arc::downgrade(&event));
    }

    /// Removes the events up to this number, to make room for other histories. They must not be in the sum any more: it
    /// gives up the oldest events first, so all of these were given up.
    pub(super) fn give_way(&self, number: u64) {
        let mut state = self.lock();
        while state.events.front().is_some_and(|(oldest, _)| *oldest <= number) {
            state.forget_oldest();
        }
    }

    /// Returns a weak reference to the history.
    pub(super) fn watched(&self) -> Watched {
        Watched(Arc::downgrade(&self.0))
    }

    /// Returns the number of subscribers.
    pub fn listeners(&self) -> usize {
        self.0.listeners.receiver_count()
    }

    /// Subscribes to the events from now on.
    pub fn listen(&self) -> broadcast::Receiver<Weak<BashEvent>> {
        self.0.listeners.subscribe()
    }

    /// Registers a command that begins. Returns the receiver of the signal to stop it.
    ///
    /// `None` if the maximum number of commands is running.
    pub(super) fn begin(&self, command: Uuid) -> Option<watch::Receiver<Stop>> {
        let (stop, receiver) = watch::channel(Stop::No);
        let mut state = self.lock();
        if state.running.len() >= RUNNING_MAX {
            return None;
        }
        state.running.insert(command, stop);
        Some(receiver)
    }

    /// Registers that a command has ended. Its last output was added before.
    pub(super) fn end(&self, command: Uuid) {
        self.lock().running.remove(&command);
    }

    /// Signals a command to end. Returns the sender of the signal, which is closed when the command has ended;
    /// `Some(None)` if it has ended already. `None` if the command is unknown, or if its last output was removed.
    pub fn stop(&self, command: Uuid) -> Option<Option<watch::Sender<Stop>>> {
        let state = self.lock();
        if let Some(stop) = state.running.get(&command) {
            stop.send_replace(Stop::Yes);
            return Some(Some(stop.clone()));
        }
        state.has_end_of(command).then_some(None)
    }

    /// Signals every command to end, and waits a short time for their ends.
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

    /// Returns a page of events, and the id of the first event of the next page. The page ends before an event that
    /// `admits` rejects.
    pub fn page(
        &self,
        wanted: &Wanted,
        first: Option<Uuid>,
        limit: usize,
        mut admits: impl FnMut(usize) -> bool,
    ) -> (Vec<Arc<BashEvent>>, Option<Uuid>) {
        let state = self.lock();
        let fitting = state.events.iter().map(|(_, event)| event).filter(|event| wanted.fits(event));
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

    /// Returns weak references to all events.
    pub fn all(&self) -> Vec<Weak<BashEvent>> {
        self.lock().events.iter().map(|(_, event)| Arc::downgrade(event)).collect()
    }

    /// Returns the event with that id.
    pub fn get(&self, id: Uuid) -> Option<Arc<BashEvent>> {
        self.lock().events.iter().map(|(_, event)| event).find(|event| event.id() == id).cloned()
    }

    /// Removes all events. Returns their number.
    pub fn clear(&self) -> usize {
        let mut state = self.lock();
        let events = std::mem::take(&mut state.events);
        self.0.total.less(events.iter().map(|(number, _)| *number));
        state.bytes = 0;
        events.len()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A weak reference to a history.
pub(super) struct Watched(Weak<Shared>);

impl Watched {
    /// Returns the history. `None` if it was dropped.
    pub fn history(&self) -> Option<History> {
        self.0.upgrade().map(History)
    }
}

#[cfg(test)]
mod tests {
    use super::super::BashOutput;
    use super::*;
    use crate::ids::Timestamp;

    fn last_output(command_id: Uuid, text: &str) -> BashEvent {
        BashEvent::Output(BashOutput {
            id: Uuid::new_v4(),
            timestamp: Timestamp::now().to_utc(),
            command_id,
            order: 0,
            exit_code: Some(0),
            stdout: Some(text.to_owned()),
            stderr: None,
        })
    }

    #[test]
    fn an_ended_command_is_known_as_long_as_its_last_output_is_kept() {
        let history = History::new(10, &Arc::default());
        let run = |text: &str| {
            let command = Uuid::new_v4();
            let _signal = history.begin(command).unwrap();
            history.add(last_output(command, text));
            assert!(matches!(history.stop(command), Some(Some(_))), "it still runs");
            history.end(command);
            command
        };
        // The last output is removed before the command has ended.
        let too_long = run("longer than the history");
        assert!(history.stop(too_long).is_none());
        let (first, second) = (run("12345"), run("12345"));
        assert!(matches!((history.stop(first), history.stop(second)), (Some(None), Some(None))));
        let third = run("12345");
        assert!(matches!((history.stop(first), history.stop(third)), (None, Some(None))));
        history.clear();
        assert!(history.stop(third).is_none());
    }

    #[test]
    fn a_history_gives_way_up_to_an_event() {
        let history = History::new(10, &Arc::default());
        for text in ["1", "2", "3"] {
            history.add(last_output(Uuid::new_v4(), text));
        }
        // The first event was given up too, by another thread that has not come to remove it.
        history.give_way(1);
        assert_eq!(history.all().len(), 1);
        history.give_way(1);
        assert_eq!((history.all().len(), history.lock().bytes), (1, 1));
    }
}
