//! Tests a model or an MCP server before it is stored.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Bytes;
use axum::extract::{Path, State};
use axum::routing::post;
use axum::{Json, Router};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::launch;
use super::named::check_name;
use crate::event::{Content, Message, Role};
use crate::llm::{Call, LlmError, Request, Settings};
use crate::secret::without_credentials;
use crate::server::App;
use crate::server::http::failure::{Failure, Problem};
use crate::server::http::request;
use crate::server::http::shape;
use crate::server::live::keep;
use crate::tool::mcp::{ProblemKind, ServerConfig, Servers};

/// How long a model may take to reply, in seconds. It is the reference's limit.
const MODEL_SECONDS: u64 = 15;

/// How long a server may take, in seconds: the default, and the maximum. They are the reference's limits.
const SERVER_SECONDS: f64 = 15.0;
const SERVER_SECONDS_MAX: f64 = 120.0;

pub(in crate::server) fn routes() -> Router<Arc<App>> {
    Router::new().route("/profiles/{name}/validate", post(model)).route("/mcp/test", post(server))
}

/// Asks a model for one token. A temporary error does not make the model invalid.
async fn model(
    State(app): State<Arc<App>>,
    Path(name): Path<String>,
    body: Bytes,
) -> Result<Json<Value>, Failure> {
    check_name(&name, &["path", "name"])?;
    let mut members = Value::Object(request::object(&body)?);
    shape::check("SaveProfileRequest", &mut members, &["body"])?;
    launch::check_llm(&members["llm"], &["body", "llm"])?;
    let settings = Settings::parse(&members["llm"].to_string());
    let mut settings = settings.map_err(|error| Failure::unprocessable(error.to_string()))?;
    if let Some(cipher) = &app.config().cipher {
        settings.open(cipher);
    }
    let (profiles, cipher) = (app.profiles()?, app.config().cipher.clone());
    let connected = keep::blocking(move || {
        profiles.connected(settings, cipher.as_ref()).map_err(super::profiles::refused)
    });
    let mut settings = connected.await?;
    settings.num_retries = 0;
    settings.stream = false;
    settings.timeout = Some(settings.timeout.unwrap_or(MODEL_SECONDS).min(MODEL_SECONDS));
    settings.max_output_tokens = settings.max_output_tokens.or(Some(16));
    let asked = async {
        let model = app.sessions().opening.model(&settings)?;
        let message = |role, text: &str| Message::new(role, vec![Content::text(text)]);
        let messages = vec![message(Role::System, "Reply with one token."), message(Role::User, "ping")];
        model.complete(Request::new(messages), Call::new(&CancellationToken::new())).await.map(|_| ())
    };
    Ok(Json(match asked.await {
        Ok(()) | Err(LlmError::RateLimit(_) | LlmError::Timeout(_) | LlmError::NoResponse(_)) => {
            json!({"valid": true, "error": null})
        }
        Err(error) => {
            let message = without_credentials(&error.to_string());
            json!({"valid": false, "error": {"type": error.code(), "message": message}})
        }
    }))
}

/// Starts a server, lists its tools and stops it.
async fn server(State(app): State<Arc<App>>, body: Bytes) -> Result<Json<Value>, Failure> {
    let members = request::object(&body)?;
    let name = request::text(&members, "name")?.unwrap_or("test-server").to_owned();
    let mut server = members
        .get("server")
        .cloned()
        .ok_or_else(|| Problem::new("missing", &["body", "server"], "Field required"))?;
    // The member that the transport was given as.
    let mut given = "transport";
    if let Some(server) = server.as_object_mut() {
        server.retain(|_, value| !value.is_null());
        // Only this request has the member `type`. It is the transport, unless that is given as well. `shttp` is another
        // name for `http`.
        if let Some(kind) = server.remove("type") {
            if !server.contains_key("transport") {
                given = "type";
            }
            server.entry("transport").or_insert(if kind == "shttp" { json!("http") } else { kind });
        }
        if let Some(key) = server.remove("api_key").filter(|key| key.is_string()) {
            server.entry("auth").or_insert_with(|| json!({"strategy": "bearer", "value": key}));
        }
    }
    shape::check("MCPServer", &mut server, &["body", "server"]).map_err(|failure| named(failure, given))?;
    let seconds = match members.get("timeout").filter(|seconds| !seconds.is_null()) {
        None => SERVER_SECONDS,
        Some(seconds) => seconds
            .as_f64()
            .filter(|seconds| *seconds > 0.0 && *seconds <= SERVER_SECONDS_MAX)
            .ok_or_else(|| {
                Problem::new(
                    "less_than_equal",
                    &["body", "timeout"],
                    "Input should be less than or equal to 120",
                )
            })?,
    };
    let mut opened = json!({ "mcp_config": { name.clone(): server } });
    if let Some(cipher) = &app.config().cipher {
        opened = crate::secret::document::value(&opened, crate::secret::Form::Open(cipher));
    }
    let text = opened["mcp_config"][&name].to_string();
    let failed =
        |error: String, kind: &str| Ok(Json(json!({"ok": false, "error": error, "error_kind": kind})));
    let read = crate::json::Raw::parse(&text).ok().and_then(|raw| ServerConfig::read_one(&name, raw, None));
    let config = match read {
        Some(Ok(config)) => config,
        Some(Err(problem)) => return failed(problem.reason(), "unknown"),
        None => return failed("the server is switched off".to_owned(), "unknown"),
    };
    let folder = app.config().workspace_dir.clone().unwrap_or_else(|| PathBuf::from("."));
    let started = Servers::start(vec![config], &folder);
    let Ok((servers, problems)) = tokio::time::timeout(Duration::from_secs_f64(seconds), started).await
    else {
        return failed(format!("no answer within {seconds} seconds"), "timeout");
    };
    let tools: Vec<String> = servers.tools().iter().map(|tool| tool.name().to_owned()).collect();
    servers.close().await;
    match problems.into_iter().next() {
        None => Ok(Json(json!({
            "ok": true, "tools": tools, "tool_result": null, "resolved_mcp_servers": null, "oauth_state": null,
        }))),
        Some(problem) => {
            let kind = if problem.kind == ProblemKind::TimedOut { "timeout" } else { "connection" };
            failed(problem.reason(), kind)
        }
    }
}

/// Returns the failure with the transport's problems at the member that the transport was given as.
fn named(failure: Failure, given: &str) -> Failure {
    match failure {
        Failure::Schema(mut problems) => {
            for step in problems.iter_mut().filter_map(|problem| problem.place.get_mut(2)) {
                if *step == "transport" {
                    *step = given.into();
                }
            }
            Failure::Schema(problems)
        }
        other => other,
    }
}
