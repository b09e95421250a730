//! Who may ask: a session key in a header (`api.md` section 2.2).

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::{HeaderMap, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use subtle::{Choice, ConstantTimeEq};

use super::App;
use super::failure::Failure;

/// The header that a session key comes in.
pub(super) const HEADER: &str = "x-session-api-key";

/// Whether `key` is one of the server's; how long it takes tells nothing about them but their number and lengths.
/// Without any keys everybody may.
pub(super) fn is_known(app: &App, key: Option<&str>) -> bool {
    let keys = &app.config().session_keys;
    if keys.is_empty() {
        return true;
    }
    let given = key.unwrap_or_default().as_bytes();
    let known = keys.iter().fold(Choice::from(0), |known, key| known | key.as_bytes().ct_eq(given));
    bool::from(known)
}

/// The key that a request's headers carry.
pub(super) fn key(headers: &HeaderMap) -> Option<&str> {
    headers.get(HEADER).and_then(|value| value.to_str().ok())
}

/// Lets a request on that has a key.
pub(super) async fn check(State(app): State<Arc<App>>, request: Request, next: Next) -> Response {
    if is_known(&app, key(request.headers())) {
        return next.run(request).await;
    }
    Failure::Refused(StatusCode::UNAUTHORIZED, "Unauthorized".to_owned()).into_response()
}
