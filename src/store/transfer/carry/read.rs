//! Reads the source of a copy: a parcel in one snapshot, and the rows page by page.

use rusqlite::{OptionalExtension as _, Row, params};

use super::Parcel;
use crate::chain::Digest;
use crate::error::{Error, Result};
use crate::ids::{ConversationId, Timestamp};
use crate::store::Store;
use crate::store::engine::WhileDoing as _;
use crate::store::table::admin::{self, ActKind};
use crate::store::table::archive::Payloads;
use crate::store::table::row::StoredRow;
use crate::store::table::{arrival, attachment, base_state, catalogue, origin};

const ROWS: &str = "SELECT id, kind, source, timestamp, parent_id, tool_call_id, action_id, llm_response_id, \
     tool_name, recorded_at, hash, redacted_digest, payload, \
     (SELECT path FROM event_file WHERE event_file.position = event.position), position FROM event \
     WHERE conversation = ?1 AND sequence >= ?2 ORDER BY sequence LIMIT ?3";
const REDACTED: &str = "SELECT sequence FROM event \
     WHERE conversation = ?1 AND sequence < ?2 AND redacted_digest IS NOT NULL ORDER BY sequence";
const LINK: &str = "SELECT hash FROM event WHERE conversation = ?1 AND sequence = ?2";
const STORE_ID: &str = "SELECT store_id FROM log";

const READING: &str = "reading a conversation to take it over";

/// Some rows of a conversation, in order.
#[derive(Debug)]
pub(crate) struct Page {
    pub(super) rows: Vec<StoredRow>,
    pub(super) bytes: u64,
}

impl Page {
    /// Returns the number of rows.
    pub(crate) fn len(&self) -> u64 {
        self.rows.len() as u64
    }

    /// Returns the size of all payloads, in bytes.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }
}

impl Store {
    /// Reads everything of a conversation except its events, in one snapshot.
    pub(crate) fn parcel(&self, id: &ConversationId) -> Result<Parcel> {
        let unfinished =
            self.maintenance().unfinished()?.into_iter().find(|unfinished| unfinished.conversation == *id);
        let parent = self.conversation(id)?.parent.map(|parent| ConversationId::new(&parent)).transpose()?;
        let store = self.store_id()?;
        self.snapshot(|db| {
            let key = catalogue::key(db, id)?;
            let acts = admin::acts_of(db, id.as_str(), ActKind::Redact)?.into_iter();
            let redactions = acts.map(|act| {
                let receipts = admin::receipts(db, act.number)?;
                Ok((act, receipts))
            });
            Ok(Parcel {
                redactions: redactions.collect::<Result<_>>()?,
                store,
                id: id.clone(),
                key,
                whole: catalogue::whole(db, key)?,
                state: base_state::carry::load(db, key)?,
                origin: origin::load(db, key)?,
                problems: origin::problems(db, key)?,
                attachments: attachment::list(db, key)?,
                parent,
                unfinished: if arrival::is_under_way(db, key)? { unfinished } else { None },
            })
        })
    }

    /// Reads at most `events` rows from `from` on. It stops after the row that reaches `bytes`.
    pub(crate) fn rows(&self, parcel: &Parcel, from: u64, events: u64, bytes: u64) -> Result<Page> {
        let limit = events.min(parcel.events().saturating_sub(from));
        self.read(|db| {
            let mut page = Page { rows: Vec::new(), bytes: 0 };
            let mut statement = db.prepare_cached(ROWS).doing(READING)?;
            let parameters = params![parcel.key, from.cast_signed(), limit.cast_signed()];
            let mut rows = statement.query(parameters).doing(READING)?;
            let mut payloads = Payloads::new(db);
            while page.bytes < bytes
                && let Some(row) = rows.next().doing(READING)?
            {
                let position = row.get(14).doing(READING)?;
                let mut row = stored(row).doing(READING)?;
                if let Some(payload) = payloads.unpacked(position, row.payload.as_bytes())? {
                    row.payload = payload;
                }
                page.bytes += row.payload.len() as u64;
                page.rows.push(row);
            }
            if page.rows.is_empty() && limit > 0 {
                let what = format!("{}: the event at sequence {from} is gone", parcel.id);
                return Err(Error::Corrupt { what });
            }
            Ok(page)
        })
    }

    /// Returns the link of the chain at `sequence`. `None` if there is no such event.
    pub(crate) fn link_at(&self, id: &ConversationId, sequence: u64) -> Result<Option<Digest>> {
        self.read(|db| {
            let key = catalogue::key(db, id)?;
            let hash: Option<[u8; 32]> = db
                .prepare_cached(LINK)
                .and_then(|mut s| {
                    s.query_row(params![key, sequence.cast_signed()], |row| row.get(0)).optional()
                })
                .doing(READING)?;
            Ok(hash.map(Digest))
        })
    }

    /// Returns the sequences of the redacted events among the first `count` of a conversation.
    pub(crate) fn redacted(&self, id: &ConversationId, count: u64) -> Result<Vec<u64>> {
        let sequences: Vec<i64> = self.read(|db| {
            let key = catalogue::key(db, id)?;
            db.prepare_cached(REDACTED)
                .and_then(|mut s| s.query_map(params![key, count.cast_signed()], |row| row.get(0))?.collect())
                .doing(READING)
        })?;
        Ok(sequences.into_iter().map(i64::cast_unsigned).collect())
    }

    /// Returns whether the first `count` events of `id` here have the same ids and digests as those of a parcel from
    /// `source`.
    pub(crate) fn has_same_events(
        &self,
        id: &ConversationId,
        source: &Self,
        parcel: &Parcel,
        count: u64,
    ) -> Result<bool> {
        let mine = self.parcel(id)?;
        let mut at = 0;
        while at < count {
            let (events, bytes) = (500.min(count - at), 4 << 20);
            let (here, there) =
                (self.rows(&mine, at, events, bytes)?, source.rows(parcel, at, events, bytes)?);
            let same = here.rows.iter().map(StoredRow::content).eq(there.rows.iter().map(StoredRow::content));
            if !same {
                return Ok(false);
            }
            at += here.len();
        }
        Ok(true)
    }

    /// Returns the store id. It is made with the file, and its backups keep it.
    ///
    /// # Errors
    /// Any error of reading the file.
    pub fn store_id(&self) -> Result<String> {
        self.read(|db| db.query_row(STORE_ID, [], |row| row.get(0)).doing("reading the file's id"))
    }
}

fn stored(row: &Row<'_>) -> rusqlite::Result<StoredRow> {
    let (hash, redacted): ([u8; 32], Option<[u8; 32]>) = (row.get(10)?, row.get(11)?);
    Ok(StoredRow {
        id: row.get(0)?,
        kind: row.get(1)?,
        source: row.get(2)?,
        timestamp: row.get(3)?,
        parent_id: row.get(4)?,
        tool_call_id: row.get(5)?,
        action_id: row.get(6)?,
        llm_response_id: row.get(7)?,
        tool_name: row.get(8)?,
        recorded_at: Timestamp(row.get(9)?),
        hash: Digest(hash),
        redacted_digest: redacted.map(Digest),
        payload: row.get(12)?,
        file: row.get(13)?,
    })
}
