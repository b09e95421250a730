//! Only Annals can change the log, whatever statement another program runs and whatever its settings are.

use annals::Expected;
use annals::redact::Finder;
use annals::state::FieldChange;
use annals::store::{BaseStateChange, Mending, ObjectKind, Redaction, derived_objects};
use annals::transfer::Importer;
use rusqlite::Connection;

use crate::support::events::{answered, user_message};
use crate::support::{Scratch, all_events, assert_sound, conversation, folder, number, rows};

const COLUMNS: &str = "position, conversation, sequence, id, kind, source, timestamp, parent_id, tool_call_id, \
     action_id, llm_response_id, tool_name, recorded_at, hash, redacted_digest, payload";

/// Statements that would change, hide or add an event.
fn attacks() -> Vec<String> {
    let copy = |verb: &str, position: &str, sequence: &str, id: &str| {
        format!(
            "{verb} INTO event ({COLUMNS}) SELECT {position}, conversation, {sequence}, {id}, kind, source, \
             timestamp, parent_id, tool_call_id, action_id, llm_response_id, tool_name, recorded_at, hash, \
             redacted_digest, '{{}}' FROM event WHERE position = 1"
        )
    };
    let mut attacks = vec![
        "UPDATE event SET payload = '{}'".to_owned(),
        "UPDATE event SET sequence = sequence + 10".to_owned(),
        "UPDATE event SET position = position + 10".to_owned(),
        "UPDATE OR REPLACE event SET position = 1 WHERE position = 2".to_owned(),
        "UPDATE OR REPLACE event SET sequence = 0 WHERE sequence = 1".to_owned(),
        "UPDATE OR IGNORE event SET kind = 'x'".to_owned(),
        "DELETE FROM event".to_owned(),
        "DELETE FROM event WHERE position = 2".to_owned(),
    ];
    for verb in
        ["INSERT", "INSERT OR REPLACE", "REPLACE", "INSERT OR IGNORE", "INSERT OR FAIL", "INSERT OR ROLLBACK"]
    {
        attacks.push(copy(verb, "9", "2", "'new'")); // a new event in the next place
        attacks.push(copy(verb, "9", "7", "'new'")); // a new event after a gap
        attacks.push(copy(verb, "1", "2", "'new'")); // replaces another event: by position,
        attacks.push(copy(verb, "9", "1", "'new'")); // by sequence,
        attacks.push(copy(verb, "9", "2", "id")); // by id
    }
    attacks.push(format!(
        "{} ON CONFLICT (conversation, sequence) DO UPDATE SET payload = excluded.payload",
        copy("INSERT", "9", "0", "'new'").replace("WHERE position = 1", "WHERE position = 1 AND true")
    ));
    attacks
}

fn connect(scratch: &Scratch, recursive_triggers: bool) -> Connection {
    let db = scratch.stranger();
    db.pragma_update(None, "recursive_triggers", recursive_triggers).unwrap();
    db.pragma_update(None, "foreign_keys", false).unwrap();
    db
}

#[test]
fn another_program_can_neither_change_nor_remove_nor_add_an_event() {
    let scratch = Scratch::new();
    let store = scratch.open_without_projector();
    let talk = conversation("talk");
    store.append(&talk, Expected::Any, &[user_message("a", "one"), answered("b", "two")]).unwrap();
    let before = all_events(&store, &talk);
    for recursive_triggers in [false, true] {
        let db = connect(&scratch, recursive_triggers);
        for attack in attacks() {
            let error = db.execute_batch(&attack).expect_err(&attack).to_string();
            assert!(
                error.contains("annals: the log is append-only")
                    || error.contains("no such function: only_annals_appends_to_the_log"),
                "{attack}: {error}"
            );
        }
    }
    assert_eq!(all_events(&store, &talk), before);
    assert_sound(&store);

    // Annals itself can still append.
    store.append(&talk, Expected::Exact(2), &[user_message("c", "three")]).unwrap();
    assert_sound(&store);
}

#[test]
fn another_program_cannot_rewrite_the_history_of_a_base_state() {
    let scratch = Scratch::new();
    let store = scratch.open_without_projector();
    let talk = conversation("talk");
    store.append(&talk, Expected::Any, &[user_message("a", "one")]).unwrap();
    let fields = vec![FieldChange::set("max_iterations", "7").unwrap()];
    store.save_base_state(&talk, BaseStateChange::new(fields)).unwrap();
    let read = "SELECT * FROM base_state_change";
    let db = connect(&scratch, false);
    let before = rows(&db, read);
    assert_eq!(before.len(), 1);
    for attack in [
        "UPDATE base_state_change SET value = '8'",
        "UPDATE OR REPLACE base_state_change SET version = 2",
        "DELETE FROM base_state_change",
    ] {
        let error = db.execute_batch(attack).expect_err(attack).to_string();
        assert!(error.contains("annals: the history of changes is append-only"), "{attack}: {error}");
    }
    assert_eq!(rows(&db, read), before);
}

/// Tables of the engine, which no trigger can guard.
const OF_THE_ENGINE: [&str; 3] = ["sqlite_sequence", "sqlite_stat1", "sqlite_stat4"];

