//! Compares arriving events and files with the stored ones.

use std::collections::HashMap;

use super::pages::Pages;
use crate::error::Result;
use crate::event::NewEvent;
use crate::ids::{ConversationId, Sequence};
use crate::store::{ArrivingFile, Attachment, Problem, Store, StoredEvent};

/// What is done about a conversation that differs from the stored one.
pub(super) const CONFLICT: &str = "left as stored; import it under another id with --as to have both";

/// What the administrative log says if changed files were accepted.
pub(super) const CHANGED_FILES: &str = "changed files";

/// The stored events of a conversation, in order.
pub(super) struct Stored<'a> {
    events: Pages<'a>,
    /// The number of events that were matched.
    pub matched: u64,
}

/// How an arriving event compares with the next stored one.
pub(super) enum Match {
    /// The events are equal.
    Same,
    /// No further event is stored, so the event is new.
    New,
    /// Another event, or another payload, is stored in its place.
    Different(Box<StoredEvent>),
}

impl<'a> Stored<'a> {
    /// Makes a reader that begins at the event `from`. If `from` is `None`, no event is stored, and every event is new.
    pub(super) fn new(store: &'a Store, conversation: &'a ConversationId, from: Option<Sequence>) -> Self {
        Self { events: Pages::new(store, conversation, from), matched: 0 }
    }

    /// Compares `event` with the next stored one. Moves on to the following one if they are equal.
    pub(super) fn compare(&mut self, event: &NewEvent) -> Result<Match> {
        let Some(stored) = self.events.peek()? else { return Ok(Match::New) };
        let same = stored.payload == event.payload() || stored.redacted_digest == Some(event.digest());
        if stored.id != *event.id() || !same {
            return Ok(Match::Different(Box::new(stored.clone())));
        }
        self.events.next()?;
        self.matched += 1;
        Ok(Match::Same)
    }

    /// Returns whether every stored event was matched.
    pub(super) fn is_exhausted(&mut self) -> Result<bool> {
        Ok(self.events.peek()?.is_none())
    }
}

/// Returns the paths of the files that differ from the stored ones: changed, new or missing.
pub(super) fn changed_files(
    store: &Store,
    conversation: &ConversationId,
    arriving: &[ArrivingFile],
) -> Result<Vec<String>> {
    let mut stored: HashMap<String, Attachment> =
        store.attachments(conversation)?.into_iter().map(|file| (file.path.clone(), file)).collect();
    let mut changed = Vec::new();
    for file in arriving {
        if !stored.remove(&file.path).is_some_and(|stored| stored.is_or_was(file.digest)) {
            changed.push(file.path.clone());
        }
    }
    changed.extend(stored.into_keys());
    changed.sort();
    Ok(changed)
}

/// Returns the problem that a file beside the events has changed although no event is new.
pub(super) fn changed_file(path: String) -> Problem {
    Problem {
        path,
        problem: "it is not the file that was imported, and no event is new".into(),
        action: "left as stored; --accept-changed-files takes it over".into(),
    }
}
