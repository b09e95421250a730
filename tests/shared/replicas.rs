//! Stores that share a log: each has what the others write, all files are the same, and a new one catches up.

use std::time::{Duration, Instant};

use annals::error::SharedError;
use annals::redact::Finder;
use annals::shared::SharedLog;
use annals::state::FieldChange;
use annals::store::{BaseStateChange, Redaction};
use annals::transfer::{ImportOptions, Importer};
use annals::{Append, Error, EventId, Expected, Leaf, Options, Position, Store};
use rusqlite::Connection;

use crate::server::Server;
use crate::support::events::{command, printed, user_message};
use crate::support::{Scratch, all_events, assert_sound, conversation, folder, rows};

/// Tables of one file alone: what it has read, and the words of its search index, which are stored in pieces.
const OWN: &str = "'projection', 'maintenance', 'refinery_schema_history', 'usage_stale', 'fact_stale', 'host_stale', 'host_table', \
     'write_log'";

/// Returns all other tables of a file: those of the truth, and those that every file derives for itself.
fn tables(db: &Connection) -> Vec<String> {
    let sql = format!(
        "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT GLOB 'sqlite_*' \
         AND name NOT GLOB 'transcript_search*' AND name NOT IN ({OWN})"
    );
    let names: Vec<String> =
        db.prepare(&sql).unwrap().query_map([], |row| row.get(0)).unwrap().collect::<Result<_, _>>().unwrap();
    assert!(names.len() > 25, "{names:?}");
    names
}

/// Asserts that two files have the same rows.
#[track_caller]
pub fn assert_equal(one: &Store, other: &Store) {
    for store in [one, other] {
        store.catch_up().unwrap();
    }
    let (one, other) = (Connection::open(one.path()).unwrap(), Connection::open(other.path()).unwrap());
    for table in tables(&one) {
        let all = |db: &Connection| {
            let mut rows: Vec<String> =
                rows(db, &format!("SELECT * FROM {table}")).iter().map(|row| format!("{row:?}")).collect();
            rows.sort();
            rows
        };
        assert_eq!(all(&one), all(&other), "{table}");
    }
}

/// Waits until a store has the event at `position`.
pub fn wait_for(store: &Store, position: Position) {
    let mut feed = store.follow(Position(position.0 - 1));
    let page = feed.next_page(1, Duration::from_secs(120)).unwrap();
    assert!(!page.is_empty(), "{} did not get it in time", store.path().display());
}

#[test]
fn what_one_store_writes_another_has() {
    let (server, scratch) = (Server::with_log(), Scratch::new());
    let (a, b) = (server.open(&scratch.path("a.db")), server.open(&scratch.path("b.db")));
    let talk = conversation("talk");
    a.append(&talk, Expected::Empty, &[user_message("one", "from a")]).unwrap();
    let places = b.append(&talk, Expected::Exact(1), &[user_message("two", "from b")]).unwrap();
    assert_eq!(places[0].sequence.0, 1);
    wait_for(&a, places[0].position);
    assert_eq!(all_events(&a, &talk), all_events(&b, &talk));
    // Each knows what the other wrote before it decides.
    let conflict = a.append(&talk, Expected::Exact(1), &[user_message("three", "too late")]);
    assert!(matches!(conflict, Err(Error::Conflict { actual: 2, .. })), "{conflict:?}");
    let known = a.append(&talk, Expected::Any, &[user_message("two", "from b")]).unwrap();
    assert!(known[0].known && known[0].position == places[0].position);
    let other = a.append(&talk, Expected::Any, &[user_message("two", "another text")]);
    assert!(matches!(other, Err(Error::DuplicateEvent { .. })), "{other:?}");
    assert_equal(&a, &b);
    // The truth can be asked there, too.
    let rows = server
        .client()
        .query("SELECT conversation_id, event_id, payload FROM events ORDER BY position", &[])
        .unwrap();
    let ids: Vec<(String, String)> = rows.iter().map(|row| (row.get(0), row.get(1))).collect();
    assert_eq!(ids, [("talk".into(), "one".into()), ("talk".into(), "two".into())]);
    assert_eq!(rows[1].get::<_, String>(2), all_events(&a, &talk)[1].payload);
    let status = SharedLog::at(&server.address()).unwrap().status().unwrap();
    assert_eq!((status.entries, status.conversations, status.events), (3, 1, 2), "the first names the store");
}

