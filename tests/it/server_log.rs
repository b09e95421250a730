//! The log of `annals serve`: what an operator reads on standard error, and the metrics that belong to it.
#![cfg(all(feature = "cli", feature = "server", target_os = "linux"))]

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::AsyncReadExt as _;

use crate::hostile::{KEY, ServerProcess};
use crate::support::model_server::{Answer, ModelServer};

/// The longest time that a test waits for the server.
const PATIENCE: Duration = Duration::from_secs(300);

const SECRET: &str = "sk-hidden-7431";

/// Ends the server. Returns its standard error.
async fn log(mut server: ServerProcess) -> String {
    let mut stderr = server.child.stderr.take().unwrap();
    let read = tokio::spawn(async move {
        let mut text = String::new();
        stderr.read_to_string(&mut text).await.unwrap();
        text
    });
    server.end().await;
    read.await.unwrap()
}

/// Makes a conversation with a model that is asked twice at most.
async fn conversation(server: &ServerProcess, model: &ModelServer, folder: &Path) -> String {
    let llm = json!({
        "model": "openai/test", "base_url": format!("{}/v1", model.url()), "api_key": SECRET,
        "usage_id": "agent", "num_retries": 2, "retry_min_wait": 0, "retry_max_wait": 0,
    });
    let more = json!({"agent": {"kind": "Agent", "llm": llm, "tools": []}});
    server.conversation(model, folder, more).await
}

