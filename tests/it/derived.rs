//! Every derived object is restored after every damage that plain SQL can do to it. The next load repairs most damages.
//! A rebuild and `doctor --repair` repair rows that drifted silently.
//!
//! Neither objects nor damages are listed by hand, so a new table, column, index or view is tested like the others.

use std::path::Path;
use std::sync::Mutex;

use annals::doctor::{Comparison, Doctor, DoctorOptions};
use annals::replay::{Moment, Point};
use annals::state::FieldChange;
use annals::store::{
    Append, BaseStateChange, ConversationFilter, Durability, ObjectKind, Order, Repair, SqlLimits, SqlQuery,
    SqlValue, Truncation, derived_objects,
};
use annals::transfer::{Exporter, Format};
use annals::{Error, Expected, NewEvent, Options, Position, Sequence, Store};
use rusqlite::Connection;
use rusqlite::types::Value;
use serde_json::json;

use crate::support::events::{command, event, pause, printed, tool_call, updated, user_message};
use crate::support::{Scratch, conversation, is_exhaustive, number, owner, rows, sample};

/// Options without background work and without waits for the disk.
fn quick() -> Options {
    crate::support::without_projector().durability(Durability::Normal)
}

fn stats(tokens: u64) -> serde_json::Value {
    json!({"usage_to_metrics": {"agent": {"model_name": "m", "accumulated_cost": 0.5,
           "accumulated_token_usage": {"prompt_tokens": tokens, "completion_tokens": 1}}}})
}

/// Events that give every projection at least one row.
fn events(from: u64) -> Vec<NewEvent> {
    let id = |name: &str| format!("{name}{from}");
    let list = json!([{"title": "one", "notes": "n", "status": "todo"}, {"title": "two", "status": "done"}]);
    let listed =
        json!({"observation": {"task_list": list}, "correlation_id": id("work"), "causation_id": id("said")});
    let copied = json!({"provenance": {"format": "claude-code", "usage": {"model": "m", "prompt_tokens": 1},
        "record": {"cwd": "/mill", "message": {"model": "m"}}}});
    vec![
        user_message(&id("said"), "find me"),
        command(&id("action"), &id("call"), "make"),
        printed(&id("printed"), &id("action"), &id("call"), "fine", 0),
        tool_call(&id("pending"), &id("other"), "file_editor", json!({"command": "view", "path": "/a.txt"})),
        event(&id("listed"), "ObservationEvent", listed),
        event(&id("failed"), "AgentErrorEvent", json!({"tool_call_id": id("lost"), "error": "no"})),
        updated(&id("stats"), "stats", stats(100 * (from + 1))),
        event(&id("copied"), "CopiedEvent", copied),
    ]
}

/// Makes a file with rows in every derived table, and closes it.
fn template(scratch: &Scratch) {
    let store = Store::open_with(scratch.database(), &quick()).unwrap();
    for name in ["talk", "other", "third"] {
        let base_state = BaseStateChange::new(vec![
            FieldChange::set("stats", stats(7).to_string()).unwrap(),
            FieldChange::set("execution_status", "\"finished\"").unwrap(),
            FieldChange::set("user_id", "\"ada\"").unwrap(),
        ]);
        let base_state = (name != "talk").then_some(base_state);
        for batch in 0..3 {
            let append = Append::new(Expected::Any, events(batch))
                .base_state(base_state.clone().filter(|_| batch == 1));
            store.append_all(&conversation(name), append).unwrap();
        }
    }
    store.search("find", &Default::default(), 1, &mut |_| ()).unwrap();
    store.catch_up().unwrap();
}

/// Makes a conversation long enough for a snapshot, and asks for its state. A snapshot is made only by such a question, so
/// the rows of the template do not include one.
fn ask_for_a_state(scratch: &Scratch, name: &str) {
    let store = Store::open_with(scratch.database(), &quick()).unwrap();
    let pauses: Vec<NewEvent> = (0..300).map(|number| pause(&format!("pause{number}"))).collect();
    store.append(&conversation(name), Expected::Any, &pauses).unwrap();
    Moment::new(&store, &conversation(name), Point::End).unwrap().state().unwrap();
}

/// The schema and all derived rows, which must be the same again after a repair.
#[derive(Debug, PartialEq)]
struct Whole(Vec<(String, Vec<Vec<Value>>)>);

impl Whole {
    #[track_caller]
    fn of(path: &Path) -> Self {
        let db = Connection::open(path).unwrap();
        // Annals may have renamed other programs' objects that were in the way.
        let schema = "SELECT type, name, tbl_name, sql FROM sqlite_schema WHERE sql IS NOT NULL \
                      AND name NOT LIKE '%\\_aside%' ESCAPE '\\' ORDER BY type, name";
        let mut parts = vec![("schema".to_owned(), rows(&db, schema))];
        for object in derived_objects().unwrap() {
            let name = object.name;
            if object.kind != ObjectKind::Table || name.starts_with("transcript_search") {
                continue;
            }
            let columns = columns(&db, &name).len();
            let order: Vec<String> = (1..=columns).map(|column| column.to_string()).collect();
            let sql = format!("SELECT * FROM {name} ORDER BY {}", order.join(", "));
            parts.push((name, rows(&db, &sql)));
        }
        parts.push(("search".into(), rows(&db, "SELECT id, sz FROM transcript_search_docsize ORDER BY 1")));
        let words = "SELECT rowid FROM transcript_search WHERE transcript_search MATCH 'find' ORDER BY 1";
        parts.push(("words".into(), rows(&db, words)));
        Self(parts)
    }

    #[track_caller]
    fn assert_is(&self, wanted: &Self, damage: &str) {
        for ((name, now), (_, before)) in self.0.iter().zip(&wanted.0) {
            let only = |these: &[Vec<Value>], those: &[Vec<Value>]| -> Vec<Vec<Value>> {
                these.iter().filter(|row| !those.contains(row)).cloned().collect()
            };
            assert!(
                now == before,
                "{damage}: {name}: lacks {:?}, has {:?}",
                only(before, now),
                only(now, before)
            );
        }
        assert_eq!(self.0.len(), wanted.0.len());
    }
}

/// A column: its name, its type and whether it is part of the key.
struct Column {
    name: String,
    is_text: bool,
    is_key: bool,
}

