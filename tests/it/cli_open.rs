//! The program `annals open`: it starts a server with its own key and opens the browser there.
#![cfg(all(feature = "cli", feature = "server", unix))]

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use reqwest::StatusCode;

use crate::cli::Program;
use crate::support::executable::script;
use crate::support::served::http_client;

/// A run of `annals open`. Killed when dropped.
struct Opened {
    child: Child,
    /// The address that it prints, without the key after the `#`.
    url: String,
    key: String,
}

impl Opened {
    fn start(program: &Program, arguments: &[&str]) -> Self {
        let folder = program.folder.path();
        let mut child = Command::new(env!("CARGO_BIN_EXE_annals"))
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap())
            .env("BROWSER", folder.join("browser"))
            .current_dir(folder)
            .arg("open")
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let (url, key) =
            line.trim().rsplit_once(" on ").and_then(|(_, address)| address.split_once("/#key=")).unwrap();
        Self { child, url: url.to_owned(), key: key.to_owned() }
    }

    async fn ask(&self, key: &str) -> StatusCode {
        let asked = http_client().get(format!("{}/api/conversations/count", self.url));
        asked.header("x-session-api-key", key).send().await.unwrap().status()
    }

    /// Ends the program as Ctrl-C does.
    fn end(mut self) {
        let sent = Command::new("kill").args(["-INT", &self.child.id().to_string()]).status().unwrap();
        assert!(sent.success());
        assert!(self.child.wait().unwrap().success());
    }
}

impl Drop for Opened {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Writes a script that stands in for the browser. It writes the address that it receives to the file `led`.
fn write_browser(program: &Program) {
    let path = program.folder.path().join("browser");
    script(&path, "#!/bin/sh\nprintf %s \"$1\" > led.part && mv led.part led\n");
}

/// Waits until the browser was started, and returns the address that it received.
fn opened_address(program: &Program) -> String {
    let path = program.folder.path().join("led");
    let deadline = Instant::now() + Duration::from_secs(120);
    loop {
        if let Ok(address) = fs::read_to_string(&path) {
            return address;
        }
        assert!(Instant::now() < deadline, "no browser was started");
        std::thread::yield_now();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_browser_opens_a_server_with_a_new_key_each_time() {
    let program = Program::with_goldens();
    write_browser(&program);
    let opened = Opened::start(&program, &["annals.db"]);
    assert!(opened.url.starts_with("http://127.0.0.1:"), "{}", opened.url);
    assert_eq!(opened_address(&program), format!("{}/#key={}", opened.url, opened.key));
    assert_eq!(opened.ask(&opened.key).await, StatusCode::OK);
    assert_eq!(opened.ask("another").await, StatusCode::UNAUTHORIZED);
    let key = opened.key.clone();
    opened.end();

    fs::remove_file(program.folder.path().join("led")).unwrap();
    let again = Opened::start(&program, &["--no-browser"]);
    assert_ne!(again.key, key, "each run makes a new key");
    assert_eq!(again.ask(&key).await, StatusCode::UNAUTHORIZED);
    again.end();
    assert!(!program.folder.path().join("led").exists());
}

#[test]
fn a_path_that_cannot_be_opened_is_rejected_with_a_hint() {
    let program = Program::new();
    let (code, errors) = program.fails(&["open", "missing.db", "--no-browser"]);
    assert!(code == 1 && errors.contains("annals --db missing.db import"), "{errors}");
    assert!(!program.folder.path().join("missing.db").exists());

    fs::create_dir(program.folder.path().join("logs")).unwrap();
    let (code, errors) = program.fails(&["open", "logs"]);
    assert!(code == 1 && errors.contains("annals import logs"), "{errors}");

    fs::write(program.folder.path().join("notes.txt"), "not a database, however long it is".repeat(99))
        .unwrap();
    let (code, errors) = program.fails(&["open", "notes.txt"]);
    assert!(code == 1 && errors.contains("not an SQLite database"), "{errors}");
}
