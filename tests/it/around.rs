//! What lies beside a file, what another act does at the same moment, and numbers that other programs change: the store is
//! right, or refuses in words, and loses nothing.
#![cfg(feature = "cli")]

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use annals::error::AroundError;
use annals::store::{Maintenance, SCHEMA_VERSION};
use annals::transfer::{Copier, CopyOptions, CopyStatus};
use annals::{Error, EventId, Expected, Sequence, Store, Timestamp};

use crate::cli::Program;
use crate::support::events::{event, user_message};
use crate::support::{Scratch, conversation, number, owner, without_projector};

/// Puts a log of a killed process at `path`: it has the commits of three appends.
fn leave_log(path: &Path) -> Vec<u8> {
    let scratch = Scratch::new();
    let store = Store::open_with(scratch.database(), &without_projector()).unwrap();
    for number in 0..3 {
        let text = user_message(&format!("e{number}"), "text");
        store.append(&conversation("lost"), Expected::Any, &[text]).unwrap();
    }
    let log = PathBuf::from(format!("{}-wal", scratch.database().display()));
    fs::copy(log, path).unwrap();
    fs::read(path).unwrap()
}

#[test]
fn no_act_makes_a_file_beside_the_log_of_another_one() {
    let program = Program::with_goldens();
    program.succeed(&["backup", "backups/"]);
    program.succeed(&["backup", "backup.db"]);
    let id = "5610a708-170e-58da-bb08-33350f7cdc03";
    let old = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/old/schema-5.db");
    fs::copy(old, program.folder.path().join("old.db")).unwrap();
    let conversations = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/conversations");
    let conversations = conversations.to_str().unwrap();
    for ending in ["-wal", "-journal"] {
        for (name, act) in [
            ("new.db", &["restore", "backups", "new.db"][..]),
            ("new.db", &["restore", "backup.db", "new.db"]),
            ("new.db", &["restore", "backups", "new.db", "--id", id]),
            ("new.db", &["backup", "new.db"]),
            ("new.db", &["merge", "annals.db", "--into", "new.db"]),
            ("new.db", &["copy", id, "--to", "new.db"]),
            ("new.db", &["split", "--ids", id, "--to", "new.db"]),
            ("new.db", &["--db", "new.db", "import", conversations]),
            ("new.db", &["--db", "new.db", "list"]),
            ("old.db.schema5", &["--db", "old.db", "upgrade"]),
        ] {
            let log = program.folder.path().join(format!("{name}{ending}"));
            let left = match ending {
                "-wal" => leave_log(&log),
                _ => {
                    let left = [&[0xd9, 0xd5, 0x05, 0xf9, 0x20, 0xa1, 0x63, 0xd7][..], &[1; 1000]].concat();
                    fs::write(&log, &left).unwrap();
                    left
                }
            };
            let (code, said) = program.fails(act);
            assert!(code > 0 && said.contains("is the log of another file"), "{act:?}: {code} {said}");
            assert!(ending == "-journal" || said.contains(" commits)"), "{said}");
            assert_eq!(fs::read(&log).unwrap(), left, "{act:?}");
            assert!(!program.folder.path().join("new.db").exists(), "{act:?}");
            fs::remove_file(&log).unwrap();
        }
    }
    program.succeed(&["restore", "backups", "new.db"]);
}

#[test]
fn a_log_whose_file_was_moved_away_is_replayed_when_both_are_together_again() {
    let scratch = Scratch::new();
    let store = Store::open_with(scratch.database(), &without_projector()).unwrap();
    store.append(&conversation("talk"), Expected::Any, &[user_message("a", "one")]).unwrap();
    let at = |name: &str| scratch.path(name);
    for ending in ["", "-wal"] {
        fs::copy(format!("{}{ending}", scratch.database().display()), at(&format!("killed.db{ending}")))
            .unwrap();
    }
    drop(store);
    fs::rename(at("killed.db"), at("moved.db")).unwrap();
    for empty in [false, true] {
        if empty {
            fs::write(at("killed.db"), "").unwrap();
        }
        let refused = Store::open_with(at("killed.db"), &without_projector());
        assert!(
            matches!(&refused, Err(Error::Around(AroundError::OrphanLog { commits: 1.., .. }))),
            "{refused:?}"
        );
    }
    fs::remove_file(at("killed.db")).unwrap();
    fs::rename(at("killed.db-wal"), at("moved.db-wal")).unwrap();
    let store = Store::open_with(at("moved.db"), &without_projector()).unwrap();
    assert_eq!(store.conversation(&conversation("talk")).unwrap().event_count, 1);
}

