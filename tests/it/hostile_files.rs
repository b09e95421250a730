//! Files with hostile names and sizes. Each is exported as it was imported, or it is left out and reported.
#![cfg(unix)]

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::sync::mpsc::{TryRecvError, channel};
use std::time::{Duration, Instant};

use annals::store::{COPY_BYTES_MAX, ObjectKind, TAGS_BYTES_MAX, TITLE_BYTES_MAX, derived_objects};
use annals::transfer::{Exporter, Format, ImportOptions, ImportReport, Importer, discover};
use annals::{ConversationId, Store};
use proptest::prelude::*;
use rusqlite::Connection;
use serde_json::{Value, json};

use crate::support::events::{pause, payload};
use crate::support::folder::{self, Tree, assert_same};
use crate::support::{Scratch, assert_sound, number, still};

fn import_one(store: &Store, path: &Path) -> (ConversationId, ImportReport) {
    let mut reports = Importer::new(store, ImportOptions::default()).import(path, &mut |_| ()).unwrap();
    assert_eq!(reports.len(), 1, "{reports:?}");
    let report = reports.remove(0);
    (report.id.clone().expect("the conversation was imported"), report)
}

/// Writes `tree` as the folder of a conversation, imports it and exports it. Returns the exported tree and the import's
/// report.
fn round_trip(name: &str, tree: &Tree) -> (Tree, ImportReport) {
    let scratch = Scratch::new();
    folder::write(&scratch.path("in").join(name), tree);
    let store = Store::in_memory(&still()).unwrap();
    let (id, report) = import_one(&store, &scratch.path("in"));
    let out = scratch.path("out");
    Exporter::new(&store, Format::OpenHands).export(&id, &out, &mut |_| ()).unwrap();
    assert_sound(&store);
    let only = fs::read_dir(&out).unwrap().next().unwrap().unwrap();
    (folder::read(&only.path()), report)
}

fn talk() -> Tree {
    let mut tree = Tree::new();
    tree.insert("events/event-00000-00000000-0000-4000-8000-000000000000.json".into(), {
        pause("00000000-0000-4000-8000-000000000000").payload().as_bytes().to_vec()
    });
    tree.insert("base_state.json".into(), b"{}".to_vec());
    tree
}

/// Names with a special meaning in some system or program.
const NAMES: &[&str] = &[
    "back\\slash",
    "\\",
    "..\\up",
    "C:\\windows",
    "line\nbreak",
    "tab\tand\u{1b}[31mred",
    "\u{7f}\u{1}",
    "CON",
    "nul.txt",
    "dot.",
    "dots...",
    "...",
    "..two",
    " leading",
    "trailing ",
    "-rf",
    "--help",
    "~",
    "$HOME",
    "%2e%2e%2f",
    "a:b",
    "?*<>|\"'`",
    "#1",
    "\u{202e}txt.exe",
    "e\u{301}",
    "\u{e9}",
    "\u{1f600}",
    "event-00000-x",
    "event-99999999999999999999-x.json",
    "base_state.json.bak",
    ".eventlog.lock",
    ".partial",
    "meta.json.",
];

#[test]
fn a_file_with_any_name_is_exported_as_it_was_imported() {
    let long = ["x".repeat(255), "\u{1f600}".repeat(63), "\\".repeat(255)];
    for name in NAMES.iter().copied().chain(long.iter().map(String::as_str)) {
        let mut tree = talk();
        for place in [name.to_owned(), format!("events/{name}"), format!("kept/{name}/{name}")] {
            tree.insert(place, name.as_bytes().to_vec());
        }
        let (back, _) = round_trip("talk", &tree);
        assert_same(&back, &tree);
    }
}

#[test]
fn a_conversation_in_a_folder_with_any_name_is_exported_as_it_was_imported() {
    for name in NAMES {
        let (back, _) = round_trip(name, &talk());
        assert_same(&back, &talk());
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(48) })]

    #[test]
    fn files_with_random_names_are_exported_as_imported(names in prop::collection::btree_set("[^/\u{0}]{1,40}", 1..6)) {
        let mut tree = talk();
        for name in names.iter().filter(|name| !matches!(name.as_str(), "." | "..") && name.len() <= 255) {
            tree.entry(format!("beside/{name}")).or_insert_with(|| name.as_bytes().to_vec());
        }
        let (back, report) = round_trip("talk", &tree);
        prop_assert_eq!(report.problems, []);
        assert_same(&back, &tree);
    }
}

