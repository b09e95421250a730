//! Keeps a backup up to date: in another file that can be opened at any time, or in a folder, part by part.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rusqlite::{Connection, OpenFlags, params};

use super::apply::{Spare, apply};
use super::folder::{self, BackupFile};
use super::mark::{self, Reach};
use super::part::{self, Held};
use super::{COUNTS, discard, give_name, partial, sync, unsound};
use crate::error::{Error, Result};
use crate::ids::{Position, Timestamp};
use crate::store::derived::migration::SCHEMA_VERSION;
use crate::store::derived::schema;
use crate::store::engine::transaction::Write;
use crate::store::engine::{WhileDoing as _, generation};
use crate::store::file::database;
use crate::store::file::place::{self, FilePath, Place};
use crate::store::file::signal::Notifications;
use crate::store::maintenance::lacking;
use crate::store::options::Options;
use crate::store::table::log;
use crate::store::{Backup, Store};

/// The `PRAGMA application_id` of a part of a backup: "ANLP".
pub(super) const PART_ID: i32 = 0x414e_4c50;

/// After this many parts, a part holds the marks of all conversations, so that earlier files need not be read.
const PARTS_READ_MAX: usize = 64;

const KNOWN: &str = "DROP TABLE IF EXISTS temp.known; CREATE TABLE temp.known (key INTEGER PRIMARY KEY, id TEXT, \
     event_count INTEGER, head_hash BLOB, state INTEGER, acts TEXT, files BLOB, digest BLOB)";
const PART: &str = "CREATE TABLE part (number INTEGER, store_id TEXT, schema INTEGER, program TEXT, taken_at INTEGER, \
     from_position INTEGER, to_position INTEGER, conversations INTEGER, events INTEGER, before TEXT, \
     before_digest BLOB); CREATE TABLE reach (place INTEGER, growing INTEGER, whole BLOB)";
const LEFT_OUT: &str = "CREATE TABLE left_out (name TEXT)";
const ADD_PART: &str = "INSERT INTO part VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)";

/// The program that makes a backup, as its parts name it.
const PROGRAM: &str = concat!("annals ", env!("CARGO_PKG_VERSION"));

const DOING: &str = "backing up";

/// The settings of a folder of backups.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct BackupFolder {
    /// True to make a full backup in any case.
    pub full: bool,
    /// How many series (a full backup and its parts) are kept when a new one begins. `None` keeps all.
    pub keep: Option<usize>,
}

setters!(BackupFolder { full: bool, keep?: usize });

/// The result of one backup.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct BackupResult {
    /// The file that was written or brought up to date.
    pub path: PathBuf,
    /// True if everything was written, false if only what was new.
    pub is_full: bool,
    /// The time of the backup. Everything that was committed before is in it.
    pub taken_at: Timestamp,
    /// The newest position in the backup before.
    pub from: Position,
    /// The newest position now.
    pub to: Position,
    /// The number of conversations that are new or have changed.
    pub changed: u64,
    /// The number of conversations that were removed.
    pub removed: u64,
    /// The number of events that were written.
    pub events: u64,
    /// The number of files of older series that were deleted.
    pub pruned: usize,
    /// The number of older files that remain and may hold content that was erased or redacted since they were written.
    /// 0 for a part: nothing was, since the backup before.
    pub outdated: usize,
    /// The tables of other programs that it did not look at. Only a full backup has them. Empty if it is full.
    pub left_out: Vec<String>,
    /// The file's size in bytes.
    pub bytes: u64,
}

