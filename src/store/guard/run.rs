//! Running an admitted statement against its limits.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Instant;

use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{Connection, ToSql};

use super::super::engine::{self, Doing as _};
use super::super::options::PATIENCE_MAX;
use super::super::{Place, Store, archive, database};
use super::admission::{self, Door};
use super::{SqlAnswer, SqlLimits, SqlQuery, SqlValue, Truncation, functions, teach};
use crate::error::{Error, Result};

const DOING: &str = "running a query";

/// After how many steps of the engine the clock and the memory are looked at.
const STEPS: i32 = 50;

const LATE: u8 = 1;
const LARGE: u8 = 2;

/// The values of the parameters `names`, in their order.
///
/// # Errors
/// [`Error::QueryRefused`] where one is missing or there is one too many.
pub(super) fn values(names: &[String], given: &[(String, SqlValue)]) -> Result<Vec<SqlValue>> {
    let refuse = |what: String| {
        let needed: Vec<String> = names.iter().map(|name| format!(":{name}")).collect();
        let hint = if needed.is_empty() {
            "the statement has no parameters".to_owned()
        } else {
            format!("the statement has the parameters {}", needed.join(", "))
        };
        Error::QueryRefused { what, hint: Some(hint) }
    };
    if let Some((unknown, _)) = given.iter().find(|(name, _)| !names.contains(name)) {
        return Err(refuse(format!("there is no parameter :{unknown}")));
    }
    names
        .iter()
        .map(|name| {
            let value = given.iter().rev().find(|(given, _)| given == name).map(|(_, value)| value.clone());
            value.ok_or_else(|| refuse(format!("the parameter :{name} has no value")))
        })
        .collect()
}

impl ToSql for SqlValue {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(match self {
            Self::Null => ValueRef::Null,
            Self::Integer(number) => ValueRef::Integer(*number),
            Self::Real(number) => ValueRef::Real(*number),
            Self::Text(text) => ValueRef::Text(text.as_bytes()),
            Self::Blob(bytes) => ValueRef::Blob(bytes),
        }))
    }
}

/// Runs a statement that passed the first door.
pub(super) fn run(store: &Store, query: &SqlQuery<'_>, values: &[SqlValue]) -> Result<SqlAnswer> {
    let limits = query.limits;
    let time_max = limits.time_max.min(PATIENCE_MAX);
    let deadline = Instant::now() + time_max;
    let mut db = store.0.watch.connect().doing(DOING)?;
    database::set_up_reader(&mut db, &store.0.options).doing(DOING)?;
    db.execute_batch("PRAGMA temp_store = MEMORY; PRAGMA cache_size = -4096").doing(DOING)?;
    if matches!(store.0.place, Place::Memory(_)) {
        // Committing to a database in memory waits for its readers, which do not wait for long either.
        db.busy_timeout(time_max).doing(DOING)?;
    }
    // What the views need of archives and what they then show is one snapshot.
    db.execute_batch("BEGIN").doing(DOING)?;
    archive::show_whole(&db)?;
    let modules = admission::modules(&db)?;
    admission::confine(&db, limits.value_bytes_max)?;
    functions::replace_slow_ones(&db, deadline, limits.value_bytes_max)?;
    let (authorize, refused) = admission::authorizer(Door::File, modules);
    db.authorizer(Some(authorize)).doing(DOING)?;
    let stopped = watch(&db, deadline, limits.memory_bytes_max)?;
    answer(&db, query, values).map_err(|failure| match failure {
        Failure::Engine(error) => tell(query.sql, error, &stopped, limits, refused.try_iter().next()),
        Failure::Ours(error) => error,
    })
}

