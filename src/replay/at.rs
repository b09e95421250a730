//! Points in a conversation, as people name them.

use crate::error::{Error, Result};
use crate::ids::{ConversationId, Sequence, Timestamp};
use crate::store::Store;

/// A point in a conversation: right behind an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Point {
    /// The end, wherever that is.
    End,
    /// Right behind the event at this sequence.
    Behind(Sequence),
    /// Before the first event.
    Start,
}

impl Point {
    /// Reads a point as it is typed: a sequence (`17`), a time (`2026-01-31T12:00:00`, by the events' own
    /// clocks; without a zone as the events have it), or an event's id or the beginning of one.
    ///
    /// A time means behind the last event that had happened by then.
    ///
    /// # Errors
    /// [`Error::NoSuchPoint`] for a sequence beyond the end, [`Error::UnknownEvent`],
    /// [`Error::AmbiguousId`], [`Error::UnknownConversation`].
    pub fn parse(store: &Store, conversation: &ConversationId, text: &str) -> Result<Self> {
        let text = text.trim();
        let events = store.conversation(conversation)?.event_count;
        if let Ok(sequence) = text.parse::<u64>()
            && text.len() < 10
        {
            let beyond = || Error::NoSuchPoint { conversation: conversation.clone(), sequence, events };
            return if sequence < events { Ok(Self::Behind(Sequence(sequence))) } else { Err(beyond()) };
        }
        if let Some(time) = Timestamp::parse(text).or_else(|| Timestamp::parse(&format!("{text}T00:00:00"))) {
            return Ok(store.sequence_at(conversation, time)?.map_or(Self::Start, Self::Behind));
        }
        let id = store.resolve_event(conversation, text)?;
        Ok(Self::Behind(store.event(conversation, &id)?.sequence))
    }

    /// How many of `events` have happened by then.
    #[must_use]
    pub fn length(self, events: u64) -> u64 {
        match self {
            Self::End => events,
            Self::Behind(sequence) => events.min(sequence.0.saturating_add(1)),
            Self::Start => 0,
        }
    }
}
