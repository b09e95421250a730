//! The list of the server's operations, and everything that is generated from it.
//!
//! The list (`list/`) contains every operation of the reference and every operation of Annals. The document at
//! `/openapi.json` (which clients of the reference also read), the page at `/docs`, the answers for omitted operations
//! and the table in `docs/api.md` are generated from it. A test compares the list with the router: the list must mark
//! exactly the served operations as served.
//!
//! Why not the crate `utoipa`: it describes the handlers that exist. The list also has the operations that are left out,
//! and answers them.

mod absent;
mod build;
mod list;
mod operation;
#[cfg(test)]
mod tests;

use std::sync::{Arc, LazyLock};

pub(in crate::server) use absent::{no_method, no_route};
use axum::Router;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use axum::routing::get;

use crate::server::App;

/// The document. It never changes while the program runs.
static DOCUMENT: LazyLock<String> = LazyLock::new(|| build::document().to_string());

const PAGE: &str = include_str!("page.html");
const PROGRAM: &str = include_str!("page.js");
const STYLE: &str = include_str!("page.css");

/// The page may only run its own program, use its own style sheet and send requests to this server.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; base-uri 'none'; \
     form-action 'none'; frame-ancestors 'none'";

/// The routes of the document and the page. They need no key, as in the reference.
pub(in crate::server) fn routes() -> Router<Arc<App>> {
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
