//! Compressing and decompressing, and the dictionaries that both need.

use rusqlite::{Connection, OptionalExtension as _, params};
use zstd::bulk::Compressor;

use super::super::engine::Doing as _;
use super::super::log;
use super::read::Payloads;
use super::{Packed, STUB, sizes};
use crate::error::{Error, Result};
use crate::ids::Timestamp;

const PAGE: &str = "SELECT position, sequence, payload FROM event \
     WHERE conversation = ?1 AND sequence >= ?2 ORDER BY sequence LIMIT 256";
const ARCHIVED: &str = "SELECT p.position FROM archived_payload AS p JOIN event AS e ON e.position = p.position \
     WHERE e.conversation = ?1 ORDER BY p.position";
const PUT: &str = "INSERT INTO archived_payload (position, bytes, content) VALUES (?1, ?2, ?3)";
const CHANGE: &str = "UPDATE archived_payload SET content = ?2 WHERE position = ?1";
const TAKE: &str = "DELETE FROM archived_payload WHERE position IN \
     (SELECT position FROM event WHERE conversation = ?1)";
const CUT: &str = "DELETE FROM archived_payload WHERE position IN \
     (SELECT position FROM event WHERE conversation = ?1 AND sequence >= ?2)";
const BEGIN: &str =
    "INSERT INTO archived_conversation (conversation, dictionary, archived_at) VALUES (?1, ?2, ?3)";
const END: &str = "DELETE FROM archived_conversation WHERE conversation = ?1";
const DICTIONARY_OF: &str = "SELECT dictionary FROM archived_conversation WHERE conversation = ?1";
const SET_DICTIONARY: &str = "UPDATE archived_conversation SET dictionary = ?2 WHERE conversation = ?1";
const USERS: &str = "SELECT conversation FROM archived_conversation WHERE dictionary = ?1";
const ADD_DICTIONARY: &str = "INSERT INTO archive_dictionary (content) VALUES (?1)";
const LOAD_DICTIONARY: &str = "SELECT content FROM archive_dictionary WHERE key = ?1";
const ADD_SOURCE: &str = "INSERT OR IGNORE INTO archive_source (dictionary, conversation) VALUES (?1, ?2)";
const TAUGHT_BY: &str = "SELECT dictionary FROM archive_source WHERE conversation = ?1";
const FORGET_SOURCES: &str = "DELETE FROM archive_source WHERE dictionary = ?1";
const FORGET_SOURCE: &str = "DELETE FROM archive_source WHERE conversation = ?1";
const MARK_STALE: &str = "UPDATE archive_dictionary SET is_stale = 1 \
     WHERE key IN (SELECT dictionary FROM archive_source WHERE conversation = ?1)";
const STALE: &str = "SELECT key FROM archive_dictionary WHERE is_stale = 1";
const UNUSED: &str = "SELECT key FROM archive_dictionary \
     WHERE key NOT IN (SELECT dictionary FROM archived_conversation WHERE dictionary IS NOT NULL)";
const DROP_DICTIONARY: &str = "DELETE FROM archive_dictionary WHERE key = ?1";

/// zstd's level: what is archived is written once.
const LEVEL: i32 = 12;

/// The largest dictionary, in bytes: what zstd recommends.
const DICTIONARY_BYTES_MAX: usize = 110 << 10;

/// A dictionary smaller than this teaches nothing.
const DICTIONARY_BYTES_MIN: usize = 4 << 10;

/// How many times its own size a dictionary is taught from.
const SAMPLES: usize = 100;

/// The longest sample, in bytes: longer payloads compress well by themselves.
const SAMPLE_BYTES_MAX: usize = 16 << 10;

const DOING: &str = "archiving";

/// Gathers samples of payloads.
#[derive(Default)]
pub(super) struct Teacher {
    samples: Vec<u8>,
    sizes: Vec<usize>,
    payload_bytes: usize,
    sources: Vec<i64>,
}

/// What was learnt.
pub(super) struct Lesson {
    /// Empty where there was too little to learn from.
    pub dictionary: Vec<u8>,
    sources: Vec<i64>,
}

