//! Runs the migrations: in a file, and in an empty database in memory, which tells what they make.

use rusqlite::config::DbConfig;
use rusqlite::functions::FunctionFlags;
use rusqlite::{Connection, ffi};

use super::schema;
use crate::error::{Error, Result};
use crate::ids::Timestamp;
use crate::store::engine::Doing as _;
use crate::store::options::Actor;
use crate::store::table::change;

mod migrations {
    refinery::embed_migrations!("migrations");
}

/// The schema version that this program writes, in `PRAGMA user_version`. It is the number of migrations.
pub const SCHEMA_VERSION: u32 = 14;

/// The first schema with chains of changes.
const CHANGES_SCHEMA: u32 = 12;

/// Opens an empty database in memory with the current schema. It is used to compare schemas.
pub(super) fn open_fresh() -> Result<Connection> {
    let mut db = Connection::open_in_memory().doing("describing the schema")?;
    set_up(&db, &Actor::default())?;
    migrate(&mut db)?;
    Ok(db)
}

/// Opens an empty database in memory with only the first `schema` migrations.
pub(super) fn open_fresh_at(schema: u32) -> Result<Connection> {
    let doing = "describing the schema";
    let mut db = Connection::open_in_memory().doing(doing)?;
    set_up(&db, &Actor::default())?;
    let target = refinery::Target::Version(schema.cast_signed());
    migrations::migrations::runner()
        .set_target(target)
        .run(&mut db)
        .map_err(|error| Error::Storage { doing, source: error.into() })?;
    Ok(db)
}

/// Returns the names of the migrations after a schema version, in order.
pub(in crate::store) fn migrations_after(schema: u32) -> Vec<String> {
    let runner = migrations::migrations::runner();
    let mut migrations: Vec<_> = runner.get_migrations().iter().collect();
    migrations.sort_by_key(|migration| migration.version());
    let later = migrations.into_iter().filter(|migration| i64::from(migration.version()) > i64::from(schema));
    later.map(|migration| migration.name().replace('_', " ")).collect()
}

/// Sets up a connection that writes, for `actor`.
pub(in crate::store) fn set_up(db: &Connection, actor: &Actor) -> Result<()> {
    #[cfg(test)]
    crate::store::plans::note(db);
    // The guard of the event table calls this function. Connections of other programs do not have it.
    let flags =
        FunctionFlags::SQLITE_UTF8 | FunctionFlags::SQLITE_INNOCUOUS | FunctionFlags::SQLITE_DETERMINISTIC;
    db.create_scalar_function("only_annals_appends_to_the_log", 0, flags, |_| Ok(true))
        .doing("setting up the database")?;
    let actor = actor.to_line();
    let flags = FunctionFlags::SQLITE_UTF8 | FunctionFlags::SQLITE_DIRECTONLY;
    db.create_scalar_function(change::ACTOR, 0, flags, move |_| Ok(actor.clone()))
        .doing("setting up the database")?;
    db.set_prepared_statement_cache_capacity(192);
    keep_plans(db).doing("setting up the database")?;
    for off in [DbConfig::SQLITE_DBCONFIG_DQS_DML, DbConfig::SQLITE_DBCONFIG_DQS_DDL] {
        db.set_db_config(off, false).doing("setting up the database")?;
    }
    db.execute_batch(
        "PRAGMA foreign_keys = ON; PRAGMA recursive_triggers = ON; PRAGMA trusted_schema = OFF;
         PRAGMA cell_size_check = ON; PRAGMA mmap_size = 0;",
    )
    .doing("setting up the database")
}

/// Lets statements keep their plan, whatever values are bound to them.
///
/// Otherwise SQLite plans a statement with a bound LIMIT again each time it runs, which costs more than reading some
/// events.
pub(in crate::store) fn keep_plans(db: &Connection) -> rusqlite::Result<()> {
    db.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true).map(drop)
}

/// Upgrades the file to the current schema, or makes the schema in an empty file.
pub(in crate::store) fn migrate(db: &mut Connection) -> Result<()> {
    let before = migrations_applied(db)?;
    if let Some(older) = u32::try_from(before).ok().filter(|older| (1..SCHEMA_VERSION).contains(older)) {
        schema::make_whole(db, older)?;
    }
    // Grouped means one transaction. Otherwise the runner writes a migration and the record of it one after the
    // other, and a process that dies in between leaves a file that cannot be opened any more.
    if let Err(error) = migrations::migrations::runner().set_grouped(true).run(db) {
        // The runner hides the engine's error in its own.
        let engine = std::error::Error::source(&error)
            .and_then(|source| source.downcast_ref::<rusqlite::Error>())
            .and_then(rusqlite::Error::sqlite_error);
        // The runner reads first and writes later. If another process was faster, or has the lock, another attempt
        // succeeds, so the error is reported as busy.
        let code = match engine {
            _ if migrations_applied(db)? > before => ffi::Error::new(ffi::SQLITE_BUSY),
            Some(code) => *code,
            None => return Err(Error::Storage { doing: "upgrading the schema", source: error.into() }),
        };
        return Err(rusqlite::Error::SqliteFailure(code, Some(error.to_string())))
            .doing("upgrading the schema");
    }
    let transaction = db.transaction().doing("upgrading the schema")?;
    transaction
        .execute(
            "INSERT OR IGNORE INTO log (one, store_id, created_at) VALUES (1, ?1, ?2)",
            (uuid::Uuid::new_v4().to_string(), Timestamp::now().0),
        )
        .doing("upgrading the schema")?;
    // The version is read within the transaction, because another process may have just done the upgrade.
    let found: u32 = transaction
        .pragma_query_value(None, "user_version", |row| row.get(0))
        .doing("upgrading the schema")?;
    if (1..CHANGES_SCHEMA).contains(&found) {
        change::seal(&transaction)?;
    }
    transaction.pragma_update(None, "user_version", SCHEMA_VERSION).doing("upgrading the schema")?;
    transaction.commit().doing("upgrading the schema")
}

/// Returns the number of migrations that were applied to the file.
fn migrations_applied(db: &Connection) -> Result<i64> {
    let doing = "upgrading the schema";
    let begun = db
        .prepare("SELECT 1 FROM sqlite_schema WHERE name = 'refinery_schema_history'")
        .and_then(|mut statement| statement.exists([]))
        .doing(doing)?;
    if !begun {
        return Ok(0);
    }
    db.query_row("SELECT count(*) FROM refinery_schema_history", [], |row| row.get(0)).doing(doing)
}
