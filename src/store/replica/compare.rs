//! Compares a file row by row with what its log has.

use std::collections::BTreeMap;

use rusqlite::Connection;

use super::row::Row;
use super::shape::Shape;
use crate::error::Result;
use crate::store::engine::SqlValue;
use crate::store::engine::WhileDoing as _;

/// The maximum number of differences that are described. All are counted.
const DESCRIBED_MAX: usize = 20;

const DOING: &str = "comparing a file with the shared log";

/// What a comparison of a replica with its log found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ReplicaCheck {
    /// The entry at which both were compared.
    pub entry: u64,
    /// The rows of the log.
    pub rows: u64,
    /// The number of rows that differ.
    pub differing: u64,
    /// The first 20 differences, in words.
    pub differences: Vec<String>,
}

/// A comparison under way.
pub(in crate::store) struct Comparing<'a> {
    db: &'a Connection,
    shapes: &'static [Shape],
    /// How many rows the log has, by table.
    counts: BTreeMap<&'static str, u64>,
    found: ReplicaCheck,
}

impl<'a> Comparing<'a> {
    pub(in crate::store) fn begin(db: &'a Connection, entry: u64) -> Result<Self> {
        let found = ReplicaCheck { entry, ..ReplicaCheck::default() };
        Ok(Self { db, shapes: Shape::all(db)?, counts: BTreeMap::new(), found })
    }

    /// Compares a row of the log.
    pub(in crate::store) fn row(&mut self, row: &Row) -> Result<()> {
        let Some(shape) = Shape::number(row.table).map(|number| &self.shapes[number]) else { return Ok(()) };
        if row.values.is_some() {
            *self.counts.entry(shape.table).or_default() += 1;
            self.found.rows += 1;
        }
        let own = shape.row(self.db, &row.key)?;
        let what = match (&own, &row.values) {
            (own, values) if own == values => return Ok(()),
            (None, _) => "the file has no such row",
            // The number of rows counts it.
            (Some(_), None) => return self.describe(shape, &row.key, "the file has a row that was removed"),
            (Some(_), Some(_)) => "the file has other values",
        };
        self.found.differing += 1;
        self.describe(shape, &row.key, what)
    }

    /// Compares a conversation that the log does not have any more.
    pub(in crate::store) fn gone(&mut self, key: i64) -> Result<()> {
        self.row(&Row {
            table: "conversation",
            key: vec![SqlValue::Integer(key)],
            conversation: None,
            values: None,
        })
    }

    /// Ends. The number of rows of each table shows what the file has and the log has not.
    pub(in crate::store) fn finish(mut self) -> Result<ReplicaCheck> {
        for shape in self.shapes {
            let sql = format!("SELECT count(*) FROM main.{}", shape.table);
            let own: i64 = self.db.query_row(&sql, [], |row| row.get(0)).doing(DOING)?;
            let there = self.counts.get(shape.table).copied().unwrap_or_default();
            if own.cast_unsigned() > there {
                let more = own.cast_unsigned() - there;
                self.found.differing += more;
                self.note(format!("{}: the file has {more} more than the log", shape.table));
            }
        }
        Ok(self.found)
    }

    fn describe(&mut self, shape: &Shape, key: &[SqlValue], what: &str) -> Result<()> {
        self.note(format!("{} {}: {what}", shape.table, shown(key)));
        Ok(())
    }

    fn note(&mut self, what: String) {
        if self.found.differences.len() < DESCRIBED_MAX {
            self.found.differences.push(what);
        }
    }
}

/// Returns a key in words. It has numbers, ids and names, and never content.
fn shown(key: &[SqlValue]) -> String {
    let parts = key.iter().map(|value| match value {
        SqlValue::Integer(number) => number.to_string(),
        SqlValue::Text(text) => format!("{text:?}"),
        _ => "?".into(),
    });
    parts.collect::<Vec<_>>().join(", ")
}
