//! Sends messages to a conversation at a server, runs it and stops its runs.

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::json;

use super::wait::{Before, is_running};
use super::{RemoteConversation, unsupported};
use crate::conversation::control::UserMessage;
use crate::conversation::error::{ConversationError, Result};
use crate::conversation::run::RunOptions;
use crate::event::{ActionEvent, Content};
use crate::ids::EventId;
use crate::remote::SLOW;
use crate::state::ExecutionStatus;

/// How long starting a run is retried while the server still ends the last one.
const RETRY_MAX: Duration = Duration::from_secs(30);
/// The time between two of these attempts.
const RETRY_INTERVAL: Duration = Duration::from_millis(200);

impl RemoteConversation {
    /// Sends a message to the agent and returns the event's id. It starts no run: use [`RemoteConversation::run`].
    ///
    /// # Errors
    /// [`ConversationError::Remote`]. If the server was not reached or its answer was lost, the message may
    /// nevertheless be stored.
    pub async fn send_message(&self, message: impl Into<UserMessage>) -> Result<EventId> {
        let message = message.into();
        let content: Result<Vec<_>> = message.content.iter().map(part).collect();
        let mut body = json!({"role": "user", "content": content?, "run": false});
        if let Some(sender) = &message.sender {
            body["sender"] = json!(&**sender);
        }
        self.0.client.post(&self.path("/events"), Some(body.to_string()), SLOW).await?;
        let seen = self.latest().await?;
        Ok(seen
            .last_user_message
            .ok_or_else(|| self.0.client.invalid_answer("no message after one was sent"))?)
    }

    /// Runs until the agent has finished or cannot continue by itself. Returns the status then. The callbacks have
    /// received every event of the run by then.
    ///
    /// Actions that wait for consent are executed: this call is the consent. The run is the server's. It continues if
    /// the caller stops waiting, and while the connection is lost.
    ///
    /// # Errors
    /// [`ConversationError::Run`] if the run failed, with the details of the error event.
    /// [`ConversationError::Running`] if a run is already in progress. [`ConversationError::Remote`], also if the
    /// server was unreachable for 5 minutes.
    pub async fn run(&self) -> Result<ExecutionStatus> {
        let before = self.begin().await?;
        self.ended(&before).await
    }

    /// Like [`RemoteConversation::run`]. A server accepts only the limits that the conversation was created with.
    ///
    /// # Errors
    /// As [`RemoteConversation::run`], and [`ConversationError::Remote`] if limits are given.
    pub async fn run_with(&self, options: RunOptions) -> Result<ExecutionStatus> {
        if options != RunOptions::default() {
            return unsupported("other limits for one run");
        }
        self.run().await
    }

    async fn begin(&self) -> Result<Before> {
        let started = Instant::now();
        loop {
            let before = Before::of(&self.latest().await?);
            match self.0.client.post(&self.path("/run"), None, SLOW).await {
                Ok(_) => return Ok(before),
                // A paused run may still be finishing its last step.
                Err(error)
                    if is_running(&error)
                        && before.status != ExecutionStatus::Running
                        && started.elapsed() < RETRY_MAX =>
                {
                    tokio::time::sleep(RETRY_INTERVAL).await;
                }
                Err(error) if is_running(&error) => {
                    return Err(ConversationError::Running { conversation: self.0.id.clone() });
                }
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Resumes a paused conversation. The same as [`RemoteConversation::run`].
    ///
    /// # Errors
    /// As [`RemoteConversation::run`].
    pub async fn resume(&self) -> Result<ExecutionStatus> {
        self.run().await
    }

    /// Returns whether a run is in progress at the server, according to the events received so far.
    #[must_use]
    pub fn is_running(&self) -> bool {
        self.status() == ExecutionStatus::Running
    }

    /// Waits until no run is in progress, or until the conversation cannot be followed any more.
    pub async fn wait(&self) {
        // Snapshots that were received earlier count too.
        let before = Before { first: 0, status: ExecutionStatus::Idle, snapshots: 0 };
        if self.latest().await.is_ok_and(|seen| seen.status == ExecutionStatus::Running) {
            let _outcome = self.ended(&before).await;
        }
    }

    /// Stops the run before its next step. An idle or running conversation is paused. Any other status does not change.
    ///
    /// # Errors
    /// [`ConversationError::Remote`].
    pub async fn pause(&self) -> Result<()> {
        self.command("/pause", None).await
    }

    /// Ends the run at once, even during a step. Unfinished calls are answered as interrupted, and the conversation is
    /// paused.
    ///
    /// # Errors
    /// [`ConversationError::Remote`].
    pub async fn interrupt(&self) -> Result<()> {
        self.command("/interrupt", None).await
    }

    /// Rejects every pending action with `reason`, and returns their number. A conversation that waited for consent is
    /// idle then.
    ///
    /// # Errors
    /// [`ConversationError::Remote`].
    pub async fn reject_pending_actions(&self, reason: &str) -> Result<usize> {
        let waiting = self.pending_actions().await?.len();
        let body = json!({"accept": false, "reason": reason}).to_string();
        self.command("/events/respond_to_confirmation", Some(body)).await?;
        Ok(waiting)
    }

    /// Returns the actions that wait to be executed or rejected.
    ///
    /// # Errors
    /// [`ConversationError::Remote`], and the errors of reading the log.
    pub async fn pending_actions(&self) -> Result<Vec<Arc<ActionEvent>>> {
        Ok(self.branch().await?.pending().to_vec())
    }

    /// Sends a request, and then receives the events that it caused.
    pub(super) async fn command(&self, route: &str, body: Option<String>) -> Result<()> {
        self.0.client.post(&self.path(route), body, SLOW).await?;
        self.latest().await.map(|_| ())
    }
}

fn part(content: &Content) -> Result<serde_json::Value> {
    Ok(match content {
        Content::Text(text) => json!({"type": "text", "text": &*text.text}),
        Content::Image(image) => {
            let urls: Vec<&str> = image.image_urls.iter().map(|url| &**url).collect();
            json!({"type": "image", "image_urls": urls})
        }
        Content::Unknown(_) => return unsupported("a part of a message that is neither text nor an image"),
    })
}
