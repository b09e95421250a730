//! Reads events of all conversations by their correlation id or their causation id.
//!
//! The projection `correlations` has both, so that a read costs as much as the events that it returns.

use rusqlite::{Row, params};

use super::feed::FeedEvent;
use crate::error::Result;
use crate::event::Correlation;
use crate::ids::{ConversationId, Position};
use crate::json::Object;
use crate::store::Store;
use crate::store::derived::projection::correlations;
use crate::store::engine::{self, WhileDoing as _};
use crate::store::options::PAGE_MAX;
use crate::store::table::archive::Payloads;
use crate::store::table::copied;
use crate::store::table::log::{self, StoredEvent};

const BY_CORRELATION: &str = concat!(
    "SELECT ",
    log::columns!(),
    ", (SELECT id FROM conversation WHERE key = event.conversation) FROM (SELECT position AS place \
     FROM correlation WHERE correlation_id = ?1 AND position > ?2 ORDER BY position LIMIT ?3) \
     CROSS JOIN event ON event.position = place ORDER BY place"
);
const BY_CAUSATION: &str = concat!(
    "SELECT ",
    log::columns!(),
    ", (SELECT id FROM conversation WHERE key = event.conversation) FROM (SELECT position AS place \
     FROM correlation WHERE causation_id = ?1 AND position > ?2 ORDER BY position LIMIT ?3) \
     CROSS JOIN event ON event.position = place ORDER BY place"
);

impl StoredEvent {
    /// Its correlation id and its causation id. An id that was redacted is absent.
    #[must_use]
    pub fn correlation(&self) -> Correlation {
        correlations::ids(&Object::of(&self.payload))
    }

    /// The ids for an event that follows from this one: the causation id is this event's id. The correlation id is
    /// this event's correlation id, or else its id.
    #[must_use]
    pub fn as_cause(&self) -> Correlation {
        let id = self.id.as_str().to_owned();
        let correlation_id = self.correlation().correlation_id.unwrap_or_else(|| id.clone());
        Correlation { correlation_id: Some(correlation_id), causation_id: Some(id) }
    }
}

impl Store {
    /// Returns the events of all conversations with this [correlation id](Correlation), in the order of the log,
    /// beginning after `after`: at most `limit`, and never more than [`PAGE_MAX`].
    ///
    /// If there are `limit` events, the next page begins after the position of the last one. In a store that is
    /// read-only, [`Maintenance::projections`](crate::store::Maintenance::projections) tells how far the log has been
    /// read.
    ///
    /// ```
    /// # use annals::{ConversationId, Expected, NewEvent, Options, Position, Store};
    /// # let store = Store::in_memory(&Options::default())?;
    /// # let (talk, bill) = (ConversationId::new("talk")?, ConversationId::new("bill")?);
    /// let ordered = serde_json::json!({"id": "o-17", "item": "tea", "correlation_id": "cart-4"});
    /// store.append(&talk, Expected::Any, &[NewEvent::of("shop.ordered", &ordered)?])?;
    /// let billed = serde_json::json!({"sum": 9, "correlation_id": "cart-4", "causation_id": "o-17"});
    /// store.append(&bill, Expected::Any, &[NewEvent::of("shop.billed", &billed)?])?;
    /// assert_eq!(store.correlated("cart-4", Position::START, 100)?.len(), 2);
    /// assert_eq!(store.caused_by("o-17", Position::START, 100)?[0].conversation, bill);
    /// # Ok::<(), annals::Error>(())
    /// ```
    ///
    /// # Errors
    /// Any read error, and any write error while the projections catch up.
    pub fn correlated(&self, correlation_id: &str, after: Position, limit: usize) -> Result<Vec<FeedEvent>> {
        self.related(BY_CORRELATION, correlation_id, after, limit)
    }

    /// Returns the events of all conversations with this [causation id](Correlation), as [`Store::correlated`] does.
    ///
    /// An event's id is unique within its conversation only. If ids of several conversations may be the same, look at
    /// the correlation ids too.
    ///
    /// # Errors
    /// As [`Store::correlated`].
    pub fn caused_by(&self, causation_id: &str, after: Position, limit: usize) -> Result<Vec<FeedEvent>> {
        self.related(BY_CAUSATION, causation_id, after, limit)
    }

    fn related(&self, sql: &str, id: &str, after: Position, limit: usize) -> Result<Vec<FeedEvent>> {
        self.catch_up()?;
        let doing = "reading correlated events";
        let limit = limit.clamp(1, PAGE_MAX) as i64;
        self.read(|db| {
            let mut payloads = Payloads::new(db);
            let mut statement = db.prepare_cached(sql).doing(doing)?;
            let row = |row: &Row<'_>| Ok((row.get::<_, String>(14)?, log::stored(row)?));
            let rows = statement
                .query_map(params![copied::text(id), engine::place(after.0), limit], row)
                .doing(doing)?;
            let events = rows.map(|row| {
                let (conversation, event) = row.doing(doing)?;
                let event = payloads.whole(event)?;
                Ok(FeedEvent { conversation: ConversationId::new(&conversation)?, event })
            });
            events.collect()
        })
    }
}
