//! The routes of conversations: create, show, list, change and delete.

use serde_json::{Value, json};
use uuid::Uuid;

use crate::support::caller::{Served, model, until};

const ROOT: &str = "/api/conversations";

#[tokio::test]
async fn a_conversation_is_created_once_per_id() {
    let (server, model) = (Served::start().await, model(&[]));
    let id = Uuid::new_v4().to_string();
    let mut wanted = server.conversation_request(&model);
    wanted["conversation_id"] = json!(id);
    wanted["tags"] = json!({"team": "blue"});
    let made = server.post(ROOT, wanted.clone()).await;
    assert_eq!(made.status, 201, "{}", made.text());
    let made = made.json();
    assert_eq!((&made["id"], &made["execution_status"]), (&json!(id), &json!("idle")));
    assert_eq!((&made["tags"], &made["runtime_info"]), (&json!({"team": "blue"}), &Value::Null));
    assert_eq!(made["agent"]["llm"]["api_key"], Value::Null);
    wanted["tags"] = json!({"team": "red"});
    let again = server.post(ROOT, wanted).await;
    assert_eq!((again.status, again.json()["tags"].clone()), (200, json!({"team": "blue"})));
    // The id may be written with or without dashes.
    let hex = id.replace('-', "");
    let found = server.get(&format!("{ROOT}/{hex}")).await.ok();
    assert_eq!(found["id"], json!(id));
    assert_eq!(found["created_at"], made["created_at"]);
    assert_eq!(found["runtime_info"]["runtime_status"], json!("available"));
    assert!(server.path("work/.git").is_dir(), "the workspace becomes a repository");
}

#[tokio::test]
async fn an_invalid_request_is_rejected_and_creates_nothing() {
    let (server, model) = (Served::start().await, model(&[]));
    let refused = [
        (json!({"workspace": null}), "missing"),
        (json!({"agent": null}), "value_error"),
        (json!({"agent": {"kind": "Agent"}}), "missing"),
        (json!({"conversation_id": "nope"}), "uuid_parsing"),
        (json!({"max_iterations": 0}), "greater_than_equal"),
        (json!({"confirmation_policy": {"kind": "Nobody"}}), "value_error"),
        (json!({"secrets": {"A": "plain"}}), "value_error"),
        (json!({"tags": {"Not-a-key": "x"}}), "value_error"),
        (json!({"client_tools": [{"name": "x"}]}), "value_error"),
        (json!({"client_tools": [{"name": "terminal", "description": "d"}]}), "value_error"),
        (json!({"agent_definitions": [{"description": "no name"}]}), "value_error"),
        (json!({"worktree_options": {"strange": 1}}), "extra_forbidden"),
        (json!({"prompt": "p".repeat(2001)}), "string_too_long"),
    ];
    for (change, kind) in refused {
        let mut wanted = server.conversation_request(&model);
        for (name, value) in change.as_object().unwrap() {
            wanted[name] = value.clone();
        }
        let answer = server.post(ROOT, wanted).await;
        assert_eq!((answer.status, &answer.json()["detail"][0]["type"]), (422, &json!(kind)), "{change}");
    }
    let mut wanted = server.conversation_request(&model);
    wanted["agent"]["tools"] = json!([{"name": "no_such_tool"}]);
    assert_eq!(server.post(ROOT, wanted).await.status, 422);
    for text in ["[]", "{", ""] {
        assert_eq!(
            server
                .send(
                    "POST",
                    ROOT,
                    &[("x-session-api-key", super::super::support::caller::KEY)],
                    text.as_bytes()
                )
                .await
                .status,
            422
        );
    }
    assert_eq!(server.get(&format!("{ROOT}/count")).await.json(), json!(0));
}

#[tokio::test]
async fn a_first_message_runs_at_once() {
    let (server, model) = (Served::start().await, model(&["Hello."]));
    let mut wanted = server.conversation_request(&model);
    let content = json!([{"type": "text", "text": "Hi"}]);
    wanted["initial_message"] = json!({"role": "user", "content": content, "run": false});
    let made = server.post(ROOT, wanted).await.ok();
    assert_eq!(made["execution_status"], json!("idle"));
    let id = made["id"].as_str().unwrap();
    assert_eq!(server.wait_until_done(id).await, "finished");
    assert_eq!(server.kinds(id).await, ["SystemPromptEvent", "MessageEvent", "MessageEvent"]);
}

