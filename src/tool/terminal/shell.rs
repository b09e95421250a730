//! A bash on its own pseudo-terminal, and the task that reads its output.
//!
//! No thread is needed: a task of the runtime reads the bytes, removes the marks and keeps the output. While a very
//! long output is not taken, the task stops reading, and the program that prints has to wait.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use pty_process::{Command, OwnedReadPty, OwnedWritePty, Size};
use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::Child;
use tokio::sync::Notify;
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;

use super::clean::Cleaner;
use super::marks::{Marks, Outcome, Piece};
use super::output::Output;
use crate::secret::environment;
use crate::untrusted;

/// The size of the terminal. It is wide, so that few programs wrap their lines.
const ROWS: u16 = 200;
const COLUMNS: u16 = 256;

/// The nice value of the shell and its commands. Other processes go first.
const NICE: i32 = 10;

/// The time that a new shell has to become ready.
const START_TIMEOUT: Duration = Duration::from_secs(15);

/// The time that a shell has to end and to notify its jobs. After it, the shell is killed.
const END_TIMEOUT: Duration = Duration::from_secs(3);

/// The time that the shell has to return to its prompt after the foreground program was killed. Only a busy machine
/// needs all of it.
const KILL_TIMEOUT: Duration = Duration::from_secs(10);

/// The time that typing Ctrl-C may take. A program that reads no input can block it.
const TYPE_TIMEOUT: Duration = Duration::from_millis(500);

/// The time after a prompt from which the shell counts as ready, even if it has not reported that it reads.
const READY_AFTER: Duration = Duration::from_millis(500);

/// The number of bytes of an echo that are kept.
const ECHO_BYTES_MAX: usize = 64 * 1024;

/// The sequence that bash writes after it has read a command. The echo ends with it.
const ECHO_END: &[u8] = b"\x1b[?2004l";

/// The settings of a shell.
#[derive(Debug, Clone)]
pub(super) struct Setting {
    pub working_dir: PathBuf,
    /// bash: a path, or a name that is searched in `PATH`.
    pub program: PathBuf,
    /// Additional environment variables.
    pub env: Vec<(String, String)>,
    /// The number of bytes that a command may print before its output has to be taken.
    pub output_bytes_max: u64,
}

/// A running shell.
pub(super) struct Shell {
    input: OwnedWritePty,
    terminal: std::os::fd::OwnedFd,
    /// The process id of the shell. It leads its session and its own process group.
    leader: Option<Pid>,
    shared: Arc<Shared>,
    /// Ends the shell and the reading task.
    close: CancellationToken,
    ended: CancellationToken,
}

/// The state that the reading task and the caller share.
struct Shared {
    screen: Mutex<Screen>,
    changed: Notify,
    /// Notified when the output was taken and there is space again.
    taken: Notify,
}

/// The output of the terminal and the state of the shell.
pub(super) struct Screen {
    pub output: Output,
    cleaner: Cleaner,
    phase: Phase,
    /// The time of the last output.
    pub changed_at: Instant,
    /// The number of commands that have ended.
    pub prompts: u64,
    /// The outcome of the last command.
    pub outcome: Outcome,
    /// The time of the last prompt.
    prompt_at: Instant,
    /// Whether the shell waits for the rest of a command.
    pub wants_more: bool,
    /// The exit code of the shell. `None` while it runs.
    pub exit: Option<i64>,
}

/// The current activity of the shell.
#[derive(Debug)]
enum Phase {
    /// The shell starts. Its output is dropped.
    Starting,
    /// The shell is at its prompt. `reads` is whether it has reported that it reads.
    Prompt { reads: bool },
    /// The shell echoes the command `sent`. `echo` is the echo so far.
    Echoing { echo: Vec<u8>, sent: String },
    /// A command runs.
    Running,
}

