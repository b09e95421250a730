//! Table `change`: the second chain of a conversation. It records every change of the data beside the events.
//!
//! There is one row for each time that an item ([`Subject`] and name) was set, changed or removed, with the SHA-256 of
//! its new value. The newest row of an item has the digest that the item must have now, and `verify` checks that.
//!
//! Invariants: the code that writes an item also writes its row, in the same transaction and only for that item. If an
//! item contradicts its newest row before an edit, it still does so afterwards, so that a legitimate change never hides
//! a forged one. An unchanged item gets no row. Rows are chained like events ([`crate::chain::change_link`]).

mod cut;
mod seal;
mod subject;

use std::collections::BTreeMap;

use rusqlite::{Connection, OptionalExtension as _, Row, params};

use crate::chain::{self, Digest};
use crate::error::{Error, Result};
use crate::ids::{ConversationId, Timestamp};
use crate::store::engine::{WhileDoing as _, place};
use crate::store::table::stale;

pub(in crate::store) use cut::taken_back;
pub(in crate::store) use seal::seal;
pub(in crate::store) use seal::since;
pub(in crate::store) use subject::{Subject, each};

/// The SQL function that returns who uses a connection that writes.
pub(in crate::store) const ACTOR: &str = "annals_actor";

const END: &str = "SELECT c.id, c.event_count, annals_actor(), l.number, l.hash FROM conversation AS c \
     LEFT JOIN (SELECT number, hash FROM change WHERE conversation = ?1 ORDER BY number DESC LIMIT 1) AS l \
     WHERE c.key = ?1";
const LAST: &str = "SELECT number, hash FROM change WHERE conversation = ?1 ORDER BY number DESC LIMIT 1";
const HASH: &str = "SELECT hash FROM change WHERE conversation = ?1 AND number = ?2";
const ADD: &str = "INSERT INTO change (conversation, number, subject, name, digest, after_sequence, recorded_at, actor, \
     hash) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)";
const ROWS: &str = "SELECT number, subject, name, digest, after_sequence, recorded_at, actor, hash FROM change \
     WHERE conversation = ?1 ORDER BY number";
const DELETE: &str = "DELETE FROM change WHERE conversation = ?1";

const WRITING: &str = "writing down a change";
const READING: &str = "reading the chain of changes";

/// One row of the chain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::store) struct Change {
    pub number: i64,
    pub subject: String,
    pub name: String,
    pub digest: Option<Digest>,
    pub after_sequence: i64,
    pub recorded_at: Timestamp,
    pub actor: String,
    pub hash: Digest,
}

impl Change {
    fn read(row: &Row<'_>) -> rusqlite::Result<Self> {
        Ok(Self {
            number: row.get(0)?,
            subject: row.get(1)?,
            name: row.get(2)?,
            digest: row.get::<_, Option<[u8; 32]>>(3)?.map(Digest),
            after_sequence: row.get(4)?,
            recorded_at: Timestamp(row.get(5)?),
            actor: row.get(6)?,
            hash: Digest(row.get(7)?),
        })
    }

    /// Returns the hash of this row of `conversation`. `previous` is the hash of the row before it.
    pub(in crate::store) fn link(&self, conversation: &str, previous: Digest) -> Digest {
        let place = chain::ChangePlace {
            number: self.number,
            after_sequence: self.after_sequence,
            recorded_at: self.recorded_at.0,
        };
        let item = chain::ChangeItem { subject: &self.subject, name: &self.name, digest: self.digest };
        chain::change_link(conversation, &place, &item, &self.actor, previous)
    }
}

/// The end of a chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct ChainEnd {
    /// The number of links, which is the number of the last link.
    pub count: u64,
    /// The hash of the last link. 32 zero bytes if there is none.
    pub hash: Digest,
}

/// The end of a chain without links.
impl Default for ChainEnd {
    fn default() -> Self {
        Self { count: 0, hash: Digest::START }
    }
}

/// The digest of each item.
type Items = BTreeMap<(Subject, String), Digest>;

/// Runs `work`, which changes items of these subjects in a conversation, and records its changes.
///
/// An item that contradicted its newest row before `work` gets no row, so that the contradiction can still be found.
pub(in crate::store) fn tracked<T>(
    db: &Connection,
    key: i64,
    subjects: &[Subject],
    work: impl FnOnce() -> Result<T>,
) -> Result<T> {
    let before = items(db, key, subjects, None)?;
    let value = work()?;
    let after = items(db, key, subjects, None)?;
    if before != after {
        write_difference(db, key, &before, &after)?;
    }
    Ok(value)
}

