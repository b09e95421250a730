//! Table `conversation`, the catalogue: one row for each conversation. Every append updates its row in its own
//! transaction.
//!
//! Lists, searches and counts read this table. It is a projection that never lags behind: a rebuild from the log gives
//! the same rows, and `verify` checks that. A damaged value ends no read, because it can be made again: a text is shown
//! as far as it is text, and the comparison with the log reports the column.

mod again;
mod value;

use rusqlite::types::Value;
use rusqlite::{Connection, OptionalExtension as _, Row, params};

use super::change::{self, Subject};
use super::kept::{Edit, Kept, Part};
use super::{log, related};
use crate::chain::Digest;
use crate::error::{Contradiction, Error, Result};
use crate::event::{Envelope, NewEvent, kind, transcript};
use crate::ids::{ConversationId, Sequence, Timestamp};
use crate::json::Object;
use crate::state::ExecutionStatus;
use crate::state::status::Effect;
use crate::store::engine::WhileDoing as _;

pub(in crate::store) use again::{OtherSources, create_again, put_back};
pub(in crate::store) use value::{hash, text};

/// The statement that reads the columns of an [`Entry`]. The argument selects its row.
macro_rules! entry {
    ($which:literal) => {
        concat!(
            "SELECT key, event_count, payload_bytes, head_hash, leaf_event_id, head_is_empty, status, \
             first_message IS NOT NULL, first_timestamp, created_at, \
             EXISTS (SELECT 1 FROM base_state WHERE conversation = key), action_count, observation_count, \
             updated_minute, foreign_format, updated_at FROM conversation ",
            $which
        )
    };
}
const LOAD: &str = entry!("WHERE id = ?1");
const LOAD_BY_KEY: &str = entry!("NOT INDEXED WHERE key = ?2 AND id = ?1");
const CREATE: &str = "INSERT INTO conversation (key, id, head_hash, created_at, updated_at) VALUES (?1, ?2, zeroblob(32), ?3, ?3)";
/// Does not change `updated_minute`, so that its index is not written.
const SAVE: &str = "UPDATE conversation SET event_count = ?2, payload_bytes = ?3, head_hash = ?4, \
     leaf_event_id = ?5, head_is_empty = ?6, status = ?7, first_message = coalesce(first_message, ?8), \
     updated_at = ?9, first_timestamp = ?10, last_timestamp = coalesce(?11, last_timestamp), \
     action_count = ?12, observation_count = ?13 WHERE key = ?1";
const SAVE_TIMES: &str = "UPDATE conversation SET created_at = ?2, updated_minute = ?3 WHERE key = ?1";
const SET_HEAD: &str = "UPDATE conversation SET leaf_event_id = ?2, head_is_empty = ?3 WHERE key = ?1";
const SET_STATUS: &str = "UPDATE conversation SET status = ?2 WHERE key = ?1";
const SET_TAGS: &str = "UPDATE conversation SET tags = ?2 WHERE key = ?1";
const SET_TITLE: &str = "UPDATE conversation SET title = ?2 WHERE key = ?1";
const SET_PARENT: &str = "WITH RECURSIVE above (key) AS (SELECT key FROM conversation WHERE id = ?2 \
     UNION SELECT parent FROM conversation JOIN above USING (key) WHERE parent IS NOT NULL) \
     UPDATE conversation SET parent = (SELECT key FROM conversation WHERE id = ?2) \
     WHERE key = ?1 AND EXISTS (SELECT 1 FROM above) AND ?1 NOT IN (SELECT key FROM above)";
const SET_FORK: &str = "UPDATE conversation SET forked_from = ?2, forked_at = ?3 WHERE key = ?1";
const SET_TIME: &str = "UPDATE conversation SET updated_at = ?2, updated_minute = ?3 WHERE key = ?1";
const SET_FOREIGN: &str = "UPDATE conversation SET foreign_format = ?2 WHERE key = ?1";
const SET_CREATED: &str = "UPDATE conversation SET created_at = ?2 WHERE key = ?1";
const WHOLE: &str = "SELECT event_count, head_hash, leaf_event_id, head_is_empty, status, title, first_message, tags, \
     created_at, updated_at, updated_minute, first_timestamp, last_timestamp, forked_from, forked_at, \
     foreign_format FROM conversation WHERE key = ?1";
