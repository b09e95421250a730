//! The routes that change a conversation: run, pause, secrets, fork, goal and others.

use serde_json::{Value, json};
use uuid::Uuid;

use crate::support::caller::{Served, model, model_runs, until};
use crate::support::model_server::Answer;

fn root(id: &str) -> String {
    format!("/api/conversations/{id}")
}

async fn send(server: &Served, id: &str, text: &str) {
    let content = json!([{"type": "text", "text": text}]);
    server.post(&format!("{}/events", root(id)), json!({"role": "user", "content": content})).await.ok();
}

#[tokio::test]
async fn a_run_finishes_and_a_second_run_is_refused_meanwhile() {
    let server = Served::start().await;
    let model = model_runs("while [ ! -e gate ]; do sleep 0.05; done");
    let id = server.conversation(&model).await;
    send(&server, &id, "Go").await;
    let run = async || server.post(&format!("{}/run", root(&id)), json!({})).await;
    assert_eq!(run().await.ok(), json!({"success": true}));
    let busy = json!("Conversation already running. Wait for completion or pause first.");
    assert_eq!(run().await.refusal(), (409, busy));
    std::fs::create_dir_all(server.path("work")).unwrap();
    std::fs::write(server.path("work/gate"), "").unwrap();
    assert_eq!(server.wait_until_done(&id).await, "finished");
    let answer = server.get(&format!("{}/agent_final_response", root(&id))).await.ok();
    assert_eq!(answer, json!({"response": "Done."}));
}

#[tokio::test]
async fn a_missing_conversation_is_reported_with_the_message_of_each_route() {
    let server = Served::start().await;
    let path = root(&Uuid::new_v4().to_string());
    let plain = [
        ("run", json!({})),
        ("pause", json!({})),
        ("interrupt", json!({})),
        ("secrets", json!({"secrets": {}})),
        ("confirmation_policy", json!({"policy": {"kind": "NeverConfirm"}})),
        ("security_analyzer", json!({"security_analyzer": null})),
        ("switch_llm", json!({"llm": {"model": "m"}})),
        ("switch_profile", json!({"profile_name": "p"})),
        ("switch_acp_model", json!({"model": "m"})),
        ("load_plugin", json!({"plugin_ref": "p"})),
        ("goal", json!({"objective": "o"})),
        ("goal/stop", json!({})),
        ("goal/resume", json!({})),
    ];
    for (command, body) in plain {
        let answer = server.post(&format!("{path}/{command}"), body).await;
        assert_eq!(answer.refusal(), (404, json!("Not Found")), "{command}");
    }
    for (command, body, text) in [
        ("ask_agent", json!({"question": "q"}), "Conversation not found"),
        ("condense", json!({}), "Conversation not found"),
        ("navigate", json!({}), "Conversation not found"),
        ("fork", json!({}), "Source conversation not found"),
        ("children", json!({"task": "t"}), "Parent conversation not found"),
    ] {
        let answer = server.post(&format!("{path}/{command}"), body).await;
        assert_eq!(answer.refusal(), (404, json!(text)), "{command}");
    }
    assert_eq!(server.get(&format!("{path}/agent_final_response")).await.status, 404);
    // A removed route does not exist here either.
    assert_eq!(server.post(&format!("{path}/generate_title"), json!({})).await.status, 404);
}