fn columns(db: &Connection, table: &str) -> Vec<Column> {
    let mut statement = db.prepare("SELECT name, type, pk FROM pragma_table_info(?1)").unwrap();
    let read = |row: &rusqlite::Row<'_>| {
        let of_type: String = row.get(1)?;
        Ok(Column { name: row.get(0)?, is_text: of_type == "TEXT", is_key: row.get::<_, i64>(2)? > 0 })
    };
    statement.query_map([table], read).unwrap().collect::<rusqlite::Result<_>>().unwrap()
}

/// When a damaged object must be restored.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Restored {
    /// By the next load.
    OnLoad,
    /// By a rebuild or the doctor, because only a comparison with the log shows the damage.
    OnRequest,
}

pub struct Damage {
    pub sql: String,
    pub restored: Restored,
    is_of_a_table: bool,
}

/// All damages to all derived objects.
pub fn damages(db: &Connection) -> Vec<Damage> {
    let mut damages = Vec::new();
    let mut add = |restored, sql: String| {
        let is_of_a_table = !sql.starts_with("DROP VIEW") && !sql.starts_with("DROP INDEX");
        damages.push(Damage { sql, restored, is_of_a_table });
    };
    for object in derived_objects().unwrap() {
        let (kind, name) = (object.kind, &object.name);
        let word = kind.as_str();
        match kind {
            ObjectKind::Trigger => panic!("{name}: a guard must not be restored silently"),
            ObjectKind::View => {
                add(Restored::OnLoad, format!("DROP VIEW {name}"));
                add(Restored::OnLoad, format!("DROP VIEW {name}; CREATE VIEW {name} AS SELECT 1 AS x"));
                add(Restored::OnLoad, format!("DROP VIEW {name}; CREATE TABLE {name} (x)"));
            }
            ObjectKind::Index => {
                add(Restored::OnLoad, format!("DROP INDEX {name}"));
                let column = &columns(db, &object.table)[0].name;
                let other = format!("CREATE INDEX {name} ON {} ({column}) WHERE 0", object.table);
                add(Restored::OnLoad, format!("DROP INDEX {name}; {other}"));
                add(Restored::OnLoad, format!("DROP INDEX {name}; CREATE INDEX {name} ON log (store_id)"));
            }
            ObjectKind::Table => {
                add(Restored::OnLoad, format!("DROP {word} {name}"));
                add(Restored::OnLoad, format!("ALTER TABLE {name} RENAME TO gone_aside"));
                add(Restored::OnLoad, format!("DROP TABLE {name}; CREATE VIEW {name} AS SELECT 1 AS x"));
                add(Restored::OnLoad, format!("DROP TABLE {name}; CREATE TABLE {name} (x)"));
                if name == "transcript_search" {
                    continue; // a virtual table: its rows are those of its internal tables
                }
                add(Restored::OnLoad, format!("ALTER TABLE {name} ADD COLUMN more TEXT"));
                for column in columns(db, name) {
                    let column = column.name;
                    add(Restored::OnLoad, format!("ALTER TABLE {name} RENAME COLUMN {column} TO other"));
                }
                match name.strip_prefix("transcript_search_") {
                    Some(part) => damage_index(db, part, &mut add),
                    None => damage_rows(db, name, &mut add),
                }
            }
        }
    }
    let all = derived_objects().unwrap();
    let every = |kind: ObjectKind| {
        let drop =
            all.iter().filter(|object| object.kind == kind && !object.name.starts_with("transcript_search_"));
        drop.map(|object| format!("DROP {} IF EXISTS {};", kind.as_str(), object.name)).collect::<String>()
    };
    for kind in [ObjectKind::View, ObjectKind::Index, ObjectKind::Table] {
        add(Restored::OnLoad, every(kind));
    }
    for row in rows(db, "SELECT name FROM projection ORDER BY name") {
        let [Value::Text(projection)] = &row[..] else { panic!("{row:?}") };
        let update = |set: &str| format!("UPDATE projection SET {set} WHERE name = '{projection}'");
        for position in ["0", "1", "-5", "position / 2", "position - 1", "position + 1", "1000000"] {
            add(Restored::OnLoad, update(&format!("position = {position}")));
        }
        for version in ["0", "version + 1"] {
            add(Restored::OnLoad, update(&format!("version = {version}")));
        }
        add(Restored::OnLoad, format!("DELETE FROM projection WHERE name = '{projection}'"));
    }
    add(Restored::OnLoad, "DELETE FROM projection".into());
    add(Restored::OnLoad, "UPDATE projection SET position = 0".into());
    add(Restored::OnLoad, "INSERT INTO transcript_search (transcript_search) VALUES ('delete-all')".into());
    let row =
        "INSERT INTO transcript_search (rowid, text) VALUES ((SELECT max(position) + 1 FROM event), 'x')";
    add(Restored::OnLoad, row.into());
    damages
}