/// The bytes of a file and of its log.
fn bytes_of(path: &Path) -> [Option<Vec<u8>>; 2] {
    ["", "-wal"].map(|part| fs::read(format!("{}{part}", path.display())).ok())
}

fn put(path: &Path, parts: [&Option<Vec<u8>>; 2]) {
    for (part, bytes) in ["", "-wal"].iter().zip(parts) {
        let path = format!("{}{part}", path.display());
        match bytes {
            Some(bytes) => fs::write(path, bytes).unwrap(),
            None => drop(fs::remove_file(path)),
        }
    }
}

#[test]
fn a_log_of_another_file_or_age_is_refused_and_the_right_one_goes_on() {
    let program = Program::new();
    let file = program.folder.path().join("annals.db");
    let append = |path: &Path, id: &str| {
        let store = Store::open_with(path, &without_projector()).unwrap();
        store
            .append(&conversation("talk"), Expected::Any, &[user_message(id, &"text ".repeat(900))])
            .unwrap();
        // As a kill leaves both.
        let parts = bytes_of(path);
        (store, parts)
    };
    let mut ages = Vec::new();
    for id in ["a", "b", "c"] {
        let (store, killed) = append(&file, id);
        let copy = program.folder.path().join(format!("backup-{id}.db"));
        store.backup().to_new_file(&copy).unwrap();
        if id == "b" {
            store.maintenance().vacuum().unwrap();
        }
        store.close().unwrap();
        ages.push((killed, bytes_of(&file), bytes_of(&copy)));
    }
    let other = program.folder.path().join("other.db");
    let (store, [of_other, _]) = append(&other, "a");
    drop(store);
    let refused = |what: &str, base: &Option<Vec<u8>>, log: &Option<Vec<u8>>| {
        put(&file, [base, log]);
        let before = bytes_of(&file);
        for read_only in [false, true] {
            let options = without_projector().read_only(read_only);
            let opened = Store::open_with(&file, &options);
            assert!(
                matches!(&opened, Err(Error::Around(AroundError::OtherLog { .. }))),
                "{what}: {opened:?}"
            );
        }
        let (code, said) = program.fails(&["recover", "annals.db", "--into", "recovered.db"]);
        let is_named =
            said.contains("does not go on from this file") || said.contains("the database is damaged");
        assert!(code > 0 && is_named, "{what}: {code} {said}");
        assert_eq!(bytes_of(&file), before, "{what}");
        assert!(!program.folder.path().join("recovered.db").exists());
    };
    for (one, (killed, _, _)) in ages.iter().enumerate() {
        for (two, (_, closed, backup)) in ages.iter().enumerate() {
            // The state before a log is that of the file that it goes on from.
            if one > 0 && one != two && one != two + 1 {
                refused(&format!("the log of age {one} beside age {two}"), &closed[0], &killed[1]);
            }
            // The first log of a file has all of it, and goes on from any.
            if one > 0 {
                refused(&format!("the log of age {one} beside backup {two}"), &backup[0], &killed[1]);
            }
        }
        if one > 0 {
            // The first log of a file has all of it, and the other file alone has nothing yet.
            refused(&format!("the log of age {one} beside another file"), &of_other, &killed[1]);
        }
        put(&file, [&killed[0], &killed[1]]);
        let store = Store::open_with(&file, &without_projector()).unwrap();
        assert_eq!(store.conversation(&conversation("talk")).unwrap().event_count, one as u64 + 1);
        crate::support::assert_sound(&store);
    }
}

