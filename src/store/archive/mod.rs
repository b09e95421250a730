//! Tables `archive_dictionary`, `archive_source`, `archived_conversation` and `archived_payload`: payloads
//! that nobody is expected to read soon, compressed.
//!
//! An archived conversation is listed, counted, searched, verified and exported as before, byte for byte;
//! every reader of payloads asks [`read::Payloads`]. In the table `event` a stub stands in a payload's place, so
//! that other programs find JSON there. The dictionary that makes small payloads small holds pieces of those
//! it was taught from: when one of these has to go for good, what uses the dictionary is compressed anew
//! with another one.

mod dictionary;
pub(super) mod read;
mod shown;
mod views;
mod write;

use rusqlite::Connection;

pub(super) use read::Payloads;
pub(super) use shown::{Shown, whole_call, whole_line};
pub(super) use views::show_whole;
pub(super) use write::{cut, forget, leave, renew_stale};

use super::admin::{self, ActKind, NewAct};
use super::engine::Doing as _;
use super::{Store, catalogue};
use crate::error::Result;
use crate::ids::{ConversationId, Timestamp};
use dictionary::{Lesson, SERVED_BYTES_MAX};
use write::{pack, unpack};

/// What stands in the place of an archived payload.
pub(super) const STUB: &str = r#"{"annals":"archived"}"#;

/// The function that the views of [`show_whole`] decompress with; no query may call it by itself.
pub(super) const UNARCHIVED: &str = "unarchived_payload";

/// So many payload bytes are archived in one transaction, unless a single conversation has more: 4 MiB.
const TRANSACTION_BYTES: u64 = 4 << 20;

const DOING: &str = "archiving";

const IS_ARCHIVED: &str = "SELECT 1 FROM archived_conversation WHERE conversation = ?1";
const LAST_IS_FRESH: &str = "SELECT 1 FROM (SELECT position FROM event WHERE conversation = ?1 \
     ORDER BY sequence DESC LIMIT 1) AS e WHERE NOT EXISTS (SELECT 1 FROM archived_payload AS p \
     WHERE p.position = e.position)";
const SIZES: &str = "SELECT count(*), coalesce(sum(p.bytes), 0), coalesce(sum(octet_length(p.content)), 0) \
     FROM archived_payload AS p JOIN event AS e ON e.position = p.position WHERE e.conversation = ?1";

/// What archiving did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ArchiveReport {
    /// How many conversations were archived; those that were already, whole, are not counted.
    pub conversations: u64,
    /// How many of their events.
    pub events: u64,
    /// Their payloads' size, in bytes.
    pub payload_bytes: u64,
    /// The same compressed.
    pub stored_bytes: u64,
    /// The size of new dictionaries, in bytes; 0 where there was too little to learn from, or one that is
    /// there already does as well.
    pub dictionary_bytes: u64,
}

/// What is archived of a conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Archived {
    /// How many of its events.
    pub events: u64,
    /// Their payloads' size, in bytes.
    pub payload_bytes: u64,
    /// The same compressed, without the dictionary.
    pub stored_bytes: u64,
}

/// How far archiving is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ArchiveProgress {
    /// Conversations done.
    pub conversations: u64,
    /// Payload bytes compressed.
    pub payload_bytes: u64,
}

impl Store {
    /// Compresses the payloads of `conversations`, with a dictionary that is taught from them. They stay
    /// listed, searchable and exact, and reading them costs the time to decompress. Each is archived in one
    /// transaction, small ones several together; [`Store::vacuum`] gives the room back.
    ///
    /// What was appended since a conversation was archived is compressed when it is archived again. To other
    /// programs an archived payload is a stub: views of what is read from payloads show NULL, the
    /// transcript's text is "".
    ///
    /// # Errors
    /// [`UnknownConversation`](crate::Error::UnknownConversation), and what writing can meet. What was
    /// archived before the failure stays archived.
    pub fn archive(
        &self,
        conversations: &[ConversationId],
        reason: Option<&str>,
        progress: &mut dyn FnMut(ArchiveProgress),
    ) -> Result<ArchiveReport> {
        self.catch_up()?;
        let mut report = ArchiveReport::default();
        let mut left = Vec::new();
        for id in conversations {
            if self.read(|db| has_fresh(db, catalogue::key(db, id)?))? {
                left.push(id.clone());
            }
        }
        for group in self.groups(&left)? {
            self.archive_group(group, reason, &mut report, progress)?;
        }
        Ok(report)
    }

