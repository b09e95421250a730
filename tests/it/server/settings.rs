//! Settings, secrets, profiles and workspaces, which apply to all conversations.

use serde_json::json;

use crate::support::caller::{KEY, Served};

async fn exposed(server: &Served, path: &str, mode: &str) -> crate::support::caller::Reply {
    server.send("GET", path, &[("x-session-api-key", KEY), ("x-expose-secrets", mode)], b"").await
}

#[tokio::test]
async fn settings_are_changed_part_by_part() {
    let server = Served::start().await;
    let first = server.get("/api/settings").await.ok();
    assert_eq!(
        (&first["agent_settings"]["agent_kind"], &first["llm_api_key_is_set"]),
        (&json!("openhands"), &json!(false))
    );
    let change = async |body| server.request("PATCH", "/api/settings", Some(body)).await;
    let llm = json!({"llm": {"model": "openai/m", "api_key": "sk-settings-1"}});
    let changed =
        change(json!({"agent_settings_diff": llm, "misc_settings_diff": {"a": {"b": 1}}})).await.ok();
    assert_eq!(changed["agent_settings"]["llm"]["api_key"], json!("**********"));
    change(json!({"conversation_settings_diff": {"max_iterations": 7}})).await.ok();
    let all = server.get("/api/settings").await.ok();
    assert_eq!(
        (&all["agent_settings"]["llm"]["model"], &all["llm_api_key_is_set"]),
        (&json!("openai/m"), &json!(true))
    );
    assert_eq!(
        (&all["conversation_settings"]["max_iterations"], &all["misc_settings"]),
        (&json!(7), &json!({"a": {"b": 1}}))
    );
    let plain = exposed(&server, "/api/settings", "plaintext").await.ok();
    assert_eq!(plain["agent_settings"]["llm"]["api_key"], json!("sk-settings-1"));
    let sealed = exposed(&server, "/api/settings", "encrypted").await.ok();
    assert!(sealed["agent_settings"]["llm"]["api_key"].as_str().unwrap().starts_with("gAAAAA"));
    assert_eq!(exposed(&server, "/api/settings", "everything").await.status, 400);
    assert_eq!(change(json!({})).await.status, 400);
    for wrong in [
        json!({"agent_settings_diff": []}),
        json!({"agent_settings_diff": {"llm": {"temperature": "hot"}}}),
        json!({"agent_settings_diff": {"tool_concurrency_limit": 0}}),
        json!({"conversation_settings_diff": {"max_iterations": 0}}),
        json!({"active_agent_profile_id": "x"}),
        json!({"active_profile": "../x"}),
    ] {
        assert_eq!(change(wrong.clone()).await.status, 422, "{wrong}");
    }
    let unknown = json!({"active_agent_profile_id": "7f6bc8a4-0000-4000-8000-000000000000"});
    assert_eq!(change(unknown).await.status, 404);
    assert_eq!(change(json!({"active_meta_profile": "none"})).await.status, 404);
    let file = std::fs::read_to_string(server.path("settings/settings.json")).unwrap();
    assert!(!file.contains("sk-settings-1"), "the stored key is sealed");
}

#[tokio::test]
async fn a_file_that_cannot_be_parsed_is_not_changed() {
    let server = Served::start().await;
    std::fs::create_dir_all(server.path("settings")).unwrap();
    std::fs::write(server.path("settings/settings.json"), "not json").unwrap();
    assert_eq!(server.get("/api/settings").await.status, 500);
    let change = json!({"misc_settings_diff": {"a": 1}});
    assert_eq!(server.request("PATCH", "/api/settings", Some(change)).await.status, 500);
    assert_eq!(std::fs::read_to_string(server.path("settings/settings.json")).unwrap(), "not json");
}

#[tokio::test]
async fn secrets_are_stored_sealed_and_listed_by_name() {
    let server = Served::start().await;
    let put = async |body| server.request("PUT", "/api/settings/secrets", Some(body)).await;
    let secret = json!({"name": "GH", "value": "stored-value-1", "description": "d"});
    assert_eq!(put(secret).await.ok(), json!({"name": "GH", "description": "d"}));
    let list = server.get("/api/settings/secrets").await;
    assert_eq!(list.json(), json!({"secrets": [{"name": "GH", "description": "d"}]}));
    let value = server.get("/api/settings/secrets/GH").await;
    assert_eq!(
        (value.text(), value.header("content-type")),
        ("stored-value-1".to_owned(), Some("text/plain; charset=utf-8"))
    );
    let file = std::fs::read_to_string(server.path("settings/secrets.json")).unwrap();
    assert!(file.contains("GH") && !file.contains("stored-value-1"));
    for wrong in [
        json!({"name": "1A", "value": "x"}),
        json!({"name": "../A", "value": "x"}),
        json!({"name": "A", "value": " "}),
        json!({"name": "A", "value": "**********"}),
        json!({"name": "A"}),
    ] {
        assert_eq!(put(wrong).await.status, 422);
    }
    assert_eq!(server.get("/api/settings/secrets/..%2fsettings").await.status, 422);
    assert_eq!(
        server.request("DELETE", "/api/settings/secrets/GH", None).await.ok(),
        json!({"deleted": true})
    );
    for method in ["GET", "DELETE"] {
        let gone = server.request(method, "/api/settings/secrets/GH", None).await;
        assert_eq!(gone.refusal(), (404, json!("Secret not found")), "{method}");
    }
}

