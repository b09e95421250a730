//! Ends the programs that this process has started, and all their descendants, when this process ends.
//!
//! Every program that is started here has a mark in its environment and passes it on to its children. A second process,
//! the sweeper, waits until this process ends for any reason. Then it kills all processes with the mark and their
//! descendants, and removes folders of temporary files that this process could not remove. The sweeper is this program
//! with another argument. It knows only the mark and the path of the folders. It waits at a pipe that closes when this
//! process ends.

use std::collections::HashMap;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, ExitCode, Stdio};

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use super::anew;
use crate::secret::environment;
use crate::server::private::{beginning, remove};
use crate::untrusted;

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
    /// Ends the programs that are left. The sweeper waits on until this process has ended: its threads may still start
    /// programs and make folders.
    fn drop(&mut self) {
        if let Some(mark) = environment::mark() {
            sweep(&mark);
        }
        if let Some(mut child) = self.0.take() {
            // The system closes the pipe at the end of this process.
            std::mem::forget(child.stdin.take());
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
        for (pid, started) in found {
            // A process may end before it is opened, and another one may get its number: that one began later. The
            // signal goes to the process that was opened.
            if let Some(process) = open(pid)
                && stat(pid).is_some_and(|stat| stat.started == started)
            {
                let _gone_already = pidfd_send_signal(process, Signal::KILL);
            }
        }
    }
}

/// Opens a process, if it still exists.
fn open(pid: u32) -> Option<OwnedFd> {
    pidfd_open(Pid::from_raw(i32::try_from(pid).ok()?)?, PidfdFlags::empty()).ok()
}

/// Returns the processes with the mark and their descendants, without this process. Each with the time at which it
/// started.
fn marked(mark: &str) -> HashMap<u32, u64> {
    let line = format!("{}={mark}", environment::MARK);
    let own = std::process::id();
    let Ok(entries) = std::fs::read_dir("/proc") else { return HashMap::new() };
    let pids = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let running: HashMap<u32, Stat> =
        pids.filter(|pid| *pid != own).filter_map(|pid| Some((pid, stat(pid)?))).collect();
    let has_mark = |pid: &u32| {
        #[expect(clippy::disallowed_methods, reason = "the system's file, which need not be text")]
        let environment = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        environment.split(|byte| *byte == 0).any(|variable| variable == line.as_bytes())
    };
    let mut found: HashMap<u32, u64> =
        running.iter().filter(|(pid, _)| has_mark(pid)).map(|(pid, stat)| (*pid, stat.started)).collect();
    loop {
        let more: Vec<(u32, u64)> = running
            .iter()
            .filter(|(pid, stat)| !found.contains_key(pid) && found.contains_key(&stat.parent))
            .map(|(pid, stat)| (*pid, stat.started))
            .collect();
        if more.is_empty() {
            return found;
        }
        found.extend(more);
    }
}

/// A process as the system describes it.
struct Stat {
    parent: u32,
    /// When it started, in ticks of the system's clock.
    started: u64,
}

/// Reads `/proc/PID/stat`. `None` if the process has ended.
fn stat(pid: u32) -> Option<Stat> {
    let stat = untrusted::read_system(format!("/proc/{pid}/stat")).ok()?;
    // The name of the program stands in brackets, and may hold anything.
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    if matches!(*fields.first()?, "Z" | "X") {
        return None;
    }
    Some(Stat { parent: fields.get(1)?.parse().ok()?, started: fields.get(19)?.parse().ok()? })
}
