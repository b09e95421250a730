//! Is the log what it was? The chain, the sequences, the columns, the catalogue and the attachments.

use std::io::Read as _;

use rusqlite::{Connection, MAIN_DB, params};
use sha2::{Digest as _, Sha256};

use super::engine::Doing as _;
use super::{Store, admin, log, projection};
use crate::chain::{self, Digest};
use crate::error::Result;
use crate::event::Envelope;
use crate::ids::{ConversationId, Sequence};

const CONVERSATIONS: &str = "SELECT key, id, event_count, payload_bytes, head_hash FROM conversation \
     WHERE key > ?1 AND (?2 IS NULL OR id = ?2) ORDER BY key LIMIT 1";
const EVENTS: &str = "SELECT sequence, id, hash, redacted_digest, payload, kind, source, timestamp, parent_id, \
     tool_call_id, action_id, llm_response_id, tool_name FROM event \
     WHERE conversation = ?1 AND sequence >= ?2 ORDER BY sequence LIMIT ?3";
const BLOBS: &str = "SELECT b.key, b.digest, c.id, a.path FROM attachment AS a JOIN blob AS b ON b.key = a.blob \
     JOIN conversation AS c ON c.key = a.conversation WHERE b.key > ?1 AND (?2 IS NULL OR c.id = ?2) \
     ORDER BY b.key LIMIT 1";

const PAGE: i64 = 1000;

/// After this many findings the rest of a conversation is not told any more.
const FINDINGS_MAX: usize = 100;

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
    /// How many attachments.
    pub attachments: u64,
    /// What is not as it was written; empty where all is well.
    pub findings: Vec<Finding>,
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
    /// that sequences are dense, that columns say what payloads say, that the catalogue knows the true end,
    /// that attachments have their digests and no projection is ahead of the log.
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
        let mut seen = Verification::default();
        let mut key = 0;
        while let Some(row) = self.read(|db| next_conversation(db, key, only))? {
            key = row.key;
            self.verify_chain(&row, &mut seen, progress)?;
            seen.conversations += 1;
        }
        self.verify_attachments(only, &mut seen)?;
        self.read(|db| {
            seen.findings.extend(admin::verify(db)?);
            let head = log::head(db)?;
            for status in projection::status(db)? {
                if status.position > head {
                    seen.findings.push(Finding {
                        conversation: None,
                        sequence: None,
                        what: format!("projection {} is ahead of the log; rebuild it", status.name),
                    });
                }
            }
            Ok(())
        })?;
        Ok(seen)
    }

    fn verify_chain(
        &self,
        row: &CatalogueRow,
        seen: &mut Verification,
        progress: &mut dyn FnMut(VerifyProgress),
    ) -> Result<()> {
        let mut link =
            Link { next: 0, hash: Digest::START, payload_bytes: 0, redacted: 0, findings: Vec::new() };
        loop {
            let before = link.next;
            let read = self.read(|db| verify_page(db, row, &mut link))?;
            seen.events += read;
            progress(VerifyProgress {
                events: seen.events,
                payload_bytes: seen.payload_bytes + link.payload_bytes,
            });
            if link.next == before || read < PAGE.cast_unsigned() {
                break;
            }
        }
        // Events may have been appended since the row was read; only the present row can be wrong.
        let now = self.read(|db| next_conversation(db, row.key - 1, Some(row.id.as_str())))?;
        if let Some(now) = now.filter(|now| now.event_count == row.event_count) {
            link.close(&now);
        }
        seen.payload_bytes += link.payload_bytes;
        seen.redacted += link.redacted;
        seen.findings.append(&mut link.findings);
        Ok(())
    }

    fn verify_attachments(&self, only: Option<&str>, seen: &mut Verification) -> Result<()> {
        let mut key = 0;
        while let Some((next, finding)) = self.read(|db| next_blob(db, key, only))? {
            key = next;
            seen.attachments += 1;
            seen.findings.extend(finding);
        }
        Ok(())
    }
}

struct CatalogueRow {
    key: i64,
    id: ConversationId,
    event_count: u64,
    payload_bytes: u64,
    head_hash: Vec<u8>,
}

fn next_conversation(db: &Connection, after: i64, only: Option<&str>) -> Result<Option<CatalogueRow>> {
    let doing = "verifying the catalogue";
    let mut statement = db.prepare_cached(CONVERSATIONS).doing(doing)?;
    let mut rows = statement.query(params![after, only]).doing(doing)?;
    let Some(row) = rows.next().doing(doing)? else { return Ok(None) };
    let id: String = row.get(1).doing(doing)?;
    Ok(Some(CatalogueRow {
        key: row.get(0).doing(doing)?,
        id: ConversationId::new(&id)?,
        event_count: row.get::<_, i64>(2).doing(doing)?.cast_unsigned(),
        payload_bytes: row.get::<_, i64>(3).doing(doing)?.cast_unsigned(),
        head_hash: row.get(4).doing(doing)?,
    }))
}

/// Where the check of a chain stands.
struct Link {
    next: u64,
    hash: Digest,
    payload_bytes: u64,
    redacted: u64,
    findings: Vec<Finding>,
}