#[tokio::test]
async fn a_pause_lets_the_current_step_finish() {
    let server = Served::start().await;
    let model = crate::support::model_server::ModelServer::start([
        Answer::calls("", &[("c1", "terminal", r#"{"command":"echo during"}"#)]).held(),
        Answer::text("After."),
    ]);
    let id = server.conversation(&model).await;
    send(&server, &id, "Go").await;
    server.post(&format!("{}/run", root(&id)), json!({})).await.ok();
    model.arrived(1).await;
    server.post(&format!("{}/pause", root(&id)), json!({})).await.ok();
    model.release();
    until(async || server.kinds(&id).await.ends_with(&["ObservationEvent".to_owned()])).await;
    assert_eq!(server.wait_until_done(&id).await, "paused");
    assert_eq!(model.seen().len(), 1);
}

#[tokio::test]
async fn an_interruption_ends_a_tool_at_once() {
    let server = Served::start().await;
    let model = model_runs("sleep 600");
    let id = server.conversation(&model).await;
    send(&server, &id, "Go").await;
    server.post(&format!("{}/run", root(&id)), json!({})).await.ok();
    until(async || server.kinds(&id).await.iter().any(|kind| kind == "ActionEvent")).await;
    server.post(&format!("{}/interrupt", root(&id)), json!({})).await.ok();
    assert_eq!(server.wait_until_done(&id).await, "paused");
    assert!(server.kinds(&id).await.ends_with(&["AgentErrorEvent".into(), "InterruptEvent".into()]));
}

#[tokio::test]
async fn secrets_reach_commands_and_are_masked() {
    let server = Served::start().await;
    let model = model_runs("echo token=$MY_TOKEN");
    let id = server.conversation(&model).await;
    let path = format!("{}/secrets", root(&id));
    let secrets = json!({"secrets": {"MY_TOKEN": "s3cr3t-value-1"}});
    assert_eq!(server.post(&path, secrets).await.ok(), json!({"success": true}));
    server.say(&id, "Go").await;
    let all = [
        server.get(&root(&id)).await.text(),
        server.get(&format!("{}/events/search", root(&id))).await.text(),
    ];
    assert!(all[1].contains("token=<secret-hidden>"), "{}", all[1]);
    for text in all {
        assert!(!text.contains("s3cr3t-value-1") && !text.contains("sk-model-key-1"));
    }
    for wrong in [json!({"secrets": {"A": 5}}), json!({"secrets": []}), json!({})] {
        assert_eq!(server.post(&path, wrong).await.status, 422);
    }
}

#[tokio::test]
async fn a_secret_is_looked_up_only_if_the_operator_allows_the_origin() {
    let vault = crate::support::model_server::ModelServer::start([
        Answer::of(crate::support::model_server::Content::Text("looked-up-value".into())),
        Answer::of(crate::support::model_server::Content::Text("looked-up-value".into())),
    ]);
    for (origin, printed, asked) in
        [(vault.url(), "<secret-hidden>", true), ("https://v.example".into(), "x=\n", false)]
    {
        let before = vault.seen().len();
        let server = Served::with(|config| config.lookup_origins(vec![origin])).await;
        let model = model_runs("echo x=$LOOKED_UP");
        let id = server.conversation(&model).await;
        let source = json!({"kind": "LookupSecret", "url": format!("{}/v", vault.url()), "headers": {"X-Api-Key": "k"}});
        server.post(&format!("{}/secrets", root(&id)), json!({"secrets": {"LOOKED_UP": source}})).await.ok();
        server.say(&id, "Go").await;
        let events = server.get(&format!("{}/events/search?kind=ObservationEvent", root(&id))).await.ok();
        let text =
            events["items"][0]["observation"]["content"][0]["text"].as_str().unwrap().to_owned() + "\n";
        assert!(text.contains(printed), "{text}");
        assert_eq!(vault.seen().len() > before, asked);
    }
    assert_eq!(vault.seen()[0].header("x-api-key"), Some("k"));
}

#[tokio::test]
async fn policy_and_analyzer_are_set_and_returned() {
    let (server, model) = (Served::start().await, model(&[]));
    let id = server.conversation(&model).await;
    let policy = json!({"kind": "AlwaysConfirm"});
    server.post(&format!("{}/confirmation_policy", root(&id)), json!({"policy": policy})).await.ok();
    let analyzer = json!({"kind": "LLMSecurityAnalyzer"});
    let body = json!({"security_analyzer": analyzer});
    server.post(&format!("{}/security_analyzer", root(&id)), body).await.ok();
    let info = server.get(&root(&id)).await.ok();
    assert_eq!((&info["confirmation_policy"], &info["security_analyzer"]), (&policy, &analyzer));
    let unknown = json!({"policy": {"kind": "Nobody"}});
    assert_eq!(server.post(&format!("{}/confirmation_policy", root(&id)), unknown).await.status, 422);
    for (command, body) in [("confirmation_policy", json!({})), ("security_analyzer", json!({}))] {
        let answer = server.post(&format!("{}/{command}", root(&id)), body).await;
        assert_eq!((answer.status, &answer.json()["detail"][0]["type"]), (422, &json!("missing")));
    }
}

#[tokio::test]
async fn a_question_is_answered_without_an_event() {
    let (server, model) = (Served::start().await, model(&["Hello.", "Forty-two."]));
    let id = server.conversation(&model).await;
    server.say(&id, "Hi").await;
    let before = server.kinds(&id).await;
    let ask = async |body| server.post(&format!("{}/ask_agent", root(&id)), body).await;
    let spent = async || server.get(&root(&id)).await.ok()["stats"]["usage_to_metrics"].clone();
    assert_eq!(spent().await.get("ask-agent-llm"), None);
    assert_eq!(ask(json!({"question": "How much?"})).await.ok(), json!({"response": "Forty-two."}));
    // The cost is in the statistics before the answer is sent. No event is appended.
    assert_ne!(spent().await.get("ask-agent-llm"), None);
    assert_eq!(server.kinds(&id).await, before);
    // `metrics` is the sum of both usages, without the single calls.
    let (metrics, uses) = (server.get(&root(&id)).await.ok()["metrics"].clone(), spent().await);
    let prompt = |metrics: &Value| metrics["accumulated_token_usage"]["prompt_tokens"].as_u64().unwrap();
    let sum: u64 = uses.as_object().unwrap().values().map(prompt).sum();
    assert!(sum > 0 && prompt(&metrics) == sum && metrics.get("costs").is_none(), "{metrics}");
    assert_eq!((ask(json!({})).await.status, ask(json!({"question": 1})).await.status), (422, 422));
    // The model has no more replies.
    let failed = ask(json!({"question": "And now?"})).await;
    assert_eq!((failed.status, &failed.json()["detail"]), (500, &json!("Internal Server Error")));
}

#[tokio::test]
async fn condensing_needs_a_condenser() {
    let (server, model) = (Served::start().await, model(&["One.", "Two.", "SUMMARY"]));
    let id = server.conversation(&model).await;
    let refused = server.post(&format!("{}/condense", root(&id)), json!({})).await;
    assert_eq!(refused.status, 409);
    assert!(refused.text().contains("No condenser configured"), "{}", refused.text());
    let mut wanted = server.conversation_request(&model);
    let mut llm = wanted["agent"]["llm"].clone();
    llm["usage_id"] = json!("condenser");
    wanted["agent"]["condenser"] =
        json!({"kind": "LLMSummarizingCondenser", "llm": llm, "max_size": 20, "keep_first": 1});
    let made = server.post("/api/conversations", wanted).await.ok();
    let id = made["id"].as_str().unwrap();
    server.say(id, "First").await;
    server.say(id, "Second").await;
    assert_eq!(
        server.post(&format!("{}/condense", root(id)), json!({})).await.ok(),
        json!({"success": true})
    );
    assert!(server.kinds(id).await.ends_with(&["CondensationRequest".into(), "Condensation".into()]));
}

#[tokio::test]
async fn the_first_message_triggers_a_title_from_the_model() {
    let (server, model) = (Served::start().await, model(&["Hello.", "A title"]));
    let mut wanted = server.conversation_request(&model);
    wanted["autotitle"] = json!(true);
    let made = server.post("/api/conversations", wanted).await.ok();
    let id = made["id"].as_str().unwrap();
    send(&server, id, "Please count the stars").await;
    until(async || !server.get(&root(id)).await.ok()["title"].is_null()).await;
    assert_eq!(server.get(&root(id)).await.ok()["title"], json!("Hello."));
}

#[tokio::test]
async fn a_fork_runs_separately_with_the_key_of_its_source() {
    let (server, model) = (Served::start().await, model(&["One.", "From the fork."]));
    let id = server.conversation(&model).await;
    server.say(&id, "Hi").await;
    let fork = async |body| server.post(&format!("{}/fork", root(&id)), body).await;
    let made = fork(json!({"title": "Mine", "tags": {"a": "b"}})).await;
    assert_eq!(made.status, 201);
    let made = made.json();
    assert_eq!((&made["title"], &made["forked_from_conversation_id"]), (&json!("Mine"), &json!(id)));
    let copy = made["id"].as_str().unwrap();
    assert_eq!(server.kinds(copy).await, server.kinds(&id).await);
    assert_eq!(server.say(copy, "Go on").await, "finished");
    assert_eq!(model.seen().last().unwrap().header("authorization"), Some("Bearer sk-model-key-1"));
    assert_eq!(fork(json!({"id": id})).await.status, 409);
    let unknown = fork(json!({"from_event_id": "nope"})).await;
    assert_eq!(unknown.refusal(), (404, json!("Unknown from_event_id: nope")));
    let events = server.get(&format!("{}/events/search?kind=MessageEvent", root(&id))).await.ok();
    let at = &events["items"][0]["id"];
    let part = fork(json!({"from_event_id": at})).await.ok();
    assert_eq!((&part["forked_from_event_id"], &part["leaf_event_id"]), (at, at));
}

#[tokio::test]
async fn head_can_be_moved_to_any_event_and_before_the_first() {
    let (server, model) = (Served::start().await, model(&["One."]));
    let id = server.conversation(&model).await;
    server.say(&id, "Hi").await;
    let events = server.get(&format!("{}/events/search?kind=MessageEvent", root(&id))).await.ok();
    let first = &events["items"][0]["id"];
    let go = async |body| server.post(&format!("{}/navigate", root(&id)), body).await;
    assert_eq!(go(json!({"event_id": first})).await.ok()["leaf_event_id"], *first);
    assert_eq!(go(json!({})).await.ok()["leaf_event_id"], Value::Null);
    let response = server.get(&format!("{}/agent_final_response", root(&id))).await.ok();
    assert_eq!(response, json!({"response": ""}));
    assert_eq!(go(json!({"event_id": "nope"})).await.refusal(), (404, json!("Unknown event_id: nope")));
}

#[tokio::test]
async fn a_goal_is_pursued_until_it_is_complete() {
    let verdict = |complete: bool| format!(r#"{{"score": 0.5, "complete": {complete}, "missing": "tests"}}"#);
    let (server, model) =
        (Served::start().await, model(&["Working.", &verdict(false), "More.", &verdict(true)]));
    let id = server.conversation(&model).await;
    let path = format!("{}/goal", root(&id));
    server.post(&path, json!({"objective": "Build it", "max_iterations": 5})).await.ok();
    let busy = server.post(&path, json!({"objective": "Another"})).await;
    assert_eq!(busy.refusal(), (409, json!("Conversation run or goal loop already running.")));
    let goal_updates = async || {
        let page =
            server.get(&format!("{}/events/search?kind=ConversationStateUpdateEvent", root(&id))).await;
        let events = page.ok()["items"].as_array().unwrap().clone();
        let goals =
            events.into_iter().filter(|event| event["key"] == "goal").map(|event| event["value"].clone());
        goals.collect::<Vec<Value>>()
    };
    until(async || goal_updates().await.last().is_some_and(|value| value["active"] == json!(false))).await;
    let last = goal_updates().await.pop().unwrap();
    assert_eq!((&last["status"], &last["iteration"]), (&json!("complete"), &json!(2)));
    for (command, body, detail) in [
        ("goal", json!({"objective": " "}), "Goal objective must not be empty."),
        ("goal/resume", json!({}), "no_resumable_goal"),
    ] {
        let answer = server.post(&format!("{}/{command}", root(&id)), body).await;
        assert_eq!(answer.refusal(), (400, json!(detail)));
    }
    server.post(&format!("{path}/stop"), json!({})).await.ok();
    assert_eq!(server.post(&path, json!({"objective": "o", "max_iterations": 0})).await.status, 422);
}

#[tokio::test]
async fn a_stopped_goal_can_be_resumed() {
    let slow = Answer::text("Slow.").held();
    let verdict = r#"{"score": 1.0, "complete": true, "missing": ""}"#;
    let model = crate::support::model_server::ModelServer::start([
        slow,
        Answer::text("Again."),
        Answer::text(verdict),
    ]);
    let server = Served::start().await;
    let id = server.conversation(&model).await;
    server.post(&format!("{}/goal", root(&id)), json!({"objective": "Build it"})).await.ok();
    model.arrived(1).await;
    server.post(&format!("{}/goal/stop", root(&id)), json!({})).await.ok();
    model.release();
    let resumed = async || server.post(&format!("{}/goal/resume", root(&id)), json!({})).await.status == 200;
    until(resumed).await;
    let event_text = async || server.get(&format!("{}/events/search?limit=100", root(&id))).await.text();
    until(async || event_text().await.contains(r#""status":"complete""#)).await;
    assert!(event_text().await.contains(r#""status":"interrupted""#));
}

#[tokio::test]
async fn another_model_takes_over() {
    let (server, first, other) = (Served::start().await, model(&["First."]), model(&["Other.", "Profile."]));
    let id = server.conversation(&first).await;
    server.say(&id, "One").await;
    let llm = server.conversation_request(&other)["agent"]["llm"].clone();
    server.post(&format!("{}/switch_llm", root(&id)), json!({"llm": llm})).await.ok();
    server.say(&id, "Two").await;
    let last =
        async || server.get(&format!("{}/agent_final_response", root(&id))).await.ok()["response"].clone();
    assert_eq!(last().await, json!("Other."));
    assert_eq!(server.post(&format!("{}/switch_llm", root(&id)), json!({})).await.status, 422);
    server.post("/api/profiles/fast", json!({"llm": llm})).await.ok();
    server.post(&format!("{}/switch_profile", root(&id)), json!({"profile_name": "fast"})).await.ok();
    server.say(&id, "Three").await;
    assert_eq!(last().await, json!("Profile."));
    assert_eq!(other.seen().last().unwrap().header("authorization"), Some("Bearer sk-model-key-1"));
    let unknown =
        server.post(&format!("{}/switch_profile", root(&id)), json!({"profile_name": "none"})).await;
    assert_eq!(unknown.refusal(), (404, json!("Profile 'none' not found")));
    let acp = server.post(&format!("{}/switch_acp_model", root(&id)), json!({"model": "m"})).await;
    let other_agent = json!("switch_acp_model is only supported for ACP conversations.");
    assert_eq!(acp.refusal(), (400, other_agent));
    let plugin = server.post(&format!("{}/load_plugin", root(&id)), json!({"plugin_ref": "p@m"})).await;
    let no_context = "No agent context available. Configure agent_context with registered_marketplaces to use load_plugin().";
    assert_eq!(plugin.refusal(), (400, json!(no_context)));
}

#[tokio::test]
async fn the_model_of_an_acp_agent_is_not_switched() {
    let (server, model) = (Served::start().await, model(&[]));
    let mut wanted = server.conversation_request(&model);
    wanted["agent"] = json!({"kind": "ACPAgent", "acp_command": ["true"]});
    let info = server.post("/api/conversations", wanted).await.ok();
    let path = format!("{}/switch_acp_model", root(info["id"].as_str().unwrap()));
    let answer = server.post(&path, json!({"model": "m"})).await;
    let why = "Annals does not serve this. An ACP agent gets its model, acp_model, when its program starts.";
    assert_eq!(answer.refusal(), (501, json!(why)));
}

#[tokio::test]
async fn a_child_inherits_and_runs_its_task() {
    let (server, model) = (Served::start().await, model(&["Child answer."]));
    let parent = server.conversation(&model).await;
    let begin = async |body| server.post(&format!("{}/children", root(&parent)), body).await;
    let made = begin(json!({"task": "Child task", "isolation": "shared", "title": "Kid"})).await;
    assert_eq!(made.status, 201);
    let made = made.json();
    assert_eq!((&made["parent_conversation_id"], &made["isolation"]), (&json!(parent), &json!("shared")));
    let id = made["conversation_id"].as_str().unwrap();
    assert_eq!(server.wait_until_done(id).await, "finished");
    let info = server.get(&root(id)).await.ok();
    assert_eq!((&info["title"], &info["parent_conversation_id"]), (&json!("Kid"), &json!(parent)));
    assert_eq!(model.seen()[0].header("authorization"), Some("Bearer sk-model-key-1"));
    assert_eq!((begin(json!({"task": " "})).await.status, begin(json!({})).await.status), (422, 422));
    assert_eq!(begin(json!({"task": "t", "isolation": "moon"})).await.status, 422);
}

#[tokio::test]
async fn a_clients_tool_is_dispatched_to_the_client() {
    let call = Answer::calls("", &[("c1", "ask_user", r#"{"q":"name?"}"#)]);
    let model = crate::support::model_server::ModelServer::start([call, Answer::text("Done.")]);
    let server = Served::start().await;
    let mut wanted = server.conversation_request(&model);
    let parameters = json!({"type": "object", "properties": {"q": {"type": "string"}}, "required": ["q"]});
    wanted["client_tools"] = json!([{"name": "ask_user", "description": "Asks.", "parameters": parameters}]);
    let made = server.post("/api/conversations", wanted).await.ok();
    assert_eq!(made["client_tools"][0]["annotations"], Value::Null);
    let id = made["id"].as_str().unwrap();
    assert_eq!(server.say(id, "Go").await, "finished");
    let events = server.get(&format!("{}/events/search?kind=ActionEvent", root(id))).await.ok();
    assert_eq!(events["items"][0]["action"], json!({"q": "name?", "kind": "ClientAction_ask_user"}));
}
