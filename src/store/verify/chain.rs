//! One conversation: its chain, event by event, and what the catalogue makes of them.

use std::collections::VecDeque;

use rusqlite::{Connection, OptionalExtension as _, Row, params};

use super::super::archive::Payloads;
use super::super::catalogue::{Entry, Told};
use super::super::engine::Doing as _;
use super::super::{Store, admin, base_state, origin};
use super::diagnosis::{Damage, Link, diagnose};
use super::{Finding, Verification, VerifyProgress};
use crate::chain::{self, Digest};
use crate::error::Result;
use crate::event::{Envelope, kind};
use crate::ids::{ConversationId, ROOT, Sequence, Timestamp};
use crate::state::status::Effect;

const EVENTS: &str = "SELECT sequence, id, hash, redacted_digest, payload, kind, source, timestamp, parent_id, \
     tool_call_id, action_id, llm_response_id, tool_name, position, recorded_at FROM event \
     WHERE conversation = ?1 AND sequence > ?2 ORDER BY sequence LIMIT ?3";

const PLACE: &str = "SELECT position FROM event WHERE conversation = ?1 AND id = ?2";

/// How many ids are kept to find parents among.
const RECENT: usize = 16;

/// How many events one read transaction covers.
const PAGE: i64 = 1000;

/// After this many findings the rest of a conversation is not told any more.
const FINDINGS_MAX: usize = 100;

const DOING: &str = "verifying events";

/// Checks a conversation from its first event to the catalogue's row.
pub(super) fn verify(
    store: &Store,
    key: i64,
    id: &ConversationId,
    seen: &mut Verification,
    progress: &mut dyn FnMut(VerifyProgress),
) -> Result<()> {
    let Some(entry) = store.read(|db| Entry::load(db, id))? else { return Ok(()) };
    let imported = store.read(|db| origin::load(db, key))?.map(|origin| origin.events);
    let mut walk = Walk::new(key, id, entry.emptied(), imported);
    loop {
        // The last page and the catalogue's row are read in one snapshot: events may be appended meanwhile.
        let read = store.snapshot(|db| {
            let read = walk.page(db)?;
            if read < PAGE {
                walk.close(db)?;
            }
            Ok(read)
        })?;
        seen.events += read.cast_unsigned();
        progress(VerifyProgress {
            events: seen.events,
            payload_bytes: seen.payload_bytes + walk.payload_bytes,
        });
        if read < PAGE {
            break;
        }
    }
    seen.payload_bytes += walk.payload_bytes;
    seen.redacted += walk.redacted;
    seen.findings.append(&mut walk.findings);
    seen.notes.append(&mut walk.notes);
    Ok(())
}

/// Where the check of a conversation stands.
struct Walk<'a> {
    key: i64,
    id: &'a ConversationId,
    /// The last sequence read.
    last: i64,
    position: i64,
    hash: Digest,
    payload_bytes: u64,
    redacted: u64,
    /// The catalogue's row as the events make it.
    replayed: Entry,
    /// How many events an import brought; it may have put HEAD elsewhere.
    imported: Option<u64>,
    /// The last event behind those that moved HEAD.
    moved: Option<(u64, String)>,
    /// The event before, where its hash is wrong and nobody knows yet why.
    suspect: Option<Suspect>,
    /// How far behind their first places events stand, where some were taken out or put in before them.
    shift: i64,
    /// Ids of the events just before: most parents are among them.
    recent: VecDeque<String>,
    findings: Vec<Finding>,
    notes: Vec<Finding>,
}

/// An event whose hash does not follow from the one before.
struct Suspect {
    link: Link,
    previous: Digest,
    /// Its place among the findings; `None` where there were too many already.
    finding: Option<usize>,
}

impl<'a> Walk<'a> {
    fn new(key: i64, id: &'a ConversationId, replayed: Entry, imported: Option<u64>) -> Self {
        Self {
            key,
            id,
            last: i64::MIN,
            position: 0,
            hash: Digest::START,
            payload_bytes: 0,
            redacted: 0,
            replayed,
            imported,
            moved: None,
            suspect: None,
            shift: 0,
            recent: VecDeque::with_capacity(RECENT),
            findings: Vec::new(),
            notes: Vec::new(),
        }
    }

    /// The sequence that the next event should have.
    fn next(&self) -> i64 {
        self.last.max(-1) + 1
    }

    fn find(&mut self, sequence: Option<i64>, what: String) {
        if self.findings.len() < FINDINGS_MAX {
            let sequence = sequence.map(|sequence| Sequence(sequence.cast_unsigned()));
            self.findings.push(Finding { conversation: Some(self.id.clone()), sequence, what });
        }
    }

