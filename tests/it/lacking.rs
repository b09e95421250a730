//! What another program took away is missed: no export, merge or backup ends as if it had written everything.
#![cfg(feature = "cli")]

use annals::{ConversationId, EventId, Expected, Store};
use rusqlite::types::Value;

use crate::cli::Program;
use crate::support::events::user_message;
use crate::support::{number, owner};

/// Tables whose rows the log or a chain of changes names, each with words of what is said when they are gone.
const NAMED: [(&str, &str); 7] = [
    ("conversation", "whose row in the catalogue (key"),
    ("base_state", "the first base state is gone"),
    ("attachment", "the attachment"),
    ("origin", "is gone, and change"),
    ("event", " "),
    ("archived_payload", "its row in the table archived_payload is missing"),
    ("archived_conversation", "its row in the table archived_conversation is missing"),
];

#[test]
fn what_the_log_names_and_the_file_lacks_ends_every_copy_with_2() {
    for (table, words) in NAMED {
        let program = Program::with_goldens();
        if table.starts_with("archived") {
            program.succeed(&["archive", "5610a7", "--reason", "a test"]);
        }
        let file = program.folder.path().join("annals.db");
        let db = owner(&file);
        assert!(number(&db, &format!("SELECT count(*) FROM {table}")) > 0, "{table}");
        db.execute_batch(&format!("PRAGMA foreign_keys = OFF; DELETE FROM {table}")).unwrap();
        drop(db);
        for command in [
            &["export", "--all", "--to", "out"][..],
            &["merge", "annals.db", "--into", "merged.db"],
            &["backup", "backup.db"],
            &["backup", "backups/"],
            &["doctor"],
            &["verify"],
        ] {
            let output = program.run(command);
            let said = [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap()).concat();
            assert_eq!(output.status.code(), Some(2), "{table}: {command:?}: {said}");
            // A merge verifies each conversation, and a verification has its own words.
            let is_own = !["merge", "verify"].contains(&command[0]);
            assert!(!is_own || said.contains(words), "{table}: {command:?}: {said}");
        }
        assert!(!program.folder.path().join("backup.db").exists(), "{table}");
    }
}

#[test]
fn a_part_of_a_backup_has_what_the_log_names_or_is_not_written() {
    let (mut refused, mut written) = (Vec::new(), 0);
    for (table, words) in NAMED {
        for is_changed in [false, true] {
            let program = Program::with_goldens();
            program.succeed(&["backup", "backups/"]);
            let file = program.folder.path().join("annals.db");
            let store = Store::open(&file).unwrap();
            let ids: Vec<ConversationId> =
                ids(&owner(&file)).iter().map(|id| ConversationId::new(id).unwrap()).collect();
            for id in ids.iter().filter(|_| is_changed) {
                store.append(id, Expected::Any, &[user_message("one-more", "One more")]).unwrap();
            }
            drop(store);
            if table.starts_with("archived") {
                program.succeed(&["archive", "5610a7", "--reason", "a test"]);
            }
            let db = owner(&file);
            db.execute_batch(&format!("PRAGMA foreign_keys = OFF; DELETE FROM {table}")).unwrap();
            drop(db);
            let output = program.run(&["backup", "backups/"]);
            let said = [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap()).concat();
            if output.status.code() == Some(2) {
                assert!(said.contains(words), "{table}: {said}");
                refused.push(table);
            } else if table == "event" && is_changed {
                // The backup has events that the file does not have any more.
                assert_eq!(output.status.code(), Some(1), "{said}");
                assert!(said.contains("that the store does not have"), "{said}");
                refused.push(table);
            } else {
                assert_eq!(output.status.code(), Some(0), "{table}: {said}");
                written += 1;
            }
            program.succeed(&["restore", "backups/", "whole.db"]);
            program.succeed(&["--db", "whole.db", "verify"]);
            let left = std::fs::read_dir(program.folder.path().join("backups")).unwrap();
            let left: Vec<_> = left.map(|entry| entry.unwrap().file_name()).collect();
            assert!(left.iter().all(|name| !name.to_string_lossy().contains("partial")), "{left:?}");
        }
    }
    assert!(NAMED.iter().all(|(table, _)| refused.contains(table)), "{refused:?}, {written} written");
}

/// The conversations that have events.
fn ids(db: &rusqlite::Connection) -> Vec<String> {
    let mut statement = db.prepare("SELECT id FROM conversation WHERE event_count > 0 ORDER BY key").unwrap();
    let ids = statement.query_map([], |row| row.get(0)).unwrap();
    ids.collect::<Result<_, _>>().unwrap()
}

