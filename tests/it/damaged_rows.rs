//! One damaged row keeps nothing else from being read, derived, repaired or deleted.

use std::sync::LazyLock;

use annals::doctor::{Comparison, Doctor, DoctorOptions, Remedy};
use annals::error::ErrorClass;
use annals::state::FieldChange;
use annals::store::{BaseStateChange, By, PruneRules, SqlQuery};
use annals::{ConversationId, Expected, Sequence, Store};
use serde_json::{Value, json};

use crate::support::events::{command, printed, updated, user_message};
use crate::support::projected::{assert_same_rows, dump};
use crate::support::{Scratch, conversation, number};

/// Values that a damaged column of text may have: no UTF-8, no JSON, nothing.
static VALUES: [&str; 3] = ["CAST(x'ff' AS TEXT)", "'{'", "''"];

/// The columns of an event with a text.
static COLUMNS: [&str; 10] = [
    "id",
    "kind",
    "payload",
    "source",
    "timestamp",
    "parent_id",
    "tool_call_id",
    "action_id",
    "llm_response_id",
    "tool_name",
];

fn stats(prompt: i64) -> Value {
    let tokens = json!({"prompt_tokens": prompt, "completion_tokens": 1});
    let metrics = json!({"model_name": "m", "accumulated_cost": 0.5, "accumulated_token_usage": tokens});
    json!({"usage_to_metrics": {"agent": metrics}})
}

/// Copies a file with the conversations `hurt` and `well`, which are the same. Every projection has read it.
fn written() -> Scratch {
    static FILE: LazyLock<Vec<u8>> = LazyLock::new(|| {
        let scratch = Scratch::new();
        let store = scratch.open_without_projector();
        for id in ["hurt", "well"] {
            let id = conversation(id);
            let events = [
                user_message("a", "common words"),
                command("c", "call", "ls"),
                printed("d", "c", "call", "common answer", 0),
                updated("e", "stats", stats(5)),
                user_message("f", "common end"),
            ];
            store.append(&id, Expected::Empty, &events).unwrap();
            let fields = vec![FieldChange::set("stats", stats(7).to_string()).unwrap()];
            store.save_base_state(&id, BaseStateChange::new(fields)).unwrap();
        }
        // From the first search on, the index follows the log.
        assert!(hits(&store, "common", &conversation("well")) > 1);
        store.catch_up().unwrap();
        drop(store);
        // The file is complete, because the store is closed.
        std::fs::read(scratch.database()).unwrap()
    });
    let scratch = Scratch::new();
    std::fs::write(scratch.database(), &*FILE).unwrap();
    scratch
}

/// Whether the projections have read the damaged row before it was damaged, or have to begin anew.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Projections {
    Stand,
    BeginAnew,
}

/// Sets a column of one row of the conversation `hurt`, as a fault of the disk would.
fn damage(scratch: &Scratch, (table, column, value): (&str, &str, &str), projections: Projections) {
    let db = scratch.foreign();
    db.execute_batch(
        "PRAGMA ignore_check_constraints = ON; PRAGMA foreign_keys = OFF;
         INSERT INTO maintenance (reason) VALUES ('a test')",
    )
    .unwrap();
    let row = if table == "event" { "sequence = 1" } else { "1" };
    let sql = format!(
        "UPDATE {table} SET {column} = {value} \
         WHERE conversation = (SELECT key FROM conversation WHERE id = 'hurt') AND {row}"
    );
    assert_eq!(db.execute(&sql, []).unwrap(), 1, "{sql}");
    db.execute_batch("DELETE FROM maintenance").unwrap();
    if projections == Projections::BeginAnew {
        db.execute_batch("DELETE FROM projection").unwrap();
    }
}

/// One damage for each column and value.
fn damages() -> Vec<(&'static str, &'static str, &'static str)> {
    let of_event = COLUMNS.iter().flat_map(|column| {
        // What is empty is damaged only where a text is needed.
        let values = if ["id", "kind", "payload"].contains(column) { &VALUES[..] } else { &VALUES[..2] };
        values.iter().map(move |value| ("event", *column, *value))
    });
    let beside = [("base_state", "document"), ("base_state_change", "value")];
    let of_state =
        beside.iter().flat_map(|(table, column)| VALUES.iter().map(move |value| (*table, *column, *value)));
    of_event.chain(of_state).collect()
}

fn hits(store: &Store, word: &str, of: &ConversationId) -> usize {
    let hits = store.search(word, &Default::default(), 100, &mut |_| ()).unwrap();
    hits.iter().filter(|hit| hit.conversation == *of).count()
}

