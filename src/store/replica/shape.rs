//! The tables of the truth: how their rows are named, and to which conversation they belong.

use std::sync::OnceLock;

use rusqlite::{Connection, params_from_iter};

use crate::error::{Error, Result};
use crate::store::engine::SqlValue;
use crate::store::engine::WhileDoing as _;

/// Says to which conversation a row belongs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Of {
    /// To none.
    Store,
    /// To the one whose key is in this column.
    Column(&'static str),
    /// To that of the event at the row's position.
    Event,
}

/// The tables, each after those that its rows refer to.
const TABLES: &[(&str, Of)] = &[
    ("log", Of::Store),
    ("conversation", Of::Column("key")),
    ("event", Of::Column("conversation")),
    ("archive_dictionary", Of::Store),
    ("archived_payload", Of::Event),
    ("event_file", Of::Event),
    ("blob", Of::Store),
    ("archive_source", Of::Column("conversation")),
    ("archived_conversation", Of::Column("conversation")),
    ("arrival", Of::Column("conversation")),
    ("attachment", Of::Column("conversation")),
    ("base_state", Of::Column("conversation")),
    ("base_state_change", Of::Column("conversation")),
    ("change", Of::Column("conversation")),
    ("head_change", Of::Column("conversation")),
    ("origin", Of::Column("conversation")),
    ("problem", Of::Column("conversation")),
    ("admin_act", Of::Store),
    ("admin_receipt", Of::Store),
    ("repair", Of::Store),
    ("server_key", Of::Store),
    ("subscription", Of::Store),
];

const COLUMNS: &str = "SELECT name, pk FROM pragma_table_info(?1, 'main') ORDER BY cid";

/// A table of the truth.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Shape {
    pub(super) table: &'static str,
    pub(super) of: Of,
    /// All columns in their order. A table without a key begins with `rowid`.
    pub(super) columns: Vec<String>,
    /// The columns of the key, in its order: one or two.
    pub(super) key: Vec<String>,
    /// Reads the row of a key.
    select: String,
    /// Makes a row of all columns, in the place of those that it contradicts.
    pub(super) insert: String,
    /// Changes a row of all columns, if there is one with its key. `None` if a row is nothing but its key.
    pub(super) update: Option<String>,
    /// Removes the row of a key.
    pub(super) delete: String,
}

