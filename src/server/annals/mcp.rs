//! `POST /mcp`: past conversations as tools of the Model Context Protocol, over its streamable HTTP.
//!
//! There are no sessions: every request stands for itself, so nothing of a client stays in memory between two requests.
//! The server has no messages of its own to send, so it offers no stream, and `GET` is refused. As the protocol asks,
//! requests from pages of foreign origins are refused, also where a key protects the server. No tool writes.

use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::middleware::from_fn_with_state;
use axum::routing::post;
use rmcp::transport::streamable_http_server::session::never::NeverSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};

use crate::mcp::Recall;
use crate::server::App;
use crate::server::http::{auth, origin};

pub(in crate::server) fn routes(app: &Arc<App>) -> Router<Arc<App>> {
    let recall = Recall::shared(app.store().clone());
    let config = StreamableHttpServerConfig::default()
        .with_legacy_session_mode(false)
        .with_json_response(true)
        .with_cancellation_token(app.ending().clone())
        // `origin::check` and `origin::check_page` know the names that the operator allows.
        .disable_allowed_hosts();
    let service = StreamableHttpService::new(
        move || Ok(recall.clone()),
        Arc::new(NeverSessionManager::default()),
        config,
    );
    let answer = move |request: Request| {
        let service = service.clone();
        async move { service.handle(request).await.map(Body::new) }
    };
    Router::new()
        .route("/mcp", post(answer))
        .layer(from_fn_with_state(Arc::clone(app.keys()), auth::check_either))
        .layer(from_fn_with_state(app.shared_config(), origin::check_page))
}
