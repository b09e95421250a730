//! Dictionaries: what zstd is taught from payloads, and which conversations taught it.
//!
//! A dictionary holds pieces of what it was taught from. Conversations go on using one that does as well as
//! a new one would, until so much depends on it that taking one of its teachers away would take long.

use rusqlite::{Connection, OptionalExtension as _, params};
use zstd::bulk::Compressor;

use super::super::engine::Doing as _;
use super::super::{admin, catalogue};
use super::read::Payloads;
use super::write::{broken, dictionary_of, each};
use super::{DOING, keys, run};
use crate::error::Result;
use crate::ids::ConversationId;

const ADD: &str = "INSERT INTO archive_dictionary (content) VALUES (?1)";
const LOAD: &str = "SELECT content FROM archive_dictionary WHERE key = ?1";
const NEWEST: &str = "SELECT d.key, d.content, (SELECT coalesce(sum(c.payload_bytes), 0) \
     FROM archived_conversation AS a JOIN conversation AS c ON c.key = a.conversation WHERE a.dictionary = d.key) \
     FROM archive_dictionary AS d WHERE d.is_stale = 0 ORDER BY d.key DESC LIMIT 1";
const IS_FRESH: &str = "SELECT 1 FROM archive_dictionary WHERE key = ?1 AND is_stale = 0";
const ADD_SOURCE: &str = "INSERT OR IGNORE INTO archive_source (dictionary, conversation) VALUES (?1, ?2)";
const FORGET_SOURCES: &str = "DELETE FROM archive_source WHERE dictionary = ?1";
const UNUSED: &str = "SELECT key FROM archive_dictionary \
     WHERE key NOT IN (SELECT dictionary FROM archived_conversation WHERE dictionary IS NOT NULL)";
const DROP: &str = "DELETE FROM archive_dictionary WHERE key = ?1";

/// zstd's level: what is archived is written once.
const LEVEL: i32 = 12;

/// The largest dictionary, in bytes: what zstd recommends.
const DICTIONARY_BYTES_MAX: usize = 110 << 10;

/// A dictionary smaller than this teaches nothing.
const DICTIONARY_BYTES_MIN: usize = 4 << 10;

/// What a dictionary is taught from, in bytes: a hundred times its own size, as zstd recommends.
const SAMPLES_BYTES_MAX: usize = 100 * DICTIONARY_BYTES_MAX;

/// The most that one conversation teaches, in bytes, so that others are heard too.
const TAUGHT_BYTES_MAX: usize = SAMPLES_BYTES_MAX / 8;

/// The longest sample, in bytes: longer payloads compress well by themselves.
const SAMPLE_BYTES_MAX: usize = 16 << 10;

/// How many bytes of samples a dictionary is tried on.
const TRIAL_BYTES: usize = 1 << 20;

/// So few bytes of samples are little.
const LITTLE: usize = 2 << 20;

/// Payload bytes that one dictionary serves: 256 MiB. When something that it was taught from has to go for
/// good, so much is compressed anew, which takes some ten seconds.
pub(super) const SERVED_BYTES_MAX: u64 = 256 << 20;

/// Gathers samples of payloads.
#[derive(Default)]
pub(super) struct Teacher {
    samples: Vec<u8>,
    sizes: Vec<usize>,
    payload_bytes: u64,
    sources: Vec<i64>,
}

impl Teacher {
    /// Listens to a conversation. Where many are archived together, not all are heard.
    pub(super) fn listen(&mut self, db: &Connection, conversation: i64) -> Result<()> {
        let mut payloads = Payloads::new(db);
        let mut heard = 0;
        each(db, conversation, &mut |position, stored| {
            let payload = payloads.payload(position, stored)?;
            self.payload_bytes += payload.len() as u64;
            let sample = payload.as_bytes().get(..SAMPLE_BYTES_MAX).unwrap_or(payload.as_bytes());
            let room = (TAUGHT_BYTES_MAX - heard).min(SAMPLES_BYTES_MAX - self.samples.len());
            if sample.len() <= room {
                heard += sample.len();
                self.samples.extend_from_slice(sample);
                self.sizes.push(sample.len());
            }
            Ok(())
        })?;
        if heard > 0 {
            self.sources.push(conversation);
        }
        Ok(())
    }

    /// A new dictionary: a tenth of what there is to save at most. Empty where none helps.
    ///
    /// Of little, a larger dictionary is not always a better one: there, several are made and one is chosen.
    pub(super) fn teach(&self) -> Result<Vec<u8>> {
        let bytes = DICTIONARY_BYTES_MAX.min(self.samples.len() / 10);
        let tries = if self.samples.len() <= LITTLE { 3 } else { 1 };
        let mut best = (self.cost(&[])?, Vec::new());
        for bytes in (0..tries).map(|halved| bytes >> halved).filter(|bytes| *bytes >= DICTIONARY_BYTES_MIN) {
            // Samples that are all alike teach nothing; zstd says so by an error.
            let Ok(dictionary) = zstd::dict::from_continuous(&self.samples, &self.sizes, bytes) else {
                break;
            };
            let cost = self.cost(&dictionary)? + dictionary.len() as u64;
            if cost < best.0 {
                best = (cost, dictionary);
            }
        }
        Ok(best.1)
    }

