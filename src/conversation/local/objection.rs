//! Tracks whether a Stop hook may still continue a finished run.
//!
//! A run that has finished asks the Stop hooks, and one of them may object. Until they have answered, the status
//! `finished` may change again. In the reference, readers of a conversation wait meanwhile for the lock that its run
//! holds.

use std::time::Duration;

use tokio::sync::watch;

use super::{Conversation, Local};
use crate::conversation::memory::Live;
use crate::state::ExecutionStatus;

/// Counts the starts and the ends of asking the Stop hooks. The count is odd while they are being asked.
#[derive(Debug)]
pub(in crate::conversation) struct Objections(watch::Sender<u64>);

impl Default for Objections {
    fn default() -> Self {
        Self(watch::Sender::new(0))
    }
}

impl Objections {
    /// Records that asking the Stop hooks has started.
    pub fn open(&self) {
        self.0.send_if_modified(|count| {
            let is_new = count.is_multiple_of(2);
            *count += u64::from(is_new);
            is_new
        });
    }

    /// Records that the Stop hooks have answered, or that the run has ended.
    pub fn close(&self) {
        self.0.send_if_modified(|count| {
            let is_open = !count.is_multiple_of(2);
            *count += u64::from(is_open);
            is_open
        });
    }
}

impl Local {
    /// Records that the Stop hooks may object, if a run that has them is about to finish. Called before the new status
    /// becomes visible.
    pub(super) fn expect_objections(&self, live: &Live) {
        let may_object = || self.equipment().is_some_and(|equipment| equipment.may_object());
        if live.base.status == ExecutionStatus::Finished && self.running().is_some() && may_object() {
            self.objections.open();
        }
    }
}

impl Conversation {
    /// Returns how often asking the Stop hooks has started or ended. The number is odd while they are being asked. If
    /// it is even, and the same before and after a read, no Stop hook could object to the state that was read.
    pub(crate) fn objections(&self) -> u64 {
        *self.0.objections.0.borrow()
    }

    /// Waits until no Stop hook is being asked, for at most `patience`.
    pub(crate) async fn wait_for_stop_hooks(&self, patience: Duration) {
        let mut count = self.0.objections.0.subscribe();
        // The sender lives as long as the conversation does.
        let _in_time = tokio::time::timeout(patience, count.wait_for(|count| count.is_multiple_of(2))).await;
    }
}