#[tokio::test]
async fn a_parent_has_to_work_in_the_same_folder() {
    let (server, model) = (Served::start().await, model(&[]));
    let parent = server.conversation(&model).await;
    let mut wanted = server.conversation_request(&model);
    wanted["parent_conversation_id"] = json!(parent);
    let child = server.post(ROOT, wanted.clone()).await.ok();
    assert_eq!(child["parent_conversation_id"], json!(parent));
    let shown = server.get(&format!("{ROOT}/{parent}")).await.ok();
    assert_eq!(shown["sub_conversation_ids"], json!([child["id"]]));
    wanted["workspace"]["working_dir"] = json!(server.path("elsewhere"));
    assert_eq!(server.post(ROOT, wanted.clone()).await.status, 422);
    wanted["parent_conversation_id"] = json!(Uuid::new_v4().to_string());
    assert_eq!(server.post(ROOT, wanted).await.status, 422);
}

#[tokio::test]
async fn an_unknown_conversation_is_not_found() {
    let server = Served::start().await;
    let strange = Uuid::new_v4();
    for path in [format!("{ROOT}/{strange}"), format!("{ROOT}/{strange}/runtime")] {
        assert_eq!(server.get(&path).await.refusal(), (404, json!("Not Found")), "{path}");
    }
    for method in ["PATCH", "DELETE"] {
        let answer = server.request(method, &format!("{ROOT}/{strange}"), Some(json!({}))).await;
        assert_eq!(answer.refusal(), (404, json!("Not Found")), "{method}");
    }
    let answer = server.get(&format!("{ROOT}/not-an-id")).await;
    assert_eq!((answer.status, &answer.json()["detail"][0]["type"]), (422, &json!("uuid_parsing")));
}

#[tokio::test]
async fn pages_list_every_conversation_once_in_order() {
    let (server, model) = (Served::start().await, model(&[]));
    let mut made = Vec::new();
    for _ in 0..5 {
        made.push(server.conversation(&model).await);
    }
    let (mut found, mut cursor) = (Vec::new(), String::new());
    loop {
        let path = format!("{ROOT}/search?limit=2&sort_order=CREATED_AT{cursor}");
        let page = server.get(&path).await.ok();
        let items = page["items"].as_array().unwrap();
        found.extend(items.iter().map(|item| item["id"].as_str().unwrap().to_owned()));
        let Some(next) = page["next_page_id"].as_str() else { break };
        assert_eq!(next.len(), 32);
        cursor = format!("&page_id={next}");
    }
    assert_eq!(found, made);
    let newest = server.get(&format!("{ROOT}/search?limit=1")).await.ok();
    assert_eq!(newest["items"][0]["id"], json!(made[4]));
    // An unknown cursor starts at the beginning.
    let lost = server.get(&format!("{ROOT}/search?limit=1&page_id=garbage")).await.ok();
    assert_eq!(lost["items"], newest["items"]);
    assert_eq!(server.get(&format!("{ROOT}/search?status=paused")).await.ok()["items"], json!([]));
    for query in ["limit=0", "limit=101", "sort_order=UP", "status=asleep"] {
        assert_eq!(server.get(&format!("{ROOT}/search?{query}")).await.status, 422, "{query}");
    }
}

#[tokio::test]
async fn conversations_are_counted_by_status() {
    let (server, model) = (Served::start().await, model(&[]));
    let id = server.conversation(&model).await;
    server.conversation(&model).await;
    server.post(&format!("{ROOT}/{id}/pause"), json!({})).await.ok();
    let count = async |query: &str| server.get(&format!("{ROOT}/count{query}")).await.ok();
    assert_eq!((count("").await, count("?status=paused").await), (json!(2), json!(1)));
    assert_eq!(server.get(&format!("{ROOT}/count?status=asleep")).await.status, 422);
}

#[tokio::test]
async fn several_conversations_come_in_the_order_of_the_given_ids() {
    let (server, model) = (Served::start().await, model(&[]));
    let (one, other) = (server.conversation(&model).await, server.conversation(&model).await);
    let strange = Uuid::new_v4();
    let several = server.get(&format!("{ROOT}?ids={other}&ids={strange}&ids={one}")).await.ok();
    let ids: Vec<&Value> = several.as_array().unwrap().iter().map(|item| &item["id"]).collect();
    assert_eq!(ids, [&json!(other), &Value::Null, &json!(one)]);
    assert_eq!(server.get(ROOT).await.status, 422);
}

