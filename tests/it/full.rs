//! No room to write: a typed error, nothing acknowledged is lost, and all is well once there is room again.
#![cfg(unix)]

use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use annals::state::base::FieldChange;
use annals::store::BaseStateChange;
use annals::transfer::{Exporter, Format, Importer};
use annals::{ConversationId, Error, Expected, NewEvent, Options, Store};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::support::child::{self, Running};
use crate::support::events::said;
use crate::support::{Scratch, assert_sound, conversation, event_ids, folder, still};

/// Starts `test` again as a process whose writes beyond a size fail and do not end it.
fn run_in_child(test: &str, database: &Path) {
    let reports = Running::start(child::command_after("trap '' XFSZ", test, "writer", database)).finish();
    assert_eq!(reports, ["done"]);
}

/// From now on no file of this process may grow beyond so many bytes.
fn leave_room(bytes: Option<u64>) {
    let maximum = getrlimit(Resource::Fsize).maximum;
    setrlimit(Resource::Fsize, Rlimit { current: bytes, maximum }).unwrap();
}

fn size(path: &Path) -> u64 {
    std::fs::metadata(path).map_or(0, |file| file.len())
}

/// So much that the write-ahead log cannot grow, nor the file itself.
fn no_room(database: &Path) -> u64 {
    let mut log = database.as_os_str().to_owned();
    log.push("-wal");
    size(database).max(size(Path::new(&log)))
}

fn large(id: &str) -> NewEvent {
    said(id, &"many words ".repeat(2000))
}

#[track_caller]
fn assert_full<T: std::fmt::Debug>(result: Result<T, Error>) {
    let error = result.unwrap_err();
    assert!(matches!(error, Error::DiskFull { .. }), "{error:?}");
    assert!(error.is_transient());
}

#[test]
fn appends_that_find_no_room_fail_and_those_before_them_stay() {
    const TEST: &str = "full::appends_that_find_no_room_fail_and_those_before_them_stay";
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
    let told = Mutex::new(Vec::new());
    for round in 0..3 {
        leave_room(Some(no_room(database) + (256 << 10)));
        let full = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let (store, told, full) = (&store, &told, &full);
                scope.spawn(move || {
                    for number in 0..1000 {
                        let id = format!("{round}-{thread}-{number}");
                        match store.append(talk, Expected::Any, &[large(&id), said(&format!("{id}-b"), "")]) {
                            Ok(places) => told.lock().unwrap().push((places[0].sequence, id)),
                            Err(Error::DiskFull { .. }) => return full.store(true, Ordering::Relaxed),
                            Err(other) => panic!("{other:?}"),
                        }
                    }
                });
            }
        });
        assert!(full.into_inner(), "there was room for everything");
        // What is too large for several at once may still fit for one.
        let refused = (0..100).find_map(|number| {
            let id = format!("{round}-alone-{number}");
            match store.append(talk, Expected::Any, &[large(&id), said(&format!("{id}-b"), "")]) {
                Ok(places) => {
                    told.lock().unwrap().push((places[0].sequence, id));
                    None
                }
                Err(error) => Some(error),
            }
        });
        assert!(matches!(refused, Some(Error::DiskFull { .. })), "{refused:?}");
        let expected = |told: &Mutex<Vec<_>>| {
            told.lock().unwrap().sort();
            let told = told.lock().unwrap();
            told.iter().flat_map(|(_, id): &(_, String)| [id.clone(), format!("{id}-b")]).collect::<Vec<_>>()
        };
        assert_eq!(
            event_ids(&store, talk),
            expected(&told),
            "reading goes on, and shows what was acknowledged"
        );

        leave_room(None);
        let id = format!("{round}-again");
        let places = store.append(talk, Expected::Any, &[large(&id), said(&format!("{id}-b"), "")]).unwrap();
        told.lock().unwrap().push((places[0].sequence, id));
        assert_eq!(event_ids(&store, talk), expected(&told));
        assert_sound(&store);
    }
}

#[test]
fn whatever_else_writes_says_so_too_and_can_be_done_again() {
    const TEST: &str = "full::whatever_else_writes_says_so_too_and_can_be_done_again";
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
    let store = Store::open_with(database, &still()).unwrap();
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
    assert_full(store.save_base_state(&talk, BaseStateChange { expected: None, fields: field() }));
    assert_full(store.search("words", &Default::default(), 1, &mut |_| ()));
    assert_full(store.catch_up());
    assert_full(store.transcript(&talk, annals::Sequence(0), 1));
    assert_full(store.rebuild(&[], &mut |_| ()));
    assert_full(store.delete(&talk));
    assert_full(import());
    leave_room(Some(20 << 10));
    assert_full(store.backup(beside("copy.db")));
    assert_full(Store::open_with(beside("new.db"), &Options { create: true, ..still() }));
    leave_room(Some(1 << 10));
    let error = export().unwrap_err();
    assert!(matches!(error, Error::Io { .. }), "{error:?}");
    assert!(!beside("copy.db").exists() && !beside("out/talk").exists(), "nothing half done has its name");
    assert_eq!(event_ids(&store, &talk).len(), 40);

    leave_room(None);
    let change = BaseStateChange { expected: None, fields: field() };
    assert_eq!(store.save_base_state(&talk, change).unwrap(), annals::Version(1));
    assert_eq!(store.search("words", &Default::default(), 100, &mut |_| ()).unwrap().len(), 40);
    store.catch_up().unwrap();
    store.rebuild(&[], &mut |_| ()).unwrap();
    assert_eq!(import().unwrap()[0].events, 29);
    assert_eq!(store.backup(beside("copy.db")).unwrap().conversations, 3);
    assert_eq!(export().unwrap().events, 40);
    Store::open_with(beside("new.db"), &still()).unwrap();
    assert_sound(&store);
    assert_eq!(store.delete(&talk).unwrap(), 40);
    assert_sound(&store);
}
