//! The program, and what is said to it.

use std::collections::HashMap;
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command};
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use super::{AcpError, AcpSettings};
use crate::secret::environment;

/// The longest line, in bytes; a longer one is passed over.
const LINE_BYTES_MAX: u64 = 16 << 20;

/// How many updates wait to be heard.
const UPDATES_MAX: usize = 1024;

/// How much of what it complains about is kept, in bytes.
const COMPLAINT_BYTES_MAX: usize = 4096;

/// How long it may take to end by itself.
const END: Duration = Duration::from_secs(2);

/// What it is started with.
#[derive(Debug, Clone)]
pub struct Start {
    /// The folder to work in.
    pub working_dir: PathBuf,
    /// Variables beside this program's own.
    pub env: Vec<(String, String)>,
}

/// What it said of itself.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Handshake {
    /// Its name.
    pub name: String,
    /// Its version.
    pub version: String,
    /// Whether it goes on with sessions of earlier times.
    pub can_load: bool,
    /// Whether it takes servers at addresses.
    pub takes_http: bool,
}

/// A session that was begun or gone on with.
#[derive(Debug, Clone, PartialEq)]
pub struct Session {
    /// Its id.
    pub id: String,
    /// What the program answered: modes, models.
    pub answer: Value,
    /// Whether it is one of an earlier time.
    pub is_resumed: bool,
}

/// A program that runs.
pub struct Peer {
    stdin: tokio::sync::Mutex<Option<ChildStdin>>,
    child: tokio::sync::Mutex<Child>,
    group: Option<u32>,
    shared: Arc<Shared>,
    next: AtomicU64,
}

/// What the reader and those who ask have in common.
#[derive(Default)]
struct Shared {
    waiting: Mutex<HashMap<u64, oneshot::Sender<Result<Value, AcpError>>>>,
    /// Who hears of updates; nobody between turns.
    listener: Mutex<Option<mpsc::Sender<Value>>>,
    complaint: Mutex<Vec<u8>>,
    ended: CancellationToken,
}

