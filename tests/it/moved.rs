//! A file that is moved, removed or replaced while it is open: noticed before anything more is acknowledged.
#![cfg(unix)]

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::mpsc;

use annals::state::base::FieldChange;
use annals::store::{Append, BaseStateChange};
use annals::{Error, Expected, NewEvent, Options, Store};

use crate::support::child::{self, Running};
use crate::support::events::pause;
use crate::support::{Scratch, conversation, event_ids, still};

/// A database in a folder of its own, so that the folder can go, too.
struct Stage {
    scratch: Scratch,
}

impl Stage {
    fn new() -> Self {
        let scratch = Scratch::new();
        fs::create_dir(scratch.path("home")).unwrap();
        Self { scratch }
    }

    fn folder(&self) -> PathBuf {
        self.scratch.path("home")
    }

    fn file(&self, ending: &str) -> PathBuf {
        self.folder().join(format!("annals.db{ending}"))
    }

    fn aside(&self, ending: &str) -> PathBuf {
        self.scratch.path(&format!("aside.db{ending}"))
    }

    fn open(&self) -> Store {
        Store::open_with(self.file(""), &still()).unwrap()
    }
}

fn remove(path: &Path) {
    fs::remove_file(path).unwrap();
}

/// Another store's file, made elsewhere and put at `path`.
fn put_another(stage: &Stage, path: &Path) {
    let other = stage.scratch.path("other.db");
    let store = Store::open_with(&other, &still()).unwrap();
    store.append(&conversation("other"), Expected::Any, &[pause("other")]).unwrap();
    drop(store);
    fs::rename(other, path).unwrap();
}

struct Deed {
    name: &'static str,
    harm: fn(&Stage),
    /// Whether readers meet it: the file itself is another.
    hits_file: bool,
    /// Undoes it, once the store is closed, where what was acknowledged can be had back.
    undo: Option<fn(&Stage)>,
}

const DEEDS: &[Deed] = &[
    Deed { name: "rm db", harm: |stage| remove(&stage.file("")), hits_file: true, undo: None },
    Deed {
        name: "rm folder",
        harm: |stage| fs::remove_dir_all(stage.folder()).unwrap(),
        hits_file: true,
        undo: None,
    },
    Deed {
        name: "mv db",
        harm: |stage| fs::rename(stage.file(""), stage.aside("")).unwrap(),
        hits_file: true,
        undo: Some(|stage| fs::rename(stage.aside(""), stage.file("")).unwrap()),
    },
    Deed {
        name: "mv folder",
        harm: |stage| fs::rename(stage.folder(), stage.scratch.path("away")).unwrap(),
        hits_file: true,
        undo: Some(|stage| fs::rename(stage.scratch.path("away"), stage.folder()).unwrap()),
    },
    Deed {
        name: "mv folder, another in its place",
        harm: |stage| {
            fs::rename(stage.folder(), stage.scratch.path("away")).unwrap();
            fs::create_dir(stage.folder()).unwrap();
            put_another(stage, &stage.file(""));
        },
        hits_file: true,
        undo: Some(|stage| {
            fs::remove_dir_all(stage.folder()).unwrap();
            fs::rename(stage.scratch.path("away"), stage.folder()).unwrap();
        }),
    },
    Deed {
        name: "another over it",
        harm: |stage| {
            fs::hard_link(stage.file(""), stage.aside("")).unwrap();
            put_another(stage, &stage.file(""));
        },
        hits_file: true,
        undo: Some(|stage| fs::rename(stage.aside(""), stage.file("")).unwrap()),
    },
    Deed {
        name: "a copy of itself over it",
        harm: |stage| {
            fs::hard_link(stage.file(""), stage.aside("")).unwrap();
            fs::copy(stage.file(""), stage.scratch.path("copy")).unwrap();
            fs::rename(stage.scratch.path("copy"), stage.file("")).unwrap();
        },
        hits_file: true,
        undo: Some(|stage| fs::rename(stage.aside(""), stage.file("")).unwrap()),
    },
    Deed { name: "rm -wal", harm: |stage| remove(&stage.file("-wal")), hits_file: false, undo: Some(|_| ()) },
    Deed {
        name: "mv -wal",
        harm: |stage| fs::rename(stage.file("-wal"), stage.aside("-wal")).unwrap(),
        hits_file: false,
        undo: Some(|stage| fs::rename(stage.aside("-wal"), stage.file("-wal")).unwrap()),
    },
    Deed {
        name: "an empty -wal over it",
        harm: |stage| {
            fs::rename(stage.file("-wal"), stage.aside("-wal")).unwrap();
            fs::write(stage.file("-wal"), b"").unwrap();
        },
        hits_file: false,
        undo: Some(|stage| fs::rename(stage.aside("-wal"), stage.file("-wal")).unwrap()),
    },
    Deed { name: "rm -shm", harm: |stage| remove(&stage.file("-shm")), hits_file: false, undo: Some(|_| ()) },
    Deed {
        name: "rm -wal and -shm",
        harm: |stage| {
            remove(&stage.file("-wal"));
            remove(&stage.file("-shm"));
        },
        hits_file: false,
        undo: None,
    },
];

