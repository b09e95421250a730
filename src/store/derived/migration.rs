//! Runs the migrations: in a file, and in an empty database in memory, which tells what they make. Projections may
//! declare objects of their own, which are made after the migrations.

use std::path::Path;

use rusqlite::config::DbConfig;
use rusqlite::functions::FunctionFlags;
use rusqlite::{Connection, ffi};

use super::projection::{Description, PROJECTIONS};
use super::schema;
use crate::error::{AroundError, Error, Result};
use crate::ids::Timestamp;
use crate::store::engine::{WhileDoing as _, generation};
use crate::store::options::Actor;
use crate::store::table::repair::{self, Mending};
use crate::store::table::{admin, base_state, change, guards};

mod migrations {
    refinery::embed_migrations!("migrations");
}

/// The number of the newest file in `migrations/`.
const NEWEST_FILE: u32 = 26;

/// The schema version that this program writes, in `PRAGMA user_version`. It grows by one with every migration, and
/// with every projection that makes its tables itself.
pub const SCHEMA_VERSION: u32 = {
    let mut newest = NEWEST_FILE;
    let mut next = 0;
    while next < PROJECTIONS.len() {
        if PROJECTIONS[next].schema > newest {
            newest = PROJECTIONS[next].schema;
        }
        next += 1;
    }
    newest
};

/// The first schema with chains of changes.
const CHANGES_SCHEMA: u32 = 12;

/// The first schema whose catalogue shows the status of base states from before November 2025.
const OLD_STATUS_SCHEMA: u32 = 17;

/// The first schema that keeps no receipts of erased conversations.
const BLIND_SCHEMA: u32 = 24;

/// Opens an empty database in memory with the current schema. It is used to compare schemas.
pub(super) fn open_fresh() -> Result<Connection> {
    let mut db = Connection::open_in_memory().doing("describing the schema")?;
    set_up(&db, &Actor::default())?;
    migrate(&mut db, Path::new(":memory:"))?;
    Ok(db)
}

