//! Servers and nodes that stop without a word, full disks, and a copy of the server that takes over.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::time::Duration;

use annals::error::SharedError;
use annals::shared::SharedLog;
use annals::{Error, Expected, Options, Store};
use rustix::process::{Pid, Signal, kill_process};

use crate::replicas::{assert_equal, wait_for};
use crate::server::Server;
use crate::support::child::{self, Running};
use crate::support::events::user_message;
use crate::support::{Scratch, assert_sound, conversation, event_ids};

const TALK: &str = "talk";

fn append(store: &Store, id: &str) -> annals::Result<u64> {
    let appended = store.append(&conversation(TALK), Expected::Any, &[user_message(id, "text")])?;
    Ok(appended[0].position.0)
}

/// Asserts that each of these ids is there once, that nothing else is, and that a new file is equal.
#[track_caller]
fn assert_has(server: &Server, scratch: &Scratch, store: &Store, ids: &[String]) {
    let end = append(store, "end").unwrap();
    let new = server.open(&scratch.path("new.db"));
    wait_for(&new, annals::Position(end));
    let mut found = event_ids(store, &conversation(TALK));
    assert_eq!(found.pop().as_deref(), Some("end"));
    let mut wanted = ids.to_vec();
    found.sort();
    wanted.sort();
    assert_eq!(found, wanted);
    assert_equal(store, &new);
    assert_sound(store);
    assert_eq!(new.replica().unwrap().check(&mut |_| ()).unwrap().differing, 0);
}

#[test]
fn a_server_that_stops_without_a_word_is_not_waited_for() {
    let (server, scratch) = (Server::with_log(), Scratch::new());
    let options = Options::default().busy_timeout(Duration::from_millis(200));
    let store = Store::open_shared(&server.address(), scratch.path("a.db"), &options).unwrap();
    let mut ids = vec!["one".to_owned()];
    append(&store, "one").unwrap();
    // Between two appends: the second one may be on its way.
    server.signal(Signal::STOP);
    let silent = append(&store, "two").unwrap_err();
    assert!(matches!(silent, Error::Shared(SharedError::Unknown)), "{silent:?}");
    assert!(silent.is_transient());
    let silent = store.set_title(&conversation(TALK), Some("a title")).unwrap_err();
    assert!(matches!(silent, Error::Shared(SharedError::Unreachable { .. })), "{silent:?}");
    assert_eq!(event_ids(&store, &conversation(TALK)), ["one"], "reads go on");
    assert!(store.replica().unwrap().refresh().is_err());
    server.signal(Signal::CONT);
    while let Err(error) = append(&store, "two") {
        assert!(error.is_transient(), "{error:?}");
    }
    ids.push("two".into());
    // In the middle of appends, again and again.
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let (written, appended) = mpsc::channel();
        let (store, is_over) = (&store, &is_over);
        scope.spawn(move || {
            for number in 0.. {
                let id = format!("m-{number}");
                while let Err(error) = append(store, &id) {
                    assert!(error.is_transient(), "{error:?}");
                }
                written.send(id).unwrap();
                if is_over.load(Ordering::SeqCst) {
                    return;
                }
            }
        });
        for round in 0..4 {
            ids.extend((0..3 + 4 * round).map(|_| appended.recv().unwrap()));
            server.signal(Signal::STOP);
            // Longer than the writer waits for an answer.
            ids.extend(appended.recv_timeout(Duration::from_millis(2500)));
            server.signal(Signal::CONT);
        }
        is_over.store(true, Ordering::SeqCst);
        ids.extend(appended.iter());
    });
    assert_has(&server, &scratch, &store, &ids);
}

/// Appends until it is killed, and reports each that was acknowledged.
fn append_until_killed(address: &str, path: &Path) {
    let options = Options::default().busy_timeout(Duration::from_secs(60));
    let store = Store::open_shared(address, path, &options).unwrap();
    for number in 0.. {
        let id = format!("child-{number}");
        while let Err(error) = append(&store, &id) {
            assert!(error.is_transient(), "{error:?}");
        }
        child::report(&id);
    }
}

