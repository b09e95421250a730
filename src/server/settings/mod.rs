//! Settings and named secrets that apply to all conversations (`docs/reference/settings.md#settings`), and everything
//! else that a person sets up before a conversation.
//!
//! The room holds the profiles of models and agents, connections to providers, the list of workspaces, and the
//! extensions that agents can use (`extension`). `launch` makes the agent of a new conversation from them. The files
//! are shared with the reference. The room names `live` and what is above it; it does not know the routes of
//! conversations.

pub(super) mod agent_profiles;
pub(super) mod connections;
mod document;
pub(super) mod extension;
pub(super) mod launch;
pub(super) mod meta_profiles;
mod named;
pub(super) mod profiles;
mod secrets;
mod servers;
pub(super) mod tries;
pub(super) mod workspaces;

use std::sync::{Arc, LazyLock};

use axum::body::Bytes;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::routing::get;
use axum::{Json, Router};
use serde_json::Value;

pub(super) use document::Document;

use super::App;
use crate::server::http::exposure::Exposure;
use crate::server::http::failure::Failure;
use crate::server::http::request;
use crate::server::http::shape;

pub(super) fn routes() -> Router<Arc<App>> {
    Router::new()
        .route("/", get(read).patch(change))
        .route("/agent-schema", get(agent_form))
        .route("/conversation-schema", get(conversation_form))
        .merge(servers::routes())
        .merge(secrets::routes())
}

async fn read(State(app): State<Arc<App>>, headers: HeaderMap) -> Result<Json<Value>, Failure> {
    let exposure = Exposure::of(&headers, app.config().cipher.as_ref())?;
    Ok(Json(Document::load(&app).await?.to_json(exposure)))
}

async fn change(
    State(app): State<Arc<App>>,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Json<Value>, Failure> {
    // The response to a change never contains secrets. An invalid header is rejected all the same.
    let _checked = Exposure::of(&headers, app.config().cipher.as_ref())?;
    let mut members = Value::Object(request::object(&body)?);
    shape::check("SettingsUpdateRequest", &mut members, &["body"])?;
    let parts = [
        ("agent_settings_diff", "agent_settings"),
        ("conversation_settings_diff", "conversation_settings"),
        ("misc_settings_diff", "misc_settings"),
    ];
    let diffs: Vec<(&'static str, Value)> = parts
        .into_iter()
        .filter_map(|(diff, part)| Some((part, members.get(diff).filter(|diff| !diff.is_null())?.clone())))
        .collect();
    let pointers = ["active_profile", "active_agent_profile_id", "active_meta_profile"];
    let pointers: Vec<(&'static str, Value)> =
        pointers.into_iter().filter_map(|name| Some((name, members.get(name)?.clone()))).collect();
    if diffs.is_empty() && pointers.is_empty() {
        return Err(Failure::bad(
            "At least one of agent_settings_diff, conversation_settings_diff, misc_settings_diff, \
             active_profile, active_agent_profile_id, or active_meta_profile must be provided",
        ));
    }
    let named = |wanted: &str| {
        pointers.iter().find_map(|(name, value)| if *name == wanted { value.as_str() } else { None })
    };
    if let Some(id) = named("active_agent_profile_id") {
        agent_profiles::check_known(&app, id).await?;
    }
    if let Some(name) = named("active_meta_profile") {
        meta_profiles::load(&app, name).await?;
    }
    // The model of the named profile is used, unless the request contains one.
    let has_llm = diffs.iter().any(|(part, diff)| *part == "agent_settings" && diff.get("llm").is_some());
    let llm = match named("active_profile").filter(|_| !has_llm) {
        Some(profile) => {
            let settings = app.profiles()?.load(profile, app.config().cipher.as_ref());
            let settings = settings.map_err(profiles::refused)?;
            let llm: Value = serde_json::from_str(&settings.to_plain_json()).unwrap_or_default();
            Some((profile.to_owned(), llm))
        }
        None => None,
    };
    let document = Document::change(&app, move |document| {
        for (name, value) in &pointers {
            document.point(name, value);
        }
        if let Some((profile, llm)) = llm {
            document.activate(&profile, llm)?;
        }
        diffs.iter().try_for_each(|(part, diff)| document.merge(part, diff))
    });
    Ok(Json(document.await?.to_json(Exposure::Hidden)))
}

/// The reference's descriptions of the forms in which a client shows the settings.
static FORMS: LazyLock<Value> = LazyLock::new(|| {
    serde_json::from_str(include_str!("forms.json")).expect("the forms are JSON: a test reads them")
});

async fn agent_form() -> Json<Value> {
    Json(FORMS["agent"].clone())
}

async fn conversation_form() -> Json<Value> {
    Json(FORMS["conversation"].clone())
}
