//! The routes of the named secrets that every conversation can look up.

use std::sync::Arc;

use axum::body::Bytes;
use axum::extract::{Path, State};
use axum::http::header;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use serde_json::{Value, json};

use super::agent_profiles;
use crate::secret::{REDACTED, Secret};
use crate::server::App;
use crate::server::http::failure::Failure;
use crate::server::http::request::{self, Params};
use crate::server::live::keep;
use crate::server::live::secrets::{FILE, SECRETS, check_name, stored, value_of};

pub(super) fn routes() -> Router<Arc<App>> {
    Router::new().route("/secrets", get(list).put(put)).route("/secrets/{name}", get(value).delete(delete))
}

async fn list(State(app): State<Arc<App>>, params: Params) -> Result<Json<Value>, Failure> {
    let profile = match params.get("agent_profile_id") {
        Some(id) => {
            let profile = agent_profiles::by_id(&app, id).await;
            Some(profile.map_err(|_| Failure::not_found("Agent profile not found"))?)
        }
        None => None,
    };
    let allowed = profile.as_ref().and_then(|profile| profile.get("secret_refs")?.as_array());
    let members = keep::read(&app, FILE).await?;
    let secrets: Vec<Value> = stored(&members)
        .into_iter()
        .flatten()
        .filter(|(name, _)| allowed.is_none_or(|allowed| allowed.contains(&json!(name))))
        .map(|(name, secret)| json!({"name": name, "description": secret.get("description")}))
        .collect();
    Ok(Json(json!({ "secrets": secrets })))
}

async fn value(State(app): State<Arc<App>>, Path(name): Path<String>) -> Result<Response, Failure> {
    check_name(&name)?;
    let members = keep::read(&app, FILE).await?;
    let value = value_of(&members, &name, app.config().cipher.as_ref());
    let value = value.ok_or_else(|| Failure::not_found("Secret not found"))?;
    Ok(([(header::CONTENT_TYPE, "text/plain; charset=utf-8")], value).into_response())
}

async fn put(State(app): State<Arc<App>>, body: Bytes) -> Result<Json<Value>, Failure> {
    let members = request::object(&body)?;
    let name = request::required(&members, "name")?.to_owned();
    let value = request::required(&members, "value")?;
    let description = request::text(&members, "description")?.map(str::to_owned);
    check_name(&name)?;
    let secret = Secret::new(value).filter(|_| !value.trim().is_empty() && value != REDACTED);
    let secret =
        secret.ok_or_else(|| Failure::unprocessable("Secret value must not be empty or redacted"))?;
    let kept = match &app.config().cipher {
        Some(cipher) => cipher.seal(&secret),
        None => secret.expose().to_owned(),
    };
    let answer = json!({"name": name, "description": description});
    keep::change(&app, FILE, move |members| {
        let secrets = members.entry(SECRETS).or_insert_with(|| json!({}));
        let secrets =
            secrets.as_object_mut().ok_or_else(|| Failure::internal("the secrets cannot be read"))?;
        let secret = json!({"name": name, "secret": kept, "description": description});
        secrets.insert(name, secret);
        Ok(())
    })
    .await?;
    Ok(Json(answer))
}

async fn delete(State(app): State<Arc<App>>, Path(name): Path<String>) -> Result<Json<Value>, Failure> {
    check_name(&name)?;
    keep::change(&app, FILE, move |members| {
        let secrets = members.get_mut(SECRETS).and_then(Value::as_object_mut);
        let removed = secrets.and_then(|secrets| secrets.remove(&name));
        removed.map(|_| ()).ok_or_else(|| Failure::not_found("Secret not found"))
    })
    .await?;
    Ok(Json(json!({"deleted": true})))
}
