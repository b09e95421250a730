//! `/sockets/session/{id}`: events with their sequence, from any place on, without a gap or a repetition.

use std::collections::HashSet;
use std::sync::Arc;

use axum::Extension;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use serde_json::json;
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;
use tokio_tungstenite::tungstenite::Utf8Bytes;

use super::admission::{self, Caller, OVERLOADED, RESTARTS, UNKNOWN};
use super::events::said;
use super::past::Past;
use super::wire::{Said, Socket, Upgrade};
use crate::ids::{ConversationId, Sequence};
use crate::server::App;
use crate::server::failure::Failure;
use crate::server::gate::Gate;
use crate::server::hub::{Frame, Heard, Piece, Step};
use crate::server::request::{Params, PathId};
use crate::server::session::snapshot;
use crate::store::EventQuery;

/// The longest event that is copied into its frame: 32 KiB.
const WHOLE_BYTES_MAX: usize = 32 << 10;

/// The largest frame: 4 MiB.
const FRAME_BYTES_MAX: usize = 4 << 20;

pub(super) async fn open(
    State(app): State<Arc<App>>,
    id: Result<PathId, Failure>,
    params: Params,
    headers: HeaderMap,
    gate: Option<Extension<Gate>>,
    upgrade: Upgrade,
) -> Result<Response, Failure> {
    let caller = admission::knock(&app, &params, &headers, gate)?;
    let forbidden = || Failure::Refused(StatusCode::FORBIDDEN, "Forbidden".to_owned());
    let PathId(id) = id.map_err(|_| forbidden())?;
    let after =
        params.get("after_seq").map(|text| text.parse::<i64>().map_err(|_| forbidden())).transpose()?;
    let (frame_bytes_max, seat) = (admission::frame_bytes_max(&caller), admission::seat(&app)?);
    Ok(upgrade.serve(frame_bytes_max, move |socket| async move {
        let _seat = seat;
        serve(app, id, caller, after, socket).await;
    }))
}

async fn serve(app: Arc<App>, id: ConversationId, caller: Caller, after: Option<i64>, mut socket: Socket) {
    if admission::enter(&app, caller, &mut socket).await.is_none() {
        return;
    }
    if !admission::has_room(&app, &id) {
        return socket.close(OVERLOADED, "Too many connections for this conversation").await;
    }
    let (hub, known) = (app.hub().clone(), id.clone());
    let Ok((frames, length)) = app.ask(move |store| hub.listen(store, &known)).await else {
        return socket.close(UNKNOWN, "Conversation not found").await;
    };
    let mut listener = Listener { app, id, socket, frames, next: length, items: HashSet::new() };
    if listener.begin(after, length).await.is_some() {
        let _gone = listener.follow().await;
    }
}

