//! Verifies one conversation: its chain of events, its row in the catalogue, and the data stored beside the events.
//!
//! Damage does not end the check: an event that cannot be read is a finding, and the check continues with the next one.

mod beside;
mod parent;

use std::collections::VecDeque;

use rusqlite::{Connection, Row, params};

use super::changes::described;
use super::diagnosis::{Damage, Link, diagnose};
use super::row::{redacted_otherwise, wrong_column};
use super::{Finding, Verification, VerifyProgress};
use crate::chain::{self, Digest};
use crate::error::{Error, Result};
use crate::event::new_event::NAMED_TWICE;
use crate::event::{Envelope, kind};
use crate::ids::{ConversationId, Sequence, Timestamp};
use crate::state::status::Effect;
use crate::store::Store;
use crate::store::engine::{WhileDoing as _, is_damage};
use crate::store::table::archive::Payloads;
use crate::store::table::catalogue::Entry;
use crate::store::table::log;
use crate::store::table::origin;

const EVENTS: &str = "SELECT sequence, id, hash, redacted_digest, payload, kind, source, timestamp, parent_id, \
     tool_call_id, action_id, llm_response_id, tool_name, position, recorded_at FROM event \
     WHERE conversation = ?1 AND sequence > ?2 ORDER BY sequence LIMIT ?3";

/// Reads only the index.
const NEXT: &str = "SELECT min(sequence) FROM event WHERE conversation = ?1 AND sequence > ?2";

/// The most events that one read transaction covers.
const PAGE: i64 = 1000;

/// The most findings that are reported for one conversation.
const FINDINGS_MAX: usize = 100;

const DOING: &str = "verifying events";

/// Checks a conversation from its first event to its row in the catalogue.
pub(super) fn verify(
    store: &Store,
    key: i64,
    id: &ConversationId,
    seen: &mut Verification,
    progress: &mut dyn FnMut(VerifyProgress),
) -> Result<()> {
    let mut walk = Walk::new(key, id);
    if !store.snapshot(|db| walk.begin(db))? {
        return Ok(()); // it was deleted meanwhile
    }
    loop {
        // One snapshot for the last page and the data compared with it, because there may be appends meanwhile.
        let (read, is_last) = store.snapshot(|db| {
            let page = walk.page(db)?;
            if page.1 {
                walk.end(db)?;
            }
            Ok(page)
        })?;
        seen.events += read.cast_unsigned();
        progress(VerifyProgress {
            events: seen.events,
            payload_bytes: seen.payload_bytes + walk.payload_bytes,
        });
        if is_last {
            break;
        }
    }
    seen.conversations += u64::from(!walk.is_gone);
    seen.payload_bytes += walk.payload_bytes;
    seen.redacted += walk.redacted;
    seen.changes += walk.changes;
    seen.damaged += walk.damaged;
    seen.findings.append(&mut walk.findings);
    seen.notes.append(&mut walk.notes);
    Ok(())
}

/// The finding if a conversation is in the table, but is not found by its id.
const LOST: &str = "it is not found by its id: the catalogue's index does not have it";

/// Returns the row of a listed conversation, and whether it is missing from the index. `None` if the conversation was
/// deleted. A row of the same id with another key is a conversation that was made since.
fn row_of(db: &Connection, key: i64, id: &ConversationId) -> Result<Option<(Entry, bool)>> {
    if let Some(entry) = Entry::load(db, id)? {
        return Ok((entry.key == key).then_some((entry, false)));
    }
    let lost = Entry::load_by_key(db, key, id)?;
    Ok(lost.map(|entry| (entry, true)))
}

