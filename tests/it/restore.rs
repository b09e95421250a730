//! Incremental backups, and restores to their end or to any earlier point.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::mpsc::channel;

use annals::redact::Finder;
use annals::state::FieldChange;
use annals::store::{
    Append, Backup, BackupFile, BackupFolder, BaseStateChange, Leaf, Maintenance, Redaction, RestorePoint,
    Restored,
};
use annals::transfer::Importer;
use annals::{ConversationId, Error, EventId, Expected, Position, Store, Timestamp};
use rusqlite::Connection;
use rusqlite::types::Value;

use crate::support::child::{self, Running};
use crate::support::events::{command, pause, printed, user_message};
use crate::support::projected::{self, assert_same_rows, dump};
use crate::support::random::Random;
use crate::support::{
    Scratch, all_events, assert_error, assert_sound, conversation, event_ids, folder, number, owner, rows,
    sample, without_projector,
};

/// The table of the migrations. It is not part of a backup.
const HISTORY: &str = "refinery_schema_history";

/// The table with the name of the write-ahead log. Each copy has its own.
const LOG_NAME: &str = "write_log";

/// Returns the name and all rows of each table that is not derived.
fn truth(path: &Path) -> Vec<(String, Vec<Vec<Value>>)> {
    let db = Connection::open(path).unwrap();
    let tables = "SELECT name FROM pragma_table_list WHERE schema = 'main' AND type = 'table' \
         AND name NOT LIKE 'sqlite_%' ORDER BY name";
    let tables: Vec<String> =
        db.prepare(tables).unwrap().query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect();
    let derived = projected::tables();
    let tables =
        tables.into_iter().filter(|name| ![HISTORY, LOG_NAME].contains(&&**name) && !derived.contains(name));
    tables
        .map(|name| {
            let mut all = rows(&db, &format!("SELECT * FROM {name}"));
            // A file that was cut on restore has a row that records it.
            all.retain(|row| !row.contains(&Value::Text("restore".into())));
            all.sort_by_key(|row| format!("{row:?}"));
            (name, all)
        })
        .collect()
}

/// Asserts that two files have the same rows in every table, derived tables included.
#[track_caller]
fn assert_same_file(one: &Path, other: &Path) {
    let (one_truth, other_truth) = (truth(one), truth(other));
    assert_eq!(one_truth.len(), other_truth.len());
    for ((table, left), (other, right)) in one_truth.into_iter().zip(other_truth) {
        assert_eq!((&table, left), (&other, right), "{table}");
    }
    for path in [one, other] {
        Store::open_with(path, &without_projector()).unwrap().catch_up().unwrap();
    }
    assert_same_rows(&dump(&Connection::open(one).unwrap()), &dump(&Connection::open(other).unwrap()));
}

fn state(field: &str, value: &str) -> BaseStateChange {
    BaseStateChange::new(vec![FieldChange::set(field, value).unwrap()])
}

/// Makes the changes of round `round`. All rounds together have every kind of change that a backup must hold.
fn live(store: &Store, round: u64) {
    let talk = conversation("talk");
    let (action, call) = (format!("{round}-b"), format!("call-{round}"));
    store
        .append(
            &talk,
            Expected::Any,
            &[
                user_message(&format!("{round}-a"), "count the files"),
                command(&action, &call, "ls | wc -l"),
                printed(&format!("{round}-c"), &action, &call, "3", 0),
            ],
        )
        .unwrap();
    match round {
        0 => {
            let import = |golden: &str| {
                Importer::new(store, Default::default()).import(&folder::golden(golden), &mut |_| ()).unwrap()
            };
            import("conversations/hello-two-turns");
            import("corrupt/duplicate-id");
            store.search("files", &Default::default(), 1, &mut |_| ()).unwrap();
        }
        1 => {
            store.save_base_state(&talk, state("number", "1")).unwrap();
            store.set_leaf(&talk, Leaf::At(EventId::new("0-a").unwrap())).unwrap();
            store
                .append(&conversation("gone"), Expected::Any, &[user_message("a", "gone-gone-gone")])
                .unwrap();
        }
        2 => {
            store.set_title(&talk, Some("A title")).unwrap();
            store.retention().delete(&conversation("gone")).unwrap();
        }
        3 => {
            for number in 0..70 {
                store.save_base_state(&talk, state("number", &number.to_string())).unwrap();
            }
            store.save_base_state(&talk, state("execution_status", "\"paused\"")).unwrap();
        }
        4 => {
            let imported = Importer::new(store, Default::default())
                .import(&folder::golden("conversations/coding-task"), &mut |_| ())
                .unwrap();
            let id = imported[0].id.clone().unwrap();
            store.append(&id, Expected::Any, &[pause("late")]).unwrap();
            // A conversation that is deleted and imported again is a new conversation.
            store.retention().delete(&conversation("dc3e2801a35e500194a7d105aced297a")).unwrap();
            Importer::new(store, Default::default())
                .import(&folder::golden("conversations/hello-two-turns"), &mut |_| ())
                .unwrap();
        }
        5 => {
            let imported = conversation("dc3e2801a35e500194a7d105aced297a");
            store.retention().archive(&[talk, imported], None, &mut |_| ()).unwrap();
        }
        6 => {
            let finder = Finder::expression("count the files").unwrap();
            let redaction = Redaction::Matches { finder: &finder, values: &[], own: false };
            store.retention().redact(&talk, redaction, "a test").unwrap();
        }
        // The remaining archive is compressed again, with a dictionary that does not contain the erased text.
        7 => drop(
            store.retention().erase(&conversation("dc3e2801a35e500194a7d105aced297a"), "a test").unwrap(),
        ),
        8 => drop(store.retention().unarchive(&talk, None).unwrap()),
        _ => {}
    }
}

