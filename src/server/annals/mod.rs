//! `/api/annals/`: what Annals adds to the reference's interface.
//!
//! Any conversation of the file can be asked for, by its id or the beginning of one, as of any point; payloads are
//! shown as they are stored. Questions about the whole file are few at a time ([`Gates`]), so that nobody who asks
//! much keeps the others waiting. Answers have the shapes of `annals --json`.

mod catalogue;
mod feed;
mod gates;
mod log;
mod moment;
mod question;
mod shorten;
mod stream;
mod whole;

use std::sync::Arc;

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::routing::{get, post};
pub(super) use gates::Gates;
pub(super) use stream::Stream;

use super::App;
use super::failure::Failure;
use super::request::Params;
use crate::error::{Error, Result};
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

/// Asks the store on a thread that may block; a refusal says what it is that is not there.
async fn ask<T: Send + 'static>(
    app: &App,
    work: impl FnOnce(&Store) -> Result<T> + Send + 'static,
) -> std::result::Result<T, Failure> {
    app.ask(move |store| Ok(work(store))).await?.map_err(named)
}

/// Asks a question that may take long: one of few at a time, and ended where nobody waits for its answer any more.
///
/// It keeps its place until it is really over, also where the one who asked has left.
async fn answer<T: Send + 'static>(
    app: &App,
    work: impl FnOnce(&Store) -> Result<T> + Send + 'static,
) -> std::result::Result<T, Failure> {
    let place = app.annals().question().await?;
    let cancel = Cancel::default();
    let governed = cancel.clone();
    let _unless_left = cancel.clone().drop_guard();
    let answer = ask(app, move |store| {
        let _place = place;
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

/// A refusal of the store, which says what it is that is not there.
fn named(error: Error) -> Failure {
    match error {
        Error::UnknownConversation { .. } | Error::UnknownEvent { .. } => {
            Failure::not_found(error.to_string())
        }
        error => error.into(),
    }
}

/// A parameter that is a word of its own: what form an answer has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    Json,
    Csv,
    Html,
}

impl Form {
    /// The `format` of a query; JSON where it says nothing.
    fn of(params: &Params, known: &[(&str, Self)]) -> std::result::Result<Self, Failure> {
        Ok(params.word("format", known)?.unwrap_or(Self::Json))
    }
}
