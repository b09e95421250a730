//! Plugins and skills over HTTP: from folders, installed, and of a conversation.

use std::fs;

use serde_json::{Value, json};

use crate::support::caller::{Served, model};

async fn server() -> Served {
    let server = Served::with(|config| {
        let home = config.conversations_dir.parent().map(|folder| folder.join("home"));
        let public = config.conversations_dir.parent().map(|folder| folder.join("public"));
        config.person_dir(home).public_extensions_dir(public)
    })
    .await;
    fs::create_dir_all(server.path("home")).unwrap();
    for (path, content) in [
        ("src/.plugin/plugin.json", r#"{"name":"my-plugin","version":"2.0","description":"Mine."}"#),
        ("src/skills/a.md", "---\ntriggers: [zebra]\n---\nA-TEXT"),
        ("src/commands/go.md", "Go."),
        ("rule/SKILL.md", "---\nname: rule\ndescription: A rule.\n---\nRule."),
        ("public/.plugin/marketplace.json", PUBLIC),
        ("public/plugins/weather/.plugin/plugin.json", r#"{"name":"weather"}"#),
        ("public/skills/pdf/SKILL.md", "---\nname: pdf\n---\nPDF."),
        ("project/.agents/agents/local.md", "---\nname: local\n---\nYou are local."),
        (
            "home/.agents/agents/mine.md",
            "---\nname: mine\npermission_mode: never_confirm\n---\nYou are mine.",
        ),
    ] {
        let path = server.path(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }
    server
}

const PUBLIC: &str = r#"{"name":"public","owner":{"name":"o"},"plugins":[
    {"name":"weather","source":"./plugins/weather","description":"Weather."},{"name":"pdf","source":"./skills/pdf"}]}"#;

#[tokio::test]
async fn a_plugin_is_installed_turned_off_and_removed() {
    let server = server().await;
    let source = server.path("src");
    let found = server.post("/api/plugins/install", json!({"source": source})).await.ok();
    assert_eq!(
        (&found["name"], &found["version"], &found["enabled"], &found["source"], &found["resolved_ref"]),
        (&json!("my-plugin"), &json!("2.0"), &json!(true), &json!(source), &Value::Null)
    );
    assert_eq!(found["files"], json!([".plugin/plugin.json", "commands/go.md", "skills/a.md"]));
    let names = json!([
        {"name": "a", "description": null},
        {"name": "my-plugin:go", "description": "Command go from my-plugin"},
    ]);
    assert_eq!(found["skills"], names);
    assert!(found.get("requested_ref").is_none());
    let again = server.post("/api/plugins/install", json!({"source": source})).await;
    assert_eq!(again.refusal(), (409, json!("Plugin already installed. Use force=true to overwrite.")));
    assert_eq!(
        server.post("/api/plugins/install", json!({"source": source, "force": true})).await.status,
        200
    );
    let listed = server.get("/api/plugins/installed").await.ok();
    assert_eq!(listed["plugins"].as_array().unwrap().len(), 1);
    assert_eq!(server.get("/api/plugins/installed/my-plugin").await.ok()["name"], "my-plugin");
    let path = "/api/plugins/installed/my-plugin";
    let off = server.request("PATCH", path, Some(json!({"enabled": false}))).await.ok();
    assert_eq!(off, json!({"name": "my-plugin", "enabled": false}));
    assert_eq!(server.post("/api/plugins", json!({})).await.ok(), json!({"plugins": []}));
    server.request("PATCH", path, Some(json!({"enabled": true}))).await.ok();
    let available = server.post("/api/plugins", json!({})).await.ok();
    assert_eq!(available["plugins"][0]["name"], "my-plugin");
    let newest = server.post(&format!("{path}/refresh"), json!({})).await.ok();
    assert_eq!(newest["message"], "Plugin 'my-plugin' updated");
    fs::remove_dir_all(&source).unwrap();
    let lost = server.post(&format!("{path}/refresh"), json!({})).await;
    let kept = "Failed to fetch the source of plugin 'my-plugin'. The installed copy was kept.";
    assert_eq!(lost.refusal(), (400, json!(kept)));
    let gone = server.request("DELETE", path, None).await.ok();
    assert_eq!(gone, json!({"message": "Plugin 'my-plugin' uninstalled"}));
    for method in ["GET", "DELETE"] {
        let none = server.request(method, path, None).await.refusal();
        assert_eq!(none, (404, json!("Plugin 'my-plugin' is not installed")));
    }
    let odd = server.get("/api/plugins/installed/Not..This").await;
    assert_eq!((odd.status, &odd.json()["detail"][0]["type"]), (422, &json!("string_pattern_mismatch")));
    let bad = server.post("/api/plugins/install", json!({"source": server.path("nowhere")})).await;
    assert_eq!(bad.refusal().0, 400);
}

#[tokio::test]
async fn skills_are_installed_and_listed_with_public_ones() {
    let server = server().await;
    let new = server.post("/api/skills/install", json!({"source": server.path("rule")})).await.ok();
    assert_eq!((&new["name"], &new["version"]), (&json!("rule"), &json!("1.0.0")));
    assert!(new.get("skills").is_none());
    let bad = server.post("/api/skills/install", json!({"source": server.path("src")})).await;
    let text = "Invalid skill. Ensure the source contains a valid SKILL.md.";
    assert_eq!(bad.refusal(), (422, json!(text)));
    let catalog = server.get("/api/skills/catalog").await.ok();
    let shown: Vec<(&str, &str)> = catalog["skills"]
        .as_array()
        .unwrap()
        .iter()
        .map(|skill| (skill["name"].as_str().unwrap(), skill["origin"].as_str().unwrap()))
        .collect();
    assert_eq!(shown, [("pdf", "public"), ("rule", "user")]);
    let found = server.post("/api/skills", json!({})).await.ok();
    let sources = json!({"sandbox": 0, "registered_marketplaces": 0, "sdk_base": 2, "org": 0, "project": 0});
    assert_eq!(found["sources"], sources);
    let urls =
        json!([{"name": "WORKER_1", "url": "http://w", "port": 80}, {"name": "X", "url": "y", "port": 1}]);
    let hosts = json!({"load_public": false, "load_user": false, "sandbox_config": {"exposed_urls": urls}});
    let hosts = server.post("/api/skills", hosts).await.ok();
    assert!(hosts["skills"][0]["content"].as_str().unwrap().ends_with("\n* http://w (port 80)"));
    let market = server.get("/api/skills/marketplace").await.ok();
    let entries: Vec<&str> =
        market["skills"].as_array().unwrap().iter().map(|entry| entry["name"].as_str().unwrap()).collect();
    assert_eq!(entries, ["weather", "pdf"]);
    let market = server.get("/api/plugins/marketplace").await.ok();
    assert_eq!(market["plugins"].as_array().unwrap().len(), 1);
    assert_eq!(
        (&market["plugins"][0]["name"], &market["plugins"][0]["installed"], &market["plugins"][0]["files"]),
        (&json!("weather"), &json!(false), &json!([".plugin/plugin.json"]))
    );
    assert_eq!(server.post("/api/skills/sync", json!({})).await.status, 501);
}

#[tokio::test]
async fn a_plugin_is_fetched_and_described_without_installing_it() {
    let server = server().await;
    let fetched = server.post("/api/plugins/fetch", json!({"source": server.path("src")})).await.ok();
    assert_eq!(fetched["manifest"]["name"], "my-plugin");
    assert_eq!((&fetched["skills"], &fetched["commands"]), (&json!(["a"]), &json!(["go"])));
    let refused = async |body: Value| {
        let answer = server.post("/api/plugins/fetch", body).await;
        (answer.status, answer.json()["detail"]["code"].as_str().unwrap_or_default().to_owned())
    };
    let code = |status: u16, code: &str| (status, code.to_owned());
    assert_eq!(refused(json!({"source": "https://x:${NONE}@h/r"})).await, code(422, "missing_secret"));
    assert_eq!(refused(json!({"source": "nothing"})).await, code(422, "invalid_source"));
    assert_eq!(refused(json!({"source": server.path("project")})).await, code(422, "invalid_plugin"));
    let gone = format!("file://{}", server.path("gone").display());
    assert_eq!(refused(json!({"source": gone})).await, code(502, "source_unavailable"));
    let secret = json!({"T": {"kind": "StaticSecret", "value": "s3cret-value"}});
    for (source, status) in [
        ("http://u:${T}@127.0.0.1:9/r", 502),
        ("http://u:s3cret-value@127.0.0.1:9/r", 502),
        ("http://127.0.0.1:9/r?private_token=${T}", 502),
        ("http://127.0.0.1:9/r?private_token=s3cret-value", 502),
        ("file:///nowhere/${T}", 502),
        ("/nowhere/${T}", 422),
        ("${T}", 422),
        ("u:s3cret-value@h/r", 422),
    ] {
        let answer = server.post("/api/plugins/fetch", json!({"source": source, "secrets": secret})).await;
        assert_eq!(answer.status, status, "{source} {}", answer.text());
        assert!(!answer.text().contains("s3cret-value"), "{source} {}", answer.text());
    }
    assert_eq!(server.post("/api/plugins/fetch", json!({"source": "x", "timeout": 0})).await.status, 422);
}

#[tokio::test]
async fn what_requests_find_and_cannot_use_is_counted_for_the_operator() {
    let server = server().await;
    let project = server.path("odd");
    for (path, content) in [
        ("odd/.agents/skills/wrong.md", "---\nname: [\n---\n"),
        ("odd/.agents/agents/wrong.md", "---\nname: [\n---\n"),
        ("odd/.agents/plugins/wrong/.plugin/plugin.json", "{"),
        ("odd/.agents/plugins/part/hooks/hooks.json", "{"),
        ("home/.openhands/plugins/installed/.installed.json", "{"),
    ] {
        let path = server.path(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }
    let left_out = async || {
        let figures = server.get("/metrics").await.text();
        let line = figures.lines().find_map(|line| line.strip_prefix("annals_left_out ")).unwrap().to_owned();
        line.parse::<u32>().unwrap()
    };
    assert_eq!(left_out().await, 0);
    let body = json!({"project_dir": project});
    for (route, count) in [("plugins", 3), ("skills", 4), ("sub-agents", 5), ("plugins", 5)] {
        assert_eq!(server.post(&format!("/api/{route}"), body.clone()).await.status, 200, "{route}");
        assert_eq!(left_out().await, count, "{route}");
    }
    // What is installed cannot be changed until the record is corrected.
    let listed = server.get("/api/plugins/installed").await;
    assert_eq!(listed.status, 500);
    assert!(listed.text().contains(".installed.json"), "{}", listed.text());
}

#[tokio::test]
async fn a_public_list_shows_no_credentials_and_names_no_folder_of_this_machine() {
    let server = server().await;
    let plugins = json!([
        {"name": "fine", "source": "./plugins/weather"},
        {"name": "private", "source": "https://u:s3cret@h/r?token=s3cret"},
        {"name": "here", "source": {"source": "url", "url": "/etc", "path": "plugins/x"}},
        {"name": "there", "source": "file:///etc"},
    ]);
    let skills = json!([{"name": "rule", "source": "https://u:s3cret@h/rule"}]);
    let list = json!({"name": "public", "owner": {"name": "o"}, "plugins": plugins, "skills": skills});
    fs::write(server.path("public/.plugin/marketplace.json"), list.to_string()).unwrap();
    let names = |list: &Value| -> Vec<String> {
        list.as_array().unwrap().iter().map(|entry| entry["name"].as_str().unwrap().to_owned()).collect()
    };
    let found = server.get("/api/plugins/marketplace").await;
    assert_eq!(names(&found.json()["plugins"]), ["fine"]);
    let found = server.get("/api/skills/marketplace").await;
    assert_eq!(names(&found.json()["skills"]), ["fine", "private", "rule"]);
    assert!(!found.text().contains("s3cret"), "{}", found.text());
    // Those that are left out are reported, and so is a list that cannot be read.
    let figures = server.get("/metrics").await.text();
    assert!(figures.lines().any(|line| line == "annals_left_out 2"), "{figures}");
    fs::write(server.path("public/.plugin/marketplace.json"), "{").unwrap();
    for route in ["plugins", "skills"] {
        let found = server.get(&format!("/api/{route}/marketplace")).await.ok();
        assert_eq!(found[route], json!([]));
    }
    let figures = server.get("/metrics").await.text();
    assert!(figures.lines().any(|line| line == "annals_left_out 3"), "{figures}");
}

#[tokio::test]
async fn sub_agents_are_listed_with_their_level() {
    let server = server().await;
    let found = server.post("/api/sub-agents", json!({"project_dir": server.path("project")})).await.ok();
    let shown: Vec<(&str, &str)> = found["agents"]
        .as_array()
        .unwrap()
        .iter()
        .map(|agent| (agent["name"].as_str().unwrap(), agent["level"].as_str().unwrap()))
        .collect();
    assert_eq!(&shown[..2], [("local", "project"), ("mine", "user")]);
    assert!(shown.contains(&("general-purpose", "builtin")));
    assert_eq!(found["agents"][1]["permission_mode"], "never_confirm");
    let none = json!({"load_user": false, "load_builtin": false});
    assert_eq!(server.post("/api/sub-agents", none).await.ok(), json!({"agents": []}));
}

#[tokio::test]
async fn a_conversation_has_its_requested_plugins_and_loads_more_by_name() {
    let server = server().await;
    let model = model(&["One.", "Two."]);
    let mut wanted = server.conversation_request(&model);
    wanted["plugins"] = json!([{"source": "https://u:pw@h/r", "repo_path": "../x"}]);
    let refused = server.post("/api/conversations", wanted.clone()).await;
    assert_eq!(
        (refused.status, &refused.json()["detail"][0]["loc"]),
        (422, &json!(["body", "plugins", "0", "repo_path"]))
    );
    let market = json!([{"name": "public", "source": server.path("public")}]);
    wanted["agent"]["agent_context"] = json!({"registered_marketplaces": market});
    wanted["plugins"] = json!([{"source": server.path("src"), "ref": null, "repo_path": null}]);
    let made = server.post("/api/conversations", wanted).await;
    assert_eq!(made.status, 201, "{}", made.text());
    let id = made.json()["id"].as_str().unwrap().to_owned();
    assert_eq!(server.say(&id, "A zebra").await, "finished");
    let path = format!("/api/conversations/{id}");
    let info = server.get(&format!("{path}?include_skills=true")).await.ok();
    assert_eq!(info["activated_knowledge_skills"], json!(["a"]));
    let names = |info: &Value| -> Vec<String> {
        let skills = info["agent"]["agent_context"]["skills"].as_array().unwrap().iter();
        skills.map(|skill| skill["name"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(names(&info), ["a", "my-plugin:go"]);
    let load = async |reference: &str| {
        server.post(&format!("{path}/load_plugin"), json!({"plugin_ref": reference})).await
    };
    assert_eq!(load("weather@public").await.ok(), json!({"success": true}));
    let none = json!("Plugin 'gone' not found in any registered marketplace");
    assert_eq!(load("gone").await.refusal(), (404, none));
    assert_eq!(load("x@nowhere").await.refusal(), (404, json!("Marketplace 'nowhere' is not registered")));
    assert_eq!(load("x@").await.refusal().0, 400);
    let info = server.get(&path).await.ok();
    assert_eq!(info["agent_state"]["resolved_plugins"].as_array().unwrap().len(), 2);
}
