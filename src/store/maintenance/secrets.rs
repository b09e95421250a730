//! Finds secrets: searches every stored text and reports their places, never their values.

use std::collections::HashMap;

use rusqlite::Connection;

use crate::error::{Error, Result};
use crate::ids::{ConversationId, Sequence};
use crate::redact::finder::VALUE_BYTES_MIN;
use crate::redact::{self, Finder, RedactScope, Spot};
use crate::store::Retention;
use crate::store::engine::WhileDoing as _;
use crate::store::table::kept::{Kept, Part};
use crate::store::table::{attachment, base_state, catalogue, log, origin};

const NEXT: &str =
    "SELECT key, id FROM conversation WHERE key > ?1 AND (?2 IS NULL OR id = ?2) ORDER BY key LIMIT 1";

/// The most places in one report. Further places are only counted.
pub const PLACES_MAX: usize = 100_000;

/// A place where something was found.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Place {
    /// The conversation.
    pub conversation: ConversationId,
    /// The part of the conversation that has the text.
    pub part: Part,
    /// The event. For a change of the base state, the event before it.
    pub sequence: Option<Sequence>,
    /// The event's id, the field, or the attachment's path. "" if there is only one text of this part.
    pub name: String,
    /// The place in the text, such as `observation.content[0].text`. "" for the text itself.
    pub path: String,
    /// The kind of secret; see [`crate::redact::PATTERNS`].
    pub kind: &'static str,
    /// The masked secret, which may be shown.
    pub hint: String,
    /// The number of the secret in the report, from 1. The same secret has the same number everywhere.
    pub secret: u64,
    /// How often it occurs at this place.
    pub count: u64,
}

/// The result of a scan for secrets.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct SecretReport {
    /// The places, at most [`PLACES_MAX`].
    pub places: Vec<Place>,
    /// The number of further places.
    pub left_off: u64,
    /// The number of different secrets.
    pub secrets: u64,
    /// The number of searched conversations.
    pub conversations: u64,
    /// The number of searched events.
    pub events: u64,
    /// The bytes of their payloads.
    pub payload_bytes: u64,
}

/// The progress of a scan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct ScanProgress {
    /// The number of events searched so far.
    pub events: u64,
    /// The bytes of their payloads.
    pub payload_bytes: u64,
}

impl Retention<'_> {
    /// Searches all data of one conversation, or of all, for secrets: events, base states and their changes, titles,
    /// tags, attachments, and the records of imports.
    ///
    /// Searches for what `finder` finds, for `values` (each with its name for hints), and in each conversation also for
    /// the values that its own base state has in plain text. Values are never reported. Attachments are searched as
    /// text as far as they are UTF-8.
    ///
    /// # Errors
    /// [`UnknownConversation`](crate::Error::UnknownConversation), [`Finder`](crate::Error::Finder) if a value cannot
    /// be searched for, and any read error.
    pub fn scan_secrets(
        &self,
        conversation: Option<&ConversationId>,
        finder: &Finder,
        values: &[(String, String)],
        progress: &mut dyn FnMut(ScanProgress),
    ) -> Result<SecretReport> {
        if let Some(conversation) = conversation {
            self.store.read(|db| catalogue::key(db, conversation))?;
        }
        let base = finder.clone().with_values(values)?;
        let mut scan = Scan::default();
        let mut key = 0;
        while let Some((next, id)) = self.store.read(|db| next(db, key, conversation))? {
            key = next;
            let finder = self.store.read(|db| with_own(db, key, finder, &base, values))?;
            scan.report.conversations += 1;
            self.scan_one(key, &id, &finder, &mut scan, progress)?;
        }
        Ok(scan.finish())
    }

    /// Returns `finder` with `values` and with the values that the conversation's base state has in plain text.
    ///
    /// # Errors
    /// [`UnknownConversation`](crate::Error::UnknownConversation), [`Finder`](crate::Error::Finder) if a value cannot
    /// be searched for.
    pub fn finder_with_own(
        &self,
        conversation: &ConversationId,
        finder: &Finder,
        values: &[(String, String)],
    ) -> Result<Finder> {
        let base = finder.clone().with_values(values)?;
        self.store.snapshot(|db| with_own(db, catalogue::key(db, conversation)?, finder, &base, values))
    }

    fn scan_one(
        &self,
        key: i64,
        id: &ConversationId,
        finder: &Finder,
        scan: &mut Scan,
        progress: &mut dyn FnMut(ScanProgress),
    ) -> Result<()> {
        let wanted = RedactScope::Matches(finder);
        let mut from = Some(0);
        while let Some(sequence) = from {
            from = self.store.read(|db| {
                log::edit(db, key, sequence, &mut |kept| {
                    scan.report.events += 1;
                    scan.report.payload_bytes += kept.text.len() as u64;
                    scan.look(id, &kept, wanted);
                    Ok(None)
                })
            })?;
            let (events, payload_bytes) = (scan.report.events, scan.report.payload_bytes);
            progress(ScanProgress { events, payload_bytes });
        }
        self.store.snapshot(|db| {
            let mut look = |kept: Kept<'_>| {
                scan.look(id, &kept, wanted);
                Ok(None)
            };
            catalogue::edit(db, key, &mut look)?;
            base_state::edit(db, key, &mut look)?;
            origin::edit(db, key, &mut look)?;
            attachment::edit(db, key, &mut |attachment, content| {
                let path = attachment.path.as_str();
                scan.look(id, &Kept { part: Part::FileName, sequence: None, name: path, text: path }, wanted);
                for chunk in content.utf8_chunks() {
                    let text = chunk.valid();
                    if text.len() >= VALUE_BYTES_MIN {
                        let kept = Kept { part: Part::Attachment, sequence: None, name: path, text };
                        scan.look(id, &kept, wanted);
                    }
                }
                Ok(None)
            })
        })
    }
}

