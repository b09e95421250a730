//! Ends the programs that this process has started, and all their descendants, when this process ends.
//!
//! Every program that is started here has a mark in its environment and passes it on to its children. A second process,
//! the sweeper, waits until this process ends for any reason. Then it kills all processes with the mark and their
//! descendants, and removes folders of temporary files that this process could not remove. The sweeper is this program
//! with another argument. It knows only the mark and the path of the folders. It waits at a pipe that closes when this
//! process ends.

use std::collections::{HashMap, HashSet};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, ExitCode, Stdio};

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use super::anew;
use crate::secret::environment;
use crate::server::private::{beginning, remove};

/// The argument that starts this program as the sweeper.
const NAME: &str = "sweep-after";

/// The maximum number of times that the processes are listed. A process that starts during one listing is found by the
/// next one.
const ROUNDS_MAX: u32 = 100;

/// The sweeper of this process.
pub(super) struct Sweeper(Option<Child>);

impl Sweeper {
    /// Starts the sweeper. If that fails, this process sweeps itself when it ends, but not if it is killed.
    pub fn start() -> Self {
        let mut sweeper = Command::new(anew::program());
        sweeper.arg0("annals").arg(NAME).env_clear().current_dir("/").process_group(0);
        let child = sweeper.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        Self(child.ok().and_then(|mut child| {
            // A sweeper that reads no mark ends at once.
            let input = child.stdin.as_mut()?;
            writeln!(input, "{}", environment::mark().unwrap_or_default()).ok()?;
            // The sweeper cannot read a path with a line break. Only this process removes such folders.
            let folders = beginning().to_str().filter(|path| !path.contains('\n')).unwrap_or_default();
            writeln!(input, "{folders}").ok()?;
            Some(child)
        }))
    }
}

impl Drop for Sweeper {
    /// Ends the programs that are left, and the sweeper.
    fn drop(&mut self) {
        if let Some(mark) = environment::mark() {
            sweep(&mark);
        }
        if let Some(mut child) = self.0.take() {
            drop(child.stdin.take());
            // The sweeper has nothing left to do and ends at once.
            let _ignored = child.wait();
        }
    }
}

/// Sweeps if this program was started as the sweeper. Returns the exit code then, otherwise `None`.
pub(super) fn is_asked() -> Option<ExitCode> {
    let mut arguments = std::env::args_os().skip(1);
    (arguments.next()? == NAME && arguments.next().is_none()).then(|| {
        let mut input = BufReader::new(std::io::stdin());
        let (mut mark, mut folders) = (String::new(), String::new());
        let read = input.read_line(&mut mark).and_then(|_| input.read_line(&mut folders));
        if read.is_ok() && !mark.trim().is_empty() {
            // The input ends or fails when the process that wrote it has ended.
            let _ignored = input.read_to_end(&mut Vec::new());
            sweep(mark.trim());
            let folders = Path::new(folders.trim_end_matches('\n'));
            if folders.is_absolute() {
                remove(folders);
            }
        }
        ExitCode::SUCCESS
    })
}

/// Kills every process with the mark and its descendants, until no such process is left.
fn sweep(mark: &str) {
    for _ in 0..ROUNDS_MAX {
        let found = marked(mark);
        if found.is_empty() {
            return;
        }
        let opened: Vec<(u32, OwnedFd)> =
            found.into_iter().filter_map(|pid| Some((pid, open(pid)?))).collect();
        // A process may have ended before it was opened, and another one may have its number. Only those that still
        // bear the mark are killed. The signal goes to the process that was opened.
        let found = marked(mark);
        for (_, process) in opened.iter().filter(|(pid, _)| found.contains(pid)) {
            let _gone_already = pidfd_send_signal(process, Signal::KILL);
        }
    }
}

/// Opens a process, if it still exists.
fn open(pid: u32) -> Option<OwnedFd> {
    pidfd_open(Pid::from_raw(i32::try_from(pid).ok()?)?, PidfdFlags::empty()).ok()
}

/// Returns the processes with the mark and their descendants, without this process.
fn marked(mark: &str) -> HashSet<u32> {
    let line = format!("{}={mark}", environment::MARK);
    let own = std::process::id();
    let Ok(entries) = std::fs::read_dir("/proc") else { return HashSet::new() };
    let pids = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let parents: HashMap<u32, u32> =
        pids.filter(|pid| *pid != own).filter_map(|pid| Some((pid, parent(pid)?))).collect();
    let has_mark = |pid: &u32| {
        let environment = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        environment.split(|byte| *byte == 0).any(|variable| variable == line.as_bytes())
    };
    let mut found: HashSet<u32> = parents.keys().copied().filter(|pid| has_mark(pid)).collect();
    loop {
        let more: Vec<u32> = parents
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

/// Returns the parent of a process. `None` if the process has ended.
fn parent(pid: u32) -> Option<u32> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
    let state = fields.next()?;
    fields.next()?.parse().ok().filter(|_| !matches!(state, "Z" | "X"))
}
