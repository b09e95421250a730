//! What the server stores for clients besides conversations: agent profiles, shared keys, MCP servers, and settings.

use serde_json::{Value, json};

use crate::support::caller::Served;

fn rule(detail: &Value) -> (&str, &Value) {
    (detail[0]["type"].as_str().unwrap_or_default(), &detail[0]["loc"])
}

#[tokio::test]
async fn one_agent_profile_is_always_active() {
    let server = Served::start().await;
    let first = server.get("/api/agent-profiles").await.ok();
    assert_eq!(
        (&first["profiles"][0]["name"], &first["profiles"][0]["revision"]),
        (&json!("default"), &json!(0))
    );
    assert_eq!(first["active_agent_profile_id"], first["profiles"][0]["id"]);
    assert_eq!(server.get("/api/agent-profiles").await.ok(), first, "the default profile is made once");
    let save = async |name: &str, body| server.post(&format!("/api/agent-profiles/{name}"), body).await;
    let saved = save("mine", json!({"llm_profile_ref": "a", "name": "other", "id": "7"})).await;
    assert_eq!((saved.status, saved.json()["message"].clone()), (201, json!("Agent profile 'mine' saved")));
    let one = server.get("/api/agent-profiles/mine").await.ok()["profile"].clone();
    assert_eq!(
        (&one["name"], &one["revision"], &one["schema_version"]),
        (&json!("mine"), &json!(0), &json!(4))
    );
    assert_eq!(one["condenser"]["max_size"], json!(240), "missing fields have their defaults");
    save("mine", json!({"llm_profile_ref": "b"})).await.ok();
    let two = server.get("/api/agent-profiles/mine").await.ok()["profile"].clone();
    assert_eq!((&two["id"], &two["revision"]), (&one["id"], &json!(1)), "the id stays the same");
    let id = one["id"].as_str().unwrap();
    let activated = server.post(&format!("/api/agent-profiles/{id}/activate"), json!({})).await.ok();
    assert_eq!((&activated["id"], &activated["agent_settings_applied"]), (&json!(id), &json!(false)));
    server.post("/api/agent-profiles/mine/rename", json!({"new_name": "ours"})).await.ok();
    let list = server.get("/api/agent-profiles").await.ok();
    assert_eq!(list["active_agent_profile_id"], json!(id), "a new name does not change the active profile");
    assert_eq!(server.get("/api/agent-profiles/ours").await.ok()["profile"]["name"], json!("ours"));
    server.request("DELETE", "/api/agent-profiles/ours", None).await.ok();
    let list = server.get("/api/agent-profiles").await.ok();
    assert_eq!(
        list["active_agent_profile_id"], first["active_agent_profile_id"],
        "the default profile becomes active"
    );
    server.request("DELETE", "/api/agent-profiles/ours", None).await.ok();
}

