//! Opening: which files can be opened, which stores may share a file, and which files stay unchanged.

use std::fs;
use std::path::Path;
use std::sync::Barrier;
use std::time::Duration;

use annals::store::{APPLICATION_ID, SCHEMA_VERSION};
use annals::{Error, Expected, Options, Store};
use rusqlite::Connection;

use crate::support::child::{self, Running};
use crate::support::events::{pause, user_message};
use crate::support::folder::{self, Tree, assert_same};
use crate::support::{
    Scratch, assert_error, assert_sound, conversation, event_ids, number, without_projector,
};

fn read_only() -> Options {
    without_projector().read_only(true)
}

fn impatient() -> Options {
    without_projector().busy_timeout(Duration::from_millis(60))
}

/// Asserts that opening fails with this error under all options, and changes nothing.
#[track_caller]
fn assert_refused(scratch: &Scratch, path: &Path, expected: &Error) {
    let before = contents(scratch);
    for options in [without_projector(), read_only(), without_projector().create(false)] {
        assert_error(Store::open_with(path, &options), expected);
        assert_same(&contents(scratch), &before);
    }
}

/// Returns the files of a folder, without SQLite's shared memory and without an empty log. A reader that may not write
/// leaves these to the next writer.
fn contents(scratch: &Scratch) -> Tree {
    let mut tree = folder::read(scratch.path("").as_path());
    tree.retain(|path, content| !(path.ends_with("-shm") || path.ends_with("-wal") && content.is_empty()));
    tree
}

fn foreign(path: &Path, what: &str) -> Error {
    Error::ForeignFile { path: path.to_owned(), what: what.to_owned() }
}

/// Afterwards a copy of the file alone has everything, even if another program has the file open for reading.
#[test]
fn a_file_that_was_loaded_from_a_dump_is_recognised_and_the_pragmas_that_make_it_whole_are_named() {
    for schema in [SCHEMA_VERSION, 22, 17] {
        let scratch = Scratch::new();
        let path = scratch.database();
        if schema == SCHEMA_VERSION {
            scratch.open().append(&conversation("talk"), Expected::Any, &[user_message("a", "one")]).unwrap();
        } else {
            let old = format!("{}/tests/old/schema-{schema}.db", env!("CARGO_MANIFEST_DIR"));
            std::fs::copy(old, &path).unwrap();
        }
        // A dump has neither of the two.
        Connection::open(&path)
            .unwrap()
            .execute_batch(
                "PRAGMA application_id = 0; PRAGMA user_version = 0; PRAGMA wal_checkpoint(TRUNCATE)",
            )
            .unwrap();
        let before = std::fs::read(&path).unwrap();
        let said = Store::open(&path).unwrap_err().to_string();
        let pragmas = said.split('`').nth(1).unwrap();
        let wanted = format!("PRAGMA application_id = 1095650387; PRAGMA user_version = {schema};");
        assert_eq!(pragmas, wanted, "{said}");
        assert!(
            include_str!("../../docs/format.md")
                .contains("PRAGMA application_id = 1095650387; PRAGMA user_version =")
        );
        assert_eq!(std::fs::read(&path).unwrap(), before);
        Connection::open(&path).unwrap().execute_batch(pragmas).unwrap();
        assert_sound(&Store::open(&path).unwrap());
    }
}

#[test]
fn closing_a_store_moves_everything_into_the_file_itself() {
    let scratch = Scratch::new();
    let store = scratch.open();
    store.append(&conversation("talk"), Expected::Any, &[user_message("a", "text")]).unwrap();
    let flags = rusqlite::OpenFlags::SQLITE_OPEN_READ_ONLY;
    let reader = rusqlite::Connection::open_with_flags(scratch.database(), flags).unwrap();
    assert_eq!(number(&reader, "SELECT count(*) FROM event"), 1);
    drop(store);
    let copy = scratch.path("copy.db");
    std::fs::copy(scratch.database(), &copy).unwrap();
    let copy = rusqlite::Connection::open(&copy).unwrap();
    assert_eq!(number(&copy, "SELECT count(*) FROM event"), 1);
}

