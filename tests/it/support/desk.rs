//! A folder in which commands of the documents run, as a reader types them.

use std::cell::RefCell;
use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};

use super::Scratch;

const PATIENCE: Duration = Duration::from_secs(300);

/// A folder in which a page's commands run. It has the repository's tests, and `annals` is on the path. What the commands
/// started in the background ends with it.
pub struct Desk {
    scratch: Scratch,
    background: RefCell<Vec<Pid>>,
}

impl Desk {
    pub fn new() -> Self {
        let scratch = Scratch::new();
        let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
        std::os::unix::fs::symlink(tests, scratch.path("tests")).unwrap();
        Self { scratch, background: RefCell::default() }
    }

    /// Runs a command. Returns its output with its errors.
    pub fn run(&self, command: &str) -> String {
        if let Some(rest) = command.strip_prefix("sqlite3 ") {
            return self.sqlite(rest);
        }
        if let Some(rest) = command.strip_prefix("curl ") {
            return self.curl(rest);
        }
        self.shell(command, b"")
    }

    /// Runs a command of a shell with this input.
    fn shell(&self, command: &str, input: &[u8]) -> String {
        let binary = PathBuf::from(env!("CARGO_BIN_EXE_annals"));
        let mut path = vec![binary.parent().unwrap().to_owned()];
        path.extend(std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default()));
        let path = std::env::join_paths(path).unwrap();
        let mut child = Command::new("/bin/sh")
            .args(["-c", &format!("{{ {command}\n}} 2>&1")])
            .current_dir(self.scratch.path(""))
            .env("PATH", path)
            .env_remove("ANNALS_DB")
            .env_remove("COLUMNS")
            .env_remove("SESSION_API_KEY")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .process_group(0)
            .spawn()
            .unwrap();
        if command.contains(" & ") {
            self.background.borrow_mut().push(Pid::from_child(&child));
        }
        // A command that does not read its input may have ended.
        let _ = child.stdin.take().unwrap().write_all(input);
        String::from_utf8(child.wait_with_output().unwrap().stdout).unwrap()
    }

    /// Runs `sqlite3 FILE "SQL"` without the program `sqlite3`, which may not be installed.
    fn sqlite(&self, arguments: &str) -> String {
        let (file, sql) = arguments.split_once(' ').unwrap();
        let db = rusqlite::Connection::open(self.scratch.path(file)).unwrap();
        match db.execute_batch(sql.trim_matches('"')) {
            Ok(()) => String::new(),
            Err(rusqlite::Error::SqliteFailure(_, Some(message))) => format!("Error: {message}\n"),
            Err(other) => panic!("{sql}: {other}"),
        }
    }

    /// Runs `curl` without the program, which may not be installed: a GET over a socket, with headers, and with `--retry`
    /// until there is a server. What follows ` | ` gets the answer.
    fn curl(&self, command: &str) -> String {
        let (arguments, filter) = command.split_once(" | ").map_or((command, None), |(a, b)| (a, Some(b)));
        let words = self.shell(&format!("printf '%s\\n' {arguments}"), b"");
        let (mut socket, mut headers, mut url, mut retry) = (None, String::new(), None, false);
        let mut words = words.lines();
        while let Some(word) = words.next() {
            match word {
                "--unix-socket" => socket = words.next(),
                "-H" => headers += &format!("{}\r\n", words.next().unwrap()),
                "--retry" => retry = words.next().is_some(),
                "-s" | "--retry-all-errors" => {}
                _ => url = word.strip_prefix("http://localhost"),
            }
        }
        let (socket, url) = (self.scratch.path(socket.unwrap()), url.unwrap());
        let begun = std::time::Instant::now();
        let mut stream = loop {
            match UnixStream::connect(&socket) {
                Ok(stream) => break stream,
                Err(error) if !retry || begun.elapsed() > PATIENCE => panic!("{arguments}: {error}"),
                Err(_) => std::thread::yield_now(),
            }
        };
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let head = format!("GET {url} HTTP/1.1\r\nhost: localhost\r\n{headers}connection: close\r\n\r\n");
        stream.write_all(head.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        assert!(!head.contains("transfer-encoding"), "{head}");
        filter.map_or_else(|| body.to_owned(), |filter| self.shell(filter, body.as_bytes()))
    }
}

impl Drop for Desk {
    fn drop(&mut self) {
        for group in self.background.take() {
            // It may have ended.
            let _ = kill_process_group(group, Signal::KILL);
        }
    }
}
