//! Responses that are made of JSON texts.

use axum::body::Bytes;
use axum::http::header;
use axum::response::{IntoResponse, Response};

/// Joins JSON texts to one array.
pub(in crate::server) fn array(items: impl Iterator<Item = String>) -> String {
    let mut text = String::from("[");
    for item in items {
        if text.len() > 1 {
            text.push(',');
        }
        text.push_str(&item);
    }
    text.push(']');
    text
}

/// Makes a response of a JSON text.
pub(in crate::server) fn text(json: String) -> Response {
    ([(header::CONTENT_TYPE, "application/json")], json).into_response()
}

/// Makes a response of a JSON text that is charged until it has been sent.
pub(in crate::server) fn held(json: Bytes) -> Response {
    ([(header::CONTENT_TYPE, "application/json")], json).into_response()
}
