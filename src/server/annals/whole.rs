//! The whole file: its figures, its administrative log, and its verification.

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::{answer, ask};
use crate::audit::json as shape;
use crate::error::Result;
use crate::ids::ActNumber;
use crate::ids::ConversationId;
use crate::server::App;
use crate::server::http::caller::Caller;
use crate::server::http::failure::Failure;
use crate::server::http::request::Params;
use crate::server::http::stream::Stream;
use crate::store::{By, Store, Verification, VerifyStep};

/// The maximum number of administrative acts in a page, and the default.
const ACTS_MAX: u64 = 1000;
const ACTS: u64 = 100;

/// The minimum time between two lines of progress.
const PROGRESS_EVERY: Duration = Duration::from_millis(200);

/// The number of progress lines that are buffered for the client. Further ones are dropped.
const LINES_WAITING: usize = 16;

/// Returns the figures of the file. `by` splits them up.
pub(super) async fn stats(
    State(app): State<Arc<App>>,
    params: Params,
) -> std::result::Result<Json<Value>, Failure> {
    let splits = [
        ("conversation", By::Conversation),
        ("kind", By::Kind),
        ("tool", By::Tool),
        ("day", By::Day),
        ("workspace", By::Workspace),
        ("source", By::Source),
    ];
    let by = params.word("by", &splits)?;
    let figures = answer(&app, move |store| match by {
        Some(by) => Ok(shape::shares(&store.breakdown(by)?)),
        None => Ok(shape::statistics(&store.statistics()?, &store.usage(None)?)),
    });
    figures.await.map(Json)
}

/// Returns what the caller may do: the name of its key, the role, and whether the server changes nothing.
pub(super) async fn access(Extension(caller): Extension<Caller>) -> Json<Value> {
    Json(json!({
        "key": caller.name().map(|name| &**name),
        "role": caller.role().as_str(),
        "read_only": caller.reads_only(),
    }))
}

/// Returns the administrative acts after number `after`, the oldest first.
pub(super) async fn admin_log(
    State(app): State<Arc<App>>,
    params: Params,
) -> std::result::Result<Json<Value>, Failure> {
    let after = ActNumber(params.number("after", 0, i64::MAX as u64, 0)?);
    let limit = params.number("limit", 1, ACTS_MAX, ACTS)? as usize;
    let with_receipts = params.flag("receipts")?;
    let acts = ask(&app, move |store| {
        let acts = store.audit().admin_log(after, limit)?;
        let mut values = Vec::with_capacity(acts.len());
        for act in &acts {
            let mut value = shape::act(act);
            if with_receipts {
                value["receipts"] = store.audit().receipts(act.number)?.iter().map(shape::receipt).collect();
            }
            values.push(value);
        }
        let next = (acts.len() == limit).then(|| acts.last().map(|act| act.number.0)).flatten();
        Ok(json!({"acts": values, "next": next}))
    });
    acts.await.map(Json)
}

/// Verifies the file, or one conversation. Sends JSON lines: the progress, and at the end the result.
pub(super) async fn verify(
    State(app): State<Arc<App>>,
    params: Params,
) -> std::result::Result<Response, Failure> {
    let quick = params.flag("quick")?;
    let only = match params.get("conversation").map(str::to_owned) {
        Some(prefix) => Some(ask(&app, move |store| store.resolve(&prefix)).await?),
        None => None,
    };
    let permit = app.annals().verification()?;
    let (body, mut stream) = Stream::new();
    let (sender, mut receiver) = mpsc::channel::<Value>(LINES_WAITING);
    let work = tokio::spawn({
        let app = Arc::clone(&app);
        async move {
            let verified = ask(&app, move |store| check(store, only.as_ref(), quick, &sender)).await;
            drop(permit);
            verified
        }
    });
    tokio::spawn(async move {
        while let Some(line) = receiver.recv().await {
            if stream.write(format!("{line}\n").as_bytes()).await.is_err() {
                return;
            }
        }
        let last = match work.await {
            Ok(Ok(seen)) => json!({"done": shape::verification(&seen)}),
            Ok(Err(failure)) => json!({"failed": failure.message()}),
            Err(_) => json!({"failed": "a worker ended unexpectedly"}),
        };
        // A client that is gone needs no result.
        let _gone = stream.write(format!("{last}\n").as_bytes()).await;
    });
    Ok(([(header::CONTENT_TYPE, "application/x-ndjson")], body).into_response())
}

fn check(
    store: &Store,
    only: Option<&ConversationId>,
    quick: bool,
    sender: &mpsc::Sender<Value>,
) -> Result<Verification> {
    let total = match only {
        Some(id) => store.conversation(id)?.event_count,
        None => store.last_position()?.0,
    };
    let mut last = Instant::now();
    let mut progress = |doing: &str, events: u64, total: u64| {
        if last.elapsed() >= PROGRESS_EVERY {
            last = Instant::now();
            // If the buffer is full, the line is dropped. The next one has newer figures.
            let _full = sender.try_send(json!({"progress": {"doing": doing, "events": events, "of": total}}));
        }
    };
    if only.is_some() || quick {
        return store.audit().verify(only, &mut |now| progress("checking", now.events, total));
    }
    store.audit().verify_whole(&mut |step| match step {
        VerifyStep::Checking(now) => progress("checking", now.events, total),
        VerifyStep::Structure => progress("checking pages", total, total),
        VerifyStep::Comparing(now) => progress("replaying", now.position.0, now.last_position.0),
    })
}
