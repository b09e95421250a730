//! Every number that a command, a report, a view or a route shows is that of the log: tallied by hand over generated
//! conversations, and compared with SQL over a store of all formats.
#![cfg(all(feature = "cli", feature = "server"))]

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};

use annals::replay::{Moment, Point};
use annals::state::FieldChange;
use annals::store::{Append, BaseStateChange, SqlQuery, SqlValue};
use annals::transfer::Importer;
use annals::{Expected, NewEvent, Options, Store};
use reqwest::Method;
use serde_json::{Value, json};

use crate::cli::Program;
use crate::support::events::event;
use crate::support::served::Served;
use crate::support::{Scratch, conversation, folder};

/// The number of generated conversations.
const CONVERSATIONS: u64 = 2000;

const TOOLS: [&str; 3] = ["terminal", "file_editor", "grep"];

/// Numbers that are always the same ones (splitmix64).
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % bound
    }
}

/// What the log has, counted while it is made.
#[derive(Default)]
struct Tally {
    events: i64,
    payload_bytes: i64,
    kinds: BTreeMap<String, i64>,
    /// Calls by tool: all, ok, failed, rejected, unanswered.
    tools: BTreeMap<String, [i64; 6]>,
    /// Conversations by tool.
    users_of: BTreeMap<String, BTreeSet<u64>>,
    /// By day: conversations, events, actions, user messages.
    days: BTreeMap<String, (BTreeSet<u64>, [i64; 3])>,
    commands: i64,
    failed_commands: i64,
    /// By model: tokens sent, tokens received, cost in millionths.
    models: BTreeMap<String, [i64; 3]>,
    /// By conversation: events, tokens sent, cost in millionths.
    conversations: BTreeMap<String, [i64; 3]>,
}

impl Tally {
    fn add(&mut self, of: u64, event: &NewEvent) {
        let value: Value = serde_json::from_str(event.payload()).unwrap();
        let kind = value["kind"].as_str().unwrap();
        self.events += 1;
        self.payload_bytes += event.payload().len() as i64;
        *self.kinds.entry(kind.to_owned()).or_default() += 1;
        let (of_day, counts) =
            self.days.entry(value["timestamp"].as_str().unwrap()[..10].to_owned()).or_default();
        of_day.insert(of);
        counts[0] += 1;
        counts[1] += i64::from(kind == "ActionEvent");
        counts[2] += i64::from(kind == "MessageEvent" && value["source"] == "user");
    }
}

