//! Agent profiles: named agents that conversations begin with. Their files are shared with the reference
//! (`docs/reference/settings.md#agent-profiles`).
//!
//! A profile holds no secret. It names the profile of its model, and what the agent may use. One profile is always
//! active: by default the profile `default`, which is made from the settings.

use std::sync::Arc;

use axum::body::Bytes;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use serde_json::{Map, Value, json};
use uuid::Uuid;

use super::Document;
use super::launch;
use super::named::{self, Entry, Named, check_name};
use crate::json::Raw;
use crate::llm::Settings;
use crate::llm::profiles::{Keys, ProfileError};
use crate::secret::Form;
use crate::secret::document;
use crate::server::App;
use crate::server::http::failure::{Failure, Problem};
use crate::server::http::request;
use crate::server::http::shape;
use crate::server::live::keep::blocking;

/// The maximum number of profiles, the same as the reference's.
const PROFILES_MAX: usize = 50;

/// The name of the profile that is made from the settings.
const SEED: &str = "default";

pub(in crate::server) fn routes() -> Router<Arc<App>> {
    Router::new()
        .route("/", get(list))
        .route("/{name}", get(one).post(save).delete(delete))
        .route("/{name}/rename", post(rename))
        .route("/{name}/activate", post(activate))
        .route("/{name}/materialize", post(materialize))
}

/// The data from a profile that a conversation begins with.
pub(super) struct Launched {
    /// The settings of the agent, with secrets in plain text.
    pub settings: Value,
    /// The reference to the profile, as the conversation stores it.
    pub origin: Value,
    /// The names of the secrets that the conversation may have. `None` if it may have all.
    pub secrets: Option<Vec<String>>,
}

/// Returns the data from the stored profile with that id that a conversation begins with. `llm` overrides the profile
/// of the model.
///
/// # Errors
/// 404 if there is no such profile, 422 if it refers to something that does not exist.
pub(super) async fn launched(app: &Arc<App>, id: &Value, llm: Option<&str>) -> Result<Launched, Failure> {
    let invalid =
        || Problem::new("uuid_parsing", &["body", "agent_profile_id"], "Input should be a valid UUID");
    let id = id.as_str().and_then(|id| Uuid::try_parse(id).ok()).ok_or_else(invalid)?.to_string();
    let profile = by_id(app, &id).await?;
    let settings = launch::resolve(app, &profile, llm).await?;
    let refs = profile.get("secret_refs").cloned().unwrap_or_default();
    let secrets =
        refs.as_array().map(|names| names.iter().filter_map(Value::as_str).map(str::to_owned).collect());
    let origin = json!({
        "agent_profile_id": id, "revision": profile.get("revision").cloned().unwrap_or(json!(0)),
        "secret_refs": refs, "llm_profile_ref": llm,
    });
    Ok(Launched { settings, origin, secrets })
}

/// Checks that there is a profile with that id.
///
/// # Errors
/// 404 if there is none.
pub(super) async fn check_known(app: &Arc<App>, id: &str) -> Result<(), Failure> {
    by_id(app, id).await.map(|_| ())
}

/// Returns the id of the active profile. Makes a profile active first if none is.
pub(in crate::server) async fn active(app: &Arc<App>) -> Result<Option<String>, Failure> {
    ensure_active(app).await?;
    Ok(Document::load(app).await?.pointer("active_agent_profile_id").map(str::to_owned))
}

/// Returns the profile with that id, complete.
///
/// # Errors
/// 404 if there is none.
pub(in crate::server) async fn by_id(app: &Arc<App>, id: &str) -> Result<Value, Failure> {
    let (store, wanted) = (store(app), id.to_owned());
    let found = blocking(move || {
        let all = store.all()?;
        Ok(all.into_iter().find(|(_, profile)| profile.get("id").and_then(Value::as_str) == Some(&wanted)))
    });
    match found.await? {
        Some((name, profile)) => read(&name, profile),
        None => Err(Failure::not_found(format!("Agent profile with id '{id}' not found"))),
    }
}

fn store(app: &App) -> Named {
    Named::new(app.config().settings_dir.join("agent-profiles"), ".agent-profiles.lock", "Agent profile")
}