/// Changes all that can be changed.
fn change_everything(store: &Store) {
    let (talk, other) = (conversation("talk"), conversation("other"));
    store
        .append(
            &talk,
            Expected::Empty,
            &[
                user_message("a", "find me"),
                command("b", "call", "make"),
                printed("c", "b", "call", "fine", 0),
            ],
        )
        .unwrap();
    store.append(&other, Expected::Empty, &[user_message("secret", "the word is swordfish")]).unwrap();
    store.set_title(&talk, Some("a title")).unwrap();
    for status in ["\"running\"", "\"finished\""] {
        let fields = vec![FieldChange::set("execution_status", status).unwrap()];
        store.save_base_state(&talk, BaseStateChange::new(fields)).unwrap();
    }
    store.append_all(&talk, Append::new(Expected::Any, vec![]).leaf(Leaf::Empty)).unwrap();
    store.set_parent(&other, &talk).unwrap();
    let mut imported = Vec::new();
    for golden in ["conversations/hello-two-turns", "corrupt"] {
        let mut importer = Importer::new(store, ImportOptions::default());
        let reports = importer.import(&folder::golden(golden), &mut |_| ()).unwrap();
        imported.extend(reports.into_iter().filter_map(|report| report.id));
    }
    store.attach(&talk, "notes.txt", b"a note").unwrap();
    store.attach(&talk, "notes.txt", b"another note").unwrap();
    store.subscription("mailer").unwrap().acknowledge_to(Position(0)).unwrap();
    store.retention().archive(std::slice::from_ref(&talk), None, &mut |_| ()).unwrap();
    let archived = store.retention().archive(&imported, None, &mut |_| ()).unwrap();
    assert!(archived.dictionary_bytes > 0, "{archived:?}");
    store.append(&talk, Expected::Any, &[user_message("d", "after the archive")]).unwrap();
    let secret = EventId::new("secret").unwrap();
    store.retention().redact(&other, Redaction::Event(&secret), "asked for").unwrap();
    store.append(&conversation("doomed"), Expected::Empty, &[user_message("x", "soon gone")]).unwrap();
    store.append(&conversation("erased"), Expected::Empty, &[user_message("y", "at once gone")]).unwrap();
    store.retention().delete(&conversation("doomed")).unwrap();
    store.retention().erase(&conversation("erased"), "asked for").unwrap();
    // The same id again is another conversation.
    store.append(&conversation("doomed"), Expected::Empty, &[user_message("z", "anew")]).unwrap();
}

#[test]
fn all_changes_reach_every_file() {
    let (server, scratch) = (Server::with_log(), Scratch::new());
    let (a, b) = (server.open(&scratch.path("a.db")), server.open(&scratch.path("b.db")));
    change_everything(&a);
    let last = b.append(&conversation("last"), Expected::Empty, &[user_message("end", "the end")]).unwrap();
    wait_for(&a, last[0].position);
    assert_equal(&a, &b);
    let c = server.open(&scratch.path("c.db"));
    assert_equal(&a, &c);
    // What was redacted or erased is nowhere on the server.
    let mut client = server.client();
    for text in ["swordfish", "at once gone", "soon gone"] {
        for (table, column) in [("event", "payload"), ("other_row", "encode(content, 'escape')")] {
            let sql = format!("SELECT count(*) FROM {table} WHERE {column} LIKE '%{text}%'");
            assert_eq!(client.query_one(&sql, &[]).unwrap().get::<_, i64>(0), 0, "{text} in {table}");
        }
    }
    // Nor is it in a file, or in its write-ahead log.
    for name in ["a.db", "b.db", "c.db"] {
        assert_gone(&scratch, name, &["swordfish", "at once gone"]);
    }
    for store in [&a, &b, &c] {
        assert_sound(store);
        let found = store.search("find me", &Default::default(), 10, &mut |_| ()).unwrap();
        assert_eq!(
            found.iter().map(|hit| hit.event_id.as_str()).collect::<Vec<_>>(),
            ["a"],
            "{}",
            store.path().display()
        );
    }
}

/// Asserts that neither the file nor its write-ahead log has a text for long.
#[track_caller]
fn assert_gone(scratch: &Scratch, name: &str, texts: &[&str]) {
    let (file, log) = (scratch.path(name), scratch.path(&format!("{name}-wal")));
    let has = |text: &&str| {
        [&file, &log].into_iter().any(|path| {
            let bytes = std::fs::read(path).unwrap_or_default();
            bytes.windows(text.len()).any(|window| window == text.as_bytes())
        })
    };
    let begun = Instant::now();
    while texts.iter().any(has) {
        assert!(begun.elapsed() < Duration::from_secs(60), "{name} still has it");
    }
}

