//! SQL from outside: one SELECT over the documented views, on a connection that can do nothing else.
//!
//! A statement passes two doors. At the first one it is prepared against an empty database in memory that
//! has the documented views and no table at all, so a name that is not documented does not exist there, and
//! nothing it calls itself (a common table expression named like a view, say) can borrow a view's rights.
//! At the second one it is prepared on a read-only connection of its own to the file, whose authorizer
//! admits views, and tables only beneath a view. Then it runs against limits of rows and bytes.
//!
//! A deadline and a memory limit hold at both doors and while it runs: the engine looks at them at jumps of the
//! program and at every piece of memory that it takes (`heap.rs`), functions that could keep the processor busy
//! within a single call are replaced by ones that look at the clock (`functions.rs`), and in a program that could
//! go on unseen for long values have to be smaller (`cost.rs`).
//!
//! Nothing is written anywhere: sorting happens in memory, within the limit.

mod admission;
mod cost;
mod functions;
mod heap;
mod pattern;
mod run;
mod teach;
mod views;

use std::time::{Duration, Instant};

#[cfg(feature = "server")]
pub(crate) use heap::Cancel;
pub(super) use heap::{install as count_memory, leniently};
pub(crate) use teach::nearest;
pub use views::{SqlView, VIEWS};

use super::Store;
use crate::error::Result;
use crate::event::PAYLOAD_BYTES_MAX;

/// The longest statement, in bytes.
pub const SQL_BYTES_MAX: usize = 100_000;

/// The largest value a query may touch, in bytes, unless its limits say less: any payload, and some more.
pub const VALUE_BYTES_MAX: usize = PAYLOAD_BYTES_MAX + (1 << 20);

/// A value in an answer, or bound to a parameter.
#[derive(Debug, Clone, PartialEq)]
pub enum SqlValue {
    /// No value.
    Null,
    /// A whole number.
    Integer(i64),
    /// Any other number.
    Real(f64),
    /// Text; what is not UTF-8 in it is replaced.
    Text(String),
    /// Bytes.
    Blob(Vec<u8>),
}

impl From<&str> for SqlValue {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<i64> for SqlValue {
    fn from(number: i64) -> Self {
        Self::Integer(number)
    }
}

/// How much a query may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SqlLimits {
    /// Rows after which the answer is cut. Default 10,000.
    pub rows_max: usize,
    /// Bytes of values after which the answer is cut. Default 64 MiB.
    pub bytes_max: usize,
    /// How long it may run. Default 30 s.
    pub time_max: Duration,
    /// How much memory the statement may take, in bytes: all of its values, sorting, grouping and its own
    /// preparing together. What it would take beyond that is refused to it; only the functions that Annals has
    /// replaced can go beyond it, by their own arguments and result. Default 256 MiB.
    ///
    /// Where a program used SQLite before it opened its first store, memory is only looked at every few steps,
    /// what other connections take meanwhile counts too, and single values have to be smaller.
    pub memory_bytes_max: u64,
    /// The largest single value, in bytes. Default 65 MiB, so that every payload can be read. In a statement of
    /// very many operations it is less, so that it can be ended in time.
    pub value_bytes_max: usize,
}

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

/// A statement and what it needs.
#[derive(Debug, Clone, PartialEq)]
pub struct SqlQuery<'a> {
    /// One SELECT.
    pub sql: &'a str,
    /// A value for each `:name` in it, without the colon.
    pub parameters: &'a [(String, SqlValue)],
    /// How much it may take.
    pub limits: SqlLimits,
}

/// Why an answer is not whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Truncation {
    /// There were more rows than [`SqlLimits::rows_max`].
    Rows,
    /// There were more bytes than [`SqlLimits::bytes_max`].
    Bytes,
}

/// What a query answered.
#[derive(Debug, Clone, PartialEq)]
pub struct SqlAnswer {
    /// The columns' names, in order; two may be the same.
    pub columns: Vec<String>,
    /// A value for each column, in each row.
    pub rows: Vec<Vec<SqlValue>>,
    /// Why there is more than this; `None` where this is all.
    pub truncated: Option<Truncation>,
}

impl Store {
    /// Answers one SELECT over the documented [`VIEWS`].
    ///
    /// It reads one snapshot, on a connection of its own, and can neither change anything nor read what the
    /// views do not show. Projections are caught up first, where the store may be written.
    ///
    /// ```
    /// use annals::store::{SqlLimits, SqlQuery, SqlValue};
    /// # use annals::{Options, Store};
    /// # let store = Store::in_memory(&Options::default())?;
    /// let answer = store.query(&SqlQuery {
    ///     sql: "SELECT count(*) AS n FROM events WHERE kind = :kind",
    ///     parameters: &[("kind".to_owned(), SqlValue::from("MessageEvent"))],
    ///     limits: SqlLimits::default(),
    /// })?;
    /// assert_eq!(answer.columns, ["n"]);
    /// assert_eq!(answer.rows, [[SqlValue::Integer(0)]]);
    /// # Ok::<(), annals::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`QueryRefused`](crate::Error::QueryRefused) with what is wrong and what would be right,
    /// [`QueryTooLong`](crate::Error::QueryTooLong) and [`QueryTooLarge`](crate::Error::QueryTooLarge) where
    /// a limit was met, and what reading can meet.
    pub fn query(&self, query: &SqlQuery<'_>) -> Result<SqlAnswer> {
        let began = Instant::now();
        let names = admission::check(query.sql, query.limits)?;
        let values = run::values(&names, query.parameters)?;
        let spent = began.elapsed();
        self.catch_up()?;
        run::run(self, query, &values, spent)
    }
}
