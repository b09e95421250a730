//! Verifies that the log is as it was written: its chains, sequences, columns, catalogue and attachments.

mod acts;
mod chain;
pub(super) mod changes;
mod diagnosis;
mod listing;
mod projections;
mod row;
mod schema;
mod whole;
mod workers;

pub use whole::VerifyStep;

use std::io::Read as _;

use rusqlite::{Connection, MAIN_DB, Row, params};
use sha2::{Digest as _, Sha256};

use crate::error::{Error, Result};
use crate::ids::{ConversationId, Sequence, Timestamp};
use crate::store::derived::projection;
use crate::store::engine::{WhileDoing as _, is_damage, translate};
use crate::store::table::{catalogue, change, guards, log};
use crate::store::{Audit, DamagedLog, NEVER_FILLED, Store};
use changes::described;

const BLOBS: &str = "SELECT b.key, b.digest, c.id, a.path FROM attachment AS a JOIN blob AS b ON b.key = a.blob \
     JOIN conversation AS c ON c.key = a.conversation WHERE b.key > ?1 AND (?2 IS NULL OR c.id = ?2) \
     ORDER BY b.key LIMIT 1";
const LOST_BLOBS: &str = "SELECT c.id, a.path FROM attachment AS a JOIN conversation AS c ON c.key = a.conversation \
     WHERE (?1 IS NULL OR c.id = ?1) AND NOT EXISTS (SELECT 1 FROM blob WHERE key = a.blob) ORDER BY c.key, a.path";

const NEXT_BLOB: &str = "SELECT min(blob) FROM attachment WHERE blob > ?1";

const ROW: &str = "SELECT 1 FROM log WHERE one = 1";

/// Checks for stray rows, which no code reads and no code should have written: statements that count them, and texts
/// for the findings.
const STRAY: &[(&str, &str)] = &[
    ("SELECT count(*) FROM log WHERE one <> 1", "rows of the table log do not belong there"),
    (
        "SELECT count(*) FROM (SELECT act FROM admin_receipt GROUP BY act HAVING max(place) <> count(*) - 1)",
        "acts of the administrative log have missing or wrongly numbered receipts",
    ),
    (
        "SELECT count(*) FROM event_file WHERE position NOT IN (SELECT position FROM event)",
        "file names belong to events that do not exist",
    ),
    (
        "SELECT count(*) FROM archived_payload AS p WHERE NOT EXISTS (SELECT 1 FROM event AS e \
         WHERE e.position = p.position AND e.payload = '{\"annals\":\"archived\"}')",
        "archived payloads belong to events that are not archived",
    ),
];

/// A difference from what was written.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Finding {
    /// The conversation. `None` if the finding concerns the whole file.
    pub conversation: Option<ConversationId>,
    /// The event. `None` if the finding does not concern a single event.
    pub sequence: Option<Sequence>,
    /// The finding and its meaning, in words.
    pub what: String,
}

impl Finding {
    /// Makes a finding of an error that is damage: `what` cannot be read. Returns any other error.
    pub(crate) fn of_damage(conversation: Option<&ConversationId>, what: &str, error: Error) -> Result<Self> {
        if !is_damage(&error) {
            return Err(error);
        }
        let what = format!("{what} cannot be read: {}", described(&error));
        Ok(Self { conversation: conversation.cloned(), sequence: None, what })
    }

    /// Makes a finding about a conversation by its stored id. If the id is not valid, the text says so.
    fn about(id: &str, sequence: Option<i64>, what: String) -> Self {
        let sequence = sequence.map(|sequence| Sequence(sequence.cast_unsigned()));
        match ConversationId::new(id) {
            Ok(conversation) => Self { conversation: Some(conversation), sequence, what },
            Err(_) => {
                let start: String = id.chars().take(ID_CHARS_MAX).collect();
                let what = format!("in the conversation {start:?}, whose id is not valid: {what}");
                Self { conversation: None, sequence: None, what }
            }
        }
    }
}