/// What the derived tables say about a conversation.
fn derived(store: &Store, id: &ConversationId) -> Vec<String> {
    vec![
        format!("{:?}", store.transcript(id, Sequence(0), 100).unwrap()),
        format!("{:?}", store.tool_calls(id, Sequence(0), 100).unwrap()),
        format!("{:?}", store.tool_counts(id).unwrap()),
        format!("{:?}", store.usage(Some(id)).unwrap()),
        format!("{:?}", store.tasks(id).unwrap()),
        format!("{} hits", hits(store, "common", id)),
    ]
}

/// Examines the file, and repairs what is derived.
fn heal(store: &Store) {
    let options = DoctorOptions::default().quiet_for_us(0).comparison(Comparison::Everything);
    let doctor = Doctor::new(store, options);
    let seen = doctor.examine(None, &mut |_| ()).unwrap();
    for finding in seen.findings {
        if matches!(finding.remedy, Some(Remedy::Recatalogue | Remedy::Rebuild { .. })) {
            doctor.repair(&finding).unwrap();
        }
    }
}

#[test]
fn a_damaged_row_affects_no_other_conversation() {
    let (hurt, well) = (conversation("hurt"), conversation("well"));
    let wanted = derived(&written().open_without_projector(), &well);
    for damaged in damages() {
        for projections in [Projections::BeginAnew, Projections::Stand] {
            println!("{damaged:?}, {projections:?}");
            let scratch = written();
            damage(&scratch, damaged, projections);
            let store = scratch.open_without_projector();
            assert_eq!(derived(&store, &well), wanted);
            let query = SqlQuery::new("SELECT 1");
            assert_eq!(store.query(&query).unwrap().rows.len(), 1);
            store.statistics().unwrap();
            if projections == Projections::Stand && damaged.1 == "payload" && damaged.2 == VALUES[0] {
                // The index has its words. The hit is shown, and says why its text is not.
                let seen = store.search("ls", &Default::default(), 100, &mut |_| ()).unwrap();
                let of_hurt: Vec<_> = seen.iter().filter(|hit| hit.conversation == hurt).collect();
                let [hit] = &of_hurt[..] else { panic!("{seen:?}") };
                assert!(hit.snippet.contains("cannot be read"), "{hit:?}");
            }
            for id in [&hurt, &well] {
                store.append(id, Expected::Any, &[user_message("n", "one more")]).unwrap();
            }
            store.catch_up().unwrap();
            if projections == Projections::BeginAnew {
                // Following the log gives the rows that a rebuild gives, and that the comparison expects.
                assert_eq!(store.audit().verify_projections(&mut |_| ()).unwrap().findings, []);
                let followed = dump(&scratch.foreign());
                store.maintenance().rebuild(&[], &mut |_| ()).unwrap();
                assert_same_rows(&dump(&scratch.foreign()), &followed);
            }
            heal(&store);
            store.maintenance().rebuild(&[], &mut |_| ()).unwrap();
            assert_eq!(store.audit().verify_projections(&mut |_| ()).unwrap().findings, []);
            assert_eq!(hits(&store, "more", &well), 1);
            let findings = store.audit().verify(None, &mut |_| ()).unwrap().findings;
            let names = |id: &ConversationId| {
                findings.iter().any(|finding| finding.conversation.as_ref() == Some(id))
            };
            assert!(names(&hurt) && !names(&well), "{findings:?}");
        }
    }
}

#[test]
fn a_base_state_that_cannot_be_read_has_no_figures() {
    let (hurt, well) = (conversation("hurt"), conversation("well"));
    for value in VALUES {
        let scratch = written();
        damage(&scratch, ("base_state", "document", value), Projections::BeginAnew);
        let store = scratch.open_without_projector();
        let prompt_tokens = |id: &ConversationId| -> i64 {
            store.usage(Some(id)).unwrap().iter().map(|total| total.prompt_tokens).sum()
        };
        // The snapshots in the log count instead.
        assert_eq!((prompt_tokens(&hurt), prompt_tokens(&well)), (5, 7), "{value}");
        let error = store.base_state(&hurt).unwrap_err();
        assert_eq!((error.class(), error.is_transient()), (ErrorClass::Failed, false), "{value}: {error}");
        store.append(&hurt, Expected::Any, &[updated("g", "stats", stats(9))]).unwrap();
        assert_eq!((prompt_tokens(&hurt), prompt_tokens(&well)), (9, 7), "{value}");
        store.maintenance().rebuild(&[], &mut |_| ()).unwrap();
        assert_eq!((prompt_tokens(&hurt), prompt_tokens(&well)), (9, 7), "{value}");
    }
}

