//! Databases of every released schema, frozen in `tests/old`. Each opens, is upgraded, and keeps its content.
//!
//! When a schema is released, freeze a database of it: `UPDATE_GOLDEN=1 cargo test --test it old::` writes
//! `tests/old/schema-N.db` for the present schema unless the file exists. Never write a frozen file again, and never
//! change [`furnish`], because the files are compared with what it makes today.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use annals::state::FieldChange;
use annals::store::{Append, BaseStateChange, Leaf, SCHEMA_VERSION};
use annals::transfer::{Exporter, Format, Importer};
use annals::{ConversationId, EventId, Expected, Sequence, Store};
use serde_json::json;

use crate::support::events::{
    answered, command, event, pause_after, printed, tool_call, updated, user_message,
};
use crate::support::folder;
use crate::support::projected::{assert_same_rows, dump};
use crate::support::{Scratch, all_events, assert_sound, conversation, owner, without_projector};

const IMPORTED: [&str; 3] =
    ["conversations/confirm-reject", "conversations/hello-two-turns", "corrupt/duplicate-id"];

/// Writes rows into every table.
fn furnish(store: &Store) {
    let talk = conversation("talk");
    let tasks = json!([{"title": "count", "notes": "", "status": "done"}]);
    let stats = json!({"usage_to_metrics": {"agent": {"model_name": "m", "accumulated_cost": 0.5,
        "accumulated_token_usage": {"prompt_tokens": 7, "completion_tokens": 2}}}});
    let events = vec![
        user_message("a", "Count the files, 数えて"),
        command("b", "call-1", "ls | wc -l"),
        printed("c", "b", "call-1", "3", 0),
        tool_call("d", "call-2", "task_tracker", json!({"command": "plan"})),
        event("e", "ObservationEvent", json!({"action_id": "d", "observation": {"task_list": tasks}})),
        updated("f", "stats", stats),
        tool_call("g", "call-3", "file_editor", json!({"command": "view", "path": "/a.txt"})),
        answered("h", "There are three."),
    ];
    store.append(&talk, Expected::Empty, &events).unwrap();
    store.set_leaf(&talk, Leaf::At(EventId::new("c").unwrap())).unwrap();
    let set = |field: &str, value: &str| FieldChange::set(field, value).unwrap();
    for number in 0..70 {
        let fields = vec![set("number", &number.to_string()), set("tags", r#"{"frozen":"yes"}"#)];
        let change = BaseStateChange::new(fields);
        let events = if number == 3 { vec![pause_after("i", "a")] } else { Vec::new() };
        let append = Append::new(Expected::Any, events).base_state(change);
        store.append_all(&talk, append).unwrap();
    }
    store.set_title(&talk, Some("A title")).unwrap();
    // A database stores the paths of its imports. Import copies, because the goldens' path differs between machines.
    let copies = tempfile::tempdir().unwrap();
    for golden in IMPORTED {
        let copy = copies.path().join(golden);
        folder::write(&copy, &folder::read(&folder::golden(golden)));
        Importer::new(store, Default::default()).import(&copy, &mut |_| ()).unwrap();
    }
    let gone = conversation("gone");
    store.append(&gone, Expected::Any, &[user_message("a", "gone")]).unwrap();
    store.retention().delete(&gone).unwrap();
    store.search("files", &Default::default(), 1, &mut |_| ()).unwrap();
    store.catch_up().unwrap();
}

/// The frozen files. If `UPDATE_GOLDEN` is set, first freezes the present schema unless its file exists.
fn frozen() -> &'static [PathBuf] {
    static FILES: LazyLock<Vec<PathBuf>> = LazyLock::new(|| {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/old");
        let present = folder.join(format!("schema-{SCHEMA_VERSION}.db"));
        if std::env::var_os("UPDATE_GOLDEN").is_some() && !present.exists() {
            freeze(&present);
        }
        let files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
        let mut files: Vec<PathBuf> =
            files.filter(|path| path.extension().is_some_and(|end| end == "db")).collect();
        files.sort();
        files
    });
    assert!(!FILES.is_empty());
    &FILES
}

fn freeze(path: &Path) {
    let scratch = Scratch::new();
    let store = scratch.open_without_projector();
    furnish(&store);
    store.backup().to_new_file(path).unwrap();
}

fn conversations(store: &Store) -> Vec<ConversationId> {
    let page = store.conversations(&Default::default(), Default::default(), None, 100).unwrap();
    let mut ids: Vec<ConversationId> = page.conversations.into_iter().map(|row| row.id).collect();
    ids.sort();
    ids
}

#[test]
fn every_frozen_database_opens_and_keeps_its_content() {
    let new = Store::in_memory(&without_projector()).unwrap();
    furnish(&new);
    for path in frozen() {
        let scratch = Scratch::new();
        fs::write(scratch.database(), fs::read(path).unwrap()).unwrap();
        let old = scratch.open_without_projector();
        assert_sound(&old);
        assert_eq!(conversations(&old), conversations(&new), "{path:?}");
        assert_eq!(old.last_position().unwrap(), new.last_position().unwrap());
        for id in conversations(&new) {
            let events = |store: &Store| {
                let events = all_events(store, &id).into_iter();
                events
                    .map(|event| (event.position, event.sequence, event.id, event.kind, event.payload))
                    .collect::<Vec<_>>()
            };
            assert_eq!(events(&old), events(&new), "{path:?} {id}");
            let row = |store: &Store| {
                let row = store.conversation(&id).unwrap();
                (
                    row.title,
                    row.status,
                    row.tags,
                    row.leaf_event_id,
                    row.head_is_empty,
                    row.payload_bytes,
                    row.chain_head,
                )
            };
            assert_eq!(row(&old), row(&new), "{path:?} {id}");
            assert_eq!(old.base_state(&id).unwrap(), new.base_state(&id).unwrap());
            for sequence in 0..9 {
                let then = |store: &Store| store.base_state_at(&id, Sequence(sequence)).unwrap();
                assert_eq!(then(&old), then(&new), "{path:?} {id} at {sequence}");
            }
            assert_eq!(old.attachments(&id).unwrap(), new.attachments(&id).unwrap());
            assert_eq!(old.problems(&id).unwrap(), new.problems(&id).unwrap());
            let all = Sequence(0);
            assert_eq!(old.transcript(&id, all, 1000).unwrap(), new.transcript(&id, all, 1000).unwrap());
            assert_eq!(old.tool_calls(&id, all, 1000).unwrap(), new.tool_calls(&id, all, 1000).unwrap());
            assert_eq!(old.usage(Some(&id)).unwrap(), new.usage(Some(&id)).unwrap());
            assert_eq!(old.tasks(&id).unwrap(), new.tasks(&id).unwrap());
        }
        for query in ["files", "数", "hello", "-files hello", "user*"] {
            let hits = |store: &Store| store.search(query, &Default::default(), 100, &mut |_| ()).unwrap();
            assert_eq!(hits(&old), hits(&new), "{path:?}: {query}");
        }
    }
}

#[test]
fn every_frozen_database_is_rebuilt_to_the_same_rows_and_exported_as_imported() {
    for path in frozen() {
        let scratch = Scratch::new();
        fs::write(scratch.database(), fs::read(path).unwrap()).unwrap();
        let store = scratch.open_without_projector();
        store.catch_up().unwrap();
        let db = scratch.foreign();
        let before = dump(&db);
        store.maintenance().rebuild(&[], &mut |_| ()).unwrap();
        assert_same_rows(&dump(&db), &before);
        for golden in IMPORTED {
            let reports = Importer::new(&store, Default::default())
                .import(&folder::golden(golden), &mut |_| ())
                .unwrap();
            let id = reports[0].id.clone().unwrap();
            assert_eq!(reports[0].status.as_str(), "unchanged", "{path:?} {golden}");
            let report = Exporter::new(&store, Format::OpenHands)
                .export(&id, &scratch.path("out"), &mut |_| ())
                .unwrap();
            folder::assert_same(&folder::read(&report.path), &folder::read(&folder::golden(golden)));
        }
        let talk = conversation("talk");
        store.append(&talk, Expected::Exact(9), &[user_message("more", "goes on")]).unwrap();
        assert_sound(&store);
    }
}

#[test]
fn a_read_only_open_does_not_upgrade_a_frozen_database() {
    for path in frozen() {
        let scratch = Scratch::new();
        let bytes = fs::read(path).unwrap();
        fs::write(scratch.database(), &bytes).unwrap();
        let opened = Store::open_with(scratch.database(), &without_projector().read_only(true));
        let name = path.file_stem().unwrap().to_str().unwrap();
        match opened {
            Ok(_) => assert_eq!(name, format!("schema-{SCHEMA_VERSION}")),
            Err(error) => assert!(matches!(error, annals::Error::OlderFile { .. }), "{error}"),
        }
        assert_eq!(fs::read(scratch.database()).unwrap(), bytes);
    }
}

/// The chains of changes came with this schema.
#[cfg(feature = "cli")]
const CHANGES_BEGAN: u32 = 12;

#[cfg(feature = "cli")]
#[test]
fn an_upgraded_file_is_covered_since_its_upgrade_and_says_so() {
    use annals::Timestamp;
    use annals::audit::proof::{Head, Scope};

    let mut upgraded = 0;
    for path in frozen() {
        let name = path.file_stem().unwrap().to_str().unwrap();
        let schema: u32 = name.strip_prefix("schema-").unwrap().parse().unwrap();
        if schema >= CHANGES_BEGAN {
            continue;
        }
        upgraded += 1;
        let program = crate::cli::Program::new();
        let file = program.folder.path().join("annals.db");
        fs::write(&file, fs::read(path).unwrap()).unwrap();
        let before = Timestamp::now();
        let store = Store::open_with(&file, &without_projector()).unwrap();
        let after = Timestamp::now();
        let seen = store.audit().verify(None, &mut |_| ()).unwrap();
        assert_eq!(seen.findings, [], "{path:?}");
        assert!(seen.changes > 0, "{path:?}");
        let since = seen.changes_since.unwrap();
        assert!(before <= since && since <= after, "{path:?}: {before} {since} {after}");
        let head = Head::new(Scope::Whole, after, store.audit().chain_heads(None).unwrap());
        let line = format!("changes since {}", since.to_rfc3339());
        assert!(head.to_text().lines().any(|text| text == line), "{path:?}: {}", head.to_text());
        drop(store);
        assert!(program.succeed(&["verify"]).contains("are covered since "), "{path:?}");
        // From then on, a forged title or base state does not fit its chain.
        let db = owner(&file);
        for forgery in [
            "UPDATE conversation SET title = 'Another title' WHERE id = 'talk'",
            "UPDATE base_state_change SET value = '1000' WHERE field = 'number' AND version = 5 \
             AND conversation = (SELECT key FROM conversation WHERE id = 'talk')",
        ] {
            assert_eq!(db.execute(forgery, []).unwrap(), 1, "{path:?}: {forgery}");
        }
        drop(db);
        let output = program.run(&["verify"]);
        let said = String::from_utf8(output.stdout).unwrap();
        assert_eq!(output.status.code(), Some(2), "{path:?}: {said}");
        for what in
            ["talk: the title is not what change", "talk: version 5 of the base state is not what change"]
        {
            assert!(said.contains(what), "{path:?}: {said}");
        }
    }
    assert!(upgraded > 0);
}
