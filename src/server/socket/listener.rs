//! What follows a conversation on a socket, whatever its frames look like.

use std::sync::Arc;

use axum::http::StatusCode;
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;
use tokio_tungstenite::tungstenite::Utf8Bytes;

use super::admission::{self, Caller, OVERLOADED, RESTARTS, UNKNOWN};
use super::past::Past;
use super::wire::{Said, Socket};
use crate::ids::{ConversationId, Sequence};
use crate::server::App;
use crate::server::failure::Failure;
use crate::server::hub::{Frame, Heard, Piece};
use crate::server::message;
use crate::server::session::Busy;
use crate::store::EventQuery;

/// The frames of a socket: how each kind of thing that happens is written. `None` ends the connection.
pub(super) trait Wording {
    /// An event of the log.
    async fn durable(&mut self, socket: &mut Socket, sequence: Sequence, text: Utf8Bytes) -> Option<()>;

    /// What is in no log: a state, an error.
    async fn transient(&mut self, socket: &mut Socket, text: Utf8Bytes) -> Option<()>;

    /// A piece of a reply on its way, behind `next` events.
    async fn piece(&mut self, socket: &mut Socket, piece: &Piece, next: u64) -> Option<()>;

    /// What was wrong with a frame of the other side, told to it alone.
    async fn refusal(&mut self, socket: &mut Socket, code: &str, detail: &str) -> Option<()>;
}

/// Who follows a conversation.
pub(super) struct Listener<W> {
    pub app: Arc<App>,
    pub id: ConversationId,
    pub socket: Socket,
    pub wording: W,
    /// The next sequence that was not sent.
    pub next: u64,
    frames: Receiver<Arc<Heard>>,
}

impl<W: Wording> Listener<W> {
    /// Lets the caller in; `None` where there is no room, no such conversation, or no right to it, which the other
    /// side knows then.
    pub async fn enter(
        app: Arc<App>,
        id: ConversationId,
        caller: Caller,
        mut socket: Socket,
        wording: W,
    ) -> Option<Self> {
        admission::enter(&app, caller, &mut socket).await?;
        if !admission::has_room(&app, &id) {
            socket.close(OVERLOADED, "Too many connections for this conversation").await;
            return None;
        }
        let (hub, known) = (app.hub().clone(), id.clone());
        let Ok((frames, next)) = app.ask(move |store| hub.listen(store, &known)).await else {
            socket.close(UNKNOWN, "Conversation not found").await;
            return None;
        };
        Some(Self { app, id, socket, wording, next, frames })
    }

    /// Sends events of the log, from a first one on: all that the query finds.
    pub async fn send_past(&mut self, query: EventQuery) -> Option<()> {
        let mut from = Some(query.from.unwrap_or(Sequence(0)));
        while let Some(first) = from {
            let past = self.past(EventQuery { from: Some(first), ..query.clone() }).await?;
            from = past.next;
            let (events, _charge) = past.into_parts();
            for (sequence, text) in events {
                self.wording.durable(&mut self.socket, sequence, text).await?;
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

    /// Closes the socket of a listener that is too far behind.
    async fn leave<T>(&mut self) -> Option<T> {
        self.socket.close(OVERLOADED, "slow_consumer").await;
        None
    }

    /// Sends what happens, until one side ends it.
    pub async fn follow(&mut self) -> Option<()> {
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
                    Said::Text(text) => {
                        if let Err((code, detail)) = hear(&self.app, &self.id, text.as_str()).await {
                            self.wording.refusal(&mut self.socket, code, &detail).await?;
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
                self.wording.durable(&mut self.socket, sequence, text).await
            }
            (Some(Frame::Transient(text)), _) => self.wording.transient(&mut self.socket, text).await,
            (Some(Frame::Piece(piece)), _) => self.wording.piece(&mut self.socket, &piece, self.next).await,
            (Some(Frame::Bell(bell)), _) => {
                drop(bell);
                Some(())
            }
            (None, Some(sequence)) => {
                // It has its own when it is read.
                drop(charge);
                self.next = sequence.0 + 1;
                self.send_past(EventQuery::only(sequence)).await
            }
            (None, None) => self.leave().await,
        }
    }
}

/// Takes in a frame of the other side: a message, by which the agent goes on. An authentication frame that is not
/// needed counts for nothing.
///
/// # Errors
/// What is wrong with it: a code and a text.
async fn hear(app: &Arc<App>, id: &ConversationId, text: &str) -> Result<(), (&'static str, String)> {
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