/// Adds damages to the rows of a table in which the engine stores the search index: all of them gone, one gone, and
/// every column changed.
fn damage_index(db: &Connection, part: &str, add: &mut dyn FnMut(Restored, String)) {
    use Restored::{OnLoad, OnRequest};
    let table = format!("transcript_search_{part}");
    add(OnLoad, format!("DELETE FROM {table}"));
    let of_part: &[(Restored, &str)] = match part {
        "config" => &[
            (OnLoad, "UPDATE {} SET k = k || '1'"),
            (OnLoad, "UPDATE {} SET v = 99"),
            (OnLoad, "UPDATE {} SET v = NULL"),
        ],
        "data" => &[
            (OnLoad, "DELETE FROM {} WHERE id = 1"),
            (OnLoad, "DELETE FROM {} WHERE id = 10"),
            (OnRequest, "DELETE FROM {} WHERE id = (SELECT max(id) FROM {})"),
            (OnLoad, "UPDATE {} SET id = -id - 1"),
            (OnLoad, "UPDATE {} SET block = x''"),
            (OnLoad, "UPDATE {} SET block = NULL"),
            (OnRequest, "UPDATE {} SET block = zeroblob(length(block))"),
            (OnRequest, "UPDATE {} SET block = CAST(block || x'01' AS BLOB) WHERE id > 10"),
        ],
        "docsize" => &[
            (OnRequest, "DELETE FROM {} WHERE id = 1"),
            (OnRequest, "DELETE FROM {} WHERE id = (SELECT max(id) FROM {})"),
            (OnLoad, "UPDATE {} SET id = -id - 1"),
            (OnRequest, "UPDATE {} SET sz = x''"),
            (OnRequest, "UPDATE {} SET sz = NULL"),
            (OnRequest, "UPDATE {} SET sz = x'09'"),
            (OnRequest, "UPDATE {} SET sz = CAST(sz || x'01' AS BLOB)"),
        ],
        "idx" => {
            // The only entry is all entries.
            let is_one = number(db, &format!("SELECT count(*) FROM {table}")) == 1;
            let one = "(SELECT segid, term FROM {} ORDER BY segid, term LIMIT 1)".replace("{}", &table);
            let restored = if is_one { OnLoad } else { OnRequest };
            add(restored, format!("DELETE FROM {table} WHERE (segid, term) = {one}"));
            &[
                (OnLoad, "UPDATE {} SET segid = -segid - 1"),
                (OnRequest, "UPDATE {} SET term = CAST(term || x'ff' AS BLOB)"),
                (OnRequest, "UPDATE {} SET pgno = -pgno - 1"),
                (OnRequest, "UPDATE {} SET pgno = pgno + 2"),
                (OnRequest, "UPDATE {} SET pgno = NULL"),
            ]
        }
        _ => panic!("no damage to the rows of {table} is listed"),
    };
    for (restored, sql) in of_part {
        add(*restored, sql.replace("{}", &table));
    }
}

/// Adds all damages to the rows of a table.
fn damage_rows(db: &Connection, table: &str, add: &mut dyn FnMut(Restored, String)) {
    if matches!(table, "projection" | "usage_stale" | "fact_stale") {
        return; // checkpoints have damages of their own, and the lists of what is stale are empty at rest
    }
    let columns = columns(db, table);
    add(Restored::OnRequest, format!("DELETE FROM {table}"));
    for column in &columns {
        let name = &column.name;
        let other = if column.is_text { format!("{name} || '1'") } else { format!("-{name} - 1") };
        let sql = format!("UPDATE {table} SET {name} = {other} WHERE {name} IS NOT NULL");
        let refers = name == "conversation";
        add(Restored::OnRequest, if refers { format!("PRAGMA foreign_keys = OFF; {sql}") } else { sql });
    }
    if !columns.iter().any(|column| column.name == "position") {
        return;
    }
    // A row for an event that does not exist yet.
    let values: Vec<String> = columns
        .iter()
        .map(|column| match column.name.as_str() {
            "position" => "(SELECT max(position) + 1 FROM event)".into(),
            name if column.is_key && name != "conversation" => format!("{name} + 100"),
            name => name.into(),
        })
        .collect();
    add(Restored::OnLoad, format!("INSERT INTO {table} SELECT {} FROM {table} LIMIT 1", values.join(", ")));
}

fn doctor(store: &Store) -> Vec<Repair> {
    let options = DoctorOptions::default().comparison(Comparison::Everything).quiet_for_us(0);
    let doctor = Doctor::new(store, options);
    let found = doctor.examine(None, &mut |_| ()).unwrap().findings;
    let derived = found
        .iter()
        .filter(|finding| ["drifted-projection", "catalogue"].contains(&finding.trouble.as_str()));
    derived
        .filter(|finding| finding.remedy.is_some())
        .map(|finding| doctor.repair(finding).unwrap())
        .collect()
}

/// Opens the file, appends to it and reads from it. Returns the open store.
fn open_and_use(path: &Path) -> Result<Store, Error> {
    let store = Store::open_with(path, &quick())?;
    append_and_read(&store)?;
    Ok(store)
}

fn append_and_read(store: &Store) -> Result<(), Error> {
    store.append(&conversation("talk"), Expected::Any, &events(9))?;
    store.transcript(&conversation("talk"), Sequence(0), 1)?;
    store.search("find", &Default::default(), 1, &mut |_| ())?;
    store.catch_up()
}

#[test]
fn every_derived_object_is_restored_after_every_damage() {
    let scratch = Scratch::new();
    template(&scratch);
    let sound = scratch.path("sound.db");
    std::fs::copy(scratch.database(), &sound).unwrap();
    drop(open_and_use(&sound).unwrap());
    let wanted = Whole::of(&sound);
    let damages = Mutex::new(sample(damages(&scratch.foreign()), 9).into_iter().enumerate());
    let next = || damages.lock().unwrap_or_else(std::sync::PoisonError::into_inner).next();
    let failed = Mutex::new(Vec::new());
    let check = || {
        let mut tried = 0;
        while let Some((number, damage)) = next() {
            // Views and indexes are restored before any command begins.
            let ways = if damage.is_of_a_table { &["load", "rebuild", "doctor"][..] } else { &["load"] };
            for way in ways {
                let path = scratch.path(&format!("{number}-{way}.db"));
                let outcome = std::panic::catch_unwind(|| {
                    assert_restored(&scratch.database(), &path, &damage, way, &wanted);
                });
                if outcome.is_err() {
                    failed.lock().unwrap().push(format!("{} ({way})", damage.sql));
                }
                std::fs::remove_file(path).unwrap();
            }
            tried += 1;
        }
        tried
    };
    let tried: u64 = std::thread::scope(|scope| {
        let lanes: Vec<_> = (0..2).map(|_| scope.spawn(check)).collect();
        lanes.into_iter().map(|lane| lane.join().unwrap()).sum()
    });
    let failed = failed.into_inner().unwrap();
    assert!(failed.is_empty(), "{} of {tried} damages (each above): {failed:#?}", failed.len());
    assert!(tried > if is_exhaustive() { 200 } else { 20 }, "only {tried} damages were tried");
}

