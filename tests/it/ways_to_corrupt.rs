//! SQLite's own list of ways to corrupt a database (<https://sqlite.org/howtocorrupt.html>), chapter by chapter: what Annals
//! prevents, what it notices, and what is not its to prevent.
//!
//! [`CHAPTERS`] is the list. A test compares it with `docs/reliability.md`, and looks for each test that it names.
#![cfg(unix)]

use std::fs;
use std::path::{Path, PathBuf};

use annals::store::Maintenance;
use annals::{Error, Expected, Options, Store};

use crate::support::child::{self, Running};
use crate::support::events::pause;
use crate::support::{Scratch, conversation, event_ids, without_projector};

/// What becomes of a way to corrupt a database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outcome {
    Prevented,
    Noticed,
    NotOurs,
}

use Outcome::{NotOurs, Noticed, Prevented};

/// The chapters of SQLite's list, each with its outcome and the tests that show it.
const CHAPTERS: &[(&str, Outcome, &[&str])] = &[
    ("1.1", NotOurs, &[]),
    ("1.2", Prevented, &["a_download_of_the_open_database_is_a_whole_copy_and_its_other_files_are_refused"]),
    ("1.3", Noticed, &["nothing_is_acknowledged_once_the_file_is_no_longer_at_its_path"]),
    ("1.4", Noticed, &["nothing_is_acknowledged_once_the_file_is_no_longer_at_its_path"]),
    (
        "2.1",
        Prevented,
        &["network_file_systems_are_known_by_their_magic", "a_file_system_of_fuse_is_known_by_its_type"],
    ),
    (
        "2.2",
        Prevented,
        &[
            "what_the_process_reads_of_its_own_files_loses_no_lock",
            "two_writers_lose_nothing_while_one_of_them_reads_its_own_files",
            "every_tool_and_route_passes_over_the_files_of_an_open_database",
        ],
    ),
    ("2.2.1", Prevented, &["locks_of_another_copy_of_sqlite_outlive_the_store_and_its_own_are_its_own"]),
    ("2.3", NotOurs, &[]),
    ("2.4", Noticed, &["a_log_that_is_removed_is_noticed_also_behind_a_link"]),
    ("2.5", Prevented, &["a_file_with_a_second_name_is_refused_until_it_has_one"]),
    (
        "2.6",
        Prevented,
        &[
            "a_forked_process_opens_no_store_if_its_parent_had_one_open",
            "a_forked_child_keeps_no_lock_of_a_killed_parent",
        ],
    ),
    ("3.1", NotOurs, &[]),
    ("3.2", Prevented, &["an_answer_that_comes_before_the_sync_is_caught"]),
    ("4.1", NotOurs, &[]),
    ("4.2", NotOurs, &[]),
    ("5", NotOurs, &[]),
    ("6.1", NotOurs, &[]),
    ("6.2", NotOurs, &[]),
    ("6.3", Noticed, &["every_damage_is_reported_and_repaired_without_removing_anything"]),
    ("7", Prevented, &["a_connection_of_another_program_cannot_turn_the_log_off"]),
    ("8", Prevented, &["the_linked_engine_is_one_without_the_bugs_of_the_list"]),
];

pub fn repository(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

/// All Rust sources below a folder.
pub fn sources(folder: &Path, into: &mut String) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, into);
        } else if path.extension().is_some_and(|ending| ending == "rs") {
            into.push_str(&fs::read_to_string(&path).unwrap());
        }
    }
}

#[test]
fn every_chapter_has_its_tests_and_its_row_in_the_documents() {
    let mut all = String::new();
    ["src", "tests"].iter().for_each(|folder| sources(&repository(folder), &mut all));
    let page = fs::read_to_string(repository("docs/reliability.md")).unwrap();
    let rows: Vec<&str> = page.lines().filter(|line| line.starts_with("| [")).collect();
    for (chapter, outcome, tests) in CHAPTERS {
        let said = match outcome {
            Prevented => "prevented",
            Noticed => "noticed",
            NotOurs => "not ours",
        };
        let row = rows.iter().find(|row| row.starts_with(&format!("| [{chapter}]")));
        let row = row.unwrap_or_else(|| panic!("docs/reliability.md has no row for chapter {chapter}"));
        assert!(row.contains(&format!("| {said}")), "chapter {chapter} is {said}: {row}");
        assert_eq!(tests.is_empty(), *outcome == NotOurs, "chapter {chapter}");
        for test in *tests {
            assert!(all.contains(&format!("fn {test}(")), "there is no test {test} of chapter {chapter}");
        }
    }
    let listed = rows.iter().filter(|row| row.contains("howtocorrupt")).count();
    assert_eq!(listed, CHAPTERS.len(), "docs/reliability.md has other chapters");
}

