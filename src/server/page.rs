//! The page for people at `/`, and its files below `/page/`. Nobody needs a key for them: they hold no data.

use std::sync::Arc;

use axum::Router;
use axum::extract::Path;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;

use super::App;
use super::failure::Failure;
use crate::page::{INDEX, POLICY, asset, packed};

/// A browser asks each time whether a file is still the same: a newer program is seen at once.
const CACHING: &str = "no-cache";

pub(super) fn routes() -> Router<Arc<App>> {
    Router::new().route("/page/{*path}", get(file))
}

async fn file(Path(path): Path<String>, headers: HeaderMap) -> Result<Response, Failure> {
    sent(&path, &headers).ok_or_else(|| Failure::not_found("Not Found"))
}

/// The page, where somebody asks for one: a program that takes anything gets what the reference answers.
pub(super) fn wanted(headers: &HeaderMap) -> Option<Response> {
    let accepts = headers.get_all(header::ACCEPT).iter().filter_map(|line| line.to_str().ok());
    let mut types =
        accepts.flat_map(|line| line.split(',')).map(|part| part.split(';').next().unwrap_or(part));
    if !types.any(|name| name.trim().eq_ignore_ascii_case("text/html")) {
        return None;
    }
    let mut page = sent(INDEX, headers)?;
    page.headers_mut().insert(header::VARY, HeaderValue::from_static("accept, accept-encoding"));
    Some(page)
}

fn sent(path: &str, headers: &HeaderMap) -> Option<Response> {
    let (asset, tag) = asset(path)?;
    let told = [
        (header::ETAG, tag),
        (header::CACHE_CONTROL, CACHING),
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::VARY, "accept-encoding"),
    ];
    if is_known(headers, tag) {
        return Some((StatusCode::NOT_MODIFIED, told).into_response());
    }
    let kind = [(header::CONTENT_TYPE, asset.content_type)];
    if let Some(packed) = packed(path).filter(|_| unpacks(headers)) {
        let mut sent = (told, kind, [(header::CONTENT_ENCODING, "gzip")], packed).into_response();
        // Other bytes of the same file: the tag is a weak one, which compares equal.
        let weak = HeaderValue::try_from(format!("W/{tag}")).expect("a tag is a quoted hexadecimal number");
        sent.headers_mut().insert(header::ETAG, weak);
        return Some(sent);
    }
    Some((told, kind, asset.bytes).into_response())
}

/// Whether the other side takes gzip. RFC 9110 section 12.5.3: one that says nothing may be sent it too, but is not.
fn unpacks(headers: &HeaderMap) -> bool {
    let taken = headers.get_all(header::ACCEPT_ENCODING).iter().filter_map(|line| line.to_str().ok());
    taken.flat_map(|line| line.split(',')).any(|coding| {
        let (name, weight) = coding.split_once(';').unwrap_or((coding, ""));
        let is_refused =
            weight.trim().strip_prefix("q=").is_some_and(|q| q.trim_matches(['0', '.']).is_empty());
        name.trim().eq_ignore_ascii_case("gzip") && !is_refused
    })
}

/// Whether the other side has it already. Weak comparison, as RFC 9110 section 13.1.2 asks for.
fn is_known(headers: &HeaderMap, tag: &str) -> bool {
    let known = headers.get_all(header::IF_NONE_MATCH).iter().filter_map(|line| line.to_str().ok());
    let mut known = known.flat_map(|line| line.split(',')).map(str::trim);
    known.any(|given| given == "*" || given.strip_prefix("W/").unwrap_or(given) == tag)
}