#[test]
fn what_was_redacted_beside_the_events_leaves_every_file() {
    let (server, scratch) = (Server::with_log(), Scratch::new());
    let (a, b) = (server.open(&scratch.path("a.db")), server.open(&scratch.path("b.db")));
    let talk = conversation("talk");
    a.append(&talk, Expected::Empty, &[user_message("a", "text")]).unwrap();
    a.set_title(&talk, Some("about quicksilver")).unwrap();
    a.attach(&talk, "notes.txt", b"the word is quicksilver").unwrap();
    b.replica().unwrap().refresh().unwrap();
    let finder = Finder::expression("quicksilver").unwrap();
    let what = Redaction::Matches { finder: &finder, values: &[], own: false };
    a.retention().redact(&talk, what, "asked for").unwrap();
    b.replica().unwrap().refresh().unwrap();
    for name in ["a.db", "b.db"] {
        assert_gone(&scratch, name, &["quicksilver"]);
    }
    assert_equal(&a, &b);
}

/// What others wrote comes table by table, so a row may come before the one that it refers to, or stay longer.
#[test]
fn rows_may_refer_to_what_comes_later_or_goes_before() {
    let (server, scratch) = (Server::with_log(), Scratch::new());
    let (a, b) = (server.open(&scratch.path("a.db")), server.open(&scratch.path("b.db")));
    let (child, late, orphan, mother) =
        (conversation("child"), conversation("late"), conversation("orphan"), conversation("mother"));
    for id in [&child, &late, &mother, &orphan] {
        a.append(id, Expected::Empty, &[user_message("a", "text")]).unwrap();
    }
    a.set_parent(&orphan, &mother).unwrap();
    b.replica().unwrap().refresh().unwrap();
    a.set_parent(&child, &late).unwrap();
    a.retention().delete(&mother).unwrap();
    b.replica().unwrap().refresh().unwrap();
    let c = server.open(&scratch.path("c.db"));
    for store in [&b, &c] {
        assert_equal(&a, store);
        assert_sound(store);
    }
}

#[test]
fn large_content_comes_page_by_page() {
    let (server, scratch) = (Server::with_log(), Scratch::new());
    let (a, b) = (server.open(&scratch.path("a.db")), server.open(&scratch.path("b.db")));
    let talk = conversation("talk");
    let large = "many words ".repeat(700_000);
    for number in 0..6 {
        a.append(&talk, Expected::Any, &[user_message(&format!("large-{number}"), &large)]).unwrap();
        a.attach(&talk, &format!("{number}.txt"), format!("{number}{large}").as_bytes()).unwrap();
    }
    let small: Vec<_> = (0..700).map(|number| user_message(&format!("small-{number}"), "few")).collect();
    let last = a.append(&talk, Expected::Any, &small).unwrap();
    wait_for(&b, last[699].position);
    assert_equal(&a, &b);
    assert_equal(&a, &server.open(&scratch.path("c.db")));
}

#[test]
fn a_replica_is_not_written_without_its_log() {
    let (server, scratch) = (Server::with_log(), Scratch::new());
    let path = scratch.path("a.db");
    let talk = conversation("talk");
    server.open(&path).append(&talk, Expected::Empty, &[user_message("one", "shared")]).unwrap();
    let alone = Store::open(&path).unwrap();
    let refused = alone.append(&talk, Expected::Any, &[user_message("two", "alone")]);
    assert!(matches!(refused, Err(Error::Shared(SharedError::Replica { .. }))), "{refused:?}");
    let refused = alone.retention().erase(&talk, "alone");
    assert!(matches!(refused, Err(Error::Shared(SharedError::Replica { .. }))), "{refused:?}");
    // It is read, and what is derived is made.
    assert_eq!(alone.transcript(&talk, annals::Sequence(0), 10).unwrap().len(), 1);
    drop(alone);
    // A file of its own does not become a replica.
    let own = scratch.path("own.db");
    Store::open(&own).unwrap().append(&talk, Expected::Empty, &[user_message("one", "own")]).unwrap();
    let refused = Store::open_shared(&server.address(), &own, &Options::default());
    assert!(matches!(refused, Err(Error::Shared(SharedError::NotItsReplica { .. }))), "{refused:?}");
    Store::open(&own).unwrap().append(&talk, Expected::Any, &[user_message("two", "own")]).unwrap();
    // Nor does a replica of one log become that of another.
    let other = Server::with_log();
    let refused = Store::open_shared(&other.address(), &path, &Options::default());
    assert!(matches!(refused, Err(Error::Shared(SharedError::NotItsReplica { .. }))), "{refused:?}");
}

