//! A bash on a terminal of its own, and the task that reads what comes from it.
//!
//! No thread belongs to it: a task of the runtime reads, takes the marks out and keeps the output. Where nobody has
//! looked at a very long output it stops reading, and the program that prints waits.

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

/// The size of the terminal. Wide, so that few programs wrap their lines.
const ROWS: u16 = 200;
const COLUMNS: u16 = 256;

/// How far the shell and its commands stand back for others.
const NICE: i32 = 10;

/// How long a fresh shell may take until it is ready.
const START: Duration = Duration::from_secs(15);

/// How long a shell may take to end, and to tell its jobs, before it is killed.
const END: Duration = Duration::from_secs(3);

/// How long the shell may take to be back at its prompt once the program in front of it was killed. Only a busy
/// machine needs it all.
const BACK: Duration = Duration::from_secs(10);

/// How long a program may take no input before it is stopped in another way.
const TYPE: Duration = Duration::from_millis(500);

/// How long after a prompt the shell may take to read again.
const READY: Duration = Duration::from_millis(500);

/// How much of what the shell echoes is looked at.
const ECHO_BYTES_MAX: usize = 64 * 1024;

/// What bash writes when it has read a command: the end of its echo.
const ECHO_END: &[u8] = b"\x1b[?2004l";

/// How a shell is begun.
#[derive(Debug, Clone)]
pub(super) struct Setting {
    pub working_dir: PathBuf,
    /// bash; found by its name where that is not a path.
    pub program: PathBuf,
    /// More variables.
    pub env: Vec<(String, String)>,
    /// How much a command may print before somebody has to look, in bytes.
    pub output_bytes_max: u64,
}

/// A running shell.
pub(super) struct Shell {
    input: OwnedWritePty,
    terminal: std::os::fd::OwnedFd,
    /// The shell itself, which leads its session and a group of its own.
    leader: Option<Pid>,
    shared: Arc<Shared>,
    /// Ends the shell and the task that reads.
    close: CancellationToken,
    ended: CancellationToken,
}

/// What the reading task and the caller share.
struct Shared {
    screen: Mutex<Screen>,
    changed: Notify,
    /// The output was taken: there is room again.
    taken: Notify,
}

/// What has come from the terminal.
pub(super) struct Screen {
    pub output: Output,
    cleaner: Cleaner,
    phase: Phase,
    /// When something last came.
    pub changed_at: Instant,
    /// How many commands are done.
    pub prompts: u64,
    /// What the shell said of the last one, and when.
    pub outcome: Outcome,
    prompt_at: Instant,
    /// The shell waits for the rest of a command.
    pub wants_more: bool,
    /// The shell is gone; its exit code.
    pub exit: Option<i64>,
}

/// What the shell is doing.
#[derive(Debug)]
enum Phase {
    /// It comes up; nobody wants to see that.
    Starting,
    /// It is at its prompt; `true`: it reads.
    Prompt { reads: bool },
    /// It was sent a command, which it repeats: what came of that so far, and what it repeats.
    Echoing { echo: Vec<u8>, sent: String },
    /// A command runs.
    Running,
}

impl Shell {
    /// Begins a shell and waits until it reads.
    pub async fn start(setting: &Setting) -> Result<Self, String> {
        let told = |error: &dyn std::fmt::Display| format!("the shell cannot be started: {error}");
        let (pty, pts) = pty_process::open().map_err(|error| told(&error))?;
        pty.resize(Size::new(ROWS, COLUMNS)).map_err(|error| told(&error))?;
        let terminal = std::os::fd::AsFd::as_fd(&pty).try_clone_to_owned().map_err(|error| told(&error))?;
        let child = command(setting).spawn(pts).map_err(|error| told(&error))?;
        let leader = pid(&child);
        if let Some(pid) = leader {
            // So that commands cannot starve the program; where it is not allowed they run like it.
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
        shell.write(set_up.as_bytes()).await.map_err(|error| told(&error))?;
        let ready = timeout(START, shell.until(|screen| screen.reads() || screen.exit.is_some())).await;
        match ready {
            Ok(()) if shell.screen().exit.is_none() => Ok(shell),
            Ok(()) => Err(told(&"it ended at once")),
            Err(_) => Err(told(&format!(
                "it was not ready within {} seconds (bash 4.4 or later is needed)",
                START.as_secs()
            ))),
        }
    }

    /// What has come from the terminal.
    pub fn screen(&self) -> MutexGuard<'_, Screen> {
        self.shared.screen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until what has come is as it should be.
    pub async fn until(&self, is: impl Fn(&Screen) -> bool) {
        loop {
            let changed = self.changed();
            tokio::pin!(changed);
            changed.as_mut().enable();
            if is(&self.screen()) {
                return;
            }
            changed.await;
        }
    }

    /// Waits for anything to come. What came since it was made counts once it is enabled.
    pub fn changed(&self) -> tokio::sync::futures::Notified<'_> {
        self.shared.changed.notified()
    }