#[test]
fn a_name_that_is_not_utf8_is_reported_at_every_place() {
    let scratch = Scratch::new();
    let home = scratch.path("in/talk");
    folder::write(&home, &talk());
    let odd = OsStr::from_bytes(b"odd-\xff\xfe");
    fs::write(home.join(odd), "odd").unwrap();
    folder::write(&scratch.path("in").join(odd), &talk());
    let store = Store::in_memory(&still()).unwrap();
    let (_, report) = import_one(&store, &scratch.path("in"));
    let actions: Vec<_> = report.problems.iter().map(|problem| problem.action.as_str()).collect();
    assert_eq!(actions, ["left out"], "{report:?}");
    let ignored = discover(&scratch.path("in"), None).unwrap().ignored;
    assert_eq!(ignored, [scratch.path("in").join(odd)]);
}

/// Creates a file of this size that takes no space on the disk.
fn sparse_file(path: &Path, bytes: u64) {
    fs::File::create(path).unwrap().set_len(bytes).unwrap();
}

#[test]
fn too_large_files_are_reported_and_the_other_files_are_imported() {
    let huge = 600 << 20;
    type Harm = fn(&Path, u64);
    let harms: &[(&str, Harm)] = &[
        ("a file beside", |home, huge| sparse_file(&home.join("core"), huge)),
        ("a file among the events", |home, huge| sparse_file(&home.join("events/event-00001-x.json"), huge)),
        ("a base state", |home, huge| sparse_file(&home.join("base_state.json"), huge)),
        ("a meta file", |home, huge| sparse_file(&home.join("meta.json"), huge)),
    ];
    for (what, harm) in harms {
        let scratch = Scratch::new();
        let home = scratch.path("in/talk");
        folder::write(&home, &talk());
        harm(&home, huge);
        let store = Store::in_memory(&still()).unwrap();
        let (id, report) = import_one(&store, &scratch.path("in"));
        assert_eq!(report.events, 1, "{what}");
        assert!(report.problems.iter().any(|problem| problem.action == "left out"), "{what}: {report:?}");
        assert!(store.attachments(&id).unwrap().iter().all(|file| file.bytes < huge), "{what}");
        Exporter::new(&store, Format::OpenHands).export(&id, &scratch.path("out"), &mut |_| ()).unwrap();
        // A second import adds no event.
        let (_, again) = import_one(&store, &scratch.path("in"));
        assert_eq!(again.added, 0, "{what}");
    }
}

#[test]
fn values_of_a_meta_file_are_bounded_in_the_catalogue() {
    let long = |bytes: usize| "x".repeat(bytes + 1);
    let texts = [
        ("title", format!("\"{}\"", long(TITLE_BYTES_MAX))),
        ("tags", format!("{{\"a\":\"{}\"}}", long(TAGS_BYTES_MAX))),
        ("forked_from_conversation_id", format!("\"{}\"", long(200))),
        ("conversation_id", format!("\"{}\"", long(200))),
        ("parent_conversation_id", format!("\"{}\"", long(200))),
        ("filling", format!("\"{}\"", long(2 << 20))),
    ];
    for (member, value) in texts {
        let mut tree = talk();
        tree.insert("meta.json".into(), format!("{{\"{member}\":{value}}}").into_bytes());
        let scratch = Scratch::new();
        folder::write(&scratch.path("in/talk"), &tree);
        let store = Store::in_memory(&still()).unwrap();
        let (id, report) = import_one(&store, &scratch.path("in"));
        assert!(report.problems.iter().any(|problem| problem.path == "meta.json"), "{member}: {report:?}");
        let row = store.conversation(&id).unwrap();
        assert!(format!("{row:?}").len() < 2000, "{member}");
        let (back, _) = round_trip("talk", &tree);
        assert_same(&back, &tree);
    }
}

const META: &str = "meta.json";
const BASE_STATE: &str = "base_state.json";
const EVENT: &str = "events/event-00001-00000000-0000-4000-8000-000000000001.json";

/// Names of columns, each as `table.column`.
type Columns = &'static [&'static str];

/// A file with a text of 100 kB, and the columns that the text would reach.
struct LongText {
    columns: Columns,
    file: &'static str,
    content: String,
    /// The number of bytes of the text that the columns show at least.
    shown_bytes_min: usize,
    /// Whether the import reports the text.
    is_reported: bool,
}

/// The columns whose text is one of a few words, a list of numbers, or a list of places in a payload.
const WITHOUT_FOREIGN_TEXT: Columns = &[
    "conversation.foreign_format",
    "projection.name",
    "tool_call.outcome",
    "transcript_line.role",
    "transcript_line.parts",
    "usage_total.figures",
];

