//! Imports and exports: a folder is exported byte for byte as it was imported. Damage is reported, and nothing is lost.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use annals::store::Problem;
use annals::transfer::{
    ExportReport, ExportStatus, Exporter, Format, ImportOptions, ImportProgress, ImportReport, ImportStatus,
    Importer,
};
use annals::{Error, Expected, Store};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::support::events::{pause, payload, user_message};
use crate::support::folder::{self, Tree, assert_same};
use crate::support::{
    Scratch, all_events, altered, assert_error, assert_sound, conversation, event_ids, without_projector,
};

fn import(store: &Store, path: &Path) -> Vec<ImportReport> {
    Importer::new(store, ImportOptions::default()).import(path, &mut |_| ()).unwrap()
}

/// Imports a path that must hold exactly one conversation.
#[track_caller]
fn import_one(store: &Store, path: &Path) -> ImportReport {
    let mut reports = import(store, path);
    assert_eq!(reports.len(), 1, "{reports:?}");
    reports.remove(0)
}

fn export(store: &Store, id: &str, to: &Path) -> annals::Result<ExportReport> {
    Exporter::new(store, Format::OpenHands).export(&conversation(id), to, &mut |_| ())
}

/// Exports every conversation that does not belong to a sub-agent.
fn export_all(store: &Store, to: &Path) {
    let page = store.conversations(&Default::default(), Default::default(), None, 1000).unwrap();
    for row in page.conversations.into_iter().filter(|row| row.parent.is_none()) {
        Exporter::new(store, Format::OpenHands).export(&row.id, to, &mut |_| ()).unwrap();
    }
}

/// Imports `tree` as a folder called `name` and exports it again. Returns the exported tree and the import's reports.
fn round_trip(name: &str, tree: &Tree) -> (Tree, Vec<ImportReport>) {
    let scratch = Scratch::new();
    folder::write(&scratch.path("in").join(name), tree);
    let store = Store::in_memory(&without_projector()).unwrap();
    let reports = import(&store, &scratch.path("in"));
    export_all(&store, &scratch.path("out"));
    assert_sound(&store);
    (folder::read(&scratch.path("out")), reports)
}

fn within(name: &str, tree: &Tree) -> Tree {
    tree.iter().map(|(path, content)| (format!("{name}/{path}"), content.clone())).collect()
}

#[track_caller]
fn assert_comes_back(name: &str, tree: &Tree) -> Vec<ImportReport> {
    let (back, reports) = round_trip(name, tree);
    assert_same(&back, &within(name, tree));
    reports
}

fn tree(files: &[(&str, &str)]) -> Tree {
    files.iter().map(|(path, content)| ((*path).to_owned(), content.as_bytes().to_vec())).collect()
}

/// The text of a minimal event.
fn text(id: &str) -> String {
    pause(id).payload().to_owned()
}

/// The usual name of an event's file. `number` becomes an id of hex digits, which the reference requires.
fn file(index: usize, number: usize) -> String {
    format!("events/event-{index:05}-{}.json", id(number))
}

fn id(number: usize) -> String {
    format!("{number:08x}-0000-4000-8000-000000000000")
}

/// A whole conversation folder of `count` events.
fn whole(count: usize) -> Tree {
    let mut tree = tree(&[
        (
            "base_state.json",
            r#"{"id":"11111111-2222-4333-8444-555555555555","execution_status":"idle","tags":{}}"#,
        ),
        ("TASKS.json", "[]"),
        ("observations/terminal_output_1.txt", "much\n"),
        ("events/.eventlog.lock", ""),
    ]);
    for number in 0..count {
        tree.insert(file(number, number), text(&id(number)).into_bytes());
    }
    tree
}

#[test]
fn every_golden_folder_comes_back_byte_for_byte() {
    for golden in ["conversations", "corrupt", "legacy"] {
        let scratch = Scratch::new();
        let store = Store::in_memory(&without_projector()).unwrap();
        let reports = import(&store, &folder::golden(golden));
        assert_eq!(reports.len(), folder::goldens(golden).len());
        assert!(reports.iter().all(|report| report.id.is_some()), "{reports:?}");
        export_all(&store, &scratch.path("out"));
        let mut wanted = folder::read(&folder::golden(golden));
        wanted.retain(|path, _| path.contains('/')); // a README beside the conversations belongs to no conversation
        assert_same(&folder::read(&scratch.path("out")), &wanted);
        assert_sound(&store);
    }
}

#[test]
fn undamaged_goldens_are_imported_without_a_problem() {
    let store = Store::in_memory(&without_projector()).unwrap();
    for report in import(&store, &folder::golden("conversations")) {
        assert_eq!((report.status, &report.problems), (ImportStatus::Imported, &vec![]), "{report:?}");
        let expected: Value =
            serde_json::from_slice(&std::fs::read(report.path.join("expected.json")).unwrap()).unwrap();
        let talk = report.id.unwrap();
        assert_eq!(json!(event_ids(&store, &talk)), expected["event_ids"]);
        assert_eq!(report.events, report.added);
        let row = store.conversation(&talk).unwrap();
        assert_eq!(json!(row.id.as_str()), expected["conversation_id"]);
        assert_eq!(json!(row.status), expected["execution_status"]);
        assert_eq!(json!(row.leaf_event_id), expected["leaf_event_id"]);
        assert_eq!(json!(row.head_is_empty), expected["head_is_empty"]);
        let tags: Value = serde_json::from_str(&row.tags).unwrap();
        assert_eq!(tags, expected["tags"]);
        let counts: Value = store.count_kinds(&talk).unwrap().into_iter().collect();
        assert_eq!(counts, expected["kind_counts"]);
    }
}

/// The problems that an import reports for each damaged golden: the start of the file's name and a part of the text.
/// Files of `events/` are named without that folder.
const DAMAGE: &[(&str, &[(&str, &str)])] = &[
    ("base-state-empty", &[("base_state.json", "it is empty")]),
    ("base-state-extra-field", &[]),
    ("base-state-missing", &[("base_state.json", "there is no base state")]),
    ("base-state-torn", &[("base_state.json", "the base state is not a JSON object")]),
    ("control", &[]),
    ("duplicate-id", &[("event-00008", "a second event with the id")]),
    ("duplicate-index", &[("event-00003", "there is another event with the index 3")]),
    ("extra-field", &[]),
    ("filename-id-mismatch", &[("event-00002", "its name says")]),
    ("gap-first", &[("event-00001", "there is no event with the index 0")]),
    ("gap-middle", &[("event-00004", "there is no event with the index 3")]),
    ("missing-leaf", &[]),
    ("missing-parent", &[]),
    ("nonhex-id-file", &[("event-00007", "its name says")]),
    ("parent-cycle", &[]),
    ("short-id-file", &[("event-00007", "its name says")]),
    ("six-digit-index", &[]),
    ("tmp-leftover", &[(".event-", "its name is not an event's")]),
    ("torn-empty-last", &[("event-00007", "it is empty")]),
    ("torn-empty-middle", &[("event-00003", "it is empty")]),
    ("torn-partial-last", &[("event-00007", "not a JSON object")]),
    ("unknown-file", &[("notes.txt", "its name is not an event's")]),
    ("unknown-kind", &[]),
    ("unknown-observation-kind", &[]),
];

