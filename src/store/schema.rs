//! The schema: what all migrations make of an empty file, and what of a file's own is not that.
//!
//! One description serves whoever asks: opening and reading make again what is derived, `verify` and `doctor`
//! name what they find, projections are made beside the present ones with the same statements. It is read once
//! a process from a database in memory, so a migration describes itself. What holds truth is never made again,
//! guards only where someone asks for it, and another program's objects stay.

use std::collections::HashMap;
use std::sync::OnceLock;

use rusqlite::Connection;
use rusqlite::types::ValueRef;

use super::engine::Doing as _;
use super::{database, projection};
use crate::chain::Digest;
use crate::error::Result;

mod mend;
mod older;

pub(super) use mend::{mend, mend_guards};
pub(super) use older::make_whole;

const OBJECTS: &str = "SELECT type, name, tbl_name, sql FROM main.sqlite_schema ORDER BY rowid";
const COOKIE: &str = "PRAGMA main.schema_version";

/// The engine's own tables.
const ENGINES: &[&str] = &["sqlite_sequence", "sqlite_stat1", "sqlite_stat4"];

/// The table of the migration runner.
const HISTORY: &str = "refinery_schema_history";

/// The table whose rows let the guards pass: it holds nothing at rest.
const MAINTENANCE: &str = "maintenance";

/// The digest of what the migrations make, so that opening a sound file need not run them to describe it: that takes
/// longer than all else that opening does. A file with another digest is compared object by object.
const AS_MADE: &str = "0207ef99fd9c8e74df8b88bb6bc6042a6a09ae7b7e2e6f5e09cc3097e1f2dc35";

const DOING: &str = "reading the schema";

/// What an object of the schema is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ObjectKind {
    /// A table, virtual ones among them.
    Table,
    /// An index.
    Index,
    /// A view.
    View,
    /// A trigger.
    Trigger,
}

impl ObjectKind {
    /// The engine's word for it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Table => "table",
            Self::Index => "index",
            Self::View => "view",
            Self::Trigger => "trigger",
        }
    }

    fn read(word: &str) -> Option<Self> {
        [Self::Table, Self::Index, Self::View, Self::Trigger].into_iter().find(|kind| kind.as_str() == word)
    }
}

/// What an object is to the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    /// It holds what nothing else knows.
    Truth,
    /// It can be made again from the rest.
    Derived,
    /// It keeps other programs from changing what is append-only.
    Guard,
}

/// An object as the schema has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Object {
    pub kind: ObjectKind,
    pub name: String,
    /// The table it belongs to.
    pub table: String,
    pub sql: String,
}

impl Object {
    pub(super) fn role(&self) -> Role {
        match self.kind {
            ObjectKind::Index | ObjectKind::View => Role::Derived,
            ObjectKind::Trigger => Role::Guard,
            ObjectKind::Table if self.name == MAINTENANCE => Role::Guard,
            ObjectKind::Table if projection::owns(&self.name) => Role::Derived,
            ObjectKind::Table => Role::Truth,
        }
    }

    /// What names it apart from all others: the engine does not tell cases apart.
    fn id(&self) -> (bool, String) {
        (self.kind == ObjectKind::Trigger, self.name.to_ascii_lowercase())
    }

    /// Whether this one of the file is the `wanted` one. The engine words the tables beneath the search index.
    fn is(&self, wanted: &Self) -> bool {
        self.kind == wanted.kind
            && self.name == wanted.name
            && self.table == wanted.table
            && (self.sql == wanted.sql || projection::search::is_beneath(&wanted.name))
    }
}

/// In which way an object is not as it should be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    /// It is not there, or something of another kind has its name.
    Missing,
    /// It has another statement.
    Changed,
    /// No migration makes it.
    Strange,
}

/// An object that is not as it should be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Difference {
    /// The wanted object; for a strange one the one that is there.
    pub object: Object,
    pub state: State,
}

impl Difference {
    /// Whether it is derived and so comes back by itself.
    fn is_mendable(&self) -> bool {
        self.state != State::Strange && self.object.role() == Role::Derived
    }
}

/// Every object that the migrations make, in the order in which they make them.
pub(super) fn wanted() -> Result<&'static [Object]> {
    static WANTED: OnceLock<Vec<Object>> = OnceLock::new();
    if let Some(wanted) = WANTED.get() {
        return Ok(wanted);
    }
    let made = read(&database::open_fresh()?)?;
    Ok(WANTED.get_or_init(|| made))
}

/// The wanted table called `name`, and its indexes behind it.
pub(super) fn statements(name: &str) -> Result<Vec<&'static Object>> {
    let of_table = |object: &&Object| {
        object.table == name && matches!(object.kind, ObjectKind::Table | ObjectKind::Index)
    };
    Ok(wanted()?.iter().filter(of_table).collect())
}

/// A number that moves whenever the schema does.
pub(super) fn cookie(db: &Connection) -> Result<i64> {
    db.prepare_cached(COOKIE).and_then(|mut statement| statement.query_row([], |row| row.get(0))).doing(DOING)
}