    /// Checks up to [`PAGE`] events; answers how many it read.
    fn page(&mut self, db: &Connection) -> Result<i64> {
        let mut statement = db.prepare_cached(EVENTS).doing(DOING)?;
        let mut rows = statement.query(params![self.key, self.last, PAGE]).doing(DOING)?;
        let mut payloads = Payloads::new(db);
        let mut read = 0;
        while let Some(row) = rows.next().doing(DOING)? {
            self.event(db, &mut payloads, row).doing(DOING)??;
            self.parent(db, row).doing(DOING)?;
            read += 1;
        }
        Ok(read)
    }

    /// The inner result is that of looking into the administrative log.
    fn event(
        &mut self,
        db: &Connection,
        payloads: &mut Payloads<'_>,
        row: &Row<'_>,
    ) -> rusqlite::Result<Result<()>> {
        let sequence: i64 = row.get(0)?;
        let is_behind_a_gap = self.place(sequence, row.get(13)?);
        let id = String::from_utf8_lossy(row.get_ref(1)?.as_bytes()?).into_owned();
        let stored = row.get_ref(2)?.as_bytes()?;
        let redacted = row.get_ref(3)?.as_bytes_or_null()?.and_then(Digest::from_bytes);
        let payload = row.get_ref(4)?.as_bytes()?;
        let unpacked = match payloads.unpacked(row.get(13)?, payload) {
            Ok(unpacked) => unpacked,
            Err(error) => {
                self.find(Some(sequence), error.to_string());
                None
            }
        };
        let payload = unpacked.as_ref().map_or(payload, String::as_bytes);
        let text = simdutf8::basic::from_utf8(payload).ok();
        let envelope = text.and_then(|text| Envelope::read(text).ok()).map(|(envelope, _)| envelope);
        let digest = redacted.unwrap_or_else(|| Digest::of(payload));
        let link = Link {
            sequence: (sequence + self.shift).max(0).cast_unsigned(),
            id: id.clone(),
            payload: digest,
            hash: Digest::from_bytes(stored).unwrap_or(Digest::START),
        };
        let follows = self.resolve(Some(&link));
        let hash = chain::link(self.id.as_str(), link.sequence, &id, digest, self.hash);
        if follows && stored != hash.0 && !is_behind_a_gap {
            self.suspect(sequence, link, stored);
        } else if let Some(first) = redacted
            && let Some(what) = match redacted_otherwise(db, self.id, &id, first, payload) {
                Ok(what) => what,
                Err(error) => return Ok(Err(error)),
            }
        {
            self.find(Some(sequence), what.into());
        } else if let Some(column) = wrong_column(row, envelope.as_ref())? {
            let what = format!("column {column} does not say what the payload says; rebuild cannot mend it");
            self.find(Some(sequence), what);
        }
        // Go on from what is stored, so that one changed event is one finding and not all that follow.
        if follows {
            self.hash = Digest::from_bytes(stored).unwrap_or(hash);
        }
        self.last = sequence;
        self.payload_bytes += payload.len() as u64;
        self.redacted += u64::from(redacted.is_some());
        if let Some((envelope, text)) = envelope.zip(text) {
            let effect = Effect::of(&envelope, text);
            self.replayed.take(&envelope, text, self.hash, effect, Timestamp(row.get(14)?));
            let appended = self.imported.is_none_or(|count| sequence.cast_unsigned() >= count);
            if appended && kind::moves_head(&envelope.kind) {
                self.moved = Some((sequence.cast_unsigned(), id));
            }
        }
        Ok(Ok(()))
    }

    /// Notes where an event's parent is not one of the events before it.
    fn parent(&mut self, db: &Connection, row: &Row<'_>) -> rusqlite::Result<()> {
        let text = |column| Ok::<_, rusqlite::Error>(row.get_ref(column)?.as_str_or_null().ok().flatten());
        let (id, parent): (_, Option<&str>) = (text(1)?.unwrap_or_default(), text(8)?);
        if let Some(parent) = parent
            && parent != ROOT
            && !self.recent.iter().any(|known| known == parent)
        {
            let position: i64 = row.get(13)?;
            let found: Option<i64> = db
                .prepare_cached(PLACE)?
                .query_row(params![self.key, parent], |row| row.get(0))
                .optional()?;
            let what = match found {
                Some(place) if place < position => None,
                Some(_) => {
                    Some(format!("its parent {parent:?} is not before it: the tree has a circle there"))
                }
                None => Some(format!("its parent {parent:?} is not in the log")),
            };
            if let Some(what) = what.filter(|_| self.notes.len() < FINDINGS_MAX) {
                let sequence = Some(Sequence(self.last.cast_unsigned()));
                self.notes.push(Finding { conversation: Some(self.id.clone()), sequence, what });
            }
        }
        if self.recent.len() == RECENT {
            self.recent.pop_front();
        }
        self.recent.push_back(id.to_owned());
        Ok(())
    }