#[test]
fn a_log_is_made_once_and_must_be_there() {
    let (server, scratch) = (Server::start(), Scratch::new());
    let log = SharedLog::at(&server.address()).unwrap();
    let missing = Store::open_shared(&server.address(), scratch.path("a.db"), &Options::default());
    assert!(matches!(missing, Err(Error::Shared(SharedError::None { .. }))), "{missing:?}");
    assert!(!scratch.path("a.db").exists(), "nothing was made");
    log.make().unwrap();
    assert!(matches!(log.make(), Err(Error::Shared(SharedError::Exists { .. }))));
    assert_eq!(log.status().unwrap().entries, 0);
    log.drop_all().unwrap();
    assert!(matches!(log.status(), Err(Error::Shared(SharedError::None { .. }))));
}

#[test]
fn what_is_not_of_the_log_is_neither_mixed_with_it_nor_removed_with_it() {
    let server = Server::start();
    let mut client = server.client();
    client.batch_execute("CREATE SCHEMA team; CREATE TABLE team.payroll (name text)").unwrap();
    let log = SharedLog::at(&server.address()).unwrap();
    let refused = log.make();
    assert!(matches!(refused, Err(Error::Shared(SharedError::Address { .. }))), "{refused:?}");
    client.batch_execute("DROP TABLE team.payroll").unwrap();
    log.make().unwrap();
    // What a person adds later stays, and a view on the log keeps it.
    client
        .batch_execute(
            "CREATE TABLE team.notes (text text); CREATE VIEW team.mine AS SELECT * FROM team.event",
        )
        .unwrap();
    assert!(log.drop_all().is_err());
    assert_eq!(log.status().unwrap().entries, 0);
    client.batch_execute("DROP VIEW team.mine").unwrap();
    log.drop_all().unwrap();
    assert_eq!(client.query("SELECT * FROM team.notes", &[]).unwrap().len(), 0);
    // A schema that is left empty goes with the log.
    client.batch_execute("DROP TABLE team.notes").unwrap();
    log.make().unwrap();
    log.drop_all().unwrap();
    let left = "SELECT count(*) FROM pg_namespace WHERE nspname = 'team'";
    assert_eq!(client.query_one(left, &[]).unwrap().get::<_, i64>(0), 0);
}

#[test]
fn many_writers_on_many_files_agree() {
    const EACH: usize = 40;
    let (server, scratch) = (Server::with_log(), Scratch::new());
    let stores: Vec<Store> = (0..3).map(|node| server.open(&scratch.path(&format!("{node}.db")))).collect();
    std::thread::scope(|scope| {
        for (node, store) in stores.iter().enumerate() {
            for thread in 0..3 {
                scope.spawn(move || {
                    for number in 0..EACH {
                        let event = user_message(&format!("{node}-{thread}-{number}"), "text");
                        let talk = conversation(["one", "two"][number % 2]);
                        // With an expectation, the loser of a race tries again.
                        loop {
                            let known = store.find(&talk).unwrap().map_or(0, |row| row.event_count);
                            let expected = if known == 0 { Expected::Empty } else { Expected::Exact(known) };
                            match store.append(&talk, expected, std::slice::from_ref(&event)) {
                                Ok(places) => break assert!(places[0].sequence.0 == known),
                                Err(Error::Conflict { .. }) => {}
                                Err(error) => panic!("{error}"),
                            }
                        }
                    }
                });
            }
        }
    });
    for store in &stores {
        // The next write has everything before it.
        let title = store.path().to_string_lossy().into_owned();
        store.set_title(&conversation("one"), Some(&title)).unwrap();
    }
    let last = stores[0].append(&conversation("one"), Expected::Any, &[user_message("end", "")]).unwrap();
    for store in &stores {
        wait_for(store, last[0].position);
        assert_eq!(store.conversation(&conversation("two")).unwrap().event_count, (9 * EACH / 2) as u64);
        assert_equal(&stores[0], store);
        assert_sound(store);
    }
}
