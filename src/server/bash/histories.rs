//! The histories of the server and of the conversations.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::task::JoinSet;

use super::History;
use super::history::Watched;
use crate::ids::ConversationId;
use crate::server::together;

/// The most bytes of output that are kept: of the server's own commands, of a conversation's, and of all together.
const WHOLE_BYTES_MAX: usize = 32 << 20;
const SCOPED_BYTES_MAX: usize = 8 << 20;
const TOTAL_BYTES_MAX: usize = 64 << 20;

/// The most events of all histories together.
const TOTAL_EVENTS_MAX: usize = 1_000_000;

/// What all histories have together; the oldest of it goes first, whosever it is.
#[derive(Default)]
pub(super) struct Total(Mutex<Sum>);

#[derive(Default)]
struct Sum {
    bytes: usize,
    /// Whose the events are, one for each, the oldest first. Some of them may be forgotten already.
    order: VecDeque<Watched>,
}

impl Total {
    /// A history has an event more.
    pub fn more(&self, history: &History, bytes: usize) {
        let mut sum = self.lock();
        sum.bytes += bytes;
        sum.order.push_back(history.watched());
    }

    /// So many bytes were forgotten.
    pub fn less(&self, bytes: usize) {
        self.lock().bytes -= bytes;
    }

    /// Has the oldest events forgotten, until the rest is no more than may be. No history may be locked.
    pub fn keep(&self) {
        while let Some(oldest) = self.surplus() {
            if let Some(history) = oldest.history() {
                history.give_way();
            }
        }
    }

    fn surplus(&self) -> Option<Watched> {
        let mut sum = self.lock();
        let is_too_much = sum.bytes > TOTAL_BYTES_MAX || sum.order.len() > TOTAL_EVENTS_MAX;
        if is_too_much { sum.order.pop_front() } else { None }
    }

    fn lock(&self) -> MutexGuard<'_, Sum> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
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
    /// What was run beside all conversations.
    pub fn whole(&self) -> &History {
        &self.whole
    }

    /// What was run in a conversation's workspace.
    pub fn of(&self, conversation: &ConversationId) -> History {
        let mut scoped = self.lock();
        let new = || History::new(SCOPED_BYTES_MAX, &self.total);
        scoped.entry(conversation.clone()).or_insert_with(new).clone()
    }

    /// Ends a conversation's commands and forgets them.
    pub async fn forget(&self, conversation: &ConversationId) {
        let history = self.lock().remove(conversation);
        if let Some(history) = history {
            history.stop_all().await;
        }
    }

    /// Ends everything.
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
    use chrono::Utc;
    use uuid::Uuid;

    use super::super::{BashEvent, BashOutput};
    use super::*;

    const PIECE_BYTES: usize = 4 << 20;

    #[test]
    fn all_histories_together_keep_so_many_bytes() {
        let histories = Histories::default();
        let piece = || {
            BashEvent::Output(BashOutput {
                id: Uuid::new_v4(),
                timestamp: Utc::now(),
                command_id: Uuid::new_v4(),
                order: 0,
                exit_code: Some(0),
                stdout: Some("x".repeat(PIECE_BYTES)),
                stderr: None,
            })
        };
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
