//! The catalogue as a projection: each row is derived from the log, the base state and its history.
//!
//! Every append updates the row in its own transaction, so no row is ever out of date. This module compares a row with
//! the log and rebuilds it; a value that cannot be read differs. Data that only a person or an import gave (title,
//! tags, parent, fork) is not derived and stays. Rebuilding a row stores a receipt with the difference that was found:
//! otherwise a log whose end was cut off would look correct from then on.

use rusqlite::{Connection, OptionalExtension as _, Row, params};

use super::rebuild::RebuildProgress;
use crate::chain::Digest;
use crate::error::{Error, Result};
use crate::event::{Envelope, kind};
use crate::ids::{ConversationId, Position, Timestamp};
use crate::state::status::Effect;
use crate::store::Maintenance;
use crate::store::engine::{WhileDoing as _, is_damage};
use crate::store::options::STATUS_BYTES_MAX;
use crate::store::table::archive::Payloads;
use crate::store::table::catalogue::{self, Entry, OtherSources};
use crate::store::table::repair::{self, Mending, Repair};
use crate::store::table::{base_state, log, origin};

/// The name of this projection in `annals rebuild`.
pub(in crate::store) const NAME: &str = "catalogue";

const EVENTS: &str = "SELECT sequence, id, hash, recorded_at, payload, position FROM event WHERE conversation = ?1 \
     AND sequence > ?2 ORDER BY sequence LIMIT 1000";
const LONG_STATUS: &str = "SELECT status FROM conversation WHERE key = ?1 AND octet_length(status) > ?2";
const NEXT: &str = "SELECT key, id FROM conversation WHERE key > ?1 ORDER BY key LIMIT 1";

const DOING: &str = "making the catalogue again";

/// A conversation's row as computed from the log.
pub(in crate::store) struct Replayed {
    pub entry: Entry,
    /// The last event that moved HEAD, not counting imported events.
    pub moved: Option<(u64, String)>,
    /// The number of imported events. `None` if the conversation was not imported.
    pub imported: Option<u64>,
    /// The first event that cannot be read. The entry lacks what it says.
    pub unreadable: Option<u64>,
}

/// Computes the row of `stored` from its events, even if they are damaged. An unreadable event is counted, but adds
/// nothing else.
pub(in crate::store) fn replay(db: &Connection, stored: &Entry) -> Result<Replayed> {
    let imported = origin::load(db, stored.key)?.map(|origin| origin.events);
    let mut replayed = Replayed { entry: stored.emptied(), moved: None, imported, unreadable: None };
    let mut last = -1_i64;
    let mut payloads = Payloads::new(db);
    loop {
        let before = last;
        let mut statement = db.prepare_cached(EVENTS).doing(DOING)?;
        let mut rows = statement.query(params![stored.key, last]).doing(DOING)?;
        while let Some(row) = rows.next().doing(DOING)? {
            last = row.get(0).doing(DOING)?;
            let hash = row.get_ref(2).and_then(|hash| Ok(hash.as_bytes()?)).doing(DOING)?;
            let hash = Digest::from_bytes(hash).unwrap_or(Digest::START);
            let at = Timestamp(row.get(3).doing(DOING)?);
            let stored = row.get_ref(4).and_then(|text| Ok(text.as_bytes()?)).doing(DOING)?;
            let payload = match std::str::from_utf8(stored) {
                Ok(stored) => match payloads.payload(row.get(5).doing(DOING)?, stored) {
                    Err(error) if is_damage(&error) => None,
                    other => Some(other?),
                },
                Err(_) => None,
            };
            if let Some(payload) = payload
                && let Ok((envelope, _)) = Envelope::read(&payload)
            {
                let effect = Effect::of(&envelope, &payload);
                replayed.entry.take(&envelope, &payload, hash, effect, at);
                if imported.is_none_or(|count| last.cast_unsigned() >= count)
                    && kind::moves_head(&envelope.kind)
                {
                    let id = catalogue::text(row, 1).doing(DOING)?.unwrap_or_default();
                    replayed.moved = Some((last.cast_unsigned(), id));
                }
            } else if replayed.unreadable.is_none() {
                replayed.unreadable = Some(last.cast_unsigned());
            }
            // The count follows from the last sequence, even if earlier events are lost.
            replayed.entry.event_count = last.cast_unsigned() + 1;
            replayed.entry.chain_head = hash;
        }
        if last == before {
            return Ok(replayed);
        }
    }
}

