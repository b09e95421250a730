//! Servers that are programs. They start with few environment variables. The end of their standard error is kept.

use std::path::Path;
use std::process::Stdio;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rmcp::RoleClient;
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use rmcp::transport::async_rw::AsyncRwTransport;
use tokio::io::AsyncReadExt;
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command};
use tokio_util::sync::CancellationToken;

use super::config::Reach;
use super::limits::{BoundedReader, Fault};
use crate::program::separate;
use crate::secret::environment;

/// The environment variables of this program that every server inherits. It inherits no others.
///
/// Source: the protocol's Python SDK, which the reference starts servers with.
#[cfg(not(windows))]
const INHERITED: &[&str] = &["HOME", "LOGNAME", "PATH", "SHELL", "TERM", "USER"];
#[cfg(windows)]
const INHERITED: &[&str] = &[
    "APPDATA",
    "HOMEDRIVE",
    "HOMEPATH",
    "LOCALAPPDATA",
    "PATH",
    "PATHEXT",
    "PROCESSOR_ARCHITECTURE",
    "SYSTEMDRIVE",
    "SYSTEMROOT",
    "TEMP",
    "USERNAME",
    "USERPROFILE",
];

/// How much of the end of a server's standard error is kept, in bytes.
const COMPLAINT_BYTES_MAX: usize = 4096;

/// A server's program that was started.
pub(super) struct Program {
    pub transport: Pipes,
    pub complaint: Complaint,
    /// Why this program stopped reading from the server. Empty as long as it reads.
    pub fault: Fault,
    /// The process group of the program. Processes that it starts belong to the group too.
    pub group: Option<u32>,
}

/// A transport through the pipes of a server's program.
pub(super) struct Pipes {
    child: Child,
    lines: AsyncRwTransport<RoleClient, BoundedReader<ChildStdout>, ChildStdin>,
}

/// How long a program may take to end after its input was closed.
const END: Duration = Duration::from_secs(3);

/// How long to wait for the end of the standard error after the program has ended.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// The end of what a server wrote to its standard error.
#[derive(Debug, Clone, Default)]
pub(super) struct Complaint {
    bytes: Arc<Mutex<Vec<u8>>>,
    /// Cancelled when the end of the standard error was read.
    ended: CancellationToken,
}

/// Starts the program.
pub(super) fn start(reach: &Reach, working_dir: &Path) -> Result<Program, String> {
    let Reach::Program { command: name, args, env, cwd } = reach else {
        return Err("it is no program".to_owned());
    };
    let mut command = Command::new(name);
    command.args(args).env_clear().kill_on_drop(true);
    command.envs(std::env::vars_os().filter(|(name, _)| INHERITED.iter().any(|known| name == known)));
    command.envs(env.iter().map(|(name, value)| (name, value)));
    environment::bear_mark(command.as_std_mut());
    command.current_dir(cwd.as_ref().map_or_else(|| working_dir.to_owned(), |cwd| working_dir.join(cwd)));
    // With its own group the server does not receive a Ctrl+C that ends this program. This program ends it.
    separate(&mut command);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(|error| format!("cannot start {name:?}: {error}"))?;
    let (Some(stdin), Some(stdout)) = (child.stdin.take(), child.stdout.take()) else {
        return Err(format!("{name:?} has no pipes"));
    };
    let complaint = Complaint::default();
    if let Some(stderr) = child.stderr.take() {
        tokio::spawn(complaint.clone().listen(stderr));
    }
    let (group, fault) = (child.id(), Fault::default());
    let lines = AsyncRwTransport::new_client(BoundedReader::new(stdout, fault.clone()), stdin);
    Ok(Program { transport: Pipes { child, lines }, complaint, fault, group })
}

impl Transport<RoleClient> for Pipes {
    type Error = std::io::Error;

    fn send(
        &mut self,
        message: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        self.lines.send(message)
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        self.lines.receive().await
    }

    /// Closes the program's input, which asks it to end. Kills it if it does not end in time.
    async fn close(&mut self) -> Result<(), Self::Error> {
        self.lines.close().await?;
        if tokio::time::timeout(END, self.child.wait()).await.is_err() {
            self.child.kill().await?;
        }
        Ok(())
    }
}

impl Complaint {
    /// Returns the end of the standard error of a server that has ended. `None` if it wrote nothing.
    pub async fn text(&self) -> Option<String> {
        // If a process that the server left behind keeps the pipe open, use the text that has come so far.
        let _ended = tokio::time::timeout(LAST_WORDS, self.ended.cancelled()).await;
        let bytes = self.bytes.lock().unwrap_or_else(PoisonError::into_inner);
        let text = String::from_utf8_lossy(&bytes).trim().to_owned();
        (!text.is_empty()).then_some(text)
    }

    async fn listen(self, mut stderr: ChildStderr) {
        let _ended = self.ended.drop_guard_ref();
        let mut buffer = vec![0; COMPLAINT_BYTES_MAX];
        while let Ok(count) = stderr.read(&mut buffer).await {
            if count == 0 {
                return;
            }
            let mut kept = self.bytes.lock().unwrap_or_else(PoisonError::into_inner);
            kept.extend_from_slice(&buffer[..count]);
            let surplus = kept.len().saturating_sub(COMPLAINT_BYTES_MAX);
            kept.drain(..surplus);
        }
    }
}
