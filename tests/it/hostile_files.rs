//! Files with hostile names and sizes. Each is exported as it was imported, or it is left out and reported.
#![cfg(unix)]

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::sync::mpsc::{RecvTimeoutError, TryRecvError, channel};
use std::time::{Duration, Instant};

use annals::event::ForeignFormat;
use annals::store::{COPY_BYTES_MAX, ObjectKind, TAGS_BYTES_MAX, TITLE_BYTES_MAX, derived_objects};
use annals::transfer::{
    Exporter, Format, ImportOptions, ImportReport, ImportStatus, Importer, SourceFormat, discover,
};
use annals::{ConversationId, Error, Store};
use proptest::prelude::*;
use rusqlite::Connection;
use serde_json::{Value, json};

use crate::support::events::{pause, payload};
use crate::support::folder::{self, Tree, assert_same};
use crate::support::{Scratch, assert_sound, number, without_projector};

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
    let store = Store::in_memory(&without_projector()).unwrap();
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
    let store = Store::in_memory(&without_projector()).unwrap();
    let (_, report) = import_one(&store, &scratch.path("in"));
    let actions: Vec<_> = report.problems.iter().map(|problem| problem.action.as_str()).collect();
    assert_eq!(actions, ["left out"], "{report:?}");
    let ignored = discover(&scratch.path("in"), None).unwrap().ignored;
    let ignored: Vec<_> = ignored.into_iter().map(|ignored| (ignored.path, ignored.reason)).collect();
    assert_eq!(ignored, [(scratch.path("in").join(odd), "its name is not Unicode".to_owned())]);
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
        let store = Store::in_memory(&without_projector()).unwrap();
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
        let store = Store::in_memory(&without_projector()).unwrap();
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
    "conversation_fact.source",
    "conversation.foreign_format",
    "conversation_clue.what",
    "projection.name",
    // A state is kept only if it has at most 1 MiB: `snapshots::a_large_state_is_kept_more_rarely_and_a_very_large_one_not`.
    "state_snapshot.branch",
    "state_snapshot.whole",
    "tool_call.network",
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
        LongText {
            is_reported: false,
            ..begun(
                &["conversation_fact.workspace"],
                BASE_STATE,
                json!({"workspace": {"working_dir": long}}).to_string(),
            )
        },
        LongText {
            is_reported: false,
            ..begun(
                &["conversation_fact.model"],
                BASE_STATE,
                json!({"agent": {"llm": {"model": long}}}).to_string(),
            )
        },
        LongText {
            is_reported: false,
            ..begun(&["conversation_fact.started_by"], META, json!({"user_id": long}).to_string())
        },
        begun(
            &["conversation_clue.value"],
            EVENT,
            event(
                "MessageEvent",
                json!({"source": "agent", "provenance": {"format": "codex", "usage": usage}}),
            ),
        ),
        begun(
            &["usage_entry.usage_id", "usage_entry.model", "usage_entry.response_id"],
            BASE_STATE,
            json!({"stats": usages}).to_string(),
        ),
        begun(
            &["correlation.correlation_id", "correlation.causation_id"],
            EVENT,
            event("PauseEvent", json!({"source": "user", "correlation_id": long, "causation_id": long})),
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
        hidden(
            &["tool_call.path"],
            event("ActionEvent", json!({"source": "agent", "tool_name": "t", "action": {"path": long}})),
        ),
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
            &["usage_entry.model", "usage_entry.response_id", "usage_entry.call"],
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
        let store = scratch.open_without_projector();
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
        assert_eq!(store.audit().verify_projections(&mut |_| ()).unwrap().findings, [], "{meant:?}");
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
            let store = Store::in_memory(&without_projector()).unwrap();
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
    let store = Store::in_memory(&without_projector()).unwrap();
    let reports = Importer::new(&store, ImportOptions::default()).import(&whole, &mut |_| ()).unwrap();
    assert!(reports.len() > 3 && reports.iter().all(|report| report.id.is_some()), "{reports:?}");
}

