//! Only Annals can change the log, whatever statement another program runs and whatever its settings are.

use annals::Expected;
use annals::state::FieldChange;
use annals::store::BaseStateChange;
use rusqlite::Connection;

use crate::support::events::{answered, user_message};
use crate::support::{Scratch, all_events, assert_sound, conversation, rows};

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
    let db = scratch.foreign();
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
