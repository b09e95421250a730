//! A conversation that runs at a server. It has the same methods as one in this process, with the same results.
//!
//! Methods send requests to the server. Events are received from the server's log, each one once and in order, and are
//! passed to the callbacks. A run continues at the server if the caller stops waiting or if this process ends. The
//! differences from a conversation in this process:
//!
//! * The tools, the connection to the model and the hooks are the server's. A setting that cannot be sent there is
//!   rejected with [`RemoteError::Unsupported`] when the conversation is opened. No setting is ignored silently.
//! * Changes of the base state are events too, as at the server, and are received like all others.
//! * A paused run may still be finishing its last step at the server when the pause is seen here.
//! * Closing only closes the connection.
//!
//! The room takes over the options of `open`, `run` and `control`, and folds events with `memory`.

mod aside;
mod control;
mod open;
mod read;
mod request;
mod settings;
mod wait;

use std::fmt;
use std::sync::Arc;

use tokio::sync::watch;

use crate::conversation::error::{ConversationError, Result};
use crate::conversation::memory::Snapshot;
use crate::ids::{ConversationId, EventId};
use crate::remote::{Client, Follower, RemoteError, Seen, Server};
use crate::state::ExecutionStatus;

/// A conversation that runs at a server.
#[derive(Debug, Clone)]
pub struct RemoteConversation(Arc<Connection>);

/// The connection to a conversation at a server.
struct Connection {
    id: ConversationId,
    client: Client,
    follower: Follower,
    /// The place up to which the log was last read. A server that can only be read from the start needs it to continue.
    reading: tokio::sync::Mutex<crate::remote::Cursor>,
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection")
            .field("id", &self.id)
            .field("server", self.client.server())
            .finish_non_exhaustive()
    }
}

impl Snapshot {
    fn seen(seen: &Seen) -> Self {
        Self {
            status: seen.status,
            event_count: seen.cursor.next,
            leaf: seen.head.clone(),
            last_user_message: seen.last_user_message.clone(),
        }
    }
}

impl RemoteConversation {
    /// Returns the conversation's id.
    #[must_use]
    pub fn id(&self) -> &ConversationId {
        &self.0.id
    }

    /// Returns the server where the conversation runs.
    #[must_use]
    pub fn server(&self) -> &Server {
        self.0.client.server()
    }

    /// Returns the snapshot according to the events received so far. Never waits.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        Snapshot::seen(&self.0.follower.seen().borrow())
    }

    /// Returns the status according to the events received so far. Never waits.
    #[must_use]
    pub fn status(&self) -> ExecutionStatus {
        self.0.follower.seen().borrow().status
    }

    /// Returns a receiver of the latest snapshot. It is notified of every change.
    #[must_use]
    pub fn watch(&self) -> watch::Receiver<Snapshot> {
        let mut seen = self.0.follower.seen();
        let (shown, snapshots) = watch::channel(Snapshot::seen(&seen.borrow_and_update()));
        tokio::spawn(async move {
            loop {
                tokio::select! {
                    () = shown.closed() => return,
                    changed = seen.changed() => if changed.is_err() { return },
                }
                let now = Snapshot::seen(&seen.borrow_and_update());
                shown.send_if_modified(|shown| {
                    let is_new = *shown != now;
                    *shown = now;
                    is_new
                });
            }
        });
        snapshots
    }

    /// Returns why the conversation cannot be followed, or a local copy cannot be kept, now or any more. `None` if there
    /// is no trouble.
    #[must_use]
    pub fn trouble(&self) -> Option<RemoteError> {
        let seen = self.0.follower.seen();
        let of_following = {
            let seen = seen.borrow();
            seen.ended.clone().or_else(|| seen.lost.as_ref().map(|(_, why)| why.clone()))
        };
        of_following.or_else(|| self.0.follower.copy_trouble())
    }

    /// Closes the connection: no more events are received. If a local copy is kept, it gets all received events before
    /// this returns. A run at the server continues. A second call does nothing but return the same.
    ///
    /// # Errors
    /// [`ConversationError::Remote`] if a local copy is kept that does not have all received events: it could not be
    /// written or read, it belongs to another log, or the time was too short. The connection is closed all the same.
    pub async fn close(&self) -> Result<()> {
        Ok(self.0.follower.stop().await?)
    }

    /// Returns the path of one of the conversation's routes.
    fn path(&self, rest: &str) -> String {
        Client::path(&self.0.id, rest)
    }

    /// Receives all events up to now, and returns the state after them.
    async fn latest(&self) -> Result<Seen> {
        self.0.follower.refresh().await?;
        Ok(self.0.follower.seen().borrow().clone())
    }
}

/// Returns the error for a feature that is not available at a server.
fn unsupported<T>(what: &'static str) -> Result<T> {
    Err(ConversationError::Remote(RemoteError::Unsupported { what }))
}

/// Returns a conversion of the server's "unknown event" error into [`ConversationError::UnknownEvent`].
fn unknown_event(event: &EventId) -> impl FnOnce(RemoteError) -> ConversationError {
    let event = event.clone();
    move |error| match error {
        RemoteError::NotFound { ref detail, .. } if detail.starts_with("Unknown ") => {
            ConversationError::UnknownEvent { event }
        }
        other => other.into(),
    }
}
