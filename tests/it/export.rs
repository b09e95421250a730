//! Exports from damaged files: every conversation whose own data can be read is exported as it was, the others are
//! reported, and nothing incomplete is written. Exports of conversations that are being written are of one moment.

use std::fs;
use std::io::{Seek as _, SeekFrom, Write as _};
use std::path::Path;

use annals::state::FieldChange;
use annals::store::{BaseStateChange, Durability};
use annals::transfer::{ExportOutcome, ExportStatus, Exporter, Format, ImportOptions, Importer};
use annals::{Error, Expected, Options, Store};
use rusqlite::Connection;
use serde_json::json;

use crate::support::events::{command, event, printed, user_message};
use crate::support::folder::{self, Tree, assert_same};
use crate::support::{Scratch, conversation};

/// Options without background work and without waits for the disk.
fn quick() -> Options {
    crate::support::without_projector().durability(Durability::Normal)
}

/// Makes a file with rows in most tables, and closes it: an import with its files, an archive, a parent with the
/// conversation of a sub-agent, a base state, and a search index.
pub fn template(scratch: &Scratch) {
    let store = Store::open_with(scratch.database(), &quick()).unwrap();
    for golden in ["conversations/hello-two-turns", "corrupt/torn-partial-last"] {
        let mut importer = Importer::new(&store, ImportOptions::default());
        importer.import(&folder::golden(golden), &mut |_| ()).unwrap();
    }
    for id in ["parent", "child", "alone"] {
        let events = [
            user_message("a", "find me"),
            command("b", "call", "make"),
            printed("c", "b", "call", "fine", 0),
        ];
        store.append(&conversation(id), Expected::Empty, &events).unwrap();
    }
    store.set_parent(&conversation("child"), &conversation("parent")).unwrap();
    store.set_title(&conversation("alone"), Some("a title")).unwrap();
    for status in ["\"running\"", "\"finished\""] {
        let fields = vec![FieldChange::set("execution_status", status).unwrap()];
        store.save_base_state(&conversation("alone"), BaseStateChange::new(fields)).unwrap();
    }
    store.retention().archive(&[conversation("alone")], None, &mut |_| ()).unwrap();
    store.search("find", &Default::default(), 1, &mut |_| ()).unwrap();
    store.catch_up().unwrap();
    drop(store);
    empty_log(&scratch.database());
}

/// Moves everything into the file, so that the file alone can be copied and damaged.
fn empty_log(path: &Path) {
    let db = Connection::open(path).unwrap();
    db.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).unwrap();
}

/// A table or an index.
pub struct Root {
    pub name: String,
    /// The table that it belongs to.
    pub table: String,
    /// Its first page, from 1.
    page: u64,
}

/// Every table and index of a file.
pub fn roots(path: &Path) -> Vec<Root> {
    let db = Connection::open(path).unwrap();
    let mut statement =
        db.prepare("SELECT name, tbl_name, rootpage FROM sqlite_schema WHERE rootpage > 1").unwrap();
    let read = |row: &rusqlite::Row<'_>| {
        let page: i64 = row.get(2)?;
        Ok(Root { name: row.get(0)?, table: row.get(1)?, page: page.unsigned_abs() })
    };
    statement.query_map([], read).unwrap().collect::<rusqlite::Result<_>>().unwrap()
}

const PAGE_BYTES: usize = 4096;

/// Overwrites a page with noise.
fn overwrite(path: &Path, page: u64) {
    let mut noise = page;
    let bytes: Vec<u8> = (0..PAGE_BYTES)
        .map(|_| {
            noise = noise.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (noise >> 56) as u8
        })
        .collect();
    let mut file = fs::OpenOptions::new().write(true).open(path).unwrap();
    file.seek(SeekFrom::Start((page - 1) * PAGE_BYTES as u64)).unwrap();
    file.write_all(&bytes).unwrap();
}

/// Copies the file to `to` and overwrites the first page of a table or index in the copy.
pub fn damaged_copy(template: &Path, to: &Path, root: &Root) {
    fs::copy(template, to).unwrap();
    overwrite(to, root.page);
}

/// Overwrites the pages with rows that have the text `marker`. Returns the number of these pages.
fn overwrite_pages_with(path: &Path, marker: &str) -> usize {
    /// The first byte of a page with rows of a table. A page that is something else now may still have old bytes.
    const TABLE_LEAF: u8 = 13;
    let file = fs::read(path).unwrap();
    let has_marker = |page: &[u8]| page.windows(marker.len()).any(|bytes| bytes == marker.as_bytes());
    let mut overwritten = 0;
    for (number, page) in (1..).zip(file.chunks(PAGE_BYTES)) {
        if page[0] == TABLE_LEAF && has_marker(page) {
            overwrite(path, number);
            overwritten += 1;
        }
    }
    overwritten
}

