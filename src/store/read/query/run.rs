//! Runs an admitted statement within its limits.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rusqlite::Connection;
use rusqlite::hooks::{AuthAction, AuthContext};
use rusqlite::limits::Limit;
use rusqlite::types::ValueRef;

use super::admission::{self, Stage};
use super::{SqlAnswer, SqlLimits, SqlQuery, SqlValue, Truncation, cost, functions, teach};
use crate::error::{Error, Result};
use crate::store::Store;
use crate::store::derived::projection;
use crate::store::engine::heap::{self, Bounds, Meter, Why};
use crate::store::engine::{self, WhileDoing as _};
use crate::store::file::database;
use crate::store::file::place::Place;
use crate::store::options::PATIENCE_MAX;
use crate::store::table::archive;

const DOING: &str = "running a query";

/// The number of engine steps between two checks of the clock and the memory.
const STEPS: i32 = 50;

/// Returns the values of the parameters `names`, in the order of `names`.
///
/// # Errors
/// [`Error::QueryRefused`] if a value is missing or a value has no parameter.
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

/// Runs a statement that passed the first stage. `spent` is the time already used.
pub(super) fn run(
    store: &Store,
    query: &SqlQuery<'_>,
    values: &[SqlValue],
    spent: Duration,
) -> Result<SqlAnswer> {
    let limits = query.limits;
    let time_max = limits.time_max.min(PATIENCE_MAX).saturating_sub(spent);
    let deadline = Instant::now() + time_max;
    let mut db = store.0.watch.connect().doing(DOING)?;
    database::set_up_reader(&mut db, &store.0.options).doing(DOING)?;
    db.execute_batch("PRAGMA temp_store = MEMORY; PRAGMA cache_size = -4096").doing(DOING)?;
    if matches!(store.0.place, Place::Memory(_)) {
        // A commit to a database in memory waits for its readers, so a reader must not wait for long either.
        db.busy_timeout(time_max).doing(DOING)?;
    }
    // The archives and the views are read from one snapshot.
    db.execute_batch("BEGIN").doing(DOING)?;
    let is_behind = store.is_read_only() && projection::lags(&db)?;
    archive::show_whole(&db)?;
    let modules = admission::modules(&db)?;
    admission::confine(&db, limits.value_bytes_max)?;
    functions::replace_slow_ones(&db, limits.value_bytes_max)?;
    let (mut authorize, refused) = admission::authorizer(Stage::File, modules);
    let reads_derived = Arc::new(AtomicBool::new(false));
    let seen = Arc::clone(&reads_derived);
    let note_and_authorize = move |context: AuthContext<'_>| {
        if let AuthAction::Read { table_name, .. } = context.action
            && projection::owns(table_name)
        {
            seen.store(true, Ordering::Relaxed);
        }
        authorize(context)
    };
    db.authorizer(Some(note_and_authorize)).doing(DOING)?;
    let meter = watch(&db, Bounds { deadline, memory_bytes_max: limits.memory_bytes_max })?;
    let mut value_bytes_max = limits.value_bytes_max;
    let found = answer(&db, query, values, &meter, &mut value_bytes_max);
    let mut found = found.map_err(|failure| match failure {
        Failure::Engine(error) => {
            let limits = SqlLimits { value_bytes_max, ..limits };
            explain(query.sql, error, meter.why(), limits, refused.try_iter().next())
        }
        Failure::Ours(error) => error,
    })?;
    if is_behind && found.truncated.is_none() && reads_derived.load(Ordering::Relaxed) {
        found.truncated = Some(Truncation::Behind);
    }
    Ok(found)
}

/// Makes the engine check the clock and the memory.
pub(super) fn watch(db: &Connection, bounds: Bounds) -> Result<Meter> {
    if !heap::is_installed() && engine::memory_bytes() == 0 {
        // A connection is open and yet the count is 0, so neither the engine nor Annals counts its memory.
        let what =
            "the memory of a query cannot be limited here: SQLite keeps no memory statistics".to_owned();
        let hint = Some("compile it without SQLITE_DEFAULT_MEMSTATUS=0".to_owned());
        return Err(Error::QueryRefused { what, hint });
    }
    db.progress_handler(STEPS, Some(|| heap::look().is_some())).doing(DOING)?;
    Ok(Meter::begin(bounds))
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

fn answer(
    db: &Connection,
    query: &SqlQuery<'_>,
    values: &[SqlValue],
    meter: &Meter,
    value_bytes_max: &mut usize,
) -> Result<SqlAnswer, Failure> {
    let limits = query.limits;
    let most = meter
        .strictly(|| cost::value_bytes_max(db, query.sql, limits.value_bytes_max, limits.memory_bytes_max))?;
    *value_bytes_max = most;
    db.set_limit(Limit::SQLITE_LIMIT_LENGTH, i32::try_from(most).unwrap_or(i32::MAX))?;
    let mut statement = meter.strictly(|| db.prepare(query.sql))?;
    let columns: Vec<String> = statement.column_names().into_iter().map(str::to_owned).collect();
    for (index, value) in values.iter().enumerate() {
        statement.raw_bind_parameter(index + 1, value.bound())?;
    }
    if !statement.readonly() {
        let what = "a query may only read".to_owned();
        return Err(Failure::Ours(Error::QueryRefused { what, hint: None }));
    }
    let mut answer = SqlAnswer { columns, rows: Vec::new(), truncated: None };
    let mut bytes = 0;
    let mut rows = statement.raw_query();
    // Reading a column's value may allocate but cannot report a failure, so only steps refuse allocations.
    while let Some(row) = meter.strictly(|| rows.next())? {
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
        let values = (0..answer.columns.len()).map(|column| row.get_ref(column).map(SqlValue::of));
        answer.rows.push(values.collect::<rusqlite::Result<_>>()?);
    }
    Ok(answer)
}

/// Returns the error that explains what stopped a statement.
fn explain(
    sql: &str,
    error: rusqlite::Error,
    why: Option<Why>,
    limits: SqlLimits,
    refused: Option<String>,
) -> Error {
    let large = |what: &'static str, bytes_max: u64| Error::QueryTooLarge { what, bytes_max };
    if let Some(why) = why {
        return ended(why, limits);
    }
    match engine::stop(&error) {
        Some(engine::Stop::Interrupted) => ended(Why::Late, limits),
        Some(engine::Stop::TooBig) => large("a single value", limits.value_bytes_max as u64),
        Some(engine::Stop::NoMemory) => large("memory", limits.memory_bytes_max),
        Some(engine::Stop::Statement) => teach::refusal(sql, &error, refused),
        None => engine::translate(error, DOING),
    }
}

/// Returns the error for a statement that had to end.
pub(super) fn ended(why: Why, limits: SqlLimits) -> Error {
    match why {
        Why::Late => {
            let limit_ms = u64::try_from(limits.time_max.as_millis()).unwrap_or(u64::MAX);
            Error::QueryTooLong { limit_ms }
        }
        Why::Large => Error::QueryTooLarge { what: "memory", bytes_max: limits.memory_bytes_max },
        Why::Cancelled => Error::QueryCancelled,
    }
}