/// Lets the engine look at the clock and the memory; answers where it notes why it stopped.
fn watch(db: &Connection, deadline: Instant, memory_bytes_max: u64) -> Result<Arc<AtomicU8>> {
    let stopped = Arc::new(AtomicU8::new(0));
    let note = Arc::clone(&stopped);
    let before = engine::memory_bytes();
    if before == 0 {
        // A connection is open, so this engine does not count what it uses.
        let what =
            "the memory of a query cannot be limited here: SQLite keeps no memory statistics".to_owned();
        let hint = Some("compile it without SQLITE_DEFAULT_MEMSTATUS=0".to_owned());
        return Err(Error::QueryRefused { what, hint });
    }
    let look = move || {
        let why = if engine::memory_bytes().saturating_sub(before) > memory_bytes_max {
            LARGE
        } else if Instant::now() >= deadline {
            LATE
        } else {
            return false;
        };
        note.store(why, Ordering::Relaxed);
        true
    };
    db.progress_handler(STEPS, Some(look)).doing(DOING)?;
    Ok(stopped)
}

enum Failure {
    Engine(rusqlite::Error),
    Ours(Error),
}

impl From<rusqlite::Error> for Failure {
    fn from(error: rusqlite::Error) -> Self {
        Self::Engine(error)
    }
}

fn answer(db: &Connection, query: &SqlQuery<'_>, values: &[SqlValue]) -> Result<SqlAnswer, Failure> {
    let mut statement = db.prepare(query.sql)?;
    let columns: Vec<String> = statement.column_names().into_iter().map(str::to_owned).collect();
    for (index, value) in values.iter().enumerate() {
        statement.raw_bind_parameter(index + 1, value)?;
    }
    if !statement.readonly() {
        let what = "a query may only read".to_owned();
        return Err(Failure::Ours(Error::QueryRefused { what, hint: None }));
    }
    let mut answer = SqlAnswer { columns, rows: Vec::new(), truncated: None };
    let mut bytes = 0;
    let mut rows = statement.raw_query();
    while let Some(row) = rows.next()? {
        if answer.rows.len() == query.limits.rows_max {
            answer.truncated = Some(Truncation::Rows);
            break;
        }
        for column in 0..answer.columns.len() {
            bytes += match row.get_ref(column)? {
                ValueRef::Text(value) | ValueRef::Blob(value) => value.len(),
                ValueRef::Null | ValueRef::Integer(_) | ValueRef::Real(_) => 8,
            };
        }
        if bytes > query.limits.bytes_max {
            answer.truncated = Some(Truncation::Bytes);
            break;
        }
        let values = (0..answer.columns.len()).map(|column| row.get_ref(column).map(value));
        answer.rows.push(values.collect::<rusqlite::Result<_>>()?);
    }
    Ok(answer)
}

fn value(value: ValueRef<'_>) -> SqlValue {
    match value {
        ValueRef::Null => SqlValue::Null,
        ValueRef::Integer(number) => SqlValue::Integer(number),
        ValueRef::Real(number) => SqlValue::Real(number),
        ValueRef::Text(text) => SqlValue::Text(String::from_utf8_lossy(text).into_owned()),
        ValueRef::Blob(bytes) => SqlValue::Blob(bytes.to_vec()),
    }
}

/// Tells what stopped a statement in words that help.
fn tell(
    sql: &str,
    error: rusqlite::Error,
    stopped: &AtomicU8,
    limits: SqlLimits,
    refused: Option<String>,
) -> Error {
    let late =
        Error::QueryTooLong { limit_ms: u64::try_from(limits.time_max.as_millis()).unwrap_or(u64::MAX) };
    let large = |what: &'static str, bytes_max: u64| Error::QueryTooLarge { what, bytes_max };
    match stopped.load(Ordering::Relaxed) {
        LATE => return late,
        LARGE => return large("memory", limits.memory_bytes_max),
        _ => {}
    }
    match engine::stop(&error) {
        Some(engine::Stop::Interrupted) => late,
        Some(engine::Stop::TooBig) => large("a single value", limits.value_bytes_max as u64),
        Some(engine::Stop::NoMemory) => large("memory", limits.memory_bytes_max),
        Some(engine::Stop::Statement) => teach::refusal(sql, &error, refused),
        None => engine::translate(error, DOING),
    }
}