#[test]
fn a_text_of_the_catalogue_that_cannot_be_read_ends_no_report() {
    let hurt = conversation("hurt");
    for column in ["title", "first_message", "status", "leaf_event_id", "tags"] {
        let scratch = written();
        let sql = format!("UPDATE conversation SET {column} = {} WHERE id = 'hurt'", VALUES[0]);
        assert_eq!(scratch.foreign().execute(&sql, []).unwrap(), 1);
        let store = scratch.open_without_projector();
        let statuses: u64 = store.statistics().unwrap().statuses.iter().map(|(_, count)| count).sum();
        assert_eq!(statuses, 2, "{column}");
        for by in [By::Conversation, By::Kind, By::Tool, By::Day] {
            assert!(!store.breakdown(by).unwrap().is_empty(), "{column} {by:?}");
        }
        assert_eq!(store.mark(&hurt).unwrap().event_count, 5, "{column}");
        // What is deleted for its status has to have one that can be read.
        let rules = PruneRules::default().keep_last(1);
        let planned = store.retention().plan_pruning(&rules);
        assert_eq!(planned.is_ok(), column != "status", "{column}: {planned:?}");
    }
}

#[test]
fn a_conversation_with_an_unreadable_event_is_deleted_with_all_its_words() {
    let (hurt, well) = (conversation("hurt"), conversation("well"));
    let all = hits(&written().open_without_projector(), "common", &well);
    for column in ["payload", "kind"] {
        let scratch = written();
        damage(&scratch, ("event", column, VALUES[0]), Projections::Stand);
        let store = scratch.open_without_projector();
        store.retention().delete(&hurt).unwrap();
        assert_eq!((hits(&store, "common", &hurt), hits(&store, "common", &well)), (0, all), "{column}");
        assert_eq!(store.audit().verify_projections(&mut |_| ()).unwrap().findings, [], "{column}");
        let db = scratch.foreign();
        db.execute_batch("CREATE VIRTUAL TABLE temp.words USING fts5vocab(main, transcript_search, row)")
            .unwrap();
        // Only the words of the other conversation are left.
        assert_eq!(number(&db, "SELECT max(doc) FROM temp.words"), all as i64, "{column}");
    }
}

#[cfg(feature = "cli")]
#[test]
fn damage_is_a_failure_and_not_a_refusal() {
    for value in VALUES {
        let scratch = written();
        damage(&scratch, ("base_state", "document", value), Projections::BeginAnew);
        for (arguments, code) in [
            (&["query", "SELECT 1"][..], 0),
            (&["transcript", "well"][..], 0),
            (&["show", "well"][..], 0),
            (&["rebuild"][..], 0),
            (&["show", "hurt"][..], 2),
            (&["show", "nothing"][..], 1),
        ] {
            let output = std::process::Command::new(env!("CARGO_BIN_EXE_annals"))
                .env_remove("ANNALS_DB")
                .arg("--db")
                .arg(scratch.database())
                .args(arguments)
                .output()
                .unwrap();
            let errors = String::from_utf8_lossy(&output.stderr);
            assert_eq!(output.status.code(), Some(code), "{value} {arguments:?}: {errors}");
        }
    }
}

#[test]
fn numbers_that_no_program_writes_are_damage_and_no_write_follows_them() {
    let of_hurt = "conversation = (SELECT key FROM conversation WHERE id = 'hurt')";
    let (max, min) = (i64::MAX, i64::MIN);
    for damage in [
        format!("UPDATE event SET sequence = -1 - sequence WHERE {of_hurt}"),
        format!("UPDATE event SET sequence = {max} WHERE {of_hurt} AND sequence = 4"),
        format!("UPDATE change SET number = {max} WHERE {of_hurt} AND number = 1"),
        format!("UPDATE conversation SET event_count = {min} WHERE id = 'hurt'"),
        format!("UPDATE conversation SET event_count = {max} WHERE id = 'hurt'"),
    ] {
        let scratch = written();
        let db = scratch.foreign();
        db.execute_batch(
            "PRAGMA ignore_check_constraints = ON; INSERT INTO maintenance (reason) VALUES ('a test')",
        )
        .unwrap();
        assert!(db.execute(&damage, []).unwrap() > 0, "{damage}");
        db.execute_batch("DELETE FROM maintenance").unwrap();
        let store = scratch.open_without_projector();
        let (hurt, before) = (conversation("hurt"), store.last_position().unwrap());
        let events = store.append(&hurt, Expected::Any, &[user_message("new", "more")]);
        let title = store.set_title(&hurt, Some("a title"));
        // A number of a change concerns the title, a sequence the events, a count both.
        let refused = [events.err(), title.err()].into_iter().flatten().collect::<Vec<_>>();
        assert!(!refused.is_empty(), "{damage}");
        for error in refused {
            assert!(matches!(error.class(), ErrorClass::Failed), "{damage}: {error:?}");
        }
        let written = store.last_position().unwrap().0 - before.0;
        assert_eq!(written, u64::from(damage.contains("change SET")), "{damage}");
        store.append(&conversation("well"), Expected::Any, &[user_message("new", "more")]).unwrap();
    }
}
