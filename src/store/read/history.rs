//! Reads the past: how long a conversation was at a time, and where HEAD was at a length.

use rusqlite::params;

use crate::error::Result;
use crate::ids::{ConversationId, Sequence, Timestamp};
use crate::state::base::EXTENDED;
use crate::store::Store;
use crate::store::engine::WhileDoing as _;
use crate::store::table::base_state::{self, BaseState};
use crate::store::table::catalogue;

const TIMES_DESCENDING: &str = "SELECT sequence, timestamp, recorded_at FROM event \
     WHERE conversation = ?1 AND sequence < ?2 ORDER BY sequence DESC LIMIT 1000";

/// A move of HEAD that was not part of an append.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct HeadMove {
    /// The last event before the move. `None` if there were no events yet.
    pub behind: Option<Sequence>,
    /// The event that HEAD moved to. `None` if HEAD moved before all events.
    pub leaf_event_id: Option<String>,
}

/// What is known of a base state's field at a place in the conversation.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum FieldAt {
    /// Nothing: no change up to there was recorded. The document of an import has only the last values.
    Unknown,
    /// It was removed.
    Removed,
    /// It had this value, as JSON.
    Value(String),
}

impl FieldAt {
    fn of(value: Option<String>) -> Self {
        value.map_or(Self::Removed, Self::Value)
    }
}

impl Store {
    /// Returns the last event in the log whose own time is not after `time`. `None` if all events are after it. The
    /// events' clocks may jump, so earlier events may have a later time. The time of an event that states none is when it
    /// was recorded.
    ///
    /// Reads from the end of the log, so the cost depends on the number of later events.
    ///
    /// # Errors
    /// [`UnknownConversation`](crate::Error::UnknownConversation).
    pub fn sequence_at(&self, conversation: &ConversationId, time: Timestamp) -> Result<Option<Sequence>> {
        let doing = "looking for a time";
        let mut before = i64::MAX;
        loop {
            let page: Vec<(i64, Option<String>, i64)> = self.read(|db| {
                let key = catalogue::key(db, conversation)?;
                db.prepare_cached(TIMES_DESCENDING)
                    .and_then(|mut statement| {
                        statement
                            .query_map(params![key, before], |row| {
                                Ok((row.get(0)?, row.get(1)?, row.get(2)?))
                            })
                            .and_then(Iterator::collect)
                    })
                    .doing(doing)
            })?;
            let Some((last, ..)) = page.last() else { return Ok(None) };
            before = *last;
            let happened = |text: &Option<String>, recorded: i64| {
                text.as_deref().and_then(Timestamp::parse).unwrap_or(Timestamp(recorded)) <= time
            };
            if let Some((sequence, ..)) = page.iter().find(|(_, text, recorded)| happened(text, *recorded)) {
                return Ok(Some(Sequence(sequence.cast_unsigned())));
            }
        }
    }

    /// Returns the last move of HEAD without an append, up to right after the event at `sequence`. An event that was
    /// appended since that move may have moved HEAD again.
    ///
    /// # Errors
    /// [`UnknownConversation`](crate::Error::UnknownConversation).
    pub fn last_head_move(
        &self,
        conversation: &ConversationId,
        sequence: Sequence,
    ) -> Result<Option<HeadMove>> {
        self.read(|db| {
            let key = catalogue::key(db, conversation)?;
            let last = base_state::last_head_move(db, key, sequence)?;
            Ok(last.map(|(behind, leaf_event_id)| HeadMove { behind, leaf_event_id }))
        })
    }

    /// Returns what is known of a base state's field after the event at `sequence`.
    ///
    /// # Errors
    /// [`UnknownConversation`](crate::Error::UnknownConversation).
    pub fn base_state_field_at(
        &self,
        conversation: &ConversationId,
        field: &str,
        sequence: Sequence,
    ) -> Result<FieldAt> {
        self.read(|db| {
            let key = catalogue::key(db, conversation)?;
            let added = format!("{field}{EXTENDED}");
            if base_state::last_change(db, key, &added, sequence)?.is_none() {
                let last = base_state::last_change(db, key, field, sequence)?;
                return Ok(last.map_or(FieldAt::Unknown, FieldAt::of));
            }
            let state = base_state::load_at(db, key, sequence)?;
            let value = |state: BaseState| state.document.field(field).map(|value| value.text().to_owned());
            Ok(state.map_or(FieldAt::Unknown, |state| FieldAt::of(value(state))))
        })
    }
}