/// Returns a stored profile, upgraded to the newest schema version and completed.
fn read(name: &str, mut profile: Map<String, Value>) -> Result<Value, Failure> {
    raise(&mut profile)?;
    let mut profile = Value::Object(profile);
    check(&mut profile)
        .map_err(|error| Failure::bad(format!("Failed to load profile `{name}`: {}", error.message())))?;
    Ok(profile)
}

/// Checks a profile and adds the default values of missing members.
fn check(profile: &mut Value) -> Result<(), Failure> {
    let kind = profile.get("agent_kind").and_then(Value::as_str).unwrap_or("openhands").to_owned();
    shape::check("AgentProfile", profile, &[&kind])?;
    let form = if kind == "acp" { "ACPAgentProfile" } else { "OpenHandsAgentProfile" };
    shape::complete(form, profile);
    Ok(())
}

/// Upgrades a profile from an earlier schema version, as the reference does (`_AGENT_PROFILE_MIGRATIONS`). Rejects a
/// profile with a newer version.
fn raise(profile: &mut Map<String, Value>) -> Result<(), Failure> {
    let newest = shape::default("OpenHandsAgentProfile")["schema_version"].clone();
    let version = profile.get("schema_version").and_then(Value::as_u64);
    match (version, newest.as_u64()) {
        (Some(version), Some(newest)) if version > newest => {
            return Err(Failure::unprocessable("Invalid agent profile"));
        }
        (Some(version), Some(newest)) if version < newest => {
            for retired in ["enable_sub_agents", "enable_switch_llm_tool"] {
                profile.remove(retired);
            }
            if version < 2 {
                profile.remove("skills");
            }
            if version < 3 && profile.get("tools") == Some(&json!([])) {
                profile.insert("tools".to_owned(), Value::Null);
            }
        }
        _ => {}
    }
    profile.insert("schema_version".to_owned(), newest);
    Ok(())
}

async fn list(State(app): State<Arc<App>>) -> Result<Json<Value>, Failure> {
    ensure_active(&app).await?;
    let store = store(&app);
    let all = blocking(move || store.all()).await?;
    let profiles: Vec<Value> = all
        .into_iter()
        .map(|(name, profile)| {
            let member = |name: &str| profile.get(name).cloned().unwrap_or_default();
            let kind = profile.get("agent_kind").cloned().unwrap_or(json!("openhands"));
            let llm = if kind == "openhands" { member("llm_profile_ref") } else { Value::Null };
            json!({
                "id": member("id"), "name": name, "agent_kind": kind, "revision": member("revision"),
                "llm_profile_ref": llm, "mcp_server_refs": member("mcp_server_refs"),
            })
        })
        .collect();
    let active = Document::load(&app).await?.pointer("active_agent_profile_id").map(str::to_owned);
    Ok(Json(json!({"profiles": profiles, "active_agent_profile_id": active})))
}

/// Returns the profile with that name.
async fn stored(app: &App, name: &str) -> Result<Value, Failure> {
    check_name(name, &["path", "name"])?;
    let (store, known) = (store(app), name.to_owned());
    match blocking(move || store.read(&known)).await? {
        Some(profile) => read(name, profile),
        None => Err(Failure::not_found(format!("Agent profile '{name}' not found"))),
    }
}

async fn one(State(app): State<Arc<App>>, Path(name): Path<String>) -> Result<Json<Value>, Failure> {
    let profile = stored(&app, &name).await?;
    Ok(Json(json!({"name": name, "profile": profile})))
}

/// Makes a profile with that name from a client's description.
fn described(mut members: Map<String, Value>, name: &str) -> Result<Value, Failure> {
    members.insert("name".to_owned(), name.into());
    raise(&mut members)?;
    let mut profile = Value::Object(members);
    check(&mut profile)?;
    Ok(profile)
}