/// Everything that the engine says about a file's schema: the objects with their SQL, the columns of tables, views and
/// indexes, and the foreign keys.
#[track_caller]
fn schema(path: &Path) -> Vec<Vec<Vec<Value>>> {
    let db = Connection::open(path).unwrap();
    let of = [
        "SELECT type, name, tbl_name, sql FROM sqlite_schema WHERE name <> 'refinery_schema_history' \
         ORDER BY type, name",
        "SELECT o.name, c.* FROM sqlite_schema AS o JOIN pragma_table_xinfo(o.name) AS c \
         WHERE o.type IN ('table', 'view') ORDER BY o.name, c.cid",
        "SELECT o.name, c.* FROM sqlite_schema AS o JOIN pragma_index_xinfo(o.name) AS c \
         WHERE o.type = 'index' ORDER BY o.name, c.seqno",
        "SELECT o.name, k.* FROM sqlite_schema AS o JOIN pragma_foreign_key_list(o.name) AS k \
         WHERE o.type = 'table' ORDER BY o.name, k.id, k.seq",
    ];
    of.map(|sql| rows(&db, sql)).into()
}

#[track_caller]
fn assert_same_schema(path: &Path, wanted: &[Vec<Vec<Value>>], damage: &str) {
    for (now, wanted) in schema(path).iter().zip(wanted) {
        let only = |these: &[Vec<Value>], those: &[Vec<Value>]| -> Vec<Vec<Value>> {
            these.iter().filter(|row| !those.contains(row)).cloned().collect()
        };
        assert!(now == wanted, "{damage}: lacks {:?}, has {:?}", only(wanted, now), only(now, wanted));
    }
}

#[test]
fn a_restored_object_is_that_of_a_new_file_with_every_column_index_and_trigger() {
    let scratch = Scratch::new();
    let (new, used) = (scratch.path("new.db"), scratch.database());
    drop(Store::open_with(&new, &quick()).unwrap());
    let wanted = schema(&new);
    template(&scratch);
    let objects = derived_objects().unwrap();
    let mut tried = 0;
    for file in [&new, &used] {
        for object in &objects {
            let copy = scratch.path(&format!("{tried}.db"));
            std::fs::copy(file, &copy).unwrap();
            let damage = format!("DROP {} {}", object.kind.as_str(), object.name);
            Connection::open(&copy).unwrap().execute_batch(&damage).unwrap();
            let store = expect_ok(&damage, Store::open_with(&copy, &quick()));
            assert_ne!(store.maintenance().made_again(), Vec::<String>::new(), "{damage}");
            drop(store);
            assert_same_schema(&copy, &wanted, &damage);
            tried += 1;
        }
    }
    assert!(tried > 80, "only {tried} were tried");
    // A file of an older schema is upgraded without any of its derived objects.
    let folder = std::fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/old")).unwrap();
    let files = folder.map(|entry| entry.unwrap().path());
    let mut olds = 0;
    for old in files.filter(|path| path.extension().is_some_and(|ending| ending == "db")) {
        let copy = scratch.path(&format!("old-{olds}.db"));
        std::fs::copy(&old, &copy).unwrap();
        let db = Connection::open(&copy).unwrap();
        for kind in [ObjectKind::View, ObjectKind::Index, ObjectKind::Table] {
            let of_kind = objects.iter().filter(|object| object.kind == kind);
            for object in of_kind.filter(|object| !object.name.starts_with("transcript_search_")) {
                db.execute_batch(&format!("DROP {} IF EXISTS {}", kind.as_str(), object.name)).unwrap();
            }
        }
        drop(db);
        let damage = format!("all derived objects of {}", old.display());
        drop(expect_ok(&damage, Store::open_with(&copy, &quick())));
        assert_same_schema(&copy, &wanted, &damage);
        olds += 1;
    }
    assert!(olds > 0);
}

#[test]
fn a_deleted_conversation_leaves_no_row_in_any_derived_table() {
    let scratch = Scratch::new();
    template(&scratch);
    ask_for_a_state(&scratch, "talk");
    let db = scratch.foreign();
    let key = number(&db, "SELECT key FROM conversation WHERE id = 'talk'");
    let positions = rows(&db, &format!("SELECT position FROM event WHERE conversation = {key}"));
    let positions: Vec<String> = positions
        .iter()
        .map(|row| match &row[..] {
            [Value::Integer(position)] => position.to_string(),
            other => panic!("{other:?}"),
        })
        .collect();
    let positions = positions.join(", ");
    // Checkpoints are of the whole file. Of the tables of the search index, one has a row for each event.
    let tables = derived_objects().unwrap().into_iter().filter(|object| object.kind == ObjectKind::Table);
    let tables = tables.map(|object| object.name).filter(|name| name != "projection");
    let counts: Vec<(String, String)> = tables
        .filter(|name| !name.starts_with("transcript_search") || name == "transcript_search_docsize")
        .map(|name| {
            let columns: Vec<String> = columns(&db, &name).into_iter().map(|column| column.name).collect();
            let has = |column: &str| columns.iter().any(|other| other == column);
            let own = if name == "transcript_search_docsize" {
                format!("id IN ({positions})")
            } else if has("conversation") {
                format!("conversation = {key}")
            } else {
                assert!(has("position"), "{name} does not say which conversation a row belongs to");
                format!("position IN ({positions})")
            };
            let sql = format!("SELECT count(*) FROM {name} WHERE {own}");
            (name, sql)
        })
        .collect();
    for (name, sql) in counts.iter().filter(|(name, _)| !name.ends_with("_stale")) {
        assert_ne!(number(&db, sql), 0, "the conversation has no row in {name}: extend `events` above");
    }
    let store = Store::open_with(scratch.database(), &quick()).unwrap();
    store.retention().delete(&conversation("talk")).unwrap();
    for (name, sql) in &counts {
        assert_eq!(number(&db, sql), 0, "{name}");
    }
    store.catch_up().unwrap();
    assert_eq!(store.audit().verify_projections(&mut |_| ()).unwrap().findings, []);
}

/// The value of a result. Panics with the damage `what` if it is an error.
#[track_caller]
fn expect_ok<T>(what: &str, result: Result<T, Error>) -> T {
    result.unwrap_or_else(|error| panic!("{what}: {error} {:?}", std::error::Error::source(&error)))
}

