//! Points in a conversation, as users write them.

use crate::error::{Error, Result};
use crate::ids::{ConversationId, Sequence, Timestamp};
use crate::store::Store;

/// A point in a conversation: right after an event, or before all events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Point {
    /// The end, whatever its sequence is.
    End,
    /// Right after the event at this sequence.
    Behind(Sequence),
    /// Before the first event.
    Start,
}

impl Point {
    /// Reads a point that a user has typed. This is a sequence (`17`, at most nine digits), a time
    /// (`2026-01-31T12:00:00`, or only the date), an event's id or the beginning of one, or an age or a word (`7d`, `yesterday`). A time is compared with the
    /// events' own timestamps; without a zone, it is read as they are.
    ///
    /// A time means the point right after the last event up to that time.
    ///
    /// # Errors
    /// [`Error::NoSuchPoint`] for a sequence behind the end, [`Error::UnknownEvent`],
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
        let found = store.resolve_event(conversation, text);
        // Ids come first: `7d` may be the beginning of one. A word such as `now` means a time, unless it is a whole id.
        let is_word = text.bytes().all(|byte| byte.is_ascii_alphabetic());
        let means_time = match &found {
            Ok(id) => is_word && id.as_str() != text,
            Err(Error::UnknownEvent { .. }) => true,
            Err(_) => is_word,
        };
        if means_time && let Some(time) = Timestamp::parse_relative(text, Timestamp::now()) {
            return Ok(store.sequence_at(conversation, time)?.map_or(Self::Start, Self::Behind));
        }
        Ok(Self::Behind(store.event(conversation, &found?)?.sequence))
    }

    /// Returns how many of `events` come before the point.
    #[must_use]
    pub fn length(self, events: u64) -> u64 {
        match self {
            Self::End => events,
            Self::Behind(sequence) => events.min(sequence.0.saturating_add(1)),
            Self::Start => 0,
        }
    }
}