/// The state of a conversation's check.
struct Walk<'a> {
    key: i64,
    id: &'a ConversationId,
    /// The last sequence read.
    last: i64,
    position: i64,
    hash: Digest,
    payload_bytes: u64,
    redacted: u64,
    /// The catalogue's row as computed from the events. `None` if the stored row cannot be read.
    replayed: Option<Entry>,
    /// The number of imported events. `None` if there was no import. An import may put HEAD anywhere.
    imported: Option<u64>,
    /// The last event that moved HEAD, not counting imported events.
    moved: Option<(u64, String)>,
    /// The event before, if its hash is wrong and the cause is not known yet.
    suspect: Option<Suspect>,
    /// The number of events removed before this place, less those inserted: an event's original sequence is its present
    /// one plus this.
    shift: i64,
    /// The ids of the events just before. Most parents are among them.
    recent: VecDeque<String>,
    /// Whether the event before could not be read. Then the hash before the next one is unknown.
    is_torn: bool,
    /// Whether the end of the conversation could not be read.
    is_cut: bool,
    /// Whether the conversation was deleted meanwhile.
    is_gone: bool,
    /// The number of rows of its chain of changes.
    changes: u64,
    /// The number of findings that are damage.
    damaged: u64,
    findings: Vec<Finding>,
    notes: Vec<Finding>,
}

/// An event whose hash does not follow from the one before.
struct Suspect {
    link: Link,
    previous: Digest,
    /// Its index among the findings. `None` if there were already too many.
    finding: Option<usize>,
}

impl<'a> Walk<'a> {
    fn new(key: i64, id: &'a ConversationId) -> Self {
        Self {
            key,
            id,
            last: i64::MIN,
            position: 0,
            hash: Digest::START,
            payload_bytes: 0,
            redacted: 0,
            replayed: None,
            imported: None,
            moved: None,
            suspect: None,
            shift: 0,
            recent: VecDeque::with_capacity(parent::RECENT),
            is_torn: false,
            is_cut: false,
            is_gone: false,
            changes: 0,
            damaged: 0,
            findings: Vec::new(),
            notes: Vec::new(),
        }
    }

    /// Reads what the events will be compared with. Returns whether the conversation is still there.
    fn begin(&mut self, db: &Connection) -> Result<bool> {
        let row = row_of(db, self.key, self.id);
        if let Some(row) = self.bear("its row in the catalogue", row)? {
            let Some((stored, is_lost)) = row else { return Ok(false) };
            self.replayed = Some(stored.emptied());
            if is_lost {
                self.add_finding(None, LOST.into());
            }
        }
        let origin = origin::load(db, self.key);
        let origin = self.bear("the record of where it was imported from", origin)?;
        self.imported = origin.flatten().map(|origin| origin.events);
        Ok(true)
    }

    /// Returns the value that was read. If reading `what` met damage, adds a finding and returns `None`.
    fn bear<T>(&mut self, what: &str, read: Result<T>) -> Result<Option<T>> {
        match read {
            Ok(value) => Ok(Some(value)),
            Err(error) => {
                let finding = Finding::of_damage(Some(self.id), what, error)?;
                self.add_damage(None, finding.what);
                Ok(None)
            }
        }
    }

    /// Returns the sequence that the next event should have.
    fn next(&self) -> i64 {
        self.last.max(-1).saturating_add(1)
    }

    fn add_finding(&mut self, sequence: Option<i64>, what: String) {
        if self.findings.len() < FINDINGS_MAX {
            let sequence = sequence.map(|sequence| Sequence(sequence.cast_unsigned()));
            self.findings.push(Finding { conversation: Some(self.id.clone()), sequence, what });
        }
    }

    fn add_note(&mut self, sequence: i64, what: String) {
        if self.notes.len() < FINDINGS_MAX {
            let sequence = Some(Sequence(sequence.cast_unsigned()));
            self.notes.push(Finding { conversation: Some(self.id.clone()), sequence, what });
        }
    }

    /// Checks up to [`PAGE`] events. Returns how many were read, and whether they are the last.
    fn page(&mut self, db: &Connection) -> Result<(i64, bool)> {
        let mut read = 0;
        match self.rows(db, &mut read) {
            Ok(()) => Ok((read, read < PAGE)),
            Err(error) if is_damage(&error) => Ok((read, !self.skip(db, &error)?)),
            Err(error) => Err(error),
        }
    }

