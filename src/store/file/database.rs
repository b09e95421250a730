//! Opens the file: checks whether it is an Annals file, checks its schema, and sets up every connection.
//!
//! A file of another program, or of a newer Annals, is rejected before anything is written to it.

use std::time::{Duration, Instant};

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};

use super::place::{self, Place};
use super::{checkpoint, damaged_log, other_log};
use crate::error::{Error, Result};
use crate::partial;
use crate::store::derived::migration::{SCHEMA_VERSION, keep_plans, migrate, prove, set_up};
use crate::store::derived::schema;
#[cfg(unix)]
use crate::store::engine::files;
use crate::store::engine::{WhileDoing as _, heap, joined, transaction, translate};
use crate::store::options::{Actor, Durability, Options};
use crate::store::own::guard;
use crate::store::table::guards;

/// The `PRAGMA application_id` of an Annals file: "ANLS".
pub const APPLICATION_ID: i32 = 0x414e_4c53;

/// The first bytes of every SQLite database.
///
/// Source: <https://sqlite.org/fileformat2.html#magic_header_string>.
pub(crate) const SQLITE_MAGIC: &[u8; 16] = b"SQLite format 3\0";

/// The number of first bytes of a file that [`is_annals`] needs.
pub(crate) const HEADER_BYTES: usize = 72;

/// Sets whether deleted content is overwritten: `ON`, or as usual ([`OVERWRITING`]).
pub(in crate::store) fn set_overwriting(db: &Connection, how: &str) -> Result<()> {
    db.prepare_cached(&format!("PRAGMA secure_delete = {how}"))
        .and_then(|mut statement| statement.query_row([], |_| Ok(())))
        .doing("setting up the database")
}

/// Returns whether a file that begins with these bytes is an Annals file: an SQLite database that is named as one.
pub(crate) fn is_annals(first: &[u8]) -> bool {
    first.starts_with(SQLITE_MAGIC) && first.get(68..HEADER_BYTES) == Some(&APPLICATION_ID.to_be_bytes())
}

/// The usual setting of `secure_delete`: freed space is overwritten only if that needs no additional write.
pub(in crate::store) const OVERWRITING: &str = "FAST";

/// The oldest SQLite without the WAL-reset bug, which corrupts a file with two connections
/// (release notes of SQLite 3.51.3, 2026-03-13).
const ENGINE_MIN: (i32, &str) = (3_051_003, "3.51.3");

/// A connection that writes, as it was opened.
pub(in crate::store) struct Opened {
    pub db: Connection,
    /// The old schema version, if the file was upgraded.
    pub older: Option<u32>,
    /// Whether [`make_ready`] was done.
    pub is_ready: bool,
}

/// Opens the connection that writes. Creates or upgrades the schema.
pub(in crate::store) fn open_writer(place: &Place, options: &Options) -> Result<Connection> {
    let Opened { db, is_ready, .. } = open_or_upgrade(place, options)?;
    if !is_ready {
        make_ready(&db, place, options)?;
    }
    Ok(db)
}

/// Does the same as `open_writer`, but a file of the current schema is left for [`make_ready`].
pub(in crate::store) fn open_or_upgrade(place: &Place, options: &Options) -> Result<Opened> {
    refuse_unsafe_engine()?;
    if let Place::File(path) = place {
        place::prepare(path, options.create)?;
        place::refuse_second_name(path)?;
    }
    let began = Instant::now();
    loop {
        match try_open_writer(place, options) {
            Err(Error::Busy { .. }) => {
                // Another process is creating or upgrading the file right now.
                if began.elapsed() >= options.busy_timeout {
                    return Err(transaction::busy(began));
                }
                std::thread::sleep(Duration::from_millis(20));
            }
            other => return other,
        }
    }
}

