//! Removes text from a conversation: from every table that stores it, and from the derived tables.
//!
//! An event keeps its place, its ids and its shape. The digest of its original payload stays, so the chain remains
//! valid. Everything happens in one transaction: either nothing is removed, or the text is gone from the log, the base
//! state, the catalogue, the attachments, the projections and the search index, and the administrative log has an act
//! of it.

use rusqlite::Connection;

use super::secrets::{self, Place, Scan};
use crate::chain::Digest;
#[cfg(doc)]
use crate::error::Error;
use crate::error::Result;
use crate::event::NewEvent;
use crate::ids::{ActNumber, ConversationId, EventId, Timestamp};
use crate::json::Object;
use crate::redact::{Finder, RedactScope, Rewritten};
use crate::state::status::Effect;
use crate::store::Retention;
use crate::store::derived::projection;
use crate::store::table::admin::{self, ActKind, NewAct, Receipt};
use crate::store::table::change::{self, Subject};
use crate::store::table::kept::{Kept, Part};
use crate::store::table::{archive, attachment, base_state, catalogue, guards, log, origin, related};

/// The text to remove.
#[derive(Debug, Clone, Copy)]
pub enum Redaction<'a> {
    /// All text of this event. Its kind, its time and its ids stay.
    Event(&'a EventId),
    /// Everything that `finder` finds, and these values (each with its name for hints).
    Matches {
        /// The finder of matches.
        finder: &'a Finder,
        /// Values to remove as well.
        values: &'a [(String, String)],
        /// Whether to also remove the values that the conversation's own base state has in plain text.
        own: bool,
    },
}

/// The result of a redaction, or of its plan.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct RedactionReport {
    /// The number of its act in the administrative log. `None` if nothing was written.
    pub act: Option<ActNumber>,
    /// The places where text was removed.
    pub taken: Vec<Place>,
    /// The places where something was found but stays: ids and other parts of a text's shape, file names.
    pub left: Vec<Place>,
    /// The number of further places that are not in these lists.
    pub left_off: u64,
    /// The number of changed events.
    pub events: u64,
    /// The number of changed attachments.
    pub attachments: u64,
    /// Attachments whose former content is still stored for other conversations.
    pub shared: Vec<String>,
    /// Related conversations that may contain copies, such as forks and sub-agents.
    pub related: Vec<ConversationId>,
    /// Whether the write-ahead log was emptied, so that it contains none of the removed text.
    pub log_emptied: bool,
}

impl Retention<'_> {
    /// Returns what [`Retention::redact`] would remove. Changes nothing.
    ///
    /// # Errors
    /// As [`Retention::redact`].
    pub fn plan_redaction(
        &self,
        conversation: &ConversationId,
        redaction: Redaction<'_>,
    ) -> Result<RedactionReport> {
        self.store.snapshot(|db| {
            let mut work = Work::new(db, conversation, redaction, false)?;
            work.all_texts()?;
            work.finish()
        })
    }

    /// Removes text from a conversation for good, and records in the administrative log what was removed, when, by whom
    /// and why.
    ///
    /// Freed space is overwritten and the write-ahead log is emptied. Earlier versions of a row may have left copies in
    /// other free space; [`Maintenance::vacuum`](crate::store::Maintenance::vacuum) removes them. Earlier backups and
    /// exports still contain the text. An archived conversation is no longer archived afterwards.
    ///
    /// # Errors
    /// [`Error::UnknownConversation`], [`Error::UnknownEvent`], [`Error::Finder`] if a value cannot be searched for,
    /// and any write error. Then nothing was changed.
    pub fn redact(
        &self,
        conversation: &ConversationId,
        redaction: Redaction<'_>,
        reason: &str,
    ) -> Result<RedactionReport> {
        let plan = self.plan_redaction(conversation, redaction)?;
        if plan.taken.is_empty() {
            return Ok(plan);
        }
        self.store.catch_up()?;
        let actor = &self.store.0.options.actor;
        let mut report = self.store.overwrite(|db| {
            let mut work = Work::new(db, conversation, redaction, true)?;
            work.was_archived = archive::is_archived(db, work.key)?;
            archive::leave(db, work.key)?;
            guards::permit(db, "redact")?;
            change::tracked(db, work.key, Subject::ALL, || work.all_texts())?;
            guards::forbid(db)?;
            if !work.receipts.is_empty() {
                let act = NewAct {
                    act: ActKind::Redact,
                    conversation: Some(conversation.as_str()),
                    reason: Some(reason),
                    detail: work.detail(),
                    receipts: &work.receipts,
                };
                work.act = Some(admin::write(db, actor, &act, Timestamp::now())?);
            }
            work.finish()
        })?;
        report.log_emptied = self.store.maintenance().empty_log()?;
        Ok(report)
    }
}