/// The database, its write-ahead log and its shared memory.
fn files(database: &Path) -> [PathBuf; 3] {
    ["", "-wal", "-shm"].map(|ending| {
        let mut name = database.as_os_str().to_owned();
        name.push(ending);
        name.into()
    })
}

/// Opens and reads a file with plain calls, as code beside the engine does, and closes it.
fn touch(file: &Path) {
    drop(fs::File::open(file));
    drop(fs::read(file));
    drop(fs::File::options().read(true).write(true).open(file));
}

/// What another program does: it opens the database, reads, and closes it. If it believes that it is alone, it moves the
/// write-ahead log into the file and removes it.
fn come_and_go(database: &Path) -> i64 {
    let db = rusqlite::Connection::open(database).unwrap();
    db.query_row("SELECT count(*) FROM event", [], |row| row.get(0)).unwrap()
}

#[test]
fn what_the_process_reads_of_its_own_files_loses_no_lock() {
    const NAME: &str = "ways_to_corrupt::what_the_process_reads_of_its_own_files_loses_no_lock";
    if let Some(role) = child::role() {
        child::report(&come_and_go(&role.database).to_string());
        return;
    }
    let scratch = Scratch::new();
    let database = scratch.database();
    let store = Store::open_with(&database, &without_projector()).unwrap();
    let talk = conversation("talk");
    for (number, file) in files(&database).iter().enumerate() {
        store.append(&talk, Expected::Any, &[pause(&format!("e{number}"))]).unwrap();
        touch(file);
        let seen = Running::start(child::command(NAME, "reader", &database)).finish();
        assert_eq!(seen, [(number + 1).to_string()], "after {}", file.display());
        assert!(files(&database).iter().all(|file| file.exists()), "{}: the log is gone", file.display());
    }
    store.append(&talk, Expected::Exact(3), &[pause("last")]).unwrap();
    assert_eq!(event_ids(&store, &talk), ["e0", "e1", "e2", "last"]);
    assert!(store.audit().verify(None, &mut |_| ()).unwrap().findings.is_empty());
    drop(store);
    assert!(!files(&database)[1].exists(), "the last one moves the log");
}

/// The appends that each of two writers makes.
const APPENDS: usize = 300;

#[test]
fn two_writers_lose_nothing_while_one_of_them_reads_its_own_files() {
    const NAME: &str = "ways_to_corrupt::two_writers_lose_nothing_while_one_of_them_reads_its_own_files";
    if let Some(role) = child::role() {
        match &*role.name {
            "visitor" => {
                for _ in 0..60 {
                    come_and_go(&role.database);
                }
            }
            writer => {
                let store = Store::open_with(&role.database, &without_projector()).unwrap();
                for number in 0..APPENDS {
                    let event = pause(&format!("{writer}-{number}"));
                    store.append(&conversation(writer), Expected::Exact(number as u64), &[event]).unwrap();
                    if writer == "toucher" {
                        files(&role.database).iter().for_each(|file| touch(file));
                    }
                }
            }
        }
        return;
    }
    let scratch = Scratch::new();
    let database = scratch.database();
    drop(Store::open(&database).unwrap());
    let roles = ["toucher", "other", "visitor"];
    let running = roles.map(|role| Running::start(child::command(NAME, role, &database)));
    running.into_iter().for_each(|child| drop(child.finish()));
    let store = Store::open(&database).unwrap();
    for writer in ["toucher", "other"] {
        assert_eq!(
            store.conversation(&conversation(writer)).unwrap().event_count,
            APPENDS as u64,
            "{writer}"
        );
    }
    assert!(store.audit().verify(None, &mut |_| ()).unwrap().findings.is_empty());
}

/// Returns the lines of the system's list of locks about a file.
#[cfg(target_os = "linux")]
fn locks_on(file: &Path) -> Vec<String> {
    use std::os::unix::fs::MetadataExt as _;
    let number = format!(":{}", fs::metadata(file).unwrap().ino());
    let locks = fs::read_to_string("/proc/locks").unwrap();
    let is_on = |line: &&str| {
        line.split_whitespace().any(|word| word.ends_with(&number) && word.len() > number.len())
    };
    // The system gives the list in parts. A lock may be in two of them, each time with another number.
    let unnumbered = |line: &str| line.split_once(": ").map_or(line, |(_, lock)| lock).to_owned();
    let mut found: Vec<String> = locks.lines().filter(is_on).map(unnumbered).collect();
    found.dedup();
    found
}

