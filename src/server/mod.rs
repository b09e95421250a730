//! The OpenHands agent-server API over one store. It answers the requests of the real clients from the log.
//!
//! [`serve`] listens. [`App`] is the state that all requests share. Handlers contain no rules: they read a request
//! (`request`), ask the store or a running conversation, and write the reference's answer (`failure` for refusals).
//! Nothing is loaded at the start. The cost of a request depends on the data that it reads. Source of every format:
//! `docs/reference/server.md`.

mod agent_profiles;
mod agents;
mod annals;
mod app;
mod archive;
mod aside;
mod auth;
mod bash;
mod budget;
mod catalog;
mod child;
mod command;
mod config;
mod connections;
mod conversations;
mod cors;
mod create;
mod events;
mod exposure;
mod extensions;
mod failure;
mod file;
mod fork;
mod gate;
mod gateway;
mod git;
mod goal;
mod heard;
mod hub;
mod info;
mod keep;
mod launch;
mod listen;
mod message;
mod meta;
mod meta_profiles;
mod metrics;
mod named;
mod openapi;
mod opening;
mod origin;
mod page;
mod percent;
mod piece;
mod plan;
mod plugins;
pub(crate) mod private;
mod probes;
mod profiles;
mod request;
mod scope;
mod session;
mod sessions;
mod settings;
mod shape;
mod skills;
mod socket;
mod stall;
mod standins;
#[cfg(feature = "otel")]
mod telemetry;
mod title;
mod together;
mod tries;
mod webhook;
mod wire;
mod workspace;
mod workspaces;
mod worktree;
mod zip;

use std::future::Future;
use std::io;
use std::sync::Arc;
use std::time::Duration;

pub use app::App;
use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::middleware::{from_fn, from_fn_with_state};
pub use config::{Config, IDLE_MAX, RUNS_MAX};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
pub use webhook::{WebhookError, WebhookSpec};

/// The maximum size of a request's body, except for uploads. It is enough for a message with pictures.
const BODY_BYTES_MAX: usize = 32 << 20;

/// Returns all routes of the server, for a host with its own listener.
pub fn router(app: Arc<App>) -> Router {
    let conversations = Router::new()
        .nest("/conversations", conversations::routes())
        .nest("/conversations/{conversation_id}", command::routes())
        .nest("/conversations/{conversation_id}/events", events::routes())
        .layer(from_fn_with_state(Arc::clone(&app), heard::before_the_answer));
    let api = Router::new()
        .merge(conversations)
        .nest("/bash", bash::routes())
        .nest("/file", file::routes().merge(file::discovery()))
        .nest("/git", git::routes())
        .nest("/annals", annals::routes())
        .nest("/conversations/{conversation_id}/bash", bash::routes())
        .nest("/conversations/{conversation_id}/file", file::routes())
        .nest("/conversations/{conversation_id}/git", git::routes())
        .nest("/settings", settings::routes())
        .nest("/profiles", profiles::routes())
        .nest("/agent-profiles", agent_profiles::routes())
        .nest("/meta-profiles", meta_profiles::routes())
        .merge(standins::routes())
        .merge(tries::routes())
        .merge(catalog::tools())
        .nest("/llm", catalog::models().merge(connections::routes()))
        .nest("/hooks", catalog::hooks())
        .nest("/workspaces", workspaces::routes())
        .nest("/auth", workspace::keys())
        .nest("/skills", skills::routes())
        .nest("/plugins", plugins::routes())
        .nest("/sub-agents", agents::routes())
        .layer(DefaultBodyLimit::max(BODY_BYTES_MAX))
        .layer(from_fn_with_state(Arc::clone(&app), auth::check));
    let files = Router::new()
        .nest("/conversations", workspace::routes())
        .layer(from_fn_with_state(Arc::clone(&app), workspace::check));
    Router::new()
        .merge(probes::routes())
        .merge(metrics::routes())
        .merge(gateway::routes(&app))
        .merge(openapi::routes())
        .merge(page::routes())
        .nest("/api", api.merge(files))
        .nest("/sockets", socket::routes())
        .fallback(openapi::no_route)
        .method_not_allowed_fallback(openapi::no_method)
        .layer(from_fn_with_state(Arc::clone(&app), origin::check))
        .layer(from_fn_with_state(Arc::clone(&app), cors::answer))
        .layer(from_fn(origin::mark))
        .layer(from_fn_with_state(Arc::clone(&app), metrics::measure))
        .with_state(app)
}

/// How long pausing and closing may each take when the server ends. Without this limit, a task that hangs could keep
/// the program running.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(3);

/// Serves requests on `listener` until `shutdown` completes. Running requests then have a few seconds to end. Running
/// conversations are paused, or interrupted if pausing takes too long.
///
/// # Errors
/// An error if the telemetry cannot be started.
pub async fn serve(
    listener: TcpListener,
    app: Arc<App>,
    shutdown: impl Future<Output = ()> + Send + 'static,
) -> io::Result<()> {
    let all_closed = CancellationToken::new();
    let telemetry = telemetry(&app, &all_closed)?;
    app.repair().await;
    let keeper = tokio::spawn({
        let app = Arc::clone(&app);
        async move { app.look_after().await }
    });
    let ender = {
        let app = Arc::clone(&app);
        async move {
            shutdown.await;
            app.end();
        }
    };
    let ender = tokio::spawn(ender);
    let resting = async {
        app.ending().cancelled().await;
        // Runs that do not pause in time are ended by `close`.
        let _late = tokio::time::timeout(SHUTDOWN_TIMEOUT, app.rest()).await;
    };
    let pressure = app.budgets().pressure();
    tokio::join!(listen::run(listener, router(Arc::clone(&app)), pressure, app.ending().clone()), resting);
    // A conversation that is not closed in time is recovered when it is opened again.
    let _late = tokio::time::timeout(SHUTDOWN_TIMEOUT, app.close()).await;
    // Both tasks have been notified of the end.
    let _ended = (ender.await, keeper.await);
    all_closed.cancel();
    let _ended = telemetry.await;
    Ok(())
}

/// Sends telemetry to the collector, if one is configured, until `ending` is cancelled.
#[cfg(feature = "otel")]
fn telemetry(app: &Arc<App>, ending: &CancellationToken) -> io::Result<tokio::task::JoinHandle<()>> {
    let telemetry = app.telemetry().map_err(io::Error::other)?;
    let ending = ending.clone();
    Ok(tokio::spawn(async move {
        if let Some(telemetry) = telemetry {
            telemetry.run(ending).await;
        }
    }))
}

/// Fails if a collector is configured, because this build has no telemetry.
#[cfg(not(feature = "otel"))]
fn telemetry(app: &Arc<App>, _: &CancellationToken) -> io::Result<std::future::Ready<()>> {
    match &app.config().telemetry {
        None => Ok(std::future::ready(())),
        Some(_) => Err(io::Error::other("this build has no telemetry: build it with --features otel")),
    }
}
