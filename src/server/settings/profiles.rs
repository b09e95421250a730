//! Named settings of models (`docs/reference/settings.md#model-profiles`). The files are shared with the reference.

use std::sync::Arc;

use axum::body::Bytes;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use serde_json::{Value, json};

use super::launch;
use super::named::{check_name, own};
use crate::llm::Settings;
use crate::llm::profiles::{Keys, ProfileError, Profiles};
use crate::secret::{Form, StoredSecret};
use crate::server::App;
use crate::server::http::exposure::Exposure;
use crate::server::http::failure::{Failure, Problem};
use crate::server::http::request;
use crate::server::http::shape;
use crate::server::settings;

/// The maximum number of profiles; the reference's number.
pub(super) const PROFILES_MAX: usize = 50;

pub(in crate::server) fn routes() -> Router<Arc<App>> {
    Router::new()
        .route("/", get(list))
        .route("/{name}", get(one).post(save).delete(delete))
        .route("/{name}/rename", post(rename))
        .route("/{name}/activate", post(activate))
}

/// Maps an error of the profiles to a status: 4xx if the request caused the error, otherwise 500.
pub(in crate::server) fn refused(error: ProfileError) -> Failure {
    match error {
        ProfileError::NotFound { name, .. } => Failure::not_found(format!("Profile '{name}' not found")),
        ProfileError::Exists(_) | ProfileError::TooMany(_) => Failure::conflict(error.to_string()),
        ProfileError::NoConnection { .. } => Failure::unprocessable(error.to_string()),
        ProfileError::Name(_) | ProfileError::Settings { .. } | ProfileError::Version { .. } => {
            Failure::bad(error.to_string())
        }
        ProfileError::File { .. } | ProfileError::Crowded(_) => Failure::internal(error.to_string()),
    }
}

impl App {
    /// Returns the profiles of this server.
    pub(in crate::server) fn profiles(&self) -> Result<Profiles, Failure> {
        Profiles::open(self.config().profiles_dir()).map_err(refused)
    }

    /// Runs `work` with the profiles, on a thread that may block.
    pub(in crate::server) async fn with_profiles<T: Send + 'static>(
        self: &Arc<Self>,
        work: impl FnOnce(&Profiles) -> Result<T, ProfileError> + Send + 'static,
    ) -> Result<T, Failure> {
        let profiles = self.profiles()?;
        let done = tokio::task::spawn_blocking(move || work(&profiles)).await;
        done.map_err(|_| Failure::internal("a worker ended unexpectedly"))?.map_err(refused)
    }
}

impl App {
    /// Returns whether a profile with the given name exists.
    pub(in crate::server) async fn has_profile(self: &Arc<Self>, name: &str) -> Result<bool, Failure> {
        let known = own(name).to_owned();
        self.with_profiles(move |profiles| Ok(profiles.list()?.contains(&known))).await
    }
}

/// Removes secrets that have no value because it was left out when the profile was stored.
fn without_lost(mut settings: Settings) -> Settings {
    let secrets = [
        &mut settings.api_key,
        &mut settings.aws_access_key_id,
        &mut settings.aws_secret_access_key,
        &mut settings.aws_session_token,
    ];
    for secret in secrets {
        if *secret == Some(StoredSecret::Lost) {
            *secret = None;
        }
    }
    settings
}

async fn list(State(app): State<Arc<App>>) -> Result<Json<Value>, Failure> {
    let profiles = app.with_profiles(Profiles::summaries).await?;
    let profiles: Vec<Value> = profiles
        .into_iter()
        .map(|profile| {
            json!({
                "name": profile.name, "model": profile.model, "base_url": profile.base_url,
                "provider_connection_id": profile.provider_connection_id,
                "provider_connection_broken": profile.provider_connection_broken,
                "api_key_set": profile.api_key_set,
            })
        })
        .collect();
    let active = settings::Document::load(&app).await?.active_profile();
    Ok(Json(json!({"profiles": profiles, "active_profile": active})))
}

