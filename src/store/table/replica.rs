//! Table `replica`: what a shared log has of this file. It has one row if the file is a replica, and no row otherwise.

use rusqlite::{Connection, OptionalExtension as _};

use crate::chain::Digest;
use crate::error::Result;
use crate::store::engine::WhileDoing as _;

const LOAD: &str = "SELECT log_id, entry, chain FROM replica";
#[cfg(feature = "postgres")]
const SAVE: &str = "INSERT INTO replica (one, log_id, entry, chain) VALUES (1, ?1, ?2, ?3) \
     ON CONFLICT (one) DO UPDATE SET entry = excluded.entry, chain = excluded.chain WHERE log_id = excluded.log_id";

/// How far a file has come in a shared log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Seen {
    /// The last entry. 0: none.
    pub entry: u64,
    /// The hash over all entries up to that one.
    pub chain: Digest,
}

/// A file that has nothing of the log.
impl Default for Seen {
    fn default() -> Self {
        Self { entry: 0, chain: Digest::START }
    }
}

/// Returns the id of the log that the file is a replica of, and how far it has come. `None` if it is on its own.
pub(in crate::store) fn load(db: &Connection) -> Result<Option<(String, Seen)>> {
    db.prepare_cached(LOAD)
        .and_then(|mut statement| {
            statement
                .query_row([], |row| {
                    let seen = Seen {
                        entry: row.get::<_, i64>(1)?.cast_unsigned(),
                        chain: Digest(row.get::<_, [u8; 32]>(2)?),
                    };
                    Ok((row.get(0)?, seen))
                })
                .optional()
        })
        .doing("looking for a shared log")
}

/// Notes how far the file has come in the log `log_id`.
#[cfg(feature = "postgres")]
pub(in crate::store) fn save(db: &Connection, log_id: &str, seen: Seen) -> Result<()> {
    db.prepare_cached(SAVE)
        .and_then(|mut statement| {
            statement.execute(rusqlite::params![log_id, seen.entry.cast_signed(), seen.chain.0.as_slice()])
        })
        .map(drop)
        .doing("noting the place in a shared log")
}

/// Returns whether nothing was ever stored in the file: no conversation and no act of an operator.
#[cfg(feature = "postgres")]
pub(in crate::store) fn is_unused(db: &Connection) -> Result<bool> {
    let sql = "SELECT NOT EXISTS (SELECT 1 FROM conversation) AND NOT EXISTS (SELECT 1 FROM admin_act) \
         AND NOT EXISTS (SELECT 1 FROM server_key) AND NOT EXISTS (SELECT 1 FROM subscription)";
    db.query_row(sql, [], |row| row.get(0)).doing("looking whether the file is new")
}
