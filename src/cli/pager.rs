//! Long output on a terminal goes through the user's pager.

use std::io::{IsTerminal as _, Write as _};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use crate::untrusted;

/// The commands whose output people read from its beginning.
const PAGED: &[&str] = &[
    "admin-log",
    "branches",
    "diff",
    "edits",
    "events",
    "list",
    "messages",
    "query",
    "report",
    "search",
    "seen",
    "show",
    "state",
    "stats",
    "transcript",
    "view",
];

/// The pager if the environment names no other.
const DEFAULT: &str = "less";

/// The options of `less` if the environment has none: show colours, and end at once if everything fits on one screen.
const LESS: &str = "FRX";

/// Returns whether the output of a command is for a pager.
pub(super) fn is_paged(command: &str) -> bool {
    PAGED.contains(&command)
}

/// A pager that receives standard output, and standard error if that is a terminal: remarks stand where they belong.
pub(super) struct Pager {
    child: Child,
    /// The standard error from before.
    errors: Option<OwnedFd>,
}

impl Pager {
    /// Starts the pager of the environment: `ANNALS_PAGER`, else `PAGER`, else `less`. `None` if that is empty, `cat` or
    /// not installed, or if the terminal is dumb.
    pub fn start() -> Option<Self> {
        let variable = |name: &str| std::env::var(name).ok();
        let line = variable("ANNALS_PAGER").or_else(|| variable("PAGER")).unwrap_or_else(|| DEFAULT.into());
        let name = line.split_whitespace().next().filter(|name| *name != "cat")?;
        if variable("TERM").is_none_or(|terminal| terminal == "dumb") || !is_installed(name) {
            return None;
        }
        let mut command = Command::new("sh");
        command.args(["-c", &line]).stdin(Stdio::piped());
        if variable("LESS").is_none() {
            command.env("LESS", LESS);
        }
        let mut child = command.spawn().ok()?;
        let input = child.stdin.take()?;
        // The interrupt key is the pager's. Until it ends, the shell must not show its prompt.
        let ignored = Arc::new(AtomicBool::new(false));
        let _unchanged = signal_hook::flag::register(signal_hook::consts::SIGINT, ignored);
        super::ends::takes_over(&[signal_hook::consts::SIGINT]);
        if rustix::stdio::dup2_stdout(&input).is_err() {
            // The pager gets no input and ends.
            drop(input);
            let _ended = child.wait();
            return None;
        }
        let errors =
            std::io::stderr().is_terminal().then(|| rustix::io::dup(rustix::stdio::stderr()).ok()).flatten();
        if errors.is_some() {
            // Otherwise remarks go to the terminal itself.
            let _as_before = rustix::stdio::dup2_stderr(&input);
        }
        Some(Self { child, errors })
    }
}

impl Drop for Pager {
    /// Ends the output, and waits until the user leaves the pager.
    fn drop(&mut self) {
        let _reported = std::io::stdout().flush();
        if let Ok(null) = untrusted::create(Path::new("/dev/null")) {
            // Nothing holds the pipe any more, so that the pager sees its end.
            let _open = rustix::stdio::dup2_stdout(&null);
        }
        if let Some(errors) = &self.errors {
            let _open = rustix::stdio::dup2_stderr(errors);
        }
        let _ended = self.child.wait();
    }
}

/// Returns whether a program of this name or path is there.
fn is_installed(name: &str) -> bool {
    if name.contains('/') {
        return Path::new(name).exists();
    }
    let folders = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&folders).any(|folder| folder.join(name).is_file())
}
