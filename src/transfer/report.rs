//! The options, the progress and the results of an import.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::discover::{Found, Shape, SourceFormat};
use crate::ids::ConversationId;
use crate::store::Problem;

/// The callback that receives the progress of an import.
pub type OnProgress<'p> = &'p mut dyn FnMut(ImportProgress<'_>);

/// The options of an import.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct ImportOptions {
    /// Give the conversation this id instead of its own. For the import of a single conversation.
    pub id: Option<ConversationId>,
    /// Accept changed files beside the events even if no event is new.
    pub accept_changed_files: bool,
    /// Accept conversations that were erased here.
    pub accept_erased: bool,
    /// Import only this format, and read a file that is named directly as this format. `None` detects the format.
    pub format: Option<SourceFormat>,
    /// Write nothing, and report what an import would do.
    pub dry_run: bool,
}

setters!(ImportOptions {
    id?: ConversationId,
    accept_changed_files: bool,
    accept_erased: bool,
    format?: SourceFormat,
    dry_run: bool,
});

/// The result of importing one conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ImportStatus {
    /// It is new, and all of it was imported.
    Imported,
    /// It is stored already, and is the same.
    Unchanged,
    /// It was stored already; new events or accepted changes were added.
    Updated,
    /// It is new, and was imported with problems.
    Partial,
    /// It is new or has grown, and is kept whole, but no message was found in it.
    Unread,
    /// It differs from the stored one, or was erased here; nothing was changed.
    Conflict,
    /// It could not be read or stored.
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
            Self::Unread => "unread",
            Self::Conflict => "conflict",
            Self::Failed => "failed",
        }
    }
}

/// The report on one conversation.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ImportReport {
    /// Its id in this store. `None` if its import failed.
    pub id: Option<ConversationId>,
    /// Where it was found.
    pub path: PathBuf,
    /// The result.
    pub status: ImportStatus,
    /// The number of its events that are stored now.
    pub events: u64,
    /// The number of events that this import added.
    pub added: u64,
    /// The number of payload bytes that this import added.
    pub added_bytes: u64,
    /// Its format: `openhands`, `openhands-v0`, or that of another program's log (`claude-code`, ..).
    pub format: &'static str,
    /// The number of records, for another program's log and for OpenHands V0; otherwise 0.
    pub records: u64,
    /// The number of records without a counterpart among the known kinds of events, by their type. Only for
    /// another program's log and for OpenHands V0.
    pub unread: BTreeMap<String, u64>,
    /// The number of records that were not understood: of types that the importer does not know, or in violation of the
    /// format. They are kept as they are. Only for another program's log.
    pub not_understood: u64,
    /// What is wrong with it, and what was done about each problem.
    pub problems: Vec<Problem>,
}

impl ImportReport {
    /// Returns a report without counts or problems for a conversation that was found.
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
                Shape::Files { .. } | Shape::Container { .. } | Shape::File | Shape::Evaluation(_) => {
                    "openhands"
                }
            },
            records: 0,
            unread: BTreeMap::new(),
            not_understood: 0,
            problems: Vec::new(),
        }
    }

    /// Returns whether less than half of the records were understood. Always false for conversations of OpenHands.
    #[must_use]
    pub fn is_barely_understood(&self) -> bool {
        self.not_understood > self.records / 2
    }
}

/// The progress of an import.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ImportProgress<'a> {
    /// The path of the conversation that is being read.
    pub path: &'a Path,
    /// The number of this conversation, from 0.
    pub conversation: usize,
    /// The number of conversations that were found.
    pub conversations: usize,
    /// The number of events read so far, in all conversations.
    pub events: u64,
    /// The number of payload bytes read so far, in all conversations.
    pub bytes: u64,
}
