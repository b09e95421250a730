//! Taking a conversation out of the file, with everything that was kept or derived for it.

use rusqlite::Connection;

use super::admin::{self, ActKind, NewAct, Receipt};
use super::carry::Parcel;
use super::{
    Store, archive, arrival, attachment, base_state, catalogue, change, log, origin, projection, related,
};
use crate::error::{Error, Result};
use crate::ids::{ConversationId, Timestamp};

/// What an erasure took out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Erasure {
    /// Its number in the administrative log.
    pub act: u64,
    /// How many events there were.
    pub events: u64,
    /// Their payloads' size, in bytes.
    pub payload_bytes: u64,
    /// How many attachments.
    pub attachments: u64,
    /// Attachments whose content other conversations keep.
    pub shared: Vec<String>,
    /// Forks, sub-agents and their like: conversations that may hold copies.
    pub related: Vec<ConversationId>,
    /// Whether the write-ahead log was emptied, so that nothing is left in it.
    pub log_emptied: bool,
}

impl Store {
    /// Deletes a conversation: its events, base state, attachments and projected rows; answers how many
    /// events there were. Conversations of its sub-agents stay. The positions are never given again, so
    /// nobody who follows the log is led astray; the bytes stay in free pages until they are reused. The
    /// administrative log keeps who did it.
    ///
    /// # Errors
    /// [`UnknownConversation`](crate::Error::UnknownConversation), and what writing can meet.
    pub fn delete(&self, conversation: &ConversationId) -> Result<u64> {
        let actor = &self.0.options.actor;
        self.write(|db| {
            let gone = take_out(db, conversation)?;
            let act = NewAct {
                act: ActKind::Delete,
                conversation: Some(conversation.as_str()),
                reason: None,
                detail: gone.detail(),
                receipts: &[gone.receipt],
            };
            admin::write(db, actor, &act, Timestamp::now())?;
            Ok(gone.events)
        })
    }

    /// Deletes a conversation that is still as a parcel has it, because it is in another file now; answers
    /// whether it was.
    pub(crate) fn delete_carried(&self, parcel: &Parcel) -> Result<bool> {
        let actor = &self.0.options.actor;
        self.write(|db| {
            let is_same = parcel.is_still(db, catalogue::key(db, &parcel.id)?)?;
            if is_same {
                let gone = take_out(db, &parcel.id)?;
                let act = NewAct {
                    act: ActKind::Delete,
                    conversation: Some(parcel.id.as_str()),
                    reason: Some("moved to another file"),
                    detail: gone.detail(),
                    receipts: &[gone.receipt],
                };
                admin::write(db, actor, &act, Timestamp::now())?;
            }
            Ok(is_same)
        })
    }

    /// Erases a conversation: deletes it, overwrites what it frees, takes its words out of the search index
    /// and empties the write-ahead log. The administrative log keeps its id, its figures, its head hash, who
    /// did it and why. Conversations of its sub-agents stay.
    ///
    /// Copies that earlier versions of a row left elsewhere in free room go with [`Store::vacuum`]. Backups
    /// and exports that were made before still hold what is erased here.
    ///
    /// # Errors
    /// [`UnknownConversation`](crate::Error::UnknownConversation), and what writing can meet.
    pub fn erase(&self, conversation: &ConversationId, reason: &str) -> Result<Erasure> {
        let actor = &self.0.options.actor;
        let mut erasure = self.overwrite(|db| {
            let key = catalogue::key(db, conversation)?;
            let related = related::related(db, key)?;
            archive::leave(db, key)?;
            let gone = take_out(db, conversation)?;
            projection::search::merge(db)?;
            let act = NewAct {
                act: ActKind::Erase,
                conversation: Some(conversation.as_str()),
                reason: Some(reason),
                detail: gone.detail(),
                receipts: std::slice::from_ref(&gone.receipt),
            };
            Ok(Erasure {
                act: admin::write(db, actor, &act, Timestamp::now())?,
                events: gone.events,
                payload_bytes: gone.payload_bytes,
                attachments: gone.attachments,
                shared: gone.shared,
                related,
                log_emptied: false,
            })
        })?;
        erasure.log_emptied = self.empty_log()?;
        Ok(erasure)
    }
}

/// What a conversation was.
pub(super) struct Gone {
    pub events: u64,
    pub payload_bytes: u64,
    attachments: u64,
    /// Attachments whose content stays because others have it.
    shared: Vec<String>,
    pub receipt: Receipt,
}

impl Gone {
    pub(super) fn detail(&self) -> serde_json::Value {
        serde_json::json!({
            "events": self.events,
            "payload_bytes": self.payload_bytes,
            "attachments": self.attachments,
        })
    }
}

/// Takes a conversation out of every table; runs within a write transaction.
pub(super) fn take_out(db: &Connection, conversation: &ConversationId) -> Result<Gone> {
    let entry = catalogue::Entry::load(db, conversation)?
        .ok_or_else(|| Error::UnknownConversation { conversation: conversation.to_string() })?;
    let key = entry.key;
    let attachments = attachment::list(db, key)?;
    let mut shared = Vec::new();
    for attachment in &attachments {
        if attachment::shared(db, key, attachment.digest)? > 0 {
            shared.push(attachment.path.clone());
        }
    }
    log::permit(db, "delete")?;
    projection::delete(db, key)?;
    archive::forget(db, key)?;
    origin::delete(db, key)?;
    arrival::forget(db, key)?;
    attachment::delete(db, key)?;
    base_state::delete(db, key)?;
    let events = log::delete(db, key)?;
    change::delete(db, key)?;
    catalogue::delete(db, key)?;
    log::forbid(db)?;
    Ok(Gone {
        events,
        payload_bytes: entry.payload_bytes(),
        attachments: attachments.len() as u64,
        shared,
        receipt: Receipt {
            part: "conversation".into(),
            name: conversation.to_string(),
            sequence: None,
            digest: Some(entry.head_hash),
            new_digest: None,
        },
    })
}