/// Members that are copied from events of some kinds, in events from which no table copies them.
#[test]
fn a_long_text_that_no_table_copies_is_not_reported() {
    let long = "x".repeat(COPY_BYTES_MAX + 1);
    let tasks = json!({"task_list": [{"title": long, "notes": long, "status": long}]});
    let call = json!({"model": long, "response_id": long, "prompt_tokens": 1, "completion_tokens": 1});
    let usages = json!({"usage_to_metrics": {(long.clone()): {"model_name": long}}});
    let of_calls = json!({"usage_to_metrics": {"agent": {"token_usages": [call.clone()]}}});
    for (kind, mut members) in [
        ("ActionEvent", json!({"tool_name": "t", "tool_kind": long})),
        ("ActionEvent", json!({"tool_name": "t", "observation": tasks})),
        ("ObservationEvent", json!({"tool_name": "t", "security_risk": long, "path": long})),
        ("ObservationEvent", json!({"tool_name": "t", "observation": {"path": long}})),
        ("MessageEvent", json!({"security_risk": long, "tool_kind": long, "action": {"path": long}})),
        ("MessageEvent", json!({"provenance": {"format": "none", "usage": call}})),
        ("MessageEvent", json!({"key": "stats", "value": usages})),
        ("ConversationStateUpdateEvent", json!({"key": "other", "value": usages})),
        ("ConversationStateUpdateEvent", json!({"key": "full_state", "value": usages})),
        ("ConversationStateUpdateEvent", json!({"key": "stats", "value": of_calls})),
    ] {
        members["source"] = "agent".into();
        let mut tree = talk();
        let text = payload("00000000-0000-4000-8000-000000000001", kind, members);
        tree.insert(EVENT.into(), text.into_bytes());
        let scratch = Scratch::new();
        folder::write(&scratch.path("in/talk"), &tree);
        let store = scratch.open_without_projector();
        let (_, report) = import_one(&store, &scratch.path("in"));
        assert_eq!((report.events, report.problems), (2, Vec::new()), "{kind}");
        store.catch_up().unwrap();
        let db = scratch.foreign();
        for column in derived_columns(&db) {
            assert!(longest(&db, &column) < 1000, "{kind} {column}");
        }
    }
}

/// The second id is the text that tables show for the first one.
#[test]
fn two_usage_ids_of_which_one_looks_like_the_other_cut_are_two() {
    let long = "x".repeat(5000);
    let scratch = Scratch::new();
    let store = scratch.open_without_projector();
    let update = |number: u64, ids: &[(&str, u64)]| {
        let metrics = |tokens: u64| json!({"accumulated_token_usage": {"prompt_tokens": tokens}});
        let usages: serde_json::Map<String, Value> =
            ids.iter().map(|(id, tokens)| ((*id).to_owned(), metrics(*tokens))).collect();
        let id = format!("00000000-0000-4000-8000-00000000000{number}");
        let value = json!({"usage_to_metrics": usages});
        let members = json!({"source": "environment", "key": "stats", "value": value});
        let file = format!("events/event-0000{number}-{id}.json");
        (file, payload(&id, "ConversationStateUpdateEvent", members).into_bytes())
    };
    // What a table shows of the long id is read from a store, not made here.
    let mut tree = talk();
    tree.extend([update(1, &[(&*long, 1)])]);
    folder::write(&scratch.path("first/talk"), &tree);
    let (first, _) = import_one(&store, &scratch.path("first"));
    store.catch_up().unwrap();
    let shown: String = scratch
        .foreign()
        .query_row("SELECT usage_id FROM usage WHERE conversation_id = ?1", [first.as_str()], |row| {
            row.get(0)
        })
        .unwrap();
    assert!(shown.len() <= COPY_BYTES_MAX && long.starts_with(&shown[..100]));

    let mut tree = talk();
    for (number, figures) in [(1, [(&*long, 100), (&*shown, 10)]), (2, [(&*long, 150), (&*shown, 20)])] {
        tree.extend([update(number, &figures)]);
        folder::write(&scratch.path("second/other"), &tree);
        import_one(&store, &scratch.path("second"));
        store.catch_up().unwrap();
    }
    assert_eq!(store.audit().verify_projections(&mut |_| ()).unwrap().findings, []);
    let of_other = "SELECT sum(prompt_tokens) FROM usage WHERE conversation_id = 'other'";
    assert_eq!(number(&scratch.foreign(), of_other), 170);
    assert_sound(&store);
}

