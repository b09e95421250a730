//! Deletes a conversation from the file, with everything that is stored or derived for it.

use rusqlite::Connection;

use crate::error::{Error, Result};
use crate::ids::{ActNumber, ConversationId, Timestamp};
use crate::store::derived::{projection, schema};
use crate::store::engine::strangers::naming_strangers;
use crate::store::table::admin::{self, ActKind, NewAct, Receipt};
use crate::store::table::{
    archive, arrival, attachment, base_state, catalogue, change, guards, log, origin, related,
};
use crate::store::transfer::carry::Parcel;
use crate::store::{Retention, Store};

/// What an erasure removed.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Erasure {
    /// The number of its entry in the administrative log.
    pub act: ActNumber,
    /// The number of events.
    pub events: u64,
    /// The size of their payloads, in bytes.
    pub payload_bytes: u64,
    /// The number of attachments.
    pub attachments: u64,
    /// The attachments whose content stays because other conversations also have it.
    pub shared: Vec<String>,
    /// Related conversations, such as forks and sub-agents. They may hold copies.
    pub related: Vec<ConversationId>,
    /// Whether the write-ahead log was emptied. If not, it may still hold erased data.
    pub log_emptied: bool,
}

impl Retention<'_> {
    /// Deletes a conversation: its events, base state, attachments and projected rows. Returns the number of
    /// deleted events. Conversations of its sub-agents stay. Positions are never reused, so readers that follow
    /// the log stay correct. The bytes stay in free pages until the pages are reused. The administrative log
    /// records who deleted the conversation.
    ///
    /// # Errors
    /// [`UnknownConversation`](crate::Error::UnknownConversation), and any write error.
    pub fn delete(&self, conversation: &ConversationId) -> Result<u64> {
        let actor = &self.store.0.options.actor;
        self.store.write(|db| {
            let deleted = take_out(db, conversation)?;
            let act = NewAct {
                act: ActKind::Delete,
                conversation: Some(conversation.as_str()),
                reason: None,
                detail: deleted.detail(),
                receipts: &[deleted.receipt],
            };
            admin::write(db, actor, &act, Timestamp::now())?;
            Ok(deleted.events)
        })
    }

    /// Erases a conversation: deletes it, overwrites the freed bytes, removes its words from the search index
    /// and empties the write-ahead log. The administrative log keeps its id, its counts and sizes, who erased it and
    /// why. Receipts of earlier acts on it go: their digests would confirm a guess. Conversations of its sub-agents stay.
    ///
    /// Earlier versions of a row may have left copies elsewhere in free space;
    /// [`Maintenance::vacuum`](crate::store::Maintenance::vacuum) removes them. Backups and exports that were made
    /// before still hold the erased data.
    ///
    /// # Errors
    /// [`UnknownConversation`](crate::Error::UnknownConversation), and any write error.
    pub fn erase(&self, conversation: &ConversationId, reason: &str) -> Result<Erasure> {
        let actor = &self.store.0.options.actor;
        let mut erasure = self.store.overwrite(|db| {
            let key = catalogue::key(db, conversation)?;
            let related = related::related(db, key)?;
            archive::leave(db, key)?;
            let deleted = take_out(db, conversation)?;
            projection::search::merge(db)?;
            // A digest confirms a guess of what it was made from, so no receipt stays, and none is written.
            let now = Timestamp::now();
            guards::permit(db, "erase")?;
            admin::blind(db, conversation.as_str(), ActNumber(i64::MAX.cast_unsigned()), now)?;
            guards::forbid(db)?;
            let act = NewAct {
                act: ActKind::Erase,
                conversation: Some(conversation.as_str()),
                reason: Some(reason),
                detail: deleted.detail(),
                receipts: &[],
            };
            Ok(Erasure {
                act: admin::write(db, actor, &act, now)?,
                events: deleted.events,
                payload_bytes: deleted.payload_bytes,
                attachments: deleted.attachments,
                shared: deleted.shared,
                related,
                log_emptied: false,
            })
        })?;
        erasure.log_emptied = self.store.maintenance().empty_log()?;
        Ok(erasure)
    }
}

impl Store {
    /// Deletes a conversation that was moved to another file, if it is still the same as in `parcel`. Returns
    /// whether it was the same.
    pub(crate) fn delete_carried(&self, parcel: &Parcel) -> Result<bool> {
        let actor = &self.0.options.actor;
        self.write(|db| {
            let is_same = parcel.is_still(db, catalogue::key(db, &parcel.id)?)?;
            if is_same {
                let deleted = take_out(db, &parcel.id)?;
                let act = NewAct {
                    act: ActKind::Delete,
                    conversation: Some(parcel.id.as_str()),
                    reason: Some("moved to another file"),
                    detail: deleted.detail(),
                    receipts: &[deleted.receipt],
                };
                admin::write(db, actor, &act, Timestamp::now())?;
            }
            Ok(is_same)
        })
    }
}

/// What was deleted with a conversation.
pub(super) struct Gone {
    pub events: u64,
    pub payload_bytes: u64,
    attachments: u64,
    /// The attachments whose content stays because other conversations also have it.
    shared: Vec<String>,
    pub receipt: Receipt,
}

impl Gone {
    pub(in crate::store) fn detail(&self) -> serde_json::Value {
        serde_json::json!({
            "events": self.events,
            "payload_bytes": self.payload_bytes,
            "attachments": self.attachments,
        })
    }
}

/// Deletes a conversation from every table. Runs within a write transaction.
///
/// # Errors
/// The error of a rejected statement names the tables and triggers of other programs that may have rejected it.
pub(super) fn take_out(db: &Connection, conversation: &ConversationId) -> Result<Gone> {
    take_out_rows(db, conversation).map_err(|error| naming_strangers(error, || schema::referrers(db)))
}

fn take_out_rows(db: &Connection, conversation: &ConversationId) -> Result<Gone> {
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
    guards::permit(db, "delete")?;
    projection::delete(db, key)?;
    archive::forget(db, key)?;
    origin::delete(db, key)?;
    arrival::forget(db, key)?;
    attachment::delete(db, key)?;
    base_state::delete(db, key)?;
    let events = log::delete(db, key)?;
    change::delete(db, key)?;
    catalogue::delete(db, key)?;
    guards::forbid(db)?;
    Ok(Gone {
        events,
        payload_bytes: entry.payload_bytes(),
        attachments: attachments.len() as u64,
        shared,
        receipt: Receipt {
            part: "conversation".into(),
            name: conversation.to_string(),
            sequence: None,
            digest: Some(entry.chain_head),
            new_digest: None,
        },
    })
}
