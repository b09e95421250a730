//! Models that fail. Every failure is reported with its kind, is bounded, and contains no secret.

use std::time::Duration;

use annals::llm::{Call, Delta, LlmError, Model};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::llm_chat::{ask, client, hello, listen};
use crate::support::model_server::{Answer, Content, End, ModelServer};

fn event(delta: serde_json::Value) -> String {
    format!("data: {}\n\n", json!({ "id": "c", "choices": [{ "index": 0, "delta": delta }] }))
}

#[tokio::test]
async fn a_transient_failure_is_retried_and_a_permanent_failure_is_not() {
    let server = ModelServer::start([
        Answer::error(500, "oops"),
        Answer::error(429, "slow down").header("retry-after", "0"),
        Answer::error(503, "busy"),
        Answer::text("at last"),
        Answer::error(400, "never"),
        Answer::error(429, "You exceeded insufficient_quota"),
    ]);
    let client = client(&server, "openai/gpt-4o", json!({ "num_retries": 4 }));
    assert_eq!(ask(&client).await.unwrap().message.content, [annals::event::Content::text("at last")]);
    assert_eq!(ask(&client).await.unwrap_err().code(), "LLMBadRequestError");
    assert_eq!(ask(&client).await.unwrap_err().code(), "LLMRateLimitError");
    assert_eq!(server.seen().len(), 6);
}

#[tokio::test]
async fn exhausted_retries_return_the_last_failure() {
    let server =
        ModelServer::start([Answer::error(500, "one"), Answer::error(502, "two"), Answer::text("late")]);
    let error = ask(&client(&server, "openai/gpt-4o", json!({ "num_retries": 2 }))).await.unwrap_err();
    assert_eq!(error, LlmError::ServiceUnavailable("openai answered 502: two".to_owned()));
}

#[tokio::test]
async fn an_unreachable_provider_is_a_service_failure() {
    let server = ModelServer::start([]);
    let client = client(&server, "openai/gpt-4o", json!({ "num_retries": 2 }));
    drop(server);
    let error = ask(&client).await.unwrap_err();
    assert_eq!(error.code(), "LLMServiceUnavailableError");
    assert!(error.to_string().starts_with("Connection error: openai cannot be reached"), "{error}");
}

#[tokio::test]
async fn no_answer_in_time_is_a_timeout() {
    let slow = || Answer::text("late").delay(Duration::from_secs(600));
    let server = ModelServer::start([slow()]);
    let error =
        ask(&client(&server, "openai/gpt-4o", json!({ "timeout": 1, "num_retries": 1 }))).await.unwrap_err();
    assert_eq!(error, LlmError::Timeout("LLM hard timeout after 1 seconds".to_owned()));
}

#[tokio::test]
async fn a_silent_stream_times_out_and_restarts() {
    let begun = vec![event(json!({ "content": "Once" }))];
    let server = ModelServer::start([Answer::of(Content::Events(begun, End::Silent)), Answer::text("Whole")]);
    let more = json!({ "stream": true, "stream_idle_timeout": 3, "num_retries": 2 });
    let (reply, deltas) = listen(&client(&server, "openai/gpt-4o", more)).await;
    assert_eq!(reply.unwrap().message.content, [annals::event::Content::text("Whole")]);
    let text = |text: &str| Delta::Text(text.to_owned());
    assert_eq!(deltas, [text("Once"), Delta::Restart, text("Wh"), text("ole")]);
}

#[tokio::test]
async fn a_truncated_stream_is_a_service_failure() {
    for end in [End::Broken, End::Whole] {
        let pieces = vec![event(json!({ "content": "Once upon" }))];
        let server = ModelServer::start([Answer::of(Content::Events(pieces, end))]);
        let more = json!({ "stream": true, "num_retries": 1 });
        let (reply, _) = listen(&client(&server, "openai/gpt-4o", more)).await;
        assert_eq!(reply.unwrap_err().code(), "LLMServiceUnavailableError", "{end:?}");
    }
}

#[tokio::test]
async fn a_call_ends_when_the_caller_cancels_it() {
    for (answer, stream) in [
        (Answer::of(Content::Events(vec![event(json!({ "content": "On" }))], End::Silent)), true),
        (Answer::text("late").delay(Duration::from_secs(600)), false),
        (Answer::error(503, "busy").header("retry-after", "600"), false),
    ] {
        let server = ModelServer::start([answer]);
        let more = json!({ "stream": stream, "retry_max_wait": 600, "num_retries": 3, "timeout": null });
        let client = client(&server, "openai/gpt-4o", more);
        let cancel = CancellationToken::new();
        let (sender, mut receiver) = tokio::sync::mpsc::unbounded_channel();
        let forward = move |delta| sender.send(delta).unwrap();
        let call = client.complete(hello(), Call::new(&cancel).on_delta(&forward));
        let end = async {
            server.arrived(1).await;
            if stream {
                assert_eq!(receiver.recv().await, Some(Delta::Text("On".to_owned())));
            }
            cancel.cancel();
        };
        let (reply, ()) = tokio::join!(call, end);
        assert_eq!(reply.unwrap_err(), LlmError::Cancelled);
        if stream {
            server.gone().await;
        }
    }
}

