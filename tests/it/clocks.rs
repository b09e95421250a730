//! Clocks that jump, and words for times.
#![cfg(feature = "cli")]

use annals::{ConversationId, Expected, Store};

use crate::cli::Program;
use crate::support::events::user_message;
use crate::support::owner;

/// A file with ten events whose ids begin with a word for a time. The fifth was recorded when the clock was years ahead.
fn with_a_jump() -> Program {
    let program = Program::new();
    let file = program.folder.path().join("annals.db");
    let store = Store::open(&file).unwrap();
    let id = ConversationId::new("c").unwrap();
    for number in 0..10 {
        store.append(&id, Expected::Any, &[user_message(&format!("now-{number}"), "Hello")]).unwrap();
    }
    drop(store);
    let ahead = "UPDATE event SET recorded_at = recorded_at + 126230400000000 WHERE sequence = 4";
    owner(&file).execute_batch(ahead).unwrap();
    program
}

#[test]
fn a_restore_to_a_time_says_what_it_leaves_out_though_it_was_recorded_by_then() {
    let program = with_a_jump();
    program.succeed(&["backup", "backups/"]);
    let said = program.succeed(&["restore", "backups/", "cut.db", "--at", "now"]);
    assert!(said.contains("6 events after that point were left out"), "{said}");
    let why =
        "5 of them were recorded by then, but stand behind position 5, which the clock says was recorded at ";
    assert!(said.contains(why) && said.contains("; --at 10 has them"), "{said}");
    let json = program.json(&["restore", "backups/", "other.db", "--at", "now"]);
    assert_eq!((&json["cut_early"]["events"], &json["cut_early"]["last"]), (&5.into(), &10.into()), "{json}");
    let said = program.succeed(&["restore", "backups/", "whole.db", "--at", "10"]);
    assert!(!said.contains("left out"), "{said}");
}

#[test]
fn a_word_for_a_time_is_a_time_although_ids_begin_with_it() {
    let program = with_a_jump();
    let all = program.json(&["state", "c", "--at", "now"]);
    let whole = program.json(&["state", "c"]);
    assert_eq!(all["event_count"], whole["event_count"], "{all}");
    // An id is one if it is written whole, and so is the beginning of one that is no word.
    assert_eq!(program.json(&["state", "c", "--at", "now-3"])["event_count"], 4);
}

#[test]
fn the_doctor_names_what_verify_finds_beside_the_events() {
    let program = Program::with_goldens();
    let file = program.folder.path().join("annals.db");
    let db = owner(&file);
    db.execute_batch(
        "UPDATE conversation SET title = 'Another' WHERE key = 1; \
         UPDATE base_state SET document = json_set(document, '$.agent.llm.model', 'another') WHERE conversation = 2; \
         DELETE FROM change WHERE conversation = 3 AND number = 1",
    )
    .unwrap();
    drop(db);
    let verified = program.run(&["--json", "verify"]);
    let verified: serde_json::Value = serde_json::from_slice(&verified.stdout).unwrap();
    let examined = program.run(&["--json", "doctor"]);
    let examined: serde_json::Value = serde_json::from_slice(&examined.stdout).unwrap();
    let found: Vec<&str> = examined["findings"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|finding| finding["what"].as_str())
        .collect();
    // The doctor counts derived rows that differ, and does not list them.
    let is_derived =
        |finding: &&serde_json::Value| finding["what"].as_str().unwrap().starts_with("projection ");
    let named = verified["findings"].as_array().unwrap().iter().filter(|finding| !is_derived(finding));
    let named: Vec<_> = named.collect();
    assert!(named.len() >= 3, "{verified}");
    for finding in named {
        assert!(found.contains(&finding["what"].as_str().unwrap()), "{finding}: {found:?}");
    }
}
