//! Dictionaries that zstd is trained with, and the conversations that each was trained on.
//!
//! A dictionary holds pieces of its samples. Further conversations use an existing dictionary if it is as good as a new
//! one, unless so many payloads use it that removing one of its sources would take long.

use rusqlite::{Connection, OptionalExtension as _, params};
use zstd::bulk::Compressor;

use super::read::Payloads;
use super::write::{broken, dictionary_of, each};
use super::{DOING, keys, run};
use crate::error::Result;
use crate::ids::ConversationId;
use crate::store::engine::WhileDoing as _;
use crate::store::table::{admin, catalogue};

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

/// zstd's level. It is high because an archived payload is written once.
const LEVEL: i32 = 12;

/// The size of the largest dictionary, in bytes, as zstd recommends.
const DICTIONARY_BYTES_MAX: usize = 110 << 10;

/// A dictionary smaller than this is of no use.
const DICTIONARY_BYTES_MIN: usize = 4 << 10;

/// The most bytes of samples for one dictionary: a hundred times its own size, as zstd recommends.
const SAMPLES_BYTES_MAX: usize = 100 * DICTIONARY_BYTES_MAX;

/// The most bytes of samples from one conversation. It leaves room for the other conversations.
const CONVERSATION_BYTES_MAX: usize = SAMPLES_BYTES_MAX / 8;

/// The longest sample, in bytes. Longer payloads compress well without a dictionary.
const SAMPLE_BYTES_MAX: usize = 16 << 10;

/// The number of sample bytes that a dictionary is tried on.
const TRIAL_BYTES: usize = 1 << 20;

/// Up to this many bytes of samples, dictionaries of several sizes are tried.
const FEW_SAMPLES_BYTES: usize = 2 << 20;

/// The payload bytes that one dictionary is used for: 256 MiB. If a conversation that it was trained on must be
/// removed for good, this many bytes are compressed again, which takes about ten seconds.
pub(super) const SERVED_BYTES_MAX: u64 = 256 << 20;

/// Collects samples of payloads and trains dictionaries on them.
#[derive(Default)]
pub(super) struct Teacher {
    samples: Vec<u8>,
    sizes: Vec<usize>,
    payload_bytes: u64,
    sources: Vec<i64>,
}

impl Teacher {
    /// Takes samples of a conversation. If many are archived together, not every conversation is sampled.
    pub(super) fn listen(&mut self, db: &Connection, conversation: i64) -> Result<()> {
        let mut payloads = Payloads::new(db);
        let mut sampled = 0;
        each(db, conversation, &mut |position, stored| {
            let payload = payloads.payload(position, stored)?;
            self.payload_bytes += payload.len() as u64;
            let sample = payload.as_bytes().get(..SAMPLE_BYTES_MAX).unwrap_or(payload.as_bytes());
            let room = (CONVERSATION_BYTES_MAX - sampled).min(SAMPLES_BYTES_MAX - self.samples.len());
            if sample.len() <= room {
                sampled += sample.len();
                self.samples.extend_from_slice(sample);
                self.sizes.push(sample.len());
            }
            Ok(())
        })?;
        if sampled > 0 {
            self.sources.push(conversation);
        }
        Ok(())
    }

    /// Trains a new dictionary. It is empty if no dictionary helps.
    ///
    /// Its size is at most a tenth of the samples. With few samples, a larger dictionary is not always better. Then
    /// several are made and the best is returned.
    pub(super) fn teach(&self) -> Result<Vec<u8>> {
        let bytes = DICTIONARY_BYTES_MAX.min(self.samples.len() / 10);
        let tries = if self.samples.len() <= FEW_SAMPLES_BYTES { 3 } else { 1 };
        let mut best = (self.cost(&[])?, Vec::new());
        for bytes in (0..tries).map(|halved| bytes >> halved).filter(|bytes| *bytes >= DICTIONARY_BYTES_MIN) {
            // zstd returns an error if the samples are all alike: it can learn nothing from them.
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

    /// Estimates from the samples how many bytes all payloads take with this dictionary.
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

    /// Saves a dictionary that was trained on these samples. `None` if the dictionary is empty.
    pub(super) fn save(&self, db: &Connection, dictionary: &[u8]) -> Result<Option<i64>> {
        save(db, dictionary, &self.sources)
    }
}

/// The choice of a dictionary for a group of conversations.
pub(super) struct Lesson {
    /// The key of the chosen dictionary. `None` until `new` is saved, if `new` is the choice.
    key: Option<i64>,
    /// A new dictionary. Empty if none helps.
    new: Vec<u8>,
    sources: Vec<i64>,
    /// The number of the newest act that removed something, read before any sample was taken.
    last_removal: i64,
    saved_bytes: u64,
}

impl Lesson {
    /// Chooses the better dictionary for a group: the newest stored one or a new one.
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

    /// Returns the key of the dictionary and saves it if it is new. `None` if no dictionary helps.
    ///
    /// Runs within a write transaction.
    pub(super) fn dictionary(&mut self, db: &Connection, group: &[ConversationId]) -> Result<Option<i64>> {
        if let Some(key) = self.key {
            let is_there = db.prepare_cached(IS_FRESH).and_then(|mut statement| statement.exists([key]));
            if is_there.doing(DOING)? {
                return Ok(self.key);
            }
            self.key = None;
        }
        if self.saved_bytes > 0 || self.last_removal != admin::last_removal(db)? {
            // A sample may have been redacted or erased since it was taken. No part of it may be saved.
            *self = Self::learn(db, group)?;
        }
        if self.key.is_none() {
            self.key = save(db, &self.new, &self.sources)?;
            self.saved_bytes = self.key.map_or(0, |_| self.new.len() as u64);
        }
        Ok(self.key)
    }

    /// Returns the size of the dictionary that was saved, in bytes.
    pub(super) fn saved_bytes(&self) -> u64 {
        self.saved_bytes
    }
}

/// Saves a dictionary and its sources.
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

/// Returns a compressor with this dictionary, or without one.
pub(super) fn compressor(db: &Connection, dictionary: Option<i64>) -> Result<Compressor<'static>> {
    let content: Vec<u8> = match dictionary {
        None => Vec::new(),
        Some(key) => db.query_row(LOAD, [key], |row| row.get(0)).doing(DOING)?,
    };
    Compressor::with_dictionary(LEVEL, &content).map_err(broken)
}

/// Deletes the dictionaries that no conversation uses.
pub(super) fn drop_unused(db: &Connection) -> Result<()> {
    keys(db, UNUSED, [])?.into_iter().try_for_each(|dictionary| drop_one(db, dictionary))
}

/// Deletes a dictionary.
pub(super) fn drop_one(db: &Connection, dictionary: i64) -> Result<()> {
    run(db, FORGET_SOURCES, [dictionary])?;
    run(db, DROP, [dictionary])
}
