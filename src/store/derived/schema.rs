//! The schema: the objects that the migrations create, and the differences of a file from them.
//!
//! One description has several uses: opening and reading recreate derived objects, `verify` and `doctor` report
//! differences, and rebuilds make temporary tables with the same statements. The description is read once per process
//! from a database in memory, so no migration has to be described twice. Tables with primary data are never recreated,
//! guards only on request, and objects of other programs stay, except a unique index on a derived table.

use std::collections::HashMap;
use std::sync::OnceLock;

use rusqlite::Connection;
use rusqlite::types::ValueRef;

use super::projection::{Description, PROJECTIONS};
use super::{migration, projection};
use crate::chain::Digest;
use crate::error::Result;
use crate::store::engine::WhileDoing as _;
use crate::store::own::PREFIX;

mod mend;
mod older;
mod restate;

pub(in crate::store) use mend::mend;
pub(in crate::store) use mend::mend_guards;
pub(super) use older::make_whole;
pub(in crate::store) use restate::{is_unread, pass_over, with_statements};

const OBJECTS: &str = "SELECT type, name, tbl_name, sql FROM main.sqlite_schema ORDER BY rowid";
const COOKIE: &str = "PRAGMA main.schema_version";

/// The internal tables of the engine.
const ENGINES: &[&str] = &["sqlite_sequence", "sqlite_stat1", "sqlite_stat4"];

/// The table of the migration runner.
const HISTORY: &str = "refinery_schema_history";

/// The table whose rows permit what the guards forbid. It is empty except during such an operation.
const MAINTENANCE: &str = "maintenance";

/// The digest of the schema that the migrations make. With it, opening an intact file need not run the migrations in
/// memory, which takes longer than the rest of opening. Objects that projections declare are compared with their
/// statements instead. A file with another digest, or other objects, is compared object by object.
const AS_MADE: &str = "884d873314702a83c074621b52421e50c48cdf959691d6cd2492c654deba5be5";

const DOING: &str = "reading the schema";

/// The kind of a schema object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ObjectKind {
    /// A table, also a virtual one.
    Table,
    /// An index.
    Index,
    /// A view.
    View,
    /// A trigger.
    Trigger,
}

impl ObjectKind {
    /// Returns the engine's word for it.
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

/// The role of an object in the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::store) enum Role {
    /// It has primary data, which cannot be recreated.
    Truth,
    /// It can be recreated from other data.
    Derived,
    /// It keeps other programs from changing append-only tables.
    Guard,
}

/// An object of the schema.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::store) struct Object {
    pub kind: ObjectKind,
    pub name: String,
    /// The table it belongs to.
    pub table: String,
    pub sql: String,
}

impl Object {
    pub(in crate::store) fn role(&self) -> Role {
        match self.kind {
            ObjectKind::Index | ObjectKind::View => Role::Derived,
            ObjectKind::Trigger => Role::Guard,
            ObjectKind::Table if self.name == MAINTENANCE => Role::Guard,
            ObjectKind::Table if projection::owns(&self.name) => Role::Derived,
            ObjectKind::Table => Role::Truth,
        }
    }

    /// Returns whether its name and that of its table are names that Annals leaves to projections of hosts. Such an object
    /// is no reason to compare the whole schema.
    fn is_of_a_host(&self) -> bool {
        matches!(self.kind, ObjectKind::Table | ObjectKind::Index)
            && self.name.starts_with(PREFIX)
            && self.table.starts_with(PREFIX)
    }

    /// Returns its unique key. Names are compared without case, as the engine does.
    fn id(&self) -> (bool, String) {
        (self.kind == ObjectKind::Trigger, self.name.to_ascii_lowercase())
    }

    /// Returns whether this object of a file is the `wanted` one. Of the internal tables of the search index, which the
    /// engine writes, only the columns are compared.
    fn is(&self, wanted: &Self) -> bool {
        let columns = projection::search::columns_beneath;
        let is_beneath = projection::search::is_beneath(&wanted.name);
        self.kind == wanted.kind
            && self.name == wanted.name
            && self.table == wanted.table
            && (self.sql == wanted.sql || is_beneath && columns(&self.sql) == columns(&wanted.sql))
    }

    /// Returns whether this object, which Annals did not make, is a unique index on a derived table. Rows that the log
    /// makes would replace each other, or be rejected.
    pub(super) fn keeps_rows_out(&self) -> bool {
        self.kind == ObjectKind::Index
            && self.sql.starts_with("CREATE UNIQUE INDEX ")
            && projection::owns(&self.table)
    }
}

/// How an object differs from the wanted schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::store) enum State {
    /// It does not exist, or an object of another kind has its name.
    Missing,
    /// Its SQL differs, or it is another program's unique index on a derived table.
    Changed,
    /// No migration makes it: another program did.
    Strange,
}

/// An object that differs from the wanted schema.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::store) struct Difference {
    /// The wanted object. If it is strange, the object of the file.
    pub object: Object,
    pub state: State,
}

impl Difference {
    /// Returns whether it is derived and so is recreated automatically, or dropped if another program made it.
    fn is_mendable(&self) -> bool {
        self.state != State::Strange && self.object.role() == Role::Derived
    }
}