/// The list in `docs/format.md` that begins with `beginning`: its names, sorted.
fn documented(beginning: &str) -> Vec<String> {
    let document = include_str!("../../docs/format.md");
    let list = document.split(beginning).nth(1).and_then(|rest| rest.split(".\n").next()).unwrap();
    let mut names: Vec<String> = list.split('`').skip(1).step_by(2).map(str::to_owned).collect();
    names.sort();
    names
}

#[test]
fn a_table_is_guarded_unless_it_is_derived_and_the_documentation_says_which_are() {
    let scratch = Scratch::new();
    let store = scratch.open_without_projector();
    let talk = conversation("talk");
    // The guards of the log's own tables act on rows. All others refuse a statement before it runs.
    store.append(&talk, Expected::Any, &[user_message("a", "one"), answered("b", "two")]).unwrap();
    let fields = vec![FieldChange::set("max_iterations", "7").unwrap()];
    store.save_base_state(&talk, BaseStateChange::new(fields)).unwrap();
    store.maintenance().note_repair(Some(&talk), &Mending::new("a-test", "found", "done")).unwrap();
    let finder = Finder::expression("two").unwrap();
    let redaction = Redaction::Matches { finder: &finder, values: &[], own: false };
    store.retention().redact(&talk, redaction, "a test").unwrap();
    store.search("one", &Default::default(), 1, &mut |_| ()).unwrap();

    let derived = derived_objects().unwrap();
    let is_derived =
        |name: &str| derived.iter().any(|object| object.kind == ObjectKind::Table && object.name == name);
    let all = rows(&scratch.foreign(), "SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name");
    let all: Vec<String> = all
        .into_iter()
        .map(|mut row| match row.remove(0) {
            rusqlite::types::Value::Text(name) => name,
            other => panic!("{other:?}"),
        })
        .filter(|name| !OF_THE_ENGINE.contains(&name.as_str()))
        .collect();
    let (free, guarded): (Vec<String>, Vec<String>) = all.into_iter().partition(|name| is_derived(name));
    assert!(guarded.len() > 20 && free.len() > 10);
    let mut let_through = Vec::new();
    for (recursive_triggers, table) in guarded.iter().flat_map(|table| [(false, table), (true, table)]) {
        let db = connect(&scratch, recursive_triggers);
        let column = rows(&db, &format!("SELECT name FROM pragma_table_info('{table}') LIMIT 1"));
        let rusqlite::types::Value::Text(column) = &column[0][0] else { panic!("{table}") };
        for attack in [
            format!("INSERT INTO {table} SELECT * FROM {table}"),
            format!("INSERT OR REPLACE INTO {table} SELECT * FROM {table}"),
            format!("INSERT OR IGNORE INTO {table} SELECT * FROM {table}"),
            format!("UPDATE {table} SET {column} = {column}"),
            format!("UPDATE OR REPLACE {table} SET {column} = 1"),
            format!("DELETE FROM {table}"),
        ] {
            let refused = db.execute_batch(&attack).map_err(|error| error.to_string());
            if !refused.as_ref().is_err_and(|error| {
                error.contains("only_annals_appends_to_the_log") || error.contains("append-only")
            }) {
                let_through.push(format!("{attack}: {refused:?}"));
            }
        }
    }
    assert!(let_through.is_empty(), "a table without the guards of a migration: {let_through:#?}");
    assert_sound(&store);
    assert_eq!(documented("These tables are guarded:"), guarded);
    assert_eq!(documented("These are derived, and are not guarded:"), free);
}

#[test]
fn annals_itself_writes_every_guarded_table_beside_a_trigger_of_another_program() {
    let scratch = Scratch::new();
    drop(scratch.open_without_projector());
    let theirs =
        "CREATE TABLE theirs (x); CREATE TRIGGER theirs_counts AFTER INSERT ON theirs BEGIN SELECT 1; END";
    scratch.stranger().execute_batch(theirs).unwrap();
    // All triggers of the file act on this writer now.
    let store = scratch.open_without_projector();
    let golden = folder::golden("conversations/coding-task");
    let id = Importer::new(&store, Default::default()).import(&golden, &mut |_| ()).unwrap()[0]
        .id
        .clone()
        .unwrap();
    store.append(&id, Expected::Any, &[user_message("more", "goes on")]).unwrap();
    store.retention().archive(std::slice::from_ref(&id), None, &mut |_| ()).unwrap();
    store.retention().unarchive(&id, None).unwrap();
    store.set_title(&id, Some("a title")).unwrap();
    store.retention().erase(&id, "a test").unwrap();
    assert_eq!(number(&scratch.foreign(), "SELECT count(*) FROM conversation"), 0);
}

#[test]
fn a_program_that_only_reads_needs_nothing_from_annals() {
    let scratch = Scratch::new();
    let talk = conversation("talk");
    scratch.open().append(&talk, Expected::Any, &[user_message("a", "one")]).unwrap();
    let db = scratch.foreign();
    let read = "SELECT conversation_id, sequence, event_id, payload FROM events";
    let expected = vec![vec![
        "talk".to_owned().into(),
        0.into(),
        "a".to_owned().into(),
        user_message("a", "one").payload().to_owned().into(),
    ]];
    assert_eq!(rows(&db, read), expected);
}
