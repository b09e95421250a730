//! The row of a conversation that another program took from the catalogue, while its events stayed.
//!
//! The events do not name their conversation, but their hashes depend on its id: an id that is found elsewhere, or that a
//! person gives, can be proven.

use rusqlite::types::ValueRef;
use rusqlite::{Connection, Params};

use crate::chain::{self, Digest};
use crate::error::Result;
use crate::event::ForeignFormat;
use crate::ids::{ConversationId, Timestamp};
use crate::store::derived::projection::catalogue as remaking;
use crate::store::engine::WhileDoing as _;
use crate::store::table::archive::Payloads;
use crate::store::table::catalogue;
use crate::store::table::change::{self, Subject};
use crate::store::table::repair::Repair;
use crate::store::{Maintenance, Store};

/// Goes from key to key in the index, so that the number of events does not count.
const STRAYS: &str = "WITH RECURSIVE k (key) AS (SELECT min(conversation) FROM event UNION ALL \
     SELECT (SELECT min(conversation) FROM event WHERE conversation > k.key) FROM k WHERE k.key IS NOT NULL) \
     SELECT key, (SELECT count(*) FROM event WHERE conversation = k.key), \
     (SELECT min(position) FROM event WHERE conversation = k.key) FROM k \
     WHERE key IS NOT NULL AND NOT EXISTS (SELECT 1 FROM conversation AS c WHERE c.key = k.key) LIMIT 100";
const STRAY: &str = "SELECT conversation, count(*), min(position) FROM event WHERE conversation = ?1 \
     AND NOT EXISTS (SELECT 1 FROM conversation WHERE key = ?1) GROUP BY conversation";
/// The ids that may be the one of the conversation whose key is `?1`.
const CANDIDATES: &str = "SELECT json_extract(document, '$.id') FROM base_state \
     WHERE conversation = ?1 AND json_valid(document) \
     UNION SELECT folder FROM origin WHERE conversation = ?1 UNION SELECT conversation FROM admin_act \
     UNION SELECT conversation_id FROM repair UNION SELECT forked_from FROM conversation";
const FIRST: &str = "SELECT position, id, hash, redacted_digest, payload, timestamp, recorded_at FROM event \
     WHERE conversation = ?1 AND sequence = 0";
const IDS: &str = "SELECT id FROM conversation WHERE key <> ?1";
const COPIES: &str = "SELECT c.id FROM conversation AS c WHERE c.key <> ?1 AND EXISTS \
     (SELECT 1 FROM event AS e WHERE e.conversation = c.key \
     AND e.id = (SELECT id FROM event WHERE conversation = ?1 AND sequence = 0))";
const EVENTS: &str = "SELECT id FROM event WHERE conversation = ?1 ORDER BY sequence DESC";

const TAGS: &str = "SELECT json_extract(document, '$.tags') FROM base_state \
     WHERE conversation = ?1 AND json_valid(document)";

/// The number of characters of a UUID.
const UUID_CHARS: usize = 36;

const DOING: &str = "looking for the row of a conversation";

/// Events whose conversation has no row in the catalogue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Stray {
    key: i64,
    events: i64,
    first: i64,
    /// The conversation's id, if it was found and proven.
    pub id: Option<ConversationId>,
}

impl Stray {
    /// Describes the finding.
    pub fn describe(&self) -> String {
        let Self { key, events, first, id } = self;
        let (whose, way) = match id {
            Some(id) => (format!("conversation {id},"), "`annals doctor --repair` brings it back"),
            None => (
                "a conversation".to_owned(),
                "a backup has it, and `annals doctor ID --repair` brings it back if you know its id",
            ),
        };
        format!(
            "{events} events, the first at position {first}, are of {whose} whose row in the catalogue (key {key}) is gone; \
             {way}"
        )
    }
}

impl Store {
    /// Returns the events that belong to no conversation of the catalogue: those of at most 100 conversations. `named` is
    /// an id that may be the one of such a conversation.
    ///
    /// # Errors
    /// Any read error.
    pub(crate) fn strays(&self, named: Option<&str>) -> Result<Vec<Stray>> {
        self.snapshot(|db| strays(db, named))
    }
}

