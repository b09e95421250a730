//! Where every chain ends: what a proof commits to, and the links of one chain for those who check it.

use rusqlite::{Connection, OptionalExtension as _, params};

use super::archive::Payloads;
use super::catalogue::Entry;
use super::change::{self, ChainEnd};
use super::engine::Doing as _;
use super::{Store, admin, catalogue, log};
use crate::chain::Digest;
use crate::error::{Error, Result};
use crate::ids::{ConversationId, Position, Sequence, Timestamp};

const STORE: &str = "SELECT store_id FROM log";
const HEADS: &str = "SELECT key, id, event_count, head_hash FROM conversation ORDER BY id";
const HASH: &str = "SELECT hash FROM event WHERE conversation = ?1 AND sequence = ?2";
const LINKS: &str = "SELECT sequence, id, hash, redacted_digest, payload, position FROM event \
     WHERE conversation = ?1 AND sequence >= ?2 ORDER BY sequence LIMIT ?3";

/// How many links one read transaction covers.
const PAGE: i64 = 1000;

const DOING: &str = "reading heads";

/// Where the chains of a store end, all read in one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Heads {
    /// The store's own id, which its copies share.
    pub store_id: String,
    /// The newest position.
    pub position: Position,
    /// Where the administrative log ends; `None` in a head that does not say so, as those before schema 12.
    pub acts: Option<ChainEnd>,
    /// Since when the chains of changes hold, where the file is older than they are.
    pub changes_since: Option<Timestamp>,
    /// A head for each conversation, by id.
    pub conversations: Vec<ChainHead>,
}

/// Where one chain ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChainHead {
    /// The conversation.
    pub conversation: ConversationId,
    /// How many events it has.
    pub events: u64,
    /// The hash of the last one; 32 zero bytes where there is none.
    pub hash: Digest,
    /// Where the chain of what stands beside the events ends; `None` in a head that does not say so.
    pub changes: Option<ChainEnd>,
}

impl Heads {
    /// The same without what heads did not say before schema 12: events alone.
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
pub struct ChainLink<'a> {
    /// Its place.
    pub sequence: Sequence,
    /// The event's id.
    pub id: &'a str,
    /// Its hash.
    pub hash: Digest,
    /// The digest of a payload that had to go; `None` where `payload` is the one that was written.
    pub redacted: Option<Digest>,
    /// The payload, or what stands in its place.
    pub payload: &'a str,
}

impl Store {
    /// Where the chains end: of one conversation, or of all.
    ///
    /// # Errors
    /// [`Error::UnknownConversation`].
    pub fn heads(&self, conversation: Option<&ConversationId>) -> Result<Heads> {
        self.snapshot(|db| {
            let conversations = match conversation {
                Some(conversation) => vec![head(db, conversation)?],
                None => heads(db)?,
            };
            let store_id = db.query_row(STORE, [], |row| row.get(0)).doing(DOING)?;
            Ok(Heads {
                store_id,
                position: log::head(db)?,
                acts: Some(admin::end(db)?),
                changes_since: change::since(db)?,
                conversations,
            })
        })
    }

    /// The hash that stands beside the event at `sequence`; `None` where there is no such event.
    ///
    /// # Errors
    /// [`Error::UnknownConversation`], [`Error::Corrupt`] where it is no hash.
    pub fn hash_at(&self, conversation: &ConversationId, sequence: Sequence) -> Result<Option<Digest>> {
        self.snapshot(|db| {
            let key = catalogue::key(db, conversation)?;
            let stored: Option<Vec<u8>> = db
                .prepare_cached(HASH)
                .and_then(|mut s| {
                    s.query_row(params![key, sequence.0.cast_signed()], |row| row.get(0)).optional()
                })
                .doing(DOING)?;
            let torn =
                || Error::Corrupt { what: format!("{conversation}: the hash of event {sequence} is torn") };
            stored.map(|bytes| Digest::from_bytes(&bytes).ok_or_else(torn)).transpose()
        })
    }

    /// Shows every link of a conversation's chain to `visit`, in order.
    ///
    /// # Errors
    /// [`Error::UnknownConversation`], and whatever `visit` fails with.
    pub fn links(
        &self,
        conversation: &ConversationId,
        mut visit: impl FnMut(ChainLink<'_>) -> Result<()>,
    ) -> Result<()> {
        let mut next = 0;
        loop {
            let shown = self.read(|db| {
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
                    let torn = || Error::Corrupt {
                        what: format!("{conversation}: the hash of event {sequence} is torn"),
                    };
                    let payload = payloads.payload(row.get(5).doing(DOING)?, text(4)?)?;
                    visit(ChainLink {
                        sequence: Sequence(sequence.cast_unsigned()),
                        id: text(1)?,
                        hash: digest(2)?.ok_or_else(torn)?,
                        redacted: digest(3)?,
                        payload: &payload,
                    })?;
                    next = sequence + 1;
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
        hash: entry.head_hash,
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
        let conversation = ConversationId::new(&id)?;
        let changes = Some(change::end(db, key)?);
        Ok(ChainHead { conversation, events: events.cast_unsigned(), hash: Digest(hash), changes })
    };
    rows.into_iter().map(head).collect()
}
