//! Hostile clients, files and repositories against `annals serve`, run as a process: it keeps answering, and it ends.
#![cfg(all(feature = "cli", feature = "server", unix))]

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use reqwest::{Client, Method, StatusCode};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::process::{Child, Command};

use crate::support::caller::until;
use crate::support::model_server::{Answer, Content, End, ModelServer};
use crate::support::served::http_client;

/// Puts something at a path where the server looks for a file.
type Put<'a> = &'a dyn Fn(&Path);

pub const KEY: &str = "session-key-0123456789";
const CANARY: &str = "canary-of-the-server";

/// The longest time that one answer may take, and that the server may take to end, whatever it is doing. What it must
/// not wait for never ends, so the time can be long: other programs may delay the server.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// The longest time that an answer may take which needs no work. It is long for the same reason.
const HEALTH_PATIENCE: Duration = Duration::from_secs(30);

/// The longest time for all work during which the server has to stay healthy.
const WORK_MAX: Duration = Duration::from_secs(300);

pub struct ServerProcess {
    folder: Arc<tempfile::TempDir>,
    pub child: Child,
    pub url: String,
    pub client: Client,
}

impl ServerProcess {
    pub async fn start() -> Self {
        Self::with(&[("OH_SESSION_API_KEYS", &format!("[\"{KEY}\"]"))]).await
    }

    pub async fn with(variables: &[(&str, &str)]) -> Self {
        Self::within(Arc::new(tempfile::tempdir().unwrap()), variables).await
    }

    /// Starts another server on the same file.
    pub async fn beside(&self) -> Self {
        let keys = format!("[\"{KEY}\"]");
        Self::within(Arc::clone(&self.folder), &[("OH_SESSION_API_KEYS", &keys)]).await
    }

    async fn within(folder: Arc<tempfile::TempDir>, variables: &[(&str, &str)]) -> Self {
        let mut child = command(folder.path(), variables).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).await.unwrap();
        let url = line.trim().rsplit_once(" on ").expect("the address").1.to_owned();
        Self { folder, child, url, client: http_client() }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub async fn ask(&self, method: Method, path: &str, body: Option<Value>) -> (StatusCode, Value) {
        let mut asked = self.client.request(method, format!("{}{path}", self.url));
        asked = asked.header("x-session-api-key", KEY).timeout(PATIENCE);
        if let Some(body) = body {
            asked = asked.header("content-type", "application/json").body(body.to_string());
        }
        let answer = asked.send().await.unwrap();
        (answer.status(), answer.json().await.unwrap_or_default())
    }

    pub async fn get(&self, path: &str) -> (StatusCode, Value) {
        self.ask(Method::GET, path, None).await
    }

    pub async fn post(&self, path: &str, body: Value) -> (StatusCode, Value) {
        self.ask(Method::POST, path, Some(body)).await
    }

    /// Makes a conversation with this model in its own folder. `more` is added to the request. Returns its id.
    pub async fn conversation(&self, model: &ModelServer, folder: &Path, more: Value) -> String {
        std::fs::create_dir_all(folder).unwrap();
        let mut wanted = json!({
            "agent": {
                "kind": "Agent",
                "llm": {
                    "model": "openai/test", "base_url": format!("{}/v1", model.url()), "api_key": "k",
                    "usage_id": "agent", "num_retries": 0,
                },
                "tools": [{"name": "terminal"}, {"name": "file_editor"}, {"name": "grep"}],
            },
            "workspace": {"working_dir": folder},
            "autotitle": false,
        });
        for (name, value) in more.as_object().unwrap() {
            wanted[name] = value.clone();
        }
        let (status, made) = self.post("/api/conversations", wanted).await;
        assert_eq!(status, StatusCode::CREATED, "{made}");
        made["id"].as_str().unwrap().to_owned()
    }

    /// Sends a message and starts a run, without waiting for the answer.
    pub fn say(&self, id: &str) {
        let message = json!({"role": "user", "content": [{"type": "text", "text": "Go"}], "run": true});
        let asked = self.client.post(format!("{}/api/conversations/{id}/events", self.url));
        let asked = asked.header("x-session-api-key", KEY).header("content-type", "application/json");
        let asked = asked.body(message.to_string()).send();
        tokio::spawn(async move { drop(asked.await) });
    }

