//! Probes, and information about the server. They need no key (`docs/reference/server.md#probes`).

use std::sync::Arc;

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use serde_json::{Value, json};

use super::page;
use crate::error::{AroundError, Error, PutBack};
use crate::server::App;
use crate::server::live::notice;
#[cfg(feature = "postgres")]
use crate::server::live::replica;
use crate::server::settings::extension::catalog;

/// With fewer free bytes on the disk, the server is not ready: 64 MiB. The largest request fits into it.
const FREE_BYTES_MIN: u64 = 64 << 20;

/// The version of the reference whose interface this server has.
const SDK_VERSION: &str = "1.58.0";

/// Later additions to the interface that this server supports, in the reference's words.
const CAPABILITIES: [&str; 8] = [
    "conversation_runtime_routes_v1",
    "profile_secret_scope_v1",
    "idempotent_conversation_create_v1",
    "tool_catalog_v1",
    "agent_profile_draft_materialize_v1",
    "agent_launch_pipeline_v1",
    "profile_public_skills_v1",
    "skill_catalog_v1",
];

pub(in crate::server) fn routes() -> Router<Arc<App>> {
    Router::new()
        .route("/health", get(ok))
        .route("/alive", get(ok))
        .route("/ready", get(ready))
        .route("/server_info", get(info))
        .route("/", get(root))
}

async fn ok() -> Json<Value> {
    Json(json!({"status": "ok"}))
}

/// Answers whether the server can do its work: it can read the file, and the disk has room for new events.
async fn ready(State(app): State<Arc<App>>) -> Response {
    let is_ending = app.ending().is_cancelled();
    let looked = app.ask(|store| {
        let maintenance = store.maintenance();
        store.last_position().map(|_| (maintenance.free_bytes(), maintenance.trouble()))
    });
    let reason = match looked.await {
        Ok((_, Some(trouble))) => {
            notice::failed("GET", "/ready", 503, Some(&trouble.to_string()));
            Some(match trouble {
                Error::Busy { holder: Some(holder), .. } => format!("appends fail: {holder} has the lock"),
                Error::Busy { .. } => "appends fail: another process has the lock".to_owned(),
                Error::Around(AroundError::PutBack(PutBack { from, lost, .. })) => format!(
                    "appends fail: another program put an older state into the file, without {lost} events from \
                     position {from} on; start the server again once the right state is there"
                ),
                _ => "appends fail; the log has the reason".to_owned(),
            })
        }
        Ok((free, None)) => obstacle(free.filter(|_| !app.store().is_read_only()), is_ending),
        Err(failure) => {
            // The reason may name paths, and a probe needs no key.
            notice::failed("GET", "/ready", 503, Some(&failure.message()));
            Some("the database cannot be read".to_owned())
        }
    };
    #[cfg(feature = "postgres")]
    let reason = reason.or_else(|| replica::obstacle(&app));
    match reason {
        None => Json(json!({"status": "ready"})).into_response(),
        Some(reason) => {
            let body = Json(json!({"status": "not ready", "detail": reason}));
            (StatusCode::SERVICE_UNAVAILABLE, body).into_response()
        }
    }
}

/// Returns why the server cannot do its work. `free`: the free bytes on the disk, if they matter.
fn obstacle(free: Option<u64>, is_ending: bool) -> Option<String> {
    match free {
        _ if is_ending => Some("the server is ending".to_owned()),
        Some(free) if free < FREE_BYTES_MIN => Some(format!(
            "the disk of the database has {free} bytes left; the server needs {FREE_BYTES_MIN} to take requests"
        )),
        Some(_) | None => None,
    }
}

/// Answers a browser with the web page, and every other client with information about the server.
async fn root(state: State<Arc<App>>, headers: HeaderMap) -> Response {
    match page::wanted(&headers) {
        Some(page) => page,
        None => info(state).await.into_response(),
    }
}

async fn info(State(app): State<Arc<App>>) -> Json<Value> {
    // Whole seconds, written as floats, as the reference does.
    let seconds = |since: std::time::Instant| since.elapsed().as_secs_f64().floor();
    Json(json!({
        "uptime": seconds(app.started()),
        "idle_time": seconds(app.last_activity()),
        "title": "Annals",
        "version": SDK_VERSION,
        "annals_version": env!("CARGO_PKG_VERSION"),
        "sdk_version": SDK_VERSION,
        "tools_version": SDK_VERSION,
        "workspace_version": SDK_VERSION,
        "build_git_sha": "unknown",
        "build_git_ref": "unknown",
        "python_version": "",
        "usable_tools": catalog::usable(&app),
        "runtime_idle_timeout_seconds": app.config().runtime_idle_timeout.map(|idle| idle.as_secs()),
        "conversation_runtime": "local",
        "available_conversation_runtimes": [],
        "capabilities": CAPABILITIES,
        "app_backend_ingress_url": null,
        "max_foreground_terminal_timeout_seconds": null,
        "docs": "/docs",
        "redoc": "/docs",
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_on_a_full_disk_or_that_ends_is_not_ready() {
        assert_eq!(obstacle(None, false), None);
        assert_eq!(obstacle(Some(FREE_BYTES_MIN), false), None);
        assert!(
            obstacle(Some(FREE_BYTES_MIN - 1), false)
                .is_some_and(|text| text.contains("67108863 bytes left"))
        );
        assert!(obstacle(None, true).is_some_and(|text| text.contains("ending")));
    }
}
