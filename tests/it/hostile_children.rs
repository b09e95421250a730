//! Processes that `annals serve` starts: they get none of the server's keys, and they end with the server, however it
//! ends. Temporary files of the server are private.
#![cfg(all(feature = "cli", feature = "server", target_os = "linux"))]

use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, BufReader};

use crate::hostile::{KEY, PATIENCE, ServerProcess, command};
use crate::support::caller::until;
use crate::support::executable::{copy_of_annals, script};
use crate::support::model_server::{Answer, ModelServer};
use crate::support::served::http_client;

const CANARY: &str = "canary-of-the-server";

/// An agent whose model is the test's model server, with the members of `more`.
fn agent(model: &ModelServer, more: Value) -> Value {
    let mut agent = json!({
        "kind": "Agent",
        "llm": {"model": "openai/test", "base_url": format!("{}/v1", model.url()), "api_key": "k",
            "usage_id": "agent", "num_retries": 0},
        "tools": [{"name": "terminal"}],
    });
    for (name, value) in more.as_object().unwrap() {
        agent[name] = value.clone();
    }
    agent
}

/// Makes a script that runs `notes` and then the real program of its name. The path must find the script first.
fn disguise(folder: &Path, name: &str, notes: &str) {
    let path = std::env::var("PATH").unwrap();
    let real =
        path.split(':').map(|folder| Path::new(folder).join(name)).find(|path| path.is_file()).unwrap();
    std::fs::create_dir_all(folder).unwrap();
    script(&folder.join(name), &format!("#!/bin/sh\n{notes}\nexec {} \"$@\"\n", real.display()));
}