impl Shell {
    /// Starts a shell and waits until it is ready for commands.
    pub async fn start(setting: &Setting) -> Result<Self, String> {
        let failed = |error: &dyn std::fmt::Display| format!("the shell cannot be started: {error}");
        let (pty, pts) = pty_process::open().map_err(|error| failed(&error))?;
        pty.resize(Size::new(ROWS, COLUMNS)).map_err(|error| failed(&error))?;
        let terminal = std::os::fd::AsFd::as_fd(&pty).try_clone_to_owned().map_err(|error| failed(&error))?;
        let child = command(setting).spawn(pts).map_err(|error| failed(&error))?;
        let leader = pid(&child);
        if let Some(pid) = leader {
            // Commands must not starve this process. If the system refuses, they run with the same priority.
            let _ = rustix::process::setpriority_process(Some(pid), NICE);
        }
        let (from_shell, input) = pty.into_split();
        let shared = Arc::new(Shared {
            screen: Mutex::new(Screen::new(setting.output_bytes_max)),
            changed: Notify::new(),
            taken: Notify::new(),
        });
        let marks = Marks::new(uuid::Uuid::new_v4().simple().to_string());
        let set_up = marks.set_up();
        let (close, ended) = (CancellationToken::new(), CancellationToken::new());
        let reader = Reader { from_shell, child, marks, shared: Arc::clone(&shared) };
        tokio::spawn(reader.run(close.clone(), ended.clone()));
        let mut shell = Self { input, terminal, leader, shared, close, ended };
        shell.write(set_up.as_bytes()).await.map_err(|error| failed(&error))?;
        let ready =
            timeout(START_TIMEOUT, shell.until(|screen| screen.reads() || screen.exit.is_some())).await;
        match ready {
            Ok(()) if shell.screen().exit.is_none() => Ok(shell),
            Ok(()) => Err(failed(&"it ended at once")),
            Err(_) => Err(failed(&format!(
                "it was not ready within {} seconds (bash 4.4 or later is needed)",
                START_TIMEOUT.as_secs()
            ))),
        }
    }

    /// Locks the screen.
    pub fn screen(&self) -> MutexGuard<'_, Screen> {
        self.shared.screen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until the condition holds.
    pub async fn until(&self, condition: impl Fn(&Screen) -> bool) {
        loop {
            let changed = self.changed();
            tokio::pin!(changed);
            changed.as_mut().enable();
            if condition(&self.screen()) {
                return;
            }
            changed.await;
        }
    }

    /// Returns a future that waits for the next change of the screen. Changes since its creation count too.
    pub fn changed(&self) -> tokio::sync::futures::Notified<'_> {
        self.shared.changed.notified()
    }

    /// Sends a command to the shell, which must be ready. The shell reads it as a whole, even if it has several lines.
    pub async fn command(&mut self, command: &str) -> std::io::Result<()> {
        // Without escape characters, the command cannot end the bracketed paste.
        let command = command.replace('\u{1b}', "");
        self.screen().phase = Phase::Echoing { echo: Vec::new(), sent: command.clone() };
        self.write(format!("\x1b[200~{command}\x1b[201~\r").as_bytes()).await
    }

    /// Types bytes as input of the running program or of the shell.
    pub async fn type_in(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        {
            let mut screen = self.screen();
            if std::mem::take(&mut screen.wants_more) {
                screen.phase = Phase::Echoing { echo: Vec::new(), sent: String::new() };
            } else if matches!(screen.phase, Phase::Prompt { .. }) {
                screen.phase = Phase::Running;
            }
        }
        self.write(bytes).await
    }

    async fn write(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        self.input.write_all(bytes).await
    }

    /// Returns the output in at most `characters_max` characters and clears it. A program that had to wait continues.
    pub fn take_output(&self, characters_max: usize) -> String {
        let text = {
            let mut screen = self.screen();
            let screen = &mut *screen;
            screen.end_echo();
            let mut text = String::new();
            screen.cleaner.flush(&mut text);
            screen.output.push(&text);
            screen.output.take(characters_max)
        };
        self.shared.taken.notify_one();
        text
    }

    /// Drops the output.
    pub fn discard_output(&self) {
        {
            let mut screen = self.screen();
            screen.cleaner = Cleaner::default();
            screen.output.discard();
        }
        self.shared.taken.notify_one();
    }

    /// Stops the running program with Ctrl-C, then SIGTERM, then SIGKILL. Returns whether the shell is at its prompt
    /// again.
    pub async fn stop_program(&mut self) -> bool {
        let steps = [
            (None, Duration::from_millis(1500)),
            (Some(Signal::TERM), Duration::from_millis(500)),
            (Some(Signal::KILL), KILL_TIMEOUT),
        ];
        for (signal, wait) in steps {
            match signal {
                // As a person would do it. The program can clean up.
                None => drop(timeout(TYPE_TIMEOUT, self.write(b"\x03")).await),
                Some(signal) => {
                    // If the shell itself is in the foreground, the program has ended already and the shell has only
                    // not reported it yet.
                    let group = rustix::termios::tcgetpgrp(&self.terminal).ok();
                    if let Some(group) = group.filter(|group| Some(*group) != self.leader) {
                        let _ = kill_process_group(group, signal);
                    }
                }
            }
            let back = self.until(|screen| screen.reads() || screen.exit.is_some());
            if timeout(wait, back).await.is_ok() {
                return self.screen().exit.is_none();
            }
        }
        false
    }

    /// Ends the shell and what runs in it. Returns after the shell has ended.
    pub async fn close(self) {
        self.close.cancel();
        self.ended.cancelled().await;
    }
}

