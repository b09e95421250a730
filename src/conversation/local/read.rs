//! Reads a conversation: its events, its state, and the view of its model.

use std::sync::Arc;

use super::Conversation;
use crate::conversation::error::Result;
use crate::conversation::memory::load;
use crate::event::{DecodeError, Event, Given, Json};
use crate::ids::Sequence;
use crate::state::{State, Stats};
use crate::store::EventQuery;
use crate::view::View;

/// An event of a log, with its stored bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Recorded {
    /// The event's place in the conversation.
    pub sequence: Sequence,
    /// The event, byte for byte as it was stored or sent.
    pub payload: String,
}

impl Recorded {
    /// Decodes the event.
    ///
    /// # Errors
    /// [`DecodeError`] if the bytes are not an event.
    pub fn event(&self) -> Result<Event, DecodeError> {
        Event::read(&self.payload, &Given::default())
    }
}

impl Conversation {
    /// Returns at most `limit` events from `from` on, with their bytes. Empty at the end of the log.
    ///
    /// # Errors
    /// The errors of the store.
    pub async fn events(&self, from: Sequence, limit: usize) -> Result<Vec<Recorded>> {
        let (local, mut events) = (&self.0, Vec::new());
        let mut next = Some(from);
        while let Some(from) = next.filter(|_| events.len() < limit) {
            let (id, left) = (local.id.clone(), limit - events.len());
            let query = EventQuery { from: Some(from), ..EventQuery::default() };
            let page = local.host.call(move |store| store.events(&id, &query, left)).await?;
            events.extend(
                page.events
                    .into_iter()
                    .map(|event| Recorded { sequence: event.sequence, payload: event.payload }),
            );
            next = page.next;
        }
        Ok(events)
    }

    /// Returns the base state as it is stored. An empty object if there is none.
    ///
    /// # Errors
    /// The errors of the store.
    pub async fn state(&self) -> Result<Json> {
        let id = self.0.id.clone();
        let state = self.0.host.call(move |store| store.base_state(&id)).await?;
        let text = state.map_or_else(|| "{}".to_owned(), |state| state.document.as_str().to_owned());
        Ok(Json::from(crate::json::Raw::checked(&text)))
    }

    /// Returns the state that is derived only from the events of the branch: the iteration, the task list, the pending
    /// actions. Reads the whole log.
    ///
    /// # Errors
    /// The errors of the store.
    pub async fn derived(&self) -> Result<State> {
        let (id, mut derived) = (&self.0.id, State::new());
        let unknown = || crate::Error::UnknownConversation { conversation: id.to_string() };
        let stored = load::stored(&self.0.host, id).await?.ok_or_else(unknown)?;
        for event in &stored.branch(id)? {
            derived.apply(event);
        }
        Ok(derived)
    }

    /// Returns the tokens and costs of all model calls so far.
    ///
    /// # Errors
    /// The errors of the store.
    pub async fn stats(&self) -> Result<Stats> {
        Ok(self.0.lock().await?.base.stats.clone())
    }

    /// Returns the part of the conversation that the model may see.
    ///
    /// # Errors
    /// The errors of the store.
    pub async fn view(&self) -> Result<Arc<View>> {
        Ok(Arc::clone(&self.0.lock().await?.branch.view))
    }

    /// Sets the title.
    ///
    /// # Errors
    /// The errors of the store.
    pub async fn set_title(&self, title: &str) -> Result<()> {
        let (id, title) = (self.0.id.clone(), title.to_owned());
        self.0.host.call(move |store| store.set_title(&id, Some(&title))).await
    }

    /// Returns the title. `None` if no title was set.
    ///
    /// # Errors
    /// The errors of the store.
    pub async fn title(&self) -> Result<Option<String>> {
        let id = self.0.id.clone();
        let row = self.0.host.call(move |store| store.conversation(&id)).await?;
        Ok(row.title.filter(|_| row.is_titled))
    }
}
