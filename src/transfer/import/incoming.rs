//! What an import asks of a format.

use std::collections::HashSet;
use std::path::PathBuf;

use super::Intake;
use crate::error::Result;
use crate::ids::ConversationId;
use crate::store::{ArrivingFile, Attachment, Problem, Store, Surroundings};
use crate::transfer::container::TornTail;
use crate::transfer::discover::{Found, Shape};
use crate::transfer::foreign::Log;
use crate::transfer::openhands::Conversation;

/// A conversation that was found, as an import reads it. Each of the two sorts of formats implements it once.
pub(in crate::transfer) trait Incoming {
    /// Returns the names of the conversation.
    fn names(&self) -> Result<Names>;

    /// Returns whether the stored conversation `id` came from this source. Its import may be incomplete.
    fn is_of(&self, store: &Store, id: &ConversationId) -> Result<bool>;

    /// Returns whether the conversation is compared with the one that is stored under its own id.
    fn claims(&self, store: &Store, own: &ConversationId) -> Result<bool> {
        self.is_of(store, own)
    }

    /// Returns the reason why the stored conversation `id` can take no events of this source.
    fn refusal(&self, store: &Store, id: &ConversationId) -> Result<Option<Problem>>;

    /// Compares the records with the stored ones and passes the new ones to `intake`. Reports the size of each record in
    /// bytes. Returns the difference because of which nothing can be imported.
    fn read(&mut self, intake: &mut Intake<'_>, on_record: &mut dyn FnMut(u64)) -> Result<Option<Problem>>;

    /// Returns the data beside the events, after all events are stored. Its problems are added to `intake`.
    fn surroundings(&mut self, intake: &mut Intake<'_>) -> Result<Surroundings>;

    /// Returns whether an import loses nothing of a stored file if `arriving` takes its place, or if it is left out.
    fn follows(&self, stored: &Attachment, arriving: Option<&ArrivingFile>) -> bool;

    /// Returns whether a file only accompanies the writing of others, so that it may come, change and go.
    fn is_passing(&self, _path: &str) -> bool {
        false
    }

    /// What an import without a new event does about changed data beside the events.
    fn changes(&self) -> Changes;
}

/// What an import without a new event does about changed data beside the events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::transfer) enum Changes {
    /// It refuses every change: the conversation may have gone on here.
    Refused,
    /// It takes over what loses nothing of the stored data: the conversation is a read-only copy that only grows.
    Added,
}

/// The names of a conversation that is imported.
pub(in crate::transfer) struct Names {
    /// The name of its source, as its origin keeps it.
    pub folder: String,
    /// The id that it has in its source. `None` if there is no valid one.
    pub own: Option<ConversationId>,
    /// The ids that it gets if its own one is taken.
    pub others: Others,
    /// The file that says its own id, if a person should know that the id was taken.
    pub declared_in: Option<&'static str>,
}

/// The ids that a conversation gets if its own one is taken: the first one that is free.
pub(in crate::transfer) struct Others {
    /// The first id. `None` if the first one is numbered.
    pub first: Option<ConversationId>,
    /// The text before the number: `text~2`, `text~3`, ..
    pub stem: String,
}

/// Opens a conversation that was found. The folders in `apart` belong to other conversations.
pub(super) fn open<'a>(
    found: &'a Found,
    parent: Option<&'a ConversationId>,
    apart: &HashSet<PathBuf>,
    tail: TornTail,
    problems: &mut Vec<Problem>,
) -> Result<Box<dyn Incoming + 'a>> {
    Ok(match &found.shape {
        Shape::Log { format, key } => Box::new(Log::new(found, *format, key.as_deref())),
        Shape::Files { .. } | Shape::Container { .. } | Shape::File | Shape::Evaluation(_) => {
            Box::new(Conversation::open(found, parent, apart, tail, problems)?)
        }
    })
}