#[tokio::test]
async fn profiles_are_saved_renamed_activated_and_deleted() {
    let server = Served::start().await;
    let llm = json!({"model": "openai/fast", "api_key": "sk-profile-1"});
    let saved = server.post("/api/profiles/fast", json!({"llm": llm})).await;
    assert_eq!(
        (saved.status, saved.json()),
        (201, json!({"name": "fast", "message": "Profile 'fast' saved"}))
    );
    let one = server.get("/api/profiles/fast").await.ok();
    assert_eq!(
        (&one["config"]["model"], &one["config"]["api_key"]),
        (&json!("openai/fast"), &json!("**********"))
    );
    assert_eq!(one["api_key_set"], json!(true));
    let plain = exposed(&server, "/api/profiles/fast", "plaintext").await.ok();
    assert_eq!(plain["config"]["api_key"], json!("sk-profile-1"));
    server.post("/api/profiles/fast/activate", json!({})).await.ok();
    let settings = server.get("/api/settings").await.ok();
    assert_eq!(
        (&settings["active_profile"], &settings["agent_settings"]["llm"]["model"]),
        (&json!("fast"), &json!("openai/fast"))
    );
    server.post("/api/profiles/fast/rename", json!({"new_name": "quick"})).await.ok();
    let list = server.get("/api/profiles").await.ok();
    assert_eq!((&list["profiles"][0]["name"], &list["active_profile"]), (&json!("quick"), &json!("quick")));
    let by_name = server.request("PATCH", "/api/settings", Some(json!({"active_profile": "none"}))).await;
    assert_eq!(by_name.status, 404);
    server.request("DELETE", "/api/profiles/quick", None).await.ok();
    assert_eq!(server.get("/api/profiles").await.ok(), json!({"profiles": [], "active_profile": null}));
    for (method, path) in [("GET", "/quick"), ("POST", "/quick/activate")] {
        let answer = server.request(method, &format!("/api/profiles{path}"), Some(json!({}))).await;
        assert_eq!(answer.refusal(), (404, json!("Profile 'quick' not found")), "{path}");
    }
    for name in ["..%2fsecrets", ".hidden", "a%20b"] {
        assert_eq!(server.get(&format!("/api/profiles/{name}")).await.status, 422, "{name}");
    }
    let renamed = server.post("/api/profiles/x/rename", json!({"new_name": ""})).await;
    assert_eq!(renamed.refusal().1[0]["type"], json!("string_too_short"));
    assert_eq!(server.post("/api/profiles/x", json!({})).await.status, 422);
    assert_eq!(
        server.post("/api/profiles/x", json!({"llm": {"temperature": "hot", "model": "m"}})).await.status,
        422
    );
}

#[tokio::test]
async fn each_workspace_is_stored_once() {
    let server = Served::start().await;
    let add = async |path: &str, body| server.post(&format!("/api/workspaces{path}"), body).await;
    let parent = json!({"id": "2", "name": "All", "path": "/one"});
    let one = json!({"id": "1", "name": "One", "path": "/one", "parentPath": null});
    let list = add("", json!({"workspaces": [one, one]})).await.ok();
    assert_eq!(list, json!({"workspaces": [one], "workspaceParents": []}));
    add("/parents", json!({"parents": [parent]})).await.ok();
    assert_eq!(
        server.get("/api/workspaces").await.ok(),
        json!({"workspaces": [one], "workspaceParents": [parent]})
    );
    for path in ["/api/workspaces?path=/one", "/api/workspaces/parents?path=/one"] {
        assert_eq!(server.request("DELETE", path, None).await.ok(), json!({"deleted": true}));
        assert_eq!(server.request("DELETE", path, None).await.status, 404);
    }
    assert_eq!(
        (add("", json!({})).await.status, add("", json!({"workspaces": [{}]})).await.status),
        (422, 422)
    );
}
