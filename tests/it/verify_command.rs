//! `annals verify` on damaged files: it reports every damage as a finding on its standard output and exits with 2. It
//! never ends with an error whose hint is to run `annals verify`.
#![cfg(feature = "cli")]

use std::fs;
use std::process::Output;
use std::sync::LazyLock;

use annals::store::{Mending, Redaction};
use annals::{EventId, Expected, Store};
use rusqlite::Connection;
use serde_json::Value;

use crate::cli::Program;
use crate::support::events::{command, printed, user_message};
use crate::support::{conversation, number, without_projector};

/// A file with two conversations, and the text of its head.
struct Written {
    file: Vec<u8>,
    head: String,
}

fn written() -> &'static Written {
    static WRITTEN: LazyLock<Written> = LazyLock::new(|| {
        let program = Program::new();
        let path = program.folder.path().join("annals.db");
        let store = Store::open_with(&path, &without_projector()).unwrap();
        let hello = [user_message("a", "hello"), command("b", "c1", "ls"), printed("c", "b", "c1", "x", 0)];
        for id in ["talk", "other"] {
            store.append(&conversation(id), Expected::Empty, &hello).unwrap();
            store.attach(&conversation(id), "notes.txt", id.as_bytes()).unwrap();
        }
        let talk = conversation("talk");
        store.set_title(&talk, Some("the title")).unwrap();
        let why = Mending::new("catalogue", "this", "that");
        store.maintenance().note_repair(Some(&talk), &why).unwrap();
        store.retention().redact(&talk, Redaction::Event(&EventId::new("c").unwrap()), "a test").unwrap();
        store.catch_up().unwrap();
        drop(store);
        let head = program.succeed(&["head"]);
        let db = Connection::open(&path).unwrap();
        // The engine's check is not under test, so the guards may go.
        for trigger in triggers(&db) {
            db.execute_batch(&format!("DROP TRIGGER {trigger}")).unwrap();
        }
        db.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).unwrap();
        drop(db);
        Written { file: fs::read(&path).unwrap(), head }
    });
    &WRITTEN
}

fn triggers(db: &Connection) -> Vec<String> {
    let mut statement = db.prepare("SELECT name FROM sqlite_schema WHERE type = 'trigger'").unwrap();
    statement.query_map([], |row| row.get(0)).unwrap().collect::<Result<_, _>>().unwrap()
}

/// Returns a folder with a damaged file and the head from before.
fn damaged(sql: &str, pages: &[&str]) -> Program {
    let program = Program::new();
    let path = program.folder.path().join("annals.db");
    fs::write(program.folder.path().join("head.txt"), &written().head).unwrap();
    fs::write(&path, &written().file).unwrap();
    let db = Connection::open(&path).unwrap();
    db.execute_batch("PRAGMA foreign_keys = OFF; PRAGMA ignore_check_constraints = ON").unwrap();
    db.execute_batch(sql).unwrap_or_else(|error| panic!("{sql}: {error}"));
    let size = number(&db, "PRAGMA page_size") as usize;
    let root = |name: &&str| {
        let sql = format!("SELECT rootpage FROM sqlite_schema WHERE name = '{name}'");
        number(&db, &sql) as usize
    };
    let roots: Vec<usize> = pages.iter().map(root).collect();
    db.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).unwrap();
    drop(db);
    let mut file = fs::read(&path).unwrap();
    for root in roots {
        file[(root - 1) * size..][..size].fill(0xa5);
    }
    fs::write(&path, file).unwrap();
    program
}

/// Returns the standard output. Panics if the command ended with an error instead of findings.
#[track_caller]
fn findings(output: Output, damage: &str) -> String {
    let (said, errors) = (String::from_utf8(output.stdout).unwrap(), String::from_utf8_lossy(&output.stderr));
    assert_eq!(output.status.code(), Some(2), "{damage}: {said}{errors}");
    assert!(!errors.contains("annals verify") && !errors.contains("panicked"), "{damage}: {errors}");
    assert!(!said.is_empty(), "{damage}: {errors}");
    said
}

const HEAD: [&str; 3] = ["verify", "--against", "head.txt"];

#[test]
fn without_its_guards_a_file_has_no_other_finding() {
    let program = damaged("", &[]);
    let said = findings(program.run(&HEAD), "no guards");
    let others = said.lines().filter(|line| line.starts_with("the file: ") && !line.contains("the guard "));
    assert_eq!(others.count(), 0, "{said}");
    assert!(said.contains("against the head of "), "{said}");
}

