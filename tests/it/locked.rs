//! Other programs that lock the file, or put an older state into it.

use std::time::Duration;

use annals::error::AroundError;
use annals::{Error, Expected, Options, Store};

use crate::support::child::{self, Running};
use crate::support::events::pause;
use crate::support::{self, Scratch};

/// A store that waits for a lock no longer than it must.
fn impatient(scratch: &Scratch) -> Store {
    Store::open_with(scratch.database(), &Options::default().busy_timeout(Duration::from_millis(20))).unwrap()
}

#[cfg(target_os = "linux")]
#[test]
fn a_refusal_names_the_process_that_has_the_lock() {
    const TEST: &str = "locked::a_refusal_names_the_process_that_has_the_lock";
    if let Some(role) = child::role() {
        let db = rusqlite::Connection::open(role.database).unwrap();
        db.execute_batch("BEGIN IMMEDIATE").unwrap();
        child::report(&std::process::id().to_string());
        loop {
            std::thread::park();
        }
    }
    let scratch = Scratch::new();
    let (store, talk) = (impatient(&scratch), support::conversation("talk"));
    store.append(&talk, Expected::Any, &[pause("a")]).unwrap();
    let mut holder = Running::start(child::command(TEST, "holder", &scratch.database()));
    let process = holder.take_lines().next().unwrap();
    let appends = |id| store.append(&talk, Expected::Any, &[pause(id)]);
    for refused in [appends("b").map(drop), store.set_title(&talk, Some("title"))] {
        match refused {
            Err(error @ Error::Busy { .. }) => {
                assert!(error.to_string().contains(&format!("process {process} (")), "{error}");
                assert!(error.is_transient());
            }
            other => panic!("{other:?}"),
        }
    }
    holder.kill();
    appends("b").unwrap();
}

/// Copies the database `from` over the open database `to`, as the `.restore` of a shell does.
/// The wait for a lock is no statement that an interrupt ends.
#[test]
fn a_store_is_closed_although_an_append_waits_for_another_program() {
    let scratch = Scratch::new();
    // It would wait for weeks.
    let options = support::without_projector().busy_timeout(Duration::MAX);
    let (store, talk) =
        (Store::open_with(scratch.database(), &options).unwrap(), support::conversation("talk"));
    store.append(&talk, Expected::Any, &[pause("a")]).unwrap();
    let other = rusqlite::Connection::open(scratch.database()).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let (begin, begun) = std::sync::mpsc::channel();
    std::thread::scope(|scope| {
        let waits = scope.spawn(|| {
            begin.send(()).unwrap();
            store.append(&talk, Expected::Any, &[pause("b")])
        });
        begun.recv().unwrap();
        // Meanwhile the append meets the lock.
        (0..200).for_each(|_| assert_eq!(store.conversation(&talk).unwrap().event_count, 1));
        store.close().expect("nothing keeps it open");
        assert!(matches!(waits.join().unwrap(), Err(Error::Closed)));
    });
    other.execute_batch("COMMIT").unwrap();
    drop(other);
    assert_eq!(support::event_ids(&Store::open(scratch.database()).unwrap(), &talk), ["a"]);
}

fn put_back(from: &rusqlite::Connection, to: &rusqlite::Connection) {
    use rusqlite::ffi;
    // SAFETY: both connections live through the copy, and only this thread uses them.
    #[expect(unsafe_code, reason = "the engine's copy is a feature that the program does not need")]
    unsafe {
        let copy = ffi::sqlite3_backup_init(to.handle(), c"main".as_ptr(), from.handle(), c"main".as_ptr());
        assert!(!copy.is_null());
        assert_eq!(ffi::sqlite3_backup_step(copy, -1), ffi::SQLITE_DONE);
        assert_eq!(ffi::sqlite3_backup_finish(copy), ffi::SQLITE_OK);
    }
}

