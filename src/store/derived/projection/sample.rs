//! Compares the derived rows of one conversation with its log. Its rows are rebuilt in temporary tables, as
//! [`compare`](super::compare) does for all conversations, and the differences are counted. The cost depends only on
//! the size of this conversation.

use rusqlite::{Connection, params};

use super::{EVENTS_OF, STEP_EVENTS_MAX, Standing, all, each, facts, search, tables, usage};
use crate::error::Result;
use crate::ids::ConversationId;
use crate::store::Store;
use crate::store::engine::readers::Reader;
use crate::store::engine::{WhileDoing as _, transaction};
use crate::store::table::catalogue;

const DOING: &str = "comparing projections";
const COLUMNS: &str =
    "SELECT group_concat(name, ', '), max(name = 'conversation') FROM pragma_table_info(?1)";
const LAST: &str = "SELECT coalesce(max(position), 0) FROM event WHERE conversation = ?1";

/// A projection whose rows differ from the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Drifted {
    /// The projection.
    pub(crate) projection: &'static str,
    /// The number of its rows that do not follow from the log.
    pub(crate) too_many: u64,
    /// The number of rows that follow from the log and are missing.
    pub(crate) missing: u64,
}

/// Compares conversations one after the other on its own connection.
pub(crate) struct Comparer {
    db: Reader,
    /// Whether the search index itself is damaged, so that none of its rows can be relied on.
    search_is_damaged: bool,
}

impl Store {
    /// Prepares a comparison of projections with the log. Reads the whole search index once, to check it.
    pub(crate) fn comparer(&self) -> Result<Comparer> {
        let db = self.0.watch.connect().doing(DOING)?;
        db.busy_timeout(self.0.options.busy_timeout).doing(DOING)?;
        db.execute_batch("PRAGMA foreign_keys = OFF; PRAGMA temp_store = FILE; PRAGMA trusted_schema = OFF")
            .doing(DOING)?;
        let search_is_damaged = search::checkpoint(&db)?.is_some() && search::fault(&db)?.is_some();
        tables().try_for_each(|table| table.make_shadow(&db))?;
        Ok(Comparer { db, search_is_damaged })
    }
}

impl Comparer {
    /// Returns the projections that differ from the log for a conversation. Skips a projection that has not read the
    /// whole conversation yet.
    ///
    /// # Errors
    /// [`UnknownConversation`](crate::Error::UnknownConversation), and any read error.
    pub(crate) fn compare(&self, conversation: &ConversationId) -> Result<Vec<Drifted>> {
        transaction::reading(&self.db, "ROLLBACK", DOING, || self.compare_in_snapshot(conversation))
    }

    fn compare_in_snapshot(&self, conversation: &ConversationId) -> Result<Vec<Drifted>> {
        let db = &self.db;
        let key = catalogue::key(db, conversation)?;
        let last: i64 = db.query_row(LAST, [key], |row| row.get(0)).doing(DOING)?;
        let mut standing: Vec<Standing> = Vec::new();
        if search::checkpoint(db)?.is_some_and(|position| position >= last) {
            search::Words::begin(db)?;
            standing.push((Box::new(search::Words), 0));
        }
        for projection in all() {
            if super::checkpoint(db, projection.as_ref())?.is_some_and(|position| position >= last) {
                standing.push((projection, 0));
            }
        }
        fill(db, key, &mut standing)?;
        let mut drifts = Vec::new();
        for (projection, _) in &standing {
            let mut drift = Drifted { projection: projection.name(), too_many: 0, missing: 0 };
            if drift.projection == search::NAME {
                let (too_many, lacking) = search::astray(db, Some(key))?;
                (drift.too_many, drift.missing) = (too_many.rows, lacking.rows);
                if self.search_is_damaged {
                    drift.missing = search::count_made(db)?;
                }
            }
            for table in projection.tables().iter().filter(|table| table.order.is_some()) {
                let (too_many, missing) = differences(db, table.name, key)?;
                drift.too_many += too_many;
                drift.missing += missing;
            }
            if (drift.too_many, drift.missing) != (0, 0) {
                drifts.push(drift);
            }
        }
        Ok(drifts)
    }
}

/// Fills the temporary tables with the rows of one conversation, as computed from the log.
fn fill(db: &Connection, key: i64, standing: &mut [Standing]) -> Result<()> {
    let mut next = 0;
    loop {
        let mut statement = db.prepare_cached(EVENTS_OF).doing(DOING)?;
        let rows = statement.query(params![key, next, STEP_EVENTS_MAX]).doing(DOING)?;
        let step = each(db, rows, &mut |event| {
            standing.iter_mut().try_for_each(|(projection, _)| projection.apply(db, event))
        })?;
        for (projection, _) in standing.iter_mut() {
            projection.flush(db)?;
        }
        if !step.more {
            break;
        }
        let reached = step.reached.unwrap_or_default();
        let after = "SELECT sequence + 1 FROM event WHERE position = ?1";
        next = db
            .prepare_cached(after)
            .and_then(|mut statement| statement.query_row([reached], |row| row.get(0)))
            .doing(DOING)?;
    }
    if standing.iter().any(|(projection, _)| projection.name() == usage::NAME) {
        usage::renew(db, key)?;
    }
    if standing.iter().any(|(projection, _)| projection.name() == facts::NAME) {
        facts::renew(db, key)?;
    }
    Ok(())
}

/// Counts the rows of a conversation that only the file has, and those that only the temporary table has.
fn differences(db: &Connection, table: &str, key: i64) -> Result<(u64, u64)> {
    let (columns, names_conversation): (String, bool) = db
        .prepare_cached(COLUMNS)
        .and_then(|mut statement| statement.query_row([table], |row| Ok((row.get(0)?, row.get(1)?))))
        .doing(DOING)?;
    let own = if names_conversation {
        "conversation = ?1"
    } else {
        "position IN (SELECT position FROM event WHERE conversation = ?1)"
    };
    // Grouped and counted, because a table without a key may have the same row twice.
    let rows = |schema: &str| {
        format!("SELECT {columns}, count(*) FROM {schema}.{table} WHERE {own} GROUP BY {columns}")
    };
    let (file, made) = (rows("main"), rows("temp"));
    let count = |one: &str, other: &str| -> Result<u64> {
        let sql = format!("SELECT count(*) FROM ({one} EXCEPT {other})");
        let count: i64 = db
            .prepare_cached(&sql)
            .and_then(|mut statement| statement.query_row([key], |row| row.get(0)))
            .doing(DOING)?;
        Ok(count.cast_unsigned())
    };
    Ok((count(&file, &made)?, count(&made, &file)?))
}
