//! Tables `blob` and `attachment`: files of a conversation that are not events. Each content is stored once.

use std::io::{ErrorKind, Read, Write};

use rusqlite::blob::Blob;
use rusqlite::{Connection, MAIN_DB, OptionalExtension as _, params};

use super::change::{self, Subject};
use super::kept::Part;
use super::{admin, catalogue};
use crate::chain::Digest;
use crate::error::{Error, Result};
use crate::ids::ConversationId;
use crate::store::Store;
use crate::store::engine::WhileDoing as _;
use crate::store::options::ATTACHMENT_BYTES_MAX;

const FIND: &str = "SELECT key FROM blob WHERE digest = ?1";
const ADD: &str = "INSERT INTO blob (digest, content) VALUES (?1, zeroblob(?2))";
const ATTACH: &str = "INSERT INTO attachment (conversation, path, blob, reason) VALUES (?1, ?2, ?3, ?4) \
     ON CONFLICT (conversation, path) DO UPDATE SET blob = excluded.blob, reason = excluded.reason";
const LIST: &str = "SELECT a.path, length(b.content), b.digest, a.reason, b.key FROM attachment AS a \
     JOIN blob AS b ON b.key = a.blob WHERE a.conversation = ?1 ORDER BY a.path";
const SWEEP: &str = "DELETE FROM blob WHERE digest = ?1 \
     AND NOT EXISTS (SELECT 1 FROM attachment WHERE blob = blob.key)";
const SHARED: &str = "SELECT count(DISTINCT a.conversation) FROM attachment AS a JOIN blob AS b ON b.key = a.blob \
     WHERE a.conversation <> ?1 AND b.digest = ?2";
const KEY: &str = "SELECT b.key FROM attachment AS a JOIN blob AS b ON b.key = a.blob \
     WHERE a.conversation = ?1 AND a.path = ?2";
const DETACH: &str = "DELETE FROM attachment WHERE conversation = ?1 AND path = ?2";

const COPY_BYTES: usize = 64 << 10;

/// A file that is stored beside a conversation's events.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Attachment {
    /// The path within the conversation's folder. The path of an empty folder ends in `/`.
    pub path: String,
    /// The size in bytes.
    pub bytes: u64,
    /// The SHA-256 of the content.
    pub digest: Digest,
    /// Why the file is not an event, if it looked like one.
    pub reason: Option<String>,
    /// The SHA-256 of the content before each redaction, the oldest first.
    pub redacted_from: Vec<Digest>,
}

impl Attachment {
    /// Returns whether this is the digest of the stored content or of the content before a redaction.
    #[must_use]
    pub fn is_or_was(&self, digest: Digest) -> bool {
        self.digest == digest || self.redacted_from.contains(&digest)
    }
}

/// A file to attach. Its size and its digest are known before its content is read.
pub(in crate::store) struct NewAttachment<'a> {
    pub path: &'a str,
    pub bytes: u64,
    pub digest: Digest,
    pub reason: Option<&'a str>,
}