/// Returns every object that the migrations make, in their order, and those that projections declare.
pub(super) fn wanted() -> Result<&'static [Object]> {
    static WANTED: OnceLock<Vec<Object>> = OnceLock::new();
    if let Some(wanted) = WANTED.get() {
        return Ok(wanted);
    }
    let made = read(&migration::open_fresh()?)?;
    Ok(WANTED.get_or_init(|| made))
}

/// Returns the wanted table called `name`, followed by its indexes.
pub(super) fn statements(name: &str) -> Result<Vec<&'static Object>> {
    let of_table = |object: &&Object| {
        object.table == name && matches!(object.kind, ObjectKind::Table | ObjectKind::Index)
    };
    Ok(wanted()?.iter().filter(of_table).collect())
}

/// Returns a number that changes with every change of the schema.
pub(in crate::store) fn cookie(db: &Connection) -> Result<i64> {
    db.prepare_cached(COOKIE).and_then(|mut statement| statement.query_row([], |row| row.get(0))).doing(DOING)
}

/// Returns whether the file's schema is exactly the wanted one. Costs one read of the schema.
pub(in crate::store) fn is_as_made(db: &Connection) -> Result<bool> {
    Ok(are_as_made(read(db)?, PROJECTIONS))
}

/// Returns whether these are exactly the objects that the migrations make and those that `projections` declare.
pub(super) fn are_as_made(objects: Vec<Object>, projections: &[&Description]) -> bool {
    let ours = objects.into_iter().filter(|object| !object.is_of_a_host());
    let (declared, made): (Vec<Object>, Vec<Object>) =
        ours.partition(|object| is_declared(object, projections));
    // Names are unique, so no statement has two objects.
    let wanted: usize = projections.iter().map(|projection| projection.statements.len()).sum();
    let is_beneath_as_made =
        |object: &Object| projection::search::is_beneath_as_made(&object.name, &object.sql);
    declared.len() == wanted && digest(&made).to_hex() == AS_MADE && made.iter().all(is_beneath_as_made)
}

/// Returns whether one of `projections` declares exactly this object.
pub(super) fn is_declared(object: &Object, projections: &[&Description]) -> bool {
    let Object { kind, name, table, sql } = object;
    let start = match kind {
        ObjectKind::Table if table == name => format!("CREATE TABLE {name}"),
        ObjectKind::View if table == name => format!("CREATE VIEW {name}"),
        ObjectKind::Index => format!("CREATE INDEX {name} ON {table}"),
        ObjectKind::Table | ObjectKind::View | ObjectKind::Trigger => return false,
    };
    let is_named = sql.strip_prefix(&start).is_some_and(|rest| rest.starts_with([' ', '\n', '(']));
    let mut statements = projections.iter().flat_map(|projection| projection.statements);
    is_named && statements.any(|statement| statement == sql)
}

/// Makes the objects that `projections` declare, unless there are objects of their names.
pub(super) fn make_declared(db: &Connection, projections: &[&Description]) -> Result<()> {
    for statement in projections.iter().flat_map(|projection| projection.statements) {
        let words = ["CREATE TABLE ", "CREATE INDEX ", "CREATE VIEW "];
        let parts = words.into_iter().find_map(|words| Some((words, statement.strip_prefix(words)?)));
        // The engine stores the statement without these words.
        let sql = match parts {
            Some((words, rest)) => format!("{words}IF NOT EXISTS {rest}"),
            None => (*statement).to_owned(),
        };
        db.execute_batch(&sql).doing("making the tables of projections")?;
    }
    Ok(())
}

/// Returns a digest of all objects. It does not depend on their order.
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

/// Returns all differences of the file's schema from what the migrations make.
pub(in crate::store) fn differences(db: &Connection) -> Result<Vec<Difference>> {
    Ok(compare(wanted()?, &read(db)?))
}

/// Returns whether no derived object is missing or altered.
///
/// # Errors
/// [`Error::LostTable`](crate::Error::LostTable) if a table is lost that cannot be recreated.
pub(in crate::store) fn is_whole(db: &Connection) -> Result<bool> {
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
        let state = if object.keeps_rows_out() { State::Changed } else { State::Strange };
        differences.push(Difference { object: object.clone(), state });
    }
    differences
}

/// Returns the triggers and indexes of other programs on derived tables, in words. Each may reject rows.
pub(in crate::store) fn strangers(db: &Connection) -> Result<Vec<String>> {
    let strange = differences(db)?.into_iter().filter(|difference| difference.state == State::Strange);
    let objects = strange.map(|difference| difference.object);
    let of_tables = objects.filter(|object| {
        matches!(object.kind, ObjectKind::Trigger | ObjectKind::Index) && projection::owns(&object.table)
    });
    Ok(of_tables
        .map(|object| format!("the {} {} on {}", object.kind.as_str(), object.name, object.table))
        .collect())
}