/// The columns of the catalogue, but for what nothing else has: a title, and when an import says that it was created.
const ROW: &str = "SELECT tags, key, event_count, action_count, observation_count, payload_bytes, head_hash, leaf_event_id, \
     head_is_empty, status, first_message, updated_at, updated_minute, first_timestamp, last_timestamp, \
     parent, forked_from, forked_at, foreign_format FROM conversation WHERE id = ?1";

#[test]
fn a_row_of_the_catalogue_that_is_gone_comes_back_from_the_log() {
    let program = Program::with_goldens();
    let foreign = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/foreign");
    program.succeed(&["import", foreign]);
    let file = program.folder.path().join("annals.db");
    let store = Store::open(&file).unwrap();
    let [alone, source, fork, child] =
        ["alone", "source", "fork", "child"].map(|id| ConversationId::new(id).unwrap());
    let events = [user_message("a", "Hello"), user_message("b", "Good bye")];
    for id in [&alone, &source, &fork, &child] {
        store.append(id, Expected::Empty, &events).unwrap();
    }
    store.set_fork(&fork, &source, None).unwrap();
    store.set_fork(&child, &source, Some(&EventId::new("a").unwrap())).unwrap();
    store.set_parent(&child, &source).unwrap();
    drop(store);
    let db = owner(&file);
    db.execute_batch("PRAGMA foreign_keys = OFF").unwrap();
    let ids = ids(&db);
    let row = |id: &str| -> Vec<Value> {
        db.query_row(ROW, [id], |row| (0..19).map(|column| row.get(column)).collect()).unwrap()
    };
    let (mut forks, mut copies) = (0, 0);
    for id in &ids {
        let mut before = row(id);
        let elsewhere = "SELECT count(*) FROM conversation AS c WHERE forked_from IS NOT NULL \
             AND NOT EXISTS (SELECT 1 FROM conversation AS o WHERE o.id = c.forked_from) AND c.id = ?1";
        if db.query_row(elsewhere, [id], |row| row.get::<_, i64>(0)).unwrap() > 0 {
            // Nothing else names a conversation that is not in the file.
            before[16] = Value::Null;
            before[17] = Value::Null;
        }
        forks += usize::from(before[16] != Value::Null);
        copies += usize::from(before[18] != Value::Null);
        db.execute("DELETE FROM conversation WHERE id = ?1", [id]).unwrap();
        // No other row has the id of these.
        if ["alone", "fork", "child"].contains(&id.as_str()) {
            let output = program.run(&["doctor", "--repair", "--only", "lost"]);
            assert_eq!(output.status.code(), Some(2));
            let said = String::from_utf8(output.stdout).unwrap();
            assert!(said.contains("annals doctor ID --repair"), "{said}");
            program.run(&["doctor", id, "--repair", "--only", "lost"]);
        } else {
            program.run(&["doctor", "--repair", "--only", "lost"]);
        }
        assert_eq!(row(id), before, "{id}");
        let verified = String::from_utf8(program.run(&["--json", "verify", id]).stdout).unwrap();
        let verified: serde_json::Value = serde_json::from_str(&verified).unwrap();
        for finding in verified["findings"].as_array().unwrap() {
            let what = finding["what"].as_str().unwrap();
            let is_lost = [
                "the title is gone",
                "the time it was created is not",
                "the link to the conversation it was forked from is gone",
            ]
            .iter()
            .any(|lost| what.starts_with(lost));
            assert!(is_lost, "{id}: {finding}");
        }
    }
    assert!(forks == 2 && copies > 0, "{forks} forks, {copies} copies");
}

#[test]
fn no_other_id_is_taken_for_the_one_of_a_row_that_is_gone() {
    let program = Program::with_goldens();
    let db = owner(program.folder.path().join("annals.db"));
    let (id, other): (String, String) = db
        .query_row("SELECT min(id), max(id) FROM conversation", [], |row| Ok((row.get(0)?, row.get(1)?)))
        .unwrap();
    db.execute_batch("PRAGMA foreign_keys = OFF").unwrap();
    db.execute("DELETE FROM conversation WHERE id = ?1", [&id]).unwrap();
    db.execute(
        "UPDATE base_state SET document = json_set(document, '$.id', 'another') \
         WHERE conversation NOT IN (SELECT key FROM conversation)",
        [],
    )
    .unwrap();
    db.execute(
        "UPDATE origin SET folder = ?1 WHERE conversation NOT IN (SELECT key FROM conversation)",
        [&other],
    )
    .unwrap();
    program.run(&["doctor", "--repair", "--only", "lost"]);
    let wrong = program.run(&["doctor", "another", "--repair"]);
    assert_eq!(wrong.status.code(), Some(1), "{wrong:?}");
    let strays = "SELECT count(*) FROM event WHERE conversation NOT IN (SELECT key FROM conversation)";
    assert!(number(&db, strays) > 0);
}
