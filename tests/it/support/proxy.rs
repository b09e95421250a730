//! A TCP proxy between a client and a server that breaks the connections of sockets. Each breaks after a given number
//! of bytes, which may be in the middle of a frame or of the handshake.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// The first bytes of a socket's handshake.
const SOCKET: &[u8] = b"GET /sockets/";

pub struct Proxy {
    pub url: String,
    shared: Arc<Shared>,
    task: JoinHandle<()>,
}

struct Shared {
    target: Mutex<String>,
    /// How many bytes each of the next sockets may send to the client, including the handshake. Later sockets have no
    /// limit.
    limits: Mutex<VecDeque<usize>>,
    /// The number of sockets so far.
    sockets: watch::Sender<usize>,
    /// Increased to break all open connections.
    breaks: watch::Sender<usize>,
}

impl Proxy {
    /// Starts a proxy for the server at `url`.
    pub async fn start(url: &str, limits: impl IntoIterator<Item = usize>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let shared = Arc::new(Shared {
            target: Mutex::new(url.replace("http://", "")),
            limits: Mutex::new(limits.into_iter().collect()),
            sockets: watch::Sender::new(0),
            breaks: watch::Sender::new(0),
        });
        let accepting = Arc::clone(&shared);
        let task = tokio::spawn(async move {
            loop {
                let Ok((client, _)) = listener.accept().await else { return };
                tokio::spawn(carry(client, Arc::clone(&accepting)));
            }
        });
        Self { url: format!("http://{address}"), shared, task }
    }

    /// Connects new clients to the server at `url` from now on.
    pub fn retarget(&self, url: &str) {
        *self.shared.target.lock().unwrap() = url.replace("http://", "");
    }

    /// Breaks every connection.
    pub fn cut(&self) {
        self.shared.breaks.send_modify(|breaks| *breaks += 1);
    }

    /// Returns the number of sockets so far.
    pub fn sockets(&self) -> usize {
        *self.shared.sockets.borrow()
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.task.abort();
        self.cut();
    }
}

async fn carry(client: TcpStream, shared: Arc<Shared>) {
    let mut breaks = shared.breaks.subscribe();
    let target = shared.target.lock().unwrap().clone();
    let Ok(server) = TcpStream::connect(target).await else { return };
    let (from_client, to_client) = client.into_split();
    let (from_server, to_server) = server.into_split();
    let (limit, limited) = watch::channel(None);
    let requests = forward_requests(from_client, to_server, Arc::clone(&shared), limit);
    let answers = forward_answers(from_server, to_client, limited);
    tokio::select! {
        () = requests => {}
        () = answers => {}
        _ = breaks.changed() => {}
    }
}

async fn forward_requests(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    shared: Arc<Shared>,
    limit: watch::Sender<Option<usize>>,
) {
    let mut buffer = vec![0; 16 << 10];
    while let Ok(length @ 1..) = from.read(&mut buffer).await {
        if buffer[..length].starts_with(SOCKET) {
            limit.send_replace(shared.limits.lock().unwrap().pop_front());
            shared.sockets.send_modify(|sockets| *sockets += 1);
        }
        if to.write_all(&buffer[..length]).await.is_err() {
            return;
        }
    }
}

/// Forwards the bytes of the server to the client, up to the limit.
async fn forward_answers(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    limit: watch::Receiver<Option<usize>>,
) {
    let mut buffer = vec![0; 16 << 10];
    let mut forwarded = 0;
    while let Ok(length @ 1..) = from.read(&mut buffer).await {
        let limit = *limit.borrow();
        let length = limit.map_or(length, |limit| length.min(limit - forwarded));
        if to.write_all(&buffer[..length]).await.is_err() {
            return;
        }
        if limit.is_some() {
            forwarded += length;
        }
        if limit == Some(forwarded) {
            return;
        }
    }
}
