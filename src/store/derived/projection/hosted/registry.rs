//! Tables `host_table` and `host_stale`: which tables of the file are those of hosts' own projections, and what has to be
//! removed from them with a conversation.
//!
//! Every Annals of this schema follows these rules, also without the code of a projection: what is deleted or redacted
//! must not stay in a table that only the host's program knows. So rows are removed here at once, in the same transaction, and a program
//! that has the code makes again what is still to be there.

use rusqlite::{Connection, OptionalExtension as _, Row, params};

use super::super::FORGET;
use crate::error::Result;
use crate::store::engine::WhileDoing as _;
use crate::store::own::{PREFIX, Shape};

const IS_THERE: &str = "SELECT 1 FROM main.sqlite_schema WHERE type = 'table' AND name = ?1";
const TABLES: &str = "SELECT name, projection, scope FROM host_table ORDER BY projection, name";
const HAS_KEY: &str = "SELECT 1 FROM pragma_table_xinfo(?1, 'main') WHERE name = 'conversation'";
const NAME: &str = "INSERT INTO host_table (name, projection, scope) VALUES (?1, ?2, ?3)";
const UNNAME: &str = "DELETE FROM host_table WHERE projection = ?1";
const ID: &str = "SELECT id FROM conversation WHERE key = ?1";
const MARK: &str = "INSERT OR IGNORE INTO host_stale (projection, conversation) VALUES (?1, ?2)";
const STALE: &str = "SELECT conversation FROM host_stale WHERE projection = ?1 LIMIT 1";
const UNMARK: &str = "DELETE FROM host_stale WHERE projection = ?1 AND conversation = ?2";
const UNMARK_ALL: &str = "DELETE FROM host_stale WHERE projection = ?1";

const DOING: &str = "clearing tables of projections of hosts";

/// A table of a host's own projection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::store) struct HostTable {
    pub name: String,
    /// The projection, such as `shop.parcels`.
    pub projection: String,
    /// Whether each of its rows belongs to the conversation whose id is in its column `conversation`.
    pub is_keyed: bool,
}

/// Returns the tables that the file names as those of hosts' own projections, in the order of the projections. Empty in a
/// file of an older schema.
pub(in crate::store) fn tables(db: &Connection) -> Result<Vec<HostTable>> {
    if !exists(db, "host_table")? {
        return Ok(Vec::new());
    }
    let read = |row: &Row<'_>| {
        let scope: String = row.get(2)?;
        Ok(HostTable { name: row.get(0)?, projection: row.get(1)?, is_keyed: scope == "conversation" })
    };
    let mut tables: Vec<HostTable> = db
        .prepare_cached(TABLES)
        .and_then(|mut statement| statement.query_map([], read)?.collect())
        .doing("listing tables of projections of hosts")?;
    // Whatever another program has written there, no table of Annals is taken for a host's.
    tables.retain(|table| table.name.starts_with(PREFIX));
    Ok(tables)
}

fn exists(db: &Connection, table: &str) -> Result<bool> {
    db.prepare_cached(IS_THERE).and_then(|mut statement| statement.exists([table])).doing(DOING)
}

/// What becomes of a conversation whose rows are removed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Then {
    /// Its events are deleted.
    Gone,
    /// Its events are there, and some were changed.
    Again,
}

/// Removes a conversation that is deleted. Its row in the catalogue must not be deleted yet.
pub(in crate::store) fn remove(db: &Connection, conversation: i64) -> Result<()> {
    clear(db, conversation, Then::Gone)
}

/// Removes the rows of a conversation whose events were changed in place. They are made again later.
pub(in crate::store) fn redo(db: &Connection, conversation: i64) -> Result<()> {
    clear(db, conversation, Then::Again)
}

