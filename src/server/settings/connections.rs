//! Provider connections: keys that several model profiles share. Their file is shared with the reference
//! (`docs/reference/settings.md#connections`).

use std::sync::Arc;

use crate::ids::Timestamp;
use axum::body::Bytes;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, patch};
use axum::{Json, Router};
use serde_json::{Map, Value, json};

use super::Document;
use crate::llm::profiles::Profiles;
use crate::secret::{Cipher, REDACTED, StoredSecret};
use crate::server::App;
use crate::server::http::failure::{Failure, Problem};
use crate::server::http::request;
use crate::server::http::shape;
use crate::server::live::keep;

/// The path of the file, below the settings folder.
const FILE: &str = "provider-connections/provider_connections.json";

/// The lock of the file, held during each change. The reference uses the same lock.
const LOCK: &str = ".provider-connections.lock";

/// The maximum number of connections, the same as the reference's.
const CONNECTIONS_MAX: usize = 64;

pub(in crate::server) fn routes() -> Router<Arc<App>> {
    Router::new()
        .route("/provider-connections", get(list).post(add))
        .route("/provider-connections/{connection_id}", patch(change).delete(remove))
}

/// Returns a connection as clients see it, without its key.
fn shown(connection: &Value) -> Value {
    let member = |name: &str| connection.get(name).cloned().unwrap_or_default();
    let key = connection.get("api_key").and_then(Value::as_str);
    json!({
        "id": member("id"), "display_name": member("display_name"), "provider": member("provider"),
        "base_url": member("base_url"), "created_at": member("created_at"), "updated_at": member("updated_at"),
        "api_key_set": key.is_some_and(|key| !matches!(StoredSecret::read(key, None), StoredSecret::Lost)),
    })
}

fn all(members: &mut Map<String, Value>) -> Result<&mut Vec<Value>, Failure> {
    members.entry("schema_version").or_insert_with(|| json!(1));
    let all = members.entry("connections").or_insert_with(|| json!([]));
    all.as_array_mut().ok_or_else(|| Failure::conflict("the file of provider connections is corrupted"))
}

/// Returns the key as the file stores it.
fn sealed(key: &str, cipher: Option<&Cipher>) -> Value {
    match cipher {
        Some(cipher) => {
            StoredSecret::read(key, None).stored(Some(cipher)).map_or_else(|| key.into(), Value::from)
        }
        None => key.into(),
    }
}

/// Checks that the key, if there is one, can be used.
fn check_key(body: &Value) -> Result<(), Failure> {
    match body.get("api_key").and_then(Value::as_str) {
        Some(key) if key.trim().is_empty() || key == REDACTED => {
            let message = "Value error, api_key must be a real key, not blank or redacted";
            Err(Problem::new("value_error", &["body", "api_key"], message).into())
        }
        Some(_) | None => Ok(()),
    }
}

fn missing(id: &str) -> Failure {
    Failure::not_found(format!("Provider connection '{id}' not found"))
}

async fn list(State(app): State<Arc<App>>) -> Result<Json<Value>, Failure> {
    let mut members = keep::read(&app, FILE).await?;
    Ok(Json(all(&mut members)?.iter().map(shown).collect()))
}

async fn add(State(app): State<Arc<App>>, body: Bytes) -> Result<Response, Failure> {
    let mut body = Value::Object(request::object(&body)?);
    shape::check("ProviderConnectionCreateRequest", &mut body, &["body"])?;
    shape::complete("ProviderConnectionCreateRequest", &mut body);
    check_key(&body)?;
    let cipher = app.config().cipher.clone();
    let made = keep::change_under(&app, FILE, LOCK.to_owned(), move |members| {
        let all = all(members)?;
        if all.len() >= CONNECTIONS_MAX {
            return Err(Failure::conflict(format!(
                "Provider connection limit reached ({CONNECTIONS_MAX}). Delete one before adding another."
            )));
        }
        let now = Timestamp::now().to_utc().timestamp();
        let key = body["api_key"].as_str().unwrap_or_default();
        let connection = json!({
            "id": uuid::Uuid::new_v4().simple().to_string(), "display_name": body["display_name"],
            "provider": body["provider"], "api_key": sealed(key, cipher.as_ref()), "base_url": body["base_url"],
            "created_at": now, "updated_at": now,
        });
        all.push(connection.clone());
        Ok(shown(&connection))
    });
    Ok((StatusCode::CREATED, Json(made.await?)).into_response())
}

async fn change(
    State(app): State<Arc<App>>,
    Path(id): Path<String>,
    body: Bytes,
) -> Result<Json<Value>, Failure> {
    let mut body = Value::Object(request::object(&body)?);
    shape::check("ProviderConnectionUpdateRequest", &mut body, &["body"])?;
    check_key(&body)?;
    for name in ["display_name", "provider"] {
        if body.get(name).is_some_and(Value::is_null) {
            let message = format!("Value error, {name} cannot be set to null");
            return Err(Problem::new("value_error", &["body"], message).into());
        }
    }
    if body.as_object().is_none_or(Map::is_empty) {
        return Err(Failure::unprocessable("Provide at least one provider connection field to update"));
    }
    let cipher = app.config().cipher.clone();
    let changed = keep::change_under(&app, FILE, LOCK.to_owned(), move |members| {
        let connection = all(members)?.iter_mut().find(|known| known.get("id") == Some(&json!(id)));
        let connection = connection.ok_or_else(|| missing(&id))?;
        if body.get("api_key").is_some_and(Value::is_null) {
            return Err(Failure::unprocessable("api_key cannot be cleared; provide a new key to rotate it"));
        }
        for name in ["display_name", "provider", "base_url"] {
            if let Some(value) = body.get(name) {
                connection[name] = value.clone();
            }
        }
        if let Some(key) = body.get("api_key").and_then(Value::as_str) {
            connection["api_key"] = sealed(key, cipher.as_ref());
        }
        connection["updated_at"] = json!(Timestamp::now().to_utc().timestamp());
        Ok(shown(connection))
    });
    Ok(Json(changed.await?))
}

async fn remove(State(app): State<Arc<App>>, Path(id): Path<String>) -> Result<Json<Value>, Failure> {
    let mut members = keep::read(&app, FILE).await?;
    if !all(&mut members)?.iter().any(|known| known.get("id") == Some(&json!(id))) {
        return Err(missing(&id));
    }
    let profiles = app.with_profiles(Profiles::summaries).await?;
    let users: Vec<String> = profiles
        .into_iter()
        .filter(|profile| profile.provider_connection_id.as_deref() == Some(&id))
        .map(|profile| profile.name)
        .collect();
    let settings = Document::load(&app).await?;
    let is_active = settings.agent_settings().pointer("/llm/provider_connection_id") == Some(&json!(id));
    let mut reasons = Vec::new();
    if !users.is_empty() {
        reasons.push(format!("referenced by LLM profile(s): {}", users.join(", ")));
    }
    if is_active {
        reasons.push("referenced by the active agent settings".to_owned());
    }
    if !reasons.is_empty() {
        return Err(Failure::conflict(format!(
            "Provider connection cannot be deleted while it is {}. Update those references before deleting it.",
            reasons.join(" and ")
        )));
    }
    let removed = keep::change_under(&app, FILE, LOCK.to_owned(), move |members| {
        let all = all(members)?;
        let at =
            all.iter().position(|known| known.get("id") == Some(&json!(id))).ok_or_else(|| missing(&id))?;
        let mut removed = shown(&all.remove(at));
        removed["api_key_set"] = false.into();
        Ok(removed)
    });
    Ok(Json(removed.await?))
}
