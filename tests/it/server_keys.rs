//! Named keys of a server: another process adds and revokes them, each has a role, and what is done with one is
//! recorded under its name.
#![cfg(all(feature = "cli", feature = "server"))]

use std::collections::BTreeMap;
use std::process::Command;

use serde_json::{Value, json};

use crate::cli::Program;
use crate::support::caller::{KEY, Reply, Served, model, model_runs, until};

const ROLES: [&str; 4] = ["read", "approve", "write", "admin"];

/// Runs the program on the server's database, as another process. Returns its exit code, its output and its errors.
fn run(server: &Served, arguments: &[&str]) -> (i32, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_annals"));
    command.arg("--db").arg(server.scratch.database()).args(arguments);
    let done = command.output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (done.status.code().unwrap(), text(done.stdout), text(done.stderr))
}

/// Makes a key and returns it.
fn add(server: &Served, name: &str, role: &str) -> String {
    let (code, output, errors) = run(server, &["keys", "server", "add", name, "--role", role]);
    assert_eq!(code, 0, "{errors}");
    output.trim().to_owned()
}

fn revoke(server: &Served, name: &str) {
    let (code, _, errors) = run(server, &["keys", "server", "revoke", name]);
    assert_eq!(code, 0, "{errors}");
}

async fn send(server: &Served, key: &str, method: &str, path: &str, body: &Value) -> Reply {
    server.send(method, path, &[("x-session-api-key", key)], body.to_string().as_bytes()).await
}

async fn count(server: &Served, key: Option<&str>) -> u16 {
    let headers: Vec<_> = key.map(|key| ("x-session-api-key", key)).into_iter().collect();
    server.send("GET", "/api/conversations/count", &headers, b"").await.status
}

/// Waits until a conversation has finished. The answer to a consent comes before its run.
async fn finished(server: &Served, id: &str) {
    until(async || {
        let info = server.get(&format!("/api/conversations/{id}")).await.ok();
        info["execution_status"] == json!("finished")
    })
    .await;
}

async fn open() -> Served {
    Served::with(|config| config.session_keys(Vec::new())).await
}

#[tokio::test]
async fn a_key_that_another_process_adds_or_revokes_counts_at_the_next_request() {
    let server = open().await;
    assert_eq!(count(&server, None).await, 200);
    let key = add(&server, "ann", "read");
    assert_eq!(count(&server, None).await, 401);
    assert_eq!(count(&server, Some("annals-key-0")).await, 401);
    assert_eq!(count(&server, Some(&key)).await, 200);
    let second = add(&server, "ben", "read");
    assert_eq!((count(&server, Some(&key)).await, count(&server, Some(&second)).await), (200, 200));
    revoke(&server, "ann");
    assert_eq!((count(&server, Some(&key)).await, count(&server, Some(&second)).await), (401, 200));
    // Without a key that can be used, the server is not open to everyone again.
    revoke(&server, "ben");
    assert_eq!((count(&server, Some(&second)).await, count(&server, None).await), (401, 401));
    // The name can be given again, to another key.
    let third = add(&server, "ann", "read");
    assert_eq!((count(&server, Some(&key)).await, count(&server, Some(&third)).await), (401, 200));
}

#[tokio::test]
async fn the_session_key_stays_valid_and_may_do_everything() {
    let server = Served::start().await;
    add(&server, "ann", "read");
    let made = server.post("/api/conversations", server.conversation_request(&model(&[]))).await;
    assert_eq!(made.status, 201, "{}", made.text());
    let access = server.get("/api/annals/access").await.ok();
    assert_eq!(access, json!({"key": null, "role": "admin", "read_only": false}));
    let id = made.json()["id"].as_str().unwrap().to_owned();
    assert_eq!(server.request("DELETE", &format!("/api/conversations/{id}"), None).await.status, 200);
    assert_eq!((count(&server, Some(KEY)).await, count(&server, None).await), (200, 401));
}

