//! Tables `blob` and `attachment`: files of a conversation that are not events, each content kept once.

use std::io::{Read, Write};

use rusqlite::{Connection, MAIN_DB, OptionalExtension as _, params};

use super::engine::Doing as _;
use super::options::ATTACHMENT_BYTES_MAX;
use super::{Store, catalogue};
use crate::chain::Digest;
use crate::error::{Error, Result};
use crate::ids::ConversationId;

const FIND: &str = "SELECT key FROM blob WHERE digest = ?1";
const ADD: &str = "INSERT INTO blob (digest, content) VALUES (?1, zeroblob(?2))";
const ATTACH: &str = "INSERT INTO attachment (conversation, path, blob, reason) VALUES (?1, ?2, ?3, ?4) \
     ON CONFLICT (conversation, path) DO UPDATE SET blob = excluded.blob, reason = excluded.reason";
const LIST: &str = "SELECT a.path, length(b.content), b.digest, a.reason, b.key FROM attachment AS a \
     JOIN blob AS b ON b.key = a.blob WHERE a.conversation = ?1 ORDER BY a.path";
const KEY: &str = "SELECT b.key, length(b.content) FROM attachment AS a JOIN blob AS b ON b.key = a.blob \
     WHERE a.conversation = ?1 AND a.path = ?2";
const DETACH: &str = "DELETE FROM attachment WHERE conversation = ?1";
const BLOBS: &str = "SELECT DISTINCT blob FROM attachment WHERE conversation = ?1";
const SWEEP: &str =
    "DELETE FROM blob WHERE key = ?1 AND NOT EXISTS (SELECT 1 FROM attachment WHERE blob = ?1)";

const COPY_BYTES: usize = 64 << 10;

/// A file kept beside a conversation's events.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attachment {
    /// Its path within the conversation's folder; an empty folder's ends in `/`.
    pub path: String,
    /// Its size in bytes.
    pub bytes: u64,
    /// The SHA-256 of its content.
    pub digest: Digest,
    /// Why it is no event, where it looked like one.
    pub reason: Option<String>,
}

/// A file to attach; `content` is read to its end, `bytes` long, and `digest` is known before.
pub(super) struct NewAttachment<'a> {
    pub path: &'a str,
    pub bytes: u64,
    pub digest: Digest,
    pub reason: Option<&'a str>,
}

/// Keeps a file beside a conversation; a content that is known is not read again.
pub(super) fn attach(
    db: &Connection,
    conversation: i64,
    new: &NewAttachment<'_>,
    content: &mut dyn Read,
) -> Result<()> {
    let doing = "keeping an attachment";
    if new.bytes > ATTACHMENT_BYTES_MAX {
        return Err(Error::AttachmentTooLarge { bytes: new.bytes, max: ATTACHMENT_BYTES_MAX });
    }
    let known: Option<i64> = db
        .prepare_cached(FIND)
        .and_then(|mut statement| statement.query_row([new.digest.0], |row| row.get(0)).optional())
        .doing(doing)?;
    let blob = match known {
        Some(blob) => blob,
        None => {
            db.prepare_cached(ADD)
                .and_then(|mut s| s.execute(params![new.digest.0, new.bytes.cast_signed()]))
                .doing(doing)?;
            let key = db.last_insert_rowid();
            let mut blob = db.blob_open(MAIN_DB, "blob", "content", key, false).doing(doing)?;
            let copied = copy(content, &mut blob).map_err(Error::io(doing, new.path))?;
            blob.close().doing(doing)?;
            if copied != new.bytes {
                let source = std::io::Error::other("the file changed while it was read");
                return Err(Error::Io { doing, path: new.path.into(), source });
            }
            key
        }
    };
    db.prepare_cached(ATTACH)
        .and_then(|mut statement| statement.execute(params![conversation, new.path, blob, new.reason]))
        .doing(doing)?;
    Ok(())
}