#[track_caller]
fn assert_moved<T: std::fmt::Debug>(result: Result<T, Error>, path: &Path, what: &str) {
    match result {
        Err(Error::Moved { path: told, .. }) => assert_eq!(told, path, "{what}"),
        other => panic!("{what}: {other:?}"),
    }
}

fn only(event: NewEvent) -> Append {
    Append { expected: Expected::Any, events: vec![event], base_state: None, head: None }
}

/// Everything that writes, each by its name.
type Writing = fn(&Store) -> Result<(), Error>;

const WRITINGS: [(&str, Writing); 6] = [
    ("append", |store| store.append(&conversation("talk"), Expected::Any, &[pause("late")]).map(drop)),
    ("append_later", |store| {
        let (tell, told) = mpsc::channel();
        store.append_later(
            &conversation("talk"),
            only(pause("later")),
            move |answer| tell.send(answer).unwrap(),
            drop,
        );
        told.recv().unwrap().map(drop)
    }),
    ("set_title", |store| store.set_title(&conversation("talk"), Some("late"))),
    ("save_base_state", |store| {
        let fields = vec![FieldChange::set("title", "1").unwrap()];
        store.save_base_state(&conversation("talk"), BaseStateChange { expected: None, fields }).map(drop)
    }),
    ("attach", |store| store.attach(&conversation("talk"), "late", b"late")),
    ("delete", |store| store.delete(&conversation("talk")).map(drop)),
];

#[test]
fn nothing_is_acknowledged_into_a_file_that_is_not_at_its_path_any_more() {
    for deed in DEEDS {
        for (name, write) in WRITINGS {
            let stage = Stage::new();
            let store = stage.open();
            store.append(&conversation("talk"), Expected::Empty, &[pause("kept")]).unwrap();
            (deed.harm)(&stage);
            let what = format!("{} after {}", name, deed.name);
            assert_moved(write(&store), &stage.file(""), &what);
            // For good, by whichever way.
            for (again, write) in WRITINGS {
                assert_moved(write(&store), &stage.file(""), &format!("{again} behind {what}"));
            }
            if deed.hits_file {
                assert_moved(store.conversation(&conversation("talk")), &stage.file(""), &what);
            }
            drop(store);
            let Some(undo) = deed.undo else { continue };
            undo(&stage);
            let ids = event_ids(&stage.open(), &conversation("talk"));
            assert_eq!(ids[0], "kept", "{what}");
        }
    }
}

#[test]
fn a_log_that_lost_its_name_is_moved_into_the_file_before_the_store_can_die() {
    let stage = Stage::new();
    let store = stage.open();
    store.append(&conversation("talk"), Expected::Empty, &[pause("kept")]).unwrap();
    remove(&stage.file("-wal"));
    let late = store.append(&conversation("talk"), Expected::Any, &[pause("late")]);
    assert_moved(late, &stage.file(""), "rm -wal");
    // What a process that is killed now leaves behind.
    fs::copy(stage.file(""), stage.aside("")).unwrap();
    let left = Store::open_with(stage.aside(""), &still()).unwrap();
    assert_eq!(event_ids(&left, &conversation("talk"))[0], "kept");
}

/// Nothing keeps the two apart: what the first one moved into the file would lie over what the other wrote.
#[test]
fn a_store_whose_log_was_replaced_leaves_the_file_to_the_one_that_writes_it_now() {
    const TEST: &str = "moved::a_store_whose_log_was_replaced_leaves_the_file_to_the_one_that_writes_it_now";
    if let Some(role) = child::role() {
        let store = Store::open_with(&role.database, &still()).unwrap();
        for number in 0..200 {
            let event = pause(&format!("theirs-{number}"));
            store.append(&conversation("theirs"), Expected::Any, &[event]).unwrap();
        }
        let db = rusqlite::Connection::open(&role.database).unwrap();
        db.query_row("PRAGMA wal_checkpoint(FULL)", [], |_| Ok(())).unwrap();
        child::report("written");
        loop {
            std::thread::park(); // until the parent ends it
        }
    }
    let stage = Stage::new();
    drop(stage.open());
    let store = stage.open();
    for number in 0..300 {
        store.append(&conversation("mine"), Expected::Any, &[pause(&format!("mine-{number}"))]).unwrap();
    }
    remove(&stage.file("-wal"));
    remove(&stage.file("-shm"));
    let mut other = Running::start(child::command(TEST, "other", &stage.file("")));
    assert_eq!(other.take_lines().next().unwrap(), "written");
    drop(store);
    other.kill();
    let left = stage.open();
    assert_eq!(event_ids(&left, &conversation("theirs")).len(), 200);
    crate::support::assert_sound(&left);
}

#[test]
fn a_store_that_only_reads_does_not_go_over_to_another_file() {
    let stage = Stage::new();
    let writer = stage.open();
    writer.append(&conversation("talk"), Expected::Empty, &[pause("kept")]).unwrap();
    let reader = Store::open_with(stage.file(""), &Options { read_only: true, ..still() }).unwrap();
    reader.conversation(&conversation("talk")).unwrap();
    drop(writer);
    reader.conversation(&conversation("talk")).unwrap();
    put_another(&stage, &stage.file(""));
    assert_moved(reader.conversation(&conversation("talk")), &stage.file(""), "replaced");
}

