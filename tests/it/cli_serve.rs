//! `annals serve` as a program: in the place of the reference's server, with its folders, until it is told to end.
#![cfg(all(feature = "cli", feature = "server", unix))]

use std::io::{BufRead as _, BufReader, Read as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use reqwest::StatusCode;
use serde_json::Value;

use crate::cli::Program;

const KEY: &str = "session-key";

/// A server that runs, and where it is.
struct Serving {
    child: Child,
    url: String,
}

impl Serving {
    fn start(program: &Program, more: &[&str]) -> Self {
        Self::start_with(program, more, &[])
    }

    fn start_with(program: &Program, more: &[&str], variables: &[(&str, &str)]) -> Self {
        let folder = program.folder.path();
        let mut command = Command::new(env!("CARGO_BIN_EXE_annals"));
        command.env_clear().env("PATH", std::env::var_os("PATH").unwrap()).env("HOME", folder.join("home"));
        command.env("OH_CONVERSATIONS_PATH", folder.join("conversations")).env("OH_SESSION_API_KEYS_0", KEY);
        command.envs(variables.iter().copied());
        command.current_dir(folder).args(["serve", "--port", "0"]).args(more);
        let mut child =
            command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let url = line.trim().rsplit_once(" on ").expect("where it is").1.to_owned();
        Self { child, url }
    }

    async fn ask(&self, path: &str, key: &str) -> (StatusCode, Value) {
        // The client could speak TLS and wants to know with what, though nothing here does.
        let _there_already = rustls::crypto::ring::default_provider().install_default();
        let client = reqwest::Client::builder().no_proxy().build().unwrap();
        let asked = client.get(format!("{}{path}", self.url)).header("x-session-api-key", key);
        let answer = asked.send().await.unwrap();
        (answer.status(), answer.json().await.unwrap())
    }

    /// Tells it to end, as a service manager does; answers what it said beside its answers.
    fn end(mut self) -> String {
        let told = Command::new("kill").arg(self.child.id().to_string()).status().unwrap();
        assert!(told.success());
        assert!(self.child.wait().unwrap().success());
        let mut said = String::new();
        self.child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
        said
    }
}

/// A folder as the reference leaves it, and one in which tools keep what is long.
fn folders(program: &Program) {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/conversations/hello-two-turns");
    let target = program.folder.path().join("conversations/dc3e2801a35e500194a7d105aced297a");
    std::fs::create_dir_all(target.join("events")).unwrap();
    for name in ["base_state.json", "events"] {
        let from = golden.join(name);
        let files = if from.is_dir() {
            std::fs::read_dir(&from).unwrap().map(|file| file.unwrap().path()).collect()
        } else {
            vec![from]
        };
        for file in files {
            std::fs::copy(&file, target.join(file.strip_prefix(&golden).unwrap())).unwrap();
        }
    }
    std::fs::create_dir_all(program.folder.path().join("conversations/0af3/observations")).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn the_references_folders_are_offered_and_taken_in_when_asked_for() {
    let program = Program::new();
    folders(&program);
    let serving = Serving::start(&program, &[]);
    assert_eq!(serving.ask("/api/conversations/count", KEY).await, (StatusCode::OK, 0.into()));
    assert_eq!(serving.ask("/api/conversations/count", "another").await.0, StatusCode::UNAUTHORIZED);
    let said = serving.end();
    assert!(said.contains("1 conversation folder under") && said.contains("--import-folders"), "{said}");

    let serving = Serving::start(&program, &["--import-folders"]);
    assert_eq!(serving.ask("/api/conversations/count", KEY).await, (StatusCode::OK, 1.into()));
    let (status, info) = serving.ask("/api/conversations/dc3e2801-a35e-5001-94a7-d105aced297a", KEY).await;
    assert_eq!((status, &info["execution_status"]), (StatusCode::OK, &"finished".into()));
    assert!(serving.end().contains("1 conversation under"));

    // It is there now: nothing is offered, and taking it in again adds nothing.
    let said = Serving::start(&program, &[]).end();
    assert!(!said.contains("--import-folders"), "{said}");
    let said = Serving::start(&program, &["--import-folders"]).end();
    assert!(said.contains("0 new events"), "{said}");
}

/// A unit of a service manager often sets a variable to nothing.
#[tokio::test(flavor = "multi_thread")]
async fn an_empty_variable_is_one_that_is_not_set() {
    const EMPTY: [(&str, &str); 8] = [
        ("EXTENSIONS_PATH", ""),
        ("OH_CONVERSATIONS_PATH", ""),
        ("OH_CONVERSATION_IDLE_TTL_SECONDS", ""),
        ("OH_CONVERSATION_WORKTREE_ROOT", ""),
        ("OH_MAX_CONCURRENT_RUNS", ""),
        ("OH_PERSISTENCE_DIR", ""),
        ("OH_WEBHOOKS", ""),
        ("OH_WORKSPACE_PATH", ""),
    ];
    let program = Program::new();
    folders(&program);
    // The default is the folder beside the database.
    let serving = Serving::start_with(&program, &["--import-folders"], &EMPTY);
    assert_eq!(serving.ask("/api/conversations/count", KEY).await, (StatusCode::OK, 1.into()));
    assert_eq!(serving.ask("/api/settings", KEY).await.0, StatusCode::OK);
    serving.end();
    // What the file of settings says counts more than the default.
    std::fs::write(program.folder.path().join("server.toml"), "[serve]\nconversations_dir = \"empty\"\n")
        .unwrap();
    let serving = Serving::start_with(&program, &["--config", "server.toml"], &EMPTY);
    let said = serving.end();
    assert!(!said.contains("conversation folder"), "{said}");
}

#[test]
fn other_addresses_want_a_key_or_a_word() {
    let program = Program::new();
    let asked = ["serve", "--host", "0.0.0.0", "--port", "0"];
    let (code, errors) = program.fails(&asked);
    assert!(code != 0 && errors.contains("--without-key"), "{errors}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_file_of_settings_says_what_nobody_typed() {
    let program = Program::new();
    let file = program.folder.path().join("server.toml");
    let text = "model = \"openai/gpt-5\"\n[serve]\nhost = \"192.0.2.1\"\nport = 1\napi_keys = [\"from-the-file\"]\n\
                max_concurrent_runs = 3\n";
    std::fs::write(&file, text).unwrap();
    // The address and the port are typed and count more; the key is the file's.
    let serving = Serving::start(&program, &["--host", "127.0.0.1", "--config", "server.toml"]);
    assert_eq!(serving.ask("/api/conversations/count", "from-the-file").await.0, StatusCode::OK);
    assert_eq!(serving.ask("/api/conversations/count", "another").await.0, StatusCode::UNAUTHORIZED);
    serving.end();
}

#[test]
fn a_wrong_file_of_settings_is_told_of_without_its_keys() {
    let program = Program::new();
    let refusal = |text: &str| {
        std::fs::write(program.folder.path().join("server.toml"), text).unwrap();
        let (code, said) = program.fails(&["serve", "--config", "server.toml"]);
        assert_eq!(code, 1, "{said}");
        said
    };
    let said = refusal("[serve]\nprot = 8000\n");
    assert!(said.contains("server.toml") && said.contains("prot"), "{said}");
    let said = refusal("[serve]\napi_keys = \"sk-very-secret\"\n");
    assert!(
        said.contains("the value of api_keys has the wrong type") && !said.contains("very-secret"),
        "{said}"
    );
    let (_, said) = program.fails(&["serve", "--config", "nowhere.toml"]);
    assert!(said.contains("there is no file nowhere.toml"), "{said}");
}
