//! What a client does around a call: it fetches pictures, renews keys and records calls.

use std::sync::{Arc, Mutex};

use annals::event::{Content, ImageContent, Message, Role};
use annals::llm::{Call, Client, ClientOptions, LlmError, Model, Reply, Request, Settings, Transport};
use annals::secret::Secret;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::support::model_server::{Answer, Content as Sent, ModelServer};

fn client(server: &ModelServer, more: Value, edit: impl FnOnce(&mut ClientOptions)) -> Client {
    let mut settings = json!({
        "model": "openai/gpt-4o", "api_key": "sk-old-key", "base_url": format!("{}/v1", server.url()),
        "num_retries": 1, "timeout": 120,
    });
    for (name, value) in more.as_object().unwrap() {
        settings[name] = value.clone();
    }
    let mut options = ClientOptions::new(Transport::new().unwrap());
    edit(&mut options);
    Client::new(Settings::parse(&settings.to_string()).unwrap(), &options).unwrap()
}

async fn ask(client: &Client, content: Content) -> Result<Reply, LlmError> {
    let request = Request::new(vec![Message::new(Role::User, vec![content])]);
    client.complete(request, Call::new(&CancellationToken::new())).await
}

fn picture(url: String) -> Content {
    ImageContent::new(vec![url.into()]).into()
}