/// Damages a copy of the file, and asserts that it is restored in the given way.
fn assert_restored(template: &Path, path: &Path, damage: &Damage, way: &str, wanted: &Whole) {
    let what = format!("{} ({way})", damage.sql);
    std::fs::copy(template, path).unwrap();
    let db = Connection::open(path).unwrap();
    // Without this pragma, SQLite rejects a rename if a view is broken.
    db.execute_batch(&format!("PRAGMA legacy_alter_table = ON; {}", damage.sql))
        .unwrap_or_else(|error| panic!("{what}: {error}"));
    drop(db);
    if way == "load" && damage.restored == Restored::OnRequest {
        return;
    }
    if way != "load" {
        // The first command on the damaged file.
        let store = expect_ok(&what, Store::open_with(path, &quick()));
        match way {
            "rebuild" => expect_ok(&what, store.maintenance().rebuild(&[], &mut |_| ())),
            _ => drop(doctor(&store)),
        }
    }
    let store = expect_ok(&what, open_and_use(path));
    let findings = expect_ok(&what, store.audit().verify(None, &mut |_| ())).findings;
    assert_eq!(findings, [], "{what}");
    if way != "load" {
        let findings = expect_ok(&what, store.audit().verify_projections(&mut |_| ())).findings;
        assert_eq!(findings, [], "{what}");
    }
    drop(store);
    Whole::of(path).assert_is(wanted, &what);
}

#[test]
fn silent_drift_is_found_by_verification() {
    let scratch = Scratch::new();
    template(&scratch);
    let silent =
        damages(&scratch.foreign()).into_iter().filter(|damage| damage.restored == Restored::OnRequest);
    let (mut tried, mut missed) = (0, Vec::new());
    for (number, damage) in silent.enumerate() {
        let path = scratch.path(&format!("{number}.db"));
        std::fs::copy(scratch.database(), &path).unwrap();
        let db = Connection::open(&path).unwrap();
        db.execute_batch(&damage.sql).unwrap();
        let changed = db.changes() > 0;
        drop(db);
        let store = Store::open_with(&path, &quick()).unwrap();
        let is_found = !store.audit().verify_projections(&mut |_| ()).unwrap().findings.is_empty()
            || !store.audit().verify(None, &mut |_| ()).unwrap().findings.is_empty();
        if changed && !is_found {
            missed.push(damage.sql);
        }
        tried += u64::from(is_found);
    }
    assert!(missed.is_empty(), "verify does not find {missed:#?}");
    assert!(tried > 20, "only {tried} were found");
}

/// The columns of the catalogue that are not derived: its key, and those that only a person or an import sets.
const GIVEN: &[&str] =
    &["key", "id", "title", "tags", "parent", "forked_from", "forked_at", "foreign_format"];

#[test]
fn every_derived_column_of_the_catalogue_is_restored() {
    let scratch = Scratch::new();
    template(&scratch);
    let columns = columns(&scratch.foreign(), "conversation");
    // Texts that cannot be read are compared, too.
    let bytes: Vec<String> =
        columns.iter().map(|Column { name, .. }| format!("typeof({name}), hex({name})")).collect();
    let row = |path: &Path| {
        let sql = format!("SELECT {} FROM conversation ORDER BY key", bytes.join(", "));
        rows(&Connection::open(path).unwrap(), &sql)
    };
    let harm = |path: &Path, sql: &str| {
        let db = owner(path);
        db.execute_batch("PRAGMA ignore_check_constraints = ON").unwrap();
        db.execute(sql, [])
    };
    let wanted = row(&scratch.database());
    let events = Store::open_with(scratch.database(), &quick()).unwrap().last_position().unwrap().0;
    let mut tried = 0;
    const VALUES: [&str; 9] = [
        "zeroblob(32)",
        "5",
        "-5",
        "9223372036854775807",
        "'said0'",
        "''",
        "x''",
        "zeroblob(100000)",
        "CAST(x'ff00' AS TEXT)",
    ];
    let derived = columns.iter().map(|column| &*column.name).filter(|column| !GIVEN.contains(column));
    let damages = derived.flat_map(|column| VALUES.map(|value| (column, value)));
    for (column, value) in sample(damages, 4) {
        for (number, way) in ["rebuild", "rebuild catalogue", "doctor"].into_iter().enumerate() {
            let what = format!("{column} = {value} ({way})");
            let path = scratch.path(&format!("{column}-{tried}-{number}.db"));
            std::fs::copy(scratch.database(), &path).unwrap();
            let sql = format!("UPDATE conversation SET {column} = {value} WHERE id = 'talk'");
            if harm(&path, &sql).is_err() || row(&path) == wanted {
                continue; // the column's type rejects this value
            }
            let store = Store::open_with(&path, &quick()).unwrap();
            let seen = expect_ok(&what, store.audit().verify(None, &mut |_| ()));
            assert_eq!((seen.findings.len(), seen.events), (1, events), "{what}: {:?}", seen.findings);
            let listed =
                expect_ok(&what, store.conversations(&Default::default(), Default::default(), None, 10));
            assert_eq!(listed.conversations.len(), 3, "{what}");
            let ends = ["event_count", "head_hash"].contains(&column);
            let refused = store.append(&conversation("talk"), Expected::Any, &[user_message("new", "x")]);
            assert!(!ends || matches!(refused, Err(Error::CatalogueContradicts(_))), "{what}");
            // The comparison must not contain the appended event. So use another copy, at a path that is not open.
            drop(store);
            let path = scratch.path(&format!("{column}-{tried}-{number}-again.db"));
            std::fs::copy(scratch.database(), &path).unwrap();
            harm(&path, &sql).unwrap();
            let store = Store::open_with(&path, &quick()).unwrap();
            match way {
                "rebuild" => expect_ok(&what, store.maintenance().rebuild(&[], &mut |_| ())),
                "rebuild catalogue" => {
                    expect_ok(&what, store.maintenance().rebuild(&["catalogue"], &mut |_| ()))
                }
                _ => drop(doctor(&store)),
            }
            assert_eq!(row(&path), wanted, "{what}");
            let seen = store.audit().verify(None, &mut |_| ()).unwrap();
            assert_eq!(seen.findings, [], "{what}");
            let receipts = store.maintenance().repairs(None).unwrap();
            let [receipt] = &receipts[..] else { panic!("{what}: {receipts:?}") };
            let [note] = &seen.notes[..] else { panic!("{what}: {:?}", seen.notes) };
            assert!(note.what.ends_with(&receipt.found), "{what}: {}", note.what);
            assert_eq!(receipt.conversation.as_deref(), Some("talk"));
            assert!(!ends || receipt.found.contains("and ends at"), "{what}: {}", receipt.found);
            let first = store
                .append(&conversation("talk"), Expected::Exact(24), &[user_message("new", "x")])
                .unwrap()[0];
            assert_eq!(first.sequence, Sequence(24), "{what}");
            tried += 1;
        }
    }
    assert!(tried > if is_exhaustive() { 60 } else { 15 }, "only {tried} were tried");
}