/// Does the same as `tracked` for one item of a subject that may have many items.
pub(super) fn tracked_item<T>(
    db: &Connection,
    key: i64,
    (subject, name): (Subject, &str),
    work: impl FnOnce() -> Result<T>,
) -> Result<T> {
    let before = items(db, key, &[subject], Some(name))?;
    let value = work()?;
    let after = items(db, key, &[subject], Some(name))?;
    if before.is_empty() {
        for ((subject, name), digest) in &after {
            write(db, key, *subject, name, Some(*digest))?;
        }
    } else if before != after {
        write_difference(db, key, &before, &after)?;
    }
    Ok(value)
}

/// Runs `work`, which sets items of these subjects to given values, and records its changes.
///
/// An item gets its row even if it contradicted its newest row before, because the old value does not matter.
pub(in crate::store) fn replaced<T>(
    db: &Connection,
    key: i64,
    subjects: &[Subject],
    work: impl FnOnce() -> Result<T>,
) -> Result<T> {
    let before = items(db, key, subjects, None)?;
    let value = work()?;
    let after = items(db, key, subjects, None)?;
    if before == after {
        return Ok(value);
    }
    let newest = newest(db, key)?;
    for (item, digest) in differences(&before, &after) {
        if newest.get(&item).copied().flatten() != digest {
            write(db, key, item.0, &item.1, digest)?;
        }
    }
    Ok(value)
}

/// Adds all items of a subject to a conversation's chain, which has none of them yet.
pub(super) fn take_over(db: &Connection, key: i64, subject: Subject) -> Result<()> {
    for ((subject, name), digest) in items(db, key, &[subject], None)? {
        write(db, key, subject, &name, Some(digest))?;
    }
    Ok(())
}

/// Returns whether the only item of a subject was set `here` to a value that it never had `there`, or was removed only
/// here.
pub(in crate::store) fn is_own(
    here: (&Connection, i64),
    there: (&Connection, i64),
    subject: Subject,
) -> Result<bool> {
    let now = items(here.0, here.1, &[subject], None)?.into_values().next();
    if now.is_none() && !newest(here.0, here.1)?.contains_key(&(subject, String::new())) {
        return Ok(false);
    }
    let mut was_there = false;
    rows(there.0, there.1, &mut |change| {
        was_there |= change.subject == subject.as_str() && change.digest == now;
    })?;
    Ok(!was_there)
}

fn items(db: &Connection, key: i64, subjects: &[Subject], name: Option<&str>) -> Result<Items> {
    let mut items = Items::new();
    for subject in subjects {
        each(db, key, *subject, name, &mut |name, digest| {
            items.insert((*subject, name.to_owned()), digest);
        })?;
    }
    Ok(items)
}

/// Returns the items that differ, with their new digests. `None` if the item was removed.
fn differences(before: &Items, after: &Items) -> Vec<((Subject, String), Option<Digest>)> {
    let gone = before.keys().filter(|item| !after.contains_key(item)).map(|item| (item.clone(), None));
    let set = after.iter().filter(|(item, digest)| before.get(item) != Some(digest));
    gone.chain(set.map(|(item, digest)| (item.clone(), Some(*digest)))).collect()
}

fn write_difference(db: &Connection, key: i64, before: &Items, after: &Items) -> Result<()> {
    let newest = newest(db, key)?;
    for (item, digest) in differences(before, after) {
        let recorded = newest.get(&item).copied().flatten();
        if recorded == before.get(&item).copied() && recorded != digest {
            write(db, key, item.0, &item.1, digest)?;
        }
    }
    Ok(())
}

/// Returns the digest in the newest row of each item.
pub(in crate::store) fn newest(
    db: &Connection,
    key: i64,
) -> Result<BTreeMap<(Subject, String), Option<Digest>>> {
    let mut newest = BTreeMap::new();
    rows(db, key, &mut |change| {
        if let Some(subject) = Subject::named(&change.subject) {
            newest.insert((subject, change.name), change.digest);
        }
    })?;
    Ok(newest)
}

