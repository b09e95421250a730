//! The OpenHands agent-server API over one store. It answers the requests of the real clients from the log.
//!
//! [`serve`] listens. [`App`] is the state that all requests share. Handlers contain no rules: they read a request
//! (`http/request.rs`), ask the store or a running conversation, and write the reference's answer (`http/failure.rs`
//! for refusals). Nothing is loaded at the start. The cost of a request depends on the data that it reads. Source of
//! every format: `docs/reference/server.md`.
//!
//! The rooms, from top to bottom. Each may name only those above it (`SUBROOMS` in `tests/tidy.rs` has the table):
//!
//! * `webhook.rs`, `config.rs`: what the operator chooses.
//! * `http`: requests and answers, who may call, and how many connections and bytes a client may have.
//! * `live`: the shared state, the open conversations, and the delivery of their events.
//! * `settings`: settings, profiles, secrets, extensions, and the agent that they make.
//! * `workspace`: files, commands, repositories and archives.
//! * `conversation`: conversations, commands to them, and their events.
//! * `socket`: live events over WebSockets.
//! * `annals`: the routes that Annals adds to the reference's interface.
//! * `site`: the web page, the description of the interface, probes and metrics.

mod annals;
mod config;
mod conversation;
mod http;
mod live;
mod schedule;
mod settings;
mod site;
mod socket;
mod webhook;
mod workspace;

use std::future::Future;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::middleware::{from_fn, from_fn_with_state};
pub use config::{Config, Consistency, IDLE_MAX, RUNS_MAX};
use tokio_util::sync::CancellationToken;

use self::conversation::{command, conversations, events, gateway};
pub use self::http::certificates::Certificates;
pub use self::http::listener::Listener;
use self::http::{auth, cors, listen, origin, request::BODY_BYTES_MAX};
#[cfg(feature = "postgres")]
use self::live::replica;
pub use self::live::{App, Undelivered};
use self::live::{backups, delivery, heads, notice};
pub use self::schedule::{BackupSchedule, HeadSchedule};
use self::settings::extension::{agents, catalog, plugins, skills};
use self::settings::{agent_profiles, connections, meta_profiles, profiles, tries, workspaces};
use self::site::{metrics, openapi, page, probes, standins};
pub use self::webhook::{WebhookError, WebhookSpec};
#[cfg(feature = "cli")]
pub(crate) use self::workspace::private;
use self::workspace::{bash, browser, file, git};

/// Returns all routes of the server, for a host with its own listener.
pub fn router(app: Arc<App>) -> Router {
    let conversations = Router::new()
        .nest("/conversations", conversations::routes())
        .nest("/conversations/{conversation_id}", command::routes())
        .nest("/conversations/{conversation_id}/events", events::routes())
        .layer(from_fn_with_state(Arc::clone(&app), delivery::before_the_answer));
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
        .nest("/auth", browser::keys())
        .nest("/skills", skills::routes())
        .nest("/plugins", plugins::routes())
        .nest("/sub-agents", agents::routes())
        .layer(DefaultBodyLimit::max(BODY_BYTES_MAX));
    let sockets = socket::routes();
    #[cfg(feature = "postgres")]
    let (api, sockets) = {
        let layer = from_fn_with_state(Arc::clone(&app), replica::answer);
        (api.layer(layer.clone()), sockets.layer(layer))
    };
    let api = api.layer(from_fn_with_state(Arc::clone(app.keys()), auth::check));
    let files = Router::new()
        .nest("/conversations", browser::routes())
        .layer(from_fn_with_state(Arc::clone(&app), browser::check));
    let config = app.shared_config();
    Router::new()
        .merge(probes::routes())
        .merge(metrics::routes(&app))
        .merge(gateway::routes(&app))
        .merge(annals::mcp::routes(&app))
        .merge(openapi::routes())
        .merge(page::routes())
        .nest("/api", api.merge(files))
        .nest("/sockets", sockets)
        .fallback(openapi::no_route)
        .method_not_allowed_fallback(openapi::no_method)
        .layer(from_fn_with_state(Arc::clone(app.keys()), origin::check))
        .layer(from_fn_with_state(config, cors::answer))
        .layer(from_fn(origin::mark))
        .layer(from_fn_with_state(Arc::clone(&app), metrics::measure))
        .with_state(app)
}

/// How long pausing and closing may each take when the server ends. Without this limit, a task that hangs could keep
/// the program running.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(3);

/// Serves requests on `listener` until `shutdown` completes. Running requests then have a few seconds to end. Running
/// conversations are paused, or interrupted if pausing takes too long. Afterwards [`App::undelivered`] says what the
/// collector of telemetry did not get.
///
/// # Errors
/// An error if the telemetry cannot be started.
pub async fn serve(
    listener: impl Into<Listener>,
    app: Arc<App>,
    shutdown: impl Future<Output = ()> + Send + 'static,
) -> io::Result<()> {
    let all_closed = CancellationToken::new();
    let telemetry = telemetry(&app, &all_closed)?;
    app.repair().await;
    notice::started(app.store());
    let keeper = tokio::spawn({
        let app = Arc::clone(&app);
        async move { app.look_after().await }
    });
    let backups = tokio::spawn(backups::run(Arc::clone(&app)));
    let heads = tokio::spawn(heads::run(Arc::clone(&app)));
    #[cfg(feature = "postgres")]
    let watching = tokio::spawn(replica::watch(Arc::clone(&app)));
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
        notice::ending(app.config().runs_max.saturating_sub(app.sessions().slots_free()));
        // Runs that do not pause in time are ended by `close`.
        let _late = tokio::time::timeout(SHUTDOWN_TIMEOUT, app.rest()).await;
    };
    let pressure = app.budgets().pressure();
    tokio::join!(
        listen::run(listener.into(), router(Arc::clone(&app)), pressure, app.ending().clone()),
        resting
    );
    // A conversation that is not closed in time is recovered when it is opened again.
    let _late = tokio::time::timeout(SHUTDOWN_TIMEOUT, app.close()).await;
    // All tasks have been notified of the end.
    let _ended = (ender.await, keeper.await, backups.await, heads.await);
    #[cfg(feature = "postgres")]
    let _ended = watching.await;
    #[cfg(feature = "postgres")]
    app.desk().leave().await;
    all_closed.cancel();
    if let Some(undelivered) = telemetry.await {
        app.record_undelivered(undelivered);
    }
    notice::ended(app.started().elapsed());
    Ok(())
}

/// Starts to send telemetry to the collector, if one is configured, until `ending` is cancelled. The result waits for
/// the end, and returns what the collector did not get.
#[cfg(feature = "otel")]
fn telemetry(
    app: &Arc<App>,
    ending: &CancellationToken,
) -> io::Result<impl Future<Output = Option<Undelivered>> + use<>> {
    let telemetry = app.telemetry().map_err(io::Error::other)?;
    let ending = ending.clone();
    let task = tokio::spawn(async move {
        match telemetry {
            Some(telemetry) => telemetry.run(ending).await,
            None => None,
        }
    });
    // If the task has panicked, the panic was already reported.
    Ok(async move { task.await.ok().flatten() })
}

/// Fails if a collector is configured, because this build has no telemetry.
#[cfg(not(feature = "otel"))]
fn telemetry(app: &Arc<App>, _: &CancellationToken) -> io::Result<std::future::Ready<Option<Undelivered>>> {
    match &app.config().telemetry {
        None => Ok(std::future::ready(None)),
        Some(_) => Err(io::Error::other("this build has no telemetry: build it with --features otel")),
    }
}
