//! Logs of other programs in today's forms: how commands ended, failures of providers, acts of persons, prices, and
//! sessions that an older version of the importer translated in another way.

use std::fs;
use std::path::{Path, PathBuf};

use annals::Store;
use annals::chain::Digest;
use annals::replay::{Memory, Moment, Point};
use annals::transfer::{Exporter, Format, ImportOptions, ImportReport, ImportStatus, Importer};
use rusqlite::Connection;
use serde_json::{Value, json};

use crate::support::{Scratch, all_events, assert_sound, conversation, number, rows};

const SESSION: &str = "00000000-0000-4000-8000-0000000000a1";
const THREAD: &str = "019b0000-0000-7000-8000-0000000000b1";

fn golden(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(path)
}

fn import(store: &Store, path: &Path) -> Vec<ImportReport> {
    Importer::new(store, ImportOptions::default()).import(path, &mut |_| ()).unwrap()
}

/// Imports a session file of these lines. Returns its report.
fn import_lines(scratch: &Scratch, store: &Store, name: &str, lines: &[Value]) -> ImportReport {
    let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
    let path = scratch.path(name);
    fs::write(&path, text).unwrap();
    let report = import(store, &path).remove(0);
    store.catch_up().unwrap();
    report
}

/// A line of Codex.
fn codex(kind: &str, payload: Value) -> Value {
    json!({"timestamp": "2026-08-01T10:00:00.000Z", "type": kind, "payload": payload})
}

/// The first lines of a session of Codex with this model, and these lines.
fn codex_session(model: &str, lines: Vec<Value>) -> Vec<Value> {
    let mut all = vec![
        codex("session_meta", json!({"id": THREAD, "cwd": "/w/mill"})),
        codex("turn_context", json!({"model": model})),
        codex(
            "response_item",
            json!({"type": "message", "role": "user",
            "content": [{"type": "input_text", "text": "mend the mill"}]}),
        ),
    ];
    all.extend(lines);
    all
}

/// A line of Claude Code that follows the line before it.
fn claude(number: u32, kind: &str, members: Value) -> Value {
    let parent = (number > 1).then(|| format!("u{}", number - 1));
    let mut line = json!({"parentUuid": parent, "isSidechain": false, "cwd": "/w/mill", "sessionId": SESSION,
        "type": kind, "uuid": format!("u{number}"), "timestamp": format!("2026-09-14T15:00:{number:02}.000Z")});
    line.as_object_mut().unwrap().extend(members.as_object().unwrap().clone());
    line
}

fn says(role: &str, content: Value) -> Value {
    json!({"message": {"role": role, "id": "msg", "model": "claude-haiku-4-5", "content": content}})
}

/// The rows of a query as text, the columns separated by ` | `.
fn table(db: &Connection, sql: &str) -> Vec<String> {
    let shown = |value: rusqlite::types::Value| match value {
        rusqlite::types::Value::Text(text) => text,
        rusqlite::types::Value::Integer(number) => number.to_string(),
        rusqlite::types::Value::Real(number) => format!("{number:.4}"),
        _ => "-".to_owned(),
    };
    let text = |row: Vec<rusqlite::types::Value>| row.into_iter().map(shown).collect::<Vec<_>>().join(" | ");
    rows(db, sql).into_iter().map(text).collect()
}

