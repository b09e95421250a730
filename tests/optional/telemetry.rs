//! What Annals sends to a collector of OpenTelemetry.

use std::sync::Arc;

use annals::Expected;
use annals::server::{App, Config, serve};
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;

use crate::support::caller::{Served, model_runs, until};
use crate::support::events::{answered, user_message};
use crate::support::model_server::{Answer, Content, ModelServer};
use crate::support::{Scratch, conversation};

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

/// The collector rejects the first request, so its spans are sent again.
#[tokio::test]
async fn turns_replies_and_tool_calls_are_sent_without_the_text_of_the_conversation() {
    let refused = std::iter::once(Answer::error(503, "come back later"));
    let taken = (0..20).map(|_| Answer::of(Content::Text("{}".into())));
    let collector = ModelServer::start(refused.chain(taken));
    let model = model_runs("echo private-words");
    let endpoint = collector.url();
    let mut server = Served::with(|config| config.telemetry(endpoint)).await;
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

/// The collector rejects everything, including the last attempt at the end.
#[tokio::test]
async fn undelivered_spans_are_counted_when_the_server_has_ended() {
    let (scratch, collector) = (Scratch::new(), ModelServer::start([]));
    let store = scratch.open();
    let config = Config::default()
        .telemetry(collector.url())
        .conversations_dir(scratch.path("conversations"))
        .settings_dir(scratch.path("settings"));
    let app = Arc::new(App::new(store.clone(), config).unwrap());
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (stop, stopped) = oneshot::channel::<()>();
    let task = tokio::spawn(serve(listener, Arc::clone(&app), async { drop(stopped.await) }));
    // Telemetry starts before the first request is answered. It sends only events that are appended after its start.
    let mut stream = TcpStream::connect(address).await.unwrap();
    let request = format!("GET /health HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    stream.read_to_end(&mut Vec::new()).await.unwrap();
    store
        .append(&conversation("c"), Expected::Any, &[user_message("asked", "Go"), answered("told", "Done.")])
        .unwrap();
    collector.arrived(1).await;
    assert_eq!(app.undelivered(), None);
    drop(stop);
    task.await.unwrap().unwrap();
    let undelivered = app.undelivered().expect("something was lost");
    assert_eq!((undelivered.spans, undelivered.events), (1, Some(0)));
    assert!(undelivered.to_string().contains("did not get 1 span;"), "{undelivered}");
}
