//! Webhooks: the events and conversations that the server sends to them.

use std::time::Duration;

use annals::server::WebhookSpec;
use serde_json::{Value, json};

use crate::support::caller::{KEY, Served, model, until};
use crate::support::model_server::{Answer, Content, ModelServer};

fn listener(answers: usize) -> ModelServer {
    ModelServer::start((0..answers).map(|_| Answer::of(Content::Text("{}".into()))))
}

fn spec(listener: &ModelServer) -> WebhookSpec {
    WebhookSpec::new(format!("{}/hook", listener.url()))
        .headers(vec![("X-Foo".into(), "bar".into())])
        .events_max(3)
        .flush_delay(Duration::from_millis(200))
        .retry_delay(Duration::from_millis(50))
}

/// The events of the conversation `id` that the webhook received, in order.
fn received_events(listener: &ModelServer, id: &str) -> Vec<Value> {
    let path = format!("/hook/events/{}", id.replace('-', ""));
    let batches = listener.seen().into_iter().filter(|seen| seen.path == path);
    batches.flat_map(|seen| seen.body.as_array().unwrap().clone()).collect()
}

/// The conversations that the webhook received, in order.
fn received_conversations(listener: &ModelServer) -> Vec<Value> {
    listener
        .seen()
        .into_iter()
        .filter(|seen| seen.path == "/hook/conversations")
        .map(|seen| seen.body)
        .collect()
}

#[tokio::test]
async fn every_event_is_sent_once_in_order_with_its_nulls() {
    let (listener, model) = (listener(200), model(&["Hello.", "Again."]));
    let hook = spec(&listener);
    let server = Served::with(|config| config.webhooks(vec![hook])).await;
    let id = server.conversation(&model).await;
    server
        .post(&format!("/api/conversations/{id}/secrets"), json!({"secrets": {"S": "hooked-secret-1"}}))
        .await
        .ok();
    server.say(&id, "Hi").await;
    server.say(&id, "More").await;
    let page = server.get(&format!("/api/conversations/{id}/events/search")).await.ok();
    let stored: Vec<Value> =
        page["items"].as_array().unwrap().iter().map(|event| event["id"].clone()).collect();
    let durable = || {
        let events = received_events(&listener, &id).into_iter().filter(|event| event["key"] != "full_state");
        events.map(|event| event["id"].clone()).collect::<Vec<_>>()
    };
    until(async || durable().len() >= stored.len()).await;
    assert_eq!(durable(), stored);
    let events = received_events(&listener, &id);
    assert!(events[0].as_object().unwrap().contains_key("parent_id"), "{}", events[0]);
    assert!(events.iter().any(|event| event["key"] == "full_state"));
    for seen in listener.seen() {
        assert_eq!((seen.header("x-foo"), seen.header("x-session-api-key")), (Some("bar"), Some(KEY)));
        assert!(!seen.text.contains("hooked-secret-1") && !seen.text.contains("sk-model-key-1"));
    }
}

#[tokio::test]
async fn a_conversation_is_announced_when_it_is_made_changed_and_deleted() {
    let (listener, model) = (listener(50), model(&[]));
    let hook = spec(&listener);
    let server = Served::with(|config| config.webhooks(vec![hook])).await;
    let id = server.conversation(&model).await;
    let path = format!("/api/conversations/{id}");
    server.request("PATCH", &path, Some(json!({"title": "Hooked"}))).await.ok();
    server.post(&format!("{path}/pause"), json!({})).await.ok();
    server.request("DELETE", &path, None).await.ok();
    until(async || received_conversations(&listener).len() == 4).await;
    let states: Vec<(Value, Value)> = received_conversations(&listener)
        .into_iter()
        .map(|info| (info["title"].clone(), info["execution_status"].clone()))
        .collect();
    let hooked = json!("Hooked");
    assert_eq!(
        states,
        [
            (Value::Null, json!("idle")),
            (hooked.clone(), json!("idle")),
            (hooked.clone(), json!("paused")),
            (hooked, json!("deleting")),
        ]
    );
}

#[tokio::test]
async fn failed_deliveries_are_retried_and_the_rest_is_sent_at_the_end() {
    let refusals = (0..3).map(|_| Answer::error(503, "not now"));
    let listener =
        ModelServer::start(refusals.chain((0..50).map(|_| Answer::of(Content::Text("{}".into())))));
    let model = model(&["Hello."]);
    let hook = spec(&listener).flush_delay(Duration::from_secs(600)).events_max(1000);
    let mut server = Served::with(|config| config.webhooks(vec![hook])).await;
    let id = server.conversation(&model).await;
    server.say(&id, "Hi").await;
    let count = server.get(&format!("/api/conversations/{id}/events/count")).await.ok().as_u64().unwrap();
    assert!(received_events(&listener, &id).is_empty());
    server.stop().await;
    let events = received_events(&listener, &id);
    let ids: std::collections::HashSet<&str> = events
        .iter()
        .filter(|event| event["key"] != "full_state")
        .filter_map(|event| event["id"].as_str())
        .collect();
    assert_eq!(ids.len() as u64, count);
}
