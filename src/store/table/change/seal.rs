//! Begins the chains of changes in a file that is older than they are, with its data at the time of the upgrade.

use rusqlite::{Connection, OptionalExtension as _};

use super::{Subject, take_over};
use crate::error::Result;
use crate::ids::Timestamp;
use crate::store::engine::WhileDoing as _;
use crate::store::table::log;

const KEYS: &str = "SELECT key FROM conversation ORDER BY key";
const SINCE: &str = "SELECT changes_since FROM log";

const DOING: &str = "beginning the chains of changes";

/// Begins the chain of every conversation with the current data beside its events. Runs within a transaction.
pub(in crate::store) fn seal(db: &Connection) -> Result<()> {
    let keys: Vec<i64> = db
        .prepare(KEYS)
        .and_then(|mut statement| statement.query_map([], |row| row.get(0))?.collect())
        .doing(DOING)?;
    for key in keys {
        for subject in Subject::ALL {
            take_over(db, key, *subject)?;
        }
    }
    log::changes_begin(db, Timestamp::now())
}

/// Returns the time since which the chains of changes cover the file. `None` if they cover it since it was made.
pub(in crate::store) fn since(db: &Connection) -> Result<Option<Timestamp>> {
    let since: Option<Option<i64>> =
        db.query_row(SINCE, [], |row| row.get(0)).optional().doing("reading the chain of changes")?;
    Ok(since.flatten().map(Timestamp))
}
