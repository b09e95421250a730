//! How a status is shown that is only the last one known: of a conversation that was imported while it ran.

use super::print::{ago, one_line};
use crate::ids::Timestamp;
use crate::store::{Conversation, Store};

/// Returns whether the status is only the last one that is known: no process runs the conversation.
pub(super) fn is_last_known(store: &Store, row: &Conversation) -> bool {
    row.was_imported_alive() && !is_run(store, row)
}

/// Returns whether a process runs the conversation.
#[cfg(feature = "agent")]
fn is_run(store: &Store, row: &Conversation) -> bool {
    crate::conversation::Host::new(store.clone()).is_run(&row.id)
}

/// A build without agents does not know the locks of those that have them.
#[cfg(not(feature = "agent"))]
fn is_run(_: &Store, _: &Conversation) -> bool {
    false
}

/// Returns the status in words: `running`, or `was running, 11 d ago` if it is only the last one known; after four weeks
/// with the date.
pub(super) fn status(store: &Store, row: &Conversation) -> String {
    let status = one_line(&row.status, 60);
    if is_last_known(store, row) {
        format!("was {status}, {}", ago(row.updated_at, Timestamp::now()))
    } else {
        status
    }
}
