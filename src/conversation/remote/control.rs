//! What is said to a conversation at a server, its runs, and what stops them.

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::json;

use super::wait::{Before, is_running};
use super::{RemoteConversation, unsupported};
use crate::conversation::{ConversationError, Result, RunOptions, UserMessage};
use crate::event::{ActionEvent, Content};
use crate::ids::EventId;
use crate::remote::SLOW;
use crate::state::ExecutionStatus;

/// How long a run may take to be over that has come to rest, before another one is refused; and how often it is looked.
const ENDING: Duration = Duration::from_secs(30);
const LOOK_AGAIN: Duration = Duration::from_millis(200);

impl RemoteConversation {
    /// Says something to the agent; answers the event's id. Nothing runs by it: see [`RemoteConversation::run`].
    ///
    /// # Errors
    /// [`ConversationError::Remote`]. Where the server was not reached, or the answer was lost, it may have been said.
    pub async fn send_message(&self, message: impl Into<UserMessage>) -> Result<EventId> {
        let message = message.into();
        let content: Result<Vec<_>> = message.content.iter().map(part).collect();
        let mut body = json!({"role": "user", "content": content?, "run": false});
        if let Some(sender) = &message.sender {
            body["sender"] = json!(&**sender);
        }
        self.0.client.post(&self.path("/events"), Some(body.to_string()), SLOW).await?;
        let seen = self.heard().await?;
        Ok(seen.last_user_message.ok_or_else(|| self.0.client.strange("a message that is nowhere"))?)
    }

    /// Runs until the agent has finished or cannot go on by itself; answers how it goes then. Everything that happened
    /// has been heard by then.
    ///
    /// Actions that wait for consent are carried out: calling this is the consent. The run is the server's: it goes on
    /// where nobody waits for it, and while the connection is lost.
    ///
    /// # Errors
    /// [`ConversationError::Run`] where it failed, with what its event says; [`ConversationError::Running`] where it
    /// runs already; [`ConversationError::Remote`], also where the server was gone for 5 minutes.
    pub async fn run(&self) -> Result<ExecutionStatus> {
        let before = self.begin().await?;
        self.ended(&before).await
    }

    /// The same; a server takes no other limits than those that the conversation was made with.
    ///
    /// # Errors
    /// As [`RemoteConversation::run`], and [`ConversationError::Remote`] where limits are given.
    pub async fn run_with(&self, options: RunOptions) -> Result<ExecutionStatus> {
        if options != RunOptions::default() {
            return unsupported("other limits for one run");
        }
        self.run().await
    }

    async fn begin(&self) -> Result<Before> {
        let asked = Instant::now();
        loop {
            let before = Before::of(&self.heard().await?);
            match self.0.client.post(&self.path("/run"), None, SLOW).await {
                Ok(_) => return Ok(before),
                // A run that was paused may be at its last step.
                Err(error)
                    if is_running(&error)
                        && before.status != ExecutionStatus::Running
                        && asked.elapsed() < ENDING =>
                {
                    tokio::time::sleep(LOOK_AGAIN).await;
                }
                Err(error) if is_running(&error) => {
                    return Err(ConversationError::Running { conversation: self.0.id.clone() });
                }
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Lets a paused conversation go on: [`RemoteConversation::run`].
    ///
    /// # Errors
    /// As [`RemoteConversation::run`].
    pub async fn resume(&self) -> Result<ExecutionStatus> {
        self.run().await
    }

    /// Whether a run is under way at the server, as far as it was heard.
    #[must_use]
    pub fn is_running(&self) -> bool {
        self.status() == ExecutionStatus::Running
    }

    /// Waits until no run is under way, or nobody can tell any more.
    pub async fn wait(&self) {
        // A snapshot of before is as good as one that comes.
        let before = Before { first: 0, status: ExecutionStatus::Idle, snapshots: 0 };
        if self.heard().await.is_ok_and(|seen| seen.status == ExecutionStatus::Running) {
            let _outcome = self.ended(&before).await;
        }
    }

    /// Stops the run before its next step; what is idle or running is paused then, anything else stays.
    ///
    /// # Errors
    /// [`ConversationError::Remote`].
    pub async fn pause(&self) -> Result<()> {
        self.command("/pause", None).await
    }

    /// Ends the run at once, in the middle of whatever it does. Calls under way are answered as interrupted, and the
    /// conversation is paused.
    ///
    /// # Errors
    /// [`ConversationError::Remote`].
    pub async fn interrupt(&self) -> Result<()> {
        self.command("/interrupt", None).await
    }

    /// Refuses every action that waits, for this reason; what waited for consent is idle then. Answers how many.
    ///
    /// # Errors
    /// [`ConversationError::Remote`].
    pub async fn reject_pending_actions(&self, reason: &str) -> Result<usize> {
        let waiting = self.pending_actions().await?.len();
        let body = json!({"accept": false, "reason": reason}).to_string();
        self.command("/events/respond_to_confirmation", Some(body)).await?;
        Ok(waiting)
    }

    /// The actions that wait to be carried out or refused.
    ///
    /// # Errors
    /// [`ConversationError::Remote`], and what reading the log can meet.
    pub async fn pending_actions(&self) -> Result<Vec<Arc<ActionEvent>>> {
        Ok(self.branch().await?.pending().to_vec())
    }

    /// Asks for something, and hears what came of it.
    pub(super) async fn command(&self, route: &str, body: Option<String>) -> Result<()> {
        self.0.client.post(&self.path(route), body, SLOW).await?;
        self.heard().await.map(|_| ())
    }
}

fn part(content: &Content) -> Result<serde_json::Value> {
    Ok(match content {
        Content::Text(text) => json!({"type": "text", "text": &*text.text}),
        Content::Image(image) => {
            let urls: Vec<&str> = image.image_urls.iter().map(|url| &**url).collect();
            json!({"type": "image", "image_urls": urls})
        }
        Content::Unknown(_) => return unsupported("a part of a message that is neither text nor a picture"),
    })
}
