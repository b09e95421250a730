//! Describes a projection to the rest of the code: its name, its version, its tables and its views.
//!
//! Each projection's file has one such description. Deletion, comparison, repair, backup and the guard of queries use
//! it, so they have no lists of projections, derived tables or derived views of their own.

use super::{Projection, Table};

/// A documented view.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct SqlView {
    /// Its name.
    pub name: &'static str,
    /// What one row describes.
    pub row: &'static str,
    /// Its columns, in order.
    pub columns: &'static [&'static str],
}

/// What the rest of the code knows about a projection.
pub(in crate::store) struct Description {
    /// The key of its checkpoint and the name for `annals rebuild`.
    pub name: &'static str,
    /// Raised if the same log would give other rows. A projection that was filled by another version is rebuilt.
    pub version: i64,
    /// The schema version that brought its tables. A projection with `statements` has a number of its own, the next one.
    ///
    /// The schema version has to grow, because an older Annals must reject the file: it would delete and redact
    /// conversations without clearing tables that it does not know.
    pub schema: u32,
    /// The statements that make its tables, indexes and views, each exactly as the engine stores it: it begins with
    /// `CREATE TABLE`, `CREATE INDEX` or `CREATE VIEW` and the name. Empty if migrations make them.
    ///
    /// Opening a file mends an object that is missing or different, and fills it from the log. So a statement may be
    /// changed, together with a migration that drops the old objects (`DROP TABLE IF EXISTS`) and so raises the schema
    /// version.
    pub statements: &'static [&'static str],
    /// The tables that it fills. No other projection writes them.
    pub tables: &'static [Table],
    /// The documented views that show its tables. A query may read them. A table without a view cannot be queried.
    pub views: &'static [SqlView],
    /// A statement that finds no row if its tables are correct.
    pub check: &'static str,
    /// Begins the fold.
    pub(super) begin: fn() -> Box<dyn Projection + Send>,
}
