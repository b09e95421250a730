//! The routes under `/bash`.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Bytes;
use axum::extract::State;
use axum::response::Response;
use axum::routing::{get, post};
use axum::{Json, Router};
use chrono::{DateTime, Utc};
use serde_json::{Map, Value, json};
use tokio::sync::oneshot;
use uuid::Uuid;

use super::scope::Scope;
use crate::ids::Timestamp;
use crate::server::App;
use crate::server::http::budget::{Admission, PAGE_BYTES_MAX};
use crate::server::http::failure::{Failure, Problem, success};
use crate::server::http::json::{array, held};
use crate::server::http::request::{self, Params, Steps};
use crate::server::live::bash::history::Wanted;
use crate::server::live::bash::{BashCommand, BashEvent, BashOutput, process};

const TIMEOUT_SECONDS: u64 = 300;

/// How long a request to stop a command waits for its end.
const STOP_PATIENCE: Duration = Duration::from_secs(3);

pub(in crate::server) fn routes() -> Router<Arc<App>> {
    Router::new()
        .route("/start_bash_command", post(start))
        .route("/execute_bash_command", post(execute))
        .route("/bash_events/search", get(search))
        .route("/bash_events", axum::routing::delete(clear))
        .route("/bash_events/", get(batch))
        .route("/bash_events/{event_id}", get(one))
        .route("/bash_commands/{command_id}/stop", post(stop))
}

/// Reads a command from a body's members.
fn command(members: &Map<String, Value>) -> Result<BashCommand, Failure> {
    let timeout = match members.get("timeout") {
        None | Some(Value::Null) => TIMEOUT_SECONDS,
        Some(value) => value.as_u64().ok_or_else(|| {
            Problem::new("int_type", &["body", "timeout"], "Input should be a valid integer")
        })?,
    };
    Ok(BashCommand {
        id: Uuid::new_v4(),
        timestamp: Timestamp::now().to_utc(),
        command: request::required(members, "command")?.to_owned(),
        cwd: request::text(members, "cwd")?.map(str::to_owned),
        timeout,
    })
}

/// Starts a command from a body or from a socket's frame. Returns it, and a receiver of its last output, which is sent
/// when the command has ended.
pub(in crate::server) async fn begin(
    app: &App,
    scope: &Scope,
    members: &Map<String, Value>,
) -> Result<(BashCommand, oneshot::Receiver<BashOutput>), Failure> {
    let command = command(members)?;
    let folder = scope.folder(command.cwd.as_deref(), app).await?;
    app.touch();
    let last = process::start(&scope.history(app), &command, folder.as_deref())?;
    Ok((command, last))
}

async fn start(State(app): State<Arc<App>>, scope: Scope, body: Bytes) -> Result<Json<Value>, Failure> {
    let (command, _last) = begin(&app, &scope, &request::object(&body)?).await?;
    Ok(Json(BashEvent::Command(command).to_json()))
}

async fn execute(State(app): State<Arc<App>>, scope: Scope, body: Bytes) -> Result<Json<Value>, Failure> {
    let (_, last) = begin(&app, &scope, &request::object(&body)?).await?;
    // The last output is always sent: the task of a command sends it at its end.
    let last = last.await.map_err(|_| Failure::internal("the command was lost"))?;
    Ok(Json(BashEvent::Output(last).to_json()))
}