    /// Asserts that the server answers `/health` soon, again and again, until `work` is done.
    pub async fn healthy_during(&self, work: impl Future<Output = ()>) {
        let asking = async {
            loop {
                let asked = self.client.get(format!("{}/health", self.url)).timeout(HEALTH_PATIENCE);
                assert_eq!(asked.send().await.expect("an answer").status(), 200);
                tokio::task::yield_now().await;
            }
        };
        tokio::select! {
            () = asking => {}
            done = tokio::time::timeout(WORK_MAX, work) => done.expect("the work ends in time"),
        }
    }

    /// The memory that the server holds now, in MiB.
    pub fn memory(&self) -> u64 {
        self.figure("VmRSS:")
    }

    /// The most memory that the server ever held, in MiB.
    pub fn peak(&self) -> u64 {
        self.figure("VmHWM:")
    }

    fn figure(&self, name: &str) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id().unwrap())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
        line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() >> 10
    }

    /// Sends the server SIGTERM and waits until it has ended.
    pub async fn end(mut self) {
        let pid = Pid::from_raw(self.child.id().unwrap().cast_signed()).unwrap();
        kill_process(pid, Signal::TERM).unwrap();
        let ended = tokio::time::timeout(PATIENCE, self.child.wait()).await;
        assert!(ended.expect("the server ends in time").unwrap().success());
    }
}

/// The command of a server in its own folder. Like `nohup` and scripts, it starts the server with signals ignored that
/// the server's children must not ignore.
pub fn command(folder: &Path, variables: &[(&str, &str)]) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", "trap '' HUP QUIT; exec \"$0\" \"$@\"", env!("CARGO_BIN_EXE_annals")]);
    command.env_clear().env("PATH", std::env::var_os("PATH").unwrap()).env("HOME", folder.join("home"));
    command.env("OH_MAX_CONCURRENT_RUNS", "100").envs(variables.iter().copied());
    command.current_dir(folder).args(["serve", "--port", "0"]).kill_on_drop(true);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// Starts a vault that answers at once, until the test ends. Returns its URL.
async fn fast_vault() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let _request = stream.read(&mut [0; 4096]).await;
                let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 6\r\nconnection: close\r\n\r\nl00k3d";
                let _client_may_be_gone = stream.write_all(answer).await;
            });
        }
    });
    url
}

