//! Hooks that are shell commands.

use std::path::Path;
use std::process::Stdio;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, Command};
use tokio::task::AbortHandle;

use super::Outcome;
use crate::event::HookType;
use crate::secret::environment;

/// The most bytes of one output that are kept; the rest is read and let go.
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
    /// Runs it to its end, or to the end of its time; then it and what it started are killed.
    pub async fn run(&self) -> Outcome {
        let mut command = self.prepare();
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
        let mut child = match child {
            Ok(child) => child,
            Err(error) => return Outcome::failed(format!("Hook execution failed: {error}")),
        };
        let group = Group(child.id());
        let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
        let whole = async {
            let ((), stdout, stderr) = tokio::join!(feed(&mut child, self.stdin), read(stdout), read(stderr));
            (child.wait().await, stdout, stderr)
        };
        match tokio::time::timeout(self.timeout, whole).await {
            Ok((Ok(status), stdout, stderr)) => {
                group.let_be();
                // A command that was killed by a signal has no code; shells say 128 and more, Python less than 0.
                let code = status.code().map_or_else(|| signal(status), i64::from);
                Outcome::of_command(code, stdout, stderr)
            }
            Ok((Err(error), ..)) => Outcome::failed(format!("Hook execution failed: {error}")),
            Err(_) => Outcome::failed(format!("Hook timed out after {} seconds", self.timeout.as_secs())),
        }
    }

    /// The command, in a process group of its own, so that what it starts ends with it.
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
        #[cfg(unix)]
        command.process_group(0);
        command
    }
}

/// The process group of a command that is waited for: it ends where the wait does, also where nobody is left that waits.
struct Group(Option<u32>);

impl Group {
    /// The command has ended; what it left behind is its own business.
    fn let_be(mut self) {
        self.0 = None;
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        kill(self.0);
    }
}

/// Hooks whose answer nobody awaits.
#[derive(Default)]
pub(super) struct Background(Mutex<Vec<(Option<u32>, AbortHandle)>>);

impl Background {
    /// Starts one; it is killed when its time is over.
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
                kill(group);
            }
        });
        let mut running = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        running.retain(|(_, task)| !task.is_finished());
        running.push((group, task.abort_handle()));
        Outcome { success: true, ..Outcome::default() }
    }

    /// Kills those that still run.
    pub fn end_all(&self) {
        for (group, task) in self.0.lock().unwrap_or_else(PoisonError::into_inner).drain(..) {
            if !task.is_finished() {
                kill(group);
                task.abort();
            }
        }
    }
}

/// Gives it its input. A command that does not read it is no error.
async fn feed(child: &mut Child, stdin: &str) {
    if let Some(mut pipe) = child.stdin.take() {
        let _unread_is_fine = pipe.write_all(stdin.as_bytes()).await;
    }
}

/// All that comes, of which the first megabyte is kept.
async fn read(pipe: Option<impl AsyncRead + Unpin>) -> String {
    let Some(mut pipe) = pipe else { return String::new() };
    let (mut kept, mut buffer) = (Vec::new(), [0; 8192]);
    while let Ok(n_bytes @ 1..) = pipe.read(&mut buffer).await {
        let room = OUTPUT_BYTES_MAX - kept.len();
        kept.extend_from_slice(&buffer[..n_bytes.min(room)]);
    }
    String::from_utf8_lossy(&kept).into_owned()
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

/// Kills a process group; a single child is killed when it is dropped.
fn kill(group: Option<u32>) {
    #[cfg(unix)]
    if let Some(group) = group.and_then(|id| rustix::process::Pid::from_raw(i32::try_from(id).ok()?)) {
        let _gone_already = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
    }
    #[cfg(not(unix))]
    let _ = group;
}
