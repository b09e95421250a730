//! Commands to a conversation (`docs/reference/server.md#commands`).

use std::sync::Arc;

use axum::body::Bytes;
use axum::extract::State;
use axum::routing::{get, post};
use axum::{Json, Router};
use serde_json::{Value, json};

use super::aside;
use super::child;
use super::create;
use super::fork;
use super::goal;
use crate::event::{Event, Json as EventJson, Source};
use crate::ids::{ConversationId, EventId};
use crate::replay::{Moment, Point};
use crate::server::App;
use crate::server::http::failure::{Failure, Problem, named, success};
use crate::server::http::request::{self, PathId};
use crate::server::live::info::{Runtime, Skills, Stored};
use crate::server::live::plan;
use crate::server::live::session::{Busy, Session};
use crate::server::settings::profiles;
use crate::state::State as Fold;

pub(in crate::server) fn routes() -> Router<Arc<App>> {
    Router::new()
        .route("/run", post(run))
        .route("/pause", post(pause))
        .route("/interrupt", post(interrupt))
        .route("/secrets", post(secrets))
        .route("/confirmation_policy", post(policy))
        .route("/security_analyzer", post(analyzer))
        .route("/navigate", post(navigate))
        .route("/agent_final_response", get(final_response))
        .route("/switch_llm", post(switch_llm))
        .route("/switch_profile", post(switch_profile))
        .route("/load_plugin", post(load_plugin))
        .route("/switch_acp_model", post(switch_acp_model))
        .route("/fork", post(fork::fork))
        .route("/children", post(child::begin))
        .merge(aside::routes())
        .merge(goal::routes())
}

pub(super) async fn session(app: &Arc<App>, id: &ConversationId) -> Result<Arc<Session>, Failure> {
    app.touch();
    app.sessions().open(app, id).await
}

async fn run(State(app): State<Arc<App>>, PathId(id): PathId) -> Result<Json<Value>, Failure> {
    session(&app, &id).await?.start(&app, Busy::Refuse)?;
    Ok(success())
}

async fn pause(State(app): State<Arc<App>>, PathId(id): PathId) -> Result<Json<Value>, Failure> {
    let session = session(&app, &id).await?;
    session.conversation.pause().await?;
    session.publish_state(&app).await;
    app.announce(&id).await;
    Ok(success())
}

async fn interrupt(State(app): State<Arc<App>>, PathId(id): PathId) -> Result<Json<Value>, Failure> {
    let session = session(&app, &id).await?;
    session.give_up();
    session.conversation.interrupt().await?;
    session.publish_state(&app).await;
    app.announce(&id).await;
    Ok(success())
}

async fn secrets(
    State(app): State<Arc<App>>,
    PathId(id): PathId,
    body: Bytes,
) -> Result<Json<Value>, Failure> {
    let members = request::object(&body)?;
    let missing = || Problem::new("missing", &["body", "secrets"], "Field required");
    let secrets = members.get("secrets").ok_or_else(missing)?.as_object().ok_or_else(|| {
        Problem::new("dict_type", &["body", "secrets"], "Input should be a valid dictionary")
    })?;
    let sources: Result<Vec<_>, Failure> =
        secrets.iter().map(|(name, value)| Ok((name.clone(), plan::source(name, value, None)?))).collect();
    session(&app, &id).await?.conversation.update_secrets(sources?).await?;
    Ok(success())
}

async fn policy(
    State(app): State<Arc<App>>,
    PathId(id): PathId,
    body: Bytes,
) -> Result<Json<Value>, Failure> {
    let members = request::object(&body)?;
    let missing = || Problem::new("missing", &["body", "policy"], "Field required");
    let policy = create::policy(members.get("policy").ok_or_else(missing)?)?;
    session(&app, &id).await?.conversation.set_confirmation_policy(policy).await?;
    Ok(success())
}

async fn analyzer(
    State(app): State<Arc<App>>,
    PathId(id): PathId,
    body: Bytes,
) -> Result<Json<Value>, Failure> {
    let members = request::object(&body)?;
    let missing = || Problem::new("missing", &["body", "security_analyzer"], "Field required");
    let value = members.get("security_analyzer").ok_or_else(missing)?;
    let analyzer = (!value.is_null()).then(|| create::analyzer(value)).transpose()?;
    session(&app, &id).await?.conversation.set_security_analyzer(analyzer).await?;
    Ok(success())
}

