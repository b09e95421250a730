//! Copies conversations from one file into another, row by row as they are stored.
//!
//! A copy is not an import: it takes no values from payloads and tolerates no faults. Every row is copied as it is
//! stored, with its time of recording. Its link in the chain is computed again and compared. The copy holds one
//! snapshot of the source (a [`Parcel`]) and ignores later appends. Events are copied first, in bounded
//! transactions. The data beside the events is copied in the last transaction.

mod read;
mod write;

use rusqlite::Connection;

use crate::chain::Digest;
use crate::error::Result;
use crate::ids::ConversationId;
use crate::store::Store;
use crate::store::table::admin::{Act, Receipt};
use crate::store::table::arrival::Unfinished;
use crate::store::table::attachment::{self, Attachment};
use crate::store::table::base_state;
use crate::store::table::base_state::carry::{Carried, Histories};
use crate::store::table::catalogue::{self, Whole};
use crate::store::table::origin::{Origin, Problem};

pub(crate) use read::Page;
pub(crate) use write::Step;

/// A snapshot of everything of a conversation except its events.
#[derive(Debug, Clone)]
pub(crate) struct Parcel {
    /// The conversation's id in the source.
    pub id: ConversationId,
    key: i64,
    whole: Whole,
    state: Carried,
    origin: Option<Origin>,
    problems: Vec<Problem>,
    attachments: Vec<Attachment>,
    /// The parent conversation, if this one is a sub-agent's.
    pub parent: Option<ConversationId>,
    /// The redactions in the source, with their receipts.
    redactions: Vec<(Act, Vec<Receipt>)>,
    /// The store id of the source.
    store: String,
    /// The import that did not end in the source.
    unfinished: Option<Unfinished>,
}

impl Parcel {
    /// Returns the number of events of the conversation.
    pub(crate) fn events(&self) -> u64 {
        self.whole.event_count
    }

    /// Returns whether the conversation's import did not end in the source.
    pub(crate) fn is_unfinished(&self) -> bool {
        self.unfinished.is_some()
    }

    /// Returns whether the conversation is unchanged since the parcel was made.
    pub(in crate::store) fn is_still(&self, db: &Connection, key: i64) -> Result<bool> {
        Ok(catalogue::whole(db, key)? == self.whole
            && base_state::carry::load(db, key)? == self.state
            && attachment::list(db, key)? == self.attachments)
    }

    /// Returns the last link of the conversation's chain.
    pub(crate) fn chain_head(&self) -> Digest {
        self.whole.chain_head
    }
}

/// How the data beside a conversation's events compares with a parcel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Beside {
    /// The data is the same.
    Same,
    /// The parcel continues the history that is here.
    Newer,
    /// The history here continues the parcel's.
    Older,
    /// The histories of the base states or of HEAD differ.
    States,
    /// The files beside the events differ.
    Files,
}

impl Store {
    /// Returns whether `id` here has the same title as a parcel and was forked from the same place.
    pub(crate) fn is_named_as(&self, id: &ConversationId, parcel: &Parcel) -> Result<bool> {
        let mine = self.read(|db| catalogue::whole(db, catalogue::key(db, id)?))?;
        Ok(mine.given() == parcel.whole.given())
    }

    /// Compares the data beside the events of `id` here with a parcel from `source`.
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
