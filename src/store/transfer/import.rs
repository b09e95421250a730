//! Writes an import: old events as they are, in bounded transactions, then everything else of the conversation.
//!
//! An import differs from an append: it accepts events whose parent is missing, and it takes HEAD from the imported
//! base state. It can be resumed: until [`Store::finish_import`] has written the origin, a conversation counts as
//! partly imported, and a new import of the same folder completes it.

use std::collections::{HashMap, HashSet};
use std::io::{ErrorKind, Read, Seek as _, SeekFrom};
use std::path::PathBuf;

use super::stay_out;
use crate::store::Store;
use crate::store::table::admin::{self, ActKind, NewAct};
use crate::store::table::attachment::{self, Attachment, NewAttachment};
use crate::store::table::catalogue::{self, Entry};
use crate::store::table::change::{self, Subject};
use crate::store::table::origin::{self, Origin, Problem};
use crate::store::table::{arrival, base_state, log};
use crate::store::write::append::{self, Leaf};
use rusqlite::Connection;

use crate::chain::Digest;
use crate::error::{AroundError, Error, Result};
use crate::event::NewEvent;
use crate::event::foreign::ForeignFormat;
use crate::ids::{ConversationId, EventId, Sequence, Timestamp};
use crate::state::BaseDocument;
use crate::state::status::Effect;
use crate::untrusted;

/// An event that an import reads from a file.
#[derive(Debug, Clone)]
pub(crate) struct Arrival {
    /// The event.
    pub event: NewEvent,
    /// Its file name within the events directory, if an export would choose another name.
    pub file: Option<String>,
}

/// The result of importing one event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Landing {
    /// The sequence of the stored event with its id.
    pub sequence: Sequence,
    /// Whether this import wrote it.
    pub written: bool,
    /// Whether the stored event has the same bytes.
    pub same: bool,
}

/// A file to store beside the events.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ArrivingFile {
    /// Its path within the conversation's folder; ends in `/` for an empty folder.
    pub path: String,
    /// The file that it is read from.
    pub from: PathBuf,
    /// Its offset in that file, if it is only a part of the file.
    pub offset: Option<u64>,
    /// Its size in bytes.
    pub bytes: u64,
    /// The SHA-256 of its content.
    pub digest: Digest,
    /// Why it is not an event, if it looked like one.
    pub reason: Option<String>,
}

/// Everything of an imported conversation except its events.
#[derive(Debug, Clone)]
pub(crate) struct Surroundings {
    pub origin: Origin,
    pub base_state: Option<BaseDocument>,
    pub files: Vec<ArrivingFile>,
    /// The paths of stored files that stay, although the source does not have them any more.
    pub kept: HashSet<String>,
    pub problems: Vec<Problem>,
    pub title: Option<String>,
    pub tags: Option<String>,
    pub created_at: Option<Timestamp>,
    pub parent: Option<ConversationId>,
    pub forked_from: Option<(String, Option<String>)>,
    pub copy: Option<LogCopy>,
}

/// Information about a conversation that is a copy of another program's log.
#[derive(Debug, Clone)]
pub(crate) struct LogCopy {
    /// The format of that log.
    pub format: &'static str,
    /// The last event of the branch that is live in that log. `None` if there is none.
    pub head: Option<EventId>,
}

/// What an import found of its conversation when it began. It may be deleted, erased or made anew since, and what the
/// import has decided by then does not fit what it writes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Footing {
    /// The key of its row. `None` if there was none.
    key: Option<i64>,
    /// Whether it is taken in although it was erased.
    pub accepts_erased: bool,
}

impl Footing {
    /// Returns whether there is such a conversation.
    pub(crate) fn is_there(self) -> bool {
        self.key.is_some()
    }

    /// Checks that the conversation is what it was, in the transaction that writes. Remembers the row that the import has
    /// made.
    ///
    /// # Errors
    /// [`AroundError::GoneMeanwhile`].
    fn take(
        &mut self,
        db: &Connection,
        conversation: &ConversationId,
        found: Option<Entry>,
        now: Timestamp,
    ) -> Result<Entry> {
        let gone = || Error::from(AroundError::GoneMeanwhile { conversation: conversation.to_string() });
        let entry = match (self.key, found) {
            (Some(key), Some(entry)) if entry.key == key => entry,
            (Some(_), _) => return Err(gone()),
            (None, Some(entry)) => entry,
            (None, None) => {
                if !self.accepts_erased && admin::last(db, conversation.as_str(), ActKind::Erase)?.is_some() {
                    return Err(gone());
                }
                Entry::create(db, conversation, now)?
            }
        };
        self.key = Some(entry.key);
        Ok(entry)
    }
}