async fn navigate(
    State(app): State<Arc<App>>,
    PathId(id): PathId,
    body: Bytes,
) -> Result<Json<Value>, Failure> {
    let members = request::object(&body)?;
    let event = request::text(&members, "event_id")?;
    let unknown = || Failure::not_found(format!("Unknown event_id: {}", event.unwrap_or_default()));
    let target = event.map(|event| EventId::new(event.to_owned()).map_err(|_| unknown())).transpose()?;
    let session = session(&app, &id).await.map_err(named)?;
    app.sessions().refuse_elsewhere(&id).await?;
    session.conversation.navigate_to(target.as_ref()).await?;
    let stored = app.ask(move |store| Stored::read(store, &id)).await?;
    Ok(Json(stored.info(Skills::Hidden, Runtime::Omitted)))
}

async fn final_response(State(app): State<Arc<App>>, PathId(id): PathId) -> Result<Json<Value>, Failure> {
    Ok(Json(json!({"response": last_word(&app, &id).await?})))
}

/// Returns the agent's final response. Empty if there is none.
pub(super) async fn last_word(app: &App, id: &ConversationId) -> Result<String, Failure> {
    let id = id.clone();
    let response = app.ask(move |store| {
        let moment = Moment::new(store, &id, Point::End)?;
        let branch = moment.branch()?;
        let mut response = None;
        // From HEAD backwards, because the response is usually near it.
        for place in branch.into_iter().rev() {
            moment.each_of(&[place], |_, event| {
                response = final_response_in(&event);
                Ok(())
            })?;
            if response.is_some() {
                break;
            }
        }
        Ok(response.unwrap_or_default())
    });
    response.await
}

/// Returns the final response in an event: the message of a finish action, or the text of an agent's message. `None`
/// for other events.
fn final_response_in(event: &Event) -> Option<String> {
    let mut state = Fold::new();
    state.apply(event);
    let is_response = matches!(event, Event::Action(action) if &*action.tool_name == "finish")
        || matches!(event, Event::Message(message) if message.common.source == Source::Agent);
    is_response.then(|| state.final_response().to_owned())
}

async fn switch_llm(
    State(app): State<Arc<App>>,
    PathId(id): PathId,
    body: Bytes,
) -> Result<Json<Value>, Failure> {
    let members = request::object(&body)?;
    let missing = || Problem::new("missing", &["body", "llm"], "Field required");
    let llm = members.get("llm").ok_or_else(missing)?.to_string();
    let problem = |_| Problem::new("value_error", &["body", "llm"], "Value error, not JSON");
    let llm = EventJson::parse(&llm).map_err(problem)?;
    session(&app, &id).await?.conversation.switch_llm(&llm).await?;
    Ok(success())
}

async fn switch_profile(
    State(app): State<Arc<App>>,
    PathId(id): PathId,
    body: Bytes,
) -> Result<Json<Value>, Failure> {
    let members = request::object(&body)?;
    let name = request::required(&members, "profile_name")?.to_owned();
    let session = session(&app, &id).await?;
    let settings = app.profiles()?.load(&name, app.config().cipher.as_ref()).map_err(profiles::refused)?;
    let llm = EventJson::parse(&settings.to_plain_json()).map_err(|error| Failure::bad(error.to_string()))?;
    session.conversation.switch_llm(&llm).await?;
    Ok(success())
}

/// Loads a plugin from a marketplace that the agent's settings register.
async fn load_plugin(
    State(app): State<Arc<App>>,
    PathId(id): PathId,
    body: Bytes,
) -> Result<Json<Value>, Failure> {
    let members = request::object(&body)?;
    let plugin = request::required(&members, "plugin_ref")?;
    session(&app, &id).await?.conversation.load_plugin(plugin).await?;
    Ok(success())
}

/// Always fails. For an agent that is a separate program it says that this server does not have the operation; for
/// others it fails as in the reference.
async fn switch_acp_model(State(app): State<Arc<App>>, PathId(id): PathId) -> Result<Json<Value>, Failure> {
    session(&app, &id).await?;
    let stored = app.ask(move |store| Stored::read(store, &id)).await?;
    Err(match stored.is_acp() {
        true => Failure::absent("An ACP agent gets its model, acp_model, when its program starts."),
        false => Failure::bad("switch_acp_model is only supported for ACP conversations."),
    })
}