/// Returns whether a file has the tables of an Annals file, whatever it says it is.
pub(in crate::store) fn is_of_annals(db: &Connection) -> Result<bool> {
    let sql = "SELECT count(*) = 4 FROM main.sqlite_schema WHERE type = 'table' \
         AND name IN ('log', 'conversation', 'event', 'refinery_schema_history')";
    db.query_row(sql, [], |row| row.get(0)).doing(DOING)
}

/// Returns the schema version that such a file has: that of its newest migration, or of its newest projection that makes
/// its tables itself.
pub(in crate::store) fn version_of_dump(db: &Connection) -> Result<u32> {
    let migrated: u32 = db
        .query_row("SELECT coalesce(max(version), 0) FROM main.refinery_schema_history", [], |row| row.get(0))
        .doing(DOING)?;
    let found = read(db)?;
    let has = |name: &str| found.iter().any(|object| object.kind == ObjectKind::Table && object.name == name);
    let declared = PROJECTIONS.iter().filter(|projection| !projection.statements.is_empty());
    let made = declared.filter(|projection| projection.tables.iter().all(|table| has(table.name)));
    Ok(made.map(|projection| projection.schema).chain([migrated]).max().unwrap_or(migrated))
}

/// Returns the names of the tables of other programs. Tables that hold the projections of hosts are left out.
pub(in crate::store) fn foreign_tables(db: &Connection) -> Result<Vec<String>> {
    let strange = differences(db)?.into_iter().filter(|difference| difference.state == State::Strange);
    let objects = strange.map(|difference| difference.object);
    let tables = objects.filter(|object| object.kind == ObjectKind::Table && !object.is_of_a_host());
    Ok(tables.map(|object| object.name).collect())
}

/// Returns the tables of other programs that refer to tables of Annals, in words. Each may keep rows from being deleted.
pub(in crate::store) fn referrers(db: &Connection) -> Result<Vec<String>> {
    let sql = "SELECT DISTINCT \"table\" FROM pragma_foreign_key_list(?1) ORDER BY 1";
    let mut referrers = Vec::new();
    for table in foreign_tables(db)? {
        let targets: Vec<String> = db
            .prepare_cached(sql)
            .and_then(|mut statement| statement.query_map([&table], |row| row.get(0))?.collect())
            .doing(DOING)?;
        let is_ours = |target: &String| {
            wanted().is_ok_and(|all| all.iter().any(|object| object.name.eq_ignore_ascii_case(target)))
        };
        let ours = targets.into_iter().filter(is_ours);
        referrers.extend(ours.map(|target| format!("the table {table}, which refers to {target}")));
    }
    Ok(referrers)
}

/// Returns the objects of a file, in the order in which they were made. Leaves out the internal tables of the engine
/// and of the migration runner, by their exact names.
pub(super) fn read(db: &Connection) -> Result<Vec<Object>> {
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
            // An index without SQL belongs to a constraint and is part of its table's statement.
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

/// An object that Annals recreates automatically if it is lost or altered.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct DerivedObject {
    /// Its kind.
    pub kind: ObjectKind,
    /// Its name.
    pub name: String,
    /// The table it belongs to. A table has its own name here.
    pub table: String,
}

/// Returns every object that opening a file recreates if it is lost or altered, in the order of the migrations.
///
/// # Errors
/// [`Error::Storage`](crate::Error::Storage) if no database can be made in memory.
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
    fn the_digest_matches_the_migrations() {
        let made = wanted().unwrap().iter().filter(|object| !is_declared(object, PROJECTIONS));
        let made = digest(&made.cloned().collect::<Vec<_>>()).to_hex();
        assert_eq!(
            made, AS_MADE,
            "the migrations make another schema: this is AS_MADE in src/store/derived/schema.rs now"
        );
        assert!(is_as_made(&migration::open_fresh().unwrap()).unwrap());
    }

    #[test]
    fn no_object_of_annals_has_a_name_that_is_left_to_hosts() {
        assert!(wanted().unwrap().iter().all(|object| !object.name.to_lowercase().starts_with(PREFIX)));
        let db = migration::open_fresh().unwrap();
        db.execute_batch("CREATE TABLE own_a_b (x); CREATE INDEX own_a_b_x ON own_a_b (x)").unwrap();
        assert!(is_as_made(&db).unwrap());
        db.execute_batch("CREATE INDEX own_a_b_task ON task (title)").unwrap();
        assert!(!is_as_made(&db).unwrap());
    }

    #[test]
    fn any_difference_changes_the_digest() {
        for sql in [
            "DROP VIEW events",
            "DROP INDEX tool_call_failed",
            "DROP TRIGGER event_update_guard",
            "CREATE TABLE theirs (x)",
            "ALTER TABLE task ADD COLUMN more TEXT",
            "CREATE UNIQUE INDEX theirs ON task (title)",
            "ALTER TABLE transcript_search_idx RENAME COLUMN pgno TO page",
            "DROP TABLE transcript_search_config; CREATE TABLE transcript_search_config (k, v)",
        ] {
            let db = migration::open_fresh().unwrap();
            db.execute_batch(sql).unwrap();
            assert!(!is_as_made(&db).unwrap(), "{sql}");
            assert_eq!(differences(&db).unwrap().len(), 1, "{sql}");
        }
    }
}
