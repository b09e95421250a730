//! The database file is moved, removed or replaced while it is open. The store notices before it acknowledges anything
//! more.
#![cfg(unix)]

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::mpsc;

use annals::state::FieldChange;
use annals::store::{Append, BaseStateChange};
use annals::{Error, Expected, NewEvent, Options, Store};

use crate::support::child::{self, Running};
use crate::support::events::pause;
use crate::support::{Scratch, conversation, event_ids, without_projector};

/// A database in its own folder, so that a test can remove the folder too.
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
        Store::open_with(self.file(""), &without_projector()).unwrap()
    }
}

fn remove(path: &Path) {
    fs::remove_file(path).unwrap();
}

/// Makes another store and puts its file at `path`.
fn put_another(stage: &Stage, path: &Path) {
    let other = stage.scratch.path("other.db");
    let store = Store::open_with(&other, &without_projector()).unwrap();
    store.append(&conversation("other"), Expected::Any, &[pause("other")]).unwrap();
    drop(store);
    fs::rename(other, path).unwrap();
}

struct Harm {
    name: &'static str,
    apply: fn(&Stage),
    /// Whether reads fail too, because the database file itself is gone or replaced.
    hits_file: bool,
    /// Undoes the harm after the store is closed. `None` if the acknowledged events cannot be recovered.
    undo: Option<fn(&Stage)>,
}