async fn save(
    State(app): State<Arc<App>>,
    Path(name): Path<String>,
    body: Bytes,
) -> Result<Response, Failure> {
    check_name(&name, &["path", "name"])?;
    let profile = described(request::object(&body)?, named::own(&name))?;
    let (store, known) = (store(&app), name.clone());
    blocking(move || keep_identity(&store, &known, profile)).await?;
    let answer = json!({"name": name, "message": format!("Agent profile '{name}' saved")});
    Ok((StatusCode::CREATED, Json(answer)).into_response())
}

/// Writes a profile and returns its id. If a profile with that name exists, its id is kept and its revision is
/// incremented. A new profile gets a new id.
fn keep_identity(store: &Named, name: &str, mut profile: Value) -> Result<String, Failure> {
    let held = store.hold()?;
    // An existing profile that cannot be read is replaced.
    let before = store.read(name).unwrap_or_default().unwrap_or_default();
    let id = before.get("id").and_then(Value::as_str).and_then(|id| Uuid::try_parse(id).ok());
    if let Some(profile) = profile.as_object_mut() {
        if let Some(id) = id {
            let revision = before.get("revision").and_then(Value::as_u64).unwrap_or_default();
            profile.insert("id".to_owned(), id.to_string().into());
            profile.insert("revision".to_owned(), json!(revision + 1));
        } else {
            profile.insert("id".to_owned(), Uuid::new_v4().to_string().into());
        }
        store.write(&held, name, profile, PROFILES_MAX)?;
    }
    Ok(profile["id"].as_str().unwrap_or_default().to_owned())
}

async fn delete(State(app): State<Arc<App>>, Path(name): Path<String>) -> Result<Json<Value>, Failure> {
    check_name(&name, &["path", "name"])?;
    let (store, known) = (store(&app), name.clone());
    let id = blocking(move || {
        let held = store.hold()?;
        let id = store.read(&known).unwrap_or_default().and_then(|profile| Some(profile.get("id")?.clone()));
        store.remove(&held, &known)?;
        Ok(id)
    });
    if let Some(id) = id.await?
        && Document::load(&app).await?.pointer("active_agent_profile_id") == id.as_str()
    {
        Document::change(&app, |document| {
            document.point("active_agent_profile_id", &Value::Null);
            // The settings of another kind of agent are reset with its profile. The MCP servers in them are kept,
            // because all agents share them.
            if document.agent_settings().get("agent_kind") != Some(&json!("openhands")) {
                document.reset_agent();
            }
            Ok(())
        })
        .await?;
        ensure_active(&app).await?;
    }
    Ok(Json(json!({"name": name, "message": format!("Agent profile '{name}' deleted")})))
}

async fn rename(
    State(app): State<Arc<App>>,
    Path(name): Path<String>,
    body: Bytes,
) -> Result<Json<Value>, Failure> {
    check_name(&name, &["path", "name"])?;
    let mut members = Value::Object(request::object(&body)?);
    shape::check("RenameAgentProfileRequest", &mut members, &["body"])?;
    let new = members["new_name"].as_str().unwrap_or_default().to_owned();
    let (store, from, to) = (store(&app), name.clone(), new.clone());
    blocking(move || store.rename(&store.hold()?, &from, &to)).await?;
    let message = if name == new {
        format!("Agent profile '{name}' unchanged (same name)")
    } else {
        format!("Agent profile '{name}' renamed to '{new}'")
    };
    Ok(Json(json!({"name": new, "message": message})))
}

async fn activate(State(app): State<Arc<App>>, Path(id): Path<String>) -> Result<Json<Value>, Failure> {
    check_known(&app, &id).await?;
    let pointer = json!(id);
    Document::change(&app, move |document| {
        document.point("active_agent_profile_id", &pointer);
        Ok(())
    })
    .await?;
    let message = format!("Agent profile '{id}' activated");
    Ok(Json(json!({"id": id, "message": message, "agent_settings_applied": false})))
}