fn restore(from: &Path, to: &Path, point: &RestorePoint) -> Restored {
    let restored = Backup::restore(from, to, &point.clone().into(), &mut |_| ()).unwrap();
    assert_eq!(restored.verification.findings, []);
    restored
}

#[test]
fn backups_to_a_file_and_to_a_folder_restore_the_same_store() {
    let scratch = Scratch::new();
    let store = scratch.open_without_projector();
    let (copy, parts) = (scratch.path("copy.db"), scratch.path("parts"));
    let mut alike = 0;
    for round in 0..10 {
        live(&store, round);
        for again in [false, true] {
            let into_file = store.backup().to_file(&copy).unwrap();
            let into_folder = store.backup().to_folder(&parts, BackupFolder::default()).unwrap();
            assert_eq!(into_file.is_none(), again, "round {round}: {into_file:?}");
            assert_eq!(into_folder.is_none(), again, "round {round}: {into_folder:?}");
            if let (Some(file), Some(part)) = (into_file, into_folder) {
                assert_eq!((file.is_full, file.to), (round == 0, store.last_position().unwrap()));
                assert_eq!(part.to, store.last_position().unwrap());
                // The folder begins anew with a full backup when its parts have become large.
                if part.is_full == file.is_full {
                    alike += 1;
                    assert_eq!(
                        (part.changed, part.removed, part.events),
                        (file.changed, file.removed, file.events)
                    );
                }
                assert_eq!(file.removed, u64::from(matches!(round, 2 | 4 | 7)));
                let events = [None, Some(4), Some(3), Some(3), None, None, None, None, None, Some(3)];
                assert!(events[round as usize].is_none_or(|events| events == file.events), "round {round}");
            }
        }
        store.catch_up().unwrap();
        assert_same_file(&scratch.database(), &copy);
        assert_sound(&Store::open_with(&copy, &without_projector()).unwrap());
        let to = scratch.path(&format!("{round}.db"));
        let restored = restore(&parts, &to, &RestorePoint::Newest);
        assert_eq!((restored.last_position, restored.cut), (store.last_position().unwrap(), 0));
        assert_same_file(&scratch.database(), &to);
        // The restored file is the same store and can replace it: backups go on from it.
        let back = Store::open_with(&to, &without_projector()).unwrap();
        assert_eq!(back.store_id().unwrap(), store.store_id().unwrap());
        assert_eq!(back.backup().to_file(&copy).unwrap(), None);
        assert_eq!(
            back.search("files", &Default::default(), 9, &mut |_| ()).unwrap(),
            store.search("files", &Default::default(), 9, &mut |_| ()).unwrap()
        );
    }
    assert!(alike >= 5, "{alike} of the folder's files could be compared");
}

#[test]
fn a_deleted_conversation_is_in_no_later_backup() {
    let scratch = Scratch::new();
    let store = scratch.open_without_projector();
    let (copy, parts) = (scratch.path("copy.db"), scratch.path("parts"));
    for round in 0..3 {
        live(&store, round);
        store.backup().to_file(&copy).unwrap();
        store.backup().to_folder(&parts, BackupFolder::default()).unwrap();
    }
    restore(&parts, &scratch.path("restored.db"), &RestorePoint::Newest);
    let files = Backup::list(&parts).unwrap();
    let holding: Vec<bool> = files.iter().map(|file| holds(&file.path, "gone-gone-gone")).collect();
    assert_eq!(holding, [false, true, false]);
    assert!(!holds(&scratch.path("restored.db"), "gone-gone-gone"));
    assert!(!holds(&copy, "gone-gone-gone"));
}