#[test]
fn a_node_that_is_stopped_within_its_turn_stops_the_others_only_for_a_while() {
    if let Some(role) = child::role() {
        return append_until_killed(&role.name, &role.database);
    }
    let (server, scratch) = (Server::with_log(), Scratch::new());
    let test = "outages::a_node_that_is_stopped_within_its_turn_stops_the_others_only_for_a_while";
    let mut node = Running::start(child::command(test, &server.address(), &scratch.path("child.db")));
    let mut lines = node.take_lines();
    let mut ids: Vec<String> = lines.by_ref().take(3).collect();
    let options = Options::default().busy_timeout(Duration::from_millis(300));
    let store = Store::open_shared(&server.address(), scratch.path("a.db"), &options).unwrap();
    let mut stopped_within = false;
    for number in 0..500 {
        kill_process(Pid::from_child(&node.child), Signal::STOP).unwrap();
        let id = format!("own-{number}");
        match append(&store, &id) {
            Ok(_) => ids.push(id),
            Err(Error::Busy { .. }) => {
                stopped_within = true;
                // The server does this to a session that does nothing within a transaction for a minute.
                let ended = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity \
                     WHERE application_name = 'annals' AND state = 'idle in transaction'";
                assert!(!server.client().query(ended, &[]).unwrap().is_empty());
                append(&store, &id).unwrap();
                ids.push(id);
            }
            Err(error) => panic!("{error:?}"),
        }
        kill_process(Pid::from_child(&node.child), Signal::CONT).unwrap();
        ids.extend(lines.by_ref().take(1));
        if stopped_within {
            break;
        }
    }
    assert!(stopped_within, "it was never stopped within a turn");
    // It goes on after its session was ended.
    ids.extend(lines.by_ref().take(3));
    node.kill();
    ids.extend(lines);
    store.replica().unwrap().refresh().unwrap();
    // The last one may have no acknowledgement.
    let all = event_ids(&store, &conversation(TALK));
    let last: Vec<String> = all.into_iter().filter(|id| !ids.contains(id)).collect();
    assert!(last.len() <= 1, "{last:?}");
    ids.extend(last);
    assert_has(&server, &scratch, &store, &ids);
}

/// A text that cannot be made shorter.
fn noise(seed: u64, length: usize) -> String {
    let mut state = seed.wrapping_mul(2).wrapping_add(1);
    let letter = |_| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        char::from(b'0' + (state >> 58) as u8)
    };
    (0..length).map(letter).collect()
}

#[test]
fn a_full_disk_of_the_server_refuses_writes_and_loses_nothing() {
    let (server, scratch) = (Server::with_log(), Scratch::new());
    let store = server.open(&scratch.path("a.db"));
    append(&store, "one").unwrap();
    // No file of the server gets longer than 17 MB now, as if the disk were full.
    drop(store);
    server.kill();
    server.run_within("17000");
    let store = server.open(&scratch.path("a.db"));
    let mut ids = vec!["one".to_owned()];
    let refused = loop {
        let id = format!("large-{}", ids.len());
        let event = user_message(&id, &noise(ids.len() as u64, 1_000_000));
        match store.append(&conversation(TALK), Expected::Any, &[event]) {
            Ok(_) => ids.push(id),
            Err(error) => break error,
        }
        assert!(ids.len() < 1000, "the disk is never full");
    };
    assert!(matches!(refused, Error::Shared(SharedError::Unreachable { .. })), "{refused:?}");
    assert!(refused.to_string().contains("extend") || refused.to_string().contains("write"), "{refused}");
    assert_eq!(event_ids(&store, &conversation(TALK)).len(), ids.len());
    // There is room again.
    drop(store);
    server.kill();
    server.run();
    let store = server.open(&scratch.path("a.db"));
    assert_has(&server, &scratch, &store, &ids);
}

#[test]
fn a_full_disk_of_a_node_loses_nothing_that_the_log_has() {
    if let Some(role) = child::role() {
        let store = Store::open_shared(&role.name, &role.database, &Options::default()).unwrap();
        for number in 0..10_000 {
            let id = format!("child-{number}");
            match append(&store, &id) {
                Ok(_) => child::report(&id),
                Err(Error::Shared(SharedError::OnlyThere { .. })) => {
                    child::report(&format!("there {id}"));
                    return;
                }
                // It was full before the log had it.
                Err(error) => return child::report(&format!("full {error}")),
            }
        }
        return;
    }
    let (server, scratch) = (Server::with_log(), Scratch::new());
    let path = scratch.path("child.db");
    drop(server.open(&path));
    let test = "outages::a_full_disk_of_a_node_loses_nothing_that_the_log_has";
    // No file gets longer than a little more than the database is.
    let blocks = std::fs::metadata(&path).unwrap().len() / 1024 + 300;
    let preparation = format!("trap '' XFSZ; ulimit -f {blocks}");
    let node = Running::start(child::command_after(&preparation, test, &server.address(), &path));
    let mut lines = node.finish();
    let last = lines.pop().unwrap();
    assert!(last.starts_with("there ") || last.starts_with("full "), "{last}");
    let store = server.open(&path);
    let mut ids = lines;
    ids.extend(last.strip_prefix("there ").map(str::to_owned));
    assert_has(&server, &scratch, &store, &ids);
}

