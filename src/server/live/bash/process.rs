//! Runs one command to its end.

use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use crate::ids::Timestamp;
use axum::http::StatusCode;
use tokio::io::AsyncReadExt;
use tokio::process::{Child, Command};
use tokio::sync::{oneshot, watch};
use uuid::Uuid;

use super::history::Stop;
use super::{BashCommand, BashEvent, BashOutput, History};
use crate::program;
use crate::secret::environment;
use crate::server::http::failure::Failure;

/// The bytes of one stream after which a piece is recorded: 1 MiB.
const PIECE_BYTES: usize = 1 << 20;

/// The maximum number of bytes read from a stream at once: 64 KiB.
const BUFFER_BYTES: usize = 64 << 10;

/// The time between the signal to end (SIGTERM) and SIGKILL.
const GRACE: Duration = Duration::from_secs(1);

/// Starts a command in a folder, by default the server's own. Its outputs go to the history. Returns a receiver of the
/// last output.
///
/// # Errors
/// 429 if the maximum number of commands is running.
pub(in crate::server) fn start(
    history: &History,
    command: &BashCommand,
    folder: Option<&Path>,
) -> Result<oneshot::Receiver<BashOutput>, Failure> {
    let (history, command) = (history.clone(), command.clone());
    let folder = folder.map(Path::to_path_buf);
    let stop_signal = history.begin(command.id).ok_or_else(|| {
        let text = "the maximum number of commands is running; stop one, or wait for one to end";
        Failure::Refused(StatusCode::TOO_MANY_REQUESTS, text.to_owned())
    })?;
    history.add(BashEvent::Command(command.clone()));
    let (sender, last) = oneshot::channel();
    tokio::spawn(async move {
        let mut pieces =
            Pieces { history: history.clone(), command_id: command.id, order: 0, last: Some(sender) };
        match spawn(&command, folder.as_deref()) {
            Ok(child) => run(child, &command, stop_signal, &mut pieces).await,
            Err(error) => {
                pieces.show(Vec::new(), format!("Error executing command: {error}").into_bytes(), Some(-1));
            }
        }
        history.end(command.id);
    });
    Ok(last)
}

fn spawn(command: &BashCommand, folder: Option<&Path>) -> std::io::Result<Child> {
    let mut shell = Command::new("/bin/sh");
    shell.arg("-c").arg(&command.command).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    if let Some(folder) = folder {
        shell.current_dir(folder);
    }
    environment::withhold(shell.as_std_mut());
    program::separate(&mut shell);
    shell.kill_on_drop(true).spawn()
}

async fn run(
    mut child: Child,
    command: &BashCommand,
    mut stop_signal: watch::Receiver<Stop>,
    pieces: &mut Pieces,
) {
    let group = child.id();
    let mut streams = (child.stdout.take(), child.stderr.take());
    let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
    let deadline = tokio::time::sleep(Duration::from_secs(command.timeout));
    tokio::pin!(deadline);
    let (mut is_late, mut is_stopped) = (false, false);
    let mut kill_at: Option<tokio::time::Instant> = None;
    let mut buffers = (vec![0; BUFFER_BYTES], vec![0; BUFFER_BYTES]);
    let mut status: Option<std::io::Result<ExitStatus>> = None;
    while status.is_none() || streams.0.is_some() || streams.1.is_some() {
        tokio::select! {
            n_bytes = read(&mut streams.0, &mut buffers.0), if streams.0.is_some() => match n_bytes {
                0 => streams.0 = None,
                n_bytes => stdout.extend_from_slice(&buffers.0[..n_bytes]),
            },
            n_bytes = read(&mut streams.1, &mut buffers.1), if streams.1.is_some() => match n_bytes {
                0 => streams.1 = None,
                n_bytes => stderr.extend_from_slice(&buffers.1[..n_bytes]),
            },
            ended = child.wait(), if status.is_none() => {
                status = Some(ended);
                // A child of the command may keep the pipes open. It must not delay the response.
                kill_at.get_or_insert(tokio::time::Instant::now() + GRACE);
            },
            () = &mut deadline, if kill_at.is_none() => {
                is_late = true;
                program::terminate(group);
                kill_at = Some(tokio::time::Instant::now() + GRACE);
            },
            () = stop(&mut stop_signal), if kill_at.is_none() || !is_stopped => {
                is_stopped = true;
                program::terminate(group);
                kill_at = Some(tokio::time::Instant::now() + GRACE);
            },
            () = until(kill_at), if kill_at.is_some() => {
                if status.is_some() {
                    streams = (None, None);
                } else {
                    program::kill(group);
                    kill_at = Some(tokio::time::Instant::now() + GRACE);
                }
            },
        }
        if stdout.len() > PIECE_BYTES || stderr.len() > PIECE_BYTES {
            pieces.show(std::mem::take(&mut stdout), std::mem::take(&mut stderr), None);
        }
    }
    if is_late || is_stopped {
        // This kills the processes that the command left behind, and those that ignored the signal to end.
        program::kill(group);
    }
    let code = match status {
        Some(Ok(status)) if !is_late => code(status),
        Some(Ok(_) | Err(_)) | None => -1,
    };
    pieces.show(stdout, stderr, Some(code));
}

/// Reads the next bytes. Returns 0 at the end, and if the stream cannot be read.
async fn read(stream: &mut Option<impl AsyncReadExt + Unpin>, buffer: &mut [u8]) -> usize {
    match stream {
        Some(stream) => stream.read(buffer).await.unwrap_or_default(),
        None => 0,
    }
}

async fn stop(signal: &mut watch::Receiver<Stop>) {
    if signal.wait_for(|stop| *stop == Stop::Yes).await.is_err() {
        std::future::pending::<()>().await;
    }
}

async fn until(time: Option<tokio::time::Instant>) {
    match time {
        Some(time) => tokio::time::sleep_until(time).await,
        None => std::future::pending().await,
    }
}

/// Returns the exit code: negative if a signal ended the process.
fn code(status: ExitStatus) -> i64 {
    #[cfg(unix)]
    let signal = std::os::unix::process::ExitStatusExt::signal(&status).map(|signal| -i64::from(signal));
    #[cfg(not(unix))]
    let signal = None;
    status.code().map(i64::from).or(signal).unwrap_or(-1)
}

/// The outputs of one command, numbered.
struct Pieces {
    history: History,
    command_id: Uuid,
    order: u64,
    /// The sender of the last output.
    last: Option<oneshot::Sender<BashOutput>>,
}

impl Pieces {
    fn show(&mut self, stdout: Vec<u8>, stderr: Vec<u8>, exit_code: Option<i64>) {
        let text = |bytes: Vec<u8>| (!bytes.is_empty()).then(|| String::from_utf8_lossy(&bytes).into_owned());
        let output = BashOutput {
            id: Uuid::new_v4(),
            timestamp: Timestamp::now().to_utc(),
            command_id: self.command_id,
            order: self.order,
            exit_code,
            stdout: text(stdout),
            stderr: text(stderr),
        };
        let last = self.last.take_if(|last| exit_code.is_some() && !last.is_closed());
        let copy = last.map(|last| (last, output.clone()));
        self.history.add(BashEvent::Output(output));
        if let Some((last, output)) = copy {
            let _receiver_gone = last.send(output);
        }
        self.order += 1;
    }
}
