//! Probes, and information about the server. They need no key (`docs/reference/server.md#probes`).

use std::sync::Arc;

use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use serde_json::{Value, json};

use super::page;
use crate::server::App;
use crate::server::settings::extension::catalog;

/// The version of the reference whose interface this server has.
const SDK_VERSION: &str = "1.58.0";

/// Later additions to the interface that this server supports, in the reference's words.
const CAPABILITIES: [&str; 8] = [
    "conversation_runtime_routes_v1",
    "profile_secret_scope_v1",
    "idempotent_conversation_create_v1",
    "tool_catalog_v1",
    "agent_profile_draft_materialize_v1",
    "agent_launch_pipeline_v1",
    "profile_public_skills_v1",
    "skill_catalog_v1",
];

pub(in crate::server) fn routes() -> Router<Arc<App>> {
    Router::new()
        .route("/health", get(ok))
        .route("/alive", get(ok))
        .route("/ready", get(ready))
        .route("/server_info", get(info))
        .route("/", get(root))
}

async fn ok() -> Json<Value> {
    Json(json!({"status": "ok"}))
}

async fn ready() -> Json<Value> {
    Json(json!({"status": "ready"}))
}

/// Answers a browser with the web page, and every other client with information about the server.
async fn root(state: State<Arc<App>>, headers: HeaderMap) -> Response {
    match page::wanted(&headers) {
        Some(page) => page,
        None => info(state).await.into_response(),
    }
}

async fn info(State(app): State<Arc<App>>) -> Json<Value> {
    // Whole seconds, written as floats, as the reference does.
    let seconds = |since: std::time::Instant| since.elapsed().as_secs_f64().floor();
    Json(json!({
        "uptime": seconds(app.started()),
        "idle_time": seconds(app.last_activity()),
        "title": "Annals",
        "version": SDK_VERSION,
        "annals_version": env!("CARGO_PKG_VERSION"),
        "sdk_version": SDK_VERSION,
        "tools_version": SDK_VERSION,
        "workspace_version": SDK_VERSION,
        "build_git_sha": "unknown",
        "build_git_ref": "unknown",
        "python_version": "",
        "usable_tools": catalog::usable(&app),
        "runtime_idle_timeout_seconds": app.config().runtime_idle_timeout.map(|idle| idle.as_secs()),
        "conversation_runtime": "local",
        "available_conversation_runtimes": [],
        "capabilities": CAPABILITIES,
        "app_backend_ingress_url": null,
        "max_foreground_terminal_timeout_seconds": null,
        "docs": "/docs",
        "redoc": "/docs",
    }))
}