fn clear(db: &Connection, conversation: i64, then: Then) -> Result<()> {
    let tables = tables(db)?;
    if tables.is_empty() {
        return Ok(());
    }
    let id: Option<String> = db
        .prepare_cached(ID)
        .and_then(|mut statement| statement.query_row([conversation], |row| row.get(0)).optional())
        .doing(DOING)?;
    for of_one in tables.chunk_by(|one, next| one.projection == next.projection) {
        let projection = &of_one[0].projection;
        let mut keyed = true;
        for table in of_one {
            keyed &= table.is_keyed && (!exists(db, &table.name)? || has_key(db, &table.name)?);
        }
        let Some(id) = id.as_ref().filter(|_| keyed) else {
            empty(db, of_one)?;
            continue;
        };
        for table in of_one {
            if exists(db, &table.name)? {
                db.execute(&format!("DELETE FROM main.\"{}\" WHERE conversation = ?1", table.name), [id])
                    .doing(DOING)?;
            }
        }
        match then {
            Then::Gone => run(db, UNMARK, params![projection, id])?,
            Then::Again => run(db, MARK, params![projection, id])?,
        }
    }
    Ok(())
}

fn has_key(db: &Connection, table: &str) -> Result<bool> {
    db.prepare_cached(HAS_KEY).and_then(|mut statement| statement.exists([table])).doing(DOING)
}

/// Empties the tables of one projection and forgets its checkpoint: the whole log has to be applied again.
fn empty(db: &Connection, tables: &[HostTable]) -> Result<()> {
    for HostTable { name, projection, .. } in tables {
        if exists(db, name)? {
            db.execute(&format!("DELETE FROM main.\"{name}\""), []).doing(DOING)?;
        }
        run(db, FORGET, [format!("own:{projection}")])?;
        run(db, UNMARK_ALL, [projection])?;
    }
    Ok(())
}

/// Empties the tables of every host's own projection. Works in a file of any schema version.
pub(in crate::store) fn start_over(db: &Connection) -> Result<()> {
    empty(db, &tables(db)?)
}

/// Drops the tables of a projection and forgets everything about it.
pub(in crate::store) fn drop_all(db: &Connection, projection: &str) -> Result<()> {
    for table in tables(db)?.iter().filter(|table| table.projection == projection) {
        if exists(db, &table.name)? {
            db.execute_batch(&format!("DROP TABLE main.\"{}\"", table.name)).doing(DOING)?;
        }
    }
    run(db, UNNAME, [projection])?;
    run(db, UNMARK_ALL, [projection])?;
    run(db, FORGET, [format!("own:{projection}")])
}

/// Names the tables of a projection as a host's.
pub(super) fn name_all(db: &Connection, shape: &Shape) -> Result<()> {
    shape.tables().try_for_each(|table| run(db, NAME, params![table, shape.name, shape.scope.as_str()]))
}

/// Returns whether the file names exactly the tables of a projection, with its scope.
pub(super) fn names_all(db: &Connection, shape: &Shape) -> Result<bool> {
    let is_keyed = shape.scope.as_str() == "conversation";
    let found = tables(db)?;
    let mut found = found.iter().filter(|table| table.projection == shape.name);
    let same = found.clone().count() == shape.tables().count();
    Ok(same && found.all(|table| table.is_keyed == is_keyed && shape.tables().any(|own| own == table.name)))
}

/// Returns a conversation whose rows have to be made again.
pub(super) fn stale(db: &Connection, projection: &str) -> Result<Option<String>> {
    db.prepare_cached(STALE)
        .and_then(|mut statement| statement.query_row([projection], |row| row.get(0)).optional())
        .doing("looking for what a projection has to make again")
}

/// Records that the rows of a conversation were made again.
pub(super) fn unmark(db: &Connection, projection: &str, conversation: &str) -> Result<()> {
    run(db, UNMARK, params![projection, conversation])
}

fn run(db: &Connection, sql: &str, values: impl rusqlite::Params) -> Result<()> {
    db.prepare_cached(sql).and_then(|mut statement| statement.execute(values)).map(drop).doing(DOING)
}
