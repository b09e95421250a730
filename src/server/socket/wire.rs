//! WebSockets, and the upgrade of a request to a WebSocket (RFC 6455).
//!
//! A long text is sent in fragments. The write buffer of a socket then holds one fragment and not a copy of the whole
//! text, even if the client reads slowly. Clients join the fragments again (RFC 6455, section 5.4).

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

/// The maximum size of a text that is sent in one frame, and the size of a fragment: 64 KiB.
const FRAGMENT_BYTES: usize = 64 << 10;

/// The maximum size of a socket's write buffer: enough for a fragment and the protocol's own frames.
const WRITE_BYTES_MAX: usize = 4 * FRAGMENT_BYTES;

/// The number of bytes that are collected before a write: none, because each text is complete when it is sent.
const GATHERED_BYTES: usize = 0;

/// The size of each socket's read buffer. The library's default is eight times as large.
const READ_BYTES: usize = 16 << 10;

/// A request for a WebSocket.
pub(super) struct Upgrade {
    accept: String,
    stream: OnUpgrade,
}

impl<S: Send + Sync> FromRequestParts<S> for Upgrade {
    type Rejection = WebSocketUpgradeRejection;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Self::Rejection> {
        let stream = parts.extensions.get::<OnUpgrade>().cloned();
        let key = parts.headers.get(header::SEC_WEBSOCKET_KEY).map(|key| derive_accept_key(key.as_bytes()));
        // Checks the request, with the error messages that clients know.
        let _checked = WebSocketUpgrade::from_request_parts(parts, state).await?;
        // A request that passed the check has both.
        let (Some(accept), Some(stream)) = (key, stream) else {
            return Err(ConnectionNotUpgradable::default().into());
        };
        Ok(Self { accept, stream })
    }
}

impl Upgrade {
    /// Returns the response, and serves the socket after the response was sent. A received frame may have at most
    /// `frame_bytes_max` bytes.
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
            // A client that has disconnected by then has no socket.
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
        // Base64 is a valid header value.
        if let Ok(accept) = HeaderValue::from_str(&self.accept) {
            headers.insert(header::SEC_WEBSOCKET_ACCEPT, accept);
        }
        response
    }
}

/// A received frame.
pub(super) enum ReceivedFrame {
    /// A text.
    Text(Utf8Bytes),
    /// The client closed the socket or has disconnected.
    Gone,
    /// A frame to ignore: bytes, or a frame that the protocol answers by itself.
    Other,
}

/// An open socket.
pub(super) struct Socket(WebSocketStream<TokioIo<Upgraded>>);

impl Socket {
    /// Receives the next frame.
    pub async fn receive(&mut self) -> ReceivedFrame {
        match self.0.next().await {
            Some(Ok(Message::Text(text))) => ReceivedFrame::Text(text),
            Some(Ok(Message::Close(_)) | Err(_)) | None => ReceivedFrame::Gone,
            Some(Ok(Message::Binary(_) | Message::Ping(_) | Message::Pong(_) | Message::Frame(_))) => {
                ReceivedFrame::Other
            }
        }
    }

    /// Sends a text. `None` if the client has disconnected or takes no data.
    pub async fn send(&mut self, text: impl Into<Utf8Bytes>) -> Option<()> {
        let text = text.into();
        if text.len() <= FRAGMENT_BYTES {
            return self.0.send(Message::Text(text)).await.ok();
        }
        self.send_parts([text]).await
    }

    /// Sends one text that consists of several parts, without joining them first.
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

    /// Closes the socket with a code. The client may have disconnected already.
    pub async fn close(&mut self, code: u16, reason: &'static str) {
        let frame = CloseFrame { code: CloseCode::from(code), reason: reason.into() };
        let _gone = self.0.send(Message::Close(Some(frame))).await;
    }
}
