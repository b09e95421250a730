//! Routes for whole conversations: get, list, create, change and delete (`docs/reference/server.md#conversation`).

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::body::Bytes;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Extension, Json, Router};
use serde_json::{Value, json};

use super::create;
use crate::ids::ConversationId;
use crate::server::App;
use crate::server::http::caller::Caller;
use crate::server::http::failure::{Failure, Problem, success};
use crate::server::http::request::{self, Params, PathId};
use crate::server::live::info::{Runtime, Skills, Stored, available};
use crate::server::live::plan::Plan;
use crate::server::workspace::worktree;
use crate::state::ExecutionStatus;
use crate::store::{ConversationFilter, Order, Store, acting};

const PAGE_MAX: u64 = 100;
const IDS_MAX: usize = 99;
/// How long a reader waits for Stop hooks.
const OBJECTION_PATIENCE: Duration = Duration::from_secs(1);

const TITLE_CHARACTERS_MAX: usize = 200;
const TAG_CHARACTERS_MAX: usize = 256;

/// The statuses that a query may name.
const STATUSES: [(&str, &str); 8] = [
    ("idle", "idle"),
    ("running", "running"),
    ("paused", "paused"),
    ("waiting_for_confirmation", "waiting_for_confirmation"),
    ("finished", "finished"),
    ("error", "error"),
    ("stuck", "stuck"),
    ("deleting", "deleting"),
];

pub(in crate::server) fn routes() -> Router<Arc<App>> {
    Router::new()
        .route("/", get(batch).post(create::create))
        .route("/search", get(search))
        .route("/count", get(count))
        .route("/{conversation_id}", get(one).patch(change).delete(delete))
        .route("/{conversation_id}/runtime", get(runtime))
        .route("/{conversation_id}/runtime/reprovision", axum::routing::post(runtime))
}

pub(super) fn skills(params: &Params) -> Result<Skills, Failure> {
    Ok(if params.flag("include_skills")? { Skills::Shown } else { Skills::Hidden })
}

async fn one(
    State(app): State<Arc<App>>,
    PathId(id): PathId,
    params: Params,
) -> Result<Json<Value>, Failure> {
    let skills = skills(&params)?;
    Ok(Json(settled(&app, &id).await?.info(skills, Runtime::Included)))
}

/// Returns the conversation as it is stored. If it has finished but a Stop hook may still object, waits a while for the
/// hooks, as the reference's readers do. If the hooks take longer, the returned status is `running`.
async fn settled(app: &App, id: &ConversationId) -> Result<Stored, Failure> {
    let deadline = Instant::now() + OBJECTION_PATIENCE;
    let finished = ExecutionStatus::Finished.as_str();
    loop {
        let session = app.sessions().find(id);
        let count = || session.as_ref().map_or(0, |session| session.conversation.objections());
        let before = count();
        let known = id.clone();
        let mut stored = app.ask(move |store| Stored::read(store, &known)).await?;
        let is_settled = before.is_multiple_of(2) && count() == before;
        let Some(session) = session.as_ref().filter(|_| stored.row.status == finished && !is_settled) else {
            return Ok(stored);
        };
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            stored.row.status = ExecutionStatus::Running.as_str().to_owned();
            return Ok(stored);
        }
        session.conversation.wait_for_stop_hooks(left).await;
    }
}

async fn runtime(State(app): State<Arc<App>>, PathId(id): PathId) -> Result<Json<Value>, Failure> {
    app.ask(move |store| store.conversation(&id)).await?;
    Ok(Json(available()))
}

async fn search(State(app): State<Arc<App>>, params: Params) -> Result<Json<Value>, Failure> {
    let skills = skills(&params)?;
    let limit = params.number("limit", 1, PAGE_MAX, PAGE_MAX)? as usize;
    let orders = [
        ("CREATED_AT", Order::Created),
        ("CREATED_AT_DESC", Order::CreatedDescending),
        ("UPDATED_AT", Order::Updated),
        ("UPDATED_AT_DESC", Order::UpdatedDescending),
    ];
    let order = params.word("sort_order", &orders)?.unwrap_or(Order::CreatedDescending);
    let filter = filter(&params)?;
    let cursor = params.get("page_id").and_then(|id| request::conversation_id(id, &[]).ok());
    let page = app.ask(move |store| {
        let mut rows = Vec::new();
        // The cursor is the id of the first conversation of this page. If it is unknown, this is the first page.
        let first = cursor.map_or(Ok(None), |cursor| store.find(&cursor))?;
        let first = first.filter(|row| filter.statuses.is_empty() || filter.statuses.contains(&row.status));
        let after = first.as_ref().map(|row| row.id.clone());
        rows.extend(first);
        let more = limit + 1 - rows.len();
        rows.extend(store.conversations(&filter, order, after.as_ref(), more)?.conversations);
        let next = if rows.len() > limit { rows.pop() } else { None };
        let items: crate::Result<Vec<Value>> = rows
            .into_iter()
            .map(|row| Ok(Stored::of_row(store, row)?.info(skills, Runtime::Included)))
            .collect();
        Ok(json!({"items": items?, "next_page_id": next.map(|row| row.id.folder_name())}))
    });
    Ok(Json(page.await?))
}

fn filter(params: &Params) -> Result<ConversationFilter, Failure> {
    let status = params.word("status", &STATUSES)?;
    Ok(ConversationFilter {
        statuses: status.into_iter().map(str::to_owned).collect(),
        ..ConversationFilter::default()
    })
}

async fn count(State(app): State<Arc<App>>, params: Params) -> Result<Json<u64>, Failure> {
    let filter = filter(&params)?;
    Ok(Json(app.ask(move |store| store.count_conversations(&filter)).await?))
}

