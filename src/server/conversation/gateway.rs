//! Conversations over OpenAI's interface (`docs/reference/settings.md#openais-words`). A model is a profile, and a chat
//! is a turn of the active agent profile's agent.
//!
//! If the header names a conversation, that conversation continues. Only the last user message of a request is used. As
//! with the reference, a stream is the complete answer in pieces: it is sent when the answer is complete.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::middleware::from_fn_with_state;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Extension, Json, Router};
use serde_json::{Map, Value, json};

use super::command;
use super::create;
use crate::ids::{ConversationId, Timestamp};
use crate::server::App;
use crate::server::http::auth;
use crate::server::http::caller::Caller;
use crate::server::http::failure::Failure;
use crate::server::http::message;
use crate::server::http::request;
use crate::server::http::shape;
use crate::server::live::info::{Skills, Stored};
use crate::server::live::session::Busy;
use crate::server::settings::{Document, agent_profiles};
use crate::state::ExecutionStatus;

/// The prefix of a model's name. The rest is the name of a profile.
const PREFIX: &str = "openhands_";

/// The header that names the conversation.
const CONVERSATION: HeaderName = HeaderName::from_static("x-openhands-serverconversation-id");

/// The maximum duration of an answer; the reference's value.
const PATIENCE: Duration = Duration::from_secs(120);

pub(in crate::server) fn routes(app: &Arc<App>) -> Router<Arc<App>> {
    Router::new()
        .route("/v1/models", get(models))
        .route("/v1/chat/completions", post(complete))
        .layer(axum::extract::DefaultBodyLimit::max(request::BODY_BYTES_MAX))
        // OpenAI's clients send the key as a bearer token.
        .layer(from_fn_with_state(Arc::clone(app.keys()), auth::check_either))
}

async fn models(State(app): State<Arc<App>>) -> Result<Json<Value>, Failure> {
    let profiles = app.with_profiles(crate::llm::profiles::Profiles::list).await?;
    let models: Vec<Value> = profiles
        .into_iter()
        .map(|name| {
            json!({"id": format!("{PREFIX}{name}"), "created": 0, "object": "model", "owned_by": "openhands"})
        })
        .collect();
    Ok(Json(json!({"object": "list", "data": models})))
}

async fn complete(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Response, Failure> {
    let mut chat = Value::Object(request::object(&body)?);
    shape::check("OpenAIChatCompletionRequest", &mut chat, &["body"])?;
    let named = headers.get(&CONVERSATION).map(|value| value.to_str().unwrap_or_default());
    let place = ["header", "X-OpenHands-ServerConversation-ID"];
    let named = named.map(|id| request::conversation_id(id, &place)).transpose()?;
    let model = chat["model"].as_str().unwrap_or_default().to_owned();
    let mut messages = chat["messages"].as_array().into_iter().flatten();
    let last = messages.rfind(|message| message["role"] == "user");
    let last = last.ok_or_else(|| Failure::bad("At least one user message is required"))?;
    let creation = creation_request(&app, &model, content(last)?, instructions(&chat)?).await?;
    let id = turn(&app, named, creation, caller.user()).await?;
    let known = id.clone();
    let stored = app.ask(move |store| Stored::read(store, &known)).await?;
    let answer = command::last_word(&app, &id).await?;
    let usage = usage(&stored);
    let (completion, created) =
        (format!("chatcmpl-{}", uuid::Uuid::new_v4().simple()), Timestamp::now().to_utc().timestamp());
    let mut response = if chat.get("stream") == Some(&Value::Bool(true)) {
        let base =
            json!({"id": completion, "object": "chat.completion.chunk", "created": created, "model": model});
        let wants_usage = chat.pointer("/stream_options/include_usage") == Some(&Value::Bool(true));
        stream(&base, &answer, wants_usage.then_some(usage))
    } else {
        Json(json!({
            "id": completion, "object": "chat.completion", "created": created, "model": model, "usage": usage,
            "choices": [{
                "index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": answer},
            }],
        }))
        .into_response()
    };
    if let Ok(id) = HeaderValue::from_str(id.as_str()) {
        response.headers_mut().insert(CONVERSATION, id);
    }
    Ok(response)
}

/// Returns an answer in pieces: the role, the content, the end, and the usage if the client asked for it.
fn stream(base: &Value, answer: &str, usage: Option<Value>) -> Response {
    let piece = |delta: Value, finish: Value| {
        let mut piece = base.clone();
        let mut choice = json!({"index": 0, "delta": delta});
        if !finish.is_null() {
            choice["finish_reason"] = finish;
        }
        piece["choices"] = json!([choice]);
        piece.to_string()
    };
    let mut pieces = vec![
        piece(json!({"role": "assistant"}), Value::Null),
        piece(json!({"content": answer}), Value::Null),
        piece(json!({}), json!("stop")),
    ];
    if let Some(usage) = usage {
        let mut last = base.clone();
        last["choices"] = json!([]);
        last["usage"] = usage;
        pieces.push(last.to_string());
    }
    pieces.push("[DONE]".to_owned());
    let body: String = pieces.iter().map(|piece| format!("data: {piece}\n\n")).collect();
    ([(header::CONTENT_TYPE, "text/event-stream; charset=utf-8")], body).into_response()
}