fn path_with(folder: &Path) -> String {
    format!("{}:{}", folder.display(), std::env::var("PATH").unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn child_processes_get_no_keys_and_ignore_no_signal() {
    let scratch = tempfile::tempdir().unwrap();
    let (notes, programs) = (scratch.path().join("notes"), scratch.path().join("programs"));
    std::fs::create_dir(&notes).unwrap();
    let into = |name: &str| {
        let note = notes.join(name);
        format!("{{ env; grep SigIgn /proc/self/status; }} > {0}.part && mv {0}.part {0}", note.display())
    };
    // Git gets only a few plain variables, so the path of the note is written into the script.
    disguise(&programs, "git", &into("git"));
    let (keys, path) = (format!("[\"{KEY}\"]"), path_with(&programs));
    let server = ServerProcess::with(&[
        ("PATH", &path),
        ("OH_SESSION_API_KEYS", &keys),
        ("OH_SECRET_KEY", CANARY),
        ("OH_PREVIOUS_SECRET_KEYS_0", CANARY),
        ("OH_TELEMETRY_HTTP_TOKEN", CANARY),
        ("OH_WEBHOOKS", "[]"),
    ])
    .await;
    let work = server.path("work");
    let skill = work.join(".agents/skills/canary");
    std::fs::create_dir_all(&skill).unwrap();
    let text = format!("---\nname: canary\ndescription: d\n---\nIt is !`{}` so.\n", into("skill"));
    std::fs::write(skill.join("SKILL.md"), text).unwrap();
    std::fs::write(work.join("file.txt"), "text").unwrap();
    let terminal = json!({"command": into("terminal")}).to_string();
    let invoke = json!({"name": "canary"}).to_string();
    let model = ModelServer::start([
        Answer::calls("", &[("c1", "terminal", &terminal)]),
        Answer::calls("", &[("c2", "invoke_skill", &invoke)]),
        Answer::text("Done."),
    ]);
    let hook = json!([{"matcher": "*", "hooks": [{"type": "command", "command": into("hook")}]}]);
    let servers = json!({"mcpServers": {"m": {"command": "sh", "args": ["-c", into("mcp")]}}});
    let more = json!({
        "agent": agent(&model, json!({"mcp_config": servers, "agent_context": {"load_project_skills": true}})),
        "hook_config": {"UserPromptSubmit": hook},
    });
    let id = server.conversation(&model, &work, more).await;
    server.say(&id);
    let unused_model = ModelServer::start([]);
    let acp = json!({"agent": {"kind": "ACPAgent", "acp_command": ["sh", "-c", into("acp")]}});
    let id = server.conversation(&unused_model, &server.path("acp"), acp).await;
    server.say(&id);
    let route = json!({"command": into("bash")});
    assert_eq!(server.post("/api/bash/execute_bash_command", route).await.0, 200);
    let folder = work.display();
    server.get(&format!("/api/git/changes?path={folder}")).await;
    let all = ["terminal", "hook", "mcp", "acp", "skill", "bash", "git"];
    let all_written = async || all.iter().all(|name| notes.join(name).exists());
    let seen = tokio::time::timeout(PATIENCE, until(all_written)).await;
    assert!(seen.is_ok(), "{:?}", all.map(|name| (name, notes.join(name).exists())));
    for child in all {
        let environment = std::fs::read_to_string(notes.join(child)).unwrap();
        assert!(environment.contains("PATH="), "{child}");
        let ignored = environment.lines().find_map(|line| line.strip_prefix("SigIgn:")).unwrap().trim();
        let ignored = u64::from_str_radix(ignored, 16).unwrap();
        assert_eq!(ignored & 0b111, 0, "{child} ignores HUP, INT or QUIT: {ignored:b}");
        for secret in [KEY, CANARY, "OH_WEBHOOKS", "OH_SE", "OH_PREV", "OH_TEL"] {
            assert!(!environment.contains(secret), "{child}: {environment}");
        }
    }
    server.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_typed_key_is_in_no_command_line_and_no_child_inherits_it() {
    let folder = tempfile::tempdir().unwrap();
    let (first, second) = ("typed-key-one-0123456789", "typed-key-two-0123456789");
    let mut serve = command(folder.path(), &[]);
    serve.args(["--api-key", first, &format!("--api-key={second}")]);
    let mut child = serve.spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).await.unwrap();
    let url = line.trim().rsplit_once(" on ").expect("the line has the address").1.to_owned();
    let client = http_client();
    let path = format!("{url}/api/conversations/count");
    assert_eq!(client.get(&path).send().await.unwrap().status(), 401);
    for key in [first, second] {
        assert_eq!(client.get(&path).header("x-session-api-key", key).send().await.unwrap().status(), 200);
    }
    // Check every process of this machine: the server, its children and all others.
    let pid = child.id().unwrap();
    let own = std::fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap();
    assert!(own.contains("serve\0--port\0"), "{own:?}");
    for entry in std::fs::read_dir("/proc").unwrap().flatten() {
        let text = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        assert!(!text.contains("typed-key-"), "{text:?}");
    }
    // A command does not get the key either: neither in its environment nor in an inherited open file. The first three
    // files are its own: to read from its standard output would take away what it printed.
    let probe = "env; for open in /proc/self/fd/*; do \
         [ \"${open##*/}\" -gt 2 ] && [ -p \"$open\" ] && timeout 1 head -c 1000 \"$open\"; done; :";
    let request =
        client.post(format!("{url}/api/bash/execute_bash_command")).header("x-session-api-key", first);
    let answer = request.body(json!({"command": probe}).to_string()).send().await.unwrap();
    let printed = answer.text().await.unwrap();
    assert!(printed.contains("PATH=") && !printed.contains("typed-key-"), "{printed}");
    assert!(!printed.contains("GLIBC_TUNABLES"), "the server's own settings are not inherited: {printed}");
    let help = command(folder.path(), &[]).arg("--help").output().await.unwrap();
    let help = String::from_utf8_lossy(&help.stdout).into_owned();
    assert!(help.contains("SESSION_API_KEY=$KEY annals serve") && !help.contains("--handed-keys"), "{help}");
    kill_process(Pid::from_raw(pid.cast_signed()).unwrap(), Signal::TERM).unwrap();
    assert!(child.wait().await.unwrap().success());
}

/// The id of the unprivileged user `nobody`. If the test runs as root, the server runs as this user.
const NOBODY: u32 = 65534;

#[tokio::test(flavor = "multi_thread")]
async fn the_servers_environment_and_memory_are_closed_to_its_own_user() {
    // Root may read everything. So as root, the server runs as another user, in a folder that this user may enter.
    let is_root = rustix::process::geteuid().is_root();
    let folder = if is_root { tempfile::tempdir_in("/tmp") } else { tempfile::tempdir() }.unwrap();
    let program = folder.path().join("annals");
    copy_of_annals(&program);
    let mut serve = tokio::process::Command::new(&program);
    serve.env_clear().env("PATH", std::env::var_os("PATH").unwrap()).env("HOME", folder.path());
    serve.env("OH_SESSION_API_KEYS", format!("[\"{KEY}\"]")).env("OH_SECRET_KEY", CANARY);
    serve.current_dir(folder.path()).args(["serve", "--port", "0"]).kill_on_drop(true);
    if is_root {
        std::os::unix::fs::chown(folder.path(), Some(NOBODY), Some(NOBODY)).unwrap();
        serve.uid(NOBODY).gid(NOBODY);
    }
    let mut child = serve.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).await.unwrap();
    let url = line.trim().rsplit_once(" on ").expect("the line has the address").1.to_owned();
    let pid = child.id().unwrap();
    let probe = format!(
        "id -u; cat /proc/$$/environ; for f in environ mem auxv maps; do cat /proc/{pid}/$f; done 2>&1; ls /proc/{pid}/fd 2>&1"
    );
    let request = http_client();
    let request =
        request.post(format!("{url}/api/bash/execute_bash_command")).header("x-session-api-key", KEY);
    let answer = request.body(json!({"command": probe}).to_string()).send().await.unwrap();
    let printed = answer.text().await.unwrap();
    let user = if is_root { NOBODY } else { rustix::process::geteuid().as_raw() };
    assert!(
        printed.contains(&format!("{user}\\n")) && printed.contains("PATH="),
        "the command must run as the same user: {printed}"
    );
    assert_eq!(printed.matches("Permission denied").count(), 5, "{printed}");
    assert!(!printed.contains(KEY) && !printed.contains(CANARY), "{printed}");
    kill_process(Pid::from_raw(pid.cast_signed()).unwrap(), Signal::TERM).unwrap();
    assert!(child.wait().await.unwrap().success());
}

/// Returns whether the process whose id is in a file is alive.
fn is_alive(file: &Path) -> bool {
    let pid = std::fs::read_to_string(file).unwrap();
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.trim())).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, state)| !state.starts_with('Z'))
}

