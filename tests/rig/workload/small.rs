//! One workload for each way in which a store is written.

use std::path::Path;
use std::sync::OnceLock;

use annals::redact::Finder;
use annals::state::FieldChange;
use annals::store::{
    Append, Backup, BackupFolder, BaseStateChange, Durability, Leaf, Redaction, RestorePoint,
};
use annals::transfer::{ImportStatus, Importer};
use annals::{Error, EventId, Expected, NewEvent, Options, Sequence};

use super::{DATABASE, PLAIN, Stage, Step, Workload, command, id, open, printed, user_message};
use crate::facts::{facts, without_projector};

pub const ALL: &[Workload] = &[
    Workload {
        name: "create",
        prepare: |_| (),
        steps: &[("first", |stage| append(stage, "talk", "first", 1))],
        ..PLAIN
    },
    Workload { name: "append", steps: APPEND, ..PLAIN },
    Workload { name: "read", steps: READ, ..PLAIN },
    Workload { name: "batch", steps: BATCH, ..PLAIN },
    Workload { name: "normal", steps: APPEND, options: normal, promise: Durability::Normal, ..PLAIN },
    Workload { name: "state", steps: STATE, ..PLAIN },
    Workload { name: "import", steps: IMPORT, ..PLAIN },
    Workload { name: "redact", steps: REDACT, ..PLAIN },
    Workload { name: "erase", steps: ERASE, ..PLAIN },
    Workload { name: "delete", steps: DELETE, ..PLAIN },
    Workload { name: "archive", steps: ARCHIVE, ..PLAIN },
    Workload { name: "vacuum", steps: VACUUM, ..PLAIN },
    Workload { name: "migrate", prepare: old, steps: &[], ..PLAIN },
    Workload { name: "checkpoint", steps: CHECKPOINT, ..PLAIN },
    Workload { name: "rebuild", steps: REBUILD, ..PLAIN },
    Workload { name: "search", steps: SEARCH, ..PLAIN },
    Workload {
        name: "backup",
        prepare: with_copy,
        steps: BACKUP,
        databases: &[DATABASE, "copy.db"],
        ..PLAIN
    },
    Workload {
        name: "restore",
        prepare: with_backups,
        steps: RESTORE,
        databases: &[DATABASE, "restored.db"],
        ..PLAIN
    },
];

fn normal() -> Options {
    without_projector().durability(Durability::Normal)
}

