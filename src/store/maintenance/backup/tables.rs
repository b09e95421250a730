//! The tables that a backup copies row by row, and the columns that select the rows. The tables of projections are in no
//! list: a backup never copies derived rows, they are rebuilt from the log.
//!
//! A file may have another schema version than this program, so only the tables that exist in it are read.

use rusqlite::Connection;

use crate::error::Result;
use crate::store::engine::WhileDoing as _;

/// Tables with rows of a conversation. Their column `conversation` has its key.
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

/// Tables with rows of an event. Their column `position` has its position.
pub(super) const OF_EVENTS: &[&str] = &["archived_payload", "event_file"];

/// Tables that only grow, and the column whose number grows with them.
pub(super) const GROWING: &[(&str, &str)] =
    &[("admin_act", "number"), ("admin_receipt", "act"), ("repair", "key")];

/// Tables that are copied whole if they have changed.
pub(super) const WHOLE: &[&str] = &["archive_dictionary", "log", "server_key", "subscription"];

/// Tables whose rows must keep the order in which they were written, because no column has that order.
const ORDERED: &[&str] = &["base_state_change", "head_change", "problem"];

const COLUMNS: &str = "SELECT group_concat('\"' || name || '\"', ', ') FROM pragma_table_info(?1, ?2)";

const DOING: &str = "looking at the tables of a backup";

/// Returns whether an attached database has a table.
///
/// It reads the schema and not `pragma_table_list`, which first prepares every view of every attached file.
pub(super) fn has(db: &Connection, schema: &str, table: &str) -> Result<bool> {
    let sql = format!("SELECT 1 FROM \"{schema}\".sqlite_schema WHERE type = 'table' AND name = ?1");
    db.prepare_cached(&sql).and_then(|mut statement| statement.exists([table])).doing(DOING)
}

/// Returns the names of a table's columns, separated by commas as in a statement.
pub(super) fn columns(db: &Connection, schema: &str, table: &str) -> Result<String> {
    db.prepare_cached(COLUMNS)
        .and_then(|mut statement| statement.query_row([table, schema], |row| row.get(0)))
        .doing(DOING)
}

/// Returns the `ORDER BY` that keeps the order in which a table's rows were written. Empty if any order will do.
pub(super) fn order(table: &str) -> &'static str {
    if ORDERED.contains(&table) { " ORDER BY t.rowid" } else { "" }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::derived::projection;
    use crate::store::{Options, Store};

    /// Tables that a backup copies in special ways.
    const APART: &[&str] = &["blob", "conversation", "event"];

    /// Tables that hold nothing of the log. The migrations make them, and no row has to be copied. What the copy names as
    /// tables of hosts are the tables that it has itself.
    const NOT_CARRIED: &[&str] =
        &["host_stale", "host_table", "maintenance", "refinery_schema_history", "replica", "write_log"];

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
        let mut wrong = Vec::new();
        for table in &tables {
            let table = table.as_str();
            let lists = [OF_CONVERSATIONS, OF_EVENTS, WHOLE, APART, NOT_CARRIED];
            let growing = GROWING.iter().any(|(name, _)| *name == table);
            let listed = lists.iter().filter(|list| list.contains(&table)).count() + usize::from(growing);
            match (projection::owns(table), listed) {
                (true, 0) | (false, 1) => {}
                (true, _) => wrong.push(format!("{table} is derived, so it must be in no list")),
                (false, 0) => wrong.push(format!("{table} is in no list, and no projection has it")),
                (false, _) => wrong.push(format!("{table} is in {listed} lists")),
            }
        }
        assert!(wrong.is_empty(), "src/store/maintenance/backup/tables.rs: {wrong:#?}");
        assert!(tables.len() > 15);
    }
}
