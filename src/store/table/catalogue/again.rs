//! Compares a row with the one that its events give, and rebuilds it from them.

use rusqlite::{Connection, Row, params};

use super::{CREATE, Entry, FORGET, SAVE_TIMES, SET_TIME, set, value};
use crate::chain::Digest;
use crate::error::Result;
use crate::ids::{ConversationId, Timestamp};
use crate::state::ExecutionStatus;
use crate::store::engine::WhileDoing as _;
use crate::store::table::base_state;

const REST: &str = "SELECT first_message, last_timestamp, updated_at FROM conversation WHERE key = ?1";

const TIMES: &str = "SELECT timestamp, recorded_at FROM event WHERE conversation = ?1 ORDER BY sequence DESC";

const IS_TAKEN: &str = "SELECT EXISTS (SELECT 1 FROM conversation WHERE key = ?1 OR id = ?2)";

/// What is known of a conversation from other sources than its events.
pub(in crate::store) struct OtherSources {
    /// The status in the base state. `None` if it is not known.
    pub status: Option<String>,
    /// True if it was imported. Then its time of creation may come from a file beside the events.
    pub imported: bool,
}

impl Entry {
    /// Returns the row as it was before the first event. Applying all events to it must give the current row.
    pub(in crate::store) fn emptied(&self) -> Self {
        Self {
            key: self.key,
            event_count: 0,
            chain_head: Digest::START,
            leaf: None,
            head_is_empty: false,
            foreign: self.foreign.clone(),
            payload_bytes: 0,
            status: ExecutionStatus::default().as_str().to_owned(),
            has_first_message: false,
            first_message: None,
            first_timestamp: None,
            last_timestamp: None,
            created_at: self.created_at,
            created_at_is_new: false,
            updated_at: None,
            last_updated_at: None,
            updated_minute: 0,
            has_base_state: false,
            action_count: 0,
            observation_count: 0,
            unreadable: None,
        }
    }

    /// Returns the first column of this stored row that differs from `replayed` and `known`. An unreadable value
    /// differs. HEAD is not compared.
    pub(in crate::store) fn first_difference(
        &self,
        db: &Connection,
        replayed: &Self,
        known: &OtherSources,
    ) -> Result<Option<&'static str>> {
        let rest = |row: &Row<'_>| {
            let first_message = value::is(row, 0, replayed.first_message.as_deref())?;
            let last_timestamp = value::is(row, 1, replayed.last_timestamp.as_deref())?;
            Ok((first_message, last_timestamp, row.get(2)?))
        };
        let (first_message, last_timestamp, updated_at): (bool, bool, i64) = db
            .prepare_cached(REST)
            .and_then(|mut statement| statement.query_row([self.key], rest))
            .doing("reading a conversation's row")?;
        if let Some(column) = self.unreadable {
            return Ok(Some(column));
        }
        let updated = replayed.updated_at.map_or(updated_at, |time| time.0);
        let minute = replayed.updated_at.map_or(0, |time| time.0.div_euclid(60_000_000));
        let status = match (&known.status, self.has_base_state) {
            (Some(status), _) => status,
            (None, true) => &self.status,
            (None, false) => &replayed.status,
        };
        let columns = [
            ("payload_bytes", self.payload_bytes == replayed.payload_bytes),
            ("action_count", self.action_count == replayed.action_count),
            ("observation_count", self.observation_count == replayed.observation_count),
            ("first_message", first_message),
            ("first_timestamp", self.first_timestamp == replayed.first_timestamp),
            ("last_timestamp", last_timestamp),
            ("created_at", known.imported || self.created_at == replayed.created_at),
            ("updated_at", updated_at == updated),
            ("updated_minute", self.updated_minute == minute),
            ("status", self.status == *status),
        ];
        Ok(columns.into_iter().find(|(_, same)| !same).map(|(column, _)| column))
    }
}

/// Makes a row with the key that a lost one had, as before the first event. Returns whether neither the key nor the id was
/// taken.
pub(in crate::store) fn create_again(
    db: &Connection,
    key: i64,
    id: &ConversationId,
    at: Timestamp,
) -> Result<bool> {
    let doing = "making a conversation's row";
    if db.query_row(IS_TAKEN, params![key, id.as_str()], |row| row.get(0)).doing(doing)? {
        return Ok(false);
    }
    db.execute(CREATE, params![key, id.as_str(), at.0]).doing(doing)?;
    Ok(true)
}

/// Rebuilds the row of `stored` from its events (`replayed`) and its base state, after some events were cut off.
///
/// A time of creation that an import has set stays.
pub(in crate::store) fn put_back(
    db: &Connection,
    stored: &Entry,
    mut replayed: Entry,
    status: Option<String>,
    is_imported: bool,
) -> Result<()> {
    if is_imported || replayed.event_count == 0 {
        replayed.created_at = stored.created_at;
    }
    match status {
        Some(status) => replayed.status = status,
        // If the base state was cut off, too, or the status cannot be read, the status comes from the events.
        None if stored.unreadable != Some("status") && base_state::version(db, stored.key)?.is_some() => {
            replayed.status.clone_from(&stored.status);
        }
        None => {}
    }
    set(db, FORGET, [stored.key])?;
    let now = stored.last_updated_at.unwrap_or(stored.created_at);
    let minute = replayed.updated_at.map_or(0, |time| time.0.div_euclid(60_000_000));
    // HEAD is restored later, in `base_state/history.rs`.
    replayed.save(db, now)?;
    set(db, SAVE_TIMES, params![stored.key, replayed.created_at.0, minute])
}

/// Sets the time of the last change of a copy: the last readable time of an event, as in [`Entry::take`]. An import may
/// only learn behind the last event that it has read a copy.
pub(super) fn set_copy_time(db: &Connection, key: i64) -> Result<()> {
    let mut time = None;
    let mut statement = db.prepare_cached(TIMES).doing("reading the times of events")?;
    let mut rows = statement.query([key]).doing("reading the times of events")?;
    while let Some(row) = rows.next().doing("reading the times of events")? {
        let stated = value::text(row, 0).doing("reading the times of events")?;
        let stated = stated.as_deref().and_then(Timestamp::parse);
        let recorded = row.get(1).map(Timestamp).doing("reading the times of events")?;
        time = Some(stated.unwrap_or(recorded));
        if stated.is_some() {
            break;
        }
    }
    match time {
        Some(time) => set(db, SET_TIME, params![key, time.0, time.0.div_euclid(60_000_000)]),
        None => Ok(()),
    }
}
