//! Reads a conversation at a server: its events, its state, and the view of its model.

use std::sync::Arc;

use super::RemoteConversation;
use super::request::parsed;
use crate::conversation::error::Result;
use crate::conversation::local::Recorded;
use crate::conversation::memory::{Branch, Stored};
use crate::event::{Event, Given, Json};
use crate::ids::{EventId, Sequence};
use crate::json::Raw;
use crate::remote::{Client, Cursor};
use crate::state::Stats;
use crate::tree::Tree;
use crate::view::View;

impl RemoteConversation {
    /// Returns at most `limit` events from `from` on, with their bytes. Empty at the end of the log.
    ///
    /// Annals' server returns the events as they are stored. The reference's server returns them in the form of its
    /// API, and its log can only be read from the start. So continuing after the last call is fast, starting in the
    /// middle is slow.
    ///
    /// # Errors
    /// [`ConversationError::Remote`](crate::conversation::ConversationError::Remote).
    pub async fn events(&self, from: Sequence, limit: usize) -> Result<Vec<Recorded>> {
        let mut reading = self.0.reading.lock().await;
        if reading.next > from.0 {
            *reading = Cursor::default();
        }
        let mut events = Vec::new();
        while events.len() < limit {
            let page = self.0.client.log_behind(&self.0.id, &reading).await?;
            if page.is_empty() {
                break;
            }
            for event in page {
                if events.len() == limit {
                    break;
                }
                reading.pass(event.sequence, &event.payload);
                if event.sequence >= from.0 {
                    events.push(Recorded { sequence: Sequence(event.sequence), payload: event.payload });
                }
            }
        }
        Ok(events)
    }

    /// Returns the server's description of the conversation: the reference's base state and the fields of the
    /// catalogue. Secrets are null.
    ///
    /// # Errors
    /// [`ConversationError::Remote`](crate::conversation::ConversationError::Remote).
    pub async fn state(&self) -> Result<Json> {
        let info = self.0.client.get(&self.path("")).await?;
        Ok(Json::parse(&info).map_err(|_| self.0.client.invalid_answer("a conversation that is not JSON"))?)
    }

    /// Returns the tokens and costs of all model calls so far.
    ///
    /// # Errors
    /// As [`RemoteConversation::state`].
    pub async fn stats(&self) -> Result<Stats> {
        Ok(self.state().await?.raw().get("stats").map(Stats::read).unwrap_or_default())
    }

    /// Returns the part of the conversation that the model may see. It is computed here from the whole log.
    ///
    /// # Errors
    /// [`ConversationError::Remote`](crate::conversation::ConversationError::Remote), and the errors of reading the
    /// log.
    pub async fn view(&self) -> Result<Arc<View>> {
        Ok(Arc::clone(&self.branch().await?.view))
    }

    /// Returns the active branch.
    pub(super) async fn branch(&self) -> Result<Branch> {
        Ok(Branch::resumed(&self.stored().await?.branch(&self.0.id)?))
    }

    /// Reads the whole log into memory.
    pub(super) async fn stored(&self) -> Result<Stored> {
        let client = &self.0.client;
        let info = client.get(&Client::path(&self.0.id, "")).await?;
        let leaf = parsed(&info).and_then(|info| info.get("leaf_event_id")?.as_str());
        let leaf = leaf.map(|leaf| EventId::new(leaf.into_owned())).transpose();
        let leaf = leaf.map_err(|_| client.invalid_answer("a HEAD that is not an event id"))?;
        let (mut events, mut tree, mut cursor) = (Vec::new(), Tree::new(), Cursor::default());
        loop {
            let page = client.log_behind(&self.0.id, &cursor).await?;
            if page.is_empty() {
                break;
            }
            for logged in page {
                cursor.pass(logged.sequence, &logged.payload);
                let event =
                    Event::read(&logged.payload, &Given { id: cursor.last.as_ref(), timestamp: None });
                let sequence = Sequence(logged.sequence);
                let event = event.map_err(|source| crate::Error::Undecodable { sequence, source })?;
                tree.push(event.id().as_str(), event.common().parent_id.as_deref(), event.kind());
                events.push(event);
            }
        }
        let head_is_empty = leaf.is_none();
        Ok(Stored { events, tree, base: None, leaf, head_is_empty })
    }

    /// Reads a member of the server's description of the conversation. `None` if it is absent or null.
    pub(super) async fn field<T>(&self, name: &str, read: impl FnOnce(Raw<'_>) -> T) -> Result<Option<T>> {
        let state = self.state().await?;
        Ok(state.raw().get(name).filter(|value| !value.is_null()).map(read))
    }
}
