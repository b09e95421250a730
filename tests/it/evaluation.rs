//! Outputs of evaluations with OpenHands V0: each line is a conversation with the events of its history.

use std::fs;
use std::path::Path;

use annals::Store;
use annals::transfer::{Exporter, Format, ImportOptions, ImportReport, ImportStatus, Importer, discover};
use serde_json::{Value, json};

use crate::support::{Scratch, all_events, assert_sound, conversation, rows, without_projector};

/// An event of V0 and its observation.
fn step(number: u64, command: &str) -> [Value; 2] {
    let time = format!("2025-04-30T16:32:{number:02}.707474");
    [
        json!({"id": number, "timestamp": time, "source": "agent", "message": "Running a command",
            "action": "run", "args": {"command": command, "thought": "Let me see."}}),
        json!({"id": number + 1, "timestamp": time, "source": "agent", "message": "It ran", "cause": number,
            "observation": "run", "content": "done", "extras": {"command": command, "exit_code": 0}}),
    ]
}

fn task(text: &str) -> Value {
    json!({"id": 0, "timestamp": "2025-04-30T16:32:00.1", "source": "user", "message": text,
        "action": "message", "args": {"content": text}})
}

/// A line as of April 2025: the history is a list of events.
fn line(instance: &str, command: &str) -> String {
    let [action, observation] = step(1, command);
    json!({
        "instance_id": instance, "test_result": {"git_patch": "diff"}, "instruction": "Fix it",
        "metadata": {"agent_class": "CodeActAgent"}, "history": [task(instance), action, observation],
        "metrics": {"accumulated_cost": 0.5}, "error": null, "instance": {"repo": "mill"},
    })
    .to_string()
}

/// A line as of May 2024: the history is a list of pairs.
fn old_line(instance: &str, command: &str) -> String {
    let nothing = json!({"message": "No observation", "observation": "null", "content": "", "extras": {}});
    json!({
        "id": instance, "instance": {"id": instance}, "instruction": "Fix it", "metadata": {},
        "history": [[task(instance), nothing], step(1, command)],
        "final_message": "", "messages": [], "error": null, "test_result": {"result": true},
    })
    .to_string()
}

fn import(store: &Store, path: &Path) -> Vec<ImportReport> {
    Importer::new(store, ImportOptions::default()).import(path, &mut |_| ()).unwrap()
}

fn statuses(reports: &[ImportReport]) -> Vec<(&str, &'static str)> {
    reports.iter().map(|report| (report.id.as_ref().unwrap().as_str(), report.status.as_str())).collect()
}

#[test]
fn an_instance_is_a_conversation_whose_commands_are_found() {
    let scratch = Scratch::new();
    let file = scratch.path("run-output.jsonl");
    let content =
        format!("{}\n{}\n", line("mill-1", "rm -rf /workspace/a"), old_line("mill-2", "rm -rf /workspace/b"));
    fs::write(&file, &content).unwrap();
    let store = scratch.open_without_projector();
    let reports = import(&store, &file);
    assert_eq!(statuses(&reports), [("mill-1", "imported"), ("mill-2", "imported")], "{reports:?}");
    assert!(reports.iter().all(|report| report.format == "openhands-v0"));
    let kinds = |id: &str| -> Vec<String> {
        all_events(&store, &conversation(id)).into_iter().map(|event| event.kind).collect()
    };
    assert_eq!(kinds("mill-1"), ["action:message", "action:run", "observation:run"]);
    assert_eq!(kinds("mill-2"), ["action:message", "observation:null", "action:run", "observation:run"]);
    // The bytes of every event are those of the history.
    for report in &reports {
        for event in all_events(&store, report.id.as_ref().unwrap()) {
            assert!(content.contains(&event.payload), "{}", event.payload);
        }
    }
    store.catch_up().unwrap();
    let calls = "SELECT command FROM tool_calls ORDER BY position";
    let calls: Vec<String> =
        rows(&scratch.foreign(), calls).into_iter().map(|row| format!("{:?}", row[0])).collect();
    assert_eq!(calls, ["Text(\"rm -rf /workspace/a\")", "Text(\"rm -rf /workspace/b\")"]);
    let found = store.search("workspace", &Default::default(), 10, &mut |_| ()).unwrap();
    assert!(format!("{found:?}").contains("mill-2"), "{found:?}");
    assert_sound(&store);
}