const WHOLE_COLUMNS: usize = 16;
/// The indexes, in the columns of [`Whole`], of the title and of the conversation and event that it was forked from.
const GIVEN: [usize; 3] = [3, 11, 12];
/// Keeps the first message: it is taken from the events here, which may be complete although they are redacted there.
/// Keeps the title if `?16` is true, and the fork's origin if `?17` is true.
const ADOPT: &str = "UPDATE conversation SET leaf_event_id = ?2, head_is_empty = ?3, status = ?4, \
     title = CASE WHEN ?16 THEN title ELSE ?5 END, tags = ?7, created_at = ?8, updated_at = ?9, \
     updated_minute = ?10, first_timestamp = ?11, last_timestamp = ?12, \
     forked_from = CASE WHEN ?17 THEN forked_from ELSE ?13 END, \
     forked_at = CASE WHEN ?17 THEN forked_at ELSE ?14 END, foreign_format = ?15 WHERE key = ?1";
const FORGET: &str = "UPDATE conversation SET first_message = NULL, last_timestamp = NULL WHERE key = ?1";
const SET_FIRST_MESSAGE: &str = "UPDATE conversation SET first_message = ?2 WHERE key = ?1";
const TEXTS: &str = "SELECT title, first_message, tags FROM conversation WHERE key = ?1";
const HAS_FIRST_MESSAGE: &str = "SELECT 1 FROM conversation WHERE key = ?1 AND first_message IS NOT NULL";
const COUNT_BYTES: &str = "UPDATE conversation SET payload_bytes = (SELECT coalesce(sum(octet_length(payload)), 0) \
     FROM event WHERE conversation = ?1) WHERE key = ?1";
const HEAD: &str = "SELECT leaf_event_id, head_is_empty FROM conversation WHERE key = ?1";
const ID: &str = "SELECT id FROM conversation WHERE key = ?1";
const KEY: &str = "SELECT key FROM conversation WHERE id = ?1";
const DELETE: &str = "DELETE FROM conversation WHERE key = ?1";
const ORPHAN: &str = "UPDATE conversation SET parent = NULL WHERE key = ?1";

/// The number of characters of the first user message that the catalogue keeps.
const FIRST_MESSAGE_CHARS_MAX: usize = 200;

/// A conversation's row while a transaction appends to it.
#[derive(Debug, Clone)]
pub(in crate::store) struct Entry {
    pub key: i64,
    pub event_count: u64,
    pub chain_head: Digest,
    pub leaf: Option<String>,
    pub head_is_empty: bool,
    /// The format of the other program's log, if the conversation is a copy of one.
    pub foreign: Option<String>,
    payload_bytes: i64,
    status: String,
    has_first_message: bool,
    first_message: Option<String>,
    first_timestamp: Option<String>,
    last_timestamp: Option<String>,
    created_at: Timestamp,
    created_at_is_new: bool,
    updated_at: Option<Timestamp>,
    /// The stored value of `updated_at`.
    last_updated_at: Option<Timestamp>,
    updated_minute: i64,
    has_base_state: bool,
    action_count: i64,
    observation_count: i64,
    /// The first column whose stored text cannot be read. HEAD is not among them: see [`Entry::read`].
    unreadable: Option<&'static str>,
}

impl Entry {
    /// Reads the row of `id`.
    pub(in crate::store) fn load(db: &Connection, id: &ConversationId) -> Result<Option<Self>> {
        db.prepare_cached(LOAD)
            .and_then(|mut statement| statement.query_row([id.as_str()], Self::read).optional())
            .doing("reading a conversation's row")
    }