#[test]
fn a_command_that_ended_with_another_code_than_0_has_failed_in_every_form() {
    let scratch = Scratch::new();
    let store = scratch.open_without_projector();
    let patch = "*** Begin Patch\n*** Update File: wheel.txt\n@@\n-round\n+square\n*** Add File: b/axle.txt\n+oak\n*** End Patch";
    let outputs = [
        ("exec_command", json!("Chunk ID: a\nWall time: 1 seconds\nProcess exited with code 2\nOutput:\nno")),
        ("exec_command", json!([{"type": "input_text", "text": "Process exited with code 3\nOutput:\nno"}])),
        ("shell_command", json!("Exit code: 4\nWall time: 1 seconds\nOutput:\nno")),
        ("shell", json!(r#"{"output":"no","metadata":{"exit_code":5,"duration_seconds":1.0}}"#)),
        (
            "exec_command",
            json!("Wall time: 1 seconds\nProcess running with session ID 7\nOutput:\nExit code: 6"),
        ),
        ("exec_command", json!("Process exited with code 0\nOutput:\nExit code: 7")),
        ("apply_patch", json!("Exit code: 0\nWall time: 0 seconds\nOutput:\nSuccess.")),
    ];
    let calls = outputs.iter().enumerate().flat_map(|(number, (tool, output))| {
        let call = format!("c{number}");
        let (kind, argument, given) = match *tool {
            "apply_patch" => ("custom_tool_call", "input", patch),
            _ => ("function_call", "arguments", r#"{"cmd":"make"}"#),
        };
        [
            codex("response_item", json!({"type": kind, "name": tool, "call_id": call, argument: given})),
            codex(
                "response_item",
                json!({"type": format!("{kind}_output"), "call_id": call, "output": output}),
            ),
        ]
    });
    import_lines(&scratch, &store, "rollout.jsonl", &codex_session("gpt-5.6-sol", calls.collect()));
    let result = |content: &str, is_error: bool| {
        says(
            "user",
            json!([{"type": "tool_result", "tool_use_id": "tu", "content": content, "is_error": is_error}]),
        )
    };
    let call = says(
        "assistant",
        json!([{"type": "tool_use", "id": "tu", "name": "Bash", "input": {"command": "make"}}]),
    );
    let lines = [
        claude(1, "user", says("user", json!("mend it"))),
        claude(2, "assistant", call),
        claude(3, "user", result("Exit code 127\nno mill", true)),
    ];
    import_lines(&scratch, &store, &format!("{SESSION}.jsonl"), &lines);
    let db = scratch.foreign();
    assert_eq!(
        table(&db, "SELECT tool, outcome, exit_code, path FROM tool_calls ORDER BY position"),
        [
            "exec_command | failed | 2 | -",
            "exec_command | failed | 3 | -",
            "shell_command | failed | 4 | -",
            "shell | failed | 5 | -",
            "exec_command | ok | - | -",
            "exec_command | ok | 0 | -",
            "apply_patch | ok | 0 | wheel.txt",
            "Bash | error | 127 | -",
        ]
    );
    // Only what the tool itself calls an error is one.
    assert_eq!(table(&db, "SELECT tool FROM errors"), ["Bash"]);
    let counts = store.tool_counts(&conversation(THREAD)).unwrap();
    assert_eq!(
        counts.iter().map(|count| (count.errors, count.failed)).reduce(|a, b| (a.0 + b.0, a.1 + b.1)),
        Some((0, 4))
    );
    assert_sound(&store);
}

#[cfg(feature = "cli")]
#[test]
fn reports_count_failed_commands_and_name_every_file_of_a_patch() {
    let program = crate::cli::Program::new();
    let patch = "*** Begin Patch\n*** Update File: wheel.txt\n*** Move to: old/wheel.txt\n@@\n-round\n+square\n*** Add File: axle.txt\n+*** Add File: no.txt\n*** End Patch";
    let shell = json!({"command": ["apply_patch", patch.replace("wheel", "spoke")]}).to_string();
    let item = |payload: Value| codex("response_item", payload);
    let lines = codex_session(
        "gpt-5.6-sol",
        vec![
            item(
                json!({"type": "function_call", "name": "exec_command", "call_id": "a", "arguments": "{\"cmd\":\"make\"}"}),
            ),
            item(
                json!({"type": "function_call_output", "call_id": "a", "output": "Process exited with code 2\nOutput:\n"}),
            ),
            item(json!({"type": "custom_tool_call", "name": "apply_patch", "call_id": "b", "input": patch})),
            item(json!({"type": "custom_tool_call_output", "call_id": "b", "output": "Success."})),
            item(json!({"type": "function_call", "name": "shell", "call_id": "c", "arguments": shell})),
            item(
                json!({"type": "function_call_output", "call_id": "c", "output": "Exit code: 1\nOutput:\n"}),
            ),
        ],
    );
    let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
    fs::write(program.folder.path().join("rollout.jsonl"), text).unwrap();
    program.json(&["import", "rollout.jsonl"]);
    let report = |arguments: &[&str]| {
        let output = program.run(&[&["report"], arguments, &["--csv"]].concat());
        String::from_utf8(output.stdout).unwrap()
    };
    let tools = report(&["tools"]);
    assert!(tools.contains("exec_command,1,1,0,0,1,0,0"), "{tools}");
    let files = report(&["files"]);
    for line in ["axle.txt,", "old/wheel.txt,", "old/spoke.txt,", "spoke.txt,", "wheel.txt,"] {
        assert!(files.lines().any(|row| row.starts_with(line)), "{line} {files}");
    }
    assert!(!files.contains("no.txt") && files.lines().count() == 6, "{files}");
    let commands = report(&["commands", "--param", "failed=yes"]);
    assert_eq!(commands.lines().count(), 3, "{commands}");
}

#[test]
fn a_failure_of_the_provider_is_an_error_and_the_run_has_failed() {
    let scratch = Scratch::new();
    let store = scratch.open_without_projector();
    let status = |id: &str| store.conversation(&conversation(id)).unwrap().status;
    let mut lines = vec![
        claude(1, "user", says("user", json!("mend it"))),
        claude(
            2,
            "system",
            json!({"subtype": "api_error", "error": {"status": 429, "error": {"type": "error",
            "error": {"type": "rate_limit_error", "message": "slow down"}}}, "retryAttempt": 1}),
        ),
        claude(
            3,
            "assistant",
            json!({"isApiErrorMessage": true, "apiErrorStatus": 529, "message": {"role": "assistant",
            "id": "e", "model": "<synthetic>", "content": [{"type": "text", "text": "API Error: overloaded"}]}}),
        ),
    ];
    let name = format!("{SESSION}.jsonl");
    import_lines(&scratch, &store, &name, &lines);
    let db = scratch.foreign();
    let errors = "SELECT class, code, detail FROM errors ORDER BY position";
    assert_eq!(
        table(&db, errors),
        ["rate_limit | rate_limit_error | slow down", "transient | 529 | API Error: overloaded"]
    );
    assert_eq!(status(SESSION), "error");
    assert_eq!(store.conversation(&conversation(SESSION)).unwrap().leaf_event_id.as_deref(), Some("u1"));
    // The work goes on behind it, on the same branch.
    lines.push(claude(4, "assistant", says("assistant", json!("Mended."))));
    import_lines(&scratch, &store, &name, &lines);
    assert_eq!(status(SESSION), "finished");
    assert_eq!(store.tree(&conversation(SESSION)).unwrap().branches().len(), 1);

    let failed = json!({"message": "429 Too Many Requests",
        "codex_error_info": {"response_too_many_failed_attempts": {"http_status_code": 429}}});
    let mut error = failed.clone();
    error["type"] = "error".into();
    let lines = codex_session(
        "gpt-5.6-sol",
        vec![
            codex("event_msg", error),
            codex("event_msg", json!({"type": "task_complete", "turn_id": "t", "error": failed})),
            codex("event_msg", json!({"type": "stream_error", "message": "stream closed"})),
        ],
    );
    import_lines(&scratch, &store, "rollout.jsonl", &lines);
    assert_eq!(status(THREAD), "error");
    assert_eq!(
        table(&db, errors)[2..],
        [
            "rate_limit | response_too_many_failed_attempts | 429 Too Many Requests",
            "transient | APIError | stream closed"
        ]
    );
    assert_eq!(store.conversation(&conversation(THREAD)).unwrap().leaf_event_id.as_deref(), Some("line-3"));
    assert_eq!(store.tree(&conversation(THREAD)).unwrap().branches().len(), 1);
    assert_sound(&store);
}

#[test]
fn an_interruption_is_an_act_of_a_person_and_ends_the_work() {
    let scratch = Scratch::new();
    let store = scratch.open_without_projector();
    let interrupted = "[Request interrupted by user for tool use]";
    let call =
        |id: &str| json!([{"type": "tool_use", "id": id, "name": "Bash", "input": {"command": "rm -r x"}}]);
    let mut stopped = says(
        "user",
        json!([{"type": "tool_result", "tool_use_id": "a", "content": interrupted, "is_error": true}]),
    );
    stopped["toolDenialKind"] = "interrupted".into();
    let synthetic = json!({"message": {"role": "assistant", "id": "s", "model": "<synthetic>",
        "content": [{"type": "text", "text": "No response requested."}]}});
    let mut meta = says("user", json!("Continue from where you left off."));
    meta["isMeta"] = true.into();
    let lines = [
        claude(1, "user", says("user", json!("do it"))),
        claude(2, "assistant", says("assistant", call("a"))),
        claude(3, "user", stopped),
        claude(4, "user", says("user", json!([{"type": "text", "text": interrupted}]))),
        claude(5, "user", meta),
        claude(6, "assistant", synthetic),
    ];
    let name = format!("{SESSION}.jsonl");
    for length in [4, 6] {
        import_lines(&scratch, &store, &name, &lines[..length]);
        assert_eq!(store.conversation(&conversation(SESSION)).unwrap().status, "paused", "{length} lines");
    }
    let item = |payload: Value| codex("response_item", payload);
    let lines = codex_session(
        "gpt-5.6-sol",
        vec![
            item(json!({"type": "function_call", "name": "exec_command", "call_id": "a", "arguments": "{}"})),
            item(
                json!({"type": "function_call_output", "call_id": "a", "output": "aborted by user after 3.2s"}),
            ),
            codex("event_msg", json!({"type": "turn_aborted", "reason": "interrupted"})),
        ],
    );
    import_lines(&scratch, &store, "rollout.jsonl", &lines);
    assert_eq!(store.conversation(&conversation(THREAD)).unwrap().status, "paused");
    let db = scratch.foreign();
    assert_eq!(
        table(&db, "SELECT outcome, rejected_by, rejection_reason FROM tool_calls ORDER BY position"),
        [
            format!("rejected | user | {interrupted}"),
            "rejected | user | aborted by user after 3.2s".to_owned()
        ]
    );
    assert_eq!(number(&db, "SELECT count(*) FROM errors"), 0);
    // The model gets the same messages.
    let moment = Moment::new(&store, &conversation(SESSION), Point::End).unwrap();
    let messages = moment.messages(Memory::Reloaded).unwrap();
    // Messages of one role that follow each other are one.
    assert_eq!(messages.len(), 5);
    assert_sound(&store);
}

#[test]
fn a_prompt_that_was_typed_beside_the_work_is_a_persons_message() {
    let scratch = Scratch::new();
    let store = scratch.open_without_projector();
    let queued = |attachment: Value| json!({"attachment": attachment});
    let prompt = |text: &str| json!({"type": "queued_command", "prompt": text, "commandMode": "prompt"});
    let mut of_program = prompt("do more");
    of_program["origin"] = json!({"kind": "sdk"});
    let mut of_person = prompt("and oil it");
    of_person["origin"] = json!({"kind": "human"});
    let mut of_task = prompt("done");
    of_task["commandMode"] = "task-notification".into();
    let picture = json!({"type": "queued_command", "prompt": [{"type": "text", "text": "like this"}]});
    let attachments = [
        prompt("use oak"),
        of_person,
        picture,
        of_program,
        of_task,
        prompt("<task-notification>done</task-notification>"),
        json!({"type": "task_reminder", "content": "mind"}),
        prompt("  "),
    ];
    let mut lines = vec![
        claude(1, "user", says("user", json!("mend it"))),
        claude(
            2,
            "assistant",
            says("assistant", json!([{"type": "tool_use", "id": "a", "name": "Bash", "input": {}}])),
        ),
    ];
    for attachment in attachments {
        lines.push(claude(lines.len() as u32 + 1, "attachment", queued(attachment)));
    }
    lines.push(
        json!({"type": "queue-operation", "operation": "remove", "content": "use oak", "sessionId": SESSION}),
    );
    lines.push(claude(
        11,
        "user",
        says("user", json!([{"type": "tool_result", "tool_use_id": "a", "content": "ok"}])),
    ));
    import_lines(&scratch, &store, &format!("{SESSION}.jsonl"), &lines);
    let db = scratch.foreign();
    let said = "SELECT text FROM transcript WHERE role = 'user' ORDER BY sequence";
    assert_eq!(table(&db, said), ["mend it", "use oak", "and oil it", "like this"]);
    assert_eq!(store.tree(&conversation(SESSION)).unwrap().branches().len(), 1);
}

#[test]
fn every_token_has_the_price_of_its_use_and_of_its_call() {
    let scratch = Scratch::new();
    let store = scratch.open_without_projector();
    let reply = |model: &str| {
        json!({"message": {"id": format!("msg_{model}"), "role": "assistant", "model": model, "content": "done", "usage": {
            "input_tokens": 368, "cache_creation_input_tokens": 9149, "cache_read_input_tokens": 106_786, "output_tokens": 516,
            "cache_creation": {"ephemeral_5m_input_tokens": 0, "ephemeral_1h_input_tokens": 9149}}}})
    };
    let lines = [
        claude(1, "user", says("user", json!("mend it"))),
        claude(2, "assistant", reply("claude-haiku-4-5-20251001")),
        claude(3, "assistant", reply("gpt-5.6-sol")),
    ];
    import_lines(&scratch, &store, &format!("{SESSION}.jsonl"), &lines);
    let usage = |sent: u64, cached: u64, written: u64, got: u64| json!({"input_tokens": sent, "cached_input_tokens": cached, "cache_write_input_tokens": written, "output_tokens": got});
    let tokens = |total: Value, last: Value| {
        codex(
            "event_msg",
            json!({"type": "token_count", "info": {"total_token_usage": total, "last_token_usage": last}}),
        )
    };
    let lines = codex_session(
        "gpt-5.6-terra",
        vec![
            // The session was resumed: the first sum is of many calls. The second step is one long prompt.
            tokens(usage(935_040, 875_306, 57_610, 11_150), usage(58_697, 57_817, 0, 227)),
            tokens(usage(1_235_040, 875_306, 57_610, 11_150), usage(300_000, 0, 0, 0)),
        ],
    );
    import_lines(&scratch, &store, "rollout.jsonl", &lines);
    let db = scratch.foreign();
    let sql = "SELECT model, cache_write_tokens, estimated_cost, tokens_without_cost FROM usage ORDER BY usage_id, position_of";
    let sql = sql.replace("position_of", "sequence");
    assert_eq!(
        table(&db, &sql),
        [
            "claude-haiku-4-5-20251001 | 9149 | 0.0319 | 0",
            // The table has no price for an hour of this model.
            "gpt-5.6-sol | 9149 | - | 116819",
            "gpt-5.6-terra | 57610 | 0.4571 | 0",
            "gpt-5.6-terra | 0 | 1.2000 | 0",
        ]
    );
    // The fold over events has the same estimates.
    let moment = Moment::new(&store, &conversation(THREAD), Point::End).unwrap();
    let mut state = annals::state::State::new();
    moment
        .each(|_, event| {
            state.apply(event);
            Ok(())
        })
        .unwrap();
    let bill = state.stats().unwrap().bill();
    assert!((bill.estimated_cost.unwrap() - 1.6571).abs() < 0.0001, "{bill:?}");
}

/// Writes the store that an older version made of the first parts of some logs.
fn older_store(scratch: &Scratch, name: &str) -> Store {
    let packed = fs::read(golden(&format!("old-translation/{name}.db.zst"))).unwrap();
    let bytes = zstd::stream::decode_all(&packed[..]).unwrap();
    fs::write(scratch.database(), bytes).unwrap();
    scratch.open_without_projector()
}

/// Imports a log that has grown since an older version imported it. `added` is the number of its new events, or 0.
fn goes_on(scratch: &Scratch, store: &Store, id: &str, path: &Path, added: u64) {
    let reports = import(store, path);
    let report = reports.iter().find(|report| report.id == Some(conversation(id))).unwrap();
    assert_eq!((report.status, report.problems.as_slice()), (ImportStatus::Updated, &[][..]), "{id}");
    assert!(added == 0 || report.added == added, "{id}: {report:?}");
    for again in import(store, path) {
        assert_eq!((again.status, again.added), (ImportStatus::Unchanged, 0), "{again:?}");
    }
    let out = scratch.path(&format!("out-{id}"));
    let exported =
        Exporter::new(store, Format::OpenHands).export(&conversation(id), &out, &mut |_| ()).unwrap();
    if added > 0 {
        assert_eq!(fs::read(&exported.path).unwrap(), fs::read(path).unwrap(), "{id}");
    }
}

#[test]
fn a_log_that_an_older_version_translated_in_another_way_goes_on_without_a_gap_or_a_repeat() {
    let scratch = Scratch::new();
    let store = older_store(&scratch, "before");
    let stored: Vec<_> = [SESSION, THREAD, "steps"].map(|id| all_events(&store, &conversation(id))).into();
    for (id, name, added) in [
        (SESSION, format!("old-translation/{SESSION}.jsonl"), 2),
        (THREAD, format!("old-translation/rollout-2026-08-01T10-00-00-{THREAD}.jsonl"), 3),
        ("steps", "langgraph-delta/threads.sqlite".to_owned(), 0),
    ] {
        goes_on(&scratch, &store, id, &golden(&name), added);
        // What is new stands behind what was there: one branch reaches the first message.
        let events = all_events(&store, &conversation(id));
        let tree = store.tree(&conversation(id)).unwrap();
        let head = store.conversation(&conversation(id)).unwrap().leaf_event_id.unwrap();
        let branch = tree.branch(Some(&head)).unwrap();
        let first = events.iter().position(|event| event.kind == "MessageEvent").unwrap();
        assert!(branch.contains(&first), "{id}: {branch:?}");
    }
    for (id, before) in [SESSION, THREAD, "steps"].into_iter().zip(stored) {
        let after = all_events(&store, &conversation(id));
        let digests = |events: &[annals::store::StoredEvent]| -> Vec<Digest> {
            events.iter().map(|event| Digest::of(event.payload.as_bytes())).collect()
        };
        assert_eq!(digests(&after)[..before.len()], digests(&before), "{id}: what was stored stays as it is");
    }
    // Of a thread that was unread, all messages are there once it has grown.
    let truth: Value =
        serde_json::from_slice(&fs::read(golden("langgraph-delta/truth.json")).unwrap()).unwrap();
    assert_eq!(told(&store, "steps"), told_by(&truth["steps"]));
    assert_sound(&store);
}

/// The steps of a session with two compactions, of which an older version stored the first as the beginning of a new tree.
#[test]
fn a_compaction_that_an_older_version_stored_stays_as_it_is_and_the_next_one_forgets() {
    const SESSION: &str = "00000000-0000-4000-8000-0000000000a2";
    const THREAD: &str = "019b0000-0000-7000-8000-0000000000b2";
    let scratch = Scratch::new();
    let store = older_store(&scratch, "compacted");
    let logs = [
        (
            SESSION,
            format!("{SESSION}.jsonl"),
            6,
            3,
            ["human What was said so far.four", "ai fourth"].as_slice(),
        ),
        (
            THREAD,
            format!("rollout-2026-08-01T10-00-00-{THREAD}.jsonl"),
            6,
            2,
            &["human twoAll that was said so far.three", "ai third"],
        ),
    ];
    for (id, name, added, branches, seen) in logs {
        let before = all_events(&store, &conversation(id));
        goes_on(&scratch, &store, id, &golden(&format!("old-translation/{name}")), added);
        let after = all_events(&store, &conversation(id));
        assert!(before.iter().zip(&after).all(|(old, new)| old.payload == new.payload), "{id}");
        assert_eq!(shown(told(&store, id)), seen, "{id}");
        // An older version stored the repeated line as a message beside the others.
        let condensations = after.iter().filter(|event| event.kind == "Condensation").count();
        assert_eq!(
            (condensations, store.tree(&conversation(id)).unwrap().branches().len()),
            (1, branches),
            "{id}"
        );
        // Imported anew, all of it is one branch, and the model sees the same.
        let anew = Store::in_memory(&crate::support::without_projector()).unwrap();
        import(&anew, &golden(&format!("old-translation/{name}")));
        assert_eq!(shown(told(&anew, id)), seen, "{id}");
        assert_eq!(anew.tree(&conversation(id)).unwrap().branches().len(), 1, "{id}");
    }
    assert_sound(&store);
}

fn shown(told: Vec<[String; 2]>) -> Vec<String> {
    told.into_iter().map(|[role, text]| format!("{role} {text}")).collect()
}

#[test]
fn what_a_compaction_preserves_is_still_seen_until_the_next_one() {
    let scratch = Scratch::new();
    let store = scratch.open_without_projector();
    let said = |number: u32, text: &str| {
        claude(
            number,
            "assistant",
            json!({"message": {"role": "assistant", "id": format!("m{number}"),
            "model": "claude-haiku-4-5", "content": [{"type": "text", "text": text}]}}),
        )
    };
    let asked = |number: u32, text: &str| {
        claude(number, "user", json!({"message": {"role": "user", "content": text}}))
    };
    let boundary = |number: u32, about: Value| {
        let mut line =
            claude(number, "system", json!({"subtype": "compact_boundary", "compactMetadata": about}));
        line["logicalParentUuid"] = line["parentUuid"].take();
        line
    };
    let kept = json!({"preservedSegment": {"headUuid": "u3", "anchorUuid": "u6", "tailUuid": "u4"}});
    let mut lines = vec![
        asked(1, "one"),
        said(2, "first"),
        asked(3, "two"),
        said(4, "second"),
        boundary(5, kept),
        asked(6, "so far"),
        said(7, "third"),
    ];
    import_lines(&scratch, &store, "kept.jsonl", &lines);
    assert_eq!(shown(told(&store, "kept")), ["human two", "ai second", "human so far", "ai third"]);
    lines.extend([boundary(8, Value::Null), asked(9, "all so far")]);
    import_lines(&scratch, &store, "kept.jsonl", &lines);
    assert_eq!(shown(told(&store, "kept")), ["human all so far"]);
    assert_eq!(number(&scratch.foreign(), "SELECT count(*) FROM active_branches"), 9);
    // A boundary whose history is in another file begins a tree.
    let other = [boundary(1, Value::Null), asked(2, "from before")];
    import_lines(&scratch, &store, "other.jsonl", &other);
    assert_eq!(shown(told(&store, "other")), ["human from before"]);
    assert_sound(&store);
}

/// The messages of a thread in truth.json. Messages of one role that follow each other are one.
fn told_by(truth: &Value) -> Vec<[String; 2]> {
    let mut all: Vec<[String; 2]> = Vec::new();
    for [role, text] in serde_json::from_value::<Vec<[String; 2]>>(truth.clone()).unwrap() {
        match all.last_mut().filter(|last| role == "human" && last[0] == role) {
            Some(last) => last[1].push_str(&text),
            None => all.push([role, text]),
        }
    }
    all
}

/// The messages of a thread, as the model gets them.
fn told(store: &Store, id: &str) -> Vec<[String; 2]> {
    let moment = Moment::new(store, &conversation(id), Point::End).unwrap();
    let message = |message: annals::event::Message| {
        let message: Value = serde_json::from_str(&message.to_json()).unwrap();
        let role = match message["role"].as_str().unwrap() {
            "user" => "human",
            "assistant" => "ai",
            other => other,
        }
        .to_owned();
        let text: String = message["content"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(|part| part["text"].as_str())
            .collect();
        [role, text]
    };
    moment.messages(Memory::Reloaded).unwrap().into_iter().map(message).collect()
}

#[test]
fn the_messages_of_a_delta_channel_are_those_that_langgraph_reads() {
    let scratch = Scratch::new();
    let store = scratch.open_without_projector();
    let path = golden("langgraph-delta/threads.sqlite");
    let truth: Value =
        serde_json::from_slice(&fs::read(golden("langgraph-delta/truth.json")).unwrap()).unwrap();
    for report in import(&store, &path) {
        assert_eq!((report.status, report.problems.len()), (ImportStatus::Imported, 0), "{report:?}");
    }
    store.catch_up().unwrap();
    for id in ["steps", "edits"] {
        assert_eq!(told(&store, id), told_by(&truth[id]), "{id}");
    }
    let db = scratch.foreign();
    let sql = "SELECT tool, outcome, exit_code FROM tool_calls WHERE conversation_id = 'steps'";
    assert_eq!(table(&db, sql), ["execute | failed | 2"]);
    let sql = "SELECT sum(prompt_tokens), sum(completion_tokens) FROM usage WHERE conversation_id = 'steps'";
    assert_eq!(table(&db, sql), ["2300 | 70"]);
    for report in import(&store, &path) {
        assert_eq!((report.status, report.added), (ImportStatus::Unchanged, 0), "{report:?}");
    }
    assert_sound(&store);
}

#[test]
fn a_compressed_log_is_the_log_that_is_in_it() {
    let scratch = Scratch::new();
    let store = scratch.open_without_projector();
    let name = format!("rollout-2026-08-01T10-00-00-{THREAD}.jsonl");
    let text = fs::read(golden(&format!("old-translation/{name}"))).unwrap();
    let folder = scratch.path("sessions/2026");
    fs::create_dir_all(&folder).unwrap();
    let packed = folder.join(format!("{name}.zst"));
    fs::write(&packed, zstd::stream::encode_all(&text[..], 3).unwrap()).unwrap();
    let index = [("other", "No."), (THREAD, "Old name"), (THREAD, "The mill")];
    let index: String =
        index.iter().map(|(id, name)| format!("{}\n", json!({"id": id, "thread_name": name}))).collect();
    fs::write(scratch.path("session_index.jsonl"), index).unwrap();
    for path in [packed.as_path(), scratch.path("sessions").as_path()] {
        let reports = import(&store, path);
        let expected = if path == packed { ImportStatus::Imported } else { ImportStatus::Unchanged };
        assert_eq!((reports.len(), reports[0].status), (1, expected), "{reports:?}");
    }
    assert_eq!(store.conversation(&conversation(THREAD)).unwrap().title.as_deref(), Some("The mill"));
    let out = scratch.path("out");
    let exported =
        Exporter::new(&store, Format::OpenHands).export(&conversation(THREAD), &out, &mut |_| ()).unwrap();
    assert_eq!(exported.path.file_name().unwrap().to_str(), Some(name.as_str()));
    assert_eq!(fs::read(&exported.path).unwrap(), text);
    // Unpacked, or with more lines, it is the same session.
    fs::write(folder.join(&name), [&text[..], b"{\"type\":\"world_state\",\"payload\":{}}\n"].concat())
        .unwrap();
    let reports = import(&store, &scratch.path("sessions"));
    let statuses: Vec<_> = reports.iter().map(|report| (report.status, report.added)).collect();
    assert_eq!(statuses[0], (ImportStatus::Updated, 1), "{reports:?}");
    assert_eq!(store.count_conversations(&Default::default()).unwrap(), 1);

    // One that is cut is refused, and one that is another file is named.
    let cut = scratch.path("cut.jsonl.zst");
    fs::write(&cut, &fs::read(&packed).unwrap()[..200]).unwrap();
    let options = ImportOptions::default().format(annals::transfer::SourceFormat::ALL[2]);
    let reports = Importer::new(&store, options).import(&cut, &mut |_| ()).unwrap();
    assert_eq!(reports[0].status, ImportStatus::Failed, "{reports:?}");
    let other = scratch.path("other.jsonl.zst");
    fs::write(&other, zstd::stream::encode_all(&b"words"[..], 3).unwrap()).unwrap();
    let error = annals::transfer::discover(&other, None).unwrap_err().to_string();
    assert!(error.contains("a compressed file: unpack it first"), "{error}");
}