#[test]
fn a_newer_file_is_refused_with_both_numbers() {
    let scratch = Scratch::new();
    let path = scratch.database();
    scratch.open_without_projector().append(&conversation("talk"), Expected::Any, &[pause("a")]).unwrap();
    let db = scratch.foreign();
    db.pragma_update(None, "user_version", SCHEMA_VERSION + 1).unwrap();
    drop(db);
    let newer = Error::NewerFile { path: path.clone(), found: SCHEMA_VERSION + 1, known: SCHEMA_VERSION };
    assert_refused(&scratch, &path, &newer);
}

#[test]
fn an_older_file_is_not_read_before_it_is_upgraded() {
    let scratch = Scratch::new();
    scratch.open_without_projector().append(&conversation("talk"), Expected::Any, &[pause("a")]).unwrap();
    scratch.foreign().pragma_update(None, "user_version", SCHEMA_VERSION - 1).unwrap();
    let older =
        Error::OlderFile { path: scratch.database(), found: SCHEMA_VERSION - 1, known: SCHEMA_VERSION };
    assert_error(Store::open_with(scratch.database(), &read_only()), &older);
    assert_sound(&scratch.open_without_projector());
    assert_sound(&Store::open_with(scratch.database(), &read_only()).unwrap());
}

#[test]
fn a_database_of_another_program_is_refused_and_left_alone() {
    for (journal, application_id) in [("delete", 0), ("delete", 77), ("wal", 0), ("wal", 77)] {
        let scratch = Scratch::new();
        let path = scratch.path("theirs.db");
        let db = Connection::open(&path).unwrap();
        db.pragma_update(None, "application_id", application_id).unwrap();
        let _: String =
            db.query_row(&format!("PRAGMA journal_mode = {journal}"), [], |row| row.get(0)).unwrap();
        db.execute_batch("CREATE TABLE mine (x); INSERT INTO mine VALUES (1)").unwrap();
        let what = format!("an SQLite database of another program (application id {application_id:#x})");
        // It is refused while it is in use, after a crash that left its log, and after it was closed.
        assert_refused(&scratch, &path, &foreign(&path, &what));
        let crashed = Scratch::new();
        folder::write(&crashed.path(""), &contents(&scratch));
        let path = crashed.path("theirs.db");
        assert_refused(&crashed, &path, &foreign(&path, &what));
        drop(db);
        let path = scratch.path("theirs.db");
        assert_refused(&scratch, &path, &foreign(&path, &what));
        assert_eq!(number(&Connection::open(&path).unwrap(), "SELECT x FROM mine"), 1);
    }
}

#[test]
fn a_file_that_is_no_database_is_refused_and_left_alone() {
    let page = |start: &[u8]| start.iter().copied().chain((0..=255).cycle()).take(8192).collect::<Vec<u8>>();
    for content in [b"hello".to_vec(), b"x".repeat(99), page(b"\x89PNG"), page(b""), b"\n".repeat(5000)] {
        let scratch = Scratch::new();
        let path = scratch.path("file");
        fs::write(&path, content).unwrap();
        assert_refused(&scratch, &path, &foreign(&path, "not an SQLite database"));
    }
}