/// Locks the bytes that every connection locks for reading, as a second copy of SQLite in this process does.
#[cfg(target_os = "linux")]
#[expect(unsafe_code, reason = "the call that another copy of SQLite makes")]
fn lock_as_another_copy(file: &fs::File) {
    use std::os::fd::AsRawFd as _;
    // SAFETY: all zeros are a lock.
    let mut lock: libc::flock = unsafe { std::mem::zeroed() };
    (lock.l_type, lock.l_start, lock.l_len) = (libc::F_RDLCK as _, 0x4000_0002, 510);
    // SAFETY: the file is open, and the argument of the command is a lock.
    assert_eq!(unsafe { libc::fcntl(file.as_raw_fd(), libc::F_SETLK, &lock) }, 0);
}

#[cfg(target_os = "linux")]
#[test]
fn locks_of_another_copy_of_sqlite_outlive_the_store_and_its_own_are_its_own() {
    const NAME: &str =
        "ways_to_corrupt::locks_of_another_copy_of_sqlite_outlive_the_store_and_its_own_are_its_own";
    let Some(role) = child::role() else {
        let scratch = Scratch::new();
        return drop(Running::start(child::command(NAME, "alone", &scratch.database())).finish());
    };
    let database = role.database;
    let open = || {
        let descriptors = fs::read_dir("/proc/self/fd").unwrap();
        descriptors
            .filter(|one| fs::read_link(one.as_ref().unwrap().path()).is_ok_and(|to| to == database))
            .count()
    };
    let store = Store::open_with(&database, &without_projector()).unwrap();
    store.append(&conversation("talk"), Expected::Any, &[pause("e")]).unwrap();
    assert!(locks_on(&database).iter().any(|lock| lock.contains("OFDLCK")), "{:?}", locks_on(&database));
    let other = fs::File::options().read(true).write(true).open(&database).unwrap();
    lock_as_another_copy(&other);
    drop(store);
    let left = locks_on(&database);
    assert!(matches!(&*left, [only] if only.contains("POSIX") && only.contains("READ")), "{left:?}");
    // The other copy may still need what a last one would have removed.
    assert!(files(&database)[1].exists());
    drop(other);
    assert!(locks_on(&database).is_empty());
    drop(Store::open(&database).unwrap());
    assert_eq!(open(), 0, "what was kept open is closed with the next store");
    assert!(!files(&database)[1].exists());
}

#[test]
fn a_log_that_is_removed_is_noticed_also_behind_a_link() {
    let scratch = Scratch::new();
    fs::create_dir(scratch.path("real")).unwrap();
    std::os::unix::fs::symlink("real/annals.db", scratch.path("link.db")).unwrap();
    let store = Store::open_with(scratch.path("link.db"), &without_projector()).unwrap();
    let talk = conversation("talk");
    store.append(&talk, Expected::Any, &[pause("a")]).unwrap();
    fs::remove_file(scratch.path("real/annals.db-wal")).unwrap();
    let refused = store.append(&talk, Expected::Any, &[pause("b")]);
    assert!(matches!(refused, Err(Error::Moved { .. })), "{refused:?}");
}

#[test]
fn a_link_to_another_programs_database_leaves_it_and_its_log_untouched() {
    let scratch = Scratch::new();
    let there = scratch.path("there.db");
    let db = rusqlite::Connection::open(&there).unwrap();
    db.execute_batch("PRAGMA journal_mode = WAL; CREATE TABLE note (text); INSERT INTO note VALUES ('kept')")
        .unwrap();
    let copies = ["copy.db", "copy.db-wal"].map(|name| scratch.path(name));
    fs::copy(&there, &copies[0]).unwrap();
    fs::copy(scratch.path("there.db-wal"), &copies[1]).unwrap();
    std::os::unix::fs::symlink("copy.db", scratch.path("link.db")).unwrap();
    let before = copies.clone().map(|copy| fs::read(copy).unwrap());
    let refused = Store::open(scratch.path("link.db"));
    assert!(matches!(refused, Err(Error::ForeignFile { .. })), "{refused:?}");
    assert!(copies.map(|copy| fs::read(copy).unwrap()) == before, "it was changed");
}

