//! Is the log what it was? The chain, the sequences, the columns, the catalogue and the attachments.

mod chain;
mod diagnosis;
mod projections;
mod schema;
mod workers;

use std::io::Read as _;

use rusqlite::{Connection, MAIN_DB, params};
use sha2::{Digest as _, Sha256};

use super::engine::Doing as _;
use super::{Store, admin, log, projection};
use crate::error::Result;
use crate::ids::{ConversationId, Sequence};

const CONVERSATIONS: &str = "SELECT key, id FROM conversation WHERE ?1 IS NULL OR id = ?1 ORDER BY key";
const BLOBS: &str = "SELECT b.key, b.digest, c.id, a.path FROM attachment AS a JOIN blob AS b ON b.key = a.blob \
     JOIN conversation AS c ON c.key = a.conversation WHERE b.key > ?1 AND (?2 IS NULL OR c.id = ?2) \
     ORDER BY b.key LIMIT 1";
const LOST_BLOBS: &str = "SELECT c.id, a.path FROM attachment AS a JOIN conversation AS c ON c.key = a.conversation \
     WHERE (?1 IS NULL OR c.id = ?1) AND NOT EXISTS (SELECT 1 FROM blob WHERE key = a.blob) ORDER BY c.key, a.path";

/// Something that is not as it was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// The conversation, where it concerns one.
    pub conversation: Option<ConversationId>,
    /// The event, where it concerns one.
    pub sequence: Option<Sequence>,
    /// What was found, and what that means.
    pub what: String,
}

/// What a verification saw.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Verification {
    /// How many conversations.
    pub conversations: u64,
    /// How many events.
    pub events: u64,
    /// How many payload bytes.
    pub payload_bytes: u64,
    /// How many events are redacted: their digests stand for what they were.
    pub redacted: u64,
    /// How many contents of attachments; one that several share counts once.
    pub attachments: u64,
    /// What is not as it was written; empty where all is well.
    pub findings: Vec<Finding>,
    /// What is as it was written and yet not as it should be, such as an event whose parent is missing: an
    /// import takes damaged conversations as they are.
    pub notes: Vec<Finding>,
}

impl Verification {
    fn add(&mut self, part: Self) {
        let Self { conversations, events, payload_bytes, redacted, attachments, findings, notes } = part;
        self.conversations += conversations;
        self.events += events;
        self.payload_bytes += payload_bytes;
        self.redacted += redacted;
        self.attachments += attachments;
        self.findings.extend(findings);
        self.notes.extend(notes);
    }
}

/// How far a verification is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VerifyProgress {
    /// Events checked so far.
    pub events: u64,
    /// Payload bytes checked so far.
    pub payload_bytes: u64,
}

impl Store {
    /// Checks one conversation or all: that each event's hash follows from its payload and the one before,
    /// that sequences are dense and positions ascend, that columns say what payloads say, that the catalogue
    /// and HEAD are what the events, the base state and its history make of them, that attachments have
    /// their digests. Checking all, also that the log's guards are there, that no event is of an unknown
    /// conversation, and that no projection is ahead of the log. Conversations are shared out among at most
    /// four threads; findings are told in the catalogue's order.
    ///
    /// The chain proves that nothing within it was changed by anyone who did not also rewrite everything
    /// after it; what it cannot prove is told in `docs/format.md`.
    ///
    /// # Errors
    /// [`UnknownConversation`](crate::Error::UnknownConversation), and what reading can meet. Damage is
    /// no error but a [`Finding`].
    pub fn verify(
        &self,
        conversation: Option<&ConversationId>,
        progress: &mut dyn FnMut(VerifyProgress),
    ) -> Result<Verification> {
        if let Some(conversation) = conversation {
            self.read(|db| super::catalogue::key(db, conversation))?;
        }
        let only = conversation.map(ConversationId::as_str);
        let conversations = self.read(|db| conversations(db, only))?;
        let mut seen = Verification::default();
        for part in workers::verify(self, &conversations, progress)? {
            seen.add(part);
        }
        self.verify_attachments(only, &mut seen)?;
        if only.is_none() {
            let whats = self.snapshot(verify_file)?;
            let findings = whats.into_iter().map(|what| Finding { conversation: None, sequence: None, what });
            seen.findings.extend(findings);
            let (wrong, strange) = self.snapshot(schema::verify)?;
            let of_the_file = |what| Finding { conversation: None, sequence: None, what };
            seen.findings.extend(wrong.into_iter().map(of_the_file));
            seen.notes.extend(strange.into_iter().map(of_the_file));
        }
        Ok(seen)
    }

