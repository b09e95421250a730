//! Derived tables: their rows are correct, and a rebuild gives the same rows as updates step by step.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use annals::event::TaskStatus;
use annals::event::json::Object;
use annals::event::transcript::Line;
use annals::replay::{Moment, Point};
use annals::state::FieldChange;
use annals::store::{
    BaseStateChange, EventQuery, ObjectKind, Redaction, SqlLimits, SqlQuery, SqlValue, Truncation,
    UsageTotal, derived_objects,
};
use annals::transfer::Importer;
use annals::{ConversationId, Error, EventId, Expected, NewEvent, Options, Position, Sequence, Store};
use proptest::prelude::*;
use rusqlite::Connection;
use rusqlite::types::Value as Cell;
use serde_json::{Value, json};

use crate::support::events::{answered, command, event, printed, tool_call, updated, user_message};
use crate::support::projected::{assert_same_rows, dump};
use crate::support::{Scratch, all_events, altered, assert_error, conversation, folder, number, rows};

fn rebuild(store: &Store) {
    store.maintenance().rebuild(&[], &mut |_| ()).unwrap();
}

/// Returns all rows of every derived table, sorted. Leaves out the search index, which has no rows to compare.
#[track_caller]
fn derived_rows(db: &Connection) -> BTreeMap<String, Vec<Vec<Cell>>> {
    let tables = derived_objects().unwrap().into_iter().filter(|object| object.kind == ObjectKind::Table);
    let tables = tables.map(|object| object.name).filter(|name| !name.starts_with("transcript_search"));
    tables
        .map(|name| {
            let of = if name == "projection" { "WHERE name <> 'search'" } else { "" };
            let columns = db.prepare(&format!("SELECT * FROM {name}")).unwrap().column_count();
            let order: Vec<String> = (1..=columns).map(|column| column.to_string()).collect();
            let all = rows(db, &format!("SELECT * FROM {name} {of} ORDER BY {}", order.join(", ")));
            (name, all)
        })
        .collect()
}

/// Rebuilds every projection. No derived table may have other rows than before.
#[track_caller]
fn assert_rebuild_changes_nothing(store: &Store, db: &Connection) {
    let before = derived_rows(db);
    rebuild(store);
    for (table, after) in &derived_rows(db) {
        let only = |these: &[Vec<Cell>], those: &[Vec<Cell>]| -> Vec<Vec<Cell>> {
            these.iter().filter(|row| !those.contains(row)).cloned().collect()
        };
        let before = &before[table];
        assert!(
            after == before,
            "{table}: followed only {:?}, rebuilt only {:?}",
            only(before, after),
            only(after, before)
        );
    }
}

fn import(store: &Store, golden: &str) {
    Importer::new(store, Default::default()).import(&folder::golden(golden), &mut |_| ()).unwrap();
}

#[test]
fn a_rebuild_of_the_goldens_gives_the_same_rows() {
    let scratch = Scratch::new();
    let store = scratch.open_without_projector();
    for golden in ["conversations", "corrupt", "legacy"] {
        import(&store, golden);
        store.catch_up().unwrap();
    }
    // No golden has a kind of a host's own, and none is long enough for a snapshot of its state.
    let own = r#"{"id":"own","kind":"Own","correlation_id":"request",
        "provenance":{"format":"codex","usage":{"model":"m","prompt_tokens":1}}}"#;
    store.append(&conversation("own"), Expected::Any, &[NewEvent::parse(own).unwrap()]).unwrap();
    let long: Vec<NewEvent> = (0..300).map(|number| answered(&format!("m{number}"), "yes")).collect();
    store.append(&conversation("long"), Expected::Empty, &long).unwrap();
    Moment::new(&store, &conversation("long"), Point::End).unwrap().state().unwrap();
    store.catch_up().unwrap();
    let db = scratch.foreign();
    assert!(dump(&db).iter().all(|table| !table.is_empty()));
    assert_rebuild_changes_nothing(&store, &db);
}

/// One operation on a log or on its projections.
#[derive(Debug, Clone)]
enum Step {
    Call { talk: u8, call: u8, tool: u8 },
    Answer { talk: u8, action: u8, call: u8, exit_code: Option<i8>, is_error: bool },
    Reject { talk: u8, action: u8 },
    Fail { talk: u8, call: u8 },
    Say { talk: u8 },
    Stats { talk: u8, usage: u8, tokens: u16, full: bool },
    Tasks { talk: u8, count: u8 },
    BaseStats { talk: u8, tokens: Option<u16> },
    OldCall { talk: u8 },
    OldAnswer { talk: u8, cause: u8 },
    CatchUp,
    Delete { talk: u8 },
}

