//! Whether what has finished may still be sent back to work.
//!
//! A run that has finished asks the Stop hooks, and one of them may object; until they have answered, "finished" is
//! not the last word. The reference's readers of a conversation wait meanwhile for the lock that its run holds.

use std::time::Duration;

use tokio::sync::watch;

use super::live::Live;
use super::{Conversation, Local};
use crate::state::ExecutionStatus;

/// Counts the times at which Stop hooks began and ceased to be asked: odd while they are.
#[derive(Debug)]
pub(super) struct Objections(watch::Sender<u64>);

impl Default for Objections {
    fn default() -> Self {
        Self(watch::Sender::new(0))
    }
}

impl Objections {
    /// From now on they are asked.
    pub fn open(&self) {
        self.0.send_if_modified(|count| {
            let is_new = count.is_multiple_of(2);
            *count += u64::from(is_new);
            is_new
        });
    }

    /// They have answered, or the run has ended.
    pub fn close(&self) {
        self.0.send_if_modified(|count| {
            let is_open = !count.is_multiple_of(2);
            *count += u64::from(is_open);
            is_open
        });
    }
}

impl Local {
    /// Before it is seen that a run has finished: whether its end is still to be agreed to.
    pub(super) fn expect_objections(&self, live: &Live) {
        let may_object = || self.equipment().is_some_and(|equipment| equipment.may_object());
        if live.base.status == ExecutionStatus::Finished && self.running().is_some() && may_object() {
            self.objections.open();
        }
    }
}

impl Conversation {
    /// How often Stop hooks began or ceased to be asked: odd while they are. Where it is even, and the same before and
    /// after something was read, what was read had no hook that could still object to it.
    pub(crate) fn objections(&self) -> u64 {
        *self.0.objections.0.borrow()
    }

    /// Waits until no Stop hook is being asked, or that time is over.
    pub(crate) async fn objections_heard(&self, patience: Duration) {
        let mut count = self.0.objections.0.subscribe();
        // The sender lives as long as the conversation does.
        let _in_time = tokio::time::timeout(patience, count.wait_for(|count| count.is_multiple_of(2))).await;
    }
}
