//! Servers start, end, crash, and share a file.

use std::time::Duration;

use annals::state::FieldChange;
use annals::store::{BaseStateChange, SqlQuery, SqlValue};
use annals::{ConversationId, Store};
use serde_json::{Value, json};

use crate::support::caller::{Served, model, model_runs, until};

fn root(id: &str) -> String {
    format!("/api/conversations/{id}")
}

async fn start_run(server: &Served, id: &str) {
    let content = json!([{"type": "text", "text": "Go"}]);
    let message = json!({"role": "user", "content": content, "run": true});
    server.post(&format!("{}/events", root(id)), message).await.ok();
    until(async || server.kinds(id).await.iter().any(|kind| kind == "ActionEvent")).await;
}

fn set_status(store: &Store, id: &str, status: &str) {
    let fields = vec![FieldChange::set("execution_status", format!("\"{status}\"")).unwrap()];
    let id = ConversationId::new(id).unwrap();
    store.save_base_state(&id, BaseStateChange::new(fields)).unwrap();
}

#[tokio::test]
async fn a_run_is_paused_after_its_step_when_the_server_ends() {
    let mut server = Served::start().await;
    let model = model_runs("echo a > soft.txt; while [ ! -e gate ]; do sleep 0.05; done; echo b >> soft.txt");
    let id = server.conversation(&model).await;
    start_run(&server, &id).await;
    until(async || server.path("work/soft.txt").exists()).await;
    let (address, gate) = (server.address, server.path("work/gate"));
    let opened = async {
        // The server is ending: it accepts no more connections.
        until(async || tokio::net::TcpStream::connect(address).await.is_err()).await;
        std::fs::write(gate, "").unwrap();
    };
    tokio::join!(server.stop(), opened);
    assert_eq!(std::fs::read_to_string(server.path("work/soft.txt")).unwrap(), "a\nb\n");
    let again = Served::on(server.scratch.clone(), |config| config).await;
    assert_eq!(again.wait_until_done(&id).await, "paused");
    let kinds = again.kinds(&id).await;
    assert_eq!(kinds.iter().filter(|kind| *kind == "PauseEvent").count(), 1);
    again.post(&format!("{}/run", root(&id)), json!({})).await.ok();
    until(async || again.wait_until_done(&id).await == "finished").await;
}

#[tokio::test]
async fn a_conversation_left_running_by_a_crash_has_the_status_error_after_the_restart() {
    let (mut server, model) = (Served::start().await, model(&["Hello.", "Again."]));
    let id = server.conversation(&model).await;
    server.say(&id, "Hi").await;
    server.stop().await;
    // The status that a process leaves behind if it ends in the middle of a run.
    set_status(&server.store, &id, "running");
    let again = Served::on(server.scratch.clone(), |config| config).await;
    let info = again.get(&root(&id)).await.ok();
    assert_eq!(info["execution_status"], json!("error"));
    again.say(&id, "More").await;
    // The old status is returned until the run has started.
    until(async || again.wait_until_done(&id).await == "finished").await;
}

#[tokio::test]
async fn the_settings_of_a_conversation_outlive_the_server() {
    let mut server = Served::start().await;
    let model = model(&["Hello."]);
    let mut wanted = server.conversation_request(&model);
    wanted["max_iterations"] = json!(7);
    wanted["stuck_detection"] = json!(false);
    wanted["confirmation_policy"] = json!({"kind": "AlwaysConfirm"});
    wanted["hook_config"] =
        json!({"stop": [{"matcher": "*", "hooks": [{"type": "command", "command": "touch stopped"}]}]});
    let made = server.post("/api/conversations", wanted).await.ok();
    let id = made["id"].as_str().unwrap();
    server.stop().await;
    let again = Served::on(server.scratch.clone(), |config| config).await;
    assert_eq!(again.say(id, "Hi").await, "finished");
    let info = again.get(&root(id)).await.ok();
    for member in ["max_iterations", "stuck_detection", "confirmation_policy", "created_at", "workspace"] {
        assert_eq!(info[member], made[member], "{member}");
    }
    // The stop hook runs. The status may already be `finished` before it is done.
    until(async || again.path("work/stopped").exists()).await;
}

