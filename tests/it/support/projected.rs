//! Reads the projected tables as one value, and compares two such values.

use rusqlite::Connection;
use rusqlite::types::Value;

use super::rows;

const TABLES: [&str; 6] = [
    "SELECT * FROM projection WHERE name <> 'search' ORDER BY name",
    "SELECT * FROM transcript_line ORDER BY position",
    "SELECT * FROM tool_call ORDER BY position",
    "SELECT * FROM usage_entry ORDER BY conversation, usage_id, position, response_id, at, prompt_tokens, cost",
    "SELECT * FROM usage_total ORDER BY conversation, usage_id",
    "SELECT * FROM task ORDER BY conversation, place",
];

/// Returns all rows of every projected table. A rebuild must not change them. Transcript lines come second, calls
/// third.
#[track_caller]
pub fn dump(db: &Connection) -> Vec<Vec<Vec<Value>>> {
    TABLES.iter().map(|sql| rows(db, sql)).collect()
}

/// Asserts that two dumps are equal. The message shows the rows that differ.
#[track_caller]
pub fn assert_same_rows(after: &[Vec<Vec<Value>>], before: &[Vec<Vec<Value>>]) {
    let mut differences = Vec::new();
    for ((sql, after), before) in TABLES.iter().zip(after).zip(before) {
        let only = |rows: &[Vec<Value>], others: &[Vec<Value>]| {
            rows.iter().filter(|row| !others.contains(row)).cloned().collect::<Vec<_>>()
        };
        if after != before {
            differences.push((sql, only(before, after), only(after, before)));
        }
    }
    assert!(differences.is_empty(), "before, after: {differences:#?}");
}