fn long_texts() -> Vec<LongText> {
    let long = "\u{e9}".repeat(50_000);
    let event = |kind: &str, members: Value| payload("00000000-0000-4000-8000-000000000001", kind, members);
    let beside = |columns: Columns, file: &'static str, content: Value| LongText {
        columns,
        file,
        content: content.to_string(),
        shown_bytes_min: 0,
        is_reported: true,
    };
    let hidden =
        |columns: Columns, content: String| LongText { content, ..beside(columns, EVENT, Value::Null) };
    let begun = |columns: Columns, file: &'static str, content: String| LongText {
        columns,
        file,
        content,
        shown_bytes_min: COPY_BYTES_MAX / 2,
        is_reported: true,
    };
    let metrics = json!({
        "model_name": long,
        "accumulated_cost": 2.0,
        "accumulated_token_usage": {"prompt_tokens": 9, "completion_tokens": 9},
        "token_usages": [{"model": long, "response_id": long, "prompt_tokens": 1, "completion_tokens": 1}],
        "costs": [{"model": long, "cost": 1.0, "timestamp": 0}],
    });
    let usages = json!({"usage_to_metrics": {(long.clone()): metrics}});
    let tasks = json!({"task_list": [{"title": long, "notes": long, "status": long}]});
    let usage = json!({"model": long, "response_id": long, "prompt_tokens": 1});
    let said = json!({"role": "user", "content": [{"type": "text", "text": long}]});
    vec![
        beside(&["conversation.title"], META, json!({"title": long})),
        beside(&["conversation.tags"], META, json!({"tags": {"a": long}})),
        beside(&["conversation.id"], META, json!({"conversation_id": long})),
        beside(&["conversation.forked_from"], META, json!({"forked_from_conversation_id": long})),
        beside(
            &["conversation.forked_at"],
            META,
            json!({"forked_from_conversation_id": "other", "forked_from_event_id": long}),
        ),
        beside(&["conversation.status"], BASE_STATE, json!({"execution_status": long})),
        beside(&["conversation.leaf_event_id"], BASE_STATE, json!({"leaf_event_id": long})),
        beside(&["conversation.tags"], BASE_STATE, json!({"tags": {"a": long}})),
        begun(
            &["usage_entry.usage_id", "usage_entry.model", "usage_entry.response_id"],
            BASE_STATE,
            json!({"stats": usages}).to_string(),
        ),
        hidden(
            &["conversation.first_timestamp", "conversation.last_timestamp"],
            event("PauseEvent", json!({"source": "user", "timestamp": long})),
        ),
        LongText {
            shown_bytes_min: 400,
            is_reported: false,
            ..hidden(
                &["conversation.first_message"],
                event("MessageEvent", json!({"source": "user", "llm_message": said})),
            )
        },
        LongText {
            is_reported: false,
            ..hidden(
                &["tool_call.path"],
                event("ActionEvent", json!({"source": "agent", "tool_name": "t", "action": {"path": long}})),
            )
        },
        begun(
            &["tool_call.risk"],
            EVENT,
            event("ActionEvent", json!({"source": "agent", "tool_name": "t", "security_risk": long})),
        ),
        hidden(&["tool_call.tool"], event("ActionEvent", json!({"source": "agent", "tool_name": long}))),
        begun(
            &["tool_call.tool"],
            EVENT,
            event("ACPToolCallEvent", json!({"source": "agent", "tool_kind": long})),
        ),
        begun(
            &["task.title", "task.notes", "task.status"],
            EVENT,
            event("ObservationEvent", json!({"source": "environment", "observation": tasks})),
        ),
        begun(
            &["usage_entry.usage_id", "usage_entry.model", "usage_total.usage_id"],
            EVENT,
            event(
                "ConversationStateUpdateEvent",
                json!({"source": "environment", "key": "stats", "value": usages}),
            ),
        ),
        begun(
            &["usage_entry.model", "usage_entry.response_id"],
            EVENT,
            event(
                "MessageEvent",
                json!({"source": "agent", "provenance": {"format": "codex", "usage": usage}}),
            ),
        ),
    ]
}

/// Returns the columns of text of the catalogue and of every derived table, as `table.column`.
fn derived_columns(db: &Connection) -> Vec<String> {
    let derived = derived_objects().unwrap().into_iter().filter(|object| object.kind == ObjectKind::Table);
    let tables = ["conversation".to_owned()].into_iter().chain(derived.map(|table| table.name));
    let columns_of = |table: String| {
        let sql = format!("SELECT name FROM pragma_table_info('{table}') WHERE type = 'TEXT'");
        let mut statement = db.prepare(&sql).unwrap();
        let names = statement.query_map([], |row| row.get::<_, String>(0)).unwrap();
        names.map(|name| format!("{table}.{}", name.unwrap())).collect::<Vec<_>>()
    };
    tables.flat_map(columns_of).collect()
}

/// Returns the size of the longest text in a column, in bytes.
fn longest(db: &Connection, column: &str) -> usize {
    let (table, name) = column.split_once('.').unwrap();
    let bytes = number(db, &format!("SELECT coalesce(max(octet_length({name})), 0) FROM {table}"));
    usize::try_from(bytes).unwrap()
}