    /// Reads the row of `id` for an append, and checks that it agrees with the end of the log.
    ///
    /// # Errors
    /// [`Error::CatalogueContradicts`] if it does not.
    pub(in crate::store) fn load_to_append(db: &Connection, id: &ConversationId) -> Result<Option<Self>> {
        let Some(entry) = Self::load(db, id)? else { return Ok(None) };
        let (count, hash) = log::end(db, entry.key)?;
        if (entry.event_count, entry.chain_head) == (count, hash) {
            return Ok(Some(entry));
        }
        let contradiction = Contradiction {
            conversation: id.clone(),
            catalogue_count: entry.event_count,
            catalogue_hash: entry.chain_head,
            log_count: count,
            log_hash: hash,
        };
        Err(Box::new(contradiction).into())
    }

    /// Reads the row of `key` and `id` without the index by id, because that index may have lost it.
    pub(in crate::store) fn load_by_key(
        db: &Connection,
        key: i64,
        id: &ConversationId,
    ) -> Result<Option<Self>> {
        db.prepare_cached(LOAD_BY_KEY)
            .and_then(|mut s| s.query_row(params![id.as_str(), key], Self::read).optional())
            .doing("reading a conversation's row")
    }

    /// Makes a row for `id`, which has none.
    pub(in crate::store) fn create(db: &Connection, id: &ConversationId, now: Timestamp) -> Result<Self> {
        db.prepare_cached(CREATE)
            .and_then(|mut statement| statement.execute(params![None::<i64>, id.as_str(), now.0]))
            .doing("creating a conversation")?;
        let created = Self::load(db, id)?.ok_or_else(|| Error::Corrupt {
            what: format!("conversation {id} vanished while it was made"),
        })?;
        // Receipts of repairs outlive their conversation, so there may be some for this id already.
        change::take_over(db, created.key, Subject::Repair)?;
        Ok(created)
    }

    /// Reads a row, even if its values are damaged.
    ///
    /// An unreadable leaf is read as a text that is the id of no event, so HEAD is not where it should be.
    fn read(row: &Row<'_>) -> rusqlite::Result<Self> {
        let leaf = match (text(row, 4)?, value::is_readable(row, 4)?) {
            (Some(leaf), false) => Some(leaf + "\n"), // no id has a control character
            (leaf, _) => leaf,
        };
        let mut unreadable = None;
        for (column, name) in [(6, "status"), (8, "first_timestamp")] {
            if unreadable.is_none() && !value::is_readable(row, column)? {
                unreadable = Some(name);
            }
        }
        Ok(Self {
            key: row.get(0)?,
            event_count: row.get::<_, i64>(1)?.cast_unsigned(),
            payload_bytes: row.get(2)?,
            chain_head: hash(row, 3)?,
            leaf,
            head_is_empty: row.get(5)?,
            status: text(row, 6)?.unwrap_or_default(),
            has_first_message: row.get(7)?,
            first_message: None,
            first_timestamp: text(row, 8)?,
            last_timestamp: None,
            created_at: Timestamp(row.get(9)?),
            created_at_is_new: false,
            updated_at: None,
            has_base_state: row.get(10)?,
            action_count: row.get(11)?,
            observation_count: row.get(12)?,
            updated_minute: row.get(13)?,
            foreign: text(row, 14)?,
            last_updated_at: Some(Timestamp(row.get(15)?)),
            unreadable,
        })
    }

    /// Returns an error if the conversation is a copy of another program's log, because a copy is read-only.
    pub(in crate::store) fn refuse_copy(&self, conversation: &ConversationId) -> Result<()> {
        match &self.foreign {
            None => Ok(()),
            Some(format) => {
                Err(Error::ReadOnlyCopy { conversation: conversation.clone(), format: format.clone() })
            }
        }
    }

    /// Returns the sequence of the next event.
    pub(in crate::store) fn next(&self) -> Sequence {
        Sequence(self.event_count)
    }

