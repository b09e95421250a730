//! Conversations over OpenAI's API.

use serde_json::{Value, json};

use crate::support::caller::{KEY, Served, model};
use crate::support::model_server::{Answer, ModelServer};

const CHAT: &str = "/v1/chat/completions";
const CONVERSATION: &str = "x-openhands-serverconversation-id";

/// Starts a server whose profile `quick` uses `model`.
async fn served(model: &ModelServer) -> Served {
    let server = Served::start().await;
    let llm = json!({"model": "openai/x", "api_key": "sk-gate-1", "base_url": format!("{}/v1", model.url()), "num_retries": 0});
    server.post("/api/profiles/quick", json!({"llm": llm})).await.ok();
    server
}

fn chat(text: &str) -> Value {
    json!({"model": "openhands_quick", "messages": [
        {"role": "system", "content": "Answer in one word."}, {"role": "user", "content": text},
    ]})
}

#[tokio::test]
async fn profiles_are_models_and_a_chat_is_a_turn() {
    let model = model(&["blue", "green"]);
    let server = served(&model).await;
    let list = server.get("/v1/models").await.ok();
    assert_eq!(
        list,
        json!({"object": "list", "data": [
            {"id": "openhands_quick", "created": 0, "object": "model", "owned_by": "openhands"}]})
    );
    let bearer = format!("Bearer {KEY}");
    let ask = async |headers: &[(&str, &str)], body: &Value| {
        let all = [&[("authorization", bearer.as_str())], headers].concat();
        server.send("POST", CHAT, &all, body.to_string().as_bytes()).await
    };
    let first = ask(&[], &chat("A colour?")).await;
    assert_eq!(first.status, 200, "{}", first.text());
    let answer = first.json();
    assert_eq!(
        (&answer["object"], &answer["model"], &answer["choices"][0]["message"]["content"]),
        (&json!("chat.completion"), &json!("openhands_quick"), &json!("blue"))
    );
    assert!(answer["usage"]["total_tokens"].as_u64().unwrap() > 0, "{answer}");
    let id = first.header(CONVERSATION).unwrap().to_owned();
    let info = server.get(&format!("/api/conversations/{id}?include_skills=true")).await.ok();
    assert_eq!(info["execution_status"], json!("finished"));
    assert_eq!(info["agent"]["agent_context"]["system_message_suffix"], json!("Answer in one word."));
    let mut more = chat("Another?");
    more["stream"] = true.into();
    more["stream_options"] = json!({"include_usage": true});
    let second = ask(&[(CONVERSATION, &id)], &more).await;
    assert_eq!((second.status, second.header(CONVERSATION)), (200, Some(id.as_str())));
    assert!(second.header("content-type").unwrap().starts_with("text/event-stream"));
    let text = second.text();
    let pieces: Vec<&str> = text.split("\n\n").filter_map(|piece| piece.strip_prefix("data: ")).collect();
    assert_eq!((pieces.len(), pieces[4]), (5, "[DONE]"), "{text}");
    let piece = |at: usize| serde_json::from_str::<Value>(pieces[at]).unwrap();
    assert_eq!(piece(0)["choices"][0]["delta"], json!({"role": "assistant"}));
    assert_eq!(piece(1)["choices"][0]["delta"], json!({"content": "green"}));
    assert_eq!(piece(2)["choices"][0]["finish_reason"], json!("stop"));
    assert!(piece(3)["usage"]["prompt_tokens"].as_u64().unwrap() > 0);
    assert_eq!(server.get("/api/conversations/count").await.json(), json!(1), "the second chat continues it");
}

#[tokio::test]
async fn invalid_chats_are_rejected() {
    let model = ModelServer::start([Answer::error(401, "no")]);
    let server = served(&model).await;
    let refused = async |body: Value| server.post(CHAT, body).await.refusal();
    let mut other = chat("a");
    other["model"] = json!("gpt");
    assert_eq!(refused(other.clone()).await.0, 404);
    other["model"] = json!("openhands_none");
    assert_eq!(refused(other).await, (404, json!("Profile 'none' not found")));
    for (messages, status) in [
        (json!([{"role": "system", "content": "a"}]), 400),
        (json!([{"role": "user", "content": [{"type": "audio"}]}]), 400),
        (json!([{"role": "person", "content": "a"}]), 422),
        (json!("a"), 422),
    ] {
        assert_eq!(
            refused(json!({"model": "openhands_quick", "messages": messages})).await.0,
            status,
            "{messages}"
        );
    }
    assert_eq!(refused(json!({})).await.0, 422);
    assert_eq!(server.get("/api/conversations/count").await.json(), json!(0), "none is made");
    // The model server rejects the key.
    assert_eq!(refused(chat("a")).await, (500, json!("Agent run ended with status: error")));
    for headers in [vec![], vec![("authorization", "Bearer wrong")]] {
        assert_eq!(server.send("GET", "/v1/models", &headers, b"").await.status, 401);
    }
}