impl Backup<'_> {
    /// Brings the copy at `to` up to this store's current state, or makes the copy unless it exists. `None` if
    /// nothing has changed.
    ///
    /// The copy is a file like any other and may be read meanwhile. One transaction brings it up to date. It
    /// receives the events that were appended since, and the conversations that changed in another way (base state,
    /// HEAD, title, deletion or redaction).
    ///
    /// # Errors
    /// [`Error::NotItsBackup`] if the file is not a copy of this store, [`Error::BackupAstray`] if another writer
    /// changed the copy, and any error of reading and writing. After an error the copy is unchanged.
    pub fn to_file(self, to: impl AsRef<Path>) -> Result<Option<BackupResult>> {
        let to = to.as_ref();
        let taken_at = Timestamp::now();
        if !to.exists() {
            let report = self.to_new_file(to)?;
            return Ok(Some(full_step(to, taken_at, &report)));
        }
        let options = Options { create: false, ..Options::default() };
        let db = database::open_writer(&Place::file(to), &options)?;
        // Content that was removed from the store is overwritten in the copy, too.
        db.execute_batch("PRAGMA foreign_keys = OFF; PRAGMA secure_delete = ON").doing(DOING)?;
        self.attach_target(&db)?;
        db.execute_batch("ATTACH '' AS part").doing(DOING)?;
        self.refuse_other(&store_id(&db, "main")?, to)?;
        let write = Write::begin(&db, options.busy_timeout)?;
        let from = log::last_position(&write)?;
        write.execute_batch(KNOWN).doing(DOING)?;
        note_known(&write, "main")?;
        part::note_present(&write)?;
        let Some(held) = part::collect(&write, "part", &Reach::of(&write, "main")?)? else { return Ok(None) };
        self.refuse_gaps(&write, "part")?;
        apply(&write, Spare::None)?;
        let head = log::last_position(&write)?;
        write.commit()?;
        if held.is_wiped {
            db.execute_batch("DETACH source; DETACH part; VACUUM").doing(DOING)?;
            generation::renew(&db).doing(DOING)?;
            db.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).doing(DOING)?;
        }
        // Closing the connection moves the changes from the write-ahead log into the file itself.
        drop(db);
        let bytes = std::fs::metadata(to).map_err(Error::io("reading", to))?.len();
        let left_out = self.foreign_tables()?;
        Ok(Some(BackupResult { left_out, ..step(to, taken_at, (from, head), held, bytes) }))
    }

    /// Writes what is new since the last backup in `folder` to a new file there. `None` if nothing has changed.
    ///
    /// It writes a full backup if there is none, if the schema has changed, if something was erased or redacted since,
    /// or if the parts are larger than the full backup that they follow. Unfinished files of a killed backup are
    /// deleted first.
    ///
    /// # Errors
    /// [`Error::NotItsBackup`] if the folder holds backups of another store, [`Error::BackupAstray`] if this store
    /// does not continue from them, [`Error::Busy`] if another process is backing up into the folder, and any error of
    /// reading and writing.
    pub fn to_folder(self, folder: impl AsRef<Path>, how: BackupFolder) -> Result<Option<BackupResult>> {
        let folder = folder.as_ref();
        let _lock = folder::lock(folder, self.store.0.options.busy_timeout)?;
        let files = folder::list(folder)?;
        let series = folder::last_series(&files);
        if let [first, .., last] | [first @ last] = series {
            self.refuse_other(&id_of(last)?, folder)?;
            if !how.full && schema_of(last)? == SCHEMA_VERSION {
                let weight: u64 = series.iter().skip(1).map(|file| file.bytes).sum();
                match self.write_part(folder, series, weight <= first.bytes)? {
                    Written::Nothing => return Ok(None),
                    Written::Part(step) => return Ok(Some(step)),
                    Written::TooMuch => {}
                }
            }
        }
        let taken_at = Timestamp::now();
        let partial = partial(&folder.join("full"))?;
        place::prepare(&FilePath::of(&partial), true)?;
        let report = self.copy_to(&partial).inspect_err(|_| discard(&partial))?;
        let last_wipe =
            self.store.snapshot(|db| part::last_wipe(db, "main")).inspect_err(|_| discard(&partial))?;
        sync(&partial)?;
        let file = BackupFile::next(folder, &files, true, taken_at, report.last_position);
        give_name(&partial, &file.path)?;
        sync(folder)?;
        let pruned = how.keep.map_or(Ok(0), |keep| folder::prune(folder, keep))?;
        // The oldest files were pruned. A file that cannot be read may hold anything.
        let is_outdated = |file: &&BackupFile| last_wipe > acts(file).unwrap_or(0);
        let outdated = files.iter().skip(pruned).filter(is_outdated).count();
        Ok(Some(BackupResult { outdated, pruned, ..full_step(&file.path, taken_at, &report) }))
    }

    /// Writes what is new to one more part if `may_add` is true and nothing was erased or redacted.
    fn write_part(&self, folder: &Path, series: &[BackupFile], may_add: bool) -> Result<Written> {
        let [.., before] = series else { return Ok(Written::TooMuch) };
        let partial = partial(&folder.join("part"))?;
        place::prepare(&FilePath::of(&partial), true)?;
        let taken_at = Timestamp::now();
        let collected = self.collect_into(&partial, series, taken_at);
        let (to, held) = match collected {
            Ok(Some((to, held))) if may_add && !held.is_wiped => (to, held),
            other => {
                discard(&partial);
                return Ok(match other? {
                    None => Written::Nothing,
                    Some(_) => Written::TooMuch,
                });
            }
        };
        sync(&partial)?;
        let bytes = std::fs::metadata(&partial).map_err(Error::io("reading", &partial))?.len();
        let file = BackupFile::next(folder, series, false, taken_at, to);
        give_name(&partial, &file.path)?;
        sync(folder)?;
        let left_out = self.foreign_tables()?;
        Ok(Written::Part(BackupResult {
            left_out,
            ..step(&file.path, taken_at, (before.to, to), held, bytes)
        }))
    }

    fn collect_into(
        &self,
        partial: &Path,
        series: &[BackupFile],
        taken_at: Timestamp,
    ) -> Result<Option<(Position, Held)>> {
        let [.., before] = series else { return Ok(None) };
        let flags =
            OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_URI | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let db = Connection::open_with_flags(partial, flags).doing(DOING)?;
        // The file is not used until it has its final name, so there is nothing to recover after a crash.
        db.execute_batch("PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; PRAGMA trusted_schema = OFF")
            .doing(DOING)?;
        self.attach_target(&db)?;
        db.execute_batch(KNOWN).doing(DOING)?;
        let (reach, parts) = note_series(&db, series)?;
        let id = store_id(&db, "source")?;
        self.refuse_other(&id_of(before)?, &before.path)?;
        db.execute_batch("BEGIN").doing(DOING)?;
        part::note_present(&db)?;
        let Some(held) = part::collect(&db, "main", &reach)? else { return Ok(None) };
        self.refuse_gaps(&db, "main")?;
        let to = self.describe(&db, before, &id, taken_at)?;
        if parts + 1 >= PARTS_READ_MAX {
            let columns = mark::COLUMNS;
            db.execute_batch(&format!("CREATE TABLE known AS SELECT {columns} FROM temp.present"))
                .doing(DOING)?;
        }
        db.execute_batch(&format!(
            "PRAGMA application_id = {PART_ID}; PRAGMA user_version = {SCHEMA_VERSION}; COMMIT"
        ))
        .doing(DOING)?;
        Ok(Some((to, held)))
    }

    /// Returns an error if the file lacks something that the log names of what a collected part has.
    fn refuse_gaps(&self, db: &Connection, part: &str) -> Result<()> {
        if self.store.is_in_memory() {
            return Ok(()); // no other program can take anything from it
        }
        let (changed, removed) = (part::changed(db, part)?, part::removed(db, part)?);
        match self.store.snapshot(|db| lacking::of_part(db, &changed, &removed))? {
            Some(lacking) => Err(unsound(lacking)),
            None => Ok(()),
        }
    }

    /// Writes the description of the part in the main database. Returns the newest position that it covers.
    fn describe(
        &self,
        db: &Connection,
        before: &BackupFile,
        id: &str,
        taken_at: Timestamp,
    ) -> Result<Position> {
        db.execute_batch(PART).doing(DOING)?;
        let head: i64 = db
            .query_row(
                "SELECT max(coalesce((SELECT max(position) FROM source.event), 0), (SELECT position_floor FROM source.log))",
                [],
                |row| row.get(0),
            )
            .doing(DOING)?;
        let counts = COUNTS.replace("FROM conversation", "FROM source.conversation");
        let (conversations, events): (i64, i64) =
            db.query_row(&counts, [], |row| Ok((row.get(0)?, row.get(1)?))).doing(DOING)?;
        let number = before.number.cast_signed() + 1;
        let from = before.to.0.cast_signed();
        let (name, digest) = (before.name(), before.digest()?);
        db.execute(
            ADD_PART,
            params![
                number,
                id,
                SCHEMA_VERSION,
                PROGRAM,
                taken_at.0,
                from,
                head,
                conversations,
                events,
                name,
                digest.0
            ],
        )
        .doing(DOING)?;
        Reach::of(db, "source")?.save(db)?;
        db.execute_batch(LEFT_OUT).doing(DOING)?;
        for table in self.foreign_tables()? {
            db.execute("INSERT INTO left_out VALUES (?1)", [table]).doing(DOING)?;
        }
        Ok(Position(head.cast_unsigned()))
    }

    /// Attaches the store's file as `source`, for reading only, and prepares the connection for statements on marks.
    fn attach_target(&self, db: &Connection) -> Result<()> {
        mark::set_up(db)?;
        db.busy_timeout(self.store.0.options.busy_timeout).doing(DOING)?;
        database::begin_to_read(db, self.store.0.watch.uri()).doing(DOING)?;
        db.execute("ATTACH ?1 AS source", [self.store.0.watch.uri()]).map(drop).doing(DOING)
    }

    /// Returns an error if a backup belongs to another store. `id` is the id of the backup's store.
    fn refuse_other(&self, id: &str, path: &Path) -> Result<()> {
        let mine = self.store.store_id()?;
        if id == mine {
            return Ok(());
        }
        let what = format!("it is of the store {id}, not of {mine}");
        Err(Error::NotItsBackup { path: path.to_owned(), what })
    }

    /// Returns the names of the tables of other programs in the file. A full backup has them, and a part has not.
    ///
    /// # Errors
    /// Any read error.
    pub fn foreign_tables(&self) -> Result<Vec<String>> {
        self.store.read(schema::foreign_tables)
    }

    /// Returns a subscriber to changes of the file by this process or another one.
    #[must_use]
    pub fn changes(&self) -> Changes {
        Changes { store: self.store.clone(), seen: self.store.0.signal.notifications() }
    }
}

