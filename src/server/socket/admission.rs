//! Who may listen: a key in the query, a header, or the first frame (`api.md` section 5.1).

use std::time::Duration;

use axum::Extension;
use axum::http::{HeaderMap, StatusCode};
use serde_json::{Value, json};
use tokio::sync::OwnedSemaphorePermit;

use super::wire::{Said, Socket};
use crate::ids::{ConversationId, EventId, Timestamp};
use crate::server::App;
use crate::server::auth;
use crate::server::failure::Failure;
use crate::server::gate::Gate;
use crate::server::request::Params;

/// How long the first frame may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// The longest frame that is taken: a message with pictures.
const FRAME_BYTES_MAX: usize = 16 << 20;

/// How many may listen to one conversation.
pub(super) const LISTENERS_MAX: usize = 50;

/// Close codes: the key is wrong; there is no such conversation; too much.
pub(super) const UNAUTHORISED: u16 = 4001;
pub(super) const UNKNOWN: u16 = 4004;
pub(super) const OVERLOADED: u16 = 1013;

/// Close code of a server that ends: a clean close would have clients come back without a pause.
pub(super) const RESTARTS: u16 = 1012;

/// What whoever has yet to show a key may say, in bytes: a key and what is around it.
const STRANGER_BYTES_MAX: u64 = 16 << 10;

/// What is known of a caller before the socket opens.
#[derive(Debug, Clone)]
pub(super) enum Caller {
    /// May listen.
    Known,
    /// Has yet to show a key. Until then little is heard of what it says, where its connection has a gate.
    Unknown(Option<Gate>),
}

/// A place among all sockets of the server, for as long as it is held.
pub(super) fn seat(app: &App) -> Result<OwnedSemaphorePermit, Failure> {
    app.socket_seat()
        .ok_or_else(|| Failure::Refused(StatusCode::SERVICE_UNAVAILABLE, "Too many sockets".to_owned()))
}

/// How long a frame of a caller may be.
pub(super) fn frame_bytes_max(caller: &Caller) -> usize {
    match caller {
        Caller::Known => FRAME_BYTES_MAX,
        Caller::Unknown(Some(gate)) => {
            gate.narrow(STRANGER_BYTES_MAX);
            FRAME_BYTES_MAX
        }
        // A listener of the host's own: what bounds a stranger bounds it for good.
        Caller::Unknown(None) => STRANGER_BYTES_MAX as usize,
    }
}

/// Looks for a key in the query and the headers; a wrong one refuses the handshake.
pub(super) fn knock(
    app: &App,
    params: &Params,
    headers: &HeaderMap,
    gate: Option<Extension<Gate>>,
) -> Result<Caller, Failure> {
    if app.config().session_keys.is_empty() {
        return Ok(Caller::Known);
    }
    match params.get("session_api_key").or_else(|| auth::key(headers)) {
        Some(key) if auth::is_known(app, Some(key)) => Ok(Caller::Known),
        Some(_) => Err(Failure::Refused(StatusCode::FORBIDDEN, "Forbidden".to_owned())),
        None => Ok(Caller::Unknown(gate.map(|Extension(gate)| gate))),
    }
}

/// Lets a caller in, or closes the socket: whoever is unknown has to say a key first.
pub(super) async fn enter(app: &App, caller: Caller, socket: &mut Socket) -> Option<()> {
    let gate = match caller {
        Caller::Known => return Some(()),
        Caller::Unknown(gate) => gate,
    };
    let first = tokio::time::timeout(PATIENCE, socket.hear()).await;
    let key = match first {
        Ok(Said::Text(text)) => auth_frame(text.as_str()).flatten(),
        Ok(Said::Gone | Said::Other) | Err(_) => None,
    };
    if key.is_some_and(|key| auth::is_known(app, Some(&key))) {
        if let Some(gate) = gate {
            gate.open();
        }
        return Some(());
    }
    socket.close(UNAUTHORISED, "Authentication failed").await;
    None
}

/// The key of an authentication frame; `None` for any other frame.
pub(super) fn auth_frame(text: &str) -> Option<Option<String>> {
    let frame: Value = serde_json::from_str(text).ok()?;
    let members = frame.as_object()?;
    let is_one = members.get("type") == Some(&json!("auth"))
        && members.keys().all(|key| key == "type" || key == "session_api_key");
    is_one.then(|| members.get("session_api_key").and_then(Value::as_str).map(str::to_owned))
}

/// The event that tells a caller what is wrong with a frame; it is in no log.
pub(super) fn server_error(code: &str, detail: &str) -> String {
    json!({
        "id": EventId::mint().as_str(), "timestamp": Timestamp::now().to_naive_local(), "source": "environment",
        "code": code, "detail": detail, "kind": "ServerErrorEvent",
    })
    .to_string()
}

/// Whether one more may listen to a conversation.
pub(super) fn has_room(app: &App, conversation: &ConversationId) -> bool {
    app.hub().listeners(conversation) < LISTENERS_MAX
}