#[test]
fn an_empty_file_becomes_a_store_when_it_may_be_written() {
    let scratch = Scratch::new();
    fs::write(scratch.database(), "").unwrap();
    let empty = foreign(&scratch.database(), "an empty file");
    assert_error(Store::open_with(scratch.database(), &read_only()), &empty);
    assert_eq!(fs::read(scratch.database()).unwrap(), b"");
    let store = Store::open_with(scratch.database(), &without_projector().create(false)).unwrap();
    store.append(&conversation("talk"), Expected::Any, &[pause("a")]).unwrap();
    let db = scratch.foreign();
    assert_eq!(number(&db, "PRAGMA application_id"), i64::from(APPLICATION_ID));
    // `file` and others that look at the first bytes alone recognise it while its log is in use.
    assert_eq!(fs::read(scratch.database()).unwrap()[68..72], APPLICATION_ID.to_be_bytes());
    assert_eq!(number(&db, "PRAGMA user_version"), i64::from(SCHEMA_VERSION));
    assert_eq!(db.query_row("PRAGMA journal_mode", [], |row| row.get::<_, String>(0)).unwrap(), "wal");
}

#[test]
fn a_path_that_cannot_hold_a_database_is_refused_with_the_reason() {
    let scratch = Scratch::new();
    let cannot = |path: &Path, what: &str| Error::CannotOpen { path: path.to_owned(), what: what.to_owned() };
    fs::create_dir(scratch.path("folder")).unwrap();
    let path = scratch.path("folder");
    assert_refused(&scratch, &path, &cannot(&path, "it is a folder; name a file in it"));

    let path = scratch.path("gone.db");
    for options in [read_only(), without_projector().create(false)] {
        assert_error(Store::open_with(&path, &options), &cannot(&path, "there is no such file"));
        assert!(!path.exists());
    }
    fs::write(scratch.path("file"), "x").unwrap();
    let path = scratch.path("file").join("below.db");
    let error = Store::open(&path).unwrap_err();
    assert!(matches!(&error, Error::CannotOpen { path: at, .. } if *at == path), "{error:?}");
    assert!(error.to_string().contains("cannot be created"), "{error}");
    assert_eq!(fs::read(scratch.path("file")).unwrap(), b"x");
}

#[cfg(unix)]
#[test]
fn a_path_that_is_not_unicode_is_refused() {
    use std::os::unix::ffi::OsStrExt as _;
    let scratch = Scratch::new();
    let path = scratch.path("").join(std::ffi::OsStr::from_bytes(b"a\xff.db"));
    let refusal = Error::CannotOpen { path: path.clone(), what: "the path is not valid Unicode".into() };
    assert_refused(&scratch, &path, &refusal);
}

#[test]
fn a_path_may_contain_characters_that_a_uri_may_not() {
    let scratch = Scratch::new();
    for name in ["a?b.db", "a#b.db", "a%20b.db", "a b.db", "größe 日本.db", "a'b\".db", "?mode=memory"] {
        let path = scratch.path(name);
        let store = Store::open_with(&path, &without_projector()).unwrap();
        assert_eq!(store.path(), path);
        store.append(&conversation("talk"), Expected::Any, &[pause(name)]).unwrap();
        drop(store);
        assert_eq!(event_ids(&Store::open_with(&path, &read_only()).unwrap(), &conversation("talk")), [name]);
        assert!(path.is_file());
    }
}

#[cfg(unix)]
#[test]
fn missing_folders_are_made_and_private() {
    use std::os::unix::fs::PermissionsExt as _;
    let scratch = Scratch::new();
    Store::open(scratch.path("deep/er/annals.db")).unwrap();
    let mode = |path: &str| fs::metadata(scratch.path(path)).unwrap().permissions().mode() & 0o777;
    assert_eq!(["deep", "deep/er", "deep/er/annals.db"].map(mode), [0o700, 0o700, 0o600]);
}

/// Drops the capabilities with which root can read and write everything, if this thread has them.
#[cfg(target_os = "linux")]
fn drop_root_capabilities() {
    use rustix::thread::{CapabilitySet, capabilities, set_capabilities};
    let mut sets = capabilities(None).unwrap();
    let all = CapabilitySet::DAC_OVERRIDE | CapabilitySet::DAC_READ_SEARCH | CapabilitySet::FOWNER;
    sets.effective.remove(all);
    sets.permitted.remove(all);
    set_capabilities(None, sets).unwrap();
}

