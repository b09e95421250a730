//! The running agent program, and the requests to it.
//!
//! Why not the crate `agent-client-protocol`: it does not bound the length of a line, and it brings an executor and a
//! schema of unstable parts.

use std::collections::HashMap;
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Poll;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncBufRead, AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command};
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use super::output::{self, Output};
use super::{AcpError, AcpSettings};
use crate::program;
use crate::secret::environment;

/// The longest line, in bytes. A longer line is ignored.
const LINE_BYTES_MAX: u64 = 16 << 20;

/// The number of updates that may wait in the listener's channel. When it is full, the program's output is not read.
const UPDATES_MAX: usize = 1024;

/// The number of messages that may wait until the program has read earlier ones.
const MESSAGES_MAX: usize = 64;

/// The number of bytes that are kept of the end of the program's standard error.
const STDERR_BYTES_MAX: usize = 4096;

/// The time that the program has to end by itself.
const END_TIMEOUT: Duration = Duration::from_secs(2);

/// How long the end of the standard error of a program that has ended is waited for.
const STDERR_TIMEOUT: Duration = Duration::from_millis(200);

/// The time that the program has to read a notification.
const NOTIFY_TIMEOUT: Duration = Duration::from_millis(500);

/// The folder and the environment in which the program is started.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Start {
    /// The working directory.
    pub working_dir: PathBuf,
    /// Environment variables in addition to those of Annals.
    pub env: Vec<(String, String)>,
}

/// The program's answer to the handshake: its name and its capabilities.
#[derive(Debug, Clone, PartialEq, Default)]
#[non_exhaustive]
pub struct Handshake {
    /// The program's name.
    pub name: String,
    /// The program's version.
    pub version: String,
    /// Whether the program can resume earlier sessions.
    pub can_load: bool,
    /// Whether the program accepts MCP servers that are reached over HTTP.
    pub takes_http: bool,
}

/// A new or a resumed session.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Session {
    /// The session's id.
    pub id: String,
    /// The program's answer, with its modes and models.
    pub answer: Value,
    /// Whether an earlier session was resumed.
    pub is_resumed: bool,
}

/// A running agent program.
///
/// One task writes to the program and another reads from it. So neither a program that does not read, nor a dropped
/// request, can block other messages for ever or cut a message in the middle. A third task waits for the program's end.
/// So requests fail when the program has ended, also if another process keeps its output open.
pub struct Peer {
    /// The channel to the writing task. `None` after [`close`](Self::close).
    outgoing: Mutex<Option<mpsc::Sender<Outgoing>>>,
    shared: Arc<Shared>,
    next: AtomicU64,
    /// Stops the writing task, even in the middle of a message. Kills the program.
    stop: CancellationToken,
}

/// A message to the program.
struct Outgoing {
    line: String,
    /// Receives the result of writing the message.
    written: oneshot::Sender<std::io::Result<()>>,
}

/// The state that the reading tasks and the callers of requests share.
#[derive(Default)]
struct Shared {
    waiting: Mutex<HashMap<u64, oneshot::Sender<Result<Value, AcpError>>>>,
    /// The receiver of updates. `None` between turns.
    listener: Mutex<Option<mpsc::Sender<Value>>>,
    stderr: Mutex<Vec<u8>>,
    /// Cancelled when the standard error has been read to its end.
    stderr_ended: CancellationToken,
    /// The program's process group. `None` after the program has exited, because another process may have its id then.
    group: Mutex<Option<u32>>,
    /// Cancelled when the program has exited.
    exited: CancellationToken,
    /// Cancelled when the program's output has been read to its end. No request is answered any more.
    ended: CancellationToken,
}

impl Shared {
    /// Waits until the program has exited. Then ends the processes that it has left behind.
    async fn exit(&self, child: &mut Child) {
        let mut exit = std::pin::pin!(child.wait());
        std::future::poll_fn(|context| {
            // The id is free as soon as the exit has been seen. Until the lock is released, no other process uses the id.
            let mut group = lock(&self.group);
            match exit.as_mut().poll(context) {
                Poll::Ready(_status) => {
                    program::kill(group.take());
                    Poll::Ready(())
                }
                Poll::Pending => Poll::Pending,
            }
        })
        .await;
    }

    /// Ends the program and the processes that it has started, unless it has exited.
    fn end_group(&self) {
        program::kill(lock(&self.group).take());
    }
}

/// A request whose answer is awaited. It is forgotten when this is dropped.
struct Awaited<'s> {
    shared: &'s Shared,
    id: u64,
}