/// Every operation of the document, with an answer to a request without content. No such request changes anything: it
/// names things that do not exist.
#[tokio::test]
async fn every_route_is_open_to_the_roles_that_the_document_says() {
    let server = open().await;
    let keys: Vec<(&str, String)> = ROLES.iter().map(|role| (*role, add(&server, role, role))).collect();
    let document = server.send("GET", "/openapi.json", &[], b"").await.ok();
    let mut tried = BTreeMap::new();
    for (path, operations) in document["paths"].as_object().unwrap() {
        let filled =
            path.replace("{conversation_id}", "0e2f6a52-9d3f-4d3f-9c5f-3b9b7f6f0001").replace(['{', '}'], "");
        for (method, operation) in operations.as_object().unwrap() {
            let method = method.to_uppercase();
            let what = format!("{method} {path}");
            let Some(needed) = operation["x-annals-role"].as_str() else {
                let status = server.send(&method, &filled, &[], b"").await.status;
                assert!(status == 200 || status == 404, "{what}: {status}");
                continue;
            };
            let none = server.send(&method, &filled, &[], b"{}").await;
            assert_eq!(none.refusal(), (401, json!("Unauthorized")), "{what}");
            let at = |role: &str| ROLES.iter().position(|known| *known == role).unwrap();
            for (role, key) in &keys {
                let is_allowed = at(role) >= at(needed);
                // An allowed answer of the feed has no end.
                if is_allowed && path.ends_with("/feed") {
                    continue;
                }
                let answer = send(&server, key, &method, &filled, &json!({})).await;
                let refusal = format!("The key {role} has the role {role}; this needs the role {needed}.");
                let is_refused = answer.refusal() == (403, json!(refusal));
                assert_eq!(is_refused, !is_allowed, "{what} {role}: {} {}", answer.status, answer.text());
                assert_ne!(answer.status, 401, "{what} {role}");
            }
            *tried.entry(needed.to_owned()).or_insert(0) += 1;
        }
    }
    assert!(tried.len() == ROLES.len() && tried.values().sum::<i32>() > 150, "{tried:?}");
}

#[tokio::test]
async fn secrets_are_shown_to_the_role_admin_only() {
    let server = open().await;
    let (reader, admin) = (add(&server, "ann", "read"), add(&server, "boss", "admin"));
    for (key, status) in [(&reader, 403), (&admin, 200)] {
        for form in ["plaintext", "encrypted", "nonsense"] {
            let headers = [("x-session-api-key", &**key), ("x-expose-secrets", form)];
            let answer = server.send("GET", "/api/settings", &headers, b"").await;
            let wanted = if status == 200 && form == "nonsense" { 400 } else { status };
            assert_eq!(answer.status, wanted, "{form}: {}", answer.text());
        }
    }
    assert_eq!(send(&server, &reader, "GET", "/api/settings", &json!({})).await.status, 200);
}

#[tokio::test]
async fn a_revoked_keys_sockets_and_feeds_end() {
    let server = open().await;
    let model = model(&[]);
    let id = server.conversation(&model).await;
    let keyless = format!("/sockets/events/{id}");
    let mut before = server.socket_with(&keyless, &[]).await.unwrap();
    assert_eq!(before.receive().await.unwrap()["key"], json!("full_state"));
    let (ann, ben) = (add(&server, "ann", "admin"), add(&server, "ben", "read"));
    // A key is needed now, and this socket has none.
    let (code, _) = before.receive().await.unwrap_err();
    assert_eq!(code, 4001);
    let header = [("x-session-api-key", ann.as_str())];
    let paths = [
        format!("/sockets/events/{id}"),
        format!("/sockets/session/{id}"),
        "/sockets/bash-events".to_owned(),
    ];
    let mut sockets = Vec::new();
    for path in &paths {
        sockets.push(server.socket_with(path, &header).await.unwrap());
    }
    // One shows its key in the first frame.
    let mut late = server.socket_with(&paths[0], &[]).await.unwrap();
    late.say(&json!({"type": "auth", "session_api_key": ann}).to_string()).await;
    assert_eq!(late.receive().await.unwrap()["key"], json!("full_state"));
    sockets.push(late);
    let other = format!("{}?session_api_key={ben}", paths[0]);
    let mut other = server.socket_with(&other, &[]).await.unwrap();
    assert_eq!(other.receive().await.unwrap()["key"], json!("full_state"));
    let feed = tokio::spawn({
        let (address, ann) = (server.address, ann.clone());
        async move {
            use tokio::io::{AsyncReadExt, AsyncWriteExt};
            let mut stream = tokio::net::TcpStream::connect(address).await.unwrap();
            let head = format!(
                "GET /api/annals/feed HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\nx-session-api-key: {ann}\r\n\r\n"
            );
            stream.write_all(head.as_bytes()).await.unwrap();
            let mut text = String::new();
            stream.read_to_string(&mut text).await.unwrap();
            text
        }
    });
    revoke(&server, "ann");
    for mut socket in sockets {
        let closed = loop {
            match socket.receive().await {
                Ok(_) => {}
                Err(closed) => break closed,
            }
        };
        assert_eq!(closed.0, 4001, "{closed:?}");
    }
    let feed = feed.await.unwrap();
    assert!(feed.contains("event: begin") || feed.starts_with("HTTP/1.1 401"), "{feed}");
    // The socket of the other key is still open.
    server.store.set_title(&annals::ConversationId::new(&id).unwrap(), Some("New")).unwrap();
    other.say("{}").await;
    assert_eq!(other.receive().await.unwrap()["code"], json!("Forbidden"));
}

