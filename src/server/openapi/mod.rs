//! What the server can be asked: one list of operations, and what is made of it.
//!
//! The list (`list/`) has every operation of the reference and every one of Annals. Of it are made the document at
//! `/openapi.json` (which clients of the reference read, too), the page at `/docs`, the answers to what is left out, and
//! the table in `docs/api.md`. Tests hold it to the router: what is served is in the list, and what the list says to be
//! served is served.

mod absent;
mod build;
mod list;
mod operation;
#[cfg(test)]
mod tests;

use std::sync::{Arc, LazyLock};

pub(super) use absent::{no_method, no_route};
use axum::Router;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use axum::routing::get;

use super::App;

/// The document never changes while the program runs.
static DOCUMENT: LazyLock<String> = LazyLock::new(|| build::document().to_string());

const PAGE: &str = include_str!("page.html");
const PROGRAM: &str = include_str!("page.js");
const STYLE: &str = include_str!("page.css");

/// The page may run its own program, look as its own sheet says, and ask this server; nothing else.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; base-uri 'none'; \
     form-action 'none'; frame-ancestors 'none'";

/// Nobody needs a key for these, as with the reference.
pub(super) fn routes() -> Router<Arc<App>> {
    Router::new()
        .route("/openapi.json", get(|| async { sent("application/json", DOCUMENT.as_str()) }))
        .route("/docs", get(|| async { sent("text/html; charset=utf-8", PAGE) }))
        .route("/docs/page.js", get(|| async { sent("text/javascript; charset=utf-8", PROGRAM) }))
        .route("/docs/page.css", get(|| async { sent("text/css; charset=utf-8", STYLE) }))
}

fn sent(content_type: &'static str, text: &'static str) -> Response {
    let headers = [
        (header::CONTENT_TYPE, content_type),
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
    ];
    (headers, text).into_response()
}