#[test]
fn a_file_with_a_second_name_is_refused_until_it_has_one() {
    let scratch = Scratch::new();
    let (database, second) = (scratch.database(), scratch.path("second.db"));
    let store = Store::open(&database).unwrap();
    store.append(&conversation("talk"), Expected::Any, &[pause("e")]).unwrap();
    drop(store);
    fs::hard_link(&database, &second).unwrap();
    let read_only = Options::default().read_only(true);
    for name in [&database, &second] {
        for opened in [
            Store::open(name),
            Store::open_with(name, &read_only),
            Maintenance::upgrade(name, None).and(Store::open(name)),
        ] {
            let Err(Error::CannotOpen { what, .. }) = opened else {
                panic!("{}: {opened:?}", name.display())
            };
            assert!(what.contains("2 names") && what.contains("-samefile"), "{what}");
        }
    }
    fs::remove_file(&second).unwrap();
    assert_eq!(event_ids(&Store::open(&database).unwrap(), &conversation("talk")), ["e"]);
    // A backup has one name from the start.
    let store = Store::open(&database).unwrap();
    store.backup().to_new_file(scratch.path("copy.db")).unwrap();
    drop(Store::open(scratch.path("copy.db")).unwrap());
}

#[test]
fn a_forked_process_opens_no_store_if_its_parent_had_one_open() {
    const NAME: &str = "ways_to_corrupt::a_forked_process_opens_no_store_if_its_parent_had_one_open";
    let Some(role) = child::role() else {
        let scratch = Scratch::new();
        return drop(Running::start(child::command(NAME, "alone", &scratch.database())).finish());
    };
    let (database, talk) = (role.database, conversation("talk"));
    let store = Store::open(&database).unwrap();
    store.append(&talk, Expected::Any, &[pause("parent")]).unwrap();
    let other = database.with_file_name("other.db");
    assert!(child::in_a_fork(|| {
        let refused = [Store::open(&database), Store::open(&other), Store::in_memory(&Options::default())];
        let all = refused.iter().all(|opened| matches!(opened, Err(Error::Forked)));
        // Also after what was inherited is gone.
        drop(store.clone());
        all && matches!(Store::open(&database), Err(Error::Forked))
    }));
    store.append(&talk, Expected::Exact(1), &[pause("still")]).unwrap();
    drop(store);
    // With none open at the fork, the child has its own.
    assert!(child::in_a_fork(|| {
        let store = Store::open(&database).unwrap();
        store.append(&conversation("talk"), Expected::Exact(2), &[pause("child")]).is_ok()
    }));
    assert_eq!(event_ids(&Store::open(&database).unwrap(), &talk), ["parent", "still", "child"]);
}

#[cfg(target_os = "linux")]
#[test]
fn a_forked_child_keeps_no_lock_of_a_killed_parent() {
    const NAME: &str = "ways_to_corrupt::a_forked_child_keeps_no_lock_of_a_killed_parent";
    if let Some(role) = child::role() {
        let store = Store::open_with(&role.database, &without_projector()).unwrap();
        store.append(&conversation("talk"), Expected::Any, &[pause("a")]).unwrap();
        // It outlives its parent, until the test closes its input.
        let left = child::fork_that_waits_for_input();
        child::report(&left.to_string());
        std::thread::park();
        return;
    }
    let scratch = Scratch::new();
    let mut command = child::command(NAME, "parent", &scratch.database());
    command.stdin(std::process::Stdio::piped());
    let mut parent = Running::start(command);
    let input = parent.child.stdin.take();
    let left = parent.take_lines().next().unwrap();
    parent.kill();
    assert!(Path::new("/proc").join(&left).exists(), "the forked child is there");
    assert_eq!(locks_on(&scratch.database()), [""; 0]);
    drop(input);
}

#[test]
fn a_connection_of_another_program_cannot_turn_the_log_off() {
    let scratch = Scratch::new();
    let store = Store::open_with(scratch.database(), &without_projector()).unwrap();
    let talk = conversation("talk");
    store.append(&talk, Expected::Any, &[pause("a")]).unwrap();
    for mode in ["DELETE", "OFF", "MEMORY"] {
        let other = rusqlite::Connection::open(scratch.database()).unwrap();
        let now =
            other.query_row(&format!("PRAGMA journal_mode = {mode}"), [], |row| row.get::<_, String>(0));
        assert!(now.is_err() || now.as_deref() == Ok("wal"), "{mode}: {now:?}");
    }
    store.append(&talk, Expected::Exact(1), &[pause("b")]).unwrap();
    assert_eq!(event_ids(&store, &talk), ["a", "b"]);
}

