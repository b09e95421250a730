//! Files of every past schema: they can be opened, lose nothing, and are copied before they are upgraded.

use std::fs;
use std::path::Path;

use annals::chain::{self, Digest};
use annals::store::{Maintenance, SCHEMA_VERSION};
use annals::{Error, Expected, Store};
use rusqlite::Connection;
use rusqlite::functions::FunctionFlags;

use crate::support::events::{pause, user_message};
use crate::support::folder;
use crate::support::{
    Scratch, all_events, assert_error, assert_sound, conversation, event_ids, number, without_projector,
};

mod migrations {
    refinery::embed_migrations!("migrations");
}

/// Copies the frozen file of a schema to the place of the database, where it can be written.
fn frozen(scratch: &Scratch, name: &str) {
    let old = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/old").join(name);
    fs::copy(old, scratch.database()).unwrap();
}

/// Makes a file as the first `schema` migrations leave it, with one conversation of two events.
fn older(scratch: &Scratch, schema: u32) {
    let mut db = Connection::open(scratch.database()).unwrap();
    db.create_scalar_function("only_annals_appends_to_the_log", 0, FunctionFlags::SQLITE_UTF8, |_| Ok(true))
        .unwrap();
    let target = refinery::Target::Version(schema as _);
    migrations::migrations::runner().set_target(target).run(&mut db).unwrap();
    db.execute_batch(&format!(
        "PRAGMA application_id = {}; PRAGMA user_version = {schema}",
        annals::store::APPLICATION_ID
    ))
    .unwrap();
    db.execute("INSERT INTO log (one, store_id, created_at) VALUES (1, 'old', 0)", []).unwrap();
    db.execute(
        "INSERT INTO conversation (id, head_hash, created_at, updated_at) VALUES ('talk', zeroblob(32), 0, 0)",
        [],
    )
    .unwrap();
    let mut hash = Digest::START;
    for (sequence, event) in [user_message("a", "hello"), pause("b")].iter().enumerate() {
        hash = chain::link("talk", sequence as u64, event.id().as_str(), event.digest(), hash);
        db.execute(
            "INSERT INTO event (position, conversation, sequence, id, kind, source, recorded_at, hash, payload) \
             VALUES (?1, 1, ?2, ?3, ?4, ?5, 5, ?6, ?7)",
            rusqlite::params![
                sequence as i64 + 1,
                sequence as i64,
                event.id().as_str(),
                event.envelope().kind,
                event.envelope().source,
                hash.0,
                event.payload()
            ],
        )
        .unwrap();
    }
    let bytes = user_message("a", "hello").payload().len() + pause("b").payload().len();
    db.execute(
        "UPDATE conversation SET event_count = 2, payload_bytes = ?1, head_hash = ?2, leaf_event_id = 'b', \
         status = 'paused', first_message = 'hello', created_at = 5, updated_at = 5",
        rusqlite::params![bytes as i64, hash.0],
    )
    .unwrap();
}

#[test]
fn opening_an_older_file_reports_its_upgrade_once() {
    let scratch = Scratch::new();
    frozen(&scratch, "schema-5.db");
    let before = all_rows(&scratch);
    let store = scratch.open_without_projector();
    assert_eq!(store.maintenance().upgraded_from(), Some(5));
    assert_eq!(all_rows(&scratch), before);
    assert_sound(&store);
    drop(store);
    assert_eq!(scratch.open_without_projector().maintenance().upgraded_from(), None);
}

/// Returns the rows of the log. The query works with every schema.
fn all_rows(scratch: &Scratch) -> Vec<Vec<rusqlite::types::Value>> {
    crate::support::rows(
        &scratch.foreign(),
        "SELECT position, id, payload, hash FROM event ORDER BY position",
    )
}