    /// Returns the status in the catalogue.
    pub(in crate::store) fn status(&self) -> &str {
        &self.status
    }

    /// Returns the size of all payloads, in bytes.
    pub(in crate::store) fn payload_bytes(&self) -> u64 {
        self.payload_bytes.cast_unsigned()
    }

    /// Updates the row for one appended event. HEAD is not moved; see [`Entry::move_head`].
    pub(in crate::store) fn take(
        &mut self,
        envelope: &Envelope,
        payload: &str,
        hash: Digest,
        effect: Effect,
        now: Timestamp,
    ) {
        self.event_count += 1;
        match envelope.kind.as_str() {
            // The count of a damaged row may be anything. `verify` reports that; an append does not fail for it.
            kind::ACTION => self.action_count = self.action_count.saturating_add(1),
            kind::OBSERVATION => self.observation_count = self.observation_count.saturating_add(1),
            _ => {}
        }
        self.payload_bytes = self.payload_bytes.saturating_add(payload.len() as i64);
        self.chain_head = hash;
        if !self.has_base_state {
            let status = self.status.parse().unwrap_or_default();
            let after: ExecutionStatus = effect.apply(status);
            if after != status {
                after.as_str().clone_into(&mut self.status);
            }
        }
        if !self.has_first_message && effect == Effect::Spoken {
            self.first_message = first_message(envelope, payload);
            self.has_first_message = self.first_message.is_some();
        }
        let stated = envelope.timestamp.as_deref().and_then(Timestamp::parse);
        // A record of another program's log that has no time did not happen now. It gets the time of the one before.
        let before = self.updated_at.or(self.last_updated_at).filter(|_| self.event_count > 1);
        let time = stated.or(before.filter(|_| self.foreign.is_some())).unwrap_or(now);
        if self.event_count == 1 {
            self.created_at = time;
            self.created_at_is_new = true;
        }
        if envelope.timestamp.is_some() {
            if self.first_timestamp.is_none() {
                self.first_timestamp.clone_from(&envelope.timestamp);
            }
            self.last_timestamp.clone_from(&envelope.timestamp);
        }
        self.updated_at = Some(time);
    }

    /// Moves HEAD to an event that was just appended, unless it is of a kind that HEAD never moves to.
    pub(in crate::store) fn move_head(&mut self, event: &NewEvent) {
        if kind::moves_head(&event.envelope().kind) {
            self.leaf = Some(event.id().as_str().to_owned());
            self.head_is_empty = false;
        }
    }

    /// Writes the row back. Afterwards it is as if it had been read again.
    pub(in crate::store) fn save(&mut self, db: &Connection, now: Timestamp) -> Result<()> {
        let updated_at = self.updated_at.unwrap_or(now);
        set(
            db,
            SAVE,
            params![
                self.key,
                self.event_count.cast_signed(),
                self.payload_bytes,
                self.chain_head.0,
                self.leaf,
                self.head_is_empty,
                self.status,
                self.first_message,
                updated_at.0,
                self.first_timestamp,
                self.last_timestamp,
                self.action_count,
                self.observation_count,
            ],
        )?;
        let minute = updated_at.0.div_euclid(60_000_000);
        if minute != self.updated_minute || self.created_at_is_new {
            set(db, SAVE_TIMES, params![self.key, self.created_at.0, minute])?;
        }
        self.updated_minute = minute;
        self.created_at_is_new = false;
        self.last_updated_at = Some(updated_at);
        (self.updated_at, self.first_message, self.last_timestamp) = (None, None, None);
        Ok(())
    }
}

/// A conversation's row as one value, without its key and its parent.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::store) struct Whole {
    pub event_count: u64,
    pub chain_head: Digest,
    columns: Vec<Value>,
}

impl Whole {
    /// Returns the values that neither the events nor the base state hold: the title, and what it was forked from.
    pub(in crate::store) fn given(&self) -> Vec<&Value> {
        GIVEN.iter().filter_map(|column| self.columns.get(*column)).collect()
    }
}

