//! `annals serve --read-only`: it shows everything and changes nothing, also while another server writes to the file.
#![cfg(all(feature = "cli", feature = "server", unix))]

use std::io::{BufRead as _, BufReader, Read as _};
use std::process::{Child, Command, Stdio};

use futures_util::{SinkExt as _, StreamExt as _};
use reqwest::{Client, StatusCode};
use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::Message;

use crate::cli::Program;
use crate::support::caller::until;
use crate::support::served::http_client;

/// A server as a process of its own. It is killed when the value is dropped.
struct Serving {
    child: Child,
    url: String,
    line: String,
    client: Client,
}

impl Serving {
    fn start(program: &Program, more: &[&str]) -> Self {
        let folder = program.folder.path();
        let mut command = Command::new(env!("CARGO_BIN_EXE_annals"));
        command.env_clear().env("PATH", std::env::var_os("PATH").unwrap()).env("HOME", folder.join("home"));
        command.current_dir(folder).args(["serve", "--port", "0"]).args(more);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let Some((_, url)) = line.trim().rsplit_once(" on ") else {
            let mut errors = String::new();
            child.stderr.take().unwrap().read_to_string(&mut errors).unwrap();
            panic!("{errors}");
        };
        Self { child, url: url.to_owned(), line, client: http_client() }
    }

    async fn send(&self, method: &str, path: &str, key: Option<&str>, body: &Value) -> (StatusCode, String) {
        let mut request = self.client.request(method.parse().unwrap(), format!("{}{path}", self.url));
        if let Some(key) = key {
            request = request.header("x-session-api-key", key);
        }
        let answer = request.header("content-type", "application/json").body(body.to_string()).send().await;
        let answer = answer.unwrap();
        (answer.status(), answer.text().await.unwrap())
    }

    async fn get(&self, path: &str) -> Value {
        let (status, text) = self.send("GET", path, None, &Value::Null).await;
        assert_eq!(status, StatusCode::OK, "{path}: {text}");
        serde_json::from_str(&text).unwrap()
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        let _ended = self.child.kill();
        let _reaped = self.child.wait();
    }
}

fn message(id: &str, text: &str) -> Value {
    json!({"id": id, "timestamp": "2026-01-02T03:04:05", "source": "user", "kind": "MessageEvent",
           "llm_message": {"role": "user", "content": [{"type": "text", "text": text}]}})
}

type Socket = tokio_tungstenite::WebSocketStream<tokio_tungstenite::MaybeTlsStream<tokio::net::TcpStream>>;

/// Returns the next frame that fits.
async fn next(socket: &mut Socket, fits: impl Fn(&Value) -> bool) -> Value {
    loop {
        let Message::Text(text) = socket.next().await.unwrap().unwrap() else { continue };
        let frame: Value = serde_json::from_str(&text).unwrap();
        if fits(&frame) {
            return frame;
        }
    }
}