/// Makes one conversation: a message, calls with every outcome, and the cost of every reply.
fn generate(number: u64, random: &mut Numbers, tally: &mut Tally) -> (Vec<NewEvent>, Value) {
    let mut events: Vec<NewEvent> = Vec::new();
    let at = Cell::new(0_u64);
    let day = 1 + random.below(5);
    let stamp = |mut members: Value| {
        let seconds = at.get();
        at.set(seconds + 1);
        members["timestamp"] =
            json!(format!("2026-03-{day:02}T10:{:02}:{:02}.5", seconds / 60, seconds % 60));
        members
    };
    let id = |part: &str, at: usize| format!("{part}{number:06}{at:04}");
    let said = json!({"source": "user", "llm_message": {"role": "user", "content": [{"type": "text", "text": "Go"}]}});
    events.push(event(&id("m", 0), "MessageEvent", stamp(said)));
    let (mut usages, mut costs) = (Vec::new(), Vec::new());
    let model = ["provider/small", "provider/large"][random.below(2) as usize];
    for step in 0..random.below(5) as usize {
        let (action, call, reply) = (id("a", step), format!("c{step}"), format!("r{number}-{step}"));
        let tool = TOOLS[random.below(3) as usize];
        let made = match tool {
            "terminal" => json!({"kind": "TerminalAction", "command": "make"}),
            "file_editor" => json!({"kind": "FileEditorAction", "command": "view", "path": "/a"}),
            _ => json!({"kind": "GrepAction", "pattern": "x"}),
        };
        let tool_call = json!({"id": call, "name": tool, "arguments": "{}", "origin": "completion"});
        let members = json!({"source": "agent", "thought": [], "tool_name": tool, "tool_call_id": call, "tool_call": tool_call,
                             "llm_response_id": reply, "action": made});
        events.push(event(&action, "ActionEvent", stamp(members)));
        tally.users_of.entry(tool.to_owned()).or_default().insert(number);
        let of_tool = tally.tools.entry(tool.to_owned()).or_default();
        let outcome = random.below(5) as usize;
        of_tool[0] += 1;
        of_tool[1 + outcome] += 1;
        tally.commands += i64::from(tool == "terminal");
        let answered =
            json!({"source": "environment", "tool_name": tool, "tool_call_id": call, "action_id": action});
        match outcome {
            0..=2 => {
                let kind = made["kind"].as_str().unwrap().replace("Action", "Observation");
                let mut answer = json!({"kind": kind, "is_error": outcome == 1, "content": [{"type": "text", "text": "x"}]});
                if tool == "terminal" {
                    answer["command"] = json!("make");
                    tally.failed_commands += i64::from(outcome > 0);
                }
                if tool == "terminal" || outcome == 2 {
                    answer["metadata"] = json!({"exit_code": outcome});
                }
                let mut members = answered;
                members["observation"] = answer;
                events.push(event(&id("o", step), "ObservationEvent", stamp(members)));
            }
            3 => events.push(event(&id("u", step), "UserRejectObservation", stamp(answered))),
            _ => {}
        }
        let (sent, received, cost) =
            (random.below(1000) as i64, random.below(100) as i64, 1 + random.below(5000) as i64);
        usages.push(json!({"model": model, "prompt_tokens": sent, "completion_tokens": received, "cache_read_tokens": 0,
                           "cache_write_tokens": 0, "reasoning_tokens": 0, "response_id": reply}));
        costs.push(
            json!({"model": model, "cost": cost as f64 / 1e6, "timestamp": 1_772_359_200.0 + at.get() as f64}),
        );
        for (sum, add) in
            tally.models.entry(model.to_owned()).or_default().iter_mut().zip([sent, received, cost])
        {
            *sum += add;
        }
        let own = tally.conversations.entry(format!("talk-{number:05}")).or_default();
        own[1] += sent;
        own[2] += cost;
    }
    for event in &events {
        tally.add(number, event);
    }
    tally.conversations.entry(format!("talk-{number:05}")).or_default()[0] = events.len() as i64;
    let sum = |name: &str| usages.iter().map(|usage| usage[name].as_i64().unwrap()).sum::<i64>();
    let cost: f64 = costs.iter().map(|cost| cost["cost"].as_f64().unwrap()).sum();
    let metrics = json!({"model_name": model, "accumulated_cost": cost, "token_usages": usages, "costs": costs,
        "response_latencies": [], "accumulated_token_usage": {"model": model, "prompt_tokens": sum("prompt_tokens"),
        "completion_tokens": sum("completion_tokens"), "cache_read_tokens": 0, "cache_write_tokens": 0, "reasoning_tokens": 0,
        "context_window": 0, "per_turn_token": 0, "response_id": ""}});
    let state = json!({"execution_status": "finished",
        "agent": {"kind": "Agent", "llm": {"model": model}}, "stats": {"usage_to_metrics": {"agent": metrics}}});
    (events, state)
}

fn millionths(value: &Value) -> i64 {
    (value.as_f64().unwrap_or(0.0) * 1e6).round() as i64
}

/// The rows of an answer as JSON, by the values of their first column.
fn by_first(answer: &Value) -> BTreeMap<String, Vec<Value>> {
    let rows = answer["rows"].as_array().unwrap().iter().map(|row| row.as_array().unwrap());
    rows.map(|row| (row[0].as_str().unwrap().to_owned(), row[1..].to_vec())).collect()
}

/// Asks for figures or a report, with the report's name and parameters.
type Ask<'a> = dyn FnMut(&str, &[(&str, &str)]) -> Value + 'a;

