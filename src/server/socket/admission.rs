//! Authorizes sockets by a key in the query, a header, or the first frame (`docs/reference/sockets.md#admission`).

use std::time::Duration;

use axum::Extension;
use axum::http::{HeaderMap, StatusCode};
use serde_json::{Value, json};
use tokio::sync::OwnedSemaphorePermit;

use super::wire::{ReceivedFrame, Socket};
use crate::ids::{ConversationId, EventId, Timestamp};
use crate::server::App;
use crate::server::http::auth;
use crate::server::http::failure::Failure;
use crate::server::http::gate::Gate;
use crate::server::http::request::Params;

/// How long a client without a key may take to send its first frame.
const AUTH_TIMEOUT: Duration = Duration::from_secs(10);

/// The maximum size of a received frame, which may be a message with pictures.
const FRAME_BYTES_MAX: usize = 16 << 20;

/// The maximum number of subscribers of one conversation.
pub(super) const LISTENERS_MAX: usize = 50;

/// Close codes: the key is missing or wrong; there is no such conversation; a limit is exceeded.
pub(super) const UNAUTHORISED: u16 = 4001;
pub(super) const UNKNOWN: u16 = 4004;
pub(super) const OVERLOADED: u16 = 1013;

/// The close code when the server ends. After a clean close, clients would reconnect without a pause.
pub(super) const RESTARTS: u16 = 1012;

/// The number of bytes that a client may send before it has shown a key: enough for a frame with a key.
const KEYLESS_BYTES_MAX: u64 = 16 << 10;

/// Whether a caller has shown a valid key before the socket opens.
#[derive(Debug, Clone)]
pub(super) enum Caller {
    /// The caller may subscribe.
    Known,
    /// The caller must still show a key. Until then, the gate of its connection, if there is one, limits what it sends.
    Unknown(Option<Gate>),
}

/// Reserves one of the server's sockets until the permit is dropped.
///
/// # Errors
/// 503 if the maximum number of sockets is open.
pub(super) fn reserve_socket(app: &App) -> Result<OwnedSemaphorePermit, Failure> {
    app.socket_seat()
        .ok_or_else(|| Failure::Refused(StatusCode::SERVICE_UNAVAILABLE, "Too many sockets".to_owned()))
}

/// Returns the maximum size of a caller's frames. Limits the bytes of an unknown caller if it has a gate.
pub(super) fn frame_bytes_max(caller: &Caller) -> usize {
    match caller {
        Caller::Known => FRAME_BYTES_MAX,
        Caller::Unknown(Some(gate)) => {
            gate.narrow(KEYLESS_BYTES_MAX);
            FRAME_BYTES_MAX
        }
        // The host program accepts the connections, so there is no gate. The limit also applies after authorization.
        Caller::Unknown(None) => KEYLESS_BYTES_MAX as usize,
    }
}

/// Checks the key in the query or the headers.
///
/// # Errors
/// 403 if the key is wrong: the handshake is rejected.
pub(super) fn check_key(
    app: &App,
    params: &Params,
    headers: &HeaderMap,
    gate: Option<Extension<Gate>>,
) -> Result<Caller, Failure> {
    if app.config().session_keys.is_empty() {
        return Ok(Caller::Known);
    }
    match params.get("session_api_key").or_else(|| auth::key(headers)) {
        Some(key) if auth::is_known(app.config(), Some(key)) => Ok(Caller::Known),
        Some(_) => Err(Failure::Refused(StatusCode::FORBIDDEN, "Forbidden".to_owned())),
        None => Ok(Caller::Unknown(gate.map(|Extension(gate)| gate))),
    }
}

/// Authorizes a caller. An unknown caller must send a key first. `None` if it does not; the socket is closed then.
pub(super) async fn authorize(app: &App, caller: Caller, socket: &mut Socket) -> Option<()> {
    let gate = match caller {
        Caller::Known => return Some(()),
        Caller::Unknown(gate) => gate,
    };
    let first = tokio::time::timeout(AUTH_TIMEOUT, socket.receive()).await;
    let key = match first {
        Ok(ReceivedFrame::Text(text)) => auth_frame(text.as_str()).flatten(),
        Ok(ReceivedFrame::Gone | ReceivedFrame::Other) | Err(_) => None,
    };
    if key.is_some_and(|key| auth::is_known(app.config(), Some(&key))) {
        if let Some(gate) = gate {
            gate.open();
        }
        return Some(());
    }
    socket.close(UNAUTHORISED, "Authentication failed").await;
    None
}

/// Returns the key of an authentication frame, which may have none. `None` for any other frame.
pub(super) fn auth_frame(text: &str) -> Option<Option<String>> {
    let frame: Value = serde_json::from_str(text).ok()?;
    let members = frame.as_object()?;
    let is_one = members.get("type") == Some(&json!("auth"))
        && members.keys().all(|key| key == "type" || key == "session_api_key");
    is_one.then(|| members.get("session_api_key").and_then(Value::as_str).map(str::to_owned))
}

/// Makes the event that reports a problem with a frame to the caller. It is in no log.
pub(super) fn server_error(code: &str, detail: &str) -> String {
    json!({
        "id": EventId::mint().as_str(), "timestamp": Timestamp::now().to_naive_local(), "source": "environment",
        "code": code, "detail": detail, "kind": "ServerErrorEvent",
    })
    .to_string()
}

/// Returns whether a conversation may have one more subscriber.
pub(super) fn has_room(app: &App, conversation: &ConversationId) -> bool {
    app.hub().listeners(conversation) < LISTENERS_MAX
}
