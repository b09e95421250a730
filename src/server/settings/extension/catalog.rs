//! Lists tools, models, and the hooks of a workspace (`docs/reference/settings.md#tools-models-and-hooks`).

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use axum::body::Bytes;
use axum::extract::State;
use axum::routing::{get, post};
use axum::{Json, Router};
use serde_json::{Value, json};

use crate::hook;
use crate::llm::Models;
use crate::server::App;
use crate::server::http::failure::Failure;
use crate::server::http::request::{self, Params};
use crate::server::http::shape;
use crate::untrusted;

/// The largest file of hooks, in bytes.
const HOOKS_BYTES_MAX: u64 = 1 << 20;

/// The tools that every agent has. Users cannot select them.
const BUILT_IN: [&str; 2] = ["finish", "think"];

pub(in crate::server) fn tools() -> Router<Arc<App>> {
    // The reference's own path ends in a slash.
    Router::new()
        .route("/tools", get(names))
        .route("/tools/", get(names))
        .route("/tools/catalog", get(catalog))
}

pub(in crate::server) fn models() -> Router<Arc<App>> {
    Router::new()
        .route("/providers", get(providers))
        .route("/models", get(model_names))
        .route("/models/verified", get(verified))
}

pub(in crate::server) fn hooks() -> Router<Arc<App>> {
    Router::new().route("/", post(hooks_of))
}

/// Returns the names of the tools that agents may be given.
pub(in crate::server) fn usable(app: &App) -> Vec<String> {
    app.sessions().opening.registry.names().map(str::to_owned).collect()
}

async fn names(State(app): State<Arc<App>>) -> Json<Vec<String>> {
    let mut names = usable(&app);
    names.sort();
    Json(names)
}

async fn catalog(State(app): State<Arc<App>>) -> Json<Value> {
    let tools: Vec<Value> = usable(&app)
        .into_iter()
        .map(|name| {
            let is_built_in = BUILT_IN.contains(&name.as_str());
            json!({
                "name": name, "user_selectable": !is_built_in, "usable": true, "description": "",
                "in_default_set": is_built_in,
            })
        })
        .collect();
    Json(json!({ "tools": tools }))
}

async fn providers() -> Json<Value> {
    let mut providers: Vec<String> =
        Models::default().list().into_iter().map(|(provider, _)| provider).collect();
    providers.sort_unstable();
    providers.dedup();
    Json(json!({ "providers": providers }))
}

async fn model_names(params: Params) -> Json<Value> {
    let provider = params.get("provider").filter(|provider| !provider.is_empty());
    let models = Models::default().list().into_iter();
    let models = models.filter(|(of, _)| provider.is_none_or(|wanted| wanted == of)).map(|(_, model)| model);
    let mut models: Vec<String> = models.collect();
    models.sort_unstable();
    Json(json!({ "models": models }))
}

/// Lists the models by provider. All models that are known here count as verified.
async fn verified() -> Json<Value> {
    let mut models: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (provider, model) in Models::default().list() {
        let own = model.strip_prefix(&format!("{provider}/")).map(str::to_owned).unwrap_or(model);
        models.entry(provider).or_default().push(own);
    }
    Json(json!({ "models": models }))
}

/// Returns the hooks of a workspace's file. Null if there is no file, or if it cannot be read.
async fn hooks_of(body: Bytes) -> Result<Json<Value>, Failure> {
    let mut members = Value::Object(request::object(&body)?);
    shape::check("HooksRequest", &mut members, &["body"])?;
    let config = match members.get("project_dir").and_then(Value::as_str) {
        Some(folder) if !folder.is_empty() => read_hooks(Path::new(folder)).await,
        Some(_) | None => None,
    };
    Ok(Json(json!({ "hook_config": config })))
}

async fn read_hooks(folder: &Path) -> Option<Value> {
    let path = folder.join(".openhands").join("hooks.json");
    let text = tokio::task::spawn_blocking(move || untrusted::read_text(&path, HOOKS_BYTES_MAX)).await;
    let config = hook::Config::parse(&text.ok()?.ok()?).ok()?;
    // A file without hooks counts as no file.
    serde_json::from_str(&config.to_json()).ok().filter(|_| !config.is_empty())
}