#[test]
fn what_a_killed_restore_or_backup_left_goes_with_the_next_one_and_what_is_in_use_stays() {
    let program = Program::with_goldens();
    program.succeed(&["backup", "backup.db"]);
    let at = |name: &str| program.folder.path().join(name);
    let dead = ".new.db.00000000000000000000000000000001.partial";
    let live = ".new.db.00000000000000000000000000000002.partial";
    let other = ".other.db.00000000000000000000000000000003.partial";
    for name in [dead, live, other] {
        fs::write(at(name), "half").unwrap();
    }
    fs::write(at(&format!("{dead}-journal")), "half").unwrap();
    let lock = fs::File::open(at(live)).unwrap();
    lock.lock().unwrap();
    for act in [&["restore", "backup.db", "new.db"][..], &["backup", "new.db"]] {
        fs::write(at(dead), "half").unwrap();
        program.succeed(act);
        fs::remove_file(at("new.db")).unwrap();
        assert!(!at(dead).exists() && !at(&format!("{dead}-journal")).exists(), "{act:?}");
        assert!(at(live).exists() && at(other).exists(), "{act:?}");
    }
    let left = [
        ".restored-00000000000000000000000000000001.db",
        "..restored-00000000000000000000000000000002.db.00000000000000000000000000000003.partial",
    ];
    left.iter().for_each(|name| fs::write(at(name), "half").unwrap());
    program.succeed(&["restore", "backup.db", "annals.db", "--id", "5610a708-170e-58da-bb08-33350f7cdc03"]);
    left.iter().for_each(|name| assert!(!at(name).exists(), "{name}"));
}

#[test]
fn no_number_of_the_schema_makes_annals_seal_what_another_program_wrote() {
    for number in (0..=SCHEMA_VERSION + 1).chain([999, u32::MAX >> 1]) {
        let program = Program::with_goldens();
        let db = owner(program.folder.path().join("annals.db"));
        db.execute_batch(&format!(
            "UPDATE conversation SET title = 'FORGED' WHERE key = 1;
             UPDATE base_state SET document = json_set(document, '$.agent.llm.model', 'forged/model')
             WHERE conversation = 1; PRAGMA user_version = {number}"
        ))
        .unwrap();
        drop(db);
        let before = fs::read(program.folder.path().join("annals.db")).unwrap();
        let verified = program.run(&["verify"]);
        let said = String::from_utf8_lossy(&[verified.stdout, verified.stderr].concat()).into_owned();
        assert_ne!(verified.status.code(), Some(0), "{number}: {said}");
        if (1..12).contains(&number) {
            assert!(
                said.contains(&format!("the record of its migrations says {SCHEMA_VERSION}")),
                "{number}: {said}"
            );
            let db = owner(program.folder.path().join("annals.db"));
            db.execute_batch(&format!("PRAGMA user_version = {SCHEMA_VERSION}")).unwrap();
            drop(db);
            assert_eq!(program.run(&["verify"]).status.code(), Some(2), "{number}");
        } else if number > SCHEMA_VERSION {
            assert_eq!(fs::read(program.folder.path().join("annals.db")).unwrap(), before, "{number}");
        } else {
            // An interrupted upgrade looks the same. It goes on, begins no chain, and leaves a receipt.
            assert!(
                said.contains("title") || program.run(&["verify"]).status.code() == Some(2),
                "{number}: {said}"
            );
        }
    }
}

#[test]
fn verify_beside_a_writer_finds_nothing() {
    let scratch = Scratch::new();
    let store = Store::open_with(scratch.database(), &without_projector()).unwrap();
    let events: Vec<_> = (0..40).map(|number| user_message(&format!("e{number}"), "text")).collect();
    let ends = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let churned = conversation("churned");
            while !ends.load(Ordering::Relaxed) {
                for group in events.chunks(10) {
                    store.append(&churned, Expected::Any, group).unwrap();
                }
                store.retention().delete(&churned).unwrap();
            }
        });
        let other = Store::open_with(scratch.database(), &without_projector()).unwrap();
        for _ in 0..60 {
            let found = other.audit().verify(None, &mut |_| ()).unwrap();
            if !found.findings.is_empty() {
                ends.store(true, Ordering::Relaxed);
                panic!("{:?}", found.findings);
            }
        }
        ends.store(true, Ordering::Relaxed);
    });
}

