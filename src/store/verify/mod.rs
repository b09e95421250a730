//! Is the log what it was? The chain, the sequences, the columns, the catalogue and the attachments.

mod chain;
mod changes;
mod diagnosis;
mod projections;
mod row;
mod schema;
mod whole;
mod workers;

pub use whole::VerifyStep;

use std::io::Read as _;

use rusqlite::{Connection, MAIN_DB, Row, params};
use sha2::{Digest as _, Sha256};

use super::engine::{Doing as _, is_damage, translate};
use super::{Store, admin, change, log, projection};
use crate::error::Result;
use crate::ids::{ConversationId, Sequence, Timestamp};
use changes::told;

const CONVERSATIONS: &str = "SELECT key, id FROM conversation WHERE ?1 IS NULL OR id = ?1 ORDER BY key";
const BLOBS: &str = "SELECT b.key, b.digest, c.id, a.path FROM attachment AS a JOIN blob AS b ON b.key = a.blob \
     JOIN conversation AS c ON c.key = a.conversation WHERE b.key > ?1 AND (?2 IS NULL OR c.id = ?2) \
     ORDER BY b.key LIMIT 1";
const LOST_BLOBS: &str = "SELECT c.id, a.path FROM attachment AS a JOIN conversation AS c ON c.key = a.conversation \
     WHERE (?1 IS NULL OR c.id = ?1) AND NOT EXISTS (SELECT 1 FROM blob WHERE key = a.blob) ORDER BY c.key, a.path";

const NEXT_BLOB: &str = "SELECT min(blob) FROM attachment WHERE blob > ?1";

/// Rows that belong to nothing, which nobody reads and nobody should have written.
const STRAY: &[(&str, &str)] = &[
    ("SELECT count(*) FROM log WHERE one <> 1", "rows of the file's own table are not its own"),
    (
        "SELECT count(*) FROM (SELECT act FROM admin_receipt GROUP BY act HAVING max(place) <> count(*) - 1)",
        "acts of the administrative log have receipts that are not in their places",
    ),
    (
        "SELECT count(*) FROM event_file WHERE position NOT IN (SELECT position FROM event)",
        "names of files are of events that are not there",
    ),
    (
        "SELECT count(*) FROM archived_payload AS p WHERE NOT EXISTS (SELECT 1 FROM event AS e \
         WHERE e.position = p.position AND e.payload = '{\"annals\":\"archived\"}')",
        "archived payloads are of events that are not archived",
    ),
];

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
    /// How many changes of what stands beside the events.
    pub changes: u64,
    /// Since when the chains of changes hold, where the file is older than they are.
    pub changes_since: Option<Timestamp>,
    /// How many contents of attachments; one that several share counts once.
    pub attachments: u64,
    /// How many of the findings are damage: something cannot be read, or the structure of the file is torn.
    pub damaged: u64,
    /// What is not as it was written; empty where all is well.
    pub findings: Vec<Finding>,
    /// What is as it was written and yet not as it should be, such as an event whose parent is missing: an
    /// import takes damaged conversations as they are.
    pub notes: Vec<Finding>,
}

impl Verification {
    /// Adds what was seen elsewhere.
    fn add(&mut self, part: Self) {
        self.conversations += part.conversations;
        self.events += part.events;
        self.payload_bytes += part.payload_bytes;
        self.redacted += part.redacted;
        self.changes += part.changes;
        self.attachments += part.attachments;
        self.damaged += part.damaged;
        self.findings.extend(part.findings);
        self.notes.extend(part.notes);
    }

    fn of_the_file(&mut self, what: String) {
        self.findings.push(Finding { conversation: None, sequence: None, what });
    }

