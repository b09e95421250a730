//! Where a replica stands: what it waits for, how it shows that it differs from the log, and how it is made anew.

use std::time::Duration;

use annals::error::SharedError;
use annals::shared::SharedLog;
use annals::{Error, Expected, Options, Position, Store};
use rusqlite::Connection;

use crate::replicas::{assert_equal, wait_for};
use crate::server::Server;
use crate::support::events::user_message;
use crate::support::{Scratch, assert_sound, conversation, event_ids, owner};

/// Changes a file behind the back of its store, as a person with a shell can.
fn change_by_hand(path: &std::path::Path, sql: &str) {
    owner(path).execute_batch(&format!("BEGIN IMMEDIATE; {sql}; COMMIT")).unwrap();
}

const FORGET_THE_HASH: &str = "UPDATE event SET hash = zeroblob(32) WHERE position = (SELECT max(e.position) FROM event AS e \
     JOIN conversation AS c ON c.key = e.conversation WHERE c.id = 'talk')";

/// Returns how the store was made anew: why, and the hash in the copy.
#[track_caller]
fn rebuilt(store: &Store) -> (String, Vec<u8>) {
    let rebuilt = store.replica().unwrap().status().rebuilt.expect("it was made anew");
    let copy = Connection::open(&rebuilt.copy).unwrap();
    let hash = copy.query_row("SELECT hash FROM event ORDER BY position DESC LIMIT 1", [], |row| row.get(0));
    (rebuilt.why, hash.unwrap())
}

#[test]
fn a_file_that_differs_from_the_log_is_made_anew_and_kept_beside() {
    let (server, scratch) = (Server::with_log(), Scratch::new());
    let (a, b) = (server.open(&scratch.path("a.db")), server.open(&scratch.path("b.db")));
    let (talk, other) = (conversation("talk"), conversation("other"));
    let append = |store: &Store, id: &str| {
        store.append(&talk, Expected::Any, &[user_message(id, "swordfish")]).unwrap()[0].position
    };
    a.append(&other, Expected::Empty, &[user_message("x", "elsewhere")]).unwrap();
    wait_for(&b, append(&a, "one"));
    // While it is open, the thread that follows finds the difference with the next entry of the conversation.
    change_by_hand(&b.path(), FORGET_THE_HASH);
    wait_for(&b, append(&a, "two"));
    let (why, hash) = rebuilt(&b);
    assert!(why.contains("conversation talk"), "{why}");
    assert_eq!(hash, [0; 32], "the copy is as it was");
    assert_equal(&a, &b);
    assert_sound(&b);
    let found = b.search("swordfish", &Default::default(), 10, &mut |_| ()).unwrap();
    assert_eq!(found.len(), 2, "what is derived was made anew, too");
    // A write that meets the difference is refused, and can be made again.
    change_by_hand(
        &b.path(),
        "DELETE FROM event WHERE conversation = (SELECT key FROM conversation WHERE id = 'talk')",
    );
    let last = append(&a, "three");
    wait_for(&b, last);
    wait_for(&a, append(&b, "four"));
    assert_equal(&a, &b);
    // When it is opened.
    let path = b.path();
    drop(b);
    change_by_hand(&path, FORGET_THE_HASH);
    append(&a, "five");
    let b = server.open(&path);
    assert!(rebuilt(&b).0.contains("conversation talk"));
    assert_equal(&a, &b);
    assert_sound(&b);
    let copies = std::fs::read_dir(path.parent().unwrap()).unwrap();
    let copies = copies
        .filter(|entry| entry.as_ref().unwrap().file_name().to_string_lossy().starts_with("b.db.differs-"));
    assert_eq!(copies.count(), 3);
}

#[test]
fn a_log_that_is_wrong_itself_stops_a_file_and_leaves_it_as_it_is() {
    let (server, scratch) = (Server::with_log(), Scratch::new());
    let (a, b) = (server.open(&scratch.path("a.db")), server.open(&scratch.path("b.db")));
    let talk = conversation("talk");
    let one = a.append(&talk, Expected::Any, &[user_message("one", "text")]).unwrap();
    wait_for(&b, one[0].position);
    drop(b);
    a.append(&talk, Expected::Any, &[user_message("two", "text")]).unwrap();
    server.client().batch_execute("UPDATE event SET payload = replace(payload, 'text', 'tex!')").unwrap();
    let opened = Store::open_shared(&server.address(), scratch.path("b.db"), &Options::default());
    assert!(matches!(opened, Err(Error::Shared(SharedError::Differs { .. }))), "{opened:?}");
    assert_eq!(event_ids(&Store::open(scratch.path("b.db")).unwrap(), &talk), ["one"]);
    let copies = std::fs::read_dir(scratch.path("b.db").parent().unwrap()).unwrap();
    assert!(
        !copies.into_iter().any(|entry| entry.unwrap().file_name().to_string_lossy().contains("differs"))
    );
}

