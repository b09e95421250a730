//! Models behind the chat completions interface, against a test server that implements it.

use std::sync::Mutex;

use annals::event::{Content, Message, Role, Thinking};
use annals::llm::{Call, Client, ClientOptions, Delta, LlmError, Model, Reply, Request, Settings, Transport};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::support::model_server::{Answer, ModelServer, Said};

/// Returns a client of `server`. `more` is an object with further settings.
pub fn client(server: &ModelServer, model: &str, more: serde_json::Value) -> Client {
    let mut settings = json!({
        "model": model, "api_key": "sk-test-key", "base_url": format!("{}/v1", server.url()),
        "retry_min_wait": 0, "retry_max_wait": 0, "timeout": 120,
    });
    for (name, value) in more.as_object().unwrap() {
        settings[name] = value.clone();
    }
    let options = ClientOptions::new(Transport::new().unwrap());
    Client::new(Settings::parse(&settings.to_string()).unwrap(), &options).unwrap()
}

pub fn hello() -> Request {
    Request::new(vec![Message::new(Role::User, vec![Content::text("Hello")])])
}

pub async fn ask(client: &Client) -> Result<Reply, LlmError> {
    client.complete(hello(), Call::new(&CancellationToken::new())).await
}

/// Returns the reply, and the deltas that arrived before it.
pub async fn listen(client: &Client) -> (Result<Reply, LlmError>, Vec<Delta>) {
    let deltas = Mutex::new(Vec::new());
    let collect = |delta| deltas.lock().unwrap().push(delta);
    let cancel = CancellationToken::new();
    let call = Call::new(&cancel).on_delta(&collect);
    let reply = client.complete(hello(), call).await;
    (reply, deltas.into_inner().unwrap())
}

