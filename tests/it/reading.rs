//! Reading never needs to write: no room, no permission, and a schema that the engine cannot read.
#![cfg(all(feature = "cli", unix))]

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Output;

use annals::store::{DerivedObject, ObjectKind, derived_objects};

use crate::cli::Program;
use crate::support::{is_exhaustive, number, owner};

/// What a person does to see, check and save what there is.
const READING: [&[&str]; 16] = [
    &["list"],
    &["show", "5610a7"],
    &["stats"],
    &["events", "5610a7"],
    &["transcript", "5610a7"],
    &["messages", "5610a7"],
    &["state", "5610a7"],
    &["view", "5610a7"],
    &["branches", "5610a7"],
    &["replay", "5610a7"],
    &["report", "cost-by-model"],
    &["query", "SELECT count(*) FROM tool_calls"],
    &["verify"],
    &["doctor"],
    &["export", "--all", "--to", "../out"],
    &["backup", "../backup.db"],
];

/// A file whose last event is in its log only, without the shared memory, as after a crash, in a folder of its own.
fn after_a_crash(program: &Program, within: &Path) -> std::path::PathBuf {
    let folder = within.join("stopped");
    std::fs::create_dir(&folder).unwrap();
    let store = annals::Store::open(program.folder.path().join("annals.db")).unwrap();
    let id = annals::ConversationId::new("in-the-log").unwrap();
    let event = crate::support::events::user_message("a", "Only in the log");
    store.append(&id, annals::Expected::Empty, &[event]).unwrap();
    for name in ["annals.db", "annals.db-wal"] {
        std::fs::copy(program.folder.path().join(name), folder.join(name)).unwrap();
    }
    assert!(std::fs::metadata(folder.join("annals.db-wal")).unwrap().len() > 0);
    folder
}

/// Runs a command in a folder whose files may not grow, as on a full disk.
fn without_room(program: &Program, folder: &Path, arguments: &[&str]) -> Output {
    let mut shell = std::process::Command::new("sh");
    shell
        .args(["-c", "trap '' XFSZ; ulimit -f 0 && exec \"$@\"", "sh"])
        .arg(program.command(&[]).get_program());
    shell.args(arguments).current_dir(folder).env_remove("ANNALS_DB").output().unwrap()
}

#[test]
fn without_room_everything_can_be_read() {
    let program = Program::with_goldens();
    let stopped = after_a_crash(&Program::with_goldens(), program.folder.path());
    for (folder, conversations) in [(program.folder.path(), 10), (&*stopped, 11)] {
        for arguments in READING.iter().filter(|arguments| !["export", "backup"].contains(&arguments[0])) {
            let output = without_room(&program, folder, arguments);
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            assert_eq!(output.status.code(), Some(0), "{arguments:?}: {said}");
            assert!(said.contains("the disk is full, so the file is only read"), "{arguments:?}: {said}");
            if arguments[0] == "list" {
                // A line for each, and the names of the columns.
                assert_eq!(String::from_utf8_lossy(&output.stdout).lines().count(), conversations + 1);
            }
        }
    }
}

#[test]
fn without_permission_to_write_everything_can_be_read() {
    for with_log in [false, true] {
        let program = Program::with_goldens();
        let folder = if with_log {
            after_a_crash(&program, program.folder.path())
        } else {
            let folder = program.folder.path().join("stopped");
            std::fs::create_dir(&folder).unwrap();
            std::fs::copy(program.folder.path().join("annals.db"), folder.join("annals.db")).unwrap();
            folder
        };
        let may =
            |mode: u32| std::fs::set_permissions(&folder, std::fs::Permissions::from_mode(mode)).unwrap();
        for file in std::fs::read_dir(&folder).unwrap() {
            let read_only = std::fs::Permissions::from_mode(0o444);
            std::fs::set_permissions(file.unwrap().path(), read_only).unwrap();
        }
        may(0o555);
        let before: Vec<_> =
            std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        for arguments in READING {
            let output = program.command(arguments).current_dir(&folder).output().unwrap();
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            assert_eq!(output.status.code(), Some(0), "{arguments:?}: {said}");
        }
        if !rustix::process::geteuid().is_root() {
            let after: Vec<_> =
                std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().file_name()).collect();
            assert_eq!(before.len(), after.len(), "nothing may be written there");
        }
        may(0o755);
        let copy = owner(program.folder.path().join("backup.db"));
        assert_eq!(number(&copy, "SELECT count(*) FROM conversation"), 10 + i64::from(with_log));
    }
}

#[test]
fn a_derived_object_with_an_unreadable_statement_comes_back() {
    let objects: Vec<DerivedObject> = derived_objects().unwrap();
    let program = Program::with_goldens();
    let whole = program.folder.path().join("annals.db");
    let mut tried = 0;
    for object in objects.iter().step_by(if is_exhaustive() { 3 } else { 11 }) {
        let folder = program.folder.path().join(format!("{}-{}", object.kind.as_str(), object.name));
        std::fs::create_dir(&folder).unwrap();
        let broken = folder.join("annals.db");
        let spoil = || {
            std::fs::copy(&whole, &broken).unwrap();
            let db = owner(&broken);
            db.execute_batch("PRAGMA writable_schema = ON").unwrap();
            let sql = "UPDATE sqlite_schema SET sql = 'CREATE WHAT' WHERE type = ?1 AND name = ?2";
            db.execute(sql, [object.kind.as_str(), &object.name]).unwrap()
        };
        if spoil() == 0 {
            continue;
        }
        tried += 1;
        for arguments in [&["list"][..], &["verify"], &["export", "--all", "--to", "out"]] {
            let output = program.command(arguments).current_dir(&folder).output().unwrap();
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            assert_eq!(output.status.code(), Some(0), "{object:?} {arguments:?}: {said}");
        }
        // verify has written nothing; what needs the object makes it whole.
        let query = program
            .command(&["query", "SELECT count(*) FROM tool_calls"])
            .current_dir(&folder)
            .output()
            .unwrap();
        assert_eq!(query.status.code(), Some(0), "{object:?}: {}", String::from_utf8_lossy(&query.stderr));
        spoil();
        let merged = program.command(&["merge", broken.to_str().unwrap(), "--into", "merged.db"]);
        let merged = { merged }.current_dir(&folder).output().unwrap();
        assert_eq!(merged.status.code(), Some(0), "{object:?}: {}", String::from_utf8_lossy(&merged.stderr));
        let merged = owner(folder.join("merged.db"));
        assert_eq!(number(&merged, "SELECT count(*) FROM conversation"), 10, "{object:?}");
    }
    assert!(tried > 5, "{tried} of {}", objects.len());
    assert!(objects.iter().any(|object| object.kind == ObjectKind::Table));
}

#[test]
fn a_schema_that_cannot_be_read_is_answered_at_once_and_not_with_the_command_that_failed() {
    let program = Program::with_goldens();
    let file = program.folder.path().join("annals.db");
    let mut bytes = std::fs::read(&file).unwrap();
    bytes[100] = 0xff; // the kind of the first page
    std::fs::write(&file, bytes).unwrap();
    for arguments in READING {
        let output = program.run(arguments);
        let said = [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap()).concat();
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {said}");
        assert!(!said.contains(&format!("annals {}", arguments[0])), "{arguments:?}: {said}");
    }
}
