//! The end of a run as clients read it.

use serde_json::json;

use crate::support::caller::{Served, until};
use crate::support::model_server::{Answer, ModelServer};

/// A Stop hook. The first time, it waits for the file `go` and objects. The second time, it agrees.
const OBJECTS_ONCE: &str = "if [ -e asked ]; then exit 0; fi; touch asked; \
     while [ ! -e go ]; do sleep 0.02; done; echo run the tests >&2; exit 2";

#[tokio::test]
async fn a_run_has_not_finished_while_a_stop_hook_may_object() {
    let server = Served::start().await;
    std::fs::create_dir_all(server.path("work")).unwrap();
    let finish = |id: &str| Answer::calls("", &[(id, "finish", r#"{"message":"done"}"#)]);
    let model = ModelServer::start([finish("c1"), finish("c2")]);
    let mut wanted = server.conversation_request(&model);
    wanted["hook_config"] =
        json!({"stop": [{"matcher": "*", "hooks": [{"type": "command", "command": OBJECTS_ONCE}]}]});
    wanted["initial_message"] =
        json!({"role": "user", "content": [{"type": "text", "text": "Go"}], "run": true});
    let made = server.post("/api/conversations", wanted).await.json();
    let id = made["id"].as_str().unwrap();
    until(async || server.path("work/asked").exists()).await;
    // A slow hook does not delay a read.
    let info = server.get(&format!("/api/conversations/{id}")).await.ok();
    assert_eq!(info["execution_status"], "running");
    // From here on, the reads show the hook's answer and its effect.
    std::fs::write(server.path("work/go"), "").unwrap();
    assert_eq!(server.wait_until_done(id).await, "finished");
    let events = server.get(&format!("/api/conversations/{id}/events/search?limit=100")).await.ok();
    let feedbacks: Vec<_> = events["items"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|event| event["kind"] == "MessageEvent" && event["source"] == "environment")
        .map(|event| event["llm_message"]["content"][0]["text"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(feedbacks, ["[Stop hook feedback] run the tests"]);
}
