//! Whether the file's views, tables and triggers are those of this version.

use std::collections::BTreeMap;

use rusqlite::Connection;

use super::super::engine::Doing as _;
use super::super::{Options, Place, database, log};
use crate::error::Result;

const OBJECTS: &str = "SELECT type, name, tbl_name, sql FROM sqlite_schema WHERE sql IS NOT NULL \
     AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\' AND name NOT LIKE 'transcript\\_search\\_%' ESCAPE '\\' \
     AND name <> 'refinery_schema_history' ORDER BY type, name";

const DOING: &str = "verifying the schema";

/// What is wrong with the schema, and what is merely not of Annals' making.
pub(super) fn verify(db: &Connection) -> Result<(Vec<String>, Vec<String>)> {
    let place = Place::Memory(format!("schema-{}", uuid::Uuid::new_v4()));
    let wanted = objects(&database::open_writer(&place, &Options::default())?)?;
    let found = objects(db)?;
    let (mut findings, mut notes) = (Vec::new(), Vec::new());
    for ((kind, name), (_, sql)) in &wanted {
        if log::is_guard(name) {
            continue; // told by itself
        }
        let what = match found.get(&(kind.clone(), name.clone())) {
            Some((_, stored)) if stored == sql => continue,
            Some(_) => "is not that of this version",
            None => "is missing",
        };
        let meaning = if kind == "view" { ": what it shows may be false" } else { "" };
        findings.push(format!("the {kind} {name} {what}{meaning}"));
    }
    for ((kind, name), (table, _)) in &found {
        if wanted.contains_key(&(kind.clone(), name.clone())) || log::is_guard(name) {
            continue;
        }
        if kind == "trigger" {
            findings.push(format!(
                "the trigger {name} on {table} is not of Annals' making: it may change what is written"
            ));
        } else {
            notes.push(format!("the {kind} {name} is not of Annals' making"));
        }
    }
    Ok((findings, notes))
}

/// Type and name of every object, with the table it belongs to and its statement.
type Objects = BTreeMap<(String, String), (String, String)>;

fn objects(db: &Connection) -> Result<Objects> {
    db.prepare(OBJECTS)
        .and_then(|mut statement| {
            let rows = statement.query_map([], |row| {
                let sql: String = row.get(3)?;
                Ok(((row.get(0)?, row.get(1)?), (row.get(2)?, sql.trim().to_owned())))
            })?;
            rows.collect()
        })
        .doing(DOING)
}
