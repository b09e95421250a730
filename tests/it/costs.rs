//! Costs of every age and source are right or unknown, and never 0 by accident. Every view, report and state says the
//! same, and an estimate is never mixed with what the log says.

use std::fs;
use std::path::{Path, PathBuf};

use annals::audit;
use annals::replay::{Moment, Point};
use annals::store::{SqlLimits, SqlValue};
use annals::transfer::Importer;
use annals::{ConversationId, Expected, Store};
use rusqlite::Connection;
use serde_json::{Value, json};

use crate::support::events::{payload, updated};
use crate::support::{Scratch, assert_sound, conversation, folder, number};

const OLD: &str = "0535c419-f44a-4e24-8c72-e40c77a06a32";
const MESSAGE: &str = "m1";
/// Dollars for a million tokens of claude-sonnet-4-5: sent, received, read from the cache, written to the cache.
const SONNET: [f64; 4] = [3.0, 15.0, 0.3, 3.75];

/// What a model's calls cost by hand. `sent` includes the cached tokens.
fn by_hand([sent, received, read, written]: [f64; 4]) -> f64 {
    let [input, output, cache_read, cache_write] = SONNET;
    ((sent - read - written) * input + received * output + read * cache_read + written * cache_write) / 1e6
}

fn call(model: &str, reply: &str, sent: u64, received: u64) -> Value {
    json!({"model": model, "prompt_tokens": sent, "completion_tokens": received, "cache_read_tokens": 0,
        "cache_write_tokens": 0, "reasoning_tokens": 0, "response_id": reply})
}

fn cost(model: &str, cost: f64) -> Value {
    json!({"model": model, "cost": cost, "timestamp": 1_758_000_000.5})
}

/// The metrics of one use, with totals that are the sums of its calls.
fn metrics(model: &str, accumulated: f64, calls: &[Value], costs: &[Value]) -> Value {
    let sum = |name: &str| calls.iter().map(|call| call[name].as_u64().unwrap()).sum::<u64>();
    json!({"model_name": model, "accumulated_cost": accumulated, "accumulated_token_usage":
        {"model": model, "prompt_tokens": sum("prompt_tokens"), "completion_tokens": sum("completion_tokens")},
        "costs": costs, "response_latencies": [], "token_usages": calls})
}

/// Writes the folder of a conversation with this base state, and returns its path.
fn write_folder(scratch: &Scratch, id: &str, base_state: &Value) -> PathBuf {
    let path = scratch.path("folders").join(id.replace('-', ""));
    fs::create_dir_all(path.join("events")).unwrap();
    fs::write(path.join("base_state.json"), base_state.to_string()).unwrap();
    let message = json!({"source": "user", "timestamp": "2025-09-16T10:00:00",
        "llm_message": {"role": "user", "content": [{"type": "text", "text": "Go"}]}});
    fs::write(
        path.join(format!("events/event-00000-{MESSAGE}.json")),
        payload(MESSAGE, "MessageEvent", message),
    )
    .unwrap();
    path
}

fn import(store: &Store, path: &Path) {
    Importer::new(store, Default::default()).import(path, &mut |_| ()).unwrap();
    store.catch_up().unwrap();
}

/// A base state of September 2025: old names of the status and of the metrics.
fn old_base_state() -> Value {
    json!({"id": OLD, "agent": {"kind": "Agent", "llm": {"model": "claude-sonnet-4-5"}}, "agent_status": "idle",
    "stats": {"service_to_metrics": {
        "default": metrics("litellm_proxy/anthropic/claude-sonnet-4-5-20250929", 3.5,
            &[call("m", "r1", 10, 1), call("m", "r2", 20, 2)], &[cost("m", 1.25), cost("m", 2.25)]),
        "condenser": metrics("my-own", 0.0, &[call("my-own", "r3", 7, 3)], &[])}}})
}

/// The sums over the view `usage`: tokens, cost, estimated cost and tokens without a cost.
fn sums(db: &Connection, id: &str) -> (i64, Option<f64>, Option<f64>, i64) {
    let sql = "SELECT coalesce(sum(prompt_tokens + completion_tokens), 0), sum(cost), sum(estimated_cost), \
         coalesce(sum(tokens_without_cost), 0) FROM usage WHERE conversation_id = ?1";
    db.query_row(sql, [id], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?))).unwrap()
}

