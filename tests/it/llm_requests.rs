//! Compares the requests of Annals to providers with those of the real SDK, for the same settings and messages
//! (`tests/golden/make_llm_requests.py`).

use annals::event::{Event, Json, Message, Text, Unfamiliar, decode};
use annals::llm::{Call, Client, ClientOptions, Model, Request, Settings, ToolSchema, Transport};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::support::golden;
use crate::support::model_server::{Answer, ModelServer};

fn messages(golden: &Value, name: &str) -> Vec<Message> {
    let message = |message: &Value| {
        let event = json!({ "id": "e", "timestamp": "2026-01-01T00:00:00", "source": "agent", "llm_message": message, "kind": "MessageEvent" });
        match decode(&event.to_string(), Unfamiliar::Refuse).unwrap() {
            Event::Message(event) => event.llm_message.clone(),
            other => panic!("{other:?}"),
        }
    };
    golden["messages"][name].as_array().unwrap().iter().map(message).collect()
}

fn tools(golden: &Value) -> Vec<ToolSchema> {
    let schema = |tool: &Value| {
        ToolSchema::new(
            tool["name"].as_str().unwrap(),
            tool["description"].as_str().unwrap(),
            Json::from(&tool["parameters"]),
        )
    };
    golden["tools"].as_array().unwrap().iter().map(schema).collect()
}

/// The intended differences from the SDK, as `(model, path of the member, reason)`. The model `*` stands for any model.
const DIFFERENCES: &[(&str, &str, &str)] = &[
    // The SDK treats every `openai/` model as one that reasons, and drops the user's settings.
    ("openai/gpt-4o", "/temperature", "the temperature is sent to a model that does not reason"),
    ("openai/gpt-4o", "/top_p", "as above"),
    ("openai/gpt-4o", "/top_k", "as above"),
    ("openai/gpt-4o", "/include", "no encrypted reasoning is requested from a model that does not reason"),
    ("openai/gpt-4.1", "/include", "as above"),
    // The library knows the limit, but drops it because the provider has another name for the parameter.
    ("zai/glm-5", "/max_tokens", "the limit is sent under the provider's own name"),
    // The library's table is larger than the one of Annals, but the library finds fewer names in it.
    (
        "fireworks_ai/accounts/fireworks/models/glm-4p6",
        "/max_tokens",
        "the table of Annals does not have the model",
    ),
    ("fireworks_ai/accounts/fireworks/models/glm-4p6", "/reasoning_effort", "as above"),
    ("dashscope/qwen-max", "/max_completion_tokens", "as above"),
    ("dashscope/qwen-max", "/reasoning_effort", "as above"),
    ("perplexity/sonar", "/max_completion_tokens", "as above"),
    ("openrouter/openai/gpt-5", "/max_output_tokens", "Annals finds the model by the last part of its name"),
    ("openrouter/openai/gpt-5", "/input", "as above: it accepts images"),
    ("openrouter/openai/gpt-5", "/input/0/content", "as above"),
    ("perplexity/sonar", "/tools", "an agent is useless without its tools, so they are sent anyway"),
    ("*", "/session_id", "OpenRouter gets the conversation, as by SDK 1.58.2"),
    ("*", "/extra_body", "Anthropic receives the additional members themselves, not under this name"),
    ("anthropic/claude-sonnet-4-5", "/mine", "as above"),
];

fn is_intended(model: &str, path: &str) -> bool {
    DIFFERENCES.iter().any(|(of, member, _)| (*of == "*" || *of == model) && *member == path)
}

/// Adds the paths at which two bodies differ to `found`.
fn differences(path: &str, ours: &Value, theirs: &Value, found: &mut Vec<String>) {
    match (ours, theirs) {
        (Value::Object(one), Value::Object(other)) => {
            for name in one.keys().chain(other.keys().filter(|name| !one.contains_key(*name))) {
                let path = format!("{path}/{name}");
                match (one.get(name), other.get(name)) {
                    (Some(one), Some(other)) => differences(&path, one, other, found),
                    _ => found.push(path),
                }
            }
        }
        (Value::Array(one), Value::Array(other)) if one.len() == other.len() => {
            for (index, (one, other)) in one.iter().zip(other).enumerate() {
                differences(&format!("{path}/{index}"), one, other, found);
            }
        }
        (Value::Number(one), Value::Number(other)) if one.as_f64() == other.as_f64() => {}
        (one, other) if one == other => {}
        _ => found.push(path.to_owned()),
    }
}

#[tokio::test]
async fn requests_to_providers_equal_those_of_the_sdk() {
    let golden = golden::read(&golden::folder("llm").join("requests.json"));
    let transport = Transport::new().unwrap();
    let mut wrong = Vec::new();
    let mut compared = 0;
    for case in golden["cases"].as_array().unwrap() {
        let Some(theirs) = case.get("request") else { continue };
        let server = ModelServer::start([Answer::text("ok")]);
        let model = case["settings"]["model"].as_str().unwrap();
        let mut settings = case["settings"].clone();
        settings["base_url"] =
            settings["base_url"].as_str().unwrap().replace("http://provider", &server.url()).into();
        let settings = Settings::parse(&settings.to_string()).unwrap();
        let client = Client::new(settings, &ClientOptions::new(transport.clone())).unwrap();
        let request = Request::new(messages(&golden, case["messages"].as_str().unwrap()))
            .tools(if case["tools"] == true { tools(&golden) } else { Vec::new() })
            .cache_key(Text::from("key-1"))
            .session(Text::from("session-1"));
        client.complete(request, Call::new(&CancellationToken::new())).await.unwrap();
        let seen = server.seen().remove(0);
        let mut found = Vec::new();
        differences("", &seen.body, &theirs["body"], &mut found);
        found.retain(|path| !is_intended(model, path));
        let is_sent = seen.body["session_id"] == "session-1";
        if is_sent != model.starts_with("openrouter/") {
            found.push(format!("session_id {}", seen.body["session_id"]));
        }
        if seen.path != theirs["path"].as_str().unwrap() {
            found.push(format!("path {}", seen.path));
        }
        for (name, value) in theirs["headers"].as_object().unwrap() {
            if seen.header(name) != value.as_str() {
                found.push(format!("header {name}: {:?}", seen.header(name)));
            }
        }
        if !found.is_empty() {
            wrong.push(format!("{}: {found:?}", case["settings"]));
        }
        compared += 1;
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(compared > 60, "{compared}");
}
