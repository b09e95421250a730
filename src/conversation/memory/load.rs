//! Reads a conversation from the store into memory.

use super::base::{Base, Sealing};
use super::branch::Branch;
use super::live::{Draft, GOAL, LEFT_OUT, Live, PROMPT_WINDOW, StateUpdates, updated};
use crate::conversation::error::{ConversationError, Result};
use crate::conversation::host::Host;
use crate::event::{Event, Given};
use crate::ids::{ConversationId, EventId, Sequence, Version};
use crate::state::BaseDocument;
use crate::store::Store;
use crate::tree::Tree;

/// The stored data of a conversation.
pub(in crate::conversation) struct Stored {
    pub events: Vec<Event>,
    pub tree: Tree,
    /// The base state, with its version. `None` if there is none.
    pub base: Option<(Version, BaseDocument)>,
    pub leaf: Option<EventId>,
    pub head_is_empty: bool,
}

/// Reads a conversation. `None` if there is no conversation with this id.
pub(in crate::conversation) async fn stored(host: &Host, id: &ConversationId) -> Result<Option<Stored>> {
    let id = id.clone();
    host.call(move |store| read(store, &id)).await
}

fn read(store: &Store, id: &ConversationId) -> crate::Result<Option<Stored>> {
    let Some(row) = store.find(id)? else { return Ok(None) };
    let base = store.base_state(id)?.map(|state| (state.version, state.document));
    let (mut events, mut tree) = (Vec::new(), Tree::new());
    // HEAD is that of the row. An event that another process has appended since must not be among the events: what is
    // appended next would follow HEAD and not that event, and the expected length would be right.
    store.scan(id, Sequence(0), |stored| {
        if stored.sequence.0 >= row.event_count {
            return Ok(false);
        }
        let given = EventId::new(stored.id)?;
        let event = Event::read(stored.payload, &Given { id: Some(&given), timestamp: None })
            .map_err(|source| crate::Error::Undecodable { sequence: stored.sequence, source })?;
        tree.push(event.id().as_str(), event.common().parent_id.as_deref(), event.kind());
        events.push(event);
        Ok(true)
    })?;
    let leaf = tree.resolve_leaf(row.leaf_event_id.as_deref(), row.head_is_empty);
    let leaf = leaf.map(EventId::new).transpose()?;
    Ok(Some(Stored { events, tree, base, leaf, head_is_empty: row.head_is_empty }))
}

impl Stored {
    /// Returns the events of the active branch, root first.
    ///
    /// # Errors
    /// [`crate::Error::Tree`] if the branch cannot be determined.
    pub fn branch(&self, id: &ConversationId) -> Result<Vec<Event>> {
        let places = self.tree.branch(self.leaf.as_ref().map(EventId::as_str));
        let places = places.map_err(|source| crate::Error::Tree { conversation: id.clone(), source })?;
        Ok(places.into_iter().map(|place| self.events[place].clone()).collect())
    }

    /// Returns the conversation in memory, with the base state `base`.
    pub fn into_live(
        self,
        id: &ConversationId,
        base: Base,
        sealing: Sealing,
        updates: StateUpdates,
    ) -> Result<Live> {
        let branch = Branch::resumed(&self.branch(id)?);
        let first = self.events.iter().take(PROMPT_WINDOW);
        let latest = |key: &str| self.events.iter().rev().find_map(|event| updated(event, key));
        Ok(Live {
            base,
            branch,
            leaf: self.leaf,
            head_is_empty: self.head_is_empty,
            stored: self.events.len() as u64,
            announced: self.events.len() as u64,
            version: self.base.map_or(Version(0), |(version, _)| version),
            moves: 0,
            is_prompted: first.into_iter().any(|event| matches!(event, Event::SystemPrompt(_))),
            is_stale: false,
            draft: Draft::default(),
            goal: latest(GOAL),
            left_out: latest(LEFT_OUT),
            sealing,
            updates,
            tree: self.tree,
        })
    }
}

/// Reads everything again because memory and store may differ. Returns the events that no callback has received yet.
pub(in crate::conversation) async fn refresh(
    host: &Host,
    id: &ConversationId,
    live: &mut Live,
) -> Result<Vec<Event>> {
    let unknown = || crate::Error::UnknownConversation { conversation: id.to_string() };
    let stored = stored(host, id).await?.ok_or_else(unknown)?;
    let document = stored.base.as_ref().map(|(_, document)| document);
    let base = match document {
        Some(document) => Base::read(document, id, live.sealing.cipher.as_ref())?,
        None => None,
    };
    let base = base.ok_or(ConversationError::NoAgent)?;
    let was_moved = !continues(&stored, live.leaf.as_ref());
    let (moves, sealing, updates) = (live.moves + u64::from(was_moved), live.sealing.clone(), live.updates);
    let announced = usize::try_from(live.announced).unwrap_or(usize::MAX);
    let unannounced = stored.events.iter().skip(announced).cloned().collect();
    *live = stored.into_live(id, base, sealing, updates)?;
    live.moves = moves;
    Ok(unannounced)
}

/// Returns whether the stored HEAD is `leaf` or an event that follows `leaf`.
fn continues(stored: &Stored, leaf: Option<&EventId>) -> bool {
    let place = |id: &EventId| stored.tree.place(id.as_str());
    let from = match leaf.map(place) {
        Some(None) => return false,
        Some(place) => place,
        None => None,
    };
    match stored.leaf.as_ref().map(place) {
        Some(Some(to)) => matches!(stored.tree.path_after(from, to), Ok(Some(_))),
        Some(None) => false,
        None => from.is_none(),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;
    use crate::error::Expected;
    use crate::event::NewEvent;
    use crate::store::Options;

    #[test]
    fn head_is_of_the_same_moment_as_the_events_while_another_thread_appends() {
        let store = Store::in_memory(&Options::default().follow_projections(false)).unwrap();
        let id = ConversationId::new("talk").unwrap();
        let append = |number: u32| {
            let text = format!(
                r#"{{"id":"event-{number}","kind":"MessageEvent","source":"user",
                    "llm_message":{{"role":"user","content":[]}}}}"#
            );
            store.append(&id, Expected::Any, &[NewEvent::parse(text).unwrap()]).unwrap();
        };
        append(0);
        let is_enough = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| (1..3000).take_while(|_| !is_enough.load(Ordering::Relaxed)).for_each(append));
            for _ in 0..60 {
                let stored = read(&store, &id).unwrap().unwrap();
                assert_eq!(stored.leaf.as_ref(), stored.events.last().map(Event::id));
            }
            is_enough.store(true, Ordering::Relaxed);
        });
    }
}
