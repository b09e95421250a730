//! Reads other programs' SQLite files row by row, without writing to them, and writes new files from such rows.
//!
//! This module knows tables, columns and values, but not their meaning. It opens a file read-only and reads only
//! plain tables (no views, no virtual tables). It runs nothing that the file's schema defines.

use std::path::{Path, PathBuf};
use std::time::SystemTime;

use rusqlite::config::DbConfig;
use rusqlite::types::{Value, ValueRef};
use rusqlite::{Connection, OpenFlags, OptionalExtension as _, params};

use crate::error::{Error, Result};
use crate::store::engine::uri;
use crate::untrusted;

const TABLES: &str = "SELECT name, sql FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite\\_%' \
     ESCAPE '\\' AND sql IS NOT NULL AND rootpage > 0 ORDER BY rowid";
const INDEXES: &str =
    "SELECT sql FROM sqlite_schema WHERE type = 'index' AND tbl_name = ?1 AND sql IS NOT NULL ORDER BY rowid";
const COLUMNS: &str = "SELECT name FROM pragma_table_info(?1) ORDER BY cid";
const HAS_ROWID: &str = "SELECT wr = 0 FROM pragma_table_list(?1) WHERE schema = 'main'";

/// The time to wait for a lock of the program that has the file open.
const PATIENCE: std::time::Duration = std::time::Duration::from_secs(5);

/// The largest row that is read, in bytes.
const ROW_BYTES_MAX: i32 = 1 << 30;

/// Another program's SQLite file.
#[derive(Debug)]
pub(crate) struct ForeignDatabase {
    db: Connection,
    path: PathBuf,
    /// The files that are read without locks, as they were when the database was opened.
    unlocked: Vec<Seen>,
}

/// A file, with its size and its modification time.
#[derive(Debug, PartialEq, Eq)]
struct Seen {
    path: PathBuf,
    bytes: u64,
    modified: Option<SystemTime>,
}

impl Seen {
    fn now(path: &Path) -> Result<Self> {
        let metadata = std::fs::metadata(path).map_err(Error::io("reading", path))?;
        Ok(Self { path: path.to_owned(), bytes: metadata.len(), modified: metadata.modified().ok() })
    }
}

/// How a file is read without writing to it or to its folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Access {
    /// No other file is read.
    Alone,
    /// With the write-ahead log that a program has left. The index of the log is in memory, because the engine would
    /// create it as a file, and there are no locks, because they would be in that file.
    WithLog,
    /// With the write-ahead log and its index, which a program may have open.
    WithLogAndIndex,
    /// With the rollback journal of a program that may have the file open.
    WithJournal,
}

#[cfg(windows)]
const WITHOUT_LOCKS: &str = "mode=ro&vfs=win32-none";
#[cfg(not(windows))]
const WITHOUT_LOCKS: &str = "mode=ro&vfs=unix-none";

impl Access {
    /// Decides by the files beside `path`. Refuses other things than files there, because the engine would open them.
    fn of(path: &Path) -> Result<Self> {
        let header = untrusted::beginning(path, 20).map_err(Error::io("reading", path))?;
        let has = |ending: &str| {
            let path = beside(path, ending);
            untrusted::is_file(&path).map_err(Error::io("reading", path))
        };
        let (log, index, journal) = (has(LOG)?, has("-shm")?, has("-journal")?);
        // The format of the file, as byte 19 has it: with this one, the engine creates a log unless there is one.
        let keeps_log = header.get(19) == Some(&2);
        Ok(match (log, index) {
            // The engine would delete the log of an empty file.
            _ if header.is_empty() => Self::Alone,
            (true, false) => Self::WithLog,
            (true, true) => Self::WithLogAndIndex,
            (false, _) if journal && !keeps_log => Self::WithJournal,
            (false, _) => Self::Alone,
        })
    }

    /// Returns the parameters of the file's URI.
    fn parameters(self) -> &'static str {
        match self {
            Self::Alone => "immutable=1",
            Self::WithLog => WITHOUT_LOCKS,
            Self::WithLogAndIndex => "mode=ro&readonly_shm=1",
            Self::WithJournal => "mode=ro",
        }
    }

    /// Returns the files that are read without locks.
    fn unlocked(self, path: &Path) -> Result<Vec<Seen>> {
        match self {
            Self::Alone => Ok(vec![Seen::now(path)?]),
            Self::WithLog => Ok(vec![Seen::now(path)?, Seen::now(&beside(path, LOG))?]),
            Self::WithLogAndIndex | Self::WithJournal => Ok(Vec::new()),
        }
    }
}

/// The ending of a write-ahead log.
const LOG: &str = "-wal";

/// Returns the path of a file that belongs to a database.
fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(ending);
    PathBuf::from(name)
}

/// One table of such a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ForeignTable {
    pub name: String,
    pub columns: Vec<String>,
    /// The SQL statements that create the table and its indexes.
    pub statements: Vec<String>,
}

/// One value of a row.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum ForeignValue {
    Null,
    Integer(i64),
    Real(f64),
    /// Text, which need not be UTF-8.
    Text(Vec<u8>),
    Blob(Vec<u8>),
}

