//! `/sockets/bash-events`: commands and their output, live (`docs/reference/sockets.md#shell-socket`).

use std::sync::{Arc, Weak};

use axum::Extension;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use serde_json::{Value, json};
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;

use super::admission::{self, Arrival, OVERLOADED, RESTARTS, UNAUTHORISED};
use super::wire::{ReceivedFrame, Socket, Upgrade};
use crate::ids::{EventId, Timestamp};
use crate::server::App;
use crate::server::http::budget;
use crate::server::http::caller::Caller;
use crate::server::http::failure::Failure;
use crate::server::http::gate::Gate;
use crate::server::http::request::Params;
use crate::server::live::bash::BashEvent;
use crate::server::workspace::bash;
use crate::server::workspace::scope::Scope;
use crate::store::KeyRole;

/// The maximum number of subscribers.
const LISTENERS_MAX: usize = 50;

pub(super) async fn open(
    State(app): State<Arc<App>>,
    params: Params,
    headers: HeaderMap,
    gate: Option<Extension<Gate>>,
    upgrade: Upgrade,
) -> Result<Response, Failure> {
    let arrival = admission::check_key(&app, &params, &headers, gate, KeyRole::Admin).await?;
    let forbidden = |_| Failure::Refused(StatusCode::FORBIDDEN, "Forbidden".to_owned());
    let resends = match params.get("resend_mode") {
        Some("all") => true,
        Some(_) => false,
        None => params.flag("resend_all").map_err(forbidden)?,
    };
    let (frame_bytes_max, permit) = (admission::frame_bytes_max(&arrival), admission::reserve_socket(&app)?);
    let caller = admission::known(&arrival);
    let response = upgrade.serve(frame_bytes_max, move |socket| async move {
        let _permit = permit;
        serve(app, arrival, resends, socket).await;
    });
    Ok(admission::marked(response, caller))
}

async fn serve(app: Arc<App>, arrival: Arrival, resends: bool, mut socket: Socket) {
    let authorized = admission::authorize(&app, arrival, &mut socket, KeyRole::Admin).await;
    let Some(caller) = authorized else { return };
    let history = app.bash.whole();
    if history.listeners() >= LISTENERS_MAX {
        return socket.close(OVERLOADED, "Too many connections").await;
    }
    let events = history.listen();
    let past = if resends { history.all() } else { Vec::new() };
    let all = async {
        for event in past {
            send(&app, &event, &mut socket).await?;
        }
        follow(&app, &caller, events, &mut socket).await
    };
    // A client that has disconnected needs no answer.
    if admission::until_revoked(&app, &caller, all).await {
        socket.close(UNAUTHORISED, admission::REVOKED).await;
    }
}

/// Sends an event. If it was dropped before it could be sent, the client is too slow, and the socket is closed.
async fn send(app: &App, event: &Weak<BashEvent>, socket: &mut Socket) -> Option<()> {
    let bytes = event.upgrade().map_or(0, |event| event.bytes());
    let charge = app.budgets().listeners.take(bytes * budget::COPIES).await;
    let (Ok(_charge), Some(event)) = (charge, event.upgrade()) else {
        socket.close(OVERLOADED, "slow_consumer").await;
        return None;
    };
    let text = event.to_json().to_string();
    drop(event);
    socket.send(text).await
}

async fn follow(
    app: &App,
    caller: &Caller,
    mut events: Receiver<Weak<BashEvent>>,
    socket: &mut Socket,
) -> Option<()> {
    loop {
        tokio::select! {
            () = app.ending().cancelled() => {
                socket.close(RESTARTS, "the server ends").await;
                return None;
            }
            event = events.recv() => match event {
                Ok(event) => send(app, &event, socket).await?,
                Err(RecvError::Lagged(_)) => {
                    socket.close(OVERLOADED, "slow_consumer").await;
                    return None;
                }
                Err(RecvError::Closed) => return None,
            },
            received = socket.receive() => match received {
                ReceivedFrame::Text(text) => {
                    if let Err((code, detail)) = run(app, caller, text.as_str()).await {
                        socket.send(error(code, &detail).to_string()).await?;
                    }
                }
                ReceivedFrame::Gone => return None,
                ReceivedFrame::Other => {}
            },
        }
    }
}

/// Starts the command of a frame. Ignores an authentication frame, because the client is already authorized.
async fn run(app: &App, caller: &Caller, text: &str) -> Result<(), (&'static str, String)> {
    if admission::auth_frame(text).is_some() {
        return Ok(());
    }
    caller.check_change(KeyRole::Admin).map_err(|failure| ("Forbidden", failure.message()))?;
    let value: Value = serde_json::from_str(text).map_err(|error| ("JSONDecodeError", error.to_string()))?;
    let members = value.as_object().ok_or(("ValidationError", "a command is an object".to_owned()))?;
    match bash::begin(app, &Scope::whole(), members).await {
        Ok(_) => Ok(()),
        Err(failure) => Err(("ValidationError", failure.message())),
    }
}

/// Makes the event that reports a problem with a frame to the caller.
fn error(code: &str, detail: &str) -> Value {
    json!({
        "id": EventId::mint().as_str(), "timestamp": Timestamp::now().to_rfc3339(),
        "code": code, "detail": detail, "kind": "BashError",
    })
}
