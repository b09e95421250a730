//! Delivers the effects of a command to the subscribers of its conversation before the command is answered. A client
//! that reads its state from a socket then finds the new state there as soon as its call has returned.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::Method;
use axum::middleware::Next;
use axum::response::Response;

use super::App;
use crate::server::http::failure::Failure;
use crate::server::http::request::PathId;

/// The end of the path of the only command that is answered before it has an effect.
const RUN: &str = "/run";

/// Answers a request that may have changed a conversation after its subscribers have been sent the changes.
pub(in crate::server) async fn before_the_answer(
    State(app): State<Arc<App>>,
    id: Result<PathId, Failure>,
    request: Request,
    next: Next,
) -> Response {
    let may_change = request.method() != Method::GET && !request.uri().path().ends_with(RUN);
    let response = next.run(request).await;
    let Ok(PathId(id)) = id else { return response };
    if may_change && response.status().is_success() && app.hub().listeners(&id) > 0 {
        let known = id.clone();
        // A deleted conversation has no more events to deliver.
        if let Ok(row) = app.ask(move |store| store.conversation(&known)).await {
            app.hub().wait_until_delivered(&id, row.event_count).await;
        }
    }
    response
}