    fn rows(&mut self, db: &Connection, read: &mut i64) -> Result<()> {
        let mut statement = db.prepare_cached(EVENTS).doing(DOING)?;
        let mut rows = statement.query(params![self.key, self.last, PAGE]).doing(DOING)?;
        let mut payloads = Payloads::new(db);
        while let Some(row) = rows.next().doing(DOING)? {
            // A damaged index may lead back to events that were checked already.
            if row.get::<_, i64>(0).doing(DOING)? <= self.last {
                return Err(Error::Corrupt { what: "the index of the events is out of order".into() });
            }
            self.event(db, &mut payloads, row).doing(DOING)??;
            *read += 1;
            match self.parent(db, row).doing(DOING) {
                Err(error) if is_damage(&error) => {
                    let what = format!("its parent cannot be looked up: {}", described(&error));
                    self.add_damage(Some(self.last), what);
                }
                other => other?,
            }
        }
        Ok(())
    }

    /// Skips an event that cannot be read. Returns whether the check can continue after it.
    fn skip(&mut self, db: &Connection, error: &Error) -> Result<bool> {
        self.resolve(None);
        let next: Result<Option<i64>> = db
            .prepare_cached(NEXT)
            .and_then(|mut statement| statement.query_row(params![self.key, self.last], |row| row.get(0)))
            .doing(DOING);
        match next {
            Ok(Some(next)) if next > self.last && self.findings.len() < FINDINGS_MAX => {
                self.add_damage(Some(next), format!("it cannot be read: {}", described(error)));
                self.last = next;
                self.is_torn = true;
                return Ok(true);
            }
            Err(other) if !is_damage(&other) => return Err(other),
            _ => {}
        }
        self.is_cut = true;
        let from = self.next();
        self.add_damage(None, format!("its events from {from} on cannot be read: {}", described(error)));
        Ok(false)
    }

    /// Adds a finding that is damage.
    fn add_damage(&mut self, sequence: Option<i64>, what: String) {
        self.damaged += 1;
        self.add_finding(sequence, what);
    }

    /// Checks one event. The inner result is an error of reading a payload or the administrative log.
    fn event(
        &mut self,
        db: &Connection,
        payloads: &mut Payloads<'_>,
        row: &Row<'_>,
    ) -> rusqlite::Result<Result<()>> {
        let sequence: i64 = row.get(0)?;
        let is_behind_a_gap = self.place(sequence, row.get(13)?) | std::mem::take(&mut self.is_torn);
        let id = String::from_utf8_lossy(row.get_ref(1)?.as_bytes()?).into_owned();
        let stored = row.get_ref(2)?.as_bytes()?;
        let marked = row.get_ref(3)?.as_bytes_or_null()?;
        let redacted = marked.and_then(Digest::from_bytes);
        let payload = row.get_ref(4)?.as_bytes()?;
        let unpacked = match payloads.unpacked(row.get(13)?, payload) {
            Ok(unpacked) => unpacked,
            Err(error) if is_damage(&error) => {
                self.resolve(None);
                self.add_damage(Some(sequence), format!("it cannot be read: {}", described(&error)));
                self.hash = Digest::from_bytes(stored).unwrap_or(self.hash);
                self.last = sequence;
                return Ok(Ok(()));
            }
            Err(error) => return Ok(Err(error)),
        };
        let payload = unpacked.as_ref().map_or(payload, String::as_bytes);
        let text = simdutf8::basic::from_utf8(payload).ok();
        let read = text.and_then(|text| Envelope::read(text).ok());
        if let Some(at) = read.as_ref().and_then(|(_, notes)| notes.repeated) {
            self.add_note(
                sequence,
                format!("it names a member that its object has already, at byte {at}: {NAMED_TWICE}"),
            );
        }
        let envelope = read.map(|(envelope, _)| envelope);
        let digest = redacted.unwrap_or_else(|| Digest::of(payload));
        let link = Link {
            sequence: sequence.saturating_add(self.shift).max(0).cast_unsigned(),
            id: id.clone(),
            payload: digest,
            hash: Digest::from_bytes(stored).unwrap_or(Digest::START),
        };
        let follows = self.resolve(Some(&link));
        let hash = chain::link(self.id.as_str(), link.sequence, &id, digest, self.hash);
        if follows && stored != hash.0 && !is_behind_a_gap {
            self.suspect(sequence, link, stored);
        } else if marked.is_some() && redacted.is_none() {
            self.add_finding(Some(sequence), "the digest of its redacted payload is not a digest".into());
        } else if let Some(first) = redacted
            && let Some(what) = match redacted_otherwise(db, self.id, &id, first, payload) {
                Ok(what) => what.map(str::to_owned),
                Err(error) if is_damage(&error) => {
                    self.damaged += 1;
                    Some(format!("the receipts of its redaction cannot be read: {}", described(&error)))
                }
                Err(error) => return Ok(Err(error)),
            }
        {
            self.add_finding(Some(sequence), what);
        } else if let Some(column) = wrong_column(row, envelope.as_ref())? {
            let what = format!("column {column} does not say what the payload says; rebuild cannot mend it");
            self.add_finding(Some(sequence), what);
        }
        // Continues from the stored hash, so that one changed event does not make a finding of every later event.
        if follows {
            self.hash = Digest::from_bytes(stored).unwrap_or(hash);
        }
        self.last = sequence;
        self.payload_bytes += payload.len() as u64;
        self.redacted += u64::from(redacted.is_some());
        if let Some((envelope, text)) = envelope.zip(text) {
            let effect = Effect::of(&envelope, text);
            let at = Timestamp(row.get(14)?);
            if let Some(replayed) = &mut self.replayed {
                replayed.take(&envelope, text, self.hash, effect, at);
            }
            let appended = self.imported.is_none_or(|count| sequence.cast_unsigned() >= count);
            if appended && kind::moves_head(&envelope.kind) {
                self.moved = Some((sequence.cast_unsigned(), id));
            }
        }
        Ok(Ok(()))
    }