fn holds(path: &Path, words: &str) -> bool {
    fs::read(path).unwrap().windows(words.len()).any(|window| window == words.as_bytes())
}

#[test]
fn an_erasure_or_redaction_starts_a_new_full_backup() {
    let scratch = Scratch::new();
    let store = scratch.open_without_projector();
    let (copy, parts) = (scratch.path("copy.db"), scratch.path("parts"));
    let (talk, other) = (conversation("talk"), conversation("other"));
    store.append(&talk, Expected::Any, &[user_message("a", "the word is swordfish"), pause("b")]).unwrap();
    store.append(&other, Expected::Any, &[user_message("a", &"the word is swordfish ".repeat(900))]).unwrap();
    store.search("word", &Default::default(), 9, &mut |_| ()).unwrap();
    let back_up = |keep| {
        let file = store.backup().to_file(&copy).unwrap().unwrap();
        (
            file,
            store
                .backup()
                .to_folder(&parts, BackupFolder::default().full(false).keep(keep))
                .unwrap()
                .unwrap(),
        )
    };
    back_up(None);
    store.append(&talk, Expected::Any, &[pause("c")]).unwrap();
    assert!(!back_up(None).1.is_full);
    assert!(holds(&copy, "swordfish"));

    let finder = Finder::expression("swordfish").unwrap();
    store
        .retention()
        .redact(&talk, Redaction::Matches { finder: &finder, values: &[], own: false }, "a test")
        .unwrap();
    let (_, step) = back_up(None);
    assert_eq!((step.is_full, step.outdated, step.pruned), (true, 2, 0));
    store.retention().erase(&other, "a test").unwrap();
    let (_, step) = back_up(Some(1));
    assert_eq!((step.is_full, step.outdated, step.pruned), (true, 0, 3));
    for file in Backup::list(&parts).unwrap().into_iter().map(|file| file.path).chain([copy.clone()]) {
        assert!(!holds(&file, "swordfish"), "{file:?}");
    }
    assert_same_file(&copy, &scratch.database());
    store.append(&talk, Expected::Any, &[pause("d")]).unwrap();
    assert!(!back_up(None).1.is_full);
}

#[test]
fn every_full_backup_counts_the_files_that_may_hold_erased_or_redacted_text() {
    let scratch = Scratch::new();
    let store = scratch.open_without_projector();
    let parts = scratch.path("parts");
    let (talk, other) = (conversation("talk"), conversation("other"));
    store.append(&talk, Expected::Any, &[user_message("a", "the word is swordfish")]).unwrap();
    store.append(&other, Expected::Any, &[user_message("a", "the word is swordfish")]).unwrap();
    let back_up = |full, keep| {
        let step =
            store.backup().to_folder(&parts, BackupFolder::default().full(full).keep(keep)).unwrap().unwrap();
        (step.is_full, step.outdated, step.pruned)
    };
    assert_eq!([back_up(true, None), back_up(true, None)], [(true, 0, 0); 2]);
    store.append(&talk, Expected::Any, &[pause("b")]).unwrap();
    assert_eq!(back_up(false, None), (false, 0, 0));

    let finder = Finder::expression("swordfish").unwrap();
    store
        .retention()
        .redact(&talk, Redaction::Matches { finder: &finder, values: &[], own: false }, "a test")
        .unwrap();
    assert_eq!(back_up(true, None), (true, 3, 0));
    // The full backup before this one is not counted, because it was made after the redaction.
    assert_eq!(back_up(true, None), (true, 3, 0));
    store.retention().erase(&other, "a test").unwrap();
    let newest = Backup::list(&parts).unwrap().pop().unwrap();
    Connection::open(&newest.path).unwrap().execute_batch("PRAGMA user_version = 1").unwrap();
    assert_eq!(back_up(false, None), (true, 5, 0));
    assert_eq!(back_up(true, Some(3)), (true, 1, 4));
    assert_eq!(back_up(true, Some(1)), (true, 0, 3));
}