#[tokio::test(flavor = "multi_thread")]
async fn child_processes_end_with_the_server_however_it_ends() {
    for signal in [Signal::KILL, Signal::TERM] {
        let server = ServerProcess::start().await;
        let pids = server.path("pids");
        std::fs::create_dir(&pids).unwrap();
        let file = |name: &str| pids.join(name);
        // `stays` ignores the signals that can be ignored. `leaves` starts such a process in a session of its own.
        let stays = |name: &str| {
            let file = file(name).display().to_string();
            format!(
                "trap '' HUP TERM INT; echo $$ > {file}.part; mv {file}.part {file}; while :; do sleep 600; done"
            )
        };
        let leaves = |name: &str| {
            format!(
                "setsid sh -c \"$(cat {})\" >/dev/null 2>&1 & exit 0",
                file(&format!("{name}.sh")).display()
            )
        };
        for name in ["bash-left", "terminal-left", "hook-left"] {
            std::fs::write(file(&format!("{name}.sh")), stays(name)).unwrap();
        }
        let terminal = json!({"command": format!("({})", leaves("terminal-left"))}).to_string();
        let stay = json!({"command": stays("terminal")}).to_string();
        let model = ModelServer::start([
            Answer::calls("", &[("c1", "terminal", &terminal)]),
            Answer::calls("", &[("c2", "terminal", &stay)]),
        ]);
        let hook = json!([{"matcher": "*", "hooks": [{"type": "command", "command": leaves("hook-left")}]}]);
        let servers = json!({"mcpServers": {"m": {"command": "sh", "args": ["-c", stays("mcp")]}}});
        let talks = server
            .conversation(&model, &server.path("work"), json!({"hook_config": {"UserPromptSubmit": hook}}))
            .await;
        server.say(&talks);
        let unused_model = ModelServer::start([]);
        let with_server = json!({"agent": agent(&unused_model, json!({"mcp_config": servers}))});
        let waits = server.conversation(&unused_model, &server.path("mcp"), with_server).await;
        server.say(&waits);
        for command in [stays("bash"), leaves("bash-left")] {
            let started = server.post("/api/bash/start_bash_command", json!({"command": command})).await;
            assert_eq!(started.0, 200);
        }
        let all = ["bash", "bash-left", "terminal", "terminal-left", "hook-left", "mcp"];
        let all_written = async || all.iter().all(|name| file(name).exists());
        let seen = tokio::time::timeout(PATIENCE, until(all_written)).await;
        assert!(seen.is_ok(), "{:?}", all.map(|name| (name, file(name).exists())));
        assert!(all.iter().all(|name| is_alive(&file(name))));
        let copies: Vec<(&str, PathBuf)> = all.iter().map(|name| (*name, file(name))).collect();
        if signal == Signal::TERM {
            let kept = tempfile::tempdir().unwrap();
            let copies: Vec<(&str, PathBuf)> =
                copies.iter().map(|(name, file)| (*name, copied(file, kept.path()))).collect();
            server.end().await;
            for (name, file) in &copies {
                assert!(!is_alive(file), "{name} is still alive");
            }
        } else {
            kill_process(Pid::from_raw(server.child.id().unwrap().cast_signed()).unwrap(), signal).unwrap();
            // No process is left that could report when they end.
            until(async || copies.iter().all(|(_, file)| !is_alive(file))).await;
        }
    }
}

