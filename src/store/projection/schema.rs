//! The projections' tables: their statements are those of the migrations, found there by name.

use rusqlite::Connection;

use super::super::engine::Doing as _;
use crate::error::Result;

const MIGRATION: &str = include_str!("../../../migrations/V4__projections.sql");

/// The statements that make `table` and its indexes.
pub(super) fn statements(table: &str) -> impl Iterator<Item = &'static str> {
    let create = format!("CREATE TABLE {table} (");
    let index = format!(" ON {table} (");
    MIGRATION.split_inclusive(";\n").map(strip_comments).filter(move |statement| {
        statement.starts_with(&create)
            || (statement.starts_with("CREATE INDEX") && statement.contains(&index))
    })
}

/// The statement that makes the full-text index.
pub(super) fn virtual_table() -> &'static str {
    MIGRATION.find("CREATE VIRTUAL TABLE").map_or("", |start| &MIGRATION[start..])
}

fn strip_comments(statement: &str) -> &str {
    statement.find("CREATE ").map_or("", |start| &statement[start..])
}

/// Those of `tables` that the file does not have.
pub(super) fn missing(db: &Connection, tables: &[&'static str]) -> Result<Vec<&'static str>> {
    let mut missing = Vec::new();
    for table in tables {
        let there = db
            .prepare_cached("SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = ?1")
            .and_then(|mut statement| statement.exists([table]))
            .doing("looking for a table")?;
        if !there {
            missing.push(*table);
        }
    }
    Ok(missing)
}

/// Makes those of `tables` that are lost; true where there was one. All of them are empty then.
pub(super) fn restore(db: &Connection, tables: &[&'static str]) -> Result<bool> {
    let lost = missing(db, tables)?;
    for table in &lost {
        for statement in statements(table) {
            db.execute_batch(statement).doing("making a lost table again")?;
        }
    }
    if !lost.is_empty() {
        empty(db, tables)?;
    }
    Ok(!lost.is_empty())
}

/// Deletes every row of `tables`.
pub(super) fn empty(db: &Connection, tables: &[&'static str]) -> Result<()> {
    for table in tables {
        db.execute_batch(&format!("DELETE FROM {table}")).doing("emptying a projection")?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_projected_table_has_its_statements() {
        for projection in super::super::all() {
            for table in projection.tables() {
                let first = statements(table).next().unwrap_or_default();
                assert!(first.starts_with("CREATE TABLE"), "{table}");
                assert!(first.ends_with(";\n"), "{table}");
            }
        }
        assert_eq!(statements("tool_call").count(), 3);
    }
}