#[test]
fn a_damaged_value_of_the_catalogue_ends_no_list_and_no_export() {
    let scratch = Scratch::new();
    template(&scratch);
    // This conversation has a base state, into which an export writes HEAD.
    let other = conversation("other");
    let all = ["talk", "other", "third"].map(conversation);
    let mut tried = 0;
    for column in columns(&scratch.foreign(), "conversation") {
        let value = match &*column.name {
            "id" => continue, // the name of the conversation itself
            "head_hash" => "x'00'",
            _ if column.is_text => "CAST(x'61ff0062' AS TEXT)",
            _ => continue, // the type of the column rejects all but numbers
        };
        let what = format!("{} = {value}", column.name);
        let path = scratch.path(&format!("{}.db", column.name));
        std::fs::copy(scratch.database(), &path).unwrap();
        let sql = format!("UPDATE conversation SET {} = {value} WHERE id = 'other'", column.name);
        owner(&path).execute_batch(&format!("PRAGMA ignore_check_constraints = ON; {sql}")).unwrap();
        let store = Store::open_with(&path, &quick()).unwrap();
        for filter in [
            ConversationFilter::default(),
            ConversationFilter::default().title("find".to_owned()),
            ConversationFilter::default().tags(vec![("tag".into(), None)]),
        ] {
            let page = expect_ok(&what, store.conversations(&filter, Order::default(), None, 10));
            let count = expect_ok(&what, store.count_conversations(&filter));
            assert_eq!(page.conversations.len() as u64, count, "{what}");
        }
        let row = expect_ok(&what, store.conversation(&other));
        assert_eq!((row.event_count, &*row.tags), (24, "{}"), "{what}");
        assert_eq!(expect_ok(&what, store.base_state(&other)).unwrap().version.0, 1, "{what}");
        assert_ne!(expect_ok(&what, store.audit().verify(None, &mut |_| ())).findings, [], "{what}");
        let exporter = Exporter::new(&store, Format::OpenHands);
        let to = scratch.path(&column.name);
        for id in &all {
            let report = expect_ok(&what, exporter.export(id, &to, &mut |_| ()));
            assert_eq!(report.events, 24, "{what}");
        }
        expect_ok(&what, store.maintenance().rebuild(&[], &mut |_| ()));
        tried += 1;
    }
    assert!(tried > 8, "only {tried} were tried");
}

#[test]
fn appends_are_rejected_if_the_catalogue_contradicts_the_log() {
    let scratch = Scratch::new();
    template(&scratch);
    let store = Store::open_with(scratch.database(), &quick()).unwrap();
    let talk = conversation("talk");
    let count =
        |db: &Connection| db.query_row("SELECT count(*) FROM event", [], |row| row.get::<_, i64>(0)).unwrap();
    let db = scratch.foreign();
    let before = count(&db);
    db.execute_batch("UPDATE conversation SET event_count = event_count - 1 WHERE id = 'talk'").unwrap();
    // The error is no conflict, because a retry with the expected number would fail too.
    for expected in [Expected::Any, Expected::Exists, Expected::Exact(23), Expected::Exact(24)] {
        let refused = store.append(&talk, expected, &[user_message("new", "x")]).unwrap_err();
        let Error::CatalogueContradicts(contradiction) = refused else { panic!("{expected:?}: {refused}") };
        assert_eq!((contradiction.catalogue_count, contradiction.log_count), (23, 24));
    }
    assert_eq!(count(&db), before);
    store.append(&conversation("other"), Expected::Exact(24), &[user_message("new", "x")]).unwrap();
    store.maintenance().remake_catalogue(&talk).unwrap().expect("the catalogue was repaired");
    assert_eq!(store.maintenance().remake_catalogue(&talk).unwrap(), None);
    store.append(&talk, Expected::Exact(24), &[user_message("new", "x")]).unwrap();
}

#[test]
fn another_programs_objects_stay_and_are_named() {
    let scratch = Scratch::new();
    template(&scratch);
    let db = scratch.foreign();
    db.execute_batch(
        "CREATE TABLE theirs (x); INSERT INTO theirs VALUES (1); CREATE INDEX theirs_too ON tool_call (risk);
         CREATE VIEW shown AS SELECT 1; CREATE TABLE seen (position INTEGER) STRICT;
         CREATE TRIGGER watching AFTER INSERT ON tool_call BEGIN INSERT INTO seen VALUES (NEW.position); END;
         CREATE TRIGGER transcript_search_x AFTER INSERT ON log BEGIN SELECT 1; END;
         ALTER TABLE tool_call ADD COLUMN more TEXT;",
    )
    .unwrap();
    drop(db);
    let store = Store::open_with(scratch.database(), &quick()).unwrap();
    assert!(
        store.maintenance().made_again().contains(&"table tool_call".to_owned()),
        "{:?}",
        store.maintenance().made_again()
    );
    store.catch_up().unwrap();
    let db = scratch.foreign();
    let theirs = "SELECT name FROM sqlite_schema WHERE name IN \
                  ('theirs', 'theirs_too', 'shown', 'seen', 'watching', 'transcript_search_x')";
    assert_eq!(rows(&db, theirs).len(), 6);
    assert_ne!(rows(&db, "SELECT position FROM seen").len(), 0, "their trigger fires for restored rows");
    let seen = store.audit().verify(None, &mut |_| ()).unwrap();
    let whats: Vec<&str> = seen.findings.iter().map(|finding| finding.what.as_str()).collect();
    for trigger in ["watching on tool_call", "transcript_search_x on log"] {
        let named = format!("the trigger {trigger} is not of Annals' making");
        assert!(whats.iter().any(|what| what.contains(&named)), "{whats:?}");
    }
    assert_eq!(whats.len(), 2, "{whats:?}");
    assert_eq!(seen.notes.len(), 4, "{:?}", seen.notes);
    let refused = store.maintenance().strange_triggers().unwrap();
    assert_eq!(refused.len(), 2, "{refused:?}");
}

