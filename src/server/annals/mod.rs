//! `/api/annals/`: the routes that Annals adds to the reference's interface.
//!
//! They show any conversation of the file, named by its id or a prefix of it, at any point. Payloads are shown as they
//! are stored. Only a few questions about the whole file run at once (`http/permits.rs`), so that a client with many
//! questions does not block the others. Responses have the shapes of `annals --json`. The room names `live` and `http`.

mod catalogue;
mod feed;
mod log;
pub(super) mod mcp;
mod moment;
mod question;
mod shorten;
mod whole;

use std::sync::Arc;

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::routing::{get, post};

use super::App;
use crate::error::{Error, Result};
use crate::server::http::failure::Failure;
use crate::server::http::request::Params;
use crate::store::{Cancel, Store};

pub(super) fn routes() -> Router<Arc<App>> {
    let append_limit = DefaultBodyLimit::max(log::APPEND_BYTES_MAX);
    Router::new()
        .route("/conversations", get(catalogue::list))
        .route("/conversations/{conversation_id}", get(catalogue::one))
        .route("/conversations/{conversation_id}/state", get(moment::state))
        .route("/conversations/{conversation_id}/view", get(moment::view))
        .route("/conversations/{conversation_id}/messages", get(moment::messages))
        .route("/conversations/{conversation_id}/branches", get(moment::branches))
        .route(
            "/conversations/{conversation_id}/events",
            post(log::append).layer(append_limit).get(log::page),
        )
        .route("/access", get(whole::access))
        .route("/diff", get(moment::diff))
        .route("/search", get(question::search))
        .route("/query", get(question::views).post(question::query))
        .route("/reports", get(question::reports))
        .route("/reports/{name}", get(question::report))
        .route("/stats", get(whole::stats))
        .route("/admin-log", get(whole::admin_log))
        .route("/verify", get(whole::verify))
        .route("/feed", get(feed::open))
}

/// Runs `work` on the store, on a thread that may block. The failure for an unknown conversation or event names it.
async fn ask<T: Send + 'static>(
    app: &App,
    work: impl FnOnce(&Store) -> Result<T> + Send + 'static,
) -> std::result::Result<T, Failure> {
    app.ask(move |store| Ok(work(store))).await?.map_err(named)
}

/// Answers a question that may take long. Only a few run at once. The question is cancelled when its client is gone.
///
/// It keeps its permit until it has really ended, also if the client is gone.
async fn answer<T: Send + 'static>(
    app: &App,
    work: impl FnOnce(&Store) -> Result<T> + Send + 'static,
) -> std::result::Result<T, Failure> {
    let permit = app.annals().question().await?;
    let cancel = Cancel::default();
    let governed = cancel.clone();
    let _cancels_if_dropped = cancel.clone().drop_guard();
    let answer = ask(app, move |store| {
        let _permit = permit;
        governed.govern(|| work(store))
    });
    tokio::pin!(answer);
    tokio::select! {
        answer = &mut answer => answer,
        () = app.ending().cancelled() => {
            cancel.cancel();
            answer.await
        }
    }
}

/// Makes a failure of the store's error. The one for an unknown conversation or event names it.
fn named(error: Error) -> Failure {
    match error {
        Error::UnknownConversation { .. } | Error::UnknownEvent { .. } => {
            Failure::not_found(error.to_string())
        }
        error => error.into(),
    }
}

/// The format of a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    Json,
    Csv,
    Html,
}

impl Form {
    /// Reads the parameter `format`. The default is JSON.
    fn of(params: &Params, known: &[(&str, Self)]) -> std::result::Result<Self, Failure> {
        Ok(params.word("format", known)?.unwrap_or(Self::Json))
    }
}