fn step() -> impl Strategy<Value = Step> {
    let talk = 0..2_u8;
    // There are few names, so that names repeat and answers refer to wrong events.
    let name = 0..6_u8;
    prop_oneof![
        4 => (talk.clone(), 0..3_u8, 0..3_u8).prop_map(|(talk, call, tool)| Step::Call { talk, call, tool }),
        4 => (talk.clone(), name.clone(), 0..3_u8, prop::option::of(-1..3_i8), any::<bool>()).prop_map(
            |(talk, action, call, exit_code, is_error)| Step::Answer { talk, action, call, exit_code, is_error }
        ),
        1 => (talk.clone(), name.clone()).prop_map(|(talk, action)| Step::Reject { talk, action }),
        3 => (talk.clone(), 0..3_u8).prop_map(|(talk, call)| Step::Fail { talk, call }),
        1 => talk.clone().prop_map(|talk| Step::Say { talk }),
        2 => (talk.clone(), 0..2_u8, any::<u16>(), any::<bool>())
            .prop_map(|(talk, usage, tokens, full)| Step::Stats { talk, usage, tokens, full }),
        1 => (talk.clone(), 0..4_u8).prop_map(|(talk, count)| Step::Tasks { talk, count }),
        1 => (talk.clone(), prop::option::of(any::<u16>())).prop_map(|(talk, tokens)| Step::BaseStats { talk, tokens }),
        1 => talk.clone().prop_map(|talk| Step::OldCall { talk }),
        1 => (talk.clone(), name).prop_map(|(talk, cause)| Step::OldAnswer { talk, cause }),
        4 => Just(Step::CatchUp),
        1 => talk.prop_map(|talk| Step::Delete { talk }),
    ]
}

fn stats(usage: u8, tokens: u16) -> Value {
    let metrics = json!({
        "model_name": "m", "accumulated_cost": f64::from(tokens) / 8.0,
        "accumulated_token_usage": {"prompt_tokens": tokens, "completion_tokens": 1},
    });
    json!({"usage_to_metrics": {format!("usage-{usage}"): metrics}})
}

/// Returns the conversation and the event of a step. `None` if the step has no event. The ids are places in the log, so
/// that steps can refer to each other's events.
fn event_of(step: &Step, place: usize) -> Option<(u8, NewEvent)> {
    let id = place.to_string();
    Some(match step {
        Step::Call { talk, call, tool } => (
            *talk,
            tool_call(&id, &format!("call-{call}"), &format!("tool-{tool}"), json!({"path": "a.txt"})),
        ),
        Step::Answer { talk, action, call, exit_code, is_error } => {
            let observation = json!({"is_error": is_error, "exit_code": exit_code});
            let members = json!({"action_id": near(place, *action), "tool_call_id": format!("call-{call}"),
                                 "observation": observation});
            (*talk, event(&id, "ObservationEvent", members))
        }
        Step::Reject { talk, action } => {
            let members = json!({"action_id": near(place, *action), "rejection_reason": "no"});
            (*talk, event(&id, "UserRejectObservation", members))
        }
        Step::Fail { talk, call } => {
            let members = json!({"tool_call_id": format!("call-{call}"), "error": "failed"});
            (*talk, event(&id, "AgentErrorEvent", members))
        }
        Step::Say { talk } => (*talk, user_message(&id, "hello")),
        Step::Stats { talk, usage, tokens, full: false } => {
            (*talk, updated(&id, "stats", stats(*usage, *tokens)))
        }
        Step::Stats { talk, usage, tokens, full: true } => {
            (*talk, updated(&id, "full_state", json!({"stats": stats(*usage, *tokens)})))
        }
        Step::Tasks { talk, count } => {
            let tasks: Vec<Value> =
                (0..*count).map(|n| json!({"title": n.to_string(), "status": "todo"})).collect();
            (*talk, event(&id, "ObservationEvent", json!({"observation": {"task_list": tasks}})))
        }
        Step::OldCall { talk } => (*talk, event(&id, "action:run", json!({"source": "agent", "args": {}}))),
        Step::OldAnswer { talk, cause } => {
            let members =
                json!({"cause": near(place, *cause).parse::<i64>().unwrap(), "extras": {"exit_code": 1}});
            (*talk, event(&id, "observation:run", members))
        }
        Step::BaseStats { .. } | Step::CatchUp | Step::Delete { .. } => return None,
    })
}

/// Returns the id of an event shortly before `place`.
fn near(place: usize, distance: u8) -> String {
    place.saturating_sub(usize::from(distance) + 1).to_string()
}

