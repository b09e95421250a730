//! Projections of a host's own: tables that change in the transaction of each append, also if other programs write the file.

use std::sync::{Arc, Mutex, mpsc};

use annals::error::OwnProjectionError;
use annals::store::{
    Append, OwnEvent, OwnFailure, OwnProjection, OwnProjections, OwnRows, OwnScope, Redaction, SqlValue,
};
use annals::{Error, EventId, Expected, NewEvent, Store};
use proptest::prelude::*;
use rusqlite::types::Value;

use crate::support::events::{pause, user_message};
use crate::support::parcels::{NAME, Parcels, dump, quick, shipped, wanted, with};
use crate::support::{Scratch, assert_sound, conversation, number, rows};

/// The example. Its `main` is not called here.
#[allow(dead_code)]
#[path = "../../examples/own_projection.rs"]
mod example;

fn host(scratch: &Scratch) -> Store {
    Store::open_with(scratch.database(), &with(Parcels::default())).unwrap()
}

fn stranger(scratch: &Scratch) -> Store {
    Store::open_with(scratch.database(), &quick()).unwrap()
}

fn add(store: &Store, talk: &str, event: NewEvent) {
    store.append(&conversation(talk), Expected::Any, &[event]).unwrap();
}

#[track_caller]
fn assert_current(scratch: &Scratch) {
    let db = scratch.foreign();
    assert_eq!(dump(&db), wanted(&db, 1));
}

#[test]
fn rows_are_there_when_an_append_returns_and_every_reader_sees_both_or_neither() {
    const EVENTS: i64 = 200;
    let scratch = Scratch::new();
    let store = host(&scratch);
    add(&store, "talk", user_message("a", "Where is it?"));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for number in 0..EVENTS {
                add(&store, "talk", shipped(&format!("e{number}"), "DHL", "fragile"));
            }
        });
        let db = scratch.foreign();
        let both = "SELECT (SELECT count(*) FROM event WHERE kind = 'shop.shipped'), \
                    (SELECT count(*) FROM own_shop_parcels), \
                    (SELECT coalesce(sum(parcels), 0) FROM own_shop_parcels_carrier)";
        let mut seen = 0;
        while seen < EVENTS {
            let found: [i64; 3] =
                db.query_row(both, [], |row| Ok([row.get(0)?, row.get(1)?, row.get(2)?])).unwrap();
            assert_eq!([found[0]; 3], found);
            seen = found[0];
        }
    });
    assert_current(&scratch);
    // A retry is not applied again.
    let again =
        store.append(&conversation("talk"), Expected::Any, &[shipped("e7", "DHL", "fragile")]).unwrap();
    assert!(again[0].known);
    assert_current(&scratch);
    let sum = store.query_own(NAME, "SELECT sum(parcels) FROM own_shop_parcels_carrier", &[]).unwrap();
    assert_eq!(sum, [[SqlValue::Integer(EVENTS)]]);
    assert_sound(&store);
}

/// Appends all of these in one transaction. Returns the answers in order.
fn together(store: &Store, events: Vec<NewEvent>) -> Vec<annals::Result<Vec<annals::store::Appended>>> {
    let talk = conversation("talk");
    let held = Arc::new(Mutex::new(None));
    let mut answers = Vec::new();
    for event in events {
        let (sender, receiver) = mpsc::channel();
        let append = Append::new(Expected::Any, vec![event]);
        let keep = Arc::clone(&held);
        let done = move |answer| sender.send(answer).unwrap();
        // As long as the right to lead is held, every append joins the group.
        store.append_later(&talk, append, done, move |lead| *keep.lock().unwrap() = Some(lead));
        answers.push(receiver);
    }
    let lead = held.lock().unwrap().take();
    drop(lead);
    answers.into_iter().map(|answer| answer.recv().unwrap()).collect()
}