#[tokio::test]
async fn two_servers_share_a_file_and_one_of_them_runs() {
    let one = Served::start().await;
    let other = Served::on(one.scratch.clone(), |config| config).await;
    let model = model_runs("while [ ! -e gate ]; do sleep 0.05; done");
    // One reply for each run, and one more in case the message arrives during a request to the model.
    for _ in 0..3 {
        model.push(crate::support::model_server::Answer::text("More."));
    }
    let id = one.conversation(&model).await;
    // The other server shows the conversation although the first one has it open.
    assert_eq!(other.get(&root(&id)).await.ok()["id"], json!(id));
    let mut socket = other.socket(&format!("/sockets/events/{id}")).await;
    start_run(&one, &id).await;
    let busy = other.post(&format!("{}/run", root(&id)), json!({})).await;
    assert_eq!(busy.status, 409, "{}", busy.text());
    socket.receive_until(|frame| frame["kind"] == "ActionEvent").await;
    // A message to the other server reaches the run of the first one.
    let said = json!({"role": "user", "content": [{"type": "text", "text": "Also this"}], "run": true});
    let path = format!("{}/events", root(&id));
    // The message waits for the command, because a result has to directly follow its call.
    let sending = async { other.post(&path, said).await.ok() };
    let opening = async { std::fs::write(one.path("work/gate"), "").unwrap() };
    tokio::join!(sending, opening);
    until(async || model.seen().last().unwrap().text.contains("Also this")).await;
    for server in [&one, &other] {
        until(async || server.wait_until_done(&id).await == "finished").await;
    }
    let events = async |server: &Served| server.get(&format!("{}/events/search", root(&id))).await.ok();
    // The two requests are not simultaneous, so the log may grow in between.
    until(async || events(&one).await == events(&other).await).await;
    // The other server goes on where the first one stopped.
    assert_eq!(other.say(&id, "Go on").await, "finished");
    assert!(model.seen().last().unwrap().text.contains("Go on"));
    let answer = one.get(&format!("{}/agent_final_response", root(&id))).await.ok();
    assert_eq!(answer, json!({"response": "More."}));
}

#[tokio::test]
async fn concurrent_requests_for_one_id_make_one_conversation() {
    let one = Served::start().await;
    let model = model(&[]);
    let mut wanted = one.conversation_request(&model);
    wanted["conversation_id"] = json!(uuid::Uuid::new_v4().to_string());
    let mut asked = tokio::task::JoinSet::new();
    let one = std::sync::Arc::new(one);
    for _ in 0..8 {
        let (one, wanted) = (one.clone(), wanted.clone());
        asked.spawn(async move { one.post("/api/conversations", wanted).await.status });
    }
    let mut statuses = asked.join_all().await;
    statuses.sort_unstable();
    assert_eq!(statuses, [200, 200, 200, 200, 200, 200, 200, 201]);
}

#[tokio::test(flavor = "multi_thread")]
async fn conversations_requested_concurrently_are_all_made() {
    const TOGETHER: usize = 16;
    const EACH: usize = 16;
    let (server, model) = (std::sync::Arc::new(Served::start().await), model(&[]));
    let wanted = server.conversation_request(&model);
    let mut asked = tokio::task::JoinSet::new();
    for _ in 0..TOGETHER {
        let (server, wanted) = (server.clone(), wanted.clone());
        asked.spawn(async move {
            for _ in 0..EACH {
                let made = server.post("/api/conversations", wanted.clone()).await;
                assert_eq!(made.status, 201, "{}", made.text());
            }
        });
    }
    asked.join_all().await;
    let count = server.get("/api/conversations/count").await.ok();
    assert_eq!(count, json!(TOGETHER * EACH));
}

#[tokio::test]
async fn an_idle_conversation_is_released_and_opened_again() {
    let server = Served::with(|config| config.idle_max(Duration::ZERO)).await;
    let model = model_runs("echo $$ > shell.txt");
    let id = server.conversation(&model).await;
    assert_eq!(server.say(&id, "Go").await, "finished");
    let shell = std::fs::read_to_string(server.path("work/shell.txt")).unwrap();
    let process = std::path::PathBuf::from(format!("/proc/{}", shell.trim()));
    assert!(process.exists(), "its shell is kept for the next command");
    until(async || !process.exists()).await;
    model.push(crate::support::model_server::Answer::text("Again."));
    assert_eq!(server.say(&id, "More").await, "finished");
    let info = server.get(&root(&id)).await.ok();
    assert_eq!((&info["execution_status"], &info["title"]), (&json!("finished"), &Value::Null));
}