fn everything() -> Said {
    let call = |id: &str, arguments: &str| (id.to_owned(), "think".to_owned(), arguments.to_owned());
    Said {
        id: Some("chatcmpl-7".to_owned()),
        text: Some("Well, é.".to_owned()),
        reasoning: Some("Let me see.".to_owned()),
        thinking: Some(("Let me".to_owned(), "sig".to_owned())),
        calls: vec![call("call_1", r#"{"thought": "a"}"#), call("call_2", r#"{"thought": "bé"}"#)],
        usage: [1300, 30, 1024, 7, 5],
    }
}

fn assert_everything(reply: &Reply) {
    assert_eq!(&*reply.id, "chatcmpl-7");
    let message = &reply.message;
    assert_eq!(message.role, Role::Assistant);
    assert_eq!(message.content, [Content::text("Well, é.")]);
    assert_eq!(message.reasoning_content.as_deref(), Some("Let me see."));
    match message.thinking_blocks.as_slice() {
        [Thinking::Shown(block)] => {
            assert_eq!((&*block.thinking, block.signature.as_deref()), ("Let me", Some("sig")));
        }
        other => panic!("{other:?}"),
    }
    let calls: Vec<_> =
        message.tool_calls.iter().flatten().map(|call| (&*call.id, &*call.name, &*call.arguments)).collect();
    assert_eq!(
        calls,
        [("call_1", "think", r#"{"thought": "a"}"#), ("call_2", "think", r#"{"thought": "bé"}"#)]
    );
    let usage = &reply.usage;
    assert_eq!((usage.prompt_tokens, usage.completion_tokens, usage.reasoning_tokens), (1300, 30, 5));
    assert_eq!((usage.cache_read_tokens, usage.cache_write_tokens), (1024, 7));
    assert_eq!((usage.per_turn_token, usage.context_window), (1330, 128_000));
    assert_eq!((&*usage.model, &*usage.response_id), ("openai/gpt-4o", "chatcmpl-7"));
}

#[tokio::test]
async fn a_whole_reply_keeps_all_its_parts() {
    let server = ModelServer::start([Answer::said(everything())]);
    let reply = ask(&client(&server, "openai/gpt-4o", json!({}))).await.unwrap();
    assert_everything(&reply);
    let seen = server.seen();
    assert_eq!(seen[0].path, "/v1/chat/completions");
    assert_eq!(seen[0].header("authorization"), Some("Bearer sk-test-key"));
}

#[tokio::test]
async fn a_streamed_reply_is_the_same_and_arrives_in_deltas() {
    let server = ModelServer::start([Answer::said(everything())]);
    let client = client(&server, "openai/gpt-4o", json!({ "stream": true }));
    let (reply, deltas) = listen(&client).await;
    assert_everything(&reply.unwrap());
    let mut text = String::new();
    let mut reasoning = String::new();
    for delta in &deltas {
        match delta {
            Delta::Text(piece) => text.push_str(piece),
            Delta::Reasoning(piece) => reasoning.push_str(piece),
            Delta::Restart => panic!("the stream restarted"),
        }
    }
    assert_eq!((&*text, &*reasoning, deltas.len()), ("Well, é.", "Let me see.", 4));
    assert_eq!(server.seen()[0].body["stream_options"], json!({ "include_usage": true }));
}

#[tokio::test]
async fn without_a_callback_nothing_is_streamed() {
    let server = ModelServer::start([Answer::text("whole")]);
    let reply = ask(&client(&server, "openai/gpt-4o", json!({ "stream": true }))).await.unwrap();
    assert_eq!(reply.message.content, [Content::text("whole")]);
    assert_eq!(server.seen()[0].body.get("stream"), None);
}

#[tokio::test]
async fn calls_without_text_have_no_content() {
    let server = ModelServer::start([]);
    server.push(Answer::calls("", &[("call_1", "think", "{}")]));
    let message = ask(&client(&server, "openai/gpt-4o", json!({}))).await.unwrap().message;
    assert_eq!((message.content.len(), message.tool_calls.unwrap().len()), (0, 1));
}

#[tokio::test]
async fn costs_come_from_the_header_the_settings_or_the_table() {
    let answer =
        || Answer::said(Said { text: Some("x".to_owned()), usage: [1000, 10, 0, 0, 0], ..Said::default() });
    let server = ModelServer::start([
        answer().header("x-litellm-response-cost", "0.125"),
        answer(),
        answer(),
        answer(),
        answer(),
    ]);
    let cost_with = |model: &str, more| {
        let client = client(&server, model, more);
        async move { ask(&client).await.unwrap().cost }
    };
    assert_eq!(cost_with("openai/gpt-4o", json!({})).await, Some(0.125));
    let own = json!({ "input_cost_per_token": 0.001, "output_cost_per_token": 0.01 });
    assert_eq!(cost_with("openai/mine", own).await, Some(1.1));
    assert_eq!(cost_with("openai/gpt-4o", json!({})).await, Some(0.0026));
    assert_eq!(cost_with("openai/mine", json!({})).await, None);
    let canonical = json!({ "model_canonical_name": "gpt-4o" });
    assert_eq!(cost_with("litellm_proxy/alias", canonical).await, Some(0.0026));
}

#[tokio::test]
async fn odd_replies_of_local_servers_are_read() {
    let message = json!({
        "role": "assistant",
        "content": "<think>Hm.</think>Yes.",
        "tool_calls": [
            { "function": { "name": "look", "arguments": { "at": "x" } } },
            { "id": "c2", "type": "function", "function": { "name": "wait", "arguments": "" } },
            { "id": "c3", "type": "custom", "custom": { "name": "other" } },
        ],
    });
    let body = json!({ "choices": [{ "message": message }], "usage": null }).to_string();
    let server = ModelServer::start([Answer::of(crate::support::model_server::Content::Text(body))]);
    let reply = ask(&client(&server, "ollama/qwen3", json!({}))).await.unwrap();
    assert!(reply.id.starts_with("reply-"));
    assert_eq!(reply.message.content, [Content::text("Yes.")]);
    assert_eq!(reply.message.reasoning_content.as_deref(), Some("Hm."));
    let calls = reply.message.tool_calls.unwrap();
    assert_eq!(calls.len(), 2);
    assert!(calls[0].id.starts_with("call_"));
    assert_eq!((&*calls[0].arguments, &*calls[1].arguments), (r#"{"at":"x"}"#, "{}"));
    assert_eq!(reply.cost, None);
}

#[tokio::test]
async fn a_model_without_native_tool_calls_writes_them_as_text() {
    let tools = || {
        let parameters =
            r#"{"type":"object","properties":{"command":{"type":"string"}},"required":["command"]}"#;
        vec![annals::llm::ToolSchema::new(
            "terminal",
            "Runs it.",
            annals::event::Json::parse(parameters).unwrap(),
        )]
    };
    let server = ModelServer::start([
        Answer::text("I look.\n<function=terminal>\n<parameter=command>ls</parameter>\n"),
        Answer::text("<function=terminal>\n<parameter=cmd>ls</parameter>\n</function>"),
    ]);
    let client = client(&server, "openai/gpt-4o", json!({ "native_tool_calling": false }));
    let cancel = CancellationToken::new();
    let ask = || client.complete(hello().tools(tools()), Call::new(&cancel));
    let message = ask().await.unwrap().message;
    assert_eq!(message.content, [Content::text("I look.")]);
    let call = &message.tool_calls.unwrap()[0];
    assert_eq!((&*call.name, &*call.arguments), ("terminal", r#"{"command":"ls"}"#));
    let seen = &server.seen()[0].body;
    assert_eq!((seen.get("tools"), &seen["stop"]), (None, &json!(["</function"])));
    assert!(seen["messages"][0]["content"].as_str().unwrap().contains("BEGIN FUNCTION #1: terminal"));
    assert_eq!(ask().await.unwrap_err().code(), "FunctionCallValidationError");
    assert_eq!(server.seen().len(), 2);
}

#[test]
fn tokens_are_counted_about_as_litellm_counts_them() {
    let counts = crate::support::golden::read(&crate::support::golden::folder("llm").join("tokens.json"));
    let model = annals::llm::Scripted::new([]);
    for case in counts.as_array().unwrap() {
        let name = case["conversation"].as_str().unwrap();
        let path = crate::support::golden::folder("conversations").join(name).join("llm_requests.jsonl");
        let text = std::fs::read_to_string(path).unwrap();
        let last: serde_json::Value =
            serde_json::from_str(text.trim_end().split('\n').next_back().unwrap()).unwrap();
        let mut messages = Vec::new();
        for message in last["body"]["messages"].as_array().unwrap() {
            let content = match &message["content"] {
                serde_json::Value::Array(parts) => {
                    parts.iter().filter_map(|part| part["text"].as_str()).collect()
                }
                other => other.as_str().unwrap_or_default().to_owned(),
            };
            let mut made = Message::new(Role::Assistant, vec![Content::text(content)]);
            let calls = message["tool_calls"].as_array().into_iter().flatten().map(|call| {
                let text = |name: &str| call["function"][name].as_str().unwrap();
                annals::event::MessageToolCall::new("c", text("name"), text("arguments"))
            });
            made.tool_calls = Some(calls.collect());
            messages.push(made);
        }
        let (ours, theirs) =
            (model.count_tokens(&messages, &[]) as f64, case["tokens"].as_u64().unwrap() as f64);
        let share = ours / theirs;
        assert!((0.95..1.45).contains(&share), "{name}: {ours} for {theirs}: {share:.2}");
    }
}
