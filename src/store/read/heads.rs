//! The ends of all hash chains, to which a proof commits, and the links of one chain, to check it.

use rusqlite::{Connection, OptionalExtension as _, params};

use crate::chain::Digest;
use crate::error::{Error, Result};
use crate::ids::{ConversationId, Position, Sequence, Timestamp};
use crate::store::Audit;
use crate::store::engine::WhileDoing as _;
use crate::store::table::archive::Payloads;
use crate::store::table::catalogue::{self, Entry};
use crate::store::table::change::{self, ChainEnd};
use crate::store::table::{admin, log};

const STORE: &str = "SELECT store_id FROM log";
const HEADS: &str = "SELECT key, id, event_count, head_hash FROM conversation ORDER BY id";
const HASH: &str = "SELECT hash FROM event WHERE conversation = ?1 AND sequence = ?2";
const LINKS: &str = "SELECT sequence, id, hash, redacted_digest, payload, position FROM event \
     WHERE conversation = ?1 AND sequence >= ?2 ORDER BY sequence LIMIT ?3";

/// The number of links that are read in one read transaction.
const PAGE: i64 = 1000;

const DOING: &str = "reading heads";

/// The ends of all chains of a store, read from one snapshot.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ChainHeads {
    /// The id of the store. Its copies have the same id.
    pub store_id: String,
    /// The newest position.
    pub position: Position,
    /// The end of the administrative log's chain. `None` in a head that lacks it, such as one from before schema 12.
    pub acts: Option<ChainEnd>,
    /// The time from which the chains of changes are valid. `None` if they are valid from the file's beginning.
    pub changes_since: Option<Timestamp>,
    /// A head for each conversation, by id.
    pub conversations: Vec<ChainHead>,
}

/// The end of one chain.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ChainHead {
    /// The conversation.
    pub conversation: ConversationId,
    /// The number of its events.
    pub events: u64,
    /// The hash of the last event; 32 zero bytes if there are no events.
    pub hash: Digest,
    /// The end of the chain of changes beside the events. `None` in a head that lacks it.
    pub changes: Option<ChainEnd>,
}

impl ChainHeads {
    /// Returns these heads with the events alone, as heads were before schema 12.
    #[must_use]
    pub fn of_events(mut self) -> Self {
        self.acts = None;
        self.changes_since = None;
        for head in &mut self.conversations {
            head.changes = None;
        }
        self
    }
}

/// One link of a chain, borrowed from the database's own memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct ChainLink<'a> {
    /// The event's sequence.
    pub sequence: Sequence,
    /// The event's id.
    pub id: &'a str,
    /// Its hash.
    pub hash: Digest,
    /// The digest of the original payload, if it was redacted. `None` if `payload` is the original.
    pub redacted: Option<Digest>,
    /// The payload, or the text that replaced it.
    pub payload: &'a str,
}

impl Audit<'_> {
    /// Returns the ends of the chains of one conversation, or of all conversations.
    ///
    /// # Errors
    /// [`Error::UnknownConversation`].
    pub fn chain_heads(&self, conversation: Option<&ConversationId>) -> Result<ChainHeads> {
        self.store.snapshot(|db| {
            let conversations = match conversation {
                Some(conversation) => vec![head(db, conversation)?],
                None => heads(db)?,
            };
            let store_id = db.query_row(STORE, [], |row| row.get(0)).doing(DOING)?;
            Ok(ChainHeads {
                store_id,
                position: log::last_position(db)?,
                acts: Some(admin::end(db)?),
                changes_since: change::since(db)?,
                conversations,
            })
        })
    }

    /// Returns the hash that is stored for the event at `sequence`. `None` if there is no such event.
    ///
    /// # Errors
    /// [`Error::UnknownConversation`], [`Error::Corrupt`] if the stored value is not a hash.
    pub fn hash_at(&self, conversation: &ConversationId, sequence: Sequence) -> Result<Option<Digest>> {
        self.store.snapshot(|db| {
            let key = catalogue::key(db, conversation)?;
            let stored: Option<Vec<u8>> = db
                .prepare_cached(HASH)
                .and_then(|mut s| {
                    s.query_row(params![key, sequence.0.cast_signed()], |row| row.get(0)).optional()
                })
                .doing(DOING)?;
            let damaged = || Error::Corrupt {
                what: format!("{conversation}: the hash of event {sequence} is damaged"),
            };
            stored.map(|bytes| Digest::from_bytes(&bytes).ok_or_else(damaged)).transpose()
        })
    }

    /// Passes every link of a conversation's chain to `visit`, in order.
    ///
    /// # Errors
    /// [`Error::UnknownConversation`], and any error of `visit`.
    pub fn links(
        &self,
        conversation: &ConversationId,
        mut visit: impl FnMut(ChainLink<'_>) -> Result<()>,
    ) -> Result<()> {
        let mut next = 0;
        loop {
            let shown = self.store.read(|db| {
                let key = catalogue::key(db, conversation)?;
                let mut statement = db.prepare_cached(LINKS).doing(DOING)?;
                let mut rows = statement.query(params![key, next, PAGE]).doing(DOING)?;
                let mut payloads = Payloads::new(db);
                let mut shown = 0;
                while let Some(row) = rows.next().doing(DOING)? {
                    let text =
                        |column| row.get_ref(column).and_then(|value| Ok(value.as_str()?)).doing(DOING);
                    let digest = |column| -> Result<Option<Digest>> {
                        let bytes = row
                            .get_ref(column)
                            .and_then(|value| Ok(value.as_bytes_or_null()?))
                            .doing(DOING)?;
                        Ok(bytes.and_then(Digest::from_bytes))
                    };
                    let sequence: i64 = row.get(0).doing(DOING)?;
                    let damaged = || Error::Corrupt {
                        what: format!("{conversation}: the hash of event {sequence} is damaged"),
                    };
                    let payload = payloads.payload(row.get(5).doing(DOING)?, text(4)?)?;
                    visit(ChainLink {
                        sequence: Sequence(sequence.cast_unsigned()),
                        id: text(1)?,
                        hash: digest(2)?.ok_or_else(damaged)?,
                        redacted: digest(3)?,
                        payload: &payload,
                    })?;
                    next = sequence.saturating_add(1);
                    shown += 1;
                }
                Ok(shown)
            })?;
            if shown < PAGE {
                return Ok(());
            }
        }
    }
}

fn head(db: &Connection, conversation: &ConversationId) -> Result<ChainHead> {
    let unknown = || Error::UnknownConversation { conversation: conversation.to_string() };
    let entry = Entry::load(db, conversation)?.ok_or_else(unknown)?;
    Ok(ChainHead {
        conversation: conversation.clone(),
        events: entry.event_count,
        hash: entry.chain_head,
        changes: Some(change::end(db, entry.key)?),
    })
}

fn heads(db: &Connection) -> Result<Vec<ChainHead>> {
    let rows: Vec<(i64, String, i64, [u8; 32])> = db
        .prepare_cached(HEADS)
        .and_then(|mut statement| {
            statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?)))?.collect()
        })
        .doing(DOING)?;
    let head = |(key, id, events, hash): (i64, String, i64, [u8; 32])| {
        let conversation = ConversationId::new(&id).map_err(Error::damaged("the id of a conversation"))?;
        let changes = Some(change::end(db, key)?);
        Ok(ChainHead { conversation, events: events.cast_unsigned(), hash: Digest(hash), changes })
    };
    rows.into_iter().map(head).collect()
}