/// Makes a profile active unless one is. Prefers the profile `default`, which is made from the settings if it does not
/// exist.
async fn ensure_active(app: &Arc<App>) -> Result<(), Failure> {
    let document = Document::load(app).await?;
    let active = document.pointer("active_agent_profile_id").map(str::to_owned);
    let (folder, wanted) = (store(app), active.clone());
    let all = blocking(move || folder.all()).await?;
    let id_of = |profile: &Map<String, Value>| profile.get("id").and_then(Value::as_str).map(str::to_owned);
    if wanted.is_some() && all.iter().any(|(_, profile)| id_of(profile) == wanted) {
        return Ok(());
    }
    let readable = |(name, profile): &&Entry| read(name, profile.clone()).is_ok();
    let found = all.iter().find(|(name, _)| name == SEED).filter(readable);
    let id = match found {
        Some((_, profile)) => id_of(profile),
        None if all.len() >= PROFILES_MAX || all.iter().any(|(name, _)| name == SEED) => {
            all.iter().find(|(name, _)| name != SEED).and_then(|(_, profile)| id_of(profile))
        }
        None => Some(seed(app, &document).await?),
    };
    let Some(id) = id else { return Ok(()) };
    Document::change(app, move |document| {
        document.point("active_agent_profile_id", &id.into());
        Ok(())
    })
    .await
    .map(|_| ())
}

/// Makes the profile `default` from the settings and returns its id.
async fn seed(app: &Arc<App>, document: &Document) -> Result<String, Failure> {
    let settings = document.agent_settings();
    let member = |name: &str| settings.get(name).cloned().unwrap_or_default();
    let is_program = settings.get("agent_kind") == Some(&json!("acp"));
    let mut profile = if is_program {
        let command = settings
            .get("acp_command")
            .and_then(Value::as_array)
            .map(|words| words.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(" "));
        json!({
            "agent_kind": "acp", "acp_server": member("acp_server"), "acp_model": member("acp_model"),
            "acp_session_mode": member("acp_session_mode"),
            "acp_command": command.filter(|command| !command.is_empty()),
        })
    } else {
        let active = document.pointer("active_profile").filter(|name| !name.is_empty());
        let llm = match active {
            Some(name) => name.to_owned(),
            None => seed_llm(app, settings).await?,
        };
        json!({
            "agent_kind": "openhands", "llm_profile_ref": llm, "agent": member("agent"), "tools": member("tools"),
            "disabled_skills": settings.pointer("/agent_context/disabled_skills").cloned().unwrap_or(json!([])),
            "system_message_suffix": settings.pointer("/agent_context/system_message_suffix"),
            "persona": member("persona"), "condenser": member("condenser"),
            "tool_concurrency_limit": member("tool_concurrency_limit"),
        })
    };
    profile["name"] = SEED.into();
    check(&mut profile)?;
    let store = store(app);
    blocking(move || keep_identity(&store, SEED, profile)).await
}

/// Saves the model of the settings as the model's profile `default`, if the model was configured and there is no such
/// profile yet. Returns the name of that profile.
async fn seed_llm(app: &Arc<App>, settings: &Value) -> Result<String, Failure> {
    let llm = settings.get("llm").cloned().unwrap_or_default();
    let has = |name: &str| llm.get(name).and_then(Value::as_str).is_some_and(|text| !text.trim().is_empty());
    if (has("api_key") || has("base_url")) && !app.has_profile(SEED).await? {
        let (profiles, cipher) = (app.profiles()?, app.config().cipher.clone());
        let kept = blocking(move || {
            let Ok(llm) = Settings::parse(&llm.to_string()) else { return Ok(()) };
            let keys = cipher.as_ref().map_or(Keys::Plain, Keys::Sealed);
            match profiles.save(SEED, &llm, keys, Some(super::profiles::PROFILES_MAX)) {
                // If there are too many profiles, none is saved. The name then refers to no profile.
                Ok(()) | Err(ProfileError::TooMany(_)) => Ok(()),
                Err(error) => Err(super::profiles::refused(error)),
            }
        });
        kept.await?;
    }
    Ok(SEED.to_owned())
}