#[test]
fn a_file_of_every_schema_is_upgraded_and_copied_first() {
    for schema in 1..SCHEMA_VERSION {
        let scratch = Scratch::new();
        older(&scratch, schema);
        assert_eq!(Maintenance::schema_of(scratch.database()).unwrap(), schema);
        let before = all_rows(&scratch);
        let copy = scratch.path("copy.db");
        let done = Maintenance::upgrade(scratch.database(), Some(&copy)).unwrap();
        assert_eq!((done.from, done.to, done.conversations, done.events), (schema, SCHEMA_VERSION, 1, 2));
        assert_eq!(done.steps, Maintenance::upgrade_steps(schema));
        assert!(!done.steps.is_empty());
        assert_eq!(done.backup, Some((copy.clone(), fs::metadata(&copy).unwrap().len())));
        assert_eq!(Maintenance::schema_of(scratch.database()).unwrap(), SCHEMA_VERSION);
        assert_eq!(Maintenance::schema_of(&copy).unwrap(), schema, "the copy stays as it was");
        assert_eq!(number(&Connection::open(&copy).unwrap(), "SELECT count(*) FROM event"), 2);
        assert_eq!(all_rows(&scratch), before);
        let store = scratch.open_without_projector();
        let talk = conversation("talk");
        store.append(&talk, Expected::Exact(2), &[pause("c")]).unwrap();
        assert_eq!(event_ids(&store, &talk), ["a", "b", "c"]);
        assert_eq!(all_events(&store, &talk)[0].payload, user_message("a", "hello").payload());
        assert_eq!(store.transcript(&talk, annals::Sequence(0), 1).unwrap()[0].text, "hello");
        store.maintenance().rebuild(&[], &mut |_| ()).unwrap();
        // The file was made with times that do not come from events, so `verify` may report `updated_minute`.
        let seen = store.audit().verify(None, &mut |_| ()).unwrap();
        assert!(
            seen.findings.iter().all(|finding| finding.what.contains("updated_minute")),
            "{:?}",
            seen.findings
        );
    }
}

#[test]
fn an_up_to_date_file_is_neither_changed_nor_copied() {
    let scratch = Scratch::new();
    scratch.open_without_projector().append(&conversation("talk"), Expected::Any, &[pause("a")]).unwrap();
    let done = Maintenance::upgrade(scratch.database(), Some(&scratch.path("copy.db"))).unwrap();
    assert_eq!((done.from, done.to, done.backup, done.steps), (SCHEMA_VERSION, SCHEMA_VERSION, None, vec![]));
    assert!(!scratch.path("copy.db").exists());
}

#[test]
fn an_upgrade_that_is_refused_changes_nothing() {
    let scratch = Scratch::new();
    frozen(&scratch, "schema-5.db");
    let before = fs::read(scratch.database()).unwrap();
    fs::write(scratch.path("copy.db"), "mine").unwrap();
    let taken = Error::WouldOverwrite { path: scratch.path("copy.db") };
    assert_error(Maintenance::upgrade(scratch.database(), Some(&scratch.path("copy.db"))), &taken);
    assert_eq!(fs::read(scratch.database()).unwrap(), before);
    assert_eq!(fs::read(scratch.path("copy.db")).unwrap(), b"mine");

    let db = scratch.foreign();
    db.pragma_update(None, "user_version", SCHEMA_VERSION + 1).unwrap();
    drop(db);
    let newer =
        Error::NewerFile { path: scratch.database(), found: SCHEMA_VERSION + 1, known: SCHEMA_VERSION };
    assert_error(Maintenance::upgrade(scratch.database(), Some(&scratch.path("new.db"))), &newer);
    assert!(!scratch.path("new.db").exists());

    let other = Scratch::new();
    fs::write(other.database(), "hello").unwrap();
    let what = "not an SQLite database".to_owned();
    let foreign = Error::ForeignFile { path: other.database(), what };
    assert_error(Maintenance::upgrade(other.database(), None), &foreign);
    assert!(matches!(Maintenance::upgrade(other.path("none.db"), None), Err(Error::CannotOpen { .. })));
}

#[test]
fn a_damaged_file_is_not_upgraded() {
    let scratch = Scratch::new();
    frozen(&scratch, "schema-5.db");
    let db = scratch.foreign();
    // An index that lacks an entry of its table.
    db.execute_batch(
        "PRAGMA writable_schema = ON; UPDATE sqlite_schema SET rootpage = (SELECT rootpage FROM sqlite_schema WHERE \
         name = 'problem_by_conversation') WHERE name = 'conversation_by_creation'; PRAGMA writable_schema = OFF;",
    )
    .unwrap();
    drop(db);
    let failed = Maintenance::upgrade(scratch.database(), Some(&scratch.path("copy.db"))).unwrap_err();
    assert!(matches!(failed, Error::Corrupt { .. } | Error::Storage { .. }), "{failed}");
    let names = folder::read(&scratch.path("")).into_keys().filter(|name| name.contains("copy")).count();
    assert_eq!(names, 0, "no incomplete copy is left");
    assert_eq!(Maintenance::schema_of(scratch.database()).unwrap(), 5);
}

