//! Faults of the server, of the nodes and of the way between them: nothing that was acknowledged is lost, nothing is there
//! twice, and one order explains what all callers saw.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use annals::error::SharedError;
use annals::{Error, Expected, Options, Store};

use crate::history::{Found, Operation, contradiction, now};
use crate::replicas::{assert_equal, wait_for};
use crate::server::Server;
use crate::support::child::{self, Running};
use crate::support::events::user_message;
use crate::support::{Scratch, assert_sound, conversation, event_ids, is_exhaustive};

const TALK: &str = "talk";

/// Appends with the length that the store knows until it succeeds, and records each attempt.
fn append_at_the_end(store: &Store, id: &str, history: &Mutex<Vec<Operation>>) -> u64 {
    let talk = conversation(TALK);
    loop {
        let known = store.find(&talk).unwrap().map_or(0, |row| row.event_count);
        let expected = if known == 0 { Expected::Empty } else { Expected::Exact(known) };
        let called = now();
        let answer = store.append(&talk, expected, &[user_message(id, "text")]);
        let returned = now();
        let found = match answer {
            Ok(places) => Found::Appended(places[0].sequence.0),
            Err(Error::Conflict { actual, .. }) => Found::Length(actual),
            // It may have taken place. The same call finds out.
            Err(error) if error.is_transient() => continue,
            Err(error) => panic!("{id}: {error:?}"),
        };
        if let Found::Appended(sequence) = found {
            history.lock().unwrap().push(Operation { called, returned, found });
            return sequence;
        }
        history.lock().unwrap().push(Operation { called, returned, found });
    }
}

#[test]
fn one_order_explains_what_all_callers_saw() {
    let (server, scratch) = (Server::with_log(), Scratch::new());
    let stores: Vec<Store> = (0..3).map(|node| server.open(&scratch.path(&format!("{node}.db")))).collect();
    let history = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for (node, store) in stores.iter().enumerate() {
            for thread in 0..2 {
                let history = &history;
                scope.spawn(move || {
                    for number in 0..25 {
                        append_at_the_end(store, &format!("{node}-{thread}-{number}"), history);
                    }
                });
            }
        }
    });
    let history = history.into_inner().unwrap();
    assert_eq!(contradiction(&history), None);
    let conflicts = history.iter().filter(|one| matches!(one.found, Found::Length(_))).count();
    assert!(conflicts > 0, "the callers never met");
}

#[test]
fn a_server_that_is_killed_again_and_again_loses_nothing() {
    let asked = std::env::var("ANNALS_SHARED_KILLS").ok().and_then(|text| text.parse().ok());
    let rounds = asked.unwrap_or(if is_exhaustive() { 25 } else { 3 });
    let (server, scratch) = (Server::with_log(), Scratch::new());
    let options = Options::default().busy_timeout(Duration::from_secs(60));
    let open = |name: &str| Store::open_shared(&server.address(), scratch.path(name), &options).unwrap();
    let stores = [open("a.db"), open("b.db")];
    let (history, is_over) = (Mutex::new(Vec::new()), AtomicBool::new(false));
    let total = std::thread::scope(|scope| {
        let (written, appended) = std::sync::mpsc::channel();
        let writers: Vec<_> = stores
            .iter()
            .enumerate()
            .map(|(node, store)| {
                let (history, is_over, written) = (&history, &is_over, written.clone());
                scope.spawn(move || {
                    let mut number = 0;
                    while !is_over.load(Ordering::SeqCst) {
                        append_at_the_end(store, &format!("{node}-{number}"), history);
                        number += 1;
                        written.send(()).unwrap();
                    }
                    number
                })
            })
            .collect();
        drop(written);
        for round in 0..rounds {
            // Each round begins when the writers have written again. If they fail, so does this.
            while appended.try_recv().is_ok() {}
            for _ in 0..5 + round % 7 {
                appended.recv().unwrap();
            }
            server.kill();
            server.run();
        }
        is_over.store(true, Ordering::SeqCst);
        writers.into_iter().map(|writer| writer.join().unwrap()).sum::<usize>()
    });
    assert_the_same(&server, &stores, total, &scratch);
    let history = history.into_inner().unwrap();
    assert_eq!(contradiction(&history), None);
}

/// Asserts that all stores and a new one have the same, and each event once.
pub fn assert_the_same(server: &Server, stores: &[Store], written: usize, scratch: &Scratch) {
    let last = stores[0].append(&conversation("end"), Expected::Any, &[user_message("end", "")]).unwrap();
    let new = server.open(&scratch.path("new.db"));
    for store in stores {
        wait_for(store, last[0].position);
        let ids = event_ids(store, &conversation(TALK));
        assert_eq!(ids.len(), written);
        assert_eq!(ids.iter().collect::<BTreeSet<_>>().len(), written);
        assert_equal(store, &new);
        assert_sound(store);
    }
}

/// Appends one event after another until it is killed, and reports each that was acknowledged.
fn append_until_killed(address: &str, path: &Path, from: usize) {
    let store = Store::open_shared(address, path, &Options::default()).unwrap();
    let name = path.file_stem().unwrap().to_string_lossy().into_owned();
    for number in from.. {
        let id = format!("{name}-{number}");
        store.append(&conversation(TALK), Expected::Any, &[user_message(&id, "text")]).unwrap();
        child::report(&id);
    }
}