#[test]
fn the_exported_lines_are_the_file_byte_for_byte() {
    let scratch = Scratch::new();
    fs::create_dir(scratch.path("in")).unwrap();
    // A line that is no record, another end of line, and an id that is no name for a file.
    let content = format!(
        "{}\r\nno record\n\n{}\n{}",
        line("a/../mill", "ls"),
        old_line("mill-2", "ls"),
        line("mill-3", "ls"),
    );
    fs::write(scratch.path("in/output.jsonl"), &content).unwrap();
    let store = scratch.open_without_projector();
    let reports = import(&store, &scratch.path("in"));
    assert_eq!(reports.len(), 3);
    let exporter = Exporter::new(&store, Format::OpenHands);
    let mut paths = Vec::new();
    for report in &reports {
        let id = report.id.as_ref().unwrap();
        paths.push(exporter.export(id, &scratch.path("out"), &mut |_| ()).unwrap().path);
    }
    paths.sort();
    let names: Vec<_> = paths.iter().map(|path| path.file_name().unwrap().to_string_lossy()).collect();
    assert_eq!(names, ["output#000001.jsonl", "output#000004.jsonl", "output#000005.jsonl"]);
    let whole: Vec<u8> = paths.iter().flat_map(|path| fs::read(path).unwrap()).collect();
    assert_eq!(String::from_utf8(whole).unwrap(), content);
    // What was exported can be imported, and is the same.
    let again = import(&store, &scratch.path("out"));
    assert!(again.iter().all(|report| report.status == ImportStatus::Unchanged), "{again:?}");
}

#[test]
fn a_second_import_adds_only_new_instances_whatever_their_order() {
    let scratch = Scratch::new();
    let file = scratch.path("output.jsonl");
    let (one, two, three) = (line("mill-1", "ls"), line("mill-2", "ls"), line("mill-3", "ls"));
    let store = Store::in_memory(&without_projector()).unwrap();
    fs::write(&file, format!("{one}\n{two}\n")).unwrap();
    import(&store, &file);
    assert_eq!(statuses(&import(&store, &file)), [("mill-1", "unchanged"), ("mill-2", "unchanged")]);
    // The last line is not whole yet.
    fs::write(&file, format!("{two}\n{one}\n{}", &three[..three.len() / 2])).unwrap();
    let found = discover(&file, None).unwrap();
    assert_eq!((found.found.len(), found.ignored_count), (2, 1));
    assert!(found.ignored[0].reason.contains("line 3"), "{found:?}");
    assert_eq!(statuses(&import(&store, &file)), [("mill-2", "unchanged"), ("mill-1", "unchanged")]);
    fs::rename(&file, scratch.path("renamed.jsonl")).unwrap();
    fs::write(scratch.path("renamed.jsonl"), format!("{two}\n{one}\n{three}\n")).unwrap();
    assert_eq!(
        statuses(&import(&store, &scratch.path("renamed.jsonl"))),
        [("mill-2", "unchanged"), ("mill-1", "unchanged"), ("mill-3", "imported")]
    );
    // Another run of the same evaluation has the same instances.
    fs::write(&file, format!("{}\n", line("mill-1", "pwd").replace("16:32", "17:00"))).unwrap();
    assert_eq!(statuses(&import(&store, &file)), [("mill-1~2", "imported")]);
    assert_eq!(statuses(&import(&store, &file)), [("mill-1~2", "unchanged")]);
}

#[test]
fn an_import_by_an_older_version_is_named() {
    let scratch = Scratch::new();
    let file = scratch.path("output.jsonl");
    let store = Store::in_memory(&without_projector()).unwrap();
    // An older version took such a file for a file of events. Its conversation begins with an event without a kind.
    fs::write(&file, "{\"id\":\"x\"}\n{\"id\":\"e\",\"kind\":\"PauseEvent\"}\n").unwrap();
    assert_eq!(statuses(&import(&store, &file)), [("output", "imported")]);
    fs::write(&file, format!("{}\n", line("mill-1", "ls"))).unwrap();
    let reports = import(&store, &file);
    assert_eq!(statuses(&reports), [("mill-1", "partial")]);
    assert!(reports[0].problems[0].problem.contains("output"), "{reports:?}");
    assert!(reports[0].problems[0].action.contains("annals delete"), "{reports:?}");
}