/// Returns the settings that a conversation with the profile would begin with, secrets as stars, and the problems that
/// prevent it.
async fn materialize(
    State(app): State<Arc<App>>,
    Path(name): Path<String>,
    body: Bytes,
) -> Result<Json<Value>, Failure> {
    check_name(&name, &["path", "name"])?;
    let draft = match request::json(&body)? {
        Some(Value::Object(members)) => {
            if let Some(other) = members.keys().find(|name| *name != "profile") {
                let at = ["body", other];
                return Err(Problem::new("extra_forbidden", &at, "Extra inputs are not permitted").into());
            }
            members.get("profile").filter(|draft| !draft.is_null()).cloned()
        }
        Some(Value::Null) | None => None,
        Some(_) => return request::object(&body).map(|_| Json(Value::Null)),
    };
    let profile = match draft {
        Some(Value::Object(draft)) => described(draft, &name)?,
        Some(_) => {
            let message = "Value error, profile must be an object";
            return Err(Problem::new("value_error", &["body", "profile"], message).into());
        }
        None => stored(&app, &name).await?,
    };
    Ok(Json(previewed(&app, &profile).await?))
}

async fn previewed(app: &Arc<App>, profile: &Value) -> Result<Value, Failure> {
    let member = |name: &str| profile.get(name).cloned().unwrap_or_default();
    let document = Document::load(app).await?;
    let servers = document.agent_settings().get("mcp_config").and_then(Value::as_object).cloned();
    let servers = servers.unwrap_or_default();
    let is_wanted = |name: &String| match profile.get("mcp_server_refs").and_then(Value::as_array) {
        Some(wanted) => wanted.contains(&json!(name)),
        None => true,
    };
    let is_program = profile.get("agent_kind") == Some(&json!("acp"));
    let mut preview = json!({
        "agent_kind": member("agent_kind"), "valid": false, "errors": [], "unusable_tools": [],
        "llm_profile_ref": member("llm_profile_ref"), "llm_profile_resolved": false, "llm_api_key_set": false,
        "mcp_server_refs": member("mcp_server_refs"),
        "resolved_mcp_config_keys": servers.keys().filter(|name| is_wanted(name)).collect::<Vec<_>>(),
        "dangling_mcp_server_refs": [],
        "disabled_skills": profile.get("disabled_skills").cloned().unwrap_or(json!([])),
        "public_skills": member("public_skills"), "resolved_skills": [], "secret_refs": member("secret_refs"),
        "acp_api_key_secret_name": null, "acp_base_url_secret_name": null, "acp_file_secret_names": [],
        "meta_profile_ref": member("meta_profile_ref"), "dangling_meta_profile_ref": null,
        "dangling_meta_profile_llm_refs": [], "resolved_settings": null,
    });
    let registry = &app.sessions().opening.registry;
    let unusable: Vec<String> = launch::tools_of(profile)
        .into_iter()
        .filter(|name| !crate::conversation::has_tool(registry, name))
        .collect();
    let mut errors: Vec<String> = Vec::new();
    if !unusable.is_empty() {
        errors.push(format!("Tool(s) this server cannot run: {}", unusable.join(", ")));
    }
    preview["unusable_tools"] = json!(unusable);
    match launch::resolve(app, profile, None).await {
        Ok(settings) => {
            let key = settings.pointer("/llm/api_key").and_then(Value::as_str);
            preview["llm_profile_resolved"] = (!is_program).into();
            preview["llm_api_key_set"] = key.is_some_and(|key| !key.trim().is_empty()).into();
            let skills = settings.pointer("/agent_context/skills").and_then(Value::as_array);
            preview["resolved_skills"] =
                skills.into_iter().flatten().map(|skill| skill["name"].clone()).collect();
            if errors.is_empty() {
                let text = settings.to_string();
                let shown = Raw::parse(&text).ok().map(|raw| document::agent(raw, Form::Redacted));
                preview["resolved_settings"] =
                    shown.and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default();
                preview["valid"] = true.into();
            }
        }
        Err(Failure::Launch(detail)) => {
            let problems = detail["message"].as_str().unwrap_or_default().split("; ").map(str::to_owned);
            errors.extend(problems);
            preview["llm_profile_resolved"] =
                (!is_program && detail["dangling_llm_profile_ref"].is_null()).into();
            preview["dangling_mcp_server_refs"] = detail["dangling_mcp_server_refs"].clone();
        }
        Err(other) => errors.push(format!("Failed to build agent settings: {}", other.message())),
    }
    preview["errors"] = json!(errors);
    Ok(preview)
}
