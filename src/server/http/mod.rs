//! Requests and answers, and the limits of clients. Every other room of the server uses this one.
//!
//! The room reads requests (`request`, `message`), checks them against the reference's schemas (`shape`), and turns
//! errors into answers (`failure`). It decides who may call (`auth`, `caller`, `roles`, `cors`, `origin`), and how many connections and
//! bytes a client may have (`listen`, `listener`, `certificates`, `stall`, `gate`, `permits`, `budget`). It names the configuration. It does not
//! know the state of the server, so it never names `App`.

pub(super) mod ask;
pub(super) mod auth;
pub(super) mod budget;
pub(super) mod caller;
pub(super) mod certificates;
pub(super) mod cors;
pub(super) mod exposure;
pub(super) mod failure;
#[cfg(feature = "postgres")]
pub(super) mod forward;
pub(super) mod gate;
pub(super) mod json;
pub(super) mod listen;
pub(super) mod listener;
pub(super) mod message;
pub(super) mod origin;
pub(super) mod percent;
pub(super) mod permits;
pub(super) mod request;
pub(super) mod roles;
pub(super) mod shape;
mod stall;
pub(super) mod stream;

use axum::http::HeaderName;

/// The header that names the limit at which an answer was cut, if the answer itself has no place for it.
pub(super) const TRUNCATED: HeaderName = HeaderName::from_static("annals-truncated");
