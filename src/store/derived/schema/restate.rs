//! Gives a derived object its statement back if the engine cannot read the stored one. Until then the engine reads nothing
//! of the file: it reads the whole schema or none.

use std::time::Duration;

use rusqlite::{Connection, OptionalExtension as _, params};

use super::{Role, wanted};
use crate::error::{Error, Result};
use crate::store::engine::transaction::Write;
use crate::store::engine::{WhileDoing as _, is_damage};

/// How the engine's message begins. The name of the object follows.
const MALFORMED: &str = "malformed database schema (";
const RESTATE: &str = "UPDATE sqlite_schema SET sql = ?3 WHERE type = ?1 AND name = ?2";
const STATED: &str = "SELECT sql FROM sqlite_schema WHERE type = ?1 AND name = ?2";

const DOING: &str = "giving a derived object its statement back";

/// The most objects that are given their statements back.
const OBJECTS_MAX: usize = 200;

/// Returns the object that the engine cannot read, if that is why it reads nothing of the file.
fn unread(error: &Error) -> Option<&str> {
    let Error::Corrupt { what } = error else { return None };
    what.split_once(MALFORMED)?.1.split_once(')').map(|(name, _)| name)
}

/// Returns whether the engine reads nothing of a file because of one object of its schema.
pub(in crate::store) fn is_unread(error: &rusqlite::Error) -> bool {
    matches!(error, rusqlite::Error::SqliteFailure(_, Some(message)) if message.starts_with(MALFORMED))
}

/// Lets a connection that only reads pass over what the engine cannot read of the schema. The other objects can be read.
pub(in crate::store) fn pass_over(db: &Connection) -> rusqlite::Result<()> {
    db.execute_batch("PRAGMA writable_schema = ON")
}

/// Does `work`. If the engine cannot read the statement of a derived object, that is replaced by the one that made it, and
/// `work` is done again.
///
/// # Errors
/// The error of `work` if it has another reason or the object is not derived, and any write error.
pub(in crate::store) fn with_statements<T>(
    db: &Connection,
    patience: Duration,
    mut work: impl FnMut() -> Result<T>,
) -> Result<T> {
    for _ in 0..OBJECTS_MAX {
        let error = match work() {
            Err(error) if is_damage(&error) => error,
            done => return done,
        };
        match unread(&error) {
            Some(name) if restate(db, patience, name)? => {}
            _ => return Err(error),
        }
    }
    work()
}

/// Replaces the statement of a derived object. Returns whether there is such an object and its statement was another one.
fn restate(db: &Connection, patience: Duration, name: &str) -> Result<bool> {
    let is_it = |object: &&super::Object| object.name == name && object.role() != Role::Truth;
    let Some(object) = wanted()?.iter().find(is_it) else { return Ok(false) };
    let defensive = rusqlite::config::DbConfig::SQLITE_DBCONFIG_DEFENSIVE;
    let was_defensive = db.db_config(defensive).doing(DOING)?;
    db.set_db_config(defensive, false).doing(DOING)?;
    let changed = pass_over(db).doing(DOING).and_then(|()| {
        let write = Write::begin(db, patience)?;
        let key = params![object.kind.as_str(), object.name];
        let stated: Option<Option<String>> =
            write.query_row(STATED, key, |row| row.get(0)).optional().doing(DOING)?;
        if stated.is_none_or(|stated| stated.as_deref() == Some(&object.sql)) {
            return Ok(false);
        }
        write.execute(RESTATE, params![object.kind.as_str(), object.name, object.sql]).doing(DOING)?;
        // Every connection reads the schema again when this number has changed.
        let cookie = super::cookie(&write)?;
        write.execute_batch(&format!("PRAGMA schema_version = {}", cookie.wrapping_add(1))).doing(DOING)?;
        write.commit()?;
        Ok(true)
    });
    let reset = db.execute_batch("PRAGMA writable_schema = RESET").doing(DOING);
    db.set_db_config(defensive, was_defensive).doing(DOING)?;
    changed.and_then(|changed| match reset {
        // The next object that cannot be read is the next error of the work.
        Err(error) if !is_damage(&error) => Err(error),
        _ => Ok(changed),
    })
}