/// Reads the row of a conversation.
pub(in crate::store) fn whole(db: &Connection, key: i64) -> Result<Whole> {
    db.prepare_cached(WHOLE)
        .and_then(|mut statement| {
            statement.query_row([key], |row| {
                let columns = (2..WHOLE_COLUMNS).map(|column| value::any(row, column));
                let columns = columns.collect::<Result<_, _>>()?;
                let event_count = row.get::<_, i64>(0)?.cast_unsigned();
                Ok(Whole { event_count, chain_head: hash(row, 1)?, columns })
            })
        })
        .doing("reading a conversation's row")
}

/// Which values of a conversation were set here and were never the same in the source of a copy.
#[derive(Debug, Clone, Copy)]
pub(in crate::store) struct OwnNames {
    pub title: bool,
    pub fork: bool,
}

/// Copies `whole` to the row of a conversation that has the same events, without the values that are its `own`.
pub(in crate::store) fn adopt(db: &Connection, key: i64, whole: &Whole, own: OwnNames) -> Result<()> {
    let mut parameters = vec![Value::from(key)];
    parameters.extend_from_slice(&whole.columns);
    parameters.extend([Value::from(own.title), Value::from(own.fork)]);
    set(db, ADOPT, rusqlite::params_from_iter(parameters))
}

/// Returns the start of a user message in one line. `None` if it has no text.
pub(in crate::store) fn first_message(envelope: &Envelope, payload: &str) -> Option<String> {
    let object = Object::of(payload);
    let text = transcript::Line::read(&envelope.kind, &object).to_text();
    let words: Vec<&str> = text.split_whitespace().collect();
    let line: String = words.join(" ").chars().take(FIRST_MESSAGE_CHARS_MAX).collect();
    (!line.is_empty()).then_some(line)
}

fn set(db: &Connection, sql: &str, parameters: impl rusqlite::Params) -> Result<()> {
    db.prepare_cached(sql)
        .and_then(|mut statement| statement.execute(parameters))
        .doing("writing a conversation's row")?;
    Ok(())
}

/// Returns the key of `id`.
///
/// # Errors
/// [`Error::UnknownConversation`] if there is no such conversation.
pub(in crate::store) fn key(db: &Connection, id: &ConversationId) -> Result<i64> {
    find(db, id)?.ok_or_else(|| Error::UnknownConversation { conversation: id.to_string() })
}

/// Returns the key of a conversation. `None` if it is not stored.
pub(in crate::store) fn find(db: &Connection, id: &ConversationId) -> Result<Option<i64>> {
    db.prepare_cached(KEY)
        .and_then(|mut statement| statement.query_row([id.as_str()], |row| row.get(0)).optional())
        .doing("looking for a conversation")
}

/// Returns the id of the conversation with this key.
pub(super) fn id(db: &Connection, key: i64) -> Result<String> {
    db.prepare_cached(ID)
        .and_then(|mut statement| statement.query_row([key], |row| row.get(0)))
        .doing("looking for a conversation")
}

/// Returns the leaf that HEAD is at, and whether HEAD is before all events.
pub(super) fn leaf(db: &Connection, key: i64) -> Result<(Option<String>, bool)> {
    db.prepare_cached(HEAD)
        .and_then(|mut statement| statement.query_row([key], |row| Ok((text(row, 0)?, row.get(1)?))))
        .doing("reading HEAD")
}

/// Sets HEAD. `None` with `head_is_empty` is the place before all events.
pub(in crate::store) fn set_head(
    db: &Connection,
    key: i64,
    leaf: Option<&str>,
    head_is_empty: bool,
) -> Result<()> {
    set(db, SET_HEAD, params![key, leaf, head_is_empty])
}

/// Sets the status to the one in the base state.
pub(super) fn set_status(db: &Connection, key: i64, status: &str) -> Result<()> {
    set(db, SET_STATUS, params![key, status])
}