impl Drop for Awaited<'_> {
    fn drop(&mut self) {
        lock(&self.shared.waiting).remove(&self.id);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Peer {
    /// Starts the program.
    ///
    /// # Errors
    /// [`AcpError::NoCommand`] if the settings name no program, [`AcpError::Spawn`] if it cannot be started.
    pub fn start(settings: &AcpSettings, start: &Start) -> Result<Arc<Self>, AcpError> {
        let (name, args) = settings.command.split_first().ok_or(AcpError::NoCommand)?;
        let mut command = Command::new(name);
        command.args(args).current_dir(&start.working_dir).kill_on_drop(true);
        environment::withhold(command.as_std_mut());
        command.envs(start.env.iter().map(|(name, value)| (name, value)));
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        program::separate(&mut command);
        let mut child =
            command.spawn().map_err(|error| AcpError::Spawn(format!("cannot start {name:?}: {error}")))?;
        let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let (outgoing, messages) = mpsc::channel(MESSAGES_MAX);
        let shared = Arc::new(Shared { group: Mutex::new(child.id()), ..Shared::default() });
        let stop = CancellationToken::new();
        if let Some(stdin) = stdin {
            let stop = stop.clone();
            tokio::spawn(async move { stop.run_until_cancelled(write(stdin, messages)).await });
        }
        if let Some(stderr) = stderr {
            tokio::spawn(keep_stderr(Arc::clone(&shared), stderr));
        }
        if let Some(stdout) = stdout {
            tokio::spawn(listen(outgoing.downgrade(), Arc::clone(&shared), stdout));
        }
        tokio::spawn(wait(child, Arc::clone(&shared), stop.clone()));
        Ok(Arc::new(Self { outgoing: Mutex::new(Some(outgoing)), shared, next: AtomicU64::new(0), stop }))
    }

    /// Introduces Annals to the program and returns the program's name and capabilities.
    ///
    /// # Errors
    /// [`AcpError::Refused`] and [`AcpError::Gone`].
    pub async fn shake_hands(&self) -> Result<Handshake, AcpError> {
        let params = json!({
            "protocolVersion": 1,
            "clientCapabilities": {"fs": {"readTextFile": false, "writeTextFile": false}, "terminal": false},
            "clientInfo": {"name": env!("CARGO_PKG_NAME"), "version": env!("CARGO_PKG_VERSION")},
        });
        let answer = self.request("initialize", params).await?;
        let text = |name: &str| answer["agentInfo"][name].as_str().unwrap_or_default().to_owned();
        let capabilities = &answer["agentCapabilities"];
        Ok(Handshake {
            name: text("name"),
            version: text("version"),
            can_load: capabilities["loadSession"] == true,
            takes_http: capabilities["mcpCapabilities"]["http"] == true,
        })
    }

    /// Resumes the session `prior`. Starts a new session if there is no `prior` or if the program refuses to load it.
    ///
    /// # Errors
    /// [`AcpError::Refused`] and [`AcpError::Gone`].
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
        let id =
            id.ok_or_else(|| AcpError::Gone("the program started a session without an id".to_owned()))?;
        Ok(Session { id: id.to_owned(), answer, is_resumed: false })
    }

    /// Sends a request and waits for the answer, without a timeout.
    ///
    /// # Errors
    /// [`AcpError::Refused`]. [`AcpError::Gone`] as soon as the program has ended.
    pub async fn request(&self, method: &str, params: Value) -> Result<Value, AcpError> {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let (sender, mut answer) = oneshot::channel();
        lock(&self.shared.waiting).insert(id, sender);
        let _awaited = Awaited { shared: &self.shared, id };
        let message = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        if self.send(&message).await.is_err() {
            return Err(self.gone().await);
        }
        // The reading task never answers a request that was added after its end.
        let answer = match self.shared.ended.is_cancelled() {
            true => answer.try_recv().ok(),
            false => answer.await.ok(),
        };
        match answer {
            Some(answer) => answer,
            None => Err(self.gone().await),
        }
    }

    /// Sends a notification, which the program does not answer. Waits only a short time until the program reads it.
    pub async fn notify(&self, method: &str, params: Value) {
        let message = json!({"jsonrpc": "2.0", "method": method, "params": params});
        // A failed notification needs no handling.
        let _unsent = tokio::time::timeout(NOTIFY_TIMEOUT, self.send(&message)).await;
    }

    /// Returns the updates from now on. They end with the next call of this function or of `stop_listening`.
    #[must_use]
    pub fn updates(&self) -> mpsc::Receiver<Value> {
        let (sender, updates) = mpsc::channel(UPDATES_MAX);
        *lock(&self.shared.listener) = Some(sender);
        updates
    }

    /// Stops the delivery of updates.
    pub fn stop_listening(&self) {
        *lock(&self.shared.listener) = None;
    }

    /// Returns whether the program has ended, or takes no more messages: another process may keep its output open.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.shared.ended.is_cancelled() || lock(&self.outgoing).as_ref().is_none_or(mpsc::Sender::is_closed)
    }

    /// Ends the program: first by closing its standard input, then by killing its process group.
    pub async fn close(&self) {
        // The writing task closes the pipe when it has written the messages that wait.
        drop(lock(&self.outgoing).take());
        let _late = tokio::time::timeout(END_TIMEOUT, self.shared.exited.cancelled()).await;
        self.shared.end_group();
        self.stop.cancel();
    }

    async fn send(&self, message: &Value) -> std::io::Result<()> {
        let outgoing = lock(&self.outgoing).clone();
        send(outgoing, message).await
    }

    /// Returns the error that the program has ended, with the end of its standard error.
    async fn gone(&self) -> AcpError {
        // Standard error may arrive a moment later.
        let _late = tokio::time::timeout(STDERR_TIMEOUT, self.shared.stderr_ended.cancelled()).await;
        let stderr = lock(&self.shared.stderr);
        let text = String::from_utf8_lossy(&stderr);
        AcpError::Gone(match text.trim() {
            "" => "the ACP server has ended".to_owned(),
            text => format!("the ACP server has ended: {text}"),
        })
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        self.shared.end_group();
        self.stop.cancel();
    }
}