/// Makes random changes and backups. Returns the position and time after each change, and a copy of the store then.
fn grow(scratch: &Scratch, seed: u64, steps: u64) -> Vec<(Position, Timestamp, PathBuf)> {
    let store = scratch.open_without_projector();
    let parts = scratch.path("parts");
    let mut random = Random::new(seed);
    let mut moments = Vec::new();
    for step in 0..steps {
        let id = conversation(&format!("talk-{}", random.below(4)));
        let base_state = (random.below(3) == 0).then(|| state("number", &step.to_string()));
        let leaf = match random.below(6) {
            0 => Some(Leaf::Empty),
            1 => all_events_or_none(&store, &id).map(Leaf::At),
            _ => None,
        };
        let events = vec![user_message(&format!("{step}-a"), "hello"), pause(&format!("{step}-b"))];
        let append = Append::new(Expected::Any, events).base_state(base_state).leaf(leaf);
        store.append_all(&id, append).unwrap();
        let to = scratch.path(&format!("moment-{step}.db"));
        store.backup().to_new_file(&to).unwrap();
        let now = all_events(&store, &id).last().unwrap().recorded_at;
        moments.push((store.last_position().unwrap(), now, to));
        if random.below(3) == 0 {
            store
                .backup()
                .to_folder(&parts, BackupFolder::default().full(random.below(4) == 0).keep(None))
                .unwrap();
        }
    }
    store.backup().to_folder(&parts, BackupFolder::default()).unwrap();
    moments
}

fn all_events_or_none(store: &Store, id: &ConversationId) -> Option<EventId> {
    store.conversation(id).ok()?;
    Some(all_events(store, id)[0].id.clone())
}

#[test]
fn any_position_or_time_is_restored_as_it_was() {
    for seed in sample(0..3, 3) {
        let scratch = Scratch::new();
        let moments = grow(&scratch, seed, 10);
        for (number, (position, time, was)) in moments.iter().enumerate() {
            for (name, point) in [("p", RestorePoint::Position(*position)), ("t", RestorePoint::Time(*time))]
            {
                let to = scratch.path(&format!("{name}{number}.db"));
                let restored = restore(&scratch.path("parts"), &to, &point);
                assert_eq!(restored.last_position, *position, "{point:?}");
                let from_file = scratch.path(&format!("{name}{number}-file.db"));
                restore(&scratch.database(), &from_file, &point);
                for restored in [&to, &from_file] {
                    // A file that was cut is a new store with its own id.
                    let db = owner(restored);
                    let id = Store::open_with(was, &without_projector()).unwrap().store_id().unwrap();
                    db.execute("UPDATE log SET store_id = ?1, position_floor = 0", [id]).unwrap();
                    drop(db);
                    assert_same_file(restored, was);
                }
            }
        }
    }
}

#[test]
fn a_point_outside_the_backup_is_refused() {
    let scratch = Scratch::new();
    grow(&scratch, 7, 5);
    let parts = scratch.path("parts");
    let refused = |point: &RestorePoint| {
        Backup::restore(&parts, scratch.path("no.db"), &point.clone().into(), &mut |_| ())
    };
    let short = Error::BackupTooShort { position: Position(11), last_position: Position(10) };
    assert_error(refused(&RestorePoint::Position(Position(11))), &short);
    let none = Error::UnknownConversation { conversation: "nobody".into() };
    assert_error(refused(&RestorePoint::Holding(conversation("nobody"))), &none);
    let taken = Error::WouldOverwrite { path: scratch.database() };
    assert_error(
        Backup::restore(&parts, scratch.database(), &RestorePoint::Newest.into(), &mut |_| ()),
        &taken,
    );
    assert!(!scratch.path("no.db").exists());
    let empty = restore(&parts, &scratch.path("empty.db"), &RestorePoint::Position(Position::START));
    let first = Backup::list(&parts).unwrap()[0].to;
    assert_eq!(
        (empty.last_position, empty.cut, empty.verification.conversations),
        (Position::START, first.0, 0)
    );
    let late = restore(&parts, &scratch.path("late.db"), &RestorePoint::Time(Timestamp(i64::MAX)));
    assert_eq!((late.last_position, late.cut), (Position(10), 0));
    fs::create_dir(scratch.path("nothing")).unwrap();
    let refused = Backup::restore(
        scratch.path("nothing"),
        scratch.path("no.db"),
        &RestorePoint::Newest.into(),
        &mut |_| (),
    );
    assert!(matches!(refused, Err(Error::NotItsBackup { .. })), "{refused:?}");
}

