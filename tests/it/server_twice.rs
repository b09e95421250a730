//! Two server processes on one file. The second does not touch a conversation that the first runs, even while the first
//! is stopped. It takes the conversation over once the first is gone.
#![cfg(all(feature = "cli", feature = "server", unix))]

use reqwest::{Method, StatusCode};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::hostile::ServerProcess;
use crate::support::caller::until;
use crate::support::model_server::{Answer, ModelServer};

fn root(id: &str) -> String {
    format!("/api/conversations/{id}")
}

fn send_signal(server: &ServerProcess, signal: Signal) {
    let pid = Pid::from_raw(server.child.id().unwrap().cast_signed()).unwrap();
    kill_process(pid, signal).unwrap();
}

async fn status(server: &ServerProcess, id: &str) -> Value {
    server.get(&root(id)).await.1["execution_status"].clone()
}

/// Asserts that the server refuses everything that only the holder may do.
async fn assert_refused(server: &ServerProcess, id: &str, holder: u32) {
    let asked = [
        (Method::POST, format!("{}/run", root(id)), json!({})),
        (Method::POST, format!("{}/navigate", root(id)), json!({})),
        (Method::PATCH, root(id), json!({"title": "Mine"})),
        (Method::DELETE, root(id), Value::Null),
    ];
    for (method, path, body) in asked {
        let (code, answer) = server.ask(method.clone(), &path, Some(body)).await;
        assert_eq!(code, StatusCode::CONFLICT, "{method} {path}: {answer}");
        if !path.ends_with("/run") {
            let text = answer.to_string();
            assert!(text.contains(&holder.to_string()) && text.contains("since"), "{method} {path}: {text}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_conversation_belongs_to_the_server_that_runs_it_until_it_is_gone() {
    let mut one = ServerProcess::start().await;
    let model = ModelServer::start([Answer::text("Late.").held(), Answer::text("Here.")]);
    let id = one.conversation(&model, &one.path("work"), json!({})).await;
    one.say(&id);
    model.arrived(1).await;
    until(async || status(&one, &id).await == "running").await;
    let other = one.beside().await;
    let holder = one.child.id().unwrap();
    assert_refused(&other, &id, holder).await;
    // A stopped process is not gone, because it may continue at any moment.
    send_signal(&one, Signal::STOP);
    assert_refused(&other, &id, holder).await;
    assert_eq!(status(&other, &id).await, "running");
    assert_eq!(other.get(&format!("{}/events/count", root(&id))).await.0, StatusCode::OK);
    send_signal(&one, Signal::CONT);
    model.release();
    until(async || status(&other, &id).await == "finished").await;
    // Both servers may use an idle conversation, and nothing of it was lost.
    other.say(&id);
    until(async || other.get(&format!("{}/agent_final_response", root(&id))).await.1["response"] == "Here.")
        .await;
    assert_eq!(one.get(&format!("{}/agent_final_response", root(&id))).await.1["response"], "Here.");

    // A process that is killed during a run is gone. The other server notices by itself and goes on.
    let model = ModelServer::start([Answer::text("Never.").held(), Answer::text("Again.")]);
    let id = one.conversation(&model, &one.path("more"), json!({})).await;
    one.say(&id);
    model.arrived(1).await;
    until(async || status(&other, &id).await == "running").await;
    one.child.kill().await.unwrap();
    until(async || status(&other, &id).await == "error").await;
    other.say(&id);
    until(async || other.get(&format!("{}/agent_final_response", root(&id))).await.1["response"] == "Again.")
        .await;
    until(async || status(&other, &id).await == "finished").await;
    let (code, _) = other.ask(Method::DELETE, &root(&id), None).await;
    assert_eq!(code, StatusCode::OK);
    other.end().await;
}
