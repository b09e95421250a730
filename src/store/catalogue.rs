//! Table `conversation`: one row a conversation, moved by every append in the append's own transaction.
//!
//! What lists, searches and counts read. It is a projection that can never lag: rebuilt from the log it
//! would be the same, and `verify` checks that.

mod again;

use rusqlite::types::Value;
use rusqlite::{Connection, OptionalExtension as _, Row, params};

use super::change::{self, Subject};
use super::engine::Doing as _;
use super::kept::{Edit, Kept, Part};
use super::{log, related};
use crate::chain::Digest;
use crate::error::{Contradiction, Error, Result};
use crate::event::json::Object;
use crate::event::{Envelope, NewEvent, kind, transcript};
use crate::ids::{ConversationId, Sequence, Timestamp};
use crate::state::ExecutionStatus;
use crate::state::status::Effect;

pub(super) use again::{Told, put_back};

/// The columns of an [`Entry`], and which row they are of.
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
const CREATE: &str =
    "INSERT INTO conversation (id, head_hash, created_at, updated_at) VALUES (?1, ?2, ?3, ?3)";
/// Leaves `updated_minute`, and thereby its index, where it is.
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
const SET_FOREIGN: &str = "UPDATE conversation SET foreign_format = ?2 WHERE key = ?1";
const SET_CREATED: &str = "UPDATE conversation SET created_at = ?2 WHERE key = ?1";
const WHOLE: &str = "SELECT event_count, head_hash, leaf_event_id, head_is_empty, status, title, first_message, tags, \
     created_at, updated_at, updated_minute, first_timestamp, last_timestamp, forked_from, forked_at, \
     foreign_format FROM conversation WHERE key = ?1";
const WHOLE_COLUMNS: usize = 16;
/// Of these, as [`Whole`] has them: the title, and the conversation and event that it is a fork of.
const GIVEN: [usize; 3] = [3, 11, 12];
/// Leaves the first message: it is what the events say as they stand here, where what is redacted there may be in full.
/// Leaves the title where `?16` says so, and what it is a fork of where `?17` does.
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
const ID: &str = "SELECT id FROM conversation WHERE key = ?1";
const KEY: &str = "SELECT key FROM conversation WHERE id = ?1";
const DELETE: &str = "DELETE FROM conversation WHERE key = ?1";
const ORPHAN: &str = "UPDATE conversation SET parent = NULL WHERE key = ?1";

/// How many characters of the first user message the catalogue keeps.
const FIRST_MESSAGE_CHARS_MAX: usize = 200;

/// A conversation's row while a transaction appends to it.
#[derive(Debug, Clone)]
pub(super) struct Entry {
    pub key: i64,
    pub event_count: u64,
    pub head_hash: Digest,
    pub leaf: Option<String>,
    pub head_is_empty: bool,
    /// The format of the other program's log that it is a copy of.
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
    /// As it is stored.
    last_updated_at: Option<Timestamp>,
    updated_minute: i64,
    has_base_state: bool,
    action_count: i64,
    observation_count: i64,
}

impl Entry {
    /// The row of `id`.
    pub(super) fn load(db: &Connection, id: &ConversationId) -> Result<Option<Self>> {
        db.prepare_cached(LOAD)
            .and_then(|mut statement| statement.query_row([id.as_str()], Self::read).optional())
            .doing("reading a conversation's row")
    }

    /// The row of `id`, to append behind what it says: that must be what the log says.
    ///
    /// # Errors
    /// [`Error::CatalogueContradicts`] where it is not.
    pub(super) fn load_to_append(db: &Connection, id: &ConversationId) -> Result<Option<Self>> {
        let Some(entry) = Self::load(db, id)? else { return Ok(None) };
        let (count, hash) = log::end(db, entry.key)?;
        if (entry.event_count, entry.head_hash) == (count, hash) {
            return Ok(Some(entry));
        }
        let contradiction = Contradiction {
            conversation: id.clone(),
            catalogue_count: entry.event_count,
            catalogue_hash: entry.head_hash,
            log_count: count,
            log_hash: hash,
        };
        Err(Box::new(contradiction).into())
    }

    /// The row of that key and `id`, where the index by id may have lost it.
    pub(super) fn load_by_key(db: &Connection, key: i64, id: &ConversationId) -> Result<Option<Self>> {
        db.prepare_cached(LOAD_BY_KEY)
            .and_then(|mut s| s.query_row(params![id.as_str(), key], Self::read).optional())
            .doing("reading a conversation's row")
    }

    /// A new row for `id`, which has none.
    pub(super) fn create(db: &Connection, id: &ConversationId, now: Timestamp) -> Result<Self> {
        db.prepare_cached(CREATE)
            .and_then(|mut statement| statement.execute(params![id.as_str(), Digest::START.0, now.0]))
            .doing("creating a conversation")?;
        let created = Self::load(db, id)?.ok_or_else(|| Error::Corrupt {
            what: format!("conversation {id} vanished while it was made"),
        })?;
        // Receipts outlive a conversation, and may wait for one of this id.
        change::take_over(db, created.key, Subject::Repair)?;
        Ok(created)
    }