#[test]
fn an_error_or_a_panic_refuses_one_append_of_a_group_and_leaves_nothing_of_it() {
    let scratch = Scratch::new();
    let store = host(&scratch);
    add(&store, "talk", shipped("first", "DHL", "x"));
    let commits = store.maintenance().counts().commits;
    let answers = together(
        &store,
        vec![
            shipped("a", "DHL", "x"),
            shipped("b", "refused", "x"),
            shipped("c", "UPS", "x"),
            shipped("d", "panic", "x"),
            pause("e"),
        ],
    );
    assert_eq!(store.maintenance().counts().commits, commits + 1, "it was not one group");
    for (answer, reason) in [(&answers[1], "this carrier is not accepted"), (&answers[3], "it panicked")] {
        let Err(Error::OwnProjection(OwnProjectionError::Refused { name, conversation, event, source })) =
            answer
        else {
            panic!("{answer:?}")
        };
        assert_eq!((&**name, &**conversation, &*source.to_string()), (NAME, "talk", reason));
        assert!(["b", "d"].contains(&&**event));
    }
    let places = [0, 2, 4].map(|at: usize| answers[at].as_ref().unwrap()[0].sequence.0);
    assert_eq!(places, [1, 2, 3]);
    assert_current(&scratch);
    assert_eq!(number(&scratch.foreign(), "SELECT count(*) FROM own_shop_parcels_carrier"), 2);
    // Alone, with several events: nothing of the append stays, and the next one succeeds.
    let batch = [shipped("f", "DHL", "x"), shipped("g", "panic", "x")];
    let refused = store.append(&conversation("new"), Expected::Any, &batch);
    assert!(matches!(refused, Err(Error::OwnProjection(OwnProjectionError::Refused { .. }))), "{refused:?}");
    assert!(matches!(store.conversation(&conversation("new")), Err(Error::UnknownConversation { .. })));
    add(&store, "new", shipped("f", "DHL", "x"));
    assert_current(&scratch);
    assert_sound(&store);
}

#[test]
fn what_a_program_without_the_projection_appended_is_applied_before_the_next_event() {
    let scratch = Scratch::new();
    let store = host(&scratch);
    add(&store, "talk", shipped("a", "DHL", "x"));
    let other = stranger(&scratch);
    for number in 0..1500 {
        add(&other, "other", shipped(&format!("e{number}"), "UPS", "y"));
    }
    assert_eq!(number(&scratch.foreign(), "SELECT count(*) FROM own_shop_parcels"), 1);
    let steps = Arc::new(Mutex::new(0));
    let counted = Arc::clone(&steps);
    store.maintenance().on_rebuild_progress(move |_| *counted.lock().unwrap() += 1);
    add(&store, "talk", shipped("b", "DHL", "x"));
    assert_current(&scratch);
    add(&other, "other", shipped("last", "UPS", "y"));
    store.catch_up_own().unwrap();
    assert_current(&scratch);
    assert_eq!(*steps.lock().unwrap(), 0, "a step is enough");
}

#[test]
fn redacted_and_deleted_words_leave_the_tables_at_once_also_by_a_program_that_does_not_know_them() {
    for scope in [OwnScope::Conversation, OwnScope::Log] {
        let scratch = Scratch::new();
        let options = with(Parcels { scope, ..Parcels::default() });
        let store = Store::open_with(scratch.database(), &options).unwrap();
        for talk in ["one", "two", "three"] {
            add(&store, talk, shipped("a", "DHL", "the word aardvark"));
            add(&store, talk, shipped("b", "UPS", "another word"));
        }
        let other = stranger(&scratch);
        let db = scratch.foreign();
        let kept = || rows(&db, "SELECT DISTINCT conversation FROM own_shop_parcels ORDER BY 1").len();
        let of_one = "SELECT count(*) FROM own_shop_parcels WHERE conversation = 'one'";
        other
            .retention()
            .redact(&conversation("one"), Redaction::Event(&EventId::new("a").unwrap()), "a test")
            .unwrap();
        assert_eq!(number(&db, of_one), 0, "{scope:?}");
        other.retention().delete(&conversation("two")).unwrap();
        other.retention().erase(&conversation("three"), "a test").unwrap();
        assert_eq!(kept(), 0);
        assert_sound(&other);
        // The next append of the host makes again what is still to be there.
        add(&store, "four", shipped("a", "DHL", "x"));
        assert_current(&scratch);
        assert_eq!(kept(), 2, "{scope:?}");
        assert_eq!(number(&db, of_one), 2);
        drop((store, other));
        let bytes = std::fs::read(scratch.database()).unwrap();
        let word = b"aardvark";
        assert!(!bytes.windows(word.len()).any(|window| window == word), "{scope:?}");
    }
}