    fn verify_attachments(&self, only: Option<&str>, seen: &mut Verification) -> Result<()> {
        let mut key = 0;
        while let Some((next, finding)) = self.read(|db| next_blob(db, key, only))? {
            key = next;
            seen.attachments += 1;
            seen.findings.extend(finding);
        }
        let lost = self.read(|db| {
            db.prepare_cached(LOST_BLOBS)
                .and_then(|mut statement| {
                    let rows = statement.query_map([only], |row| Ok((row.get(0)?, row.get(1)?)))?;
                    rows.collect::<rusqlite::Result<Vec<(String, String)>>>()
                })
                .doing("verifying attachments")
        })?;
        for (conversation, path) in lost {
            seen.findings.push(Finding {
                conversation: Some(ConversationId::new(&conversation)?),
                sequence: None,
                what: format!("the content of the attachment {path} is missing"),
            });
        }
        Ok(())
    }
}

/// What is wrong with the file as a whole.
fn verify_file(db: &Connection) -> Result<Vec<String>> {
    let mut whats = log::changed_guards(db)?;
    for key in log::unknown_conversations(db)? {
        whats.push(format!(
            "the log has events of a conversation that the catalogue does not know (key {key})"
        ));
    }
    let head = log::head(db)?;
    for status in projection::status(db)?.into_iter().filter(|status| status.position > head) {
        whats.push(format!("projection {} is ahead of the log; rebuild it", status.name));
    }
    whats.extend(admin::verify(db)?);
    Ok(whats)
}

fn conversations(db: &Connection, only: Option<&str>) -> Result<Vec<(i64, ConversationId)>> {
    let found: Vec<(i64, String)> = db
        .prepare_cached(CONVERSATIONS)
        .and_then(|mut statement| {
            statement.query_map([only], |row| Ok((row.get(0)?, row.get(1)?)))?.collect()
        })
        .doing("verifying the catalogue")?;
    found.into_iter().map(|(key, id)| Ok((key, ConversationId::new(&id)?))).collect()
}

fn next_blob(db: &Connection, after: i64, only: Option<&str>) -> Result<Option<(i64, Option<Finding>)>> {
    let doing = "verifying attachments";
    let mut statement = db.prepare_cached(BLOBS).doing(doing)?;
    let mut rows = statement.query(params![after, only]).doing(doing)?;
    let Some(row) = rows.next().doing(doing)? else { return Ok(None) };
    let key: i64 = row.get(0).doing(doing)?;
    let digest: Vec<u8> = row.get(1).doing(doing)?;
    let mut blob = db.blob_open(MAIN_DB, "blob", "content", key, true).doing(doing)?;
    let mut hasher = Sha256::new();
    let mut buffer = vec![0; 64 << 10];
    loop {
        let bytes = blob.read(&mut buffer).map_err(crate::Error::io(doing, "an attachment"))?;
        if bytes == 0 {
            break;
        }
        hasher.update(&buffer[..bytes]);
    }
    if digest[..] == hasher.finalize()[..] {
        return Ok(Some((key, None)));
    }
    let conversation: String = row.get(2).doing(doing)?;
    let path: String = row.get(3).doing(doing)?;
    let finding = Finding {
        conversation: Some(ConversationId::new(&conversation)?),
        sequence: None,
        what: format!("the attachment {path} does not have its digest: its content was changed"),
    };
    Ok(Some((key, Some(finding))))
}