fn try_open_writer(place: &Place, options: &Options) -> Result<Opened> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
        | OpenFlags::SQLITE_OPEN_CREATE
        | OpenFlags::SQLITE_OPEN_URI
        | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let parameters = match (place, options.durability) {
        (Place::File(_), Durability::Full) => joined::parameters().unwrap_or_default(),
        // Without a sync in every commit, others could look for frames that are not written yet.
        (Place::File(_), Durability::Normal) | (Place::Memory(_), _) => String::new(),
    };
    let mut db = connect(place, &place.uri(&parameters), flags)?;
    db.busy_timeout(options.busy_timeout).doing("opening the database")?;
    // Closing a connection moves what a crash has left in the log into the file. This must not happen to the file of
    // another program, so it is off until the file is recognised.
    let keeps_log = log_bytes(place).is_some_and(|bytes| bytes > 0);
    let keep_log = |keep| db.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, keep);
    keep_log(keeps_log).doing("opening the database")?;
    let known = recognise(&db, place, Schema::IsReadLater)?;
    if keeps_log && known > 0 {
        other_log::refuse(&db, place)?;
        damaged_log::keep(&db, place, options.busy_timeout)?;
    }
    keep_log(false).doing("opening the database")?;
    if db.is_readonly("main").doing("opening the database")? {
        return Err(Error::ReadOnly { path: place.path() });
    }
    if known == 0 {
        // Before the log is turned on, so that the first bytes of the file name it. The layer over the log relies on a
        // sync in every commit, and an empty file may have a log already.
        db.execute_batch(&format!("PRAGMA synchronous = FULL; PRAGMA application_id = {APPLICATION_ID};"))
            .doing("creating the database")?;
    }
    set_up(&db, &options.actor)?;
    // A connection that has read a file in this mode has made its log.
    let is_ready = known < SCHEMA_VERSION || log_bytes(place).is_none();
    if is_ready {
        make_ready(&db, place, options)?;
    }
    if known < SCHEMA_VERSION {
        migrate(&mut db, &place.path())?;
    }
    if !options.own_projections.is_empty() {
        guard::install(&db).doing("setting up the database")?;
    }
    db.wal_hook(Some(checkpoint::note));
    db.busy_handler(Some(transaction::wait)).doing("setting up the database")?;
    Ok(Opened { db, older: (1..SCHEMA_VERSION).contains(&known).then_some(known), is_ready })
}

/// Makes a connection ready to write. The engine reads the whole schema for it, which takes as long as the rest of
/// opening, so it is done before the first write.
pub(in crate::store) fn make_ready(db: &Connection, place: &Place, options: &Options) -> Result<()> {
    transaction::be_patient(options.busy_timeout);
    let journal: String = schema::with_statements(db, options.busy_timeout, || {
        let journal = db.query_row("PRAGMA journal_mode = WAL", [], |row| row.get(0));
        journal.doing("turning on the write-ahead log")
    })?;
    if matches!(place, Place::File(_)) && journal != "wal" {
        return Err(Error::CannotOpen {
            path: place.path(),
            what: format!("its file system has no shared memory (journal mode {journal})"),
        });
    }
    let number: u32 =
        db.pragma_query_value(None, "user_version", |row| row.get(0)).doing("setting up the database")?;
    if number == SCHEMA_VERSION {
        prove(db, &place.path(), number)?;
    }
    let synchronous = match options.durability {
        Durability::Full => "FULL",
        Durability::Normal => "NORMAL",
    };
    // A larger cache costs more than it saves: after every append that split a page of an index, SQLite checks
    // every page in the cache. `cache_spill` lets the changes of a large transaction stay in memory.
    db.execute_batch(&format!(
        "PRAGMA synchronous = {synchronous}; PRAGMA secure_delete = {OVERWRITING}; PRAGMA fullfsync = ON;
         PRAGMA checkpoint_fullfsync = ON;
         PRAGMA cache_size = -4096; PRAGMA cache_spill = 4096; PRAGMA temp_store = MEMORY;
         PRAGMA journal_size_limit = {};",
        checkpoint::Bounds::new(options.write_log_bytes_max).bytes_kept()
    ))
    .doing("setting up the database")
}

/// Opens a connection that only reads, to a file of any schema that this program knows.
///
/// Also returns the schema version: 0 for an empty file.
pub(in crate::store) fn open_as_it_is(place: &Place) -> Result<(Connection, u32)> {
    refuse_unsafe_engine()?;
    if let Place::File(path) = place {
        place::prepare(path, false)?;
        place::refuse_second_name(path)?;
    }
    let db = connect(place, &place.uri("?mode=ro"), READER_FLAGS)?;
    other_log::refuse(&db, place)?;
    let found = recognise(&db, place, Schema::IsRead)?;
    Ok((db, found))
}

/// Rolls back what a killed process has left in the file: its journal has the pages of before. Changes nothing else.
///
/// # Errors
/// [`Error::ReadOnly`] if the file may not be written, and as [`open_as_it_is`].
pub(in crate::store) fn roll_back(place: &Place) -> Result<()> {
    let flags =
        OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_URI | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let db = connect(place, &place.uri("?mode=rw"), flags)?;
    db.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true).doing("opening the database")?;
    recognise(&db, place, Schema::IsRead).map(drop)
}

/// The flags of a connection that only reads.
pub(in crate::store) const READER_FLAGS: OpenFlags =
    OpenFlags::SQLITE_OPEN_READ_ONLY.union(OpenFlags::SQLITE_OPEN_URI).union(OpenFlags::SQLITE_OPEN_NO_MUTEX);

/// The parameters for a file that no process changes while it is open, and that has no write-ahead log.
pub(in crate::store) const UNCHANGING: &str = "?mode=ro&immutable=1";

