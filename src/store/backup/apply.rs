//! Bringing a copy of a file up to where a part of the backup leads.

use rusqlite::{Connection, OptionalExtension as _};

use super::super::engine::Doing as _;
use super::super::{log, projection};
use super::mark;
use super::tables::{self, has};
use crate::error::{Error, Result};
use crate::ids::ConversationId;

const DOING: &str = "bringing a copy up to date";

/// Which of the conversations that a part says are gone stay nevertheless.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Spare<'a> {
    /// None of them.
    None,
    /// All of them.
    All,
    /// One.
    One(&'a ConversationId),
}

/// Applies the attached `part` to the main database, within a transaction, foreign keys being off. Derived
/// rows of what is gone go first; what has changed in place lets every projection start afresh. Answers the
/// ids of conversations that are gone in the part and were spared.
///
/// # Errors
/// [`Error::Corrupt`] where the copy is then not what the part says.
pub(super) fn apply(db: &Connection, spare: Spare<'_>) -> Result<Vec<String>> {
    let all = |sql: &str| db.execute_batch(sql).doing(DOING);
    all("DROP TABLE IF EXISTS temp.gone; DROP TABLE IF EXISTS temp.again; \
         CREATE TABLE temp.gone AS SELECT r.key, r.id FROM part.removed AS r JOIN main.conversation AS c ON c.key = r.key; \
         CREATE TABLE temp.again AS SELECT m.key FROM part.mark AS m JOIN main.conversation AS c ON c.key = m.key \
         WHERE m.is_whole")?;
    let spared = spare_some(db, spare)?;
    log::permit(db, "backup")?;
    take_out(db)?;
    put_in(db)?;
    log::forbid(db)?;
    check(db)?;
    Ok(spared)
}

/// Takes conversations off the list of those that go, unless another one has their id now.
fn spare_some(db: &Connection, spare: Spare<'_>) -> Result<Vec<String>> {
    let only = match spare {
        Spare::None => return Ok(Vec::new()),
        Spare::All => None,
        Spare::One(id) => Some(id.as_str()),
    };
    let sql = "DELETE FROM temp.gone WHERE (?1 IS NULL OR id = ?1) AND id NOT IN (SELECT id FROM part.mark) RETURNING id";
    db.prepare(sql)
        .and_then(|mut statement| statement.query_map([only], |row| row.get(0))?.collect())
        .doing(DOING)
}

fn take_out(db: &Connection) -> Result<()> {
    let leaving = "SELECT key FROM temp.gone UNION ALL SELECT key FROM temp.again";
    let keys: Vec<i64> = db
        .prepare(leaving)
        .and_then(|mut statement| statement.query_map([], |row| row.get(0))?.collect())
        .doing(DOING)?;
    if keys.is_empty() {
        return Ok(());
    }
    projection::start_over(db)?;
    for table in tables::OF_EVENTS {
        if has(db, "main", table)? {
            let of = "SELECT position FROM main.event WHERE conversation IN";
            run(db, &format!("DELETE FROM main.{table} WHERE position IN ({of} ({leaving}))"))?;
        }
    }
    for table in tables::OF_CONVERSATIONS.iter().chain(&["event"]) {
        if has(db, "main", table)? {
            run(db, &format!("DELETE FROM main.{table} WHERE conversation IN ({leaving})"))?;
        }
    }
    run(db, "DELETE FROM main.conversation WHERE key IN (SELECT key FROM temp.gone)")?;
    run(db, "UPDATE main.conversation SET parent = NULL WHERE parent IN (SELECT key FROM temp.gone)")
}

fn put_in(db: &Connection) -> Result<()> {
    let insert = |table: &str, order: &str| {
        if !has(db, "part", table)? {
            return Ok(());
        }
        let columns = tables::columns(db, "part", table)?;
        run(db, &format!("INSERT INTO main.{table} ({columns}) SELECT {columns} FROM part.{table}{order}"))
    };
    run(db, "DELETE FROM main.conversation WHERE key IN (SELECT key FROM part.mark)")?;
    insert("conversation", "")?;
    insert("event", " ORDER BY position")?;
    for table in tables::OF_EVENTS {
        insert(table, "")?;
    }
    for table in tables::OF_CONVERSATIONS {
        let which = match *table {
            // Nothing of it is ever taken back but with the whole conversation.
            "base_state_change" => None,
            "base_state" => Some("SELECT conversation FROM part.base_state"),
            "attachment" => Some("SELECT key FROM part.mark WHERE is_whole OR known_files <> files"),
            _ => Some("SELECT key FROM part.mark"),
        };
        let comes = *table != "base_state" || has(db, "part", table)?;
        if let Some(which) = which.filter(|_| comes)
            && has(db, "main", table)?
        {
            run(db, &format!("DELETE FROM main.{table} WHERE conversation IN ({which})"))?;
        }
        insert(table, " ORDER BY rowid")?;
    }
    run(db, "DELETE FROM main.blob WHERE key NOT IN (SELECT blob FROM main.attachment)")?;
    if has(db, "part", "blob")? {
        let old = "key IN (SELECT key FROM part.blob) OR digest IN (SELECT digest FROM part.blob)";
        run(db, &format!("DELETE FROM main.blob WHERE {old}"))?;
    }
    insert("blob", "")?;
    for (table, _) in tables::GROWING {
        insert(table, "")?;
    }
    for table in tables::WHOLE {
        if has(db, "part", table)? {
            run(db, &format!("DELETE FROM main.{table}"))?;
        }
        insert(table, "")?;
    }
    if has(db, "part", "base_state")? {
        let stale = "SELECT conversation FROM part.base_state";
        run(db, &format!("INSERT OR IGNORE INTO main.usage_stale (conversation) {stale}"))?;
    }
    Ok(())
}

/// Compares what the copy holds now with what the part says it should.
fn check(db: &Connection) -> Result<()> {
    let marks = mark::marks(db, "main", "JOIN part.mark AS wanted ON wanted.key = c.key")?;
    let columns = mark::COLUMNS;
    let differs: Option<String> = db
        .query_row(
            &format!("SELECT id FROM (SELECT {columns} FROM part.mark EXCEPT SELECT {columns} FROM ({marks})) LIMIT 1"),
            [],
            |row| row.get(0),
        )
        .optional()
        .doing(DOING)?;
    match differs {
        None => Ok(()),
        Some(id) => {
            Err(Error::Corrupt { what: format!("conversation {id} is not what the backup says it is") })
        }
    }
}

fn run(db: &Connection, sql: &str) -> Result<()> {
    db.execute(sql, []).map(drop).doing(DOING)
}
