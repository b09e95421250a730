//! `/sockets/events/{id}`: the socket that the Python client listens to.

use std::sync::Arc;

use axum::Extension;
use axum::extract::State;
use axum::extract::ws::{Message, WebSocket, WebSocketUpgrade};
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;

use super::admission::{self, Caller, OVERLOADED, RESTARTS, UNKNOWN};
use crate::ids::{ConversationId, Sequence};
use crate::server::App;
use crate::server::events::provenance;
use crate::server::failure::Failure;
use crate::server::gate::Gate;
use crate::server::hub::Frame;
use crate::server::message;
use crate::server::request::{Params, PathId};
use crate::server::session::{Busy, snapshot};
use crate::server::wire::{self, Nulls};
use crate::store::EventQuery;

/// How many events are read at once for a resend.
const PAGE: usize = 200;

/// What is sent again of what happened before.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Resend {
    Nothing,
    /// Everything; or everything from this time on, as events write it.
    All {
        since: Option<String>,
    },
}

impl Resend {
    fn of(params: &Params) -> Result<Self, Failure> {
        let forbidden = || Failure::Refused(StatusCode::FORBIDDEN, "Forbidden".to_owned());
        let since = params.get("after_timestamp").map(str::to_owned);
        match params.get("resend_mode") {
            Some("all") => Ok(Self::All { since: None }),
            Some("since") => Ok(since.map_or(Self::Nothing, |since| Self::All { since: Some(since) })),
            Some(_) => Err(forbidden()),
            None if params.flag("resend_all").map_err(|_| forbidden())? => Ok(Self::All { since: None }),
            None => Ok(Self::Nothing),
        }
    }
}

pub(super) async fn open(
    State(app): State<Arc<App>>,
    id: Result<PathId, Failure>,
    params: Params,
    headers: HeaderMap,
    gate: Option<Extension<Gate>>,
    upgrade: WebSocketUpgrade,
) -> Result<Response, Failure> {
    let caller = admission::knock(&app, &params, &headers, gate)?;
    let forbidden = |_| Failure::Refused(StatusCode::FORBIDDEN, "Forbidden".to_owned());
    let PathId(id) = id.map_err(forbidden)?;
    let resend = Resend::of(&params)?;
    let (upgrade, seat) = (admission::bounded(upgrade, &caller), admission::seat(&app)?);
    Ok(upgrade.on_upgrade(move |socket| async move {
        let _seat = seat;
        serve(app, id, caller, resend, socket).await;
    }))
}

async fn serve(app: Arc<App>, id: ConversationId, caller: Caller, resend: Resend, mut socket: WebSocket) {
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
    let mut listener = Listener { app, id, socket, frames, next: length };
    // Whoever is gone needs no answer.
    if listener.begin(resend).await.is_some() {
        let _gone = listener.follow().await;
    }
}

struct Listener {
    app: Arc<App>,
    id: ConversationId,
    socket: WebSocket,
    frames: Receiver<Frame>,
    /// The next sequence that was not sent.
    next: u64,
}

impl Listener {
    /// The whole state, then what is to be sent again.
    async fn begin(&mut self, resend: Resend) -> Option<()> {
        let (state, _) = snapshot(&self.app, &self.id).await.ok()?;
        self.send(state).await?;
        let Resend::All { since } = resend else { return Some(()) };
        let mut from = Some(Sequence(0));
        while let Some(first) = from {
            let (id, since, end) = (self.id.clone(), since.clone(), self.next);
            let page = self.app.ask(move |store| {
                let query = EventQuery {
                    from: Some(first),
                    to: end.checked_sub(1).map(Sequence),
                    timestamp_from: since,
                    ..EventQuery::default()
                };
                if end == 0 {
                    return Ok((Vec::new(), None));
                }
                let page = store.events(&id, &query, PAGE)?;
                let provenance = provenance(store, &id)?;
                let shown = page
                    .events
                    .iter()
                    .filter_map(|event| wire::shown(event, provenance, Nulls::Omitted).ok());
                Ok((shown.collect::<Vec<String>>(), page.next))
            });
            let (texts, next) = page.await.ok()?;
            for text in texts {
                self.send(text).await?;
            }
            from = next;
        }
        Some(())
    }

    /// What happens, until somebody hangs up.
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
                said = self.socket.recv() => match said? {
                    Ok(Message::Text(text)) => self.hear(text.as_str()).await?,
                    Ok(Message::Close(_)) | Err(_) => return None,
                    // A ping is answered by the protocol itself.
                    Ok(Message::Binary(_) | Message::Ping(_) | Message::Pong(_)) => {}
                },
            }
        }
    }

    async fn tell(&mut self, frame: Frame) -> Option<()> {
        match frame {
            Frame::Durable { sequence, text } if sequence.0 >= self.next => {
                self.next = sequence.0 + 1;
                self.send(text.to_string()).await
            }
            Frame::Durable { .. } => Some(()),
            Frame::Transient(text) => self.send(text.to_string()).await,
            Frame::Piece(piece) => match piece.event.clone() {
                Some(event) => self.send(event).await,
                None => Some(()),
            },
        }
    }

    /// A frame of the other side is a message; what is none is answered on this socket only.
    async fn hear(&mut self, text: &str) -> Option<()> {
        match said(&self.app, &self.id, text).await {
            Ok(()) => Some(()),
            Err((code, detail)) => self.send(admission::server_error(code, &detail)).await,
        }
    }

    async fn send(&mut self, text: String) -> Option<()> {
        self.socket.send(Message::Text(text.into())).await.ok()
    }
}

/// Takes in a frame of the other side: a message, by which the agent goes on. An authentication frame that nobody
/// needs counts for nothing.
///
/// # Errors
/// What is wrong with it: a code and a text.
pub(super) async fn said(
    app: &Arc<App>,
    id: &ConversationId,
    text: &str,
) -> Result<(), (&'static str, String)> {
    if admission::auth_frame(text).is_some() {
        return Ok(());
    }
    let mut value: serde_json::Value =
        serde_json::from_str(text).map_err(|error| ("JSONDecodeError", error.to_string()))?;
    if let Some(content) = value.get_mut("content")
        && let Some(text) = content.as_str()
    {
        *content = serde_json::json!([{"type": "text", "text": text}]);
    }
    let invalid = |failure: Failure| match &failure {
        Failure::Refused(StatusCode::NOT_FOUND, _) => ("ValueError", "inactive_service".to_owned()),
        Failure::Refused(..) | Failure::Later(_) | Failure::Launch(_) | Failure::Internal(_) => {
            ("ValueError", failure.told())
        }
        Failure::Schema(_) => ("ValidationError", failure.told()),
    };
    if value.get("role").is_none() {
        return Err(("ValidationError", "role: Field required".to_owned()));
    }
    let message = message::parse(&value, &[]).map_err(invalid)?;
    app.touch();
    let session = app.sessions().open(app, id).await.map_err(invalid)?;
    session.say(app, message).await.map_err(invalid)?;
    session.start(app, Busy::FollowUp).map_err(invalid)
}
