//! `/api/annals/`: conversations as of any point, queries over the whole file, and the log as it is stored.

use annals::server::Config;
use annals::state::FieldChange;
use annals::store::BaseStateChange;
use annals::{Expected, Options, Store};
use reqwest::Method;
use serde_json::{Value, json};

use crate::support::conversation;
use crate::support::events::{answered, event, payload, user_message};
use crate::support::served::Served;

const TALK: &str = "0af3c9d2-8d4b-4f0e-9a5e-51c11b1f2a01";

/// Returns a store with a conversation of four events: a request, a command, its output and an answer.
fn store() -> Store {
    let store = Store::in_memory(&Options::default()).unwrap();
    let events = [
        user_message("e0", "Count the files"),
        event("e1", "ActionEvent", action()),
        event("e2", "ObservationEvent", observation()),
        answered("e3", "There are 42 files"),
    ];
    store.append(&conversation(TALK), Expected::Empty, &events).unwrap();
    store
}

/// The members of a command's event, as the current SDK writes them.
fn action() -> Value {
    let command =
        json!({"kind": "TerminalAction", "command": "ls | wc -l", "is_input": false, "reset": false});
    json!({
        "source": "agent", "thought": [], "thinking_blocks": [], "action": command, "tool_name": "terminal",
        "tool_call_id": "call-1", "llm_response_id": "response", "security_risk": "LOW",
        "tool_call": {"id": "call-1", "name": "terminal", "origin": "completion",
                      "arguments": r#"{"command": "ls | wc -l"}"#},
    })
}

/// The members of the event with its output.
fn observation() -> Value {
    let content = [json!({"type": "text", "text": "42", "cache_prompt": false})];
    let observation = json!({"kind": "TerminalObservation", "content": content, "is_error": false,
                             "command": "ls | wc -l", "exit_code": 0, "timeout": false});
    json!({"source": "environment", "tool_name": "terminal", "tool_call_id": "call-1", "action_id": "e1",
           "observation": observation})
}

fn path(rest: &str) -> String {
    // The beginning of an id is enough.
    format!("/api/annals/conversations/0af3c9{rest}")
}

#[tokio::test(flavor = "multi_thread")]
async fn views_states_and_messages_are_answered_as_of_any_point() {
    let server = Served::start(&store()).await;
    let ids = |value: Value| -> Vec<String> { serde_json::from_value(value).unwrap() };
    assert_eq!(ids(server.json(&path("/view?ids=true")).await), ["e0", "e1", "e2", "e3"]);
    assert_eq!(ids(server.json(&path("/view?ids=true&at=0")).await), ["e0"]);
    // A reloaded view leaves out a call without an answer. A live view shows it.
    assert_eq!(ids(server.json(&path("/view?ids=true&at=e1")).await), ["e0"]);
    assert_eq!(ids(server.json(&path("/view?ids=true&at=e1&live=true")).await), ["e0", "e1"]);

    let state = server.json(&path("/state?at=1")).await;
    assert_eq!(state["unmatched_action_ids"], json!(["e1"]));
    assert_eq!(server.json(&path("/state")).await["unmatched_action_ids"], json!([]));

    let messages = server.json(&path("/messages?wire=chat&strings=true")).await;
    let roles: Vec<&str> = messages.as_array().unwrap().iter().map(|m| m["role"].as_str().unwrap()).collect();
    assert_eq!(roles, ["user", "assistant", "tool", "assistant"]);
    assert_eq!(server.json(&path("/messages?wire=responses")).await["input"].as_array().unwrap().len(), 4);
    assert_eq!(server.json(&path("/branches")).await["head"], "e3");

    let difference = server.json(&format!("/api/annals/diff?left={TALK}@1&right={TALK}")).await;
    let added: Vec<&str> =
        difference["added"].as_array().unwrap().iter().map(|mark| mark["id"].as_str().unwrap()).collect();
    assert_eq!((difference["common_events"].clone(), added), (json!(2), vec!["e2", "e3"]));
    server.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn chat_messages_are_those_of_the_conversations_own_model() {
    let store = store();
    let agent = json!({"kind": "Agent", "llm": {"model": "anthropic/claude-sonnet-4-5-20250929", "usage_id": "agent"}});
    let fields = vec![FieldChange::set("agent", agent.to_string()).unwrap()];
    store.save_base_state(&conversation(TALK), BaseStateChange::new(fields)).unwrap();
    let server = Served::start(&store).await;
    for (choice, is_marked, is_text) in
        [("", true, false), ("&caching=false", false, false), ("&caching=false&strings=true", false, true)]
    {
        let messages = server.json(&path(&format!("/messages?wire=chat{choice}"))).await;
        assert_eq!(messages.to_string().contains("cache_control"), is_marked, "{choice}: {messages}");
        assert_eq!(messages[0]["content"].is_string(), is_text, "{choice}: {messages}");
    }
    server.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn unknown_points_and_invalid_parameters_are_named_in_the_error() {
    let server = Served::start(&store()).await;
    for (path, status, text) in [
        (path("/state?at=9"), 404, "there is no event 9"),
        (path("/view?at=nothing"), 404, "nothing"),
        ("/api/annals/conversations/zzz/state".to_owned(), 404, "zzz"),
        ("/api/annals/reports/nonsense".to_owned(), 404, "nonsense"),
        ("/api/annals/search".to_owned(), 422, "Field required"),
        ("/api/annals/search?q=".to_owned(), 422, ""),
        ("/api/annals/search?q=a&since=soon".to_owned(), 422, "soon"),
        ("/api/annals/stats?by=colour".to_owned(), 422, "'conversation' or 'kind'"),
        (path("/messages?wire=morse"), 422, "'plain' or 'chat'"),
        (path("/events?limit=0"), 422, "greater than or equal to 1"),
        ("/api/annals/feed?after=x".to_owned(), 422, "position"),
    ] {
        let answer = server.get(&path).await;
        assert_eq!(answer.status, status, "{path}: {}", answer.text);
        assert!(answer.text.contains(text), "{path}: {}", answer.text);
    }
    server.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn words_are_found_in_any_transcript() {
    let store = store();
    let server = Served::start(&store).await;
    let found = server.json("/api/annals/search?q=files&limit=1").await;
    assert_eq!(found["hits"][0]["event_id"], "e3");
    let rest = server.json(&format!("/api/annals/search?q=files&before={}", found["next"])).await;
    assert_eq!((rest["hits"][0]["event_id"].clone(), rest["next"].clone()), (json!("e0"), Value::Null));
    let none = server.json(&format!("/api/annals/search?q=files&conversation={TALK}&kind=ActionEvent")).await;
    assert_eq!(none, json!({"hits": [], "next": null}));
    let message = json!({"role": "user", "content": [{"type": "text", "text": "More files"}]});
    let timed = json!({"source": "user", "timestamp": "2026-01-31T10:00:00.000000", "llm_message": message});
    store.append(&conversation("timed"), Expected::Empty, &[event("t0", "MessageEvent", timed)]).unwrap();
    let count = async |range: &str| {
        let found = server.json(&format!("/api/annals/search?q=files&{range}")).await;
        found["hits"].as_array().unwrap().len()
    };
    // Events without a time of their own are in no range.
    assert_eq!(count("since=&until=").await, 3);
    assert_eq!((count("since=2026-01-31").await, count("until=2026-02-01").await), (1, 1));
    assert_eq!((count("since=2026-02-01").await, count("until=2026-01-31").await), (0, 0));
    server.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn sql_reads_documented_views_within_limits_and_nothing_else() {
    let server = Served::start(&store()).await;
    let views = server.json("/api/annals/query").await;
    assert!(views["views"].as_array().unwrap().iter().any(|view| view["name"] == "events"));

    let count = json!({"sql": "SELECT kind, count(*) AS n FROM events WHERE source = :who GROUP BY kind",
                       "parameters": {"who": "user"}});
    let answer = server.post("/api/annals/query", &count).await;
    assert_eq!(
        answer.json(),
        json!({"columns": ["kind", "n"], "rows": [["MessageEvent", 1]], "truncated": null})
    );
    let csv = server.post("/api/annals/query?format=csv", &count).await;
    assert_eq!((&*csv.content_type, &*csv.text), ("text/csv; charset=utf-8", "kind,n\r\nMessageEvent,1\r\n"));

    let few = json!({"sql": "SELECT event_id FROM events ORDER BY sequence", "limits": {"rows": 2}});
    let answer = server.post("/api/annals/query", &few).await.json();
    assert_eq!(
        (answer["rows"].clone(), answer["truncated"].clone()),
        (json!([["e0"], ["e1"]]), json!("rows"))
    );

    for refused in [
        json!({"sql": "DELETE FROM events"}),
        json!({"sql": "SELECT * FROM sqlite_master"}),
        json!({"sql": "SELECT 1; SELECT 2"}),
        json!({"sql": "SELECT :missing"}),
        json!({"sql": "SELECT 1", "limits": {"rows": 0}}),
        json!({"sql": "SELECT 1", "limits": {"seconds": 3600}}),
        json!({"sql": "SELECT 1", "parameters": [1]}),
        json!({"sql": "SELECT :a", "parameters": {"a": {}}}),
        json!({}),
        json!([]),
    ] {
        let answer = server.post("/api/annals/query", &refused).await;
        assert_eq!(answer.status, 422, "{refused}: {}", answer.text);
    }
    server.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn reports_are_listed_and_answered_in_three_forms() {
    let server = Served::start(&store()).await;
    let list = server.json("/api/annals/reports").await;
    assert_eq!(list["reports"].as_array().unwrap().len(), annals::audit::REPORTS.len());
    for report in annals::audit::REPORTS {
        let answer = server.get(&format!("/api/annals/reports/{}", report.name)).await;
        assert_eq!(answer.status, 200, "{}: {}", report.name, answer.text);
    }
    let commands = server.json("/api/annals/reports/commands?conversation=0af3").await;
    assert_eq!(commands["report"], "commands");
    assert!(commands["rows"][0].as_array().unwrap().contains(&json!("ls | wc -l")));
    let csv = server.get("/api/annals/reports/commands?format=csv").await;
    assert!(csv.text.contains("ls | wc -l"), "{}", csv.text);
    for page in ["/api/annals/reports/commands?format=html", "/api/annals/reports?format=html"] {
        let page = server.get(page).await;
        assert_eq!((page.status.as_u16(), &*page.content_type), (200, "text/html; charset=utf-8"));
        assert!(page.text.starts_with("<!doctype html>") && !page.text.contains("<script"), "{}", page.text);
    }
    let wrong = server.get("/api/annals/reports/commands?colour=red").await;
    assert_eq!(wrong.status, 422, "{}", wrong.text);
    server.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_truncated_report_is_marked_in_every_form() {
    let server = Served::start(&store()).await;
    let answer = server.json("/api/annals/reports/longest?limit=0").await;
    assert_eq!((answer["rows"].clone(), answer["truncated"].clone()), (json!([]), json!("limit")));
    let page = server.get("/api/annals/reports/longest?limit=0&format=html").await;
    let more = "Rows were left out; <code>annals report longest --param limit=N --csv</code> prints more.";
    assert!(page.text.contains(more), "{}", page.text);
    for (query, expected) in [("limit=0", Some("limit")), ("limit=1000", None)] {
        let url = format!("{}/api/annals/reports/longest?format=csv&{query}", server.url);
        let response = server.client.get(url).send().await.unwrap();
        let header = response.headers().get("annals-truncated").map(|value| value.to_str().unwrap());
        assert_eq!(header, expected, "{query}");
    }
    server.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn events_are_appended_and_read_byte_for_byte() {
    let server = Served::start(&store()).await;
    // Spaces, the order of members and a number that no float can hold are all kept.
    let odd = r#"{ "kind" : "PauseEvent","id":"e4",  "n":12345678901234567890123 }"#;
    let send = |query: &'static str, body: String| {
        let url = format!("{}/api/annals/conversations/{TALK}/events{query}", server.url);
        let request = server.client.post(url).body(body);
        async move { crate::support::served::Answer::of(request.send().await.unwrap()).await }
    };
    let answer = send("?expected=4", odd.to_owned()).await;
    let places = json!({"appended": [{"id": "e4", "sequence": 4, "position": 5, "known": false}]});
    assert_eq!(answer.json(), places);
    // The answer to a retry says where the event is.
    assert_eq!(send("", odd.to_owned()).await.json()["appended"][0]["known"], true);
    let page = server.get(&path("/events?from=4")).await;
    assert!(page.text.contains(odd) && page.text.ends_with(r#""next":null}"#), "{}", page.text);

    let two =
        format!("[{}, {}]", payload("e5", "PauseEvent", json!({})), payload("e6", "PauseEvent", json!({})));
    assert_eq!(send("?expected=exists", two.clone()).await.json()["appended"].as_array().unwrap().len(), 2);
    let newest = server.json(&path("/events?descending=true&limit=1")).await;
    assert_eq!((newest["events"][0]["event"]["id"].clone(), newest["next"].clone()), (json!("e6"), json!(5)));

    let stale = send("?expected=3", payload("e7", "PauseEvent", json!({}))).await;
    assert_eq!(stale.status, 409);
    assert!(stale.text.contains("expected 3 events, found 7"), "{}", stale.text);
    assert_eq!(stale.json()["conflict"], json!({"expected": 3, "found": 7}));
    let empty = send("?expected=empty", payload("e7", "PauseEvent", json!({}))).await;
    assert_eq!(empty.json()["conflict"], json!({"expected": "empty", "found": 7}));
    let other = send("", payload("e5", "PauseEvent", json!({"other": 1}))).await;
    assert_eq!(other.status, 409, "{}", other.text);
    assert_eq!(other.json()["conflict"], json!({"event": "e5", "sequence": 5}));
    for (query, body) in [
        ("", "nonsense"),
        ("", "{}"),
        ("", r#"{"id":"x"}"#),
        ("", r#"[{"id":"x","kind":"PauseEvent"}, 1]"#),
        ("?expected=-1", r#"{"id":"x","kind":"PauseEvent"}"#),
        ("", r#"{"id":"x","kind":"PauseEvent","parent_id":"nobody"}"#),
    ] {
        let answer = send(query, body.to_owned()).await;
        assert_eq!(answer.status, 422, "{query} {body}: {}", answer.text);
    }
    assert_eq!(server.json(&path("/state")).await["conversation_id"], TALK);
    server.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_verification_ends_with_its_result() {
    let server = Served::start(&store()).await;
    for query in ["", "?quick=true", "?conversation=0af3"] {
        let answer = server.get(&format!("/api/annals/verify{query}")).await;
        assert_eq!(answer.content_type, "application/x-ndjson");
        let last: Value = serde_json::from_str(answer.text.lines().last().unwrap()).unwrap();
        assert_eq!(
            (last["done"]["sound"].clone(), last["done"]["events"].clone()),
            (json!(true), json!(4)),
            "{query}"
        );
    }
    assert_eq!(server.get("/api/annals/verify?conversation=zzz").await.status, 404);
    server.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn statistics_and_administrative_acts_are_served() {
    let store = store();
    let gone = conversation("gone");
    store.append(&gone, Expected::Empty, &[user_message("e0", "Forget me")]).unwrap();
    store.retention().erase(&gone, "asked for").unwrap();
    let server = Served::start(&store).await;
    let stats = server.json("/api/annals/stats").await;
    assert_eq!((stats["conversations"].clone(), stats["events"].clone()), (json!(1), json!(4)));
    let kinds = server.json("/api/annals/stats?by=kind").await;
    assert_eq!(kinds["rows"].as_array().unwrap().len(), 3);
    let acts = server.json("/api/annals/admin-log?receipts=true").await;
    assert_eq!((acts["acts"][0]["act"].clone(), acts["next"].clone()), (json!("erase"), Value::Null));
    // What an erasure took leaves no digest.
    assert_eq!(acts["acts"][0]["receipts"], json!([]));
    let after = acts["acts"][0]["number"].clone();
    assert_eq!(server.json(&format!("/api/annals/admin-log?after={after}")).await["acts"], json!([]));
    server.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_without_a_key_are_rejected() {
    let config = Config::default().session_keys(vec!["secret".to_owned()]);
    let server = Served::with(&store(), config).await;
    for path in
        [path("/state"), "/api/annals/stats".to_owned(), "/api/annals/feed".to_owned(), "/metrics".to_owned()]
    {
        assert_eq!(server.get(&path).await.status, 401, "{path}");
    }
    let url = format!("{}/api/annals/stats", server.url);
    let known =
        server.client.request(Method::GET, url).header("x-session-api-key", "secret").send().await.unwrap();
    assert_eq!(known.status(), 200);
    server.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_document_and_its_page_need_no_key_and_load_nothing_from_elsewhere() {
    let config = Config::default().session_keys(vec!["secret".to_owned()]);
    let server = Served::with(&store(), config).await;
    let document = server.json("/openapi.json").await;
    assert_eq!(document["openapi"], "3.1.0");
    assert!(document["paths"]["/api/annals/feed"]["get"].is_object());
    for (path, content_type) in [
        ("/docs", "text/html; charset=utf-8"),
        ("/docs/page.js", "text/javascript; charset=utf-8"),
        ("/docs/page.css", "text/css; charset=utf-8"),
    ] {
        let response = server.client.get(format!("{}{path}", server.url)).send().await.unwrap();
        assert_eq!(response.headers()["content-type"], content_type);
        let policy = response.headers()["content-security-policy"].to_str().unwrap().to_owned();
        assert!(policy.starts_with("default-src 'none'") && !policy.contains("unsafe"), "{policy}");
        let text = response.text().await.unwrap();
        assert!(!text.contains("://"), "{path} contains a URL");
    }
    server.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn routes_that_annals_does_not_serve_answer_501() {
    let server = Served::start(&store()).await;
    let absent = server.get("/api/mcp/oauth/status/7").await;
    let detail = absent.json()["detail"].as_str().unwrap().to_owned();
    assert_eq!(absent.status, 501);
    assert!(detail.starts_with("Annals does not serve this. ") && detail.len() > 40, "{detail}");
    assert_eq!(server.post("/api/canvas-extensions/install", &json!({})).await.status, 501);
    assert_eq!(server.get("/api/nothing").await.status, 404);
    assert_eq!(server.post("/api/annals/stats", &json!({})).await.status, 405);
    server.end().await;
}
