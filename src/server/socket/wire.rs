//! A socket, and how a request becomes one (RFC 6455).
//!
//! A long text goes in fragments: a socket that is read slowly, or that once had much to send, holds one of them and not a
//! copy of the whole. Clients put them together again; section 5.4 has it so.

use std::future::Future;

use axum::body::{Body, Bytes};
use axum::extract::FromRequestParts;
use axum::extract::ws::WebSocketUpgrade;
use axum::extract::ws::rejection::{ConnectionNotUpgradable, WebSocketUpgradeRejection};
use axum::http::request::Parts;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::Response;
use futures_util::{SinkExt as _, StreamExt as _};
use hyper::upgrade::{OnUpgrade, Upgraded};
use hyper_util::rt::TokioIo;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::frame::Frame;
use tokio_tungstenite::tungstenite::protocol::frame::coding::{CloseCode, Data, OpCode};
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, Role, WebSocketConfig};
use tokio_tungstenite::tungstenite::{Message, Utf8Bytes};

/// The longest text that goes in one piece, and the length of a fragment: 64 KiB.
const FRAGMENT_BYTES: usize = 64 << 10;

/// How much may wait to be written to one socket: a fragment, and what the protocol says besides.
const WRITE_BYTES_MAX: usize = 4 * FRAGMENT_BYTES;

/// How much is gathered before it is written: nothing, for a text is whole when it is sent.
const GATHERED_BYTES: usize = 0;

/// How much is read from a socket at once. The library's own default is eight times that, for each of them.
const READ_BYTES: usize = 16 << 10;

/// A request that asks for a socket.
pub(super) struct Upgrade {
    accept: String,
    stream: OnUpgrade,
}

impl<S: Send + Sync> FromRequestParts<S> for Upgrade {
    type Rejection = WebSocketUpgradeRejection;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Self::Rejection> {
        let stream = parts.extensions.get::<OnUpgrade>().cloned();
        let key = parts.headers.get(header::SEC_WEBSOCKET_KEY).map(|key| derive_accept_key(key.as_bytes()));
        // It checks all there is to check, in the words that clients know.
        let _checked = WebSocketUpgrade::from_request_parts(parts, state).await?;
        // A request that passed has both.
        let (Some(accept), Some(stream)) = (key, stream) else {
            return Err(ConnectionNotUpgradable::default().into());
        };
        Ok(Self { accept, stream })
    }
}

impl Upgrade {
    /// Answers, and serves the socket when the other side has heard it. What it says is taken up to `frame_bytes_max` at
    /// a time.
    pub fn serve<F>(
        self,
        frame_bytes_max: usize,
        serve: impl FnOnce(Socket) -> F + Send + 'static,
    ) -> Response
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let config = WebSocketConfig::default()
            .read_buffer_size(READ_BYTES)
            .write_buffer_size(GATHERED_BYTES)
            .max_write_buffer_size(WRITE_BYTES_MAX)
            .max_message_size(Some(frame_bytes_max))
            .max_frame_size(Some(frame_bytes_max));
        tokio::spawn(async move {
            // Who is gone by then has no socket.
            if let Ok(stream) = self.stream.await {
                let stream = TokioIo::new(stream);
                serve(Socket(WebSocketStream::from_raw_socket(stream, Role::Server, Some(config)).await))
                    .await;
            }
        });
        let mut response = Response::new(Body::empty());
        *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
        let headers = response.headers_mut();
        headers.insert(header::CONNECTION, HeaderValue::from_static("upgrade"));
        headers.insert(header::UPGRADE, HeaderValue::from_static("websocket"));
        // Base64: a header can bear it.
        if let Ok(accept) = HeaderValue::from_str(&self.accept) {
            headers.insert(header::SEC_WEBSOCKET_ACCEPT, accept);
        }
        response
    }
}

/// What the other side says.
pub(super) enum Said {
    /// A text.
    Text(Utf8Bytes),
    /// It hangs up, or is gone.
    Gone,
    /// Nothing that counts here: bytes, or what the protocol answers by itself.
    Other,
}

/// An open socket.
pub(super) struct Socket(WebSocketStream<TokioIo<Upgraded>>);

impl Socket {
    /// What the other side says next.
    pub async fn hear(&mut self) -> Said {
        match self.0.next().await {
            Some(Ok(Message::Text(text))) => Said::Text(text),
            Some(Ok(Message::Close(_)) | Err(_)) | None => Said::Gone,
            Some(Ok(Message::Binary(_) | Message::Ping(_) | Message::Pong(_) | Message::Frame(_))) => {
                Said::Other
            }
        }
    }

    /// Sends a text; `None` where the other side is gone, or takes nothing.
    pub async fn send(&mut self, text: impl Into<Utf8Bytes>) -> Option<()> {
        let text = text.into();
        if text.len() <= FRAGMENT_BYTES {
            return self.0.send(Message::Text(text)).await.ok();
        }
        self.send_parts([text]).await
    }

    /// Sends one text that is made of several, without putting them together first.
    pub async fn send_parts<const N: usize>(&mut self, parts: [Utf8Bytes; N]) -> Option<()> {
        let mut left = parts.iter().map(|part| part.len()).sum::<usize>();
        let mut kind = Data::Text;
        for part in parts {
            let mut part = Bytes::from(part);
            while !part.is_empty() {
                let fragment = part.split_to(part.len().min(FRAGMENT_BYTES));
                left -= fragment.len();
                let frame = Frame::message(fragment, OpCode::Data(kind), left == 0);
                self.0.send(Message::Frame(frame)).await.ok()?;
                kind = Data::Continue;
            }
        }
        Some(())
    }

    /// Closes with a code; the other side may be gone already.
    pub async fn close(&mut self, code: u16, reason: &'static str) {
        let frame = CloseFrame { code: CloseCode::from(code), reason: reason.into() };
        let _gone = self.0.send(Message::Close(Some(frame))).await;
    }
}