/// Asks again and again until the answer is yes. Fails if it is not in time.
async fn until(what: &str, is_so: impl AsyncFn() -> bool) {
    let asking = async {
        while !is_so().await {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(PATIENCE, asking).await.unwrap_or_else(|_| panic!("not in time: {what}"));
}

/// Runs a conversation until it has the status.
async fn run(server: &ServerProcess, id: &str, status: &str) {
    server.say(id);
    let path = format!("/api/conversations/{id}");
    until(status, async || server.get(&path).await.1["execution_status"] == status).await;
}

/// The metrics of a server.
async fn metrics(server: &ServerProcess) -> String {
    let asked = server.client.get(format!("{}/metrics", server.url)).header("x-session-api-key", KEY);
    asked.send().await.unwrap().text().await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn runs_failures_and_requests_are_in_the_log_and_in_the_metrics_and_no_secret_is() {
    let folder = tempfile::tempdir().unwrap();
    let settings = folder.path().join("server.toml");
    std::fs::write(&settings, "[serve]\nlog_format = \"json\"\nlog_requests = true\n").unwrap();
    let webhooks = json!([{"base_url": "http://ann:pa55@127.0.0.1:9/hook?token=pa55", "num_retries": 0}]);
    let server = ServerProcess::with(&[
        ("OH_SESSION_API_KEYS", &format!("[\"{KEY}\"]")),
        ("ANNALS_CONFIG", settings.to_str().unwrap()),
        ("OH_WEBHOOKS", &webhooks.to_string()),
    ])
    .await;
    let busy = Answer::error(429, "too many").header("retry-after", "0");
    let refused = Answer::error(401, &format!("the key {SECRET} is wrong"));
    let model = ModelServer::start([busy, Answer::text("Done"), refused]);
    let id = conversation(&server, &model, &folder.path().join("work")).await;
    run(&server, &id, "finished").await;
    run(&server, &id, "error").await;
    // A run is counted when it has ended, a moment after its status is known.
    let ended = r#"annals_run_seconds_count{status="error"} 1"#;
    until("counted", async || metrics(&server).await.lines().any(|line| line == ended)).await;
    let metrics = metrics(&server).await;
    for line in [
        r#"annals_model_calls_total{model="openai/test",outcome="ok"} 1"#,
        r#"annals_model_calls_total{model="openai/test",outcome="LLMAuthenticationError"} 1"#,
        r#"annals_model_retries_total{model="openai/test"} 1"#,
        r#"annals_run_seconds_count{status="finished"} 1"#,
        r#"annals_webhook_requests_total{outcome="accepted"} 0"#,
    ] {
        assert!(metrics.lines().any(|found| found == line), "{line} is not in\n{metrics}");
    }
    assert!(metrics.contains("annals_disk_free_bytes ") && metrics.contains("annals_webhook_waiting_bytes "));
    let text = log(server).await;
    for secret in [SECRET, KEY, "pa55"] {
        assert!(!text.contains(secret) && !metrics.contains(secret), "{secret} is in\n{text}");
    }
    let lines: Vec<Value> =
        text.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|_| panic!("{line}"))).collect();
    let find = |message: &str, wanted: Value| {
        let fits = |line: &&Value| {
            let mut members = wanted.as_object().unwrap().iter();
            line["message"] == message && members.all(|(name, value)| line[name] == *value)
        };
        lines.iter().find(fits).unwrap_or_else(|| panic!("{message} {wanted} is not in\n{text}"))
    };
    assert!(find("started", json!({"level": "INFO"}))["database"].as_str().unwrap().ends_with("annals.db"));
    find("model call is tried again", json!({"conversation": id, "attempt": 2, "code": "LLMRateLimitError"}));
    find(
        "model call failed",
        json!({"level": "ERROR", "conversation": id, "code": "LLMAuthenticationError"}),
    );
    let ended = find("run ended", json!({"level": "INFO", "conversation": id, "status": "finished"}));
    assert!(ended["seconds"].is_f64() && ended.get("reason").is_none_or(Value::is_null), "{ended}");
    let failed = find("run ended", json!({"level": "WARN", "conversation": id, "status": "error"}));
    assert!(failed["reason"].as_str().is_some_and(|reason| !reason.is_empty()), "{failed}");
    find("webhook failed", json!({"tries": 1}));
    let answered =
        json!({"method": "POST", "path": format!("/api/conversations/{id}/events"), "status": 200});
    assert!(find("answered", answered)["seconds"].is_f64());
    find("ended", json!({}));
}

#[tokio::test(flavor = "multi_thread")]
async fn no_text_of_a_client_or_a_model_makes_a_line_of_its_own() {
    let folder = tempfile::tempdir().unwrap();
    let server = ServerProcess::start().await;
    let forged = "no\n2026-01-01T00:00:00.000Z  INFO forged\r\u{1b}[2J";
    let model = ModelServer::start([Answer::error(400, forged)]);
    let id = conversation(&server, &model, &folder.path().join("work")).await;
    run(&server, &id, "error").await;
    let text = log(server).await;
    assert!(text.contains("model call failed") && text.contains("run ended"), "{text}");
    for line in text.lines() {
        let is_whole = line.starts_with("20") && !line.contains('\u{1b}') && !line.contains('\r');
        assert!(
            is_whole && !line.trim_start_matches(|c| c != ' ').trim_start().starts_with("INFO forged"),
            "{text}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn backups_are_taken_by_schedule_and_failures_are_reported() {
    let folder = tempfile::tempdir().unwrap();
    let (settings, backups) = (folder.path().join("server.toml"), folder.path().join("backups"));
    let text = format!("[serve.backup]\nto = {backups:?}\nevery = \"30min\"\nkeep = 2\n");
    std::fs::write(&settings, text).unwrap();
    let variables = [("ANNALS_CONFIG", settings.to_str().unwrap())];
    let server = ServerProcess::with(&variables).await;
    until("a backup", async || metrics(&server).await.contains("annals_backups_total{outcome=\"taken\"} 1"))
        .await;
    assert!(metrics(&server).await.contains("\nannals_backup_last_seconds 1"));
    let text = log(server).await;
    assert!(text.contains("backup taken") && text.contains("full=true"), "{text}");
    let listed = annals::store::Backup::list(&backups).unwrap();
    assert_eq!(listed.iter().map(|file| file.is_full).collect::<Vec<_>>(), [true]);

    std::fs::remove_dir_all(&backups).unwrap();
    std::fs::write(&backups, "a file where the folder should be").unwrap();
    let server = ServerProcess::with(&variables).await;
    until("a backup", async || metrics(&server).await.contains("annals_backups_total{outcome=\"failed\"} 1"))
        .await;
    let text = log(server).await;
    assert!(text.contains("backup failed") && text.contains("reason="), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn heads_are_signed_by_schedule_and_failures_are_reported() {
    let folder = tempfile::tempdir().unwrap();
    let (settings, heads) = (folder.path().join("server.toml"), folder.path().join("heads"));
    let key = folder.path().join("key.pem");
    let public = annals::audit::proof::Key::make(&key).unwrap().public();
    let text = format!("[serve.heads]\nto = {heads:?}\nsign = {key:?}\nevery = \"30min\"\n");
    std::fs::write(&settings, text).unwrap();
    let variables = [("ANNALS_CONFIG", settings.to_str().unwrap())];
    let server = ServerProcess::with(&variables).await;
    until("a head", async || metrics(&server).await.contains("annals_heads_total{outcome=\"signed\"} 1"))
        .await;
    assert!(metrics(&server).await.contains("\nannals_head_last_seconds 1"));
    let text = log(server).await;
    assert!(text.contains("head signed") && text.contains(&public.to_string()), "{text}");
    let files: Vec<_> = std::fs::read_dir(&heads).unwrap().map(|entry| entry.unwrap().path()).collect();
    let head = annals::audit::proof::SignedHead::parse(&std::fs::read_to_string(&files[0]).unwrap()).unwrap();
    assert!(files.len() == 1 && head.signer == Some(public), "{files:?}");

    std::fs::remove_dir_all(&heads).unwrap();
    std::fs::write(&heads, "a file where the folder should be").unwrap();
    let server = ServerProcess::with(&variables).await;
    until("a failure", async || metrics(&server).await.contains("annals_heads_total{outcome=\"failed\"} 1"))
        .await;
    let text = log(server).await;
    assert!(text.contains("head failed") && text.contains("reason="), "{text}");
}

#[test]
fn nothing_is_written_below_the_wanted_level() {
    let folder = tempfile::tempdir().unwrap();
    for (level, expected) in [("off", false), ("warn", false), ("info", true)] {
        let mut child = Command::new(env!("CARGO_BIN_EXE_annals"))
            .current_dir(folder.path())
            .args(["serve", "--port", "0", "--log-level", level])
            .env_remove("ANNALS_DB")
            .stdout(std::process::Stdio::piped())
            .stderr(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        std::io::BufRead::read_line(&mut std::io::BufReader::new(child.stdout.as_mut().unwrap()), &mut line)
            .unwrap();
        let killed = Command::new("kill").arg(child.id().to_string()).status().unwrap();
        assert!(killed.success());
        let output = child.wait_with_output().unwrap();
        let text = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.success() && text.contains(" ended") == expected, "{level}: {text}");
    }
}