async fn one(
    State(app): State<Arc<App>>,
    Path(name): Path<String>,
    headers: HeaderMap,
) -> Result<Json<Value>, Failure> {
    check_name(&name, &["path", "name"])?;
    let exposure = Exposure::of(&headers, app.config().cipher.as_ref())?;
    let (known, cipher) = (name.clone(), app.config().cipher.clone());
    let settings = app.with_profiles(move |profiles| profiles.load(&known, cipher.as_ref())).await?;
    let settings = without_lost(settings);
    let text = match exposure.form(Form::Redacted) {
        Some(form) => settings.to_json(form),
        None => settings.to_plain_json(),
    };
    let config: Value = serde_json::from_str(&text).unwrap_or_default();
    Ok(Json(json!({"name": name, "config": config, "api_key_set": settings.api_key.is_some()})))
}

async fn save(
    State(app): State<Arc<App>>,
    Path(name): Path<String>,
    body: Bytes,
) -> Result<Response, Failure> {
    check_name(&name, &["path", "name"])?;
    let mut members = Value::Object(request::object(&body)?);
    let llm = members.get("llm").is_some_and(|llm| !llm.is_object()).then(|| members["llm"].clone());
    if let Some(llm) = llm {
        let message = "Input should be a valid dictionary or object to extract fields from";
        let problem = Problem::new("model_attributes_type", &["body", "llm"], message);
        return Err(problem.with_input(shape::masked(&llm)).into());
    }
    shape::check("SaveProfileRequest", &mut members, &["body"])?;
    launch::check_llm(&members["llm"], &["body", "llm"])?;
    let mut settings = Settings::parse(&members["llm"].to_string())
        .map_err(|error| Failure::unprocessable(error.to_string()))?;
    let keeps_keys = members.get("include_secrets") != Some(&Value::Bool(false));
    let (known, cipher) = (name.clone(), app.config().cipher.clone());
    app.with_profiles(move |profiles| {
        if let Some(cipher) = &cipher {
            settings.open(cipher);
        }
        let keys = match &cipher {
            Some(cipher) if keeps_keys => Keys::Sealed(cipher),
            None if keeps_keys => Keys::Plain,
            Some(_) | None => Keys::None,
        };
        profiles.save(&known, &settings, keys, Some(PROFILES_MAX))
    })
    .await?;
    let answer = json!({"name": name, "message": format!("Profile '{name}' saved")});
    Ok((StatusCode::CREATED, Json(answer)).into_response())
}

async fn delete(State(app): State<Arc<App>>, Path(name): Path<String>) -> Result<Json<Value>, Failure> {
    check_name(&name, &["path", "name"])?;
    let known = name.clone();
    app.with_profiles(move |profiles| profiles.delete(&known)).await?;
    settings::Document::change(&app, {
        let name = name.clone();
        move |document| document.rename_active(&name, None)
    })
    .await?;
    Ok(Json(json!({"name": name, "message": format!("Profile '{name}' deleted")})))
}

async fn rename(
    State(app): State<Arc<App>>,
    Path(name): Path<String>,
    body: Bytes,
) -> Result<Json<Value>, Failure> {
    check_name(&name, &["path", "name"])?;
    let mut members = Value::Object(request::object(&body)?);
    shape::check("RenameProfileRequest", &mut members, &["body"])?;
    let new = members["new_name"].as_str().unwrap_or_default().to_owned();
    let (from, to) = (name.clone(), new.clone());
    app.with_profiles(move |profiles| profiles.rename(&from, &to)).await?;
    let to = new.clone();
    settings::Document::change(&app, {
        let name = name.clone();
        move |document| document.rename_active(&name, Some(&to))
    })
    .await?;
    Ok(Json(json!({"name": new, "message": format!("Profile '{name}' renamed to '{new}'")})))
}

async fn activate(State(app): State<Arc<App>>, Path(name): Path<String>) -> Result<Json<Value>, Failure> {
    check_name(&name, &["path", "name"])?;
    let (known, cipher) = (name.clone(), app.config().cipher.clone());
    let settings = app.with_profiles(move |profiles| profiles.load(&known, cipher.as_ref())).await?;
    let llm: Value = serde_json::from_str(&settings.to_plain_json()).unwrap_or_default();
    let known = name.clone();
    settings::Document::change(&app, move |document| document.activate(&known, llm)).await?;
    Ok(Json(json!({"name": name, "message": format!("Profile '{name}' activated"), "llm_applied": true})))
}
