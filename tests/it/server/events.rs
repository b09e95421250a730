//! The events of a conversation: messages, confirmations and queries.

use serde_json::{Value, json};
use uuid::Uuid;

use crate::support::caller::{Served, model, model_runs, until};

fn root(id: &str) -> String {
    format!("/api/conversations/{id}/events")
}

fn message(text: &str) -> Value {
    json!({"role": "user", "content": [{"type": "text", "text": text}]})
}

#[tokio::test]
async fn pages_filters_and_counts_agree() {
    let (server, model) = (Served::start().await, model(&["Hello Zebra."]));
    let id = server.conversation(&model).await;
    server.say(&id, "Hi").await;
    let all = server.get(&format!("{}/search", root(&id))).await.ok();
    let all = all["items"].as_array().unwrap();
    assert!(all.iter().all(|event| event.as_object().unwrap().values().all(|value| !value.is_null())));
    let (mut found, mut cursor) = (Vec::new(), String::new());
    loop {
        let page = server.get(&format!("{}/search?limit=2{cursor}", root(&id))).await.ok();
        found.extend(page["items"].as_array().unwrap().clone());
        let Some(next) = page["next_page_id"].as_str() else { break };
        cursor = format!("&page_id={next}");
    }
    assert_eq!(&found, all);
    let backwards = server.get(&format!("{}/search?sort_order=TIMESTAMP_DESC", root(&id))).await.ok();
    assert_eq!(backwards["items"][0], all[all.len() - 1]);
    let from = all[1]["timestamp"].as_str().unwrap();
    for (query, count) in [
        (String::new(), all.len()),
        ("kind=MessageEvent".into(), 2),
        ("kind=openhands.sdk.event.MessageEvent".into(), 2),
        ("source=agent".into(), 2),
        ("body=zebra".into(), 1),
        ("kind=NoSuchEvent".into(), 0),
        ("kind=ActionEvent&body=zebra".into(), 0),
        (format!("timestamp__gte={from}"), all.len() - 1),
        (format!("timestamp__lt={from}"), 1),
    ] {
        let items = server.get(&format!("{}/search?{query}", root(&id))).await.ok();
        assert_eq!(items["items"].as_array().unwrap().len(), count, "{query}");
        assert_eq!(server.get(&format!("{}/count?{query}", root(&id))).await.ok(), json!(count), "{query}");
    }
    for query in ["limit=0", "limit=101", "sort_order=UP", "timestamp__gte=yesterday"] {
        assert_eq!(server.get(&format!("{}/search?{query}", root(&id))).await.status, 422, "{query}");
    }
}

#[tokio::test]
async fn one_event_or_several_are_read_by_id() {
    let (server, model) = (Served::start().await, model(&["Hello."]));
    let id = server.conversation(&model).await;
    server.say(&id, "Hi").await;
    let page = server.get(&format!("{}/search", root(&id))).await.ok();
    let first = page["items"][0]["id"].as_str().unwrap();
    let one = server.get(&format!("{}/{first}", root(&id))).await.ok();
    // Unlike in a search, members that are null are written here.
    assert_eq!((&one["id"], one.get("parent_id")), (&json!(first), Some(&Value::Null)));
    let ids = json!([first, "nope"]);
    let several = server.request("GET", &root(&id), Some(ids)).await.ok();
    assert_eq!(several, json!([one, null]));
    assert_eq!(server.get(&format!("{}/nope", root(&id))).await.refusal(), (404, json!("Not Found")));
    assert_eq!(server.get(&root(&id)).await.status, 422);
    assert_eq!(server.request("GET", &root(&id), Some(json!({}))).await.status, 422);
}

#[tokio::test]
async fn an_unknown_conversation_is_named_in_the_error() {
    let server = Served::start().await;
    let id = Uuid::new_v4().to_string();
    let named = (404, json!(format!("Conversation not found: {id}")));
    for path in ["search", "count", "an-event"] {
        assert_eq!(server.get(&format!("{}/{path}", root(&id))).await.refusal(), named, "{path}");
    }
    assert_eq!(server.request("GET", &root(&id), Some(json!([]))).await.refusal(), named);
    assert_eq!(server.post(&root(&id), message("Hi")).await.refusal(), named);
    let answer =
        server.post(&format!("{}/respond_to_confirmation", root(&id)), json!({"accept": true})).await;
    assert_eq!(answer.refusal(), named);
}

