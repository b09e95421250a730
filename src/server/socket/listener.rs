//! The subscriber of a conversation on a socket, for every format of frames.

use std::sync::Arc;

use axum::http::StatusCode;
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;
use tokio_tungstenite::tungstenite::Utf8Bytes;

use super::admission::{self, Arrival, OVERLOADED, RESTARTS, UNAUTHORISED, UNKNOWN};
use super::past::Past;
use super::wire::{ReceivedFrame, Socket};
use crate::ids::{ConversationId, Sequence};
use crate::server::App;
use crate::server::http::caller::Caller;
use crate::server::http::failure::Failure;
use crate::server::http::message;
use crate::server::live::hub::{Frame, Piece, QueuedFrame};
use crate::server::live::session::Busy;
use crate::store::{EventQuery, KeyRole};

/// The format of a socket's frames, with one method for each kind of content. `None` ends the connection.
pub(super) trait FrameFormat {
    /// Sends an event of the log.
    async fn durable(&mut self, socket: &mut Socket, sequence: Sequence, text: Utf8Bytes) -> Option<()>;

    /// Sends an event that is in no log, such as a snapshot.
    async fn transient(&mut self, socket: &mut Socket, text: Utf8Bytes) -> Option<()>;

    /// Sends a piece of a reply that is being generated. It follows the first `next` events of the log.
    async fn piece(&mut self, socket: &mut Socket, piece: &Piece, next: u64) -> Option<()>;

    /// Reports a problem with a received frame. Only this client is notified.
    async fn refusal(&mut self, socket: &mut Socket, code: &str, detail: &str) -> Option<()>;
}

/// A subscriber of a conversation.
pub(super) struct Listener<W> {
    pub app: Arc<App>,
    pub id: ConversationId,
    pub socket: Socket,
    pub wording: W,
    caller: Caller,
    /// The first sequence that has not been sent.
    pub next: u64,
    frames: Receiver<Arc<QueuedFrame>>,
}

impl<W: FrameFormat> Listener<W> {
    /// Authorizes the caller and subscribes it. `None` if it is not authorized, there are too many subscribers, or
    /// there is no such conversation. The socket has been closed with the reason then.
    pub async fn enter(
        app: Arc<App>,
        id: ConversationId,
        arrival: Arrival,
        mut socket: Socket,
        wording: W,
    ) -> Option<Self> {
        let caller = admission::authorize(&app, arrival, &mut socket, KeyRole::Read).await?;
        if !admission::has_room(&app, &id) {
            socket.close(OVERLOADED, "Too many connections for this conversation").await;
            return None;
        }
        let (hub, known) = (app.hub().clone(), id.clone());
        let Ok((frames, next)) = app.ask(move |store| hub.subscribe(store, &known)).await else {
            socket.close(UNKNOWN, "Conversation not found").await;
            return None;
        };
        Some(Self { app, id, socket, wording, caller, next, frames })
    }

    /// Does `work` and then follows the conversation, until the client or the server ends the connection, or the
    /// caller's key is revoked.
    pub async fn serve(mut self, work: impl AsyncFnOnce(&mut Self) -> Option<()>) {
        let (app, caller) = (Arc::clone(&self.app), self.caller.clone());
        let all = async {
            work(&mut self).await?;
            self.follow().await
        };
        if admission::until_revoked(&app, &caller, all).await {
            self.socket.close(UNAUTHORISED, admission::REVOKED).await;
        }
    }

    /// Sends all events of the log that the query finds.
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

    /// Reads one page of past events. If memory for it is not free in time, closes the socket.
    async fn past(&mut self, query: EventQuery) -> Option<Past> {
        match Past::read(&self.app, &self.id, query).await {
            Ok(past) => Some(past),
            Err(Failure::Later(_)) => self.close_slow().await,
            Err(
                Failure::Refused(..)
                | Failure::Stale(..)
                | Failure::Schema(_)
                | Failure::Launch(_)
                | Failure::Internal(_),
            ) => None,
        }
    }

    /// Closes the socket because the client is too slow.
    async fn close_slow<T>(&mut self) -> Option<T> {
        self.socket.close(OVERLOADED, "slow_consumer").await;
        None
    }

    /// Sends new frames and handles received ones, until the client or the server ends the connection.
    async fn follow(&mut self) -> Option<()> {
        let ending = self.app.ending().clone();
        loop {
            tokio::select! {
                () = ending.cancelled() => {
                    self.socket.close(RESTARTS, "the server ends").await;
                    return None;
                }
                frame = self.frames.recv() => match frame {
                    Ok(queued) => self.send(queued).await?,
                    Err(RecvError::Lagged(_)) => return self.close_slow().await,
                    Err(RecvError::Closed) => return None,
                },
                received = self.socket.receive() => match received {
                    ReceivedFrame::Text(text) => {
                        let received = receive(&self.app, &self.id, &self.caller, text.as_str()).await;
                        if let Err((code, detail)) = received {
                            self.wording.refusal(&mut self.socket, code, &detail).await?;
                        }
                    }
                    ReceivedFrame::Gone => return None,
                    ReceivedFrame::Other => {}
                },
            }
        }
    }

    async fn send(&mut self, queued: Arc<QueuedFrame>) -> Option<()> {
        if queued.sequence.is_some_and(|sequence| sequence.0 < self.next) {
            return Some(());
        }
        let charge = self.app.budgets().listeners.take(queued.bytes).await;
        let Ok(charge) = charge else { return self.close_slow().await };
        let (sequence, frame) = (queued.sequence, queued.frame());
        drop(queued);
        match (frame, sequence) {
            (Some(Frame::Durable { sequence, text }), _) => {
                self.next = sequence.0 + 1;
                self.wording.durable(&mut self.socket, sequence, text).await
            }
            (Some(Frame::Transient(text)), _) => self.wording.transient(&mut self.socket, text).await,
            (Some(Frame::Piece(piece)), _) => self.wording.piece(&mut self.socket, &piece, self.next).await,
            (Some(Frame::DeliveryMarker(marker)), _) => {
                drop(marker);
                Some(())
            }
            (None, Some(sequence)) => {
                // The frame was dropped, but the event is in the log. Reading it takes its own charge.
                drop(charge);
                self.next = sequence.0 + 1;
                self.send_past(EventQuery::only(sequence)).await
            }
            (None, None) => self.close_slow().await,
        }
    }
}

/// Handles a received frame: adds its message to the conversation and runs the agent. Ignores an authentication frame,
/// because the client is already authorized.
///
/// # Errors
/// A code and a text that describe the problem.
async fn receive(
    app: &Arc<App>,
    id: &ConversationId,
    caller: &Caller,
    text: &str,
) -> Result<(), (&'static str, String)> {
    if admission::auth_frame(text).is_some() {
        return Ok(());
    }
    caller.check_change(KeyRole::Write).map_err(|failure| ("Forbidden", failure.message()))?;
    let mut value: serde_json::Value =
        serde_json::from_str(text).map_err(|error| ("JSONDecodeError", error.to_string()))?;
    if let Some(content) = value.get_mut("content")
        && let Some(text) = content.as_str()
    {
        *content = serde_json::json!([{"type": "text", "text": text}]);
    }
    let invalid = |failure: Failure| match &failure {
        Failure::Refused(StatusCode::NOT_FOUND, _) => ("ValueError", "inactive_service".to_owned()),
        Failure::Refused(..)
        | Failure::Stale(..)
        | Failure::Later(_)
        | Failure::Launch(_)
        | Failure::Internal(_) => ("ValueError", failure.message()),
        Failure::Schema(_) => ("ValidationError", failure.message()),
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