impl Teacher {
    /// Listens to a conversation. Where many are archived together, each is heard only in part.
    pub(super) fn listen(&mut self, db: &Connection, conversation: i64) -> Result<()> {
        self.sources.push(conversation);
        let mut payloads = Payloads::new(db);
        let mut heard = 0;
        each(db, conversation, &mut |position, stored| {
            let payload = payloads.payload(position, stored)?;
            self.payload_bytes += payload.len();
            let sample = payload.as_bytes().get(..SAMPLE_BYTES_MAX).unwrap_or(payload.as_bytes());
            let room = (SAMPLES * DICTIONARY_BYTES_MAX).saturating_sub(self.samples.len());
            // A single conversation leaves room for others.
            if sample.len() <= room && heard < SAMPLES * DICTIONARY_BYTES_MAX / 8 {
                heard += sample.len();
                self.samples.extend_from_slice(sample);
                self.sizes.push(sample.len());
            }
            Ok(())
        })
    }

    /// Makes the dictionary: a tenth of what there is to save at most.
    pub(super) fn teach(self) -> Lesson {
        let bytes = DICTIONARY_BYTES_MAX.min(self.samples.len() / 10);
        // Samples that are all alike teach nothing; zstd says so by an error.
        let dictionary = match bytes {
            DICTIONARY_BYTES_MIN.. => zstd::dict::from_continuous(&self.samples, &self.sizes, bytes),
            _ => Ok(Vec::new()),
        };
        Lesson { dictionary: dictionary.unwrap_or_default(), sources: self.sources }
    }
}

impl Lesson {
    /// Writes the dictionary down; `None` where there is none.
    fn save(&self, db: &Connection) -> Result<Option<i64>> {
        if self.dictionary.is_empty() {
            return Ok(None);
        }
        db.execute(ADD_DICTIONARY, [&self.dictionary]).doing(DOING)?;
        let key = db.last_insert_rowid();
        for source in &self.sources {
            run(db, ADD_SOURCE, params![key, source])?;
        }
        Ok(Some(key))
    }
}

/// Shows every payload, as the log holds it, with its position.
fn each(db: &Connection, conversation: i64, visit: &mut dyn FnMut(i64, &str) -> Result<()>) -> Result<()> {
    let mut next = 0;
    loop {
        let mut statement = db.prepare_cached(PAGE).doing(DOING)?;
        let mut rows = statement.query(params![conversation, next]).doing(DOING)?;
        let from = next;
        while let Some(row) = rows.next().doing(DOING)? {
            next = row.get::<_, i64>(1).doing(DOING)? + 1;
            visit(row.get(0).doing(DOING)?, log::text(row, 2).doing(DOING)?)?;
        }
        if next == from {
            return Ok(());
        }
    }
}

/// Compresses what is not compressed yet of a conversation. `dictionary` is that of the lesson once it is
/// written down.
pub(super) fn pack(
    db: &Connection,
    conversation: i64,
    lesson: &Lesson,
    dictionary: &mut Option<i64>,
) -> Result<Packed> {
    let mut packed = Packed::default();
    let mut fresh = Vec::new();
    let mut known = Payloads::new(db);
    each(db, conversation, &mut |position, stored| {
        if stored != STUB || known.fetch(position)?.is_none() {
            fresh.push(position);
        }
        Ok(())
    })?;
    if fresh.is_empty() {
        return Ok(packed);
    }
    let before: Option<Option<i64>> = db
        .prepare_cached(DICTIONARY_OF)
        .and_then(|mut statement| statement.query_row([conversation], |row| row.get(0)).optional())
        .doing(DOING)?;
    let own = match before {
        Some(own) => own,
        None => {
            if dictionary.is_none() {
                *dictionary = lesson.save(db)?;
            }
            run(db, BEGIN, params![conversation, *dictionary, Timestamp::now().0])?;
            *dictionary
        }
    };
    let mut compressor = compressor(db, own)?;
    log::permit(db, "archive")?;
    for position in fresh {
        let payload: String = db
            .query_row("SELECT payload FROM event WHERE position = ?1", [position], |row| row.get(0))
            .doing(DOING)?;
        let content = compressor.compress(payload.as_bytes()).map_err(broken)?;
        run(db, PUT, params![position, payload.len() as i64, content])?;
        log::put(db, position, STUB)?;
        packed.events += 1;
        packed.payload_bytes += payload.len() as u64;
        packed.stored_bytes += content.len() as u64;
    }
    log::forbid(db)?;
    Ok(packed)
}

