//! `/metrics`, where Prometheus reads the server's metrics.
//!
//! Requests are counted and timed by route, never by path, so that the number of series is limited. The values of the
//! file and of this process are read for each request. Source of the text: Prometheus' exposition format 0.0.4.

use std::sync::Arc;

use axum::Router;
use axum::extract::{MatchedPath, Request, State};
use axum::http::{StatusCode, header};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::get;

use crate::ids::Position;
use crate::server::App;
use crate::server::http::auth;
use crate::server::http::caller::Caller;
use crate::server::http::failure::{Failure, Reason};
use crate::server::live::metrics::{Kind, Text};
use crate::server::live::notice;
#[cfg(feature = "postgres")]
use crate::server::live::replica;
use crate::store::{ConversationFilter, SubscriptionStatus};

/// The route under which requests are counted that match no route.
const NO_ROUTE: &str = "none";

/// The maximum number of subscriptions that have a line: those that are the furthest behind.
const SUBSCRIPTIONS_MAX: usize = 100;

pub(in crate::server) fn routes(app: &Arc<App>) -> Router<Arc<App>> {
    // Prometheus has a setting for a bearer token.
    let check = from_fn_with_state(Arc::clone(app.keys()), auth::check_either);
    Router::new().route("/metrics", get(show)).layer(check)
}

/// Counts a request and measures the time until its answer began.
pub(in crate::server) async fn measure(
    State(app): State<Arc<App>>,
    request: Request,
    next: Next,
) -> Response {
    let route = request.extensions().get::<MatchedPath>().cloned();
    let (method, uri) = (request.method().clone(), request.uri().clone());
    let begun = std::time::Instant::now();
    let response = next.run(request).await;
    let route = route.as_ref().map_or(NO_ROUTE, MatchedPath::as_str);
    let (status, took) = (response.status(), begun.elapsed());
    let key = response.extensions().get::<Caller>().and_then(Caller::name);
    if let Some(name) = key {
        app.metrics().count_key(name, status);
    }
    app.metrics().count(route, &method, status, took);
    if status == StatusCode::INTERNAL_SERVER_ERROR || status == StatusCode::INSUFFICIENT_STORAGE {
        let reason = response.extensions().get::<Reason>().map(|reason| &*reason.0);
        notice::failed(method.as_str(), uri.path(), status.as_u16(), reason);
    }
    notice::answered(method.as_str(), uri.path(), status.as_u16(), took, key.map(|name| &**name));
    response
}

async fn show(State(app): State<Arc<App>>) -> Result<Response, Failure> {
    let names = app.keys().names().await?;
    let mut text = Text::default();
    file(&app, &mut text).await?;
    #[cfg(feature = "postgres")]
    replica::write(&app, &mut text);
    process(&app, &mut text);
    app.metrics().write(&mut text, &names);
    app.work().write(&mut text);
    Ok(([(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], text.into_string())
        .into_response())
}

/// Writes the metrics of the file.
async fn file(app: &App, text: &mut Text) -> Result<(), Failure> {
    let (head, conversations, subscriptions, path, log, free) = app
        .ask(|store| {
            let all = ConversationFilter::default();
            Ok((
                store.last_position()?,
                store.count_conversations(&all)?,
                store.subscriptions()?,
                store.path(),
                store.maintenance().write_log(),
                store.maintenance().free_bytes(),
            ))
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
    if let Some(free) = free {
        text.one("annals_disk_free_bytes", Kind::Gauge, "What is free on the file's disk.", free);
    }
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
    text.one(
        "annals_feed_behind",
        Kind::Gauge,
        "Events that the slowest client that follows the whole file has not been sent yet.",
        app.annals().feeds_behind(head),
    );
    behind(text, head, &subscriptions);
    Ok(())
}

/// Writes how far subscriptions are behind the log.
fn behind(text: &mut Text, head: Position, subscriptions: &[SubscriptionStatus]) {
    let name = "annals_subscription_behind";
    text.head(name, Kind::Gauge, "Events that a subscription has not acknowledged yet, by its name.");
    let mut all: Vec<(u64, &str)> =
        subscriptions.iter().map(|one| (head.0.saturating_sub(one.position.0), &*one.name)).collect();
    all.sort_by_key(|(behind, _)| std::cmp::Reverse(*behind));
    for (behind, subscription) in all.into_iter().take(SUBSCRIPTIONS_MAX) {
        text.line(name, &[("subscription", subscription)], behind as f64);
    }
}

/// Writes the metrics of this process.
fn process(app: &App, text: &mut Text) {
    let counts = app.store().maintenance().counts();
    text.one(
        "annals_appends_total",
        Kind::Counter,
        "Appends that this process has made durable.",
        counts.appends,
    );
    text.one(
        "annals_commits_total",
        Kind::Counter,
        "Transactions that committed these appends; several appends share one.",
        counts.commits,
    );
    let sessions = app.sessions();
    let running = app.config().runs_max.saturating_sub(sessions.slots_free());
    text.one(
        "annals_conversations_open",
        Kind::Gauge,
        "Conversations that are open in this process.",
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
    text.one(
        "annals_webhook_waiting_bytes",
        Kind::Gauge,
        "The bytes of events that wait for webhooks.",
        app.webhooks().bytes_waiting() as u64,
    );
    text.one(
        "annals_left_out",
        Kind::Counter,
        "Files, plugins and marketplaces that requests found and that could not be used, each counted once.",
        app.left_out().count(),
    );
    text.real(
        "annals_uptime_seconds",
        Kind::Gauge,
        "Seconds since the start.",
        app.started().elapsed().as_secs_f64(),
    );
}
