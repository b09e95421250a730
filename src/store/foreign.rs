//! Other programs' SQLite files: read row by row, without a write to them, and written anew from such rows.
//!
//! It knows tables, columns and values, not what they mean. A file is opened read-only; what is not a plain
//! table (a view, a virtual table) is not read, and nothing that the file's schema says is run.

use std::path::{Path, PathBuf};

use rusqlite::config::DbConfig;
use rusqlite::types::{Value, ValueRef};
use rusqlite::{Connection, OpenFlags, OptionalExtension as _, params};

use crate::error::{Error, Result};

const TABLES: &str = "SELECT name, sql FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite\\_%' \
     ESCAPE '\\' AND sql IS NOT NULL AND rootpage > 0 ORDER BY rowid";
const INDEXES: &str =
    "SELECT sql FROM sqlite_schema WHERE type = 'index' AND tbl_name = ?1 AND sql IS NOT NULL ORDER BY rowid";
const COLUMNS: &str = "SELECT name FROM pragma_table_info(?1) ORDER BY cid";
const HAS_ROWID: &str = "SELECT wr = 0 FROM pragma_table_list(?1) WHERE schema = 'main'";

/// How long to wait for the program that has it open.
const PATIENCE: std::time::Duration = std::time::Duration::from_secs(5);

/// The largest row that is read, in bytes.
const ROW_BYTES_MAX: i32 = 1 << 30;

/// Another program's SQLite file.
#[derive(Debug)]
pub(crate) struct ForeignDatabase {
    db: Connection,
    path: PathBuf,
    /// The file as it was when it was opened, where it is read as if nobody could write it.
    unlocked: Option<(u64, Option<std::time::SystemTime>)>,
}

/// One of its tables.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ForeignTable {
    pub name: String,
    pub columns: Vec<String>,
    /// What makes it and its indexes.
    pub statements: Vec<String>,
}

/// One value.
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
    /// A file in WAL mode that nobody has open is read as it is, because opening it otherwise would write
    /// beside it; [`Self::finish`] says whether it was written meanwhile.
    ///
    /// # Errors
    /// [`Error::Io`] where it is no database or cannot be read without writing to it, as for all of these.
    pub(crate) fn open(path: &Path) -> Result<Self> {
        let told = measure(path)?;
        let beside = |ending: &str| {
            let mut name = path.as_os_str().to_owned();
            name.push(ending);
            PathBuf::from(name).exists()
        };
        let unlocked = (!beside("-wal") && !beside("-journal")).then_some(told);
        let absolute = std::path::absolute(path).map_err(Error::io("reading", path))?;
        let way = if unlocked.is_some() { "immutable=1" } else { "mode=ro" };
        let uri = format!("file:{}?{way}", escaped(&absolute.to_string_lossy()));
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
        ] {
            db.set_db_config(config, on).map_err(&fail)?;
        }
        db.set_limit(rusqlite::limits::Limit::SQLITE_LIMIT_LENGTH, ROW_BYTES_MAX).map_err(&fail)?;
        db.execute_batch("PRAGMA cell_size_check = ON; PRAGMA query_only = ON; PRAGMA mmap_size = 0")
            .map_err(&fail)?;
        // All of it is read from one snapshot.
        db.execute_batch("BEGIN").map_err(&fail)?;
        db.query_row("SELECT count(*) FROM sqlite_schema", [], |_| Ok(())).map_err(&fail)?;
        Ok(Self { db, path: path.to_owned(), unlocked })
    }

    /// Its plain tables.
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

    /// The different texts in a column, in the order of the rows they first stand in.
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

    /// The numbers of the rows that have `key` in a column, in order, each with what stands in another one.
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

    /// One row, in the order of the table's columns; `None` where it is gone.
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

    /// Ends the reading.
    ///
    /// # Errors
    /// [`Error::Io`] where the file was written while it was read as if nobody could.
    pub(crate) fn finish(self) -> Result<()> {
        let Some(before) = self.unlocked else { return Ok(()) };
        if measure(&self.path)? == before {
            return Ok(());
        }
        let source = std::io::Error::other("the file changed while it was read; import it again");
        Err(Error::Io { doing: "reading", path: self.path, source })
    }
}

/// An engine error as one of the file at `path`: it is not ours, and nothing of ours is broken.
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

/// A database that is written from rows.
#[derive(Debug)]
pub(crate) struct NewForeignDatabase {
    db: Connection,
    path: PathBuf,
}

impl NewForeignDatabase {
    /// Makes the file at `path`, which is not there yet.
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

    /// Makes a table or an index; any other statement is passed over, and one that is made already.
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

    /// Writes a row, in place of one with the same number.
    pub(crate) fn put(&self, table: &str, rowid: i64, values: Vec<(String, ForeignValue)>) -> Result<()> {
        let names: String = values.iter().map(|(name, _)| format!(", {}", quoted(name))).collect();
        let marks: String = (0..values.len()).map(|at| format!(", ?{}", at + 2)).collect();
        let sql = format!("INSERT OR REPLACE INTO {} (rowid{names}) VALUES (?1{marks})", quoted(table));
        let given =
            std::iter::once(Value::Integer(rowid)).chain(values.into_iter().map(|(_, value)| value.into()));
        self.db
            .prepare_cached(&sql)
            .and_then(|mut statement| statement.execute(rusqlite::params_from_iter(given)))
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
            // What is no UTF-8 cannot be bound as text; it stays the same bytes.
            ForeignValue::Text(bytes) => match String::from_utf8(bytes) {
                Ok(text) => Self::Text(text),
                Err(error) => Self::Blob(error.into_bytes()),
            },
            ForeignValue::Blob(bytes) => Self::Blob(bytes),
        }
    }
}

/// A name as an identifier of SQL.
fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// A path within a URI.
fn escaped(path: &str) -> String {
    path.replace('%', "%25").replace('?', "%3f").replace('#', "%23")
}

fn measure(path: &Path) -> Result<(u64, Option<std::time::SystemTime>)> {
    let told = std::fs::metadata(path).map_err(Error::io("reading", path))?;
    Ok((told.len(), told.modified().ok()))
}
