//! The named folders that users work in, as a list for clients (`docs/reference/settings.md#workspaces`).

use std::sync::Arc;

use axum::Json;
use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::routing::{get, post};
use serde_json::{Map, Value, json};

use crate::server::App;
use crate::server::http::failure::Failure;
use crate::server::http::request::{self, Params};
use crate::server::http::shape;
use crate::server::live::keep;

const FILE: &str = "workspaces.json";

/// The maximum number of entries of one list.
const ENTRIES_MAX: usize = 1000;

pub(in crate::server) fn routes() -> Router<Arc<App>> {
    Router::new()
        .route("/", get(list).post(add).delete(remove))
        .route("/parents", post(add_parents).delete(remove_parent))
}

fn shown(members: &Map<String, Value>) -> Json<Value> {
    let list = |name: &str| members.get(name).cloned().unwrap_or_else(|| json!([]));
    Json(json!({"workspaces": list("workspaces"), "workspaceParents": list("workspace_parents")}))
}

async fn list(State(app): State<Arc<App>>) -> Result<Json<Value>, Failure> {
    Ok(shown(&keep::read(&app, FILE).await?))
}

async fn add(State(app): State<Arc<App>>, body: Bytes) -> Result<Json<Value>, Failure> {
    append(&app, &body, "workspaces", "workspaces").await
}

async fn add_parents(State(app): State<Arc<App>>, body: Bytes) -> Result<Json<Value>, Failure> {
    append(&app, &body, "parents", "workspace_parents").await
}

/// Appends the entries whose path is not yet in the list.
async fn append(
    app: &Arc<App>,
    body: &Bytes,
    member: &'static str,
    kept: &'static str,
) -> Result<Json<Value>, Failure> {
    let form = if member == "parents" { "AddWorkspaceParentsRequest" } else { "AddWorkspacesRequest" };
    let mut body = Value::Object(request::object(body)?);
    shape::check(form, &mut body, &["body"])?;
    shape::complete(form, &mut body);
    let entries = body[member].as_array().cloned().unwrap_or_default();
    keep::change(app, FILE, move |members| {
        let list = members.entry(kept).or_insert_with(|| json!([]));
        let list = list.as_array_mut().ok_or_else(|| Failure::conflict("Workspaces file is corrupted"))?;
        for entry in entries {
            if !list.iter().any(|known| known.get("path") == entry.get("path")) {
                list.push(entry);
            }
        }
        if list.len() > ENTRIES_MAX {
            return Err(Failure::unprocessable(format!("a list can have at most {ENTRIES_MAX} entries")));
        }
        Ok(shown(members))
    })
    .await
}

async fn remove(State(app): State<Arc<App>>, params: Params) -> Result<Json<Value>, Failure> {
    take(&app, &params, "workspaces", "Workspace not found").await
}

async fn remove_parent(State(app): State<Arc<App>>, params: Params) -> Result<Json<Value>, Failure> {
    take(&app, &params, "workspace_parents", "Workspace parent not found").await
}

/// Removes the entry with the path of the request.
async fn take(
    app: &Arc<App>,
    params: &Params,
    kept: &'static str,
    missing: &str,
) -> Result<Json<Value>, Failure> {
    let path = params.required("path")?.to_owned();
    let deleted = keep::change(app, FILE, move |members| {
        let Some(list) = members.get_mut(kept).and_then(Value::as_array_mut) else { return Ok(false) };
        let before = list.len();
        list.retain(|entry| entry.get("path").and_then(Value::as_str) != Some(&path));
        Ok(list.len() < before)
    });
    if deleted.await? { Ok(Json(json!({"deleted": true}))) } else { Err(Failure::not_found(missing)) }
}
