//! What was when: the length of a conversation at a time, and where HEAD was at a length.

use rusqlite::params;

use super::engine::Doing as _;
use super::{Store, base_state, catalogue};
use crate::error::Result;
use crate::ids::{ConversationId, Sequence, Timestamp};
use crate::state::base::EXTENDED;

const TIMES_DESCENDING: &str = "SELECT sequence, timestamp FROM event \
     WHERE conversation = ?1 AND sequence < ?2 ORDER BY sequence DESC LIMIT 1000";

/// A move of HEAD that no append tells.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeadMove {
    /// The event it came right behind; `None` where there was none yet.
    pub behind: Option<Sequence>,
    /// Where HEAD went; `None` for before everything.
    pub leaf_event_id: Option<String>,
}

impl Store {
    /// The last event that had happened at a time, by the events' own clocks, which jump: the last one in
    /// the log whose time is not after it. `None` where all of them are after it.
    ///
    /// Reads from the end, so that it costs what lies behind.
    ///
    /// # Errors
    /// [`UnknownConversation`](crate::Error::UnknownConversation).
    pub fn sequence_at(&self, conversation: &ConversationId, time: Timestamp) -> Result<Option<Sequence>> {
        let doing = "looking for a time";
        let mut before = i64::MAX;
        loop {
            let page: Vec<(i64, Option<String>)> = self.read(|db| {
                let key = catalogue::key(db, conversation)?;
                db.prepare_cached(TIMES_DESCENDING)
                    .and_then(|mut statement| {
                        statement
                            .query_map(params![key, before], |row| Ok((row.get(0)?, row.get(1)?)))
                            .and_then(Iterator::collect)
                    })
                    .doing(doing)
            })?;
            let Some((last, _)) = page.last() else { return Ok(None) };
            before = *last;
            let happened = |text: &Option<String>| {
                text.as_deref().and_then(Timestamp::parse).is_some_and(|moment| moment <= time)
            };
            if let Some((sequence, _)) = page.iter().find(|(_, text)| happened(text)) {
                return Ok(Some(Sequence(sequence.cast_unsigned())));
            }
        }
    }

    /// The last move of HEAD by itself, no later than right behind the event at `sequence`; an event that
    /// was appended since has moved it on.
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

    /// The value a field of the base state was last changed to by the time of the event at `sequence`, as
    /// JSON; the inner `None` where it was taken out, the outer one where no change by then is known (the
    /// document an import brought tells the end, not the way).
    ///
    /// # Errors
    /// [`UnknownConversation`](crate::Error::UnknownConversation).
    pub fn base_state_field_at(
        &self,
        conversation: &ConversationId,
        field: &str,
        sequence: Sequence,
    ) -> Result<Option<Option<String>>> {
        self.read(|db| {
            let key = catalogue::key(db, conversation)?;
            let added = format!("{field}{EXTENDED}");
            if base_state::last_change(db, key, &added, sequence)?.is_none() {
                return base_state::last_change(db, key, field, sequence);
            }
            let state = base_state::load_at(db, key, sequence)?;
            Ok(state.map(|state| state.document.field(field).map(|value| value.text().to_owned())))
        })
    }
}