#[test]
fn a_deleted_conversation_is_restored_in_its_last_state() {
    let scratch = Scratch::new();
    let store = scratch.open_without_projector();
    let parts = scratch.path("parts");
    for round in 0..3 {
        live(&store, round);
        store.backup().to_folder(&parts, BackupFolder::default()).unwrap();
    }
    assert_eq!(Backup::find(&parts, "go").unwrap(), conversation("gone"));
    let check = |name: &str| {
        let to = scratch.path(name);
        restore(&parts, &to, &RestorePoint::Holding(conversation("gone")));
        let back = Store::open_with(&to, &without_projector()).unwrap();
        assert_eq!(event_ids(&back, &conversation("gone")), ["a"]);
        back.conversation(&conversation("talk")).unwrap().event_count
    };
    assert_eq!(check("one.db"), 9);
    // The new series does not have it. The series before has it.
    store.backup().to_folder(&parts, BackupFolder::default().full(true).keep(None)).unwrap();
    assert_eq!(check("two.db"), 9);
    // The time of a deletion between two backups is unknown. At a point between them the conversation is still there.
    let position = Position(store.last_position().unwrap().0 - 1);
    let between = restore(&parts, &scratch.path("between.db"), &RestorePoint::Position(position));
    assert_eq!((between.spared, between.cut), (vec!["gone".to_owned()], 1));
}

#[test]
fn a_part_and_its_restore_name_the_tables_of_other_programs_that_they_lack() {
    let scratch = Scratch::new();
    let store = scratch.open_without_projector();
    let talk = conversation("talk");
    store.append(&talk, Expected::Any, &[pause("a")]).unwrap();
    let theirs = scratch.stranger();
    theirs.execute_batch("CREATE TABLE orders (x); INSERT INTO orders VALUES (1)").unwrap();
    let (copy, parts) = (scratch.path("copy.db"), scratch.path("parts"));
    let back_up = || {
        let file = store.backup().to_file(&copy).unwrap();
        let folder = store.backup().to_folder(&parts, BackupFolder::default()).unwrap();
        [file, folder].map(|step| step.map(|step| (step.is_full, step.left_out)))
    };
    let full = Some((true, Vec::new()));
    assert_eq!(back_up(), [full.clone(), full]);
    assert_eq!(
        restore(&parts, &scratch.path("full.db"), &RestorePoint::Newest).left_out,
        Vec::<String>::new()
    );
    theirs.execute_batch("INSERT INTO orders VALUES (2); CREATE TABLE invoices (x)").unwrap();
    assert_eq!(back_up(), [None, None]);
    assert_eq!(store.backup().foreign_tables().unwrap(), ["orders", "invoices"]);
    store.append(&talk, Expected::Any, &[pause("b")]).unwrap();
    let part = Some((false, vec!["orders".to_owned(), "invoices".to_owned()]));
    assert_eq!(back_up(), [part.clone(), part]);
    let restored = scratch.path("restored.db");
    assert_eq!(restore(&parts, &restored, &RestorePoint::Newest).left_out, ["orders", "invoices"]);
    assert_eq!(number(&owner(&restored), "SELECT count(*) FROM orders"), 1);
    let full = store.backup().to_folder(&parts, BackupFolder::default().full(true)).unwrap().unwrap();
    assert_eq!(full.left_out, Vec::<String>::new());
    assert_eq!(number(&owner(&full.path), "SELECT count(*) FROM orders"), 2);
}

