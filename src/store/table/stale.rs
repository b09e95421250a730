//! Tells the projection of facts that what stands beside the events of a conversation changed.

use rusqlite::{Connection, Error as SqliteError, params};

use super::change::Subject;
use crate::error::Result;
use crate::store::engine::WhileDoing as _;

const MARK: &str = "INSERT OR IGNORE INTO fact_stale (conversation) VALUES (?1)";
/// New figures matter only if the model follows from them.
const MARK_BY_CALLS: &str = "INSERT OR IGNORE INTO fact_stale (conversation) SELECT ?1 \
     WHERE NOT EXISTS (SELECT 1 FROM conversation_fact WHERE conversation = ?1 AND NOT is_by_calls)";

/// The files with facts about a conversation.
const FILES: [&str; 2] = ["meta.json", "metadata.json"];

/// Notes that an item beside the events of a conversation changed. Fields of a base state are noted by [`field`].
pub(in crate::store::table) fn item(db: &Connection, key: i64, subject: Subject, name: &str) -> Result<()> {
    let has_facts = match subject {
        Subject::BaseState | Subject::Foreign | Subject::Origin | Subject::Arrival => true,
        Subject::Attachment => FILES.contains(&name),
        Subject::Title
        | Subject::Tags
        | Subject::Created
        | Subject::Parent
        | Subject::Fork
        | Subject::BaseStateChange
        | Subject::Head
        | Subject::EventFile
        | Subject::Problems
        | Subject::Archive
        | Subject::Repair => false,
    };
    if has_facts { mark(db, MARK, key) } else { Ok(()) }
}

/// Notes that a field of a base state changed.
pub(in crate::store::table) fn field(db: &Connection, key: i64, field: &str) -> Result<()> {
    match field {
        "workspace" | "working_dir" | "agent" | "user_id" => mark(db, MARK, key),
        "stats" => mark(db, MARK_BY_CALLS, key),
        _ => Ok(()),
    }
}

/// Notes that anything beside the events of a conversation may have changed, except its base state.
#[cfg(feature = "postgres")]
pub(in crate::store) fn all(db: &Connection, key: i64) -> Result<()> {
    mark(db, MARK, key)
}

fn mark(db: &Connection, sql: &str, key: i64) -> Result<()> {
    match db.prepare_cached(sql) {
        // A lost table is made again, and then all facts are read again. A change must not fail for it.
        Err(SqliteError::SqliteFailure(_, Some(what))) if what.starts_with("no such table") => Ok(()),
        Err(SqliteError::SqlInputError { msg, .. }) if msg.starts_with("no such table") => Ok(()),
        prepared => {
            let done = prepared.and_then(|mut statement| statement.execute(params![key]));
            done.map(drop).doing("noting a change")
        }
    }
}