impl Link {
    fn find(&mut self, row: &CatalogueRow, sequence: Option<u64>, what: String) {
        if self.findings.len() < FINDINGS_MAX {
            let sequence = sequence.map(Sequence);
            self.findings.push(Finding { conversation: Some(row.id.clone()), sequence, what });
        }
    }

    /// Compares what was read with what the catalogue says.
    fn close(&mut self, row: &CatalogueRow) {
        if self.next != row.event_count {
            let what =
                format!("the catalogue says {} events, the log ends after {}", row.event_count, self.next);
            self.find(row, None, what);
        } else if row.head_hash != self.hash.0 {
            let what =
                "the head hash is not that of the last event: the end of the log, or its record, was changed";
            self.find(row, None, what.into());
        } else if row.payload_bytes != self.payload_bytes {
            let what = format!(
                "the catalogue says {} payload bytes, the log holds {}",
                row.payload_bytes, self.payload_bytes
            );
            self.find(row, None, what);
        }
    }
}

/// Checks up to [`PAGE`] events; answers how many it read.
fn verify_page(db: &Connection, row: &CatalogueRow, link: &mut Link) -> Result<u64> {
    let doing = "verifying events";
    let mut statement = db.prepare_cached(EVENTS).doing(doing)?;
    let mut rows = statement.query(params![row.key, link.next.cast_signed(), PAGE]).doing(doing)?;
    let mut read = 0;
    while let Some(event) = rows.next().doing(doing)? {
        let sequence = event.get::<_, i64>(0).doing(doing)?.cast_unsigned();
        if sequence != link.next {
            let what = if sequence == link.next + 1 {
                format!("event {} is missing", link.next)
            } else {
                format!("events {} to {} are missing", link.next, sequence - 1)
            };
            link.find(row, Some(link.next), what);
        }
        let id: String = event.get(1).doing(doing)?;
        let stored: Vec<u8> = event.get(2).doing(doing)?;
        let redacted: Option<Vec<u8>> = event.get(3).doing(doing)?;
        let payload = event.get_ref(4).and_then(|value| Ok(value.as_bytes()?)).doing(doing)?;
        let digest = match redacted.as_deref().and_then(Digest::from_bytes) {
            Some(digest) => digest,
            None => Digest::of(payload),
        };
        let hash = chain::link(row.id.as_str(), sequence, &id, digest, link.hash);
        let intact = stored == hash.0;
        if !intact {
            let what = "its hash does not follow from its payload, id, place and the event before: \
                        one of them was changed";
            link.find(row, Some(sequence), what.into());
        } else if let Some(what) = redacted_otherwise(db, row, &redacted, &id, payload)? {
            link.find(row, Some(sequence), what);
        } else if let Some(column) = wrong_column(event, payload).doing(doing)? {
            let what = format!("column {column} does not say what the payload says; rebuild cannot mend it");
            link.find(row, Some(sequence), what);
        }
        // Go on from what is stored, so that one changed event is one finding and not all that follow.
        link.hash = Digest::from_bytes(&stored).unwrap_or(hash);
        link.next = sequence + 1;
        link.redacted += u64::from(redacted.is_some());
        link.payload_bytes += payload.len() as u64;
        read += 1;
    }
    Ok(read)
}

/// What is wrong with a redacted event, of which the chain no longer says what it holds: the administrative
/// log does.
fn redacted_otherwise(
    db: &Connection,
    row: &CatalogueRow,
    redacted: &Option<Vec<u8>>,
    id: &str,
    payload: &[u8],
) -> Result<Option<String>> {
    let Some(first) = redacted.as_deref() else { return Ok(None) };
    let changes = admin::changes(db, row.id.as_str(), "event", id)?;
    let Some((_, newest)) = changes.last() else {
        let what = "it says that it is redacted, and the administrative log does not: it was changed";
        return Ok(Some(what.into()));
    };
    let began_here = |(old, _): &(Option<Digest>, _)| old.is_some_and(|digest| digest.0 == first);
    if !changes.iter().any(began_here) || *newest != Some(Digest::of(payload)) {
        let what = "it was changed after it was redacted: the administrative log knows another digest";
        return Ok(Some(what.into()));
    }
    Ok(None)
}

/// The first extracted column that differs from the payload.
fn wrong_column(row: &rusqlite::Row<'_>, payload: &[u8]) -> rusqlite::Result<Option<&'static str>> {
    let Some((envelope, _)) = std::str::from_utf8(payload).ok().and_then(|text| Envelope::read(text).ok())
    else {
        return Ok(Some("payload"));
    };
    let columns = [
        ("kind", 5, Some(envelope.kind)),
        ("source", 6, envelope.source),
        ("timestamp", 7, envelope.timestamp),
        ("parent_id", 8, envelope.parent_id),
        ("tool_call_id", 9, envelope.tool_call_id),
        ("action_id", 10, envelope.action_id),
        ("llm_response_id", 11, envelope.llm_response_id),
        ("tool_name", 12, envelope.tool_name),
    ];
    for (name, column, expected) in columns {
        if row.get_ref(column)?.as_str_or_null()? != expected.as_deref() {
            return Ok(Some(name));
        }
    }
    Ok(None)
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
