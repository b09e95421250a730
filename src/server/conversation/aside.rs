//! Questions to an agent outside its conversation's log, and condensation on demand
//! (`docs/reference/server.md#questions-and-condensing`).

use std::sync::Arc;

use axum::body::Bytes;
use axum::extract::State;
use axum::{Json, Router, routing::post};
use serde_json::{Value, json};

use super::command::session;
use crate::server::App;
use crate::server::http::failure::{Failure, Problem, named, success};
use crate::server::http::request::{self, PathId};

pub(super) fn routes() -> Router<Arc<App>> {
    Router::new().route("/ask_agent", post(ask)).route("/condense", post(condense))
}

async fn ask(State(app): State<Arc<App>>, PathId(id): PathId, body: Bytes) -> Result<Json<Value>, Failure> {
    let members = request::object(&body)?;
    let question = members.get("question");
    let question =
        question.ok_or_else(|| Problem::new("missing", &["body", "question"], "Field required"))?;
    let question = question.as_str().ok_or_else(|| {
        Problem::new("string_type", &["body", "question"], "Input should be a valid string")
    })?;
    let session = session(&app, &id).await.map_err(named)?;
    Ok(Json(json!({ "response": session.conversation.ask_agent(question).await? })))
}

async fn condense(State(app): State<Arc<App>>, PathId(id): PathId) -> Result<Json<Value>, Failure> {
    let session = session(&app, &id).await.map_err(named)?;
    session.conversation.condense().await?;
    Ok(success())
}
