//! Names write-ahead logs: the first commit of each writes eight random bytes of its own beside those of the log before.

use std::path::Path;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags, ffi};

const RENEW: &str =
    "UPDATE write_log SET generation = CAST(randomblob(8) || substr(generation, 1, 8) AS BLOB)";

/// A file of an older schema has no such table.
const IS_NAMED: &str = "SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = 'write_log'";

/// Returns the number of frames in the write-ahead log, and how many of them are in the file already. `None` without a log, or
/// within a transaction.
#[expect(unsafe_code, reason = "the engine has no safe wrapper that asks without a statement")]
pub(in crate::store) fn frames(db: &Connection) -> Option<(u64, u64)> {
    /// Moves nothing. Source: <https://sqlite.org/c3ref/wal_checkpoint_v2.html>; since SQLite 3.51.0, and an older one is refused.
    const NOOP: std::ffi::c_int = -1;
    let (mut all, mut moved) = (-1, -1);
    // SAFETY: the connection is open, the name is a constant, and the engine writes two numbers.
    let done = unsafe {
        ffi::sqlite3_wal_checkpoint_v2(db.handle(), c"main".as_ptr(), NOOP, &raw mut all, &raw mut moved)
    };
    (done == ffi::SQLITE_OK).then_some(())?;
    Some((u64::try_from(all).ok()?, u64::try_from(moved).ok()?))
}

/// Returns whether the next commit may begin the log anew, because the file has all of it.
pub(super) fn may_begin(db: &Connection) -> bool {
    frames(db).is_some_and(|(all, moved)| all == moved)
}

/// Gives the log that begins with this transaction its name.
pub(in crate::store) fn renew(db: &Connection) -> rusqlite::Result<()> {
    db.prepare_cached(RENEW).and_then(|mut statement| statement.execute([])).map(drop)
}

/// Gives a file that was copied or rewritten a name of its own, because its pages stand in other places now: no log of the
/// file that it was made of goes on from it. The file must be open nowhere.
pub(in crate::store) fn renew_copy(path: &Path) -> rusqlite::Result<()> {
    let db = Connection::open_with_flags(
        path,
        OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX,
    )?;
    if !db.prepare(IS_NAMED)?.exists([])? {
        return Ok(());
    }
    // What a kill leaves of it is deleted, and it is synced before it gets its name.
    db.execute_batch("PRAGMA journal_mode = MEMORY; PRAGMA synchronous = OFF;")?;
    db.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER, false)?;
    db.execute("UPDATE write_log SET generation = randomblob(16)", [])?;
    db.close().map_err(|(_, error)| error)
}