#[test]
fn the_linked_engine_is_one_without_the_bugs_of_the_list() {
    // The newest of them, the WAL-reset bug, was mended in 3.51.3. Opening a store with an older engine is refused.
    assert!(rusqlite::version_number() >= 3_051_003, "{}", rusqlite::version());
}

#[cfg(feature = "server")]
mod served {
    use annals::event::json::Raw;
    use annals::tool::{Context, Making, Registry, Spec, Toolbox, run};
    use serde_json::{Value, json};

    use super::*;
    use crate::support::caller::{KEY, Reply, Served};

    /// What a tool answers, as text.
    async fn answer(tool: &str, folder: &Path, arguments: Value) -> String {
        let folder = fs::canonicalize(folder).unwrap();
        let mut toolbox = Toolbox::default();
        toolbox
            .add(Registry::builtin().make(&Spec::new(tool), &Making::new(folder.clone())).unwrap())
            .unwrap();
        let (tool, arguments) = (toolbox.get(tool).unwrap(), arguments.to_string());
        let action = tool.action(Raw::parse(&arguments).unwrap()).unwrap();
        run(&**tool, &action, &Context::new(folder)).await.unwrap().text()
    }

    /// The number of each file, so that a file in the place of another one is noticed.
    fn numbers(database: &Path) -> [u64; 3] {
        use std::os::unix::fs::MetadataExt as _;
        files(database).map(|file| fs::metadata(file).unwrap().ino())
    }

    async fn upload(server: &Served, path: &Path) -> Reply {
        let body = b"--line\r\ncontent-disposition: form-data; name=\"file\"; filename=\"f\"\r\n\r\nnew\r\n--line--\r\n";
        let headers = [("x-session-api-key", KEY), ("content-type", "multipart/form-data; boundary=line")];
        server.send("POST", &format!("/api/file/upload?path={}", path.display()), &headers, body).await
    }

    #[tokio::test]
    async fn every_tool_and_route_passes_over_the_files_of_an_open_database() {
        let server = Served::start().await;
        let database = server.path("annals.db");
        let talk = conversation("talk");
        server.store.append(&talk, Expected::Any, &[pause("needle")]).unwrap();
        fs::write(server.path("note.txt"), "needle").unwrap();
        // A second name and a link lead to the same file.
        std::os::unix::fs::symlink("annals.db", server.path("link")).unwrap();
        let before = numbers(&database);
        let mut all = files(&database).to_vec();
        all.push(server.path("link"));

        let found = answer("grep", &server.path(""), json!({"pattern": "needle"})).await;
        assert!(found.contains("note.txt") && !found.contains("annals.db"), "{found}");
        assert!(found.contains("3 file(s) of a database in use were not searched"), "{found}");
        for file in &all {
            let edits = [
                json!({"command": "view", "path": file}),
                json!({"command": "create", "path": file, "file_text": "new"}),
                json!({"command": "str_replace", "path": file, "old_str": "a", "new_str": "b"}),
                json!({"command": "insert", "path": file, "insert_line": 0, "new_str": "new"}),
            ];
            for edit in edits {
                let said = answer("file_editor", &server.path(""), edit.clone()).await;
                let is_refused = said.contains("belongs to a database that is open here")
                    || said.contains("already exists");
                assert!(is_refused, "{edit}: {said}");
            }
            let reply = upload(&server, file).await;
            assert_eq!(reply.status, 409, "{}", reply.text());
        }
        let archive = format!("/api/file/archive?format=tar.gz&path={}", server.path("").display());
        let archive = server.get(&archive).await;
        assert_eq!(archive.status, 200);
        let mut tar = Vec::new();
        std::io::Read::read_to_end(&mut flate2::read::GzDecoder::new(&*archive.bytes), &mut tar).unwrap();
        let text = String::from_utf8_lossy(&tar);
        assert!(!text.contains("SQLite format 3") && text.contains("note.txt"));
        assert!(
            ["annals.db", "annals.db-wal", "annals.db-shm"]
                .iter()
                .all(|name| text.contains(&format!("\"{name}\"")))
        );
        assert_eq!(numbers(&database), before);
        server.store.append(&talk, Expected::Exact(1), &[pause("last")]).unwrap();
    }

