//! `/sockets/bash-events`: commands and what they print, as it happens (`api.md` section 5.3).

use std::sync::Arc;

use axum::Extension;
use axum::extract::State;
use axum::extract::ws::{Message, WebSocket, WebSocketUpgrade};
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use serde_json::{Value, json};
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;

use super::admission::{self, Caller, OVERLOADED, RESTARTS};
use crate::ids::{EventId, Timestamp};
use crate::server::App;
use crate::server::bash::{self, BashEvent};
use crate::server::failure::Failure;
use crate::server::gate::Gate;
use crate::server::request::Params;
use crate::server::scope::Scope;

/// The most that listen to commands at once.
const LISTENERS_MAX: usize = 50;

pub(super) async fn open(
    State(app): State<Arc<App>>,
    params: Params,
    headers: HeaderMap,
    gate: Option<Extension<Gate>>,
    upgrade: WebSocketUpgrade,
) -> Result<Response, Failure> {
    let caller = admission::knock(&app, &params, &headers, gate)?;
    let forbidden = |_| Failure::Refused(StatusCode::FORBIDDEN, "Forbidden".to_owned());
    let resends = match params.get("resend_mode") {
        Some("all") => true,
        Some(_) => false,
        None => params.flag("resend_all").map_err(forbidden)?,
    };
    let (upgrade, seat) = (admission::bounded(upgrade, &caller), admission::seat(&app)?);
    Ok(upgrade.on_upgrade(move |socket| async move {
        let _seat = seat;
        serve(app, caller, resends, socket).await;
    }))
}

async fn serve(app: Arc<App>, caller: Caller, resends: bool, mut socket: WebSocket) {
    if admission::enter(&app, caller, &mut socket).await.is_none() {
        return;
    }
    let history = app.bash.whole();
    if history.listeners() >= LISTENERS_MAX {
        return admission::close(&mut socket, OVERLOADED, "Too many connections").await;
    }
    let events = history.listen();
    if resends {
        for event in history.all() {
            if socket.send(Message::Text(event.to_json().to_string().into())).await.is_err() {
                return;
            }
        }
    }
    // Whoever is gone needs no answer.
    let _gone = follow(&app, events, &mut socket).await;
}

async fn follow(app: &App, mut events: Receiver<BashEvent>, socket: &mut WebSocket) -> Option<()> {
    loop {
        tokio::select! {
            () = app.ending().cancelled() => {
                admission::close(socket, RESTARTS, "the server ends").await;
                return None;
            }
            event = events.recv() => match event {
                Ok(event) => send(socket, &event.to_json()).await?,
                Err(RecvError::Lagged(_)) => {
                    admission::close(socket, OVERLOADED, "slow_consumer").await;
                    return None;
                }
                Err(RecvError::Closed) => return None,
            },
            said = socket.recv() => match said? {
                Ok(Message::Text(text)) => {
                    if let Err((code, detail)) = run(app, text.as_str()).await {
                        send(socket, &error(code, &detail)).await?;
                    }
                }
                Ok(Message::Close(_)) | Err(_) => return None,
                Ok(Message::Binary(_) | Message::Ping(_) | Message::Pong(_)) => {}
            },
        }
    }
}

async fn send(socket: &mut WebSocket, value: &Value) -> Option<()> {
    socket.send(Message::Text(value.to_string().into())).await.ok()
}

/// Begins the command of a frame. An authentication frame that nobody needs counts for nothing.
async fn run(app: &App, text: &str) -> Result<(), (&'static str, String)> {
    if admission::auth_frame(text).is_some() {
        return Ok(());
    }
    let value: Value = serde_json::from_str(text).map_err(|error| ("JSONDecodeError", error.to_string()))?;
    let members = value.as_object().ok_or(("ValidationError", "a command is an object".to_owned()))?;
    match bash::begin(app, &Scope::whole(), members).await {
        Ok(_) => Ok(()),
        Err(failure) => Err(("ValidationError", failure.told())),
    }
}

/// What tells a caller what is wrong with a frame.
fn error(code: &str, detail: &str) -> Value {
    json!({
        "id": EventId::mint().as_str(), "timestamp": Timestamp::now().to_rfc3339(),
        "code": code, "detail": detail, "kind": "BashError",
    })
}
