//! Routes for the reference's browser application, answered as by a server without these features: no extensions, no
//! editor, no subscription, no code host's token.

use std::sync::Arc;

use axum::extract::Path;
use axum::http::StatusCode;
use axum::routing::{get, post};
use axum::{Json, Router};
use serde_json::{Value, json};

use crate::server::App;
use crate::server::http::failure::{Failure, Problem};
use crate::server::http::request::Params;

/// The code hosts whose repositories clients may search.
const HOSTS: &[(&str, ())] = &[
    ("github", ()),
    ("gitlab", ()),
    ("bitbucket", ()),
    ("bitbucket_data_center", ()),
    ("azure_devops", ()),
    ("forgejo", ()),
];

pub(in crate::server) fn routes() -> Router<Arc<App>> {
    Router::new()
        .route("/canvas-extensions/installed", get(extensions))
        .route(
            "/canvas-extensions/installed/{extension_name}",
            get(no_extension).patch(no_extension).delete(no_extension),
        )
        .route("/canvas-extensions/installed/{extension_name}/backend", get(no_backend))
        .route("/canvas-extensions/installed/{extension_name}/bundle", get(no_bundle))
        .route("/canvas-extensions/installed/{extension_name}/icon", get(no_icon))
        .route("/vscode/url", get(editor))
        .route("/vscode/status", get(editor_status))
        .route("/conversations/{conversation_id}/vscode/url", get(editor))
        .route("/conversations/{conversation_id}/vscode/status", get(editor_status))
        .route("/llm/subscription/openai/status", get(subscription))
        .route("/llm/subscription/openai/logout", post(subscription))
        .route("/llm/subscription/openai/models", get(subscription_models))
        .route("/git/repositories/search", get(repositories))
}

async fn extensions() -> Json<Value> {
    Json(json!({"canvas_extensions": []}))
}

async fn no_extension(Path(name): Path<String>) -> Failure {
    Failure::not_found(format!("Canvas extension '{name}' is not installed"))
}

async fn no_backend(Path(name): Path<String>) -> Json<Value> {
    Json(json!({
        "name": name, "state": "missing", "revision": null, "prepared_revision": null, "pid": null, "port": null,
        "detail": "Canvas App is not installed or its manifest is invalid",
    }))
}

async fn no_bundle(Path(name): Path<String>) -> Failure {
    Failure::not_found(format!("Canvas extension '{name}' bundle not found"))
}

async fn no_icon(Path(name): Path<String>) -> Failure {
    Failure::not_found(format!("Canvas extension '{name}' icon not found"))
}

async fn editor() -> Json<Value> {
    Json(json!({"url": null}))
}

async fn editor_status() -> Json<Value> {
    Json(json!({"running": false, "enabled": false}))
}

async fn subscription() -> Json<Value> {
    Json(json!({"vendor": "openai", "connected": false, "account_email": null, "expires_at": null}))
}

async fn subscription_models() -> Json<Value> {
    Json(json!({"vendor": "openai", "models": []}))
}

async fn repositories(params: Params) -> Result<(StatusCode, Json<Value>), Failure> {
    if params.word("provider", HOSTS)?.is_none() {
        return Err(Problem::new("missing", &["query", "provider"], "Field required").into());
    }
    Ok((StatusCode::OK, Json(json!({"items": [], "next_page_id": null, "missing_token": true}))))
}