const HARMS: &[Harm] = &[
    Harm { name: "rm db", apply: |stage| remove(&stage.file("")), hits_file: true, undo: None },
    Harm {
        name: "rm folder",
        apply: |stage| fs::remove_dir_all(stage.folder()).unwrap(),
        hits_file: true,
        undo: None,
    },
    Harm {
        name: "mv db",
        apply: |stage| fs::rename(stage.file(""), stage.aside("")).unwrap(),
        hits_file: true,
        undo: Some(|stage| fs::rename(stage.aside(""), stage.file("")).unwrap()),
    },
    Harm {
        name: "mv folder",
        apply: |stage| fs::rename(stage.folder(), stage.scratch.path("away")).unwrap(),
        hits_file: true,
        undo: Some(|stage| fs::rename(stage.scratch.path("away"), stage.folder()).unwrap()),
    },
    Harm {
        name: "mv folder, another in its place",
        apply: |stage| {
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
    Harm {
        name: "another over it",
        apply: |stage| {
            fs::hard_link(stage.file(""), stage.aside("")).unwrap();
            put_another(stage, &stage.file(""));
        },
        hits_file: true,
        undo: Some(|stage| fs::rename(stage.aside(""), stage.file("")).unwrap()),
    },
    Harm {
        name: "a copy of itself over it",
        apply: |stage| {
            fs::hard_link(stage.file(""), stage.aside("")).unwrap();
            fs::copy(stage.file(""), stage.scratch.path("copy")).unwrap();
            fs::rename(stage.scratch.path("copy"), stage.file("")).unwrap();
        },
        hits_file: true,
        undo: Some(|stage| fs::rename(stage.aside(""), stage.file("")).unwrap()),
    },
    Harm {
        name: "rm -wal",
        apply: |stage| remove(&stage.file("-wal")),
        hits_file: false,
        undo: Some(|_| ()),
    },
    Harm {
        name: "mv -wal",
        apply: |stage| fs::rename(stage.file("-wal"), stage.aside("-wal")).unwrap(),
        hits_file: false,
        undo: Some(|stage| fs::rename(stage.aside("-wal"), stage.file("-wal")).unwrap()),
    },
    Harm {
        name: "an empty -wal over it",
        apply: |stage| {
            fs::rename(stage.file("-wal"), stage.aside("-wal")).unwrap();
            fs::write(stage.file("-wal"), b"").unwrap();
        },
        hits_file: false,
        undo: Some(|stage| fs::rename(stage.aside("-wal"), stage.file("-wal")).unwrap()),
    },
    Harm {
        name: "rm -shm",
        apply: |stage| remove(&stage.file("-shm")),
        hits_file: false,
        undo: Some(|_| ()),
    },
    Harm {
        name: "rm -wal and -shm",
        apply: |stage| {
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
        Err(Error::Moved { path: actual, .. }) => assert_eq!(actual, path, "{what}"),
        other => panic!("{what}: {other:?}"),
    }
}

fn only(event: NewEvent) -> Append {
    Append::new(Expected::Any, vec![event])
}

/// A write to the store.
type Write = fn(&Store) -> Result<(), Error>;

const WRITES: [(&str, Write); 6] = [
    ("append", |store| store.append(&conversation("talk"), Expected::Any, &[pause("late")]).map(drop)),
    ("append_later", |store| {
        let (sender, answer) = mpsc::channel();
        store.append_later(
            &conversation("talk"),
            only(pause("later")),
            move |result| sender.send(result).unwrap(),
            drop,
        );
        answer.recv().unwrap().map(drop)
    }),
    ("set_title", |store| store.set_title(&conversation("talk"), Some("late"))),
    ("save_base_state", |store| {
        let fields = vec![FieldChange::set("title", "1").unwrap()];
        store.save_base_state(&conversation("talk"), BaseStateChange::new(fields)).map(drop)
    }),
    ("attach", |store| store.attach(&conversation("talk"), "late", b"late")),
    ("delete", |store| store.retention().delete(&conversation("talk")).map(drop)),
];

#[test]
fn nothing_is_acknowledged_once_the_file_is_no_longer_at_its_path() {
    for harm in HARMS {
        for (name, write) in WRITES {
            let stage = Stage::new();
            let store = stage.open();
            store.append(&conversation("talk"), Expected::Empty, &[pause("kept")]).unwrap();
            (harm.apply)(&stage);
            let what = format!("{} after {}", name, harm.name);
            assert_moved(write(&store), &stage.file(""), &what);
            // Every later write fails too.
            for (again, write) in WRITES {
                assert_moved(write(&store), &stage.file(""), &format!("{again} behind {what}"));
            }
            if harm.hits_file {
                assert_moved(store.conversation(&conversation("talk")), &stage.file(""), &what);
            }
            drop(store);
            let Some(undo) = harm.undo else { continue };
            undo(&stage);
            let ids = event_ids(&stage.open(), &conversation("talk"));
            assert_eq!(ids[0], "kept", "{what}");
        }
    }
}

#[test]
fn a_removed_wal_is_checkpointed_before_the_append_fails() {
    let stage = Stage::new();
    let store = stage.open();
    store.append(&conversation("talk"), Expected::Empty, &[pause("kept")]).unwrap();
    remove(&stage.file("-wal"));
    let late = store.append(&conversation("talk"), Expected::Any, &[pause("late")]);
    assert_moved(late, &stage.file(""), "rm -wal");
    // The copy is the file that would be left if the process were killed now.
    fs::copy(stage.file(""), stage.aside("")).unwrap();
    let left = Store::open_with(stage.aside(""), &without_projector()).unwrap();
    assert_eq!(event_ids(&left, &conversation("talk"))[0], "kept");
}

/// No lock separates the two stores, so a checkpoint by the first would overwrite the pages of the second.
#[test]
fn a_store_whose_wal_was_replaced_leaves_the_file_to_the_current_writer() {
    const TEST: &str = "moved::a_store_whose_wal_was_replaced_leaves_the_file_to_the_current_writer";
    if let Some(role) = child::role() {
        let store = Store::open_with(&role.database, &without_projector()).unwrap();
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
fn a_read_only_store_does_not_switch_to_another_file() {
    let stage = Stage::new();
    let writer = stage.open();
    writer.append(&conversation("talk"), Expected::Empty, &[pause("kept")]).unwrap();
    let reader = Store::open_with(stage.file(""), &without_projector().read_only(true)).unwrap();
    reader.conversation(&conversation("talk")).unwrap();
    drop(writer);
    reader.conversation(&conversation("talk")).unwrap();
    put_another(&stage, &stage.file(""));
    assert_moved(reader.conversation(&conversation("talk")), &stage.file(""), "replaced");
}

#[test]
fn a_hard_link_and_work_through_another_handle_are_not_a_move() {
    let stage = Stage::new();
    let store = stage.open();
    let talk = conversation("talk");
    for round in 0..20 {
        store.append(&talk, Expected::Any, &[pause(&format!("here-{round}"))]).unwrap();
        let other = Store::open_with(stage.file(""), &without_projector()).unwrap();
        other.append(&talk, Expected::Any, &[pause(&format!("there-{round}"))]).unwrap();
        match round % 4 {
            0 => assert!(store.maintenance().vacuum().unwrap().bytes_after > 0),
            1 => assert!(store.maintenance().empty_log().unwrap()),
            2 => assert!(other.maintenance().vacuum().unwrap().bytes_after > 0),
            _ => {
                fs::hard_link(stage.file(""), stage.aside("")).unwrap();
                store.append(&talk, Expected::Any, &[pause(&format!("linked-{round}"))]).unwrap();
                remove(&stage.aside(""));
            }
        }
    }
    assert_eq!(event_ids(&store, &talk).len(), 45);
}

#[cfg(target_os = "linux")]
mod fork {
    use super::*;
    use crate::support::child::in_a_fork;

    #[test]
    fn a_forked_child_is_refused_and_may_drop_what_it_inherited() {
        let stage = Stage::new();
        // The default options start threads (projector, watch, checkpoints). The forked child does not have them.
        let store = Store::open_with(stage.file(""), &Options::default()).unwrap();
        let talk = conversation("talk");
        store.append(&talk, Expected::Any, &[pause("before")]).unwrap();
        let inherited = store.clone();
        let all_rejected = in_a_fork(|| {
            let forked = |result: Result<(), Error>| matches!(result, Err(Error::Forked));
            let all = WRITES.iter().all(|(_, write)| forked(write(&inherited)))
                && forked(inherited.conversation(&conversation("talk")).map(drop))
                && forked(inherited.catch_up());
            drop(inherited);
            all
        });
        assert!(all_rejected, "the store did not reject the child, or the child failed");
        store.append(&talk, Expected::Any, &[pause("after")]).unwrap();
        assert_eq!(event_ids(&store, &talk), ["before", "after"]);
    }

    #[test]
    fn the_last_handle_may_be_dropped_in_a_forked_child() {
        let stage = Stage::new();
        let store = Store::open_with(stage.file(""), &Options::default()).unwrap();
        let talk = conversation("talk");
        store.append(&talk, Expected::Any, &[pause("before")]).unwrap();
        // Once more, which changes nothing: threads of the store commit it, and the child does not have them.
        #[cfg(feature = "aio")]
        {
            let handle = annals::aio::Store::from(store.clone());
            let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
            runtime.block_on(handle.append(&talk, Expected::Any, vec![pause("before")])).unwrap();
        }
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

    /// The only permit is taken when the process is forked. No thread of the child returns it.
    #[cfg(feature = "aio")]
    #[test]
    fn async_handles_refuse_a_forked_child_at_once() {
        use std::pin::pin;
        use std::task::{Context, Poll, Waker};

        let stage = Stage::new();
        let options = Options::default().pool_size(1);
        let store = annals::aio::Store::from(Store::open_with(stage.file(""), &options).unwrap());
        let (holder, talk) = (store.clone(), conversation("talk"));
        let (begin, begun) = mpsc::channel();
        let (release, released) = mpsc::channel::<()>();
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).build().unwrap();
        let holding = runtime.spawn(async move {
            let work = move |_: &Store| {
                begin.send(()).unwrap();
                released.recv().unwrap();
                Ok(())
            };
            holder.run(work).await
        });
        begun.recv().unwrap();
        let refused = in_a_fork(|| {
            let mut context = Context::from_waker(Waker::noop());
            let mut run = pin!(store.run(|_| Ok(())));
            let mut append = pin!(store.append(&talk, Expected::Any, vec![pause("a")]));
            matches!(run.as_mut().poll(&mut context), Poll::Ready(Err(Error::Forked)))
                && matches!(append.as_mut().poll(&mut context), Poll::Ready(Err(Error::Forked)))
        });
        release.send(()).unwrap();
        runtime.block_on(holding).unwrap().unwrap();
        assert!(refused, "the child waits, or was let in");
    }
}

#[test]
fn maintenance_works_on_the_open_file_after_the_working_folder_changed() {
    const NAME: &str = "moved::maintenance_works_on_the_open_file_after_the_working_folder_changed";
    if let Some(role) = child::role() {
        std::env::set_current_dir(role.database.parent().unwrap()).unwrap();
        let store = Store::open_with("annals.db", &without_projector()).unwrap();
        store.append(&conversation("talk"), Expected::Any, &[pause("a"), pause("b")]).unwrap();
        store.catch_up().unwrap();
        let db = rusqlite::Connection::open(&role.database).unwrap();
        db.execute_batch("DELETE FROM transcript_line").unwrap();
        fs::create_dir("elsewhere").unwrap();
        std::env::set_current_dir("elsewhere").unwrap();
        store.maintenance().rebuild(&[], &mut |_| ()).unwrap();
        store.maintenance().vacuum().unwrap();
        store.backup().to_new_file(role.database.with_file_name("copy.db")).unwrap();
        assert_eq!(fs::read_dir(".").unwrap().count(), 0);
        let lines: i64 = db.query_row("SELECT count(*) FROM transcript_line", [], |row| row.get(0)).unwrap();
        assert_eq!(lines, 2);
        return;
    }
    let scratch = Scratch::new();
    let done = child::command(NAME, "worker", &scratch.database()).output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
}