    /// Adds a finding for an event whose hash is wrong.
    fn suspect(&mut self, sequence: i64, link: Link, stored: &[u8]) {
        let what = "its hash does not follow from its payload, id, place and the event before: ";
        let finding = (self.findings.len() < FINDINGS_MAX).then_some(self.findings.len());
        self.add_finding(Some(sequence), what.into());
        let previous = self.hash;
        if stored.len() == 32 {
            self.suspect = Some(Suspect { link, previous, finding });
        } else if let Some(finding) = finding {
            self.findings[finding].what.push_str(&Damage::HashChanged.to_string());
        }
    }

    /// Adds the cause to the finding of the suspect event, if there is one, now that the next event is known.
    ///
    /// Returns whether the next event is to be checked against it as usual.
    fn resolve(&mut self, next: Option<&Link>) -> bool {
        let Some(Suspect { link, previous, finding }) = self.suspect.take() else { return true };
        let damage = diagnose(self.id.as_str(), previous, &link, next);
        if let Some(finding) = finding {
            self.findings[finding].what.push_str(&damage.to_string());
        }
        let Some(next) = next else { return true };
        match damage {
            Damage::Changed | Damage::Several | Damage::Last => return true,
            Damage::PlacesSwapped => self.hash = link.hash,
            Damage::HashChanged | Damage::ContentsSwapped => self.hash = next.hash,
            Damage::PutIn => {
                self.hash = next.hash;
                self.shift -= 1;
            }
            Damage::TakenOut(count) => {
                self.hash = next.hash;
                self.shift += count.cast_signed();
            }
        }
        false
    }

    /// Checks that an event directly follows the one before. Returns whether there is a gap between them.
    fn place(&mut self, sequence: i64, position: i64) -> bool {
        let next = self.next();
        if sequence < 0 {
            self.add_finding(None, format!("an event stands at sequence {sequence}, before the first"));
        } else if sequence == next.saturating_add(1) && sequence > next {
            self.add_finding(Some(next), format!("event {next} is missing"));
        } else if sequence > next {
            self.add_finding(Some(next), format!("events {next} to {} are missing", sequence - 1));
        }
        if position <= self.position {
            self.add_finding(Some(sequence), "its position is not behind that of the event before".into());
        } else if position > log::POSITION_MAX {
            self.add_finding(Some(sequence), format!("its position is {position}, which no log reaches"));
        }
        self.position = position;
        sequence > next
    }
}
