//! Taking conversations over from one file into another, row by row as they are.
//!
//! A copy is not an import: nothing is read out of payloads and nothing is tolerated. Every row is taken as
//! it is stored there, its time of recording with it, and its link of the chain is made anew and compared.
//! What arrives is what was there at one moment (a [`Parcel`]); whatever is appended there afterwards is not
//! looked at. Events come first, in bounded transactions; what stands beside them in the last one.

mod read;
mod write;

use rusqlite::Connection;

use super::base_state::carry::{Carried, Histories};
use super::catalogue::Whole;
use super::origin::{Origin, Problem};
use super::{Act, Attachment, Receipt, Store, Unfinished, attachment, base_state, catalogue};
use crate::chain::Digest;
use crate::error::Result;
use crate::ids::{ConversationId, Timestamp};

pub(crate) use read::Page;
pub(crate) use write::Step;

/// Everything of a conversation but its events, as it was at one moment.
#[derive(Debug, Clone)]
pub(crate) struct Parcel {
    /// Its id there.
    pub id: ConversationId,
    key: i64,
    whole: Whole,
    state: Carried,
    origin: Option<Origin>,
    problems: Vec<Problem>,
    attachments: Vec<Attachment>,
    /// The conversation whose sub-agent it is.
    pub parent: Option<ConversationId>,
    /// What was taken out of it there, with the receipts.
    redactions: Vec<(Act, Vec<Receipt>)>,
    /// The file it is in.
    store: String,
    /// The import that never ended there.
    unfinished: Option<Unfinished>,
}

impl Parcel {
    /// How many events it has.
    pub(crate) fn events(&self) -> u64 {
        self.whole.event_count
    }

    /// Whether its import never ended where it comes from.
    pub(crate) fn is_unfinished(&self) -> bool {
        self.unfinished.is_some()
    }

    /// Whether the conversation is as it was when the parcel was made.
    pub(super) fn is_still(&self, db: &Connection, key: i64) -> Result<bool> {
        Ok(catalogue::whole(db, key)? == self.whole
            && base_state::carry::load(db, key)? == self.state
            && attachment::list(db, key)? == self.attachments)
    }

    /// The last link of its chain.
    pub(crate) fn head_hash(&self) -> Digest {
        self.whole.head_hash
    }
}

/// One event's row as it is stored.
#[derive(Debug, Clone)]
pub(super) struct StoredRow {
    pub id: String,
    pub kind: String,
    pub source: Option<String>,
    pub timestamp: Option<String>,
    pub parent_id: Option<String>,
    pub tool_call_id: Option<String>,
    pub action_id: Option<String>,
    pub llm_response_id: Option<String>,
    pub tool_name: Option<String>,
    pub recorded_at: Timestamp,
    pub hash: Digest,
    pub redacted_digest: Option<Digest>,
    pub payload: String,
    /// Its file, where export would choose another.
    pub file: Option<String>,
}

/// How what is here compares with a parcel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Beside {
    /// The same stands beside the events.
    Same,
    /// The parcel's goes on from what is here.
    Newer,
    /// What is here goes on from the parcel's.
    Older,
    /// The base states, or where HEAD went, have gone different ways.
    States,
    /// The files beside the events are not the same.
    Files,
}

impl Store {
    /// Whether `id` here has the title of a parcel, and is a fork of what that is one of.
    pub(crate) fn is_named_as(&self, id: &ConversationId, parcel: &Parcel) -> Result<bool> {
        let mine = self.read(|db| catalogue::whole(db, catalogue::key(db, id)?))?;
        Ok(mine.given() == parcel.whole.given())
    }

    /// What stands beside the events of `id` here, beside that of a parcel from `source`.
    pub(crate) fn compare_beside(
        &self,
        id: &ConversationId,
        source: &Self,
        parcel: &Parcel,
    ) -> Result<Beside> {
        let histories = self.snapshot(|db| {
            let key = catalogue::key(db, id)?;
            let mine = base_state::carry::load(db, key)?;
            source
                .read(|from| base_state::carry::compare((db, key, &mine), (from, parcel.key, &parcel.state)))
        })?;
        let same_files = self.attachments(id)? == parcel.attachments;
        Ok(match histories {
            Histories::Apart => Beside::States,
            Histories::Longer => Beside::Newer,
            Histories::Shorter => Beside::Older,
            Histories::Same if same_files => Beside::Same,
            Histories::Same => Beside::Files,
        })
    }
}