/// Stores a file beside a conversation. If the content is stored already, it is not read.
pub(in crate::store) fn attach(
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
            let copied = copy((content, new.path), &mut blob, doing)?;
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

/// Replaces a conversation's attachments by those of a conversation in another file.
pub(in crate::store) fn carry(
    here: (&Connection, i64),
    from: &Connection,
    attachments: &[Attachment],
) -> Result<()> {
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

/// Copies a file into a blob of the expected size, one buffer at a time. Returns the number of bytes copied.
///
/// A read error is reported as the file's, a write error as the store's.
fn copy((from, path): (&mut dyn Read, &str), to: &mut Blob<'_>, doing: &'static str) -> Result<u64> {
    let mut buffer = vec![0; COPY_BYTES];
    let mut copied = 0;
    loop {
        let bytes = match from.read(&mut buffer) {
            Ok(0) => return Ok(copied as u64),
            Ok(bytes) => bytes,
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(error) => return Err(Error::io(doing, path)(error)),
        };
        if copied + bytes > to.len() {
            let source = std::io::Error::other("the file grew while it was read");
            return Err(Error::Io { doing, path: path.into(), source });
        }
        to.write_at(&buffer[..bytes], copied).doing(doing)?;
        copied += bytes;
    }
}

/// Returns the attachments of a conversation, ordered by path.
pub(in crate::store) fn list(db: &Connection, conversation: i64) -> Result<Vec<Attachment>> {
    let mut attachments = db
        .prepare_cached(LIST)
        .and_then(|mut statement| {
            let rows = statement.query_map([conversation], |row| {
                let digest: [u8; 32] = row.get(2)?;
                Ok(Attachment {
                    path: row.get(0)?,
                    bytes: row.get::<_, i64>(1)?.cast_unsigned(),
                    digest: Digest(digest),
                    reason: row.get(3)?,
                    redacted_from: Vec::new(),
                })
            })?;
            rows.collect::<rusqlite::Result<Vec<Attachment>>>()
        })
        .doing("listing attachments")?;
    let id = catalogue::id(db, conversation)?;
    for attachment in &mut attachments {
        let changes = admin::changes(db, &id, Part::Attachment.as_str(), &attachment.path)?;
        if changes.last().is_some_and(|(_, new)| *new == Some(attachment.digest)) {
            attachment.redacted_from = changes.into_iter().filter_map(|(old, _)| old).collect();
        }
    }
    Ok(attachments)
}

/// A callback that receives a file and its content and returns the new content. `None` if the content stays.
pub(super) type EditContent<'e> = &'e mut dyn FnMut(&Attachment, &[u8]) -> Result<Option<Vec<u8>>>;

/// Calls `edit` with every attachment and its content, and replaces the content if `edit` returns a new one.
///
/// Other conversations that have the same content keep it.
pub(in crate::store) fn edit(db: &Connection, conversation: i64, edit: EditContent<'_>) -> Result<()> {
    for attachment in list(db, conversation)? {
        let mut content = Vec::with_capacity(usize::try_from(attachment.bytes).unwrap_or(0));
        write_content(db, conversation, &attachment.path, &mut content)?;
        let Some(new) = edit(&attachment, &content)? else { continue };
        let replacement = NewAttachment {
            path: &attachment.path,
            bytes: new.len() as u64,
            digest: Digest::of(&new),
            reason: attachment.reason.as_deref(),
        };
        attach(db, conversation, &replacement, &mut new.as_slice())?;
        db.prepare_cached(SWEEP)
            .and_then(|mut statement| statement.execute([attachment.digest.0]))
            .doing("dropping an attachment's content")?;
    }
    Ok(())
}

/// Returns the number of other conversations that have this content.
pub(in crate::store) fn shared(db: &Connection, conversation: i64, digest: Digest) -> Result<u64> {
    let count: i64 = db
        .prepare_cached(SHARED)
        .and_then(|mut statement| statement.query_row(params![conversation, digest.0], |row| row.get(0)))
        .doing("looking for an attachment")?;
    Ok(count.cast_unsigned())
}

/// Writes an attachment's content to `to` and returns its length. `None` if no attachment has this path.
fn write_content(db: &Connection, conversation: i64, path: &str, to: &mut dyn Write) -> Result<Option<u64>> {
    let doing = "reading an attachment";
    let found: Option<i64> = db
        .prepare_cached(KEY)
        .and_then(|mut statement| {
            statement.query_row(params![conversation, path], |row| row.get(0)).optional()
        })
        .doing(doing)?;
    let Some(blob) = found else { return Ok(None) };
    let content = db.blob_open(MAIN_DB, "blob", "content", blob, true).doing(doing)?;
    let (mut buffer, mut copied) = (vec![0; COPY_BYTES.min(content.len())], 0);
    while copied < content.len() {
        let bytes = content.read_at(&mut buffer, copied).doing(doing)?;
        to.write_all(&buffer[..bytes]).map_err(Error::io("writing an attachment", path))?;
        copied += bytes;
    }
    Ok(Some(copied as u64))
}

/// Detaches all files of a conversation and deletes each content that no other attachment uses.
pub(in crate::store) fn delete(db: &Connection, conversation: i64) -> Result<()> {
    for attachment in list(db, conversation)? {
        detach(db, conversation, &attachment)?;
    }
    Ok(())
}

/// Detaches one file and deletes its content if no other attachment uses it.
pub(in crate::store) fn detach(db: &Connection, conversation: i64, attachment: &Attachment) -> Result<()> {
    let doing = "deleting attachments";
    db.prepare_cached(DETACH)
        .and_then(|mut statement| statement.execute(params![conversation, attachment.path]))
        .doing(doing)?;
    db.prepare_cached(SWEEP)
        .and_then(|mut statement| statement.execute([attachment.digest.0]))
        .doing(doing)?;
    Ok(())
}

impl Store {
    /// Returns the files that are stored beside a conversation's events, ordered by path.
    ///
    /// # Errors
    /// [`Error::UnknownConversation`].
    pub fn attachments(&self, conversation: &ConversationId) -> Result<Vec<Attachment>> {
        self.snapshot(|db| list(db, catalogue::key(db, conversation)?))
    }

    /// Stores a file beside a conversation's events. It replaces the file that was stored at this path.
    ///
    /// # Errors
    /// [`Error::UnknownConversation`], [`Error::AttachmentTooLarge`], and any error of writing the file.
    pub fn attach(&self, conversation: &ConversationId, path: &str, content: &[u8]) -> Result<()> {
        let new =
            NewAttachment { path, bytes: content.len() as u64, digest: Digest::of(content), reason: None };
        self.write(|db| {
            let key = catalogue::key(db, conversation)?;
            change::replaced(db, key, &[Subject::Attachment], || attach(db, key, &new, &mut &*content))
        })
    }

    /// Removes a file that is stored beside a conversation's events. The change is recorded, and the content is deleted
    /// if no other conversation has it.
    ///
    /// # Errors
    /// [`Error::UnknownConversation`], [`Error::UnknownAttachment`], and any write error.
    pub fn detach(&self, conversation: &ConversationId, path: &str) -> Result<()> {
        self.write(|db| {
            let key = catalogue::key(db, conversation)?;
            let stored = list(db, key)?.into_iter().find(|stored| stored.path == path);
            let stored = stored.ok_or_else(|| Error::UnknownAttachment {
                conversation: conversation.clone(),
                path: path.to_owned(),
            })?;
            change::replaced(db, key, &[Subject::Attachment], || detach(db, key, &stored))
        })
    }

    /// Writes an attachment's content to `to`, without holding it in memory. Returns its length in bytes.
    ///
    /// # Errors
    /// [`Error::UnknownConversation`], [`Error::UnknownAttachment`], [`Error::Io`] if writing to `to` fails.
    pub fn read_attachment(
        &self,
        conversation: &ConversationId,
        path: &str,
        to: &mut dyn Write,
    ) -> Result<u64> {
        self.snapshot(|db| {
            let written = write_content(db, catalogue::key(db, conversation)?, path, to)?;
            written.ok_or_else(|| Error::UnknownAttachment {
                conversation: conversation.clone(),
                path: path.to_owned(),
            })
        })
    }
}