    /// `ANNALS_LOCK_RUNS` says how often; by default once.
    #[tokio::test]
    async fn appends_lose_nothing_beside_greps_edits_downloads_and_other_programs() {
        let runs = std::env::var("ANNALS_LOCK_RUNS").map_or(1, |runs| runs.parse().unwrap());
        for run in 0..runs {
            let server = Served::start().await;
            let database = server.path("annals.db");
            let talk = conversation("talk");
            server.store.append(&talk, Expected::Any, &[pause("first")]).unwrap();
            let (store, appended) = (server.store.clone(), talk.clone());
            let appends = tokio::task::spawn_blocking(move || {
                for number in 0..150 {
                    store.append(&appended, Expected::Any, &[pause(&format!("e{number}"))]).unwrap();
                }
            });
            let path = database.clone();
            let visits = tokio::task::spawn_blocking(move || {
                for _ in 0..3 {
                    let mut list = std::process::Command::new(env!("CARGO_BIN_EXE_annals"));
                    let listed = list.arg("--db").arg(&path).arg("list").output().unwrap();
                    assert!(listed.status.success(), "{listed:?}");
                }
            });
            while !appends.is_finished() || !visits.is_finished() {
                answer("grep", &server.path(""), json!({"pattern": "needle"})).await;
                for file in files(&database) {
                    answer("file_editor", &server.path(""), json!({"command": "view", "path": file})).await;
                    server.get(&format!("/api/file/download?path={}", file.display())).await;
                }
            }
            appends.await.unwrap();
            visits.await.unwrap();
            assert_eq!(event_ids(&server.store, &talk).len(), 151, "run {run}");
            assert!(server.store.audit().verify(None, &mut |_| ()).unwrap().findings.is_empty(), "run {run}");
        }
    }

    #[tokio::test]
    async fn a_download_of_the_open_database_is_a_whole_copy_and_its_other_files_are_refused() {
        let server = Served::start().await;
        let talk = conversation("talk");
        server.store.append(&talk, Expected::Any, &[pause("a"), pause("b")]).unwrap();
        std::os::unix::fs::symlink("annals.db", server.path("link.db")).unwrap();
        let get = async |name: &str| {
            server.get(&format!("/api/file/download?path={}", server.path(name).display())).await
        };
        for name in ["annals.db", "link.db"] {
            let reply = get(name).await;
            assert_eq!(reply.status, 200, "{}", reply.text());
            let copy = server.path("copy.db");
            fs::write(&copy, &reply.bytes).unwrap();
            let store = Store::open(&copy).unwrap();
            assert_eq!(event_ids(&store, &talk), ["a", "b"]);
            assert!(store.audit().verify(None, &mut |_| ()).unwrap().findings.is_empty());
            drop(store);
            fs::remove_file(copy).unwrap();
        }
        for name in ["annals.db-wal", "annals.db-shm"] {
            let reply = get(name).await;
            assert!(reply.status == 409 && reply.text().contains("database in use"), "{}", reply.text());
        }
    }
}

#[cfg(feature = "cli")]
#[test]
fn a_copy_without_its_log_is_said_to_be_one_that_was_never_filled() {
    let scratch = Scratch::new();
    let store = Store::open_with(scratch.database(), &without_projector()).unwrap();
    assert!(store.maintenance().was_never_filled().unwrap());
    store.append(&conversation("talk"), Expected::Any, &[pause("e")]).unwrap();
    assert!(!store.maintenance().was_never_filled().unwrap());
    let copy = scratch.path("copy.db");
    fs::copy(scratch.database(), &copy).unwrap();
    let said = |arguments: &[&str]| {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_annals"));
        let output = command.arg("--db").arg(&copy).args(arguments).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
    };
    assert!(said(&["verify"]).contains("nothing was ever written here"));
    for command in
        [&["verify"] as &[&str], &["verify", "--json"], &["doctor"], &["doctor", "--json"], &["list"]]
    {
        let text = said(command);
        assert!(text.contains("made and never filled"), "{command:?}: {text}");
    }
    assert!(said(&["list", "--json"]).contains("\"never_filled\":true"));
    // A file whose conversations are all gone is no such file.
    store.retention().delete(&conversation("talk")).unwrap();
    assert!(!store.maintenance().was_never_filled().unwrap());
}
