//! What a command did is with those who listen to the conversation before it is answered: a client that reads its own state
//! from a socket finds it there as soon as its call has returned.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::Method;
use axum::middleware::Next;
use axum::response::Response;

use super::App;
use super::failure::Failure;
use super::request::PathId;

/// The end of the path of the one command that is answered before anything comes of it.
const RUN: &str = "/run";

/// Answers a request that may have changed a conversation once those who listen to it have been sent what it did.
pub(super) async fn before_the_answer(
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
        // Of one that is gone nothing more is to be heard.
        if let Ok(row) = app.ask(move |store| store.conversation(&known)).await {
            app.hub().heard(&id, row.event_count).await;
        }
    }
    response
}
