//! Which tables a backup carries row by row, and by what; all others are made again from the log.
//!
//! A file may be of another schema than this program's: only the tables it has are looked at.

use rusqlite::Connection;

use super::super::engine::Doing as _;
use crate::error::Result;

/// Tables with the rows of a conversation, by its key in their column `conversation`.
pub(super) const OF_CONVERSATIONS: &[&str] = &[
    "archive_source",
    "archived_conversation",
    "arrival",
    "attachment",
    "base_state",
    "base_state_change",
    "change",
    "head_change",
    "origin",
    "problem",
];

/// Tables with rows of an event, by its position.
pub(super) const OF_EVENTS: &[&str] = &["archived_payload", "event_file"];

/// Tables that only grow, and the number by which they do.
pub(super) const GROWING: &[(&str, &str)] =
    &[("admin_act", "number"), ("admin_receipt", "act"), ("repair", "key")];

/// Tables that are carried as they are where they have changed.
pub(super) const WHOLE: &[&str] = &["archive_dictionary", "log"];

/// Tables whose rows are in the order in which they were written, which nothing else tells.
const ORDERED: &[&str] = &["base_state_change", "head_change", "problem"];

const COLUMNS: &str = "SELECT group_concat('\"' || name || '\"', ', ') FROM pragma_table_info(?1, ?2)";

const DOING: &str = "looking at the tables of a backup";

/// Whether an attached database has a table.
///
/// It asks the schema and not `pragma_table_list`, which prepares every view of every attached file first.
pub(super) fn has(db: &Connection, schema: &str, table: &str) -> Result<bool> {
    let sql = format!("SELECT 1 FROM \"{schema}\".sqlite_schema WHERE type = 'table' AND name = ?1");
    db.prepare_cached(&sql).and_then(|mut statement| statement.exists([table])).doing(DOING)
}

/// The names of a table's columns, as a statement lists them.
pub(super) fn columns(db: &Connection, schema: &str, table: &str) -> Result<String> {
    db.prepare_cached(COLUMNS)
        .and_then(|mut statement| statement.query_row([table, schema], |row| row.get(0)))
        .doing(DOING)
}

/// What puts a table's rows in the order in which they were written, where they have one.
pub(super) fn order(table: &str) -> &'static str {
    if ORDERED.contains(&table) { " ORDER BY t.rowid" } else { "" }
}

#[cfg(test)]
mod tests {
    use super::super::super::projection;
    use super::*;
    use crate::store::{Options, Store};

    /// Tables that a backup treats in a way of their own.
    const APART: &[&str] = &["blob", "conversation", "event"];

    /// Tables that hold nothing of the log: made by migrations and empty, or derived.
    const NOT_CARRIED: &[&str] = &["maintenance", "refinery_schema_history"];

    #[test]
    fn a_backup_knows_what_to_do_with_every_table() {
        let store = Store::in_memory(&Options::default()).unwrap();
        let tables: Vec<String> = store
            .read(|db| {
                let sql = "SELECT name FROM pragma_table_list WHERE schema = 'main' AND type IN ('table', 'virtual') \
                     AND name NOT LIKE 'sqlite_%'";
                let rows: rusqlite::Result<_> =
                    db.prepare(sql).and_then(|mut s| s.query_map([], |row| row.get(0))?.collect());
                rows.doing("listing tables")
            })
            .unwrap();
        let derived: Vec<&str> =
            tables.iter().map(String::as_str).filter(|table| projection::owns(table)).collect();
        for table in &tables {
            let table = table.as_str();
            let lists = [OF_CONVERSATIONS, OF_EVENTS, WHOLE, APART, NOT_CARRIED, &derived];
            let growing = GROWING.iter().any(|(name, _)| *name == table);
            let known = lists.iter().filter(|list| list.contains(&table)).count() + usize::from(growing);
            assert_eq!(known, 1, "the table {table} must be in one list of store/backup/tables.rs");
        }
        assert!(tables.len() > 15);
    }
}
