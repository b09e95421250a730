//! A model server that speaks the providers' real wire formats over HTTP: OpenAI's chat completions and responses,
//! Anthropic's messages, Gemini's `generateContent`. Each answer is whole or streamed, as the request demands.
//!
//! The server gives each request the next of its [`Answer`]s, and keeps the requests. It runs on a thread of its own
//! until it is dropped.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, Semaphore, oneshot};

use super::model_wire::{Form, events, whole};

/// A request that the server received.
#[derive(Debug, Clone)]
pub struct Seen {
    pub path: String,
    /// The headers, with their names in lower case.
    pub headers: Vec<(String, String)>,
    pub body: Value,
    /// The body before it is parsed.
    pub text: String,
}

/// A reply of the model, independent of a provider's format.
#[derive(Debug, Clone, Default)]
pub struct Said {
    pub id: Option<String>,
    pub text: Option<String>,
    pub reasoning: Option<String>,
    /// Thinking with its signature.
    pub thinking: Option<(String, String)>,
    /// Calls: id, tool, arguments.
    pub calls: Vec<(String, String, String)>,
    /// Token counts: prompt, completion, read from a cache, written to a cache, reasoning.
    pub usage: [u64; 5],
}

/// The answer to a request.
#[derive(Debug, Clone)]
pub struct Answer {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub content: Content,
    pub delay: Duration,
    /// Whether the answer waits for [`ModelServer::release`].
    pub is_held: bool,
}

#[derive(Debug, Clone)]
pub enum Content {
    /// A reply, in the format that the request's path determines.
    Said(Said),
    /// A whole body.
    Text(String),
    /// A stream of these events, and how it ends.
    Events(Vec<String>, End),
    /// A stream that repeats this text as fast as the client reads it.
    Endless(String),
}

/// How a stream ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// The stream ends as it should.
    Whole,
    /// The connection breaks.
    Broken,
    /// The stream never ends, and no more data comes.
    Silent,
}

pub struct ModelServer {
    port: u16,
    shared: Arc<Shared>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<std::thread::JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    answers: Mutex<std::collections::VecDeque<Answer>>,
    seen: Mutex<Vec<Seen>>,
    arrived: Notify,
    gone: Notify,
    releases: Semaphore,
}

impl Answer {
    pub fn said(said: Said) -> Self {
        Self::of(Content::Said(said))
    }

    pub fn text(text: &str) -> Self {
        Self::said(Said { text: Some(text.to_owned()), usage: [10, 2, 0, 0, 0], ..Said::default() })
    }

    pub fn calls(text: &str, calls: &[(&str, &str, &str)]) -> Self {
        let own = |(id, tool, arguments): &(&str, &str, &str)| {
            ((*id).to_owned(), (*tool).to_owned(), (*arguments).to_owned())
        };
        let text = (!text.is_empty()).then(|| text.to_owned());
        let calls = calls.iter().map(own).collect();
        Self::said(Said { text, calls, usage: [10, 2, 0, 0, 0], ..Said::default() })
    }

    /// An error in OpenAI's format, which Annals understands from every provider.
    pub fn error(status: u16, message: &str) -> Self {
        let body = json!({ "error": { "message": message } }).to_string();
        Self { status, ..Self::of(Content::Text(body)) }
    }

    pub fn of(content: Content) -> Self {
        Self { status: 200, headers: Vec::new(), content, delay: Duration::ZERO, is_held: false }
    }

    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Delays the answer by a time, to exceed a client's timeout. To wait for an event, use [`held`](Self::held).
    pub fn delay(mut self, delay: Duration) -> Self {
        self.delay = delay;
        self
    }

    /// Holds the answer until the test calls [`ModelServer::release`].
    pub fn held(mut self) -> Self {
        self.is_held = true;
        self
    }
}

impl ModelServer {
    pub fn start(answers: impl IntoIterator<Item = Answer>) -> Self {
        let shared = Arc::new(Shared {
            answers: Mutex::new(answers.into_iter().collect()),
            seen: Mutex::default(),
            arrived: Notify::new(),
            gone: Notify::new(),
            releases: Semaphore::new(0),
        });
        let (stop, stopped) = oneshot::channel();
        let (port_sender, port) = std::sync::mpsc::channel();
        let for_thread = shared.clone();
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async move {
                let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
                port_sender.send(listener.local_addr().unwrap().port()).unwrap();
                tokio::select! {
                    _ = stopped => {}
                    () = accept(listener, for_thread) => {}
                }
            });
        });
        Self { port: port.recv().unwrap(), shared, stop: Some(stop), thread: Some(thread) }
    }

    /// The server's address without a path.
    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    pub fn push(&self, answer: Answer) {
        self.shared.answers.lock().unwrap().push_back(answer);
    }

    /// Releases one held answer. It may belong to a future request.
    pub fn release(&self) {
        self.shared.releases.add_permits(1);
    }

    /// The requests so far, in order.
    pub fn seen(&self) -> Vec<Seen> {
        self.shared.seen.lock().unwrap().clone()
    }

    /// Waits until the server has received `count` requests.
    pub async fn arrived(&self, count: usize) {
        loop {
            let arrived = self.shared.arrived.notified();
            if self.shared.seen.lock().unwrap().len() >= count {
                return;
            }
            arrived.await;
        }
    }

    /// Waits until a client closes a connection in the middle of an answer.
    pub async fn gone(&self) {
        self.shared.gone.notified().await;
    }
}

