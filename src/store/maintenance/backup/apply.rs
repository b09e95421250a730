//! Applies a part of a backup to a copy of the file.

use rusqlite::{Connection, OptionalExtension as _};

use super::mark;
use super::tables::{self, has};
use crate::error::{Error, Result};
use crate::ids::ConversationId;
use crate::store::derived::projection;
use crate::store::engine::WhileDoing as _;
use crate::store::table::guards;

const DOING: &str = "bringing a copy up to date";

/// Which of the conversations that a part removes are kept nevertheless.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Spare<'a> {
    /// None of them.
    None,
    /// All of them.
    All,
    /// The one with this id.
    One(&'a ConversationId),
}

/// Applies the attached `part` to the main database. Returns the ids of the conversations that `spare` kept.
///
/// Runs within a transaction, with foreign keys off. If a conversation is removed or was changed in place, every
/// projection starts afresh.
///
/// # Errors
/// [`Error::Corrupt`] if the copy then differs from what the part records.
pub(super) fn apply(db: &Connection, spare: Spare<'_>) -> Result<Vec<String>> {
    let all = |sql: &str| db.execute_batch(sql).doing(DOING);
    all("DROP TABLE IF EXISTS temp.gone; DROP TABLE IF EXISTS temp.again; \
         CREATE TABLE temp.gone AS SELECT r.key, r.id FROM part.removed AS r JOIN main.conversation AS c ON c.key = r.key; \
         CREATE TABLE temp.again AS SELECT m.key FROM part.mark AS m JOIN main.conversation AS c ON c.key = m.key \
         WHERE m.is_whole")?;
    let spared = spare_some(db, spare)?;
    guards::permit(db, "backup")?;
    remove_rows(db)?;
    insert_rows(db)?;
    guards::forbid(db)?;
    check(db)?;
    Ok(spared)
}

/// Keeps the conversations that `spare` names, unless a new conversation has the same id. Returns their ids.
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

fn remove_rows(db: &Connection) -> Result<()> {
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

fn insert_rows(db: &Connection) -> Result<()> {
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
            // Its rows are removed only together with the whole conversation.
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
    for (table, number) in tables::GROWING {
        if has(db, "part", table)? {
            // A part with an erasure has these tables whole.
            let first = format!("SELECT coalesce(min({number}), 0) FROM part.{table}");
            run(db, &format!("DELETE FROM main.{table} WHERE {number} >= ({first})"))?;
        }
        insert(table, "")?;
    }
    for table in tables::WHOLE {
        if has(db, "part", table)? {
            run(db, &format!("DELETE FROM main.{table}"))?;
        }
        insert(table, "")?;
    }
    run(
        db,
        "INSERT OR IGNORE INTO main.fact_stale (conversation) SELECT key FROM part.mark \
         WHERE key IN (SELECT key FROM main.conversation)",
    )?;
    if has(db, "part", "base_state")? {
        let stale = "SELECT conversation FROM part.base_state";
        run(db, &format!("INSERT OR IGNORE INTO main.usage_stale (conversation) {stale}"))?;
    }
    Ok(())
}

/// Compares the marks of the copy with the marks in the part.
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
            Err(Error::Corrupt { what: format!("conversation {id} differs from what the backup records") })
        }
    }
}

fn run(db: &Connection, sql: &str) -> Result<()> {
    db.execute(sql, []).map(drop).doing(DOING)
}
