//! Authorizes requests by a session key in a header (`docs/reference/server.md#session-keys`).

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::{HeaderMap, header};
use axum::middleware::Next;
use axum::response::Response;

use super::caller::{Keys, admit};

/// The header that contains a session key.
pub(in crate::server) const HEADER: &str = "x-session-api-key";

/// Returns the session key in a request's headers.
pub(in crate::server) fn key(headers: &HeaderMap) -> Option<&str> {
    headers.get(HEADER).and_then(|value| value.to_str().ok())
}

/// Returns the key that a request's headers contain as a bearer token.
pub(in crate::server) fn bearer(headers: &HeaderMap) -> Option<&str> {
    let value = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
    value.and_then(|value| value.strip_prefix("Bearer "))
}

/// Passes an authorized request on. Rejects others with 401, and those that need another role with 403.
pub(in crate::server) async fn check(
    State(keys): State<Arc<Keys>>,
    request: Request,
    next: Next,
) -> Response {
    let given: Vec<String> = key(request.headers()).map(str::to_owned).into_iter().collect();
    pass(&keys, &given, request, next).await
}

/// Passes on a request with a key in its own header, or as a bearer token.
pub(in crate::server) async fn check_either(
    State(keys): State<Arc<Keys>>,
    request: Request,
    next: Next,
) -> Response {
    let headers = request.headers();
    let given: Vec<String> =
        [key(headers), bearer(headers)].into_iter().flatten().map(str::to_owned).collect();
    pass(&keys, &given, request, next).await
}

/// Passes on a request with one of these keys.
pub(in crate::server) async fn pass(keys: &Keys, given: &[String], request: Request, next: Next) -> Response {
    let given: Vec<&str> = given.iter().map(String::as_str).collect();
    admit(keys, &given, request, next).await
}
