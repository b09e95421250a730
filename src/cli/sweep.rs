//! What programs leave behind: whatever this process has started, and what those have started, is ended with it.
//!
//! Every program that is started here bears a mark in its environment, and hands it on to its own. A program of its own,
//! the sweeper, waits for the end of this process, whatever it ends by, and then ends all that bears the mark, and what
//! came from it; folders of temporary files that the process had no time to remove go as well. It is this program under
//! another name, knows nothing but the mark and where those are, and waits at a pipe that closes with this process.

use std::collections::{HashMap, HashSet};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, ExitCode, Stdio};

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use super::anew;
use crate::secret::environment;
use crate::server::private::{beginning, remove};

/// The name under which this program sweeps.
const NAME: &str = "sweep-after";

/// How often it is looked again: what was about to start while it was looked is there the next time.
const ROUNDS_MAX: u32 = 100;

/// The sweeper of this process.
pub(super) struct Sweeper(Option<Child>);

impl Sweeper {
    /// Starts it. Where that is not possible, this process sweeps for itself when it ends, and not where it is killed.
    pub fn start() -> Self {
        let mut sweeper = Command::new(anew::program());
        sweeper.arg0("annals").arg(NAME).env_clear().current_dir("/").process_group(0);
        let child = sweeper.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        Self(child.ok().and_then(|mut child| {
            // Without a mark on its input it ends by itself.
            let input = child.stdin.as_mut()?;
            writeln!(input, "{}", environment::mark().unwrap_or_default()).ok()?;
            // A path of several lines is left to this process.
            let folders = beginning().to_str().filter(|path| !path.contains('\n')).unwrap_or_default();
            writeln!(input, "{folders}").ok()?;
            Some(child)
        }))
    }
}

impl Drop for Sweeper {
    /// Ends what is left, and the sweeper.
    fn drop(&mut self) {
        if let Some(mark) = environment::mark() {
            sweep(&mark);
        }
        if let Some(mut child) = self.0.take() {
            drop(child.stdin.take());
            // It has nothing left to do.
            let _ended = child.wait();
        }
    }
}

/// Whether this program was started to sweep; it has done it then.
pub(super) fn is_asked() -> Option<ExitCode> {
    let mut arguments = std::env::args_os().skip(1);
    (arguments.next()? == NAME && arguments.next().is_none()).then(|| {
        let mut input = BufReader::new(std::io::stdin());
        let (mut mark, mut folders) = (String::new(), String::new());
        let read = input.read_line(&mut mark).and_then(|_| input.read_line(&mut folders));
        if read.is_ok() && !mark.trim().is_empty() {
            // The input ends, or fails, when the process that wrote it has ended.
            let _end = input.read_to_end(&mut Vec::new());
            sweep(mark.trim());
            let folders = Path::new(folders.trim_end_matches('\n'));
            if folders.is_absolute() {
                remove(folders);
            }
        }
        ExitCode::SUCCESS
    })
}

/// Ends every process that bears the mark, and its children, until no such process is left.
fn sweep(mark: &str) {
    for _ in 0..ROUNDS_MAX {
        let found = marked(mark);
        if found.is_empty() {
            return;
        }
        for pid in found {
            end(pid);
        }
    }
}

/// Kills a process for good, if it is still the one that was found.
fn end(pid: u32) {
    let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) else { return };
    // The descriptor holds on to the process: its number cannot become another's in between.
    if let Ok(held) = pidfd_open(pid, PidfdFlags::empty()) {
        let _gone_already = pidfd_send_signal(held, Signal::KILL);
    }
}

/// The processes that bear the mark, and those that came from one that does. This one is not among them.
fn marked(mark: &str) -> HashSet<u32> {
    let line = format!("{}={mark}", environment::MARK);
    let own = std::process::id();
    let Ok(entries) = std::fs::read_dir("/proc") else { return HashSet::new() };
    let pids = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let living: HashMap<u32, u32> =
        pids.filter(|pid| *pid != own).filter_map(|pid| Some((pid, parent(pid)?))).collect();
    let bears = |pid: &u32| {
        let environment = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        environment.split(|byte| *byte == 0).any(|variable| variable == line.as_bytes())
    };
    let mut found: HashSet<u32> = living.keys().copied().filter(|pid| bears(pid)).collect();
    loop {
        let more: Vec<u32> = living
            .iter()
            .filter(|(pid, parent)| !found.contains(pid) && found.contains(parent))
            .map(|(pid, _)| *pid)
            .collect();
        if more.is_empty() {
            return found;
        }
        found.extend(more);
    }
}

/// The parent of a process that lives; `None` for one that has ended.
fn parent(pid: u32) -> Option<u32> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
    let state = fields.next()?;
    fields.next()?.parse().ok().filter(|_| !matches!(state, "Z" | "X"))
}