impl Drop for ModelServer {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let ended = thread.join();
            assert!(ended.is_ok() || std::thread::panicking(), "the model server panicked");
        }
    }
}

impl Seen {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }
}

async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        let shared = shared.clone();
        tokio::spawn(async move {
            if serve(stream, &shared).await.is_err() {
                shared.gone.notify_one();
            }
        });
    }
}

/// Answers the requests of one connection.
async fn serve(mut stream: TcpStream, shared: &Shared) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    let mut buffer = Vec::new();
    while let Some(seen) = read(&mut stream, &mut buffer).await? {
        let form = Form::of(&seen.path, &seen.body);
        shared.seen.lock().unwrap().push(seen);
        shared.arrived.notify_waiters();
        let answer = shared.answers.lock().unwrap().pop_front();
        let answer = answer.unwrap_or_else(|| Answer::error(500, "the model server has no answer left"));
        tokio::time::sleep(answer.delay).await;
        if answer.is_held {
            shared.releases.acquire().await.unwrap().forget();
        }
        if !write(&mut stream, answer, form).await? {
            return Ok(());
        }
    }
    Ok(())
}

async fn read(stream: &mut TcpStream, buffer: &mut Vec<u8>) -> std::io::Result<Option<Seen>> {
    let head = loop {
        if let Some(end) = buffer.windows(4).position(|four| four == b"\r\n\r\n") {
            break buffer.drain(..end + 4).collect::<Vec<_>>();
        }
        // The byte 0x16 begins a TLS handshake, which is not answered.
        if stream.read_buf(buffer).await? == 0 || buffer[0] == 0x16 {
            return Ok(None);
        }
    };
    let head = String::from_utf8(head).unwrap();
    let mut lines = head.split("\r\n");
    let path = lines.next().unwrap().split(' ').nth(1).unwrap().to_owned();
    let headers: Vec<(String, String)> = lines
        .filter_map(|line| line.split_once(": "))
        .map(|(name, value)| (name.to_lowercase(), value.to_owned()))
        .collect();
    let length = headers.iter().find(|(name, _)| name == "content-length");
    let length: usize = length.map_or(0, |(_, value)| value.parse().unwrap());
    while buffer.len() < length {
        if stream.read_buf(buffer).await? == 0 {
            return Ok(None);
        }
    }
    let text = String::from_utf8(buffer.drain(..length).collect()).unwrap();
    let body = serde_json::from_str(&text).unwrap_or_default();
    Ok(Some(Seen { path, headers, body, text }))
}

/// Writes an answer. Returns whether the connection can be used again.
async fn write(stream: &mut TcpStream, answer: Answer, form: Form) -> std::io::Result<bool> {
    let (text, pieces, end) = match answer.content {
        Content::Said(said) if form.stream => (None, events(form.interface, &said), End::Whole),
        Content::Said(said) => (Some(whole(form.interface, &said)), Vec::new(), End::Whole),
        Content::Text(text) => (Some(text), Vec::new(), End::Whole),
        Content::Events(pieces, end) => (None, pieces, end),
        Content::Endless(piece) => {
            let head =
                head(answer.status, &answer.headers, "text/event-stream", "transfer-encoding: chunked");
            stream.write_all(head.as_bytes()).await?;
            loop {
                stream.write_all(chunk(&piece).as_bytes()).await?;
            }
        }
    };
    if let Some(text) = text {
        let length = format!("content-length: {}", text.len());
        let head = head(answer.status, &answer.headers, "application/json", &length);
        stream.write_all(head.as_bytes()).await?;
        stream.write_all(text.as_bytes()).await?;
        return Ok(true);
    }
    let head = head(answer.status, &answer.headers, "text/event-stream", "transfer-encoding: chunked");
    stream.write_all(head.as_bytes()).await?;
    for piece in pieces {
        stream.write_all(chunk(&piece).as_bytes()).await?;
    }
    match end {
        End::Whole => stream.write_all(b"0\r\n\r\n").await.map(|()| true),
        End::Broken => Ok(false),
        End::Silent => {
            // Wait until the client closes the connection.
            let mut rest = Vec::new();
            stream.read_buf(&mut rest).await?;
            Err(std::io::ErrorKind::ConnectionAborted.into())
        }
    }
}

fn head(status: u16, headers: &[(String, String)], kind: &str, length: &str) -> String {
    let mut head = format!("HTTP/1.1 {status} Said\r\n{length}\r\n");
    if !headers.iter().any(|(name, _)| name == "content-type") {
        head.push_str(&format!("content-type: {kind}\r\n"));
    }
    for (name, value) in headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    head.push_str("\r\n");
    head
}

fn chunk(piece: &str) -> String {
    format!("{:x}\r\n{piece}\r\n", piece.len())
}