#[tokio::test]
async fn a_successful_status_with_an_error_body_is_an_error() {
    let body = json!({ "error": { "code": 429, "message": "upstream is busy" } }).to_string();
    let streamed = format!("data: {body}\n\n");
    let server = ModelServer::start([
        Answer::of(Content::Text(body)),
        Answer::of(Content::Events(vec![event(json!({ "content": "x" })), streamed], End::Whole)),
        Answer::of(Content::Text("<html>welcome</html>".to_owned())),
        Answer::of(Content::Text(r#"{"choices":[]}"#.to_owned())),
    ]);
    let client = client(&server, "openrouter/a/b", json!({ "stream": true, "num_retries": 1 }));
    assert_eq!(
        ask(&client).await.unwrap_err(),
        LlmError::RateLimit("openrouter: upstream is busy".to_owned())
    );
    assert_eq!(listen(&client).await.0.unwrap_err().code(), "LLMRateLimitError");
    let garbage = ask(&client).await.unwrap_err();
    assert_eq!(garbage.code(), "LLMServiceUnavailableError");
    assert!(garbage.to_string().contains("not JSON: <html>"), "{garbage}");
    assert_eq!(ask(&client).await.unwrap_err().code(), "LLMNoResponseError");
}

#[tokio::test]
async fn endless_garbage_is_bounded() {
    let noise = |piece: &str| Answer::of(Content::Endless(piece.to_owned()));
    let kilobyte = "x".repeat(1 << 16);
    let server = ModelServer::start([
        noise(&format!("data: {kilobyte}\n\n")),
        noise(&kilobyte),
        noise(&kilobyte),
        Answer { status: 500, ..noise(&kilobyte) },
        noise(&format!(": still here{}\n\n", " ".repeat(200))),
    ]);
    let client = client(&server, "openai/gpt-4o", json!({ "stream": true, "num_retries": 1, "timeout": 30 }));
    for _ in 0..2 {
        let error = listen(&client).await.0.unwrap_err();
        assert_eq!(error.code(), "LLMServiceUnavailableError", "{error}");
        assert!(error.to_string().len() < 5_000);
    }
    assert_eq!(ask(&client).await.unwrap_err().code(), "LLMServiceUnavailableError");
    let refusal = ask(&client).await.unwrap_err();
    assert!(refusal.to_string().starts_with("openai answered 500: xxx") && refusal.to_string().len() < 5_000);
    let error = listen(&client).await.0.unwrap_err();
    assert!(["LLMTimeoutError", "LLMServiceUnavailableError"].contains(&error.code()), "{error}");
}

#[tokio::test]
async fn a_model_error_contains_no_secret() {
    let echo = r#"Incorrect API key: sk-test-key, header hidden-value, Bearer sk-test-key"#;
    let server = ModelServer::start([Answer::error(401, echo), Answer::of(Content::Text(echo.to_owned()))]);
    let more = json!({ "num_retries": 1, "extra_headers": { "X-Secret": "hidden-value" } });
    let client = client(&server, "openai/gpt-4o", more);
    let error = ask(&client).await.unwrap_err();
    let text = "openai answered 401: Incorrect API key: <secret-hidden>, header <secret-hidden>, Bearer <secret-hidden>";
    assert_eq!(error, LlmError::Authentication(text.to_owned()));
    let garbage = format!("{:?}", ask(&client).await.unwrap_err());
    let printed = format!("{client:?}");
    for text in [garbage, printed] {
        assert!(!text.contains("sk-test-key") && !text.contains("hidden-value"), "{text}");
    }
}

#[tokio::test]
async fn no_request_is_sent_to_a_server_without_tls() {
    let server = ModelServer::start([Answer::text("in the open")]);
    let base = server.url().replace("http://", "https://");
    let client = client(&server, "openai/gpt-4o", json!({ "num_retries": 1, "base_url": base }));
    let error = ask(&client).await.unwrap_err();
    assert_eq!(error.code(), "LLMServiceUnavailableError", "{error}");
    assert!(server.seen().is_empty());
    let nowhere = client_of("openai/gpt-4o", "not an address");
    assert_eq!(ask(&nowhere).await.unwrap_err().code(), "LLMBadRequestError");
}

fn client_of(model: &str, base: &str) -> annals::llm::Client {
    let server = ModelServer::start([]);
    client(&server, model, json!({ "num_retries": 3, "base_url": base }))
}
