//! A server on its own port, and clients that connect to it over the network.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use annals::Store;
use annals::server::{App, Config, serve};
use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream};

use super::Scratch;
use super::model_server::{Answer, ModelServer};

/// The session key of the servers of this module.
pub const KEY: &str = "session-key-0123456789";

/// The maximum duration of each wait. It only turns a hang into a failure.
const WAIT_MAX: Duration = Duration::from_secs(120);

/// A server. It ends on [`Served::stop`], or with the runtime of the test.
pub struct Served {
    pub address: SocketAddr,
    pub store: Store,
    pub scratch: Arc<Scratch>,
    stop: Option<oneshot::Sender<()>>,
    task: Option<JoinHandle<()>>,
    key: Option<&'static str>,
}

/// A response of the server.
#[derive(Debug, Clone, PartialEq)]
pub struct Reply {
    pub status: u16,
    /// The headers, with names in lower case.
    pub headers: Vec<(String, String)>,
    pub bytes: Vec<u8>,
}

impl Reply {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.bytes).into_owned()
    }

    /// Returns the body as JSON. Null if it is not JSON.
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.bytes).unwrap_or_default()
    }

    /// Asserts that the status is a success. Returns the body as JSON.
    #[track_caller]
    pub fn ok(self) -> Value {
        assert!((200..300).contains(&self.status), "{}: {}", self.status, self.text());
        self.json()
    }

    /// Returns the status and the member `detail` of the body.
    pub fn refusal(&self) -> (u16, Value) {
        (self.status, self.json()["detail"].clone())
    }
}

impl Served {
    /// Starts a server with a key and its own folder.
    pub async fn start() -> Self {
        Self::with(|config| config).await
    }

    pub async fn with(set: impl FnOnce(Config) -> Config) -> Self {
        Self::on(Arc::new(Scratch::new()), set).await
    }

    /// Starts a server on a folder that another server may use too.
    pub async fn on(scratch: Arc<Scratch>, set: impl FnOnce(Config) -> Config) -> Self {
        let config = set(Config::default()
            .session_keys(vec![KEY.to_owned()])
            .conversations_dir(scratch.path("conversations"))
            .settings_dir(scratch.path("settings"))
            .worktrees_dir(scratch.path("worktrees"))
            .cipher(annals::secret::Cipher::new("cipher-key", &[])));
        let key = (!config.session_keys.is_empty()).then_some(KEY);
        let store = scratch.open();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let app = Arc::new(App::new(store.clone(), config).unwrap());
        let (stop, stopped) = oneshot::channel::<()>();
        let task = tokio::spawn(async move {
            let ended = async { drop(stopped.await) };
            serve(listener, app, ended).await.unwrap();
        });
        Self { address, store, scratch, stop: Some(stop), task: Some(task), key }
    }

    /// Ends the server as a signal would, and waits for its end.
    pub async fn stop(&mut self) {
        drop(self.stop.take());
        if let Some(task) = self.task.take() {
            task.await.unwrap();
        }
    }

    /// Returns a path in the server's folder.
    pub fn path(&self, name: &str) -> PathBuf {
        self.scratch.path(name)
    }

    pub async fn get(&self, path: &str) -> Reply {
        self.request("GET", path, None).await
    }

    pub async fn post(&self, path: &str, body: Value) -> Reply {
        self.request("POST", path, Some(body)).await
    }

    pub async fn request(&self, method: &str, path: &str, body: Option<Value>) -> Reply {
        let key = self.key.map(|key| ("x-session-api-key", key));
        let body = body.map(|body| body.to_string()).unwrap_or_default();
        self.send(method, path, &key.into_iter().collect::<Vec<_>>(), body.as_bytes()).await
    }

