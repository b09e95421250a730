//! What conversations changed in files: diffs that a real `git apply` takes, from the logs of every program.
#![cfg(feature = "cli")]

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use annals::replay::{Change, Edits, Moment, Point, Side};
use annals::{Expected, NewEvent, Sequence, Store};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::cli::Program;
use crate::support::events::event;
use crate::support::{conversation, folder, without_projector};

/// A call of a tool and its answer.
fn call(number: usize, tool: &str, arguments: &Value, answer: Value) -> [NewEvent; 2] {
    let (action, result, call) =
        (format!("call{number:04}"), format!("done{number:04}"), format!("c{number}"));
    [
        event(
            &action,
            "ActionEvent",
            json!({"source": "agent", "thought": [], "tool_name": tool, "tool_call_id": call, "llm_response_id": "r",
                   "tool_call": {"id": call, "name": tool, "arguments": arguments.to_string(), "origin": "completion"}}),
        ),
        event(
            &result,
            "ObservationEvent",
            json!({"source": "environment", "tool_name": tool, "tool_call_id": call, "action_id": action, "observation": answer}),
        ),
    ]
}

/// An edit of the file editor.
fn edited(number: usize, path: &str, old: Option<&str>, new: &str) -> [NewEvent; 2] {
    let answer = json!({"kind": "FileEditorObservation", "command": "str_replace", "path": path, "content": [],
                        "prev_exist": old.is_some(), "old_content": old, "new_content": new});
    call(number, "file_editor", &json!({"command": "str_replace", "path": path}), answer)
}

fn recorded(events: impl IntoIterator<Item = [NewEvent; 2]>) -> Store {
    let store = Store::in_memory(&without_projector()).unwrap();
    let events: Vec<NewEvent> = events.into_iter().flatten().collect();
    store.append(&conversation("talk"), Expected::Any, &events).unwrap();
    store
}

fn edits(store: &Store) -> Edits {
    Moment::new(store, &conversation("talk"), Point::End).unwrap().edits().unwrap()
}

/// Applies a diff in a folder, as a user does.
fn apply(folder: &Path, diff: &str) {
    fs::write(folder.join("edits.patch"), diff).unwrap();
    let mut git = Command::new("git");
    git.current_dir(folder).env("GIT_CEILING_DIRECTORIES", folder.parent().unwrap());
    let output =
        git.args(["apply", "--unidiff-zero", "--whitespace=nowarn", "edits.patch"]).output().unwrap();
    assert!(output.status.success(), "{}\n{diff}", String::from_utf8_lossy(&output.stderr));
    fs::remove_file(folder.join("edits.patch")).unwrap();
}

fn contents(folder: &Path) -> BTreeMap<String, String> {
    let files = folder::read(folder).into_iter();
    files.map(|(path, content)| (path, String::from_utf8(content).unwrap())).collect()
}