#[test]
fn a_copy_of_the_server_takes_over() {
    let (server, scratch) = (Server::with_log(), Scratch::new());
    let way = scratch.path("way");
    std::fs::create_dir(&way).unwrap();
    let address = server.address_at(way.to_str().unwrap());
    let socket = way.join(".s.PGSQL.5432");
    std::os::unix::fs::symlink(server.socket(), &socket).unwrap();
    let options = Options::default().busy_timeout(Duration::from_secs(60));
    let open = |name: &str| Store::open_shared(&address, scratch.path(name), &options).unwrap();
    let (a, b) = (open("a.db"), open("b.db"));
    let copy = server.copy();
    // The server answers only when the copy has the commit.
    server.client().batch_execute("ALTER SYSTEM SET synchronous_standby_names = '*'").unwrap();
    server.client().batch_execute("SELECT pg_reload_conf()").unwrap();
    server.until("SELECT count(*) = 1 FROM pg_stat_replication WHERE sync_state = 'sync'");
    let is_over = AtomicBool::new(false);
    let mut ids = Vec::new();
    std::thread::scope(|scope| {
        let (written, appended) = mpsc::channel();
        for (name, store) in [("a", &a), ("b", &b)] {
            let (written, is_over) = (written.clone(), &is_over);
            scope.spawn(move || {
                for number in 0.. {
                    let id = format!("{name}-{number}");
                    while let Err(error) = append(store, &id) {
                        assert!(error.is_transient(), "{error:?}");
                    }
                    written.send(id).unwrap();
                    if is_over.load(Ordering::SeqCst) {
                        return;
                    }
                }
            });
        }
        drop(written);
        ids.extend((0..40).map(|_| appended.recv().unwrap()));
        server.kill();
        copy.promote();
        std::fs::remove_file(&socket).unwrap();
        std::os::unix::fs::symlink(copy.socket(), &socket).unwrap();
        ids.extend((0..40).map(|_| appended.recv().unwrap()));
        is_over.store(true, Ordering::SeqCst);
        ids.extend(appended.iter());
    });
    assert_equal_after(&a, &b);
    assert_has(&copy, &scratch, &a, &ids);
}

fn assert_equal_after(a: &Store, b: &Store) {
    for store in [a, b] {
        store.replica().unwrap().refresh().unwrap();
    }
    assert_equal(a, b);
}

#[test]
fn a_copy_that_lacks_the_last_commits_is_noticed_and_what_it_lacks_is_kept() {
    let (server, scratch) = (Server::with_log(), Scratch::new());
    let store = server.open(&scratch.path("a.db"));
    append(&store, "one").unwrap();
    let copy = server.copy();
    server.until("SELECT count(*) = 1 FROM pg_stat_replication WHERE replay_lsn = pg_current_wal_lsn()");
    copy.kill();
    append(&store, "two").unwrap();
    server.kill();
    copy.run();
    copy.promote();
    drop(store);
    let (log, options) = (SharedLog::at(&copy.address()).unwrap(), Options::default());
    let ahead = log.open(scratch.path("a.db"), &options, &mut |_| ());
    assert!(matches!(ahead, Err(Error::Shared(SharedError::Ahead { .. }))), "{ahead:?}");
    let store = log.rebuild(scratch.path("a.db"), &options, &mut |_| ()).unwrap();
    assert_eq!(event_ids(&store, &conversation(TALK)), ["one"]);
    let kept = store.replica().unwrap().status().rebuilt.unwrap().copy;
    assert_eq!(event_ids(&Store::open(kept).unwrap(), &conversation(TALK)), ["one", "two"]);
    // What only this machine had comes again under its own id.
    append(&store, "two").unwrap();
    assert_has(&copy, &scratch, &store, &["one".into(), "two".into()]);
}