    /// Sends exactly this request on a new connection.
    pub async fn send(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Reply {
        let mut head = format!("{method} {path} HTTP/1.1\r\nconnection: close\r\n");
        if !headers.iter().any(|(name, _)| *name == "host") {
            head.push_str(&format!("host: {}\r\n", self.address));
        }
        for (name, value) in headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        head.push_str(&format!("content-length: {}\r\n\r\n", body.len()));
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        stream.write_all(head.as_bytes()).await.unwrap();
        // The server may refuse the request before it reads the body.
        let _refused = stream.write_all(body).await;
        let mut bytes = Vec::new();
        let _reset = tokio::time::timeout(WAIT_MAX, stream.read_to_end(&mut bytes)).await.unwrap();
        parse(&bytes)
    }

    /// Opens a socket with the key in a header.
    pub async fn socket(&self, path: &str) -> Socket {
        let key = self.key.map(|key| ("x-session-api-key", key));
        self.socket_with(path, &key.into_iter().collect::<Vec<_>>()).await.unwrap()
    }

    /// Opens a socket. Returns the status of the response if the server refuses it.
    pub async fn socket_with(&self, path: &str, headers: &[(&str, &str)]) -> Result<Socket, u16> {
        use tokio_tungstenite::tungstenite::Error;
        use tokio_tungstenite::tungstenite::client::IntoClientRequest;
        let mut request = format!("ws://{}{path}", self.address).into_client_request().unwrap();
        for (name, value) in headers {
            let name: tokio_tungstenite::tungstenite::http::HeaderName = name.parse().unwrap();
            request.headers_mut().insert(name, value.parse().unwrap());
        }
        match tokio_tungstenite::connect_async(request).await {
            Ok((stream, _)) => Ok(Socket(stream)),
            Err(Error::Http(response)) => Err(response.status().as_u16()),
            Err(error) => panic!("{error}"),
        }
    }

    /// Creates a conversation whose agent asks `model` and works in a folder of this server. Returns its id.
    pub async fn conversation(&self, model: &ModelServer) -> String {
        let answer = self.post("/api/conversations", self.conversation_request(model)).await;
        assert_eq!(answer.status, 201, "{}", answer.text());
        answer.json()["id"].as_str().unwrap().to_owned()
    }

    /// Returns the request body for such a conversation.
    pub fn conversation_request(&self, model: &ModelServer) -> Value {
        json!({
            "agent": {
                "kind": "Agent",
                "llm": {
                    "model": "openai/test", "base_url": format!("{}/v1", model.url()),
                    "api_key": "sk-model-key-1", "usage_id": "agent", "num_retries": 0,
                },
                "tools": [{"name": "terminal"}, {"name": "file_editor"}],
            },
            "workspace": {"working_dir": self.path("work")},
            "autotitle": false,
        })
    }

    /// Sends a message and runs the conversation. Returns the status after the run.
    pub async fn say(&self, id: &str, text: &str) -> String {
        let content = json!([{"type": "text", "text": text}]);
        let message = json!({"role": "user", "content": content, "run": true});
        self.post(&format!("/api/conversations/{id}/events"), message).await.ok();
        self.wait_until_done(id).await
    }

    /// Waits until the status is neither `running` nor `idle`. Returns the status.
    pub async fn wait_until_done(&self, id: &str) -> String {
        let mut status = String::new();
        until(async || {
            let info = self.get(&format!("/api/conversations/{id}")).await.ok();
            info["execution_status"].as_str().unwrap_or_default().clone_into(&mut status);
            !matches!(status.as_str(), "running" | "idle")
        })
        .await;
        status
    }

    /// Sends a message and waits until everything about its run was sent to all sockets: the state is sent last.
    pub async fn say_until_at_rest(&self, id: &str, text: &str) {
        let mut socket = self.socket(&format!("/sockets/events/{id}")).await;
        self.say(id, text).await;
        let is_last = |frame: &Value| {
            let status = &frame["value"]["execution_status"];
            frame["key"] == "full_state" && status != "idle" && status != "running"
        };
        socket.receive_until(is_last).await;
    }

    /// Returns the kinds of all events except state updates.
    pub async fn kinds(&self, id: &str) -> Vec<String> {
        let page = self.get(&format!("/api/conversations/{id}/events/search")).await.ok();
        let kinds = page["items"].as_array().unwrap().iter().map(|event| event["kind"].as_str().unwrap());
        kinds.filter(|kind| *kind != "ConversationStateUpdateEvent").map(str::to_owned).collect()
    }
}

/// Polls `is_met` until it returns true. Panics after [`WAIT_MAX`].
pub async fn until(mut is_met: impl AsyncFnMut() -> bool) {
    let polling = async {
        while !is_met().await {
            tokio::time::sleep(Duration::from_millis(15)).await;
        }
    };
    tokio::time::timeout(WAIT_MAX, polling).await.expect("the condition was not met in time");
}

/// Starts a model that answers each request with the next of these texts.
pub fn model(texts: &[&str]) -> ModelServer {
    ModelServer::start(texts.iter().map(|text| Answer::text(text)))
}

/// Starts a model that calls the terminal with `command`, and then answers with a text.
pub fn model_runs(command: &str) -> ModelServer {
    let arguments = json!({ "command": command }).to_string();
    ModelServer::start([Answer::calls("", &[("call_1", "terminal", &arguments)]), Answer::text("Done.")])
}

pub struct Socket(WebSocketStream<MaybeTlsStream<TcpStream>>);

impl Socket {
    pub async fn say(&mut self, text: &str) {
        self.0.send(Message::Text(text.into())).await.unwrap();
    }

