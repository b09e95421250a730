//! Reads the projected tables as one value, and compares two such values.

use annals::store::{ObjectKind, derived_objects};
use rusqlite::Connection;
use rusqlite::types::Value;

use super::rows;

/// Returns the names of all derived tables, in the order of the migrations: those of the search index, too.
pub fn tables() -> Vec<String> {
    let tables = derived_objects().unwrap().into_iter().filter(|object| object.kind == ObjectKind::Table);
    tables.map(|object| object.name).collect()
}

/// Returns the names of the derived tables whose rows depend on the log alone.
///
/// The words of the search index are in tables of the engine, which depend on the order of the writes. `usage_stale` and
/// `fact_stale` name what is still to be made.
fn compared() -> Vec<String> {
    let is_compared = |name: &String| !name.ends_with("_stale") && !name.starts_with("transcript_search");
    tables().into_iter().filter(is_compared).collect()
}

/// Returns all rows of every projected table, sorted. A rebuild must not change them. Transcript lines come second,
/// calls third.
#[track_caller]
pub fn dump(db: &Connection) -> Vec<Vec<Vec<Value>>> {
    let all = |table: String| {
        // The search index is filled from the first search on, which may come at any time.
        let condition = if table == "projection" { " WHERE name <> 'search'" } else { "" };
        let columns = db.prepare(&format!("SELECT * FROM {table}")).unwrap().column_count();
        let order: Vec<String> = (1..=columns).map(|column| column.to_string()).collect();
        rows(db, &format!("SELECT * FROM {table}{condition} ORDER BY {}", order.join(", ")))
    };
    compared().into_iter().map(all).collect()
}

/// Asserts that two dumps are equal. The message shows the rows that differ.
#[track_caller]
pub fn assert_same_rows(after: &[Vec<Vec<Value>>], before: &[Vec<Vec<Value>>]) {
    let tables = compared();
    assert_eq!((after.len(), before.len()), (tables.len(), tables.len()));
    let mut differences = Vec::new();
    for ((table, after), before) in tables.iter().zip(after).zip(before) {
        let only = |rows: &[Vec<Value>], others: &[Vec<Value>]| {
            rows.iter().filter(|row| !others.contains(row)).cloned().collect::<Vec<_>>()
        };
        if after != before {
            differences.push((table, only(before, after), only(after, before)));
        }
    }
    assert!(differences.is_empty(), "before, after: {differences:#?}");
}