/// The result of trying to write a part.
enum Written {
    /// Nothing is new.
    Nothing,
    /// The part was written.
    Part(BackupResult),
    /// Something is new, but the series may not have another part, or something was erased or redacted since. The
    /// earlier files of the series would still hold that.
    TooMuch,
}

/// A subscriber to changes of the file; see [`Backup::changes`].
#[derive(Debug)]
pub struct Changes {
    store: Store,
    seen: Notifications,
}

impl Changes {
    /// Waits at most `timeout` for a commit since the last call, or since this subscriber was made.
    ///
    /// Returns whether there may have been one.
    ///
    /// # Errors
    /// [`Error::Storage`] if the file cannot be watched.
    pub fn wait(&mut self, timeout: Duration) -> Result<bool> {
        let signal = Arc::clone(&self.store.0.signal);
        if let Place::File(_) = self.store.0.place {
            self.store.0.watch.start(&signal)?;
        }
        let notifications = signal.wait(self.seen, Instant::now().checked_add(timeout));
        let changed = notifications != self.seen;
        self.seen = notifications;
        Ok(changed)
    }
}

/// Opens a file of a folder of backups for reading.
pub(super) fn open_part(file: &BackupFile) -> Result<Connection> {
    let place = Place::file(&file.path);
    Connection::open_with_flags(place.uri("?mode=ro&immutable=1"), database::READER_FLAGS)
        .doing("opening a part of a backup")
}

