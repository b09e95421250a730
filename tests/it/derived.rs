//! Whatever is derived comes back: every object, damaged in every way that plain SQL can damage it, by itself on
//! the next load; what only drifted in silence by a rebuild, and by `doctor --repair`.
//!
//! Neither objects nor damages are listed by hand: a new table, column, index or view is damaged like the others.

use std::path::Path;
use std::sync::Mutex;

use annals::doctor::{Comparison, Doctor, DoctorOptions};
use annals::state::base::FieldChange;
use annals::store::{Append, BaseStateChange, Durability, ObjectKind, Repair, derived_objects};
use annals::{Error, Expected, NewEvent, Options, Sequence, Store};
use rusqlite::Connection;
use rusqlite::types::Value;
use serde_json::json;

use crate::support::events::{called, command, event, printed, said, updated};
use crate::support::{Scratch, conversation, rows};

/// Options under which nothing happens by itself and nothing waits for a disk.
fn quick() -> Options {
    Options { durability: Durability::Normal, ..crate::support::still() }
}

fn stats(tokens: u64) -> serde_json::Value {
    json!({"usage_to_metrics": {"agent": {"model_name": "m", "accumulated_cost": 0.5,
           "accumulated_token_usage": {"prompt_tokens": tokens, "completion_tokens": 1}}}})
}

/// The events of a conversation in which every projection finds something.
fn events(from: u64) -> Vec<NewEvent> {
    let id = |name: &str| format!("{name}{from}");
    let list = json!([{"title": "one", "notes": "n", "status": "todo"}, {"title": "two", "status": "done"}]);
    vec![
        said(&id("said"), "find me"),
        command(&id("action"), &id("call"), "make"),
        printed(&id("printed"), &id("action"), &id("call"), "fine", 0),
        called(&id("pending"), &id("other"), "file_editor", json!({"command": "view", "path": "/a.txt"})),
        event(&id("listed"), "ObservationEvent", json!({"observation": {"task_list": list}})),
        event(&id("failed"), "AgentErrorEvent", json!({"tool_call_id": id("lost"), "error": "no"})),
        updated(&id("stats"), "stats", stats(100 * (from + 1))),
    ]
}

/// A file with something in every derived table, closed.
fn template(scratch: &Scratch) {
    let store = Store::open_with(scratch.database(), &quick()).unwrap();
    for name in ["talk", "other", "third"] {
        let base_state = BaseStateChange {
            expected: None,
            fields: vec![
                FieldChange::set("stats", stats(7).to_string()).unwrap(),
                FieldChange::set("execution_status", "\"finished\"").unwrap(),
            ],
        };
        let base_state = (name != "talk").then_some(base_state);
        for batch in 0..3 {
            let append = Append {
                expected: Expected::Any,
                events: events(batch),
                base_state: base_state.clone().filter(|_| batch == 1),
                head: None,
            };
            store.append_all(&conversation(name), append).unwrap();
        }
    }
    store.search("find", &Default::default(), 1, &mut |_| ()).unwrap();
    store.catch_up().unwrap();
}

/// The schema and every derived row: what must be the same again.
#[derive(Debug, PartialEq)]
struct Whole(Vec<(String, Vec<Vec<Value>>)>);

