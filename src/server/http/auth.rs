//! Authorizes requests by a session key in a header (`docs/reference/server.md#session-keys`).

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::{HeaderMap, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use subtle::{Choice, ConstantTimeEq};

use super::failure::Failure;
use crate::server::Config;

/// The header that contains a session key.
pub(in crate::server) const HEADER: &str = "x-session-api-key";

/// Returns whether `key` is one of the server's keys. The time that this takes reveals only the number and the lengths
/// of the keys. If the server has no keys, every caller is authorized.
pub(in crate::server) fn is_known(config: &Config, key: Option<&str>) -> bool {
    let keys = &config.session_keys;
    if keys.is_empty() {
        return true;
    }
    let given = key.unwrap_or_default().as_bytes();
    let known = keys.iter().fold(Choice::from(0), |known, key| known | key.as_bytes().ct_eq(given));
    bool::from(known)
}

/// Returns the session key in a request's headers.
pub(in crate::server) fn key(headers: &HeaderMap) -> Option<&str> {
    headers.get(HEADER).and_then(|value| value.to_str().ok())
}

/// Passes an authorized request on. Rejects others with 401.
pub(in crate::server) async fn check(
    State(config): State<Arc<Config>>,
    request: Request,
    next: Next,
) -> Response {
    if is_known(&config, key(request.headers())) {
        return next.run(request).await;
    }
    Failure::Refused(StatusCode::UNAUTHORIZED, "Unauthorized".to_owned()).into_response()
}