#[test]
fn another_programs_unique_index_on_a_derived_table_is_dropped_and_the_rows_come_back() {
    let scratch = Scratch::new();
    template(&scratch);
    let sound = scratch.path("sound.db");
    std::fs::copy(scratch.database(), &sound).unwrap();
    drop(open_and_use(&sound).unwrap());
    let wanted = Whole::of(&sound);
    let db = scratch.foreign();
    let objects = derived_objects().unwrap();
    let tables = objects.iter().filter(|object| object.kind == ObjectKind::Table);
    let mut harms: Vec<(&str, String)> = tables
        .map(|object| object.name.as_str())
        .filter(|name| *name != "transcript_search") // no table of its own
        .map(|name| {
            let columns = columns(&db, name);
            let keys: Vec<&str> =
                columns.iter().filter(|column| column.is_key).map(|column| column.name.as_str()).collect();
            let harm = if name.starts_with("transcript_search_") {
                format!("CREATE UNIQUE INDEX theirs ON {name} ({})", keys.join(", "))
            } else {
                let last = &columns.last().unwrap().name;
                format!("DELETE FROM {name}; CREATE UNIQUE INDEX theirs ON {name} ({last})")
            };
            (name, harm)
        })
        .collect();
    // It may have the name of one of our indexes.
    let ours = objects.iter().find(|object| object.kind == ObjectKind::Index && object.table == "tool_call");
    let ours = &ours.unwrap().name;
    let create = format!("CREATE UNIQUE INDEX {ours} ON tool_call (outcome)");
    harms.push(("tool_call", format!("DROP INDEX {ours}; DELETE FROM tool_call; {create}")));
    drop(db);
    for (number, (table, harm)) in harms.iter().enumerate() {
        for is_open in [false, true] {
            let path = scratch.path(&format!("{number}-{is_open}.db"));
            std::fs::copy(scratch.database(), &path).unwrap();
            let early = is_open.then(|| Store::open_with(&path, &quick()).unwrap());
            Connection::open(&path).unwrap().execute_batch(harm).unwrap_or_else(|e| panic!("{harm}: {e}"));
            if !is_open && harm.contains("theirs") {
                assert_reported_to_a_reader(&path, table);
            }
            let store = match early {
                Some(store) => {
                    expect_ok(harm, append_and_read(&store));
                    store
                }
                None => expect_ok(harm, open_and_use(&path)),
            };
            assert_ne!(store.maintenance().made_again(), Vec::<String>::new(), "{harm}");
            assert_eq!(expect_ok(harm, store.audit().verify(None, &mut |_| ())).findings, [], "{harm}");
            assert_eq!(expect_ok(harm, store.audit().verify_projections(&mut |_| ())).findings, [], "{harm}");
            drop(store);
            Whole::of(&path).assert_is(&wanted, harm);
        }
    }
    assert!(harms.len() > 8, "only {harms:?} were tried");
}

/// Asserts that a read-only store answers nothing from a table with another program's unique index `theirs`, and that
/// its verification names the index.
#[track_caller]
fn assert_reported_to_a_reader(path: &Path, table: &str) {
    let reader = Store::open_with(path, &Options::default().read_only(true)).unwrap();
    let refused = reader.transcript(&conversation("talk"), Sequence(0), 1).unwrap_err();
    let named = format!("table {table}");
    assert!(matches!(&refused, Error::NotDerived { object } if *object == named), "{table}: {refused}");
    let findings = reader.audit().verify(None, &mut |_| ()).unwrap().findings;
    assert!(
        findings.iter().any(|finding| finding.what.contains("the index theirs")),
        "{table}: {findings:?}"
    );
}

#[test]
fn an_error_of_a_projection_names_the_trigger_that_caused_it() {
    for table in ["transcript_line", "tool_call", "task"] {
        let scratch = Scratch::new();
        template(&scratch);
        let trigger =
            format!("CREATE TRIGGER theirs BEFORE INSERT ON {table} BEGIN SELECT RAISE(ABORT, 'no'); END");
        scratch.foreign().execute_batch(&trigger).unwrap();
        let store = Store::open_with(scratch.database(), &quick()).unwrap();
        store.append(&conversation("talk"), Expected::Any, &events(9)).unwrap();
        let named = format!("no (not of Annals' making: the trigger theirs on {table})");
        let talk = conversation("talk");
        for refused in [
            store.transcript(&talk, Sequence(0), 1).map(drop),
            store.catch_up(),
            store.maintenance().rebuild(&[], &mut |_| ()),
        ] {
            let error = refused.unwrap_err().to_string();
            assert!(error.contains(&named), "{table}: {error}");
        }
        // What needs no derived table still answers.
        assert_eq!(store.conversation(&talk).unwrap().event_count, 32);
        scratch.foreign().execute_batch("DROP TRIGGER theirs").unwrap();
        store.catch_up().unwrap();
        assert_eq!(store.audit().verify_projections(&mut |_| ()).unwrap().findings, []);
    }
}

#[test]
fn a_lost_table_that_is_not_derived_is_never_recreated() {
    let scratch = Scratch::new();
    template(&scratch);
    let derived: Vec<String> = derived_objects().unwrap().into_iter().map(|object| object.name).collect();
    let mut tried = 0;
    for table in rows(&scratch.foreign(), "SELECT name FROM sqlite_schema WHERE type = 'table'") {
        let [Value::Text(table)] = &table[..] else { panic!("{table:?}") };
        let of_others =
            ["sqlite_sequence", "refinery_schema_history", "maintenance"].contains(&table.as_str());
        if of_others || derived.contains(table) {
            continue;
        }
        for harm in ["DROP TABLE", "ALTER TABLE"] {
            let path = scratch.path(&format!("{table}-{tried}.db"));
            std::fs::copy(scratch.database(), &path).unwrap();
            let sql = match harm {
                "DROP TABLE" => format!("DROP TABLE {table}"),
                _ => format!("ALTER TABLE {table} RENAME TO elsewhere"),
            };
            Connection::open(&path)
                .unwrap()
                .execute_batch(&format!("PRAGMA foreign_keys = OFF; PRAGMA legacy_alter_table = ON; {sql}"))
                .unwrap();
            let error = Store::open_with(&path, &quick()).unwrap_err();
            let Error::LostTable { table: named } = &error else { panic!("{sql}: {error:?}") };
            assert_eq!(named, table);
            tried += 1;
        }
    }
    assert!(tried > 30, "only {tried} were tried");
}

