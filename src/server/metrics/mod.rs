//! What the server counts, and `/metrics`, where Prometheus reads it.
//!
//! Requests are counted and timed by route, never by path, so that there are as many series as routes. What the file
//! and this process hold is looked up when somebody asks. Source of the text: Prometheus' exposition format 0.0.4.

mod request;
mod text;

use std::sync::Arc;

use axum::Router;
use axum::extract::{MatchedPath, Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
pub(super) use request::Metrics;
use text::{Kind, Text};

use super::App;
use super::auth;
use super::failure::Failure;
use crate::store::ConversationFilter;

/// The route under which what no route fits is counted.
const NO_ROUTE: &str = "none";

pub(super) fn routes() -> Router<Arc<App>> {
    Router::new().route("/metrics", get(show))
}

/// Counts a request and how long it took until its answer began.
pub(super) async fn measure(State(app): State<Arc<App>>, request: Request, next: Next) -> Response {
    let route = request.extensions().get::<MatchedPath>().cloned();
    let method = request.method().clone();
    let begun = std::time::Instant::now();
    let response = next.run(request).await;
    let route = route.as_ref().map_or(NO_ROUTE, MatchedPath::as_str);
    app.metrics().count(route, &method, response.status(), begun.elapsed());
    response
}

/// Whether a caller may see the figures: as everywhere, or with the key as a bearer's token, which is what Prometheus
/// has a setting for.
fn may(app: &App, headers: &HeaderMap) -> bool {
    let bearer = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
    let bearer = bearer.and_then(|value| value.strip_prefix("Bearer "));
    auth::is_known(app, bearer.or_else(|| auth::key(headers)))
}

async fn show(State(app): State<Arc<App>>, headers: HeaderMap) -> Result<Response, Failure> {
    if !may(&app, &headers) {
        return Err(Failure::Refused(StatusCode::UNAUTHORIZED, "Unauthorized".to_owned()));
    }
    let mut text = Text::default();
    file(&app, &mut text).await?;
    process(&app, &mut text);
    app.metrics().write(&mut text);
    Ok(([(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], text.into_string())
        .into_response())
}

/// What the file holds.
async fn file(app: &App, text: &mut Text) -> Result<(), Failure> {
    let (head, conversations, path, log) = app
        .ask(|store| {
            let all = ConversationFilter::default();
            Ok((store.head()?, store.count_conversations(&all)?, store.path(), store.write_log()))
        })
        .await?;
    let size = |path: std::path::PathBuf| std::fs::metadata(path).map_or(0, |meta| meta.len());
    text.one(
        "annals_log_position",
        Kind::Counter,
        "The newest position of the log: every event that was ever appended.",
        head.0,
    );
    text.one("annals_conversations", Kind::Gauge, "Conversations in the file.", conversations);
    text.one(
        "annals_database_bytes",
        Kind::Gauge,
        "The size of the file, without its write-ahead log.",
        size(path),
    );
    text.one("annals_wal_bytes", Kind::Gauge, "The size of its write-ahead log.", log.bytes);
    text.one(
        "annals_wal_pinned",
        Kind::Gauge,
        "1 while a reader that does not end keeps the write-ahead log from beginning anew.",
        u64::from(log.is_pinned()),
    );
    text.head(
        "annals_wal_readers",
        Kind::Gauge,
        "1 for each process that read from the write-ahead log while it was kept from beginning anew.",
    );
    for reader in &log.readers {
        let labels =
            [("process", &*reader.process.to_string()), ("name", reader.name.as_deref().unwrap_or_default())];
        text.line("annals_wal_readers", &labels, 1.0);
    }
    Ok(())
}

/// What this process does.
fn process(app: &App, text: &mut Text) {
    let counts = app.store().counts();
    text.one(
        "annals_appends_total",
        Kind::Counter,
        "Appends that this process has made durable.",
        counts.appends,
    );
    text.one(
        "annals_commits_total",
        Kind::Counter,
        "Transactions that took them; several share one.",
        counts.commits,
    );
    let sessions = app.sessions();
    let running = app.config().runs_max.saturating_sub(sessions.slots_free());
    text.one(
        "annals_conversations_open",
        Kind::Gauge,
        "Conversations that are open here.",
        sessions.count() as u64,
    );
    text.one("annals_runs", Kind::Gauge, "Conversations that run now.", running as u64);
    text.one(
        "annals_runs_max",
        Kind::Gauge,
        "Conversations that may run at once.",
        app.config().runs_max as u64,
    );
    text.one(
        "annals_sockets_open",
        Kind::Gauge,
        "Sockets that follow a conversation.",
        app.hub().listening() as u64,
    );
    text.one(
        "annals_feeds_open",
        Kind::Gauge,
        "Clients that follow the whole file.",
        app.annals().feeds_open() as u64,
    );
    text.real(
        "annals_uptime_seconds",
        Kind::Gauge,
        "Seconds since the start.",
        app.started().elapsed().as_secs_f64(),
    );
}
