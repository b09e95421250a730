//! What a collector of OpenTelemetry is told.

use annals::server::Config;
use serde_json::Value;

use crate::support::caller::{Served, model_runs, until};
use crate::support::model_server::{Answer, Content, ModelServer};

fn spans(collector: &ModelServer) -> Vec<Value> {
    let mut all = Vec::new();
    for seen in collector.seen().iter().filter(|seen| seen.path == "/v1/traces") {
        for resource in seen.body["resourceSpans"].as_array().expect("resources") {
            for scope in resource["scopeSpans"].as_array().expect("scopes") {
                all.extend(scope["spans"].as_array().expect("spans").clone());
            }
        }
    }
    all
}

fn attribute<'a>(span: &'a Value, name: &str) -> Option<&'a Value> {
    let attributes = span["attributes"].as_array().expect("attributes");
    attributes.iter().find(|one| one["key"] == name).map(|one| &one["value"])
}

/// The first answer is a refusal: what it was sent comes again.
#[tokio::test]
async fn turns_replies_and_tool_calls_are_told_and_nothing_of_what_was_said() {
    let refused = std::iter::once(Answer::error(503, "come back later"));
    let taken = (0..20).map(|_| Answer::of(Content::Text("{}".into())));
    let collector = ModelServer::start(refused.chain(taken));
    let model = model_runs("echo private-words");
    let endpoint = collector.url();
    let mut server = Served::with(|config| Config { telemetry: Some(endpoint), ..config }).await;
    let id = server.conversation(&model).await;
    server.say(&id, "Do private things").await;
    let named =
        |name: &str| spans(&collector).into_iter().filter(|span| span["name"] == name).collect::<Vec<_>>();
    until(async || !named("invoke_agent").is_empty()).await;
    server.stop().await;

    let turn = &named("invoke_agent")[0];
    assert_eq!(turn["parentSpanId"].as_str().unwrap_or(""), "");
    let tools = named("execute_tool terminal");
    assert_eq!(tools[0]["traceId"], turn["traceId"]);
    assert_eq!(tools[0]["parentSpanId"], turn["spanId"]);
    assert_eq!(attribute(&tools[0], "gen_ai.conversation.id").unwrap()["stringValue"], id.as_str());
    let all = spans(&collector);
    let chats: Vec<&Value> = all
        .iter()
        .filter(|span| span["name"].as_str().is_some_and(|name| name.starts_with("chat ")))
        .collect();
    assert!(!chats.is_empty(), "{all:#?}");
    for chat in &chats {
        assert!(attribute(chat, "gen_ai.usage.input_tokens").is_some(), "{chat}");
        let time = |name: &str| chat[name].as_str().expect("a time").parse::<u64>().expect("a number");
        assert!(time("startTimeUnixNano") <= time("endTimeUnixNano"));
    }
    for seen in collector.seen() {
        assert!(!seen.text.contains("private"), "{}", seen.text);
        assert!(seen.text.contains("annals"));
    }
}