#[test]
fn every_derived_column_is_bounded_whatever_is_imported() {
    let cases = long_texts();
    let mut columns = Vec::new();
    for LongText { columns: meant, file, content, shown_bytes_min, is_reported } in &cases {
        let mut tree = talk();
        tree.insert((*file).to_owned(), content.clone().into_bytes());
        let scratch = Scratch::new();
        folder::write(&scratch.path("in/talk"), &tree);
        let store = scratch.open_still();
        let (id, report) = import_one(&store, &scratch.path("in"));
        let reported = report.problems.iter().any(|problem| problem.path == *file);
        assert_eq!(reported, *is_reported, "{meant:?}: {report:?}");
        store.catch_up().unwrap();
        let db = scratch.foreign();
        columns = derived_columns(&db);
        for column in &columns {
            let max = if column == "conversation.tags" { TAGS_BYTES_MAX } else { COPY_BYTES_MAX };
            assert!(longest(&db, column) <= max, "{column} by {meant:?}: {}", longest(&db, column));
        }
        for column in *meant {
            let shown = longest(&db, column);
            assert!(shown >= *shown_bytes_min, "{column}: {shown}");
        }
        drop(db);
        assert_sound(&store);
        assert_eq!(store.verify_projections(&mut |_| ()).unwrap().findings, [], "{meant:?}");
        // What is not shown is stored, and is exported as it was.
        let out = scratch.path("out");
        Exporter::new(&store, Format::OpenHands).export(&id, &out, &mut |_| ()).unwrap();
        let only = fs::read_dir(&out).unwrap().next().unwrap().unwrap();
        assert_same(&folder::read(&only.path()), &tree);
    }
    let tried: Vec<&str> = cases.iter().flat_map(|case| case.columns).copied().collect();
    for column in &columns {
        let is_known = tried.contains(&column.as_str()) || WITHOUT_FOREIGN_TEXT.contains(&column.as_str());
        assert!(is_known, "{column}: which text of an import reaches it?");
    }
    for column in tried {
        assert!(columns.iter().any(|known| known == column), "there is no column {column}");
    }
}

/// Replaces a file for a moment by a pipe without a writer, by an endless device or by a link to a missing file.
fn replace_for_a_moment(path: &Path, aside: &Path, round: usize) {
    use rustix::fs::{CWD, FileType, Mode, mknodat};

    let (kept, other) = (aside.join("kept"), aside.join("other"));
    fs::hard_link(path, &kept).unwrap();
    match round % 3 {
        0 => mknodat(CWD, &other, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap(),
        1 => std::os::unix::fs::symlink("/dev/zero", &other).unwrap(),
        _ => std::os::unix::fs::symlink(aside.join("nothing"), &other).unwrap(),
    }
    fs::rename(&other, path).unwrap();
    std::thread::yield_now();
    fs::rename(&kept, path).unwrap();
}

/// The folder has every kind of file that an import reads, in all its formats.
#[test]
fn an_import_does_not_wait_if_a_file_is_replaced_while_it_is_read() {
    const ROUNDS: usize = 30;
    const PATIENCE: Duration = Duration::from_secs(300);
    let scratch = Scratch::new();
    let (whole, aside) = (scratch.path("in"), scratch.path("aside"));
    fs::create_dir(&aside).unwrap();
    for name in
        ["conversations/hello-two-turns", "foreign/claude-code", "foreign/codex", "foreign/openhands-v0"]
    {
        folder::write(&whole.join(name), &folder::read(&folder::golden(name)));
    }
    let files: Vec<_> = folder::read(&whole).into_keys().map(|name| whole.join(name)).collect();
    let (done, finished) = channel::<()>();
    let reads = whole.clone();
    // The import has its own thread, so that the test can report an import that waits for ever.
    let reader = std::thread::spawn(move || {
        for _ in 0..ROUNDS {
            let store = Store::in_memory(&still()).unwrap();
            // The import may find no known format or an unreadable file. It must only end.
            let _answer = Importer::new(&store, ImportOptions::default()).import(&reads, &mut |_| ());
            assert_sound(&store);
        }
        drop(done);
    });
    let begun = Instant::now();
    for round in 0.. {
        if matches!(finished.try_recv(), Err(TryRecvError::Disconnected)) {
            break;
        }
        assert!(begun.elapsed() < PATIENCE, "an import waits for the replacement of a file");
        replace_for_a_moment(&files[round % files.len()], &aside, round / files.len() + round);
    }
    reader.join().unwrap();
    let store = Store::in_memory(&still()).unwrap();
    let reports = Importer::new(&store, ImportOptions::default()).import(&whole, &mut |_| ()).unwrap();
    assert!(reports.len() > 3 && reports.iter().all(|report| report.id.is_some()), "{reports:?}");
}