/// Returns the schema version of a file of a folder of backups.
fn schema_of(file: &BackupFile) -> Result<u32> {
    open_part(file)?
        .query_row("PRAGMA user_version", [], |row| row.get(0))
        .doing("opening a part of a backup")
}

/// Returns the number of the last act of the administrative log before a file of a folder of backups was written.
fn acts(file: &BackupFile) -> Result<i64> {
    let db = open_part(file)?;
    if !file.is_full {
        return Ok(Reach::load(&db, "main")?.acts());
    }
    if !super::tables::has(&db, "main", "admin_act")? {
        return Ok(0);
    }
    let sql = "SELECT coalesce(max(number), 0) FROM admin_act";
    db.query_row(sql, [], |row| row.get(0)).doing("opening a part of a backup")
}

/// Returns the store id of a file of a folder of backups.
pub(super) fn id_of(file: &BackupFile) -> Result<String> {
    let sql = if file.is_full { "SELECT store_id FROM log" } else { "SELECT store_id FROM part" };
    open_part(file)?.query_row(sql, [], |row| row.get(0)).doing("opening a part of a backup")
}

/// Returns the store id of an attached file.
fn store_id(db: &Connection, schema: &str) -> Result<String> {
    db.query_row(&format!("SELECT store_id FROM {schema}.log"), [], |row| row.get(0)).doing(DOING)
}

