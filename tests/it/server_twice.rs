//! Two servers on one file, each a process: what one runs the other leaves alone, also while that one stands still, and takes
//! up once it is gone.
#![cfg(all(feature = "cli", feature = "server", unix))]

use reqwest::{Method, StatusCode};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::hostile::Hostile;
use crate::support::caller::until;
use crate::support::model_server::{Answer, ModelServer};

fn root(id: &str) -> String {
    format!("/api/conversations/{id}")
}

fn tell(server: &Hostile, signal: Signal) {
    let pid = Pid::from_raw(server.child.id().unwrap().cast_signed()).unwrap();
    kill_process(pid, signal).unwrap();
}

async fn status(server: &Hostile, id: &str) -> Value {
    server.get(&root(id)).await.1["execution_status"].clone()
}

/// Everything that only one of them may do.
async fn refused(server: &Hostile, id: &str, holder: u32) {
    let asked = [
        (Method::POST, format!("{}/run", root(id)), json!({})),
        (Method::POST, format!("{}/navigate", root(id)), json!({})),
        (Method::PATCH, root(id), json!({"title": "Mine"})),
        (Method::DELETE, root(id), Value::Null),
    ];
    for (method, path, body) in asked {
        let (code, said) = server.ask(method.clone(), &path, Some(body)).await;
        assert_eq!(code, StatusCode::CONFLICT, "{method} {path}: {said}");
        if !path.ends_with("/run") {
            let said = said.to_string();
            assert!(said.contains(&holder.to_string()) && said.contains("since"), "{method} {path}: {said}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_one_runs_is_its_own_until_it_is_gone() {
    let mut one = Hostile::start().await;
    let model = ModelServer::start([Answer::text("Late.").held(), Answer::text("Here.")]);
    let id = one.conversation(&model, &one.path("work"), json!({})).await;
    one.say(&id);
    model.arrived(1).await;
    until(async || status(&one, &id).await == "running").await;
    let other = one.beside().await;
    let holder = one.child.id().unwrap();
    refused(&other, &id, holder).await;
    // Who stands still is not gone: it may go on at any moment.
    tell(&one, Signal::STOP);
    refused(&other, &id, holder).await;
    assert_eq!(status(&other, &id).await, "running");
    assert_eq!(other.get(&format!("{}/events/count", root(&id))).await.0, StatusCode::OK);
    tell(&one, Signal::CONT);
    model.release();
    until(async || status(&other, &id).await == "finished").await;
    // An idle one is either's, and nothing of it was lost.
    other.say(&id);
    until(async || other.get(&format!("{}/agent_final_response", root(&id))).await.1["response"] == "Here.")
        .await;
    assert_eq!(one.get(&format!("{}/agent_final_response", root(&id))).await.1["response"], "Here.");

    // Who is killed while it runs is gone: the other says so by itself, and goes on.
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
