//! Rewrites the tables of a log, so that nothing is left in them that was removed or redacted.
//!
//! The server keeps the old version of a row that is changed or removed until it is vacuumed, and its bytes for longer. A
//! table that is rewritten has only what is to be seen.

use std::sync::{Arc, Mutex, PoisonError};

use postgres::Config;
use postgres::error::DbError;

use super::address::Address;
use super::line::{connect_as, failed};
use super::schema;
use crate::error::Result;

/// What has a conversation's content, or its id. `log` is written once.
const TABLES: [&str; 7] = ["event", "other_row", "conversation", "entry", "lease", "home", "log_end"];

/// A table that is rewritten can be used by nothing else. Behind a long question everything else would wait as well.
const PATIENCE: &str = "SET lock_timeout = '10s'";

/// The size of a table with its indexes.
const SIZE: &str = "SELECT pg_total_relation_size(to_regclass($1))";

/// How far [`SharedLog::purge`](super::SharedLog::purge) has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct PurgeProgress {
    /// The size of the tables that are rewritten, as it was before, in bytes.
    pub bytes: u64,
    /// That of all.
    pub bytes_total: u64,
}

/// What [`SharedLog::purge`](super::SharedLog::purge) has done.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Purged {
    /// The id of the log, a UUID.
    pub log_id: String,
    /// The last entry before: what it and those before it have removed or redacted is in no table any more.
    pub entry: u64,
    /// The size on the server, with indexes, before and after, in bytes.
    pub bytes_before: u64,
    /// See `bytes_before`.
    pub bytes_after: u64,
    /// Old rows that had to stay, because a transaction that was begun before still sees them. If there are any, end that
    /// transaction and purge again. `None` if the server does not say.
    pub rows_kept: Option<u64>,
}

/// Rewrites all tables.
pub(super) fn purge(address: &Address, progress: &mut (dyn FnMut(PurgeProgress) + Send)) -> Result<Purged> {
    let before = schema::status(address)?;
    let kept: Arc<Mutex<Vec<u64>>> = Arc::default();
    let mut config = Config::from(address.config.clone());
    config.notice_callback({
        let kept = Arc::clone(&kept);
        move |notice| kept.lock().unwrap_or_else(PoisonError::into_inner).extend(rows_kept(&notice))
    });
    let mut client = connect_as(address, &config)?;
    let doing = "rewriting the tables";
    client.batch_execute(PATIENCE).map_err(failed(doing))?;
    let tables = TABLES.map(|table| format!("{}.{table}", address.quoted()));
    let mut sizes = [0; TABLES.len()];
    for (size, table) in sizes.iter_mut().zip(&tables) {
        let row = client.query_one(SIZE, &[table]).map_err(failed(doing))?;
        *size = row.get::<_, Option<i64>>(0).unwrap_or(0).cast_unsigned();
    }
    let mut come = PurgeProgress { bytes: 0, bytes_total: sizes.iter().sum() };
    for (table, size) in tables.iter().zip(sizes) {
        progress(come);
        client.batch_execute(&format!("VACUUM (FULL, VERBOSE, ANALYZE) {table}")).map_err(failed(doing))?;
        come.bytes += size;
    }
    progress(come);
    drop(client);
    let after = schema::status(address)?;
    let kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
    // One notice a table.
    let rows_kept = (kept.len() == TABLES.len()).then(|| kept.iter().sum());
    Ok(Purged {
        log_id: before.log_id,
        entry: before.entries,
        bytes_before: before.bytes,
        bytes_after: after.bytes,
        rows_kept,
    })
}

/// Reads the number of old rows that stay from what the server says about a table: its detail begins with it, in any language.
fn rows_kept(notice: &DbError) -> Option<u64> {
    let detail = notice.detail()?;
    let digits = detail.split(|character: char| !character.is_ascii_digit()).find(|part| !part.is_empty())?;
    digits.parse().ok()
}
