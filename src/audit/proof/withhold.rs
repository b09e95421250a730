//! What a bundle does not show: whole events, and events in which something is found.
//!
//! An event that is withheld keeps its place in the chain by its digest. What may be read of it is written
//! beside the proof, and nothing proves that. Invariant: no byte of a bundle holds what was to be withheld;
//! where that cannot be, because an id has it, there is no bundle.

use crate::error::{Error, Result};
use crate::ids::{ConversationId, EventId};
use crate::redact::{Finder, Form, Wanted, rewrite};
use crate::store::{ChainLink, Store};

/// What a bundle leaves out. By default nothing.
#[derive(Debug, Clone, Default)]
pub struct Withheld {
    /// All text of these events.
    pub events: Vec<EventId>,
    /// What one of these finds, wherever it is.
    pub finders: Vec<Finder>,
}

/// What is shown of a payload.
pub(super) enum Shown {
    /// All of it.
    Whole,
    /// This text in its place; `None` where even the rest of it would tell.
    Instead(Option<String>),
}

impl Withheld {
    pub(super) fn is_nothing(&self) -> bool {
        self.events.is_empty() && self.finders.is_empty()
    }

    /// Whether the chain can be told without what is withheld.
    pub(super) fn check(&self, store: &Store, conversation: &ConversationId) -> Result<()> {
        if self.is_nothing() {
            return Ok(());
        }
        if self.finds(conversation.as_str()) {
            return Err(Error::SecretInId { place: "the conversation's id".into() });
        }
        let mut missing: Vec<&EventId> = self.events.iter().collect();
        store.links(conversation, |link| {
            missing.retain(|id| id.as_str() != link.id);
            if self.finds(link.id) {
                return Err(Error::SecretInId { place: format!("the id of event {}", link.sequence) });
            }
            Ok(())
        })?;
        match missing.first() {
            Some(event) => Err(Error::UnknownEvent {
                conversation: conversation.clone(),
                event: event.as_str().to_owned(),
            }),
            None => Ok(()),
        }
    }

    fn finds(&self, text: &str) -> bool {
        self.finders.iter().any(|finder| !finder.find(None, text).is_empty())
    }

    /// What is shown of an event.
    pub(super) fn show(&self, link: &ChainLink<'_>) -> Shown {
        let is_chosen = self.events.iter().any(|id| id.as_str() == link.id);
        let mut text = link.payload.to_owned();
        let mut is_touched = is_chosen;
        if is_chosen {
            text = rewrite(&text, Form::Event, Wanted::Everything).text.unwrap_or(text);
        }
        for finder in &self.finders {
            let rewritten = rewrite(&text, Form::Event, Wanted::Matches(finder));
            if !rewritten.left.is_empty() {
                return Shown::Instead(None);
            }
            if let Some(new) = rewritten.text {
                is_touched = true;
                text = new;
            }
        }
        if !is_touched {
            return Shown::Whole;
        }
        // What stands in place of one find may have completed another.
        let is_clean = self.finders.iter().all(|finder| {
            let again = rewrite(&text, Form::Event, Wanted::Matches(finder));
            again.left.is_empty() && again.text.is_none_or(|new| new == text)
        });
        Shown::Instead(is_clean.then_some(text))
    }
}