impl Whole {
    #[track_caller]
    fn of(path: &Path) -> Self {
        let db = Connection::open(path).unwrap();
        // Other programs' objects may have been put aside.
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

/// When it must be back.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Back {
    /// On the next load, unasked.
    ByItself,
    /// Nothing shows that it is wrong but a comparison with the log.
    WhenAsked,
}

struct Damage {
    sql: String,
    back: Back,
    is_of_a_table: bool,
}

/// Every damage to every derived object.
fn damages(db: &Connection) -> Vec<Damage> {
    let mut damages = Vec::new();
    let mut add = |back, sql: String| {
        let is_of_a_table = !sql.starts_with("DROP VIEW") && !sql.starts_with("DROP INDEX");
        damages.push(Damage { sql, back, is_of_a_table });
    };
    for object in derived_objects().unwrap() {
        let (kind, name) = (object.kind, &object.name);
        let word = kind.as_str();
        match kind {
            ObjectKind::Trigger => panic!("{name}: a guard never comes back unseen"),
            ObjectKind::View => {
                add(Back::ByItself, format!("DROP VIEW {name}"));
                add(Back::ByItself, format!("DROP VIEW {name}; CREATE VIEW {name} AS SELECT 1 AS x"));
                add(Back::ByItself, format!("DROP VIEW {name}; CREATE TABLE {name} (x)"));
            }
            ObjectKind::Index => {
                add(Back::ByItself, format!("DROP INDEX {name}"));
                let column = &columns(db, &object.table)[0].name;
                let other = format!("CREATE INDEX {name} ON {} ({column}) WHERE 0", object.table);
                add(Back::ByItself, format!("DROP INDEX {name}; {other}"));
                add(Back::ByItself, format!("DROP INDEX {name}; CREATE INDEX {name} ON log (store_id)"));
            }
            ObjectKind::Table => {
                add(Back::ByItself, format!("DROP {word} {name}"));
                add(Back::ByItself, format!("ALTER TABLE {name} RENAME TO gone_aside"));
                add(Back::ByItself, format!("DROP TABLE {name}; CREATE VIEW {name} AS SELECT 1 AS x"));
                if name.starts_with("transcript_search") {
                    continue;
                }
                add(Back::ByItself, format!("DROP TABLE {name}; CREATE TABLE {name} (x)"));
                add(Back::ByItself, format!("ALTER TABLE {name} ADD COLUMN more TEXT"));
                for column in columns(db, name) {
                    let column = column.name;
                    add(Back::ByItself, format!("ALTER TABLE {name} RENAME COLUMN {column} TO other"));
                }
                damage_rows(db, name, &mut add);
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
        add(Back::ByItself, every(kind));
    }
    for projection in ["transcript", "tool_calls", "usage", "tasks", "search"] {
        let update = |set: &str| format!("UPDATE projection SET {set} WHERE name = '{projection}'");
        for position in ["0", "1", "-5", "position / 2", "position - 1", "position + 1", "1000000"] {
            add(Back::ByItself, update(&format!("position = {position}")));
        }
        for version in ["0", "version + 1"] {
            add(Back::ByItself, update(&format!("version = {version}")));
        }
        add(Back::ByItself, format!("DELETE FROM projection WHERE name = '{projection}'"));
    }
    add(Back::ByItself, "DELETE FROM projection".into());
    add(Back::ByItself, "UPDATE projection SET position = 0".into());
    add(Back::ByItself, "INSERT INTO transcript_search (transcript_search) VALUES ('delete-all')".into());
    let row =
        "INSERT INTO transcript_search (rowid, text) VALUES ((SELECT max(position) + 1 FROM event), 'x')";
    add(Back::ByItself, row.into());
    add(Back::WhenAsked, "DELETE FROM transcript_search_docsize WHERE id = 1".into());
    damages
}

/// Every damage to the rows of a table.
fn damage_rows(db: &Connection, table: &str, add: &mut dyn FnMut(Back, String)) {
    if table == "projection" || table == "usage_stale" {
        return; // the checkpoints have their own; what is stale is empty at rest
    }
    let columns = columns(db, table);
    add(Back::WhenAsked, format!("DELETE FROM {table}"));
    for column in &columns {
        let name = &column.name;
        let other = if column.is_text { format!("{name} || '1'") } else { format!("-{name} - 1") };
        let sql = format!("UPDATE {table} SET {name} = {other} WHERE {name} IS NOT NULL");
        let refers = name == "conversation";
        add(Back::WhenAsked, if refers { format!("PRAGMA foreign_keys = OFF; {sql}") } else { sql });
    }
    if !columns.iter().any(|column| column.name == "position") {
        return;
    }
    // A row of an event that is not there yet.
    let values: Vec<String> = columns
        .iter()
        .map(|column| match column.name.as_str() {
            "position" => "(SELECT max(position) + 1 FROM event)".into(),
            name if column.is_key && name != "conversation" => format!("{name} + 100"),
            name => name.into(),
        })
        .collect();
    add(Back::ByItself, format!("INSERT INTO {table} SELECT {} FROM {table} LIMIT 1", values.join(", ")));
}

fn doctor(store: &Store) -> Vec<Repair> {
    let options = DoctorOptions { comparison: Comparison::Everything, quiet_for_us: 0, ..Default::default() };
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

/// Loads the file and goes on with it; answers the open store.
fn go_on(path: &Path) -> Result<Store, Error> {
    let store = Store::open_with(path, &quick())?;
    store.append(&conversation("talk"), Expected::Any, &events(9))?;
    store.transcript(&conversation("talk"), Sequence(0), 1)?;
    store.search("find", &Default::default(), 1, &mut |_| ())?;
    store.catch_up()?;
    Ok(store)
}

#[test]
fn every_derived_object_comes_back_from_every_damage() {
    let scratch = Scratch::new();
    template(&scratch);
    let sound = scratch.path("sound.db");
    std::fs::copy(scratch.database(), &sound).unwrap();
    drop(go_on(&sound).unwrap());
    let wanted = Whole::of(&sound);
    let damages = Mutex::new(damages(&scratch.foreign()).into_iter().enumerate());
    let next = || damages.lock().unwrap_or_else(std::sync::PoisonError::into_inner).next();
    let failed = Mutex::new(Vec::new());
    let check = || {
        let mut tried = 0;
        while let Some((number, damage)) = next() {
            // Views and indexes come back before any command begins.
            let ways = if damage.is_of_a_table { &["load", "rebuild", "doctor"][..] } else { &["load"] };
            for way in ways {
                let path = scratch.path(&format!("{number}-{way}.db"));
                let survived = std::panic::catch_unwind(|| {
                    survive(&scratch.database(), &path, &damage, way, &wanted);
                });
                if survived.is_err() {
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
    assert!(tried > 200, "only {tried} damages were tried");
}

/// What went well; else fails with what was tried.
#[track_caller]
fn held<T>(what: &str, result: Result<T, Error>) -> T {
    result.unwrap_or_else(|error| panic!("{what}: {error} {:?}", std::error::Error::source(&error)))
}

/// Damages a copy of the file, and holds it to be whole again in this way.
fn survive(template: &Path, path: &Path, damage: &Damage, way: &str, wanted: &Whole) {
    let what = format!("{} ({way})", damage.sql);
    std::fs::copy(template, path).unwrap();
    let db = Connection::open(path).unwrap();
    // Broken views would keep other programs from renaming.
    db.execute_batch(&format!("PRAGMA legacy_alter_table = ON; {}", damage.sql))
        .unwrap_or_else(|error| panic!("{what}: {error}"));
    drop(db);
    if way == "load" && damage.back == Back::WhenAsked {
        return;
    }
    if way != "load" {
        // The first command on the damaged file.
        let store = held(&what, Store::open_with(path, &quick()));
        match way {
            "rebuild" => held(&what, store.rebuild(&[], &mut |_| ())),
            _ => drop(doctor(&store)),
        }
    }
    let store = held(&what, go_on(path));
    let findings = held(&what, store.verify(None, &mut |_| ())).findings;
    assert_eq!(findings, [], "{what}");
    if way != "load" {
        let findings = held(&what, store.verify_projections(&mut |_| ())).findings;
        assert_eq!(findings, [], "{what}");
    }
    drop(store);
    Whole::of(path).assert_is(wanted, &what);
}

#[test]
fn what_drifts_in_silence_is_found_before_it_is_mended() {
    let scratch = Scratch::new();
    template(&scratch);
    let silent = damages(&scratch.foreign()).into_iter().filter(|damage| damage.back == Back::WhenAsked);
    let (mut tried, mut missed) = (0, Vec::new());
    for (number, damage) in silent.enumerate() {
        let path = scratch.path(&format!("{number}.db"));
        std::fs::copy(scratch.database(), &path).unwrap();
        let db = Connection::open(&path).unwrap();
        db.execute_batch(&damage.sql).unwrap();
        let changed = db.changes() > 0;
        drop(db);
        let store = Store::open_with(&path, &quick()).unwrap();
        let is_found = !store.verify_projections(&mut |_| ()).unwrap().findings.is_empty()
            || !store.verify(None, &mut |_| ()).unwrap().findings.is_empty();
        if changed && !is_found {
            missed.push(damage.sql);
        }
        tried += u64::from(is_found);
    }
    assert!(missed.is_empty(), "verify is content with {missed:#?}");
    assert!(tried > 20, "only {tried} were found");
}

/// Columns of the catalogue that only a person or an import gives, and its key.
const GIVEN: &[&str] =
    &["key", "id", "title", "tags", "parent", "forked_from", "forked_at", "foreign_format"];

#[test]
fn every_derived_column_of_the_catalogue_comes_back() {
    let scratch = Scratch::new();
    template(&scratch);
    let row = |path: &Path| rows(&Connection::open(path).unwrap(), "SELECT * FROM conversation ORDER BY key");
    let wanted = row(&scratch.database());
    let columns = columns(&scratch.foreign(), "conversation");
    let mut tried = 0;
    for column in columns.iter().map(|column| &*column.name).filter(|column| !GIVEN.contains(column)) {
        for value in ["zeroblob(32)", "5", "-5", "9223372036854775807", "'said0'"] {
            for (number, way) in ["rebuild", "rebuild catalogue", "doctor"].into_iter().enumerate() {
                let what = format!("{column} = {value} ({way})");
                let path = scratch.path(&format!("{column}-{tried}-{number}.db"));
                std::fs::copy(scratch.database(), &path).unwrap();
                let db = Connection::open(&path).unwrap();
                let sql = format!("UPDATE conversation SET {column} = {value} WHERE id = 'talk'");
                if db.execute(&sql, []).is_err() || row(&path) == wanted {
                    continue; // the table itself refuses that
                }
                drop(db);
                let store = Store::open_with(&path, &quick()).unwrap();
                assert_eq!(store.verify(None, &mut |_| ()).unwrap().findings.len(), 1, "{what}");
                let ends = ["event_count", "head_hash"].contains(&column);
                let refused = store.append(&conversation("talk"), Expected::Any, &[said("new", "x")]);
                assert!(!ends || matches!(refused, Err(Error::CatalogueContradicts(_))), "{what}");
                // What was appended is no part of it: another copy, in a place that nobody has open.
                drop(store);
                let path = scratch.path(&format!("{column}-{tried}-{number}-again.db"));
                std::fs::copy(scratch.database(), &path).unwrap();
                Connection::open(&path).unwrap().execute(&sql, []).unwrap();
                let store = Store::open_with(&path, &quick()).unwrap();
                match way {
                    "rebuild" => store.rebuild(&[], &mut |_| ()).unwrap(),
                    "rebuild catalogue" => store.rebuild(&["catalogue"], &mut |_| ()).unwrap(),
                    _ => drop(doctor(&store)),
                }
                assert_eq!(row(&path), wanted, "{what}");
                let seen = store.verify(None, &mut |_| ()).unwrap();
                assert_eq!(seen.findings, [], "{what}");
                let receipts = store.repairs(None).unwrap();
                let [receipt] = &receipts[..] else { panic!("{what}: {receipts:?}") };
                let [note] = &seen.notes[..] else { panic!("{what}: {:?}", seen.notes) };
                assert!(note.what.ends_with(&receipt.found), "{what}: {}", note.what);
                assert_eq!(receipt.conversation.as_deref(), Some("talk"));
                assert!(!ends || receipt.found.contains("and ends at"), "{what}: {}", receipt.found);
                let first =
                    store.append(&conversation("talk"), Expected::Exact(21), &[said("new", "x")]).unwrap()[0];
                assert_eq!(first.sequence, Sequence(21), "{what}");
                tried += 1;
            }
        }
    }
    assert!(tried > 30, "only {tried} were tried");
}

#[test]
fn nothing_is_chained_to_a_catalogue_that_contradicts_the_log() {
    let scratch = Scratch::new();
    template(&scratch);
    let store = Store::open_with(scratch.database(), &quick()).unwrap();
    let talk = conversation("talk");
    let count =
        |db: &Connection| db.query_row("SELECT count(*) FROM event", [], |row| row.get::<_, i64>(0)).unwrap();
    let db = scratch.foreign();
    let before = count(&db);
    db.execute_batch("UPDATE conversation SET event_count = event_count - 1 WHERE id = 'talk'").unwrap();
    // Nobody is told a number that no retry could meet.
    for expected in [Expected::Any, Expected::Exists, Expected::Exact(20), Expected::Exact(21)] {
        let refused = store.append(&talk, expected, &[said("new", "x")]).unwrap_err();
        let Error::CatalogueContradicts(contradiction) = refused else { panic!("{expected:?}: {refused}") };
        assert_eq!((contradiction.catalogue_count, contradiction.log_count), (20, 21));
    }
    assert_eq!(count(&db), before);
    store.append(&conversation("other"), Expected::Exact(21), &[said("new", "x")]).unwrap();
    store.remake_catalogue(&talk).unwrap().expect("there was something to mend");
    assert_eq!(store.remake_catalogue(&talk).unwrap(), None);
    store.append(&talk, Expected::Exact(21), &[said("new", "x")]).unwrap();
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
    assert!(store.made_again().contains(&"table tool_call".to_owned()), "{:?}", store.made_again());
    store.catch_up().unwrap();
    let db = scratch.foreign();
    let theirs = "SELECT name FROM sqlite_schema WHERE name IN \
                  ('theirs', 'theirs_too', 'shown', 'seen', 'watching', 'transcript_search_x')";
    assert_eq!(rows(&db, theirs).len(), 6);
    assert_ne!(rows(&db, "SELECT position FROM seen").len(), 0, "their trigger saw the rows come back");
    let seen = store.verify(None, &mut |_| ()).unwrap();
    let whats: Vec<&str> = seen.findings.iter().map(|finding| finding.what.as_str()).collect();
    for trigger in ["watching on tool_call", "transcript_search_x on log"] {
        let named = format!("the trigger {trigger} is not of Annals' making");
        assert!(whats.iter().any(|what| what.contains(&named)), "{whats:?}");
    }
    assert_eq!(whats.len(), 2, "{whats:?}");
    assert_eq!(seen.notes.len(), 4, "{:?}", seen.notes);
    let refused = store.strange_triggers().unwrap();
    assert_eq!(refused.len(), 2, "{refused:?}");
}

#[test]
fn what_nothing_else_knows_is_never_made_anew() {
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
fn guards_come_back_where_they_are_asked_for_and_leave_a_receipt() {
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
            let found = store.changed_guards().unwrap();
            assert!(found.len() == 1 && found[0].contains(name.as_str()), "{harm}: {found:?}");
            let doctor = Doctor::new(&store, DoctorOptions { quiet_for_us: 0, ..Default::default() });
            let findings = doctor.examine(None, &mut |_| ()).unwrap().findings;
            let finding = findings.iter().find(|finding| finding.trouble.as_str() == "guards").unwrap();
            let receipt = doctor.repair(finding).unwrap();
            assert!(receipt.found.contains(name.as_str()), "{receipt:?}");
            assert_eq!(store.changed_guards().unwrap(), Vec::<String>::new(), "{harm}");
            assert_eq!(store.repairs(None).unwrap(), [receipt]);
            let db = Connection::open(&path).unwrap();
            let again = rows(&db, "SELECT name, sql FROM sqlite_schema WHERE type = 'trigger' ORDER BY name");
            assert_eq!(again, guards, "{harm}");
        }
    }
}

#[test]
fn a_file_that_may_only_be_read_says_what_it_lacks() {
    let scratch = Scratch::new();
    template(&scratch);
    scratch.foreign().execute_batch("DROP TABLE usage_stale").unwrap();
    let options = Options { read_only: true, ..Options::default() };
    let store = Store::open_with(scratch.database(), &options).unwrap();
    let refused = store.transcript(&conversation("talk"), Sequence(0), 1).unwrap_err();
    assert!(matches!(&refused, Error::NotDerived { object } if object == "table usage_stale"), "{refused}");
    let seen = store.verify_projections(&mut |_| ()).unwrap();
    assert!(seen.findings.iter().any(|finding| finding.what.contains("usage_stale")), "{:?}", seen.findings);
    // The log itself is read all the same.
    assert_eq!(store.conversation(&conversation("talk")).unwrap().event_count, 21);
}

#[test]
fn what_is_lost_under_an_open_store_comes_back_with_the_next_read() {
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
        store.made_again(),
        ["table transcript_line", "table projection", "table usage_stale", "view transcript"]
    );
}
