//! Meta-profiles: named choices between models (`docs/reference/settings.md#meta-profiles`). The files are shared with
//! the reference. They are stored for clients; no tool here uses them to choose a model.

use std::sync::Arc;

use axum::body::Bytes;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use serde_json::{Value, json};

use super::Document;
use super::named::{Named, check_name};
use crate::server::App;
use crate::server::http::failure::Failure;
use crate::server::http::request;
use crate::server::http::shape;
use crate::server::live::keep::blocking;

/// The maximum number of meta-profiles; the reference's number.
const PROFILES_MAX: usize = 50;

pub(in crate::server) fn routes() -> Router<Arc<App>> {
    Router::new()
        .route("/", get(list))
        .route("/{name}", get(one).post(save).delete(delete))
        .route("/{name}/activate", post(activate))
}

fn store(app: &App) -> Named {
    Named::new(app.config().settings_dir.join("meta-profiles"), ".meta-profiles.lock", "Meta-profile")
}

/// Returns the meta-profile with the given name.
///
/// # Errors
/// 404 if there is none.
pub(super) async fn load(app: &App, name: &str) -> Result<Value, Failure> {
    let (store, known) = (store(app), name.to_owned());
    let found = blocking(move || store.read(&known)).await?;
    let mut found = found
        .map(Value::Object)
        .ok_or_else(|| Failure::not_found(format!("Meta-profile '{name}' not found")))?;
    shape::complete("MetaProfile", &mut found);
    Ok(found)
}

async fn list(State(app): State<Arc<App>>) -> Result<Json<Value>, Failure> {
    let store = store(&app);
    let all = blocking(move || store.all()).await?;
    let all: Vec<Value> = all
        .into_iter()
        .map(|(name, profile)| {
            let classes = profile.get("classes").and_then(Value::as_array).map_or(0, Vec::len);
            json!({"name": name, "classifier_model": profile.get("classifier_model"), "num_classes": classes})
        })
        .collect();
    let active = Document::load(&app).await?.pointer("active_meta_profile").map(str::to_owned);
    Ok(Json(json!({"meta_profiles": all, "active_meta_profile": active})))
}

async fn one(State(app): State<Arc<App>>, Path(name): Path<String>) -> Result<Json<Value>, Failure> {
    check_name(&name, &["path", "name"])?;
    Ok(Json(json!({"name": name, "config": load(&app, &name).await?})))
}

async fn save(
    State(app): State<Arc<App>>,
    Path(name): Path<String>,
    body: Bytes,
) -> Result<Response, Failure> {
    check_name(&name, &["path", "name"])?;
    let mut profile = Value::Object(request::object(&body)?);
    shape::check("MetaProfile", &mut profile, &["body"])?;
    shape::complete("MetaProfile", &mut profile);
    let (store, known) = (store(&app), name.clone());
    blocking(move || match &profile {
        Value::Object(members) => store.write(&store.hold()?, &known, members, PROFILES_MAX),
        _ => Ok(()),
    })
    .await?;
    let answer = json!({"name": name, "message": format!("Meta-profile '{name}' saved")});
    Ok((StatusCode::CREATED, Json(answer)).into_response())
}

async fn delete(State(app): State<Arc<App>>, Path(name): Path<String>) -> Result<Json<Value>, Failure> {
    check_name(&name, &["path", "name"])?;
    let (store, known) = (store(&app), name.clone());
    blocking(move || store.remove(&store.hold()?, &known)).await?;
    let gone = name.clone();
    Document::change(&app, move |document| {
        if document.pointer("active_meta_profile") == Some(&gone) {
            document.point("active_meta_profile", &Value::Null);
        }
        Ok(())
    })
    .await?;
    Ok(Json(json!({"name": name, "message": format!("Meta-profile '{name}' deleted")})))
}

async fn activate(State(app): State<Arc<App>>, Path(name): Path<String>) -> Result<Json<Value>, Failure> {
    check_name(&name, &["path", "name"])?;
    load(&app, &name).await?;
    let pointer = json!(name);
    Document::change(&app, move |document| {
        document.point("active_meta_profile", &pointer);
        Ok(())
    })
    .await?;
    Ok(Json(json!({"name": name, "message": format!("Meta-profile '{name}' activated"), "applied": true})))
}