impl Drop for Shell {
    fn drop(&mut self) {
        self.close.cancel();
    }
}

impl Screen {
    fn new(output_bytes_max: u64) -> Self {
        Self {
            output: Output::new(output_bytes_max),
            cleaner: Cleaner::default(),
            phase: Phase::Starting,
            changed_at: Instant::now(),
            prompts: 0,
            outcome: Outcome::default(),
            prompt_at: Instant::now(),
            wants_more: false,
            exit: None,
        }
    }

    /// Returns whether the shell is ready for the next command.
    pub fn reads(&self) -> bool {
        match self.phase {
            Phase::Prompt { reads } => reads || self.prompt_at.elapsed() > READY_AFTER,
            Phase::Starting | Phase::Echoing { .. } | Phase::Running => false,
        }
    }

    fn take(&mut self, piece: Piece<'_>) {
        match piece {
            Piece::Bytes(bytes) => self.bytes(bytes),
            Piece::Prompt(outcome) => {
                self.end_echo();
                self.outcome = outcome;
                self.prompt_at = Instant::now();
                self.prompts += 1;
                self.wants_more = false;
                if !matches!(self.phase, Phase::Starting) {
                    self.phase = Phase::Prompt { reads: false };
                }
            }
            Piece::Ready if matches!(self.phase, Phase::Starting) && self.prompts == 0 => {}
            Piece::Ready => self.phase = Phase::Prompt { reads: true },
            Piece::More => self.wants_more = true,
            Piece::Begins => {
                if matches!(self.phase, Phase::Echoing { .. }) {
                    self.phase = Phase::Running;
                }
            }
        }
    }

    /// Treats the echo as output, without the command at its beginning. The shell does not mark the end of its echo if
    /// its standard error is redirected or if `TERM` is `dumb`.
    fn end_echo(&mut self) {
        if let Phase::Echoing { echo, sent } = &mut self.phase {
            let echo = std::mem::take(echo);
            let sent = format!("{}\r\n", sent.replace('\n', "\r\n"));
            self.phase = Phase::Running;
            self.show(echo.strip_prefix(sent.as_bytes()).unwrap_or(&echo));
        }
    }

    fn bytes(&mut self, bytes: &[u8]) {
        match &mut self.phase {
            Phase::Starting => {}
            Phase::Echoing { echo, .. } => {
                let seen = echo.len().saturating_sub(ECHO_END.len());
                echo.extend_from_slice(bytes);
                let Some(at) = memchr::memmem::find(&echo[seen..], ECHO_END) else {
                    let surplus = echo.len().saturating_sub(ECHO_BYTES_MAX);
                    echo.drain(..surplus);
                    return;
                };
                let after = echo.split_off(seen + at + ECHO_END.len());
                self.phase = Phase::Running;
                self.show(&after);
            }
            Phase::Prompt { .. } | Phase::Running => self.show(bytes),
        }
    }

    fn show(&mut self, bytes: &[u8]) {
        let mut text = String::new();
        self.cleaner.feed(bytes, &mut text);
        self.output.push(&text);
    }
}