#[tokio::test]
async fn a_socket_takes_messages_from_the_role_write_only() {
    let server = Served::start().await;
    let model = model(&["Hello."]);
    let id = server.conversation(&model).await;
    let (reader, writer) = (add(&server, "ann", "read"), add(&server, "ben", "write"));
    let message = json!({"role": "user", "content": "Hi"}).to_string();
    for (key, is_taken) in [(&reader, false), (&writer, true)] {
        let path = format!("/sockets/events/{id}");
        let mut socket = server.socket_with(&path, &[("x-session-api-key", key)]).await.unwrap();
        socket.receive().await.unwrap();
        socket.say(&message).await;
        let kind = if is_taken { "MessageEvent" } else { "ServerErrorEvent" };
        let frame = socket.receive_until(|frame| frame["kind"] == *kind).await;
        assert_eq!(frame["code"] == json!("Forbidden"), !is_taken, "{frame}");
    }
    // The socket of commands is the machine's.
    for (key, status) in [(&reader, 403), (&writer, 403), (&"wrong".to_owned(), 403)] {
        let opened = server.socket_with("/sockets/bash-events", &[("x-session-api-key", key)]).await;
        assert_eq!(opened.err(), Some(status));
    }
}

#[tokio::test]
async fn decisions_and_deletions_are_recorded_under_the_name_of_the_key() {
    let server = Served::start().await;
    let (ann, ben) = (add(&server, "ann", "approve"), add(&server, "ben", "approve"));
    let boss = add(&server, "boss", "admin");
    let waiting = async |command: &str| {
        let model = model_runs(command);
        let mut wanted = server.conversation_request(&model);
        wanted["confirmation_policy"] = json!({"kind": "AlwaysConfirm"});
        let made = server.post("/api/conversations", wanted).await.ok();
        let id = made["id"].as_str().unwrap().to_owned();
        assert_eq!(server.say(&id, "Go").await, "waiting_for_confirmation");
        (id, model)
    };
    let respond = |id: &str| format!("/api/conversations/{id}/events/respond_to_confirmation");
    let (granted, _model) = waiting("echo yes").await;
    send(&server, &ann, "POST", &respond(&granted), &json!({"accept": true})).await.ok();
    finished(&server, &granted).await;
    let (denied, _model) = waiting("echo no").await;
    send(&server, &ben, "POST", &respond(&denied), &json!({"accept": false})).await.ok();
    let (own, _model) = waiting("echo own").await;
    server.post(&respond(&own), json!({"accept": true})).await.ok();
    finished(&server, &own).await;

    // Who began a conversation with a key is known; with the session key it is the user who runs the server.
    let eve = add(&server, "eve", "write");
    let begun = send(&server, &eve, "POST", "/api/conversations", &server.conversation_request(&model(&[])))
        .await
        .ok();
    let path = format!("/api/annals/conversations/{}", begun["id"].as_str().unwrap());
    assert_eq!(server.get(&path).await.ok()["started_by"], json!("eve"));
    let others = server.get("/api/annals/conversations?started_by=eve&source=annals").await.ok();
    assert_eq!((&others["total"], &others["conversations"][0]["id"]), (&json!(1), &begun["id"]));

    let report = server.get("/api/annals/reports/confirmations").await.ok();
    let columns: Vec<&str> =
        report["columns"].as_array().unwrap().iter().map(|column| column.as_str().unwrap()).collect();
    let at = |name: &str| columns.iter().position(|column| *column == name).unwrap();
    let decided = |id: &str| {
        let mut rows = report["rows"].as_array().unwrap().iter();
        let row = rows.find(|row| row[at("conversation_id")] == *id).unwrap();
        (row[at("decision")].clone(), row[at("decided_by")].as_str().unwrap().to_owned())
    };
    let (decision, by) = decided(&granted);
    assert!(decision == "granted" && by.starts_with("ann (server key)"), "{decision} {by}");
    let (decision, by) = decided(&denied);
    assert!(decision == "denied" && by.starts_with("ben (server key)"), "{decision} {by}");
    // With the session key it is the user who runs the server.
    let (decision, by) = decided(&own);
    assert!(decision == "granted" && !by.contains("(server key)"), "{decision} {by}");

    send(&server, &boss, "DELETE", &format!("/api/conversations/{own}"), &json!({})).await.ok();
    let acts = server.get("/api/annals/admin-log").await.ok();
    let act = acts.as_array().or(acts["acts"].as_array()).unwrap().last().unwrap().clone();
    assert_eq!(act["act"], json!("delete"), "{act}");
    assert!(act.to_string().contains("boss (server key)"), "{act}");
}