    /// The conversations in groups that one dictionary may serve.
    fn groups<'a>(&self, conversations: &'a [ConversationId]) -> Result<Vec<&'a [ConversationId]>> {
        let mut groups = Vec::new();
        let (mut first, mut bytes) = (0, 0);
        for (index, id) in conversations.iter().enumerate() {
            let more =
                self.read(|db| Ok(catalogue::Entry::load(db, id)?.map_or(0, |entry| entry.payload_bytes())))?;
            if index > first && bytes + more > SERVED_BYTES_MAX {
                groups.push(&conversations[first..index]);
                (first, bytes) = (index, 0);
            }
            bytes += more;
        }
        groups.push(&conversations[first..]);
        Ok(groups)
    }

    fn archive_group(
        &self,
        conversations: &[ConversationId],
        reason: Option<&str>,
        report: &mut ArchiveReport,
        progress: &mut dyn FnMut(ArchiveProgress),
    ) -> Result<()> {
        let mut lesson = self.snapshot(|db| Lesson::learn(db, conversations))?;
        let mut left = conversations;
        while !left.is_empty() {
            // Several small ones in one transaction: the disk is what takes long.
            let done = self.overwrite(|db| {
                let (mut done, mut bytes) = (Vec::new(), 0);
                for id in left {
                    let packed = pack(db, catalogue::key(db, id)?, &mut lesson, conversations)?;
                    if packed.events > 0 {
                        self.note(db, ActKind::Archive, id, reason, &packed)?;
                    }
                    bytes += packed.payload_bytes;
                    done.push(packed);
                    if bytes >= TRANSACTION_BYTES {
                        break;
                    }
                }
                Ok(done)
            })?;
            left = &left[done.len()..];
            for packed in done {
                report.conversations += u64::from(packed.events > 0);
                report.events += packed.events;
                report.payload_bytes += packed.payload_bytes;
                report.stored_bytes += packed.stored_bytes;
            }
            progress(ArchiveProgress {
                conversations: report.conversations,
                payload_bytes: report.payload_bytes,
            });
        }
        report.dictionary_bytes += lesson.saved_bytes();
        Ok(())
    }

    /// Decompresses a conversation's payloads into the log again; answers how many. 0 where it was not
    /// archived.
    ///
    /// # Errors
    /// [`UnknownConversation`](crate::Error::UnknownConversation), and what writing can meet.
    pub fn unarchive(&self, conversation: &ConversationId, reason: Option<&str>) -> Result<u64> {
        self.catch_up()?;
        self.overwrite(|db| {
            let key = catalogue::key(db, conversation)?;
            let unpacked = unpack(db, key)?;
            if unpacked.events > 0 {
                self.note(db, ActKind::Unarchive, conversation, reason, &unpacked)?;
            }
            Ok(unpacked.events)
        })
    }

    /// Whether a conversation is archived.
    ///
    /// # Errors
    /// [`UnknownConversation`](crate::Error::UnknownConversation).
    pub fn is_archived(&self, conversation: &ConversationId) -> Result<bool> {
        self.read(|db| is_archived(db, catalogue::key(db, conversation)?))
    }

    /// How much of a conversation is archived.
    ///
    /// # Errors
    /// [`UnknownConversation`](crate::Error::UnknownConversation).
    pub fn archived(&self, conversation: &ConversationId) -> Result<Archived> {
        self.snapshot(|db| sizes(db, catalogue::key(db, conversation)?))
    }

    fn note(
        &self,
        db: &Connection,
        act: ActKind,
        id: &ConversationId,
        reason: Option<&str>,
        packed: &Archived,
    ) -> Result<()> {
        let detail = serde_json::json!({
            "events": packed.events,
            "payload_bytes": packed.payload_bytes,
            "stored_bytes": packed.stored_bytes,
        });
        let act = NewAct { act, conversation: Some(id.as_str()), reason, detail, receipts: &[] };
        admin::write(db, &self.0.options.actor, &act, Timestamp::now()).map(drop)
    }
}

/// Whether the conversation is archived.
pub(super) fn is_archived(db: &Connection, conversation: i64) -> Result<bool> {
    db.prepare_cached(IS_ARCHIVED)
        .and_then(|mut statement| statement.exists([conversation]))
        .doing("looking for an archive")
}

/// Whether the conversation has payloads that are not archived: new ones stand behind those that are.
fn has_fresh(db: &Connection, conversation: i64) -> Result<bool> {
    db.prepare_cached(LAST_IS_FRESH)
        .and_then(|mut statement| statement.exists([conversation]))
        .doing("looking for an archive")
}

/// How much of a conversation is archived.
pub(super) fn sizes(db: &Connection, conversation: i64) -> Result<Archived> {
    db.prepare_cached(SIZES)
        .and_then(|mut statement| {
            statement.query_row([conversation], |row| {
                Ok(Archived {
                    events: row.get::<_, i64>(0)?.cast_unsigned(),
                    payload_bytes: row.get::<_, i64>(1)?.cast_unsigned(),
                    stored_bytes: row.get::<_, i64>(2)?.cast_unsigned(),
                })
            })
        })
        .doing("measuring an archive")
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
