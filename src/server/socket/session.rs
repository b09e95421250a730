//! `/sockets/session/{id}`: events with their sequence, from any place on, without a gap or a repetition.

use std::collections::HashSet;
use std::sync::Arc;

use axum::Extension;
use axum::extract::State;
use axum::extract::ws::{Message, WebSocket, WebSocketUpgrade};
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use serde_json::json;
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;

use super::admission::{self, Caller, OVERLOADED, RESTARTS, UNKNOWN};
use super::events::said;
use crate::ids::{ConversationId, Sequence};
use crate::server::App;
use crate::server::events::provenance;
use crate::server::failure::Failure;
use crate::server::gate::Gate;
use crate::server::hub::Frame;
use crate::server::request::{Params, PathId};
use crate::server::session::snapshot;
use crate::server::wire::{self, Nulls};
use crate::store::EventQuery;

const PAGE: usize = 200;

/// The largest frame: 4 MiB.
const FRAME_BYTES_MAX: usize = 4 << 20;

pub(super) async fn open(
    State(app): State<Arc<App>>,
    id: Result<PathId, Failure>,
    params: Params,
    headers: HeaderMap,
    gate: Option<Extension<Gate>>,
    upgrade: WebSocketUpgrade,
) -> Result<Response, Failure> {
    let caller = admission::knock(&app, &params, &headers, gate)?;
    let forbidden = || Failure::Refused(StatusCode::FORBIDDEN, "Forbidden".to_owned());
    let PathId(id) = id.map_err(|_| forbidden())?;
    let after =
        params.get("after_seq").map(|text| text.parse::<i64>().map_err(|_| forbidden())).transpose()?;
    let (upgrade, seat) = (admission::bounded(upgrade, &caller), admission::seat(&app)?);
    Ok(upgrade.on_upgrade(move |socket| async move {
        let _seat = seat;
        serve(app, id, caller, after, socket).await;
    }))
}

async fn serve(app: Arc<App>, id: ConversationId, caller: Caller, after: Option<i64>, mut socket: WebSocket) {
    if admission::enter(&app, caller, &mut socket).await.is_none() {
        return;
    }
    if !admission::has_room(&app, &id) {
        return admission::close(&mut socket, OVERLOADED, "Too many connections for this conversation").await;
    }
    let (hub, known) = (app.hub().clone(), id.clone());
    let Ok((frames, length)) = app.ask(move |store| hub.listen(store, &known)).await else {
        return admission::close(&mut socket, UNKNOWN, "Conversation not found").await;
    };
    let mut listener = Listener { app, id, socket, frames, next: length, items: HashSet::new() };
    if listener.begin(after, length).await.is_some() {
        let _gone = listener.follow().await;
    }
}

struct Listener {
    app: Arc<App>,
    id: ConversationId,
    socket: WebSocket,
    frames: Receiver<Frame>,
    next: u64,
    /// The replies on their way that the other side was told of.
    items: HashSet<String>,
}

impl Listener {
    /// Where it begins and ends, what was before, the whole state.
    async fn begin(&mut self, after: Option<i64>, length: u64) -> Option<()> {
        let from = after.map_or(length, |after| u64::try_from(after + 1).unwrap_or_default()).min(length);
        let mut sync = json!({"type": "sync", "from_seq": from});
        if let Some(through) = length.checked_sub(1) {
            sync["through_seq"] = json!(through);
        }
        self.send(sync.to_string()).await?;
        let mut first = (from < length).then_some(Sequence(from));
        while let Some(start) = first {
            let id = self.id.clone();
            let page = self.app.ask(move |store| {
                let query =
                    EventQuery { from: Some(start), to: Some(Sequence(length - 1)), ..EventQuery::default() };
                let page = store.events(&id, &query, PAGE)?;
                let provenance = provenance(store, &id)?;
                let shown = page.events.iter().filter_map(|event| {
                    Some((event.sequence, wire::shown(event, provenance, Nulls::Omitted).ok()?))
                });
                Ok((shown.collect::<Vec<_>>(), page.next))
            });
            let (events, next) = page.await.ok()?;
            for (sequence, text) in events {
                self.durable(sequence, &text).await?;
            }
            first = next;
        }
        let (state, _) = snapshot(&self.app, &self.id).await.ok()?;
        self.send(format!(r#"{{"type":"transient","event":{state}}}"#)).await
    }

    async fn follow(&mut self) -> Option<()> {
        let ending = self.app.ending().clone();
        loop {
            tokio::select! {
                () = ending.cancelled() => {
                    admission::close(&mut self.socket, RESTARTS, "the server ends").await;
                    return None;
                }
                frame = self.frames.recv() => match frame {
                    Ok(frame) => self.tell(frame).await?,
                    Err(RecvError::Lagged(_)) => {
                        admission::close(&mut self.socket, OVERLOADED, "slow_consumer").await;
                        return None;
                    }
                    Err(RecvError::Closed) => return None,
                },
                heard = self.socket.recv() => match heard? {
                    Ok(Message::Text(text)) => {
                        if let Err((code, detail)) = said(&self.app, &self.id, text.as_str()).await {
                            self.send(json!({"type": "error", "code": code, "detail": detail}).to_string()).await?;
                        }
                    }
                    Ok(Message::Close(_)) | Err(_) => return None,
                    Ok(Message::Binary(_) | Message::Ping(_) | Message::Pong(_)) => {}
                },
            }
        }
    }

    async fn tell(&mut self, frame: Frame) -> Option<()> {
        match frame {
            Frame::Durable { sequence, text } if sequence.0 >= self.next => {
                self.next = sequence.0 + 1;
                self.durable(sequence, &text).await
            }
            Frame::Durable { .. } => Some(()),
            Frame::Transient(text) => self.send(format!(r#"{{"type":"transient","event":{text}}}"#)).await,
            Frame::Piece(piece) => {
                let is_begin = piece.event.is_some() && self.items.insert(piece.item_id.clone());
                if is_begin {
                    let mut started = json!({"type": "item_started", "item_id": piece.item_id, "attempt": piece.session["attempt"]});
                    if let Some(anchor) = self.next.checked_sub(1) {
                        started["anchor_seq"] = json!(anchor);
                    }
                    self.send(started.to_string()).await?;
                }
                if piece.session["type"] == "item_aborted" {
                    self.items.remove(&piece.item_id);
                }
                self.send(piece.session.to_string()).await
            }
        }
    }

    async fn durable(&mut self, sequence: Sequence, text: &str) -> Option<()> {
        self.send(format!(r#"{{"type":"durable","seq":{},"event":{text}}}"#, sequence.0)).await
    }

    async fn send(&mut self, text: String) -> Option<()> {
        if text.len() > FRAME_BYTES_MAX {
            admission::close(&mut self.socket, OVERLOADED, "frame_too_large").await;
            return None;
        }
        self.socket.send(Message::Text(text.into())).await.ok()
    }
}
