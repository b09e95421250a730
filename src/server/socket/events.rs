//! `/sockets/events/{id}`: the socket that the Python client listens to.

use std::sync::Arc;

use axum::Extension;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;

use super::admission::{self, Caller, OVERLOADED, RESTARTS, UNKNOWN};
use super::past::Past;
use super::wire::{Said, Socket, Upgrade};
use crate::ids::{ConversationId, Sequence};
use crate::server::App;
use crate::server::failure::Failure;
use crate::server::gate::Gate;
use crate::server::hub::{Frame, Heard};
use crate::server::message;
use crate::server::request::{Params, PathId};
use crate::server::session::{Busy, snapshot};
use crate::store::EventQuery;

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
    upgrade: Upgrade,
) -> Result<Response, Failure> {
    let caller = admission::knock(&app, &params, &headers, gate)?;
    let forbidden = |_| Failure::Refused(StatusCode::FORBIDDEN, "Forbidden".to_owned());
    let PathId(id) = id.map_err(forbidden)?;
    let resend = Resend::of(&params)?;
    let (frame_bytes_max, seat) = (admission::frame_bytes_max(&caller), admission::seat(&app)?);
    Ok(upgrade.serve(frame_bytes_max, move |socket| async move {
        let _seat = seat;
        serve(app, id, caller, resend, socket).await;
    }))
}

async fn serve(app: Arc<App>, id: ConversationId, caller: Caller, resend: Resend, mut socket: Socket) {
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
    let mut listener = Listener { app, id, socket, frames, next: length };
    // Whoever is gone needs no answer.
    if listener.begin(resend).await.is_some() {
        let _gone = listener.follow().await;
    }
}

struct Listener {
    app: Arc<App>,
    id: ConversationId,
    socket: Socket,
    frames: Receiver<Arc<Heard>>,
    /// The next sequence that was not sent.
    next: u64,
}

impl Listener {
    /// The whole state, then what is to be sent again.
    async fn begin(&mut self, resend: Resend) -> Option<()> {
        let (state, _) = snapshot(&self.app, &self.id).await.ok()?;
        self.socket.send(state).await?;
        let Resend::All { since } = resend else { return Some(()) };
        let Some(last) = self.next.checked_sub(1).map(Sequence) else { return Some(()) };
        let mut from = Some(Sequence(0));
        while let Some(first) = from {
            let query = EventQuery {
                from: Some(first),
                to: Some(last),
                timestamp_from: since.clone(),
                ..EventQuery::default()
            };
            let past = self.past(query).await?;
            from = past.next;
            let (events, _charge) = past.into_parts();
            for (_, text) in events {
                self.socket.send(text).await?;
            }
        }
        Some(())
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

    /// What happens, until somebody hangs up.
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
                said = self.socket.hear() => match said {
                    Said::Text(text) => self.hear(text.as_str()).await?,
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
                self.socket.send(text).await
            }
            (Some(Frame::Transient(text)), _) => self.socket.send(text).await,
            (Some(Frame::Piece(piece)), _) => match piece.event.clone() {
                Some(event) => self.socket.send(event).await,
                None => Some(()),
            },
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
                for (_, text) in events {
                    self.socket.send(text).await?;
                }
                Some(())
            }
            (None, None) => self.leave().await,
        }
    }

    /// A frame of the other side is a message; what is none is answered on this socket only.
    async fn hear(&mut self, text: &str) -> Option<()> {
        match said(&self.app, &self.id, text).await {
            Ok(()) => Some(()),
            Err((code, detail)) => self.socket.send(admission::server_error(code, &detail)).await,
        }
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