    /// Makes a finding of damage that was met while `what` was read; `None` then.
    fn bear<T>(&mut self, what: &str, read: Result<T>) -> Result<Option<T>> {
        match read {
            Ok(value) => Ok(Some(value)),
            Err(error) if is_damage(&error) => {
                self.damaged += 1;
                self.of_the_file(format!("{what} cannot be read: {}", told(&error)));
                Ok(None)
            }
            Err(error) => Err(error),
        }
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
    /// and HEAD are what the events, the base state and its history make of them, that what stands beside the
    /// events is what its chain of changes says, and that attachments have
    /// their digests. Checking all, also that the log's guards are there, that no event is of an unknown
    /// conversation, and that no projection is ahead of the log. Conversations are shared out among at most
    /// four threads; findings are told in the catalogue's order.
    ///
    /// The chains prove that nothing within them was changed by anyone who did not also rewrite everything
    /// after it; what they cannot prove is told in `docs/tamper-evidence.md`. The engine's own check and the
    /// comparison of what is derived are [`Store::verify_whole`]'s.
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
        let mut seen = Verification::default();
        let listed = self.read(|db| conversations(db, only));
        let mut conversations = Vec::new();
        for (key, id) in seen.bear("the catalogue", listed)?.unwrap_or_default() {
            match ConversationId::new(&id) {
                Ok(id) => conversations.push((key, id)),
                Err(fault) => seen.of_the_file(format!("the conversation of key {key} has no id: {fault}")),
            }
        }
        for part in workers::verify(self, &conversations, progress)? {
            seen.add(part);
        }
        self.verify_attachments(only, &mut seen)?;
        let since = self.read(change::since);
        seen.changes_since = seen.bear("the row of the file", since)?.flatten();
        if only.is_none() {
            let whats = self.snapshot(verify_file);
            for what in seen.bear("the tables of the file", whats)?.unwrap_or_default() {
                seen.of_the_file(what);
            }
            let schema = self.snapshot(schema::verify);
            let (wrong, strange) = seen.bear("the schema", schema)?.unwrap_or_default();
            for what in wrong {
                seen.of_the_file(what);
            }
            let note = |what| Finding { conversation: None, sequence: None, what };
            seen.notes.extend(strange.into_iter().map(note));
        }
        Ok(seen)
    }

    fn verify_attachments(&self, only: Option<&str>, seen: &mut Verification) -> Result<()> {
        let mut after = 0;
        loop {
            match self.read(|db| next_blob(db, after, only)) {
                Ok(None) => break,
                Ok(Some((key, finding))) => {
                    after = key;
                    seen.attachments += 1;
                    seen.findings.extend(finding);
                }
                Err(error) if is_damage(&error) => {
                    let key = self.read(|db| next_key(db, after));
                    let Some(key) = seen.bear("the attachments", key)?.flatten() else { break };
                    after = key;
                    seen.damaged += 1;
                    seen.of_the_file(format!(
                        "the content of an attachment (key {key}) cannot be read: {}",
                        told(&error)
                    ));
                }
                Err(error) => return Err(error),
            }
        }
        let lost = self.read(|db| lost_blobs(db, only));
        for (conversation, path) in seen.bear("the attachments", lost)?.unwrap_or_default() {
            seen.findings.push(Finding {
                conversation: Some(ConversationId::new(&conversation)?),
                sequence: None,
                what: format!("the content of the attachment {path} is missing"),
            });
        }
        Ok(())
    }
}

fn lost_blobs(db: &Connection, only: Option<&str>) -> Result<Vec<(String, String)>> {
    db.prepare_cached(LOST_BLOBS)
        .and_then(|mut s| s.query_map([only], |row| Ok((row.get(0)?, row.get(1)?)))?.collect())
        .doing("verifying attachments")
}

/// The key of the first content behind `after` that a conversation has; needs nothing but an index.
fn next_key(db: &Connection, after: i64) -> Result<Option<i64>> {
    db.prepare_cached(NEXT_BLOB)
        .and_then(|mut statement| statement.query_row([after], |row| row.get(0)))
        .doing("verifying attachments")
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
    for (sql, what) in STRAY {
        let count: i64 = db.query_row(sql, [], |row| row.get(0)).doing("looking for stray rows")?;
        if count > 0 {
            whats.push(format!("{count} {what}"));
        }
    }
    Ok(whats)
}

fn conversations(db: &Connection, only: Option<&str>) -> Result<Vec<(i64, String)>> {
    db.prepare_cached(CONVERSATIONS)
        .and_then(|mut statement| {
            let read = |row: &Row<'_>| {
                let id = String::from_utf8_lossy(row.get_ref(1)?.as_bytes()?).into_owned();
                Ok((row.get(0)?, id))
            };
            statement.query_map([only], read)?.collect()
        })
        .doing("verifying the catalogue")
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
        // What reads a content is the engine, which wraps its error in one of the system's.
        let bytes = blob.read(&mut buffer).map_err(|error| match error.downcast() {
            Ok(engine) => translate(engine, doing),
            Err(error) => crate::Error::io(doing, "an attachment")(error),
        })?;
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
