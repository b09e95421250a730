//! A server on its own port, and a client that uses it over real HTTP.

use std::sync::Arc;

use annals::Store;
use annals::server::{App, Config, serve};
use reqwest::{Client, Method, Response, StatusCode};
use serde_json::Value;
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

pub struct Served {
    pub url: String,
    pub client: Client,
    stop: oneshot::Sender<()>,
    task: JoinHandle<std::io::Result<()>>,
    /// The folder of the files that the server keeps outside the store.
    _folder: tempfile::TempDir,
}

/// Returns a client for servers of this machine. Tests make every such client here: each of them may be the first of its
/// process, and a client needs a TLS provider although no connection of a test uses TLS.
pub fn http_client() -> Client {
    let _already_installed = rustls::crypto::ring::default_provider().install_default();
    Client::builder().no_proxy().build().unwrap()
}

/// An answer with its whole body.
#[derive(Debug)]
pub struct Answer {
    pub status: StatusCode,
    pub content_type: String,
    pub text: String,
}

impl Answer {
    pub async fn of(response: Response) -> Self {
        let content_type =
            response.headers().get("content-type").map(|value| value.to_str().unwrap().to_owned());
        Self {
            status: response.status(),
            content_type: content_type.unwrap_or_default(),
            text: response.text().await.unwrap(),
        }
    }

    pub fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|error| panic!("{error}: {}", self.text))
    }
}

impl Served {
    /// Starts a server without keys on a store.
    pub async fn start(store: &Store) -> Self {
        Self::with(store, Config::default()).await
    }

    /// Starts a server that writes nothing to the working folder. Relative folders of `config` are placed in a
    /// temporary folder.
    pub async fn with(store: &Store, mut config: Config) -> Self {
        let folder = tempfile::tempdir().unwrap();
        config.conversations_dir = folder.path().join(config.conversations_dir);
        config.settings_dir = folder.path().join(config.settings_dir);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let app = Arc::new(App::new(store.clone(), config).unwrap());
        let (stop, stopped) = oneshot::channel::<()>();
        let task = tokio::spawn(serve(listener, app, async {
            let _dropped = stopped.await;
        }));
        Self { url, client: http_client(), stop, task, _folder: folder }
    }

    /// The address of a WebSocket.
    pub fn socket(&self, path: &str) -> String {
        format!("{}{path}", self.url.replace("http://", "ws://"))
    }

    pub async fn ask(&self, method: Method, path: &str, body: Option<&Value>) -> Answer {
        let request = self.client.request(method, format!("{}{path}", self.url));
        let request = match body {
            Some(body) => request.header("content-type", "application/json").body(body.to_string()),
            None => request,
        };
        Answer::of(request.send().await.unwrap()).await
    }

    pub async fn get(&self, path: &str) -> Answer {
        self.ask(Method::GET, path, None).await
    }

    pub async fn post(&self, path: &str, body: &Value) -> Answer {
        self.ask(Method::POST, path, Some(body)).await
    }

    /// The JSON of an answer. Panics unless its status is 200.
    pub async fn json(&self, path: &str) -> Value {
        let answer = self.get(path).await;
        assert_eq!(answer.status, 200, "{path}: {}", answer.text);
        answer.json()
    }

    /// Stops the server and waits until it has ended.
    pub async fn end(self) {
        let _ended = self.stop.send(());
        self.task.await.unwrap().unwrap();
    }
}
