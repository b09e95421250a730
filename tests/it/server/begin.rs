//! Starting conversations with agents, settings and stored profiles. All of them are checked before anything is
//! created.

use serde_json::{Value, json};

use crate::support::caller::{Served, model_runs};
use crate::support::model_server::{Answer, ModelServer};

const LLM: &str = r#"{"model": "openai/x", "api_key": "sk-begin-1", "base_url": "http://127.0.0.1:1/v1"}"#;

/// Returns the settings of the model with the member `name` set to `value`.
fn llm(name: &str, value: Value) -> Value {
    let mut llm: Value = serde_json::from_str(LLM).unwrap();
    llm[name] = value;
    llm
}

/// Returns the rule and the place of the first error.
fn first(detail: &Value) -> (String, String) {
    let place = detail[0]["loc"].as_array().unwrap().iter();
    let place = place.map(|step| step.as_str().map_or_else(|| step.to_string(), str::to_owned));
    (detail[0]["type"].as_str().unwrap().to_owned(), place.collect::<Vec<_>>().join("."))
}

#[tokio::test]
async fn invalid_settings_of_a_model_are_rejected_at_once_and_leave_nothing() {
    let server = Served::start().await;
    let workspace = json!({"working_dir": server.path("work")});
    let wrong = [
        (llm("temperature", json!("hot")), "float_parsing", "llm.temperature"),
        (llm("temperature", json!(-1)), "greater_than_equal", "llm.temperature"),
        (llm("top_p", json!(2)), "less_than_equal", "llm.top_p"),
        (llm("num_retries", json!(-1)), "greater_than_equal", "llm.num_retries"),
        (llm("stream", json!("maybe")), "bool_parsing", "llm.stream"),
        (llm("timeout", json!(1.5)), "int_from_float", "llm.timeout"),
        (llm("auth_type", json!("x")), "literal_error", "llm.auth_type"),
        (llm("api_key", json!(["sk-begin-1"])), "string_type", "llm.api_key"),
        (llm("extra_headers", json!({"a": 1})), "string_type", "llm.extra_headers.a"),
        (llm("model", json!("")), "value_error", "llm"),
        (json!("x"), "model_type", "llm"),
    ];
    for (number, (llm, rule, place)) in wrong.into_iter().enumerate() {
        let id = format!("00000000-0000-4000-8000-{number:012}");
        for source in ["agent", "agent_settings"] {
            let body = json!({"conversation_id": id, source: {"llm": llm}, "workspace": workspace,
                "initial_message": {"content": [{"type": "text", "text": "hi"}]}});
            let answer = server.post("/api/conversations", body).await;
            let (status, detail) = answer.refusal();
            assert_eq!(status, 422, "{source} {llm}: {}", answer.text());
            assert_eq!(first(&detail), (rule.to_owned(), format!("body.{source}.{place}")), "{detail}");
            assert!(!answer.text().contains("sk-begin-1"), "{}", answer.text());
        }
        // The id is still free.
        assert_eq!(server.get(&format!("/api/conversations/{id}")).await.status, 404);
    }
    let condenser = json!({"kind": "LLMSummarizingCondenser", "llm": llm("temperature", json!("hot"))});
    let agent = json!({"llm": llm("model", json!("m")), "condenser": condenser});
    let detail = server.post("/api/conversations", json!({"agent": agent, "workspace": workspace})).await;
    assert_eq!(first(&detail.refusal().1).1, "body.agent.condenser.llm.temperature");
    for agent in [json!({"kind": "Foo", "llm": llm("model", json!("m"))}), json!([]), json!({"llm": null})] {
        let answer = server.post("/api/conversations", json!({"agent": agent, "workspace": workspace})).await;
        assert_eq!(answer.status, 422, "{agent}: {}", answer.text());
    }
    assert_eq!(server.post("/api/conversations", json!({"workspace": workspace})).await.status, 422);
    assert_eq!(server.get("/api/conversations/count").await.json(), json!(0));
    assert!(!server.path("work").exists(), "the folder of a rejected conversation was created");
}

#[tokio::test]
async fn a_number_in_a_string_is_taken_as_a_number() {
    let server = Served::start().await;
    let body = json!({"agent": {"llm": llm("temperature", json!("0.5"))}, "workspace": {"working_dir": server.path("w")}});
    let made = server.post("/api/conversations", body).await.ok();
    assert_eq!(made["agent"]["llm"]["temperature"], json!(0.5));
}

#[tokio::test]
async fn the_settings_as_shown_start_a_new_conversation() {
    let server = Served::start().await;
    let change = json!({"agent_settings_diff": {"llm": {"model": "openai/x", "api_key": "sk-begin-2"}}});
    server.request("PATCH", "/api/settings", Some(change)).await.ok();
    let headers = [("x-session-api-key", crate::support::caller::KEY), ("x-expose-secrets", "encrypted")];
    let shown = server.send("GET", "/api/settings", &headers, b"").await.ok();
    let begin = async |settings: &Value| {
        let body = json!({"agent_settings": settings, "secrets_encrypted": true,
            "workspace": {"working_dir": server.path("w")}});
        server.post("/api/conversations", body).await.ok()["agent"].clone()
    };
    let mut settings = shown["agent_settings"].clone();
    let agent = begin(&settings).await;
    let names: Vec<&Value> = agent["tools"].as_array().unwrap().iter().map(|tool| &tool["name"]).collect();
    assert_eq!(names, ["terminal", "file_editor", "task_tracker"]);
    assert_eq!(
        (
            &agent["condenser"]["kind"],
            &agent["condenser"]["max_size"],
            &agent["condenser"]["llm"]["usage_id"]
        ),
        (&json!("LLMSummarizingCondenser"), &json!(240), &json!("condenser"))
    );
    settings["condenser"] = json!({"condenser_kind": "no_op"});
    assert_eq!(begin(&settings).await["condenser"]["kind"], json!("NoOpCondenser"));
    settings["condenser"] = json!({"condenser_kind": "llm_summarizing", "enabled": false});
    assert_eq!(begin(&settings).await["condenser"], Value::Null);
    settings["condenser"] = json!({"condenser_kind": "llm_summarizing", "max_size": 1});
    let body = json!({"agent_settings": settings, "workspace": {"working_dir": server.path("w")}});
    let answer = server.post("/api/conversations", body).await;
    assert_eq!(first(&answer.refusal().1).1, "body.agent_settings.condenser.max_size");
}

