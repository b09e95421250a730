//! Live events over WebSockets (`docs/reference/sockets.md`).
//!
//! The room names `live` and `http`, and `workspace` for the socket of commands.

mod admission;
mod bash;
mod events;
mod listener;
mod past;
mod session;
mod wire;

use std::sync::Arc;

use axum::Router;
use axum::routing::any;

use super::App;

pub(super) fn routes() -> Router<Arc<App>> {
    Router::new()
        .route("/bash-events", any(bash::open))
        .route("/events/{conversation_id}", any(events::open))
        .route("/session/{conversation_id}", any(session::open))
}