impl Maintenance<'_> {
    /// Makes the catalogue's row of a conversation anew, of which only the events and what stands beside them are left.
    /// Stores and returns a receipt; `None` if there are no such events. What nothing else has does not come
    /// back, and `verify` names it: a title, a time of creation that an import gave, tags that are not in the base state.
    ///
    /// # Errors
    /// [`Error::Corrupt`](crate::Error::Corrupt) if an event cannot be read, and any write error.
    pub fn bring_back(&self, conversation: &ConversationId) -> Result<Option<Repair>> {
        self.store.write(|db| {
            let strays = strays(db, Some(conversation.as_str()))?;
            let Some(stray) = strays.into_iter().find(|stray| stray.id.as_ref() == Some(conversation)) else {
                return Ok(None);
            };
            let Some(first) = First::read(db, stray.key)? else { return Ok(None) };
            if !catalogue::create_again(db, stray.key, conversation, first.at)? {
                return Ok(None);
            }
            restore_links(db, stray.key)?;
            remaking::remake(db, conversation, Some(stray.describe()))
        })
    }
}

/// Returns the stray events, each conversation with its id if that is among the candidates.
pub(super) fn strays(db: &Connection, named: Option<&str>) -> Result<Vec<Stray>> {
    let mut strays = read(db, STRAYS, [])?;
    prove(db, &mut strays, named)?;
    Ok(strays)
}

/// Returns the events of a conversation of this key, if the catalogue has no such conversation.
pub(super) fn stray(db: &Connection, key: i64) -> Result<Option<Stray>> {
    let mut stray = read(db, STRAY, [key])?;
    prove(db, &mut stray, None)?;
    Ok(stray.pop())
}

fn read(db: &Connection, sql: &str, parameters: impl Params) -> Result<Vec<Stray>> {
    let read = |row: &rusqlite::Row<'_>| {
        Ok(Stray { key: row.get(0)?, events: row.get(1)?, first: row.get(2)?, id: None })
    };
    let mut statement = db.prepare_cached(sql).doing(DOING)?;
    let strays = statement.query_map(parameters, read).and_then(Iterator::collect);
    strays.doing(DOING)
}

/// Gives each of them its id, if that is among the candidates.
fn prove(db: &Connection, strays: &mut [Stray], named: Option<&str>) -> Result<()> {
    for stray in strays {
        let found = texts(db, CANDIDATES, stray.key)?;
        let first = First::read(db, stray.key)?;
        let change = first_change(db, stray.key)?;
        let is_proven = |id: &str| match (&change, &first) {
            (Some(change), _) => change.link(id, Digest::START) == change.hash,
            (None, Some(first)) => first.is_of(id),
            (None, None) => false,
        };
        let candidates =
            named.map(str::to_owned).into_iter().chain(found.iter().flat_map(|text| ids_in(text)));
        let id = candidates.into_iter().find(|id| is_proven(id));
        stray.id = id.and_then(|id| ConversationId::new(&id).ok());
    }
    Ok(())
}

/// Returns the ids that a conversation may have that came from a folder or a file of this name, and the text itself.
fn ids_in(text: &str) -> Vec<String> {
    let name = text.rsplit_once('#').map_or(text, |(_, name)| name);
    let stem = name.rsplit_once('.').map_or(name, |(stem, _)| stem);
    // The name of a rollout of Codex ends with its id.
    let end = stem.len().checked_sub(UUID_CHARS).and_then(|start| stem.get(start..));
    let digits = uuid::Uuid::parse_str(stem).map(|id| id.to_string());
    let names = [Some(text), Some(name), Some(stem), end].into_iter().flatten().map(str::to_owned);
    let names: Vec<String> = names.chain(digits).map(|name| name.replace(['/', '\\'], "-")).collect();
    // What an import renames gets a number.
    let renamed = names.iter().flat_map(|name| (2..10).map(move |number| format!("{name}~{number}")));
    let renamed: Vec<String> = renamed.collect();
    [names, renamed].concat()
}

/// The first event of a conversation, with what its hash is made of.
struct First {
    id: String,
    payload: Digest,
    hash: Digest,
    at: Timestamp,
}