/// Waits for the end of the program, and kills it if it is to stop. Its messages and its output end with it.
async fn wait(mut child: Child, shared: Arc<Shared>, stop: CancellationToken) {
    if stop.run_until_cancelled(shared.exit(&mut child)).await.is_none() {
        // An error means that it has been killed with its group.
        let _ended_already = child.start_kill();
        shared.exit(&mut child).await;
    }
    stop.cancel();
    shared.exited.cancel();
}

/// Passes a message to the writing task and waits until it is written. Fails if the program reads no more.
async fn send(outgoing: Option<mpsc::Sender<Outgoing>>, message: &Value) -> std::io::Result<()> {
    let broken = || std::io::Error::from(std::io::ErrorKind::BrokenPipe);
    let outgoing = outgoing.ok_or_else(broken)?;
    let (written, result) = oneshot::channel();
    let message = Outgoing { line: format!("{message}\n"), written };
    outgoing.send(message).await.map_err(|_| broken())?;
    // The writing task ends when the last sender is dropped.
    drop(outgoing);
    result.await.map_err(|_| broken())?
}

/// Writes messages to the program's standard input until there are no more senders or the pipe is broken.
async fn write(mut stdin: ChildStdin, mut messages: mpsc::Receiver<Outgoing>) {
    while let Some(Outgoing { line, written }) = messages.recv().await {
        let result = async {
            stdin.write_all(line.as_bytes()).await?;
            stdin.flush().await
        };
        let result = result.await;
        let is_broken = result.is_err();
        let _no_longer_awaited = written.send(result);
        if is_broken {
            break;
        }
    }
}

/// Reads the next line, including its end, and leaves out lines of more than `bytes_max` bytes. Returns false at the
/// end.
async fn read_line(
    lines: &mut (impl AsyncBufRead + Unpin),
    line: &mut Vec<u8>,
    bytes_max: u64,
) -> std::io::Result<bool> {
    let mut is_rest = false;
    loop {
        line.clear();
        let count = (&mut *lines).take(bytes_max).read_until(b'\n', line).await?;
        let is_whole = line.ends_with(b"\n") || (count as u64) < bytes_max;
        match (count, is_whole) {
            (0, _) => return Ok(false),
            (_, true) if !is_rest => return Ok(true),
            (_, is_whole) => is_rest = !is_whole,
        }
    }
}

