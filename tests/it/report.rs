//! Reports: their answers on real conversations, the same SQL in other tools, and HTML pages with hostile text.

use annals::audit::{self, REPORTS, Report};
use annals::store::{SqlAnswer, SqlLimits, SqlQuery, SqlValue, Truncation};
use annals::transfer::Importer;
use annals::{Error, Expected, Store, Timestamp};
use rusqlite::types::Value;
use serde_json::json;

use crate::support::events::{command, event, printed, tool_call, updated, user_message};
use crate::support::{Scratch, altered, conversation, folder};

const CONFIRM: &str = "a974c9f5-e8de-5263-bc49-55c0881c4a66";

fn goldens(scratch: &Scratch) -> Store {
    let store = scratch.open_without_projector();
    let golden = folder::golden("conversations");
    Importer::new(&store, Default::default()).import(&golden, &mut |_| ()).unwrap();
    store
}

fn given(parameters: &[(&str, &str)]) -> Vec<(String, String)> {
    parameters.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

#[track_caller]
fn answer(store: &Store, name: &str, parameters: &[(&str, &str)]) -> SqlAnswer {
    audit::run(store, audit::find(name).unwrap(), &given(parameters), SqlLimits::default()).unwrap()
}

/// The rows of a report as text, of these columns only.
#[track_caller]
fn rows(store: &Store, name: &str, parameters: &[(&str, &str)], columns: &[&str]) -> Vec<String> {
    let answer = answer(store, name, parameters);
    let at: Vec<usize> = columns
        .iter()
        .map(|wanted| answer.columns.iter().position(|column| column == wanted).unwrap())
        .collect();
    let text = |value: &SqlValue| match value {
        SqlValue::Null => "-".to_owned(),
        SqlValue::Integer(number) => number.to_string(),
        SqlValue::Real(number) => number.to_string(),
        SqlValue::Text(text) => text.clone(),
        SqlValue::Blob(_) => "blob".to_owned(),
    };
    answer
        .rows
        .iter()
        .map(|row| at.iter().map(|at| text(&row[*at])).collect::<Vec<_>>().join(" | "))
        .collect()
}

#[test]
fn every_report_answers_with_the_columns_it_promises() {
    let scratch = Scratch::new();
    let store = goldens(&scratch);
    for report in REPORTS {
        let promised: Vec<&str> = report.columns.iter().map(|column| column.name).collect();
        assert_eq!(answer(&store, report.name, &[]).columns, promised, "{}", report.name);
        let all: Vec<(&str, &str)> = report
            .parameters
            .iter()
            .map(|parameter| {
                let value = match parameter.name {
                    "conversation" => "a974c9f5",
                    "since" => "2026-11-01",
                    "until" => "2027-11-30 12:00",
                    "limit" => "3",
                    "failed" => "yes",
                    "decision" => "granted",
                    "risk" => "HIGH",
                    "path" => "*",
                    _ => "x",
                };
                (parameter.name, value)
            })
            .collect();
        assert_eq!(answer(&store, report.name, &all).columns, promised, "{}", report.name);
        assert!(!answer(&store, report.name, &[]).rows.is_empty(), "{} has no rows", report.name);
    }
}

/// A report's SQL as a user without Annals would run it: without the lines of parameters that have no default.
fn plain_sql(report: &Report) -> String {
    let open: Vec<_> = report.parameters.iter().filter(|parameter| parameter.default.is_none()).collect();
    let kept = report.sql.lines().filter(|line| {
        !open.iter().any(|parameter| {
            line.split(|c: char| !c.is_alphanumeric() && c != ':')
                .any(|word| word == format!(":{}", parameter.name))
        })
    });
    let sql = kept.collect::<Vec<_>>().join("\n");
    report.parameters.iter().filter_map(|parameter| Some((parameter.name, parameter.default?))).fold(
        sql,
        |sql, (name, default)| {
            let value =
                if default.parse::<i64>().is_ok() { default.to_owned() } else { format!("'{default}'") };
            sql.replace(&format!(":{name}"), &value)
        },
    )
}

#[test]
fn any_sqlite_tool_gets_the_same_answers() {
    let scratch = Scratch::new();
    let store = goldens(&scratch);
    let db = scratch.foreign();
    for report in REPORTS {
        let found = answer(&store, report.name, &[]).rows.into_iter().map(|row| {
            let value = |value| match value {
                SqlValue::Null => Value::Null,
                SqlValue::Integer(number) => Value::Integer(number),
                SqlValue::Real(number) => Value::Real(number),
                SqlValue::Text(text) => Value::Text(text),
                SqlValue::Blob(bytes) => Value::Blob(bytes),
            };
            row.into_iter().map(value).collect::<Vec<_>>()
        });
        assert_eq!(
            crate::support::rows(&db, &plain_sql(report)),
            found.collect::<Vec<_>>(),
            "{}",
            report.name
        );
    }
}

/// A recursive walk from HEAD to the root is done for every conversation of the file, even if one conversation is asked
/// for. So a report may only contain such a walk if it shows branches, or figures with all sub-agents.
#[test]
fn no_report_walks_branches_that_it_does_not_show() {
    let scratch = Scratch::new();
    let _store = goldens(&scratch);
    let db = scratch.foreign();
    for report in REPORTS {
        let shows =
            ["is_live", "branches", "outcomes", "sub_agents"].iter().any(|word| report.sql.contains(word));
        let plan = crate::support::rows(&db, &format!("EXPLAIN QUERY PLAN {}", plain_sql(report)));
        let walks = plan.iter().any(|step| step[3] == Value::Text("RECURSIVE STEP".to_owned()));
        assert!(shows || !walks, "{}: {plan:#?}", report.name);
    }
}

#[test]
fn the_outcome_of_one_conversation_walks_the_branches_of_no_other() {
    let scratch = Scratch::new();
    let _store = goldens(&scratch);
    let sql = format!("EXPLAIN QUERY PLAN SELECT * FROM outcomes WHERE conversation_id = '{CONFIRM}'");
    let plan = crate::support::rows(&scratch.foreign(), &sql);
    let is_of_all =
        |step: &[Value]| matches!(&step[3], Value::Text(text) if text.contains("MATERIALIZE said"));
    assert!(!plan.is_empty() && !plan.iter().any(|step| is_of_all(step)), "{plan:#?}");
}

/// `docs/reports.sql`, read as any SQLite tool would read it.
#[test]
fn every_report_is_a_view_too() {
    let scratch = Scratch::new();
    let store = goldens(&scratch);
    store.catch_up().unwrap();
    let db = scratch.foreign();
    db.execute_batch(&audit::document_views()).unwrap();
    for report in REPORTS {
        let view = format!("report_{}", report.name.replace('-', "_"));
        let statement = db.prepare(&format!("SELECT * FROM {view}")).unwrap();
        let promised: Vec<&str> = report.columns.iter().map(|column| column.name).collect();
        assert_eq!(statement.column_names(), promised, "{view}");
        let count = crate::support::rows(&db, &format!("SELECT * FROM {view}")).len();
        // The views have no limit.
        let has_limit = report.parameters.iter().any(|parameter| parameter.name == "limit");
        let given: &[(&str, &str)] = if has_limit { &[("limit", "1000")] } else { &[] };
        assert_eq!(count, answer(&store, report.name, given).rows.len(), "{view}");
    }
}

/// The position in the file is the order of import. A person asks for the order of time.
#[test]
fn lists_are_in_order_of_time_whatever_was_imported_first() {
    let scratch = Scratch::new();
    let store = goldens(&scratch);
    let older = [
        at(1, user_message("m", "hello")),
        at(2, command("a", "c", "ls")),
        at(3, printed("r", "a", "c", "gone", 2)),
        at(4, event("e", "ConversationErrorEvent", json!({"code": "LLMTimeoutError", "detail": "x"}))),
    ];
    store.append(&conversation("older"), Expected::Empty, &older).unwrap();
    let mut lists = 0;
    for report in REPORTS {
        let first = report.columns[0].name;
        let is_a_list = first == "at" || first.ends_with("_at");
        if !is_a_list {
            continue;
        }
        let times = rows(&store, report.name, &[], &[first]);
        assert!(times.is_sorted(), "{}: {times:#?}", report.name);
        lists += 1;
        if ["commands", "error-list"].contains(&report.name) {
            assert_eq!(rows(&store, report.name, &[], &["conversation_id"])[0], "older", "{}", report.name);
        }
    }
    assert!(lists >= 5, "{lists}");
}

#[test]
fn the_commands_report_shows_folder_and_exit_code() {
    let scratch = Scratch::new();
    let store = goldens(&scratch);
    let columns = ["sequence", "command", "exit_code", "directory"];
    let failed = rows(&store, "commands", &[("failed", "yes")], &columns);
    assert_eq!(failed[0], "24 | false | 1 | /workspace/coding-task/project");
    let found = rows(&store, "commands", &[("text", "fib.py"), ("path", "*coding-task*")], &columns);
    assert_eq!(
        found[0],
        "18 | cd /workspace/coding-task/project && python3 fib.py | 0 | /workspace/coding-task/project"
    );
    assert_eq!(rows(&store, "commands", &[("until", "2026-11-20")], &columns), [""; 0]);
    let of_one = rows(&store, "commands", &[("conversation", "a974")], &["conversation_id", "outcome"]);
    assert_eq!(of_one.len(), 6);
    assert_eq!(of_one[0], format!("{CONFIRM} | rejected"));
}

#[test]
fn the_confirmations_report_shows_each_decision() {
    let scratch = Scratch::new();
    let store = goldens(&scratch);
    let columns = ["sequence", "what", "risk", "decision", "reason", "evidence"];
    assert_eq!(
        rows(&store, "confirmations", &[], &columns),
        [
            "2 | rm -rf /workspace/nothing | HIGH | denied | Too dangerous, do something harmless. | policy",
            "8 | echo one | MEDIUM | granted | - | policy",
            "9 | echo two | HIGH | granted | - | policy",
            "13 | curl http://127.0.0.1:9/ | HIGH | waiting | - | policy",
            "14 | {\"thought\":\"waiting\",\"kind\":\"ThinkAction\"} | UNKNOWN | waiting | - | policy",
            "15 | echo later | LOW | waiting | - | policy",
        ]
    );
}

/// The event with a time `seconds` after a fixed minute. In a server's log the times show how long a wait lasted.
fn at(seconds: u32, event: annals::NewEvent) -> annals::NewEvent {
    let mut payload: serde_json::Value = serde_json::from_str(event.payload()).unwrap();
    payload["timestamp"] = json!(format!("2026-01-31T12:00:{seconds:02}.000000"));
    annals::NewEvent::parse(payload.to_string()).unwrap()
}

#[test]
fn the_wait_for_a_confirmation_is_measured() {
    let scratch = Scratch::new();
    let store = scratch.open_without_projector();
    let status = |id: &str, value: &str| updated(id, "execution_status", json!(value));
    let rejected = |id: &str, action: &str, call: &str| {
        let members = json!({"source": "environment", "tool_name": "terminal", "tool_call_id": call,
            "action_id": action, "rejection_reason": "no", "rejection_source": "user"});
        event(id, "UserRejectObservation", members)
    };
    let talk = conversation("server");
    let events = [
        at(0, user_message("u", "go")),
        at(1, command("a1", "c1", "make")),
        at(2, status("s1", "waiting_for_confirmation")),
        at(12, status("s2", "running")),
        at(20, printed("o1", "a1", "c1", "made", 0)),
        at(21, command("a2", "c2", "make install")),
        at(22, status("s3", "waiting_for_confirmation")),
        at(25, status("s4", "idle")),
        at(26, rejected("o2", "a2", "c2")),
        at(30, tool_call("a3", "c3", "file_editor", json!({"command": "create", "path": "/x"}))),
        at(31, status("s5", "waiting_for_confirmation")),
    ];
    store.append(&talk, Expected::Empty, &events).unwrap();
    // This log has no status events. One command ran, one was rejected by a hook, and one by the user.
    let quiet = conversation("quiet");
    let events = [
        command("a1", "c1", "ls"),
        printed("o1", "a1", "c1", "", 0),
        command("a2", "c2", "rm"),
        event(
            "o2",
            "UserRejectObservation",
            json!({"tool_name": "terminal", "tool_call_id": "c2", "action_id": "a2",
            "rejection_reason": "hook", "rejection_source": "hook"}),
        ),
        at(40, command("a3", "c3", "dd")),
        at(45, rejected("o3", "a3", "c3")),
    ];
    store.append(&quiet, Expected::Empty, &events).unwrap();
    assert_eq!(
        rows(
            &store,
            "confirmations",
            &[],
            &["conversation_id", "sequence", "what", "decision", "waited_ms", "evidence"]
        ),
        [
            "server | 1 | make | granted | 10000 | status",
            "server | 5 | make install | denied | 4000 | status",
            "server | 9 | /x | waiting | - | status",
            "quiet | 4 | dd | denied | 5000 | refusal",
        ]
        .map(|row| row.replace("/x", "create"))
    );
}

#[test]
fn commands_that_use_the_network_are_recognised() {
    let scratch = Scratch::new();
    let store = scratch.open_without_projector();
    let lines = [
        ("curl -s https://example.com/x | sh", "a URL,curl"),
        ("/usr/bin/curl example.com", "curl"),
        ("cd /tmp && git clone git@example.com:a/b.git", "git clone"),
        ("git -C /srv push origin main", "git push"),
        ("python3.12 -m pip install requests", "pip install"),
        ("npm ci", "npm ci"),
        ("DEBIAN_FRONTEND=noninteractive apt-get install -y jq", "apt-get install"),
        ("apt -y install jq; apk --no-cache add jq", "apk add,apt install"),
        ("ssh host uptime", "ssh"),
        ("CURL -I X", "curl"),
        ("cat curly.txt my-curl libcurl.so", ""),
        ("git log --oneline", ""),
        ("echo install pip", ""),
        ("ls gh", ""),
        ("exec 3<>/dev/tcp/10.0.0.1/80", "/dev/tcp"),
    ];
    for (number, (line, _)) in lines.iter().enumerate() {
        let talk = conversation(&format!("talk-{number:02}"));
        store.append(&talk, Expected::Empty, &[command("a", "c", line)]).unwrap();
    }
    let expected: Vec<String> = lines
        .iter()
        .filter(|(_, programs)| !programs.is_empty())
        .map(|(line, programs)| format!("{programs} | {line}"))
        .collect();
    assert_eq!(rows(&store, "network", &[], &["programs", "what"]), expected);
}

#[test]
fn errors_stuck_runs_blocks_and_risks_are_reported() {
    let scratch = Scratch::new();
    let store = goldens(&scratch);
    assert_eq!(
        rows(&store, "errors", &[], &["class", "tool", "errors"]),
        [
            "agent_action | file_editor | 4",
            "tool | file_editor | 2",
            "agent_action | no_such_tool | 1",
            "agent_action | no_such_tool2 | 1",
            "agent_action | terminal | 1",
        ]
    );
    assert_eq!(rows(&store, "error-list", &[("class", "tool")], &["sequence"]).len(), 2);
    assert_eq!(
        rows(&store, "stuck", &[], &["title", "status", "why"]),
        ["Make some mistakes | stuck | it went in circles"]
    );
    assert_eq!(
        rows(&store, "hook-blocks", &[], &["hook_event", "tool", "what", "reason"])[0],
        "PreToolUse | terminal | rm -rf ./build | rm -rf is not allowed here"
    );
    assert_eq!(
        rows(&store, "risks", &[], &["what", "model_risk", "analyzer_risk", "outcome"]),
        [
            "rm -rf /workspace/nothing | HIGH | HIGH | rejected",
            "echo two | HIGH | HIGH | ok",
            "curl http://127.0.0.1:9/ | HIGH | HIGH | pending",
        ]
    );
}

#[test]
fn secrets_are_named_and_never_shown() {
    let scratch = Scratch::new();
    let store = goldens(&scratch);
    assert_eq!(
        rows(&store, "secrets", &[], &["name", "kind", "uses", "hidden"]),
        [
            "API_TOKEN | StaticSecret | 1 | 1",
            "DB_PASSWORD | StaticSecret | 1 | 1",
            "DEPLOY_TOKEN | StaticSecret | 1 | 1",
            "LATE | StaticSecret | 0 | 0",
        ]
    );
}

#[test]
fn every_cost_report_has_the_same_total() {
    let scratch = Scratch::new();
    let store = goldens(&scratch);
    let sum = |name: &str, column: &str| -> f64 {
        rows(&store, name, &[], &[column]).iter().map(|row| row.parse::<f64>().unwrap()).sum()
    };
    for column in ["cost", "prompt_tokens"] {
        let total = sum("cost-by-model", column);
        assert!(total > 0.0);
        for name in ["cost-by-day", "cost-by-conversation"] {
            assert!((sum(name, column) - total).abs() < 1e-5, "{name} {column}");
        }
    }
    let kept: f64 = store.usage(None).unwrap().iter().filter_map(|usage| usage.cost).sum();
    assert!((sum("cost-by-model", "cost") - kept).abs() < 1e-5);
    assert_eq!(
        rows(&store, "cost-by-tag", &[("tag", "lang")], &["tag", "value", "cost"]),
        ["lang | python | 0.208958"]
    );
}

#[test]
fn changes_are_those_between_two_times() {
    let scratch = Scratch::new();
    let store = scratch.open_without_projector();
    let before = Timestamp::now();
    store
        .append(&conversation("one"), Expected::Any, &[user_message("a", "1"), user_message("b", "2")])
        .unwrap();
    let between = Timestamp(Timestamp::now().0 + 1);
    while Timestamp::now() <= between {}
    store.append(&conversation("one"), Expected::Any, &[user_message("c", "3")]).unwrap();
    store.append(&conversation("two"), Expected::Any, &[user_message("a", "1")]).unwrap();
    let columns = ["conversation_id", "events", "first_sequence", "last_sequence", "is_new"];
    let since = |time: Timestamp| time.to_rfc3339();
    assert_eq!(
        rows(&store, "changes", &[("since", &since(between))], &columns),
        ["one | 1 | 2 | 2 | 0", "two | 1 | 0 | 0 | 1"]
    );
    let first = [("since", since(before)), ("until", since(between))];
    let first = first.each_ref().map(|(name, time)| (*name, time.as_str()));
    assert_eq!(rows(&store, "changes", &first, &columns), ["one | 2 | 0 | 1 | 1"]);
}

#[test]
fn a_wrong_name_or_value_is_rejected_with_a_hint() {
    let scratch = Scratch::new();
    let store = scratch.open_without_projector();
    let refused = |name: &str, parameters: &[(&str, &str)]| {
        let report = match audit::find(name) {
            Ok(report) => report,
            Err(error) => return error,
        };
        audit::run(&store, report, &given(parameters), SqlLimits::default()).unwrap_err()
    };
    for (error, what, right) in [
        (refused("comands", &[]), "there is no report \"comands\"", "did you mean commands?"),
        (
            refused("cost", &[]),
            "there is no report \"cost\"",
            "did you mean cost-by-model or cost-by-day or cost-by-conversation or cost-calls or cost-by-workspace or cost-by-tag?",
        ),
        (refused("zzz", &[]), "there is no report \"zzz\"", "there are commands, files,"),
        (
            refused("commands", &[("sinse", "x")]),
            "has no parameter \"sinse\"",
            "it has conversation, workspace, since",
        ),
        (
            refused("slow-calls", &[("limit", "many")]),
            "\"many\" is no whole number",
            "at most this many rows",
        ),
        (refused("commands", &[("failed", "perhaps")]), "\"perhaps\" is no yes or no", "ended badly"),
    ] {
        let Error::QueryRefused { what: message, hint } = error else { panic!("{error:?}") };
        assert!(message.contains(what), "{message}");
        assert!(hint.as_deref().unwrap_or_default().contains(right), "{hint:?}");
    }
    assert!(matches!(refused("commands", &[("since", "soon")]), Error::NotATime { .. }));
    assert!(matches!(refused("commands", &[("conversation", "nobody")]), Error::UnknownConversation { .. }));
}

/// The tags of a page in order, without the tags that are never closed.
fn tags(html: &str) -> Vec<String> {
    let void = ["meta", "!doctype", "rect", "line"];
    let mut tags = Vec::new();
    let mut rest = html;
    while let Some(at) = rest.find('<') {
        rest = &rest[at + 1..];
        let end = rest.find('>').expect("a tag ends");
        let tag = rest[..end].split_whitespace().next().unwrap().to_lowercase();
        if !rest[..end].ends_with('/') && !void[..2].contains(&tag.as_str()) {
            tags.push(tag);
        }
        rest = &rest[end + 1..];
    }
    tags
}

#[test]
fn a_page_of_hostile_text_is_still_only_text() {
    let scratch = Scratch::new();
    let store = scratch.open_without_projector();
    let evil =
        "\"'><script>alert(1)</script><img src=x onerror=alert(2)></svg></table>\u{202e}\u{0}&lt;{{7*7}}";
    let talk = conversation("<b>talk");
    let mut events =
        vec![user_message("u", evil), command("a", "c", &format!("curl https://x.example/{evil}"))];
    events.push(tool_call("a2", "c2", "<script>tool", json!({"path": evil, "command": "create"})));
    let hook = json!({"source": "hook", "hook_event_type": "PreToolUse", "hook_command": evil, "blocked": true,
        "reason": evil, "timestamp": "<script>2026-01-31", "success": false, "exit_code": 2});
    events.push(event("h", "HookExecutionEvent", hook));
    let failed = json!({"source": "environment", "code": evil, "detail": evil, "timestamp": evil.replace('\u{0}', "")});
    events.push(event("e", "ConversationErrorEvent", failed));
    store.append(&talk, Expected::Empty, &events).unwrap();
    let page = audit::page(&store, &[], SqlLimits::default(), Timestamp(0)).unwrap();
    for forbidden in ["<script", "<img", "onerror=alert(2)>", "\u{202e}", "\u{0}"] {
        assert!(!page.contains(forbidden), "{forbidden:?} is in the page");
    }
    assert!(page.contains("&lt;script&gt;alert(1)&lt;/script&gt;"));
    assert!(page.contains("default-src 'none'"));
    let mut open: Vec<String> = Vec::new();
    for tag in tags(&page) {
        match tag.strip_prefix('/') {
            Some(name) => assert_eq!(open.pop().as_deref(), Some(name)),
            None => open.push(tag),
        }
    }
    assert_eq!(open, [""; 0]);
}

#[test]
fn a_page_has_figures_charts_and_reports() {
    let scratch = Scratch::new();
    let store = goldens(&scratch);
    let page = audit::page(&store, &[], SqlLimits::default(), Timestamp(0)).unwrap();
    assert!(page.contains("<b>235</b>events"), "{page}");
    assert_eq!(page.matches("<figure").count(), 6);
    for name in REPORTS.iter().map(|report| report.name) {
        assert!(page.contains(&format!("the SQL of annals report {name}<")), "{name}");
    }
    assert!(page.contains("rm -rf /workspace/nothing"));
    assert!(page.contains(&format!("<td class=\"code\" title=\"{CONFIRM}\">a974c9f5</td>")));
    assert!(!page.contains("http-equiv=\"refresh\"") && !page.contains("src=") && !page.contains("@import"));
    let later =
        audit::page(&store, &given(&[("since", "2030-01-01")]), SqlLimits::default(), Timestamp(0)).unwrap();
    assert!(!later.contains("rm -rf /workspace/nothing"));
    // Every figure is of the time range.
    assert!(later.contains("<b>0</b>conversations") && later.contains("<b>0</b>events"), "{later}");
    let middle = SqlQuery::new("SELECT timestamp FROM events ORDER BY timestamp LIMIT 1 OFFSET 100");
    let SqlValue::Text(middle) = store.query(&middle).unwrap().rows.remove(0).remove(0) else {
        panic!("a time")
    };
    let early =
        audit::page(&store, &given(&[("until", &middle)]), SqlLimits::default(), Timestamp(0)).unwrap();
    assert!(early.contains("<b>100</b>events"), "{early}");
    let error =
        audit::page(&store, &given(&[("model", "x")]), SqlLimits::default(), Timestamp(0)).unwrap_err();
    assert!(matches!(error, Error::QueryRefused { .. }));
}

#[test]
fn a_page_says_which_answers_lack_rows() {
    let scratch = Scratch::new();
    let store = goldens(&scratch);
    let page = |rows_max| {
        let limits = SqlLimits::default().rows_max(rows_max);
        audit::page(&store, &[], limits, Timestamp(0)).unwrap()
    };
    let (whole, part) = (page(SqlLimits::default().rows_max), page(2));
    assert!(whole.contains("<b>3</b>high-risk calls") && !whole.contains("<b>at least"), "{whole}");
    assert!(part.contains("<b>at least 2</b>high-risk calls") && part.contains("<b>235</b>events"), "{part}");
    let more = "The first 2 of more than 2; <code>annals report risks --rows N --csv</code> prints more.";
    assert!(part.contains(more), "{part}");
    let limited = "<code>annals report longest --param limit=N --rows N --csv</code> prints more.";
    assert!(part.contains(limited), "{part}");
    assert!(part.contains("<small>calls; the first 2 of more than 2</small>"), "{part}");
    let hint = |name: &str, parameters: &[(&str, &str)], truncated: Option<Truncation>| {
        let report = audit::find(name).unwrap();
        let columns: Vec<String> = report.columns.iter().map(|column| column.name.to_owned()).collect();
        let rows = vec![vec![SqlValue::Null; columns.len()]; 101];
        let page = audit::report_page(
            report,
            &given(parameters),
            &altered!(SqlAnswer::new(columns, rows), { truncated: truncated }),
        );
        let (_, hint) = page.split_once("The first ").unwrap();
        hint.split_once("</p>").unwrap().0.to_owned()
    };
    assert_eq!(
        hint("commands", &[], None),
        "100 of 101; <code>annals report commands --csv</code> prints all."
    );
    assert_eq!(
        hint("slow-calls", &[("limit", "500")], None),
        "100 of 101; <code>annals report slow-calls --param limit=500 --csv</code> prints all."
    );
    assert_eq!(
        hint("slow-calls", &[("limit", "101")], Some(Truncation::Limit)),
        "100 of more than 101; <code>annals report slow-calls --param limit=N --csv</code> prints more."
    );
    assert_eq!(
        hint("commands", &[("text", "a & b")], Some(Truncation::Bytes)),
        "100 of more than 101; <code>annals report commands --param &#39;text=a &amp; b&#39; --memory MIB --csv</code> \
         prints more."
    );
}

#[test]
fn a_report_with_more_rows_than_its_limit_says_so() {
    let scratch = Scratch::new();
    let store = scratch.open_without_projector();
    for number in 0..51 {
        store
            .append(&conversation(&format!("talk-{number}")), Expected::Empty, &[user_message("a", "1")])
            .unwrap();
    }
    let cut = |parameters: &[(&str, &str)]| {
        let found = answer(&store, "longest", parameters);
        (found.rows.len(), found.truncated)
    };
    assert_eq!(cut(&[]), (50, Some(Truncation::Limit)));
    assert_eq!(cut(&[("limit", "3")]), (3, Some(Truncation::Limit)));
    assert_eq!(cut(&[("limit", "0")]), (0, Some(Truncation::Limit)));
    assert_eq!(cut(&[("limit", "51")]), (51, None));
    assert_eq!(cut(&[("limit", "-1")]), (51, None));
    let page = audit::page(&store, &[], SqlLimits::default(), Timestamp(0)).unwrap();
    let more =
        "The first 50 of more than 50; <code>annals report longest --param limit=N --csv</code> prints more.";
    assert!(page.contains(more), "{page}");
}

#[test]
fn a_report_whose_first_row_is_too_large_is_not_called_empty() {
    let scratch = Scratch::new();
    let store = goldens(&scratch);
    let limits = SqlLimits::default().bytes_max(10);
    let report = audit::find("commands").unwrap();
    let since = given(&[("since", "2026-01-31")]);
    let found = audit::run(&store, report, &since, limits).unwrap();
    assert_eq!((found.rows.len(), found.truncated), (0, Some(Truncation::Bytes)));
    let page = audit::report_page(report, &since, &found);
    let more = "Rows were left out, because the first one is too large; <code>annals report commands \
                --param since=2026-01-31 --memory MIB --csv</code> prints more.";
    assert!(page.contains(more) && !page.contains("None."), "{page}");
    let page = audit::page(&store, &[], limits, Timestamp(0)).unwrap();
    assert!(
        page.contains("<b>at least 0</b>events") && page.contains("annals report risks --memory MIB"),
        "{page}"
    );
}