/// The parameters for a file that no process changes while it is open, and that has a write-ahead log. It needs no shared
/// memory: the index of the log is in the memory of each connection.
const UNSHARED: &str = "?mode=ro&vfs=unix-none";

/// The size of the shared memory of a file that a process has open, at least.
const SHARED_BYTES_MIN: u64 = 32 << 10;

/// Returns whether this URI opens a file as one that no process changes.
pub(in crate::store) fn is_unchanging(uri: &str) -> bool {
    uri.ends_with(UNCHANGING) || uri.ends_with(UNSHARED)
}

/// Prepares a connection that only reads, before it reads anything.
pub(in crate::store) fn begin_to_read(db: &Connection, uri: &str) -> rusqlite::Result<()> {
    if uri.ends_with(UNSHARED) {
        db.execute_batch("PRAGMA locking_mode = EXCLUSIVE")?;
    }
    if uri.contains("mode=memory") {
        return Ok(()); // what a writer in memory does keeps others from reading the schema
    }
    match db.query_row("SELECT count(*) FROM (SELECT 1 FROM sqlite_schema LIMIT 1)", [], |_| Ok(())) {
        Err(error) if schema::is_unread(&error) => schema::pass_over(db),
        // Any other error occurs again, and is reported, when the connection is used.
        _ => Ok(()),
    }
}

/// Checks that the file can be read and has the current schema. Returns the URI to open it with.
pub(in crate::store) fn reader_uri(place: &Place) -> Result<String> {
    refuse_unsafe_engine()?;
    if let Place::File(path) = place {
        place::prepare(path, false)?;
    }
    let look = |uri: &str| {
        let db = connect(place, uri, READER_FLAGS)?;
        begin_to_read(&db, uri).map_err(|error| refusal(error, place))?;
        other_log::refuse(&db, place)?;
        recognise(&db, place, Schema::IsRead)
    };
    let mut uri = place.uri("?mode=ro");
    let mut found = look(&uri);
    if matches!(found, Err(Error::CannotOpen { .. } | Error::ReadOnly { .. } | Error::DiskFull { .. })) {
        let is_open_elsewhere = bytes_beside(place, "-shm").is_some_and(|bytes| bytes >= SHARED_BYTES_MIN);
        uri = match bytes_beside(place, "-wal").unwrap_or(0) {
            // Nothing can be written here and there is no write-ahead log, so the file alone is complete.
            0 => place.uri(UNCHANGING),
            _ if is_open_elsewhere || cfg!(not(unix)) => uri,
            // There is no room or no right to make the shared memory, so no other process has the file open.
            _ => place.uri(UNSHARED),
        };
        if is_unchanging(&uri) {
            found = look(&uri);
        }
    }
    if let Place::File(path) = place
        && !is_unchanging(&uri)
    {
        place::refuse_second_name(path)?;
    }
    match found? {
        SCHEMA_VERSION => Ok(uri),
        0 => Err(Error::ForeignFile { path: place.path(), what: "an empty file".into() }),
        found => Err(Error::OlderFile { path: place.path(), found, known: SCHEMA_VERSION }),
    }
}

/// Returns the size of the write-ahead log beside the file. `None` without a log.
fn log_bytes(place: &Place) -> Option<u64> {
    bytes_beside(place, "-wal")
}

/// Returns the size of a file beside the database, such as `-wal`. `None` if the file does not exist.
fn bytes_beside(place: &Place, end: &str) -> Option<u64> {
    let Place::File(path) = place else { return None };
    std::fs::metadata(partial::beside(path, end)).ok().map(|beside| beside.len())
}

/// Sets up a connection of the reader pool.
pub(in crate::store) fn set_up_reader(db: &mut Connection, options: &Options) -> rusqlite::Result<()> {
    #[cfg(test)]
    crate::store::plans::note(db);
    db.busy_timeout(options.busy_timeout)?;
    db.set_db_config(DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true)?;
    keep_plans(db)?;
    db.set_prepared_statement_cache_capacity(64);
    if !options.own_projections.is_empty() {
        guard::install(db)?;
    }
    db.execute_batch(
        "PRAGMA query_only = ON; PRAGMA foreign_keys = ON; PRAGMA recursive_triggers = ON;
         PRAGMA trusted_schema = OFF; PRAGMA cell_size_check = ON; PRAGMA mmap_size = 0;
         PRAGMA cache_size = -8192;",
    )
}

/// Sets up a connection that compares the file with temporary tables. It may write these tables.
pub(in crate::store) fn set_up_comparison(db: &Connection, options: &Options) -> rusqlite::Result<()> {
    db.busy_timeout(options.busy_timeout)?;
    db.set_db_config(DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true)?;
    db.set_prepared_statement_cache_capacity(64);
    db.execute_batch(
        "PRAGMA trusted_schema = OFF; PRAGMA cell_size_check = ON; PRAGMA mmap_size = 0; PRAGMA cache_size = -8192;",
    )
}

