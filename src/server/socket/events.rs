//! `/sockets/events/{id}`: the socket that the Python client listens to.

use std::sync::Arc;

use axum::Extension;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use tokio_tungstenite::tungstenite::Utf8Bytes;

use super::admission::{self, Arrival};
use super::listener::{FrameFormat, Listener};
use super::wire::{Socket, Upgrade};
use crate::ids::{ConversationId, Sequence};
use crate::server::App;
use crate::server::http::failure::Failure;
use crate::server::http::gate::Gate;
use crate::server::http::request::{Params, PathId};
use crate::server::live::hub::Piece;
use crate::server::live::session::snapshot;
use crate::store::{EventQuery, KeyRole};

/// The past events that are sent again.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Resend {
    Nothing,
    /// All events, or all events from a time on. The time is written as in events.
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
    let arrival = admission::check_key(&app, &params, &headers, gate, KeyRole::Read).await?;
    let forbidden = |_| Failure::Refused(StatusCode::FORBIDDEN, "Forbidden".to_owned());
    let PathId(id) = id.map_err(forbidden)?;
    let resend = Resend::of(&params)?;
    let (frame_bytes_max, permit) = (admission::frame_bytes_max(&arrival), admission::reserve_socket(&app)?);
    let caller = admission::known(&arrival);
    let response = upgrade.serve(frame_bytes_max, move |socket| async move {
        let _permit = permit;
        serve(app, id, arrival, resend, socket).await;
    });
    Ok(admission::marked(response, caller))
}

async fn serve(app: Arc<App>, id: ConversationId, arrival: Arrival, resend: Resend, socket: Socket) {
    let Some(listener) = Listener::enter(app, id, arrival, socket, Events).await else { return };
    listener.serve(async |listener| begin(listener, resend).await).await;
}

/// Sends the whole state, then the requested past events.
async fn begin(listener: &mut Listener<Events>, resend: Resend) -> Option<()> {
    let (state, _) = snapshot(&listener.app, &listener.id).await.ok()?;
    listener.socket.send(state).await?;
    let Resend::All { since } = resend else { return Some(()) };
    let Some(last) = listener.next.checked_sub(1).map(Sequence) else { return Some(()) };
    listener.send_past(EventQuery { to: Some(last), timestamp_from: since, ..EventQuery::default() }).await
}

/// The format of this socket: every frame is one event.
struct Events;

impl FrameFormat for Events {
    async fn durable(&mut self, socket: &mut Socket, _: Sequence, text: Utf8Bytes) -> Option<()> {
        socket.send(text).await
    }

    async fn transient(&mut self, socket: &mut Socket, text: Utf8Bytes) -> Option<()> {
        socket.send(text).await
    }

    async fn piece(&mut self, socket: &mut Socket, piece: &Piece, _: u64) -> Option<()> {
        match piece.event.clone() {
            Some(event) => socket.send(event).await,
            None => Some(()),
        }
    }

    async fn refusal(&mut self, socket: &mut Socket, code: &str, detail: &str) -> Option<()> {
        socket.send(admission::server_error(code, detail)).await
    }
}
