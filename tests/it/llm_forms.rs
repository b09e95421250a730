//! Requests to models through OpenAI's responses, Anthropic's messages and Gemini's `generateContent`. A whole reply
//! and a streamed reply have the same content.

use annals::event::{Content, Message, Thinking};
use annals::llm::{Delta, LlmError, Reply};
use serde_json::{Value, json};

use crate::llm_chat::{ask, client, listen};
use crate::support::model_server::{Answer, Content as Sent, End, ModelServer, Said};

const RESPONSES: &str = "openai/gpt-5";
const ANTHROPIC: &str = "anthropic/claude-opus-4-5";
const GEMINI: &str = "gemini/gemini-2.5-pro";

fn sample() -> Said {
    let call = |id: &str, arguments: &str| (id.to_owned(), "think".to_owned(), arguments.to_owned());
    Said {
        id: Some("reply-7".to_owned()),
        text: Some("Well, é.".to_owned()),
        reasoning: Some("Let me see.".to_owned()),
        thinking: Some(("Let me".to_owned(), "sig".to_owned())),
        calls: vec![call("call_1", r#"{"thought":"a","by":1}"#), call("call_2", r#"{"thought":"bé"}"#)],
        usage: [1300, 30, 1024, 7, 5],
    }
}

/// Returns the whole reply, the streamed reply, and the deltas of the streamed reply.
async fn ask_twice(model: &str, said: &Said) -> (Reply, Reply, Vec<Delta>) {
    let server = ModelServer::start([Answer::said(said.clone()), Answer::said(said.clone())]);
    let whole = ask(&client(&server, model, json!({}))).await.unwrap();
    let (streamed, deltas) = listen(&client(&server, model, json!({ "stream": true }))).await;
    (whole, streamed.unwrap(), deltas)
}

fn joined(deltas: &[Delta]) -> (String, String) {
    let mut texts = (String::new(), String::new());
    for delta in deltas {
        match delta {
            Delta::Text(piece) => texts.0.push_str(piece),
            Delta::Reasoning(piece) => texts.1.push_str(piece),
            Delta::Restart => panic!("the stream should not restart"),
        }
    }
    texts
}

fn calls(message: &Message) -> Vec<(&str, &str, &str)> {
    message.tool_calls.iter().flatten().map(|call| (&*call.id, &*call.name, &*call.arguments)).collect()
}

fn usage(reply: &Reply) -> [u64; 6] {
    let usage = &reply.usage;
    assert_eq!(usage.response_id, &*reply.id);
    [
        usage.prompt_tokens,
        usage.completion_tokens,
        usage.cache_read_tokens,
        usage.cache_write_tokens,
        usage.reasoning_tokens,
        usage.per_turn_token,
    ]
}

#[tokio::test]
async fn responses_keep_the_reasoning_item_and_the_ids_of_calls() {
    let (whole, streamed, deltas) = ask_twice(RESPONSES, &sample()).await;
    assert_eq!(whole.message, streamed.message);
    assert_eq!(joined(&deltas), ("Well, é.".to_owned(), "Let me see.".to_owned()));
    for reply in [whole, streamed] {
        let message = &reply.message;
        assert_eq!((&*reply.id, usage(&reply)), ("reply-7", [1300, 30, 1024, 0, 5, 1330]));
        assert_eq!(message.content, [Content::text("Well, é.")]);
        let item = message.responses_reasoning_item.as_ref().unwrap();
        assert_eq!((item.id.as_deref(), item.encrypted_content.as_deref()), (Some("rs_1"), Some("sealed")));
        assert_eq!(item.summary, ["Let me see.".into()]);
        let expected =
            [("call_1", "think", r#"{"thought":"a","by":1}"#), ("call_2", "think", r#"{"thought":"bé"}"#)];
        assert_eq!(calls(message), expected);
        let call = &message.tool_calls.as_ref().unwrap()[0];
        assert_eq!((call.responses_item_id.as_deref(), call.origin.as_str()), (Some("fc_0"), "responses"));
    }
}

#[tokio::test]
async fn responses_keep_finished_items_and_report_failures() {
    let line = |event: Value| format!("data: {event}\n\n");
    let item = json!({ "type": "message", "content": [{ "type": "output_text", "text": "kept" }] });
    let stream =
        |events: Vec<Value>| Answer::of(Sent::Events(events.into_iter().map(line).collect(), End::Whole));
    let server = ModelServer::start([
        stream(vec![
            json!({ "type": "response.output_item.done", "item": item }),
            json!({ "type": "response.completed", "response": { "id": "r", "output": [] } }),
        ]),
        stream(vec![json!({ "type": "response.failed", "response": { "error": {
            "code": "context_length_exceeded", "message": "too much" } } })]),
        stream(vec![json!({ "type": "error", "code": "rate_limit_exceeded", "message": "slow" })]),
        stream(vec![json!({ "type": "response.created" })]),
    ]);
    let client = client(&server, RESPONSES, json!({ "stream": true, "num_retries": 1 }));
    assert_eq!(listen(&client).await.0.unwrap().message.content, [Content::text("kept")]);
    assert_eq!(listen(&client).await.0.unwrap_err().code(), "LLMContextWindowExceedError");
    assert_eq!(listen(&client).await.0.unwrap_err().code(), "LLMRateLimitError");
    assert_eq!(listen(&client).await.0.unwrap_err().code(), "LLMNoResponseError");
}

#[tokio::test]
async fn anthropic_keeps_thinking_with_its_signatures_and_counts_the_cache() {
    let (whole, streamed, deltas) = ask_twice(ANTHROPIC, &sample()).await;
    assert_eq!(whole.message, streamed.message);
    assert_eq!(joined(&deltas), ("Well, é.".to_owned(), "Let me".to_owned()));
    for reply in [whole, streamed] {
        let message = &reply.message;
        // Anthropic counts the tokens of the cache separately from the other tokens.
        assert_eq!((&*reply.id, usage(&reply)), ("reply-7", [2331, 30, 1024, 7, 0, 2361]));
        assert_eq!(message.content, [Content::text("Well, é.")]);
        match message.thinking_blocks.as_slice() {
            [Thinking::Shown(shown), Thinking::Redacted(sealed)] => {
                assert_eq!((&*shown.thinking, shown.signature.as_deref()), ("Let me", Some("sig")));
                assert_eq!(&*sealed.data, "Let me see.");
            }
            other => panic!("{other:?}"),
        }
        assert_eq!(message.reasoning_content.as_deref(), Some("Let me"));
        let expected =
            [("call_1", "think", r#"{"thought":"a","by":1}"#), ("call_2", "think", r#"{"thought":"bé"}"#)];
        assert_eq!(calls(message), expected);
        // 1,300 tokens sent, 1,024 read from the cache, 7 written to the cache, 30 received, at the prices of Opus 4.5.
        let cost = 1300.0 * 5e-6 + 1024.0 * 5e-7 + 7.0 * 6.25e-6 + 30.0 * 25e-6;
        assert!((reply.cost.unwrap() - cost).abs() < 1e-12, "{:?}", reply.cost);
    }
}

#[tokio::test]
async fn anthropics_errors_are_classified_within_a_stream_too() {
    let refusal =
        |kind: &str| json!({ "type": "error", "error": { "type": kind, "message": "no" } }).to_string();
    let begun = json!({ "type": "message_start", "message": { "id": "m", "usage": {} } });
    let server = ModelServer::start([
        Answer { status: 529, ..Answer::of(Sent::Text(refusal("overloaded_error"))) },
        Answer::of(Sent::Events(
            vec![
                format!("data: {begun}\n\n"),
                format!("event: error\ndata: {}\n\n", refusal("rate_limit_error")),
            ],
            End::Whole,
        )),
        Answer::of(Sent::Events(vec![format!("data: {begun}\n\n")], End::Whole)),
    ]);
    let client = client(&server, ANTHROPIC, json!({ "stream": true, "num_retries": 1 }));
    let error = ask(&client).await.unwrap_err();
    assert_eq!(
        error,
        LlmError::ServiceUnavailable("anthropic answered 529: no (overloaded_error)".to_owned())
    );
    assert_eq!(listen(&client).await.0.unwrap_err().code(), "LLMRateLimitError");
    assert_eq!(listen(&client).await.0.unwrap_err().code(), "LLMServiceUnavailableError");
}

#[tokio::test]
async fn gemini_keeps_the_signature_of_a_call_in_its_id() {
    let (whole, streamed, deltas) = ask_twice(GEMINI, &sample()).await;
    assert_eq!(joined(&deltas), ("Well, é.".to_owned(), "Let me see.".to_owned()));
    for reply in [whole, streamed] {
        let message = &reply.message;
        assert_eq!((&*reply.id, usage(&reply)), ("reply-7", [1300, 30, 1024, 0, 5, 1330]));
        assert_eq!(message.content, [Content::text("Well, é.")]);
        assert_eq!(message.reasoning_content.as_deref(), Some("Let me see."));
        let calls = calls(message);
        assert!(calls[0].0.starts_with("call_") && calls[0].0.ends_with("__thought__sig"), "{calls:?}");
        assert!(!calls[1].0.contains("__thought__"), "{calls:?}");
        assert_eq!((calls[0].2, calls[1].2), (r#"{"thought":"a","by":1}"#, r#"{"thought":"bé"}"#));
    }
}

#[tokio::test]
async fn a_prompt_that_gemini_blocks_is_a_content_policy_error() {
    let blocked = json!({ "promptFeedback": { "blockReason": "SAFETY" } }).to_string();
    let refused =
        json!([{ "error": { "code": 400, "message": "API key not valid. Please pass a valid API key." } }]);
    let server = ModelServer::start([
        Answer::of(Sent::Text(blocked)),
        Answer::of(Sent::Text("{}".to_owned())),
        Answer { status: 400, ..Answer::of(Sent::Text(refused.to_string())) },
    ]);
    let client = client(&server, GEMINI, json!({ "num_retries": 1 }));
    let error = ask(&client).await.unwrap_err();
    assert_eq!(error, LlmError::ContentPolicy("gemini blocked the prompt: SAFETY".to_owned()));
    assert_eq!(ask(&client).await.unwrap_err().code(), "LLMNoResponseError");
    assert_eq!(ask(&client).await.unwrap_err().code(), "LLMAuthenticationError");
}

#[tokio::test]
async fn a_prompt_too_short_for_the_cache_is_sent_again_without_marks() {
    let small = "The cached content is of 1171 tokens. The minimum token count to start caching is 4096.";
    let server = ModelServer::start([Answer::error(400, small), Answer::text("ok")]);
    let client = client(&server, "litellm_proxy/anthropic/claude-opus-4-5", json!({ "num_retries": 1 }));
    assert!(ask(&client).await.is_ok());
    let seen = server.seen();
    assert!(seen[0].text.contains("cache_control") && !seen[1].text.contains("cache_control"));
}