/// Writes the marks of an attached file to `temp.known`.
fn note_known(db: &Connection, schema: &str) -> Result<()> {
    let marks = mark::marks(db, schema, "")?;
    let columns = mark::COLUMNS;
    db.execute_batch(&format!("INSERT INTO temp.known ({columns}) SELECT {columns} FROM ({marks})"))
        .doing(DOING)
}

/// Writes the marks of a series to `temp.known`. Returns its reach and how many files were read after the first.
fn note_series(db: &Connection, series: &[BackupFile]) -> Result<(Reach, usize)> {
    let mut first = series.len();
    while first > 0 {
        first -= 1;
        let file = &series[first];
        if file.is_full || super::tables::has(&open_part(file)?, "main", "known")? {
            break;
        }
    }
    let mut reach = Reach::default();
    let columns = mark::COLUMNS;
    for (place, file) in series.iter().enumerate().skip(first) {
        let uri = Place::file(&file.path).uri("?mode=ro&immutable=1");
        db.execute("ATTACH ?1 AS old", [uri]).doing(DOING)?;
        if file.is_full {
            note_known(db, "old")?;
            reach = Reach::of(db, "old")?;
        } else {
            let from = if place == first { "known" } else { "mark" };
            if place > first {
                db.execute_batch("DELETE FROM temp.known WHERE key IN (SELECT key FROM old.removed)")
                    .doing(DOING)?;
            }
            db.execute_batch(&format!(
                "INSERT OR REPLACE INTO temp.known ({columns}) SELECT {columns} FROM old.{from}"
            ))
            .doing(DOING)?;
            reach = Reach::load(db, "old")?;
        }
        db.execute_batch("DETACH old").doing(DOING)?;
    }
    Ok((reach, series.len() - 1 - first))
}

fn full_step(path: &Path, taken_at: Timestamp, report: &super::BackupReport) -> BackupResult {
    BackupResult {
        path: path.to_owned(),
        is_full: true,
        taken_at,
        from: Position::START,
        to: report.last_position,
        changed: report.conversations,
        removed: 0,
        events: report.events,
        pruned: 0,
        outdated: 0,
        left_out: Vec::new(),
        bytes: report.bytes,
    }
}

fn step(
    path: &Path,
    taken_at: Timestamp,
    (from, to): (Position, Position),
    held: Held,
    bytes: u64,
) -> BackupResult {
    BackupResult {
        path: path.to_owned(),
        is_full: false,
        taken_at,
        from,
        to,
        changed: held.changed,
        removed: held.removed,
        events: held.events,
        pruned: 0,
        outdated: 0,
        left_out: Vec::new(),
        bytes,
    }
}
