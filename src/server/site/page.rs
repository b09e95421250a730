//! The web page at `/`, and its files below `/page/`. They need no key, because they contain no data.

use std::sync::Arc;

use axum::Router;
use axum::extract::Path;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;

use crate::page::{INDEX, POLICY, asset, packed};
use crate::server::App;
use crate::server::http::failure::Failure;

/// A browser asks each time whether a file has changed, so that a newer version of the program is used at once.
const CACHING: &str = "no-cache";

pub(in crate::server) fn routes() -> Router<Arc<App>> {
    Router::new().route("/page/{*path}", get(file))
}

async fn file(Path(path): Path<String>, headers: HeaderMap) -> Result<Response, Failure> {
    sent(&path, &headers).ok_or_else(|| Failure::not_found("Not Found"))
}

/// Returns the page if the client asks for HTML. A program that accepts any type gets the reference's answer instead.
pub(super) fn wanted(headers: &HeaderMap) -> Option<Response> {
    let accepts = headers.get_all(header::ACCEPT).iter().filter_map(|line| line.to_str().ok());
    let mut types =
        accepts.flat_map(|line| line.split(',')).map(|part| part.split(';').next().unwrap_or(part));
    if !types.any(|name| name.trim().eq_ignore_ascii_case("text/html")) {
        return None;
    }
    let mut page = sent(INDEX, headers)?;
    page.headers_mut().append(header::VARY, HeaderValue::from_static("accept"));
    Some(page)
}

fn sent(path: &str, headers: &HeaderMap) -> Option<Response> {
    let packed = if takes_packed(headers) { packed(path) } else { None };
    let encoding = packed.map(|_| [(header::CONTENT_ENCODING, "zstd")]);
    let form = packed.or_else(|| asset(path))?;
    let shared = [
        (header::ETAG, form.tag),
        (header::CACHE_CONTROL, CACHING),
        (header::VARY, "accept-encoding"),
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
    ];
    if is_known(headers, form.tag) {
        return Some((StatusCode::NOT_MODIFIED, shared).into_response());
    }
    let content_type = [(header::CONTENT_TYPE, form.content_type)];
    Some(match encoding {
        Some(encoding) => (shared, content_type, encoding, form.bytes).into_response(),
        None => (shared, content_type, form.bytes).into_response(),
    })
}

/// Returns whether the client accepts Zstandard. Browsers accept it from this machine and over TLS.
fn takes_packed(headers: &HeaderMap) -> bool {
    let lines = headers.get_all(header::ACCEPT_ENCODING).iter().filter_map(|line| line.to_str().ok());
    lines.flat_map(|line| line.split(',')).any(|part| {
        let (name, weight) = part.split_once(';').unwrap_or((part, ""));
        name.trim() == "zstd" && !matches!(weight.trim(), "q=0" | "q=0.0" | "q=0.00" | "q=0.000")
    })
}

/// Returns whether the client already has this version. Uses weak comparison, as RFC 9110 section 13.1.2 requires.
fn is_known(headers: &HeaderMap, tag: &str) -> bool {
    let known = headers.get_all(header::IF_NONE_MATCH).iter().filter_map(|line| line.to_str().ok());
    let mut known = known.flat_map(|line| line.split(',')).map(str::trim);
    known.any(|given| given == "*" || given.strip_prefix("W/").unwrap_or(given) == tag)
}
