//! The structure of the file: what the engine finds wrong with pages, indexes and references.
//!
//! Damage is a finding, also if it ends the check itself.

use std::collections::HashMap;

use rusqlite::{Connection, Params};

use crate::error::{Error, Result};
use crate::store::derived::schema::{ObjectKind, derived_objects};
use crate::store::engine::{self, WhileDoing as _, translate};
use crate::store::table::repair::{self, Mending, Repair};
use crate::store::{Maintenance, Store};

const STRUCTURE: &str = "PRAGMA integrity_check(20)";
const STRUCTURE_OF: &str = "SELECT integrity_check FROM pragma_integrity_check(?1)";
const ALL_DAMAGE: &str = "PRAGMA integrity_check(100000)";
const TABLES: &str = "SELECT name FROM sqlite_schema WHERE type = 'table' AND rootpage > 0 ORDER BY rootpage";
const TREES: &str = "SELECT rootpage, type, name, tbl_name FROM sqlite_schema WHERE rootpage > 0";
const REFERENCES: &str = "SELECT count(*) || ' rows of table ' || \"table\" || ' refer to rows that are not there' \
     FROM pragma_foreign_key_check GROUP BY \"table\" ORDER BY \"table\" LIMIT 20";

/// The maximum number of findings about pages and indexes.
const FINDINGS_MAX: usize = 20;

/// The engine's messages for an index that does not match its table. The table itself is not damaged.
///
/// Source: SQLite's `pragma.c`, `PragTyp_INTEGRITY_CHECK`.
const INDEX_DAMAGE: &[&str] = &[
    " missing from index ",
    "wrong # of entries in index ",
    "non-unique entry in index ",
    " values differ from index ",
];

const DOING: &str = "checking the structure of the file";

/// What is wrong with the structure of a file.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Structure {
    /// The findings, in words.
    pub(crate) wrong: Vec<String>,
    /// Whether pages are damaged. Then a write may destroy more.
    pub(crate) has_damaged_pages: bool,
    /// Whether pages are damaged, and all of them that the check names belong to tables that are derived from the log.
    pub(crate) only_derived: bool,
}

/// A table or an index.
struct Tree {
    /// Its kind and its name.
    name: String,
    /// Whether its table is derived from the log.
    is_derived: bool,
}

impl Maintenance<'_> {
    /// Returns what the engine finds wrong with the structure of the file: pages, indexes, and rows that refer to
    /// missing rows. Empty if nothing is wrong. Reads the whole file.
    ///
    /// # Errors
    /// Any read error, except damage.
    pub fn check_structure(&self) -> Result<Vec<String>> {
        Ok(self.store.examine_structure()?.wrong)
    }
}

impl Store {
    /// Does the same as [`Maintenance::check_structure`], and also returns whether only derived data is damaged.
    ///
    /// # Errors
    /// Any read error, except damage.
    pub(crate) fn examine_structure(&self) -> Result<Structure> {
        self.read(|db| {
            let trees = trees(db)?;
            let mut structure = Structure::default();
            let (mut derived, mut others) = (0, 0);
            for line in pages(db)? {
                structure.has_damaged_pages |= line.starts_with("Tree ") || line.starts_with("Freelist");
                match tree_of(&line).and_then(|root| trees.get(&root)) {
                    Some(tree) => {
                        if tree.is_derived {
                            derived += 1;
                        } else {
                            others += 1;
                        }
                        structure.wrong.push(format!("{line} ({})", tree.name));
                    }
                    None => structure.wrong.push(line),
                }
            }
            structure.only_derived = derived > 0 && others == 0;
            structure.wrong.extend(references(db)?);
            Ok(structure)
        })
    }

    /// Returns whether the file's structure is damaged, but only in indexes that do not match their tables.
    ///
    /// # Errors
    /// Any read error, except damage.
    pub(crate) fn only_indexes_are_wrong(&self) -> Result<bool> {
        let wrong = match self.read(|db| engine::damage(db, ALL_DAMAGE, DOING)) {
            // A page is damaged, because a wrong index does not end the check.
            Err(error) if engine::is_damage(&error) => return Ok(false),
            wrong => wrong?,
        };
        let is_index = |line: &str| INDEX_DAMAGE.iter().any(|of_index| line.contains(of_index));
        Ok(!wrong.is_empty() && wrong.iter().flat_map(|wrong| wrong.lines()).all(is_index))
    }

    /// Rebuilds every index from its table and stores a receipt.
    ///
    /// # Errors
    /// Any write error, also if a table itself is damaged. Then nothing was changed.
    pub(crate) fn remake_indexes(&self, why: &Mending) -> Result<Repair> {
        self.write(|db| {
            db.execute_batch("REINDEX").doing("making indexes again")?;
            let receipt = repair::blank(None, why);
            repair::note(db, &receipt)?;
            Ok(receipt)
        })
    }
}