fn copied(file: &Path, folder: &Path) -> PathBuf {
    let to = folder.join(file.file_name().unwrap());
    std::fs::copy(file, &to).unwrap();
    to
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stopped_command_leaves_no_process() {
    let server = ServerProcess::start().await;
    let file = server.path("left");
    let left = format!("trap '' TERM; echo $$ > {0}.part; mv {0}.part {0}; exec sleep 600", file.display());
    let command = json!({"command": format!("sh -c \"{}\" & wait", left.replace('$', "\\$"))});
    let (_, started) = server.post("/api/bash/start_bash_command", command).await;
    until(async || file.exists()).await;
    let id = started["id"].as_str().unwrap();
    let (status, _) = server.post(&format!("/api/bash/bash_commands/{id}/stop"), json!({})).await;
    assert_eq!(status, 200);
    until(async || !is_alive(&file)).await;
    server.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn temporary_files_of_a_download_are_private_whatever_the_umask() {
    let scratch = tempfile::tempdir().unwrap();
    let (temporary, programs) = (scratch.path().join("tmp"), scratch.path().join("programs"));
    std::fs::create_dir(&temporary).unwrap();
    let notes = scratch.path().join("notes");
    // Records the modes while the download is made. The top level is enough: other users cannot enter a private folder.
    let look = format!(
        "find {} -mindepth 1 -maxdepth 1 -printf '%m %f\\n' >> {}",
        temporary.display(),
        notes.display()
    );
    disguise(&programs, "git", &look);
    let own = env!("CARGO_BIN_EXE_annals");
    let mut serve =
        command(scratch.path(), &[("PATH", &path_with(&programs)), ("TMPDIR", temporary.to_str().unwrap())]);
    serve.env("OH_SESSION_API_KEYS", format!("[\"{KEY}\"]"));
    let inner = serve.as_std();
    let (envs, cwd) = (inner.get_envs(), inner.get_current_dir().unwrap());
    let mut shell = tokio::process::Command::new("sh");
    shell.env_clear().envs(envs.filter_map(|(name, value)| Some((name, value?)))).current_dir(cwd);
    shell.args(["-c", "umask 000; exec \"$0\" serve --port 0", own]).kill_on_drop(true);
    let mut child = shell.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).await.unwrap();
    let url = line.trim().rsplit_once(" on ").expect("the line has the address").1.to_owned();
    let client = http_client();
    let get = async |path: &str| {
        let request = client.get(format!("{url}{path}")).header("x-session-api-key", KEY).timeout(PATIENCE);
        let answer = request.send().await.unwrap();
        (answer.status().as_u16(), answer.bytes().await.unwrap().len())
    };
    // A large conversation, so that writing it takes a while.
    let talk = "00000000-0000-4000-8000-000000000001";
    let event = |n: usize| json!({"id": format!("event-{n}"), "kind": "PauseEvent", "source": "user", "x": "y".repeat(2000)});
    let events: Value = (0..2000).map(event).collect();
    let request =
        client.post(format!("{url}/api/annals/conversations/{talk}/events")).header("x-session-api-key", KEY);
    assert_eq!(request.body(events.to_string()).send().await.unwrap().status(), 200);
    // Checks every file that exists while the answer is made. At least one must be seen.
    let watched = async |path: String, bytes_min: usize| {
        let (ended, seen) = (AtomicBool::new(false), AtomicUsize::new(0));
        let watching = async {
            while !ended.load(Ordering::Relaxed) {
                for entry in std::fs::read_dir(&temporary).unwrap().flatten() {
                    // The file may have been removed meanwhile.
                    if let Ok(found) = entry.metadata() {
                        assert_eq!(found.mode() & 0o077, 0, "{:?}", entry.path());
                        seen.fetch_add(1, Ordering::Relaxed);
                    }
                }
                tokio::task::yield_now().await;
            }
        };
        let asking = async {
            let answer = get(&path).await;
            ended.store(true, Ordering::Relaxed);
            answer
        };
        let ((), (status, bytes)) = tokio::join!(watching, asking);
        assert!(status == 200 && bytes > bytes_min, "{path}: {status}, {bytes} bytes");
        assert!(seen.load(Ordering::Relaxed) > 0, "no temporary file of {path} was seen");
    };
    // The zip is compressed.
    watched(format!("/api/file/download-trajectory/{talk}"), 500_000).await;
    let work = scratch.path().join("work");
    std::fs::create_dir(&work).unwrap();
    // Random content, which cannot be compressed.
    let mut state = 1_u64;
    let mut noise = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        state.to_be_bytes()[0]
    };
    std::fs::write(work.join("noise"), (0..5_000_000).map(|_| noise()).collect::<Vec<_>>()).unwrap();
    watched(format!("/api/file/archive?format=tar.gz&path={}", work.display()), 4_000_000).await;
    std::fs::remove_file(work.join("noise")).unwrap();
    std::fs::write(work.join("file.txt"), "text").unwrap();
    let made = std::process::Command::new("git").args(["init", "-q"]).current_dir(&work).status().unwrap();
    assert!(made.success());
    let (status, bytes) = get(&format!("/api/file/archive?format=git-delta&path={}", work.display())).await;
    assert!(status == 200 && bytes > 0, "{status}");
    let notes = std::fs::read_to_string(&notes).unwrap();
    assert!(notes.lines().count() >= 1 && notes.lines().all(|line| line.starts_with("700 ")), "{notes}");
    assert_eq!(std::fs::read_dir(&temporary).unwrap().count(), 0, "no temporary file is left");
    kill_process(Pid::from_raw(child.id().unwrap().cast_signed()).unwrap(), Signal::TERM).unwrap();
    assert!(child.wait().await.unwrap().success());
}