#[test]
fn upgrade_beside_a_writer_calls_nothing_damaged() {
    let scratch = Scratch::new();
    let store = Store::open_with(scratch.database(), &without_projector()).unwrap();
    store.append(&conversation("talk"), Expected::Any, &[user_message("first", "text")]).unwrap();
    let ends = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for number in 0.. {
                if ends.load(Ordering::Relaxed) {
                    break;
                }
                let text = user_message(&format!("e{number}"), "text");
                store.append(&conversation("talk"), Expected::Any, &[text]).unwrap();
            }
        });
        for _ in 0..10 {
            let upgraded = Maintenance::upgrade(scratch.database(), None);
            if upgraded.is_err() {
                ends.store(true, Ordering::Relaxed);
            }
            upgraded.unwrap();
        }
        ends.store(true, Ordering::Relaxed);
    });
}

#[test]
fn an_upgrade_whose_first_try_was_killed_is_repeated_with_the_copy_that_it_made() {
    let program = Program::new();
    let at = |name: &str| program.folder.path().join(name);
    let old = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/old/schema-15.db");
    fs::copy(&old, at("old.db")).unwrap();
    program.succeed(&["--db", "old.db", "upgrade"]);
    let copy = fs::read(at("old.db.schema15")).unwrap();
    // As if it had been killed behind the copy.
    fs::copy(&old, at("old.db")).unwrap();
    program.succeed(&["--db", "old.db", "upgrade"]);
    assert_eq!(fs::read(at("old.db.schema15")).unwrap(), copy);
    // Another file is in the way as before.
    fs::copy(&old, at("old.db")).unwrap();
    fs::copy(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/old/schema-14.db"), at("old.db.schema15"))
        .unwrap();
    let (code, said) = program.fails(&["--db", "old.db", "upgrade"]);
    assert!(code == 1 && said.contains("already exists"), "{said}");
}

#[test]
fn a_time_is_looked_up_by_when_an_event_was_recorded_if_it_states_none() {
    let scratch = Scratch::new();
    let store = Store::open_with(scratch.database(), &without_projector()).unwrap();
    let talk = conversation("talk");
    let events: Vec<_> =
        (0..20).map(|number| event(&format!("e{number}"), "Note", serde_json::json!({}))).collect();
    store.append(&talk, Expected::Any, &events).unwrap();
    let at = |time: &str| store.sequence_at(&talk, Timestamp::parse(time).unwrap()).unwrap();
    assert_eq!(at("2038-01-01T00:00:00Z"), Some(Sequence(19)));
    assert_eq!(at("2001-01-01T00:00:00Z"), None);
}

#[test]
fn a_repair_writes_nothing_to_the_log_on_the_word_of_a_row_that_is_wrong() {
    for status in ["stuck", "finished", "idle", "error"] {
        let program = Program::with_goldens();
        let db = owner(program.folder.path().join("annals.db"));
        let id = "a974c9f5-e8de-5263-bc49-55c0881c4a66";
        db.execute("UPDATE conversation SET status = ?1 WHERE id = ?2", [status, id]).unwrap();
        program.succeed(&["doctor", id, "--repair", "--only", "catalogue,dangling-call,stale-run"]);
        let count = "SELECT event_count FROM conversation WHERE id LIKE 'a974c9f5%'";
        assert_eq!(number(&db, count), 17, "{status}");
        let status = "SELECT status = 'waiting_for_confirmation' FROM conversation WHERE id LIKE 'a974c9f5%'";
        assert_eq!(number(&db, status), 1);
    }
}

#[test]
fn a_conversation_that_is_gone_keeps_no_other_from_being_copied() {
    let scratch = Scratch::new();
    let store = Store::open_with(scratch.database(), &without_projector()).unwrap();
    let target = Store::open_with(scratch.path("target.db"), &without_projector()).unwrap();
    let ids = ["one", "gone", "two"].map(conversation);
    for id in [&ids[0], &ids[2]] {
        store.append(id, Expected::Any, &[user_message("a", "text")]).unwrap();
    }
    let reports = Copier::new(&store, &target, CopyOptions::default()).copy(&ids, &mut |_| ()).unwrap();
    let statuses: Vec<_> = reports.iter().map(|report| report.status).collect();
    assert_eq!(statuses, [CopyStatus::Copied, CopyStatus::Gone, CopyStatus::Copied]);
    assert!(target.event(&ids[2], &EventId::new("a").unwrap()).is_ok());
}

#[test]
fn a_payload_that_was_cut_stops_no_search_for_secrets() {
    let program = Program::with_goldens();
    let db = owner(program.folder.path().join("annals.db"));
    db.execute(r#"UPDATE event SET payload = '"\"' WHERE position = 3"#, []).unwrap();
    db.execute(r#"UPDATE base_state SET document = '{"a":"\"' WHERE conversation = 2"#, []).unwrap();
    drop(db);
    for act in [
        &["scan-secrets"][..],
        &["--json", "scan-secrets"],
        &["redact", "5610a7", "--pattern", "hello", "--reason", "a test", "--dry-run"],
        &["redact", "caf528", "--pattern", "hello", "--reason", "a test", "--dry-run"],
        &["seen", "--text", "hello"],
        &["verify"],
    ] {
        let output = program.run(act);
        let code = output.status.code();
        assert!(matches!(code, Some(0..=2)), "{act:?}: {code:?} {}", String::from_utf8_lossy(&output.stderr));
    }
}

#[test]
fn a_search_for_many_words_is_refused_at_once() {
    let program = Program::with_goldens();
    let many: String = (0..10_000).map(|number| format!("w{number} ")).collect();
    let (code, said) = program.fails(&["search", &many]);
    assert!(code == 1 && said.contains("at most 256 different words"), "{code}: {said}");
    // The same word again is no other word.
    program.succeed(&["search", &"fibonacci ".repeat(10_000)]);
}

#[test]
fn an_act_that_was_killed_before_its_vacuum_is_ended_by_the_repeat() {
    for repeat in [&["erase"][..], &["redact", "--secrets", "--reason", "again"]] {
        let program = Program::with_goldens();
        let ids = program.json(&["list"]);
        let id = |index: usize| ids["conversations"][index]["id"].as_str().unwrap().to_owned();
        // As after a kill: everything but the vacuum is done.
        program.succeed(&["erase", &id(0), "--reason", "a test", "--yes", "--no-vacuum"]);
        let free = || number(&owner(program.folder.path().join("annals.db")), "PRAGMA freelist_count");
        assert!(free() > 0);
        let arguments = match repeat {
            ["erase"] => vec!["erase".to_owned(), id(0), "--reason".into(), "a test".into(), "--yes".into()],
            _ => [
                &["redact".to_owned(), id(1)][..],
                &repeat[1..].iter().map(|&word| word.into()).collect::<Vec<_>>(),
            ]
            .concat(),
        };
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let output = program.run(&arguments);
        let said = [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap()).concat();
        assert_eq!(output.status.code(), Some(0), "{arguments:?}: {said}");
        assert!(said.contains("the file was rewritten"), "{said}");
        assert_eq!(free(), 0, "{arguments:?}");
        // Once more there is nothing left to do.
        let output = program.run(&arguments);
        assert_eq!(output.status.code(), Some(0));
        assert!(!String::from_utf8(output.stderr).unwrap().contains("rewritten"));
    }
}

#[test]
fn a_copy_that_fails_leaves_no_empty_file() {
    let program = Program::with_goldens();
    let file = program.folder.path().join("annals.db");
    owner(&file)
        .execute_batch("UPDATE event SET payload = 'x' WHERE conversation = 1 AND sequence = 0")
        .unwrap();
    let id: String =
        owner(&file).query_row("SELECT id FROM conversation WHERE key = 1", [], |row| row.get(0)).unwrap();
    for command in [&["copy", &*id, "--to", "out.db"][..], &["split", "--ids", &id, "--to", "out.db"]] {
        let output = program.run(command);
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        for name in ["out.db", "out.db-wal", "out.db-shm"] {
            assert!(!program.folder.path().join(name).exists(), "{command:?}: {name}");
        }
    }
    // A file that was there stays, and so does one that has something.
    program.succeed(&[
        "--db",
        "out.db",
        "import",
        crate::support::folder::golden("legacy").to_str().unwrap(),
    ]);
    program.run(&["copy", &id, "--to", "out.db"]);
    assert!(program.folder.path().join("out.db").exists());
}