/// Creates something at `path` that is no regular file.
fn plant(path: &Path, what: &str) {
    use rustix::fs::{CWD, FileType, Mode, mknodat};
    use std::os::unix::fs::symlink;

    let aside = path.with_extension("aside");
    match what {
        "a folder" => fs::create_dir(path).unwrap(),
        "a link to an endless device" => symlink("/dev/zero", path).unwrap(),
        "a pipe" => mknodat(CWD, path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap(),
        _ => {
            mknodat(CWD, &aside, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
            symlink(aside, path).unwrap();
        }
    }
}

#[test]
fn an_import_does_not_open_a_pipe_as_a_database_or_beside_one() {
    const PATIENCE: Duration = Duration::from_secs(120);
    let (done, finished) = channel();
    // The imports have their own thread, so that the test can report one that waits for ever.
    std::thread::spawn(move || {
        let database = folder::golden("foreign/openai-agents").join("sessions.db");
        let wanted = Some(SourceFormat::Foreign(ForeignFormat::OpenAiAgents));
        for ending in ["", "-wal", "-journal", "-shm"] {
            for what in ["a pipe", "a link to a pipe", "a link to an endless device", "a folder"] {
                let scratch = Scratch::new();
                let file = scratch.path("in/x.db");
                fs::create_dir(scratch.path("in")).unwrap();
                if !ending.is_empty() {
                    fs::copy(&database, &file).unwrap();
                }
                plant(&scratch.path(&format!("in/x.db{ending}")), what);
                for (path, format) in [(&file, wanted), (&file, None), (&scratch.path("in"), None)] {
                    done.send(format!("{what} at x.db{ending}, {format:?}, {}", path.display())).unwrap();
                    let store = Store::in_memory(&without_projector()).unwrap();
                    let options = ImportOptions::default().format(format);
                    // The import may find nothing, or report an unreadable file. It must only end.
                    let _answer = Importer::new(&store, options).import(path, &mut |_| ());
                    assert_eq!(store.count_conversations(&Default::default()).unwrap(), 0, "{what} {ending}");
                }
            }
        }
    });
    let mut last = Vec::new();
    loop {
        match finished.recv_timeout(PATIENCE) {
            Ok(case) => last.push(case),
            Err(RecvTimeoutError::Disconnected) => break,
            Err(RecvTimeoutError::Timeout) => panic!("this import waits: {:?}", last.last()),
        }
    }
    assert_eq!(last.len(), 4 * 4 * 3, "{:?}", last.last());
}

#[test]
fn a_database_is_read_without_writing_into_its_folder() {
    let scratch = Scratch::new();
    let live = scratch.path("live/x.db");
    fs::create_dir(scratch.path("live")).unwrap();
    let db = Connection::open(&live).unwrap();
    let add = "INSERT INTO agent_messages (session_id, message_data) \
               VALUES ('one', '{\"role\": \"user\", \"content\": \"Hi.\"}')";
    db.execute_batch(&format!(
        "PRAGMA journal_mode = WAL;
         CREATE TABLE agent_messages (id INTEGER PRIMARY KEY, session_id TEXT, message_data TEXT);
         {add}; PRAGMA wal_checkpoint(TRUNCATE); {add}"
    ))
    .unwrap();
    // The second message is only in the log. The first record is the schema.
    let cases: [(&[&str], u64); 4] =
        [(&[""], 2), (&["", "-wal"], 3), (&["", "-wal", "-shm"], 3), (&["", "-shm"], 2)];
    for (endings, records) in cases {
        let name = format!("in{}", endings.concat());
        fs::create_dir(scratch.path(&name)).unwrap();
        for ending in endings {
            let to = scratch.path(&format!("{name}/x.db{ending}"));
            fs::copy(scratch.path(&format!("live/x.db{ending}")), to).unwrap();
        }
        let before = folder::read(&scratch.path(&name));
        let store = Store::in_memory(&without_projector()).unwrap();
        let (_, report) = import_one(&store, &scratch.path(&name));
        assert_eq!(report.records, records, "{endings:?}");
        assert_same(&folder::read(&scratch.path(&name)), &before);
    }
    // A rollback journal that a program has left empty.
    let other = scratch.path("other");
    fs::create_dir(&other).unwrap();
    for mode in [1, 2] {
        let mut bytes = fs::read(scratch.path("in/x.db")).unwrap();
        (bytes[18], bytes[19]) = (mode, mode);
        fs::write(other.join("x.db"), bytes).unwrap();
        fs::write(other.join("x.db-journal"), "").unwrap();
        let before = folder::read(&other);
        let store = Store::in_memory(&without_projector()).unwrap();
        assert_eq!(import_one(&store, &other).1.records, 2);
        assert_same(&folder::read(&other), &before);
    }
    // A program has the database open. Here it is this process, so both connections share the index.
    let files = || {
        let mut files = folder::read(&scratch.path("live"));
        assert!(files.remove("x.db-shm").is_some());
        files
    };
    let before = files();
    let store = Store::in_memory(&without_projector()).unwrap();
    assert_eq!(import_one(&store, &scratch.path("live")).1.records, 3);
    assert_same(&files(), &before);
    db.execute_batch(add).unwrap();
    assert_eq!(import_one(&store, &scratch.path("live")).1.added, 1);
    // The log beside an empty file stays.
    fs::create_dir(scratch.path("empty")).unwrap();
    fs::write(scratch.path("empty/x.db"), "").unwrap();
    fs::copy(scratch.path("live/x.db-wal"), scratch.path("empty/x.db-wal")).unwrap();
    let before = folder::read(&scratch.path("empty"));
    let format = Some(SourceFormat::Foreign(ForeignFormat::OpenAiAgents));
    assert_eq!(discover(&scratch.path("empty/x.db"), format).unwrap().found, []);
    assert_same(&folder::read(&scratch.path("empty")), &before);
}

#[test]
fn keys_that_several_tables_share_are_read_in_little_time() {
    const KEYS: u64 = 64_000;
    let scratch = Scratch::new();
    let path = scratch.path("x.db");
    let db = Connection::open(&path).unwrap();
    for table in ["one", "two"] {
        db.execute_batch(&format!(
            "CREATE TABLE {table} (session_id TEXT, message_data TEXT);
             WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {KEYS})
             INSERT INTO {table} SELECT 'session ' || i, '{{}}' FROM n"
        ))
        .unwrap();
    }
    drop(db);
    let begun = Instant::now();
    let found = discover(&path, None).unwrap().found;
    assert_eq!(found.len() as u64, KEYS);
    // If each key were compared with all others, it would take more than twice as long.
    assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
    let other = Some(SourceFormat::Foreign(ForeignFormat::LangGraph));
    assert!(matches!(discover(&path, other), Err(Error::Input(_))));
}

#[test]
fn the_first_problems_of_a_folder_are_listed_and_the_others_are_counted() {
    let scratch = Scratch::new();
    let home = scratch.path("in/talk");
    folder::write(&home, &talk());
    for number in 0..150 {
        std::os::unix::fs::symlink("/nowhere", home.join(format!("link {number}"))).unwrap();
    }
    let store = Store::in_memory(&without_projector()).unwrap();
    let (id, report) = import_one(&store, &scratch.path("in"));
    assert_eq!(report.problems.len(), 101);
    let last = report.problems.last().unwrap();
    assert_eq!((&*last.problem, &*last.action), ("50 more problems were found", "not listed"));
    assert_eq!(store.problems(&id).unwrap(), report.problems);
}

#[test]
fn files_beside_a_folders_events_are_kept_when_it_has_grown_unless_the_option_is_set() {
    type Change = fn(&Path);
    let changes: [(&str, Option<&str>, Change); 7] = [
        ("a missing file", Some("it is not there any more"), |home| {
            fs::remove_file(home.join("observations/o.txt")).unwrap();
        }),
        ("a missing folder", Some("it is not there any more"), |home| {
            fs::remove_dir_all(home.join("observations")).unwrap();
        }),
        ("other content", Some("it is not the file that was imported"), |home| {
            fs::write(home.join("observations/o.txt"), "other").unwrap();
        }),
        ("a folder in its place", Some("it is not there any more"), |home| {
            fs::remove_file(home.join("observations/o.txt")).unwrap();
            folder::write(&home.join("observations/o.txt"), &Tree::from([("new".into(), b"new".to_vec())]));
        }),
        ("more content", None, |home| {
            fs::write(home.join("observations/o.txt"), "the result and the rest").unwrap();
        }),
        ("a new file", None, |home| fs::write(home.join("observations/new.txt"), "new").unwrap()),
        ("another state", None, |home| fs::write(home.join("TASKS.json"), "[1]").unwrap()),
    ];
    for (what, problem, change) in changes {
        for accept_changed_files in [false, true] {
            let scratch = Scratch::new();
            let home = scratch.path("in/talk");
            let mut tree = talk();
            tree.insert("observations/o.txt".into(), b"the result".to_vec());
            tree.insert("TASKS.json".into(), b"[]".to_vec());
            folder::write(&home, &tree);
            let store = Store::in_memory(&without_projector()).unwrap();
            let (id, _) = import_one(&store, &scratch.path("in"));
            change(&home);
            fs::write(home.join(EVENT), pause("00000000-0000-4000-8000-000000000001").payload()).unwrap();
            let options = ImportOptions::default().accept_changed_files(accept_changed_files);
            let reports = Importer::new(&store, options).import(&scratch.path("in"), &mut |_| ()).unwrap();
            assert_eq!((reports[0].status, reports[0].added), (ImportStatus::Updated, 1), "{what}");
            let expected = problem.filter(|_| !accept_changed_files);
            let of_file = reports[0].problems.iter().find(|found| found.path == "observations/o.txt");
            assert_eq!(of_file.map(|found| &*found.problem), expected, "{what}: {reports:?}");
            let out = scratch.path("out");
            Exporter::new(&store, Format::OpenHands).export(&id, &out, &mut |_| ()).unwrap();
            let mut back = folder::read(&fs::read_dir(&out).unwrap().next().unwrap().unwrap().path());
            let mut there = folder::read(&home);
            if expected.is_some() {
                assert_eq!(back.remove("observations/o.txt").unwrap(), b"the result", "{what}");
                there.retain(|path, _| !path.starts_with("observations"));
            }
            assert_same(&back, &there);
            assert_sound(&store);
        }
    }
}
