//! Hooks that are shell commands.

use std::path::Path;
use std::process::Stdio;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWriteExt};
use tokio::process::{Child, Command};
use tokio::task::AbortHandle;

use super::Outcome;
use crate::event::HookType;
use crate::program::{self, Group};
use crate::secret::environment;

/// The most bytes of one output that are kept. The rest is read and discarded.
const OUTPUT_BYTES_MAX: usize = 1 << 20;

/// One run of a command.
pub(super) struct Call<'a> {
    pub command: &'a str,
    pub working_dir: &'a Path,
    pub session_id: &'a str,
    pub point: &'a HookType,
    pub tool_name: Option<&'a str>,
    /// One line of JSON.
    pub stdin: &'a str,
    pub timeout: Duration,
}

impl Call<'_> {
    /// Runs the command until it ends. At the timeout, the command and the programs that it started are killed.
    pub async fn run(&self) -> Outcome {
        let mut command = self.prepare();
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
        let mut child = match child {
            Ok(child) => child,
            Err(error) => return Outcome::failed(format!("Hook execution failed: {error}")),
        };
        let group = Group::of(&child);
        let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
        let whole = async {
            let ((), stdout, stderr) = tokio::join!(feed(&mut child, self.stdin), read(stdout), read(stderr));
            (child.wait().await, stdout, stderr)
        };
        match tokio::time::timeout(self.timeout, whole).await {
            Ok((Ok(status), stdout, stderr)) => {
                group.release();
                // A command that was killed by a signal has no exit code. Shells report 128 plus the signal's
                // number. Python, and so this code, reports the negative number.
                let code = status.code().map_or_else(|| signal(status), i64::from);
                Outcome::of_command(code, stdout, stderr)
            }
            Ok((Err(error), ..)) => Outcome::failed(format!("Hook execution failed: {error}")),
            Err(_) => Outcome::failed(format!("Hook timed out after {} seconds", self.timeout.as_secs())),
        }
    }

    /// Prepares the command with its own process group, so that the programs which it starts end with it.
    fn prepare(&self) -> Command {
        let mut command = Command::new("sh");
        command.arg("-c").arg(self.command).current_dir(self.working_dir).stdin(Stdio::piped());
        environment::withhold(command.as_std_mut());
        command
            .env("OPENHANDS_PROJECT_DIR", self.working_dir)
            .env("OPENHANDS_SESSION_ID", self.session_id)
            .env("OPENHANDS_EVENT_TYPE", self.point.as_str())
            .kill_on_drop(true);
        if let Some(tool) = self.tool_name {
            command.env("OPENHANDS_TOOL_NAME", tool);
        }
        program::separate(&mut command);
        command
    }
}

/// Hooks that run in the background. No caller waits for their answer.
#[derive(Default)]
pub(super) struct Background(Mutex<Vec<(Option<u32>, AbortHandle)>>);

impl Background {
    /// Starts a hook, which is killed at its timeout.
    pub fn start(&self, call: &Call<'_>) -> Outcome {
        let child = call.prepare().stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        let mut child = match child {
            Ok(child) => child,
            Err(error) => return Outcome::failed(format!("Failed to start async hook: {error}")),
        };
        let (group, stdin, timeout) = (child.id(), call.stdin.to_owned(), call.timeout);
        let task = tokio::spawn(async move {
            let whole = async {
                feed(&mut child, &stdin).await;
                child.wait().await
            };
            if tokio::time::timeout(timeout, whole).await.is_err() {
                program::kill(group);
            }
        });
        let mut running = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        running.retain(|(_, task)| !task.is_finished());
        running.push((group, task.abort_handle()));
        Outcome { success: true, ..Outcome::default() }
    }

    /// Kills the hooks that still run.
    pub fn end_all(&self) {
        for (group, task) in self.0.lock().unwrap_or_else(PoisonError::into_inner).drain(..) {
            if !task.is_finished() {
                program::kill(group);
                task.abort();
            }
        }
    }
}

/// Writes the input of a command. It is not an error if the command does not read it.
async fn feed(child: &mut Child, stdin: &str) {
    if let Some(mut pipe) = child.stdin.take() {
        let _unread_is_fine = pipe.write_all(stdin.as_bytes()).await;
    }
}

/// Reads all output and returns its first megabyte.
async fn read(pipe: Option<impl AsyncRead + Unpin>) -> String {
    String::from_utf8_lossy(&program::read(pipe, OUTPUT_BYTES_MAX).await).into_owned()
}

#[cfg(unix)]
fn signal(status: std::process::ExitStatus) -> i64 {
    use std::os::unix::process::ExitStatusExt;
    status.signal().map_or(-1, |signal| -i64::from(signal))
}

#[cfg(not(unix))]
fn signal(_: std::process::ExitStatus) -> i64 {
    -1
}
