//! Routes that change one MCP server of the settings (`docs/reference/settings.md#mcp-servers`).

use std::sync::Arc;

use axum::body::Bytes;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use axum::{Json, Router};
use serde_json::{Value, json};

use super::Document;
use crate::server::App;
use crate::server::http::exposure::Exposure;
use crate::server::http::failure::Failure;
use crate::server::http::request;
use crate::server::http::shape;

pub(super) fn routes() -> Router<Arc<App>> {
    Router::new().route("/mcp/{settings_key}", post(add).patch(change).delete(remove))
}

/// Whether a server of that name must exist before the change.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Before {
    Absent,
    Present,
}

async fn add(State(app): State<Arc<App>>, Path(key): Path<String>, body: Bytes) -> Result<Response, Failure> {
    let mut server = Value::Object(request::object(&body)?);
    shape::check("MCPServer", &mut server, &["body"])?;
    let shown = merge(&app, key, server, Before::Absent).await?;
    Ok((StatusCode::CREATED, shown).into_response())
}

async fn change(
    State(app): State<Arc<App>>,
    Path(key): Path<String>,
    body: Bytes,
) -> Result<Json<Value>, Failure> {
    let mut patch = Value::Object(request::object(&body)?);
    shape::check("MCPServerPatch", &mut patch, &["body"])?;
    merge(&app, key, patch, Before::Present).await
}

async fn remove(State(app): State<Arc<App>>, Path(key): Path<String>) -> Result<Json<Value>, Failure> {
    merge(&app, key, Value::Null, Before::Present).await
}

async fn merge(app: &Arc<App>, key: String, diff: Value, before: Before) -> Result<Json<Value>, Failure> {
    let document = Document::change(app, move |document| {
        let exists = document.agent_settings().get("mcp_config").is_some_and(|all| all.get(&key).is_some());
        match before {
            Before::Absent if exists => {
                return Err(Failure::conflict(format!("MCP server '{key}' already exists")));
            }
            Before::Present if !exists => {
                return Err(Failure::not_found(format!("MCP server '{key}' was not found")));
            }
            Before::Absent | Before::Present => {}
        }
        document.merge("agent_settings", &json!({ "mcp_config": { key: diff } }))
    });
    Ok(Json(document.await?.to_json(Exposure::Hidden)))
}