#[test]
fn every_damaged_golden_is_reported_and_keeps_the_events_that_the_reference_keeps() {
    let store = Store::in_memory(&without_projector()).unwrap();
    let reports = import(&store, &folder::golden("corrupt"));
    assert_eq!(reports.len(), DAMAGE.len());
    for (report, (name, damage)) in reports.iter().zip(DAMAGE) {
        assert_eq!(report.path, folder::golden("corrupt").join(name));
        let reported: Vec<&Problem> =
            report.problems.iter().filter(|problem| !problem.problem.starts_with("another folder")).collect();
        assert_eq!(reported.len(), damage.len(), "{name}: {reported:?}");
        for (problem, (path, what)) in reported.iter().zip(*damage) {
            assert!(problem.path.trim_start_matches("events/").starts_with(path), "{name}: {problem:?}");
            assert!(problem.problem.contains(what), "{name}: {problem:?}");
        }
        let status = if report.problems.is_empty() { ImportStatus::Imported } else { ImportStatus::Partial };
        assert_eq!(report.status, status);

        let talk = report.id.clone().unwrap();
        assert_eq!(store.problems(&talk).unwrap(), report.problems, "the problems are stored");
        let expected: Value =
            serde_json::from_slice(&std::fs::read(report.path.join("expected.json")).unwrap()).unwrap();
        let stored: BTreeSet<String> = event_ids(&store, &talk).into_iter().collect();
        for item in expected["getitem"].as_array().into_iter().flatten() {
            if let Some(id) = item["ok"].as_str() {
                assert!(stored.contains(id), "{name}: the reference keeps {id}");
            }
        }
    }
}

