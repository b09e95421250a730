//! Makes the snapshots of a conversation's states, when a state far from the last one is asked for.

use std::time::Duration;

use crate::error::Result;
use crate::ids::ConversationId;
use crate::store::Store;
use crate::store::derived::projection::snapshots;
use crate::store::engine::transaction::Write;
use crate::store::table::{admin, catalogue};

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
        loop {
            // The fold does not hold the write lock.
            let (key, last_removal, rows) = self.read(|db| {
                let (key, last_removal) = (catalogue::key(db, conversation)?, admin::last_removal(db)?);
                Ok((key, last_removal, snapshots::fold_next(db, key, last)?))
            })?;
            let is_kept = !rows.is_empty()
                && writer.maintain(|db| {
                    let write = Write::begin(db, Duration::ZERO)?;
                    let is_kept = snapshots::insert(&write, key, &rows, (last_removal, last))?;
                    write.commit()?;
                    Ok(is_kept)
                })?;
            if !is_kept {
                return Ok(());
            }
        }
    }
}
