//! Where conversations are open, if several servers share a log: each asks the one that has a conversation open.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::{FromRequestParts as _, Request};
use axum::response::Response;
use tokio::net::TcpStream;
use tokio::sync::Mutex;
use tokio::time::Instant;

use super::App;
use crate::ids::ConversationId;
use crate::server::http::failure::Failure;
use crate::server::http::forward::{self, FORWARDED};
use crate::server::http::request::PathId;
use crate::store::Home;

/// The name under which the server is found that keeps commands without a conversation. No conversation has it.
const DESK: &str = "\u{1}desk";

/// What such a server answers: its commands are in its memory.
const DESK_PATHS: [&str; 2] = ["/api/bash", "/sockets/bash-events"];

/// How long a command waits for a server that does not answer: until others may take over, and a little more.
const TAKE_OVER: Duration = Duration::from_secs(15);

/// The pause between two attempts.
const PAUSE: Duration = Duration::from_millis(250);

/// The home of commands that belong to no conversation.
#[derive(Default)]
pub(in crate::server) struct Desk(Mutex<Option<Home>>);

/// Makes this server the home of a conversation that is about to be opened. `None` if the store shares no log, if this
/// server has no address for others, or if another server was faster.
pub(in crate::server) async fn settle(app: &App, id: &ConversationId) -> Result<Option<Home>, Failure> {
    settle_as(app, id.as_str()).await
}

async fn settle_as(app: &App, name: &str) -> Result<Option<Home>, Failure> {
    let Some(address) = app.config().advertise.clone() else { return Ok(None) };
    let name = name.to_owned();
    app.ask(move |store| match store.replica() {
        Some(replica) => replica.settle(&name, &address),
        None => Ok(None),
    })
    .await
}

/// Passes a request to the server that is its home. Returns the request if it is to be answered here.
pub(in crate::server) async fn route(
    app: &Arc<App>,
    request: Request,
) -> Result<Result<Response, Failure>, Request> {
    if app.config().advertise.is_none() || request.headers().contains_key(&FORWARDED) {
        return Err(request);
    }
    let path = forward::original(&request);
    let is_desk = DESK_PATHS.iter().any(|start| path.path().starts_with(start));
    let (mut parts, body) = request.into_parts();
    let id = PathId::from_request_parts(&mut parts, &()).await;
    let request = Request::from_parts(parts, body);
    let name = match (id, is_desk) {
        (_, true) => DESK.to_owned(),
        (Ok(PathId(id)), false) if app.sessions().find(&id).is_none() => id.as_str().to_owned(),
        _ => return Err(request),
    };
    let only_reads = request.method().is_safe() && !is_desk;
    match home(app, &name, only_reads).await {
        Ok(Some(stream)) if only_reads => match forward::again(&request) {
            Some(again) => forwarded_read(stream, request).await.map(Ok).ok_or(again),
            None => Ok(forward::forward(stream, request).await),
        },
        Ok(Some(stream)) => Ok(forward::forward(stream, request).await),
        Ok(None) if is_desk => match app.desk().settle(app).await {
            Ok(()) => Err(request),
            Err(failure) => Ok(Err(failure)),
        },
        Ok(None) => Err(request),
        Err(failure) => Ok(Err(failure)),
    }
}

/// Passes on a request that only reads. `None` if the other server ends or is stopped meanwhile: the file here has what it
/// would have read.
async fn forwarded_read(stream: TcpStream, request: Request) -> Option<Response> {
    let answer = tokio::time::timeout(TAKE_OVER, forward::forward(stream, request)).await;
    answer.ok()?.ok()
}

/// Returns a connection to the server that is the home of `name`. `None` if the request is to be answered here: no server is,
/// or it does not answer any more, and either the request only reads or the time of that server is up.
async fn home(app: &App, name: &str, only_reads: bool) -> Result<Option<TcpStream>, Failure> {
    let begun = Instant::now();
    loop {
        let wanted = name.to_owned();
        let found = app.ask(move |store| store.replica().map_or(Ok(None), |replica| replica.home(&wanted)));
        let address = match found.await {
            Ok(Some(address)) => address,
            Ok(None) => return Ok(None),
            // Without the log, what the file has can still be read.
            Err(_) if only_reads => return Ok(None),
            Err(failure) => return Err(failure),
        };
        match forward::connect(&address).await {
            Ok(stream) => return Ok(Some(stream)),
            Err(_) if only_reads => return Ok(None),
            Err(_) if begun.elapsed() < TAKE_OVER => tokio::time::sleep(PAUSE).await,
            Err(error) => {
                let text = format!("the server that has this conversation open cannot be reached: {error}");
                return Err(Failure::Later(text));
            }
        }
    }
}

impl Desk {
    /// Makes this server the desk, if no other one is.
    async fn settle(&self, app: &App) -> Result<(), Failure> {
        let mut held = self.0.lock().await;
        if held.is_none() {
            *held = settle_as(app, DESK).await?;
        }
        Ok(())
    }

    /// Gives it up, because the server ends.
    pub(in crate::server) async fn leave(&self) {
        drop(self.0.lock().await.take());
    }
}