#[tokio::test]
async fn a_title_is_trimmed_and_tags_replace_each_other() {
    let (server, model) = (Served::start().await, model(&[]));
    let id = server.conversation(&model).await;
    let path = format!("{ROOT}/{id}");
    let change = async |body| server.request("PATCH", &path, Some(body)).await;
    assert_eq!(change(json!({"title": "  Mine  ", "tags": {"a": "1"}})).await.ok(), json!({"success": true}));
    assert_eq!(change(json!({"tags": {"b": "2"}})).await.status, 200);
    assert_eq!(change(json!({"title": null})).await.status, 200);
    let info = server.get(&path).await.ok();
    assert_eq!((&info["title"], &info["tags"]), (&json!("Mine"), &json!({"b": "2"})));
    for title in [String::new(), "  ".to_owned(), "t".repeat(201)] {
        assert_eq!(change(json!({"title": title})).await.status, 422, "{title:?}");
    }
}

#[tokio::test]
async fn a_deleted_conversation_is_gone_with_the_files_of_its_tools() {
    let (server, model) = (Served::start().await, model(&["Hello."]));
    let id = server.conversation(&model).await;
    server.say(&id, "Hi").await;
    let kept = server.path("conversations").join(id.replace('-', ""));
    std::fs::create_dir_all(&kept).unwrap();
    std::fs::write(server.path("work/mine.txt"), "mine").unwrap();
    let path = format!("{ROOT}/{id}");
    assert_eq!(server.request("DELETE", &path, None).await.ok(), json!({"success": true}));
    assert_eq!(server.request("DELETE", &path, None).await.status, 404);
    assert_eq!(server.get(&path).await.status, 404);
    assert!(!kept.exists() && server.path("work/mine.txt").exists());
}

#[tokio::test]
async fn a_running_conversation_can_be_deleted() {
    let (server, model) = (Served::start().await, crate::support::caller::model_runs("sleep 600"));
    let id = server.conversation(&model).await;
    let content = json!([{"type": "text", "text": "Go"}]);
    let message = json!({"role": "user", "content": content, "run": true});
    server.post(&format!("{ROOT}/{id}/events"), message).await.ok();
    until(async || server.kinds(&id).await.iter().any(|kind| kind == "ActionEvent")).await;
    assert_eq!(server.request("DELETE", &format!("{ROOT}/{id}"), None).await.status, 200);
    assert_eq!(server.get(&format!("{ROOT}/{id}")).await.status, 404);
}

#[tokio::test]
async fn the_runtime_is_always_available() {
    let (server, model) = (Served::start().await, model(&[]));
    let id = server.conversation(&model).await;
    let there = json!({"runtime_status": "available", "can_resume": true, "runtime_error": null});
    assert_eq!(server.get(&format!("{ROOT}/{id}/runtime")).await.ok(), there);
    assert_eq!(server.post(&format!("{ROOT}/{id}/runtime/reprovision"), json!({})).await.ok(), there);
}

#[tokio::test]
async fn the_texts_of_skills_are_returned_on_request() {
    let (server, model) = (Served::start().await, model(&[]));
    let mut wanted = server.conversation_request(&model);
    wanted["agent"]["agent_context"] = json!({"skills": [{"name": "s", "content": "LONG", "trigger": null}]});
    let made = server.post(ROOT, wanted).await.ok();
    assert_eq!(made["agent"]["agent_context"]["skills"], json!([]));
    let id = made["id"].as_str().unwrap();
    let shown = server.get(&format!("{ROOT}/{id}?include_skills=true")).await.ok();
    assert_eq!(shown["agent"]["agent_context"]["skills"][0]["content"], json!("LONG"));
}

#[tokio::test]
async fn a_worktree_separates_conversations_and_is_removed_with_the_last() {
    let (server, model) = (Served::start().await, model(&[]));
    let work = server.path("work");
    std::fs::create_dir_all(&work).unwrap();
    for arguments in [
        vec!["init", "-q"],
        vec!["-c", "user.name=n", "-c", "user.email=e", "commit", "-q", "--allow-empty", "-m", "first"],
    ] {
        let done = std::process::Command::new("git").args(arguments).current_dir(&work).status().unwrap();
        assert!(done.success());
    }
    let mut wanted = server.conversation_request(&model);
    wanted["worktree"] = json!(true);
    let made = server.post(ROOT, wanted).await.ok();
    let folder = std::path::PathBuf::from(made["workspace"]["working_dir"].as_str().unwrap());
    assert!(folder.join(".git").exists() && folder != work, "{folder:?}");
    let id = made["id"].as_str().unwrap();
    let fork = server.post(&format!("{ROOT}/{id}/fork"), json!({})).await.ok();
    server.request("DELETE", &format!("{ROOT}/{id}"), None).await.ok();
    assert!(folder.exists(), "the fork works there");
    server.request("DELETE", &format!("{ROOT}/{}", fork["id"].as_str().unwrap()), None).await.ok();
    assert!(!folder.exists());
}
