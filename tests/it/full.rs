//! A full disk: writes fail with a typed error, no acknowledged event is lost, and writes succeed again once there is
//! room.
#![cfg(unix)]

use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use annals::state::FieldChange;
use annals::store::BaseStateChange;
use annals::transfer::{Exporter, Format, Importer};
use annals::{ConversationId, Error, Expected, NewEvent, Store};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::support::child::{self, Running};
use crate::support::events::user_message;
use crate::support::{Scratch, assert_sound, conversation, event_ids, folder, without_projector};

/// Runs `test` in a child process. There, a write beyond the size limit fails but does not end the process.
fn run_in_child(test: &str, database: &Path) {
    let reports = Running::start(child::command_after("trap '' XFSZ", test, "writer", database)).finish();
    assert_eq!(reports, ["done"]);
}

/// Limits every file of this process to `bytes`. `None` removes the limit.
fn leave_room(bytes: Option<u64>) {
    let maximum = getrlimit(Resource::Fsize).maximum;
    setrlimit(Resource::Fsize, Rlimit { current: bytes, maximum }).unwrap();
}

fn size(path: &Path) -> u64 {
    std::fs::metadata(path).map_or(0, |file| file.len())
}

/// Returns a limit at which nothing can be added to the write-ahead log or to the database file.
fn no_room(database: &Path) -> u64 {
    let mut log = database.as_os_str().to_owned();
    log.push("-wal");
    size(database).max(used(&std::fs::read(log).unwrap_or_default()))
}

/// Returns the length of a write-ahead log up to its last frame. What is behind it is written over. A frame has the salts of
/// the log's header, which differ after each restart. Source: SQLite's file format, section 4.
fn used(log: &[u8]) -> u64 {
    const HEADER: usize = 32;
    const FRAME: usize = 24 + 4096;
    let Some(salts) = log.get(16..24) else { return 0 };
    let frames = log[HEADER..].chunks_exact(FRAME).take_while(|frame| &frame[8..16] == salts).count();
    (HEADER + frames * FRAME) as u64
}

fn large(id: &str) -> NewEvent {
    user_message(id, &"many words ".repeat(2000))
}

#[track_caller]
fn assert_full<T: std::fmt::Debug>(result: Result<T, Error>) {
    let error = result.unwrap_err();
    assert!(matches!(error, Error::DiskFull { .. }), "{error:?}");
    assert!(error.is_transient());
}

#[test]
fn appends_to_a_full_disk_fail_and_earlier_events_stay() {
    const TEST: &str = "full::appends_to_a_full_disk_fail_and_earlier_events_stay";
    let talk = conversation("talk");
    if let Some(role) = child::role() {
        append_until_full(&role.database, &talk);
        return child::report("done");
    }
    let scratch = Scratch::new();
    run_in_child(TEST, &scratch.database());
    let store = scratch.open();
    assert_sound(&store);
    assert!(event_ids(&store, &talk).len() > 10);
}

fn append_until_full(database: &Path, talk: &ConversationId) {
    let store = Store::open(database).unwrap();
    let acknowledged = Mutex::new(Vec::new());
    for round in 0..3 {
        leave_room(Some(no_room(database) + (256 << 10)));
        let full = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let (store, acknowledged, full) = (&store, &acknowledged, &full);
                scope.spawn(move || {
                    for number in 0..1000 {
                        let id = format!("{round}-{thread}-{number}");
                        match store.append(
                            talk,
                            Expected::Any,
                            &[large(&id), user_message(&format!("{id}-b"), "")],
                        ) {
                            Ok(places) => acknowledged.lock().unwrap().push((places[0].sequence, id)),
                            Err(Error::DiskFull { .. }) => return full.store(true, Ordering::Relaxed),
                            Err(other) => panic!("{other:?}"),
                        }
                    }
                });
            }
        });
        assert!(full.into_inner(), "the disk was never full");
        // A single append may still fit after several simultaneous appends did not.
        let refused = (0..100).find_map(|number| {
            let id = format!("{round}-alone-{number}");
            match store.append(talk, Expected::Any, &[large(&id), user_message(&format!("{id}-b"), "")]) {
                Ok(places) => {
                    acknowledged.lock().unwrap().push((places[0].sequence, id));
                    None
                }
                Err(error) => Some(error),
            }
        });
        assert!(matches!(refused, Some(Error::DiskFull { .. })), "{refused:?}");
        let expected = |acknowledged: &Mutex<Vec<_>>| {
            acknowledged.lock().unwrap().sort();
            let acknowledged = acknowledged.lock().unwrap();
            acknowledged
                .iter()
                .flat_map(|(_, id): &(_, String)| [id.clone(), format!("{id}-b")])
                .collect::<Vec<_>>()
        };
        assert_eq!(
            event_ids(&store, talk),
            expected(&acknowledged),
            "reads succeed and return the acknowledged events"
        );

        leave_room(None);
        let id = format!("{round}-again");
        let places =
            store.append(talk, Expected::Any, &[large(&id), user_message(&format!("{id}-b"), "")]).unwrap();
        acknowledged.lock().unwrap().push((places[0].sequence, id));
        assert_eq!(event_ids(&store, talk), expected(&acknowledged));
        assert_sound(&store);
    }
}