#[tokio::test(flavor = "multi_thread")]
async fn secret_lookups_and_hooks_block_no_other_client() {
    let server = ServerProcess::start().await;
    let hanging = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let gone = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let vaults = [
        ("fast", fast_vault().await),
        ("hanging", format!("http://{}/", hanging.local_addr().unwrap())),
        ("refused", format!("http://{}/", gone.local_addr().unwrap())),
    ];
    drop(gone);
    let points = ["SessionStart", "UserPromptSubmit", "PreToolUse", "PostToolUse", "Stop", "SessionEnd"];
    let mut models = Vec::new();
    for point in points {
        for (kind, vault) in &vaults {
            let calls = [("c1", "terminal", r#"{"command":"true"}"#)];
            let model = ModelServer::start([Answer::calls("", &calls), Answer::text("Done.")]);
            let folder = server.path(&format!("{point}-{kind}"));
            let more = json!({
                "hook_config": {point: [{"matcher": "*", "hooks": [{"type": "command", "command": "echo l00k3d"}]}]},
                "secrets": {"L": {"kind": "LookupSecret", "url": vault}},
            });
            let id = server.conversation(&model, &folder, more).await;
            server.say(&id);
            models.push((*kind, id, model));
        }
    }
    // Conversations whose vault answers or refuses connections finish. The others block no other client.
    server
        .healthy_during(async {
            for (kind, id, model) in &models {
                if *kind != "hanging" {
                    model.arrived(2).await;
                    let path = format!("/api/conversations/{id}");
                    until(async || server.get(&path).await.1["execution_status"] == "finished").await;
                }
            }
        })
        .await;
    for (_, id, _) in models.iter().filter(|(kind, ..)| *kind == "fast") {
        let (_, page) = server.get(&format!("/api/conversations/{id}/events/search?limit=100")).await;
        let events = page["items"].to_string();
        assert!(!events.contains("l00k3d\\n"), "what a hook prints is masked: {events}");
    }
    server.end().await;
}

/// Puts something hostile at the path of every file that is read by default or that a model may ask to see.
fn hostile_workspace(folder: &Path, put: impl Fn(&Path)) {
    for name in [
        "AGENTS.md",
        "look.txt",
        "look.png",
        ".gitignore",
        ".openhands/memory/MEMORY.md",
        ".openhands/hooks.json",
        ".openhands/skills/one.md",
        ".openhands/skills/two/SKILL.md",
        ".openhands/microagents/repo.md",
        ".agents/skills/three/SKILL.md",
        ".agents/agents/four.md",
        ".agents/plugins/x/.plugin/plugin.json",
        ".agents/plugins/x/hooks/hooks.json",
        ".agents/plugins/x/.mcp.json",
        "sub/AGENTS.md",
        "sub/.ignore",
    ] {
        let path = folder.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        put(&path);
    }
}

fn pipe(path: &Path) {
    use rustix::fs::{CWD, FileType, Mode, mknodat};
    mknodat(CWD, path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn file_readers_neither_hang_nor_read_without_limit() {
    let server = ServerProcess::start().await;
    let links = |target: &'static str| move |path: &Path| std::os::unix::fs::symlink(target, path).unwrap();
    let real = server.path("a pipe");
    pipe(&real);
    let to_pipe = |path: &Path| std::os::unix::fs::symlink(&real, path).unwrap();
    let huge = |path: &Path| std::fs::File::create(path).unwrap().set_len(80 << 20).unwrap();
    let kinds: [(&str, Put<'_>); 5] = [
        ("pipe", &pipe),
        ("endless", &links("/dev/zero")),
        ("linked", &to_pipe),
        ("huge", &huge),
        ("vanished", &links("nothing-there")),
    ];
    let mut models = Vec::new();
    for (kind, put) in kinds {
        let folder = server.path(kind);
        hostile_workspace(&folder, put);
        let place = folder.display();
        let view = |name: &str| json!({"command": "view", "path": format!("{place}/{name}")}).to_string();
        let edit = json!({
            "command": "str_replace", "path": format!("{place}/look.txt"), "old_str": "a", "new_str": "b",
        });
        let (text, picture, edit) = (view("look.txt"), view("look.png"), edit.to_string());
        let grep = json!({"pattern": "x", "path": place.to_string()}).to_string();
        let calls = [
            ("c1", "file_editor", text.as_str()),
            ("c2", "file_editor", picture.as_str()),
            ("c3", "file_editor", edit.as_str()),
            ("c4", "grep", grep.as_str()),
        ];
        let model = ModelServer::start([Answer::calls("", &calls), Answer::text("Done.")]);
        let id = server.conversation(&model, &folder, json!({})).await;
        server.say(&id);
        models.push((kind, id, model));
    }
    server
        .healthy_during(async {
            for (kind, id, model) in &models {
                model.arrived(2).await;
                let folder = server.path(kind).display().to_string();
                for (method, path, body) in [
                    (Method::GET, format!("/api/file/download?path={folder}/look.txt"), None),
                    (Method::GET, format!("/api/git/diff?path={folder}/look.txt"), None),
                    (Method::GET, format!("/api/git/changes?path={folder}"), None),
                    (Method::GET, format!("/api/conversations/{id}/workspace/look.txt"), None),
                    (Method::POST, "/api/hooks".into(), Some(json!({"project_dir": folder}))),
                    (
                        Method::POST,
                        "/api/skills".into(),
                        Some(json!({"project_dir": folder, "load_project": true})),
                    ),
                    (Method::POST, "/api/plugins".into(), Some(json!({"project_dir": folder}))),
                ] {
                    let (status, _) = server.ask(method, &path, body).await;
                    assert!(status.as_u16() < 500 || status.as_u16() == 501, "{path}: {status}");
                }
            }
        })
        .await;
    for (kind, id, _) in &models {
        let (_, page) = server.get(&format!("/api/conversations/{id}/events/search?limit=100")).await;
        let seen = page["items"].as_array().unwrap().iter();
        let refused = seen
            .filter(|event| event["kind"] == "ObservationEvent" && event["observation"]["is_error"] == true);
        assert!(refused.count() >= 3, "{kind}: {page}");
    }
    let memory = server.memory();
    assert!(memory < 300, "{memory} MiB");
    server.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn session_keys_are_accepted_in_every_form_of_the_reference() {
    let file = "workspace/openhands_agent_server_config.json";
    for (variables, written) in [
        (&[("OH_SESSION_API_KEYS", r#"["session-key-0123456789"]"#)][..], None),
        (&[("OH_SESSION_API_KEYS_0", KEY)], None),
        (&[("SESSION_API_KEY", KEY)], None),
        (&[("OH", r#"{"session_api_keys":["session-key-0123456789"]}"#)], None),
        (&[("OPENHANDS_AGENT_SERVER_CONFIG_PATH", "keys.json")], Some("keys.json")),
        (&[], Some(file)),
    ] {
        let folder = tempfile::tempdir().unwrap();
        if let Some(name) = written {
            let path = folder.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, json!({"session_api_keys": [KEY]}).to_string()).unwrap();
        }
        let mut child = command(folder.path(), variables).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).await.unwrap();
        let url = line.trim().rsplit_once(" on ").expect("the address").1.to_owned();
        let client = http_client();
        let path = format!("{url}/api/conversations/count");
        assert_eq!(client.get(&path).send().await.unwrap().status(), 401, "{variables:?}");
        assert_eq!(client.get(&path).header("x-session-api-key", KEY).send().await.unwrap().status(), 200);
    }
    for wrong in [("OH_SESSION_API_KEYS", "k"), ("OH_SESSION_API_KEY", "k"), ("OH_SESSION_API_KEYS_1", "k")] {
        let folder = tempfile::tempdir().unwrap();
        let output = command(folder.path(), &[wrong]).output().await.unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && stderr.contains(wrong.0), "{wrong:?}: {stderr}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn no_child_of_the_server_has_its_keys() {
    let keys = format!("[\"{KEY}\"]");
    let server = ServerProcess::with(&[
        ("OH_SESSION_API_KEYS", &keys),
        ("OH_SECRET_KEY", CANARY),
        ("OH_PREVIOUS_SECRET_KEYS_0", CANARY),
        ("OH_TELEMETRY_HTTP_TOKEN", CANARY),
        ("OH_WEBHOOKS", "[]"),
        ("FOR_COMMANDS", "visible"),
    ])
    .await;
    let work = server.path("work");
    let into = |name: &str| server.path(name).display().to_string();
    let calls = json!({"command": format!("env > {}", into("terminal"))}).to_string();
    let model = ModelServer::start([Answer::calls("", &[("c1", "terminal", &calls)]), Answer::text("Done.")]);
    let hook = json!([{"matcher": "*", "hooks": [{"type": "command", "command": format!("env > {}", into("hook"))}]}]);
    let id = server.conversation(&model, &work, json!({"hook_config": {"UserPromptSubmit": hook}})).await;
    server.say(&id);
    let route = json!({"command": format!("env > {}", into("bash"))});
    assert_eq!(server.post("/api/bash/execute_bash_command", route).await.0, 200);
    tokio::time::timeout(PATIENCE, model.arrived(2)).await.unwrap();
    for child in ["terminal", "hook", "bash"] {
        let environment = std::fs::read_to_string(server.path(child)).unwrap();
        assert!(environment.contains("FOR_COMMANDS=visible"), "{child}");
        for secret in [KEY, CANARY, "OH_WEBHOOKS", "OH_SE", "OH_PREV"] {
            assert!(!environment.contains(secret), "{child}: {environment}");
        }
    }
    server.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn socket_clients_without_a_key_are_cut_off_and_cost_little_memory() {
    const CLIENTS: usize = 200;
    const PATHS: [&str; 3] = [
        "/sockets/bash-events",
        "/sockets/events/00000000-0000-4000-8000-000000000007",
        "/sockets/session/00000000-0000-4000-8000-000000000007",
    ];
    const SENT_BYTES: usize = 15 << 20;
    let server = ServerProcess::start().await;
    let address = server.url.trim_start_matches("http://").to_owned();
    let mut clients = Vec::new();
    for number in 0..CLIENTS {
        let mut stream = TcpStream::connect(&address).await.unwrap();
        let path = PATHS[number % PATHS.len()];
        let head = format!(
            "GET {path} HTTP/1.1\r\nhost: {address}\r\nconnection: upgrade\r\nupgrade: websocket\r\n\
             sec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
        );
        stream.write_all(head.as_bytes()).await.unwrap();
        let mut answer = [0; 12];
        stream.read_exact(&mut answer).await.unwrap();
        assert_eq!(&answer, b"HTTP/1.1 101");
        // One text of 15 MiB, masked with zeroes.
        let mut frame = vec![0x81, 0xff];
        frame.extend_from_slice(&(SENT_BYTES as u64).to_be_bytes());
        frame.extend_from_slice(&[0; 4]);
        clients.push(tokio::spawn(async move {
            let mut sent = 0;
            let piece = vec![b'x'; 64 << 10];
            let mut result = stream.write_all(&frame).await;
            while result.is_ok() && sent < SENT_BYTES {
                result = stream.write_all(&piece).await;
                sent += piece.len();
            }
            (result.is_err(), stream)
        }));
    }
    let mut held = Vec::new();
    for client in clients {
        let (is_cut_off, stream) = tokio::time::timeout(PATIENCE, client).await.unwrap().unwrap();
        assert!(is_cut_off, "the server read {SENT_BYTES} bytes from a client without a key");
        held.push(stream);
    }
    let memory = server.memory();
    assert!(memory < 100, "{memory} MiB");
    server.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_server_ends_in_time_and_leaves_no_process_behind() {
    let server = ServerProcess::start().await;
    let pid_of = |name: &str| server.path(name);
    let sleeps = |name: &str| {
        format!("echo $$ > {}; trap '' HUP TERM INT; while :; do sleep 600; done", pid_of(name).display())
    };
    // A model that never answers.
    let silent = ModelServer::start([Answer::of(Content::Events(Vec::new(), End::Silent))]);
    let id = server.conversation(&silent, &server.path("silent"), json!({})).await;
    server.say(&id);
    // A command of an agent, and a command outside every conversation.
    let call = json!({"command": sleeps("terminal.pid")}).to_string();
    let runs = ModelServer::start([Answer::calls("", &[("c1", "terminal", &call)])]);
    let id = server.conversation(&runs, &server.path("runs"), json!({})).await;
    server.say(&id);
    let started = server.post("/api/bash/start_bash_command", json!({"command": sleeps("bash.pid")})).await;
    assert_eq!(started.0, 200);
    // A hook that hangs before the first message, and one at the end of the session.
    let hooked = ModelServer::start([]);
    let hook =
        |name: &str| json!([{"matcher": "*", "hooks": [{"type": "command", "command": sleeps(name)}]}]);
    let more = json!({"hook_config": {"UserPromptSubmit": hook("hook.pid"), "SessionEnd": hook("end.pid")}});
    let id = server.conversation(&hooked, &server.path("hooked"), more).await;
    server.say(&id);
    let names = ["terminal.pid", "bash.pid", "hook.pid"];
    let is_there = |name: &&str| std::fs::read_to_string(pid_of(name)).is_ok_and(|text| text.ends_with('\n'));
    server
        .healthy_during(async {
            tokio::time::timeout(PATIENCE, silent.arrived(1)).await.unwrap();
            until(async || names.iter().all(is_there)).await;
        })
        .await;
    let pids: Vec<String> =
        names.iter().map(|name| std::fs::read_to_string(pid_of(name)).unwrap().trim().to_owned()).collect();
    let folder = server.path("");
    server.end().await;
    let lives = |pid: &String| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        stat.rsplit_once(") ").is_some_and(|(_, state)| !state.starts_with('Z'))
    };
    for (name, pid) in names.iter().zip(&pids) {
        assert!(!lives(pid), "{name} in {}", folder.display());
    }
}