/// Undoes what a panic has left on a connection that writes: a transaction, temporary tables, settings.
///
/// An error is ignored here. It occurs again, and is reported, when the connection is used next.
pub(in crate::store) fn undo(db: &Connection, actor: &Actor) {
    if !db.is_autocommit() {
        let _ = db.execute_batch("ROLLBACK");
    }
    // A change of `temp_store` deletes all temporary tables.
    let _ = db.execute_batch("PRAGMA temp_store = FILE; PRAGMA temp_store = MEMORY;");
    let _ = set_up(db, actor).and_then(|()| guards::keep(db));
}

fn connect(place: &Place, uri: &str, flags: OpenFlags) -> Result<Connection> {
    Connection::open_with_flags(uri, flags).map_err(|error| refusal(error, place))
}

/// Whether recognising a file of Annals also reads its schema, which fails if that is damaged.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Schema {
    IsRead,
    /// It takes as long as the rest of opening.
    IsReadLater,
}

/// Returns the schema version of the file: 0 if it is empty.
fn recognise(db: &Connection, place: &Place, schema: Schema) -> Result<u32> {
    let read = |pragma: &str| db.query_row(pragma, [], |row| row.get::<_, i64>(0));
    let look = || {
        // All values are read in one snapshot, because another process may be creating the file right now.
        let snapshot = db.unchecked_transaction()?;
        let (application, version) = (read("PRAGMA application_id")?, read("PRAGMA user_version")?);
        let reads = application == 0 || schema == Schema::IsRead;
        let objects = if reads { read("SELECT count(*) FROM sqlite_schema")? } else { 1 };
        snapshot.finish()?;
        Ok((application, version, objects))
    };
    let (application, version, objects) = look().map_err(|error| refusal(error, place))?;
    if application == 0 && objects == 0 {
        return Ok(0);
    }
    if application == 0 && version == 0 && schema::is_of_annals(db)? {
        let version = schema::version_of_dump(db)?;
        let what = format!(
            "loaded from the dump of an Annals file, which leaves out what marks it as one; `PRAGMA application_id = \
             {APPLICATION_ID}; PRAGMA user_version = {version};` in sqlite3 marks it, and `annals verify` checks it then"
        );
        return Err(Error::ForeignFile { path: place.path(), what });
    }
    if application != i64::from(APPLICATION_ID) {
        let what = format!("an SQLite database of another program (application id {application:#x})");
        return Err(Error::ForeignFile { path: place.path(), what });
    }
    let found = u32::try_from(version).unwrap_or(u32::MAX);
    if found > SCHEMA_VERSION {
        return Err(Error::NewerFile { path: place.path(), found, known: SCHEMA_VERSION });
    }
    if schema == Schema::IsRead {
        prove(db, &place.path(), found)?;
    }
    Ok(found)
}

/// Translates an engine error that occurred while a file was opened.
pub(in crate::store) fn refusal(error: rusqlite::Error, place: &Place) -> Error {
    use rusqlite::ErrorCode as Code;
    let path = place.path();
    match error.sqlite_error_code() {
        Some(Code::NotADatabase) => Error::ForeignFile { path, what: "not an SQLite database".into() },
        Some(Code::CannotOpen | Code::PermissionDenied) => Error::CannotOpen {
            path,
            what: match bytes_beside(place, "-wal").unwrap_or(0) {
                0 => format!("{error}; check that you may read the file and its folder"),
                _ => format!(
                    "{error}; check that you may read the file, its -wal and its -shm, and its folder"
                ),
            },
        },
        Some(Code::ReadOnly) => Error::ReadOnly { path },
        _ => translate(error, "opening the database"),
    }
}

/// Returns the version of SQLite.
#[cfg(feature = "cli")]
pub(crate) fn engine_version() -> &'static str {
    rusqlite::version()
}

/// Returns whether SQLite was compiled with one page cache for all connections of a process, which makes it slower with
/// many connections. `docs/embedding.md` says how to compile it without.
#[cfg(feature = "cli")]
pub(crate) fn engine_shares_its_cache() -> Result<bool> {
    const USED: &str = "SELECT sqlite_compileoption_used('ENABLE_MEMORY_MANAGEMENT')";
    let db = rusqlite::Connection::open_in_memory();
    db.and_then(|db| db.query_row(USED, [], |row| row.get(0))).doing("reading how SQLite was compiled")
}

fn refuse_unsafe_engine() -> Result<()> {
    heap::install();
    #[cfg(unix)]
    files::install(!heap::is_installed());
    if rusqlite::version_number() < ENGINE_MIN.0 {
        return Err(Error::UnsafeEngine { found: rusqlite::version(), needed: ENGINE_MIN.1 });
    }
    Ok(())
}