async fn batch(State(app): State<Arc<App>>, params: Params) -> Result<Json<Value>, Failure> {
    let skills = skills(&params)?;
    let ids: Result<Vec<ConversationId>, Failure> =
        params.all("ids").map(|id| request::conversation_id(id, &["query", "ids"])).collect();
    let ids = ids?;
    if ids.is_empty() {
        return Err(Problem::new("missing", &["query", "ids"], "Field required").into());
    }
    if ids.len() > IDS_MAX {
        let message = format!("List should have at most {IDS_MAX} items after validation");
        return Err(Problem::new("too_long", &["query", "ids"], message).into());
    }
    let found = app.ask(move |store| {
        let one = |id: &ConversationId| match Stored::read(store, id) {
            Ok(stored) => Ok(stored.info(skills, Runtime::Included)),
            Err(crate::Error::UnknownConversation { .. }) => Ok(Value::Null),
            Err(error) => Err(error),
        };
        ids.iter().map(one).collect::<crate::Result<Vec<Value>>>()
    });
    Ok(Json(Value::Array(found.await?)))
}

async fn change(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    PathId(id): PathId,
    body: Bytes,
) -> Result<Json<Value>, Failure> {
    let members = request::object(&body)?;
    let title = match request::text(&members, "title")? {
        Some(title) => Some(checked_title(title)?),
        None => None,
    };
    let tags = members.get("tags").filter(|tags| !tags.is_null()).map(tags).transpose()?;
    let known = id.clone();
    app.ask(move |store| store.conversation(&known)).await?;
    app.sessions().refuse_elsewhere(&id).await?;
    let known = id.clone();
    app.ask(move |store| {
        store.conversation(&known)?;
        let set = |title: String| acting(caller.user().as_deref(), || store.set_title(&known, Some(&title)));
        title.map_or(Ok(()), set)
    })
    .await?;
    if let Some(tags) = tags {
        let session = app.sessions().open(&app, &id).await?;
        session.conversation.set_tags(tags.into_iter().collect()).await?;
    }
    app.announce(&id).await;
    Ok(success())
}

/// Checks a title, which has 1 to 200 characters. Returns it without surrounding white space.
pub(super) fn checked_title(title: &str) -> Result<String, Failure> {
    let problem = |kind, message: String| Failure::from(Problem::new(kind, &["body", "title"], message));
    let trimmed = title.trim();
    if trimmed.is_empty() {
        return Err(problem("string_too_short", "String should have at least 1 character".to_owned()));
    }
    if title.chars().count() > TITLE_CHARACTERS_MAX {
        let message = format!("String should have at most {TITLE_CHARACTERS_MAX} characters");
        return Err(problem("string_too_long", message));
    }
    Ok(trimmed.to_owned())
}

/// Reads tags. Keys consist of lower-case letters and digits. Values have at most 256 characters.
pub(super) fn tags(value: &Value) -> Result<BTreeMap<String, String>, Failure> {
    let problem = |message: &str| Failure::from(Problem::new("value_error", &["body", "tags"], message));
    let members = value
        .as_object()
        .ok_or_else(|| Problem::new("dict_type", &["body", "tags"], "Input should be a valid dictionary"))?;
    let mut tags = BTreeMap::new();
    for (key, value) in members {
        let is_word =
            !key.is_empty() && key.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit());
        if !is_word {
            return Err(problem("Value error, tag keys are lower-case letters and digits"));
        }
        let value = value.as_str().ok_or_else(|| {
            Problem::new("string_type", &["body", "tags", key], "Input should be a valid string")
        })?;
        if value.chars().count() > TAG_CHARACTERS_MAX {
            return Err(problem("Value error, tag values have at most 256 characters"));
        }
        tags.insert(key.clone(), value.to_owned());
    }
    Ok(tags)
}

async fn delete(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    PathId(id): PathId,
) -> Result<Json<Value>, Failure> {
    let known = id.clone();
    let stored = app.ask(move |store| Stored::read(store, &known)).await?;
    app.sessions().refuse_elsewhere(&id).await?;
    app.announce_deletion(&stored);
    app.sessions().delete(&app, &id, caller.user()).await?;
    app.bash.forget(&id).await;
    if let Some(worktree) = worktree::of(app.config(), &Plan::resumed(&stored).working_dir) {
        release(&app, &worktree).await?;
    }
    let folder = app.config().conversations_dir.join(id.folder_name());
    // The folder has the files that tools kept. Most conversations have none.
    match tokio::fs::remove_dir_all(&folder).await {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(Failure::internal("the conversation was deleted, but its folder could not be removed"))
        }
        Ok(()) | Err(_) => Ok(success()),
    }
}

/// Removes a worktree, unless another conversation works in it: a fork shares the worktree of its source.
async fn release(app: &App, worktree: &Path) -> Result<(), Failure> {
    let wanted = worktree.to_path_buf();
    let is_used = app.ask(move |store| {
        for row in store.iter(&ConversationFilter::default(), Order::CreatedDescending) {
            let folder = Plan::resumed(&Stored::of_row(store, row?)?).working_dir;
            if folder.starts_with(&wanted) {
                return Ok(true);
            }
        }
        Ok(false)
    });
    if !is_used.await? {
        worktree::remove(worktree).await;
    }
    Ok(())
}

/// Returns a conversation's object as the response to its creation.
pub(super) async fn made(
    app: &App,
    id: &ConversationId,
    status: StatusCode,
    skills: Skills,
) -> Result<Response, Failure> {
    let id = id.clone();
    let stored = app.ask(move |store: &Store| Stored::read(store, &id)).await?;
    Ok((status, Json(stored.info(skills, Runtime::Omitted))).into_response())
}