/// Decompresses everything of a conversation.
pub(super) fn unpack(db: &Connection, conversation: i64) -> Result<Packed> {
    let unpacked = sizes(db, conversation)?;
    if !super::is_archived(db, conversation)? {
        return Ok(unpacked);
    }
    let mut payloads = Payloads::new(db);
    log::permit(db, "unarchive")?;
    for position in positions(db, conversation)? {
        if let Some(payload) = payloads.fetch(position)? {
            log::put(db, position, &payload)?;
        }
    }
    log::forbid(db)?;
    run(db, TAKE, [conversation])?;
    run(db, END, [conversation])?;
    drop_unused(db)?;
    Ok(unpacked)
}

/// Takes a conversation out of every archive for good: it is decompressed, and nothing that a dictionary was
/// taught from it stays.
pub(in super::super) fn leave(db: &Connection, conversation: i64) -> Result<()> {
    unpack(db, conversation)?;
    for dictionary in keys(db, TAUGHT_BY, [conversation])? {
        renew(db, dictionary, Some(conversation))?;
    }
    Ok(())
}

/// Deletes what is archived of a conversation, whose events must still be there. Dictionaries that were
/// taught from it are stale from then on.
pub(in super::super) fn forget(db: &Connection, conversation: i64) -> Result<()> {
    run(db, TAKE, [conversation])?;
    run(db, END, [conversation])?;
    run(db, MARK_STALE, [conversation])?;
    run(db, FORGET_SOURCE, [conversation])?;
    drop_unused(db)
}

/// Deletes what is archived of the events behind the first `length`, which must still be there.
pub(in super::super) fn cut(db: &Connection, conversation: i64, length: u64) -> Result<()> {
    run(db, CUT, params![conversation, length.cast_signed()])
}

/// Renews every stale dictionary.
pub(in super::super) fn renew_stale(db: &Connection) -> Result<()> {
    for dictionary in keys(db, STALE, [])? {
        renew(db, dictionary, None)?;
    }
    Ok(())
}

/// Compresses what uses a dictionary anew, with one that is taught from nothing else.
fn renew(db: &Connection, dictionary: i64, but: Option<i64>) -> Result<()> {
    let users = keys(db, USERS, [dictionary])?;
    let mut teacher = Teacher::default();
    for user in users.iter().filter(|user| Some(**user) != but) {
        teacher.listen(db, *user)?;
    }
    let next = teacher.teach().save(db)?;
    let mut compressor = compressor(db, next)?;
    for user in users {
        let mut payloads = Payloads::new(db);
        for position in positions(db, user)? {
            if let Some(payload) = payloads.fetch(position)? {
                let content = compressor.compress(payload.as_bytes()).map_err(broken)?;
                run(db, CHANGE, params![position, content])?;
            }
        }
        run(db, SET_DICTIONARY, params![user, next])?;
    }
    drop_dictionary(db, dictionary)
}

fn drop_unused(db: &Connection) -> Result<()> {
    for dictionary in keys(db, UNUSED, [])? {
        drop_dictionary(db, dictionary)?;
    }
    Ok(())
}

fn drop_dictionary(db: &Connection, dictionary: i64) -> Result<()> {
    run(db, FORGET_SOURCES, [dictionary])?;
    run(db, DROP_DICTIONARY, [dictionary])
}

fn positions(db: &Connection, conversation: i64) -> Result<Vec<i64>> {
    keys(db, ARCHIVED, [conversation])
}

fn keys(db: &Connection, sql: &str, parameters: impl rusqlite::Params) -> Result<Vec<i64>> {
    db.prepare_cached(sql)
        .and_then(|mut statement| statement.query_map(parameters, |row| row.get(0))?.collect())
        .doing(DOING)
}

fn run(db: &Connection, sql: &str, parameters: impl rusqlite::Params) -> Result<()> {
    db.prepare_cached(sql).and_then(|mut statement| statement.execute(parameters)).doing(DOING)?;
    Ok(())
}

fn compressor(db: &Connection, dictionary: Option<i64>) -> Result<Compressor<'static>> {
    let content: Vec<u8> = match dictionary {
        None => Vec::new(),
        Some(key) => db.query_row(LOAD_DICTIONARY, [key], |row| row.get(0)).doing(DOING)?,
    };
    Compressor::with_dictionary(LEVEL, &content).map_err(broken)
}

fn broken(error: std::io::Error) -> Error {
    Error::Storage { doing: DOING, source: error.into() }
}
