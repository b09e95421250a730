//! Forks: copies of a conversation that continue independently (`docs/reference/server.md#fork`).

use std::sync::Arc;

use axum::body::Bytes;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use serde_json::{Map, Value};

use super::conversations::{checked_title, made, tags};
use crate::conversation::{ForkMetrics, ForkOptions};
use crate::error::Error;
use crate::ids::{ConversationId, EventId};
use crate::server::App;
use crate::server::http::failure::Failure;
use crate::server::http::request::{self, PathId, conversation_id};
use crate::server::live::info::Skills;
use crate::server::live::meta::{Meta, now};

pub(super) async fn fork(
    State(app): State<Arc<App>>,
    PathId(id): PathId,
    body: Bytes,
) -> Result<Response, Failure> {
    let members = match request::json(&body)? {
        None | Some(Value::Null) => Map::new(),
        Some(_) => request::object(&body)?,
    };
    let title = request::text(&members, "title")?.map(checked_title).transpose()?;
    let new = match request::text(&members, "id")? {
        Some(id) => conversation_id(id, &["body", "id"])?,
        None => ConversationId::mint(),
    };
    let from_event = request::text(&members, "from_event_id")?;
    let unknown = || Failure::not_found(format!("Unknown from_event_id: {}", from_event.unwrap_or_default()));
    let options = ForkOptions {
        id: Some(new.clone()),
        from_event: from_event.map(|id| EventId::new(id.to_owned()).map_err(|_| unknown())).transpose()?,
        agent: None,
        tags: members
            .get("tags")
            .filter(|tags| !tags.is_null())
            .map(tags)
            .transpose()?
            .unwrap_or_default()
            .into_iter()
            .collect(),
        metrics: match members.get("reset_metrics") {
            Some(Value::Bool(false)) => ForkMetrics::Keep,
            Some(_) | None => ForkMetrics::Reset,
        },
    };
    let session = app.sessions().open(&app, &id).await.map_err(|failure| match failure {
        Failure::Refused(StatusCode::NOT_FOUND, _) => Failure::not_found("Source conversation not found"),
        other => other,
    })?;
    let known = id.clone();
    let meta = app.ask(move |store| Meta::read(store, &known)).await?;
    let fork = session.conversation.fork(options).await.map_err(|error| match error {
        crate::conversation::ConversationError::UnknownEvent { .. } => unknown(),
        crate::conversation::ConversationError::Store(Error::ConversationExists { .. }) => {
            Failure::conflict(format!("Conversation with id {new} already exists"))
        }
        other => other.into(),
    })?;
    app.sessions().adopt(&app, fork, meta.with("created_at", now())).await?;
    if let Some(title) = title {
        let known = new.clone();
        app.ask(move |store| store.set_title(&known, Some(&title))).await?;
    }
    made(&app, &new, StatusCode::CREATED, Skills::Hidden).await
}
