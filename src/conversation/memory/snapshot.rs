//! What a conversation shows of itself at one moment.

use super::live::Live;
use crate::ids::EventId;
use crate::state::ExecutionStatus;

/// The visible state of a conversation at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Snapshot {
    /// The execution status.
    pub status: ExecutionStatus,
    /// The number of events.
    pub event_count: u64,
    /// The event that HEAD points to. `None` if HEAD is before the first event.
    pub leaf: Option<EventId>,
    /// The id of the last user message.
    pub last_user_message: Option<EventId>,
}

impl Snapshot {
    /// Returns the snapshot of a conversation.
    pub(in crate::conversation) fn of(live: &Live) -> Self {
        Self {
            status: live.base.status,
            event_count: live.stored,
            leaf: live.leaf.clone(),
            last_user_message: live.base.last_user_message.clone(),
        }
    }
}