impl ForeignDatabase {
    /// Opens the file.
    ///
    /// If no program has the file open, it is read without locks: opening a file in WAL mode in the normal way would
    /// create files beside it. [`Self::finish`] then checks whether the file was written meanwhile.
    ///
    /// # Errors
    /// [`Error::Io`] if the file is not a database, if it or a file that belongs to it is a pipe or a device, or if it
    /// cannot be read without writing to it. The other methods return the same error.
    pub(crate) fn open(path: &Path) -> Result<Self> {
        let access = Access::of(path)?;
        let unlocked = access.unlocked(path)?;
        let uri = uri::of(path, &format!("?{}", access.parameters()));
        let flags =
            OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let fail = failed("reading", path);
        let db = Connection::open_with_flags(uri, flags).map_err(&fail)?;
        db.busy_timeout(PATIENCE).map_err(&fail)?;
        for (config, on) in [
            (DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true),
            (DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false),
            (DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER, false),
            (DbConfig::SQLITE_DBCONFIG_ENABLE_VIEW, false),
            (DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true),
        ] {
            db.set_db_config(config, on).map_err(&fail)?;
        }
        db.set_limit(rusqlite::limits::Limit::SQLITE_LIMIT_LENGTH, ROW_BYTES_MAX).map_err(&fail)?;
        db.execute_batch("PRAGMA cell_size_check = ON; PRAGMA query_only = ON; PRAGMA mmap_size = 0")
            .map_err(&fail)?;
        if access == Access::WithLog {
            // Then the index of the log is in memory.
            db.execute_batch("PRAGMA locking_mode = EXCLUSIVE").map_err(&fail)?;
        }
        // Everything is read from one snapshot.
        db.execute_batch("BEGIN").map_err(&fail)?;
        db.query_row("SELECT count(*) FROM sqlite_schema", [], |_| Ok(())).map_err(&fail)?;
        Ok(Self { db, path: path.to_owned(), unlocked })
    }

    /// Returns the plain tables that have a rowid.
    pub(crate) fn tables(&self) -> Result<Vec<ForeignTable>> {
        let rows = |sql: &str, name: Option<&str>| -> Result<Vec<String>> {
            self.db
                .prepare_cached(sql)
                .and_then(|mut s| s.query_map(rusqlite::params_from_iter(name), |row| row.get(0))?.collect())
                .map_err(self.failed())
        };
        let tables: Vec<(String, String)> = self
            .db
            .prepare_cached(TABLES)
            .and_then(|mut s| s.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?.collect())
            .map_err(self.failed())?;
        let mut found = Vec::new();
        for (name, sql) in tables {
            let has_rowid: Option<bool> =
                self.db.query_row(HAS_ROWID, [&name], |row| row.get(0)).optional().map_err(self.failed())?;
            if has_rowid != Some(true) {
                continue;
            }
            let columns = rows(COLUMNS, Some(&name))?;
            let mut statements = vec![sql];
            statements.extend(rows(INDEXES, Some(&name))?);
            found.push(ForeignTable { name, columns, statements });
        }
        Ok(found)
    }

    /// Returns the distinct texts in a column, in the order of the rows where they first occur.
    pub(crate) fn keys(&self, table: &ForeignTable, column: &str) -> Result<Vec<String>> {
        let sql = format!(
            "SELECT {column} FROM {table} WHERE typeof({column}) = 'text' GROUP BY {column} ORDER BY min(rowid)",
            column = quoted(column),
            table = quoted(&table.name),
        );
        let mut statement = self.db.prepare(&sql).map_err(self.failed())?;
        let mut rows = statement.query([]).map_err(self.failed())?;
        let mut keys = Vec::new();
        while let Some(row) = rows.next().map_err(self.failed())? {
            if let Ok(key) = row.get_ref(0).map_err(self.failed())?.as_str() {
                keys.push(key.to_owned());
            }
        }
        Ok(keys)
    }

    /// Returns the rowids of the rows that have `key` in `column`, in order, each with its value in column `other`.
    pub(crate) fn index(
        &self,
        table: &ForeignTable,
        column: &str,
        key: &str,
        other: &str,
    ) -> Result<Vec<(i64, String)>> {
        let sql = format!(
            "SELECT rowid, CAST({other} AS TEXT) FROM {table} WHERE {column} = ?1 ORDER BY rowid",
            other = quoted(other),
            column = quoted(column),
            table = quoted(&table.name),
        );
        let mut statement = self.db.prepare(&sql).map_err(self.failed())?;
        let mut rows = statement.query([key]).map_err(self.failed())?;
        let mut index = Vec::new();
        while let Some(row) = rows.next().map_err(self.failed())? {
            let other = match row.get_ref(1).map_err(self.failed())? {
                ValueRef::Text(text) => String::from_utf8_lossy(text).into_owned(),
                _ => String::new(),
            };
            index.push((row.get(0).map_err(self.failed())?, other));
        }
        Ok(index)
    }