/// Writes a few conversations with events, a base state and attachments.
pub fn furnish(folder: &Path) {
    let store = open(folder);
    let talk = id("talk");
    let events: Vec<NewEvent> = (0..4)
        .flat_map(|number| {
            let text = format!("what is in file {number}? the word is hunter{number}");
            let asked = format!("b{number}");
            [
                user_message(&format!("a{number}"), &text),
                command(&asked, "ls"),
                printed(&format!("c{number}"), &asked, &text),
            ]
        })
        .collect();
    store.append(&talk, Expected::Empty, &events).expect("appended");
    store.append(&id("other"), Expected::Empty, &events[..6]).expect("appended");
    store.append(&id("third"), Expected::Empty, &events[..3]).expect("appended");
    let fields = vec![set("tags", r#"{"kind":"rig"}"#)];
    store.save_base_state(&talk, BaseStateChange::new(fields)).expect("saved");
    store.attach(&talk, "notes/a.txt", b"the word is hunter2").expect("attached");
    store.attach(&talk, "notes/b.txt", &[7; 9000]).expect("attached");
    store.catch_up().expect("caught up");
    let path = folder.join("golden");
    std::fs::create_dir_all(&path).expect("a folder");
}

/// Copies a file of an old schema into the folder.
fn old(folder: &Path) {
    let old = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/old/schema-7.db");
    std::fs::copy(old, folder.join(DATABASE)).expect("copied");
}

/// Makes a store, and an older copy of it.
fn with_copy(folder: &Path) {
    furnish(folder);
    let store = open(folder);
    store.backup().to_file(folder.join("copy.db")).expect("backed up");
    store.append(&id("talk"), Expected::Any, &[user_message("new", "since the copy")]).expect("appended");
    store.catch_up().expect("caught up");
}

/// Makes a store, and a folder of backups of it.
fn with_backups(folder: &Path) {
    furnish(folder);
    let store = open(folder);
    store.backup().to_folder(folder.join("kept"), BackupFolder::default()).expect("backed up");
    store.append(&id("talk"), Expected::Any, &[user_message("new", "since the copy")]).expect("appended");
    store.backup().to_folder(folder.join("kept"), BackupFolder::default()).expect("backed up");
}

fn set(field: &str, value: &str) -> FieldChange {
    FieldChange::set(field, value).expect("a change")
}

fn change(field: &str, value: &str) -> BaseStateChange {
    BaseStateChange::new(vec![set(field, value)])
}

fn append(stage: &Stage<'_>, conversation: &str, name: &str, count: usize) -> Result<(), Error> {
    let text = "some words, and more of them ".repeat(12);
    let events: Vec<NewEvent> =
        (0..count).map(|number| user_message(&format!("{name}-{number}"), &text)).collect();
    stage.store.append(&id(conversation), Expected::Any, &events).map(drop)
}

const APPEND: &[Step] = &[
    ("one", |stage| append(stage, "talk", "one", 1)),
    ("two", |stage| append(stage, "talk", "two", 1)),
    ("new", |stage| append(stage, "new", "new", 1)),
    ("three", |stage| append(stage, "other", "three", 1)),
    ("large", |stage| {
        let text = "as long as several pages ".repeat(800);
        stage.store.append(&id("talk"), Expected::Any, &[user_message("large", &text)]).map(drop)
    }),
    ("again", |stage| append(stage, "talk", "one", 1)),
];

const READ: &[Step] = &[("read", read), ("again", read)];

/// Reads everything in every way. Asserts that the answers equal those of the first time, because no fault may make an
/// answer wrong.
fn read(stage: &Stage<'_>) -> Result<(), Error> {
    static FIRST: OnceLock<String> = OnceLock::new();
    let (store, talk) = (stage.store, id("talk"));
    let answers = [
        facts(store)?,
        format!("{:?}", store.transcript(&talk, Sequence(0), 100)?),
        format!("{:?}", store.tool_calls(&talk, Sequence(0), 100)?),
        format!("{:?}", store.usage(None)?),
        format!("{:?}", store.tasks(&talk)?),
        format!("{:?}", store.count_kinds(&talk)?),
        format!("{:?}", store.read_attachment(&talk, "notes/b.txt", &mut Vec::new())?),
        format!("{:?}", store.base_state_at(&talk, Sequence(3))?),
        format!("{:?}", store.audit().verify(None, &mut |_| ())?),
        format!("{:?}", store.audit().verify_projections(&mut |_| ())?),
    ];
    let answers = answers.join("\n");
    assert_eq!(&answers, FIRST.get_or_init(|| answers.clone()), "a wrong answer");
    Ok(())
}

const BATCH: &[Step] = &[
    ("seven", |stage| append(stage, "talk", "seven", 7)),
    ("fifty", |stage| append(stage, "new", "fifty", 50)),
    ("all", |stage| {
        let events = vec![user_message("x", "with a state"), user_message("y", "and HEAD")];
        let leaf = Some(Leaf::At(EventId::new("x")?));
        let base_state = Some(change("execution_status", "\"finished\""));
        let append = Append::new(Expected::Exact(6), events).base_state(base_state).leaf(leaf);
        stage.store.append_all(&id("other"), append).map(drop)
    }),
];

const STATE: &[Step] = &[
    ("save", |stage| stage.store.save_base_state(&id("talk"), change("number", "1")).map(drop)),
    ("first", |stage| stage.store.save_base_state(&id("other"), change("number", "2")).map(drop)),
    ("head", |stage| stage.store.set_leaf(&id("talk"), Leaf::At(EventId::new("c1")?))),
    ("title", |stage| stage.store.set_title(&id("talk"), Some("A title"))),
    ("attach", |stage| stage.store.attach(&id("talk"), "notes/c.txt", &[9; 20_000])),
    ("fork", |stage| stage.store.set_fork(&id("other"), &id("talk"), None)),
    ("parent", |stage| stage.store.set_parent(&id("third"), &id("talk"))),
    ("untitle", |stage| stage.store.set_title(&id("talk"), None)),
];

const IMPORT: &[Step] = &[
    ("fork", |stage| import(stage, "fork-slice")),
    ("turns", |stage| import(stage, "hello-two-turns")),
    ("again", |stage| import(stage, "fork-slice")),
];

fn import(stage: &Stage<'_>, golden: &str) -> Result<(), Error> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/conversations").join(golden);
    let reports = Importer::new(stage.store, Default::default()).import(&path, &mut |_| ())?;
    // The imported folder is intact, and only the store's disk fails. A failure must end the import, and must not be
    // reported as a fault of a conversation.
    match reports.into_iter().find(|report| report.status == ImportStatus::Failed) {
        Some(report) => panic!("an import that ended well says {:?}", report.problems),
        None => Ok(()),
    }
}

const REDACT: &[Step] = &[
    ("search", |stage| search(stage, "word")),
    ("event", |stage| {
        let event = EventId::new("a1")?;
        stage.store.retention().redact(&id("talk"), Redaction::Event(&event), "a test").map(drop)
    }),
    ("matches", |stage| {
        let finder = Finder::expression("hunter[0-9]")?;
        let redaction = Redaction::Matches { finder: &finder, values: &[], own: false };
        stage.store.retention().redact(&id("talk"), redaction, "a test").map(drop)
    }),
];

const ERASE: &[Step] = &[
    ("erase", |stage| stage.store.retention().erase(&id("talk"), "a test").map(drop)),
    ("on", |stage| append(stage, "other", "on", 2)),
];

const DELETE: &[Step] = &[
    ("delete", |stage| stage.store.retention().delete(&id("talk")).map(drop)),
    ("again", |stage| append(stage, "talk", "again", 2)),
    ("third", |stage| stage.store.retention().delete(&id("third")).map(drop)),
];

const ARCHIVE: &[Step] = &[
    ("archive", |stage| {
        stage.store.retention().archive(&[id("talk"), id("other")], None, &mut |_| ()).map(drop)
    }),
    ("more", |stage| append(stage, "talk", "more", 2)),
    ("anew", |stage| stage.store.retention().archive(&[id("talk")], Some("grown"), &mut |_| ()).map(drop)),
    ("unarchive", |stage| stage.store.retention().unarchive(&id("talk"), None).map(drop)),
];

const VACUUM: &[Step] = &[
    ("delete", |stage| stage.store.retention().delete(&id("other")).map(drop)),
    ("vacuum", |stage| stage.store.maintenance().vacuum().map(drop)),
    ("on", |stage| append(stage, "talk", "on", 1)),
];

const CHECKPOINT: &[Step] = &[
    ("one", |stage| append(stage, "talk", "one", 3)),
    ("passive", |stage| checkpoint(stage, "PASSIVE")),
    ("two", |stage| append(stage, "talk", "two", 1)),
    ("full", |stage| checkpoint(stage, "FULL")),
    ("three", |stage| append(stage, "other", "three", 2)),
    ("restart", |stage| checkpoint(stage, "RESTART")),
    ("four", |stage| append(stage, "talk", "four", 1)),
    ("empty", |stage| stage.store.maintenance().empty_log().map(drop)),
    ("five", |stage| append(stage, "talk", "five", 1)),
];

/// Makes a checkpoint, as a thread or another program would.
fn checkpoint(stage: &Stage<'_>, how: &str) -> Result<(), Error> {
    let doing = "moving the log into the file";
    let failed = |error: rusqlite::Error| Error::Storage { doing, source: error.into() };
    let db = rusqlite::Connection::open(stage.path(DATABASE)).map_err(failed)?;
    db.query_row(&format!("PRAGMA wal_checkpoint({how})"), [], |_| Ok(())).map_err(failed)
}

const REBUILD: &[Step] = &[
    ("more", |stage| append(stage, "talk", "more", 3)),
    ("rebuild", |stage| stage.store.maintenance().rebuild(&[], &mut |_| ())),
    ("on", |stage| append(stage, "talk", "on", 1)),
    ("catch up", |stage| stage.store.catch_up()),
];

const SEARCH: &[Step] = &[
    ("index", |stage| search(stage, "word")),
    ("more", |stage| append(stage, "talk", "more", 3)),
    ("again", |stage| search(stage, "more")),
    ("rebuild", |stage| stage.store.maintenance().rebuild(&["search"], &mut |_| ())),
];

fn search(stage: &Stage<'_>, word: &str) -> Result<(), Error> {
    stage.store.search(word, &Default::default(), 100, &mut |_| ()).map(drop)
}

const BACKUP: &[Step] = &[
    ("copy", |stage| stage.store.backup().to_file(stage.path("copy.db")).map(drop)),
    ("delete", |stage| stage.store.retention().delete(&id("other")).map(drop)),
    ("more", |stage| append(stage, "talk", "more", 2)),
    ("copy again", |stage| stage.store.backup().to_file(stage.path("copy.db")).map(drop)),
];

const RESTORE: &[Step] = &[("restore", |stage| {
    let restored = stage.path("restored.db");
    Backup::restore(stage.path("kept"), restored, &RestorePoint::Newest.into(), &mut |_| ()).map(drop)
})];
