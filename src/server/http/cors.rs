//! Decides which web pages may call the server: those of this machine and of the configured origins
//! (`docs/reference/server.md#cors`).

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use crate::server::Config;

const METHODS: &str = "DELETE, GET, HEAD, OPTIONS, PATCH, POST, PUT";
const MAX_AGE_SECONDS: &str = "600";

/// Answers a browser's preflight request. Marks other responses as readable if the page's origin is allowed.
pub(in crate::server) async fn answer(
    State(config): State<Arc<Config>>,
    request: Request,
    next: Next,
) -> Response {
    let Some(origin) = request.headers().get(header::ORIGIN).cloned() else { return next.run(request).await };
    let is_allowed = origin.to_str().is_ok_and(|origin| may(&config.origins, origin));
    let is_preflight = request.method() == Method::OPTIONS
        && request.headers().contains_key(header::ACCESS_CONTROL_REQUEST_METHOD);
    if !is_preflight {
        let mut response = next.run(request).await;
        if is_allowed {
            allow(response.headers_mut(), origin);
        }
        return response;
    }
    if !is_allowed {
        return (StatusCode::BAD_REQUEST, "Disallowed CORS origin").into_response();
    }
    let wanted = request.headers().get(header::ACCESS_CONTROL_REQUEST_HEADERS).cloned();
    let mut response = "OK".into_response();
    let headers = response.headers_mut();
    allow(headers, origin);
    headers.insert(header::ACCESS_CONTROL_ALLOW_METHODS, HeaderValue::from_static(METHODS));
    headers.insert(header::ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static(MAX_AGE_SECONDS));
    if let Some(wanted) = wanted {
        headers.insert(header::ACCESS_CONTROL_ALLOW_HEADERS, wanted);
    }
    response
}

fn allow(headers: &mut HeaderMap, origin: HeaderValue) {
    headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin);
    headers.insert(header::ACCESS_CONTROL_ALLOW_CREDENTIALS, HeaderValue::from_static("true"));
    headers.append(header::VARY, HeaderValue::from_static("origin"));
}

/// Returns whether a page of this origin may read responses.
pub(super) fn may(configured: &[String], origin: &str) -> bool {
    let host = origin.split_once("://").map_or(origin, |(_, rest)| rest);
    // An IPv6 address in brackets contains colons. Such an origin is allowed only by configuration.
    let host = host.split(['/', ':']).next().unwrap_or_default();
    host == "localhost" || host == "127.0.0.1" || configured.iter().any(|known| known == origin)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_of_this_machine_and_configured_ones_may_read() {
        let configured = ["https://app.example".to_owned()];
        for (origin, expected) in [
            ("http://localhost:3000", true),
            ("https://127.0.0.1", true),
            ("https://app.example", true),
            ("http://app.example", false),
            ("http://localhost.evil.example", false),
            ("http://evil.example/localhost", false),
            ("null", false),
        ] {
            assert_eq!(may(&configured, origin), expected, "{origin}");
        }
    }
}