#[test]
fn a_backup_of_another_or_a_diverged_store_is_refused() {
    let scratch = Scratch::new();
    let store = scratch.open_without_projector();
    let (copy, parts) = (scratch.path("copy.db"), scratch.path("parts"));
    let back_up = |store: &Store, full| {
        let folder = store.backup().to_folder(&parts, BackupFolder::default().full(full).keep(None));
        (store.backup().to_file(&copy), folder)
    };
    live(&store, 0);
    back_up(&store, false).0.unwrap();
    live(&store, 1);
    back_up(&store, false).1.unwrap();
    let before = (fs::read(&copy).unwrap(), Backup::list(&parts).unwrap());

    let other = Scratch::new();
    let stranger = other.open_without_projector();
    live(&stranger, 0);
    for full in [false, true] {
        let (file, folder) = back_up(&stranger, full);
        assert!(matches!(file, Err(Error::NotItsBackup { .. })), "{file:?}");
        assert!(matches!(folder, Err(Error::NotItsBackup { .. })), "{folder:?}");
    }
    let at_first = Position(3);
    let astray = Error::BackupAstray { conversation: conversation("talk") };
    restore(&scratch.database(), &scratch.path("cut.db"), &RestorePoint::Position(at_first));
    // The id is the same, as in a file that was put back by other means.
    let cut = Store::open_with(scratch.path("cut.db"), &without_projector()).unwrap();
    let db = owner(scratch.path("cut.db"));
    db.execute("UPDATE log SET store_id = ?1", [store.store_id().unwrap()]).unwrap();
    let (file, folder) = back_up(&cut, false);
    assert_error(file, &astray);
    assert_error(folder, &astray);
    cut.append(
        &conversation("talk"),
        Expected::Any,
        &[user_message("x", "elsewhere"), pause("y"), pause("z")],
    )
    .unwrap();
    let (file, folder) = back_up(&cut, false);
    assert_error(file, &astray);
    assert_error(folder, &astray);
    assert_eq!((fs::read(&copy).unwrap(), Backup::list(&parts).unwrap()), before);
    // A new series can begin. Its points are those of the present file.
    back_up(&cut, true).1.unwrap().unwrap();
    let to = scratch.path("again.db");
    restore(&parts, &to, &RestorePoint::Position(Position(5)));
    let again = Store::open_with(&to, &without_projector()).unwrap();
    assert_eq!(event_ids(&again, &conversation("talk")), ["0-a", "0-b", "0-c", "x", "y"]);

    // A copy that received events of its own is not a backup any more.
    let own = Store::open_with(&copy, &without_projector()).unwrap();
    own.append(&conversation("talk"), Expected::Any, &[pause("mine")]).unwrap();
    drop(own);
    assert_error(store.backup().to_file(&copy), &astray);
    let notes = scratch.path("notes.txt");
    fs::write(&notes, "mine").unwrap();
    assert!(matches!(store.backup().to_file(&notes), Err(Error::ForeignFile { .. })));
    assert_eq!(fs::read(&notes).unwrap(), b"mine");
}

#[test]
fn a_missing_or_changed_part_is_named() {
    let scratch = Scratch::new();
    let store = scratch.open_without_projector();
    let parts = scratch.path("parts");
    for round in 0..4 {
        live(&store, round);
        store.backup().to_folder(&parts, BackupFolder::default()).unwrap();
    }
    let files = Backup::list(&parts).unwrap();
    assert!(files[0].is_full && files[1..].iter().all(|file| !file.is_full), "{files:?}");
    let name = |file: &BackupFile| file.path.file_name().unwrap().to_str().unwrap().to_owned();
    let what = |point: &RestorePoint| match Backup::restore(
        &parts,
        scratch.path("no.db"),
        &point.clone().into(),
        &mut |_| (),
    ) {
        Err(Error::Corrupt { what }) => what,
        other => panic!("{other:?}"),
    };
    let kept = fs::read(&files[2].path).unwrap();
    fs::remove_file(&files[2].path).unwrap();
    assert!(what(&RestorePoint::Newest).contains("which is missing"), "{}", what(&RestorePoint::Newest));
    assert!(what(&RestorePoint::Newest).contains(&name(&files[2])));

    for at in [200, kept.len() / 2, kept.len() - 40] {
        let mut changed = kept.clone();
        changed[at] ^= 1;
        fs::write(&files[2].path, &changed).unwrap();
        let what = what(&RestorePoint::Newest);
        assert!(what.contains(&name(&files[2])) || what.contains("conversation talk"), "{what}");
    }
    fs::write(&files[2].path, &kept).unwrap();
    let (one, two) = (fs::read(&files[1].path).unwrap(), fs::read(&files[3].path).unwrap());
    fs::write(&files[1].path, two).unwrap();
    fs::write(&files[3].path, one).unwrap();
    assert!(what(&RestorePoint::Newest).contains("is not the part that its name says"));
    assert!(!scratch.path("no.db").exists());
}

#[test]
fn old_series_are_deleted_when_a_new_series_begins() {
    let scratch = Scratch::new();
    let store = scratch.open_without_projector();
    let parts = scratch.path("parts");
    let talk = conversation("talk");
    store.append(&talk, Expected::Any, &[user_message("first", &"long ".repeat(40_000))]).unwrap();
    for round in 0..12 {
        store.append(&talk, Expected::Any, &[user_message(&format!("{round}"), "x")]).unwrap();
        let full = round % 4 == 0;
        let step =
            store.backup().to_folder(&parts, BackupFolder::default().full(full).keep(2)).unwrap().unwrap();
        assert_eq!((step.is_full, step.pruned), (full, if round == 8 { 4 } else { 0 }), "round {round}");
    }
    let numbers: Vec<u64> = Backup::list(&parts).unwrap().iter().map(|file| file.number).collect();
    assert_eq!(numbers, [5, 6, 7, 8, 9, 10, 11, 12]);
    restore(&parts, &scratch.path("now.db"), &RestorePoint::Newest);
}

