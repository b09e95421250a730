//! How an import writes: old events as they are, in bounded transactions, then what stands beside them.
//!
//! An import differs from an append in what it tolerates (parents that are not there) and in who says where
//! HEAD is (the base state that came along). It is resumable: until [`Store::finish_import`] has written the
//! origin, a conversation counts as half imported, and the same folder completes it.

use std::collections::HashSet;
use std::fs::File;
use std::io::Read as _;
use std::path::PathBuf;

use super::admin::{self, ActKind, NewAct};
use super::attachment::{self, NewAttachment};
use super::catalogue::{self, Entry};
use super::origin::{self, Origin, Problem};
use super::{Store, append, base_state, log, stay_out};
use crate::chain::Digest;
use crate::error::{Error, Result};
use crate::event::NewEvent;
use crate::ids::{ConversationId, Timestamp};
use crate::state::BaseDocument;
use crate::state::status::Effect;

/// An event on its way in from a file.
#[derive(Debug, Clone)]
pub(crate) struct Arrival {
    /// The event.
    pub event: NewEvent,
    /// Its file within the events directory, where export would choose another.
    pub file: Option<String>,
}

/// A file to keep beside the events.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ArrivingFile {
    /// Its path within the conversation's folder; ends in `/` for an empty folder.
    pub path: String,
    /// Where it is now.
    pub from: PathBuf,
    /// Its size in bytes.
    pub bytes: u64,
    /// The SHA-256 of its content.
    pub digest: Digest,
    /// Why it is no event, where it looked like one.
    pub reason: Option<String>,
}

/// What stands beside the events of an imported conversation.
#[derive(Debug, Clone)]
pub(crate) struct Surroundings {
    pub origin: Origin,
    pub base_state: Option<BaseDocument>,
    pub files: Vec<ArrivingFile>,
    pub problems: Vec<Problem>,
    pub title: Option<String>,
    pub tags: Option<String>,
    pub created_at: Option<Timestamp>,
    pub parent: Option<ConversationId>,
    pub forked_from: Option<(String, Option<String>)>,
}

impl Store {
    /// Writes down that an import took in what it refuses as a rule.
    pub(crate) fn note_acceptance(&self, conversation: &ConversationId, what: &str) -> Result<()> {
        let actor = &self.0.options.actor;
        self.write(|db| {
            let act = NewAct {
                act: ActKind::Accept,
                conversation: Some(conversation.as_str()),
                reason: None,
                detail: serde_json::json!({ "accepted": what }),
                receipts: &[],
            };
            admin::write(db, actor, &act, Timestamp::now()).map(drop)
        })
    }

    /// Appends imported events; answers for each whether it was stored, or its id was there already.
    pub(crate) fn import_events(
        &self,
        conversation: &ConversationId,
        arrivals: &[Arrival],
    ) -> Result<Vec<bool>> {
        let effects: Vec<Effect> =
            arrivals.iter().map(|new| Effect::of(new.event.envelope(), new.event.payload())).collect();
        self.write(|db| {
            let now = Timestamp::now();
            let mut entry = match Entry::load(db, conversation)? {
                Some(entry) => entry,
                None => Entry::create(db, conversation, now)?,
            };
            let mut position = log::head(db)?;
            let mut stored = Vec::with_capacity(arrivals.len());
            for (arrival, effect) in arrivals.iter().zip(effects) {
                let event = &arrival.event;
                match append::append_event(db, conversation, &mut entry, &mut position, event, effect, now) {
                    Ok(place) if !place.known => {
                        if let Some(file) = &arrival.file {
                            origin::name_file(db, place.position.0.cast_signed(), file)?;
                        }
                        stored.push(true);
                    }
                    Ok(_) | Err(Error::DuplicateEvent { .. }) => stored.push(false),
                    Err(error) => return Err(error),
                }
            }
            // Where nothing was new, nothing happened, and least of all just now.
            if stored.contains(&true) {
                entry.save(db, now)?;
            }
            Ok(stored)
        })
    }

    /// The base state's document as it is stored, HEAD as it was told last.
    pub(crate) fn stored_document(&self, conversation: &ConversationId) -> Result<Option<BaseDocument>> {
        self.snapshot(|db| base_state::stored_document(db, catalogue::key(db, conversation)?))
    }

    /// Writes what stands beside the events, in place of what stood there before; the import is complete.
    pub(crate) fn finish_import(&self, conversation: &ConversationId, around: &Surroundings) -> Result<()> {
        self.write(|db| {
            let now = Timestamp::now();
            let entry = match Entry::load(db, conversation)? {
                Some(entry) => entry,
                None => Entry::create(db, conversation, now)?,
            };
            let around = &stay_out::surroundings(db, conversation, entry.key, around)?;
            if let Some(document) = &around.base_state {
                base_state::replace(db, &entry, document, now)?;
            }
            let mut redacted = HashSet::new();
            for stored in attachment::list(db, entry.key)? {
                let stays_out = |file: &&ArrivingFile| {
                    file.path == stored.path && stored.redacted_from.contains(&file.digest)
                };
                let known = !stored.redacted_from.is_empty();
                match around.files.iter().find(stays_out).filter(|_| known) {
                    Some(file) => {
                        redacted.insert(&file.path);
                    }
                    None => attachment::detach(db, entry.key, &stored)?,
                }
            }
            for file in around.files.iter().filter(|file| !redacted.contains(&file.path)) {
                let new = NewAttachment {
                    path: &file.path,
                    bytes: file.bytes,
                    digest: file.digest,
                    reason: file.reason.as_deref(),
                };
                if file.path.ends_with('/') {
                    attachment::attach(db, entry.key, &new, &mut std::io::empty())?;
                    continue;
                }
                let content = File::open(&file.from).map_err(Error::io("reading", &file.from))?;
                attachment::attach(db, entry.key, &new, &mut content.take(file.bytes + 1))?;
            }
            origin::save_problems(db, entry.key, &around.problems, now)?;
            if let Some(title) = &around.title {
                catalogue::set_title(db, entry.key, Some(title))?;
            }
            if let Some(tags) = &around.tags {
                catalogue::set_tags(db, entry.key, tags)?;
            }
            if let Some(created_at) = around.created_at {
                catalogue::set_created(db, entry.key, created_at)?;
            }
            if let Some(parent) = &around.parent {
                catalogue::set_parent(db, entry.key, parent)?;
            }
            if let Some((from, at)) = &around.forked_from {
                catalogue::set_fork(db, entry.key, from, at.as_deref())?;
            }
            origin::save(db, entry.key, &around.origin, now)
        })
    }
}