fn play(store: &Store, steps: &[Step]) {
    let talk = |talk: u8| conversation(&format!("talk-{talk}"));
    for (place, step) in steps.iter().enumerate() {
        if let Some((to, event)) = event_of(step, place) {
            store.append(&talk(to), Expected::Any, &[event]).unwrap();
            continue;
        }
        match step {
            Step::CatchUp => store.catch_up().unwrap(),
            Step::Delete { talk: which } => match store.retention().delete(&talk(*which)) {
                Ok(_) | Err(Error::UnknownConversation { .. }) => {}
                Err(other) => panic!("{other}"),
            },
            Step::BaseStats { talk: which, tokens } => {
                let field = match tokens {
                    Some(tokens) => FieldChange::set("stats", stats(0, *tokens).to_string()).unwrap(),
                    None => FieldChange::remove("stats"),
                };
                match store.save_base_state(&talk(*which), BaseStateChange::new(vec![field])) {
                    Ok(_) | Err(Error::UnknownConversation { .. }) => {}
                    Err(other) => panic!("{other}"),
                }
            }
            _ => unreachable!("it has an event"),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_log_gives_the_same_rows_at_once_and_step_by_step(steps in prop::collection::vec(step(), 1..60)) {
        let scratch = Scratch::new();
        let options = crate::support::without_projector().durability(annals::store::Durability::Normal);
        let store = Store::open_with(scratch.database(), &options).unwrap();
        play(&store, &steps);
        store.catch_up().unwrap();
        let db = scratch.foreign();
        let head = store.last_position().unwrap();
        for status in store.maintenance().projections().unwrap().iter().filter(|status| status.name != "search") {
            prop_assert_eq!((status.position, status.current), (head, true));
        }
        assert_rebuild_changes_nothing(&store, &db);
    }
}

#[test]
fn rows_of_another_version_and_lost_tables_are_rebuilt() {
    let scratch = Scratch::new();
    let store = scratch.open_without_projector();
    import(&store, "conversations/coding-task");
    store.catch_up().unwrap();
    let db = scratch.foreign();
    let before = dump(&db);
    for harm in [
        "UPDATE projection SET version = 0 WHERE name = 'transcript'; UPDATE transcript_line SET role = 'nobody'",
        "UPDATE projection SET version = 99 WHERE name = 'tool_calls'; DELETE FROM tool_call",
        "UPDATE projection SET version = 0 WHERE name = 'usage'; UPDATE usage_entry SET cost = cost * 2",
        "DELETE FROM projection; DELETE FROM task",
        "DROP TABLE transcript_line",
        "DROP TABLE tool_call; DROP TABLE task",
        "DROP TABLE usage_entry; DROP TABLE usage_total",
    ] {
        db.execute_batch(harm).unwrap();
        store.transcript(&conversation_of(&store), Sequence(0), 1).unwrap();
        assert_same_rows(&dump(&db), &before);
    }
}

#[test]
fn a_lost_search_index_is_rebuilt_by_the_next_search() {
    let scratch = Scratch::new();
    let store = scratch.open_without_projector();
    let talk = conversation("talk");
    store.append(&talk, Expected::Any, &[user_message("a", "find me")]).unwrap();
    let found = || store.search("find", &Default::default(), 10, &mut |_| ()).unwrap().len();
    assert_eq!(found(), 1);
    scratch.foreign().execute_batch("DROP TABLE transcript_search").unwrap();
    store.append(&talk, Expected::Any, &[user_message("b", "find me too")]).unwrap();
    assert_eq!(
        store.transcript(&talk, Sequence(0), 10).unwrap().len(),
        2,
        "the other tables work without it"
    );
    assert_eq!(found(), 2);
}

/// Returns the only conversation of a store.
fn conversation_of(store: &Store) -> ConversationId {
    let page = store.conversations(&Default::default(), Default::default(), None, 2).unwrap();
    assert_eq!(page.conversations.len(), 1);
    page.conversations[0].id.clone()
}

#[test]
fn a_store_reports_the_position_of_each_projection() {
    let scratch = Scratch::new();
    let store = scratch.open_without_projector();
    let talk = conversation("talk");
    let names: Vec<&'static str> =
        store.maintenance().projections().unwrap().iter().map(|status| status.name).collect();
    for name in ["transcript", "tool_calls", "usage", "tasks", "search"] {
        assert!(names.contains(&name), "{name}");
    }
    let status = |search: u64, others: u64, head: u64| -> Vec<(&str, Position, Position, bool)> {
        let of = |name: &'static str| {
            let position = Position(if name == "search" { search } else { others });
            (name, position, Position(head), position > Position::START)
        };
        names.iter().copied().map(of).collect()
    };
    let seen = || -> Vec<_> {
        let found = store.maintenance().projections().unwrap();
        found.iter().map(|one| (one.name, one.position, one.last_position, one.current)).collect()
    };
    store.append(&talk, Expected::Any, &[user_message("a", "one"), user_message("b", "two")]).unwrap();
    assert_eq!(seen(), status(0, 0, 2));
    store.catch_up().unwrap();
    assert_eq!(seen(), status(0, 2, 2));
    store.search("one", &Default::default(), 1, &mut |_| ()).unwrap();
    store.append(&talk, Expected::Any, &[user_message("c", "three")]).unwrap();
    assert_eq!(seen(), status(2, 2, 3));
    let unknown = Error::UnknownProjection {
        name: "views".into(),
        known: names.iter().copied().chain(["catalogue"]).map(String::from).collect(),
    };
    assert_error(store.maintenance().rebuild(&["views"], &mut |_| ()), &unknown);
}

#[test]
fn a_rebuild_reports_its_progress_and_may_cover_one_projection() {
    let scratch = Scratch::new();
    let store = scratch.open_without_projector();
    import(&store, "conversations/hooks");
    store.catch_up().unwrap();
    let db = scratch.foreign();
    let before = dump(&db);
    db.execute_batch(
        "UPDATE tool_call SET outcome = 'ok', tool = 'x'; UPDATE transcript_line SET role = 'x'",
    )
    .unwrap();
    let mut last = None;
    store
        .maintenance()
        .rebuild(&["tool_calls"], &mut |progress| last = Some((progress.position, progress.last_position)))
        .unwrap();
    let head = store.last_position().unwrap();
    assert_eq!(last, Some((head, head)));
    let after = dump(&db);
    assert_eq!(after[2], before[2]);
    assert_ne!(after[1], before[1], "the other tables were not changed");
    rebuild(&store);
    assert_same_rows(&dump(&db), &before);
}

#[test]
fn a_tool_call_has_the_outcome_of_the_first_event_that_answers_it() {
    let store = Store::in_memory(&crate::support::without_projector()).unwrap();
    let talk = conversation("talk");
    let observed = |id: &str, action: &str, is_error: bool| {
        event(id, "ObservationEvent", json!({"action_id": action, "observation": {"is_error": is_error}}))
    };
    let rejected = |id: &str, action: &str, source: Option<&str>| {
        let mut members = json!({"action_id": action, "rejection_reason": format!("not {action}")});
        if let Some(source) = source {
            members["rejection_source"] = source.into();
        }
        event(id, "UserRejectObservation", members)
    };
    let at = |second: u32, event: &NewEvent| {
        let mut members: Value = serde_json::from_str(event.payload()).unwrap();
        members["timestamp"] = format!("2026-01-01T00:00:{second:02}.250000").into();
        NewEvent::parse(members.to_string()).unwrap()
    };
    let events = [
        at(0, &command("pending", "c0", "sleep 1")),
        at(1, &command("ok", "c1", "make test")),
        at(3, &printed("ok-result", "ok", "c1", "fine", 0)),
        command("failed", "c2", "false"),
        printed("failed-result", "failed", "c2", "", 1),
        command("error", "c3", "x"),
        observed("error-result", "error", true),
        command("refused", "c4", "rm"),
        rejected("refused-result", "refused", None),
        command("hooked", "c5", "rm"),
        rejected("hooked-result", "hooked", Some("hook")),
        tool_call("invalid", "c6", "nonsense", Value::Null),
        event("invalid-result", "AgentErrorEvent", json!({"tool_call_id": "c6", "error": "no such tool"})),
        observed("too-late", "ok", true),
        tool_call("viewed", "c7", "file_editor", json!({"command": "view", "path": "/a/b.txt"})),
        observed("viewed-result", "viewed", false),
    ];
    store.append(&talk, Expected::Any, &events).unwrap();
    let calls = store.tool_calls(&talk, Sequence(0), 100).unwrap();
    let outcomes: Vec<_> = calls
        .iter()
        .map(|call| {
            (call.action_id.as_str(), call.outcome.as_str(), call.exit_code, call.result_id.as_deref())
        })
        .collect();
    assert_eq!(
        outcomes,
        [
            ("pending", "pending", None, None),
            ("ok", "ok", Some(0), Some("ok-result")),
            ("failed", "failed", Some(1), Some("failed-result")),
            ("error", "error", None, Some("error-result")),
            ("refused", "rejected", None, Some("refused-result")),
            ("hooked", "rejected", None, Some("hooked-result")),
            ("invalid", "error", None, Some("invalid-result")),
            ("viewed", "ok", None, Some("viewed-result")),
        ]
    );
    let rejections: Vec<_> = calls
        .iter()
        .filter_map(|call| Some((call.rejected_by.as_ref()?.as_str(), call.rejection_reason.as_deref()?)))
        .collect();
    assert_eq!(rejections, [("user", "not refused"), ("hook", "not hooked")]);
    assert_eq!(calls[6].error.as_deref(), Some("no such tool"));
    assert_eq!(
        calls[1],
        altered!(calls[1], {
            sequence: Sequence(1),
            action_id: "ok".into(),
            tool: Some("terminal".into()),
            tool_call_id: Some("c1".into()),
            command: Some("make test".into()),
            path: None,
            arguments: Some(r#"{"command":"make test","kind":"TerminalAction"}"#.into()),
            risk: Some(annals::event::Risk::Low),
            outcome: annals::store::ToolOutcome::Ok,
            exit_code: Some(0),
            rejected_by: None,
            rejection_reason: None,
            error: None,
            started_at: Some("2026-01-01T00:00:01.250000".into()),
            ended_at: Some("2026-01-01T00:00:03.250000".into()),
            duration_ms: Some(2000),
            result_id: Some("ok-result".into()),
        })
    );
    assert_eq!((calls[7].command.as_deref(), calls[7].path.as_deref()), (Some("view"), Some("/a/b.txt")));
    let counts = store.tool_counts(&talk).unwrap();
    let counts: Vec<_> = counts
        .iter()
        .map(|count| (count.tool.as_str(), count.calls, count.errors, count.rejected, count.pending))
        .collect();
    assert_eq!(counts, [("terminal", 6, 1, 2, 1), ("file_editor", 1, 0, 0, 0), ("nonsense", 1, 1, 0, 0)]);
}

#[test]
fn a_result_belongs_to_the_action_that_it_names_even_if_a_call_id_repeats() {
    let store = Store::in_memory(&crate::support::without_projector()).unwrap();
    let talk = conversation("talk");
    // A model may use one call id twice. Here the projection reads the second call later than the first.
    store.append(&talk, Expected::Any, &[command("first", "same", "a")]).unwrap();
    store.catch_up().unwrap();
    let later = [
        command("second", "same", "b"),
        printed("result", "first", "same", "of the first", 7),
        event("error", "AgentErrorEvent", json!({"tool_call_id": "same", "error": "of the second"})),
    ];
    store.append(&talk, Expected::Any, &later).unwrap();
    let calls = store.tool_calls(&talk, Sequence(0), 10).unwrap();
    let results: Vec<_> =
        calls.iter().map(|call| (call.action_id.as_str(), call.result_id.as_deref())).collect();
    assert_eq!(results, [("first", Some("result")), ("second", Some("error"))]);
}

#[test]
fn a_projection_reaches_the_head_even_if_the_last_events_were_deleted() {
    let scratch = Scratch::new();
    let store = scratch.open_without_projector();
    store.append(&conversation("stays"), Expected::Any, &[user_message("a", "one")]).unwrap();
    store.append(&conversation("goes"), Expected::Any, &[user_message("a", "two")]).unwrap();
    store.retention().delete(&conversation("goes")).unwrap();
    let assert_reached = || {
        for status in
            store.maintenance().projections().unwrap().iter().filter(|status| status.name != "search")
        {
            assert_eq!(status.position, Position(2), "{}", status.name);
        }
    };
    store.catch_up().unwrap();
    assert_reached();
    rebuild(&store);
    assert_reached();
}

/// The usage id and the model, the tokens in the order of the fields, and the number of calls.
type Totals = ((String, String), [i64; 5], u64);

fn totals_of(total: &UsageTotal) -> Totals {
    let counts = [
        total.prompt_tokens,
        total.completion_tokens,
        total.cache_read_tokens,
        total.cache_write_tokens,
        total.reasoning_tokens,
    ];
    ((total.usage_id.clone(), total.model.clone()), counts, total.calls)
}

/// Returns the totals of each usage id from expected.json. The cost is separate because a sum of doubles depends on its
/// order.
fn expected_usage(path: &std::path::Path) -> Vec<(Totals, f64)> {
    let expected: Value =
        serde_json::from_slice(&std::fs::read(path.join("expected.json")).unwrap()).unwrap();
    let of = |(usage_id, metrics): (&String, &Value)| {
        let tokens = |member: &str| metrics["accumulated_token_usage"][member].as_i64().unwrap();
        let names = (usage_id.clone(), metrics["model_name"].as_str().unwrap().to_owned());
        let counts = ["prompt", "completion", "cache_read", "cache_write", "reasoning"];
        let counts = counts.map(|name| tokens(&format!("{name}_tokens")));
        let total = (names, counts, metrics["n_token_usages"].as_u64().unwrap());
        (total, metrics["accumulated_cost"].as_f64().unwrap())
    };
    expected["stats"]["usages"].as_object().unwrap().iter().map(of).collect()
}

#[test]
fn usage_of_every_golden_equals_the_totals_of_the_reference() {
    for path in folder::goldens("conversations") {
        let store = Store::in_memory(&crate::support::without_projector()).unwrap();
        Importer::new(&store, Default::default()).import(&path, &mut |_| ()).unwrap();
        let talk = conversation_of(&store);
        let expected = expected_usage(&path);
        for _ in 0..2 {
            let totals = store.usage(Some(&talk)).unwrap();
            assert_eq!(totals.len(), expected.len(), "{path:?}");
            for (total, (expected, cost)) in totals.into_iter().zip(&expected) {
                // The reference says 0 where it has no price.
                let known = total.cost.unwrap_or(0.0);
                assert!((known - cost).abs() < 1e-9, "{path:?}: {known} and not {cost}");
                let has_tokens = total.prompt_tokens + total.completion_tokens > 0;
                assert_eq!(total.cost.is_none(), *cost == 0.0 && has_tokens, "{path:?}");
                assert!(total.latency_seconds.is_some_and(|seconds| seconds > 0.0), "{path:?}");
                assert_eq!(&totals_of(&total), expected, "{path:?}");
            }
            store.maintenance().rebuild(&["usage"], &mut |_| ()).unwrap();
        }
    }
}

#[test]
fn repeated_snapshots_count_once() {
    let store = Store::in_memory(&crate::support::without_projector()).unwrap();
    let talk = conversation("talk");
    let snapshot = |id: &str, key: &str, tokens: u16| {
        let stats = stats(0, tokens);
        updated(id, key, if key == "stats" { stats } else { json!({ "stats": stats }) })
    };
    let total = |prompt: i64, completion: i64, cost: f64| {
        ((("usage-0".to_owned(), "m".to_owned()), [prompt, completion, 0, 0, 0], 0), cost, None)
    };
    let usage = || -> Vec<_> {
        let found = store.usage(Some(&talk)).unwrap();
        found.iter().map(|one| (totals_of(one), one.cost.unwrap(), one.latency_seconds)).collect()
    };
    store.append(&talk, Expected::Any, &[snapshot("a", "stats", 80), snapshot("b", "stats", 80)]).unwrap();
    assert_eq!(usage(), [total(80, 1, 10.0)]);
    store
        .append(&talk, Expected::Any, &[snapshot("c", "full_state", 80), snapshot("d", "stats", 160)])
        .unwrap();
    assert_eq!(usage(), [total(160, 1, 20.0)]);
    // A smaller snapshot is a new start, so all of it counts.
    store.append(&talk, Expected::Any, &[snapshot("e", "stats", 8)]).unwrap();
    assert_eq!(usage(), [total(168, 2, 21.0)]);
    // Statistics in the base state replace those of the snapshots,
    let figures = FieldChange::set("stats", stats(0, 800).to_string()).unwrap();
    let change = |field: FieldChange| BaseStateChange::new(vec![field]);
    store.save_base_state(&talk, change(figures)).unwrap();
    assert_eq!(usage(), [total(800, 1, 100.0)]);
    store.append(&talk, Expected::Any, &[snapshot("f", "stats", 900)]).unwrap();
    assert_eq!(usage(), [total(800, 1, 100.0)]);
    // until they are removed from the base state.
    store.save_base_state(&talk, change(FieldChange::remove("stats"))).unwrap();
    assert_eq!(usage(), [total(168 + 892, 2, 21.0 + 111.5)]);
}

#[test]
fn only_the_newest_task_list_is_returned() {
    let store = Store::in_memory(&crate::support::without_projector()).unwrap();
    let talk = conversation("talk");
    let list =
        |id: &str, tasks: Value| event(id, "ObservationEvent", json!({"observation": {"task_list": tasks}}));
    let task = |title: &str, notes: &str, status: &str| {
        (title.to_owned(), notes.to_owned(), TaskStatus::from(status))
    };
    let tasks = || -> Vec<_> {
        let found = store.tasks(&talk).unwrap();
        found.into_iter().map(|task| (task.title, task.notes, task.status)).collect()
    };
    let first = json!([{"title": "one", "notes": "n", "status": "todo"}, {"title": "two", "status": "todo"}]);
    store.append(&talk, Expected::Any, &[list("a", first)]).unwrap();
    assert_eq!(tasks(), [task("one", "n", "todo"), task("two", "", "todo")]);
    store.append(&talk, Expected::Any, &[list("b", json!([{"title": "one", "status": "done"}]))]).unwrap();
    assert_eq!(tasks(), [task("one", "", "done")]);
    store.append(&talk, Expected::Any, &[list("c", json!([]))]).unwrap();
    assert_eq!(store.tasks(&talk).unwrap(), []);
}

#[test]
fn the_transcript_of_the_store_has_the_same_text_as_the_library() {
    let scratch = Scratch::new();
    let store = scratch.open_without_projector();
    import(&store, "conversations");
    import(&store, "legacy");
    let strange = conversation("strange");
    let odd = [
        user_message("escapes", "tab\tquote\"back\\slash \u{1f600} \u{2028} é"),
        event(
            "array",
            "MessageEvent",
            json!({"source": "user", "llm_message": {"role": "user", "content": "plain"}}),
        ),
        answered("empty", ""),
        event("future", "SomethingNew", json!({"text": "what it says", "more": {"text": "nested"}})),
        NewEvent::parse(
            r#" {"id":"spaced", "kind" : "AgentErrorEvent" , "error" : "caf\u00e9 \ud83d\ude00" } "#,
        )
        .unwrap(),
    ];
    store.append(&strange, Expected::Any, &odd).unwrap();
    let page = store.conversations(&Default::default(), Default::default(), None, 100).unwrap();
    let mut lines = 0;
    for row in page.conversations {
        let stored = store.transcript(&row.id, Sequence(0), 10_000).unwrap();
        let events = all_events(&store, &row.id);
        assert_eq!(stored.len(), events.len());
        for (line, event) in stored.iter().zip(events) {
            let members = Object::of(&event.payload);
            let read = Line::read(&event.kind, &members);
            assert_eq!(
                (line.sequence, line.event_id.as_str(), line.role.as_str(), line.text.clone()),
                (event.sequence, event.id.as_str(), read.role.as_str(), read.to_text())
            );
            lines += 1;
        }
    }
    assert!(lines > 200, "{lines}");
}

#[test]
fn text_that_is_redacted_during_a_rebuild_does_not_come_back() {
    for times in [1, 3] {
        let scratch = Scratch::new();
        // The redaction must not wait for the reader of the rebuild, because this test itself is that reader.
        let options = crate::support::without_projector().busy_timeout(std::time::Duration::ZERO);
        let store = Store::open_with(scratch.database(), &options).unwrap();
        let talk = conversation("talk");
        let secrets: Vec<String> = (0..times).map(|number| format!("hunter{number}")).collect();
        for (number, secret) in secrets.iter().enumerate() {
            let (action, call) = (format!("a{number}"), format!("c{number}"));
            let list = json!([{"title": secret, "notes": "", "status": "todo"}]);
            let events = [
                tool_call(&action, &call, "file_editor", json!({"command": "view", "path": secret})),
                event(&format!("t{number}"), "ObservationEvent", json!({"observation": {"task_list": list}})),
                user_message(&format!("s{number}"), secret),
            ];
            store.append(&talk, Expected::Any, &events).unwrap();
        }
        store.search("hunter0", &Default::default(), 1, &mut |_| ()).unwrap();
        // Each time the log has been read, one more secret is redacted before the tables are swapped.
        let mut left = 0..times;
        let tables = ["transcript", "tool_calls", "tasks"];
        store
            .maintenance()
            .rebuild(&tables, &mut |_| {
                let Some(number) = left.next() else { return };
                for kind in ["a", "t", "s"] {
                    let id = EventId::new(format!("{kind}{number}")).unwrap();
                    store.retention().redact(&talk, Redaction::Event(&id), "it slipped out").unwrap();
                }
            })
            .unwrap();
        assert_eq!(left.next(), None, "every secret was redacted during the rebuild");
        let db = scratch.foreign();
        let after = dump(&db);
        for secret in &secrets {
            assert!(!format!("{after:?}").contains(&format!("{secret:?}")), "{secret} of {times} came back");
            assert_eq!(store.search(secret, &Default::default(), 1, &mut |_| ()).unwrap(), []);
        }
        rebuild(&store);
        assert_same_rows(&dump(&db), &after);
        assert_eq!(store.audit().verify_projections(&mut |_| ()).unwrap().findings, []);
    }
}

#[test]
fn a_long_status_that_an_older_version_showed_whole_is_what_was_written() {
    let scratch = Scratch::new();
    let store = scratch.open_without_projector();
    let talk = conversation("talk");
    store.append(&talk, Expected::Empty, &[user_message("a", "hi")]).unwrap();
    let long = "x".repeat(200);
    let fields = vec![FieldChange::set("execution_status", json!(long).to_string()).unwrap()];
    store.save_base_state(&talk, BaseStateChange::new(fields)).unwrap();
    let longer = format!("{long}x");
    for (status, is_right) in
        [("idle", true), (&*long, true), (&*longer, false), (&long[..100], false), ("running", false)]
    {
        scratch.foreign().execute("UPDATE conversation SET status = ?1", [status]).unwrap();
        let found = store.maintenance().check_catalogue(&talk).unwrap();
        assert_eq!(found.is_none(), is_right, "{status}: {found:?}");
        let findings = store.audit().verify(None, &mut |_| ()).unwrap().findings;
        assert_eq!(findings.is_empty(), is_right, "{status}: {findings:?}");
        // Only a wrong row is made again.
        assert_eq!(store.maintenance().remake_catalogue(&talk).unwrap().is_none(), is_right, "{status}");
        let now = if is_right { status } else { "idle" };
        assert_eq!(store.conversation(&talk).unwrap().status, now);
    }
}

#[test]
fn words_that_are_redacted_while_the_search_index_is_rebuilt_do_not_come_back() {
    let scratch = Scratch::new();
    let store = scratch.open_without_projector();
    let talk = conversation("talk");
    // The first secret is in the first step of the rebuild, the other one in a later step.
    let secrets = [("early", 100, "hunter1"), ("late", 1100, "hunter2")];
    let events: Vec<NewEvent> = (0..1200)
        .map(|number| match secrets.iter().find(|(_, at, _)| *at == number) {
            Some((id, _, secret)) => user_message(id, &format!("find me with {secret}")),
            None => user_message(&number.to_string(), "find me"),
        })
        .collect();
    store.append(&talk, Expected::Any, &events).unwrap();
    let find = |word: &str| store.search(word, &Default::default(), 10_000, &mut |_| ()).unwrap().len();
    assert_eq!((find("hunter1"), find("hunter2"), find("find")), (1, 1, 1200));
    let mut steps = Vec::new();
    store
        .maintenance()
        .rebuild(&["search"], &mut |progress| {
            if steps.is_empty() {
                for (id, _, _) in secrets {
                    let id = EventId::new(id).unwrap();
                    store.retention().redact(&talk, Redaction::Event(&id), "it slipped out").unwrap();
                }
            }
            steps.push(progress.position.0);
        })
        .unwrap();
    assert!(steps[0] > 100 && steps[0] < 1100, "{steps:?}");
    assert_eq!((find("hunter1"), find("hunter2"), find("find")), (0, 0, 1198));
    let db = scratch.foreign();
    // The words are gone from the index itself, too.
    db.execute_batch("CREATE VIRTUAL TABLE temp.words USING fts5vocab(main, transcript_search, row)")
        .unwrap();
    assert_eq!(number(&db, "SELECT doc FROM temp.words WHERE term = 'find'"), 1198);
    assert_eq!(number(&db, "SELECT count(*) FROM temp.words WHERE term LIKE 'hunter%'"), 0);
    let sizes = || rows(&db, "SELECT id, sz FROM transcript_search_docsize ORDER BY id");
    let after = sizes();
    store.maintenance().rebuild(&["search"], &mut |_| ()).unwrap();
    assert_eq!(sizes(), after);
    assert_eq!(store.audit().verify_projections(&mut |_| ()).unwrap().findings, []);
}

#[test]
fn other_handles_read_while_derived_tables_are_loaded_and_rebuilt() {
    const EVENTS: u64 = 2500; // three steps
    let scratch = Scratch::new();
    let store = scratch.open_without_projector();
    let talk = conversation("talk");
    let events: Vec<NewEvent> =
        (0..EVENTS).map(|number| user_message(&number.to_string(), "find me")).collect();
    store.append(&talk, Expected::Any, &events).unwrap();
    let reader = Store::open_with(scratch.database(), &Options::default().read_only(true)).unwrap();
    let other = scratch.open_without_projector();
    let calls = Arc::new(AtomicUsize::new(0));
    let seen = Arc::clone(&calls);
    store.maintenance().on_rebuild_progress(move |progress| {
        seen.fetch_add(1, Ordering::SeqCst);
        assert_eq!(progress.last_position, Position(EVENTS));
        let talk = conversation("talk");
        let read = reader.events(&talk, &EventQuery::default(), 10_000).unwrap().events.len() as u64;
        let listed = reader.conversations(&Default::default(), Default::default(), None, 10).unwrap();
        assert_eq!((read, listed.conversations[0].event_count), (EVENTS, EVENTS));
        // This handle may not write. It shows how far the tables are, and says that they lag.
        let lines = reader.transcript(&talk, Sequence(0), 10_000).unwrap().len() as u64;
        assert_eq!(lines, progress.position.0);
        let sql = "SELECT count(*) FROM transcript";
        let limits = SqlLimits::default();
        let answer = reader.query(&SqlQuery::new(sql).limits(limits)).unwrap();
        let counted = SqlValue::Integer(lines.cast_signed());
        assert_eq!((answer.rows, answer.truncated), (vec![vec![counted]], Some(Truncation::Behind)));
        // This one may, and its answer is complete.
        assert_eq!(other.transcript(&talk, Sequence(0), 10_000).unwrap().len() as u64, EVENTS);
    });
    let lines = store.transcript(&talk, Sequence(0), 10_000).unwrap();
    assert_eq!(lines.len() as u64, EVENTS);
    assert_eq!(calls.load(Ordering::SeqCst), 1, "the other handle took the other steps");

    // During a rebuild, the present tables answer.
    let other = scratch.open_without_projector();
    let mut calls = 0;
    store
        .maintenance()
        .rebuild(&[], &mut |_| {
            calls += 1;
            assert_eq!(other.transcript(&talk, Sequence(0), 10_000).unwrap(), lines);
            assert_eq!(other.conversation(&talk).unwrap().event_count, EVENTS);
        })
        .unwrap();
    assert!(calls > 2, "{calls}");
}

#[test]
fn a_conversation_that_is_deleted_during_a_rebuild_does_not_come_back() {
    let scratch = Scratch::new();
    let store = scratch.open_without_projector();
    import(&store, "conversations/coding-task");
    let goes = conversation_of(&store);
    let stays = conversation("stays");
    store.append(&stays, Expected::Any, &[command("a", "c", "ls"), printed("b", "a", "c", "", 0)]).unwrap();
    let mut deleted = false;
    store
        .maintenance()
        .rebuild(&[], &mut |_| {
            // The log has been read, but the tables are not yet replaced.
            if !std::mem::replace(&mut deleted, true) {
                store.retention().delete(&goes).unwrap();
            }
        })
        .unwrap();
    let db = scratch.foreign();
    let after = dump(&db);
    let left = ["transcript_line", "tool_call", "usage_entry", "task", "conversation_fact"];
    let left = left.map(|table| number(&db, &format!("SELECT count(*) FROM {table}")));
    assert_eq!(left, [2, 1, 0, 0, 1]);
    rebuild(&store);
    assert_same_rows(&dump(&db), &after);
}