    /// Returns one row, in the order of the table's columns. `None` if there is no such row.
    pub(crate) fn row(&self, table: &ForeignTable, rowid: i64) -> Result<Option<Vec<ForeignValue>>> {
        let columns: Vec<String> = table.columns.iter().map(|column| quoted(column)).collect();
        let sql = format!("SELECT {} FROM {} WHERE rowid = ?1", columns.join(", "), quoted(&table.name));
        self.db
            .prepare_cached(&sql)
            .and_then(|mut statement| {
                let read = |row: &rusqlite::Row<'_>| {
                    (0..table.columns.len()).map(|at| row.get_ref(at).map(ForeignValue::of)).collect()
                };
                statement.query_row(params![rowid], read).optional()
            })
            .map_err(self.failed())
    }

    fn failed(&self) -> impl Fn(rusqlite::Error) -> Error {
        failed("reading", &self.path)
    }

    /// Ends reading.
    ///
    /// # Errors
    /// [`Error::Io`] if the file was written while it was read without locks.
    pub(crate) fn finish(self) -> Result<()> {
        for seen in &self.unlocked {
            if Seen::now(&seen.path)? != *seen {
                let source = std::io::Error::other("the file changed while it was read; import it again");
                return Err(Error::Io { doing: "reading", path: self.path, source });
            }
        }
        Ok(())
    }
}

/// Turns an engine error into an [`Error::Io`] of the file at `path`, because Annals' own file is not affected.
fn failed(doing: &'static str, path: &Path) -> impl Fn(rusqlite::Error) -> Error {
    let path = path.to_owned();
    move |error| Error::Io { doing, path: path.clone(), source: std::io::Error::other(error) }
}

impl ForeignValue {
    fn of(value: ValueRef<'_>) -> Self {
        match value {
            ValueRef::Null => Self::Null,
            ValueRef::Integer(number) => Self::Integer(number),
            ValueRef::Real(number) => Self::Real(number),
            ValueRef::Text(text) => Self::Text(text.to_vec()),
            ValueRef::Blob(bytes) => Self::Blob(bytes.to_vec()),
        }
    }
}

/// A new database that is written from rows.
#[derive(Debug)]
pub(crate) struct NewForeignDatabase {
    db: Connection,
    path: PathBuf,
}

impl NewForeignDatabase {
    /// Creates the file at `path`, which must not exist yet.
    pub(crate) fn create(path: &Path) -> Result<Self> {
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
            | OpenFlags::SQLITE_OPEN_CREATE
            | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let fail = failed("writing", path);
        let db = Connection::open_with_flags(path, flags).map_err(&fail)?;
        db.set_db_config(DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true).map_err(&fail)?;
        db.set_db_config(DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false).map_err(&fail)?;
        db.execute_batch("PRAGMA foreign_keys = OFF; BEGIN").map_err(&fail)?;
        Ok(Self { db, path: path.to_owned() })
    }

    /// Creates a table or an index. Ignores any other statement, and also a table or an index that already exists.
    pub(crate) fn declare(&self, statement: &str) -> Result<()> {
        let start = statement.trim_start().to_ascii_uppercase();
        let known = ["CREATE TABLE", "CREATE INDEX", "CREATE UNIQUE INDEX"];
        if !known.iter().any(|known| start.starts_with(known)) {
            return Ok(());
        }
        match self.db.execute(statement, []) {
            Err(error) if error.to_string().contains("already exists") => Ok(()),
            other => other.map(drop).map_err(failed("writing", &self.path)),
        }
    }

    /// Writes a row and replaces a row with the same rowid.
    pub(crate) fn put(&self, table: &str, rowid: i64, values: Vec<(String, ForeignValue)>) -> Result<()> {
        let names: String = values.iter().map(|(name, _)| format!(", {}", quoted(name))).collect();
        let marks: String = (0..values.len()).map(|at| format!(", ?{}", at + 2)).collect();
        let sql = format!("INSERT OR REPLACE INTO {} (rowid{names}) VALUES (?1{marks})", quoted(table));
        let bound =
            std::iter::once(Value::Integer(rowid)).chain(values.into_iter().map(|(_, value)| value.into()));
        self.db
            .prepare_cached(&sql)
            .and_then(|mut statement| statement.execute(rusqlite::params_from_iter(bound)))
            .map_err(failed("writing", &self.path))?;
        Ok(())
    }

    /// Completes the file.
    pub(crate) fn finish(self) -> Result<()> {
        self.db.execute_batch("COMMIT").map_err(failed("writing", &self.path))?;
        self.db.close().map_err(|(_, error)| failed("writing", &self.path)(error))
    }
}

impl From<ForeignValue> for Value {
    fn from(value: ForeignValue) -> Self {
        match value {
            ForeignValue::Null => Self::Null,
            ForeignValue::Integer(number) => Self::Integer(number),
            ForeignValue::Real(number) => Self::Real(number),
            // Text that is not UTF-8 cannot be bound as text. It is stored as a blob of the same bytes.
            ForeignValue::Text(bytes) => match String::from_utf8(bytes) {
                Ok(text) => Self::Text(text),
                Err(error) => Self::Blob(error.into_bytes()),
            },
            ForeignValue::Blob(bytes) => Self::Blob(bytes),
        }
    }
}

/// Quotes a name as an SQL identifier.
fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}
