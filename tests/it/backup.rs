//! Backups: they are complete, checked and compact, and they never overwrite anything.

use std::fs;
use std::path::Path;

use annals::transfer::Importer;
use annals::{Error, Expected, Position, Store};

use crate::support::events::user_message;
use crate::support::{
    Scratch, all_events, altered, assert_error, assert_sound, conversation, event_ids, folder,
    without_projector,
};

fn import(store: &Store, golden: &str) {
    Importer::new(store, Default::default()).import(&folder::golden(golden), &mut |_| ()).unwrap();
}

/// The names in a folder.
fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn a_backup_is_the_same_store_in_one_file() {
    let scratch = Scratch::new();
    let in_memory = Store::in_memory(&without_projector()).unwrap();
    let in_file = scratch.open_without_projector();
    for (store, name) in [(&in_file, "of-file.db"), (&in_memory, "of-memory.db")] {
        import(store, "conversations");
        import(store, "corrupt/torn-partial-last");
        store.search("file", &Default::default(), 1, &mut |_| ()).unwrap();
        store.catch_up().unwrap();
        let to = scratch.path("backups").join(name);
        let report = store.backup().to_new_file(&to).unwrap();
        let statistics = store.statistics().unwrap();
        assert_eq!(
            report,
            altered!(report, {
                last_position: store.last_position().unwrap(),
                conversations: statistics.conversations,
                events: statistics.events,
                bytes: fs::metadata(&to).unwrap().len(),
            })
        );
        let copy = Store::open_with(&to, &without_projector().read_only(true)).unwrap();
        let list = |store: &Store| {
            store.conversations(&Default::default(), Default::default(), None, 100).unwrap().conversations
        };
        assert_eq!(list(&copy), list(store));
        for row in list(store) {
            assert_eq!(all_events(&copy, &row.id), all_events(store, &row.id));
            assert_eq!(copy.attachments(&row.id).unwrap(), store.attachments(&row.id).unwrap());
            assert_eq!(copy.problems(&row.id).unwrap(), store.problems(&row.id).unwrap());
            assert_eq!(copy.base_state(&row.id).unwrap(), store.base_state(&row.id).unwrap());
        }
        assert_eq!(copy.statistics().unwrap().tools, statistics.tools);
        assert_sound(&copy);
    }
    assert_eq!(names(&scratch.path("backups")), ["of-file.db", "of-memory.db"]);
}

#[test]
fn a_backup_can_be_appended_to() {
    let scratch = Scratch::new();
    let store = scratch.open_without_projector();
    let talk = conversation("talk");
    store.append(&talk, Expected::Any, &[user_message("a", "one")]).unwrap();
    store.backup().to_new_file(scratch.path("copy.db")).unwrap();
    let copy = Store::open(scratch.path("copy.db")).unwrap();
    copy.append(&talk, Expected::Exact(1), &[user_message("b", "two")]).unwrap();
    assert_eq!((event_ids(&copy, &talk).len(), event_ids(&store, &talk).len()), (2, 1));
    assert_sound(&copy);
}

#[test]
fn a_backup_while_others_write_is_one_moment_of_the_store() {
    let scratch = Scratch::new();
    let store = scratch.open();
    let talk = conversation("talk");
    store.append(&talk, Expected::Any, &[user_message("first", "one")]).unwrap();
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            for number in 0..120 {
                let pair =
                    [user_message(&format!("{number}-a"), "x"), user_message(&format!("{number}-b"), "y")];
                store.append(&talk, Expected::Any, &pair).unwrap();
            }
        });
        let mut number = 0;
        while !writer.is_finished() {
            let to = scratch.path(&format!("{number}.db"));
            let report = store.backup().to_new_file(&to).unwrap();
            let copy = Store::open_with(&to, &without_projector().read_only(true)).unwrap();
            assert_eq!(report.events % 2, 1, "a batch is only partly in the backup");
            assert_eq!(event_ids(&copy, &talk).len() as u64, report.events);
            assert_eq!(report.last_position, Position(report.events));
            assert_sound(&copy);
            number += 1;
        }
    });
}

#[test]
fn a_backup_never_overwrites_an_existing_path() {
    let scratch = Scratch::new();
    let store = scratch.open_without_projector();
    store.append(&conversation("talk"), Expected::Any, &[user_message("a", "one")]).unwrap();
    fs::write(scratch.path("taken"), "mine").unwrap();
    fs::create_dir(scratch.path("folder")).unwrap();
    for path in ["taken", "folder", "annals.db"] {
        let path = scratch.path(path);
        assert_error(store.backup().to_new_file(&path), &Error::WouldOverwrite { path: path.clone() });
    }
    assert_eq!(fs::read(scratch.path("taken")).unwrap(), b"mine");
    let parent_path = scratch.path("folder").join("..");
    assert!(matches!(
        store.backup().to_new_file(&parent_path),
        Err(Error::WouldOverwrite { .. } | Error::CannotOpen { .. })
    ));
    let below = scratch.path("taken").join("copy.db");
    assert!(matches!(store.backup().to_new_file(&below), Err(Error::CannotOpen { .. })));
    assert_eq!(names(&scratch.path("folder")), Vec::<String>::new());
}

#[test]
fn several_backups_may_run_at_the_same_time() {
    let scratch = Scratch::new();
    let store = scratch.open_without_projector();
    store.append(&conversation("talk"), Expected::Any, &[user_message("a", "one")]).unwrap();
    let to = scratch.path("backups/one.db");
    let answers: Vec<_> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..6).map(|_| scope.spawn(|| store.backup().to_new_file(&to))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert!(answers.iter().any(Result::is_ok), "{answers:?}");
    for answer in answers {
        match answer {
            Ok(report) => assert_eq!(report.events, 1),
            Err(error) => assert!(matches!(error, Error::WouldOverwrite { .. }), "{error}"),
        }
    }
    assert_eq!(names(&scratch.path("backups")), ["one.db"]);
    assert_sound(&Store::open(&to).unwrap());
}

#[test]
fn deleted_data_is_not_in_a_backup() {
    let scratch = Scratch::new();
    let store = scratch.open_without_projector();
    let secret = "a-very-secret-word-that-must-go";
    store.append(&conversation("stays"), Expected::Any, &[user_message("a", "one")]).unwrap();
    store.append(&conversation("goes"), Expected::Any, &[user_message("a", &secret.repeat(1000))]).unwrap();
    store.search(secret, &Default::default(), 1, &mut |_| ()).unwrap();
    store.retention().delete(&conversation("goes")).unwrap();
    store.backup().to_new_file(scratch.path("copy.db")).unwrap();
    let holds = |path: &Path| {
        let bytes = fs::read(path).unwrap();
        bytes.windows(secret.len()).any(|window| window == secret.as_bytes())
    };
    drop(store);
    assert!(
        holds(&scratch.database()),
        "the secret is still in the original file, or this test proves nothing"
    );
    assert!(!holds(&scratch.path("copy.db")));
}

#[cfg(unix)]
#[test]
fn a_backup_is_as_private_as_the_store() {
    use std::os::unix::fs::PermissionsExt as _;
    let scratch = Scratch::new();
    let store = Store::open(scratch.path("new/annals.db")).unwrap();
    store.backup().to_new_file(scratch.path("backups/copy.db")).unwrap();
    let mode = |path: &str| fs::metadata(scratch.path(path)).unwrap().permissions().mode() & 0o777;
    assert_eq!(
        ["new", "new/annals.db", "backups", "backups/copy.db"].map(mode),
        [0o700, 0o600, 0o700, 0o600]
    );
}
