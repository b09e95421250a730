//! A conversation with a canary in every place that stores text, and a search in the bytes of its file.

use std::path::Path;
use std::process::Command;

use annals::state::FieldChange;
use annals::store::BaseStateChange;
use annals::transfer::{ImportOptions, Importer};
use annals::{ConversationId, Expected, Store};
use serde_json::json;

use super::events::{payload, printed, tool_call, user_message};
use super::folder::{self, Tree};
use super::{Scratch, conversation};

/// The planted text. It occurs nowhere else, and is one word for the search index.
pub const CANARY: &str = "zqcanary7731value";

/// The first bytes of the canary. No part of the canary may remain either.
pub const BEGINNING: &[u8] = b"zqcan";

/// Returns a conversation's folder with the canary in its events, its base state and its files.
pub fn tree() -> Tree {
    // The catalogue stores the first 200 characters of this text. They end within the canary.
    let first = format!("{} {CANARY}, then go on", "word ".repeat(38).trim());
    let action = json!({"kind": "FileEditorAction", "command": "view", "path": format!("/tmp/{CANARY}/x")});
    let mut action: serde_json::Value =
        serde_json::from_str(tool_call("e1", "c1", "file_editor", action.clone()).payload()).unwrap();
    action["tool_call"] = json!({"id": "c1", "name": "file_editor", "origin": "completion",
        "arguments": json!({"command": "view", "path": format!("/tmp/{CANARY}/x")}).to_string()});
    let tasks = json!({"source": "environment", "tool_name": "task_tracker", "tool_call_id": "c2",
        "action_id": "e1", "observation": {"kind": "TaskTrackerObservation", "command": "plan", "content": [],
        "task_list": [{"title": format!("hide {CANARY}"), "notes": CANARY, "status": "todo"}]}});
    let events = [
        user_message("e0", &first).payload().to_owned(),
        action.to_string(),
        printed("e2", "e1", "c1", &format!("line\n{CANARY}\nline"), 0).payload().to_owned(),
        payload("e3", "ObservationEvent", tasks),
    ];
    let state = format!(
        r#"{{"id":"planted", "agent":{{"kind":"Agent","llm":{{"model":"m","api_key":"{CANARY}"}}}},"workspace":{{"working_dir":"/x"}}, "tags":{{"owner":"{CANARY}"}},"leaf_event_id":"e3"}}"#
    );
    let mut tree = Tree::new();
    for (index, event) in events.into_iter().enumerate() {
        tree.insert(format!("events/event-{index:05}-e{index}.json"), event.into_bytes());
    }
    tree.insert("base_state.json".into(), state.into_bytes());
    tree.insert("notes/todo.txt".into(), format!("remember {CANARY}\n").into_bytes());
    tree.insert("data.bin".into(), [b"\xff\xfe\x00", CANARY.as_bytes(), b"\x80"].concat());
    tree.insert("plain.txt".into(), b"nothing here".to_vec());
    tree
}

/// Imports `tree` from a folder.
pub fn import(scratch: &Scratch, store: &Store, tree: &Tree) -> annals::transfer::ImportReport {
    import_with(scratch, store, tree, ImportOptions::default())
}

pub fn import_with(
    scratch: &Scratch,
    store: &Store,
    tree: &Tree,
    options: ImportOptions,
) -> annals::transfer::ImportReport {
    let place = scratch.path("in/planted");
    let _ = std::fs::remove_dir_all(&place);
    folder::write(&place, tree);
    Importer::new(store, options).import(&place, &mut |_| ()).unwrap().remove(0)
}

/// Imports the conversation and adds what only a store has: a title, changes of the base state, and a search index that
/// contains the canary.
pub fn plant(scratch: &Scratch, store: &Store) -> ConversationId {
    let id = import(scratch, store, &tree()).id.unwrap();
    store.set_title(&id, Some(&format!("about {CANARY}"))).unwrap();
    for round in 0..70 {
        // The number of changes is high enough that the document is written again and the first one is stored apart.
        let value = json!({"round": round, "text": CANARY}).to_string();
        let fields = vec![FieldChange::set("agent_state", value).unwrap()];
        store.save_base_state(&id, BaseStateChange::new(fields)).unwrap();
    }
    let other = conversation("other");
    store.append(&other, Expected::Any, &[user_message("o", "of no concern")]).unwrap();
    assert_eq!(found(store), 3);
    store.catch_up().unwrap();
    id
}

/// Returns the number of events with the canary in the search index.
pub fn found(store: &Store) -> usize {
    store.search(CANARY, &Default::default(), 100, &mut |_| ()).unwrap().len()
}

/// Counts `needle` in a database and in the files beside it, ignoring the case of ASCII letters in the files.
///
/// Another process reads the files: if this process closed one of them, SQLite would lose its locks on it.
pub fn count_bytes(database: &Path, needle: &[u8]) -> usize {
    let (needle, mut count) = (needle.to_ascii_lowercase(), 0);
    for beside in ["", "-wal", "-shm", "-journal"] {
        let output = Command::new("cat").arg(format!("{}{beside}", database.display())).output().unwrap();
        let bytes = output.stdout.to_ascii_lowercase();
        count += bytes.windows(needle.len()).filter(|window| *window == needle).count();
    }
    count
}
