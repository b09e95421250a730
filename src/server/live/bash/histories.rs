//! The histories of the server and of the conversations.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::task::JoinSet;

use super::History;
use super::history::Watched;
use crate::ids::ConversationId;
use crate::server::live::together;

/// The maximum bytes that are kept: of the server's own commands, of the commands of one conversation, and of all
/// together.
const WHOLE_BYTES_MAX: usize = 32 << 20;
const SCOPED_BYTES_MAX: usize = 8 << 20;
const TOTAL_BYTES_MAX: usize = 64 << 20;

/// The maximum number of events of all histories together.
const TOTAL_EVENTS_MAX: usize = 1_000_000;

/// The sum of all histories. If it is too large, the oldest events are removed first, whichever history has them.
pub(super) struct Total {
    sum: Mutex<Sum>,
    events_max: usize,
}

#[derive(Default)]
struct Sum {
    bytes: usize,
    /// The number of the next event.
    next: u64,
    /// The events that are kept, by their numbers. The oldest event comes first. `bytes` is the sum of theirs.
    kept: BTreeMap<u64, Kept>,
}

/// An event that is kept.
struct Kept {
    history: Watched,
    bytes: usize,
}

impl Default for Total {
    fn default() -> Self {
        Self { sum: Mutex::default(), events_max: TOTAL_EVENTS_MAX }
    }
}

impl Total {
    /// Adds an event of a history. Returns the event's number. Later events have higher numbers.
    pub fn more(&self, history: &History, bytes: usize) -> u64 {
        let mut sum = self.lock();
        let number = sum.next;
        sum.next += 1;
        sum.bytes += bytes;
        sum.kept.insert(number, Kept { history: history.watched(), bytes });
        number
    }

    /// Subtracts removed events, given by their numbers. Those that [`keep`](Self::keep) has given up do not count any
    /// more.
    pub fn less(&self, removed: impl IntoIterator<Item = u64>) {
        let mut sum = self.lock();
        for number in removed {
            if let Some(kept) = sum.kept.remove(&number) {
                sum.bytes -= kept.bytes;
            }
        }
    }

    /// Removes the oldest events until the sum is within its limits. The caller must not hold the lock of a history.
    pub fn keep(&self) {
        while let Some((number, oldest)) = self.surplus() {
            if let Some(history) = oldest.history() {
                history.give_way(number);
            }
        }
    }

    /// Gives up the oldest event if the sum is too large. Returns its number and its history.
    ///
    /// Its bytes are subtracted at once. Otherwise events of other histories would be given up too, until this event is
    /// removed, or until its history is dropped completely.
    fn surplus(&self) -> Option<(u64, Watched)> {
        let mut sum = self.lock();
        if sum.bytes <= TOTAL_BYTES_MAX && sum.kept.len() <= self.events_max {
            return None;
        }
        let (number, oldest) = sum.kept.pop_first()?;
        sum.bytes -= oldest.bytes;
        Some((number, oldest.history))
    }

    fn lock(&self) -> MutexGuard<'_, Sum> {
        self.sum.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The histories of the server and of the conversations.
pub(in crate::server) struct Histories {
    whole: History,
    scoped: Mutex<HashMap<ConversationId, History>>,
    total: Arc<Total>,
}

impl Default for Histories {
    fn default() -> Self {
        let total = Arc::default();
        Self { whole: History::new(WHOLE_BYTES_MAX, &total), scoped: Mutex::default(), total }
    }
}

impl Histories {
    /// Returns the history of the commands outside of conversations.
    pub fn whole(&self) -> &History {
        &self.whole
    }

    /// Returns the history of the commands in a conversation's workspace.
    pub fn of(&self, conversation: &ConversationId) -> History {
        let mut scoped = self.lock();
        let new = || History::new(SCOPED_BYTES_MAX, &self.total);
        scoped.entry(conversation.clone()).or_insert_with(new).clone()
    }

    /// Stops a conversation's commands and removes its history.
    pub async fn forget(&self, conversation: &ConversationId) {
        let history = self.lock().remove(conversation);
        if let Some(history) = history {
            history.stop_all().await;
        }
    }

    /// Stops all commands.
    pub async fn stop_all(&self) {
        let mut all = JoinSet::new();
        let scoped: Vec<History> = self.lock().values().cloned().collect();
        for history in scoped.into_iter().chain([self.whole.clone()]) {
            all.spawn(async move { history.stop_all().await });
        }
        together::ended(all).await;
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<ConversationId, History>> {
        self.scoped.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use crate::ids::Timestamp;
    use uuid::Uuid;

    use super::super::{BashEvent, BashOutput};
    use super::*;

    const PIECE_BYTES: usize = 4 << 20;

    fn output(bytes: usize) -> BashEvent {
        BashEvent::Output(BashOutput {
            id: Uuid::new_v4(),
            timestamp: Timestamp::now().to_utc(),
            command_id: Uuid::new_v4(),
            order: 0,
            exit_code: Some(0),
            stdout: Some("x".repeat(bytes)),
            stderr: None,
        })
    }

    #[test]
    fn only_events_that_are_kept_count_towards_the_maximum_number() {
        let total = Arc::new(Total { events_max: 10, ..Total::default() });
        let (first, second) = (History::new(SCOPED_BYTES_MAX, &total), History::new(3 * 1024, &total));
        first.add(output(1));
        // These are removed at once or soon, by their own history.
        for _ in 0..30 {
            second.add(output(1024));
        }
        assert_eq!((first.all().len(), second.all().len()), (1, 3));
        assert_eq!(total.lock().kept.len(), 4);
        second.clear();
        for _ in 0..9 {
            second.add(output(1));
        }
        assert_eq!((first.all().len(), second.all().len()), (1, 9));
        second.add(output(1));
        assert_eq!((first.all().len(), second.all().len()), (0, 10));
        drop(second);
        let sum = total.lock();
        assert_eq!((sum.kept.len(), sum.bytes), (0, 0));
    }

    #[test]
    fn a_history_that_is_being_dropped_takes_no_events_of_others_with_it() {
        const BYTES: usize = TOTAL_BYTES_MAX / 4;
        let total = Arc::new(Total::default());
        let (dropped, other) = (History::new(BYTES, &total), History::new(TOTAL_BYTES_MAX, &total));
        // As in the middle of the drop: no shell has the history any more, and its event still counts.
        total.more(&dropped, BYTES);
        drop(dropped);
        for _ in 0..4 {
            other.add(output(BYTES));
        }
        assert_eq!(other.all().len(), 4);
        let sum = total.lock();
        assert_eq!((sum.kept.len(), sum.bytes), (4, TOTAL_BYTES_MAX));
    }

    #[test]
    fn all_histories_together_keep_a_limited_number_of_bytes() {
        let histories = Histories::default();
        let piece = || output(PIECE_BYTES);
        let first = ConversationId::mint();
        for conversation in std::iter::once(first.clone()).chain((0..30).map(|_| ConversationId::mint())) {
            histories.of(&conversation).add(piece());
        }
        let kept: usize = histories.lock().values().map(|history| history.all().len()).sum();
        assert_eq!((kept, histories.of(&first).all().len()), (TOTAL_BYTES_MAX / PIECE_BYTES, 0));
        for _ in 0..30 {
            histories.whole().add(piece());
        }
        assert_eq!(histories.whole().all().len(), WHOLE_BYTES_MAX / PIECE_BYTES);
        assert_eq!(histories.total.lock().bytes, TOTAL_BYTES_MAX);
        histories.whole().clear();
        histories.lock().clear();
        assert_eq!(histories.total.lock().bytes, 0);
    }
}