#[test]
fn guards_are_restored_on_request_and_leave_a_receipt() {
    let scratch = Scratch::new();
    template(&scratch);
    let guards =
        rows(&scratch.foreign(), "SELECT name, sql FROM sqlite_schema WHERE type = 'trigger' ORDER BY name");
    assert!(guards.len() >= 13);
    for (number, guard) in guards.iter().enumerate() {
        let [Value::Text(name), Value::Text(sql)] = &guard[..] else { panic!("{guard:?}") };
        let table = sql.split(" ON ").nth(1).and_then(|rest| rest.split_whitespace().next()).unwrap();
        let altered =
            format!("DROP TRIGGER {name}; CREATE TRIGGER {name} AFTER INSERT ON {table} BEGIN SELECT 1; END");
        for (way, harm) in [format!("DROP TRIGGER {name}"), altered].into_iter().enumerate() {
            let path = scratch.path(&format!("{number}-{way}.db"));
            std::fs::copy(scratch.database(), &path).unwrap();
            Connection::open(&path).unwrap().execute_batch(&harm).unwrap();
            let store = Store::open_with(&path, &quick()).unwrap();
            let found = store.maintenance().changed_guards().unwrap();
            assert!(found.len() == 1 && found[0].contains(name.as_str()), "{harm}: {found:?}");
            let doctor = Doctor::new(&store, DoctorOptions::default().quiet_for_us(0));
            let findings = doctor.examine(None, &mut |_| ()).unwrap().findings;
            let finding = findings.iter().find(|finding| finding.trouble.as_str() == "guards").unwrap();
            let receipt = doctor.repair(finding).unwrap();
            assert!(receipt.found.contains(name.as_str()), "{receipt:?}");
            assert_eq!(store.maintenance().changed_guards().unwrap(), Vec::<String>::new(), "{harm}");
            assert_eq!(store.maintenance().repairs(None).unwrap(), [receipt]);
            let db = Connection::open(&path).unwrap();
            let again = rows(&db, "SELECT name, sql FROM sqlite_schema WHERE type = 'trigger' ORDER BY name");
            assert_eq!(again, guards, "{harm}");
        }
    }
}

#[test]
fn a_read_only_file_reports_the_object_it_lacks() {
    let scratch = Scratch::new();
    template(&scratch);
    scratch.foreign().execute_batch("DROP TABLE usage_stale").unwrap();
    let options = Options::default().read_only(true);
    let store = Store::open_with(scratch.database(), &options).unwrap();
    let refused = store.transcript(&conversation("talk"), Sequence(0), 1).unwrap_err();
    assert!(matches!(&refused, Error::NotDerived { object } if object == "table usage_stale"), "{refused}");
    let seen = store.audit().verify_projections(&mut |_| ()).unwrap();
    assert!(seen.findings.iter().any(|finding| finding.what.contains("usage_stale")), "{:?}", seen.findings);
    // The log itself can still be read.
    assert_eq!(store.conversation(&conversation("talk")).unwrap().event_count, 24);
}

#[test]
fn a_read_only_file_that_lags_reports_which_answers_may_lack_the_newest_events() {
    let scratch = Scratch::new();
    template(&scratch);
    let store = Store::open_with(scratch.database(), &quick()).unwrap();
    let reached = store.last_position().unwrap();
    let head = store.append(&conversation("talk"), Expected::Any, &events(9)).unwrap()[7].position;
    assert_eq!(head, Position(reached.0 + 8));
    drop(store);

    let reader = Store::open_with(scratch.database(), &Options::default().read_only(true)).unwrap();
    for status in reader.maintenance().projections().unwrap() {
        assert_eq!((status.position, status.last_position), (reached, head), "{}", status.name);
    }
    let ask = |sql: &str, rows_max: usize| {
        let limits = SqlLimits::default().rows_max(rows_max);
        reader.query(&SqlQuery::new(sql).limits(limits)).unwrap()
    };
    let count = |sql: &str| {
        let answer = ask(sql, 10);
        let [row] = &answer.rows[..] else { panic!("{sql}: {:?}", answer.rows) };
        let [SqlValue::Integer(count)] = row[..] else { panic!("{sql}: {row:?}") };
        (count.cast_unsigned(), answer.truncated)
    };
    let behind = Some(Truncation::Behind);
    let of_transcript = "SELECT count(*) FROM transcript";
    assert_eq!(count("SELECT count(*) FROM events"), (head.0, None));
    assert_eq!(count("SELECT count(*) FROM base_states"), (2, None));
    assert_eq!(count(of_transcript), (reached.0, behind));
    assert_eq!(count("SELECT count(*) FROM tool_calls WHERE action_id = 'action9'"), (0, behind));
    assert_eq!(count("WITH t AS (SELECT title FROM tasks) SELECT count(*) FROM t").1, behind);
    // Rows that a limit cut off come first: more rows would be there at once.
    assert_eq!(ask("SELECT position FROM transcript", 3).truncated, Some(Truncation::Rows));
    assert_eq!(reader.transcript(&conversation("talk"), Sequence(0), 100).unwrap().len(), 24);

    Store::open_with(scratch.database(), &quick()).unwrap().catch_up().unwrap();
    assert_eq!(count(of_transcript), (head.0, None));
    assert_eq!(reader.transcript(&conversation("talk"), Sequence(0), 100).unwrap().len(), 32);
}

#[test]
fn an_object_lost_under_an_open_store_is_restored_by_the_next_read() {
    let scratch = Scratch::new();
    template(&scratch);
    let store = Store::open_with(scratch.database(), &quick()).unwrap();
    let talk = conversation("talk");
    let lines = store.transcript(&talk, Sequence(0), 100).unwrap();
    for harm in [
        "DROP TABLE transcript_line",
        "DROP TABLE projection",
        "DROP TABLE usage_stale",
        "DROP VIEW transcript",
    ] {
        scratch.foreign().execute_batch(harm).unwrap();
        assert_eq!(store.transcript(&talk, Sequence(0), 100).unwrap(), lines, "{harm}");
    }
    assert_eq!(
        store.maintenance().made_again(),
        ["table transcript_line", "table projection", "table usage_stale", "view transcript"]
    );
}
