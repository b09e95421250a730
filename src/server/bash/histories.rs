//! The histories of the server and of the conversations.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::task::JoinSet;

use super::History;
use crate::ids::ConversationId;

/// The most bytes of output that are kept: of the server's own commands, and of a conversation's.
const WHOLE_BYTES_MAX: usize = 64 << 20;
const SCOPED_BYTES_MAX: usize = 8 << 20;

/// The histories of the server and of the conversations.
pub(in crate::server) struct Histories {
    whole: History,
    scoped: Mutex<HashMap<ConversationId, History>>,
}

impl Default for Histories {
    fn default() -> Self {
        Self { whole: History::new(WHOLE_BYTES_MAX), scoped: Mutex::default() }
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
        scoped.entry(conversation.clone()).or_insert_with(|| History::new(SCOPED_BYTES_MAX)).clone()
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
        let _all = all.join_all().await;
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<ConversationId, History>> {
        self.scoped.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