#[test]
fn an_older_state_that_was_put_back_is_noticed_before_an_event_takes_the_place_of_a_lost_one() {
    let scratch = Scratch::new();
    let (store, talk) = (scratch.open_without_projector(), support::conversation("talk"));
    store.append(&talk, Expected::Any, &[pause("a"), pause("b")]).unwrap();
    let copy = scratch.path("copy.db");
    store.backup().to_new_file(&copy).unwrap();
    // What other programs do meanwhile is no older state.
    scratch.open().append(&talk, Expected::Any, &[pause("c")]).unwrap();
    store.append(&talk, Expected::Any, &[pause("d"), pause("e")]).unwrap();
    put_back(&rusqlite::Connection::open(&copy).unwrap(), &scratch.foreign());
    for id in ["f", "g"] {
        match store.append(&talk, Expected::Any, &[pause(id)]) {
            Err(Error::Around(AroundError::PutBack(found))) => {
                assert_eq!((found.from, found.lost), (3, 3), "{found}");
                assert!(found.to_string().contains("3 acknowledged events from position 3 on"), "{found}");
            }
            other => panic!("{other:?}"),
        }
    }
    // Opened again, it goes on from the state that is there.
    drop(store);
    let again = scratch.open();
    assert_eq!(support::event_ids(&again, &talk), ["a", "b"]);
    again.append(&talk, Expected::Exact(2), &[pause("f")]).unwrap();
    support::assert_sound(&again);
}

#[cfg(feature = "agent")]
#[tokio::test]
async fn a_run_keeps_what_it_has_until_another_program_unlocks_the_file() {
    use std::sync::{Arc, Mutex};

    use annals::ExecutionStatus::Finished;
    use annals::conversation::Host;
    use annals::llm::scripted::{Gate, Line};

    use crate::support::stage::{Act, Stage, command, errors};

    let gate = Gate::new();
    let stage = Stage::new([command("c1", "one"), Line::text("Done.")]).acts([Act::Wait(gate.clone())]);
    let store = impatient(&stage.scratch);
    let reasons = Arc::new(Mutex::new(Vec::new()));
    let heard = Arc::clone(&reasons);
    let conversation = stage
        .builder()
        .host(&Host::new(store.clone()))
        .on_wait(Arc::new(move |reason| heard.lock().unwrap().push(reason.to_string())))
        .open()
        .await
        .unwrap();
    conversation.send_message("Go").await.unwrap();
    let running = tokio::spawn({
        let conversation = conversation.clone();
        async move { conversation.run().await }
    });
    gate.reached().await;
    let foreign = stage.scratch.foreign();
    foreign.execute_batch("BEGIN IMMEDIATE").unwrap();
    gate.open();
    // Each of these waits behind what the run writes, which was refused before the last of them is.
    for number in 0..8 {
        let (store, id) = (store.clone(), format!("x{number}"));
        let refused = tokio::task::spawn_blocking(move || {
            store.append(&support::conversation("other"), Expected::Any, &[pause(&id)])
        });
        assert!(matches!(refused.await.unwrap(), Err(Error::Busy { .. })));
    }
    assert!(!running.is_finished());
    foreign.execute_batch("COMMIT").unwrap();
    assert_eq!(running.await.unwrap().unwrap(), Finished);
    assert_eq!(errors(&stage.events()), Vec::<String>::new());
    let reasons = reasons.lock().unwrap();
    let [reason] = &reasons[..] else { panic!("{reasons:?}") };
    assert!(reason.contains("locked"), "{reason}");
}

#[cfg(feature = "server")]
#[tokio::test(flavor = "multi_thread")]
async fn a_server_is_not_ready_while_appends_fail_and_ready_again_by_itself() {
    use crate::support::caller::{Served, until};

    let server = Served::start().await;
    let path = "/api/annals/conversations/talk/events?expected=any";
    let append = async |id: &str| {
        let event = serde_json::json!({"id": id, "kind": "PauseEvent", "source": "user"});
        server.post(path, event).await.status
    };
    assert_eq!(append("a").await, 200);
    assert_eq!(server.get("/ready").await.status, 200);
    let foreign = server.scratch.foreign();
    foreign.execute_batch("BEGIN IMMEDIATE").unwrap();
    assert_eq!(append("b").await, 503);
    for _ in 0..2 {
        let said = server.get("/ready").await;
        assert_eq!(said.status, 503);
        assert!(said.text().contains("has the lock"), "{}", said.text());
    }
    foreign.execute_batch("COMMIT").unwrap();
    // Without an append. The projections may have the connection for a moment.
    until(async || server.get("/ready").await.status == 200).await;
    assert_eq!(append("b").await, 200);
}