#[test]
fn nodes_that_are_killed_again_and_again_lose_nothing() {
    if let Some(role) = child::role() {
        let (address, from) = role.name.rsplit_once('#').unwrap();
        return append_until_killed(address, &role.database, from.parse().unwrap());
    }
    let rounds = if is_exhaustive() { 250 } else { 8 };
    let (server, scratch) = (Server::with_log(), Scratch::new());
    let test = "faults::nodes_that_are_killed_again_and_again_lose_nothing";
    let acknowledged: Vec<String> = std::thread::scope(|scope| {
        let nodes: Vec<_> = ["a", "b"]
            .into_iter()
            .map(|name| {
                let (server, path) = (&server, scratch.path(&format!("{name}.db")));
                scope.spawn(move || {
                    let mut acknowledged: Vec<String> = Vec::new();
                    for round in 0..rounds {
                        // What was written without an acknowledgement is written again.
                        let role = format!("{}#{}", server.address(), acknowledged.len());
                        let mut node = Running::start(child::command(test, &role, &path));
                        acknowledged.extend(node.take_lines().take(1 + round % 9));
                        node.kill();
                    }
                    acknowledged
                })
            })
            .collect();
        nodes.into_iter().flat_map(|node| node.join().unwrap()).collect()
    });
    let stores = [server.open(&scratch.path("a.db")), server.open(&scratch.path("b.db"))];
    let ids = event_ids(&stores[0], &conversation(TALK));
    let known: BTreeSet<&String> = ids.iter().collect();
    let lost: Vec<&String> = acknowledged.iter().filter(|id| !known.contains(id)).collect();
    assert!(lost.is_empty(), "{lost:?}");
    assert_the_same(&server, &stores, ids.len(), &scratch);
}

#[test]
fn a_log_with_other_tables_is_refused() {
    let (server, scratch) = (Server::with_log(), Scratch::new());
    let options = Options::default();
    let open = || Store::open_shared(&server.address(), scratch.path("a.db"), &options);
    drop(open().unwrap());
    for change in ["version + 1", "version - 2"] {
        let sql = format!("UPDATE refinery_schema_history SET version = {change}");
        server.client().batch_execute(&sql).unwrap();
        let refused = open();
        assert!(matches!(refused, Err(Error::Shared(SharedError::OtherVersion { .. }))), "{refused:?}");
        assert!(!refused.unwrap_err().is_transient());
    }
}

#[test]
fn a_file_that_is_ahead_of_its_log_is_not_written() {
    let (server, scratch) = (Server::with_log(), Scratch::new());
    let store = server.open(&scratch.path("a.db"));
    let talk = conversation(TALK);
    let append = |id: &str| store.append(&talk, Expected::Any, &[user_message(id, "text")]);
    append("one").unwrap();
    let before = server.dump();
    append("two").unwrap();
    // The server comes back as it was before: its disk failed, or a copy took over that was behind.
    server.restore(&before);
    let refused = append("three");
    assert!(matches!(refused, Err(Error::Shared(SharedError::Ahead { .. }))), "{refused:?}");
    // Another store has gone on from there. Now the entry has another content.
    let other = server.open(&scratch.path("b.db"));
    other.append(&talk, Expected::Any, &[user_message("else", "text")]).unwrap();
    other.append(&talk, Expected::Any, &[user_message("more", "text")]).unwrap();
    let refused = append("three");
    assert!(matches!(refused, Err(Error::Shared(SharedError::Ahead { .. }))), "{refused:?}");
    assert_eq!(event_ids(&store, &talk), ["one", "two"], "it can still be read");
    assert_eq!(event_ids(&other, &talk), ["one", "else", "more"]);
}

#[test]
fn a_log_that_was_changed_by_hand_is_noticed() {
    let (server, scratch) = (Server::with_log(), Scratch::new());
    let store = server.open(&scratch.path("a.db"));
    let talk = conversation(TALK);
    store.append(&talk, Expected::Any, &[user_message("one", "text"), user_message("two", "text")]).unwrap();
    for (number, forgery) in [
        "UPDATE event SET payload = replace(payload, 'text', 'tex!') WHERE sequence = 1",
        "UPDATE event SET hash = sha256('x') WHERE sequence = 1",
        "DELETE FROM event WHERE sequence = 1",
        "UPDATE entry SET heads = convert_to(replace(convert_from(heads, 'UTF8'), '\"talk\",2', '\"talk\",3'), 'UTF8')",
        "UPDATE entry SET node = 'x' WHERE number = 2",
        "DELETE FROM entry WHERE number = 2",
        "UPDATE other_row SET content = substr(content, 2) WHERE of_table = 'conversation'",
    ]
    .into_iter()
    .enumerate()
    {
        let before = server.dump();
        server.client().batch_execute(forgery).unwrap();
        let path = scratch.path(&format!("new-{number}.db"));
        let opened = Store::open_shared(&server.address(), &path, &Options::default());
        assert!(
            matches!(opened, Err(Error::Shared(SharedError::Differs { .. }) | Error::Corrupt { .. })),
            "{forgery}: {opened:?}"
        );
        server.restore(&before);
        assert_eq!(event_ids(&server.open(&path), &talk).len(), 2, "{forgery}: nothing of it is in the file");
    }
}