/// The status is known a moment before the run that asks has ended.
#[tokio::test]
async fn an_answer_that_comes_as_soon_as_the_status_is_known_is_not_lost() {
    let server = Served::start().await;
    let ann = add(&server, "ann", "approve");
    for round in 0..20 {
        let model = model_runs("echo yes");
        let mut wanted = server.conversation_request(&model);
        wanted["confirmation_policy"] = json!({"kind": "AlwaysConfirm"});
        let made = server.post("/api/conversations", wanted).await.ok();
        let id = made["id"].as_str().unwrap();
        let message = json!({"role": "user", "content": [{"type": "text", "text": "Go"}], "run": true});
        server.post(&format!("/api/conversations/{id}/events"), message).await.ok();
        // Without a pause in between.
        let path = format!("/api/conversations/{id}");
        let asking = async {
            while server.get(&path).await.ok()["execution_status"] != json!("waiting_for_confirmation") {}
        };
        tokio::time::timeout(std::time::Duration::from_secs(120), asking).await.expect("it never waits");
        let respond = format!("{path}/events/respond_to_confirmation");
        let answered = send(&server, &ann, "POST", &respond, &json!({"accept": true})).await;
        assert_eq!(answered.status, 200, "round {round}: {}", answered.text());
        finished(&server, id).await;
    }
}

/// Consent to nothing is a run, which is more than an answer.
#[tokio::test]
async fn the_role_approve_cannot_run_a_conversation_by_consenting() {
    let server = Served::start().await;
    let model = model(&["Hello."]);
    let id = server.conversation(&model).await;
    let message = json!({"role": "user", "content": [{"type": "text", "text": "Hi"}]});
    server.post(&format!("/api/conversations/{id}/events"), message).await.ok();
    let ann = add(&server, "ann", "approve");
    let respond = format!("/api/conversations/{id}/events/respond_to_confirmation");
    let refused = send(&server, &ann, "POST", &respond, &json!({"accept": true})).await;
    assert_eq!(refused.status, 409, "{}", refused.text());
    assert_eq!(server.get(&format!("/api/conversations/{id}")).await.ok()["execution_status"], json!("idle"));
}