async fn search(State(app): State<Arc<App>>, scope: Scope, params: Params) -> Result<Response, Failure> {
    let order = [("TIMESTAMP", false), ("TIMESTAMP_DESC", true)];
    let wanted = Wanted {
        kind: params
            .word("kind__eq", &[("BashCommand", "BashCommand"), ("BashOutput", "BashOutput")])?
            .map(Into::into),
        command_id: params.get("command_id__eq").map(|id| uuid(id, "query", "command_id__eq")).transpose()?,
        timestamp_from: time(&params, "timestamp__gte")?,
        timestamp_before: time(&params, "timestamp__lt")?,
        order_above: match params.get("order__gt") {
            Some("-1") | None => None,
            Some(_) => Some(params.number("order__gt", 0, u64::MAX, 0)?),
        },
        descending: params.word("sort_order", &order)?.unwrap_or_default(),
    };
    let limit = params.number("limit", 1, 100, 100)? as usize;
    let first = params.get("page_id").and_then(|id| Uuid::try_parse(id).ok());
    let budget = &app.budgets().pages;
    let history = scope.history(&app);
    let mut charge = budget.free();
    let (items, next) = loop {
        let mut admission = Admission::new(&mut charge, PAGE_BYTES_MAX, true);
        let page = history.page(&wanted, first, limit, |bytes| admission.admits(bytes));
        match admission.refused() {
            // The budget has no room even for the first event: wait for room.
            Some(short) if page.0.is_empty() => {
                drop(charge);
                charge = budget.take(short).await?;
            }
            Some(_) | None => break page,
        }
    };
    let mut text = array(items.into_iter().map(|event| event.to_json().to_string()));
    let next = next.map_or(Value::Null, |id| Value::from(id.simple().to_string()));
    text.insert_str(0, r#"{"items":"#);
    text.push_str(&format!(r#","next_page_id":{next}}}"#));
    Ok(held(charge.hold(text)))
}

/// Returns several events by id. The ids are a list in the body, as in the reference, or are in the query.
async fn batch(
    State(app): State<Arc<App>>,
    scope: Scope,
    params: Params,
    body: Bytes,
) -> Result<Json<Value>, Failure> {
    let ids = match request::json(&body)? {
        Some(Value::Array(ids)) => ids,
        Some(_) => return Err(Problem::new("list_type", &["body"], "Input should be a valid list").into()),
        None => params.all("event_ids").map(Value::from).collect(),
    };
    let history = scope.history(&app);
    let find = |id: Value| Uuid::try_parse(id.as_str()?).ok().and_then(|id| history.get(id));
    let events = ids.into_iter().map(find);
    Ok(Json(events.map(|event| event.map_or(Value::Null, |event| event.to_json())).collect()))
}

async fn one(State(app): State<Arc<App>>, scope: Scope, steps: Steps) -> Result<Json<Value>, Failure> {
    let event = Uuid::try_parse(steps.get("event_id")).ok().and_then(|id| scope.history(&app).get(id));
    event.map(|event| Json(event.to_json())).ok_or_else(|| Failure::not_found("Item not found"))
}

async fn clear(State(app): State<Arc<App>>, scope: Scope) -> Json<Value> {
    Json(json!({"cleared_count": scope.history(&app).clear()}))
}

async fn stop(State(app): State<Arc<App>>, scope: Scope, steps: Steps) -> Result<Json<Value>, Failure> {
    let id = uuid(steps.get("command_id"), "path", "command_id")?;
    let ending = scope.history(&app).stop(id).ok_or_else(|| Failure::not_found("Command not found"))?;
    if let Some(ending) = ending {
        // The command's task drops its receiver when the process has ended.
        let _still_dying = tokio::time::timeout(STOP_PATIENCE, ending.closed()).await;
    }
    Ok(success())
}

fn uuid(text: &str, place: &str, name: &str) -> Result<Uuid, Failure> {
    Uuid::try_parse(text).map_err(|_| {
        Problem::new("uuid_parsing", &[place, name], "Input should be a valid UUID").with_input(text).into()
    })
}

fn time(params: &Params, name: &str) -> Result<Option<DateTime<Utc>>, Failure> {
    let Some(text) = params.get(name) else { return Ok(None) };
    let parsed = Timestamp::parse_typed(text).and_then(|time| DateTime::from_timestamp_micros(time.0));
    parsed.map(Some).ok_or_else(|| {
        let message = "Input should be a valid datetime or date";
        Problem::new("datetime_from_date_parsing", &["query", name], message).with_input(text).into()
    })
}