/// Asserts that answers of one form, from the command line or a route, are those of the tally.
fn assert_tallied(ask: &mut Ask<'_>, tally: &Tally) {
    let stats = ask("stats", &[]);
    assert_eq!(stats["conversations"], json!(CONVERSATIONS));
    assert_eq!(stats["events"], json!(tally.events));
    assert_eq!(stats["payload_bytes"], json!(tally.payload_bytes));
    assert_eq!(stats["kinds"], json!(tally.kinds));
    let calls: BTreeMap<_, _> = tally.tools.iter().map(|(tool, counts)| (tool, counts[0])).collect();
    assert_eq!(stats["tools"], json!(calls));
    let mut used = BTreeMap::new();
    for usage in stats["usage"].as_array().unwrap() {
        let sum: &mut [i64; 3] = used.entry(usage["model"].as_str().unwrap().to_owned()).or_default();
        sum[0] += usage["prompt_tokens"].as_i64().unwrap();
        sum[1] += usage["completion_tokens"].as_i64().unwrap();
        sum[2] += millionths(&usage["cost"]);
    }
    assert_eq!(used, tally.models);

    let tools = by_first(&ask("report", &[("name", "tools")]));
    for (tool, counts) in &tally.tools {
        let [all, rest @ ..] = counts;
        let mut wanted = vec![json!(all), json!(tally.users_of[tool].len())];
        wanted.extend(rest.iter().map(|count| json!(count)));
        assert_eq!(tools[tool], wanted, "{tool}");
    }
    let activity = by_first(&ask("report", &[("name", "activity")]));
    assert_eq!(activity.len(), tally.days.len());
    for (day, (conversations, [events, actions, messages])) in &tally.days {
        let wanted = [json!(conversations.len()), json!(events), json!(actions), json!(messages)];
        assert_eq!(activity[day], wanted, "{day}");
    }
    let models = ask("report", &[("name", "cost-by-model")]);
    let column = |answer: &Value, name: &str| {
        answer["columns"].as_array().unwrap().iter().position(|column| column == name).unwrap()
    };
    let (model, sent, cost) =
        (column(&models, "model"), column(&models, "prompt_tokens"), column(&models, "cost"));
    let mut found: BTreeMap<String, [i64; 2]> = BTreeMap::new();
    for row in models["rows"].as_array().unwrap() {
        let sum = found.entry(row[model].as_str().unwrap().to_owned()).or_default();
        sum[0] += row[sent].as_i64().unwrap();
        sum[1] += millionths(&row[cost]);
    }
    let wanted: BTreeMap<_, _> =
        tally.models.iter().map(|(model, sums)| (model.clone(), [sums[0], sums[2]])).collect();
    assert_eq!(found, wanted);
    for name in ["cost-by-day", "cost-by-workspace"] {
        let answer = ask("report", &[("name", name)]);
        let cost = column(&answer, "cost");
        let sum: i64 = answer["rows"].as_array().unwrap().iter().map(|row| millionths(&row[cost])).sum();
        assert_eq!(sum, tally.models.values().map(|sums| sums[2]).sum::<i64>(), "{name}");
    }
    let commands = ask("report", &[("name", "commands")]);
    assert_eq!(commands["rows"].as_array().unwrap().len() as i64, tally.commands);
    let failed = ask("report", &[("name", "commands"), ("failed", "yes")]);
    let exits = column(&failed, "exit_code");
    let ended_badly =
        failed["rows"].as_array().unwrap().iter().filter(|row| row[exits].as_i64() > Some(0)).count();
    assert_eq!(ended_badly as i64, tally.failed_commands);
}