fn sent_picture(server: &ModelServer, request: usize) -> String {
    server.seen()[request].body["messages"][0]["content"][0]["image_url"]["url"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn a_picture_is_fetched_once_and_sent_inline() {
    let pictures = ModelServer::start([
        Answer { status: 302, ..Answer::of(Sent::Text(String::new())) }.header("location", "/there"),
        Answer::of(Sent::Text("PNG!".to_owned())).header("content-type", "image/png; charset=x"),
    ]);
    let server = ModelServer::start([Answer::text("a"), Answer::text("b")]);
    let client =
        client(&server, json!({ "inline_image_urls": true }), |options| options.private_pictures = true);
    for _ in 0..2 {
        ask(&client, picture(format!("{}/here", pictures.url()))).await.unwrap();
    }
    for request in 0..2 {
        assert_eq!(sent_picture(&server, request), "data:image/png;base64,UE5HIQ==");
    }
    let asked: Vec<String> = pictures.seen().into_iter().map(|seen| seen.path).collect();
    assert_eq!(asked, ["/here", "/there"]);
}

#[tokio::test]
async fn a_picture_that_may_not_or_cannot_be_fetched_is_sent_as_its_address() {
    let pictures = ModelServer::start([Answer::text("no picture"), Answer::error(404, "gone")]);
    let server = ModelServer::start([Answer::text("a"), Answer::text("b"), Answer::text("c")]);
    let more = json!({ "inline_image_urls": true });
    let url = format!("{}/x.png", pictures.url());
    let careful = client(&server, more.clone(), |_| {});
    ask(&careful, picture(url.clone())).await.unwrap();
    assert!(pictures.seen().is_empty(), "a server on this machine was asked");
    let trusting = client(&server, more, |options| options.private_pictures = true);
    for _ in 0..2 {
        ask(&trusting, picture(url.clone())).await.unwrap();
    }
    for request in 0..3 {
        assert_eq!(sent_picture(&server, request), url);
    }
}

#[tokio::test]
async fn gemini_receives_the_real_type_of_a_picture_or_no_type() {
    let pictures = ModelServer::start([
        Answer::of(Sent::Text("GIF89a, a picture".to_owned())).header("content-type", "binary/octet-stream"),
        Answer::of(Sent::Text("GIF89a, a picture".to_owned())).header("content-type", "image/png"),
        Answer::of(Sent::Text("not a picture".to_owned())).header("content-type", "binary/octet-stream"),
    ]);
    let server = ModelServer::start(vec![Answer::text("ok"); 7]);
    let more = json!({ "model": "gemini/gemini-2.5-pro", "base_url": server.url() });
    let careful = client(&server, more.clone(), |_| {});
    let trusting = client(&server, more, |options| options.private_pictures = true);
    let here = |name: &str| format!("{}/{name}", pictures.url());
    let inline = |kind: &str, data: &str| json!({ "inline_data": { "mime_type": kind, "data": data } });
    let file = |uri: &str| json!({ "file_data": { "file_uri": uri } });
    let jpeg = "/9j/4AAQSkZJRgABAQAAAQ==";
    let gif = "R0lGODlhLCBhIHBpY3R1cmU=";
    let cases = [
        (&careful, format!("data:image/png;base64,{jpeg}"), inline("image/jpeg", jpeg)),
        (
            &careful,
            "https://a.example/x.PNG?size=1".to_owned(),
            json!({ "file_data": { "mime_type": "image/png", "file_uri": "https://a.example/x.PNG?size=1" } }),
        ),
        (&careful, "gs://bucket/x".to_owned(), file("gs://bucket/x")),
        (&careful, here("own"), file(&here("own"))),
        (&trusting, here("one"), inline("image/gif", gif)),
        (&trusting, here("two.png"), inline("image/gif", gif)),
        (&trusting, here("three"), file(&here("three"))),
    ];
    for (number, (client, url, expected)) in cases.into_iter().enumerate() {
        ask(client, picture(url.clone())).await.unwrap();
        assert_eq!(server.seen()[number].body["contents"][0]["parts"][0], expected, "{url}");
    }
    let asked: Vec<String> = pictures.seen().into_iter().map(|seen| seen.path).collect();
    assert_eq!(asked, ["/one", "/two.png", "/three"]);
}

#[tokio::test]
async fn a_custom_tokenizer_is_kept_and_changes_no_count() {
    let server = ModelServer::start(Vec::new());
    let (usual, own) = (
        client(&server, json!({}), |_| {}),
        client(&server, json!({ "custom_tokenizer": "somewhere/a-tokenizer" }), |_| {}),
    );
    let messages = [Message::new(Role::User, vec![Content::text("How many tokens are these few words?")])];
    assert_eq!(own.count_tokens(&messages, &[]), usual.count_tokens(&messages, &[]));
    assert!(own.settings().to_plain_json().contains(r#""custom_tokenizer":"somewhere/a-tokenizer""#));
}

#[tokio::test]
async fn a_refused_key_is_renewed_once() {
    let refused = || Answer::error(401, "no such key: sk-new-key");
    let server = ModelServer::start([refused(), Answer::text("in"), refused(), refused(), refused()]);
    let renew = |options: &mut ClientOptions| options.new_key = Some(Arc::new(|| Secret::new("sk-new-key")));
    let client = client(&server, json!({}), renew);
    assert!(ask(&client, Content::text("x")).await.is_ok());
    let error = ask(&client, Content::text("x")).await.unwrap_err();
    assert_eq!(error.code(), "LLMAuthenticationError");
    assert!(!error.to_string().contains("sk-new-key"), "{error}");
    let keys: Vec<String> =
        server.seen().iter().map(|seen| seen.header("authorization").unwrap().to_owned()).collect();
    assert_eq!(keys, ["Bearer sk-old-key", "Bearer sk-new-key", "Bearer sk-old-key", "Bearer sk-new-key"]);
}

#[tokio::test]
async fn calls_are_recorded_without_keys_if_the_settings_require_it() {
    let server =
        ModelServer::start([Answer::text("hi"), Answer::error(400, "bad sk-old-key"), Answer::text("hi")]);
    let logs = Arc::new(Mutex::new(Vec::new()));
    let sink = logs.clone();
    let more = json!({ "log_completions": true, "usage_id": "u" });
    let logging = client(&server, more, |options| {
        options.log = Some(Arc::new(move |log| sink.lock().unwrap().push(log)));
    });
    ask(&logging, Content::text("the key is sk-old-key")).await.unwrap();
    ask(&logging, Content::text("x")).await.unwrap_err();
    let logs = std::mem::take(&mut *logs.lock().unwrap());
    let data: Vec<Value> = logs.iter().map(|log| serde_json::from_str(&log.data).unwrap()).collect();
    assert!(logs[0].filename.starts_with("openai__gpt-4o-") && logs[1].filename.ends_with("-error.json"));
    assert_eq!((&*logs[0].model, &*logs[0].usage_id), ("openai/gpt-4o", "u"));
    assert_eq!(data[0]["request"]["messages"][0]["content"][0]["text"], "the key is <secret-hidden>");
    assert_eq!(data[0]["response"]["message"]["content"][0]["text"], "hi");
    assert_eq!(data[0]["usage_summary"]["prompt_tokens"], 10);
    assert_eq!(data[1]["error"]["type"], "LLMBadRequestError");
    assert!(!logs.iter().any(|log| log.data.contains("sk-old-key")));
    let folder = tempfile::tempdir().unwrap();
    let into = folder.path().join("completions");
    let more = json!({ "log_completions": true, "log_completions_folder": into.to_str().unwrap() });
    ask(&client(&server, more, |_| {}), Content::text("x")).await.unwrap();
    assert_eq!(std::fs::read_dir(into).unwrap().count(), 1);
}

#[tokio::test]
async fn the_limits_and_prices_of_a_model_are_read_from_a_proxy() {
    let info = json!({ "data": [{ "model_name": "alias", "litellm_params": { "model": "x/y" }, "model_info": {
        "max_input_tokens": 50_000, "supports_vision": true,
        "input_cost_per_token": 0.5, "output_cost_per_token": 1.0,
    } }] });
    let server = ModelServer::start([
        Answer::of(Sent::Text(info.to_string())),
        Answer::text("hi"),
        Answer::error(500, "no"),
    ]);
    let text = json!({ "model": "litellm_proxy/alias", "api_key": "sk-1", "base_url": format!("{}/v1", server.url()) });
    let settings = Settings::parse(&text.to_string()).unwrap();
    let transport = Transport::new().unwrap();
    let options = ClientOptions::new(transport.clone())
        .models(annals::llm::Models::default().with_proxy(&settings, &transport).await);
    let client = Client::new(settings.clone(), &options).unwrap();
    assert_eq!((client.input_tokens_max(), client.has_vision()), (Some(50_000), true));
    assert_eq!(ask(&client, Content::text("x")).await.unwrap().cost, Some(7.0));
    let seen = &server.seen()[0];
    assert_eq!((&*seen.path, seen.header("authorization")), ("/v1/model/info", Some("Bearer sk-1")));
    // A proxy that does not describe its models is no error.
    let models = annals::llm::Models::default().with_proxy(&settings, &transport).await;
    let client = Client::new(settings, &ClientOptions::new(transport).models(models)).unwrap();
    assert_eq!(client.input_tokens_max(), None);
}
