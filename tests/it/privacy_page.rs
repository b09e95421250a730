//! `docs/privacy.md`, statement by statement: each has a test that shows it.
//!
//! The commands of the page are run by `guide.rs`.
#![cfg(all(unix, feature = "cli"))]

use std::fs;

use annals::{Expected, Store};

use crate::cli::Program;
use crate::support::events::user_message;
use crate::support::{Scratch, conversation, number, owner, without_projector};
use crate::ways_to_corrupt::{repository, sources};

/// The beginning of each paragraph, item and row of the page, and the tests that show what it says.
const STATEMENTS: &[(&str, &[&str])] = &[
    ("What agents see ends up in their logs", &["payloads_come_back_byte_for_byte"]),
    ("The commands of this page run on", &["privacy_is_as_its_page_shows"]),
    ("It looks through every text that is kept", &["every_place_of_a_value_is_reported_but_never_the_value"]),
    ("Three things make a text a secret", &["secrets_are_recognized_by_their_form_and_distinguished"]),
    ("* **Its form.**", &["every_kind_is_found_and_no_secret_is_shown"]),
    (
        "* **Its name.**",
        &[
            "a_name_says_that_its_value_is_secret",
            "random_words_differ_from_code_and_stand_ins",
            "masked_and_sealed_values_are_skipped",
        ],
    ),
    (
        "* **Its value.**",
        &[
            "a_plain_secret_in_a_base_state_is_searched_for_in_its_whole_conversation",
            "values_are_found_in_every_encoding",
            "short_values_are_rejected_with_their_number",
        ],
    ),
    ("What it does not see", &["what_the_page_says_that_is_not_seen_is_not_seen"]),
    ("Text becomes `[redacted]`", &["a_kill_within_a_transaction_undoes_it"]),
    ("| where | what happens |", &["no_byte_of_a_redacted_text_is_left_in_file_or_log"]),
    ("| events |", &["a_redaction_changes_only_the_redacted_text", "only_what_was_found_changes"]),
    (
        "| base state |",
        &["a_base_state_keeps_its_shape", "no_byte_of_a_redacted_text_is_left_in_file_or_log"],
    ),
    ("| catalogue |", &["what_is_redacted_or_deleted_is_in_no_column"]),
    (
        "| attachments |",
        &["an_attached_source_file_is_redacted_too", "content_that_another_conversation_shares_stays_there"],
    ),
    ("| imports |", &["text_around_the_events_of_a_file_is_redacted_and_stays_redacted"]),
    ("| derived tables |", &["projections_after_a_redaction_equal_those_of_a_rebuild"]),
    (
        "| search index |",
        &[
            "no_byte_of_a_redacted_text_is_left_in_file_or_log",
            "words_that_are_redacted_while_the_search_index_is_rebuilt_do_not_come_back",
        ],
    ),
    ("`--event` takes all text of one event out", &["a_single_event_is_redacted_whole_and_keeps_its_shape"]),
    (
        "The event **keeps its shape**",
        &[
            "everything_is_redacted_except_the_shape",
            "an_action_can_be_read_as_before",
            "ids_and_kinds_and_join_keys_stay",
        ],
    ),
    ("Forks and sub-agents may hold copies", &["a_conversation_without_forks_has_no_related_conversations"]),
    (
        "Everything of it goes",
        &[
            "an_erased_conversation_leaves_an_act_and_no_byte",
            "deletion_removes_everything_of_one_conversation_and_nothing_of_another",
        ],
    ),
    ("1. Everything that the transaction frees", &["no_byte_of_a_redacted_text_is_left_in_file_or_log"]),
    (
        "2. The write-ahead log is moved",
        &["a_reader_that_keeps_the_log_is_reported_and_a_vacuum_finishes_the_work"],
    ),
    ("3. The file is written anew", &["a_vacuum_makes_the_file_smaller"]),
    ("A test plants a word in every place", &["no_byte_of_a_redacted_text_is_left_in_file_or_log"]),
    (
        "Not overwritten: **backups and exports**",
        &[
            "an_erasure_or_redaction_starts_a_new_full_backup",
            "what_is_behind_a_damaged_frame_is_kept_and_named_and_comes_back",
        ],
    ),
    (
        "The hash chain commits to the SHA-256",
        &[
            "the_chain_stays_valid_and_redacted_events_are_counted",
            "nothing_that_confirms_a_guess_is_left_of_an_erased_conversation",
        ],
    ),
    (
        "The administrative log stays whole although",
        &[
            "nothing_that_confirms_a_guess_is_left_of_an_erased_conversation",
            "an_upgrade_takes_the_receipts_of_what_was_erased_before_and_no_others",
        ],
    ),
    ("An import of the folder that the conversation", &["an_import_does_not_bring_redacted_text_back"]),
    (
        "An erased conversation is refused",
        &[
            "an_erased_conversation_leaves_an_act_and_no_byte",
            "a_new_import_reports_redactions_before_a_deletion",
        ],
    ),
    (
        "Deletions, erasures, redactions, [prunings",
        &[
            "the_administrative_log_is_append_only_and_chained",
            "the_user_of_an_actor_is_separate_from_the_machine_and_the_program",
        ],
    ),
];