/// Whether the file's schema is what the migrations make and nothing else, at the cost of reading it.
pub(super) fn is_as_made(db: &Connection) -> Result<bool> {
    Ok(digest(&read(db)?).to_hex() == AS_MADE)
}

/// One digest over all objects, in whatever order they were made.
fn digest(objects: &[Object]) -> Digest {
    let mut objects: Vec<&Object> = objects.iter().collect();
    objects.sort_by_key(|object| (object.kind, &object.name));
    let mut text = Vec::new();
    for Object { kind, name, table, sql } in objects {
        let sql = if projection::search::is_beneath(name) { "" } else { sql };
        for part in [kind.as_str(), name, table, sql] {
            text.extend_from_slice(part.as_bytes());
            text.push(0);
        }
    }
    Digest::of(&text)
}

/// Everything in which the file's schema is not what the migrations make.
pub(super) fn differences(db: &Connection) -> Result<Vec<Difference>> {
    Ok(compare(wanted()?, &read(db)?))
}

/// Whether nothing derived is missing or altered.
///
/// # Errors
/// [`Error::LostTable`](crate::Error::LostTable) where something is gone that cannot be made again.
pub(super) fn is_whole(db: &Connection) -> Result<bool> {
    let differences = differences(db)?;
    mend::refuse_lost_truth(&differences)?;
    Ok(!differences.iter().any(Difference::is_mendable))
}

fn compare(wanted: &[Object], found: &[Object]) -> Vec<Difference> {
    let known: HashMap<_, _> = found.iter().map(|object| (object.id(), object)).collect();
    let mut differences = Vec::new();
    for object in wanted {
        let state = match known.get(&object.id()) {
            Some(stored) if stored.is(object) => continue,
            Some(stored) if stored.kind == object.kind => State::Changed,
            Some(_) | None => State::Missing,
        };
        differences.push(Difference { object: object.clone(), state });
    }
    let ours: HashMap<_, _> = wanted.iter().map(|object| (object.id(), object)).collect();
    for object in found.iter().filter(|object| !ours.contains_key(&object.id())) {
        differences.push(Difference { object: object.clone(), state: State::Strange });
    }
    differences
}

/// The objects of a file, in the order in which they were made; what the engine and the migration runner keep
/// for themselves is left out, by its exact name.
fn read(db: &Connection) -> Result<Vec<Object>> {
    let mut statement = db.prepare_cached(OBJECTS).doing(DOING)?;
    let mut rows = statement.query([]).doing(DOING)?;
    let mut objects = Vec::new();
    while let Some(row) = rows.next().doing(DOING)? {
        let text = |column| -> rusqlite::Result<Option<String>> {
            Ok(match row.get_ref(column)? {
                ValueRef::Text(text) => Some(String::from_utf8_lossy(text).trim().to_owned()),
                _ => None,
            })
        };
        let (word, name, table, sql) = (|| Ok((text(0)?, text(1)?, text(2)?, text(3)?)))().doing(DOING)?;
        let name = name.unwrap_or_default();
        let Some(kind) = word.as_deref().and_then(ObjectKind::read) else { continue };
        let is_engines = match kind {
            // The index beneath a constraint is part of its table's statement.
            ObjectKind::Index => sql.is_none(),
            ObjectKind::Table => ENGINES.contains(&&*name) || name == HISTORY,
            ObjectKind::View | ObjectKind::Trigger => false,
        };
        if !is_engines {
            let object =
                Object { kind, name, table: table.unwrap_or_default(), sql: sql.unwrap_or_default() };
            objects.push(object);
        }
    }
    Ok(objects)
}

/// An object that Annals makes again by itself when it is lost or altered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DerivedObject {
    /// What it is.
    pub kind: ObjectKind,
    /// Its name.
    pub name: String,
    /// The table it belongs to; its own name where it is one.
    pub table: String,
}

/// Every object of the file that opening makes again where it is lost or altered, in the order in which
/// migrations make them.
///
/// # Errors
/// [`Error::Storage`](crate::Error::Storage) where no database in memory can be had.
pub fn derived_objects() -> Result<Vec<DerivedObject>> {
    let derived = wanted()?.iter().filter(|object| object.role() == Role::Derived);
    Ok(derived
        .map(|object| DerivedObject {
            kind: object.kind,
            name: object.name.clone(),
            table: object.table.clone(),
        })
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_digest_is_that_of_what_the_migrations_make() {
        let made = digest(wanted().unwrap()).to_hex();
        assert_eq!(
            made, AS_MADE,
            "the migrations make another schema: this is AS_MADE in src/store/schema.rs now"
        );
        assert!(is_as_made(&database::open_fresh().unwrap()).unwrap());
    }

    #[test]
    fn no_object_that_differs_has_the_same_digest() {
        for sql in [
            "DROP VIEW events",
            "DROP INDEX tool_call_failed",
            "DROP TRIGGER event_update_guard",
            "CREATE TABLE theirs (x)",
            "ALTER TABLE task ADD COLUMN more TEXT",
        ] {
            let db = database::open_fresh().unwrap();
            db.execute_batch(sql).unwrap();
            assert!(!is_as_made(&db).unwrap(), "{sql}");
            assert_eq!(differences(&db).unwrap().len(), 1, "{sql}");
        }
    }
}