    /// Sends a frame that the server may refuse. Returns whether the socket could still send it.
    pub async fn offer(&mut self, text: &str, is_binary: bool) -> bool {
        let frame = if is_binary {
            Message::Binary(text.as_bytes().to_vec().into())
        } else {
            Message::Text(text.into())
        };
        self.0.send(frame).await.is_ok()
    }

    /// Returns the next frame. If the socket is closed, returns the code and the reason.
    pub async fn receive(&mut self) -> Result<Value, (u16, String)> {
        loop {
            let frame = tokio::time::timeout(WAIT_MAX, self.0.next()).await.expect("no frame came in time");
            match frame {
                Some(Ok(Message::Text(text))) => return Ok(serde_json::from_str(&text).unwrap()),
                Some(Ok(Message::Close(Some(close)))) => {
                    return Err((close.code.into(), close.reason.to_string()));
                }
                Some(Ok(Message::Close(None))) | None => return Err((1005, String::new())),
                Some(Ok(_)) => {}
                Some(Err(error)) => panic!("{error}"),
            }
        }
    }

    /// Returns the next frame. `None` if the socket is closed or broken.
    pub async fn receive_any(&mut self) -> Option<Value> {
        loop {
            match tokio::time::timeout(WAIT_MAX, self.0.next()).await.expect("no frame came in time")? {
                Ok(Message::Text(text)) => return Some(serde_json::from_str(&text).unwrap()),
                Ok(Message::Close(_)) | Err(_) => return None,
                Ok(_) => {}
            }
        }
    }

    /// Returns the next frame for which `fits` returns true.
    pub async fn receive_until(&mut self, fits: impl Fn(&Value) -> bool) -> Value {
        loop {
            let frame = self.receive().await.unwrap();
            if fits(&frame) {
                return frame;
            }
        }
    }
}

fn parse(bytes: &[u8]) -> Reply {
    let end = bytes.windows(4).position(|four| four == b"\r\n\r\n");
    let Some(end) = end else { return Reply { status: 0, headers: Vec::new(), bytes: bytes.to_vec() } };
    let head = String::from_utf8_lossy(&bytes[..end]).into_owned();
    let mut lines = head.split("\r\n");
    let status = lines.next().unwrap().split(' ').nth(1).unwrap().parse().unwrap();
    let headers: Vec<(String, String)> = lines
        .filter_map(|line| line.split_once(':'))
        .map(|(name, value)| (name.to_lowercase(), value.trim().to_owned()))
        .collect();
    let mut body = bytes[end + 4..].to_vec();
    if headers.iter().any(|(name, value)| name == "transfer-encoding" && value == "chunked") {
        body = unchunked(&body);
    }
    Reply { status, headers, bytes: body }
}

fn unchunked(mut rest: &[u8]) -> Vec<u8> {
    let mut body = Vec::new();
    while let Some(end) = rest.windows(2).position(|two| two == b"\r\n") {
        let length = usize::from_str_radix(std::str::from_utf8(&rest[..end]).unwrap().trim(), 16).unwrap();
        if length == 0 {
            break;
        }
        body.extend_from_slice(&rest[end + 2..end + 2 + length]);
        rest = &rest[end + 4 + length..];
    }
    body
}
