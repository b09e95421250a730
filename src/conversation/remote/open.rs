//! Creates a conversation at a server, or resumes one.

use std::sync::Arc;
use std::time::Duration;

use super::request::parsed;
use super::{Connection, RemoteConversation};
use crate::agent::AgentDocument;
use crate::conversation::error::{ConversationError, Result};
use crate::conversation::memory::check_tags;
use crate::conversation::open::Builder;
use crate::ids::ConversationId;
use crate::json::Raw;
use crate::remote::{Begin, Client, Cursor, Follower, Listener, RemoteError, SLOW, Server};

/// The timeout of the first connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(30);

impl Builder {
    /// Opens the conversation at a server. Creates it if the server has no conversation with its id, and resumes it
    /// otherwise. A resumed conversation keeps its agent. A given agent has to be of the same kind as that agent.
    ///
    /// The callbacks receive the events from then on. Earlier events can be read.
    ///
    /// # Errors
    /// [`ConversationError::Remote`] if the server cannot be reached or is too old, if the key is wrong, or if a
    /// setting cannot be sent. [`ConversationError::NoAgent`] if a new conversation has no agent.
    /// [`ConversationError::Agent`] if the given agent cannot resume the conversation.
    pub async fn open_at(self, server: &Server) -> Result<RemoteConversation> {
        if self.max_iterations == 0 {
            return Err(ConversationError::Limit { setting: "max_iterations" });
        }
        check_tags(&self.tags)?;
        self.check_remote()?;
        let client = Client::connect(server).await?;
        let known = match &self.id {
            Some(id) => match client.get(&Client::path(id, "")).await {
                Ok(info) => Some((id.clone(), info)),
                Err(RemoteError::NotFound { .. }) => None,
                Err(error) => return Err(error.into()),
            },
            None => None,
        };
        let listener =
            Listener { on_event: self.parts.callbacks.clone(), on_delta: self.parts.on_delta.clone() };
        let Some((id, info)) = known else {
            let agent = self.agent.as_ref().ok_or(ConversationError::NoAgent)?;
            let body = self.remote_body(agent, server)?;
            let info = client.post("/api/conversations", Some(body), SLOW).await?;
            let id = id_of(&info).ok_or_else(|| client.invalid_answer("a new conversation without an id"))?;
            return RemoteConversation::follow(client, id, Cursor::default(), info, listener).await;
        };
        if let Some(given) = &self.agent {
            verify(given, &info)?;
        }
        let end = client.log_end(&id).await?;
        let conversation = RemoteConversation::follow(client, id, end, info, listener).await?;
        if !self.secrets.is_empty() {
            conversation.update_secrets(self.secrets).await?;
        }
        Ok(conversation)
    }
}

/// Checks that the given agent can resume the conversation of the server's agent.
fn verify(given: &AgentDocument, info: &str) -> Result<()> {
    let agent = parsed(info).and_then(|info| info.get("agent"));
    let Some(Ok(stored)) = agent.map(|agent| AgentDocument::parse(agent.text())) else { return Ok(()) };
    Ok(given.verify(&stored)?)
}

pub(super) fn id_of(info: &str) -> Option<ConversationId> {
    let id = parsed(info)?.get("id").and_then(Raw::as_str)?;
    ConversationId::new(&id).ok()
}

impl RemoteConversation {
    /// Follows an existing conversation from `cursor` on.
    pub(super) async fn follow(
        client: Client,
        id: ConversationId,
        cursor: Cursor,
        state: String,
        listener: Listener,
    ) -> Result<Self> {
        let begin = Begin { cursor, state };
        let follower = Follower::start(client.clone(), id.clone(), begin, listener);
        let mut seen = follower.seen();
        let first = seen.wait_for(|seen| seen.snapshots > 0 || seen.lost.is_some() || seen.ended.is_some());
        let trouble = match tokio::time::timeout(CONNECT_TIMEOUT, first).await {
            Ok(Ok(seen)) => seen.ended.clone().or_else(|| seen.lost.as_ref().map(|(_, why)| why.clone())),
            Ok(Err(_)) | Err(_) => Some(client.invalid_answer("no state on its socket")),
        };
        match trouble {
            Some(error) => Err(error.into()),
            None => Ok(Self(Arc::new(Connection {
                id,
                client,
                follower,
                reading: tokio::sync::Mutex::default(),
            }))),
        }
    }
}
