//! The OpenHands agent-server API over one store: what the real clients ask, answered from the log.
//!
//! [`serve`] listens; [`App`] is what all requests share. Handlers hold no rules: they read a request (`request`),
//! ask the store or a running conversation, and write the answer the reference would (`failure` for what
//! is refused). Nothing is loaded at the start; a request costs what it reads. Source of every shape:
//! `api.md`.

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

/// The longest body of a request, uploads aside: a message with pictures.
const BODY_BYTES_MAX: usize = 32 << 20;

/// Everything that the server answers, for a host that brings its own listener.
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

/// How long everything may take to end, once requests under way have had their time: with that, what keeps others waiting
/// does not keep the program.
const END: Duration = Duration::from_secs(3);

/// Listens on `listener` until `shutdown` ends; requests under way are answered for a few seconds, and what runs is
/// paused, or interrupted where it takes longer.
///
/// # Errors
/// What the listener fails with.
pub async fn serve(
    listener: TcpListener,
    app: Arc<App>,
    shutdown: impl Future<Output = ()> + Send + 'static,
) -> io::Result<()> {
    let told_all = CancellationToken::new();
    let telemetry = telemetry(&app, &told_all)?;
    app.repair().await;
    let keeper = tokio::spawn({
        let app = Arc::clone(&app);
        async move { app.look_after().await }
    });
    let told = {
        let app = Arc::clone(&app);
        async move {
            shutdown.await;
            app.end();
        }
    };
    let told = tokio::spawn(told);
    let resting = async {
        app.ending().cancelled().await;
        // What does not come to rest is ended with everything else.
        let _late = tokio::time::timeout(END, app.rest()).await;
    };
    let pressure = app.budgets().pressure();
    tokio::join!(listen::run(listener, router(Arc::clone(&app)), pressure, app.ending().clone()), resting);
    // What is left of it is recovered when it is opened again.
    let _late = tokio::time::timeout(END, app.close()).await;
    // Both have heard of the end.
    let _gone = (told.await, keeper.await);
    told_all.cancel();
    let _gone = telemetry.await;
    Ok(())
}

/// Tells a collector of what happens, where there is one, until `ending`.
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

/// There is none in this build.
#[cfg(not(feature = "otel"))]
fn telemetry(app: &Arc<App>, _: &CancellationToken) -> io::Result<std::future::Ready<()>> {
    match &app.config().telemetry {
        None => Ok(std::future::ready(())),
        Some(_) => Err(io::Error::other("this build has no telemetry: build it with --features otel")),
    }
}