/// Texts of a few lines, with and without a line break at the end, and with carriage returns.
fn text() -> impl Strategy<Value = String> {
    let line = prop::sample::select(vec!["", "a", "b", "  c", "-x", "+y", "@@", "é\r", "\\ No newline"]);
    (prop::collection::vec(line, 0..12), any::<bool>()).prop_map(|(lines, ends)| {
        let mut text = lines.join("\n");
        if ends && !text.is_empty() {
            text.push('\n');
        }
        text
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn the_diff_leads_from_the_first_text_to_the_last(
        first in prop::collection::vec(prop::option::of(text()), 2),
        steps in prop::collection::vec((0..2_usize, text()), 0..8),
    ) {
        let names = ["a b.txt", "sub/ü.txt"];
        let scratch = tempfile::tempdir().unwrap();
        let mut now: BTreeMap<String, String> = BTreeMap::new();
        for (name, text) in names.iter().zip(&first) {
            if let Some(text) = text {
                folder::write(scratch.path(), &[((*name).to_owned(), text.clone().into_bytes())].into());
                now.insert((*name).to_owned(), text.clone());
            }
        }
        let mut events = Vec::new();
        for (number, (file, new)) in steps.iter().enumerate() {
            let old = now.insert(names[*file].to_owned(), new.clone());
            events.push(edited(number, &format!("/work/{}", names[*file]), old.as_deref(), new));
        }
        let store = recorded(events);
        let diff: String = edits(&store).files.iter().map(|file| file.diff("/work")).collect();
        if diff.lines().any(|line| line.starts_with("diff ")) {
            apply(scratch.path(), &diff);
        }
        prop_assert_eq!(contents(scratch.path()), now, "{}", diff);
    }
}

#[test]
fn what_failed_or_only_looked_is_no_edit() {
    let view = json!({"kind": "FileEditorObservation", "command": "view", "path": "/a", "content": []});
    let failed = json!({"kind": "FileEditorObservation", "command": "create", "path": "/a", "is_error": true, "content": []});
    let shell = json!({"kind": "TerminalObservation", "command": "sed", "content": [], "is_error": false});
    let store = recorded([
        call(0, "file_editor", &json!({"command": "view", "path": "/a"}), view),
        call(1, "file_editor", &json!({"command": "create", "path": "/a", "file_text": "x"}), failed),
        call(2, "terminal", &json!({"command": "sed -i s/a/b/ /a"}), shell),
        edited(3, "/a", Some("1\n"), "2\n"),
    ]);
    let edits = edits(&store);
    assert_eq!((edits.files.len(), edits.commands), (1, 1));
    assert_eq!(edits.files[0].sequences.iter().map(|it| it.0).collect::<Vec<_>>(), [7]);
    let before =
        Moment::new(&store, &conversation("talk"), Point::Behind(Sequence(6))).unwrap().edits().unwrap();
    assert_eq!((before.files.len(), before.commands), (0, 1));
}

#[test]
fn a_patch_moves_files_and_later_edits_follow_them() {
    let changes = json!({"a.txt": {"type": "update", "old_content": "1\n", "new_content": "2\n", "move_path": "b.txt"},
                         "gone.txt": {"type": "delete", "old_content": "x\n"},
                         "new.txt": {"type": "add", "new_content": "n\n"}});
    let answer = json!({"kind": "ApplyPatchObservation", "content": [], "commit": {"changes": changes}});
    let store = recorded([
        call(0, "apply_patch", &json!({"patch": "*** Begin Patch"}), answer),
        edited(1, "b.txt", Some("2\n"), "3\n"),
    ]);
    let edits = edits(&store);
    let words: Vec<_> = edits.files.iter().map(|file| (&*file.path, file.word(), file.lines())).collect();
    assert_eq!(
        words,
        [("a.txt", "moved", (1, 1)), ("gone.txt", "deleted", (0, 1)), ("new.txt", "created", (1, 0))]
    );
    let scratch = tempfile::tempdir().unwrap();
    let given = [("a.txt", "1\n"), ("gone.txt", "x\n")];
    folder::write(scratch.path(), &given.map(|(name, text)| (name.to_owned(), text.into())).into());
    apply(scratch.path(), &edits.files.iter().map(|file| file.diff("")).collect::<String>());
    let wanted =
        [("b.txt", "3\n"), ("new.txt", "n\n")].map(|(name, text)| (name.to_owned(), text.to_owned()));
    assert_eq!(contents(scratch.path()), wanted.into());
}

#[test]
fn edits_of_other_programs_are_shown() {
    let program = Program::with_goldens();
    program.succeed(&["import", folder::golden("foreign").to_str().unwrap()]);
    let store = Store::open(program.folder.path().join("annals.db")).unwrap();
    let mut shown = BTreeMap::new();
    for row in store.iter(&Default::default(), Default::default()) {
        let row = row.unwrap();
        let edits = Moment::new(&store, &row.id, Point::End).unwrap().edits().unwrap();
        let format = row.foreign_format.unwrap_or_else(|| "openhands".to_owned());
        *shown.entry(format).or_insert(0) += edits.files.len();
        for file in &edits.files {
            assert!(!file.diff("").is_empty(), "{} {}", row.id, file.path);
        }
    }
    for format in ["openhands", "codex"] {
        assert!(shown[format] > 0, "{shown:?}");
    }
}

#[test]
fn the_text_before_an_edit_of_claude_code_is_that_of_its_record() {
    let [action, answer] = call(
        0,
        "Edit",
        &json!({"file_path": "/w/a.py", "old_string": "b", "new_string": "c"}),
        json!({"kind": "claude-code:Edit", "content": [], "is_error": false}),
    );
    let mut answer: Value = serde_json::from_str(answer.payload()).unwrap();
    answer["provenance"] = json!({"format": "claude-code", "file": "a.jsonl", "line": 1, "sha256": "0".repeat(64),
                                  "record": {"toolUseResult": {"originalFile": "a\nb\n"}}});
    let store = recorded([[action, NewEvent::parse(answer.to_string()).unwrap()]]);
    let mut seen = Vec::new();
    let moment = Moment::new(&store, &conversation("talk"), Point::End).unwrap();
    moment
        .each_edit(|edit| {
            seen.push(edit.change);
            Ok(())
        })
        .unwrap();
    let text = |text: &str| Side::Text(text.to_owned());
    assert_eq!(seen, [Change::Whole { before: text("a\nb\n"), after: text("a\nc\n") }]);
}

#[test]
fn the_command_prints_a_diff_a_list_or_json() {
    let program = Program::new();
    {
        let store = Store::open(program.folder.path().join("annals.db")).unwrap();
        let events: Vec<NewEvent> = [
            edited(0, "/w/a.py", None, "1\n"),
            edited(1, "/w/b.py", Some("x\n"), "y\n"),
            edited(2, "/w/a.py", Some("1\n"), "2\n"),
        ]
        .into_iter()
        .flatten()
        .collect();
        store.append(&conversation("talk"), Expected::Any, &events).unwrap();
    }
    let diff = program.succeed(&["edits", "talk"]);
    assert_eq!(diff.matches("diff --git").count(), 2, "{diff}");
    assert!(diff.contains("--- /dev/null\n+++ b/w/a.py\n@@ -0,0 +1 @@\n+2\n"), "{diff}");
    let each = program.succeed(&["edits", "talk", "--each", "--file", "a.py"]);
    assert!(each.contains("# event 1, file_editor\n") && each.contains("# event 5, file_editor\n"), "{each}");
    assert!(!each.contains("b.py"), "{each}");
    let stat = program.succeed(&["edits", "talk", "--stat"]);
    assert!(stat.contains("created") && stat.contains("2 files: 2 lines added, 1 removed"), "{stat}");
    let value = program.json(&["edits", "talk", "--at", "1"]);
    assert_eq!(value["files"].as_array().unwrap().len(), 1);
    assert_eq!(value["files"][0]["sequences"], json!([1]));
    assert!(program.succeed(&["edits", "talk", "--file", "c.py"]).is_empty());
}