/// Root may read and write everything, so a child process drops these capabilities and tries. It stays the same user,
/// so that it can reach the same folders as the tests.
#[cfg(target_os = "linux")]
#[test]
fn a_read_only_place_can_be_read_and_not_written() {
    use std::os::unix::fs::PermissionsExt as _;
    const TEST: &str = "open::a_read_only_place_can_be_read_and_not_written";
    let talk = conversation("talk");
    if let Some(role) = child::role() {
        let path = role.database;
        drop_root_capabilities();
        match role.name.as_str() {
            "read" => match Store::open_with(&path, &read_only()) {
                Ok(store) => child::report(&event_ids(&store, &talk).join(" ")),
                Err(error) => child::report(&format!("{error:?}")),
            },
            _ => child::report(&format!("{:?}", Store::open_with(&path, &without_projector()).map(drop))),
        }
        return;
    }
    let scratch = Scratch::new();
    scratch.open_without_projector().append(&talk, Expected::Any, &[pause("a"), pause("b")]).unwrap();
    let path = scratch.database();
    let run_child = |name: &str, path: &Path| Running::start(child::command(TEST, name, path)).finish();
    let permit =
        |path: &Path, mode: u32| fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    permit(&path, 0o444);
    permit(&scratch.path(""), 0o555);
    let before = contents(&scratch);
    assert_eq!(run_child("read", &path), ["a b"]);
    assert_eq!(
        run_child("write", &path),
        [format!("{:?}", Err::<(), _>(Error::ReadOnly { path: path.clone() }))]
    );
    let new = run_child("write", &scratch.path("new.db")).remove(0);
    assert!(new.starts_with("Err(CannotOpen") && new.contains("it cannot be created"), "{new}");
    permit(&path, 0o000);
    let closed = run_child("read", &path).remove(0);
    assert!(
        closed.starts_with("CannotOpen") && closed.contains("check that you may read the file"),
        "{closed}"
    );
    permit(&path, 0o600);
    permit(&scratch.path(""), 0o700);
    assert_same(&contents(&scratch), &before);
}

#[test]
fn reading_leaves_nothing_behind() {
    let scratch = Scratch::new();
    scratch
        .open_without_projector()
        .append(&conversation("talk"), Expected::Any, &[user_message("a", "one")])
        .unwrap();
    let before = folder::read(&scratch.path(""));
    assert_eq!(before.keys().collect::<Vec<_>>(), ["annals.db"], "the writer left other files");
    let store = Store::open_with(scratch.database(), &read_only()).unwrap();
    assert!(store.is_read_only());
    assert_eq!(event_ids(&store, &conversation("talk")), ["a"]);
    assert_sound(&store);
    drop(store);
    assert_same(&contents(&scratch), &before);
}

#[test]
fn several_stores_may_create_one_file_at_the_same_time() {
    for _ in 0..10 {
        let scratch = Scratch::new();
        let start = Barrier::new(8);
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    start.wait();
                    Store::open(scratch.database()).unwrap();
                });
            }
        });
    }
}

#[test]
fn two_stores_of_one_process_may_share_a_file() {
    let scratch = Scratch::new();
    let talk = conversation("talk");
    let (one, two) = (scratch.open(), scratch.open());
    one.append(&talk, Expected::Exact(0), &[pause("a")]).unwrap();
    two.append(&talk, Expected::Exact(1), &[pause("b")]).unwrap();
    drop(one); // this must not release the locks of the other store
    two.append(&talk, Expected::Exact(2), &[pause("c")]).unwrap();
    let three = scratch.open();
    three.append(&talk, Expected::Exact(3), &[pause("d")]).unwrap();
    assert_eq!(event_ids(&two, &talk), ["a", "b", "c", "d"]);
    assert_sound(&two);
}