/// The number of characters of an invalid id that a finding shows.
const ID_CHARS_MAX: usize = 60;

/// The result of a verification.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Verification {
    /// The number of checked conversations.
    pub conversations: u64,
    /// The number of checked events.
    pub events: u64,
    /// The number of checked payload bytes.
    pub payload_bytes: u64,
    /// The number of redacted events. Their stored digests stand for the original payloads.
    pub redacted: u64,
    /// The number of checked changes of the data beside the events.
    pub changes: u64,
    /// The time since which the chains of changes cover the file. `None` if they cover it since it was made.
    pub changes_since: Option<Timestamp>,
    /// The number of checked contents of attachments. A content that several attachments share counts once.
    pub attachments: u64,
    /// The number of findings that are damage: data cannot be read, or the structure of the file is damaged.
    pub damaged: u64,
    /// The differences from what was written. Empty if there are none.
    pub findings: Vec<Finding>,
    /// Data that is as it was written, but is not correct, such as an event whose parent is missing. An import accepts
    /// damaged conversations as they are.
    pub notes: Vec<Finding>,
}

impl Verification {
    /// Adds the result of another part of the verification.
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

    /// Adds a finding about the whole file.
    fn of_the_file(&mut self, what: String) {
        self.findings.push(Finding { conversation: None, sequence: None, what });
    }

    /// Returns the value that was read. If reading `what` met damage, adds a finding and returns `None`.
    fn bear<T>(&mut self, what: &str, read: Result<T>) -> Result<Option<T>> {
        match read {
            Ok(value) => Ok(Some(value)),
            Err(error) => {
                self.findings.push(Finding::of_damage(None, what, error)?);
                self.damaged += 1;
                Ok(None)
            }
        }
    }

    /// Adds findings about the whole file that are damage.
    fn damage(&mut self, found: Vec<String>) {
        for what in found {
            self.damaged += 1;
            self.of_the_file(what);
        }
    }
}

/// The progress of a verification.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct VerifyProgress {
    /// Events checked so far.
    pub events: u64,
    /// Payload bytes checked so far.
    pub payload_bytes: u64,
}

impl Audit<'_> {
    /// Checks one conversation or all of them.
    ///
    /// Checks that each event's hash follows from its payload and the hash before, that sequences are dense and
    /// positions ascend, that columns agree with payloads, that the catalogue and HEAD follow from the events, the base
    /// state and its history, that the data beside the events agrees with its chain of changes, and that attachments
    /// match their digests. For all conversations, it also checks that the log's guards exist, that no event belongs to
    /// an unknown conversation, and that no projection is ahead of the log. At most four threads check conversations.
    /// Findings are in the catalogue's order.
    ///
    /// The chains prove that none of their entries was changed, unless everything after it was rewritten too.
    /// `docs/tamper-evidence.md` describes what they cannot prove. [`Audit::verify_whole`] also runs the engine's own
    /// check and compares derived data.
    ///
    /// # Errors
    /// [`UnknownConversation`](crate::Error::UnknownConversation), and any read error. Damage is not an error, but a
    /// [`Finding`].
    pub fn verify(
        &self,
        conversation: Option<&ConversationId>,
        progress: &mut dyn FnMut(VerifyProgress),
    ) -> Result<Verification> {
        let only = conversation.map(ConversationId::as_str);
        let mut seen = Verification::default();
        let conversations = match conversation {
            Some(conversation) => self.store.keys_of(conversation, &mut seen)?,
            None => self.store.all_keys(&mut seen)?,
        };
        for part in workers::verify(self.store, &conversations, progress)? {
            seen.add(part);
        }
        self.verify_attachments(only, &mut seen)?;
        let since = self.store.read(change::since);
        seen.changes_since = seen.bear("the row of the file", since)?.flatten();
        if only.is_none() {
            self.store.verify_file(&mut seen)?;
        }
        Ok(seen)
    }

    fn verify_attachments(&self, only: Option<&str>, seen: &mut Verification) -> Result<()> {
        let mut after = i64::MIN;
        loop {
            let key = match self.store.read(|db| next_blob(db, after, only)) {
                Ok(None) => break,
                Ok(Some((key, finding))) => {
                    seen.attachments += 1;
                    seen.findings.extend(finding);
                    key
                }
                Err(error) if is_damage(&error) => {
                    let key = self.store.read(|db| next_key(db, after));
                    let Some(key) = seen.bear("the attachments", key)?.flatten() else { break };
                    let what = format!(
                        "the content of an attachment (key {key}) cannot be read: {}",
                        described(&error)
                    );
                    seen.damage(vec![what]);
                    key
                }
                Err(error) => return Err(error),
            };
            // A damaged index may lead back to a content that was checked already.
            if key <= after {
                seen.damage(vec![
                    "the attachments cannot be read to the end: they are out of order".to_owned(),
                ]);
                break;
            }
            after = key;
        }
        let lost = self.store.read(|db| lost_blobs(db, only));
        for (conversation, path) in seen.bear("the attachments", lost)?.unwrap_or_default() {
            let what = format!("the content of the attachment {path} is missing");
            seen.findings.push(Finding::about(&conversation, None, what));
        }
        Ok(())
    }
}