#[tokio::test]
async fn invalid_agent_profiles_are_refused() {
    let server = Served::start().await;
    let save = async |body| server.post("/api/agent-profiles/a", body).await.refusal();
    for (body, kind, place) in [
        (json!({}), "missing", json!(["openhands", "llm_profile_ref"])),
        (
            json!({"llm_profile_ref": "a", "acp_server": "codex"}),
            "extra_forbidden",
            json!(["openhands", "acp_server"]),
        ),
        (json!({"agent_kind": "acp", "acp_server": "zz"}), "literal_error", json!(["acp", "acp_server"])),
        (
            json!({"llm_profile_ref": "a", "condenser": {"max_size": 1}}),
            "greater_than_equal",
            json!(["openhands", "condenser", "max_size"]),
        ),
    ] {
        let (status, detail) = save(body.clone()).await;
        assert_eq!((status, rule(&detail)), (422, (kind, &place)), "{body}: {detail}");
    }
    assert_eq!(save(json!({"llm_profile_ref": "a", "schema_version": 99})).await.0, 422);
    for path in [
        "/api/agent-profiles/a%20b",
        "/api/agent-profiles/.a",
        "/api/meta-profiles/a%20b",
        "/api/profiles/a%20b",
    ] {
        let (status, detail) = server.get(path).await.refusal();
        assert_eq!(
            (status, rule(&detail)),
            (422, ("string_pattern_mismatch", &json!(["path", "name"]))),
            "{path}"
        );
    }
    for (path, text) in [
        ("/api/agent-profiles/none", "Agent profile 'none' not found"),
        ("/api/meta-profiles/none", "Meta-profile 'none' not found"),
        ("/api/settings/secrets?agent_profile_id=x", "Agent profile not found"),
    ] {
        assert_eq!(server.get(path).await.refusal(), (404, json!(text)));
    }
    let (status, _) =
        server.post("/api/agent-profiles/none/rename", json!({"new_name": "b"})).await.refusal();
    assert_eq!(status, 404);
    let activated = server.post("/api/agent-profiles/none/activate", json!({})).await;
    assert_eq!(activated.refusal(), (404, json!("Agent profile with id 'none' not found")));
    assert_eq!(server.get("/api/agent-profiles").await.ok()["profiles"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn a_profile_is_resolved_to_settings_or_its_errors_are_listed() {
    let server = Served::start().await;
    let llm = json!({"model": "openai/x", "api_key": "sk-kept-1"});
    server.post("/api/profiles/quick", json!({"llm": llm})).await.ok();
    server.post("/api/agent-profiles/a", json!({"llm_profile_ref": "quick"})).await.ok();
    let answer = server.post("/api/agent-profiles/a/materialize", json!({})).await;
    assert!(!answer.text().contains("sk-kept-1"));
    let resolved = answer.ok();
    assert_eq!(
        (&resolved["valid"], &resolved["llm_api_key_set"], &resolved["resolved_settings"]["llm"]["api_key"]),
        (&json!(true), &json!(true), &json!("**********"))
    );
    let draft =
        json!({"profile": {"llm_profile_ref": "none", "mcp_server_refs": ["x"], "tools": [{"name": "fly"}]}});
    let resolved = server.post("/api/agent-profiles/draft/materialize", draft).await.ok();
    assert_eq!(
        resolved["errors"],
        json!([
            "Tool(s) this server cannot run: fly",
            "LLM profile 'none' not found",
            "MCP server(s) not configured: x"
        ])
    );
    assert_eq!((&resolved["valid"], &resolved["resolved_settings"]), (&json!(false), &Value::Null));
    assert_eq!(server.get("/api/agent-profiles/draft").await.status, 404, "a draft is not stored");
}

#[tokio::test]
async fn a_profile_uses_the_key_of_its_provider_connection() {
    let server = Served::start().await;
    const PATH: &str = "/api/llm/provider-connections";
    assert_eq!(server.get(PATH).await.ok(), json!([]));
    let made = server
        .post(PATH, json!({"display_name": "Ours", "api_key": "sk-kept-2", "base_url": "http://a"}))
        .await;
    assert_eq!(
        (made.status, &made.json()["api_key_set"], &made.json()["provider"]),
        (201, &json!(true), &json!("custom"))
    );
    let id = made.json()["id"].as_str().unwrap().to_owned();
    let file =
        std::fs::read_to_string(server.path("settings/provider-connections/provider_connections.json"))
            .unwrap();
    assert!(file.contains(&id) && file.contains("Ours"), "{file}");
    assert!(!file.contains("sk-kept-2") && !made.text().contains("sk-kept-2"), "{file}");
    for wrong in [
        json!({"api_key": "a"}),
        json!({"display_name": "a"}),
        json!({"display_name": "a", "api_key": " "}),
        json!({"display_name": "a", "api_key": "**********"}),
        json!({"display_name": "a", "api_key": "k", "more": 1}),
    ] {
        assert_eq!(server.post(PATH, wrong.clone()).await.status, 422, "{wrong}");
    }
    let one = format!("{PATH}/{id}");
    let patch = async |body| server.request("PATCH", &one, Some(body)).await;
    assert_eq!(patch(json!({"base_url": null})).await.ok()["base_url"], Value::Null);
    for wrong in [json!({}), json!({"api_key": null}), json!({"display_name": null})] {
        assert_eq!(patch(wrong.clone()).await.status, 422, "{wrong}");
    }
    server
        .post("/api/profiles/linked", json!({"llm": {"model": "openai/x", "provider_connection_id": id}}))
        .await
        .ok();
    let headers = [("x-session-api-key", crate::support::caller::KEY), ("x-expose-secrets", "plaintext")];
    let shown = server.send("GET", "/api/profiles/linked", &headers, b"").await.ok();
    assert_eq!(shown["config"]["api_key"], json!("sk-kept-2"));
    assert_eq!(server.request("DELETE", &one, None).await.status, 409, "the connection is in use");
    server.request("DELETE", "/api/profiles/linked", None).await.ok();
    assert_eq!(server.request("DELETE", &one, None).await.ok()["api_key_set"], json!(false));
    assert_eq!(server.request("DELETE", &one, None).await.status, 404);
    assert_eq!(patch(json!({"base_url": "b"})).await.status, 404);
}

#[tokio::test]
async fn mcp_servers_of_the_settings_are_changed_one_by_one() {
    let server = Served::start().await;
    const PATH: &str = "/api/settings/mcp/docs";
    let body = json!({"url": "http://a", "headers": {"X": "secret-1", "Y": "2"}});
    let made = server.post(PATH, body.clone()).await;
    let servers = &made.json()["agent_settings"]["mcp_config"];
    assert_eq!((made.status, &servers["docs"]["enabled"]), (201, &json!(true)));
    assert_eq!(servers["docs"]["headers"]["X"], json!("**********"));
    assert_eq!(server.post(PATH, body).await.refusal(), (409, json!("MCP server 'docs' already exists")));
    let patch = async |path: &str, body| server.request("PATCH", path, Some(body)).await;
    let changed = patch(PATH, json!({"headers": {"X": null}, "enabled": false})).await.ok();
    assert_eq!(
        changed["agent_settings"]["mcp_config"]["docs"],
        json!({"url": "http://a", "headers": {"Y": "**********"}, "enabled": false})
    );
    assert_eq!(patch("/api/settings/mcp/none", json!({"url": "http://a"})).await.status, 404);
    assert_eq!(patch(PATH, json!({"bogus": 1})).await.status, 422);
    assert_eq!(server.post("/api/settings/mcp/b", json!({"args": "x"})).await.status, 422);
    let gone = server.request("DELETE", PATH, None).await.ok();
    assert_eq!(gone["agent_settings"]["mcp_config"], json!({}));
    assert_eq!(server.request("DELETE", PATH, None).await.status, 404);
}

#[tokio::test]
async fn a_meta_profile_is_stored() {
    let server = Served::start().await;
    let body = json!({"classifier_model": "a", "classes": [{"name": "n", "description": "d", "model": "b"}]});
    let saved = server.post("/api/meta-profiles/m", body).await;
    assert_eq!(saved.status, 201, "{}", saved.text());
    assert_eq!(server.post("/api/meta-profiles/n", json!({})).await.status, 422);
    server.post("/api/meta-profiles/m/activate", json!({})).await.ok();
    let list = server.get("/api/meta-profiles").await.ok();
    assert_eq!(
        list,
        json!({"meta_profiles": [{"name": "m", "classifier_model": "a", "num_classes": 1}], "active_meta_profile": "m"})
    );
    server.request("DELETE", "/api/meta-profiles/m", None).await.ok();
    assert_eq!(
        server.get("/api/meta-profiles").await.ok(),
        json!({"meta_profiles": [], "active_meta_profile": null})
    );
}

#[tokio::test]
async fn the_requests_of_the_browser_application_are_answered() {
    let server = Served::start().await;
    for form in ["agent", "conversation"] {
        let form = server.get(&format!("/api/settings/{form}-schema")).await.ok();
        let sections = form["sections"].as_array().unwrap();
        assert!(!sections.is_empty());
        for section in sections {
            assert!(!section["fields"].as_array().unwrap().is_empty(), "{section}");
        }
    }
    for (path, answer) in [
        ("/api/canvas-extensions/installed", json!({"canvas_extensions": []})),
        ("/api/vscode/url", json!({"url": null})),
        ("/api/llm/subscription/openai/models", json!({"vendor": "openai", "models": []})),
        (
            "/api/git/repositories/search?provider=github",
            json!({"items": [], "next_page_id": null, "missing_token": true}),
        ),
    ] {
        assert_eq!(server.get(path).await.ok(), answer, "{path}");
    }
    assert_eq!(server.get("/api/git/repositories/search").await.status, 422);
    let info = server.get("/server_info").await.ok();
    assert_eq!(
        (&info["version"], &info["sdk_version"], &info["annals_version"]),
        (&json!("1.58.0"), &json!("1.58.0"), &json!(env!("CARGO_PKG_VERSION")))
    );
}

#[tokio::test]
async fn a_model_and_an_mcp_server_are_tested_before_they_are_stored() {
    let server = Served::start().await;
    let model = crate::support::caller::model(&["pong"]);
    let llm = json!({"model": "openai/x", "api_key": "k", "base_url": format!("{}/v1", model.url())});
    let tried = server.post("/api/profiles/new/validate", json!({"llm": llm})).await.ok();
    assert_eq!(tried, json!({"valid": true, "error": null}));
    let llm = json!({"model": "openai/x", "api_key": "k", "base_url": "http://127.0.0.1:1/v1"});
    let tried = server.post("/api/profiles/new/validate", json!({"llm": llm})).await.ok();
    assert_eq!(
        (&tried["valid"], &tried["error"]["type"]),
        (&json!(false), &json!("LLMServiceUnavailableError"))
    );
    assert_eq!(server.post("/api/profiles/new/validate", json!({})).await.status, 422);
    let tried =
        server.post("/api/mcp/test", json!({"server": {"type": "stdio", "command": "/none"}})).await.ok();
    assert_eq!((&tried["ok"], &tried["error_kind"]), (&json!(false), &json!("connection")));
    // Only the transport that the client names is tried.
    let server_of = |kind: &str| json!({"server": {"type": kind, "url": "http://127.0.0.1:1/sse"}});
    let tried = server.post("/api/mcp/test", server_of("sse")).await.ok();
    assert!(
        tried["ok"] == json!(false) && tried["error"].as_str().unwrap().contains("transport sse"),
        "{tried}"
    );
    let tried = server.post("/api/mcp/test", server_of("shttp")).await.ok();
    assert_eq!((&tried["ok"], &tried["error_kind"]), (&json!(false), &json!("connection")));
    assert_eq!(server.post("/api/mcp/test", json!({})).await.status, 422);
}

#[tokio::test]
async fn a_trial_shows_no_credential_of_an_address() {
    let server = Served::start().await;
    for address in [
        "http://user:hunter2@127.0.0.1:1/v1",
        "http://hunter2@127.0.0.1:1/v1",
        "http://127.0.0.1:1/v1?key=hunter2",
        "http://127.0.0.1:1/v1?a=1&api_key=hunter2",
        "http://user:hunter2@127.0.0.1:1/v1?access_token=hunter2#a",
    ] {
        let llm = json!({"model": "openai/x", "api_key": "k", "base_url": address});
        let tried = server.post("/api/profiles/new/validate", json!({"llm": llm})).await.ok();
        assert_eq!(tried["valid"], json!(false), "{address}: {tried}");
        let message = tried["error"]["message"].as_str().unwrap();
        assert!(!message.is_empty() && !message.contains("hunter2"), "{address}: {message}");
        // The address of the server itself, and what a program says about one.
        let says = format!("echo 'no answer from {address}' >&2; exit 1");
        for (members, is_said) in [
            (json!({"type": "shttp", "url": address}), false),
            (json!({"type": "stdio", "command": "sh", "args": ["-c", says]}), true),
        ] {
            let tried = server.post("/api/mcp/test", json!({ "server": members })).await.ok();
            assert_eq!(
                (&tried["ok"], &tried["error_kind"]),
                (&json!(false), &json!("connection")),
                "{tried}"
            );
            let error = tried["error"].as_str().unwrap();
            assert!(!error.is_empty() && !error.contains("hunter2"), "{address}: {error}");
            assert!(
                !is_said || error.contains("no answer from http://") && error.contains("****"),
                "{error}"
            );
        }
    }
}

#[tokio::test]
async fn a_named_transport_is_used_and_an_unknown_one_is_rejected_at_its_key() {
    let server = Served::start().await;
    let url = "http://127.0.0.1:1/sse";
    let both = json!({"server": {"type": "http", "transport": "sse", "url": url}});
    let tried = server.post("/api/mcp/test", both).await.ok();
    assert!(tried["error"].as_str().unwrap().contains("transport sse"), "{tried}");
    for (members, key) in [
        (json!({"type": "pigeon", "url": url}), "type"),
        (json!({"type": 7, "url": url}), "type"),
        (json!({"transport": "pigeon", "url": url}), "transport"),
        (json!({"type": "http", "transport": "pigeon", "url": url}), "transport"),
    ] {
        let answer = server.post("/api/mcp/test", json!({ "server": members })).await;
        let body = answer.json();
        assert_eq!(
            (answer.status, &body["detail"][0]["loc"]),
            (422, &json!(["body", "server", key])),
            "{body}"
        );
    }
}
