//! Taking text out of a conversation: out of every table that keeps it, and out of what was derived.
//!
//! An event keeps its place, its ids and its shape; the digest of what it was stays, so that the chain
//! still holds. Everything happens in one transaction: either nothing is taken out, or it is gone from
//! the log, the base state, the catalogue, the attachments, the projections and the search index, and the
//! administrative log says so.

use rusqlite::Connection;

use super::admin::{self, ActKind, NewAct, Receipt};
use super::attachment;
use super::change::{self, Subject};
use super::kept::{Kept, Part};
use super::secrets::{self, Place, Scan};
use super::{Store, archive, base_state, catalogue, log, origin, projection, related};
use crate::chain::Digest;
#[cfg(doc)]
use crate::error::Error;
use crate::error::Result;
use crate::event::NewEvent;
use crate::event::json::Object;
use crate::ids::{ConversationId, EventId, Timestamp};
use crate::redact::{Finder, Rewritten, Wanted};
use crate::state::status::Effect;

/// What to take out.
#[derive(Debug, Clone, Copy)]
pub enum Redaction<'a> {
    /// All text of this event; what it is, when it was and what it belongs to stays.
    Event(&'a EventId),
    /// What `finder` finds, wherever it is, and these values (each with what it is called in hints).
    Matches {
        /// What to look for.
        finder: &'a Finder,
        /// Values to look for as well.
        values: &'a [(String, String)],
        /// Also look for what the conversation's own base state holds in the open.
        own: bool,
    },
}

/// What a redaction took out, or would.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RedactionReport {
    /// Its number in the administrative log; `None` where nothing was written.
    pub act: Option<u64>,
    /// What was taken out.
    pub taken: Vec<Place>,
    /// What was found and stays: ids and other parts of a text's shape, names of files.
    pub left: Vec<Place>,
    /// Places beyond what these lists hold.
    pub left_off: u64,
    /// How many events changed.
    pub events: u64,
    /// How many attachments changed.
    pub attachments: u64,
    /// Attachments whose former content other conversations keep.
    pub shared: Vec<String>,
    /// Forks, sub-agents and their like: conversations that may hold copies.
    pub related: Vec<ConversationId>,
    /// Whether the write-ahead log was emptied, so that nothing is left in it.
    pub log_emptied: bool,
}

impl Store {
    /// What [`Store::redact`] would take out. Nothing is changed.
    ///
    /// # Errors
    /// As [`Store::redact`].
    pub fn plan_redaction(
        &self,
        conversation: &ConversationId,
        redaction: Redaction<'_>,
    ) -> Result<RedactionReport> {
        self.snapshot(|db| {
            let mut work = Work::new(db, conversation, redaction, false)?;
            work.all_texts()?;
            work.finish()
        })
    }

    /// Takes text out of a conversation for good, and writes into the administrative log that it did, when,
    /// by whom and why.
    ///
    /// What it frees is overwritten and the write-ahead log emptied; copies that earlier versions of a row
    /// left elsewhere in free room go with [`Store::vacuum`]. Backups and exports that were made before
    /// still hold what is taken out here. An archived conversation is archived no longer.
    ///
    /// # Errors
    /// [`Error::UnknownConversation`], [`Error::UnknownEvent`], [`Error::Finder`] for values that cannot be
    /// looked for, and what writing can meet. Nothing was changed then.
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
        self.catch_up()?;
        let actor = &self.0.options.actor;
        let mut report = self.overwrite(|db| {
            let mut work = Work::new(db, conversation, redaction, true)?;
            work.was_archived = archive::is_archived(db, work.key)?;
            archive::leave(db, work.key)?;
            log::permit(db, "redact")?;
            change::tracked(db, work.key, Subject::ALL, || work.all_texts())?;
            log::forbid(db)?;
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
        report.log_emptied = self.empty_log()?;
        Ok(report)
    }
}

/// A redaction under way.
struct Work<'a> {
    db: &'a Connection,
    id: &'a ConversationId,
    key: i64,
    redaction: Redaction<'a>,
    finder: Finder,
    /// Whether anything is written.
    writes: bool,
    taken: Scan,
    left: Scan,
    receipts: Vec<Receipt>,
    events: u64,
    attachments: u64,
    shared: Vec<String>,
    /// The start of the first user message, as it is afterwards.
    first_message: Option<String>,
    /// The payload of the event that goes whole, before and after.
    replaced: Option<(String, String)>,
    act: Option<u64>,
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

    /// The new text of something, where it changes; what was found in it is noted.
    fn rewrite(&mut self, kept: &Kept<'_>, wanted: Wanted<'_>) -> Option<String> {
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
            Redaction::Event(event) if event.as_str() == kept.name => self.rewrite(&kept, Wanted::Everything),
            Redaction::Event(_) => None,
            Redaction::Matches { .. } => self.rewrite(&kept, Wanted::Matches(&finder)),
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
        let new = self.rewrite(&kept, Wanted::Matches(&finder))?;
        self.note(kept.part, kept.name, None, kept.text.as_bytes(), new.as_bytes());
        self.writes.then_some(new)
    }

    /// A base state's receipts are by field: an import that brings the same field again is told by it.
    fn state(&mut self, kept: Kept<'_>) -> Option<String> {
        let finder = self.finder.clone();
        let new = self.rewrite(&kept, Wanted::Matches(&finder))?;
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

    /// The content with the text in it rewritten, as far as it is text.
    fn attached_text(&mut self, file: &attachment::Attachment, content: &[u8]) -> Option<Vec<u8>> {
        let finder = self.finder.clone();
        let name = file.path.as_str();
        // A name is only looked at: it is what the file is found by.
        let named = Kept { part: Part::FileName, sequence: None, name, text: name };
        for spot in named.rewrite(Wanted::Matches(&finder)).taken {
            self.left.add(self.id, &named, spot);
        }
        let mut new = Vec::with_capacity(content.len());
        let mut changed = false;
        for chunk in content.utf8_chunks() {
            let kept = Kept { part: Part::Attachment, sequence: None, name, text: chunk.valid() };
            match self.rewrite(&kept, Wanted::Matches(&finder)) {
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

    /// What the administrative log says: figures.
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

/// The start of a user message in one line, where the payload is one.
fn first_message(id: &str, payload: &str) -> Option<String> {
    let event = NewEvent::keep(payload, || EventId::new(id).unwrap_or_else(|_| EventId::mint())).ok()?;
    let is_spoken = Effect::of(event.envelope(), event.payload()) == Effect::Spoken;
    is_spoken.then(|| catalogue::first_message(event.envelope(), event.payload())).flatten()
}

/// `content` with every `old` replaced; `None` where there is none.
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
