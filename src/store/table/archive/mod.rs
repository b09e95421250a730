//! Tables `archive_dictionary`, `archive_source`, `archived_conversation` and `archived_payload`: compressed
//! payloads that are unlikely to be read soon.
//!
//! An archived conversation is listed, counted, searched, verified and exported as before, byte for byte. All
//! code that reads payloads uses [`read::Payloads`]. In the table `event` a stub replaces the payload, so that
//! other programs still find JSON there. A dictionary makes small payloads compress well. It holds pieces of the
//! payloads that it was trained on. If one of these payloads must be removed for good, everything that uses the
//! dictionary is compressed again with another one.

mod dictionary;
pub(in crate::store) mod read;
mod views;
mod write;

use rusqlite::Connection;

pub(in crate::store) use read::{Payloads, lost};
pub(in crate::store) use views::show_whole;
pub(in crate::store) use write::renew_stale;
pub(in crate::store) use write::{cut, forget, leave};

use super::admin::{self, ActKind, NewAct};
use super::catalogue;
use crate::error::Result;
use crate::ids::{ConversationId, Timestamp};
use crate::store::Retention;
use crate::store::engine::WhileDoing as _;
use dictionary::{Lesson, SERVED_BYTES_MAX};
use write::{pack, unpack};

/// The text that replaces an archived payload.
pub(in crate::store) const STUB: &str = r#"{"annals":"archived"}"#;

/// The SQL function that the views of [`show_whole`] decompress with. A query may not call it directly.
pub(in crate::store) const UNARCHIVED: &str = "unarchived_payload";

/// A transaction ends when it has archived this many payload bytes: 4 MiB.
const TRANSACTION_BYTES: u64 = 4 << 20;

const DOING: &str = "archiving";

const IS_ARCHIVED: &str = "SELECT 1 FROM archived_conversation WHERE conversation = ?1";
const LAST_IS_FRESH: &str = "SELECT 1 FROM (SELECT position FROM event WHERE conversation = ?1 \
     ORDER BY sequence DESC LIMIT 1) AS e WHERE NOT EXISTS (SELECT 1 FROM archived_payload AS p \
     WHERE p.position = e.position)";
const SIZES: &str = "SELECT count(*), coalesce(sum(p.bytes), 0), coalesce(sum(octet_length(p.content)), 0) \
     FROM archived_payload AS p JOIN event AS e ON e.position = p.position WHERE e.conversation = ?1";

/// The result of archiving.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct ArchiveReport {
    /// The number of conversations that were archived. A conversation that was fully archived before is not counted.
    pub conversations: u64,
    /// The number of their events that were archived.
    pub events: u64,
    /// The size of the payloads of these events, in bytes.
    pub payload_bytes: u64,
    /// The compressed size of these payloads, in bytes.
    pub stored_bytes: u64,
    /// The size of new dictionaries, in bytes. 0 if there were too few samples for one, or if a stored dictionary is
    /// as good.
    pub dictionary_bytes: u64,
}

/// The archived part of a conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Archived {
    /// The number of archived events.
    pub events: u64,
    /// The size of their payloads, in bytes.
    pub payload_bytes: u64,
    /// The compressed size of these payloads, without the dictionary.
    pub stored_bytes: u64,
}

/// The progress of archiving.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct ArchiveProgress {
    /// The number of conversations archived so far.
    pub conversations: u64,
    /// The number of payload bytes compressed so far.
    pub payload_bytes: u64,
}

impl Retention<'_> {
    /// Compresses the payloads of `conversations`, with a dictionary that is trained on them.
    ///
    /// The conversations stay listed, searchable and exact, but reading them costs the time to decompress. Each
    /// conversation is archived in one transaction, and small ones share one.
    /// [`Maintenance::vacuum`](crate::store::Maintenance::vacuum) frees the space.
    ///
    /// Events that were appended after a conversation was archived are compressed when it is archived again. Other
    /// programs see a stub as an archived payload: views show NULL for values that come from payloads, and the
    /// transcript's text is "".
    ///
    /// # Errors
    /// [`UnknownConversation`](crate::Error::UnknownConversation), and any error of writing the file.
    /// Conversations that were archived before the failure stay archived.
    pub fn archive(
        &self,
        conversations: &[ConversationId],
        reason: Option<&str>,
        progress: &mut dyn FnMut(ArchiveProgress),
    ) -> Result<ArchiveReport> {
        self.store.catch_up()?;
        let mut report = ArchiveReport::default();
        let mut left = Vec::new();
        for id in conversations {
            if self.store.read(|db| has_fresh(db, catalogue::key(db, id)?))? {
                left.push(id.clone());
            }
        }
        for group in self.groups(&left)? {
            self.archive_group(group, reason, &mut report, progress)?;
        }
        Ok(report)
    }

    /// Splits the conversations into groups that one dictionary may be used for.
    fn groups<'a>(&self, conversations: &'a [ConversationId]) -> Result<Vec<&'a [ConversationId]>> {
        let mut groups = Vec::new();
        let (mut first, mut bytes) = (0, 0);
        for (index, id) in conversations.iter().enumerate() {
            let more = self
                .store
                .read(|db| Ok(catalogue::Entry::load(db, id)?.map_or(0, |entry| entry.payload_bytes())))?;
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
        let mut lesson = self.store.snapshot(|db| Lesson::learn(db, conversations))?;
        let mut left = conversations;
        while !left.is_empty() {
            // Small conversations share a transaction, because a commit's disk access takes most of the time.
            let done = self.store.overwrite(|db| {
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

    /// Decompresses a conversation's payloads into the log again. Returns how many: 0 if it was not archived.
    ///
    /// # Errors
    /// [`UnknownConversation`](crate::Error::UnknownConversation), and any error of writing the file.
    pub fn unarchive(&self, conversation: &ConversationId, reason: Option<&str>) -> Result<u64> {
        self.store.catch_up()?;
        self.store.overwrite(|db| {
            let key = catalogue::key(db, conversation)?;
            let unpacked = unpack(db, key)?;
            if unpacked.events > 0 {
                self.note(db, ActKind::Unarchive, conversation, reason, &unpacked)?;
            }
            Ok(unpacked.events)
        })
    }

    /// Returns whether a conversation is archived.
    ///
    /// # Errors
    /// [`UnknownConversation`](crate::Error::UnknownConversation).
    pub fn is_archived(&self, conversation: &ConversationId) -> Result<bool> {
        self.store.read(|db| is_archived(db, catalogue::key(db, conversation)?))
    }

    /// Returns how much of a conversation is archived.
    ///
    /// # Errors
    /// [`UnknownConversation`](crate::Error::UnknownConversation).
    pub fn archived(&self, conversation: &ConversationId) -> Result<Archived> {
        self.store.snapshot(|db| sizes(db, catalogue::key(db, conversation)?))
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
        admin::write(db, &self.store.0.options.actor, &act, Timestamp::now()).map(drop)
    }
}

/// Returns whether the conversation is archived.
pub(in crate::store) fn is_archived(db: &Connection, conversation: i64) -> Result<bool> {
    db.prepare_cached(IS_ARCHIVED)
        .and_then(|mut statement| statement.exists([conversation]))
        .doing("looking for an archive")
}

/// Returns whether the conversation has payloads that are not archived.
///
/// It is enough to check the last event, because new events come after the archived ones.
fn has_fresh(db: &Connection, conversation: i64) -> Result<bool> {
    db.prepare_cached(LAST_IS_FRESH)
        .and_then(|mut statement| statement.exists([conversation]))
        .doing("looking for an archive")
}

/// Returns how much of a conversation is archived.
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