#[test]
fn an_older_file_that_is_opened_read_only_is_refused() {
    let scratch = Scratch::new();
    frozen(&scratch, "schema-5.db");
    let options = without_projector().read_only(true);
    let older = Error::OlderFile { path: scratch.database(), found: 5, known: SCHEMA_VERSION };
    assert_error(Store::open_with(scratch.database(), &options), &older);
}

/// Removes or changes each derived object of an older file before the upgrade. Guards are not among them: only
/// `doctor --repair` makes them again.
#[test]
fn an_older_file_without_a_derived_object_is_upgraded_like_a_complete_one() {
    let objects = |schema: u32| -> Vec<(String, String)> {
        let scratch = Scratch::new();
        older(&scratch, schema);
        let db = scratch.foreign();
        let sql = "SELECT type, name FROM sqlite_schema WHERE sql IS NOT NULL \
                   AND name NOT LIKE 'transcript_search_%' AND name NOT LIKE 'sqlite_%' AND name <> 'maintenance' AND type IN ('table', 'index', 'view') ORDER BY rowid";
        let mut statement = db.prepare(sql).unwrap();
        statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).unwrap().map(Result::unwrap).collect()
    };
    let dump = |scratch: &Scratch| {
        let db = scratch.foreign();
        let schema =
            crate::support::rows(&db, "SELECT type, name, tbl_name, sql FROM sqlite_schema ORDER BY 1, 2");
        (schema, crate::support::rows(&db, "SELECT * FROM transcript ORDER BY 1, 2"))
    };
    let mut tried = 0;
    for schema in [7, 12] {
        let whole = Scratch::new();
        older(&whole, schema);
        whole.open_without_projector().catch_up().unwrap();
        let wanted = dump(&whole);
        for (kind, name) in objects(schema) {
            let mut damages = vec![format!("DROP {kind} {name}")];
            if kind == "view" {
                damages.push(format!("DROP VIEW {name}; CREATE VIEW {name} AS SELECT 1 AS one"));
            }
            for damage in damages {
                let scratch = Scratch::new();
                older(&scratch, schema);
                let db = scratch.foreign();
                db.execute_batch(&format!("PRAGMA foreign_keys = OFF; {damage}")).unwrap();
                drop(db);
                match Store::open_with(scratch.database(), &without_projector()) {
                    Ok(store) => {
                        store.catch_up().unwrap();
                        drop(store);
                        assert_eq!(dump(&scratch), wanted, "{schema}: {damage}");
                        tried += 1;
                    }
                    Err(error) => {
                        let is_lost = matches!(&error, Error::LostTable { table } if *table == name);
                        assert!(
                            is_lost && kind == "table" || name == "refinery_schema_history",
                            "{damage}: {error}"
                        );
                        assert_eq!(Maintenance::schema_of(scratch.database()).unwrap(), schema);
                    }
                }
            }
        }
    }
    assert!(tried > 50, "only {tried} damages were tested");
}

#[test]
fn a_name_that_another_program_took_is_reported_and_its_object_is_kept() {
    for (theirs, kind, name) in [
        ("CREATE VIEW outcomes AS SELECT 1 AS one", "view", "outcomes"),
        ("CREATE TABLE \"Change\" (x); INSERT INTO \"Change\" VALUES (7)", "table", "Change"),
        ("CREATE INDEX repair_by_conversation ON event (kind)", "index", "repair_by_conversation"),
        ("DROP VIEW errors; CREATE TABLE errors (x)", "table", "errors"),
    ] {
        let scratch = Scratch::new();
        older(&scratch, 11);
        scratch.foreign().execute_batch(theirs).unwrap();
        let opened = Store::open_with(scratch.database(), &without_projector()).map(drop);
        let is_reported = matches!(&opened, Err(Error::NameTaken(what)) if *what == format!("{kind} {name}"));
        assert!(is_reported, "{theirs}: {opened:?}");
        assert_eq!(Maintenance::schema_of(scratch.database()).unwrap(), 11);
        let there = format!("SELECT count(*) FROM sqlite_schema WHERE name = '{name}'");
        assert_eq!(number(&scratch.foreign(), &there), 1);
    }
    // Objects of another program with other names are kept.
    let scratch = Scratch::new();
    older(&scratch, 11);
    scratch.foreign().execute_batch("CREATE VIEW theirs AS SELECT * FROM errors").unwrap();
    drop(scratch.open_without_projector());
    assert_eq!(number(&scratch.foreign(), "SELECT count(*) FROM theirs"), 0);
}
