//! Makes the snapshots of a conversation's states, when a state far from the last one is asked for.

use std::time::Duration;

use crate::error::Result;
use crate::ids::ConversationId;
use crate::store::Store;
use crate::store::derived::projection::snapshots;
use crate::store::engine::transaction::Write;
use crate::store::table::catalogue;

impl Store {
    /// Makes the snapshots that are missing up to the event at `last`. Other writers get their turn between steps. Waits
    /// for no other process. Does nothing if the store is read-only.
    ///
    /// # Errors
    /// Any write error. The snapshots that were made before it stay. No answer depends on them.
    pub(in crate::store) fn keep_snapshots(&self, conversation: &ConversationId, last: i64) -> Result<()> {
        let Ok(writer) = self.writer() else { return Ok(()) };
        if last < self.read(|db| snapshots::due(db, catalogue::key(db, conversation)?))? {
            return Ok(());
        }
        self.catch_up()?;
        let step = || {
            writer.maintain(|db| {
                let write = Write::begin(db, Duration::ZERO)?;
                let key = catalogue::key(&write, conversation)?;
                let more = snapshots::extend_to(&write, key, last)?;
                write.commit()?;
                Ok(more)
            })
        };
        while step()? {}
        Ok(())
    }
}