#[tokio::test]
async fn an_invalid_message_is_rejected_and_not_stored() {
    let (server, model) = (Served::start().await, model(&[]));
    let id = server.conversation(&model).await;
    for (body, kind) in [
        (json!({"role": "user", "content": "text"}), "list_type"),
        (json!({"role": "bogus", "content": []}), "literal_error"),
        (json!({"role": "assistant", "content": []}), "value_error"),
        (json!({"role": "user", "content": [{"type": "nope"}]}), "union_tag_invalid"),
        (json!([]), "model_attributes_type"),
    ] {
        let answer = server.post(&root(&id), body).await;
        assert_eq!((answer.status, &answer.json()["detail"][0]["type"]), (422, &json!(kind)));
    }
    assert_eq!(server.get(&format!("{}/count", root(&id))).await.ok(), json!(0));
    assert_eq!(server.post(&root(&id), message("Hi")).await.ok(), json!({"success": true}));
    assert_eq!(server.kinds(&id).await, ["SystemPromptEvent", "MessageEvent"]);
}

#[tokio::test]
async fn waiting_actions_are_run_or_rejected() {
    let server = Served::start().await;
    let model = model_runs("echo approved > approved.txt");
    let mut wanted = server.conversation_request(&model);
    wanted["confirmation_policy"] = json!({"kind": "AlwaysConfirm"});
    let made = server.post("/api/conversations", wanted.clone()).await.ok();
    let id = made["id"].as_str().unwrap();
    assert_eq!(server.say(id, "Go").await, "waiting_for_confirmation");
    let respond = format!("{}/respond_to_confirmation", root(id));
    server.post(&respond, json!({"accept": true})).await.ok();
    until(async || server.path("work/approved.txt").exists()).await;
    assert_eq!(server.wait_until_done(id).await, "finished");
    // No action waits any more.
    assert_eq!(server.post(&respond, json!({"accept": false})).await.ok(), json!({"success": true}));
    assert_eq!(
        (
            server.post(&respond, json!({})).await.status,
            server.post(&respond, json!({"accept": 1})).await.status
        ),
        (422, 422)
    );

    let model = model_runs("echo refused > refused.txt");
    wanted["agent"]["llm"] = server.conversation_request(&model)["agent"]["llm"].clone();
    let made = server.post("/api/conversations", wanted).await.ok();
    let id = made["id"].as_str().unwrap();
    assert_eq!(server.say(id, "Go").await, "waiting_for_confirmation");
    let refusal = json!({"accept": false, "reason": "no thanks"});
    server.post(&format!("{}/respond_to_confirmation", root(id)), refusal).await.ok();
    let events = server.get(&format!("{}/search?kind=UserRejectObservation", root(id))).await.ok();
    assert_eq!(events["items"][0]["rejection_reason"], json!("no thanks"));
    let info = server.get(&format!("/api/conversations/{id}")).await.ok();
    assert_eq!(info["execution_status"], json!("idle"));
    assert!(!server.path("work/refused.txt").exists());
}

#[tokio::test]
async fn a_full_server_stores_the_message_and_answers_429() {
    let server = Served::with(|config| config.runs_max(1)).await;
    let model = model_runs("sleep 600");
    let (one, other) = (server.conversation(&model).await, server.conversation(&model).await);
    let mut body = message("Go");
    body["run"] = json!(true);
    server.post(&root(&one), body.clone()).await.ok();
    let full = server.post(&root(&other), body).await;
    assert_eq!(full.status, 429);
    assert_eq!(server.get(&format!("{}/count?kind=MessageEvent", root(&other))).await.ok(), json!(1));
    let run = server.post(&format!("/api/conversations/{other}/run"), json!({})).await;
    assert_eq!(run.refusal(), (429, json!("Conversation run limit reached. Retry the request later.")));
    assert_eq!(server.post("/api/conversations", server.conversation_request(&model)).await.status, 429);
    // A fork needs no run slot.
    assert_eq!(server.post(&format!("/api/conversations/{other}/fork"), json!({})).await.status, 201);
    server.post(&format!("/api/conversations/{one}/interrupt"), json!({})).await.ok();
    until(async || server.post(&format!("/api/conversations/{other}/run"), json!({})).await.status == 200)
        .await;
}