#[test]
fn folders_of_every_age_and_shape_come_back() {
    let line = |id: &str| text(id);
    let array = format!("[\n  {},\n  {}\n]\n", line("a"), line("b"));
    let lines = format!("{}\n{}\n", line("a"), line("b"));
    let crooked = format!("{}\n\n{}", line("a"), line("b"));
    let torn = format!("{}\n{{\"id\":\"b\",", line("a"));
    let v0 = r#"{"id": 0, "source":"user","action":"message","args":{"content":"hi"}}"#;
    for (name, tree, count) in [
        ("now", whole(3), 3),
        (
            "september",
            tree(&[
                ("event_service/events/event-00000-aaaaaaaa.json", &line("aaaaaaaa")),
                ("event_service/base_state.json", r#"{"id":"september"}"#),
                ("event_service/meta.json", r#"{"title":"An old one"}"#),
            ]),
            1,
        ),
        (
            "seed",
            tree(&[
                ("events/0001_user_message.json", r#"{"kind":"user_message","content":"hi"}"#),
                ("events/0002_action.json", r#"{"kind":"action","id":"x"}"#),
            ]),
            2,
        ),
        ("v0", tree(&[("events/0.json", v0), ("events/1.json", r#"{"id": 1}"#), ("metadata.json", "{}")]), 2),
        ("array", tree(&[("events.json", &array), ("state.json", "{}")]), 2),
        ("lines", tree(&[("events.jsonl", &lines), ("more/notes.md", "x")]), 2),
        ("crooked", tree(&[("events.jsonl", &crooked)]), 2),
        ("torn", tree(&[("events.jsonl", &torn)]), 1),
        ("trajectory", tree(&[("trajectory.json", &array)]), 2),
        ("bare", tree(&[("event-00000-aaaaaaaa.json", &line("aaaaaaaa")), ("x.txt", "")]), 1),
        ("nothing-yet", tree(&[("base_state.json", r#"{"id":"nothing-yet"}"#), ("events/", "")]), 0),
    ] {
        let reports = assert_comes_back(name, &tree);
        assert_eq!(
            reports.iter().map(|report| report.events).collect::<Vec<_>>(),
            [count],
            "{name}: {reports:?}"
        );
    }
}

#[test]
fn single_files_come_back_under_their_names() {
    let scratch = Scratch::new();
    let files = tree(&[
        ("runs/one.jsonl", &format!("{}\n{}\n", text("a"), text("b"))),
        ("runs/two.json", &format!("[{},{}]", text("a"), text("b"))),
        ("runs/three.jsonl", &format!("{}\nnot an event\n{}", text("a"), text("b"))),
    ]);
    folder::write(&scratch.path("in"), &files);
    let store = Store::in_memory(&without_projector()).unwrap();
    let reports = import(&store, &scratch.path("in/runs"));
    let imported: Vec<_> = reports.iter().map(|report| (report.id.clone().unwrap(), report.events)).collect();
    assert_eq!(imported, [(conversation("one"), 2), (conversation("three"), 2), (conversation("two"), 2)]);
    export_all(&store, &scratch.path("out/runs"));
    assert_same(&folder::read(&scratch.path("out")), &files);
}

#[test]
fn empty_folders_odd_names_and_binary_files_come_back() {
    let mut odd = whole(2);
    let binary: Vec<u8> = (0..=255).cycle().take(200_000).collect();
    for (path, content) in [
        ("empty/", Vec::new()),
        ("deep/er/and/deeper/", Vec::new()),
        ("events/sub/", Vec::new()),
        ("subagents/", Vec::new()),
        ("observations/größe 日本 %2F 'x' \"y\" #?&.txt", b"odd".to_vec()),
        ("observations/copy.bin", binary.clone()),
        ("observations/binary.bin", binary),
        (".hidden", Vec::new()),
        ("..two-dots", b"x".to_vec()),
        ("back\u{1f600}slash-less", b"x".to_vec()),
        ("events/notes.txt", b"not an event".to_vec()),
        ("events/event-xxxxx-aaaaaaaa.json", b"{}".to_vec()),
        ("events/sub/event-00000-aaaaaaaa.json", b"{}".to_vec()),
        ("meta.json", b"\xff\xfe not text".to_vec()),
        ("owner_lease.json", b"{\"torn\":".to_vec()),
    ] {
        odd.insert(path.to_owned(), content);
    }
    odd.remove("events/sub/");
    let reports = assert_comes_back("odd names, and spaces", &odd);
    assert_eq!((reports[0].status, reports[0].events), (ImportStatus::Partial, 2));
}

#[test]
fn equal_attachments_are_stored_once() {
    let scratch = Scratch::new();
    let mut twice = whole(1);
    for copy in ["a", "b", "c/d"] {
        twice.insert(format!("observations/{copy}"), vec![7; 50_000]);
    }
    folder::write(&scratch.path("talk"), &twice);
    let store = scratch.open_without_projector();
    import_one(&store, &scratch.path("talk"));
    let db = scratch.foreign();
    let count = "SELECT count(*) FROM blob WHERE length(content) = 50000";
    assert_eq!(crate::support::number(&db, count), 1);
}

#[test]
fn events_with_ids_that_are_no_file_names_stay_within_the_folder() {
    let scratch = Scratch::new();
    let store = Store::in_memory(&without_projector()).unwrap();
    let talk = conversation("talk");
    let ids = ["../../up", "a/b", "c\\d", "..", "x y", "日本", &"long".repeat(64)];
    let events: Vec<_> = ids.iter().map(|id| pause(id)).collect();
    store.append(&talk, Expected::Any, &events).unwrap();
    export(&store, "talk", &scratch.path("out")).unwrap();
    let written = folder::read(&scratch.path("out"));
    assert!(written.keys().all(|path| path.starts_with("talk/events/event-0000")), "{:?}", written.keys());
    assert_eq!(written.len(), ids.len());
    let again = Store::in_memory(&without_projector()).unwrap();
    import_one(&again, &scratch.path("out/talk"));
    assert_eq!(event_ids(&again, &talk), ids);
}

#[test]
fn an_attachment_whose_path_leads_out_of_the_folder_is_not_written() {
    let scratch = Scratch::new();
    folder::write(&scratch.path("talk"), &whole(1));
    let store = scratch.open_without_projector();
    let id = import_one(&store, &scratch.path("talk")).id.unwrap();
    for path in ["../evil", "a/../../evil", "/evil"] {
        let db = scratch.foreign();
        db.execute("UPDATE attachment SET path = ?1 WHERE rowid = 1", [path]).unwrap();
        let error = export(&store, id.as_str(), &scratch.path("out/deeper")).unwrap_err();
        assert!(matches!(&error, Error::Io { .. }), "{error}");
        assert_eq!(folder::read(&scratch.path("out")).into_keys().collect::<Vec<_>>(), ["deeper/"], "{path}");
    }
    // On Unix, a backslash does not separate folders: it is a character of the name.
    #[cfg(unix)]
    {
        let db = scratch.foreign();
        db.execute("UPDATE attachment SET path = ?1 WHERE rowid = 1", ["..\\evil"]).unwrap();
        export(&store, id.as_str(), &scratch.path("out/deeper")).unwrap();
        let out = folder::read(&scratch.path("out"));
        assert!(out.keys().all(|path| path.starts_with("deeper/")), "{:?}", out.keys());
        assert!(out.contains_key("deeper/talk/..\\evil"), "{:?}", out.keys());
    }
}

#[test]
fn sub_agents_come_back_within_the_conversation_they_belong_to() {
    let mut tree = whole(2);
    let line = text("solo");
    for (path, content) in [
        ("subagents/one/events/event-00000-aaaaaaaa.json", text("aaaaaaaa")),
        ("subagents/one/base_state.json", r#"{"id":"one"}"#.to_owned()),
        ("subagents/one/subagents/inner/events/event-00000-bbbbbbbb.json", text("bbbbbbbb")),
        ("subagents/two/events/event-00000-cccccccc.json", text("cccccccc")),
        ("subagents/empty/", String::new()),
        ("subagents/notes.txt", "a note".to_owned()),
        ("subagents/single.jsonl", format!("{line}\n")),
        ("subagents/group/three/events/event-00000-dddddddd.json", text("dddddddd")),
    ] {
        tree.insert(path.to_owned(), content.into_bytes());
    }
    let reports = assert_comes_back("parent", &tree);
    assert_eq!(reports.len(), 6);
    assert!(reports.iter().all(|report| report.status != ImportStatus::Failed), "{reports:?}");

    let mut old = Tree::new();
    for (path, content) in &tree {
        old.insert(format!("event_service/{path}"), content.clone());
    }
    assert_comes_back("old-parent", &old);
}

#[test]
fn a_conversation_that_only_names_its_parent_stays_beside_it() {
    let scratch = Scratch::new();
    let meta = |parent: &str| format!(r#"{{"title":"t","parent_conversation_id":"{parent}"}}"#);
    let files = tree(&[
        ("a/events/event-00000-aaaaaaaa.json", &text("aaaaaaaa")),
        ("a/meta.json", &meta("a")),
        ("b/events/event-00000-bbbbbbbb.json", &text("bbbbbbbb")),
        ("b/meta.json", &meta("a")),
        ("c/events/event-00000-cccccccc.json", &text("cccccccc")),
        ("c/meta.json", &meta("b")),
        ("c/subagents/d/events/event-00000-dddddddd.json", &text("dddddddd")),
    ]);
    folder::write(&scratch.path("in"), &files);
    let store = Store::in_memory(&without_projector()).unwrap();
    import(&store, &scratch.path("in"));
    let parent = |id: &str| store.conversation(&conversation(id)).unwrap().parent;
    assert_eq!(
        [parent("a"), parent("b"), parent("c"), parent("d")],
        [None, Some("a".into()), Some("b".into()), Some("c".into())]
    );
    export_all(&store, &scratch.path("out"));
    assert_same(&folder::read(&scratch.path("out")), &files);
}

#[test]
fn sub_agents_of_the_same_name_belong_to_their_own_conversation() {
    let scratch = Scratch::new();
    let mut files = Tree::new();
    for parent in ["a", "b"] {
        let id = format!("aaaaaaaa-{}", parent.len());
        files.insert(format!("{parent}/events/event-00000-{id}.json"), text(&id).into());
        files.insert(
            format!("{parent}/subagents/helper/events/event-00000-{id}.json"),
            user_message(&id, parent).payload().into(),
        );
    }
    folder::write(&scratch.path("in"), &files);
    let store = Store::in_memory(&without_projector()).unwrap();
    let ids = import(&store, &scratch.path("in")).into_iter().map(|report| report.id.unwrap().to_string());
    assert_eq!(ids.collect::<Vec<_>>(), ["a", "helper", "b", "helper~2"]);
    export_all(&store, &scratch.path("out"));
    assert_same(&folder::read(&scratch.path("out")), &files);
    for report in import(&store, &scratch.path("in")) {
        assert_eq!(report.status, ImportStatus::Unchanged, "{report:?}");
    }
}

#[test]
fn events_appended_to_an_irregular_file_are_exported() {
    for (name, content) in [
        ("events.jsonl", format!("{}\n\n{}", text("aaaaaaaa"), text("bbbbbbbb"))),
        ("events.json", format!("[{}, {},{}]", text("aaaaaaaa"), text("bbbbbbbb"), text("cccccccc"))),
    ] {
        let scratch = Scratch::new();
        folder::write(&scratch.path("folder/talk"), &tree(&[(name, &content)]));
        folder::write(&scratch.path("file"), &tree(&[(name, &content)]));
        for (from, folder) in [("folder/talk", "talk"), (&format!("file/{name}"), "events")] {
            let store = Store::in_memory(&without_projector()).unwrap();
            let talk = import_one(&store, &scratch.path(from)).id.unwrap();
            let place = store.append(&talk, Expected::Any, &[pause("dddddddd")]).unwrap()[0].sequence;
            let out = scratch.path(&format!("out-{folder}"));
            export(&store, talk.as_str(), &out).unwrap();
            let written = folder::read(&out);
            assert_eq!(written[&format!("{folder}/{name}")], content.as_bytes(), "{name}");
            let last = format!("{folder}/events/event-{place:05}-dddddddd.json", place = place.0);
            assert_eq!(written[&last], text("dddddddd").as_bytes());
            let again = Store::in_memory(&without_projector()).unwrap();
            let back = import_one(&again, &out.join(folder)).id.unwrap();
            assert_eq!(event_ids(&again, &back), event_ids(&store, &talk));
        }
    }
}

#[test]
fn a_later_base_state_is_written_beside_the_file_of_events() {
    let scratch = Scratch::new();
    folder::write(&scratch.path("in"), &tree(&[("talk.jsonl", &format!("{}\n", text("aaaaaaaa")))]));
    let store = Store::in_memory(&without_projector()).unwrap();
    let talk = import_one(&store, &scratch.path("in/talk.jsonl")).id.unwrap();
    let fields = vec![annals::state::FieldChange::set("a", "1").unwrap()];
    store.save_base_state(&talk, annals::store::BaseStateChange::new(fields)).unwrap();
    export(&store, "talk", &scratch.path("out")).unwrap();
    let state = r#"{"a":1}"#;
    let wanted =
        tree(&[("talk/talk.jsonl", &format!("{}\n", text("aaaaaaaa"))), ("talk/base_state.json", state)]);
    assert_same(&folder::read(&scratch.path("out")), &wanted);
}

#[test]
fn a_second_import_changes_nothing() {
    let scratch = Scratch::new();
    let store = scratch.open_without_projector();
    let mut first = Vec::new();
    for golden in ["conversations", "corrupt", "legacy"] {
        first.extend(import(&store, &folder::golden(golden)));
    }
    store.catch_up().unwrap();
    let dump = |sql: &str| crate::support::rows(&scratch.foreign(), sql);
    let tables = [
        "SELECT * FROM event",
        "SELECT * FROM conversation",
        "SELECT * FROM base_state",
        "SELECT * FROM base_state_change",
        "SELECT * FROM attachment",
        "SELECT * FROM blob",
        "SELECT * FROM origin",
        "SELECT * FROM event_file",
        "SELECT * FROM problem",
    ];
    let before = tables.map(dump);
    let mut first = first.into_iter();
    for golden in ["conversations", "corrupt", "legacy"] {
        for report in import(&store, &folder::golden(golden)) {
            assert_eq!((report.status, report.added), (ImportStatus::Unchanged, 0), "{report:?}");
            // Texts that are stored already are not checked again, and what is wrong with them is still reported.
            let mut problems = first.next().unwrap().problems;
            problems.retain(|problem| !problem.problem.starts_with("another folder was imported as"));
            assert_eq!(report.problems, problems);
            assert_eq!(report.events, store.conversation(&report.id.unwrap()).unwrap().event_count);
        }
    }
    assert!(tables.map(dump) == before);
}

/// A long folder is read ahead, and its texts are compared with the stored ones first.
#[test]
fn a_long_folder_is_compared_byte_for_byte() {
    const EVENTS: usize = 200;
    let long = |odd: &dyn Fn(usize) -> Option<String>| {
        let mut tree = Tree::new();
        for number in 0..EVENTS {
            let content = odd(number).unwrap_or_else(|| text(&id(number)));
            tree.insert(file(number, number), content.into_bytes());
        }
        tree
    };
    let without_id =
        |number: usize| (number == 70).then(|| r#"{"kind":"PauseEvent","source":"user"}"#.to_owned());
    let scratch = Scratch::new();
    let store = scratch.open_without_projector();
    folder::write(&scratch.path("in/talk"), &long(&without_id));
    let first = import_one(&store, &scratch.path("in"));
    assert_eq!(first.added, EVENTS as u64);
    assert!(first.problems.iter().any(|problem| problem.problem == "the event has no id"), "{first:?}");
    let again = import_one(&store, &scratch.path("in"));
    assert_eq!((again.status, again.problems), (ImportStatus::Unchanged, first.problems));
    for changed in [0, 69, 100, EVENTS - 1] {
        let other = |number: usize| {
            let text = text(&id(number)).replace("PauseEvent", "PauseEvenT");
            (number == changed).then_some(text).or_else(|| without_id(number))
        };
        folder::write(&scratch.path(&format!("other{changed}/talk")), &long(&other));
        let report = import_one(&store, &scratch.path(&format!("other{changed}")));
        assert_eq!(report.status, ImportStatus::Conflict, "{changed}");
        let conflict = report.problems.last().unwrap();
        assert!(conflict.path.ends_with(&file(changed, changed)), "{changed}: {conflict:?}");
    }
}

#[test]
fn a_folder_whose_name_is_no_id_is_found_again() {
    let scratch = Scratch::new();
    let talk = tree(&[(&file(0, 1), &text(&id(1)))]);
    let declaring = tree(&[("base_state.json", r#"{"id":"talk"}"#), (&file(0, 1), &text(&id(1)))]);
    for (folder, tree) in [
        ("in/a/\n7d1a", &talk),
        ("in/b/\n7d1a", &talk),
        ("in/a/other", &declaring),
        ("in/c/\u{1}talk", &declaring),
        ("in/d/\u{1}talk", &declaring),
    ] {
        folder::write(&scratch.path(folder), tree);
    }
    let store = Store::in_memory(&without_projector()).unwrap();
    let ids = |reports: Vec<ImportReport>| {
        reports.into_iter().map(|report| (report.path, report.id)).collect::<BTreeMap<_, _>>()
    };
    let first = ids(import(&store, &scratch.path("in")));
    assert_eq!(first.values().collect::<BTreeSet<_>>().len(), 5, "{first:?}");
    let events = store.last_position().unwrap();
    assert_eq!(ids(import(&store, &scratch.path("in"))), first);
    assert_eq!(store.last_position().unwrap(), events);
}

#[test]
fn a_second_event_with_an_id_in_one_file_is_kept_aside_at_every_import() {
    let scratch = Scratch::new();
    let path = scratch.path("talk.jsonl");
    let [a, b, c] = ["aaaaaaaa", "bbbbbbbb", "cccccccc"].map(text);
    std::fs::write(&path, format!("{a}\n{b}\n{a}\n{c}\n")).unwrap();
    let store = Store::in_memory(&without_projector()).unwrap();
    for status in [ImportStatus::Partial, ImportStatus::Unchanged] {
        let report = import_one(&store, &path);
        assert_eq!((report.status, report.events, report.problems.len()), (status, 3, 1), "{report:?}");
        assert!(report.problems[0].problem.contains("a second event with the id aaaaaaaa"), "{report:?}");
    }
    std::fs::write(&path, format!("{a}\n{b}\n{a}\n{c}\n{}\n", text("dddddddd"))).unwrap();
    let report = import_one(&store, &path);
    assert_eq!((report.status, report.events, report.added), (ImportStatus::Updated, 4, 1), "{report:?}");
}

#[test]
fn only_the_new_events_of_a_grown_folder_are_added() {
    let scratch = Scratch::new();
    let store = Store::in_memory(&without_projector()).unwrap();
    let path = scratch.path("talk");
    let mut folder = whole(3);
    folder::write(&path, &folder);
    let id = import_one(&store, &path).id.unwrap();
    let before = all_events(&store, &id);

    folder.insert(file(3, 3), text(&id_text(3)).into_bytes());
    folder.insert(file(4, 4), text(&id_text(4)).into_bytes());
    folder.insert(
        "base_state.json".into(),
        br#"{"id":"11111111-2222-4333-8444-555555555555","tags":{"a":"b"}}"#.to_vec(),
    );
    folder.insert("TASKS.json".into(), b"[1]".to_vec());
    folder.insert("observations/new.txt".into(), b"new".to_vec());
    folder::write(&path, &folder);
    let report = import_one(&store, &path);
    assert_eq!((report.status, report.events, report.added), (ImportStatus::Updated, 5, 2));
    assert_eq!(report.added_bytes, 2 * text(&id_text(3)).len() as u64);
    assert_eq!(report.problems, []);
    let after = all_events(&store, &id);
    assert_eq!(after[..3], before[..]);
    assert_eq!(store.conversation(&id).unwrap().tags, r#"{"a":"b"}"#);
    export(&store, id.as_str(), &scratch.path("out")).unwrap();
    assert_same(&folder::read(&scratch.path("out/talk")), &folder);
    assert_eq!(import_one(&store, &path).status, ImportStatus::Unchanged);
    assert_sound(&store);
}

fn id_text(number: usize) -> String {
    id(number)
}

#[test]
fn the_difference_of_a_changed_folder_is_reported_and_nothing_is_changed() {
    let changed =
        |path: &str, content: Option<&str>| (path.to_owned(), content.map(|text| text.as_bytes().to_vec()));
    let left = "left as stored; import it under another id with --as to have both";
    let kept = "left as stored; --accept-changed-files takes it over";
    for ((path, content), problems) in [
        (
            changed(&file(1, 1), Some(&payload(&id(1), "PauseEvent", json!({"source": "agent"})))),
            vec![(file(1, 1), format!("event {} has another payload than the stored one", id(1)), left)],
        ),
        (
            changed(&file(1, 1), Some(&text(&id(9)))),
            vec![(
                file(1, 1),
                format!("event {} stands where {} is stored (sequence 1)", id(9), id(1)),
                left,
            )],
        ),
        (
            changed(&file(2, 2), None),
            vec![("talk".into(), "it has 2 events, 3 were imported from it".into(), "left as stored")],
        ),
        (
            changed("TASKS.json", Some("[2]")),
            vec![(
                "TASKS.json".into(),
                "it is not the file that was imported, and no event is new".into(),
                kept,
            )],
        ),
        (
            changed("TASKS.json", None),
            vec![(
                "TASKS.json".into(),
                "it is not the file that was imported, and no event is new".into(),
                kept,
            )],
        ),
        (
            changed("observations/new", Some("x")),
            vec![(
                "observations/new".into(),
                "it is not the file that was imported, and no event is new".into(),
                kept,
            )],
        ),
        (
            changed("base_state.json", Some(r#"{"id":"11111111-2222-4333-8444-555555555555"}"#)),
            vec![(
                "base_state.json".into(),
                "it is not the file that was imported, and no event is new".into(),
                kept,
            )],
        ),
    ] {
        let scratch = Scratch::new();
        let store = Store::in_memory(&without_projector()).unwrap();
        let place = scratch.path("talk");
        folder::write(&place, &whole(3));
        let talk = import_one(&store, &place).id.unwrap();
        let before = (all_events(&store, &talk), store.conversation(&talk).unwrap());
        let (attachments, state) = (store.attachments(&talk).unwrap(), store.base_state(&talk).unwrap());
        match content {
            Some(content) => std::fs::write(place.join(&path), content).unwrap(),
            None => std::fs::remove_file(place.join(&path)).unwrap(),
        }
        let report = import_one(&store, &place);
        assert_eq!((report.status, report.added), (ImportStatus::Conflict, 0), "{path}");
        let reported: Vec<_> =
            report.problems.iter().map(|p| (p.path.clone(), p.problem.clone(), p.action.as_str())).collect();
        let aside = ["there is no event", "its name says"]; // problems of the folder itself are reported again
        let reported: Vec<_> =
            reported.into_iter().filter(|one| !aside.iter().any(|known| one.1.starts_with(known))).collect();
        assert_eq!(reported, problems, "{path}");
        assert_eq!((all_events(&store, &talk), store.conversation(&talk).unwrap()), before);
        assert_eq!(
            (store.attachments(&talk).unwrap(), store.base_state(&talk).unwrap()),
            (attachments, state)
        );
    }
}

#[test]
fn changed_files_are_accepted_if_the_option_is_set() {
    let scratch = Scratch::new();
    let store = Store::in_memory(&without_projector()).unwrap();
    let mut folder = whole(2);
    folder::write(&scratch.path("talk"), &folder);
    let id = import_one(&store, &scratch.path("talk")).id.unwrap();
    folder.insert("TASKS.json".into(), b"[3]".to_vec());
    folder
        .insert("base_state.json".into(), br#"{"id":"11111111-2222-4333-8444-555555555555","x":1}"#.to_vec());
    folder::write(&scratch.path("talk"), &folder);
    let options = ImportOptions::default().accept_changed_files(true);
    let reports = Importer::new(&store, options).import(&scratch.path("talk"), &mut |_| ()).unwrap();
    assert_eq!((reports[0].status, reports[0].added), (ImportStatus::Updated, 0));
    export(&store, id.as_str(), &scratch.path("out")).unwrap();
    assert_same(&folder::read(&scratch.path("out/talk")), &folder);
}

#[test]
fn other_text_between_the_events_of_a_file_is_reported_and_taken_over_with_the_option() {
    let (a, b) = (text("aaaaaaaa"), text("bbbbbbbb"));
    for (name, before, after) in [
        ("talk.jsonl", format!("{a}\n{b}"), format!("{a}\n{b}\n")),
        ("talk.jsonl", format!("{a}\n{b}\n"), format!("{a}\r\n{b}\r\n")),
        ("talk.json", format!("[{a},{b}]"), format!("[{a}, {b}]\n")),
    ] {
        let scratch = Scratch::new();
        let path = scratch.path(name);
        std::fs::write(&path, &before).unwrap();
        let store = Store::in_memory(&without_projector()).unwrap();
        let talk = import_one(&store, &path).id.unwrap();
        std::fs::write(&path, &after).unwrap();
        let exported = |out: &str| {
            export(&store, talk.as_str(), &scratch.path(out)).unwrap();
            std::fs::read_to_string(scratch.path(out).join(name)).unwrap()
        };
        let refused = import_one(&store, &path);
        assert_eq!((refused.status, refused.added), (ImportStatus::Conflict, 0), "{before:?}");
        let [problem] = &refused.problems[..] else { panic!("{refused:?}") };
        assert_eq!(problem.path, name);
        assert_eq!(problem.action, "left as stored; --accept-changed-files takes it over");
        assert_eq!(exported("refused"), before);
        let options = ImportOptions::default().accept_changed_files(true);
        let accepted = Importer::new(&store, options).import(&path, &mut |_| ()).unwrap().remove(0);
        assert_eq!((accepted.status, accepted.added), (ImportStatus::Updated, 0), "{before:?}");
        assert_eq!(exported("accepted"), after);
        assert_eq!(import_one(&store, &path).status, ImportStatus::Unchanged, "{before:?}");
    }
}

#[test]
fn an_interrupted_import_of_a_folder_with_the_id_of_another_goes_on_under_its_own() {
    let scratch = Scratch::new();
    let store = Store::in_memory(&without_projector()).unwrap();
    let mut tree = whole(1);
    folder::write(&scratch.path("first"), &tree);
    import_one(&store, &scratch.path("first"));
    for number in 1..1100 {
        tree.insert(file(number, number), text(&id(number)).into_bytes());
    }
    // The base state has the same id, so a folder gives its name to the conversation, unless that is taken too.
    store.append(&conversation("third"), Expected::Empty, &[pause("own")]).unwrap();
    for (name, expected) in [("second", "second"), ("third", "third~2")] {
        let place = scratch.path(name);
        folder::write(&place, &tree);
        let last = place.join(file(1099, 1099));
        let mut importer = Importer::new(&store, ImportOptions::default());
        // The last file cannot be read after the first transaction.
        let mut lose = |at: ImportProgress<'_>| {
            if at.events > 1000 && last.is_file() {
                std::fs::remove_file(&last).unwrap();
                std::fs::create_dir(&last).unwrap();
            }
        };
        let failed = importer.import(&place, &mut lose).unwrap().remove(0);
        assert_eq!(failed.status, ImportStatus::Failed, "{failed:?}");
        assert_eq!(store.conversation(&conversation(expected)).unwrap().event_count, 1000, "{name}");
        std::fs::remove_dir(&last).unwrap();
        folder::write(&place, &tree);
        let resumed = import_one(&store, &place);
        assert_eq!(resumed.id, Some(conversation(expected)));
        assert_eq!((resumed.events, resumed.added), (1100, 100), "{name}");
        assert_eq!(store.maintenance().unfinished().unwrap(), []);
        assert_eq!(import_one(&store, &place).status, ImportStatus::Unchanged, "{name}");
    }
    assert_sound(&store);
}

#[test]
fn a_folder_can_be_imported_under_another_id() {
    let scratch = Scratch::new();
    let store = Store::in_memory(&without_projector()).unwrap();
    folder::write(&scratch.path("talk"), &whole(2));
    import_one(&store, &scratch.path("talk"));
    folder::write(&scratch.path("talk"), &tree(&[(&file(1, 1), &payload(&id(1), "Other", json!({})))]));
    assert_eq!(import_one(&store, &scratch.path("talk")).status, ImportStatus::Conflict);
    let options = ImportOptions::default().id(conversation("other"));
    let reports = Importer::new(&store, options).import(&scratch.path("talk"), &mut |_| ()).unwrap();
    assert_eq!(
        (reports[0].status, reports[0].id.clone()),
        (ImportStatus::Imported, Some(conversation("other")))
    );
    assert_eq!(store.count_conversations(&Default::default()).unwrap(), 2);
}

#[test]
fn importing_an_old_folder_again_does_not_undo_later_events() {
    let scratch = Scratch::new();
    let store = Store::in_memory(&without_projector()).unwrap();
    let mut folder = whole(2);
    folder::write(&scratch.path("talk"), &folder);
    let talk = import_one(&store, &scratch.path("talk")).id.unwrap();
    store.append(&talk, Expected::Exact(2), &[user_message("cccccccc-1", "go on")]).unwrap();
    assert_eq!(import_one(&store, &scratch.path("talk")).status, ImportStatus::Unchanged);
    export(&store, talk.as_str(), &scratch.path("out")).unwrap();

    // The appended event has the file name that the reference would give it, and the base state names the new leaf.
    folder.insert(
        "events/event-00002-cccccccc-1.json".into(),
        user_message("cccccccc-1", "go on").payload().into(),
    );
    let state = r#"{"id":"11111111-2222-4333-8444-555555555555","execution_status":"idle","leaf_event_id":"cccccccc-1","head_is_empty":false,"tags":{}}"#;
    folder.insert("base_state.json".into(), state.into());
    assert_same(&folder::read(&scratch.path("out/talk")), &folder);

    // Both the store and the folder have new events. Only a person can resolve this conflict.
    folder::write(&scratch.path("talk"), &tree(&[(&file(2, 2), &text(&id(2)))]));
    assert_eq!(import_one(&store, &scratch.path("talk")).status, ImportStatus::Conflict);
}

#[test]
fn later_changes_replace_damaged_files_in_the_export() {
    let scratch = Scratch::new();
    let store = Store::in_memory(&without_projector()).unwrap();
    let mut folder = whole(2);
    folder.insert("base_state.json".into(), b"{\"torn\":".to_vec());
    folder.insert("events/event-00002-cccccccc.json".into(), b"{\"torn\":".to_vec());
    folder::write(&scratch.path("talk"), &folder);
    let talk = import_one(&store, &scratch.path("talk")).id.unwrap();
    store.append(&talk, Expected::Any, &[user_message("cccccccc", "the event that was torn")]).unwrap();
    let fields = vec![annals::state::FieldChange::set("execution_status", r#""paused""#).unwrap()];
    store.save_base_state(&talk, annals::store::BaseStateChange::new(fields)).unwrap();
    export(&store, talk.as_str(), &scratch.path("out")).unwrap();
    let out = folder::read(&scratch.path("out/talk"));
    let state = r#"{"execution_status":"paused","leaf_event_id":"cccccccc","head_is_empty":false}"#;
    assert_eq!(out["base_state.json"], state.as_bytes());
    let event = user_message("cccccccc", "the event that was torn");
    assert_eq!(out["events/event-00002-cccccccc.json"], event.payload().as_bytes());
}

#[test]
fn a_conversation_that_began_here_is_exported_as_the_reference_writes_it() {
    let scratch = Scratch::new();
    let store = Store::in_memory(&without_projector()).unwrap();
    let talk = conversation("0f0f0f0f-0f0f-4f0f-8f0f-0f0f0f0f0f0f");
    store.append(&talk, Expected::Any, &[pause("aaaaaaaa-0"), pause("aaaaaaaa-1")]).unwrap();
    let report = export(&store, talk.as_str(), &scratch.path("out")).unwrap();
    let name = "0f0f0f0f0f0f4f0f8f0f0f0f0f0f0f0f";
    let bytes = 2 * text("aaaaaaaa-0").len() as u64;
    let path = scratch.path("out").join(name);
    let written = ExportStatus::Written;
    assert_eq!(
        report,
        altered!(report, {
            id: talk.clone(),
            path: path,
            status: written,
            events: 2,
            files: 2,
            bytes: bytes,
            upgrade: Default::default()
        })
    );
    let wanted = tree(&[
        (&format!("{name}/events/event-00000-aaaaaaaa-0.json"), &text("aaaaaaaa-0")),
        (&format!("{name}/events/event-00001-aaaaaaaa-1.json"), &text("aaaaaaaa-1")),
    ]);
    assert_same(&folder::read(&scratch.path("out")), &wanted);

    Exporter::new(&store, Format::Jsonl).export(&talk, &scratch.path("lines"), &mut |_| ()).unwrap();
    let lines = format!("{}\n{}\n", text("aaaaaaaa-0"), text("aaaaaaaa-1"));
    assert_same(&folder::read(&scratch.path("lines")), &tree(&[(&format!("{name}.jsonl"), &lines)]));
}

#[test]
fn an_export_never_overwrites_a_different_folder() {
    let scratch = Scratch::new();
    let store = Store::in_memory(&without_projector()).unwrap();
    folder::write(&scratch.path("talk"), &whole(2));
    let id = import_one(&store, &scratch.path("talk")).id.unwrap();
    let out = scratch.path("out");
    let put = |tree: &Tree| {
        let _ = std::fs::remove_dir_all(&out);
        folder::write(&out.join("talk"), tree);
    };
    let statuses = [export(&store, id.as_str(), &out), export(&store, id.as_str(), &out)]
        .map(|report| report.unwrap().status);
    assert_eq!(statuses, [ExportStatus::Written, ExportStatus::Unchanged]);

    let mut more = whole(2);
    more.insert("mine.txt".into(), b"do not touch".to_vec());
    let mut less = whole(2);
    less.remove("TASKS.json");
    let mut other = whole(2);
    other.insert(file(1, 1), b"{}".to_vec());
    let mut empty = whole(2);
    empty.insert("mine/".into(), Vec::new());
    let foreign = tree(&[("a/b.txt", "somebody's")]);
    for (there, path) in [
        (more, "mine.txt".to_owned()),
        (less, "TASKS.json".to_owned()),
        (other, file(1, 1)),
        (empty, "mine".to_owned()),
        (foreign, "a".to_owned()),
    ] {
        put(&there);
        let refusal = Error::WouldOverwrite { path: out.join("talk").join(path) };
        assert_error(export(&store, id.as_str(), &out), &refusal);
        assert_same(&folder::read(&out), &within("talk", &there));
    }

    std::fs::remove_dir_all(&out).unwrap();
    folder::write(&out, &tree(&[("talk", "a file")]));
    assert_error(export(&store, id.as_str(), &out), &Error::WouldOverwrite { path: out.join("talk") });
    put(&Tree::new());
    assert_eq!(
        export(&store, id.as_str(), &out).unwrap().status,
        ExportStatus::Written,
        "an empty folder may be used"
    );
    assert_same(&folder::read(&out), &within("talk", &whole(2)));
}

#[test]
fn an_export_needs_only_one_connection() {
    let scratch = Scratch::new();
    folder::write(&scratch.path("talk"), &whole(3));
    let options = without_projector().pool_size(1).busy_timeout(std::time::Duration::from_secs(2));
    let store = Store::open_with(scratch.database(), &options).unwrap();
    let id = import_one(&store, &scratch.path("talk")).id.unwrap();
    export(&store, id.as_str(), &scratch.path("out")).unwrap();
    assert_same(&folder::read(&scratch.path("out/talk")), &whole(3));
}

#[test]
fn an_empty_folder_imports_nothing_and_a_missing_path_is_an_error() {
    let scratch = Scratch::new();
    let store = Store::in_memory(&without_projector()).unwrap();
    std::fs::create_dir(scratch.path("empty")).unwrap();
    assert_eq!(import(&store, &scratch.path("empty")), []);
    let error = Importer::new(&store, ImportOptions::default()).import(&scratch.path("gone"), &mut |_| ());
    assert!(matches!(&error, Err(Error::Io { path, .. }) if *path == scratch.path("gone")), "{error:?}");
}

#[test]
fn events_of_several_transactions_are_imported_and_exported_in_order() {
    let scratch = Scratch::new();
    let mut folder = whole(0);
    for number in 0..2000 {
        folder.insert(file(number, number), text(&id(number)).into_bytes());
    }
    // One more file, alone in the third transaction. It is not a new event, because its id exists already.
    folder.insert(file(2000, 2000), text(&id(7)).into_bytes());
    folder::write(&scratch.path("in/talk"), &folder);
    let store = Store::open_with(scratch.database(), &without_projector()).unwrap();
    let mut progress = 0;
    let reports = Importer::new(&store, ImportOptions::default())
        .import(&scratch.path("in"), &mut |at| progress = at.events)
        .unwrap();
    assert_eq!((reports[0].status, reports[0].events), (ImportStatus::Partial, 2000));
    assert!(progress > 1700, "{progress}");
    assert_sound(&store);
    export_all(&store, &scratch.path("out"));
    assert_same(&folder::read(&scratch.path("out")), &folder::read(&scratch.path("in")));
}

#[test]
fn simultaneous_imports_of_one_folder_count_as_one() {
    let scratch = Scratch::new();
    let mut folder = whole(0);
    for number in 0..2500 {
        folder.insert(file(number, number), text(&id(number)).into_bytes());
    }
    folder.insert(file(2500, 7), text(&id(7)).into_bytes()); // a second event with that id, which every import reports
    folder::write(&scratch.path("in/talk"), &folder);
    let start = std::sync::Barrier::new(3);
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                let store = scratch.open_without_projector();
                start.wait();
                let report = import_one(&store, &scratch.path("in/talk"));
                assert_eq!(report.problems.len(), 1, "{:?}", report.problems);
                assert_eq!(report.events, 2500);
            });
        }
    });
    let store = scratch.open_without_projector();
    assert_eq!(import_one(&store, &scratch.path("in/talk")).status, ImportStatus::Unchanged);
    export_all(&store, &scratch.path("out"));
    assert_same(&folder::read(&scratch.path("out/talk")), &folder);
    assert_sound(&store);
}

/// A change that damages a folder.
#[derive(Debug, Clone)]
enum Harm {
    Remove(usize),
    Truncate(usize, usize),
    Empty(usize),
    Flip(usize, usize, u8),
    Rename(usize, String),
    Copy(usize, usize),
    Add(String, Vec<u8>),
    BaseState(Option<Vec<u8>>),
    Swap(usize, usize),
}

const EVENTS: usize = 8;

fn harm() -> impl Strategy<Value = Harm> {
    let which = 0..EVENTS;
    let name = prop_oneof![
        Just("events/event-00003-aaaaaaaa.json".to_owned()),
        Just("events/event-00099-bbbbbbbb.json".to_owned()),
        Just("events/event-000004-cccccccc.json".to_owned()),
        Just("events/event-00002-short.json".to_owned()),
        Just("events/event-00002-nothexatall.json".to_owned()),
        Just("events/0003_action.json".to_owned()),
        Just("events/5.json".to_owned()),
        Just("events/.event-00008-dddddddd.json.tmp".to_owned()),
        Just("events/nested/event-00000-eeeeeeee.json".to_owned()),
        Just("observations/x y.txt".to_owned()),
        Just("subagents/x/events/event-00000-ffffffff.json".to_owned()),
    ];
    let content = prop_oneof![
        Just(Vec::new()),
        Just(b"{}".to_vec()),
        Just(br#"{"id":"00000002-0000-4000-8000-000000000000","kind":"K"}"#.to_vec()),
        Just(br#"{"id":"new","kind":"K","parent_id":"nowhere"}"#.to_vec()),
        Just(b"{\"id\":\"torn".to_vec()),
        Just(b"\xff\xfe\x00".to_vec()),
        Just(b"[1,2]".to_vec()),
        Just(b" {\"id\": 12, \"x\": NaN}\n".to_vec()),
    ];
    prop_oneof![
        which.clone().prop_map(Harm::Remove),
        (which.clone(), 0..60_usize).prop_map(|(which, at)| Harm::Truncate(which, at)),
        which.clone().prop_map(Harm::Empty),
        (which.clone(), 0..60_usize, any::<u8>()).prop_map(|(which, at, byte)| Harm::Flip(which, at, byte)),
        (which.clone(), name.clone()).prop_map(|(which, name)| Harm::Rename(which, name)),
        (which.clone(), 0..EVENTS + 3).prop_map(|(which, index)| Harm::Copy(which, index)),
        (name, content.clone()).prop_map(|(name, content)| Harm::Add(name, content)),
        prop::option::of(content).prop_map(Harm::BaseState),
        (which.clone(), which).prop_map(|(a, b)| Harm::Swap(a, b)),
    ]
}

fn damage(tree: &mut Tree, harm: &Harm) {
    let own = |which: usize| file(which, which);
    match harm {
        Harm::Remove(which) => drop(tree.remove(&own(*which))),
        Harm::Truncate(which, at) => {
            if let Some(content) = tree.get_mut(&own(*which)) {
                content.truncate(*at);
            }
        }
        Harm::Empty(which) => {
            if let Some(content) = tree.get_mut(&own(*which)) {
                content.clear();
            }
        }
        Harm::Flip(which, at, byte) => {
            if let Some(place) = tree.get_mut(&own(*which)).and_then(|content| content.get_mut(*at)) {
                *place = *byte;
            }
        }
        Harm::Rename(which, name) => {
            if let Some(content) = tree.remove(&own(*which)) {
                tree.insert(name.clone(), content);
            }
        }
        Harm::Copy(which, index) => {
            if let Some(content) = tree.get(&own(*which)).cloned() {
                tree.insert(file(*index, *which), content);
            }
        }
        Harm::Add(name, content) => drop(tree.insert(name.clone(), content.clone())),
        Harm::BaseState(Some(content)) => drop(tree.insert("base_state.json".into(), content.clone())),
        Harm::BaseState(None) => drop(tree.remove("base_state.json")),
        Harm::Swap(a, b) => {
            if let (Some(first), Some(second)) = (tree.get(&own(*a)).cloned(), tree.get(&own(*b)).cloned()) {
                tree.insert(own(*a), second);
                tree.insert(own(*b), first);
            }
        }
    }
}

/// The files that the reference's loader may read from a folder (`docs/reference/files.md#loading`), by index. It reads
/// files whose names it knows, with consecutive indices from 0 on. Of several files with one index, it reads the one
/// that it lists last.
fn reference_keeps(tree: &Tree) -> Vec<Vec<Vec<u8>>> {
    let mut by_index: Vec<Vec<Vec<u8>>> = Vec::new();
    for index in 0.. {
        let of_index = |path: &&String| {
            let known =
                path.strip_prefix("events/").filter(|name| annals::transfer::is_event_file_name(name));
            let digits = known.and_then(|name| name.strip_prefix("event-")?.split('-').next());
            // A number with more digits than necessary is counted by the reference but never found again.
            digits == Some(&format!("{index:05}"))
        };
        let contents: Vec<Vec<u8>> = tree.keys().filter(of_index).map(|path| tree[path].clone()).collect();
        if contents.is_empty() {
            return by_index;
        }
        by_index.push(contents);
    }
    by_index
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 80, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_damaged_folder_loses_nothing_and_comes_back_as_it_was(
        harms in prop::collection::vec(harm(), 1..6)
    ) {
        let mut tree = whole(EVENTS);
        for harm in &harms {
            damage(&mut tree, harm);
        }
        let scratch = Scratch::new();
        folder::write(&scratch.path("in/talk"), &tree);
        let store = Store::in_memory(&without_projector()).unwrap();
        let reports = import(&store, &scratch.path("in"));
        let Some(talk) = reports.first().and_then(|report| report.id.clone()) else {
            prop_assert!(reference_keeps(&tree).is_empty(), "{reports:?}");
            return Ok(());
        };
        let mut kept: BTreeSet<Vec<u8>> =
            all_events(&store, &talk).into_iter().map(|event| event.payload.into_bytes()).collect();
        for attachment in store.attachments(&talk).unwrap().into_iter().filter(|file| file.reason.is_some()) {
            let mut content = Vec::new();
            store.read_attachment(&talk, &attachment.path, &mut content).unwrap();
            kept.insert(content);
        }
        for contents in reference_keeps(&tree) {
            for content in contents {
                prop_assert!(kept.contains(&content), "{:?}", String::from_utf8_lossy(&content));
            }
        }
        export_all(&store, &scratch.path("out"));
        assert_same(&folder::read(&scratch.path("out/talk")), &tree);
        assert_sound(&store);
        for report in import(&store, &scratch.path("in")) {
            prop_assert_eq!(report.status, ImportStatus::Unchanged, "{:?}", report);
        }
    }
}