#[test]
fn a_redaction_removes_only_its_conversation_and_the_same_program_makes_it_again() {
    let scratch = Scratch::new();
    let store = host(&scratch);
    add(&store, "one", shipped("a", "DHL", "hush"));
    add(&store, "two", shipped("a", "DHL", "hush"));
    let id = EventId::new("a").unwrap();
    store.retention().redact(&conversation("one"), Redaction::Event(&id), "a test").unwrap();
    let of_two = "SELECT note FROM own_shop_parcels WHERE conversation = 'two'";
    assert_eq!(rows(&scratch.foreign(), of_two), [[Value::Text("hush".into())]]);
    let notes = "SELECT count(*) FROM own_shop_parcels WHERE note = 'hush'";
    assert_eq!(store.query_own(NAME, notes, &[]).unwrap(), [[SqlValue::Integer(1)]]);
    assert_current(&scratch);
}

#[test]
fn another_version_and_lost_or_altered_tables_are_made_again() {
    let scratch = Scratch::new();
    let store = host(&scratch);
    for number in 0..3 {
        add(&store, "talk", shipped(&number.to_string(), "DHL", "x"));
    }
    let harms = [
        "DROP TABLE own_shop_parcels",
        "DROP TABLE own_shop_parcels_carrier",
        "DROP INDEX own_shop_parcels_place",
        "ALTER TABLE own_shop_parcels ADD COLUMN more TEXT",
        "UPDATE projection SET version = 9 WHERE name = 'own:shop.parcels'; DELETE FROM own_shop_parcels",
        "UPDATE projection SET position = 99 WHERE name = 'own:shop.parcels'; DELETE FROM own_shop_parcels",
        "DELETE FROM projection; UPDATE own_shop_parcels SET note = 'y'",
        "DELETE FROM host_table WHERE name = 'own_shop_parcels_carrier'; DROP TABLE own_shop_parcels_carrier",
        "UPDATE host_table SET scope = 'log'; DELETE FROM own_shop_parcels",
    ];
    for (number, harm) in harms.iter().enumerate() {
        scratch.foreign().execute_batch(harm).unwrap();
        // At the next append while the file is open, and when it is opened.
        if number % 2 == 0 {
            add(&store, "talk", pause(&format!("p{number}")));
        } else {
            host(&scratch).catch_up_own().unwrap();
        }
        assert_current(&scratch);
    }
    drop(store);
    let newer = with(Parcels { version: 2, ..Parcels::default() });
    let store = Store::open_with(scratch.database(), &newer).unwrap();
    add(&store, "talk", shipped("new", "DHL", "x"));
    let db = scratch.foreign();
    assert_eq!(dump(&db), wanted(&db, 2));
    let status = &store.maintenance().own_projections().unwrap()[0];
    assert_eq!((status.version, status.position, status.is_known), (Some(2), status.last_position, true));
}

#[test]
fn a_stored_event_that_is_not_accepted_stops_appends_of_this_program_and_says_the_way_out() {
    let scratch = Scratch::new();
    let store = host(&scratch);
    add(&store, "talk", shipped("a", "DHL", "x"));
    add(&stranger(&scratch), "talk", shipped("b", "refused", "x"));
    for answer in [
        store.append(&conversation("talk"), Expected::Any, &[pause("c")]).map(drop),
        store.catch_up_own(),
        store.query_own(NAME, "SELECT 1 FROM own_shop_parcels", &[]).map(drop),
    ] {
        let Err(error @ Error::OwnProjection(OwnProjectionError::Stuck { .. })) = answer else {
            panic!("{answer:?}")
        };
        assert!(error.to_string().contains("position 2; let the next version of it accept"), "{error}");
    }
    // Everything else goes on, and nothing was skipped.
    store.catch_up().unwrap();
    assert_eq!(number(&scratch.foreign(), "SELECT count(*) FROM own_shop_parcels"), 1);
    let mended = with(Parcels { is_strict: false, ..Parcels::default() });
    let store = Store::open_with(scratch.database(), &mended).unwrap();
    add(&store, "talk", pause("c"));
    assert_current(&scratch);
}

/// A projection that runs one statement for each event.
struct Runs(String);

impl OwnProjection for Runs {
    fn name(&self) -> &str {
        "test.runs"
    }

    fn version(&self) -> u32 {
        1
    }

    fn scope(&self) -> OwnScope {
        OwnScope::Log
    }

    fn statements(&self) -> &[&str] {
        &["CREATE TABLE own_test_runs (x)"]
    }

    fn apply(&self, rows: &OwnRows<'_>, _: &OwnEvent<'_>) -> Result<(), OwnFailure> {
        rows.execute("INSERT INTO own_test_runs VALUES (1)", &[])?;
        // The projection goes on after the refusal, and what the statement did would stay.
        match rows.query(&self.0, &[]) {
            Ok(_) => Err("the statement was accepted".into()),
            Err(error @ Error::OwnProjection(OwnProjectionError::Statement { .. })) => {
                rows.execute("INSERT INTO own_test_runs VALUES (?1)", &[error.to_string().into()])?;
                Ok(())
            }
            Err(error) => Err(error.into()),
        }
    }
}

