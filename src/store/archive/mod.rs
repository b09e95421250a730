//! Tables `archive_dictionary`, `archive_source`, `archived_conversation` and `archived_payload`: payloads
//! that nobody is expected to read soon, compressed.
//!
//! An archived conversation is listed, counted, searched, verified and exported as before, byte for byte;
//! every reader of payloads asks [`read::Payloads`]. In the table `event` a stub stands in a payload's place, so
//! that other programs find JSON there. The dictionary that makes small payloads small holds pieces of those
//! it was taught from: when one of these has to go for good, what uses the dictionary is compressed anew
//! with another one.

pub(super) mod read;
mod shown;
mod write;

use rusqlite::Connection;

pub(super) use read::Payloads;
pub(super) use shown::{Shown, whole_call, whole_line};
pub(super) use write::{cut, forget, leave, renew_stale};

use super::admin::{self, ActKind, NewAct};
use super::engine::Doing as _;
use super::{Store, catalogue};
use crate::error::Result;
use crate::ids::{ConversationId, Timestamp};
use write::{Teacher, pack, unpack};

/// What stands in the place of an archived payload.
pub(super) const STUB: &str = r#"{"annals":"archived"}"#;

const IS_ARCHIVED: &str = "SELECT 1 FROM archived_conversation WHERE conversation = ?1";
const SIZES: &str = "SELECT count(*), coalesce(sum(p.bytes), 0), coalesce(sum(octet_length(p.content)), 0) \
     FROM archived_payload AS p JOIN event AS e ON e.position = p.position WHERE e.conversation = ?1";

/// What archiving did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ArchiveReport {
    /// How many conversations were archived; those that were already are not counted.
    pub conversations: u64,
    /// How many of their events.
    pub events: u64,
    /// Their payloads' size, in bytes.
    pub payload_bytes: u64,
    /// The same compressed.
    pub stored_bytes: u64,
    /// The dictionary's size, in bytes; 0 where there was too little to learn from.
    pub dictionary_bytes: u64,
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
    /// listed, searchable and exact, and reading them costs the time to decompress. One transaction a
    /// conversation; [`Store::vacuum`] gives the room back.
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
        let mut teacher = Teacher::default();
        for id in conversations {
            self.snapshot(|db| teacher.listen(db, catalogue::key(db, id)?))?;
        }
        let lesson = teacher.teach();
        let mut report = ArchiveReport::default();
        let mut dictionary = None;
        for id in conversations {
            let packed = self.overwrite(|db| {
                let key = catalogue::key(db, id)?;
                let packed = pack(db, key, &lesson, &mut dictionary)?;
                if packed.events > 0 {
                    self.note(db, ActKind::Archive, id, reason, &packed)?;
                }
                Ok(packed)
            })?;
            report.conversations += u64::from(packed.events > 0);
            report.events += packed.events;
            report.payload_bytes += packed.payload_bytes;
            report.stored_bytes += packed.stored_bytes;
            progress(ArchiveProgress {
                conversations: report.conversations,
                payload_bytes: report.payload_bytes,
            });
        }
        if dictionary.is_some() {
            report.dictionary_bytes = lesson.dictionary.len() as u64;
        }
        Ok(report)
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

    fn note(
        &self,
        db: &Connection,
        act: ActKind,
        id: &ConversationId,
        reason: Option<&str>,
        packed: &Packed,
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

/// What was compressed or decompressed of one conversation.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Packed {
    pub events: u64,
    pub payload_bytes: u64,
    pub stored_bytes: u64,
}

/// Whether the conversation is archived.
pub(super) fn is_archived(db: &Connection, conversation: i64) -> Result<bool> {
    db.prepare_cached(IS_ARCHIVED)
        .and_then(|mut statement| statement.exists([conversation]))
        .doing("looking for an archive")
}

/// How much of a conversation is archived.
pub(super) fn sizes(db: &Connection, conversation: i64) -> Result<Packed> {
    db.prepare_cached(SIZES)
        .and_then(|mut statement| {
            statement.query_row([conversation], |row| {
                Ok(Packed {
                    events: row.get::<_, i64>(0)?.cast_unsigned(),
                    payload_bytes: row.get::<_, i64>(1)?.cast_unsigned(),
                    stored_bytes: row.get::<_, i64>(2)?.cast_unsigned(),
                })
            })
        })
        .doing("measuring an archive")
}