/// Reads the program's standard output until it ends. Ignores lines that are too long or not JSON objects.
///
/// When the program has exited, everything that it wrote can be read at once. So only a short time and a bounded number
/// of bytes are left for it, in case that another process keeps the output open or writes to it.
///
/// Updates and answers are passed on in the order in which they came. So a full listener's channel delays the answers
/// after it too, until the listener takes an update or is dropped; the listener must not wait for an answer meanwhile.
async fn listen(outgoing: mpsc::WeakSender<Outgoing>, shared: Arc<Shared>, stdout: ChildStdout) {
    let mut lines = BufReader::new(Output::new(stdout, shared.exited.clone()));
    let mut line = Vec::new();
    let late = output::timeout(&shared.exited);
    tokio::pin!(late);
    loop {
        let read = tokio::select! {
            // A line that can be read is never left out.
            biased;
            read = read_line(&mut lines, &mut line, LINE_BYTES_MAX) => read,
            () = &mut late => break,
        };
        let Ok(true) = read else { break };
        let Some(message) = message(&line) else { continue };
        let id = message.get("id").filter(|id| !id.is_null()).cloned();
        match (message.get("method").and_then(Value::as_str), id) {
            (Some("session/update"), None) => {
                let listener = lock(&shared.listener).clone();
                if let (Some(listener), Some(update)) = (listener, message["params"].get("update")) {
                    // If the receiver has been dropped, no one needs the update.
                    let _unsent = listener.send(update.clone()).await;
                }
            }
            (Some(_), None) => {}
            (Some(method), Some(id)) => {
                let answer = answer(method, &message["params"]);
                let mut reply = json!({"jsonrpc": "2.0", "id": id});
                match answer {
                    Ok(result) => reply["result"] = result,
                    Err(error) => reply["error"] = error,
                }
                // No more of the program's output is read until it has read this.
                let _unsent = send(outgoing.upgrade(), &reply).await;
            }
            (None, Some(id)) => {
                let waiting = id.as_u64().and_then(|id| lock(&shared.waiting).remove(&id));
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
                    let _unsent = waiting.send(outcome);
                }
            }
            (None, None) => {}
        }
    }
    shared.ended.cancel();
    // Dropping the senders wakes the callers that still wait.
    lock(&shared.waiting).clear();
    *lock(&shared.listener) = None;
}

fn message(line: &[u8]) -> Option<Value> {
    let line = line.trim_ascii();
    if line.first() != Some(&b'{') {
        return None;
    }
    serde_json::from_slice(line).ok()
}

/// Answers a request of the program.
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

/// Reads the program's standard error and keeps its end. Ends a short time after the program's exit.
async fn keep_stderr(shared: Arc<Shared>, mut stderr: ChildStderr) {
    let read = async {
        let mut buffer = vec![0; STDERR_BYTES_MAX];
        while let Ok(count @ 1..) = stderr.read(&mut buffer).await {
            let mut kept = lock(&shared.stderr);
            kept.extend_from_slice(&buffer[..count]);
            let surplus = kept.len().saturating_sub(STDERR_BYTES_MAX);
            kept.drain(..surplus);
        }
    };
    tokio::select! {
        () = read => {}
        () = output::timeout(&shared.exited) => {}
    }
    shared.stderr_ended.cancel();
}