struct Listener {
    app: Arc<App>,
    id: ConversationId,
    socket: Socket,
    frames: Receiver<Arc<Heard>>,
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
            let past =
                self.past(EventQuery { to: Some(Sequence(length - 1)), ..EventQuery::since(start) }).await?;
            first = past.next;
            let (events, _charge) = past.into_parts();
            for (sequence, text) in events {
                self.durable(sequence, text).await?;
            }
        }
        let (state, _) = snapshot(&self.app, &self.id).await.ok()?;
        self.transient(state.into()).await
    }

    /// A step of what was before; who has to wait for it for too long is left.
    async fn past(&mut self, query: EventQuery) -> Option<Past> {
        match Past::read(&self.app, &self.id, query).await {
            Ok(past) => Some(past),
            Err(Failure::Later(_)) => self.leave().await,
            Err(Failure::Refused(..) | Failure::Schema(_) | Failure::Launch(_) | Failure::Internal(_)) => {
                None
            }
        }
    }

    /// Closes the socket of somebody who is too far behind.
    async fn leave<T>(&mut self) -> Option<T> {
        self.socket.close(OVERLOADED, "slow_consumer").await;
        None
    }

    async fn follow(&mut self) -> Option<()> {
        let ending = self.app.ending().clone();
        loop {
            tokio::select! {
                () = ending.cancelled() => {
                    self.socket.close(RESTARTS, "the server ends").await;
                    return None;
                }
                frame = self.frames.recv() => match frame {
                    Ok(heard) => self.tell(heard).await?,
                    Err(RecvError::Lagged(_)) => return self.leave().await,
                    Err(RecvError::Closed) => return None,
                },
                heard = self.socket.hear() => match heard {
                    Said::Text(text) => {
                        if let Err((code, detail)) = said(&self.app, &self.id, text.as_str()).await {
                            self.send(json!({"type": "error", "code": code, "detail": detail}).to_string()).await?;
                        }
                    }
                    Said::Gone => return None,
                    Said::Other => {}
                },
            }
        }
    }

    async fn tell(&mut self, heard: Arc<Heard>) -> Option<()> {
        if heard.sequence.is_some_and(|sequence| sequence.0 < self.next) {
            return Some(());
        }
        let charge = self.app.budgets().listeners.take(heard.bytes).await;
        let Ok(charge) = charge else { return self.leave().await };
        let (sequence, frame) = (heard.sequence, heard.frame());
        drop(heard);
        match (frame, sequence) {
            (Some(Frame::Durable { sequence, text }), _) => {
                self.next = sequence.0 + 1;
                self.durable(sequence, text).await
            }
            (Some(Frame::Transient(text)), _) => self.transient(text).await,
            (Some(Frame::Piece(piece)), _) => self.piece(&piece).await,
            (Some(Frame::Bell(bell)), _) => {
                drop(bell);
                Some(())
            }
            (None, Some(sequence)) => {
                // It has its own when it is read.
                drop(charge);
                self.next = sequence.0 + 1;
                let past = self.past(EventQuery::only(sequence)).await?;
                let (events, _charge) = past.into_parts();
                for (sequence, text) in events {
                    self.durable(sequence, text).await?;
                }
                Some(())
            }
            (None, None) => self.leave().await,
        }
    }

    async fn piece(&mut self, piece: &Piece) -> Option<()> {
        let is_begin = piece.event.is_some() && self.items.insert(piece.item_id.clone());
        if is_begin {
            let mut started = json!({"type": "item_started", "item_id": piece.item_id, "attempt": 0});
            if let Some(anchor) = self.next.checked_sub(1) {
                started["anchor_seq"] = json!(anchor);
            }
            self.send(started.to_string()).await?;
        }
        if piece.step == Step::Aborted {
            self.items.remove(&piece.item_id);
        }
        self.send(piece.session.clone()).await
    }

    async fn durable(&mut self, sequence: Sequence, text: Utf8Bytes) -> Option<()> {
        self.framed(format!(r#"{{"type":"durable","seq":{},"event":"#, sequence.0), text).await
    }

    async fn transient(&mut self, text: Utf8Bytes) -> Option<()> {
        self.framed(r#"{"type":"transient","event":"#.to_owned(), text).await
    }

    /// An event within a frame; what is small goes in one piece.
    async fn framed(&mut self, mut head: String, text: Utf8Bytes) -> Option<()> {
        if text.len() <= WHOLE_BYTES_MAX {
            head.push_str(&text);
            head.push('}');
            return self.send(head).await;
        }
        if head.len() + text.len() >= FRAME_BYTES_MAX {
            return self.refuse().await;
        }
        self.socket.send_parts([head.into(), text, "}".into()]).await
    }

    async fn send(&mut self, text: impl Into<Utf8Bytes>) -> Option<()> {
        let text = text.into();
        if text.len() > FRAME_BYTES_MAX {
            return self.refuse().await;
        }
        self.socket.send(text).await
    }

    async fn refuse(&mut self) -> Option<()> {
        self.socket.close(OVERLOADED, "frame_too_large").await;
        None
    }
}