#[test]
fn every_number_of_generated_conversations_is_that_of_the_log() {
    let program = Program::new();
    let path = program.folder.path().join("annals.db");
    let (mut random, mut tally) = (Numbers(17), Tally::default());
    let store = Store::open_with(&path, &Options::default()).unwrap();
    for number in 0..CONVERSATIONS {
        let (events, state) = generate(number, &mut random, &mut tally);
        let fields = state.as_object().unwrap().iter();
        let set = fields.map(|(name, value)| FieldChange::set(name, value.to_string()).unwrap()).collect();
        let change = BaseStateChange::new(set);
        let append = Append::new(Expected::Empty, events).base_state(Some(change));
        store.append_all(&conversation(&format!("talk-{number:05}")), append).unwrap();
    }
    assert!(tally.tools.values().all(|counts| counts.iter().all(|count| *count > 0)), "every outcome occurs");
    drop(store);

    let mut by_command = |what: &str, given: &[(&str, &str)]| {
        let mut arguments = vec![what.to_owned()];
        for (name, value) in given {
            match *name {
                "name" => arguments.push((*value).to_owned()),
                name => arguments.extend(["--param".to_owned(), format!("{name}={value}")]),
            }
        }
        program.json(&arguments.iter().map(String::as_str).collect::<Vec<_>>())
    };
    assert_tallied(&mut by_command, &tally);

    // Page by page, each row of a list, and the number of all of them.
    let mut listed = BTreeMap::new();
    let mut after: Option<String> = None;
    loop {
        let mut arguments = vec!["list", "--limit", "500"];
        if let Some(after) = &after {
            arguments.extend(["--after", after]);
        }
        let page = program.json(&arguments);
        assert_eq!(page["total"], json!(CONVERSATIONS));
        for row in page["conversations"].as_array().unwrap() {
            listed.insert(row["id"].as_str().unwrap().to_owned(), row["event_count"].as_i64().unwrap());
        }
        let Some(next) = page["next"].as_str() else { break };
        after = Some(next.to_owned());
    }
    let wanted: BTreeMap<_, _> = tally.conversations.iter().map(|(id, sums)| (id.clone(), sums[0])).collect();
    assert_eq!(listed, wanted);

    // The views that auditors ask.
    let store = Store::open(&path).unwrap();
    let ask = |sql: &str| store.query(&SqlQuery::new(sql)).unwrap().rows;
    let sql = "SELECT c.conversation_id, c.event_count, (SELECT count(*) FROM events AS e WHERE e.conversation_id = c.conversation_id),
               coalesce(sum(u.prompt_tokens), 0), CAST(round(coalesce(sum(u.cost), 0) * 1e6) AS INTEGER)
               FROM conversations AS c LEFT JOIN usage AS u USING (conversation_id) GROUP BY 1";
    let mut rows = 0;
    for row in ask(sql) {
        let SqlValue::Text(id) = &row[0] else { panic!("{row:?}") };
        let [events, sent, cost] = tally.conversations[id];
        assert_eq!(row[1..], [events, events, sent, cost].map(SqlValue::Integer), "{id}");
        rows += 1;
    }
    assert_eq!(rows, CONVERSATIONS);

    // The routes that the page asks.
    tokio::runtime::Runtime::new().unwrap().block_on(async {
        let server = Served::start(&store).await;
        let mut answers: BTreeMap<String, Value> = BTreeMap::new();
        let paths = [
            "/api/annals/stats",
            "/api/annals/reports/tools",
            "/api/annals/reports/activity",
            "/api/annals/reports/cost-by-model",
            "/api/annals/reports/cost-by-day",
            "/api/annals/reports/cost-by-workspace",
            "/api/annals/reports/commands",
            "/api/annals/reports/commands?failed=yes",
        ];
        for path in paths {
            let answer = server.ask(Method::GET, path, None).await;
            assert_eq!(answer.status, 200, "{path}: {}", answer.text);
            answers.insert(path.to_owned(), answer.json());
        }
        server.end().await;
        let mut by_route = |what: &str, given: &[(&str, &str)]| {
            let mut path = "/api/annals/stats".to_owned();
            if what == "report" {
                let query: Vec<String> =
                    given[1..].iter().map(|(name, value)| format!("{name}={value}")).collect();
                let mark = if query.is_empty() { "" } else { "?" };
                path = format!("/api/annals/reports/{}{mark}{}", given[0].1, query.join("&"));
            }
            answers[&path].clone()
        };
        assert_tallied(&mut by_route, &tally);
    });
}