#[track_caller]
fn assert_near(found: Option<f64>, wanted: Option<f64>, what: &str) {
    let is_near = match (found, wanted) {
        (Some(found), Some(wanted)) => (found - wanted).abs() < 1e-6,
        (found, wanted) => found.is_none() && wanted.is_none(),
    };
    assert!(is_near, "{what}: {found:?} is not {wanted:?}");
}

/// Asserts that the state of a conversation and its totals say what the view says.
#[track_caller]
fn assert_all_agree(store: &Store, db: &Connection, id: &ConversationId) {
    let (tokens, cost, estimate, rest) = sums(db, id.as_str());
    let totals = store.usage(Some(id)).unwrap();
    let add =
        |of: fn(&annals::store::UsageTotal) -> Option<f64>| totals.iter().filter_map(of).reduce(|a, b| a + b);
    assert_near(add(|total| total.cost), cost, "the totals' cost");
    assert_near(add(|total| total.estimated_cost), estimate, "the totals' estimate");
    assert_eq!(totals.iter().map(|total| total.tokens_without_cost).sum::<i64>(), rest);
    let state = Moment::new(store, id, Point::End).unwrap().state_value().unwrap();
    let all = &state["stats"]["combined"]["accumulated_token_usage"];
    assert_eq!(all["prompt_tokens"].as_i64().unwrap() + all["completion_tokens"].as_i64().unwrap(), tokens);
    assert_near(state["cost"].as_f64(), cost, "the state's cost");
    assert_near(state["estimated_cost"].as_f64(), estimate, "the state's estimate");
    assert_eq!(state["tokens_without_cost"], json!(rest), "the state's tokens without a cost");
}

/// The rows of a report, each by column.
fn report(store: &Store, name: &str) -> Vec<Vec<(String, SqlValue)>> {
    let answer = audit::run(store, audit::find(name).unwrap(), &[], SqlLimits::default()).unwrap();
    let named = |row: Vec<SqlValue>| answer.columns.iter().cloned().zip(row).collect();
    answer.rows.into_iter().map(named).collect()
}

fn real(row: &[(String, SqlValue)], name: &str) -> Option<f64> {
    match &row.iter().find(|(column, _)| column == name).unwrap().1 {
        SqlValue::Real(number) => Some(*number),
        SqlValue::Integer(number) => Some(*number as f64),
        _ => None,
    }
}

#[test]
fn a_conversation_of_september_2025_has_its_cost_and_its_status() {
    let scratch = Scratch::new();
    let store = scratch.open_without_projector();
    let document = old_base_state();
    import(&store, &write_folder(&scratch, OLD, &document));
    let (id, db) = (conversation(OLD), scratch.foreign());
    assert_eq!(sums(&db, OLD), (43, Some(3.5), None, 10));
    assert_eq!(store.usage_of_reply(&id, "r2").unwrap().unwrap().cost, Some(2.25));
    assert_eq!(store.usage_of_reply(&id, "r3").unwrap().unwrap().cost, None);
    assert_eq!(store.conversation(&id).unwrap().status, "idle");
    assert_all_agree(&store, &db, &id);
    assert_sound(&store);
    let stored = store.base_state(&id).unwrap().unwrap().document;
    assert_eq!(
        serde_json::from_str::<Value>(stored.as_str()).unwrap(),
        document,
        "the document stays as it is"
    );
    let models = report(&store, "cost-by-model");
    let own = models.iter().find(|row| row[0].1 == SqlValue::from("my-own")).unwrap();
    assert_eq!((real(own, "cost"), real(own, "estimated_cost")), (None, None));
    assert_eq!(real(own, "tokens_without_cost"), Some(10.0));
}

#[test]
fn three_flags_of_august_2025_are_a_status() {
    let scratch = Scratch::new();
    let store = scratch.open_without_projector();
    let document = json!({"id": OLD, "agent_finished": false, "agent_paused": true});
    import(&store, &write_folder(&scratch, OLD, &document));
    assert_eq!(store.conversation(&conversation(OLD)).unwrap().status, "paused");
    assert_sound(&store);
}

/// Returns the types and names of everything in a schema, but for what the engine made.
fn objects(db: &Connection) -> Vec<(String, String)> {
    let sql = "SELECT type, name FROM sqlite_schema WHERE name NOT LIKE 'sqlite_%'";
    let mut statement = db.prepare(sql).unwrap();
    let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
    rows.collect::<Result<_, _>>().unwrap()
}

