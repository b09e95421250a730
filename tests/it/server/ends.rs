//! The end of a run as its readers see it.

use serde_json::json;

use crate::support::caller::{Served, until};
use crate::support::model_server::{Answer, ModelServer};

/// A Stop hook that objects once, as soon as there is a file `go`; the second time it agrees.
const OBJECTS_ONCE: &str = "if [ -e asked ]; then exit 0; fi; touch asked; \
     while [ ! -e go ]; do sleep 0.02; done; echo run the tests >&2; exit 2";

#[tokio::test]
async fn what_a_hook_may_still_object_to_has_not_finished() {
    let server = Served::start().await;
    std::fs::create_dir_all(server.path("work")).unwrap();
    let finish = |id: &str| Answer::calls("", &[(id, "finish", r#"{"message":"done"}"#)]);
    let model = ModelServer::start([finish("c1"), finish("c2")]);
    let mut wanted = server.wanted(&model);
    wanted["hook_config"] =
        json!({"stop": [{"matcher": "*", "hooks": [{"type": "command", "command": OBJECTS_ONCE}]}]});
    wanted["initial_message"] =
        json!({"role": "user", "content": [{"type": "text", "text": "Go"}], "run": true});
    let made = server.post("/api/conversations", wanted).await.json();
    let id = made["id"].as_str().unwrap();
    until(async || server.path("work/asked").exists()).await;
    // A hook that takes long keeps no reader waiting for it.
    let info = server.get(&format!("/api/conversations/{id}")).await.ok();
    assert_eq!(info["execution_status"], "running");
    // What is read from here on is what it answers, and what came of that.
    std::fs::write(server.path("work/go"), "").unwrap();
    assert_eq!(server.rest(id).await, "finished");
    let events = server.get(&format!("/api/conversations/{id}/events/search?limit=100")).await.ok();
    let said: Vec<_> = events["items"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|event| event["kind"] == "MessageEvent" && event["source"] == "environment")
        .map(|event| event["llm_message"]["content"][0]["text"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(said, ["[Stop hook feedback] run the tests"]);
}