/// Returns the command that starts bash.
fn command(setting: &Setting) -> Command {
    let mut inner = tokio::process::Command::new(&setting.program);
    inner.arg("-i").current_dir(&setting.working_dir).kill_on_drop(true);
    environment::withhold(inner.as_std_mut());
    inner
        .env_remove("PROMPT_COMMAND")
        // A pager would wait for a key.
        .env("PAGER", "cat")
        .env("GIT_PAGER", "cat")
        .env("TERM", "xterm-256color")
        .env("AI_AGENT", "annals")
        .envs(setting.env.iter().map(|(name, value)| (name, value)));
    Command::from(inner)
}

/// The task that reads the output of the shell.
struct Reader {
    from_shell: OwnedReadPty,
    child: Child,
    marks: Marks,
    shared: Arc<Shared>,
}

impl Reader {
    async fn run(mut self, close: CancellationToken, ended: CancellationToken) {
        // The guard reports the end of the task in any case, so that no caller waits forever.
        let _ended = ended.drop_guard();
        let mut buffer = vec![0; 16 * 1024];
        let exit = loop {
            let room = !self.screen().output.is_full();
            tokio::select! {
                biased;
                () = close.cancelled() => break self.end().await,
                read = self.from_shell.read(&mut buffer), if room => match read {
                    // The terminal is closed after the last program that used it has ended.
                    Ok(0) | Err(_) => break self.child.wait().await.ok(),
                    Ok(count) => self.take(&buffer[..count]),
                },
                status = self.child.wait() => {
                    self.read_rest(&mut buffer).await;
                    break status.ok();
                }
                () = self.shared.taken.notified() => {}
            }
        };
        {
            let mut screen = self.screen();
            let code = exit.and_then(|status| {
                use std::os::unix::process::ExitStatusExt;
                status.code().or_else(|| status.signal().map(|signal| 128 + signal))
            });
            screen.exit = Some(code.map_or(-1, i64::from));
        }
        self.shared.changed.notify_waiters();
    }

    fn screen(&self) -> MutexGuard<'_, Screen> {
        self.shared.screen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(&mut self, bytes: &[u8]) {
        {
            let mut screen = self.shared.screen.lock().unwrap_or_else(PoisonError::into_inner);
            screen.changed_at = Instant::now();
            self.marks.feed(bytes, |piece| screen.take(piece));
        }
        self.shared.changed.notify_waiters();
    }

    /// Reads the output that is left after the shell has ended.
    async fn read_rest(&mut self, buffer: &mut [u8]) {
        while let Ok(Ok(count)) = timeout(Duration::from_millis(50), self.from_shell.read(buffer)).await {
            if count == 0 || self.screen().output.is_full() {
                return;
            }
            let bytes = buffer[..count].to_vec();
            self.take(&bytes);
        }
    }

    /// Ends the shell and its jobs. The shell passes SIGHUP on to its jobs, except if it is killed or traps the signal.
    /// Therefore [`hang_up`] sends it to them again.
    async fn end(&mut self) -> Option<std::process::ExitStatus> {
        let leader = pid(&self.child);
        if let Some(pid) = leader {
            let _ = kill_process(pid, Signal::HUP);
        }
        let status = match timeout(END_TIMEOUT, self.child.wait()).await {
            Ok(status) => status.ok(),
            Err(_) => {
                drop(self.child.kill().await);
                self.child.wait().await.ok()
            }
        };
        if let Some(pid) = leader {
            hang_up(pid);
        }
        status
    }
}

/// Returns the id of the shell's process.
fn pid(child: &Child) -> Option<Pid> {
    child.id().and_then(|id| Pid::from_raw(id.cast_signed()))
}

/// Sends SIGHUP to all processes of a session. Does nothing if there is no `/proc`.
fn hang_up(leader: Pid) {
    let Ok(entries) = std::fs::read_dir("/proc") else { return };
    let ids = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    for process in ids {
        let Ok(stat) = untrusted::read_system(format!("/proc/{process}/stat")) else { continue };
        // After the name, which may contain any character, come: state, parent, group, session.
        let session =
            stat.rsplit(')').next().and_then(|rest| rest.split_ascii_whitespace().nth(3)?.parse().ok());
        if session == Some(leader.as_raw_nonzero().get())
            && let Some(process) = Pid::from_raw(process)
        {
            let _ = kill_process(process, Signal::HUP);
        }
    }
}