const TALK: &str = "0e2f6a52-9d3f-4d3f-9c5f-3b9b7f6f0001";
const REASON: &str = "This server only reads";

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_only_reads_follows_another_and_changes_nothing() {
    let program = Program::with_goldens();
    // It is there before the other one has written anything.
    let reader = Serving::start(&program, &["--read-only"]);
    assert!(reader.line.contains("for reading only"), "{}", reader.line);
    let writer = Serving::start(&program, &[]);
    let log = format!("/api/annals/conversations/{TALK}/events");
    let append = async |id: &str, text: &str| {
        let (status, text) = writer.send("POST", &log, None, &message(id, text)).await;
        assert_eq!(status, StatusCode::OK, "{text}");
    };
    append("e1", "first").await;
    let events = reader.get(&log).await;
    assert_eq!(events["events"][0]["event"]["id"], json!("e1"));

    // A socket of the reader shows what comes.
    let url = format!("{}/sockets/session/{TALK}?after_seq=0", reader.url.replace("http", "ws"));
    let (mut socket, _) = tokio_tungstenite::connect_async(url).await.unwrap();
    append("e2", "second, pangolin").await;
    next(&mut socket, |frame| frame["event"]["id"] == "e2").await;
    let text = json!({"role": "user", "content": "Hi"}).to_string();
    socket.send(Message::Text(text.into())).await.unwrap();
    let refused = next(&mut socket, |frame| frame["type"] == "error").await;
    assert!(refused["detail"].as_str().unwrap().contains(REASON), "{refused}");

    // Search, SQL, reports and the page.
    // A search brings the index up to date, where the file may be written.
    writer.get("/api/annals/search?q=pangolin").await;
    until(async || {
        let found = reader.get("/api/annals/search?q=pangolin").await;
        found.to_string().contains(TALK)
    })
    .await;
    let query = json!({"sql": "SELECT count(*) AS n FROM events"});
    let (status, answer) = reader.send("POST", "/api/annals/query", None, &query).await;
    assert_eq!(status, StatusCode::OK, "{answer}");
    assert!(reader.get("/api/annals/reports/commands").await["rows"].is_array());
    assert_eq!(reader.get("/api/annals/access").await["read_only"], json!(true));
    let (status, page) = reader.send("GET", "/page/index.html", None, &Value::Null).await;
    assert!(status == StatusCode::OK && page.contains("<html"), "{status}");

    // What changes something is refused, and nothing has changed.
    let before = program.succeed(&["head"]);
    let root = format!("/api/conversations/{TALK}");
    for (method, path, body) in [
        ("POST", log.clone(), message("e3", "third")),
        ("POST", "/api/conversations".to_owned(), json!({})),
        ("POST", format!("{root}/run"), json!({})),
        ("POST", format!("{root}/pause"), json!({})),
        ("PATCH", root.clone(), json!({"title": "New"})),
        ("DELETE", root.clone(), json!({})),
        ("PATCH", "/api/settings".to_owned(), json!({"agent_settings_diff": {}})),
        ("PUT", "/api/settings/secrets".to_owned(), json!({"name": "A", "value": "b"})),
        ("POST", "/api/bash/execute_bash_command".to_owned(), json!({"command": "touch pwned"})),
        ("POST", "/api/file/create_directory?path=/tmp/annals-never".to_owned(), json!({})),
    ] {
        let (status, text) = reader.send(method, &path, None, &body).await;
        assert!(status == StatusCode::FORBIDDEN && text.contains(REASON), "{method} {path}: {status} {text}");
    }
    let heads =
        |text: &str| text.lines().filter(|line| !line.starts_with("at")).collect::<Vec<_>>().join("\n");
    assert_eq!(heads(&before), heads(&program.succeed(&["head"])));
    assert!(!program.folder.path().join("pwned").exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn every_route_that_changes_something_is_refused_by_a_server_that_only_reads() {
    let program = Program::new();
    let keys: Vec<(&str, String)> = ["approve", "write", "admin"]
        .into_iter()
        .map(|role| {
            let key = program.succeed(&["keys", "server", "add", role, "--role", role]);
            (role, key.trim().to_owned())
        })
        .collect();
    let reader = Serving::start(&program, &["--read-only"]);
    let document = reader.get("/openapi.json").await;
    let mut refused = 0;
    for (path, operations) in document["paths"].as_object().unwrap() {
        let filled = path.replace("{conversation_id}", TALK).replace(['{', '}'], "");
        for (method, operation) in operations.as_object().unwrap() {
            let Some(needed) = operation["x-annals-role"].as_str() else { continue };
            if path.ends_with("/feed") {
                continue;
            }
            let changes = method != "get" && needed != "read";
            for (_, key) in keys.iter().skip_while(|(role, _)| needed != "read" && *role != needed) {
                let method = method.to_uppercase();
                let (status, text) = reader.send(&method, &filled, Some(key), &json!({})).await;
                let is_refused = status == StatusCode::FORBIDDEN && text.contains(REASON);
                assert_eq!(is_refused, changes, "{method} {path}: {status} {text}");
                refused += usize::from(is_refused);
            }
        }
    }
    assert!(refused > 100, "{refused}");
}

#[test]
fn a_server_that_only_reads_makes_no_file() {
    let program = Program::new();
    let (code, errors) = program.fails(&["serve", "--read-only", "--port", "0"]);
    assert!(code == 1 && errors.contains("there is no"), "{errors}");
    assert_eq!(std::fs::read_dir(program.folder.path()).unwrap().count(), 0);
    let (code, _) = program.fails(&["serve", "--read-only", "--import-folders"]);
    assert_eq!(code, 1);
}