#[tokio::test]
async fn metrics_count_requests_by_the_names_of_the_keys_that_exist() {
    let server = Served::start().await;
    let (ann, ben) = (add(&server, "ann", "read"), add(&server, "ben", "read"));
    for key in [&ann, &ben] {
        assert_eq!(count(&server, Some(key)).await, 200);
    }
    assert_eq!(send(&server, &ann, "PATCH", "/api/settings", &json!({})).await.status, 403);
    let metrics = async || {
        let bearer = format!("Bearer {ann}");
        let answer = server.send("GET", "/metrics", &[("authorization", &bearer)], b"").await;
        assert_eq!(answer.status, 200);
        answer.text()
    };
    let text = metrics().await;
    for line in [
        r#"annals_key_requests_total{key="ann",status="200"} 1"#,
        r#"annals_key_requests_total{key="ann",status="403"} 1"#,
        r#"annals_key_requests_total{key="ben",status="200"} 1"#,
    ] {
        assert!(text.lines().any(|found| found == line), "{line} is not in\n{text}");
    }
    revoke(&server, "ben");
    let text = metrics().await;
    assert!(!text.contains(r#"key="ben""#) && !text.contains(&ann), "{text}");
}

#[tokio::test]
async fn without_a_key_a_foreign_page_is_refused_until_there_is_one() {
    let server = open().await;
    let foreign = ("origin", "http://evil.example");
    let ask = async |headers: &[(&str, &str)]| {
        server.send("GET", "/api/conversations/count", headers, b"").await.status
    };
    assert_eq!(ask(&[foreign]).await, 403);
    let key = add(&server, "ann", "read");
    assert_eq!((ask(&[foreign]).await, ask(&[foreign, ("x-session-api-key", &key)]).await), (401, 200));
}

#[test]
fn the_program_prints_a_key_once_and_stores_its_digest_only() {
    let program = Program::new();
    let added = program.run(&["keys", "server", "add", "ann", "--role", "approve"]);
    let key = String::from_utf8(added.stdout).unwrap().trim().to_owned();
    assert!(key.starts_with("annals-key-") && key.len() == 11 + 64, "{key}");
    let remark = String::from_utf8(added.stderr).unwrap();
    assert!(remark.contains("X-Session-API-Key") && !remark.contains(&key), "{remark}");
    for file in std::fs::read_dir(program.folder.path()).unwrap() {
        let bytes = std::fs::read(file.unwrap().path()).unwrap();
        let random = key.rsplit('-').next().unwrap().as_bytes();
        assert!(!bytes.windows(random.len()).any(|window| window == random));
    }
    let other = program.json(&["keys", "server", "add", "ben", "--role", "read"]);
    assert_eq!((&other["name"], &other["role"]), (&json!("ben"), &json!("read")));
    assert!(other["key"].as_str().is_some_and(|other| other != key));
    let (code, errors) = program.fails(&["keys", "server", "add", "ann", "--role", "read"]);
    assert!(code == 1 && errors.contains("annals keys server revoke ann"), "{errors}");
    for wrong in ["", "a b", "a\"b", "ü", &"x".repeat(65)] {
        let (code, errors) = program.fails(&["keys", "server", "add", wrong, "--role", "read"]);
        assert!(code == 1 && errors.contains("1 to 64"), "{wrong}: {errors}");
    }
    program.succeed(&["keys", "server", "revoke", "ann"]);
    let (code, errors) = program.fails(&["keys", "server", "revoke", "ann"]);
    assert!(code == 1 && errors.contains("annals keys server list"), "{errors}");
    let list = program.succeed(&["keys", "server", "list"]);
    let lines: Vec<&str> = list.lines().collect();
    assert!(lines.iter().any(|line| line.contains("ann") && line.contains("approve")), "{list}");
    assert!(lines.iter().any(|line| line.contains("ben") && line.ends_with('-')), "{list}");
    assert!(!list.contains(&key));
    // The administrative log has both acts, with the user who did them.
    let log = program.succeed(&["--json", "admin-log", "--receipts"]);
    let acts: Vec<Value> = log.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let kinds: Vec<&str> = acts.iter().map(|act| act["act"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["add-key", "add-key", "revoke-key"]);
    assert!(acts.iter().all(|act| act["receipts"][0]["name"].is_string()), "{log}");
    assert!(log.contains("uid") || cfg!(not(unix)), "{log}");
    let shown = program.succeed(&["admin-log"]);
    assert!(shown.contains("revoke-key ann (approve)"), "{shown}");
    program.succeed(&["verify"]);
}

#[test]
fn a_key_that_was_made_by_another_program_is_found() {
    let program = Program::new();
    program.succeed(&["keys", "server", "add", "ann", "--role", "read"]);
    let db = rusqlite::Connection::open(program.folder.path().join("annals.db")).unwrap();
    let forged = "UPDATE server_key SET role = 'admin'";
    assert!(db.execute_batch(forged).is_err(), "the guard");
    db.execute_batch("DROP TRIGGER server_key_update_guard").unwrap();
    db.execute_batch(forged).unwrap();
    drop(db);
    let output = program.run(&["verify"]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.code() != Some(0) && text.contains("key 1 of a server"), "{text}");
}

#[tokio::test]
async fn a_key_is_refused_in_every_place_after_its_revocation() {
    let server = open().await;
    let key = add(&server, "ann", "admin");
    until(async || count(&server, Some(&key)).await == 200).await;
    revoke(&server, "ann");
    let bearer = format!("Bearer {key}");
    let cookie = format!("oh_workspace_session_key={key}");
    let file = "/api/conversations/0e2f6a52-9d3f-4d3f-9c5f-3b9b7f6f0001/workspace/a";
    for (path, header) in [
        ("/api/settings", ("x-session-api-key", key.as_str())),
        ("/metrics", ("authorization", &bearer)),
        ("/v1/models", ("authorization", &bearer)),
        (file, ("cookie", &cookie)),
    ] {
        assert_eq!(server.send("GET", path, &[header], b"").await.status, 401, "{path}");
    }
    let opened = server.socket_with(&format!("/sockets/bash-events?session_api_key={key}"), &[]).await;
    assert_eq!(opened.err(), Some(403));
}