#[test]
fn every_row_of_a_file_is_compared_with_the_log() {
    let (server, scratch) = (Server::with_log(), Scratch::new());
    let (a, b) = (server.open(&scratch.path("a.db")), server.open(&scratch.path("b.db")));
    let (talk, doomed) = (conversation("talk"), conversation("doomed"));
    let many: Vec<_> = (0..300).map(|number| user_message(&format!("m-{number}"), "text")).collect();
    a.append(&talk, Expected::Any, &many).unwrap();
    a.attach(&talk, "notes.txt", b"a note").unwrap();
    a.append(&doomed, Expected::Any, &[user_message("x", "text")]).unwrap();
    a.retention().delete(&doomed).unwrap();
    let replica = b.replica().unwrap();
    let mut last = Default::default();
    let same = replica.check(&mut |progress| last = progress).unwrap();
    assert_eq!((same.differing, same.entry), (0, replica.status().entry), "{same:?}");
    assert_eq!((same.rows, last.rows_total), (last.rows, last.rows + 1), "what was removed is no row");
    for (sql, table, found) in [
        ("UPDATE event SET payload = replace(payload, 'text', 'tex!') WHERE sequence = 7", "event 8", 1),
        ("DELETE FROM attachment", "attachment ", 1),
        ("UPDATE conversation SET title = 'another' WHERE id = 'talk'", "conversation ", 1),
        (
            "INSERT INTO problem (conversation, path, problem, action, found_at) SELECT key, 'x', 'y', 'z', 1 FROM conversation",
            "problem: the file has 1 more",
            1,
        ),
    ] {
        change_by_hand(&b.path(), sql);
        let differs = replica.check(&mut |_| ()).unwrap();
        assert_eq!(differs.differing, found, "{sql}: {differs:?}");
        assert!(differs.differences.iter().any(|what| what.starts_with(table)), "{sql}: {differs:?}");
        let copy = replica.make_anew(&mut |_| ()).unwrap();
        assert!(copy.exists());
        assert_eq!(replica.check(&mut |_| ()).unwrap(), same, "{sql}");
    }
    assert_equal(&a, &b);
    assert_sound(&b);
}

#[test]
fn a_check_agrees_on_an_entry_while_others_write() {
    let (server, scratch) = (Server::with_log(), Scratch::new());
    let (a, b) = (server.open(&scratch.path("a.db")), server.open(&scratch.path("b.db")));
    let talk = conversation("talk");
    let is_over = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for number in 0.. {
                a.append(&talk, Expected::Any, &[user_message(&format!("m-{number}"), "text")]).unwrap();
                if is_over.load(std::sync::atomic::Ordering::SeqCst) {
                    return;
                }
            }
        });
        let entries: Vec<u64> = (0..5)
            .map(|_| {
                let found = b.replica().unwrap().check(&mut |_| ()).unwrap();
                assert_eq!(found.differing, 0, "{found:?}");
                found.entry
            })
            .collect();
        is_over.store(true, std::sync::atomic::Ordering::SeqCst);
        assert!(entries.is_sorted());
    });
}

#[test]
fn a_reader_can_wait_for_what_was_written_elsewhere() {
    let (server, scratch) = (Server::with_log(), Scratch::new());
    let (a, b) = (server.open(&scratch.path("a.db")), server.open(&scratch.path("b.db")));
    let talk = conversation("talk");
    assert!(Store::in_memory(&Options::default()).unwrap().replica().is_none());
    for number in 0..20 {
        a.append(&talk, Expected::Any, &[user_message(&format!("w-{number}"), "text")]).unwrap();
        let entry = a.replica().unwrap().status().entry;
        if number % 2 == 0 {
            assert!(b.replica().unwrap().wait_for(entry, Duration::from_secs(120)).unwrap() >= entry);
        } else {
            assert!(b.replica().unwrap().refresh().unwrap() >= entry);
        }
        assert_eq!(b.conversation(&talk).unwrap().event_count, number + 1);
    }
    let status = b.replica().unwrap().status();
    assert_eq!((status.entry, status.log_entry, status.trouble), (21, 21, None));
    assert_eq!(status.log_id, SharedLog::at(&server.address()).unwrap().status().unwrap().log_id);
    let late = b.replica().unwrap().wait_for(99, Duration::ZERO);
    assert!(matches!(late, Err(Error::Shared(SharedError::Behind { file: 21, wanted: 99 }))), "{late:?}");
    assert!(late.unwrap_err().is_transient());
    // Without the server it says why it does not follow.
    server.kill();
    assert!(b.replica().unwrap().refresh().is_err());
    let status = b.replica().unwrap().status();
    assert!(status.trouble.is_some() && !status.is_stopped, "{status:?}");
    server.run();
    while b.replica().unwrap().refresh().is_err() {}
    assert_eq!(b.replica().unwrap().status().trouble, None);
}

