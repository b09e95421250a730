//! Training sets: one row per branch, in the format of chat completions, valid as a request.

use std::collections::HashSet;
use std::path::Path;

use annals::store::{ConversationFilter, Order};
use annals::transfer::{
    Dataset, ExportStatus, ImportOptions, Importer, TrainingOptions, TrainingRow, export_dataset,
    training_rows,
};
use annals::{ConversationId, Error, Store};
use serde_json::Value;

use crate::support::{Scratch, conversation, folder::golden, without_projector};

fn store(path: &Path) -> Store {
    let store = Store::in_memory(&without_projector()).unwrap();
    Importer::new(&store, ImportOptions::default()).import(path, &mut |_| ()).unwrap();
    store
}

fn ids(store: &Store) -> Vec<ConversationId> {
    let page = store.conversations(&ConversationFilter::default(), Order::Created, None, 1000).unwrap();
    page.conversations.into_iter().map(|row| row.id).collect()
}

fn rows(store: &Store, id: &ConversationId, options: TrainingOptions) -> Vec<TrainingRow> {
    let mut rows = Vec::new();
    let count = training_rows(store, id, options, &mut |row| {
        rows.push(row);
        Ok(())
    });
    assert_eq!(count.unwrap().rows, rows.len() as u64);
    rows
}

/// Asserts that a row is a request that a provider accepts: every call is answered directly after it, every answer has
/// a call, and no message of the assistant is empty.
#[track_caller]
fn assert_valid(row: &TrainingRow) {
    let mut open: HashSet<String> = HashSet::new();
    for message in &row.messages {
        let role = message["role"].as_str().unwrap();
        if role == "tool" {
            let id = message["tool_call_id"].as_str().unwrap();
            assert!(open.remove(id), "{row:#?}");
            continue;
        }
        assert!(open.is_empty(), "calls without an answer: {row:#?}");
        for call in message["tool_calls"].as_array().into_iter().flatten() {
            assert_eq!(call["type"], "function");
            open.insert(call["id"].as_str().unwrap().to_owned());
        }
        let has_content = message["content"].as_str().is_some_and(|text| !text.is_empty())
            || message["content"].as_array().is_some_and(|parts| !parts.is_empty());
        assert!(has_content || !open.is_empty() || role != "assistant", "{message}");
    }
    assert!(open.is_empty(), "{row:#?}");
    assert!(row.messages.iter().any(|message| message["role"] == "assistant"));
}

fn summaries(row: &TrainingRow) -> Vec<String> {
    let text = |message: &Value| match &message["content"] {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    let calls = |message: &Value| -> String {
        let calls = message["tool_calls"].as_array().into_iter().flatten();
        calls.map(|call| format!(" +{}", call["function"]["name"].as_str().unwrap())).collect()
    };
    row.messages
        .iter()
        .map(|message| format!("{}: {}{}", message["role"].as_str().unwrap(), text(message), calls(message)))
        .map(|line| line.chars().take(60).collect())
        .collect()
}

#[test]
fn every_branch_of_every_log_is_a_valid_row() {
    for folder in ["conversations", "foreign"] {
        let store = store(&golden(folder));
        for id in ids(&store) {
            for options in [TrainingOptions::default(), TrainingOptions::default().view(true).reasoning(true)]
            {
                let rows = rows(&store, &id, options);
                rows.iter().for_each(assert_valid);
                assert!(rows.iter().filter(|row| row.is_live).count() <= 1, "{id}");
                if folder == "foreign" {
                    // OpenHands V0 stores whole messages. It sent two messages in a row as two messages.
                    for row in rows.iter().filter(|row| row.format != "openhands-v0") {
                        let roles: Vec<&Value> =
                            row.messages.iter().map(|message| &message["role"]).collect();
                        assert!(
                            roles.windows(2).all(|two| two != ["assistant", "assistant"]),
                            "{id} {roles:?}"
                        );
                    }
                }
            }
        }
    }
}

#[test]
fn an_imported_log_gives_the_messages_that_its_model_was_sent() {
    let store = store(&golden("foreign/codex"));
    let rows =
        rows(&store, &conversation("019c2000-0000-7000-8000-00000000c0de"), TrainingOptions::default());
    assert_eq!(rows.len(), 2);
    assert_eq!(
        summaries(&rows[0]),
        [
            "system: <permissions instructions>read only</permissions instruction",
            "user: [{\"text\":\"<environment_context>\\n  <cwd>/home/ada/engine</cwd>\\n</",
            "assistant: I look at it. +exec_command +shell",
            "tool: Process exited with code 0\nOutput:\nraise SystemExit\n",
            "tool: {\"output\":\"mill.py\\n\",\"metadata\":{\"exit_code\":0,\"durat",
            "assistant: null +apply_patch",
            "tool: Done.",
            "assistant: null +local_shell",
            "tool: denied",
            "assistant: It raised SystemExit; now it returns.",
            "user: Now rewrite it in COBOL.",
            "assistant: IDENTIFICATION DIVISION.",
        ]
        .map(|line| line.chars().take(60).collect::<String>())
    );
    assert_eq!((rows[0].is_live, rows[1].is_live), (false, true));
    assert_eq!(rows[0].models, ["gpt-5.6-sol"]);
    assert_eq!(rows[0].format, "codex");
    assert_eq!(rows[0].title.as_deref(), Some("The mill"));
}

#[test]
fn a_condensed_conversation_is_exported_whole_or_as_the_model_last_saw_it() {
    let store = store(&golden("conversations/condense-rolling"));
    let id = &ids(&store)[0];
    let whole = rows(&store, id, TrainingOptions::default());
    let view = rows(&store, id, TrainingOptions::default().view(true));
    assert_eq!(whole.len(), view.len());
    let whole = whole.iter().find(|row| row.is_live).unwrap();
    let view = view.iter().find(|row| row.is_live).unwrap();
    assert!(whole.messages.len() > view.messages.len());
    assert_eq!(whole.messages[0]["role"], "system");
    let names: Vec<&str> =
        whole.tools.iter().map(|tool| tool["function"]["name"].as_str().unwrap()).collect();
    assert!(names.contains(&"terminal") && names.contains(&"finish"), "{names:?}");
}

#[test]
fn a_set_is_one_file_and_does_not_overwrite_another_file() {
    let scratch = Scratch::new();
    let store = store(&golden("foreign"));
    let ids = ids(&store);
    let write = || {
        let dataset = Dataset::Chat(TrainingOptions::default());
        export_dataset(&store, &ids, &scratch.path("set"), dataset, &mut |_| ())
    };
    let report = write().unwrap();
    assert_eq!((report.status, report.conversations), (ExportStatus::Written, 11));
    let text = std::fs::read_to_string(&report.path).unwrap();
    let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!((lines.len() as u64, text.len() as u64), (report.rows, report.bytes));
    let mut keys: Vec<&String> = lines[0].as_object().unwrap().keys().collect();
    keys.sort();
    assert_eq!(
        keys,
        [
            "branch",
            "conversation_id",
            "format",
            "is_live",
            "messages",
            "models",
            "status",
            "tags",
            "title",
            "tools"
        ]
    );
    assert_eq!(write().unwrap().status, ExportStatus::Unchanged);
    std::fs::write(&report.path, "another").unwrap();
    assert!(matches!(write().unwrap_err(), Error::WouldOverwrite { .. }));
    assert_eq!(std::fs::read_dir(scratch.path("set")).unwrap().count(), 1);
}