#[test]
fn a_statement_of_a_host_reaches_nothing_but_its_own_tables() {
    let refused = [
        "DELETE FROM event",
        "UPDATE event SET payload = '{}'",
        "INSERT INTO maintenance (reason) VALUES ('delete')",
        "DELETE FROM projection",
        "SELECT version, position FROM projection WHERE name = ?1",
        "SELECT payload FROM event",
        "SELECT * FROM events",
        "SELECT name FROM sqlite_schema",
        "SELECT name FROM pragma_table_info('event')",
        "INSERT INTO own_shop_parcels VALUES (1)",
        "INSERT INTO own_test_runs SELECT payload FROM event",
        "DELETE FROM own_test_runs WHERE x IN (SELECT payload FROM event)",
        "SELECT * FROM host_table",
        "SELECT * FROM own_shop_parcels",
        "CREATE TABLE own_test_runs_more (x)",
        "CREATE TRIGGER own_test_runs_t AFTER INSERT ON own_test_runs BEGIN SELECT 1; END",
        "DROP TABLE own_test_runs",
        "ALTER TABLE own_test_runs ADD COLUMN y",
        "PRAGMA user_version = 3",
        "PRAGMA journal_mode",
        "ATTACH 'x.db' AS x",
        "DETACH main",
        "VACUUM",
        "REINDEX",
        "ANALYZE",
        "BEGIN",
        "COMMIT",
        "END",
        "ROLLBACK",
        "SAVEPOINT request",
        "RELEASE request",
        "INSERT OR ROLLBACK INTO own_test_runs VALUES (1)",
        "SELECT random()",
        "SELECT datetime('now')",
        "SELECT CURRENT_TIMESTAMP",
        "SELECT last_insert_rowid()",
        "SELECT only_annals_appends_to_the_log()",
        "SELECT load_extension('x')",
        "SELECT 1; DELETE FROM event",
        "",
        "nonsense",
        "SELECT x FROM own_test_runs WHERE x = ?9",
    ];
    let scratch = Scratch::new();
    add(&host(&scratch), "talk", shipped("a", "DHL", "x"));
    let before = dump(&scratch.foreign());
    for (number, sql) in refused.iter().enumerate() {
        let own = OwnProjections::default().with(Runs((*sql).to_owned()));
        let options = quick().own_projections(own);
        let store = Store::open_with(scratch.database(), &options).unwrap();
        let appended = store.append(&conversation("other"), Expected::Any, &[pause(&format!("e{number}"))]);
        assert!(appended.is_ok(), "{sql}: {appended:?}");
        // A statement that reads for the host may not write either.
        let asked = store.query_own("test.runs", sql, &[]);
        assert!(
            matches!(asked, Err(Error::OwnProjection(OwnProjectionError::Statement { .. }))),
            "{sql}: {asked:?}"
        );
        let db = scratch.foreign();
        let of_it =
            "SELECT count(*) FROM own_test_runs WHERE x LIKE 'a statement of the projection test.runs%'";
        assert_eq!(self::number(&db, of_it), number as i64 + 2, "{sql}");
        store.maintenance().drop_own_projection("test.runs").unwrap();
    }
    let store = host(&scratch);
    assert_sound(&store);
    assert_eq!(dump(&scratch.foreign()), before);
    for sql in ["DELETE FROM own_shop_parcels", "UPDATE own_shop_parcels SET note = ''"] {
        let asked = store.query_own(NAME, sql, &[]);
        assert!(
            matches!(asked, Err(Error::OwnProjection(OwnProjectionError::Statement { .. }))),
            "{sql}: {asked:?}"
        );
    }
    let unknown = store.query_own("test.runs", "SELECT 1", &[]);
    assert!(matches!(unknown, Err(Error::UnknownProjection { .. })), "{unknown:?}");
}

#[test]
fn a_table_of_another_program_is_never_taken_for_a_hosts() {
    let scratch = Scratch::new();
    drop(stranger(&scratch));
    scratch
        .foreign()
        .execute_batch("CREATE TABLE own_shop_parcels (mine); INSERT INTO own_shop_parcels VALUES (1)")
        .unwrap();
    let store = host(&scratch);
    let refused = store.append(&conversation("talk"), Expected::Any, &[pause("a")]);
    assert!(
        matches!(&refused, Err(Error::NameTaken(what)) if what == "table own_shop_parcels"),
        "{refused:?}"
    );
    let other = stranger(&scratch);
    add(&other, "talk", pause("a"));
    other.retention().delete(&conversation("talk")).unwrap();
    assert_eq!(number(&scratch.foreign(), "SELECT mine FROM own_shop_parcels"), 1);
}