#[test]
fn clones_of_a_store_are_one_store() {
    let store = Store::in_memory(&without_projector()).unwrap();
    let clone = store.clone();
    let talk = conversation("talk");
    store.append(&talk, Expected::Any, &[pause("a")]).unwrap();
    drop(store);
    clone.append(&talk, Expected::Exact(1), &[pause("b")]).unwrap();
    assert_eq!(event_ids(&clone, &talk), ["a", "b"]);
}

#[test]
fn stores_in_memory_share_nothing() {
    let options = Options::default().read_only(true).create(false);
    let (one, two) = (Store::in_memory(&options).unwrap(), Store::in_memory(&options).unwrap());
    let talk = conversation("talk");
    one.append(&talk, Expected::Any, &[pause("a")]).unwrap();
    let unknown = Error::UnknownConversation { conversation: "talk".into() };
    assert_error(two.conversation(&talk), &unknown);
    assert_eq!(one.path(), Path::new(":memory:"));
    assert!(!one.is_read_only());
    assert_sound(&one);
}

#[test]
fn a_lock_that_is_held_too_long_is_reported_with_the_time_waited() {
    let scratch = Scratch::new();
    let talk = conversation("talk");
    let store = Store::open_with(scratch.database(), &impatient()).unwrap();
    store.append(&talk, Expected::Any, &[pause("a")]).unwrap();
    let db = scratch.foreign();
    db.execute_batch("BEGIN IMMEDIATE").unwrap();
    let busy = |result: annals::Result<()>| match result.unwrap_err() {
        Error::Busy { waited_ms, .. } => assert!((60..10_000).contains(&waited_ms), "{waited_ms}"),
        other => panic!("{other:?}"),
    };
    busy(store.append(&talk, Expected::Any, &[pause("b")]).map(drop));
    busy(store.set_title(&talk, Some("x")));
    busy(store.retention().delete(&talk).map(drop));
    busy(store.catch_up());
    busy(store.maintenance().rebuild(&[], &mut |_| ()));
    assert_eq!(event_ids(&store, &talk), ["a"], "a reader does not wait");
    db.execute_batch("COMMIT").unwrap();
    store.append(&talk, Expected::Exact(1), &[pause("b")]).unwrap();
    store.maintenance().rebuild(&[], &mut |_| ()).unwrap();
    assert_sound(&store);
}

#[test]
fn a_file_that_another_program_locks_cannot_become_a_store() {
    let scratch = Scratch::new();
    fs::write(scratch.database(), "").unwrap();
    let db = scratch.foreign();
    db.execute_batch("BEGIN EXCLUSIVE").unwrap();
    let error = Store::open_with(scratch.database(), &impatient()).unwrap_err();
    assert!(matches!(error, Error::Busy { .. }), "{error:?}");
    db.execute_batch("COMMIT").unwrap();
    Store::open_with(scratch.database(), &impatient()).unwrap();
}

#[test]
fn the_smallest_options_still_make_a_store() {
    let scratch = Scratch::new();
    let options = Options::default().pool_size(0).busy_timeout(Duration::ZERO);
    let talk = conversation("talk");
    for store in
        [Store::open_with(scratch.database(), &options).unwrap(), Store::in_memory(&options).unwrap()]
    {
        store.append(&talk, Expected::Any, &[pause("a")]).unwrap();
        assert_eq!(event_ids(&store, &talk), ["a"]);
        assert_sound(&store);
    }
}

#[test]
fn reading_a_file_that_was_removed_is_an_error() {
    let scratch = Scratch::new();
    let path = scratch.path("folder/annals.db");
    let store = Store::open_with(&path, &impatient()).unwrap();
    fs::remove_dir_all(scratch.path("folder")).unwrap();
    let error = store.count_conversations(&Default::default()).unwrap_err();
    assert!(matches!(&error, Error::Moved { path: at, .. } if *at == path), "{error:?}");
}