/// Returns what is known about a conversation's row from other sources than its events.
pub(in crate::store) fn other_sources(db: &Connection, key: i64, imported: bool) -> Result<OtherSources> {
    let status = match base_state::explicit_status(db, key)? {
        Some(shown) => Some(status_of_older_version(db, key)?.unwrap_or(shown)),
        None => None,
    };
    Ok(OtherSources { status, imported })
}

/// Returns the status in the row if it is longer than the catalogue shows today and is the one in the base state.
///
/// Older versions showed any status whole. Such a row is what was written, and the next change of the status renews it.
fn status_of_older_version(db: &Connection, key: i64) -> Result<Option<String>> {
    let stored: Option<String> = db
        .prepare_cached(LONG_STATUS)
        .and_then(|mut s| {
            s.query_row(params![key, STATUS_BYTES_MAX as i64], |row| catalogue::text(row, 0)).optional()
        })
        .doing(DOING)?
        .flatten();
    let Some(stored) = stored else { return Ok(None) };
    let document = base_state::stored_document(db, key)?;
    let whole = document.as_ref().and_then(|document| document.status());
    let is_same = whole.is_some_and(|whole| whole == stored);
    Ok(Some(stored).filter(|_| is_same))
}

/// Returns the difference between a row and the log, in words. `None` if they agree.
fn difference(db: &Connection, stored: &Entry, replayed: &Replayed) -> Result<Option<String>> {
    let (was, is) = (stored, &replayed.entry);
    if (was.event_count, was.chain_head) != (is.event_count, is.chain_head) {
        return Ok(Some(format!(
            "the catalogue says {} events and ends at {}, the log has {} and ends at {}",
            was.event_count, was.chain_head, is.event_count, is.chain_head
        )));
    }
    if replayed.unreadable.is_some() {
        return Ok(None); // the rest of the row cannot be derived
    }
    match base_state::broken(db, stored.key, is.event_count) {
        Ok(None) => {}
        // The base state is damaged, so the rest of the row cannot be derived.
        Ok(Some(_)) => return Ok(None),
        Err(error) if is_damage(&error) => return Ok(None),
        Err(error) => return Err(error),
    }
    let others = other_sources(db, stored.key, replayed.imported.is_some())?;
    if let Some(column) = stored.first_difference(db, &replayed.entry, &others)? {
        return Ok(Some(format!("the catalogue's {column} is not what the events say")));
    }
    let is_explicit = base_state::head_is_explicit(db, stored, replayed.moved.as_ref(), replayed.imported)?;
    let what = "HEAD is not where an event, a navigation or the base state has put it";
    Ok((!is_explicit).then(|| what.to_owned()))
}