impl First {
    fn read(db: &Connection, key: i64) -> Result<Option<Self>> {
        let mut statement = db.prepare_cached(FIRST).doing(DOING)?;
        let mut rows = statement.query([key]).doing(DOING)?;
        let Some(row) = rows.next().doing(DOING)? else { return Ok(None) };
        let digest = |column| Ok(Digest::from_bytes(row.get_ref(column)?.as_bytes()?));
        let payload = match row.get_ref(3).doing(DOING)? {
            ValueRef::Null => {
                let stored = row.get_ref(4).and_then(|text| Ok(text.as_bytes()?)).doing(DOING)?;
                let stored = String::from_utf8_lossy(stored);
                Some(Digest::of(Payloads::new(db).payload(row.get(0).doing(DOING)?, &stored)?.as_bytes()))
            }
            _ => digest(3).doing(DOING)?,
        };
        let stated = catalogue::text(row, 5).doing(DOING)?;
        let recorded = row.get(6).map(Timestamp).doing(DOING)?;
        Ok(Some(Self {
            id: catalogue::text(row, 1).doing(DOING)?.unwrap_or_default(),
            payload: payload.unwrap_or(Digest::START),
            hash: digest(2).doing(DOING)?.unwrap_or(Digest::START),
            at: stated.as_deref().and_then(Timestamp::parse).unwrap_or(recorded),
        }))
    }

    fn is_of(&self, conversation: &str) -> bool {
        chain::link(conversation, 0, &self.id, self.payload, Digest::START) == self.hash
    }
}

fn first_change(db: &Connection, key: i64) -> Result<Option<change::Change>> {
    let mut first = None;
    change::rows(db, key, &mut |change| {
        if change.number == 1 {
            first = Some(change);
        }
    })?;
    Ok(first)
}

/// Sets the columns of the row that the events do not say, as far as the chain of changes proves a value for them.
fn restore_links(db: &Connection, key: i64) -> Result<()> {
    let newest = change::newest(db, key)?;
    let digest = |subject| newest.get(&(subject, String::new())).copied().flatten();
    if let Some(digest) = digest(Subject::Foreign) {
        // Logs of the first OpenHands are copies too, although no importer of a foreign format reads them.
        let mut formats = ForeignFormat::ALL.into_iter().map(ForeignFormat::as_str).chain(["openhands-v0"]);
        if let Some(format) = formats.find(|format| Subject::Foreign.digest(&[Some(format)]) == digest) {
            catalogue::set_foreign(db, key, format)?;
        }
    }
    if let Some(digest) = digest(Subject::Tags) {
        let tags = texts(db, TAGS, key)?;
        if let Some(tags) = tags.iter().find(|tags| Subject::Tags.digest(&[Some(tags)]) == digest) {
            catalogue::set_tags(db, key, tags)?;
        }
    }
    if let Some(digest) = digest(Subject::Parent) {
        let ids = texts(db, IDS, key)?;
        if let Some(id) = ids.into_iter().find(|id| Subject::Parent.digest(&[Some(id)]) == digest) {
            catalogue::set_parent(db, key, &ConversationId::new(&id)?)?;
        }
    }
    if let Some(digest) = digest(Subject::Fork) {
        let events = texts(db, EVENTS, key)?;
        let places = || events.iter().map(|at| Some(at.as_str())).chain([None]);
        for source in texts(db, COPIES, key)? {
            if let Some(at) = places().find(|at| Subject::Fork.digest(&[Some(&source), *at]) == digest) {
                catalogue::set_fork(db, key, &source, at)?;
                break;
            }
        }
    }
    Ok(())
}

fn texts(db: &Connection, sql: &str, key: i64) -> Result<Vec<String>> {
    let mut statement = db.prepare_cached(sql).doing(DOING)?;
    let mut rows = match statement.parameter_count() {
        0 => statement.query([]),
        _ => statement.query([key]),
    }
    .doing(DOING)?;
    let mut texts = Vec::new();
    while let Some(row) = rows.next().doing(DOING)? {
        texts.extend(catalogue::text(row, 0).doing(DOING)?);
    }
    Ok(texts)
}