#[test]
fn the_numbers_of_every_format_are_those_of_its_events() {
    let program = Program::with_goldens();
    for golden in ["foreign", "legacy"] {
        program.run(&["import", folder::golden(golden).to_str().unwrap()]);
    }
    let store = Store::open(program.folder.path().join("annals.db")).unwrap();
    store.catch_up().unwrap();
    let number = |sql: &str| match &store.query(&SqlQuery::new(sql)).unwrap().rows[0][0] {
        SqlValue::Integer(number) => *number,
        other => panic!("{sql}: {other:?}"),
    };
    let stats = program.json(&["stats"]);
    let sum =
        |value: &Value| value.as_object().unwrap().values().map(|count| count.as_i64().unwrap()).sum::<i64>();
    assert_eq!(stats["events"], json!(number("SELECT count(*) FROM events")));
    assert_eq!(sum(&stats["kinds"]), number("SELECT count(*) FROM events"));
    assert_eq!(sum(&stats["tools"]), number("SELECT count(*) FROM tool_calls"));
    assert_eq!(sum(&stats["statuses"]), number("SELECT count(*) FROM conversations"));
    let total = |report: &str, columns: &[usize]| {
        let answer = program.json(&["report", report]);
        let rows = answer["rows"].as_array().unwrap().clone();
        rows.iter().map(|row| columns.iter().map(|at| row[*at].as_i64().unwrap()).sum::<i64>()).sum::<i64>()
    };
    // tools: calls are the sum of their outcomes.
    assert_eq!(total("tools", &[1]), number("SELECT count(*) FROM tool_calls"));
    assert_eq!(total("tools", &[3, 4, 5, 6, 7]), number("SELECT count(*) FROM tool_calls"));
    // activity: every event, every call, every message of a user, with those of unknown time.
    assert!(number("SELECT count(*) FROM events WHERE timestamp IS NULL") > 0);
    assert_eq!(total("activity", &[2]), number("SELECT count(*) FROM events"));
    assert_eq!(total("activity", &[3]), number("SELECT count(*) FROM tool_calls"));
    assert_eq!(
        total("activity", &[4]),
        number(
            "SELECT count(*) FROM transcript WHERE role = 'user' AND kind NOT IN ('action:run', 'action:recall', 'InterruptEvent')"
        )
    );
    for row in program.json(&["list", "--limit", "1000"])["conversations"].as_array().unwrap() {
        let id = row["id"].as_str().unwrap();
        let counted = number(&format!("SELECT count(*) FROM events WHERE conversation_id = '{id}'"));
        assert_eq!(row["event_count"], json!(counted), "{id}");
        let shown = program.json(&["show", id]);
        assert_eq!((sum(&shown["kinds"]), shown["event_count"].as_i64()), (counted, Some(counted)), "{id}");
    }
}

/// The view reads the payloads as they are stored, the state reads them in their present form.
#[test]
fn the_outcome_of_a_v0_conversation_is_that_of_its_state() {
    let scratch = Scratch::new();
    let store = scratch.open_without_projector();
    let golden = folder::golden("foreign").join("openhands-v0");
    Importer::new(&store, Default::default()).import(&golden, &mut |_| ()).unwrap();
    store.catch_up().unwrap();
    let db = scratch.foreign();
    let sql = "SELECT steps, coalesce(final_response, '') FROM outcomes WHERE conversation_id = ?1";
    for id in ["7d1a0c5e-9b6f-4f0f-8a3e-2b1c0d9e8f70", "saved"] {
        let outcome: (i64, String) = db.query_row(sql, [id], |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
        let state = Moment::new(&store, &conversation(id), Point::End).unwrap().state().unwrap();
        assert_eq!(
            outcome,
            (state.branch.iteration().cast_signed(), state.branch.final_response().to_owned()),
            "{id}"
        );
        assert!(outcome.0 > 2 && !outcome.1.is_empty(), "{id}: {outcome:?}");
    }
}