/// Returns `finder` with `values` and with those that the conversation's base state has in plain text. `base` if it has
/// none.
pub(super) fn with_own(
    db: &Connection,
    key: i64,
    finder: &Finder,
    base: &Finder,
    values: &[(String, String)],
) -> Result<Finder> {
    let Some(document) = base_state::stored_document(db, key)? else { return Ok(base.clone()) };
    let own = redact::open_secrets(document.as_str());
    if own.is_empty() {
        return Ok(base.clone());
    }
    // `values` come first, so that a value in both lists has the name that the caller gave it.
    Ok(finder.clone().with_values(&[values, &own].concat())?)
}

fn next(db: &Connection, after: i64, only: Option<&ConversationId>) -> Result<Option<(i64, ConversationId)>> {
    let doing = "listing conversations";
    let mut statement = db.prepare_cached(NEXT).doing(doing)?;
    let mut rows = statement.query((after, only.map(ConversationId::as_str))).doing(doing)?;
    let Some(row) = rows.next().doing(doing)? else { return Ok(None) };
    let id: String = row.get(1).doing(doing)?;
    let conversation = ConversationId::new(&id).map_err(Error::damaged("the id of a conversation"))?;
    Ok(Some((row.get(0).doing(doing)?, conversation)))
}

/// Collects the places of what was found.
#[derive(Default)]
pub(super) struct Scan {
    pub report: SecretReport,
    numbers: HashMap<String, u64>,
}

impl Scan {
    fn look(&mut self, id: &ConversationId, kept: &Kept<'_>, wanted: RedactScope<'_>) {
        let found = kept.rewrite(wanted);
        if found.taken.is_empty() && found.left.is_empty() {
            return;
        }
        let hidden =
            matches!(wanted, RedactScope::Matches(finder) if !finder.find(None, kept.name).is_empty());
        let kept = Kept { name: if hidden { redact::REDACTED } else { kept.name }, ..*kept };
        for spot in found.taken.into_iter().chain(found.left) {
            self.add(id, &kept, spot);
        }
    }

    /// Adds a place, or counts it if it is already in the report.
    pub(super) fn add(&mut self, id: &ConversationId, kept: &Kept<'_>, spot: Spot) {
        let next = self.numbers.len() as u64 + 1;
        let secret = *self.numbers.entry(spot.value).or_insert(next);
        let sequence = kept.sequence.map(Sequence);
        // Matches at the same place come one after the other, so only the last places are searched.
        let same = |place: &&mut Place| {
            place.secret == secret
                && place.path == spot.path
                && (place.part, place.sequence, place.name.as_str()) == (kept.part, sequence, kept.name)
                && place.conversation == *id
        };
        if let Some(place) = self.report.places.iter_mut().rev().take(64).find(same) {
            place.count += 1;
            return;
        }
        if self.report.places.len() == PLACES_MAX {
            self.report.left_off += 1;
            return;
        }
        self.report.places.push(Place {
            conversation: id.clone(),
            part: kept.part,
            sequence,
            name: kept.name.to_owned(),
            path: spot.path,
            kind: spot.kind,
            hint: spot.hint,
            secret,
            count: 1,
        });
    }

    /// Returns the places found so far.
    pub(in crate::store) fn places(&self) -> &[Place] {
        &self.report.places
    }

    pub(in crate::store) fn finish(mut self) -> SecretReport {
        self.report.secrets = self.numbers.len() as u64;
        self.report
    }
}