impl Store {
    /// Returns the time since which the chains of changes cover the file. `None` if they cover it since it was made.
    #[cfg(feature = "proof")]
    pub(crate) fn changes_since(&self) -> Result<Option<Timestamp>> {
        self.read(change::since)
    }

    /// Lists all conversations. A conversation without a valid id is a finding.
    fn all_keys(&self, seen: &mut Verification) -> Result<Vec<(i64, ConversationId)>> {
        let listed = self.every_conversation();
        let listing = seen.bear("the catalogue", listed)?.unwrap_or_default();
        seen.damage(listing.damage);
        for what in listing.nameless {
            seen.of_the_file(what);
        }
        Ok(listing.conversations)
    }

    /// Returns one conversation with its key. If the catalogue's index does not find it, the whole catalogue is read.
    fn keys_of(
        &self,
        conversation: &ConversationId,
        seen: &mut Verification,
    ) -> Result<Vec<(i64, ConversationId)>> {
        match self.read(|db| catalogue::find(db, conversation)) {
            Ok(Some(key)) => return Ok(vec![(key, conversation.clone())]),
            Err(error) if !is_damage(&error) => return Err(error),
            Ok(None) | Err(_) => {}
        }
        let listed = self.every_conversation();
        let Some(mut listing) = seen.bear("the catalogue", listed)? else { return Ok(Vec::new()) };
        listing.conversations.retain(|(_, id)| id == conversation);
        if listing.conversations.is_empty() {
            if listing.damage.is_empty() {
                return Err(Error::UnknownConversation { conversation: conversation.to_string() });
            }
            let what = "it is not in what can be read of the catalogue".to_owned();
            seen.findings.push(Finding { conversation: Some(conversation.clone()), sequence: None, what });
        }
        seen.damage(listing.damage);
        Ok(listing.conversations)
    }