/// The kind of source that events are imported from.
#[derive(Debug, Clone, Copy)]
pub(crate) enum ImportSource<'a> {
    /// A folder or a file of Annals' own format, with its path.
    Folder(&'a str),
    /// Another program's log, with its path.
    Log(&'a str, ForeignFormat),
}

impl Store {
    /// Records in the administrative log that an import accepted something that it normally refuses.
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

    /// Returns what there is of a conversation before an import.
    pub(crate) fn footing(&self, conversation: &ConversationId) -> Result<Footing> {
        let key = self.read(|db| match catalogue::key(db, conversation) {
            Err(Error::UnknownConversation { .. }) => Ok(None),
            key => key.map(Some),
        })?;
        Ok(Footing { key, accepts_erased: false })
    }

    /// Appends imported events. Returns for each event where it is, or where the stored event with its id is. Until
    /// [`Store::finish_import`] the conversation counts as partly imported. If the events are from another program's
    /// log, the conversation is a read-only copy of that log from now on.
    ///
    /// # Errors
    /// [`AroundError::GoneMeanwhile`] if the conversation is not the one that `footing` found, and errors of writing.
    pub(crate) fn import_events(
        &self,
        conversation: &ConversationId,
        footing: &mut Footing,
        import_source: ImportSource<'_>,
        arrivals: &[Arrival],
    ) -> Result<Vec<Landing>> {
        let effects: Vec<Effect> =
            arrivals.iter().map(|new| Effect::of(new.event.envelope(), new.event.payload())).collect();
        self.write(|db| {
            let now = Timestamp::now();
            let mut standing = *footing;
            let mut entry = standing.take(db, conversation, Entry::load_to_append(db, conversation)?, now)?;
            let (ImportSource::Folder(source) | ImportSource::Log(source, _)) = import_source;
            if let ImportSource::Log(_, format) = import_source
                && entry.foreign.as_deref() != Some(format.as_str())
            {
                catalogue::set_foreign(db, entry.key, format.as_str())?;
                entry.foreign = Some(format.as_str().to_owned());
            }
            let mut position = log::last_position(db)?;
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
            // If no event was new, the conversation must not get a new time.
            if landings.iter().any(|landing| landing.written) {
                entry.save(db, now)?;
                arrival::begin(db, entry.key, source, now)?;
            }
            Ok((landings, standing))
        })
        .map(|(landings, standing)| {
            *footing = standing;
            landings
        })
    }

    /// Returns the base state's document as it is stored. Its HEAD may be older than the present one.
    pub(crate) fn stored_document(&self, conversation: &ConversationId) -> Result<Option<BaseDocument>> {
        self.snapshot(|db| base_state::stored_document(db, catalogue::key(db, conversation)?))
    }

    /// Replaces everything of the conversation except its events. Then the import is complete.
    ///
    /// # Errors
    /// As [`Store::import_events`].
    pub(crate) fn finish_import(
        &self,
        conversation: &ConversationId,
        footing: Footing,
        around: &Surroundings,
    ) -> Result<()> {
        self.write(|db| {
            let now = Timestamp::now();
            let mut footing = footing;
            let entry = footing.take(db, conversation, Entry::load(db, conversation)?, now)?;
            let around = &stay_out::surroundings(db, conversation, entry.key, around)?;
            if let Some(document) = &around.base_state {
                base_state::replace(db, &entry, document, now)?;
            }
            change::replaced(db, entry.key, &[Subject::Attachment], || {
                attach_all(db, entry.key, &around.files, &around.kept)
            })?;
            origin::save_problems(db, entry.key, &around.problems, now)?;
            if let Some(LogCopy { format, head }) = &around.copy {
                catalogue::set_foreign(db, entry.key, format)?;
                let moved = head.as_ref().filter(|head| entry.leaf.as_deref() != Some(head.as_str()));
                if let Some(head) = moved {
                    append::set_leaf(db, conversation, &entry, &Leaf::At(head.clone()), now)?;
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

/// Replaces all attachments of a conversation by these files, except those whose paths are in `kept`. A redacted
/// attachment stays as it is if the new file equals the file before redaction. A file that has vanished since it was listed
/// changes nothing.
fn attach_all(db: &Connection, key: i64, files: &[ArrivingFile], kept: &HashSet<String>) -> Result<()> {
    let mut stored: HashMap<String, Attachment> =
        attachment::list(db, key)?.into_iter().map(|stored| (stored.path.clone(), stored)).collect();
    stored.retain(|path, _| !kept.contains(path));
    for file in files {
        let old = stored.remove(&file.path);
        if old.as_ref().is_some_and(|old| old.redacted_from.contains(&file.digest)) {
            continue;
        }
        let mut content: Box<dyn Read> = if file.path.ends_with('/') {
            Box::new(std::io::empty())
        } else {
            let opened = match untrusted::open(&file.from) {
                Err(error) if error.kind() == ErrorKind::NotFound => continue,
                opened => opened,
            };
            let (mut content, _) = opened.map_err(Error::io("reading", &file.from))?;
            let bytes = match file.offset {
                Some(offset) => {
                    content.seek(SeekFrom::Start(offset)).map_err(Error::io("reading", &file.from))?;
                    file.bytes
                }
                // One more byte, to detect whether the file has grown since its size was read.
                None => file.bytes + 1,
            };
            Box::new(content.take(bytes))
        };
        if let Some(old) = old {
            attachment::detach(db, key, &old)?;
        }
        let new = NewAttachment {
            path: &file.path,
            bytes: file.bytes,
            digest: file.digest,
            reason: file.reason.as_deref(),
        };
        attachment::attach(db, key, &new, &mut content)?;
    }
    stored.values().try_for_each(|gone| attachment::detach(db, key, gone))
}
