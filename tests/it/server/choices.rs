//! The lists to choose from, the server's description of itself, and the routes that it does not support.

use serde_json::json;

use crate::support::caller::Served;

#[tokio::test]
async fn probes_need_no_key() {
    let server = Served::start().await;
    for (path, body) in [
        ("/health", json!({"status": "ok"})),
        ("/alive", json!({"status": "ok"})),
        ("/ready", json!({"status": "ready"})),
    ] {
        assert_eq!(server.send("GET", path, &[], b"").await.ok(), body);
    }
    for path in ["/server_info", "/"] {
        let info = server.send("GET", path, &[], b"").await.ok();
        assert_eq!((&info["title"], &info["sdk_version"]), (&json!("Annals"), &json!("1.58.0")));
        assert!(info["usable_tools"].as_array().unwrap().contains(&json!("terminal")));
    }
}

#[tokio::test]
async fn tools_and_models_are_listed() {
    let server = Served::start().await;
    let names = server.get("/api/tools/").await.ok();
    assert!(
        ["file_editor", "finish", "terminal"]
            .iter()
            .all(|name| names.as_array().unwrap().contains(&json!(name)))
    );
    let catalog = server.get("/api/tools/catalog").await.ok();
    let finish = catalog["tools"].as_array().unwrap().iter().find(|tool| tool["name"] == "finish").unwrap();
    assert_eq!((&finish["usable"], &finish["user_selectable"]), (&json!(true), &json!(false)));
    let providers = server.get("/api/llm/providers").await.ok();
    assert!(providers["providers"].as_array().unwrap().contains(&json!("openai")));
    let all = server.get("/api/llm/models").await.ok()["models"].as_array().unwrap().len();
    let some = server.get("/api/llm/models?provider=openai").await.ok()["models"].as_array().unwrap().len();
    assert!(0 < some && some < all);
    let verified = server.get("/api/llm/models/verified").await.ok();
    assert_eq!(verified["models"]["openai"].as_array().unwrap().len(), some);
}

#[tokio::test]
async fn a_workspaces_skills_and_hooks_are_found() {
    let server = Served::with(|config| {
        let home = config.conversations_dir.parent().map(|folder| folder.join("home"));
        config.person_dir(home)
    })
    .await;
    let project = server.path("project");
    for (path, content) in [
        ("project/.agents/skills/deploy.md", "---\nname: deploy\ntriggers:\n- deploy\n---\nHOW-TO-DEPLOY\n"),
        ("home/.agents/skills/own.md", "---\nname: own\n---\nMY-OWN\n"),
        ("home/.agents/skills/deploy.md", "---\nname: deploy\n---\nOVERRULED\n"),
        (
            "project/.openhands/hooks.json",
            r#"{"stop": [{"matcher": "*", "hooks": [{"type": "command", "command": "true"}]}]}"#,
        ),
    ] {
        let path = server.path(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
    }
    let found = server.post("/api/skills", json!({"project_dir": project})).await.ok();
    let skills = found["skills"].as_array().unwrap();
    let names: Vec<_> = skills.iter().map(|skill| skill["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["deploy", "own"]);
    assert_eq!((&skills[0]["triggers"], &skills[0]["type"]), (&json!(["deploy"]), &json!("knowledge")));
    assert!(skills[0]["content"].as_str().unwrap().contains("HOW-TO-DEPLOY"));
    let none = json!({"load_project": false, "load_user": false, "project_dir": project});
    assert_eq!(server.post("/api/skills", none).await.ok()["skills"], json!([]));
    let catalog = server.get("/api/skills/catalog").await.ok();
    assert_eq!(catalog["skills"][0]["origin"], json!("user"));
    let hooks = server.post("/api/hooks", json!({"project_dir": project})).await.ok();
    assert_eq!(hooks["hook_config"]["stop"][0]["hooks"][0]["command"], json!("true"));
    for folder in [json!(server.path("none")), json!(null), json!("")] {
        let none = server.post("/api/hooks", json!({"project_dir": folder})).await.ok();
        assert_eq!(none, json!({"hook_config": null}));
    }
}

#[tokio::test]
async fn unsupported_routes_are_answered_with_a_reason() {
    let server = Served::start().await;
    for (method, path) in [
        ("GET", "/api/mcp/oauth/status/x"),
        ("POST", "/api/llm/subscription/openai/device/start"),
        ("POST", "/api/canvas-extensions/install"),
        ("POST", "/api/skills/sync"),
        ("POST", "/v1/responses"),
    ] {
        let answer = server.request(method, path, None).await;
        assert_eq!(answer.status, 501, "{path}");
        assert!(answer.json()["detail"].as_str().is_some_and(|why| why.len() > 20), "{path}");
    }
    assert_eq!(server.get("/api/init").await.status, 404);
    assert_eq!(server.get("/api/nothing").await.refusal(), (404, json!("Not Found")));
    assert_eq!(
        server.request("PUT", "/api/conversations", None).await.refusal(),
        (405, json!("Method Not Allowed"))
    );
}
