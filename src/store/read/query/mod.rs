//! Runs SQL of untrusted callers: one SELECT over the documented views, on a connection that can do nothing else.
//!
//! A statement must pass two checks, called stages. At the first stage it is prepared against an empty database in
//! memory that has the documented views and no tables. So an undocumented name does not exist there, and a name that
//! the statement defines (such as a common table expression named like a view) cannot gain a view's rights. At the
//! second stage it is prepared on a read-only connection of its own to the file. The authorizer of that connection
//! allows views, and allows a table only if a view reads it. Then the statement runs with limits of rows and bytes.
//!
//! A deadline and a memory limit hold at both stages and while the statement runs. The engine checks them at jumps of
//! the program and at every allocation (`engine/heap.rs`). Functions that could keep the processor busy within a single
//! call are replaced by functions that check the clock (`functions.rs`). If a program could run for long without a
//! check, its values must be smaller (`cost.rs`).
//!
//! A query writes nothing: sorting happens in memory, within the limit.

mod admission;
mod cost;
mod functions;
mod pattern;
mod run;
mod teach;
mod views;

use std::time::{Duration, Instant};

pub(crate) use teach::nearest;
pub use views::{SqlView, VIEWS};

use crate::error::Result;
use crate::event::PAYLOAD_BYTES_MAX;
use crate::store::Store;
use crate::store::engine::SqlValue;

/// The longest statement, in bytes.
pub const SQL_BYTES_MAX: usize = 100_000;

/// The largest value that a query may use, in bytes, unless its limits are lower: the largest payload plus 1 MiB.
pub const VALUE_BYTES_MAX: usize = PAYLOAD_BYTES_MAX + (1 << 20);

/// The limits of a query.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct SqlLimits {
    /// The most rows of the answer; further rows are cut off. Default 10,000.
    pub rows_max: usize,
    /// The most bytes of values in the answer; further rows are cut off. Default 64 MiB.
    pub bytes_max: usize,
    /// The most time that the query may run. Default 30 s.
    pub time_max: Duration,
    /// The most memory of the statement, in bytes: its values, sorting, grouping and preparation together. Further
    /// allocations are refused. Only the functions that Annals has replaced can exceed the limit, by the size of
    /// their own arguments and result. Default 256 MiB.
    ///
    /// If a program used SQLite before it opened its first store, memory is only checked every few steps, the memory
    /// that other connections allocate meanwhile counts too, and single values must be smaller.
    pub memory_bytes_max: u64,
    /// The largest single value, in bytes. Default 65 MiB, so that every payload can be read. It is less for a
    /// statement of very many operations, so that the statement can be ended in time.
    pub value_bytes_max: usize,
}

setters!(SqlLimits {
    rows_max: usize,
    bytes_max: usize,
    time_max: Duration,
    memory_bytes_max: u64,
    value_bytes_max: usize,
});

impl Default for SqlLimits {
    fn default() -> Self {
        Self {
            rows_max: 10_000,
            bytes_max: 64 << 20,
            time_max: Duration::from_secs(30),
            memory_bytes_max: 256 << 20,
            value_bytes_max: VALUE_BYTES_MAX,
        }
    }
}

/// A statement with its parameters and limits.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct SqlQuery<'a> {
    /// One SELECT.
    pub sql: &'a str,
    /// A value for each `:name` in it, without the colon.
    pub parameters: &'a [(String, SqlValue)],
    /// The limits of the query.
    pub limits: SqlLimits,
}

impl<'a> SqlQuery<'a> {
    /// Makes a query without parameters, with the default limits.
    #[must_use]
    pub fn new(sql: &'a str) -> Self {
        Self { sql, parameters: &[], limits: SqlLimits::default() }
    }
}

setters!(SqlQuery<'a> { sql, parameters: &'a [(String, SqlValue)], limits: SqlLimits });

/// Why an answer may be incomplete.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Truncation {
    /// There were more rows than [`SqlLimits::rows_max`].
    Rows,
    /// There were more bytes than [`SqlLimits::bytes_max`].
    Bytes,
    /// There were more rows than the question itself allows, such as a report with its parameter `limit`.
    Limit,
    /// The store is read-only, and the derived tables that the query reads have not read the whole log. What the newest
    /// events say is missing.
    Behind,
}

impl Truncation {
    /// Returns its name: `rows`, `bytes` or `limit`, or `behind`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Rows => "rows",
            Self::Bytes => "bytes",
            Self::Limit => "limit",
            Self::Behind => "behind",
        }
    }
}

/// The answer of a query.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct SqlAnswer {
    /// The names of the columns, in order. A name may occur twice.
    pub columns: Vec<String>,
    /// A value for each column, in each row.
    pub rows: Vec<Vec<SqlValue>>,
    /// Why rows may be missing. `None` if the answer is complete.
    pub truncated: Option<Truncation>,
}

impl SqlAnswer {
    /// Makes a complete answer.
    #[must_use]
    pub fn new(columns: Vec<String>, rows: Vec<Vec<SqlValue>>) -> Self {
        Self { columns, rows, truncated: None }
    }
}

impl Store {
    /// Runs one SELECT over the documented [`VIEWS`].
    ///
    /// The query reads one snapshot, on a connection of its own. It cannot change anything and reads only what the
    /// views show. Before it, the projections are brought up to date if the store is writable. If it is not, an answer
    /// from tables that lag is marked with [`Truncation::Behind`].
    ///
    /// ```
    /// use annals::store::{SqlQuery, SqlValue};
    /// # use annals::{Options, Store};
    /// # let store = Store::in_memory(&Options::default())?;
    /// let parameters = [("kind".to_owned(), SqlValue::from("MessageEvent"))];
    /// let query = SqlQuery::new("SELECT count(*) AS n FROM events WHERE kind = :kind").parameters(&parameters);
    /// let answer = store.query(&query)?;
    /// assert_eq!(answer.columns, ["n"]);
    /// assert_eq!(answer.rows, [[SqlValue::Integer(0)]]);
    /// # Ok::<(), annals::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`QueryRefused`](crate::Error::QueryRefused) with what is wrong and a hint,
    /// [`QueryTooLong`](crate::Error::QueryTooLong) and [`QueryTooLarge`](crate::Error::QueryTooLarge) if a limit was
    /// exceeded, and any read error.
    pub fn query(&self, query: &SqlQuery<'_>) -> Result<SqlAnswer> {
        let began = Instant::now();
        let names = admission::check(query.sql, query.limits)?;
        let values = run::values(&names, query.parameters)?;
        let spent = began.elapsed();
        self.catch_up()?;
        run::run(self, query, &values, spent).map_err(|error| self.closed_or(error))
    }
}
