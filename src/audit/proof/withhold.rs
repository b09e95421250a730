//! What a bundle withholds: all text of chosen events, and text that a finder matches.
//!
//! A withheld event keeps its place in the chain by its digest. Its remaining text is written beside the proof,
//! and that text is not proven. Invariant: no byte of a bundle holds withheld text. If an id contains withheld
//! text, no bundle is written.

use crate::error::{Error, Result};
use crate::ids::{ConversationId, EventId};
use crate::redact::{Finder, Form, RedactScope, rewrite};
use crate::store::{ChainLink, Store};

/// What a bundle leaves out. By default nothing.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct Withheld {
    /// All text of these events.
    pub events: Vec<EventId>,
    /// Text that one of these finders matches, in any event.
    pub finders: Vec<Finder>,
}

setters!(Withheld { events: Vec<EventId>, finders: Vec<Finder> });

/// How much of a payload a bundle shows.
pub(super) enum Shown {
    /// All of it.
    Whole,
    /// This text instead of the payload. `None` if a finder still matches what remains of the payload.
    Instead(Option<String>),
}

impl Withheld {
    pub(super) fn is_nothing(&self) -> bool {
        self.events.is_empty() && self.finders.is_empty()
    }

    /// Checks that no id contains withheld text, and that every event to withhold exists.
    pub(super) fn check(&self, store: &Store, conversation: &ConversationId) -> Result<()> {
        if self.is_nothing() {
            return Ok(());
        }
        if self.finds(conversation.as_str()) {
            return Err(Error::SecretInId { place: "the conversation's id".into() });
        }
        let mut missing: Vec<&EventId> = self.events.iter().collect();
        store.audit().links(conversation, |link| {
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

    /// Returns how much of an event the bundle shows.
    pub(super) fn show(&self, link: &ChainLink<'_>) -> Shown {
        let is_chosen = self.events.iter().any(|id| id.as_str() == link.id);
        let mut text = link.payload.to_owned();
        let mut is_touched = is_chosen;
        if is_chosen {
            text = rewrite(&text, Form::Event, RedactScope::Everything).text.unwrap_or(text);
        }
        for finder in &self.finders {
            let rewritten = rewrite(&text, Form::Event, RedactScope::Matches(finder));
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
        // The replacement of one match may have made a new match.
        let is_clean = self.finders.iter().all(|finder| {
            let again = rewrite(&text, Form::Event, RedactScope::Matches(finder));
            again.left.is_empty() && again.text.is_none_or(|new| new == text)
        });
        Shown::Instead(is_clean.then_some(text))
    }
}