#[test]
fn damage_is_reported_at_its_place_with_and_without_a_head() {
    // What is damaged by SQL, the pages that are overwritten, and what `verify` and `verify --against` say.
    let cases: &[(&str, &[&str], &str, &str)] = &[
        (
            "UPDATE admin_act SET os_user = CAST(x'ff00' AS TEXT)",
            &[],
            "the file: act 1 of the administrative log cannot be read",
            "the file: the end of the administrative log cannot be read",
        ),
        (
            "UPDATE event SET hash = x'' WHERE conversation = 1",
            &[],
            "talk events 0 to 2, each: its hash does not follow",
            "talk: what the head says of its events cannot be read",
        ),
        (
            "UPDATE change SET hash = x'' WHERE conversation = 1",
            &[],
            "talk: its chain of changes cannot be read to the end",
            "talk: what the head says of its changes cannot be read",
        ),
        (
            "DELETE FROM log",
            &[],
            "the file: the row of the table log, which has the file's id, is missing",
            "the file: the id of the store cannot be read",
        ),
        (
            "UPDATE conversation SET id = '' WHERE id = 'other'; DELETE FROM blob",
            &[],
            "the file: in the conversation \"\", whose id is not valid: the content of the attachment notes.txt is missing",
            "other: it is gone",
        ),
        (
            "UPDATE conversation SET id = char(10) WHERE id = 'other'; UPDATE blob SET content = x'00'",
            &[],
            "the file: in the conversation \"\\n\", whose id is not valid: the attachment notes.txt does not have its",
            "other: it is gone",
        ),
        (
            "UPDATE conversation SET status = CAST(x'ff00' AS TEXT) WHERE id = 'talk'",
            &[],
            "talk: the catalogue's status is not what the events say",
            "against the head of ",
        ),
        (
            "UPDATE change SET number = 9223372036854775807 WHERE conversation = 1 AND subject = 'title'",
            &[],
            "talk: changes ",
            "against the head of ",
        ),
        ("", &["repair"], "talk: the list of its repairs cannot be read", "against the head of "),
        (
            "",
            &["admin_act"],
            "the file: the administrative log cannot be read",
            "the file: the end of the administrative log cannot be read",
        ),
        (
            "",
            &["change"],
            "talk: its chain of changes cannot be read to the end",
            "talk: what the head says of its",
        ),
        (
            "",
            &["conversation"],
            "talk: its row in the catalogue cannot be read",
            "talk: what the head says of its",
        ),
        (
            "",
            &["sqlite_autoindex_conversation_1"],
            "the file: the catalogue's index of ids cannot be read to the end",
            "talk: what the head says of its",
        ),
    ];
    for (sql, pages, alone, against) in cases {
        let damage = format!("{sql}{pages:?}");
        let program = damaged(sql, pages);
        let said = findings(program.run(&["verify"]), &damage);
        assert!(said.contains(alone), "{damage}: wanted {alone:?}, found {said}");
        let said = findings(program.run(&HEAD), &damage);
        let (first, second) = (said.find(alone), said.find(against));
        // The findings of the verification come first.
        assert!(first.is_some() && first <= second, "{damage}: wanted {alone:?}, {against:?}, found {said}");
        findings(program.run(&["verify", "--quick"]), &damage);
        let json = findings(program.run(&[&["--json"], &HEAD[..]].concat()), &damage);
        let json: Value = serde_json::from_str(&json).unwrap();
        assert_eq!(json["sound"], false, "{damage}");
    }
}

/// The catalogue, or its index, does not find the conversation. Its events are checked all the same.
#[test]
fn one_conversation_is_verified_although_the_catalogue_is_damaged() {
    for page in ["conversation", "sqlite_autoindex_conversation_1", "repair", "admin_receipt", "blob"] {
        let program = damaged("UPDATE event SET payload = '{}' WHERE conversation = 1 AND id = 'a'", &[page]);
        for id in ["talk", "ta"] {
            let said = findings(program.run(&["verify", id]), page);
            assert!(said.contains("talk event 0: its hash does not follow"), "{page} {id}: {said}");
        }
    }
    // An id that does not exist is refused as ever, and not looked for in vain.
    let program = damaged("", &[]);
    let (code, errors) = program.fails(&["verify", "nobody"]);
    assert!(code == 1 && errors.contains("there is no conversation"), "{errors}");
}

/// A file that cannot be opened for writing, or not at all, is a finding too.
#[test]
fn a_log_that_cannot_be_read_is_a_finding() {
    let program = damaged("", &["event"]);
    for arguments in [&["verify"][..], &["verify", "talk"], &HEAD] {
        let said = findings(program.run(arguments), "the table of the events");
        assert!(said.contains("cannot be "), "{arguments:?}: {said}");
    }
}

#[test]
fn damage_of_a_base_state_overflows_no_figure() {
    let program = damaged(
        "INSERT INTO base_state (conversation, version, document, document_version) \
         VALUES (1, 0, '{}', -9223372036854775808)",
        &[],
    );
    let said = findings(program.run(&["verify"]), "the version of a document");
    assert!(said.contains("talk: "), "{said}");
}
