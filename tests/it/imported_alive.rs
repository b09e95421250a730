//! What was imported while it ran does not pretend to live: its status is shown as the last one known, and what it lacks to
//! go on is named with the option that gives it.
#![cfg(all(feature = "cli", feature = "server"))]

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::cli::Program;
use crate::support::served::Served;

const ID: &str = "dc3e2801-a35e-5001-94a7-d105aced297a";

/// Writes a conversation folder as the reference leaves it when it is killed during a run.
fn killed(program: &Program, change: impl FnOnce(&mut Value)) -> PathBuf {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/conversations/hello-two-turns");
    let folder = program.folder.path().join("left/dc3e2801a35e500194a7d105aced297a");
    fs::create_dir_all(folder.join("events")).unwrap();
    for file in fs::read_dir(golden.join("events")).unwrap() {
        let file = file.unwrap();
        fs::copy(file.path(), folder.join("events").join(file.file_name())).unwrap();
    }
    let mut base: Value = serde_json::from_slice(&fs::read(golden.join("base_state.json")).unwrap()).unwrap();
    base["execution_status"] = json!("running");
    change(&mut base);
    fs::write(folder.join("base_state.json"), base.to_string()).unwrap();
    program.succeed(&["import", folder.to_str().unwrap()]);
    folder
}

#[test]
fn an_imported_running_conversation_is_shown_with_its_last_status_and_age() {
    let program = Program::new();
    killed(&program, |_| ());
    for arguments in [&["list"][..], &["show", "dc3e"], &["state", "dc3e"]] {
        let text = program.succeed(arguments);
        let line =
            text.lines().find(|line| line.contains("was running, ")).unwrap_or_else(|| panic!("{text}"));
        assert!(line.contains(" ago"), "{line}");
    }
    // Programs get the status itself, and whether it is only the last one known.
    let listed = program.json(&["list"]);
    let row = &listed["conversations"][0];
    assert_eq!((&row["status"], &row["is_last_known"]), (&json!("running"), &json!(true)));
    let shown = program.json(&["show", "dc3e"]);
    assert_eq!((&shown["status"], &shown["is_last_known"]), (&json!("running"), &json!(true)));
    let state = program.json(&["state", "dc3e"]);
    assert_eq!((&state["execution_status"], &state["is_last_known"]), (&json!("running"), &json!(true)));
    assert_eq!(program.json(&["state", "dc3e", "--at", "1"])["is_last_known"], json!(false));
    assert_eq!(program.json(&["list", "--status", "running"])["total"], json!(1));
}

#[test]
fn other_statuses_and_conversations_of_this_program_are_shown_as_they_are() {
    let program = Program::new();
    killed(&program, |base| base["execution_status"] = json!("finished"));
    assert!(!program.succeed(&["list"]).contains("was "));
    assert_eq!(program.json(&["list"])["conversations"][0]["is_last_known"], json!(false));
}

/// A process that runs it holds the lock of its file.
#[cfg(unix)]
#[test]
fn while_a_process_runs_it_the_status_is_its_own() {
    let program = Program::new();
    killed(&program, |_| ());
    let store = annals::Store::open(program.folder.path().join("annals.db")).unwrap();
    let host = annals::conversation::Host::new(store);
    let id = annals::ConversationId::new(ID).unwrap();
    assert!(!host.is_run(&id));
    let runs = program.folder.path().join("annals.db-runs");
    fs::create_dir_all(&runs).unwrap();
    let name = uuid::Uuid::new_v5(&uuid::Uuid::NAMESPACE_OID, ID.as_bytes());
    let lock = fs::File::create(runs.join(name.simple().to_string())).unwrap();
    lock.lock().unwrap();
    assert!(host.is_run(&id), "the place of the lock has changed");
    let listed = program.succeed(&["list"]);
    assert!(listed.contains("running") && !listed.contains("was running"), "{listed}");
}

#[test]
fn what_an_imported_conversation_lacks_is_named_with_the_option_that_gives_it() {
    for (change, what, option) in [
        (
            (|base: &mut Value| base["workspace"]["working_dir"] = json!("")) as fn(&mut Value),
            "names no folder to work in",
            "--workspace FOLDER",
        ),
        (
            |base| base["workspace"]["working_dir"] = json!("/annals/was/never/here"),
            "its folder /annals/was/never/here is not on this machine",
            "--workspace FOLDER",
        ),
        (
            |base| drop(base.as_object_mut().unwrap().remove("agent")),
            "names no agent",
            "--model PROVIDER/MODEL",
        ),
    ] {
        let program = Program::new();
        killed(&program, change);
        for arguments in [&["send", "dc3e", "Go on"][..], &["resume", "dc3e"], &["approve", "dc3e"]] {
            let (code, errors) = program.fails(arguments);
            assert_eq!(code, 1, "{errors}");
            assert!(errors.contains(what) && errors.contains(option), "{arguments:?}: {errors}");
        }
    }
    let program = Program::new();
    killed(&program, |base| {
        drop(base.as_object_mut().unwrap().remove("agent"));
        base["workspace"]["working_dir"] = json!("");
    });
    let (_, errors) = program.fails(&["resume", "dc3e"]);
    assert!(errors.contains("--model PROVIDER/MODEL --workspace FOLDER"), "{errors}");
    let program = Program::new();
    killed(&program, |base| base["workspace"]["working_dir"] = json!(""));
    let sent = program.succeed(&["send", "dc3e", "Go on", "--workspace", "here"]);
    assert!(sent.contains("sent"), "{sent}");
    assert!(program.folder.path().join("here").is_dir());
    assert!(!program.succeed(&["list"]).contains("was "), "it is alive again");
}

#[tokio::test]
async fn the_page_is_told_what_is_only_the_last_status_and_why_it_cannot_run() {
    let program = Program::new();
    killed(&program, |base| base["workspace"]["working_dir"] = json!("/annals/was/never/here"));
    let store = annals::Store::open(program.folder.path().join("annals.db")).unwrap();
    let before = store.last_position().unwrap();
    let server = Served::start(&store).await;
    let row = server.json(&format!("/api/annals/conversations/{ID}")).await;
    assert_eq!((&row["status"], &row["is_last_known"]), (&json!("running"), &json!(true)));
    let why = row["cannot_run"].as_str().unwrap();
    assert!(why.contains("is not on this machine") && why.contains("--workspace FOLDER"), "{why}");
    let listed = server.json("/api/annals/conversations").await;
    assert_eq!(listed["conversations"][0]["is_last_known"], json!(true));
    // The reference's routes keep the reference's words.
    let info = server.json(&format!("/api/conversations/{ID}")).await;
    assert_eq!(info["execution_status"], json!("running"));
    // A server repairs what a process left running here, but not what it could never run.
    assert_eq!(store.last_position().unwrap(), before);
}