#[tokio::test]
async fn a_stored_profile_starts_a_conversation() {
    let server = Served::start().await;
    let model = ModelServer::start([Answer::text("hello")]);
    let llm = json!({"model": "openai/x", "api_key": "sk-begin-3", "base_url": format!("{}/v1", model.url()), "num_retries": 0});
    server.post("/api/profiles/quick", json!({"llm": llm})).await.ok();
    let servers =
        json!({"agent_settings_diff": {"mcp_config": {"off": {"url": "http://a", "enabled": false}}}});
    server.request("PATCH", "/api/settings", Some(servers)).await.ok();
    let profile = json!({"llm_profile_ref": "quick", "system_message_suffix": "Be brief.", "mcp_server_refs": ["off"],
        "secret_refs": ["KEPT"], "condenser": {"condenser_kind": "no_op"}, "tools": [{"name": "terminal"}]});
    server.post("/api/agent-profiles/mine", profile).await.ok();
    let stored = server.get("/api/agent-profiles/mine").await.ok()["profile"].clone();
    let secret = |value: &str| json!({"kind": "StaticSecret", "value": value});
    let body = json!({
        "autotitle": false, "agent_profile_id": stored["id"], "workspace": {"working_dir": server.path("w")},
        "agent_launch_additions": {"system_message_suffix_append": "And kind."},
        "secrets": {"KEPT": secret("a"), "OTHER": secret("b")},
        "initial_message": {"content": [{"type": "text", "text": "hi"}], "run": true},
    });
    let made = server.post("/api/conversations", body.clone()).await.ok();
    let agent = &made["agent"];
    assert_eq!(agent["llm"]["model"], json!("openai/x"));
    assert_eq!(agent["agent_context"]["system_message_suffix"], json!("Be brief.\n\nAnd kind."));
    assert_eq!(agent["tools"], json!([{"name": "terminal", "params": {}}]));
    assert_eq!(made["launched_agent_profile"]["agent_profile_id"], stored["id"]);
    let sources = made["secret_registry"]["secret_sources"].as_object().unwrap();
    assert_eq!(sources.keys().collect::<Vec<_>>(), ["KEPT"]);
    assert_eq!(server.wait_until_done(made["id"].as_str().unwrap()).await, "finished");
    // A repeated request returns the same conversation, even if its profile was deleted.
    let mut again = body.clone();
    again["conversation_id"] = made["id"].clone();
    server.request("DELETE", "/api/agent-profiles/mine", None).await.ok();
    assert_eq!(server.post("/api/conversations", again).await.status, 200);
    assert_eq!(server.post("/api/conversations", body).await.status, 404);
    server
        .post("/api/agent-profiles/bad", json!({"llm_profile_ref": "none", "mcp_server_refs": ["x"]}))
        .await
        .ok();
    let bad = server.get("/api/agent-profiles/bad").await.ok()["profile"]["id"].clone();
    let body = json!({"agent_profile_id": bad, "workspace": {"working_dir": server.path("w")}});
    let (status, detail) = server.post("/api/conversations", body).await.refusal();
    assert_eq!((status, &detail["code"]), (422, &json!("unresolved_profile_references")));
    assert_eq!(
        (&detail["dangling_llm_profile_ref"], &detail["dangling_mcp_server_refs"]),
        (&json!("none"), &json!(["x"]))
    );
}

#[tokio::test]
async fn a_lookup_finds_a_secret_that_the_server_stores() {
    let server = Served::with(|config| config.lookup_origins(vec!["https://vault.example".to_owned()])).await;
    let model = model_runs("test \"$GH_OWN\" = stored-value-9 && echo it-is-the-$((40 + 2))");
    let secret = json!({"name": "GH_OWN", "value": "stored-value-9"});
    server.request("PUT", "/api/settings/secrets", Some(secret)).await.ok();
    let mut wanted = server.conversation_request(&model);
    let lookup = |url: &str| json!({"kind": "LookupSecret", "url": url});
    wanted["secrets"] = json!({"GH_OWN": lookup("/api/settings/secrets/GH_OWN"),
        "NONE": lookup("/api/settings/secrets/../settings")});
    let id = server.post("/api/conversations", wanted).await.ok()["id"].as_str().unwrap().to_owned();
    assert_eq!(server.say(&id, "Is it?").await, "finished");
    let events = server.get(&format!("/api/conversations/{id}/events/search")).await.text();
    assert!(events.contains("it-is-the-42"), "{events}");
}