fn held<T>(lock: &Mutex<T>) -> MutexGuard<'_, T> {
    lock.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Peer {
    /// Starts the program.
    ///
    /// # Errors
    /// [`AcpError::Spawn`].
    pub fn start(settings: &AcpSettings, start: &Start) -> Result<Arc<Self>, AcpError> {
        let (name, args) = settings.command.split_first().ok_or(AcpError::NoCommand)?;
        let mut command = Command::new(name);
        command.args(args).current_dir(&start.working_dir).kill_on_drop(true);
        environment::withhold(command.as_std_mut());
        command.envs(start.env.iter().map(|(name, value)| (name, value)));
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        #[cfg(unix)]
        command.process_group(0);
        let mut child =
            command.spawn().map_err(|error| AcpError::Spawn(format!("cannot start {name:?}: {error}")))?;
        let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let peer = Arc::new(Self {
            group: child.id(),
            child: tokio::sync::Mutex::new(child),
            stdin: tokio::sync::Mutex::new(stdin),
            shared: Arc::default(),
            next: AtomicU64::new(0),
        });
        if let Some(stderr) = stderr {
            tokio::spawn(complain(Arc::clone(&peer.shared), stderr));
        }
        if let Some(stdout) = stdout {
            tokio::spawn(listen(Arc::downgrade(&peer), Arc::clone(&peer.shared), stdout));
        }
        Ok(peer)
    }

    /// Says who we are and hears who it is.
    ///
    /// # Errors
    /// [`AcpError`].
    pub async fn shake_hands(&self) -> Result<Handshake, AcpError> {
        let us = json!({
            "protocolVersion": 1,
            "clientCapabilities": {"fs": {"readTextFile": false, "writeTextFile": false}, "terminal": false},
            "clientInfo": {"name": env!("CARGO_PKG_NAME"), "version": env!("CARGO_PKG_VERSION")},
        });
        let it = self.request("initialize", us).await?;
        let text = |name: &str| it["agentInfo"][name].as_str().unwrap_or_default().to_owned();
        let capabilities = &it["agentCapabilities"];
        Ok(Handshake {
            name: text("name"),
            version: text("version"),
            can_load: capabilities["loadSession"] == true,
            takes_http: capabilities["mcpCapabilities"]["http"] == true,
        })
    }

    /// Goes on with a session, or begins one where there is none or it is forgotten.
    ///
    /// # Errors
    /// [`AcpError`].
    pub async fn session(
        &self,
        prior: Option<&str>,
        cwd: &str,
        servers: &Value,
    ) -> Result<Session, AcpError> {
        if let Some(id) = prior {
            let params = json!({"sessionId": id, "cwd": cwd, "mcpServers": servers});
            match self.request("session/load", params).await {
                Ok(answer) => return Ok(Session { id: id.to_owned(), answer, is_resumed: true }),
                Err(AcpError::Refused { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        let answer = self.request("session/new", json!({"cwd": cwd, "mcpServers": servers})).await?;
        let id = answer["sessionId"].as_str().filter(|id| !id.is_empty());
        let id = id.ok_or_else(|| AcpError::Gone("the program began a session without a name".to_owned()))?;
        Ok(Session { id: id.to_owned(), answer, is_resumed: false })
    }

    /// Asks, and waits for the answer as long as it takes.
    ///
    /// # Errors
    /// [`AcpError::Refused`] and [`AcpError::Gone`].
    pub async fn request(&self, method: &str, params: Value) -> Result<Value, AcpError> {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let (sender, answer) = oneshot::channel();
        held(&self.shared.waiting).insert(id, sender);
        let message = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        if self.send(&message).await.is_err() || self.shared.ended.is_cancelled() {
            held(&self.shared.waiting).remove(&id);
            return Err(self.gone().await);
        }
        match answer.await {
            Ok(answer) => answer,
            Err(_) => Err(self.gone().await),
        }
    }

    /// Says something that is not answered.
    pub async fn notify(&self, method: &str, params: Value) {
        // Who cannot hear it has nothing to do about it.
        let _unheard = self.send(&json!({"jsonrpc": "2.0", "method": method, "params": params})).await;
    }

    /// The updates from now on, until the receiver is dropped or somebody else listens.
    #[must_use]
    pub fn updates(&self) -> mpsc::Receiver<Value> {
        let (sender, updates) = mpsc::channel(UPDATES_MAX);
        *held(&self.shared.listener) = Some(sender);
        updates
    }

    /// Hears no more updates.
    pub fn stop_listening(&self) {
        *held(&self.shared.listener) = None;
    }

    /// Whether it has ended.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.shared.ended.is_cancelled()
    }

    /// Ends it: by closing its input, then by force.
    pub async fn close(&self) {
        drop(self.stdin.lock().await.take());
        let mut child = self.child.lock().await;
        let _late = tokio::time::timeout(END, child.wait()).await;
        end_group(self.group);
    }

    async fn send(&self, message: &Value) -> std::io::Result<()> {
        let mut line = message.to_string();
        line.push('\n');
        let mut stdin = self.stdin.lock().await;
        let Some(pipe) = stdin.as_mut() else { return Err(std::io::ErrorKind::BrokenPipe.into()) };
        pipe.write_all(line.as_bytes()).await?;
        pipe.flush().await
    }

    /// That it has ended, with the last of what it complained about.
    async fn gone(&self) -> AcpError {
        // The complaint may be a moment behind.
        let _late = tokio::time::timeout(Duration::from_millis(200), self.shared.ended.cancelled()).await;
        let complaint = held(&self.shared.complaint);
        let text = String::from_utf8_lossy(&complaint);
        AcpError::Gone(match text.trim() {
            "" => "the ACP server has ended".to_owned(),
            text => format!("the ACP server has ended: {text}"),
        })
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        end_group(self.group);
    }
}

/// Reads what it writes until it ends. Lines that are no objects are passed over.
async fn listen(peer: std::sync::Weak<Peer>, shared: Arc<Shared>, stdout: ChildStdout) {
    let mut lines = BufReader::new(stdout);
    let mut line = Vec::new();
    loop {
        line.clear();
        let read = (&mut lines).take(LINE_BYTES_MAX).read_until(b'\n', &mut line).await;
        if !matches!(read, Ok(1..)) {
            break;
        }
        let Some(message) = message(&line) else { continue };
        let id = message.get("id").filter(|id| !id.is_null()).cloned();
        match (message.get("method").and_then(Value::as_str), id) {
            (Some("session/update"), None) => {
                let listener = held(&shared.listener).clone();
                if let (Some(listener), Some(update)) = (listener, message["params"].get("update")) {
                    // Nobody listens any more: then nobody misses it.
                    let _unheard = listener.send(update.clone()).await;
                }
            }
            (Some(_), None) => {}
            (Some(method), Some(id)) => {
                let Some(peer) = peer.upgrade() else { break };
                let answer = answer(method, &message["params"]);
                let mut reply = json!({"jsonrpc": "2.0", "id": id});
                match answer {
                    Ok(result) => reply["result"] = result,
                    Err(error) => reply["error"] = error,
                }
                let _unheard = peer.send(&reply).await;
            }
            (None, Some(id)) => {
                let waiting = id.as_u64().and_then(|id| held(&shared.waiting).remove(&id));
                let error = message.get("error").filter(|error| !error.is_null());
                let outcome = match error {
                    None => Ok(message.get("result").cloned().unwrap_or(Value::Null)),
                    Some(error) => Err(AcpError::Refused {
                        code: error["code"].as_i64().unwrap_or_default(),
                        message: error["message"].as_str().unwrap_or_default().to_owned(),
                        data: error["data"].clone(),
                    }),
                };
                if let Some(waiting) = waiting {
                    let _unheard = waiting.send(outcome);
                }
            }
            (None, None) => {}
        }
    }
    shared.ended.cancel();
    // Who still waits is told by their channel's end.
    held(&shared.waiting).clear();
    *held(&shared.listener) = None;
}

fn message(line: &[u8]) -> Option<Value> {
    let line = line.trim_ascii();
    if line.first() != Some(&b'{') {
        return None;
    }
    serde_json::from_slice(line).ok()
}

/// What it may ask of us.
fn answer(method: &str, params: &Value) -> Result<Value, Value> {
    match method {
        "session/request_permission" => {
            let option = params["options"][0]["optionId"].as_str().unwrap_or("allow_once");
            Ok(json!({"outcome": {"outcome": "selected", "optionId": option}}))
        }
        "elicitation/create" | "session/elicitation" => Ok(json!({"action": "decline"})),
        _ => Err(json!({"code": -32601, "message": format!("Method not found: {method}")})),
    }
}

async fn complain(shared: Arc<Shared>, mut stderr: ChildStderr) {
    let mut buffer = vec![0; COMPLAINT_BYTES_MAX];
    while let Ok(count @ 1..) = stderr.read(&mut buffer).await {
        let mut kept = held(&shared.complaint);
        kept.extend_from_slice(&buffer[..count]);
        let surplus = kept.len().saturating_sub(COMPLAINT_BYTES_MAX);
        kept.drain(..surplus);
    }
}

fn end_group(group: Option<u32>) {
    #[cfg(unix)]
    if let Some(group) = group.and_then(|group| rustix::process::Pid::from_raw(group.cast_signed())) {
        // Where nothing is left of it, there is nothing to end.
        let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
    }
    #[cfg(not(unix))]
    let _ = group;
}