/// A redaction in progress.
struct Work<'a> {
    db: &'a Connection,
    id: &'a ConversationId,
    key: i64,
    redaction: Redaction<'a>,
    finder: Finder,
    /// Whether changes are written. False for a plan.
    writes: bool,
    taken: Scan,
    left: Scan,
    receipts: Vec<Receipt>,
    events: u64,
    attachments: u64,
    shared: Vec<String>,
    /// The start of the first user message, after the redaction.
    first_message: Option<String>,
    /// The payload of the event whose whole text is removed, before and after.
    replaced: Option<(String, String)>,
    act: Option<ActNumber>,
    was_archived: bool,
}

impl<'a> Work<'a> {
    fn new(
        db: &'a Connection,
        id: &'a ConversationId,
        redaction: Redaction<'a>,
        writes: bool,
    ) -> Result<Self> {
        let key = catalogue::key(db, id)?;
        let finder = match redaction {
            Redaction::Event(event) if !log::has(db, key, event.as_str())? => {
                return Err(log::not_found(id, event.as_str()));
            }
            Redaction::Event(_) => Finder::default(),
            Redaction::Matches { finder, values, own } => {
                let base = finder.clone().with_values(values)?;
                if own { secrets::with_own(db, key, finder, &base, values)? } else { base }
            }
        };
        Ok(Self {
            db,
            id,
            key,
            redaction,
            finder,
            writes,
            taken: Scan::default(),
            left: Scan::default(),
            receipts: Vec::new(),
            events: 0,
            attachments: 0,
            shared: Vec::new(),
            first_message: None,
            replaced: None,
            act: None,
            was_archived: false,
        })
    }

    fn all_texts(&mut self) -> Result<()> {
        let (db, key) = (self.db, self.key);
        if self.writes {
            projection::search::forget(db, key)?;
        }
        let mut from = Some(0);
        while let Some(sequence) = from {
            from = log::edit(db, key, sequence, &mut |kept| self.event(kept))?;
        }
        if let Redaction::Matches { .. } = self.redaction {
            catalogue::edit(db, key, &mut |kept| Ok(self.text(kept)))?;
            base_state::edit(db, key, &mut |kept| Ok(self.state(kept)))?;
            origin::edit(db, key, &mut |kept| Ok(self.text(kept)))?;
        }
        attachment::edit(db, key, &mut |attachment, content| self.attachment(attachment, content))?;
        if self.writes {
            if catalogue::has_first_message(db, key)? {
                catalogue::set_first_message(db, key, self.first_message.as_deref())?;
            }
            if self.events > 0 {
                catalogue::count_bytes(db, key)?;
            }
            projection::again(db, key)?;
            projection::search::remember(db, key)?;
        }
        Ok(())
    }

    /// Returns the new text. `None` if it does not change. Records the places that were found.
    fn rewrite(&mut self, kept: &Kept<'_>, wanted: RedactScope<'_>) -> Option<String> {
        let Rewritten { text, taken, left } = kept.rewrite(wanted);
        for spot in taken {
            self.taken.add(self.id, kept, spot);
        }
        for spot in left {
            self.left.add(self.id, kept, spot);
        }
        text
    }

    fn event(&mut self, kept: Kept<'_>) -> Result<Option<String>> {
        let finder = self.finder.clone();
        let new = match self.redaction {
            Redaction::Event(event) if event.as_str() == kept.name => {
                self.rewrite(&kept, RedactScope::Everything)
            }
            Redaction::Event(_) => None,
            Redaction::Matches { .. } => self.rewrite(&kept, RedactScope::Matches(&finder)),
        };
        if self.first_message.is_none() {
            let payload = new.as_deref().unwrap_or(kept.text);
            self.first_message = first_message(kept.name, payload);
        }
        let Some(new) = new else { return Ok(None) };
        self.events += 1;
        self.note(Part::Event, kept.name, kept.sequence, kept.text.as_bytes(), new.as_bytes());
        if let Redaction::Event(_) = self.redaction {
            self.replaced = Some((kept.text.to_owned(), new.clone()));
        }
        Ok(self.writes.then_some(new))
    }

    fn text(&mut self, kept: Kept<'_>) -> Option<String> {
        let finder = self.finder.clone();
        let new = self.rewrite(&kept, RedactScope::Matches(&finder))?;
        self.note(kept.part, kept.name, None, kept.text.as_bytes(), new.as_bytes());
        self.writes.then_some(new)
    }

    /// Writes one receipt per field of a base state: by these, an import recognizes a field that it brings again.
    fn state(&mut self, kept: Kept<'_>) -> Option<String> {
        let finder = self.finder.clone();
        let new = self.rewrite(&kept, RedactScope::Matches(&finder))?;
        if kept.part == Part::BaseState {
            let (before, after) = (Object::of(kept.text), Object::of(&new));
            for field in before.keys() {
                if let (Some(old), Some(new)) = (before.get(field), after.get(field))
                    && old != new
                {
                    let (old, new) = (old.text().to_owned(), new.text().to_owned());
                    self.note(Part::BaseState, field, None, old.as_bytes(), new.as_bytes());
                }
            }
        } else {
            self.note(Part::BaseState, kept.name, None, kept.text.as_bytes(), new.as_bytes());
        }
        self.writes.then_some(new)
    }

