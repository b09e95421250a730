//! A conversation that runs at a server: the same methods as one that runs here, with the same answers.
//!
//! What is done is asked of the server; what happens is heard from its log, each event once and in its order, and those
//! who listen hear it as they would here. A run goes on at the server where nobody waits for it any more, and where this
//! process ends. What differs:
//!
//! * the tools, the model's connection and the hooks are the server's: what cannot be sent there is refused with
//!   [`RemoteError::Unsupported`] when the conversation is opened, and nothing is left out in silence;
//! * changes of the base state are events too, as the server has it, and are heard like all others;
//! * a run that was paused may still be finishing its last step at the server when the pause is seen here;
//! * closing lets go of the connection and of nothing else.

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

use super::{ConversationError, Result, Snapshot};
use crate::ids::{ConversationId, EventId};
use crate::remote::{Client, Follower, RemoteError, Seen, Server};
use crate::state::ExecutionStatus;

/// A conversation that runs at a server.
#[derive(Debug, Clone)]
pub struct RemoteConversation(Arc<Far>);

/// A conversation elsewhere, and who follows it.
struct Far {
    id: ConversationId,
    client: Client,
    follower: Follower,
    /// How far the log was last read by pages, for servers that have no other way to begin in its middle.
    reading: tokio::sync::Mutex<crate::remote::Cursor>,
}

impl fmt::Debug for Far {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Far")
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
            head: seen.head.clone(),
            last_user_message: seen.last_user_message.clone(),
        }
    }
}

impl RemoteConversation {
    /// Its id.
    #[must_use]
    pub fn id(&self) -> &ConversationId {
        &self.0.id
    }

    /// Where it runs.
    #[must_use]
    pub fn server(&self) -> &Server {
        self.0.client.server()
    }

    /// What it looks like, as far as it was heard. Never waits.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        Snapshot::seen(&self.0.follower.seen().borrow())
    }

    /// How it goes, as far as it was heard. Never waits.
    #[must_use]
    pub fn status(&self) -> ExecutionStatus {
        self.0.follower.seen().borrow().status
    }

    /// Its snapshots, as they change.
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

    /// Why it cannot be followed just now, or any more; `None` where it is.
    #[must_use]
    pub fn trouble(&self) -> Option<RemoteError> {
        let seen = self.0.follower.seen();
        let seen = seen.borrow();
        seen.ended.clone().or_else(|| seen.lost.as_ref().map(|(_, why)| why.clone()))
    }

    /// Lets go of the connection, once the copy has what was heard where one is kept. A run at the server goes on.
    /// Closing twice is closing once.
    ///
    /// # Errors
    /// None.
    pub async fn close(&self) -> Result<()> {
        self.0.follower.stop().await;
        Ok(())
    }

    /// The path of one of its routes.
    fn path(&self, rest: &str) -> String {
        Client::path(&self.0.id, rest)
    }

    /// Everything that has happened so far is heard when this answers.
    async fn heard(&self) -> Result<Seen> {
        self.0.follower.refresh().await?;
        Ok(self.0.follower.seen().borrow().clone())
    }
}

/// What cannot be done from afar.
fn unsupported<T>(what: &'static str) -> Result<T> {
    Err(ConversationError::Remote(RemoteError::Unsupported { what }))
}

/// What the server says of an event that it does not know.
fn unknown_event(event: &EventId) -> impl FnOnce(RemoteError) -> ConversationError {
    let event = event.clone();
    move |error| match error {
        RemoteError::Gone { ref detail, .. } if detail.starts_with("Unknown ") => {
            ConversationError::UnknownEvent { event }
        }
        other => other.into(),
    }
}