/// Opens an empty database in memory with only the migrations up to `schema`.
fn open_fresh_at(schema: u32) -> Result<Connection> {
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

/// Returns the names of the migrations after a schema version, and of the projections that make their tables
/// themselves, in order.
pub(in crate::store) fn migrations_after(schema: u32) -> Vec<String> {
    let mut steps = steps();
    steps.retain(|(version, _)| *version > i64::from(schema));
    steps.into_iter().map(|(_, name)| name.replace('_', " ")).collect()
}

/// Returns the schema version and the name of each migration, and of each projection that makes its tables itself, in
/// order.
fn steps() -> Vec<(i64, String)> {
    let runner = migrations::migrations::runner();
    let files = runner.get_migrations().iter();
    let files = files.map(|migration| (i64::from(migration.version()), migration.name().to_owned()));
    let declared = PROJECTIONS.iter().filter(|projection| !projection.statements.is_empty());
    let declared = declared.map(|projection| (i64::from(projection.schema), projection.name.to_owned()));
    let mut steps: Vec<_> = files.chain(declared).collect();
    steps.sort();
    steps
}

/// Makes the derived objects whole again that a file of an older schema should have, before migrations change them.
fn make_older_whole(db: &Connection, migrated: u32) -> Result<()> {
    let found: u32 =
        db.pragma_query_value(None, "user_version", |row| row.get(0)).doing("upgrading the schema")?;
    let then = open_fresh_at(migrated)?;
    let known: Vec<&Description> =
        PROJECTIONS.iter().copied().filter(|projection| projection.schema <= found).collect();
    schema::make_declared(&then, &known)?;
    schema::make_whole(db, &schema::read(&then)?)
}

/// Sets up a connection that writes, for `actor`.
pub(in crate::store) fn set_up(db: &Connection, actor: &Actor) -> Result<()> {
    #[cfg(test)]
    crate::store::plans::note(db);
    // The guards call this function. Connections of other programs do not have it.
    let flags =
        FunctionFlags::SQLITE_UTF8 | FunctionFlags::SQLITE_INNOCUOUS | FunctionFlags::SQLITE_DETERMINISTIC;
    db.create_scalar_function(guards::PASS, 0, flags, |_| Ok(true)).doing("setting up the database")?;
    let actor = actor.clone();
    let flags = FunctionFlags::SQLITE_UTF8 | FunctionFlags::SQLITE_DIRECTONLY;
    db.create_scalar_function(change::ACTOR, 0, flags, move |_| Ok(actor.acting().to_line()))
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

/// Returns the newest migration that a file of this schema has.
fn migration_of(schema: u32) -> u32 {
    // Every number that no projection has is that of a file. The runner would read all files to say so.
    let is_projection = |version: &u32| {
        PROJECTIONS
            .iter()
            .any(|projection| projection.schema == *version && !projection.statements.is_empty())
    };
    (1..=schema.min(NEWEST_FILE)).rev().find(|version| !is_projection(version)).unwrap_or(0)
}

/// Returns the newest schema whose files have this migration as their newest one.
fn schema_of(migration: u32) -> u32 {
    (migration..=SCHEMA_VERSION)
        .take_while(|schema| migration_of(*schema) == migration)
        .last()
        .unwrap_or(migration)
}

/// Checks the number of the file's schema against the record of its migrations: any program can change the number. Reads
/// the schema.
///
/// A killed upgrade leaves an older number than the record says. What a number alone can cause there is done again without
/// harm, but for the chains of changes: those of a file that has some are not begun anew.
///
/// # Errors
/// [`AroundError::OtherNumber`].
pub(in crate::store) fn prove(db: &Connection, path: &Path, number: u32) -> Result<()> {
    let doing = "checking the schema's number";
    let applied = u32::try_from(migrations_applied(db)?).unwrap_or(0);
    let is_newer = applied > NEWEST_FILE; // a newer Annals has made it
    // Without a record, the upgrade itself refuses the tables that are there.
    if applied == migration_of(number) || applied == 0 || is_newer || number == 0 {
        return Ok(());
    }
    let begins_chains = (1..CHANGES_SCHEMA).contains(&number) && applied >= CHANGES_SCHEMA;
    let has_chains =
        || db.query_row("SELECT EXISTS (SELECT 1 FROM change)", [], |row| row.get::<_, bool>(0)).doing(doing);
    if applied < migration_of(number) || (begins_chains && has_chains()?) {
        let recorded = schema_of(applied);
        return Err(AroundError::OtherNumber { path: path.to_owned(), number, recorded }.into());
    }
    Ok(())
}

/// Upgrades the file to the current schema, or makes the schema in an empty file.
pub(in crate::store) fn migrate(db: &mut Connection, path: &Path) -> Result<()> {
    let before = migrations_applied(db)?;
    let number: u32 =
        db.pragma_query_value(None, "user_version", |row| row.get(0)).doing("upgrading the schema")?;
    prove(db, path, number)?;
    if let Some(older) = u32::try_from(before).ok().filter(|older| (1..SCHEMA_VERSION).contains(older))
        && let Err(error) = make_older_whole(db, older)
    {
        // Another process may have upgraded the file meanwhile, so that what it made is taken for a stranger's.
        let is_upgraded = migrations_applied(db)? > before;
        return if is_upgraded { Err(Error::Busy { waited_ms: 0, holder: None }) } else { Err(error) };
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
    schema::make_declared(&transaction, PROJECTIONS)?;
    if found > 0 && before > i64::from(migration_of(found)) {
        let found = format!("the file said that its schema is {found}, and had the migrations of {before}");
        let done = "went on as after an interrupted upgrade; another program may have changed the number";
        repair::note(&transaction, &repair::blank(None, &Mending::new("schema-number", found, done)))?;
    }
    if (1..CHANGES_SCHEMA).contains(&found) {
        change::seal(&transaction)?;
    }
    if (1..OLD_STATUS_SCHEMA).contains(&found) {
        base_state::show_old_status(&transaction)?;
    }
    if (1..BLIND_SCHEMA).contains(&found) {
        let overwrite = |how: &str| {
            transaction.execute_batch(&format!("PRAGMA secure_delete = {how}")).doing("upgrading the schema")
        };
        overwrite("ON")?;
        guards::permit(&transaction, "upgrade")?;
        admin::blind_all(&transaction)?;
        guards::forbid(&transaction)?;
        overwrite("FAST")?;
    }
    transaction.pragma_update(None, "user_version", SCHEMA_VERSION).doing("upgrading the schema")?;
    generation::renew(&transaction).doing("upgrading the schema")?;
    transaction.commit().doing("upgrading the schema")
}

/// Returns the number of the last migration that was applied to the file.
fn migrations_applied(db: &Connection) -> Result<i64> {
    let doing = "upgrading the schema";
    let begun = db
        .prepare("SELECT 1 FROM sqlite_schema WHERE name = 'refinery_schema_history'")
        .and_then(|mut statement| statement.exists([]))
        .doing(doing)?;
    if !begun {
        return Ok(0);
    }
    db.query_row("SELECT coalesce(max(version), 0) FROM refinery_schema_history", [], |row| row.get(0))
        .doing(doing)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_schema_version_has_one_migration_or_one_projection() {
        let runner = migrations::migrations::runner();
        let newest = runner.get_migrations().iter().map(|migration| i64::from(migration.version())).max();
        let place = "src/store/derived/migration.rs";
        assert_eq!(
            newest,
            Some(i64::from(NEWEST_FILE)),
            "NEWEST_FILE in {place} is not the newest migration"
        );
        let versions: Vec<i64> = steps().into_iter().map(|(version, _)| version).collect();
        let wanted: Vec<i64> = (1..=i64::from(SCHEMA_VERSION)).collect();
        assert_eq!(versions, wanted, "a schema version is missing, or there are two of it: {:#?}", steps());
        let sentence = format!("`PRAGMA user_version` is the schema, now {SCHEMA_VERSION};");
        let document = include_str!("../../../docs/format.md");
        assert!(document.contains(&sentence), "docs/format.md: the schema is {SCHEMA_VERSION}");
    }
}
