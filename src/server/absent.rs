//! What the reference's server has and this one has not: each route says so, and `docs/api.md` why.

use std::sync::Arc;

use axum::Router;
use axum::extract::Request;
use axum::http::StatusCode;
use axum::routing::any;

use super::App;
use super::failure::Failure;

/// Below `/api`: whole families of routes.
const FAMILIES: [&str; 13] = [
    "/acp",
    "/agent-profiles",
    "/canvas-extensions",
    "/desktop",
    "/llm/provider-connections",
    "/llm/subscription",
    "/mcp",
    "/meta-profiles",
    "/plugins",
    "/settings/mcp",
    "/sub-agents",
    "/telemetry",
    "/vscode",
];

/// Below `/api`: single routes among others that are here.
const ROUTES: [&str; 11] = [
    "/settings/agent-schema",
    "/settings/conversation-schema",
    "/skills/sync",
    "/skills/install",
    "/skills/installed",
    "/skills/installed/{skill_name}",
    "/skills/installed/{skill_name}/refresh",
    "/skills/marketplace",
    "/git/repositories/search",
    "/profiles/{name}/validate",
    "/conversations/{conversation_id}/vscode/{*rest}",
];

/// Below `/api`, behind the key as the rest of it.
pub(super) fn routes() -> Router<Arc<App>> {
    let families = FAMILIES.into_iter().fold(Router::new(), |router, family| {
        router.route(family, any(absent)).route(&format!("{family}/{{*rest}}"), any(absent))
    });
    ROUTES.into_iter().fold(families, |router, route| router.route(route, any(absent)))
}

/// Beside `/api`.
pub(super) fn beside() -> Router<Arc<App>> {
    Router::new()
        .route("/api/init", any(awake))
        .route("/v1/{*rest}", any(absent))
        .route("/app-backends/{*rest}", any(absent))
}

async fn absent(request: Request) -> Failure {
    let text = format!("{} is not part of this server; see docs/api.md", request.uri().path());
    Failure::Refused(StatusCode::NOT_IMPLEMENTED, text)
}

/// A server that was not put to sleep needs nobody to wake it.
async fn awake() -> Failure {
    Failure::not_found("Not Found: this server was not started with deferred initialisation")
}