#[test]
fn a_series_ends_once_its_parts_are_larger_than_its_full_backup() {
    let scratch = Scratch::new();
    let store = scratch.open_without_projector();
    let parts = scratch.path("parts");
    let talk = conversation("talk");
    for round in 0..90 {
        store.append(&talk, Expected::Any, &[user_message(&format!("{round}"), "x")]).unwrap();
        store.backup().to_folder(&parts, BackupFolder::default()).unwrap().unwrap();
    }
    let files = Backup::list(&parts).unwrap();
    let fulls: Vec<u64> = files.iter().filter(|file| file.is_full).map(|file| file.number).collect();
    assert!((2..=12).contains(&fulls.len()), "{fulls:?}");
    let now = restore(&parts, &scratch.path("now.db"), &RestorePoint::Newest);
    assert_eq!(now.verification.events, 90);
}

#[test]
fn the_next_part_is_written_without_reading_all_parts_before_it() {
    let scratch = Scratch::new();
    let store = scratch.open_without_projector();
    let parts = scratch.path("parts");
    let talk = conversation("talk");
    store.append(&talk, Expected::Any, &[user_message("first", &"long ".repeat(700_000))]).unwrap();
    for round in 0..90 {
        store.append(&talk, Expected::Any, &[pause(&format!("{round}"))]).unwrap();
        store.backup().to_folder(&parts, BackupFolder::default()).unwrap().unwrap();
    }
    // The newest part has enough information for the next part. Parts before it may be unreadable.
    let files = Backup::list(&parts).unwrap();
    assert_eq!(files.iter().filter(|file| file.is_full).count(), 1);
    let kept = fs::read(&files[20].path).unwrap();
    fs::write(&files[20].path, "nothing").unwrap();
    store.append(&talk, Expected::Any, &[pause("last")]).unwrap();
    assert!(store.backup().to_folder(&parts, BackupFolder::default()).is_ok());
    fs::write(&files[20].path, kept).unwrap();
    let now = restore(&parts, &scratch.path("now.db"), &RestorePoint::Newest);
    assert_eq!((now.files, now.verification.events), (91, 92));
    assert_eq!(
        restore(&parts, &scratch.path("then.db"), &RestorePoint::Position(Position(70))).last_position,
        Position(70)
    );
}

#[test]
fn a_store_in_memory_is_backed_up_too() {
    let scratch = Scratch::new();
    let store = Store::in_memory(&without_projector()).unwrap();
    for round in 0..3 {
        live(&store, round);
        store.backup().to_file(scratch.path("copy.db")).unwrap().unwrap();
        store.backup().to_folder(scratch.path("parts"), BackupFolder::default()).unwrap().unwrap();
    }
    restore(&scratch.path("parts"), &scratch.path("restored.db"), &RestorePoint::Newest);
    assert_same_file(&scratch.path("restored.db"), &scratch.path("copy.db"));
    assert_eq!(event_ids(&Store::open(scratch.path("copy.db")).unwrap(), &conversation("talk")).len(), 9);
}

#[test]
fn every_frozen_database_is_restored_and_its_backups_go_on() {
    let old = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/old");
    for frozen in fs::read_dir(old).unwrap().map(|entry| entry.unwrap().path()) {
        let scratch = Scratch::new();
        let parts = scratch.path("parts");
        fs::create_dir(&parts).unwrap();
        let full = parts.join("000001_2026-01-31T120000.000000Z_42.full.db");
        fs::copy(&frozen, &full).unwrap();
        let restored = restore(&parts, &scratch.database(), &RestorePoint::Newest);
        assert_eq!(restored.verification.events, 42, "{frozen:?}");
        restore(&frozen, &scratch.path("half.db"), &RestorePoint::Position(Position(20)));
        let store = scratch.open_without_projector();
        let step = store.backup().to_folder(&parts, BackupFolder::default()).unwrap();
        let is_present = Maintenance::schema_of(&frozen).unwrap() == annals::store::SCHEMA_VERSION;
        assert_eq!(step.map(|step| step.is_full), (!is_present).then_some(true), "{frozen:?}");
    }
}

const KILLED_TEST: &str = "restore::a_backup_goes_on_after_its_process_was_killed";