/// Returns the request that starts a new conversation with this turn.
async fn creation_request(
    app: &Arc<App>,
    model: &str,
    content: Vec<Value>,
    instructions: String,
) -> Result<Map<String, Value>, Failure> {
    let unknown = || Failure::not_found(format!("Unknown OpenHands model '{model}'. Use GET /v1/models."));
    let name = model.strip_prefix(PREFIX).filter(|name| !name.is_empty()).ok_or_else(unknown)?;
    if !app.has_profile(name).await? {
        return Err(Failure::not_found(format!("Profile '{name}' not found")));
    }
    let profile = agent_profiles::active(app).await?;
    let none = || Failure::conflict("No active Agent Profile; activate one to use the gateway");
    let profile = profile.ok_or_else(none)?;
    let is_program = agent_profiles::by_id(app, &profile).await?.get("agent_kind") == Some(&json!("acp"));
    let settings = Document::load(app).await?.conversation_settings().clone();
    let folder = match &app.config().workspace_dir {
        Some(folder) => folder.clone(),
        None => std::env::current_dir().map_err(|error| Failure::internal(error.to_string()))?,
    };
    let asks_first = settings.get("confirmation_mode") == Some(&Value::Bool(true));
    let is_judged = settings.get("security_analyzer") == Some(&json!("llm"));
    let mut body = json!({
        "agent_profile_id": profile,
        "agent_launch_additions": {
            // An ACP agent is a program that uses its own model.
            "llm_profile_ref": (!is_program).then_some(name),
            "system_message_suffix_append": (!instructions.is_empty()).then_some(instructions),
        },
        "workspace": {"working_dir": folder.to_string_lossy()},
        "max_iterations": settings.get("max_iterations"),
        "confirmation_policy": {"kind": match (asks_first, is_judged) {
            (false, _) => "NeverConfirm",
            (true, true) => "ConfirmRisky",
            (true, false) => "AlwaysConfirm",
        }},
        "initial_message": {"role": "user", "content": content, "run": true},
        "autotitle": false,
    });
    if is_judged {
        body["security_analyzer"] = json!({"kind": "LLMSecurityAnalyzer"});
    }
    match body {
        Value::Object(body) => Ok(body),
        _ => Ok(Map::new()),
    }
}

/// Sends the message to the named conversation, or to a new one, and waits until the agent's run has ended.
async fn turn(
    app: &Arc<App>,
    named: Option<ConversationId>,
    mut creation: Map<String, Value>,
    by: Option<String>,
) -> Result<ConversationId, Failure> {
    let mut is_known = false;
    if let Some(known) = named.clone() {
        is_known = app.ask(move |store| store.contains(&known)).await?;
    }
    let id = named.unwrap_or_else(ConversationId::mint);
    let session = if is_known {
        let message = message::parse(creation.get("initial_message").unwrap_or(&Value::Null), &["messages"])?;
        // Without a free slot for the run, the message is not sent.
        drop(app.sessions().slot()?);
        let session = command::session(app, &id).await?;
        session.say(app, message).await?;
        session.start(app, Busy::FollowUp)?;
        session
    } else {
        creation.insert("conversation_id".to_owned(), id.as_str().into());
        create::start(app, creation, Skills::Hidden, by).await?;
        command::session(app, &id).await?
    };
    if tokio::time::timeout(PATIENCE, session.ended()).await.is_err() {
        return Err(Failure::Refused(StatusCode::GATEWAY_TIMEOUT, "Agent run timed out".to_owned()));
    }
    let status = session.conversation.status();
    let text = |how: &str| format!("Agent run ended with {how}status: {}", status.as_str());
    match status {
        ExecutionStatus::Finished => Ok(id),
        ExecutionStatus::Paused | ExecutionStatus::WaitingForConfirmation => Err(Failure::conflict(text(""))),
        ExecutionStatus::Error | ExecutionStatus::Stuck => {
            Err(Failure::Refused(StatusCode::INTERNAL_SERVER_ERROR, text("")))
        }
        _ => Err(Failure::Refused(StatusCode::INTERNAL_SERVER_ERROR, text("unexpected "))),
    }
}

/// Returns the parts of a message in the form of a conversation's message.
fn content(message: &Value) -> Result<Vec<Value>, Failure> {
    let parts = match &message["content"] {
        Value::String(text) => return Ok(vec![json!({"type": "text", "text": text})]),
        Value::Array(parts) => parts,
        _ => return Ok(Vec::new()),
    };
    let mut content = Vec::new();
    for part in parts {
        match part["type"].as_str().unwrap_or_default() {
            "text" => {
                let text = part["text"].as_str().filter(|text| !text.is_empty());
                content.extend(text.map(|text| json!({"type": "text", "text": text})));
            }
            "image_url" => {
                let url = part["image_url"].as_str().or_else(|| part["image_url"]["url"].as_str());
                let url = url.ok_or_else(|| Failure::bad("image_url content part is missing a url"))?;
                content.push(json!({"type": "image", "image_urls": [url]}));
            }
            other => return Err(Failure::bad(format!("Unsupported content part type: {other}"))),
        }
    }
    Ok(content)
}

/// Returns the texts of the system's and the developers' messages.
fn instructions(chat: &Value) -> Result<String, Failure> {
    let mut all: Vec<String> = Vec::new();
    for message in chat["messages"].as_array().into_iter().flatten() {
        if !matches!(message["role"].as_str(), Some("system" | "developer")) {
            continue;
        }
        let parts = content(message)?;
        let texts: Vec<&str> = parts.iter().filter_map(|part| part["text"].as_str()).collect();
        all.push(texts.join("\n"));
    }
    all.retain(|text| !text.is_empty());
    Ok(all.join("\n\n"))
}

/// The number of tokens of the whole conversation, over all its models.
fn usage(stored: &Stored) -> Value {
    let stats = stored.stats();
    let each = stats["usage_to_metrics"].as_object().into_iter().flat_map(Map::values);
    let (prompt, completion) = each.fold((0, 0), |(prompt, completion), metrics| {
        let count = |name: &str| metrics["accumulated_token_usage"][name].as_u64().unwrap_or_default();
        (prompt + count("prompt_tokens"), completion + count("completion_tokens"))
    });
    json!({"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion})
}