#[test]
fn a_file_that_is_far_behind_says_how_far_it_has_come() {
    let (server, scratch) = (Server::with_log(), Scratch::new());
    let a = server.open(&scratch.path("a.db"));
    let talk = conversation("talk");
    let many: Vec<_> = (0..1200).map(|number| user_message(&format!("m-{number}"), "text")).collect();
    a.append(&talk, Expected::Any, &many).unwrap();
    let mut seen = Vec::new();
    let log = SharedLog::at(&server.address()).unwrap();
    let new =
        log.open(scratch.path("new.db"), &Options::default(), &mut |progress| seen.push(progress)).unwrap();
    let last = seen.last().copied().unwrap();
    assert!(seen.len() > 2 && seen.is_sorted_by_key(|progress| progress.rows), "{seen:?}");
    assert_eq!((last.rows, last.entry), (last.rows_total, a.replica().unwrap().status().entry));
    assert!(last.rows > 1200);
    assert_equal(&a, &new);
}

#[test]
fn a_file_that_is_ahead_is_made_anew_only_if_it_is_asked_for() {
    let (server, scratch) = (Server::with_log(), Scratch::new());
    let path = scratch.path("a.db");
    let store = server.open(&path);
    let talk = conversation("talk");
    let append = |id: &str| store.append(&talk, Expected::Any, &[user_message(id, "text")]);
    append("one").unwrap();
    let before = server.dump();
    append("two").unwrap();
    server.restore(&before);
    let refused = append("three");
    assert!(matches!(refused, Err(Error::Shared(SharedError::Ahead { .. }))), "{refused:?}");
    assert!(store.replica().unwrap().status().is_stopped);
    drop(store);
    let (log, options) = (SharedLog::at(&server.address()).unwrap(), Options::default());
    let refused = log.open(&path, &options, &mut |_| ());
    assert!(matches!(refused, Err(Error::Shared(SharedError::Ahead { .. }))), "{refused:?}");
    let store = log.rebuild(&path, &options, &mut |_| ()).unwrap();
    assert_eq!(event_ids(&store, &talk), ["one"]);
    let copy = store.replica().unwrap().status().rebuilt.unwrap().copy;
    assert_eq!(event_ids(&Store::open(copy).unwrap(), &talk), ["one", "two"], "nothing is lost");
    store.append(&talk, Expected::Exact(1), &[user_message("three", "text")]).unwrap();
    assert_eq!(store.last_position().unwrap(), Position(2));
    assert_sound(&store);
}

#[test]
fn the_logs_of_a_database_are_listed() {
    let (server, scratch) = (Server::with_log(), Scratch::new());
    let at = |schema: &str| SharedLog::at(&server.address().replace("schema=team", schema)).unwrap();
    at("schema=another").make().unwrap();
    server.client().batch_execute("CREATE SCHEMA unlike; CREATE TABLE unlike.log (x int)").unwrap();
    server
        .client()
        .batch_execute(
            "CREATE SCHEMA alike; CREATE TABLE alike.log (x int); CREATE TABLE alike.log_end (x int)",
        )
        .unwrap();
    let store = server.open(&scratch.path("a.db"));
    store.append(&conversation("talk"), Expected::Any, &[user_message("one", "text")]).unwrap();
    let logs = at("schema=nowhere").list();
    let logs = logs.unwrap();
    let shown: Vec<(&str, u64, u64)> =
        logs.iter().map(|(schema, held)| (&**schema, held.entries, held.events)).collect();
    assert_eq!(shown, [("another", 0, 0), ("team", 2, 1)]);
}