#[test]
fn an_unusable_projection_is_refused_when_the_store_is_opened() {
    struct Named(&'static str);
    impl OwnProjection for Named {
        fn name(&self) -> &str {
            self.0
        }
        fn version(&self) -> u32 {
            1
        }
        fn statements(&self) -> &[&str] {
            &["CREATE TABLE own_a_b (conversation TEXT)"]
        }
        fn apply(&self, _: &OwnRows<'_>, _: &OwnEvent<'_>) -> Result<(), OwnFailure> {
            Ok(())
        }
    }
    let scratch = Scratch::new();
    for name in ["parcels", "a.c"] {
        let refused = Store::open_with(scratch.database(), &with(Named(name)));
        assert!(
            matches!(refused, Err(Error::OwnProjection(OwnProjectionError::Unusable { .. }))),
            "{name}: {refused:?}"
        );
    }
    assert!(!scratch.database().exists());
    Store::open_with(scratch.database(), &with(Named("a.b"))).unwrap();
}

#[test]
fn a_program_without_the_projection_leaves_its_tables_alone_and_says_so() {
    let scratch = Scratch::new();
    let store = host(&scratch);
    add(&store, "talk", shipped("a", "DHL", "x"));
    drop(store);
    let before = dump(&scratch.foreign());
    let other = stranger(&scratch);
    other.maintenance().rebuild(&[], &mut |_| ()).unwrap();
    other.maintenance().vacuum().unwrap();
    let seen = other.audit().verify_whole(&mut |_| ()).unwrap();
    assert_eq!(seen.findings, []);
    let notes: Vec<&str> = seen.notes.iter().map(|note| &*note.what).collect();
    assert!(
        notes.contains(&"the table own_shop_parcels is of the projection shop.parcels of another program"),
        "{notes:?}"
    );
    assert!(
        notes.contains(
            &"the index own_shop_parcels_place is of the projection shop.parcels of another program"
        ),
        "{notes:?}"
    );
    assert_eq!(dump(&scratch.foreign()), before);
    let status = &other.maintenance().own_projections().unwrap()[0];
    assert_eq!((&*status.name, status.version, status.is_known), (NAME, Some(1), false));
    assert_eq!(status.tables, ["own_shop_parcels", "own_shop_parcels_carrier"]);
    let unknown = other.maintenance().rebuild(&[NAME], &mut |_| ());
    assert!(matches!(unknown, Err(Error::UnknownProjection { .. })), "{unknown:?}");
    // The program that has it rebuilds it by its name, and may drop it.
    let store = host(&scratch);
    scratch.foreign().execute_batch("UPDATE own_shop_parcels SET note = 'drifted'").unwrap();
    store.maintenance().rebuild(&[NAME], &mut |_| ()).unwrap();
    assert_current(&scratch);
    assert!(store.audit().verify_whole(&mut |_| ()).unwrap().notes.is_empty());
    other.maintenance().drop_own_projection(NAME).unwrap();
    let left = "SELECT count(*) FROM sqlite_schema WHERE name LIKE 'own~_%' ESCAPE '~'";
    assert_eq!(number(&scratch.foreign(), left), 0);
    assert!(other.maintenance().own_projections().unwrap().is_empty());
}

#[test]
fn a_restored_backup_and_a_read_only_file_have_the_rows_of_their_log() {
    let scratch = Scratch::new();
    let store = host(&scratch);
    add(&store, "talk", shipped("a", "DHL", "x"));
    store.backup().to_new_file(scratch.path("copy.db")).unwrap();
    add(&store, "talk", shipped("b", "DHL", "x"));
    let read_only = with(Parcels::default()).read_only(true);
    let copy = Store::open_with(scratch.path("copy.db"), &read_only).unwrap();
    let count = "SELECT count(*) FROM own_shop_parcels";
    assert_eq!(copy.query_own(NAME, count, &[]).unwrap(), [[SqlValue::Integer(1)]]);
    drop(copy);
    let copy = Store::open_with(scratch.path("copy.db"), &with(Parcels::default())).unwrap();
    add(&copy, "talk", shipped("c", "UPS", "x"));
    let db = rusqlite::Connection::open(scratch.path("copy.db")).unwrap();
    assert_eq!(dump(&db), wanted(&db, 1));
    let memory = Store::in_memory(&with(Parcels::default())).unwrap();
    add(&memory, "talk", shipped("a", "DHL", "x"));
    assert_eq!(memory.query_own(NAME, count, &[]).unwrap(), [[SqlValue::Integer(1)]]);
}

#[test]
fn the_example_refuses_a_parcel_that_was_sent_before() {
    let lines = example::send(&Store::in_memory(&example::options()).unwrap()).unwrap();
    let wanted = [
        "parcel 1 goes with DHL",
        "parcel 2 goes with UPS",
        "parcel 2: the parcel was sent before",
        "DHL: 1",
        "UPS: 1",
    ];
    assert_eq!(lines, wanted);
}

/// What happens to the file.
#[derive(Debug, Clone)]
enum Act {
    Append { by_host: bool, talk: u8, carrier: u8, events: u8 },
    Delete { by_host: bool, talk: u8 },
    Redact { by_host: bool, talk: u8 },
    Archive { talk: u8 },
    CatchUp,
    Reopen,
}

fn act() -> impl Strategy<Value = Act> {
    let talk = 0..3_u8;
    prop_oneof![
        6 => (any::<bool>(), talk.clone(), 0..3_u8, 1..4_u8)
            .prop_map(|(by_host, talk, carrier, events)| Act::Append { by_host, talk, carrier, events }),
        1 => (any::<bool>(), talk.clone()).prop_map(|(by_host, talk)| Act::Delete { by_host, talk }),
        2 => (any::<bool>(), talk.clone()).prop_map(|(by_host, talk)| Act::Redact { by_host, talk }),
        1 => talk.prop_map(|talk| Act::Archive { talk }),
        1 => Just(Act::CatchUp),
        1 => Just(Act::Reopen),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn rows_that_followed_are_those_that_a_rebuild_gives(acts in prop::collection::vec(act(), 1..30), is_log in any::<bool>()) {
        let scratch = Scratch::new();
        let scope = if is_log { OwnScope::Log } else { OwnScope::Conversation };
        let open = || Store::open_with(scratch.database(), &with(Parcels { scope, ..Parcels::default() })).unwrap();
        let (mut store, other) = (open(), stranger(&scratch));
        let talks = ["zero", "one", "two"].map(conversation);
        for (number, act) in acts.iter().enumerate() {
            let by = |by_host: bool| if by_host { &store } else { &other };
            match *act {
                Act::Append { by_host, talk, carrier, events } => {
                    let carrier = ["DHL", "UPS", "refused"][usize::from(carrier)];
                    let events: Vec<NewEvent> =
                        (0..events).map(|event| shipped(&format!("e{number}-{event}"), carrier, "hush")).collect();
                    // Only the host refuses events, so no event is stuck.
                    let by_host = by_host || carrier == "refused";
                    let done = by(by_host).append(&talks[usize::from(talk)], Expected::Any, &events);
                    prop_assert_eq!(done.is_ok(), carrier != "refused");
                }
                Act::Delete { by_host, talk } => {
                    let _ = by(by_host).retention().delete(&talks[usize::from(talk)]);
                }
                Act::Redact { by_host, talk } => {
                    let talk = &talks[usize::from(talk)];
                    let page = store.events(talk, &Default::default(), 1);
                    if let Some(first) = page.ok().and_then(|page| page.events.into_iter().next()) {
                        by(by_host).retention().redact(talk, Redaction::Event(&first.id), "a test").unwrap();
                        let left = "SELECT count(*) FROM own_shop_parcels WHERE conversation = ?1 AND sequence = 0 AND note = 'hush'";
                        let db = scratch.foreign();
                        let left: i64 = db.query_row(left, [talk.as_str()], |row| row.get(0)).unwrap_or(0);
                        prop_assert_eq!(left, 0);
                    }
                }
                Act::Archive { talk } => {
                    let _ = other.retention().archive(&[talks[usize::from(talk)].clone()], None, &mut |_| ());
                }
                Act::CatchUp => store.catch_up_own().unwrap(),
                Act::Reopen => store = open(),
            }
        }
        store.catch_up_own().unwrap();
        let followed = dump(&scratch.foreign());
        store.maintenance().rebuild(&[NAME], &mut |_| ()).unwrap();
        prop_assert_eq!(&dump(&scratch.foreign()), &followed);
        assert_sound(&store);
    }
}
