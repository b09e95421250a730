//! How to import, how far it is, and what became of what was found.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::discover::{Found, Shape, SourceFormat};
use crate::ids::ConversationId;
use crate::store::Problem;

/// Told how far an import is.
pub type OnProgress<'p> = &'p mut dyn FnMut(ImportProgress<'_>);

/// How to import.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ImportOptions {
    /// Give the conversation this id instead of its own; for a single one.
    pub id: Option<ConversationId>,
    /// Take over files beside the events that have changed although no event was added.
    pub accept_changed_files: bool,
    /// Take in conversations again that were erased here.
    pub accept_erased: bool,
    /// Take every file for what it is told to be here, without looking.
    pub format: Option<SourceFormat>,
}

/// What became of a conversation that was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ImportStatus {
    /// It is new here, and all of it was taken in.
    Imported,
    /// It is here already, and is the same.
    Unchanged,
    /// It was here and has grown; what is new was added.
    Updated,
    /// It is new here; something in it could not be an event, or is not as it should be.
    Partial,
    /// It is here and differs; nothing was touched.
    Conflict,
    /// It could not be read at all.
    Failed,
}

impl ImportStatus {
    /// The name in JSON and on the command line.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Imported => "imported",
            Self::Unchanged => "unchanged",
            Self::Updated => "updated",
            Self::Partial => "partial",
            Self::Conflict => "conflict",
            Self::Failed => "failed",
        }
    }
}

/// What became of one conversation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImportReport {
    /// Its id here; `None` where it has none because it failed.
    pub id: Option<ConversationId>,
    /// Where it was found.
    pub path: PathBuf,
    /// What became of it.
    pub status: ImportStatus,
    /// How many of its events are here now.
    pub events: u64,
    /// How many of them this import added.
    pub added: u64,
    /// Payload bytes that this import added.
    pub added_bytes: u64,
    /// What it is: `openhands`, or another program's log (`claude-code`, ..).
    pub format: &'static str,
    /// Of another program's log, and of OpenHands V0: how many records it has.
    pub records: u64,
    /// Of another program's log: how many of its records have no counterpart among the kinds of events here and
    /// are events of a kind of their own, by their type.
    pub unread: BTreeMap<String, u64>,
    /// What is wrong with it, and what was done about that.
    pub problems: Vec<Problem>,
}

impl ImportReport {
    /// The report of what was found, with nothing in it yet.
    pub(super) fn of(found: &Found, id: Option<ConversationId>, status: ImportStatus) -> Self {
        Self {
            id,
            path: found.path.clone(),
            status,
            events: 0,
            added: 0,
            added_bytes: 0,
            format: match &found.shape {
                Shape::Log { format, .. } => format.as_str(),
                Shape::Files { .. } | Shape::Container { .. } | Shape::File => "openhands",
            },
            records: 0,
            unread: BTreeMap::new(),
            problems: Vec::new(),
        }
    }
}

/// How far an import is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImportProgress<'a> {
    /// The conversation that is read.
    pub path: &'a Path,
    /// Its number, from 0.
    pub conversation: usize,
    /// How many were found.
    pub conversations: usize,
    /// Events read so far, in all of them.
    pub events: u64,
    /// Payload bytes read so far, in all of them.
    pub bytes: u64,
}