/// Sets the tags, a JSON object.
pub(in crate::store) fn set_tags(db: &Connection, key: i64, tags: &str) -> Result<()> {
    change::replaced(db, key, &[Subject::Tags], || set(db, SET_TAGS, params![key, tags]))
}

/// Sets the title. `None` removes it.
pub(in crate::store) fn set_title(db: &Connection, key: i64, title: Option<&str>) -> Result<()> {
    change::replaced(db, key, &[Subject::Title], || set(db, SET_TITLE, params![key, title]))
}

/// Makes the conversation a sub-agent's of `parent`. Does nothing if `parent` is not stored or is below it.
pub(in crate::store) fn set_parent(db: &Connection, key: i64, parent: &ConversationId) -> Result<()> {
    change::replaced(db, key, &[Subject::Parent], || set(db, SET_PARENT, params![key, parent.as_str()]))
}

/// Sets which conversation this one was forked from, and at which event.
pub(in crate::store) fn set_fork(db: &Connection, key: i64, from: &str, at: Option<&str>) -> Result<()> {
    change::replaced(db, key, &[Subject::Fork], || set(db, SET_FORK, params![key, from, at]))
}

/// Marks the conversation as a copy of another program's log of this format. Appends to it are then rejected.
///
/// A copy's events take their times by another rule, so the row's times may change.
pub(in crate::store) fn set_foreign(db: &Connection, key: i64, format: &str) -> Result<()> {
    change::replaced(db, key, &[Subject::Foreign], || set(db, SET_FOREIGN, params![key, format]))?;
    again::set_copy_time(db, key)
}

/// Sets when the conversation began, if another source than its first event has that time.
pub(in crate::store) fn set_created(db: &Connection, key: i64, at: Timestamp) -> Result<()> {
    change::replaced(db, key, &[Subject::Created], || set(db, SET_CREATED, params![key, at.0]))
}

/// Calls `edit` with title, first message and tags, and stores each text that it returns in their place.
pub(in crate::store) fn edit(db: &Connection, key: i64, edit: Edit<'_>) -> Result<()> {
    let texts: [Option<String>; 3] = db
        .prepare_cached(TEXTS)
        .and_then(|mut s| s.query_row([key], |row| Ok([text(row, 0)?, text(row, 1)?, text(row, 2)?])))
        .doing("reading a conversation's row")?;
    let parts = [(Part::Title, SET_TITLE), (Part::FirstMessage, SET_FIRST_MESSAGE), (Part::Tags, SET_TAGS)];
    for (text, (part, sql)) in texts.into_iter().zip(parts) {
        let Some(text) = text else { continue };
        if let Some(new) = edit(Kept { part, sequence: None, name: "", text: &text })? {
            set(db, sql, params![key, new])?;
        }
    }
    Ok(())
}

/// Returns whether the row has the start of a first user message.
pub(in crate::store) fn has_first_message(db: &Connection, key: i64) -> Result<bool> {
    db.prepare_cached(HAS_FIRST_MESSAGE)
        .and_then(|mut statement| statement.exists([key]))
        .doing("reading a conversation's row")
}

/// Replaces the start of the first user message.
pub(in crate::store) fn set_first_message(db: &Connection, key: i64, line: Option<&str>) -> Result<()> {
    set(db, SET_FIRST_MESSAGE, params![key, line])
}

/// Counts the payloads' bytes again.
pub(in crate::store) fn count_bytes(db: &Connection, key: i64) -> Result<()> {
    set(db, COUNT_BYTES, [key])
}

/// Deletes the row. No other row may refer to it. The conversations of its sub-agents stay, without a parent.
pub(in crate::store) fn delete(db: &Connection, key: i64) -> Result<()> {
    for child in related::children(db, key)? {
        change::replaced(db, child, &[Subject::Parent], || set(db, ORPHAN, [child]))?;
    }
    set(db, DELETE, [key])
}