#[test]
fn a_backup_goes_on_after_its_process_was_killed() {
    if let Some(role) = child::role() {
        let store = Store::open_with(&role.database, &without_projector()).unwrap();
        let path = |name: &str| role.database.with_file_name(name);
        let mut changes = store.backup().changes();
        loop {
            match role.name.as_str() {
                "write" => {
                    let id = conversation(&format!("talk-{}", store.last_position().unwrap().0 % 7));
                    let events = [user_message(&EventId::mint().to_string(), &"text ".repeat(2000))];
                    store.append(&id, Expected::Any, &events).unwrap();
                }
                "folder" => drop(store.backup().to_folder(path("parts"), BackupFolder::default()).unwrap()),
                _ => drop(store.backup().to_file(path("copy.db")).unwrap()),
            }
            child::report("done");
            if role.name != "write" {
                changes.wait(std::time::Duration::from_secs(60)).unwrap();
            }
        }
    }
    let scratch = Scratch::new();
    scratch
        .open_without_projector()
        .append(&conversation("talk-0"), Expected::Any, &[user_message("a", "one")])
        .unwrap();
    let mut random = Random::new(5);
    let mut left = 0;
    for _ in 0..15 {
        let mut children: Vec<Running> = ["write", "folder", "file"]
            .iter()
            .map(|name| Running::start(child::command(KILLED_TEST, name, &scratch.database())))
            .collect();
        let (send, lines) = channel();
        for child in &mut children {
            let (send, reported) = (send.clone(), child.take_lines());
            std::thread::spawn(move || reported.for_each(|line| drop(send.send(line))));
        }
        // The children are killed after a random number of finished steps, in the middle of others.
        for _ in 0..random.below(40) {
            lines.recv().unwrap();
        }
        children.into_iter().for_each(Running::kill);
        left += names(&scratch.path("parts")).iter().filter(|name| name.ends_with(".partial")).count();
    }
    assert!(left > 0, "no backup was killed while it wrote");
    let store = scratch.open_without_projector();
    store.backup().to_folder(scratch.path("parts"), BackupFolder::default()).unwrap();
    store.backup().to_file(scratch.path("copy.db")).unwrap();
    store.catch_up().unwrap();
    assert_eq!(names(&scratch.path("parts")).iter().filter(|name| name.ends_with(".partial")).count(), 0);
    restore(&scratch.path("parts"), &scratch.path("restored.db"), &RestorePoint::Newest);
    for name in ["copy.db", "restored.db"] {
        assert_same_file(&scratch.database(), &scratch.path(name));
        assert_sound(&Store::open_with(scratch.path(name), &without_projector()).unwrap());
    }
}

fn names(folder: &Path) -> Vec<String> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

const WRITE_TEST: &str = "restore::backups_while_another_process_writes_are_whole";

#[test]
fn backups_while_another_process_writes_are_whole() {
    if let Some(role) = child::role() {
        let store = Store::open_with(&role.database, &without_projector()).unwrap();
        // These are more events than are written during the backups, but few enough to be compared quickly.
        for number in 0..4000 {
            let id = conversation(&format!("talk-{}", number % 5));
            let pair = [user_message(&format!("{number}-a"), "x"), pause(&format!("{number}-b"))];
            store.append(&id, Expected::Any, &pair).unwrap();
            child::report("done");
        }
        loop {
            std::thread::park();
        }
    }
    let scratch = Scratch::new();
    scratch
        .open_without_projector()
        .append(&conversation("talk-0"), Expected::Any, &[user_message("a", "1"), pause("b")])
        .unwrap();
    let mut writer = Running::start(child::command(WRITE_TEST, "write", &scratch.database()));
    let lines = writer.take_lines();
    let counted = std::thread::spawn(move || lines.count());
    let options = without_projector().read_only(true);
    let store = Store::open_with(scratch.database(), &options).unwrap();
    let mut steps = 0;
    for _ in 0..8 {
        let file = store.backup().to_file(scratch.path("copy.db")).unwrap();
        let part = store.backup().to_folder(scratch.path("parts"), BackupFolder::default()).unwrap();
        for step in [file, part].into_iter().flatten() {
            assert_eq!((step.to.0 % 2, step.events % 2), (0, 0), "no batch is stored in part");
            steps += 1;
        }
        assert_sound(&Store::open_with(scratch.path("copy.db"), &without_projector()).unwrap());
    }
    writer.kill();
    assert!(steps > 4, "{steps}");
    assert!(counted.join().unwrap() > 20);
    store.backup().to_file(scratch.path("copy.db")).unwrap();
    store.backup().to_folder(scratch.path("parts"), BackupFolder::default()).unwrap();
    restore(&scratch.path("parts"), &scratch.path("restored.db"), &RestorePoint::Newest);
    assert_same_file(&scratch.path("copy.db"), &scratch.path("restored.db"));
    scratch.open_without_projector().catch_up().unwrap();
    assert_same_file(&scratch.database(), &scratch.path("copy.db"));
}
