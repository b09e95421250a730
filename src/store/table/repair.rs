//! Table `repair`: the receipts of repairs. Each is written in the transaction of its repair.

use rusqlite::{Connection, params};

use super::catalogue;
use super::change::{self, Subject};
use crate::error::Result;
use crate::ids::{ConversationId, Timestamp};
use crate::store::Maintenance;
use crate::store::engine::WhileDoing as _;

const ADD: &str = "INSERT INTO repair (conversation_id, finding, found, done, event_ids, head_before, head_after, \
     program, repaired_at) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)";
const LIST: &str = "SELECT conversation_id, finding, found, done, event_ids, head_before, head_after, program, \
     repaired_at FROM repair WHERE ?1 IS NULL OR conversation_id = ?1 ORDER BY key";

const OF_KIND: &str =
    "SELECT repaired_at, found FROM repair WHERE conversation_id = ?1 AND finding = ?2 ORDER BY key";

const FORGET: &str = "DELETE FROM repair WHERE conversation_id = ?1 AND repaired_at <= ?2";

/// The name of this program in receipts.
const PROGRAM: &str = concat!("annals ", env!("CARGO_PKG_VERSION"));

/// The reason for a repair, for the receipt.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Mending {
    /// The name of the finding.
    pub finding: &'static str,
    /// What was found, in words.
    pub found: String,
    /// What is done to repair it, in words.
    pub done: String,
}

impl Mending {
    /// Makes the reason for a repair from the name of the finding, what was found, and what is done.
    #[must_use]
    pub fn new(finding: &'static str, found: impl Into<String>, done: impl Into<String>) -> Self {
        Self { finding, found: found.into(), done: done.into() }
    }
}

/// The receipt of a repair.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Repair {
    /// The conversation. `None` if the whole file was repaired.
    pub conversation: Option<String>,
    /// The name of the finding.
    pub finding: String,
    /// What was found, in words.
    pub found: String,
    /// What was done to repair it, in words.
    pub done: String,
    /// The events that were appended, in order.
    pub event_ids: Vec<String>,
    /// Where HEAD was before. `None` if it did not move. "" if it was before the first event or was never set.
    pub head_before: Option<String>,
    /// Where HEAD was afterwards. `None` if it did not move.
    pub head_after: Option<String>,
    /// The program that did the repair, with its version.
    pub program: String,
    /// The time of the repair.
    pub repaired_at: Timestamp,
}

impl Maintenance<'_> {
    /// Writes a receipt of a repair that was done elsewhere, for example a rebuilt projection or a continued import.
    ///
    /// # Errors
    /// Any write error.
    pub fn note_repair(&self, conversation: Option<&ConversationId>, why: &Mending) -> Result<Repair> {
        let receipt = blank(conversation, why);
        self.store.write(|db| note(db, &receipt))?;
        Ok(receipt)
    }

    /// Returns the receipts of repairs in one conversation, or in the whole file, the oldest first.
    ///
    /// # Errors
    /// Any read error.
    pub fn repairs(&self, conversation: Option<&ConversationId>) -> Result<Vec<Repair>> {
        self.store.read(|db| {
            db.prepare_cached(LIST)
                .and_then(|mut statement| {
                    let rows = statement.query_map([conversation.map(ConversationId::as_str)], |row| {
                        let ids: String = row.get(4)?;
                        Ok(Repair {
                            conversation: row.get(0)?,
                            finding: row.get(1)?,
                            found: row.get(2)?,
                            done: row.get(3)?,
                            event_ids: serde_json::from_str(&ids)
                                .map_err(|error| super::log::conversion(4, error))?,
                            head_before: row.get(5)?,
                            head_after: row.get(6)?,
                            program: row.get(7)?,
                            repaired_at: Timestamp(row.get(8)?),
                        })
                    })?;
                    rows.collect()
                })
                .doing("reading receipts")
        })
    }
}

/// Returns when findings of one kind were repaired in a conversation, and what was found, the oldest first. A text that
/// is damaged is shown as far as it is text.
pub(in crate::store) fn of_kind(
    db: &Connection,
    conversation: &ConversationId,
    finding: &str,
) -> Result<Vec<(Timestamp, String)>> {
    db.prepare_cached(OF_KIND)
        .and_then(|mut statement| {
            let read = |row: &rusqlite::Row<'_>| {
                Ok((Timestamp(row.get(0)?), catalogue::text(row, 1)?.unwrap_or_default()))
            };
            statement.query_map([conversation.as_str(), finding], read)?.collect()
        })
        .doing("reading receipts")
}

/// Removes the receipts of a conversation up to a time. Call it between [`permit`](super::guards::permit) and
/// [`forbid`](super::guards::forbid).
pub(super) fn forget(db: &Connection, conversation: &str, until: Timestamp) -> Result<()> {
    db.prepare_cached(FORGET)
        .and_then(|mut statement| statement.execute(params![conversation, until.0]))
        .map(drop)
        .doing("removing receipts")
}

/// Makes a receipt of `why`, with the current time.
pub(in crate::store) fn blank(conversation: Option<&ConversationId>, why: &Mending) -> Repair {
    Repair {
        conversation: conversation.map(ToString::to_string),
        finding: why.finding.to_owned(),
        found: why.found.clone(),
        done: why.done.clone(),
        event_ids: Vec::new(),
        head_before: None,
        head_after: None,
        program: PROGRAM.to_owned(),
        repaired_at: Timestamp::now(),
    }
}

/// Writes a receipt. If its conversation is in the store, also records a change of it.
pub(in crate::store) fn note(db: &Connection, receipt: &Repair) -> Result<()> {
    let id = receipt.conversation.as_deref().map(ConversationId::new).transpose()?;
    let entry = id.map(|id| catalogue::Entry::load(db, &id)).transpose()?.flatten();
    match entry {
        Some(entry) => change::tracked(db, entry.key, &[Subject::Repair], || add(db, receipt)),
        None => add(db, receipt),
    }
}

fn add(db: &Connection, receipt: &Repair) -> Result<()> {
    db.prepare_cached(ADD)
        .and_then(|mut statement| {
            statement.execute(params![
                receipt.conversation,
                receipt.finding,
                receipt.found,
                receipt.done,
                serde_json::Value::from(receipt.event_ids.clone()).to_string(),
                receipt.head_before,
                receipt.head_after,
                receipt.program,
                receipt.repaired_at.0,
            ])
        })
        .doing("writing a receipt")?;
    Ok(())
}
