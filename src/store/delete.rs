//! Taking a conversation out of the file, with everything that was kept or derived for it.

use rusqlite::Connection;

use super::carry::Parcel;
use super::{Store, arrival, attachment, base_state, catalogue, log, origin, projection};
use crate::error::Result;
use crate::ids::ConversationId;

impl Store {
    /// Deletes a conversation: its events, base state, attachments and projected rows; answers how many
    /// events there were. Conversations of its sub-agents stay. The positions are never given again, so
    /// nobody who follows the log is led astray; the bytes stay in free pages until they are reused.
    ///
    /// # Errors
    /// [`UnknownConversation`](crate::Error::UnknownConversation), and what writing can meet.
    pub fn delete(&self, conversation: &ConversationId) -> Result<u64> {
        self.write(|db| delete(db, catalogue::key(db, conversation)?))
    }

    /// Deletes a conversation that is still as a parcel has it; answers whether it was.
    pub(crate) fn delete_carried(&self, parcel: &Parcel) -> Result<bool> {
        self.write(|db| {
            let key = catalogue::key(db, &parcel.id)?;
            let is_same = parcel.is_still(db, key)?;
            if is_same {
                delete(db, key)?;
            }
            Ok(is_same)
        })
    }
}

/// Deletes a conversation, within a write transaction; answers how many events there were.
pub(super) fn delete(db: &Connection, key: i64) -> Result<u64> {
    log::permit(db, "delete")?;
    projection::delete(db, key)?;
    origin::delete(db, key)?;
    arrival::end(db, key)?;
    attachment::delete(db, key)?;
    base_state::delete(db, key)?;
    let deleted = log::delete(db, key)?;
    catalogue::delete(db, key)?;
    log::forbid(db)?;
    Ok(deleted)
}