impl Shape {
    /// Returns the names of all tables of the truth.
    pub(super) fn names() -> impl Iterator<Item = &'static str> {
        TABLES.iter().map(|(table, _)| *table)
    }

    /// Returns all tables of the truth. They are the same in every file of this version.
    pub(super) fn all(db: &Connection) -> Result<&'static [Self]> {
        static ALL: OnceLock<Vec<Shape>> = OnceLock::new();
        match ALL.get() {
            Some(all) => Ok(all),
            None => {
                let all =
                    TABLES.iter().map(|(table, of)| Self::read(db, table, *of)).collect::<Result<_>>()?;
                Ok(ALL.get_or_init(|| all))
            }
        }
    }

    /// Returns the number of a table within [`Shape::all`].
    pub(super) fn number(table: &str) -> Option<usize> {
        Self::names().position(|name| name == table)
    }

    /// Returns the values of a row. `None` if there is no such row.
    pub(super) fn row(&self, db: &Connection, key: &[SqlValue]) -> Result<Option<Vec<SqlValue>>> {
        let doing = "reading a row";
        let mut statement = db.prepare_cached(&self.select).doing(doing)?;
        let mut rows = statement.query(params_from_iter(key.iter().map(SqlValue::bound))).doing(doing)?;
        let Some(row) = rows.next().doing(doing)? else { return Ok(None) };
        let values = (0..self.columns.len()).map(|column| {
            let value = row.get_ref(column).doing(doing)?;
            if matches!(value, rusqlite::types::ValueRef::Text(_)) && value.as_str().is_err() {
                return Err(Error::Corrupt {
                    what: format!("a text in the table {} is not UTF-8", self.table),
                });
            }
            Ok(SqlValue::of(value))
        });
        values.collect::<Result<_>>().map(Some)
    }

    fn read(db: &Connection, table: &'static str, of: Of) -> Result<Self> {
        let doing = "looking at the tables";
        let mut columns: Vec<(String, i64)> = db
            .prepare_cached(COLUMNS)
            .and_then(|mut statement| {
                statement.query_map([table], |row| Ok((row.get(0)?, row.get(1)?)))?.collect()
            })
            .doing(doing)?;
        if columns.is_empty() {
            return Err(Error::LostTable { table: table.into() });
        }
        if columns.iter().all(|(_, place)| *place == 0) {
            columns.insert(0, ("rowid".into(), 1));
        }
        let mut key: Vec<_> = columns.iter().filter(|(_, place)| *place > 0).cloned().collect();
        key.sort_by_key(|(_, place)| *place);
        let names = |columns: Vec<(String, i64)>| columns.into_iter().map(|(name, _)| name).collect();
        Ok(Self::new(table, of, names(columns), names(key)))
    }

    fn new(table: &'static str, of: Of, columns: Vec<String>, key: Vec<String>) -> Self {
        // A value has the number of its column, or of its place in the key.
        let equals = |names: &mut dyn Iterator<Item = (usize, &String)>, between: &str| {
            names.map(|(place, name)| format!("{name} = ?{}", place + 1)).collect::<Vec<_>>().join(between)
        };
        let of_key = equals(&mut key.iter().enumerate(), " AND ");
        let all = columns.join(", ");
        let marks = vec!["?"; columns.len()].join(", ");
        let found = equals(&mut columns.iter().enumerate().filter(|(_, name)| key.contains(name)), " AND ");
        // A key that is set, even to what it is, is looked for in all tables that may refer to it.
        let set = equals(&mut columns.iter().enumerate().filter(|(_, name)| !key.contains(name)), ", ");
        Self {
            select: format!("SELECT {all} FROM main.{table} WHERE {of_key}"),
            insert: format!("INSERT OR REPLACE INTO main.{table} ({all}) VALUES ({marks})"),
            update: (!set.is_empty())
                .then(|| format!("UPDATE OR REPLACE main.{table} SET {set} WHERE {found}")),
            delete: format!("DELETE FROM main.{table} WHERE {of_key}"),
            table,
            of,
            columns,
            key,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::derived::projection;
    use crate::store::{Options, Store};

    /// Tables that each file has for itself.
    const OWN: &[&str] = &["host_stale", "host_table", "maintenance", "refinery_schema_history", "replica"];

    #[test]
    fn every_table_is_shared_or_derived_or_of_one_file() {
        let store = Store::in_memory(&Options::default()).unwrap();
        let tables: Vec<String> = store
            .read(|db| {
                let sql = "SELECT name FROM pragma_table_list WHERE schema = 'main' AND type IN ('table', 'virtual') \
                     AND name NOT LIKE 'sqlite_%'";
                db.prepare(sql).and_then(|mut s| s.query_map([], |row| row.get(0))?.collect()).doing("listing")
            })
            .unwrap();
        for table in &tables {
            let lists = [
                projection::owns(table),
                OWN.contains(&table.as_str()),
                Shape::names().any(|name| name == table),
            ];
            assert_eq!(lists.iter().filter(|has| **has).count(), 1, "{table} must be in one list: {lists:?}");
        }
        let shapes = store.read(Shape::all).unwrap();
        assert!(shapes.iter().all(|shape| (1..=2).contains(&shape.key.len())), "{shapes:?}");
        for shape in shapes {
            let statements = [&shape.select, &shape.insert, &shape.delete].into_iter().chain(&shape.update);
            for sql in statements {
                store.write(|db| db.prepare(sql).map(drop).doing("preparing")).unwrap();
            }
        }
    }
}