#[test]
fn a_file_of_the_schema_before_gets_the_right_costs_and_statuses_on_load() {
    let scratch = Scratch::new();
    let store = scratch.open_without_projector();
    import(&store, &write_folder(&scratch, OLD, &old_base_state()));
    let id = conversation(OLD);
    drop(store);
    // What the program before wrote: the old table, a cost of 0 and a status from the events.
    let frozen = Scratch::new();
    let old = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/old/schema-15.db");
    fs::copy(old, frozen.database()).unwrap();
    let statements: Vec<String> = frozen
        .foreign()
        .prepare("SELECT sql FROM sqlite_schema WHERE (tbl_name = 'usage_entry' OR name = 'usage') AND sql IS NOT NULL")
        .unwrap()
        .query_map([], |row| row.get(0))
        .unwrap()
        .collect::<Result<_, _>>()
        .unwrap();
    assert_eq!(statements.len(), 3);
    let db = scratch.foreign();
    // Later schemas added these columns, which no view may read while they are dropped, and these objects.
    let columns =
        ["salt", "receipts_digest"].map(|name| format!("ALTER TABLE admin_act DROP COLUMN {name};"));
    db.execute_batch(&format!("DROP VIEW admin_log; {}", columns.concat())).unwrap();
    let schema_17 = Scratch::new();
    fs::copy(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/old/schema-17.db"), schema_17.database())
        .unwrap();
    let known = objects(&schema_17.foreign());
    for (kind, name) in objects(&db).iter().filter(|object| !known.contains(object)) {
        db.execute_batch(&format!("DROP {kind} IF EXISTS {name}")).unwrap();
    }
    db.execute_batch(&format!(
        "DROP VIEW usage; DROP TABLE usage_entry; {};
         UPDATE conversation SET status = 'running';
         UPDATE projection SET version = 4 WHERE name = 'usage';
         DELETE FROM refinery_schema_history WHERE version >= 17;
         PRAGMA user_version = 16;",
        statements.join(";"),
    ))
    .unwrap();
    drop(db);
    let store = scratch.open_without_projector();
    assert_eq!(store.conversation(&id).unwrap().status, "idle");
    store.catch_up().unwrap();
    let db = scratch.foreign();
    assert_eq!(sums(&db, OLD), (43, Some(3.5), None, 10));
    assert_all_agree(&store, &db, &id);
    assert_sound(&store);
}

#[test]
fn a_cost_of_zero_with_tokens_is_estimated_or_unknown() {
    let scratch = Scratch::new();
    let store = scratch.open_without_projector();
    let base = |model: &str, calls: &[Value]| {
        json!({"id": OLD, "execution_status": "finished",
            "stats": {"usage_to_metrics": {"agent": metrics(model, 0.0, calls, &[])}}})
    };
    let model = "anthropic/claude-sonnet-4-5";
    let mut cached = call(model, "r1", 1000, 100);
    cached["cache_read_tokens"] = json!(600);
    cached["cache_write_tokens"] = json!(300);
    let calls = [cached, call(model, "r2", 50, 5)];
    import(&store, &write_folder(&scratch, OLD, &base(model, &calls)));
    let (id, db) = (conversation(OLD), scratch.foreign());
    let wanted = by_hand([1000.0, 100.0, 600.0, 300.0]) + by_hand([50.0, 5.0, 0.0, 0.0]);
    let (tokens, cost, estimate, rest) = sums(&db, OLD);
    assert_eq!((tokens, cost, rest), (1155, None, 0));
    assert_near(estimate, Some(wanted), "the estimate");
    assert_all_agree(&store, &db, &id);
    for name in ["cost-by-model", "cost-by-day", "cost-by-conversation", "longest"] {
        let rows = report(&store, name);
        assert_eq!(rows.iter().map(|row| real(row, "cost")).collect::<Vec<_>>(), [None], "{name}");
        assert_near(real(&rows[0], "estimated_cost"), Some(wanted), name);
        assert_eq!(real(&rows[0], "tokens_without_cost"), Some(0.0), "{name}");
    }
}

#[test]
fn costs_that_fit_no_call_are_in_rows_of_their_own() {
    let scratch = Scratch::new();
    let store = scratch.open_without_projector();
    let model = "claude-sonnet-4-5";
    let calls = [call(model, "r1", 10, 1), call(model, "r2", 20, 2), call("my-own", "r3", 7, 3)];
    let base = |costs: &[Value], all: f64| {
        json!({"id": OLD, "execution_status": "finished",
            "stats": {"usage_to_metrics": {"agent": metrics(model, all, &calls, costs)}}})
    };
    // Two calls of one model and one cost: the cost may be of either, so no call has one, and none is estimated.
    import(&store, &write_folder(&scratch, OLD, &base(&[cost(model, 0.5)], 0.5)));
    let (id, db) = (conversation(OLD), scratch.foreign());
    assert_eq!(sums(&db, OLD), (43, Some(0.5), None, 10));
    assert_eq!(store.usage_of_reply(&id, "r1").unwrap().unwrap().cost, None);
    assert_all_agree(&store, &db, &id);
    assert_sound(&store);
    // Two costs of two calls, and a model without a price.
    let other = Scratch::new();
    let store = other.open_without_projector();
    import(&store, &write_folder(&other, OLD, &base(&[cost(model, 0.5), cost(model, 0.25)], 0.75)));
    assert_eq!(sums(&other.foreign(), OLD), (43, Some(0.75), None, 10));
    assert_eq!(store.usage_of_reply(&id, "r2").unwrap().unwrap().cost, Some(0.25));
    assert_all_agree(&store, &other.foreign(), &id);
}

#[test]
fn snapshots_without_a_price_are_unknown_until_there_is_one() {
    let scratch = Scratch::new();
    let store = scratch.open_without_projector();
    let talk = conversation("talk");
    let stats = |name: &str, cost: f64, sent: u64| {
        json!({name: {"agent": {"model_name": "claude-sonnet-4-5", "accumulated_cost": cost,
            "accumulated_token_usage": {"prompt_tokens": sent, "completion_tokens": 0}}}})
    };
    let events = [
        updated("a", "stats", stats("service_to_metrics", 0.0, 1000)),
        updated("b", "full_state", json!({"stats": stats("usage_to_metrics", 0.0, 3000)})),
    ];
    store.append(&talk, Expected::Any, &events).unwrap();
    store.catch_up().unwrap();
    let db = scratch.foreign();
    let (tokens, cost, estimate, rest) = sums(&db, "talk");
    assert_eq!((tokens, cost, rest), (3000, None, 0));
    assert_near(estimate, Some(by_hand([3000.0, 0.0, 0.0, 0.0])), "the estimate");
    assert_all_agree(&store, &db, &talk);
    store
        .append(&talk, Expected::Any, &[updated("c", "stats", stats("usage_to_metrics", 0.5, 4000))])
        .unwrap();
    store.catch_up().unwrap();
    let (_, cost, ..) = sums(&db, "talk");
    assert_eq!(cost, Some(0.5));
    assert_sound(&store);
}

#[test]
fn openhands_v0_tells_its_cost_in_its_actions() {
    let scratch = Scratch::new();
    let store = scratch.open_without_projector();
    let folder = scratch.path("v0/63b4315947a049e2b7a51249b3d4fcc3/events");
    fs::create_dir_all(&folder).unwrap();
    let action = |id: u64, cost: f64, sent: u64| {
        json!({"id": id, "timestamp": "2025-05-01T10:00:00", "source": "agent", "message": "", "action": "run",
            "args": {"command": "ls", "thought": ""},
            "tool_call_metadata": {"function_name": "execute_bash", "tool_call_id": format!("c{id}"),
                "total_calls_in_response": 1, "model_response": {"id": format!("r{id}"), "model": "my-own", "choices": []}},
            "llm_metrics": {"accumulated_cost": cost, "accumulated_token_usage": {"model": "default",
                "prompt_tokens": sent, "completion_tokens": 5}, "costs": [], "token_usages": []}})
    };
    for (id, cost, sent) in [(0, 0.5, 100), (1, 0.75, 250)] {
        fs::write(folder.join(format!("{id}.json")), action(id, cost, sent).to_string()).unwrap();
    }
    import(&store, &scratch.path("v0"));
    let db = scratch.foreign();
    let rows = crate::support::rows(
        &db,
        "SELECT usage_id, model, prompt_tokens, completion_tokens, cost FROM usage ORDER BY sequence",
    );
    let text = |text: &str| rusqlite::types::Value::Text(text.to_owned());
    let row = |sent: i64, received: i64, cost: f64| {
        vec![text("agent"), text("my-own"), sent.into(), received.into(), cost.into()]
    };
    assert_eq!(rows, [row(100, 5, 0.5), row(150, 0, 0.25)]);
    assert_sound(&store);

    let page = store.conversations(&Default::default(), Default::default(), None, 2).unwrap();
    let cost = |point| {
        Moment::new(&store, &page.conversations[0].id, point).unwrap().state().unwrap().stats.bill().cost
    };
    assert_eq!(cost(Point::End), Some(0.75));
    assert_eq!(cost(Point::Behind(annals::Sequence(0))), Some(0.5));
}

/// `annals state` and `annals show` read different sources: the events and the table of usage.
#[test]
fn the_state_at_the_end_has_the_bill_of_the_table_of_usage() {
    let scratch = Scratch::new();
    let store = scratch.open_without_projector();
    for golden in ["conversations", "legacy", "foreign"] {
        import(&store, &folder::golden(golden));
    }
    let db = scratch.foreign();
    let page = store.conversations(&Default::default(), Default::default(), None, 100).unwrap();
    assert!(page.conversations.len() > 20);
    for row in page.conversations {
        let bill = Moment::new(&store, &row.id, Point::End).unwrap().state().unwrap().stats.bill();
        let (sent, cost, estimated, without) = sums(&db, row.id.as_str());
        let same = |one: Option<f64>, other: Option<f64>| match (one, other) {
            (Some(one), Some(other)) => (one - other).abs() < 1e-9,
            (one, other) => one == other,
        };
        assert!(same(bill.cost, cost) && same(bill.estimated_cost, estimated), "{}: {bill:?}", row.id);
        assert_eq!(bill.tokens_without_cost.cast_signed(), without, "{} {sent}", row.id);
    }
}

#[test]
fn logs_of_other_programs_have_their_cost_or_an_estimate() {
    let scratch = Scratch::new();
    let store = scratch.open_without_projector();
    import(&store, &folder::golden("foreign"));
    let db = scratch.foreign();
    let missing = "SELECT count(*) FROM usage WHERE cost = 0 AND prompt_tokens + completion_tokens > 0";
    assert_eq!(number(&db, missing), 0);
    let told = "SELECT count(*) FROM usage WHERE cost = 0.0125 AND estimated_cost IS NULL";
    assert_eq!(number(&db, told), 1, "the record that says its cost");
    let estimated = "SELECT count(*) FROM usage WHERE usage_id = 'claude-code' AND cost IS NULL AND estimated_cost > 0 \
         AND tokens_without_cost = 0";
    assert!(number(&db, estimated) > 3);
    let page = store.conversations(&Default::default(), Default::default(), None, 100).unwrap();
    let copies: Vec<_> = page.conversations.into_iter().filter(|row| row.foreign_format.is_some()).collect();
    assert!(copies.len() > 4);
    for row in copies {
        assert_all_agree(&store, &db, &row.id);
    }
    assert_sound(&store);
}

/// Claude Code writes a record for each part of a reply. The figures of the reply grow from one record to the next.
#[test]
fn a_reply_in_several_records_is_one_call_with_the_figures_of_its_last_record() {
    let scratch = Scratch::new();
    let record = |number: u8, reply: &str, received: u64, content: Value| {
        json!({"type": "assistant", "uuid": format!("u{number}"), "parentUuid": null, "sessionId": "parts",
            "timestamp": format!("2026-01-21T23:53:0{number}.000Z"), "cwd": "/w", "version": "2.0",
            "message": {"id": reply, "type": "message", "role": "assistant", "model": "claude-sonnet-4-5",
                "content": [content], "usage": {"input_tokens": 10, "output_tokens": received,
                    "cache_read_input_tokens": 1000, "cache_creation_input_tokens": 0}}})
        .to_string()
    };
    let text = |text: &str| json!({"type": "text", "text": text});
    let call = |id: &str| json!({"type": "tool_use", "id": id, "name": "Bash", "input": {"command": "true"}});
    let lines = [
        record(1, "msg_1", 1, text("I look.")),
        record(2, "msg_1", 154, call("c1")),
        record(3, "msg_2", 9, text("I look again.")),
        record(4, "msg_2", 9, call("c2")),
    ];
    let path = scratch.path("parts.jsonl");
    fs::write(&path, lines.join("\n")).unwrap();
    let store = scratch.open_without_projector();
    import(&store, &path);
    let id = conversation("parts");

    let reply = store.usage_of_reply(&id, "msg_1").unwrap().unwrap();
    assert_eq!((reply.prompt_tokens, reply.completion_tokens, reply.cache_read_tokens), (1010, 154, 1000));
    assert!((reply.estimated_cost.unwrap() - by_hand([1010.0, 154.0, 1000.0, 0.0])).abs() < 1e-9);
    assert_eq!(store.usage_of_reply(&id, "msg_3").unwrap(), None);
    let usage = store.usage(Some(&id)).unwrap();
    assert_eq!((usage.len(), usage[0].calls), (1, 2));
    assert_eq!((usage[0].prompt_tokens, usage[0].completion_tokens), (2020, 163));
    let report = audit::find("cost-by-model").unwrap();
    let answer = audit::run(&store, report, &[], SqlLimits::default()).unwrap();
    let column = answer.columns.iter().position(|column| column == "calls").unwrap();
    assert_eq!(answer.rows[0][column], SqlValue::Integer(2));
    assert_all_agree(&store, &scratch.foreign(), &id);
}

#[test]
fn no_row_has_a_cost_and_an_estimate_and_every_report_has_the_sums_of_the_view() {
    let scratch = Scratch::new();
    let store = scratch.open_without_projector();
    for golden in ["conversations", "foreign"] {
        import(&store, &folder::golden(golden));
    }
    import(&store, &write_folder(&scratch, OLD, &old_base_state()));
    let db = scratch.foreign();
    let both = "SELECT count(*) FROM usage WHERE estimated_cost IS NOT NULL AND (cost IS NOT NULL OR tokens_without_cost > 0)";
    assert_eq!(number(&db, both), 0);
    let sum = |column: &str| -> Option<f64> {
        db.query_row(&format!("SELECT CAST(sum({column}) AS REAL) FROM usage"), [], |row| row.get(0)).unwrap()
    };
    for name in ["cost-by-model", "cost-by-day", "cost-by-conversation", "longest"] {
        let rows = report(&store, name);
        for column in ["cost", "estimated_cost", "tokens_without_cost", "prompt_tokens"] {
            let found = rows.iter().filter_map(|row| real(row, column)).reduce(|a, b| a + b);
            let (found, wanted) = (found.unwrap(), sum(column).unwrap());
            assert!((found - wanted).abs() < 1e-4, "{name} {column}: {found} is not {wanted}");
        }
    }
}

#[cfg(feature = "cli")]
#[test]
fn every_command_says_unknown_or_estimate() {
    let scratch = Scratch::new();
    let program = crate::cli::Program::new();
    let mut document = old_base_state();
    document["stats"]["service_to_metrics"]["condenser"]["model_name"] = json!("claude-sonnet-4-5");
    document["stats"]["service_to_metrics"]["default"] =
        metrics("my-own", 0.0, &[call("my-own", "r1", 9, 1)], &[]);
    document["stats"]["service_to_metrics"]["condenser"]["token_usages"][0]["model"] =
        json!("claude-sonnet-4-5");
    program.succeed(&["import", write_folder(&scratch, OLD, &document).to_str().unwrap()]);
    let estimate = "≈ $0.000066 (estimate)";
    for arguments in [&["stats"][..], &["show", OLD], &["state", OLD]] {
        let text = program.succeed(arguments);
        assert!(text.contains(estimate) && text.contains("unknown"), "{arguments:?}: {text}");
    }
    let table = program.succeed(&["report", "cost-by-model"]);
    assert!(table.contains("unknown"), "{table}");
    let csv = program.succeed(&["report", "cost-by-model", "--csv"]);
    let own = csv.lines().find(|line| line.starts_with("my-own")).unwrap();
    assert!(own.contains(",,,10,"), "an unknown cost is an empty cell: {own}");
    let shown = program.json(&["show", OLD]);
    let own = shown["usage"].as_array().unwrap().iter().find(|usage| usage["model"] == "my-own").unwrap();
    assert_eq!((&own["cost"], &own["estimated_cost"]), (&Value::Null, &Value::Null));
    assert_eq!(own["tokens_without_cost"], 10);
    let html = scratch.path("report.html");
    let written = program.json(&["report", "--html", html.to_str().unwrap()]);
    let page = fs::read_to_string(&html).unwrap();
    assert_eq!(written, json!({"file": html, "bytes": page.len()}));
    assert!(page.contains("<b>unknown</b>cost<"));
}
