//! `/sockets/session/{id}`: events with their sequence, from any sequence on, without gaps or repetitions.

use std::collections::HashSet;
use std::sync::Arc;

use axum::Extension;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use serde_json::json;
use tokio_tungstenite::tungstenite::Utf8Bytes;

use super::admission::{self, Arrival, OVERLOADED};
use super::listener::{FrameFormat, Listener};
use super::wire::{Socket, Upgrade};
use crate::ids::{ConversationId, Sequence};
use crate::server::App;
use crate::server::http::failure::Failure;
use crate::server::http::gate::Gate;
use crate::server::http::request::{Params, PathId};
use crate::server::live::hub::{Piece, Step};
use crate::server::live::session::snapshot;
use crate::store::{EventQuery, KeyRole};

/// The maximum size of an event that is copied into its frame: 32 KiB.
const WHOLE_BYTES_MAX: usize = 32 << 10;

/// The maximum size of a sent frame: 4 MiB.
const FRAME_BYTES_MAX: usize = 4 << 20;

pub(super) async fn open(
    State(app): State<Arc<App>>,
    id: Result<PathId, Failure>,
    params: Params,
    headers: HeaderMap,
    gate: Option<Extension<Gate>>,
    upgrade: Upgrade,
) -> Result<Response, Failure> {
    let arrival = admission::check_key(&app, &params, &headers, gate, KeyRole::Read).await?;
    let forbidden = || Failure::Refused(StatusCode::FORBIDDEN, "Forbidden".to_owned());
    let PathId(id) = id.map_err(|_| forbidden())?;
    let after =
        params.get("after_seq").map(|text| text.parse::<i64>().map_err(|_| forbidden())).transpose()?;
    let (frame_bytes_max, permit) = (admission::frame_bytes_max(&arrival), admission::reserve_socket(&app)?);
    let caller = admission::known(&arrival);
    let response = upgrade.serve(frame_bytes_max, move |socket| async move {
        let _permit = permit;
        serve(app, id, arrival, after, socket).await;
    });
    Ok(admission::marked(response, caller))
}

async fn serve(app: Arc<App>, id: ConversationId, arrival: Arrival, after: Option<i64>, socket: Socket) {
    let frames = Framed { items: HashSet::new() };
    let Some(listener) = Listener::enter(app, id, arrival, socket, frames).await else { return };
    listener.serve(async |listener| begin(listener, after).await).await;
}

/// Sends the range of the past events, then these events, then the whole state.
async fn begin(listener: &mut Listener<Framed>, after: Option<i64>) -> Option<()> {
    let length = listener.next;
    let from = after.map_or(length, |after| u64::try_from(after + 1).unwrap_or_default()).min(length);
    let mut sync = json!({"type": "sync", "from_seq": from});
    if let Some(through) = length.checked_sub(1) {
        sync["through_seq"] = json!(through);
    }
    send(&mut listener.socket, sync.to_string()).await?;
    if from < length {
        let query = EventQuery { to: Some(Sequence(length - 1)), ..EventQuery::since(Sequence(from)) };
        listener.send_past(query).await?;
    }
    let (state, _) = snapshot(&listener.app, &listener.id).await.ok()?;
    listener.wording.transient(&mut listener.socket, state.into()).await
}

/// The format of this socket. Every frame contains its type, and the frame of a logged event also its sequence.
struct Framed {
    /// The ids of replies for which `item_started` was sent.
    items: HashSet<String>,
}

impl FrameFormat for Framed {
    async fn durable(&mut self, socket: &mut Socket, sequence: Sequence, text: Utf8Bytes) -> Option<()> {
        framed(socket, format!(r#"{{"type":"durable","seq":{},"event":"#, sequence.0), text).await
    }

    async fn transient(&mut self, socket: &mut Socket, text: Utf8Bytes) -> Option<()> {
        framed(socket, r#"{"type":"transient","event":"#.to_owned(), text).await
    }

    async fn piece(&mut self, socket: &mut Socket, piece: &Piece, next: u64) -> Option<()> {
        let is_begin = piece.event.is_some() && self.items.insert(piece.item_id.clone());
        if is_begin {
            let mut started = json!({"type": "item_started", "item_id": piece.item_id, "attempt": 0});
            if let Some(anchor) = next.checked_sub(1) {
                started["anchor_seq"] = json!(anchor);
            }
            send(socket, started.to_string()).await?;
        }
        if piece.step == Step::Aborted {
            self.items.remove(&piece.item_id);
        }
        send(socket, piece.session.clone()).await
    }

    async fn refusal(&mut self, socket: &mut Socket, code: &str, detail: &str) -> Option<()> {
        send(socket, json!({"type": "error", "code": code, "detail": detail}).to_string()).await
    }
}

/// Sends an event within a frame. A small event is copied into the frame; a large one is sent in parts.
async fn framed(socket: &mut Socket, mut head: String, text: Utf8Bytes) -> Option<()> {
    if text.len() <= WHOLE_BYTES_MAX {
        head.push_str(&text);
        head.push('}');
        return send(socket, head).await;
    }
    if head.len() + text.len() >= FRAME_BYTES_MAX {
        return refuse(socket).await;
    }
    socket.send_parts([head.into(), text, "}".into()]).await
}

async fn send(socket: &mut Socket, text: impl Into<Utf8Bytes>) -> Option<()> {
    let text = text.into();
    if text.len() > FRAME_BYTES_MAX {
        return refuse(socket).await;
    }
    socket.send(text).await
}

async fn refuse(socket: &mut Socket) -> Option<()> {
    socket.close(OVERLOADED, "frame_too_large").await;
    None
}
