//! How an import writes: old events as they are, in bounded transactions, then what stands beside them.
//!
//! An import differs from an append in what it tolerates (parents that are not there) and in who says where
//! HEAD is (the base state that came along). It is resumable: until [`Store::finish_import`] has written the
//! origin, a conversation counts as half imported, and the same folder completes it.

use std::collections::HashSet;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::PathBuf;

use super::admin::{self, ActKind, NewAct};
use super::append::Head;
use super::attachment::{self, NewAttachment};
use super::catalogue::{self, Entry};
use super::change::{self, Subject};
use super::origin::{self, Origin, Problem};
use super::{Store, append, arrival, base_state, log, stay_out};
use rusqlite::Connection;

use crate::chain::Digest;
use crate::error::{Error, Result};
use crate::event::NewEvent;
use crate::event::foreign::ForeignFormat;
use crate::ids::{ConversationId, EventId, Sequence, Timestamp};
use crate::state::BaseDocument;
use crate::state::status::Effect;
use crate::untrusted;

/// An event on its way in from a file.
#[derive(Debug, Clone)]
pub(crate) struct Arrival {
    /// The event.
    pub event: NewEvent,
    /// Its file within the events directory, where export would choose another.
    pub file: Option<String>,
}

/// What became of an event that arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Landing {
    /// Where the event of its id is.
    pub sequence: Sequence,
    /// Whether it was written just now.
    pub written: bool,
    /// Whether the event there has its bytes.
    pub same: bool,
}

/// A file to keep beside the events.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ArrivingFile {
    /// Its path within the conversation's folder; ends in `/` for an empty folder.
    pub path: String,
    /// Where it is now.
    pub from: PathBuf,
    /// Where in that file it begins, where it is only a part of it.
    pub offset: Option<u64>,
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
    pub copy: Option<LogCopy>,
}

/// What is told of a conversation that is a copy of another program's log.
#[derive(Debug, Clone)]
pub(crate) struct LogCopy {
    /// The format of that log.
    pub format: &'static str,
    /// The last event of the branch that was the live one there; `None` where there is none.
    pub head: Option<EventId>,
}

/// By which door events come in.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Door<'a> {
    /// From a folder or a file of our own format, whose path this is.
    Folder(&'a str),
    /// From another program's log, whose path this is.
    Log(&'a str, ForeignFormat),
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

    /// Appends imported events; answers for each where it is, or where the event is that has its id. Until
    /// [`Store::finish_import`] the conversation counts as one on its way in; from another program's log it is
    /// a copy of that from now on.
    pub(crate) fn import_events(
        &self,
        conversation: &ConversationId,
        door: Door<'_>,
        arrivals: &[Arrival],
    ) -> Result<Vec<Landing>> {
        let effects: Vec<Effect> =
            arrivals.iter().map(|new| Effect::of(new.event.envelope(), new.event.payload())).collect();
        self.write(|db| {
            let now = Timestamp::now();
            let mut entry = match Entry::load_to_append(db, conversation)? {
                Some(entry) => entry,
                None => Entry::create(db, conversation, now)?,
            };
            let (Door::Folder(source) | Door::Log(source, _)) = door;
            if let Door::Log(_, format) = door
                && entry.foreign.as_deref() != Some(format.as_str())
            {
                catalogue::set_foreign(db, entry.key, format.as_str())?;
                entry.foreign = Some(format.as_str().to_owned());
            }
            let mut position = log::head(db)?;
            let mut landings = Vec::with_capacity(arrivals.len());
            for (arrival, effect) in arrivals.iter().zip(effects) {
                let event = &arrival.event;
                match append::append_event(db, conversation, &mut entry, &mut position, event, effect, now) {
                    Ok(place) => {
                        let written = !place.known;
                        if let Some(file) = arrival.file.as_ref().filter(|_| written) {
                            origin::name_file(db, entry.key, (place.position, place.sequence), file)?;
                        }
                        landings.push(Landing { sequence: place.sequence, written, same: true });
                    }
                    Err(Error::DuplicateEvent { sequence, .. }) => {
                        landings.push(Landing { sequence: Sequence(sequence), written: false, same: false });
                    }
                    Err(error) => return Err(error),
                }
            }
            // Where nothing was new, nothing happened, and least of all just now.
            if landings.iter().any(|landing| landing.written) {
                entry.save(db, now)?;
                arrival::begin(db, entry.key, source, now)?;
            }
            Ok(landings)
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
            change::replaced(db, entry.key, &[Subject::Attachment], || {
                attach_all(db, entry.key, &around.files)
            })?;
            origin::save_problems(db, entry.key, &around.problems, now)?;
            if let Some(LogCopy { format, head }) = &around.copy {
                catalogue::set_foreign(db, entry.key, format)?;
                let moved = head.as_ref().filter(|head| entry.leaf.as_deref() != Some(head.as_str()));
                if let Some(head) = moved {
                    append::set_head(db, conversation, &entry, &Head::At(head.clone()), now)?;
                }
            }
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
            arrival::end(db, entry.key)?;
            origin::save(db, entry.key, &around.origin, now)
        })
    }
}

/// Puts these files beside a conversation's events, in place of all that were there. What was redacted stays as it is
/// where a file is what it was before.
fn attach_all(db: &Connection, key: i64, files: &[ArrivingFile]) -> Result<()> {
    let mut redacted = HashSet::new();
    for stored in attachment::list(db, key)? {
        let stays_out =
            |file: &&ArrivingFile| file.path == stored.path && stored.redacted_from.contains(&file.digest);
        let known = !stored.redacted_from.is_empty();
        match files.iter().find(stays_out).filter(|_| known) {
            Some(file) => {
                redacted.insert(&file.path);
            }
            None => attachment::detach(db, key, &stored)?,
        }
    }
    for file in files.iter().filter(|file| !redacted.contains(&file.path)) {
        let new = NewAttachment {
            path: &file.path,
            bytes: file.bytes,
            digest: file.digest,
            reason: file.reason.as_deref(),
        };
        if file.path.ends_with('/') {
            attachment::attach(db, key, &new, &mut std::io::empty())?;
            continue;
        }
        let (mut content, _) = untrusted::open(&file.from).map_err(Error::io("reading", &file.from))?;
        let bytes = match file.offset {
            Some(offset) => {
                content.seek(SeekFrom::Start(offset)).map_err(Error::io("reading", &file.from))?;
                file.bytes
            }
            // One more, to see whether the file has grown since it was measured.
            None => file.bytes + 1,
        };
        attachment::attach(db, key, &new, &mut content.take(bytes))?;
    }
    Ok(())
}