/// Returns what the engine finds wrong with pages and indexes, one finding a line.
fn pages(db: &Connection) -> Result<Vec<String>> {
    let error = match engine::damage(db, STRUCTURE, DOING) {
        Err(error) if engine::is_damage(&error) => error,
        found => return Ok(lines(&found?)),
    };
    // The error hides what was found before it, so the check is read again, row by row.
    let (found, _) = until_an_error(db, STRUCTURE, []);
    let mut wrong = lines(&found);
    if wrong.is_empty() {
        // The engine does not begin if a table of the search index is damaged. It still checks single tables.
        wrong = single_tables(db)?;
    }
    wrong.truncate(FINDINGS_MAX);
    wrong.push(format!("the check ended early: {error}"));
    Ok(wrong)
}

/// Checks one table after the other.
fn single_tables(db: &Connection) -> Result<Vec<String>> {
    let tables: Vec<String> = db
        .prepare(TABLES)
        .and_then(|mut statement| statement.query_map([], |row| row.get(0))?.collect())
        .doing(DOING)?;
    let mut wrong = Vec::new();
    for table in tables {
        let (found, error) = until_an_error(db, STRUCTURE_OF, [&table]);
        let found = lines(&found);
        match error {
            Some(error) if !engine::is_damage(&error) => return Err(error),
            Some(error) if found.is_empty() => wrong.push(format!("table {table}: {error}")),
            _ => {}
        }
        wrong.extend(found);
        if wrong.len() >= FINDINGS_MAX {
            break;
        }
    }
    Ok(wrong)
}

/// Returns the references to rows that are not there.
fn references(db: &Connection) -> Result<Vec<String>> {
    let (mut wrong, error) = until_an_error(db, REFERENCES, []);
    match error {
        Some(error) if !engine::is_damage(&error) => return Err(error),
        Some(error) => wrong.push(format!("references between tables could not be checked: {error}")),
        None => {}
    }
    Ok(wrong)
}

/// Runs a check. Returns the rows that it returned, and the error that ended it, if there was one.
fn until_an_error(db: &Connection, check: &str, parameters: impl Params) -> (Vec<String>, Option<Error>) {
    let mut found = Vec::new();
    let read = || -> rusqlite::Result<()> {
        let mut statement = db.prepare(check)?;
        let mut rows = statement.query(parameters)?;
        while let Some(row) = rows.next()? {
            found.push(row.get(0)?);
        }
        Ok(())
    };
    let error = read().err().map(|error| translate(error, DOING));
    (found, error)
}

/// Splits the findings of the engine, which it joins with line feeds. Leaves out headings.
fn lines(found: &[String]) -> Vec<String> {
    let lines = found.iter().flat_map(|found| found.lines());
    lines.filter(|line| *line != "ok" && !line.starts_with("***")).map(str::to_owned).collect()
}

/// Returns the first page of the table or index that a finding is about.
///
/// Source: SQLite's `btree.c`, `sqlite3BtreeIntegrityCheck`: "Tree 36 page 40 cell 3: ...".
fn tree_of(line: &str) -> Option<i64> {
    line.strip_prefix("Tree ")?.split(' ').next()?.parse().ok()
}

/// Returns every table and index, by its first page.
fn trees(db: &Connection) -> Result<HashMap<i64, Tree>> {
    let derived = derived_objects()?;
    let is_derived =
        |table: &str| derived.iter().any(|object| object.kind == ObjectKind::Table && object.name == table);
    db.prepare(TREES)
        .and_then(|mut statement| {
            let read = |row: &rusqlite::Row<'_>| {
                let (kind, name, table): (String, String, String) = (row.get(1)?, row.get(2)?, row.get(3)?);
                let is_derived = is_derived(&table);
                let of = if is_derived { ", derived from the log" } else { "" };
                Ok((row.get(0)?, Tree { name: format!("{kind} {name}{of}"), is_derived }))
            };
            statement.query_map([], read)?.collect()
        })
        .doing(DOING)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn findings_are_split_and_assigned_to_their_tables() {
        let found = ["*** in database main ***\nTree 36 page 40 cell 3: x\nPage 5: never used", "ok"];
        let lines = lines(&found.map(str::to_owned));
        assert_eq!(lines, ["Tree 36 page 40 cell 3: x", "Page 5: never used"]);
        assert_eq!(tree_of(&lines[0]), Some(36));
        assert_eq!(tree_of(&lines[1]), None);
    }
}
