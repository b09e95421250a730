//! Reads the state at a place of a long conversation from the nearest snapshot before it.

use crate::error::Result;
use crate::event::Event;
use crate::ids::ConversationId;
use crate::state::State;
use crate::store::Store;
use crate::store::derived::projection::snapshots::{self, End, FOLD_EVENTS_MAX, Folding, SPACING, Snapshot};
use crate::store::engine::place;
use crate::store::table::catalogue;

/// The states at a place of a conversation.
pub(crate) struct Folded {
    /// The state that follows from all events.
    pub(crate) whole: State,
    /// The state that follows from the events of the branch.
    pub(crate) branch: State,
    /// The last events of the branch, in their order.
    pub(crate) tail: Vec<Event>,
}

impl Store {
    /// Returns the states after the first `length` events of a conversation, whose branch ends at the event `leaf`, and the
    /// last `tail` events of the branch.
    ///
    /// The cost depends on the distance to the nearest snapshot. The first call for a place that is far from one makes
    /// the snapshots before it, which costs a fold of the log up to there. A store that is read-only, or whose file
    /// another program is writing, makes none.
    ///
    /// `None` if there is no snapshot near enough, or if the branch cannot be followed from one: then the log has to be
    /// folded from its start.
    ///
    /// # Errors
    /// [`UnknownConversation`](crate::Error::UnknownConversation), and the errors of reading.
    pub(crate) fn folded(
        &self,
        conversation: &ConversationId,
        length: u64,
        leaf: Option<&str>,
        tail: usize,
    ) -> Result<Option<Folded>> {
        let last = place(length) - 1;
        if last < SPACING {
            return Ok(None);
        }
        // Without new snapshots, the answer is the same.
        let _ = self.keep_snapshots(conversation, last);
        self.read(|db| {
            let key = catalogue::key(db, conversation)?;
            if !snapshots::are_current(db)? {
                return Ok(None);
            }
            let Some(base) = Snapshot::newest(db, key, last)? else { return Ok(None) };
            if last - base.sequence > FOLD_EVENTS_MAX {
                return Ok(None);
            }
            let folding = Folding::new(db, key, base.sequence, last)?;
            let leaf = match leaf {
                None => None,
                Some(id) => match folding.place(id)? {
                    Some(place) => Some(place),
                    None => return Ok(None),
                },
            };
            let Some(Snapshot { whole, branch, .. }) = folding.finish(base, End::At(leaf))? else {
                return Ok(None);
            };
            Ok(folding.tail(leaf, tail)?.map(|tail| Folded { whole, branch, tail }))
        })
    }
}