/// Attaches what a conversation of another file has attached, in place of what it has here.
pub(super) fn carry(here: (&Connection, i64), from: &Connection, attachments: &[Attachment]) -> Result<()> {
    let (db, conversation) = here;
    delete(db, conversation)?;
    for attachment in attachments {
        let new = NewAttachment {
            path: &attachment.path,
            bytes: attachment.bytes,
            digest: attachment.digest,
            reason: attachment.reason.as_deref(),
        };
        let doing = "taking an attachment over";
        let blob: i64 = from
            .prepare_cached(FIND)
            .and_then(|mut statement| statement.query_row([attachment.digest.0], |row| row.get(0)))
            .doing(doing)?;
        let mut content = from.blob_open(MAIN_DB, "blob", "content", blob, true).doing(doing)?;
        attach(db, conversation, &new, &mut content)?;
    }
    Ok(())
}

/// Copies everything, a buffer at a time; answers how much.
fn copy(from: &mut dyn Read, to: &mut dyn Write) -> std::io::Result<u64> {
    let mut buffer = vec![0; COPY_BYTES];
    let mut copied = 0;
    loop {
        match from.read(&mut buffer)? {
            0 => return Ok(copied),
            bytes => {
                to.write_all(&buffer[..bytes])?;
                copied += bytes as u64;
            }
        }
    }
}

/// The attachments of a conversation, by path.
pub(super) fn list(db: &Connection, conversation: i64) -> Result<Vec<Attachment>> {
    db.prepare_cached(LIST)
        .and_then(|mut statement| {
            let rows = statement.query_map([conversation], |row| {
                let digest: [u8; 32] = row.get(2)?;
                Ok(Attachment {
                    path: row.get(0)?,
                    bytes: row.get::<_, i64>(1)?.cast_unsigned(),
                    digest: Digest(digest),
                    reason: row.get(3)?,
                })
            })?;
            rows.collect()
        })
        .doing("listing attachments")
}

/// Detaches everything from a conversation and drops contents that nobody refers to any more.
pub(super) fn delete(db: &Connection, conversation: i64) -> Result<()> {
    let doing = "deleting attachments";
    let blobs = db
        .prepare_cached(BLOBS)
        .and_then(|mut s| s.query_map([conversation], |row| row.get(0))?.collect::<Result<Vec<i64>, _>>())
        .doing(doing)?;
    db.execute(DETACH, [conversation]).doing(doing)?;
    for blob in blobs {
        db.prepare_cached(SWEEP).and_then(|mut statement| statement.execute([blob])).doing(doing)?;
    }
    Ok(())
}

impl Store {
    /// The files kept beside a conversation's events, by path.
    ///
    /// # Errors
    /// [`Error::UnknownConversation`].
    pub fn attachments(&self, conversation: &ConversationId) -> Result<Vec<Attachment>> {
        self.snapshot(|db| list(db, catalogue::key(db, conversation)?))
    }

    /// Writes an attachment's content to `to`, without holding it in memory.
    ///
    /// # Errors
    /// [`Error::UnknownConversation`], [`Error::UnknownAttachment`], [`Error::Io`] where `to` fails.
    pub fn read_attachment(
        &self,
        conversation: &ConversationId,
        path: &str,
        to: &mut dyn Write,
    ) -> Result<u64> {
        let doing = "reading an attachment";
        self.snapshot(|db| {
            let key = catalogue::key(db, conversation)?;
            let found: Option<(i64, i64)> = db
                .prepare_cached(KEY)
                .and_then(|mut s| {
                    s.query_row(params![key, path], |row| Ok((row.get(0)?, row.get(1)?))).optional()
                })
                .doing(doing)?;
            let Some((blob, _)) = found else {
                return Err(Error::UnknownAttachment {
                    conversation: conversation.clone(),
                    path: path.to_owned(),
                });
            };
            let mut content = db.blob_open(MAIN_DB, "blob", "content", blob, true).doing(doing)?;
            copy(&mut content, to).map_err(Error::io("writing an attachment", path))
        })
    }
}