    /// Hands a command to the shell, which reads. Its line ends do not end it: it is read as a whole.
    pub async fn command(&mut self, command: &str) -> std::io::Result<()> {
        // A command cannot end its own quotation.
        let command = command.replace('\u{1b}', "");
        self.screen().phase = Phase::Echoing { echo: Vec::new(), sent: command.clone() };
        self.write(format!("\x1b[200~{command}\x1b[201~\r").as_bytes()).await
    }

    /// Types something, to the program that runs or to the shell.
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

    /// The output in at most so many characters; it begins anew, and a program that waited goes on.
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

    /// Forgets the output.
    pub fn discard_output(&self) {
        {
            let mut screen = self.screen();
            screen.cleaner = Cleaner::default();
            screen.output.discard();
        }
        self.shared.taken.notify_one();
    }

    /// Stops the program that runs: asks it, tells it, makes it. Answers whether the shell is at its prompt again.
    pub async fn stop_program(&mut self) -> bool {
        let steps = [
            (None, Duration::from_millis(1500)),
            (Some(Signal::TERM), Duration::from_millis(500)),
            (Some(Signal::KILL), BACK),
        ];
        for (signal, wait) in steps {
            match signal {
                // As a person would; a program may want to tidy up.
                None => drop(timeout(TYPE, self.write(b"\x03")).await),
                Some(signal) => {
                    // Where the shell itself is in front the program is gone, and the shell is only slow to say so.
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

    /// Ends the shell and what runs in it, and waits for that.
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

    /// Whether the shell reads the next command.
    pub fn reads(&self) -> bool {
        match self.phase {
            Phase::Prompt { reads } => reads || self.prompt_at.elapsed() > READY,
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

    /// Takes the echo for output, but for the command that it repeats. For a shell that did not say where its echo
    /// ended: its messages go elsewhere, or its terminal is a dumb one.
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

/// How bash is begun.
fn command(setting: &Setting) -> Command {
    let mut inner = tokio::process::Command::new(&setting.program);
    inner.arg("-i").current_dir(&setting.working_dir).kill_on_drop(true);
    environment::withhold(inner.as_std_mut());
    inner
        .env_remove("PROMPT_COMMAND")
        // A pager would wait for somebody to turn the page.
        .env("PAGER", "cat")
        .env("GIT_PAGER", "cat")
        .env("TERM", "xterm-256color")
        .env("AI_AGENT", "annals")
        .envs(setting.env.iter().map(|(name, value)| (name, value)));
    Command::from(inner)
}

/// Reads what comes from the shell.
struct Reader {
    from_shell: OwnedReadPty,
    child: Child,
    marks: Marks,
    shared: Arc<Shared>,
}

impl Reader {
    async fn run(mut self, close: CancellationToken, ended: CancellationToken) {
        // Nobody waits for a reader that is gone, whatever ended it.
        let _ended = ended.drop_guard();
        let mut buffer = vec![0; 16 * 1024];
        let exit = loop {
            let room = !self.screen().output.is_full();
            tokio::select! {
                biased;
                () = close.cancelled() => break self.end().await,
                read = self.from_shell.read(&mut buffer), if room => match read {
                    // The terminal is closed once the last program that had it is gone.
                    Ok(0) | Err(_) => break self.child.wait().await.ok(),
                    Ok(count) => self.take(&buffer[..count]),
                },
                status = self.child.wait() => {
                    self.rest(&mut buffer).await;
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

    /// What the shell had still written when it ended.
    async fn rest(&mut self, buffer: &mut [u8]) {
        while let Ok(Ok(count)) = timeout(Duration::from_millis(50), self.from_shell.read(buffer)).await {
            if count == 0 || self.screen().output.is_full() {
                return;
            }
            let bytes = buffer[..count].to_vec();
            self.take(&bytes);
        }
    }

    /// Ends the shell and its jobs. It tells them itself, but not where it is killed or a signal comes amiss to it.
    async fn end(&mut self) -> Option<std::process::ExitStatus> {
        let leader = pid(&self.child);
        if let Some(pid) = leader {
            let _ = kill_process(pid, Signal::HUP);
        }
        let status = match timeout(END, self.child.wait()).await {
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

/// The shell's process.
fn pid(child: &Child) -> Option<Pid> {
    child.id().and_then(|id| Pid::from_raw(id.cast_signed()))
}

/// Tells all processes of a session that their terminal is gone. Only where the system lists them.
fn hang_up(leader: Pid) {
    let Ok(entries) = std::fs::read_dir("/proc") else { return };
    let ids = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    for process in ids {
        let Ok(stat) = std::fs::read_to_string(format!("/proc/{process}/stat")) else { continue };
        // Behind the name, which may have anything in it: state, parent, group, session.
        let session =
            stat.rsplit(')').next().and_then(|rest| rest.split_ascii_whitespace().nth(3)?.parse().ok());
        if session == Some(leader.as_raw_nonzero().get())
            && let Some(process) = Pid::from_raw(process)
        {
            let _ = kill_process(process, Signal::HUP);
        }
    }
}