#[tokio::test(flavor = "multi_thread")]
async fn temporary_files_of_a_download_are_removed_however_the_server_ends() {
    for signal in [Signal::KILL, Signal::TERM] {
        let scratch = tempfile::tempdir().unwrap();
        let temporary = scratch.path().join("tmp");
        std::fs::create_dir(&temporary).unwrap();
        let left = || std::fs::read_dir(&temporary).unwrap().count();
        let keys = format!("[\"{KEY}\"]");
        let mut server =
            ServerProcess::with(&[("OH_SESSION_API_KEYS", &keys), ("TMPDIR", temporary.to_str().unwrap())])
                .await;
        let talk = "00000000-0000-4000-8000-000000000001";
        let event = |n: usize| json!({"id": format!("event-{n}"), "kind": "PauseEvent", "source": "user", "x": "y".repeat(1000)});
        let events: Value = (0..4000).map(event).collect();
        let (status, answer) = server.post(&format!("/api/annals/conversations/{talk}/events"), events).await;
        assert_eq!(status, 200, "{answer}");
        let path = format!("{}/api/file/download-trajectory/{talk}", server.url);
        // One download may end before the folder is checked, so the downloads are repeated until the server ends.
        let client = server.client.clone();
        let asking = tokio::spawn(async move {
            while client.get(&path).header("x-session-api-key", KEY).send().await.is_ok() {}
        });
        until(async || left() > 0).await;
        kill_process(Pid::from_raw(server.child.id().unwrap().cast_signed()).unwrap(), signal).unwrap();
        server.child.wait().await.unwrap();
        until(async || left() == 0).await;
        asking.await.unwrap();
    }
}