#[test]
fn all_other_writes_report_a_full_disk_and_can_be_retried() {
    const TEST: &str = "full::all_other_writes_report_a_full_disk_and_can_be_retried";
    if let Some(role) = child::role() {
        try_everything(&role.database);
        return child::report("done");
    }
    let scratch = Scratch::new();
    run_in_child(TEST, &scratch.database());
    assert_sound(&scratch.open());
}

fn try_everything(database: &Path) {
    let beside = |name: &str| database.with_file_name(name);
    let store = Store::open_with(database, &without_projector()).unwrap();
    let talk = conversation("talk");
    let golden = folder::golden("conversations");
    Importer::new(&store, Default::default()).import(&golden.join("coding-task"), &mut |_| ()).unwrap();
    for number in 0..40 {
        store.append(&talk, Expected::Any, &[large(&number.to_string())]).unwrap();
    }
    let value = format!("\"{}\"", "x".repeat(100_000));
    let field = || vec![FieldChange::set("a", value.clone()).unwrap()];
    let import = || Importer::new(&store, Default::default()).import(&golden.join("hooks"), &mut |_| ());
    let export = || {
        let exporter = Exporter::new(&store, Format::OpenHands);
        exporter.export(&talk, &beside("out"), &mut |_| ())
    };

    leave_room(Some(no_room(database)));
    assert_full(store.save_base_state(&talk, BaseStateChange::new(field())));
    assert_full(store.search("words", &Default::default(), 1, &mut |_| ()));
    assert_full(store.catch_up());
    assert_full(store.transcript(&talk, annals::Sequence(0), 1));
    assert_full(store.maintenance().rebuild(&[], &mut |_| ()));
    assert_full(store.retention().delete(&talk));
    assert_full(import());
    leave_room(Some(20 << 10));
    assert_full(store.backup().to_new_file(beside("copy.db")));
    assert_full(Store::open_with(beside("new.db"), &without_projector().create(true)));
    leave_room(Some(1 << 10));
    let error = export().unwrap_err();
    assert!(matches!(error, Error::Io { .. }), "{error:?}");
    assert!(
        !beside("copy.db").exists() && !beside("out/talk").exists(),
        "no incomplete file has the final name"
    );
    assert_eq!(event_ids(&store, &talk).len(), 40);

    leave_room(None);
    let change = BaseStateChange::new(field());
    assert_eq!(store.save_base_state(&talk, change).unwrap(), annals::Version(1));
    assert_eq!(store.search("words", &Default::default(), 100, &mut |_| ()).unwrap().len(), 40);
    store.catch_up().unwrap();
    store.maintenance().rebuild(&[], &mut |_| ()).unwrap();
    assert_eq!(import().unwrap()[0].events, 29);
    assert_eq!(store.backup().to_new_file(beside("copy.db")).unwrap().conversations, 3);
    assert_eq!(export().unwrap().events, 40);
    Store::open_with(beside("new.db"), &without_projector()).unwrap();
    assert_sound(&store);
    assert_eq!(store.retention().delete(&talk).unwrap(), 40);
    assert_sound(&store);
}