    fn read(row: &Row<'_>) -> rusqlite::Result<Self> {
        let hash: [u8; 32] = row.get(3)?;
        Ok(Self {
            key: row.get(0)?,
            event_count: row.get::<_, i64>(1)?.cast_unsigned(),
            payload_bytes: row.get(2)?,
            head_hash: Digest(hash),
            leaf: row.get(4)?,
            head_is_empty: row.get(5)?,
            status: row.get(6)?,
            has_first_message: row.get(7)?,
            first_message: None,
            first_timestamp: row.get(8)?,
            last_timestamp: None,
            created_at: Timestamp(row.get(9)?),
            created_at_is_new: false,
            updated_at: None,
            has_base_state: row.get(10)?,
            action_count: row.get(11)?,
            observation_count: row.get(12)?,
            updated_minute: row.get(13)?,
            foreign: row.get(14)?,
            last_updated_at: Some(Timestamp(row.get(15)?)),
        })
    }

    /// Refuses to write to a copy of another program's log.
    pub(super) fn refuse_copy(&self, conversation: &ConversationId) -> Result<()> {
        match &self.foreign {
            None => Ok(()),
            Some(format) => {
                Err(Error::ReadOnlyCopy { conversation: conversation.clone(), format: format.clone() })
            }
        }
    }

    /// The sequence of the next event.
    pub(super) fn next(&self) -> Sequence {
        Sequence(self.event_count)
    }

    /// Its status, as the catalogue has it.
    pub(super) fn status(&self) -> &str {
        &self.status
    }

    /// The payloads' size together, in bytes.
    pub(super) fn payload_bytes(&self) -> u64 {
        self.payload_bytes.cast_unsigned()
    }

