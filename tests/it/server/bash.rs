//! Shell commands outside of conversations, and in the workspaces of conversations.

use serde_json::{Value, json};
use uuid::Uuid;

use crate::support::caller::{Served, model, until};

async fn run(server: &Served, root: &str, body: Value) -> Value {
    server.post(&format!("{root}/bash/execute_bash_command"), body).await.ok()
}

#[tokio::test]
async fn a_command_is_started_followed_and_stopped() {
    let server = Served::start().await;
    let begun =
        server.post("/api/bash/start_bash_command", json!({"command": "echo begun; sleep 600"})).await.ok();
    let id = begun["id"].as_str().unwrap();
    assert_eq!((&begun["kind"], &begun["timeout"], id.len()), (&json!("BashCommand"), &json!(300), 32));
    let stop = format!("/api/bash/bash_commands/{id}/stop");
    assert_eq!(server.post(&stop, json!({})).await.ok(), json!({"success": true}));
    let search = format!("/api/bash/bash_events/search?command_id__eq={id}&kind__eq=BashOutput");
    let last = async || server.get(&search).await.ok()["items"].as_array().unwrap().last().cloned();
    until(async || last().await.is_some()).await;
    assert_eq!(last().await.unwrap()["exit_code"], json!(-15));
    // The command has ended. To stop it again succeeds.
    assert_eq!(server.post(&stop, json!({})).await.status, 200);
    let strange = format!("/api/bash/bash_commands/{}/stop", Uuid::new_v4());
    assert_eq!(server.post(&strange, json!({})).await.status, 404);
    assert_eq!(server.post("/api/bash/bash_commands/nope/stop", json!({})).await.status, 422);
}

#[tokio::test]
async fn a_command_reports_both_streams_and_its_exit_code() {
    let server = Served::start().await;
    let output = run(&server, "/api", json!({"command": "echo out; echo err >&2; exit 3"})).await;
    assert_eq!(
        [&output["stdout"], &output["stderr"], &output["exit_code"], &output["order"]],
        [&json!("out\n"), &json!("err\n"), &json!(3), &json!(0)]
    );
    let late = run(&server, "/api", json!({"command": "sleep 600", "timeout": 0})).await;
    assert_eq!(late["exit_code"], json!(-1));
    let nowhere = run(&server, "/api", json!({"command": "true", "cwd": "/no/such/folder"})).await;
    assert_eq!(nowhere["exit_code"], json!(-1));
    assert!(nowhere["stderr"].as_str().unwrap().starts_with("Error executing command: "));
    for wrong in [json!({}), json!({"command": 1}), json!({"command": "x", "timeout": "y"})] {
        assert_eq!(server.post("/api/bash/start_bash_command", wrong).await.status, 422);
    }
}

#[tokio::test]
async fn events_are_found_by_id_kind_and_order() {
    let server = Served::start().await;
    let output = run(&server, "/api", json!({"command": "echo one"})).await;
    let id = output["id"].as_str().unwrap();
    assert_eq!(server.get(&format!("/api/bash/bash_events/{id}")).await.ok(), output);
    assert_eq!(server.get(&format!("/api/bash/bash_events/{}", Uuid::new_v4())).await.status, 404);
    let several = server.request("GET", "/api/bash/bash_events/", Some(json!([id, "nope"]))).await.ok();
    assert_eq!(several, json!([output, null]));
    let find = async |query: &str| server.get(&format!("/api/bash/bash_events/search?{query}")).await;
    let count = async |query: &str| find(query).await.ok()["items"].as_array().unwrap().len();
    assert_eq!((count("").await, count("kind__eq=BashCommand").await, count("order__gt=0").await), (2, 1, 1));
    let newest = find("sort_order=TIMESTAMP_DESC&limit=1").await.ok();
    assert_eq!(newest["items"][0], output);
    let next = newest["next_page_id"].as_str().unwrap().to_owned();
    let rest = find(&format!("sort_order=TIMESTAMP_DESC&page_id={next}")).await.ok();
    assert_eq!((rest["items"].as_array().unwrap().len(), &rest["next_page_id"]), (1, &Value::Null));
    for query in
        ["limit=0", "limit=101", "kind__eq=Other", "sort_order=UP", "command_id__eq=x", "timestamp__gte=y"]
    {
        assert_eq!(find(query).await.status, 422, "{query}");
    }
    let cleared = server.request("DELETE", "/api/bash/bash_events", None).await.ok();
    assert_eq!((cleared, count("").await), (json!({"cleared_count": 2}), 0));
}

#[tokio::test]
async fn commands_of_a_conversation_stay_in_its_workspace() {
    let (server, model) = (Served::start().await, model(&[]));
    let id = server.conversation(&model).await;
    let root = format!("/api/conversations/{id}");
    let work = std::fs::canonicalize(server.path("work")).unwrap();
    let output = run(&server, &root, json!({"command": "pwd"})).await;
    assert_eq!(output["stdout"], json!(format!("{}\n", work.display())));
    std::os::unix::fs::symlink("/", work.join("out")).unwrap();
    for outside in [
        "/tmp".to_owned(),
        "..".to_owned(),
        work.join("..").display().to_string(),
        work.join("out/tmp").display().to_string(),
    ] {
        let answer = server
            .post(&format!("{root}/bash/start_bash_command"), json!({"command": "pwd", "cwd": outside}))
            .await;
        assert_eq!(
            answer.refusal(),
            (422, json!("cwd must be inside the conversation workspace")),
            "{outside}"
        );
    }
    // Each conversation has its own history.
    assert_eq!(server.get("/api/bash/bash_events/search").await.ok()["items"], json!([]));
    let own = server.get(&format!("{root}/bash/bash_events/search")).await.ok();
    assert_eq!(own["items"].as_array().unwrap().len(), 2);
    let one = own["items"][1]["id"].as_str().unwrap();
    assert_eq!(server.get(&format!("{root}/bash/bash_events/{one}")).await.status, 200);
    let several = server.request("GET", &format!("{root}/bash/bash_events/"), Some(json!([one]))).await.ok();
    assert_eq!(several[0]["id"], json!(one));
    let begun =
        server.post(&format!("{root}/bash/start_bash_command"), json!({"command": "sleep 600"})).await.ok();
    let stop = format!("{root}/bash/bash_commands/{}/stop", begun["id"].as_str().unwrap());
    assert_eq!(server.post(&stop, json!({})).await.status, 200);
    let cleared = server.request("DELETE", &format!("{root}/bash/bash_events"), None).await;
    assert!(cleared.ok()["cleared_count"].as_u64().unwrap() >= 3);
    let strange = format!("/api/conversations/{}/bash/bash_events/search", Uuid::new_v4());
    assert_eq!(server.get(&strange).await.refusal(), (404, json!("Conversation not found")));
    // Commands are not in the log.
    assert_eq!(server.get(&format!("{root}/events/count")).await.ok(), json!(0));
}
