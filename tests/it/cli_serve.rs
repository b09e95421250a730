//! `annals serve` as a program: it replaces the reference's server, uses its folders, and ends on a signal.
#![cfg(all(feature = "cli", feature = "server", unix))]

use std::io::{BufRead as _, BufReader, Read as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use reqwest::StatusCode;
use serde_json::Value;

use crate::cli::Program;
use crate::support::served::http_client;

const KEY: &str = "session-key";

/// A running server and its address.
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
        let url = line.trim().rsplit_once(" on ").expect("the line ends with the address").1.to_owned();
        Self { child, url }
    }

    async fn ask(&self, path: &str, key: &str) -> (StatusCode, Value) {
        let asked = http_client().get(format!("{}{path}", self.url)).header("x-session-api-key", key);
        let answer = asked.send().await.unwrap();
        (answer.status(), answer.json().await.unwrap())
    }

    /// Ends the server with a signal, as a service manager does. Returns its standard error.
    fn end(mut self) -> String {
        let killed = Command::new("kill").arg(self.child.id().to_string()).status().unwrap();
        assert!(killed.success());
        assert!(self.child.wait().unwrap().success());
        let mut errors = String::new();
        self.child.stderr.take().unwrap().read_to_string(&mut errors).unwrap();
        errors
    }
}

/// Makes a conversation folder as the reference leaves it, and a folder that holds only long tool outputs.
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
async fn the_references_folders_are_reported_and_imported_on_request() {
    let program = Program::new();
    folders(&program);
    let serving = Serving::start(&program, &[]);
    assert_eq!(serving.ask("/api/conversations/count", KEY).await, (StatusCode::OK, 0.into()));
    assert_eq!(serving.ask("/api/conversations/count", "another").await.0, StatusCode::UNAUTHORIZED);
    let errors = serving.end();
    assert!(
        errors.contains("1 conversation folder under") && errors.contains("--import-folders"),
        "{errors}"
    );

    let serving = Serving::start(&program, &["--import-folders"]);
    assert_eq!(serving.ask("/api/conversations/count", KEY).await, (StatusCode::OK, 1.into()));
    let (status, info) = serving.ask("/api/conversations/dc3e2801-a35e-5001-94a7-d105aced297a", KEY).await;
    assert_eq!((status, &info["execution_status"]), (StatusCode::OK, &"finished".into()));
    assert!(serving.end().contains("1 conversation under"));

    // The conversation is imported now. There is no hint, and a second import adds nothing.
    let errors = Serving::start(&program, &[]).end();
    assert!(!errors.contains("--import-folders"), "{errors}");
    let errors = Serving::start(&program, &["--import-folders"]).end();
    assert!(errors.contains("0 new events"), "{errors}");
}

/// A service manager's unit file often sets a variable to the empty string.
#[tokio::test(flavor = "multi_thread")]
async fn an_empty_variable_counts_as_unset() {
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
    // The settings file has priority over the default.
    std::fs::write(program.folder.path().join("server.toml"), "[serve]\nconversations_dir = \"empty\"\n")
        .unwrap();
    let serving = Serving::start_with(&program, &["--config", "server.toml"], &EMPTY);
    let errors = serving.end();
    assert!(!errors.contains("conversation folder"), "{errors}");
}

#[test]
fn another_address_needs_a_key_or_without_key() {
    let program = Program::new();
    let asked = ["serve", "--host", "0.0.0.0", "--port", "0"];
    let (code, errors) = program.fails(&asked);
    assert!(code != 0 && errors.contains("--without-key"), "{errors}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_settings_file_sets_what_the_command_line_does_not() {
    let program = Program::new();
    let file = program.folder.path().join("server.toml");
    let text = "model = \"openai/gpt-5\"\n[serve]\nhost = \"192.0.2.1\"\nport = 1\napi_keys = [\"from-the-file\"]\n\
                max_concurrent_runs = 3\n";
    std::fs::write(&file, text).unwrap();
    // The address and the port of the command line have priority. The key comes from the file.
    let serving = Serving::start(&program, &["--host", "127.0.0.1", "--config", "server.toml"]);
    assert_eq!(serving.ask("/api/conversations/count", "from-the-file").await.0, StatusCode::OK);
    assert_eq!(serving.ask("/api/conversations/count", "another").await.0, StatusCode::UNAUTHORIZED);
    serving.end();
}

#[test]
fn an_invalid_settings_file_is_reported_without_its_keys() {
    let program = Program::new();
    let refusal = |text: &str| {
        std::fs::write(program.folder.path().join("server.toml"), text).unwrap();
        let (code, errors) = program.fails(&["serve", "--config", "server.toml"]);
        assert_eq!(code, 1, "{errors}");
        errors
    };
    let errors = refusal("[serve]\nprot = 8000\n");
    assert!(errors.contains("server.toml") && errors.contains("prot"), "{errors}");
    let errors = refusal("[serve]\napi_keys = \"sk-very-secret\"\n");
    assert!(
        errors.contains("the value of api_keys has the wrong type") && !errors.contains("very-secret"),
        "{errors}"
    );
    let errors = refusal("[serve.backup]\nto = \"backups\"\nevery = 5\n");
    assert!(errors.contains("invalid type") && errors.contains("for key \"serve.backup.every\""), "{errors}");
    let errors = refusal("[serve]\nlisten = \"nowhere\"\n");
    assert!(
        errors.contains("it is none of 127.0.0.1:8000") && errors.contains("\"serve.listen\""),
        "{errors}"
    );
    let (_, errors) = program.fails(&["serve", "--config", "nowhere.toml"]);
    assert!(errors.contains("there is no file nowhere.toml"), "{errors}");
}
