//! A row compared with what the events make of it, and made that again.

use rusqlite::{Connection, params};

use super::super::base_state;
use super::super::engine::Doing as _;
use super::{Entry, FORGET, SAVE_TIMES, set};
use crate::chain::Digest;
use crate::error::Result;
use crate::state::ExecutionStatus;

const REST: &str = "SELECT first_message, last_timestamp, updated_at FROM conversation WHERE key = ?1";

/// What is known of a conversation beside its events.
pub(in super::super) struct Told {
    /// What the base state says of its status; `None` where that cannot be told.
    pub status: Option<String>,
    /// Whether it was imported: a file beside the events may know better when it began.
    pub imported: bool,
}

impl Entry {
    /// The row as it was before the first event: taking all of them in again must give the present one.
    pub(in super::super) fn emptied(&self) -> Self {
        Self {
            key: self.key,
            event_count: 0,
            head_hash: Digest::START,
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
        }
    }

    /// The first column of this stored row that is not as `replayed` and `told` say; HEAD is not looked at.
    pub(in super::super) fn first_difference(
        &self,
        db: &Connection,
        replayed: &Self,
        told: &Told,
    ) -> Result<Option<&'static str>> {
        let (first_message, last_timestamp, updated_at): (Option<String>, Option<String>, i64) = db
            .prepare_cached(REST)
            .and_then(|mut s| s.query_row([self.key], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?))))
            .doing("reading a conversation's row")?;
        let updated = replayed.updated_at.map_or(updated_at, |time| time.0);
        let minute = replayed.updated_at.map_or(0, |time| time.0.div_euclid(60_000_000));
        let status = match (&told.status, self.has_base_state) {
            (Some(status), _) => status,
            (None, true) => &self.status,
            (None, false) => &replayed.status,
        };
        let columns = [
            ("payload_bytes", self.payload_bytes == replayed.payload_bytes),
            ("action_count", self.action_count == replayed.action_count),
            ("observation_count", self.observation_count == replayed.observation_count),
            ("first_message", first_message == replayed.first_message),
            ("first_timestamp", self.first_timestamp == replayed.first_timestamp),
            ("last_timestamp", last_timestamp == replayed.last_timestamp),
            ("created_at", told.imported || self.created_at == replayed.created_at),
            ("updated_at", updated_at == updated),
            ("updated_minute", self.updated_minute == minute),
            ("status", self.status == *status),
        ];
        Ok(columns.into_iter().find(|(_, same)| !same).map(|(column, _)| column))
    }
}

/// Makes the row of `stored` what its events (`replayed`) and its base state say, after some were cut off.
/// What an import told of its beginning stays.
pub(in super::super) fn put_back(
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
        // The base state may have gone with what was cut off: the events say it then.
        None if base_state::version(db, stored.key)?.is_some() => replayed.status.clone_from(&stored.status),
        None => {}
    }
    set(db, FORGET, [stored.key])?;
    let now = stored.last_updated_at.unwrap_or(stored.created_at);
    // HEAD is put back by the base state's own file.
    replayed.save(db, now)?;
    let minute = replayed.updated_at.map_or(0, |time| time.0.div_euclid(60_000_000));
    set(db, SAVE_TIMES, params![stored.key, replayed.created_at.0, minute])
}