#[cfg(unix)]
#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::os::unix::process::CommandExt as _;

    use super::*;

    /// A time in which everything here is done, even on a busy machine.
    const PATIENCE: Duration = Duration::from_secs(60);

    fn start(command: &[&str]) -> Arc<Peer> {
        let settings = AcpSettings {
            command: command.iter().map(|&word| word.to_owned()).collect(),
            session_mode: None,
            model: None,
            resume: None,
            prompt_timeout: PATIENCE,
            startup_timeout: PATIENCE,
        };
        Peer::start(&settings, &Start { working_dir: std::env::temp_dir(), env: Vec::new() }).unwrap()
    }

    #[tokio::test]
    async fn a_line_that_is_too_long_is_left_out_whole() {
        let text = format!("{}{}\nshort\n{}\nlast", "x".repeat(16), r#"{"a":1}"#, "y".repeat(8));
        let (mut lines, mut line, mut found) = (text.as_bytes(), Vec::new(), Vec::new());
        while read_line(&mut lines, &mut line, 8).await.unwrap() {
            found.push(String::from_utf8(line.clone()).unwrap());
        }
        assert_eq!(found, ["short\n", "last"]);
    }

    #[tokio::test]
    async fn a_dropped_request_is_forgotten() {
        let peer = start(&["sh", "-c", "cat >/dev/null"]);
        let request = peer.request("session/prompt", json!({}));
        assert!(tokio::time::timeout(Duration::from_millis(100), request).await.is_err());
        assert!(lock(&peer.shared.waiting).is_empty());
        peer.close().await;
    }

    #[tokio::test]
    async fn a_program_that_does_not_read_blocks_neither_a_notification_nor_its_end() {
        let peer = start(&["sleep", "1000"]);
        let request = peer.request("session/prompt", json!("x".repeat(1 << 20)));
        tokio::pin!(request);
        assert!(tokio::time::timeout(Duration::from_millis(100), &mut request).await.is_err());
        let end = async {
            peer.notify("session/cancel", json!({})).await;
            peer.close().await;
        };
        tokio::time::timeout(PATIENCE, end).await.expect("the pipe is full and blocks the end");
        let answer = tokio::time::timeout(PATIENCE, request).await.expect("the request ends too");
        assert!(matches!(answer, Err(AcpError::Gone(_))), "{answer:?}");
    }

    /// Returns the error of a request to a program that ends without an answer.
    async fn failure(peer: &Peer) -> String {
        let request = peer.request("session/prompt", json!({}));
        match tokio::time::timeout(PATIENCE, request).await.expect("the request waits for ever") {
            Err(AcpError::Gone(text)) => text,
            other => panic!("{other:?}"),
        }
    }

    #[tokio::test]
    async fn a_request_that_waits_fails_when_the_program_ends_though_its_child_keeps_the_output_open() {
        let peer = start(&["sh", "-c", "sleep 1000 & read -r request; echo out of memory >&2; exit 3"]);
        assert_eq!(failure(&peer).await, "the ACP server has ended: out of memory");
        assert!(peer.has_ended());
        peer.close().await;
    }

    #[cfg(target_os = "linux")]
    #[tokio::test]
    async fn a_request_that_waits_fails_when_the_program_ends_though_a_stranger_keeps_the_output_open() {
        // The sleeping process is in a session of its own, so that it does not end with the program's group.
        let program = "exec 3>&1; stranger=$(setsid sh -c 'sleep 1000 >&3 2>&3 3>&- & echo $!'); \
                       read -r request; echo $stranger >&2; exit 3";
        let peer = start(&["sh", "-c", program]);
        let error = failure(&peer).await;
        assert!(peer.has_ended());
        let stranger = error.strip_prefix("the ACP server has ended: ").and_then(|pid| pid.parse().ok());
        let stranger = rustix::process::Pid::from_raw(stranger.unwrap_or_else(|| panic!("{error}"))).unwrap();
        rustix::process::kill_process(stranger, rustix::process::Signal::KILL).unwrap();
        peer.close().await;
    }

    #[cfg(target_os = "linux")]
    #[tokio::test]
    async fn a_request_that_waits_fails_when_the_program_ends_though_a_stranger_floods_the_output() {
        // Lines, and a line without an end. The stranger ends once its output is closed.
        for flood in ["yes $(printf %01000d 0)", "cat /dev/zero"] {
            let program = format!(
                "exec 3>&1; stranger=$(setsid sh -c '{flood} >&3 2>/dev/null 3>&- & echo $!'); \
                 read -r request; exit 3"
            );
            let peer = start(&["sh", "-c", &program]);
            assert_eq!(failure(&peer).await, "the ACP server has ended", "{flood}");
            assert!(peer.has_ended());
            peer.close().await;
        }
    }

    #[tokio::test]
    async fn an_answer_of_a_program_that_ends_at_once_is_not_lost() {
        let answer = r#"{"jsonrpc":"2.0","id":0,"result":"last words"}"#;
        let peer = start(&["sh", "-c", &format!("sleep 1000 & read -r request; echo '{answer}'; exit 0")]);
        let request = peer.request("session/prompt", json!({}));
        let answer = tokio::time::timeout(PATIENCE, request).await.expect("the request waits for ever");
        assert_eq!(answer, Ok(json!("last words")));
        peer.close().await;
    }

    #[cfg(target_os = "linux")]
    #[tokio::test]
    async fn dropping_a_closed_program_kills_no_other_process() {
        let peer = start(&["cat"]);
        let group = lock(&peer.shared.group).unwrap().cast_signed();
        let in_group = || {
            let mut cat = std::process::Command::new("cat");
            cat.process_group(group).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap()
        };
        // The group keeps its id after its end, because nothing waits for this process until the end of the test. So
        // the next one gets the id of a group that has ended, as if the system had used it again.
        let mut killed = in_group();
        peer.close().await;
        let mut other = in_group();
        drop(peer);
        let _error_if_killed = other.stdin.take().unwrap().write_all(b"alive");
        let mut text = String::new();
        other.stdout.take().unwrap().read_to_string(&mut text).unwrap();
        assert_eq!(text, "alive");
        assert!(other.wait().unwrap().success() && !killed.wait().unwrap().success());
    }
}
