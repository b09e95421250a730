//! Child processes: this test binary again, running one test in another role.
//!
//! A test that needs a child calls [`role`] first. In the child, [`role`] returns the child's task, and the test does
//! only that task. Children report lines on their standard output. These lines begin with [`MARK`] because the test
//! harness writes there too.

use std::ffi::OsStr;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};

const ROLE: &str = "ANNALS_TEST_ROLE";
const DATABASE: &str = "ANNALS_TEST_DATABASE";
const MARK: &str = "@ ";

/// The task of a child.
pub struct Role {
    pub name: String,
    pub database: PathBuf,
}

/// The task of this process. `None` if it is not a child.
pub fn role() -> Option<Role> {
    let name = std::env::var(ROLE).ok()?;
    Some(Role { name, database: std::env::var_os(DATABASE)?.into() })
}

/// Reports a line to the parent. The line is written whole or not at all.
pub fn report(line: &str) {
    let mut out = std::io::stdout().lock();
    out.write_all(format!("\n{MARK}{line}\n").as_bytes()).unwrap();
    out.flush().unwrap();
}

/// A command that runs the test called `test` in the role `name`, on `database`.
pub fn command(test: &str, name: &str, database: &Path) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    configure(&mut command, test, name, database);
    command
}

/// The same command, started by a shell that runs `preparation` first.
pub fn command_after(preparation: &str, test: &str, name: &str, database: &Path) -> Command {
    let mut command = Command::new("bash");
    command.args([OsStr::new("-c"), OsStr::new(&format!("{preparation}\nexec \"$0\" \"$@\""))]);
    command.arg(std::env::current_exe().unwrap());
    configure(&mut command, test, name, database);
    command
}

fn configure(command: &mut Command, test: &str, name: &str, database: &Path) {
    command
        .args([test, "--exact", "--nocapture", "--test-threads=1"])
        .env(ROLE, name)
        .env(DATABASE, database)
        // A kill can leave a temporary file of SQLite behind. Here it is removed with the test's folder.
        .env("SQLITE_TMPDIR", database.parent().unwrap_or(database))
        .stdin(Stdio::null())
        .stdout(Stdio::piped());
}

/// A running child; killed when dropped.
pub struct Running {
    pub child: Child,
    lines: Option<BufReader<ChildStdout>>,
}

impl Running {
    pub fn start(mut command: Command) -> Self {
        let mut child = command.spawn().unwrap();
        let lines = child.stdout.take().map(BufReader::new);
        Self { child, lines }
    }

    /// Takes the reader of the child's lines, so that another thread can read them.
    pub fn take_lines(&mut self) -> Lines {
        Lines(self.lines.take().expect("the lines are taken only once"))
    }

    /// Returns the lines that the child reports until it ends. Panics if it does not end with success.
    pub fn finish(mut self) -> Vec<String> {
        let lines = self.take_lines().collect();
        let status = self.child.wait().unwrap();
        assert!(status.success(), "the child failed: {status}");
        lines
    }

    /// Returns how the child ended, after all its lines were taken.
    pub fn wait(mut self) -> ExitStatus {
        self.child.wait().unwrap()
    }

    /// Kills the child immediately (SIGKILL).
    pub fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The lines that a child reports. A line without a line end is skipped.
pub struct Lines(BufReader<ChildStdout>);

impl Iterator for Lines {
    type Item = String;

    fn next(&mut self) -> Option<String> {
        loop {
            let mut line = String::new();
            if self.0.read_line(&mut line).unwrap() == 0 {
                return None;
            }
            if let Some(report) = line.strip_suffix('\n').and_then(|line| line.strip_prefix(MARK)) {
                return Some(report.to_owned());
            }
        }
    }
}

/// Runs `child` in a fork of this process. Returns whether it returned `true`.
#[cfg(target_os = "linux")]
#[expect(unsafe_code, reason = "no safe wrapper forks a process with threads")]
pub fn in_a_fork(child: impl FnOnce() -> bool) -> bool {
    // SAFETY: the child only runs `child` and leaves without unwinding into the harness.
    unsafe {
        match libc::fork() {
            0 => {
                let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(child));
                libc::_exit(i32::from(!matches!(result, Ok(true))));
            }
            process => {
                let mut status = -1;
                assert_eq!(libc::waitpid(process, &raw mut status, 0), process);
                status == 0
            }
        }
    }
}

/// Forks a child that waits until its input ends, and does nothing else. Returns its id.
#[cfg(target_os = "linux")]
#[expect(unsafe_code, reason = "no safe wrapper forks a process with threads")]
pub fn fork_that_waits_for_input() -> i32 {
    // SAFETY: the child only reads, and leaves without unwinding into the harness.
    unsafe {
        match libc::fork() {
            0 => {
                let mut byte = 0_u8;
                while libc::read(0, (&raw mut byte).cast(), 1) > 0 {}
                libc::_exit(0);
            }
            process => process,
        }
    }
}