/// Appends a row with the new digest of an item.
fn write(db: &Connection, key: i64, subject: Subject, name: &str, digest: Option<Digest>) -> Result<()> {
    type End = (String, i64, String, Option<i64>, Option<[u8; 32]>);
    let end: Option<End> = db
        .prepare_cached(END)
        .and_then(|mut statement| {
            let read = |row: &Row<'_>| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?, row.get(4)?));
            statement.query_row([key], read).optional()
        })
        .doing(WRITING)?;
    let Some((id, events, actor, last, hash)) = end else {
        return Err(Error::Corrupt {
            what: format!("a change of a conversation that is not there (key {key})"),
        });
    };
    // No program writes such numbers. A damaged row may have any.
    let (Some(number), Some(after_sequence)) = (last.unwrap_or(0).checked_add(1), events.checked_sub(1))
    else {
        return Err(Error::Corrupt {
            what: format!("{id} has {events} events, and the number of its last change is {last:?}"),
        });
    };
    let change = Change {
        number,
        subject: subject.as_str().to_owned(),
        name: name.to_owned(),
        digest,
        after_sequence,
        recorded_at: Timestamp::now(),
        actor,
        hash: Digest::START,
    };
    let hash = change.link(&id, hash.map_or(Digest::START, Digest));
    insert(db, key, &Change { hash, ..change })?;
    stale::item(db, key, subject, name)
}

fn insert(db: &Connection, key: i64, change: &Change) -> Result<()> {
    db.prepare_cached(ADD)
        .and_then(|mut statement| {
            statement.execute(params![
                key,
                change.number,
                change.subject,
                change.name,
                change.digest.map(|digest| digest.0),
                change.after_sequence,
                change.recorded_at.0,
                change.actor,
                change.hash.0,
            ])
        })
        .doing(WRITING)?;
    Ok(())
}

/// Calls `visit` with every row of a conversation's chain, in order.
pub(in crate::store) fn rows(db: &Connection, key: i64, visit: &mut dyn FnMut(Change)) -> Result<()> {
    let mut statement = db.prepare_cached(ROWS).doing(READING)?;
    let mut rows = statement.query([key]).doing(READING)?;
    while let Some(row) = rows.next().doing(READING)? {
        visit(Change::read(row).doing(READING)?);
    }
    Ok(())
}

/// Returns the end of a conversation's chain of changes.
pub(in crate::store) fn end(db: &Connection, key: i64) -> Result<ChainEnd> {
    let last: Option<(i64, [u8; 32])> = db
        .prepare_cached(LAST)
        .and_then(|mut s| s.query_row([key], |row| Ok((row.get(0)?, row.get(1)?))).optional())
        .doing(READING)?;
    Ok(last.map_or_else(ChainEnd::default, |(number, hash)| ChainEnd {
        count: number.cast_unsigned(),
        hash: Digest(hash),
    }))
}

/// Returns the hash of a row. `None` if there is no row with this number.
pub(super) fn hash_at(db: &Connection, key: i64, number: u64) -> Result<Option<Digest>> {
    let number = place(number);
    let hash: Option<[u8; 32]> = db
        .prepare_cached(HASH)
        .and_then(|mut statement| statement.query_row(params![key, number], |row| row.get(0)).optional())
        .doing(READING)?;
    Ok(hash.map(Digest))
}

/// Deletes a conversation's chain. The caller must have called [`permit`](super::guards::permit), and calls
/// [`forbid`](super::guards::forbid) afterwards.
pub(in crate::store) fn delete(db: &Connection, key: i64) -> Result<()> {
    db.prepare_cached(DELETE).and_then(|mut statement| statement.execute([key])).doing(WRITING)?;
    Ok(())
}

impl crate::store::Audit<'_> {
    /// Returns the end of the chain of changes of the data beside a conversation's events.
    ///
    /// # Errors
    /// [`Error::UnknownConversation`].
    pub fn changes_end(&self, conversation: &ConversationId) -> Result<ChainEnd> {
        self.store.snapshot(|db| end(db, super::catalogue::key(db, conversation)?))
    }

    /// Returns the hash of the change with this number. `None` if there is no such change.
    ///
    /// # Errors
    /// [`Error::UnknownConversation`].
    pub fn change_hash_at(&self, conversation: &ConversationId, number: u64) -> Result<Option<Digest>> {
        self.store.snapshot(|db| hash_at(db, super::catalogue::key(db, conversation)?, number))
    }
}