#[tokio::test]
async fn mcp_secrets_of_agent_definitions_are_sealed() {
    const CANARIES: [&str; 4] = ["canary-env", "canary-header", "canary-bearer", "canary-alias"];
    let mut server = Served::start().await;
    let model = model(&["Hello.", "Again."]);
    let mut wanted = server.conversation_request(&model);
    let servers = json!({
        "one": {"command": "none", "env": {"TOKEN": CANARIES[0]}},
        "two": {"url": "http://127.0.0.1:1/", "headers": {"Authorization": CANARIES[1]},
                "auth": {"strategy": "bearer", "value": CANARIES[2]}},
    });
    wanted["agent_definitions"] = json!([
        {"name": "helper", "description": "d", "mcp_config": servers},
        {"name": "other", "description": "d", "mcp_servers": {"three": {"env": {"A": CANARIES[3]}}}},
    ]);
    let made = server.post("/api/conversations", wanted).await;
    assert!(!CANARIES.iter().any(|canary| made.text().contains(canary)), "{}", made.text());
    let id = made.ok()["id"].as_str().unwrap().to_owned();
    server.say(&id, "Hi").await;
    let mut meta = Vec::new();
    let known = ConversationId::new(&id).unwrap();
    server.store.read_attachment(&known, "meta.json", &mut meta).unwrap();
    let meta = String::from_utf8(meta).unwrap();
    assert_eq!(meta.matches("gAAAAA").count(), CANARIES.len(), "{meta}");
    let zip = server.get(&format!("/api/file/download-trajectory/{id}")).await;
    assert_eq!(zip.status, 200);
    let zip = super::files::unpacked(&zip.bytes);
    assert!(zip.contains("agent_definitions"));
    for canary in CANARIES {
        assert!(!meta.contains(canary) && !zip.contains(canary), "{canary}");
    }
    assert!(!zip.contains("gAAAAA"));
    server.stop().await;
    let again = Served::on(server.scratch.clone(), |config| config).await;
    assert_eq!(again.say(&id, "Hi").await, "finished");
}

#[tokio::test]
async fn a_restart_changes_no_agent_and_no_secret() {
    let mut server = Served::start().await;
    let model = model(&["Hello.", "Again."]);
    let mut wanted = server.conversation_request(&model);
    wanted["secrets"] = json!({"TOKEN": {"kind": "StaticSecret", "value": "hush-hush"}});
    let made = server.post("/api/conversations", wanted).await.ok();
    let id = made["id"].as_str().unwrap();
    assert_eq!(server.say(id, "Hi").await, "finished");
    server.stop().await;
    let rows = |server: &Served, sql: &str| {
        let query = SqlQuery::new(sql);
        server.store.query(&query).unwrap().rows
    };
    let versions = "SELECT DISTINCT version FROM base_state_changes";
    let before = rows(&server, versions).len();
    let again = Served::on(server.scratch.clone(), |config| config).await;
    assert_eq!(again.say(id, "Hi").await, "finished");
    assert!(rows(&again, versions).len() > before, "the second server has written too");
    // Both fields hold a sealed value, which is another text whenever it is sealed.
    let sealed = "SELECT field, version, instr(value, 'gAAAAA') > 0 FROM base_state_changes \
                  WHERE field IN ('agent', 'agent+', 'secret_registry', 'secret_registry+') ORDER BY field";
    let first = ["agent", "secret_registry"].map(|field| [SqlValue::from(field), 1.into(), 1.into()]);
    assert_eq!(rows(&again, sealed), first);
}

#[tokio::test]
async fn a_conversation_that_one_server_runs_cannot_be_changed_by_another() {
    let server = Served::start().await;
    let model = model_runs("while [ ! -e gate ]; do sleep 0.05; done");
    let id = server.conversation(&model).await;
    start_run(&server, &id).await;
    let other = Served::on(server.scratch.clone(), |config| config).await;
    let before = server.store.conversation(&ConversationId::new(&id).unwrap()).unwrap().title;
    for (method, path, body) in [
        ("DELETE", root(&id), None),
        ("PATCH", root(&id), Some(json!({"title": "Mine now", "tags": {"mine": "now"}}))),
        ("POST", format!("{}/navigate", root(&id)), Some(json!({"event_id": null}))),
        ("POST", format!("{}/run", root(&id)), Some(json!({}))),
    ] {
        let (status, detail) = other.request(method, &path, body).await.refusal();
        assert_eq!(status, 409, "{method} {path}: {detail}");
        if !path.ends_with("/run") {
            let who = format!("process {}, since 20", std::process::id());
            assert!(detail.as_str().unwrap().contains(&who), "{method} {path}: {detail}");
        }
    }
    let row = server.store.conversation(&ConversationId::new(&id).unwrap()).unwrap();
    assert_eq!(row.title, before);
    std::fs::write(server.path("work/gate"), "").unwrap();
    until(async || server.wait_until_done(&id).await == "finished").await;
    // Both servers may change an idle conversation.
    other.request("PATCH", &root(&id), Some(json!({"title": "Ours"}))).await.ok();
    other.request("DELETE", &root(&id), None).await.ok();
    assert_eq!(server.get(&root(&id)).await.status, 404);
}