    /// Takes in one appended event. HEAD is not moved; see [`Entry::move_head`].
    pub(super) fn take(
        &mut self,
        envelope: &Envelope,
        payload: &str,
        hash: Digest,
        effect: Effect,
        now: Timestamp,
    ) {
        self.event_count += 1;
        match envelope.kind.as_str() {
            // A damaged row may say anything: `verify` tells, an append goes on.
            kind::ACTION => self.action_count = self.action_count.saturating_add(1),
            kind::OBSERVATION => self.observation_count = self.observation_count.saturating_add(1),
            _ => {}
        }
        self.payload_bytes = self.payload_bytes.saturating_add(payload.len() as i64);
        self.head_hash = hash;
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
        let told = envelope.timestamp.as_deref().and_then(Timestamp::parse);
        // A record of another program's log that tells no time has not just happened.
        let before = self.updated_at.or(self.last_updated_at).filter(|_| self.event_count > 1);
        let time = told.or(before.filter(|_| self.foreign.is_some())).unwrap_or(now);
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
    pub(super) fn move_head(&mut self, event: &NewEvent) {
        if kind::moves_head(&event.envelope().kind) {
            self.leaf = Some(event.id().as_str().to_owned());
            self.head_is_empty = false;
        }
    }

    /// Writes the row back.
    pub(super) fn save(&self, db: &Connection, now: Timestamp) -> Result<()> {
        let updated_at = self.updated_at.unwrap_or(now);
        set(
            db,
            SAVE,
            params![
                self.key,
                self.event_count.cast_signed(),
                self.payload_bytes,
                self.head_hash.0,
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
        Ok(())
    }
}

/// A conversation's row as one value, but for its key and whose sub-agent it is.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Whole {
    pub event_count: u64,
    pub head_hash: Digest,
    columns: Vec<Value>,
}

impl Whole {
    /// What someone gave it, and neither its events nor its base state tell: the title, and of what it is a fork.
    pub(super) fn given(&self) -> Vec<&Value> {
        GIVEN.iter().filter_map(|column| self.columns.get(*column)).collect()
    }
}

/// The row of a conversation.
pub(super) fn whole(db: &Connection, key: i64) -> Result<Whole> {
    db.prepare_cached(WHOLE)
        .and_then(|mut statement| {
            statement.query_row([key], |row| {
                let hash: [u8; 32] = row.get(1)?;
                let columns = (2..WHOLE_COLUMNS).map(|column| row.get(column)).collect::<Result<_, _>>()?;
                let event_count = row.get::<_, i64>(0)?.cast_unsigned();
                Ok(Whole { event_count, head_hash: Digest(hash), columns })
            })
        })
        .doing("reading a conversation's row")
}

/// What someone gave a conversation here and nothing else knows: it is not what it ever was where a copy comes from.
#[derive(Debug, Clone, Copy)]
pub(super) struct OwnNames {
    pub title: bool,
    pub fork: bool,
}

/// Makes the row of a conversation that has the same events say what `whole` says, but for what is its `own`.
pub(super) fn adopt(db: &Connection, key: i64, whole: &Whole, own: OwnNames) -> Result<()> {
    let mut parameters = vec![Value::from(key)];
    parameters.extend_from_slice(&whole.columns);
    parameters.extend([Value::from(own.title), Value::from(own.fork)]);
    set(db, ADOPT, rusqlite::params_from_iter(parameters))
}

/// The start of a user message in one line.
pub(super) fn first_message(envelope: &Envelope, payload: &str) -> Option<String> {
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

/// The key of `id`.
///
/// # Errors
/// [`Error::UnknownConversation`] where there is none.
pub(super) fn key(db: &Connection, id: &ConversationId) -> Result<i64> {
    find(db, id)?.ok_or_else(|| Error::UnknownConversation { conversation: id.to_string() })
}

/// The key of a conversation, if it is here.
pub(super) fn find(db: &Connection, id: &ConversationId) -> Result<Option<i64>> {
    db.prepare_cached(KEY)
        .and_then(|mut statement| statement.query_row([id.as_str()], |row| row.get(0)).optional())
        .doing("looking for a conversation")
}

/// The id of the conversation with that key.
pub(super) fn id(db: &Connection, key: i64) -> Result<String> {
    db.prepare_cached(ID)
        .and_then(|mut statement| statement.query_row([key], |row| row.get(0)))
        .doing("looking for a conversation")
}

/// Sets HEAD; `None` with `head_is_empty` stands before everything.
pub(super) fn set_head(db: &Connection, key: i64, leaf: Option<&str>, head_is_empty: bool) -> Result<()> {
    set(db, SET_HEAD, params![key, leaf, head_is_empty])
}

/// Sets the status, as the base state tells it.
pub(super) fn set_status(db: &Connection, key: i64, status: &str) -> Result<()> {
    set(db, SET_STATUS, params![key, status])
}

/// Sets the tags, a JSON object.
pub(super) fn set_tags(db: &Connection, key: i64, tags: &str) -> Result<()> {
    change::replaced(db, key, &[Subject::Tags], || set(db, SET_TAGS, params![key, tags]))
}

/// Sets the title that someone gave; `None` takes it away.
pub(super) fn set_title(db: &Connection, key: i64, title: Option<&str>) -> Result<()> {
    change::replaced(db, key, &[Subject::Title], || set(db, SET_TITLE, params![key, title]))
}

/// Makes the conversation a sub-agent's of `parent`; leaves it as it is where that one is not here, or is below it.
pub(super) fn set_parent(db: &Connection, key: i64, parent: &ConversationId) -> Result<()> {
    change::replaced(db, key, &[Subject::Parent], || set(db, SET_PARENT, params![key, parent.as_str()]))
}

/// Says which conversation this one is a fork of, and at which event.
pub(super) fn set_fork(db: &Connection, key: i64, from: &str, at: Option<&str>) -> Result<()> {
    change::replaced(db, key, &[Subject::Fork], || set(db, SET_FORK, params![key, from, at]))
}

/// Makes the conversation a copy of another program's log of this format: nothing can be appended to it.
pub(super) fn set_foreign(db: &Connection, key: i64, format: &str) -> Result<()> {
    change::replaced(db, key, &[Subject::Foreign], || set(db, SET_FOREIGN, params![key, format]))
}

/// Sets when the conversation began, where something knows better than its first event.
pub(super) fn set_created(db: &Connection, key: i64, at: Timestamp) -> Result<()> {
    change::replaced(db, key, &[Subject::Created], || set(db, SET_CREATED, params![key, at.0]))
}

/// Shows title, first message and tags to `edit`, and puts what it answers in their place.
pub(super) fn edit(db: &Connection, key: i64, edit: Edit<'_>) -> Result<()> {
    let texts: [Option<String>; 3] = db
        .prepare_cached(TEXTS)
        .and_then(|mut s| s.query_row([key], |row| Ok([row.get(0)?, row.get(1)?, row.get(2)?])))
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

/// Whether the start of a first user message is known.
pub(super) fn has_first_message(db: &Connection, key: i64) -> Result<bool> {
    db.prepare_cached(HAS_FIRST_MESSAGE)
        .and_then(|mut statement| statement.exists([key]))
        .doing("reading a conversation's row")
}

/// Sets the start of the first user message anew.
pub(super) fn set_first_message(db: &Connection, key: i64, line: Option<&str>) -> Result<()> {
    set(db, SET_FIRST_MESSAGE, params![key, line])
}

/// Counts the payloads' bytes anew.
pub(super) fn count_bytes(db: &Connection, key: i64) -> Result<()> {
    set(db, COUNT_BYTES, [key])
}

/// Deletes the row; everything that refers to it must be gone. Its sub-agents' conversations stay.
pub(super) fn delete(db: &Connection, key: i64) -> Result<()> {
    for child in related::children(db, key)? {
        change::replaced(db, child, &[Subject::Parent], || set(db, ORPHAN, [child]))?;
    }
    set(db, DELETE, [key])
}