/// Returns the paragraphs, items and rows of a page, without headings, listings and the table of contents.
fn blocks(page: &str) -> Vec<String> {
    let mut blocks = vec![String::new()];
    let mut is_listing = false;
    for line in page.lines() {
        is_listing ^= line.starts_with("```");
        let is_text =
            !is_listing && !line.starts_with("```") && !line.starts_with('#') && !line.starts_with("|---");
        let begins = ["* ", "| ", "1. ", "2. ", "3. "].iter().any(|mark| line.starts_with(mark));
        if line.is_empty() || !is_text || begins {
            blocks.push(String::new());
        }
        if is_text
            && !line.is_empty()
            && let Some(last) = blocks.last_mut()
        {
            last.push_str(line.trim());
            last.push(' ');
        }
    }
    blocks.retain(|block| !block.trim().is_empty() && !block.contains("](#"));
    blocks
}

#[test]
fn every_statement_about_privacy_has_its_tests() {
    let mut all = String::new();
    ["src", "tests"].iter().for_each(|folder| sources(&repository(folder), &mut all));
    let page = fs::read_to_string(repository("docs/privacy.md")).unwrap();
    let mut blocks = blocks(&page);
    for (beginning, tests) in STATEMENTS {
        let before = blocks.len();
        blocks.retain(|block| !block.starts_with(beginning));
        assert_eq!(blocks.len() + 1, before, "{beginning:?} is not one statement of the page");
        assert!(!tests.is_empty(), "{beginning:?}");
        for test in *tests {
            assert!(all.contains(&format!("fn {test}(")), "there is no test {test} of {beginning:?}");
        }
    }
    assert!(blocks.is_empty(), "statements without tests: {blocks:#?}");
}

#[test]
fn what_the_page_says_that_is_not_seen_is_not_seen() {
    let token = format!("ghp_{}", "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8");
    let base64 = {
        use base64::Engine as _;
        base64::engine::general_purpose::STANDARD.encode(&token)
    };
    let (first, second) = token.split_at(20);
    for (texts, is_seen) in
        [(vec![token.as_str()], true), (vec![base64.as_str()], false), (vec![first, second], false)]
    {
        let program = Program::new();
        let store = Store::open(program.folder.path().join("annals.db")).unwrap();
        for (number, text) in texts.iter().enumerate() {
            let event = user_message(&format!("e{number}"), text);
            store.append(&conversation("talk"), Expected::Any, &[event]).unwrap();
        }
        drop(store);
        assert_eq!(program.run(&["scan-secrets"]).status.code(), Some(i32::from(is_seen)), "{texts:?}");
    }
}

#[test]
fn a_reader_that_keeps_the_log_is_reported_and_a_vacuum_finishes_the_work() {
    let canary = "canary7391";
    let program = Program::new();
    let file = program.folder.path().join("annals.db");
    let store = Store::open(&file).unwrap();
    store.append(&conversation("talk"), Expected::Any, &[user_message("a", canary)]).unwrap();
    store.append(&conversation("other"), Expected::Any, &[user_message("a", "text")]).unwrap();
    drop(store);
    let reader = owner(&file);
    reader.execute_batch("BEGIN").unwrap();
    assert_eq!(number(&reader, "SELECT count(*) FROM event"), 2);
    let (code, said) = program.fails(&["erase", "talk", "--reason", "a test", "--yes"]);
    assert!(code == 2 && said.contains("annals vacuum"), "{code}: {said}");
    reader.execute_batch("COMMIT").unwrap();
    drop(reader);
    program.succeed(&["vacuum"]);
    for ending in ["", "-wal"] {
        let bytes = fs::read(format!("{}{ending}", file.display())).unwrap_or_default();
        let is_there = bytes.windows(canary.len()).any(|window| window == canary.as_bytes());
        assert!(!is_there, "{ending}");
    }
}

#[test]
fn an_upgrade_takes_the_receipts_of_what_was_erased_before_and_no_others() {
    for (act, left) in [("delete", 1), ("erase", 0)] {
        let scratch = Scratch::new();
        fs::copy(repository("tests/old/schema-23.db"), scratch.database()).unwrap();
        let db = owner(scratch.database());
        assert_eq!(number(&db, "SELECT count(*) FROM admin_receipt"), 1);
        db.execute("UPDATE admin_act SET act = ?1", [act]).unwrap();
        drop(db);
        drop(Store::open_with(scratch.database(), &without_projector()).unwrap());
        assert_eq!(number(&owner(scratch.database()), "SELECT count(*) FROM admin_receipt"), left, "{act}");
    }
}