    /// How many bytes the payloads would take with a dictionary, as far as the samples tell.
    fn cost(&self, dictionary: &[u8]) -> Result<u64> {
        let mut compressor = Compressor::with_dictionary(LEVEL, dictionary).map_err(broken)?;
        let (mut tried, mut compressed, mut at) = (0, 0, 0);
        let every = (self.samples.len() / TRIAL_BYTES).max(1);
        for (index, size) in self.sizes.iter().enumerate() {
            if index % every == 0 {
                tried += *size as u64;
                let sample = &self.samples[at..at + size];
                compressed += compressor.compress(sample).map_err(broken)?.len() as u64;
            }
            at += size;
        }
        Ok(compressed.saturating_mul(self.payload_bytes) / tried.max(1))
    }

    /// Writes down a dictionary that it has taught; `None` where that is empty.
    pub(super) fn save(&self, db: &Connection, dictionary: &[u8]) -> Result<Option<i64>> {
        save(db, dictionary, &self.sources)
    }
}

/// What was learnt for a group of conversations.
pub(super) struct Lesson {
    /// A dictionary that does; where there is none yet, `new` does once it is written down.
    key: Option<i64>,
    /// A new one; empty where there was too little to learn from.
    new: Vec<u8>,
    sources: Vec<i64>,
    /// The newest act that took something out, before anything was heard.
    last_removal: i64,
    saved_bytes: u64,
}

impl Lesson {
    /// Finds out what is best for a group: the newest dictionary that is there, or a new one.
    pub(super) fn learn(db: &Connection, group: &[ConversationId]) -> Result<Self> {
        let last_removal = admin::last_removal(db)?;
        let mut teacher = Teacher::default();
        for id in group {
            let key = catalogue::key(db, id)?;
            if dictionary_of(db, key)?.flatten().is_none() {
                teacher.listen(db, key)?;
            }
        }
        let new = teacher.teach()?;
        let newest: Option<(i64, Vec<u8>, i64)> = db
            .prepare_cached(NEWEST)
            .and_then(|mut statement| {
                statement.query_row([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?))).optional()
            })
            .doing(DOING)?;
        let key = match newest {
            Some((key, known, served))
                if served.cast_unsigned() < SERVED_BYTES_MAX
                    && teacher.cost(&known)? <= teacher.cost(&new)? + new.len() as u64 =>
            {
                Some(key)
            }
            _ => None,
        };
        Ok(Self { key, new, sources: teacher.sources, last_removal, saved_bytes: 0 })
    }

    /// The key of the dictionary, written down if it is new; `None` where none helps. Runs within a write
    /// transaction.
    pub(super) fn dictionary(&mut self, db: &Connection, group: &[ConversationId]) -> Result<Option<i64>> {
        if let Some(key) = self.key {
            let is_there = db.prepare_cached(IS_FRESH).and_then(|mut statement| statement.exists([key]));
            if is_there.doing(DOING)? {
                return Ok(self.key);
            }
            self.key = None;
        }
        if self.saved_bytes > 0 || self.last_removal != admin::last_removal(db)? {
            // What was heard may have been redacted or erased since: nothing of it may be written down.
            *self = Self::learn(db, group)?;
        }
        if self.key.is_none() {
            self.key = save(db, &self.new, &self.sources)?;
            self.saved_bytes = self.key.map_or(0, |_| self.new.len() as u64);
        }
        Ok(self.key)
    }

    /// The size of a dictionary that was written down, in bytes.
    pub(super) fn saved_bytes(&self) -> u64 {
        self.saved_bytes
    }
}

/// Writes a dictionary down.
fn save(db: &Connection, dictionary: &[u8], sources: &[i64]) -> Result<Option<i64>> {
    if dictionary.is_empty() {
        return Ok(None);
    }
    db.execute(ADD, [dictionary]).doing(DOING)?;
    let key = db.last_insert_rowid();
    for source in sources {
        run(db, ADD_SOURCE, params![key, source])?;
    }
    Ok(Some(key))
}

/// What compresses with a dictionary.
pub(super) fn compressor(db: &Connection, dictionary: Option<i64>) -> Result<Compressor<'static>> {
    let content: Vec<u8> = match dictionary {
        None => Vec::new(),
        Some(key) => db.query_row(LOAD, [key], |row| row.get(0)).doing(DOING)?,
    };
    Compressor::with_dictionary(LEVEL, &content).map_err(broken)
}

/// Deletes dictionaries that nothing is compressed with.
pub(super) fn drop_unused(db: &Connection) -> Result<()> {
    keys(db, UNUSED, [])?.into_iter().try_for_each(|dictionary| drop_one(db, dictionary))
}

/// Deletes a dictionary.
pub(super) fn drop_one(db: &Connection, dictionary: i64) -> Result<()> {
    run(db, FORGET_SOURCES, [dictionary])?;
    run(db, DROP, [dictionary])
}