/// Opens a file as the commands do: for reading if damage keeps it from being opened for writing.
#[track_caller]
pub fn open_damaged(path: &Path) -> Store {
    let opened = match Store::open_with(path, &quick()) {
        Err(Error::Corrupt { .. }) => Store::open_with(path, &Options::default().read_only(true)),
        opened => opened,
    };
    opened.unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Exports every conversation into the folder `to`. Returns the outcome and what was written.
#[track_caller]
fn export_all(path: &Path, to: &Path) -> (ExportOutcome, Tree) {
    let store = open_damaged(path);
    let exporter = Exporter::new(&store, Format::OpenHands);
    let what = path.display();
    let selection = exporter.select_all().unwrap_or_else(|error| panic!("{what}: {error}"));
    let outcome = exporter.export_each(&selection, to, &mut |_| ());
    let outcome = outcome.unwrap_or_else(|error| panic!("{what}: {error}"));
    let written = if to.exists() { folder::read(to) } else { Tree::new() };
    (outcome, written)
}

/// The tables that hold data of conversations, or by which the data of a conversation is found.
const OWN: &[&str] = &[
    "conversation",
    "event",
    "base_state",
    "base_state_change",
    "origin",
    "event_file",
    "blob",
    "attachment",
    "archived_payload",
    "archived_conversation",
    "archive_dictionary",
    "admin_act",
    "admin_receipt",
];

/// Indexes of these tables that no export needs.
const NOT_NEEDED: &[&str] = &[
    "conversation_by_creation",
    "conversation_by_update",
    "event_by_rare_kind",
    "sqlite_autoindex_event_2",
    "origin_by_folder",
    "sqlite_autoindex_blob_1",
    "attachment_by_blob",
    "admin_act_by_conversation",
];

#[test]
fn damage_that_concerns_no_conversation_keeps_none_from_being_exported() {
    let scratch = Scratch::new();
    template(&scratch);
    let (outcome, wanted) = export_all(&scratch.database(), &scratch.path("wanted"));
    assert!(outcome.failed.is_empty() && outcome.damage.is_empty(), "{outcome:?}");
    assert_eq!(outcome.reports.len(), 4, "the conversation of the sub-agent is within that of its parent");
    let (mut unconcerned, mut reported) = (0, 0);
    for root in roots(&scratch.database()) {
        let what = &root.name;
        let path = scratch.path(&format!("{what}.db"));
        damaged_copy(&scratch.database(), &path, &root);
        let (outcome, written) = export_all(&path, &scratch.path(what));
        let is_own = OWN.contains(&&*root.table) && !NOT_NEEDED.contains(&&*root.name);
        if !is_own {
            assert!(outcome.failed.is_empty() && outcome.damage.is_empty(), "{what}: {outcome:?}");
            assert_same(&written, &wanted);
            unconcerned += 1;
            continue;
        }
        // Each conversation is written or reported. What was written is the same as from the undamaged file.
        for path in written.keys() {
            assert!(!path.contains(".partial"), "{what}: {path}");
        }
        for (path, content) in &written {
            // A sub-agent's conversation may be written on its own.
            let within = format!("/{path}");
            let same = wanted.iter().any(|(other, wanted)| {
                wanted == content && (other == path || format!("/{other}").ends_with(&within))
            });
            assert!(same, "{what}: {path}");
        }
        let done = outcome.reports.len() + outcome.failed.len();
        assert!((4..=5).contains(&done), "{what}: {outcome:?}");
        reported += outcome.failed.len();
    }
    assert!(unconcerned > 30, "only {unconcerned} were tried");
    assert!(reported > 10, "only {reported} were reported");
}

/// Damages pages with rows of one conversation, for a parent, a sub-agent and another conversation.
#[test]
fn a_conversation_with_a_damaged_page_is_reported_and_the_others_are_exported() {
    let scratch = Scratch::new();
    let store = Store::open_with(scratch.database(), &quick()).unwrap();
    let ids = ["parent", "child", "alone", "other"];
    for id in ids {
        // One event fills a page. Its text is in no derived table.
        let text = format!("marker-of-{id} ").repeat(3500 / (id.len() + 11));
        let events: Vec<_> = (0..3)
            .map(|n| event(&format!("e{n}"), "PauseEvent", json!({"source": "user", "note": text})))
            .collect();
        store.append(&conversation(id), Expected::Empty, &events).unwrap();
    }
    store.set_parent(&conversation("child"), &conversation("parent")).unwrap();
    drop(store);
    empty_log(&scratch.database());
    for damaged in ids {
        let path = scratch.path(&format!("{damaged}.db"));
        fs::copy(scratch.database(), &path).unwrap();
        assert!(overwrite_pages_with(&path, &format!("marker-of-{damaged}")) >= 3);
        let (outcome, written) = export_all(&path, &scratch.path(damaged));
        let failed: Vec<&str> = outcome.failed.iter().map(|(id, _)| id.as_str()).collect();
        assert_eq!(failed, [damaged]);
        assert!(matches!(outcome.failed[0].1, Error::Corrupt { .. }), "{outcome:?}");
        let is_of_a_family = ["parent", "child"].contains(&damaged);
        assert_eq!(outcome.damage.is_empty(), !is_of_a_family, "{outcome:?}");
        let mut exported: Vec<&str> = outcome.reports.iter().map(|report| report.id.as_str()).collect();
        exported.sort_unstable();
        let mut wanted: Vec<&str> = ids.into_iter().filter(|id| *id != damaged).collect();
        if !is_of_a_family {
            wanted.retain(|id| *id != "child"); // it is within the folder of its parent
        }
        wanted.sort_unstable();
        assert_eq!(exported, wanted);
        // All other events were written, each in a file of its own.
        for id in ids {
            let marker = format!("marker-of-{id} ");
            let has_marker =
                |content: &&Vec<u8>| content.windows(marker.len()).any(|bytes| bytes == marker.as_bytes());
            let files = written.values().filter(has_marker).count();
            assert_eq!(files, if id == damaged { 0 } else { 3 }, "{damaged}: {id}");
        }
    }
}

#[test]
fn a_title_that_cannot_be_read_ends_no_export() {
    let scratch = Scratch::new();
    template(&scratch);
    let (_, wanted) = export_all(&scratch.database(), &scratch.path("wanted"));
    let sql = "UPDATE conversation SET title = CAST(x'ff00' AS TEXT) WHERE id = 'alone'";
    assert_eq!(scratch.foreign().execute(sql, []).unwrap(), 1);
    let (outcome, written) = export_all(&scratch.database(), &scratch.path("written"));
    assert!(outcome.failed.is_empty() && outcome.damage.is_empty(), "{outcome:?}");
    assert_same(&written, &wanted);
}

/// Parents that form a circle have no folder that can hold the others.
#[test]
fn conversations_that_are_sub_agents_of_each_other_are_exported_once_each() {
    let scratch = Scratch::new();
    template(&scratch);
    let db = scratch.foreign();
    db.execute_batch(
        "UPDATE conversation SET parent = (SELECT key FROM conversation WHERE id = 'child') WHERE id = 'parent'",
    )
    .unwrap();
    drop(db);
    let (outcome, _) = export_all(&scratch.database(), &scratch.path("out"));
    let mut exported: Vec<&str> = outcome.reports.iter().map(|report| report.id.as_str()).collect();
    exported.sort_unstable();
    exported.dedup();
    assert_eq!((exported.len(), outcome.reports.len(), outcome.failed.len()), (5, 5, 0), "{outcome:?}");
}

#[cfg(feature = "cli")]
#[test]
fn the_command_exports_what_it_can_and_its_exit_code_says_whether_that_is_all() {
    let program = crate::cli::Program::with_goldens();
    let file = program.folder.path().join("annals.db");
    empty_log(&file);
    let root = |name: &str| roots(&file).into_iter().find(|root| root.name == name).unwrap();
    for (number, name) in ["projection", "conversation_by_creation", "log"].into_iter().enumerate() {
        let (copy, to) = (format!("{number}.db"), format!("out-{number}"));
        damaged_copy(&file, &program.folder.path().join(&copy), &root(name));
        let report = program.json(&["--db", &copy, "export", "--all", "--to", &to]);
        assert_eq!(report["conversations"].as_array().unwrap().len(), 10, "{name}");
        assert_eq!(report["damage"], json!([]), "{name}");
    }
    damaged_copy(&file, &program.folder.path().join("torn.db"), &root("event_file"));
    let output = program.run(&["--json", "--db", "torn.db", "export", "--all", "--to", "out-torn"]);
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let all = report["conversations"].as_array().unwrap();
    let refused = all.iter().filter(|one| one["status"] == "refused" && one["error"].is_string()).count();
    assert!(all.len() == 10 && refused > 0, "{report}");
}

#[test]
fn an_export_has_the_base_state_of_its_last_event_if_another_appends_meanwhile() {
    let numbered = |place: u64| uuid::Uuid::from_u128(u128::from(place)).to_string();
    for format in [Format::OpenHands, Format::Upgraded] {
        // More than one page of events.
        for length in [2, 1_500] {
            let scratch = Scratch::new();
            let store = Store::open_with(scratch.database(), &quick()).unwrap();
            let other = Store::open_with(scratch.database(), &quick()).unwrap();
            let talk = conversation("talk");
            let events: Vec<_> =
                (0..length).map(|place| user_message(&numbered(place), "one of many")).collect();
            store.append(&talk, Expected::Empty, &events).unwrap();
            let fields = vec![FieldChange::set("execution_status", "\"idle\"").unwrap()];
            store.save_base_state(&talk, BaseStateChange::new(fields)).unwrap();
            let mut progress = |count| {
                if count == 1 {
                    other
                        .append(
                            &talk,
                            Expected::Any,
                            &[user_message(&numbered(length), "appended meanwhile")],
                        )
                        .unwrap();
                }
            };
            let report =
                Exporter::new(&store, format).export(&talk, &scratch.path("out"), &mut progress).unwrap();
            assert_eq!(report.events, length, "{format:?}");
            let files = fs::read_dir(report.path.join("events")).unwrap().count() as u64;
            assert_eq!(files, length, "{format:?}");
            let state = fs::read_to_string(report.path.join("base_state.json")).unwrap();
            let state: serde_json::Value = serde_json::from_str(&state).unwrap();
            assert_eq!(state["leaf_event_id"], numbered(length - 1), "{format:?}");
        }
    }
}

/// What a killed process leaves beside the folder or the file `name`: as it is left today, and by earlier versions.
#[cfg(unix)]
fn leave(to: &Path, name: &str, whole: &Path) {
    for partial in [format!(".{name}.0a1b2c3d.partial/content"), format!(".{name}.4711.partial")] {
        folder::write(&to.join(partial), &folder::read(whole));
    }
}

#[cfg(unix)]
fn partials(to: &Path) -> Vec<String> {
    let names = fs::read_dir(to).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.filter(|name| name.ends_with(".partial")).collect()
}

#[cfg(unix)]
#[test]
fn what_a_killed_export_left_is_no_conversation_and_the_next_export_removes_it() {
    let scratch = Scratch::new();
    let store = scratch.open_without_projector();
    let golden = folder::golden("conversations/hello-two-turns");
    Importer::new(&store, ImportOptions::default()).import(&golden, &mut |_| ()).unwrap();
    let to = scratch.path("out");
    leave(&to, "hello-two-turns", &golden);
    folder::write(&to.join("whole"), &folder::read(&golden));

    let discovery = annals::transfer::discover(&to, None).unwrap();
    let found: Vec<&str> = discovery.found.iter().map(|found| found.folder.as_str()).collect();
    assert_eq!((found, discovery.ignored.len()), (vec!["whole"], 2), "{:?}", discovery.ignored);
    assert!(discovery.ignored.iter().all(|ignored| ignored.reason.starts_with("unfinished")));

    for format in [Format::OpenHands, Format::Upgraded, Format::Jsonl] {
        let exporter = Exporter::new(&store, format);
        let selection = exporter.select_all().unwrap();
        let id = &selection.conversations[0];
        let name = exporter.export(id, &scratch.path(&format!("{format:?}")), &mut |_| ()).unwrap().path;
        let name = name.file_name().unwrap().to_str().unwrap();
        for is_all in [false, true] {
            leave(&to, name, &golden);
            fs::write(to.join(format!(".{name}.12.partial")), "a file of an earlier version").unwrap();
            assert!(partials(&to).len() >= 3);
            if is_all {
                let outcome = exporter.export_each(&selection, &to, &mut |_| ()).unwrap();
                assert_eq!((outcome.reports.len(), outcome.failed.len()), (1, 0));
            } else {
                exporter.export(id, &to, &mut |_| ()).unwrap();
            }
            assert_eq!(partials(&to), [""; 0], "{format:?}");
        }
    }
}

#[cfg(unix)]
#[test]
fn an_export_that_runs_keeps_its_unfinished_folder_from_another() {
    let scratch = Scratch::new();
    let store = scratch.open_without_projector();
    let (talk, to) = (conversation("talk"), scratch.path("out"));
    let events: Vec<_> = (0..3).map(|place| user_message(&format!("{place}"), "one of many")).collect();
    store.append(&talk, Expected::Empty, &events).unwrap();
    let exporter = Exporter::new(&store, Format::OpenHands);
    let mut progress = |count| {
        if count == 1 {
            let before = partials(&to);
            exporter.export(&talk, &to, &mut |_| ()).unwrap();
            assert_eq!((before.len(), partials(&to)), (1, before));
        }
    };
    let report = exporter.export(&talk, &to, &mut progress).unwrap();
    assert_eq!((report.status, report.events), (ExportStatus::Unchanged, 3));
    assert_eq!(partials(&to), [""; 0]);
}
