//! The commands for goals (`docs/reference/server.md#goals`).

use std::sync::Arc;

use axum::body::Bytes;
use axum::extract::State;
use axum::{Json, Router, routing::post};
use serde_json::Value;

use super::command::session;
use super::create::at_least_one;
use crate::conversation::Goal;
use crate::server::App;
use crate::server::http::failure::{Failure, success};
use crate::server::http::request::{self, PathId};
use crate::server::live::session::Pursuit;

pub(super) fn routes() -> Router<Arc<App>> {
    Router::new()
        .route("/goal", post(start))
        .route("/goal/stop", post(stop))
        .route("/goal/resume", post(resume))
}

async fn start(State(app): State<Arc<App>>, PathId(id): PathId, body: Bytes) -> Result<Json<Value>, Failure> {
    let members = request::object(&body)?;
    let objective = request::required(&members, "objective")?;
    let rounds = at_least_one(&members, "max_iterations")?;
    let session = session(&app, &id).await?;
    if objective.trim().is_empty() {
        return Err(Failure::bad("Goal objective must not be empty."));
    }
    let mut goal = Goal::new(objective);
    goal.rounds_max = rounds.unwrap_or(goal.rounds_max);
    session.pursue(&app, Pursuit::New(goal))?;
    Ok(success())
}

async fn stop(State(app): State<Arc<App>>, PathId(id): PathId) -> Result<Json<Value>, Failure> {
    session(&app, &id).await?.give_up();
    Ok(success())
}

async fn resume(State(app): State<Arc<App>>, PathId(id): PathId) -> Result<Json<Value>, Failure> {
    let session = session(&app, &id).await?;
    if !session.conversation.has_interrupted_goal().await? {
        return Err(Failure::bad("no_resumable_goal"));
    }
    session.pursue(&app, Pursuit::Resumed)?;
    Ok(success())
}