    fn attachment(&mut self, file: &attachment::Attachment, content: &[u8]) -> Result<Option<Vec<u8>>> {
        let new = match &self.replaced {
            Some((old, new)) => replace_all(content, old.as_bytes(), new.as_bytes()),
            None if matches!(self.redaction, Redaction::Event(_)) => None,
            None => self.attached_text(file, content),
        };
        let Some(new) = new else { return Ok(None) };
        self.attachments += 1;
        self.note(Part::Attachment, &file.path, None, content, &new);
        if attachment::shared(self.db, self.key, file.digest)? > 0 {
            self.shared.push(file.path.clone());
        }
        Ok(self.writes.then_some(new))
    }

    /// Returns the content with its text rewritten. Bytes that are not text stay. `None` if nothing changes.
    fn attached_text(&mut self, file: &attachment::Attachment, content: &[u8]) -> Option<Vec<u8>> {
        let finder = self.finder.clone();
        let name = file.path.as_str();
        // The name is searched, but not changed: the file is found by its name.
        let named = Kept { part: Part::FileName, sequence: None, name, text: name };
        for spot in named.rewrite(RedactScope::Matches(&finder)).taken {
            self.left.add(self.id, &named, spot);
        }
        let mut new = Vec::with_capacity(content.len());
        let mut changed = false;
        for chunk in content.utf8_chunks() {
            let kept = Kept { part: Part::Attachment, sequence: None, name, text: chunk.valid() };
            match self.rewrite(&kept, RedactScope::Matches(&finder)) {
                Some(text) => {
                    changed = true;
                    new.extend_from_slice(text.as_bytes());
                }
                None => new.extend_from_slice(chunk.valid().as_bytes()),
            }
            new.extend_from_slice(chunk.invalid());
        }
        changed.then_some(new)
    }

    fn note(&mut self, part: Part, name: &str, sequence: Option<u64>, old: &[u8], new: &[u8]) {
        let receipt = Receipt {
            part: part.as_str().to_owned(),
            name: name.to_owned(),
            sequence,
            digest: Some(Digest::of(old)),
            new_digest: Some(Digest::of(new)),
        };
        if !self.receipts.contains(&receipt) || part == Part::Event {
            self.receipts.push(receipt);
        }
    }

    /// Returns the figures for the administrative log.
    fn detail(&self) -> serde_json::Value {
        let mut kinds = std::collections::BTreeMap::new();
        for place in self.taken.places() {
            *kinds.entry(place.kind).or_insert(0) += place.count;
        }
        serde_json::json!({
            "target": match self.redaction {
                Redaction::Event(_) => "event",
                Redaction::Matches { .. } => "matches",
            },
            "kinds": kinds,
            "events": self.events,
            "attachments": self.attachments,
            "unarchived": self.was_archived,
        })
    }

    fn finish(self) -> Result<RedactionReport> {
        let related = related::related(self.db, self.key)?;
        let (taken, left) = (self.taken.finish(), self.left.finish());
        Ok(RedactionReport {
            act: self.act,
            left_off: taken.left_off + left.left_off,
            taken: taken.places,
            left: left.places,
            events: self.events,
            attachments: self.attachments,
            shared: self.shared,
            related,
            log_emptied: false,
        })
    }
}

/// Returns the start of a user message, in one line. `None` if the payload is not a user message.
fn first_message(id: &str, payload: &str) -> Option<String> {
    let event =
        NewEvent::parse_lenient(payload, || EventId::new(id).unwrap_or_else(|_| EventId::mint())).ok()?;
    let is_spoken = Effect::of(event.envelope(), event.payload()) == Effect::Spoken;
    is_spoken.then(|| catalogue::first_message(event.envelope(), event.payload())).flatten()
}

/// Returns `content` with every `old` replaced. `None` if it has no `old`.
fn replace_all(content: &[u8], old: &[u8], new: &[u8]) -> Option<Vec<u8>> {
    let mut changed: Option<Vec<u8>> = None;
    let mut rest = content;
    while let Some(at) = rest.windows(old.len().max(1)).position(|window| window == old) {
        let out = changed.get_or_insert_with(|| Vec::with_capacity(content.len()));
        out.extend_from_slice(&rest[..at]);
        out.extend_from_slice(new);
        rest = &rest[at + old.len()..];
    }
    if let Some(out) = &mut changed {
        out.extend_from_slice(rest);
    }
    changed
}