    /// Notes an event whose hash is wrong.
    fn suspect(&mut self, sequence: i64, link: Link, stored: &[u8]) {
        let what = "its hash does not follow from its payload, id, place and the event before: ";
        let finding = (self.findings.len() < FINDINGS_MAX).then_some(self.findings.len());
        self.find(Some(sequence), what.into());
        let previous = self.hash;
        if stored.len() == 32 {
            self.suspect = Some(Suspect { link, previous, finding });
        } else if let Some(finding) = finding {
            self.findings[finding].what.push_str(&Damage::HashChanged.to_string());
        }
    }

    /// Tells what happened to the event before, where its hash was wrong, now that the next one is known.
    /// Answers whether the next one is to be checked against it as usual.
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

    /// Checks that an event stands right behind the one before; answers whether there is a gap between them.
    fn place(&mut self, sequence: i64, position: i64) -> bool {
        let next = self.next();
        if sequence < 0 {
            self.find(None, format!("an event stands at sequence {sequence}, before the first"));
        } else if sequence == next + 1 {
            self.find(Some(next), format!("event {next} is missing"));
        } else if sequence > next {
            self.find(Some(next), format!("events {next} to {} are missing", sequence - 1));
        }
        if position <= self.position {
            self.find(Some(sequence), "its position is not behind that of the event before".into());
        }
        self.position = position;
        sequence > next
    }

    /// Compares what was read with the catalogue, HEAD and the base state.
    fn close(&mut self, db: &Connection) -> Result<()> {
        self.resolve(None);
        let Some(stored) = Entry::load(db, self.id)? else {
            self.findings.clear(); // it was deleted meanwhile
            return Ok(());
        };
        let length = self.next().cast_unsigned();
        if length != stored.event_count {
            let what =
                format!("the catalogue says {} events, the log ends after {length}", stored.event_count);
            self.find(None, what);
        } else if stored.head_hash != self.hash {
            let what =
                "the head hash is not that of the last event: the end of the log, or its record, was changed";
            self.find(None, what.into());
        }
        let broken = base_state::broken(db, self.key, stored.event_count)?;
        let is_broken = broken.is_some();
        if let Some(what) = broken {
            self.find(None, what);
        }
        if is_broken || !self.findings.is_empty() {
            return Ok(()); // what follows from them would only be told twice
        }
        let status = base_state::told_status(db, self.key)?;
        let told = Told { status, imported: self.imported.is_some() };
        if let Some(column) = stored.first_difference(db, &self.replayed, &told)? {
            self.find(None, format!("the catalogue's {column} is not what the events say"));
        }
        if !base_state::head_is_told(db, &stored, self.moved.as_ref(), self.imported)? {
            let what = "HEAD is not where an event, a navigation or the base state has put it";
            self.find(None, what.into());
        }
        Ok(())
    }
}

/// What is wrong with a redacted event, of which the chain no longer says what it holds: the administrative
/// log does. `first` is the digest of what it held at first.
fn redacted_otherwise(
    db: &Connection,
    conversation: &ConversationId,
    id: &str,
    first: Digest,
    payload: &[u8],
) -> Result<Option<&'static str>> {
    let changes = admin::changes(db, conversation.as_str(), "event", id)?;
    let Some((_, newest)) = changes.last() else {
        return Ok(Some("it says that it is redacted, and the administrative log does not: it was changed"));
    };
    if !changes.iter().any(|(old, _)| *old == Some(first)) || *newest != Some(Digest::of(payload)) {
        return Ok(Some("it was changed after it was redacted: the administrative log knows another digest"));
    }
    Ok(None)
}

/// The first extracted column that differs from the payload.
fn wrong_column(row: &Row<'_>, envelope: Option<&Envelope>) -> rusqlite::Result<Option<&'static str>> {
    let Some(envelope) = envelope else { return Ok(Some("payload")) };
    let columns = [
        ("kind", 5, Some(&envelope.kind)),
        ("source", 6, envelope.source.as_ref()),
        ("timestamp", 7, envelope.timestamp.as_ref()),
        ("parent_id", 8, envelope.parent_id.as_ref()),
        ("tool_call_id", 9, envelope.tool_call_id.as_ref()),
        ("action_id", 10, envelope.action_id.as_ref()),
        ("llm_response_id", 11, envelope.llm_response_id.as_ref()),
        ("tool_name", 12, envelope.tool_name.as_ref()),
    ];
    for (name, column, expected) in columns {
        if row.get_ref(column)?.as_bytes_or_null()? != expected.map(String::as_bytes) {
            return Ok(Some(name));
        }
    }
    Ok(None)
}