    /// Checks the file as a whole. Each check runs, whatever the one before it could not read.
    fn verify_file(&self, seen: &mut Verification) -> Result<()> {
        for (what, check) in [
            ("what guards the log", guards::changed as fn(&Connection) -> Result<Vec<String>>),
            ("the index of the log", unknown_conversations),
            ("the row of the file", lost_row),
            ("how far the projections have read", ahead_of_the_log),
        ] {
            let problems = self.snapshot(check);
            for what in seen.bear(what, problems)?.unwrap_or_default() {
                seen.of_the_file(what);
            }
        }
        self.verify_acts(seen)?;
        for (sql, what) in STRAY {
            let count = self
                .read(|db| db.query_row(sql, [], |row| row.get::<_, i64>(0)).doing("looking for stray rows"));
            if let Some(count) = seen.bear("the tables of the file", count)?
                && count > 0
            {
                seen.of_the_file(format!("{count} {what}"));
            }
        }
        let own: Vec<&str> = self.0.hosted.iter().flat_map(|hosted| hosted.names()).collect();
        let schema = self.snapshot(|db| schema::verify(db, &own));
        let (wrong, strange) = seen.bear("the schema", schema)?.unwrap_or_default();
        for what in wrong {
            seen.of_the_file(what);
        }
        let never_filled = seen.bear("the row of the file", self.maintenance().was_never_filled())?;
        let never_filled = (never_filled == Some(true)).then(|| NEVER_FILLED.to_owned());
        let note = |what| Finding { conversation: None, sequence: None, what };
        // It may also be what a power cut leaves of commits that were not synced.
        let damaged = self.maintenance().damaged_logs();
        let damaged = damaged.iter().map(DamagedLog::describe);
        seen.notes.extend(strange.into_iter().chain(never_filled).chain(damaged).map(note));
        Ok(())
    }
}

fn lost_blobs(db: &Connection, only: Option<&str>) -> Result<Vec<(String, String)>> {
    db.prepare_cached(LOST_BLOBS)
        .and_then(|mut statement| {
            let text = |row: &Row<'_>, column| {
                Ok::<_, rusqlite::Error>(catalogue::text(row, column)?.unwrap_or_default())
            };
            statement.query_map([only], |row| Ok((text(row, 0)?, text(row, 1)?)))?.collect()
        })
        .doing("verifying attachments")
}

/// Returns the key of the first content after `after` that belongs to a conversation. Reads only an index.
fn next_key(db: &Connection, after: i64) -> Result<Option<i64>> {
    db.prepare_cached(NEXT_BLOB)
        .and_then(|mut statement| statement.query_row([after], |row| row.get(0)))
        .doing("verifying attachments")
}

/// Returns the conversations of events that the catalogue does not have.
fn unknown_conversations(db: &Connection) -> Result<Vec<String>> {
    let what = |key: i64| {
        format!("the log has events of a conversation that the catalogue does not know (key {key})")
    };
    Ok(log::unknown_conversations(db)?.into_iter().map(what).collect())
}

/// Returns a problem if the row that says what the file is does not exist.
fn lost_row(db: &Connection) -> Result<Vec<String>> {
    let is_there = db
        .prepare_cached(ROW)
        .and_then(|mut statement| statement.exists([]))
        .doing("verifying the file's row")?;
    let what = "the row of the table log, which has the file's id, is missing";
    Ok(if is_there { Vec::new() } else { vec![what.to_owned()] })
}

/// Returns the projections that have read more than the log has.
fn ahead_of_the_log(db: &Connection) -> Result<Vec<String>> {
    let head = log::last_position(db)?;
    let ahead = projection::status(db)?.into_iter().filter(|status| status.position > head);
    Ok(ahead.map(|status| format!("projection {} is ahead of the log; rebuild it", status.name)).collect())
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
        // The engine reads the content and wraps its own error in an I/O error.
        let bytes = blob.read(&mut buffer).map_err(|error| match error.downcast() {
            Ok(engine) => translate(engine, doing),
            Err(error) => Error::io(doing, "an attachment")(error),
        })?;
        if bytes == 0 {
            break;
        }
        hasher.update(&buffer[..bytes]);
    }
    if digest[..] == hasher.finalize()[..] {
        return Ok(Some((key, None)));
    }
    let text = |column| Ok::<_, Error>(catalogue::text(row, column).doing(doing)?.unwrap_or_default());
    let (conversation, path) = (text(2)?, text(3)?);
    let what = format!("the attachment {path} does not have its digest: its content was changed");
    Ok(Some((key, Some(Finding::about(&conversation, None, what)))))
}