#[test]
fn another_name_for_the_same_file_and_what_others_do_with_it_is_no_move() {
    let stage = Stage::new();
    let store = stage.open();
    let talk = conversation("talk");
    for round in 0..20 {
        store.append(&talk, Expected::Any, &[pause(&format!("here-{round}"))]).unwrap();
        let other = Store::open_with(stage.file(""), &still()).unwrap();
        other.append(&talk, Expected::Any, &[pause(&format!("there-{round}"))]).unwrap();
        match round % 4 {
            0 => assert!(store.vacuum().unwrap().bytes_after > 0),
            1 => assert!(store.empty_log().unwrap()),
            2 => assert!(other.vacuum().unwrap().bytes_after > 0),
            _ => fs::hard_link(stage.file(""), stage.aside(&round.to_string())).unwrap(),
        }
    }
    assert_eq!(event_ids(&store, &talk).len(), 40);
}

#[cfg(target_os = "linux")]
mod fork {
    use super::*;

    unsafe extern "C" {
        fn fork() -> i32;
        fn _exit(code: i32) -> !;
        fn waitpid(process: i32, status: *mut i32, options: i32) -> i32;
    }

    /// Runs `child` in a fork of this process; answers whether it said yes.
    fn in_a_fork(child: impl FnOnce() -> bool) -> bool {
        // SAFETY: the child only runs `child` and leaves without unwinding into the harness.
        unsafe {
            match fork() {
                0 => {
                    let said = std::panic::catch_unwind(std::panic::AssertUnwindSafe(child));
                    _exit(i32::from(!matches!(said, Ok(true))));
                }
                process => {
                    let mut status = -1;
                    assert_eq!(waitpid(process, &mut status, 0), process);
                    status == 0
                }
            }
        }
    }

    #[test]
    fn a_forked_child_is_refused_and_may_drop_what_it_inherited() {
        let stage = Stage::new();
        // With its projector, its watch and its checkpoints: threads that the child does not have.
        let store = Store::open_with(stage.file(""), &Options::default()).unwrap();
        let talk = conversation("talk");
        store.append(&talk, Expected::Any, &[pause("before")]).unwrap();
        let inherited = store.clone();
        let fine = in_a_fork(|| {
            let forked = |result: Result<(), Error>| matches!(result, Err(Error::Forked));
            let all = WRITINGS.iter().all(|(_, write)| forked(write(&inherited)))
                && forked(inherited.conversation(&conversation("talk")).map(drop))
                && forked(inherited.catch_up());
            drop(inherited);
            all
        });
        assert!(fine, "the child was let in, or it did not end well");
        store.append(&talk, Expected::Any, &[pause("after")]).unwrap();
        assert_eq!(event_ids(&store, &talk), ["before", "after"]);
    }

    #[test]
    fn the_last_handle_may_be_dropped_in_a_forked_child() {
        let stage = Stage::new();
        let store = Store::open_with(stage.file(""), &Options::default()).unwrap();
        let talk = conversation("talk");
        store.append(&talk, Expected::Any, &[pause("before")]).unwrap();
        let mut mine = Some(store);
        assert!(in_a_fork(|| {
            mine.take();
            true
        }));
        let store = mine.take().unwrap();
        store.append(&talk, Expected::Any, &[pause("after")]).unwrap();
        drop(store);
        assert_eq!(event_ids(&stage.open(), &talk), ["before", "after"]);
    }
}

#[test]
fn a_rebuild_and_its_like_work_on_the_file_that_is_open_in_whatever_folder_the_process_works() {
    const NAME: &str =
        "moved::a_rebuild_and_its_like_work_on_the_file_that_is_open_in_whatever_folder_the_process_works";
    if let Some(role) = child::role() {
        std::env::set_current_dir(role.database.parent().unwrap()).unwrap();
        let store = Store::open_with("annals.db", &still()).unwrap();
        store.append(&conversation("talk"), Expected::Any, &[pause("a"), pause("b")]).unwrap();
        store.catch_up().unwrap();
        let db = rusqlite::Connection::open(&role.database).unwrap();
        db.execute_batch("DELETE FROM transcript_line").unwrap();
        fs::create_dir("elsewhere").unwrap();
        std::env::set_current_dir("elsewhere").unwrap();
        store.rebuild(&[], &mut |_| ()).unwrap();
        store.vacuum().unwrap();
        store.backup(role.database.with_file_name("copy.db")).unwrap();
        assert_eq!(fs::read_dir(".").unwrap().count(), 0);
        let lines: i64 = db.query_row("SELECT count(*) FROM transcript_line", [], |row| row.get(0)).unwrap();
        assert_eq!(lines, 2);
        return;
    }
    let scratch = Scratch::new();
    let done = child::command(NAME, "worker", &scratch.database()).output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
}
