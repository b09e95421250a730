//! Child conversations, which another conversation begins (`docs/reference/server.md#children`).

use std::sync::Arc;

use axum::body::Bytes;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use serde_json::{Value, json};

use super::conversations::checked_title;
use crate::conversation::UserMessage;
use crate::ids::ConversationId;
use crate::server::App;
use crate::server::http::caller::Caller;
use crate::server::http::failure::{Failure, Problem, named_as};
use crate::server::http::request::{self, PathId};
use crate::server::live::info::Stored;
use crate::server::live::meta::now;
use crate::server::live::plan::Plan;
use crate::server::live::session::Busy;
use crate::server::workspace::worktree;

/// Where a child works.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Isolation {
    Shared,
    Worktree,
}

pub(super) async fn begin(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    PathId(parent): PathId,
    body: Bytes,
) -> Result<Response, Failure> {
    let members = request::object(&body)?;
    let task = request::required(&members, "task")?;
    if task.trim().is_empty() {
        let message = "String should have at least 1 character";
        return Err(Problem::new("string_too_short", &["body", "task"], message).into());
    }
    let title = request::text(&members, "title")?.map(checked_title).transpose()?;
    let isolation = match request::text(&members, "isolation")? {
        Some("shared") => Isolation::Shared,
        None | Some("worktree") => Isolation::Worktree,
        Some(_) => {
            let message = "Input should be 'worktree' or 'shared'";
            return Err(Problem::new("literal_error", &["body", "isolation"], message).into());
        }
    };
    let known = parent.clone();
    let stored = app.ask(move |store| Stored::read(store, &known)).await;
    let stored = stored.map_err(named_as("Parent conversation not found"))?;
    // Checks that a slot for the run is free. If there is none, nothing is stored.
    drop(app.sessions().slot()?);
    app.touch();
    let id = ConversationId::mint();
    let mut plan = Plan::like(&stored, app.config().cipher.as_ref())?;
    let made = match isolation {
        Isolation::Shared => None,
        Isolation::Worktree => {
            worktree::make(app.config(), &plan.working_dir, &id, &worktree::Start::default()).await?
        }
    };
    let has_worktree = made.is_some();
    plan.working_dir = made.unwrap_or(plan.working_dir);
    let folder = plan.working_dir.to_string_lossy().into_owned();
    let meta = stored
        .meta
        .with("created_at", now())
        .with("worktree", has_worktree.into())
        .with("workspace", json!({"working_dir": folder, "kind": "LocalWorkspace"}));
    let session = app.sessions().create(&app, &id, meta, plan, caller.user()).await?;
    let session = session.ok_or_else(|| Failure::internal("a new id is taken already"))?;
    let (child, name, of) = (id.clone(), title.clone(), parent.clone());
    app.ask(move |store| {
        store.set_parent(&child, &of)?;
        name.map_or(Ok(()), |name| store.set_title(&child, Some(&name)))
    })
    .await?;
    app.announce(&id).await;
    session.say(&app, UserMessage::from(task)).await?;
    session.start(&app, Busy::FollowUp)?;
    let isolation = if has_worktree { "worktree" } else { "shared" };
    let answer = json!({
        "conversation_id": id.as_str(), "parent_conversation_id": parent.as_str(),
        "status": session.conversation.status().as_str(), "title": title, "url": Value::Null,
        "workspace": folder, "isolation": isolation,
    });
    Ok((StatusCode::CREATED, Json(answer)).into_response())
}