impl Maintenance<'_> {
    /// Compares the catalogue's row of a conversation with its log, its base state and their history. Returns the
    /// difference in words; `None` if they agree. Reads every event of the conversation.
    ///
    /// # Errors
    /// [`Error::UnknownConversation`], and any read error.
    pub fn check_catalogue(&self, conversation: &ConversationId) -> Result<Option<String>> {
        self.store.snapshot(|db| {
            let stored = load(db, conversation)?;
            difference(db, &stored, &replay(db, &stored)?)
        })
    }

    /// Rebuilds the catalogue's row of a conversation from its log, its base state and their history. Stores and
    /// returns a receipt with the difference; `None` if the row was already correct. Title, tags, parent and fork stay.
    ///
    /// # Errors
    /// [`Error::UnknownConversation`], and any write error.
    pub fn remake_catalogue(&self, conversation: &ConversationId) -> Result<Option<Repair>> {
        self.store.write(|db| remake(db, conversation, None))
    }

    /// Rebuilds every row that differs from the log and returns the receipts. If a row cannot be rebuilt, the others
    /// still are; the first error is returned at the end.
    pub(in crate::store) fn remake_catalogues(
        &self,
        progress: &mut dyn FnMut(RebuildProgress),
    ) -> Result<Vec<Repair>> {
        let (mut key, mut events, mut receipts, mut failed) = (0, 0, Vec::new(), None);
        while let Some((next, id)) = self.store.read(|db| next_conversation(db, key))? {
            key = next;
            let conversation = match ConversationId::new(&id) {
                Ok(conversation) => conversation,
                Err(error) => {
                    // An id is not derived.
                    let what = format!("the id of a conversation (key {next}) is damaged: {error}");
                    failed = failed.or(Some(Error::Corrupt { what }));
                    continue;
                }
            };
            // Most rows are correct: only a wrong row needs the write lock.
            let made = self.check_catalogue(&conversation).and_then(|found| match found {
                Some(_) => self.remake_catalogue(&conversation),
                None => Ok(None),
            });
            match made {
                Ok(receipt) => receipts.extend(receipt),
                Err(Error::UnknownConversation { .. }) => continue, // it was deleted meanwhile, or its id is damaged
                Err(error) => failed = failed.or(Some(error)),
            }
            let (count, last_position) = self.store.read(|db| {
                let entry = Entry::load(db, &conversation)?;
                Ok((entry.map_or(0, |entry| entry.event_count), log::last_position(db)?))
            })?;
            events += count;
            progress(RebuildProgress { position: Position(events.min(last_position.0)), last_position });
        }
        failed.map_or(Ok(receipts), Err)
    }
}

/// Rebuilds the row of a conversation, in the transaction of the caller. See [`Maintenance::remake_catalogue`]. For a
/// row that was just made, `found` says why; the receipt has it, or the difference.
pub(in crate::store) fn remake(
    db: &Connection,
    conversation: &ConversationId,
    found: Option<String>,
) -> Result<Option<Repair>> {
    let stored = load(db, conversation)?;
    let replayed = replay(db, &stored)?;
    let Some(difference) = difference(db, &stored, &replayed)? else { return Ok(None) };
    // A row that was just made has no HEAD that somebody chose.
    let is_new = found.is_some();
    let found = found.unwrap_or(difference);
    let Replayed { entry, moved, imported, unreadable } = replayed;
    if let Some(sequence) = unreadable {
        let what = format!(
            "the event at sequence {sequence} of conversation {conversation} cannot be read, so its row in the \
             catalogue cannot be made from the log; {found}"
        );
        return Err(Error::Corrupt { what });
    }
    let length = entry.event_count;
    let is_explicit = !is_new && base_state::head_is_explicit(db, &stored, moved.as_ref(), imported)?;
    let status = base_state::explicit_status(db, stored.key)?;
    catalogue::put_back(db, &stored, entry, status, imported.is_some())?;
    if is_explicit {
        catalogue::set_head(db, stored.key, stored.leaf.as_deref(), stored.head_is_empty)?;
    } else {
        base_state::history::put_head_back(db, stored.key, moved, imported, length)?;
    }
    let after = load(db, conversation)?;
    let why = Mending { finding: NAME, found, done: "rebuilt its row from the log".into() };
    let mut receipt = repair::blank(Some(conversation), &why);
    if (&stored.leaf, stored.head_is_empty) != (&after.leaf, after.head_is_empty) {
        receipt.head_before = Some(stored.leaf.unwrap_or_default());
        receipt.head_after = Some(after.leaf.unwrap_or_default());
    }
    repair::note(db, &receipt)?;
    Ok(Some(receipt))
}

fn load(db: &Connection, conversation: &ConversationId) -> Result<Entry> {
    Entry::load(db, conversation)?
        .ok_or_else(|| Error::UnknownConversation { conversation: conversation.to_string() })
}

fn next_conversation(db: &Connection, key: i64) -> Result<Option<(i64, String)>> {
    db.prepare_cached(NEXT)
        .and_then(|mut statement| {
            let read = |row: &Row<'_>| Ok((row.get(0)?, catalogue::text(row, 1)?.unwrap_or_default()));
            statement.query_row([key], read).optional()
        })
        .doing(DOING)
}
