//! A WebSocket to a server, over the same connections, certificates and proxies as every other request.

use futures_util::{SinkExt as _, StreamExt as _};
use reqwest::StatusCode;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::handshake::{client::generate_key, derive_accept_key};
use tokio_tungstenite::tungstenite::protocol::{Message, Role, WebSocketConfig};

use super::{Client, Method, RemoteError, Result};

/// The maximum size of a frame, in bytes. Servers send at most 4 MiB, for any state of a conversation.
const FRAME_BYTES_MAX: usize = 16 << 20;

/// The time limit for the handshake.
const HANDSHAKE_TIMEOUT: std::time::Duration = std::time::Duration::from_secs(10);

/// Close codes that are final: the key is wrong; there is no such conversation.
const UNAUTHORISED: u16 = 4001;
const UNKNOWN: u16 = 4004;

/// An open socket.
pub(super) struct Socket(WebSocketStream<reqwest::Upgraded>);

/// A message on a socket, or the end of the socket.
#[derive(Debug, PartialEq)]
pub(super) enum Incoming {
    Text(String),
    /// The other side is alive.
    Pong,
    /// The connection has ended. Another one may work.
    Lost,
    /// The connection has ended. Another one would end too.
    Ended(RemoteError),
}

impl Socket {
    /// Opens a socket.
    ///
    /// # Errors
    /// [`RemoteError::Unreachable`], and the error for the status of a rejected handshake.
    pub async fn open(client: &Client, path: &str) -> Result<Self> {
        match tokio::time::timeout(HANDSHAKE_TIMEOUT, Self::shake_hands(client, path)).await {
            Ok(opened) => opened,
            Err(_) => Err(RemoteError::Unreachable {
                server: client.server().to_string(),
                cause: "no handshake in time".to_owned(),
            }),
        }
    }

    async fn shake_hands(client: &Client, path: &str) -> Result<Self> {
        let nonce = generate_key();
        let request = client
            .request(Method::Get, path)
            .header("connection", "Upgrade")
            .header("upgrade", "websocket")
            .header("sec-websocket-version", "13")
            .header("sec-websocket-key", &nonce);
        let response = request.send().await.map_err(|error| client.unreachable(&error))?;
        let status = response.status();
        if status != StatusCode::SWITCHING_PROTOCOLS {
            return Err(client.refusal(status.as_u16(), ""));
        }
        let accept = response.headers().get("sec-websocket-accept").map(|value| value.as_bytes().to_owned());
        if accept.as_deref() != Some(derive_accept_key(nonce.as_bytes()).as_bytes()) {
            return Err(client.invalid_answer("its handshake does not match the request"));
        }
        let upgraded = response.upgrade().await.map_err(|error| client.unreachable(&error))?;
        let config = WebSocketConfig::default()
            .max_message_size(Some(FRAME_BYTES_MAX))
            .max_frame_size(Some(FRAME_BYTES_MAX));
        Ok(Self(WebSocketStream::from_raw_socket(upgraded, Role::Client, Some(config)).await))
    }

    /// Receives the next message. Can be cancelled and called again without loss.
    pub async fn receive(&mut self, client: &Client) -> Incoming {
        loop {
            let server = || client.server().to_string();
            match self.0.next().await {
                Some(Ok(Message::Text(text))) => return Incoming::Text(text.as_str().to_owned()),
                Some(Ok(Message::Ping(_) | Message::Pong(_))) => return Incoming::Pong,
                Some(Ok(Message::Close(Some(frame)))) => match u16::from(frame.code) {
                    UNAUTHORISED => return Incoming::Ended(RemoteError::Key { server: server() }),
                    UNKNOWN => {
                        let detail = "Conversation not found".to_owned();
                        return Incoming::Ended(RemoteError::NotFound { server: server(), detail });
                    }
                    _ => return Incoming::Lost,
                },
                Some(Ok(Message::Close(None)) | Err(_)) | None => return Incoming::Lost,
                Some(Ok(Message::Binary(_) | Message::Frame(_))) => {}
            }
        }
    }

    /// Sends a ping. Returns whether it could be sent.
    pub async fn ping(&mut self) -> bool {
        self.0.send(Message::Ping(Vec::new().into())).await.is_ok()
    }

    /// Closes the socket. An error is ignored, because the other side may be gone already.
    pub async fn close(mut self) {
        let _gone_already = tokio::time::timeout(std::time::Duration::from_secs(1), self.0.close(None)).await;
    }
}
