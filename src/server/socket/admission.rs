//! Authorizes sockets by a key in the query, a header, or the first frame (`docs/reference/sockets.md#admission`).

use std::time::Duration;

use axum::Extension;
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use serde_json::{Value, json};
use tokio::sync::OwnedSemaphorePermit;

use super::wire::{ReceivedFrame, Socket};
use crate::ids::{ConversationId, EventId, Timestamp};
use crate::server::App;
use crate::server::http::auth;
use crate::server::http::caller::Caller;
use crate::server::http::failure::Failure;
use crate::server::http::gate::Gate;
use crate::server::http::request::Params;
use crate::store::KeyRole;

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

/// Why a socket is closed whose key was revoked, or which has none and needs one now.
pub(super) const REVOKED: &str = "The key was revoked, or a key is needed now";

/// The close code when the server ends. After a clean close, clients would reconnect without a pause.
pub(super) const RESTARTS: u16 = 1012;

/// The number of bytes that a client may send before it has shown a key: enough for a frame with a key.
const KEYLESS_BYTES_MAX: u64 = 16 << 10;

/// Whether a caller has shown a valid key before the socket opens.
#[derive(Debug, Clone)]
pub(super) enum Arrival {
    /// The caller may subscribe.
    Known(Caller),
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
pub(super) fn frame_bytes_max(arrival: &Arrival) -> usize {
    match arrival {
        Arrival::Known(_) => FRAME_BYTES_MAX,
        Arrival::Unknown(Some(gate)) => {
            gate.narrow(KEYLESS_BYTES_MAX);
            FRAME_BYTES_MAX
        }
        // The host program accepts the connections, so there is no gate. The limit also applies after authorization.
        Arrival::Unknown(None) => KEYLESS_BYTES_MAX as usize,
    }
}

/// Checks the key in the query or the headers.
///
/// # Errors
/// 403 if the key is wrong, or if its role is too small: the handshake is rejected.
pub(super) async fn check_key(
    app: &App,
    params: &Params,
    headers: &HeaderMap,
    gate: Option<Extension<Gate>>,
    need: KeyRole,
) -> Result<Arrival, Failure> {
    let given = params.get("session_api_key").or_else(|| auth::key(headers));
    match app.keys().caller(given.as_slice()).await? {
        Some(caller) => caller.check(need).map(|()| Arrival::Known(caller)),
        None if given.is_some() => Err(Failure::Refused(StatusCode::FORBIDDEN, "Forbidden".to_owned())),
        None => Ok(Arrival::Unknown(gate.map(|Extension(gate)| gate))),
    }
}

/// Marks the answer to a handshake with the caller, for metrics.
pub(super) fn marked(mut response: Response, caller: Option<Caller>) -> Response {
    if let Some(caller) = caller {
        response.extensions_mut().insert(caller);
    }
    response
}

/// Returns the caller if it is known.
pub(super) fn known(arrival: &Arrival) -> Option<Caller> {
    match arrival {
        Arrival::Known(caller) => Some(caller.clone()),
        Arrival::Unknown(_) => None,
    }
}

/// Does the work of a socket until the caller's key is revoked. Returns whether it was. The work is cut off then.
pub(super) async fn until_revoked<T>(app: &App, caller: &Caller, work: impl Future<Output = T>) -> bool {
    tokio::select! {
        _done = work => false,
        () = app.keys().revoked(caller) => true,
    }
}

/// Authorizes a caller. An unknown caller must send a key first. `None` if it does not, or if the role of the key is too
/// small; the socket is closed then.
pub(super) async fn authorize(
    app: &App,
    arrival: Arrival,
    socket: &mut Socket,
    need: KeyRole,
) -> Option<Caller> {
    let gate = match arrival {
        Arrival::Known(caller) => return Some(caller),
        Arrival::Unknown(gate) => gate,
    };
    let first = tokio::time::timeout(AUTH_TIMEOUT, socket.receive()).await;
    let key = match first {
        Ok(ReceivedFrame::Text(text)) => auth_frame(text.as_str()).flatten(),
        Ok(ReceivedFrame::Gone | ReceivedFrame::Other) | Err(_) => None,
    };
    let caller = match &key {
        // If the keys cannot be read, none is right.
        Some(key) => app.keys().caller(&[key]).await.ok().flatten(),
        None => None,
    };
    let why = match caller.as_ref().map(|caller| caller.check(need)) {
        Some(Ok(())) => {
            if let Some(gate) = gate {
                gate.open();
            }
            return caller;
        }
        Some(Err(_)) => "The role of the key is too small",
        None => "Authentication failed",
    };
    socket.close(UNAUTHORISED, why).await;
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
