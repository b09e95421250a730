//! Servers of several machines on one log: what a reader sees on each, and what a server does whose file differs.

use annals::server::{Config, Consistency};
use annals::{Expected, Store};
use reqwest::StatusCode;

use crate::server::Server;
use crate::support::events::user_message;
use crate::support::served::Served;
use crate::support::{Scratch, conversation};

async fn serve(store: &Store, consistency: Consistency) -> Served {
    Served::with(store, Config::default().consistency(consistency)).await
}

async fn append(store: &Store, id: &str) {
    let (store, event) = (store.clone(), user_message(id, "text"));
    let append = move || store.append(&conversation("talk"), Expected::Any, &[event]).map(drop);
    tokio::task::spawn_blocking(append).await.unwrap().unwrap();
}

const TALK: &str = "/api/annals/conversations/talk";

#[tokio::test(flavor = "multi_thread")]
async fn a_reader_of_another_machine_sees_what_was_written_before_it_asked() {
    let (server, scratch) = (Server::with_log(), Scratch::new());
    let a = server.open_apart(&scratch.path("a.db")).await;
    let b = server.open_apart(&scratch.path("b.db")).await;
    let [here, there] = [&a, &b].map(|store| serve(store, Consistency::Log));
    let (here, there) = (here.await, there.await);
    for number in 0..30 {
        append(&a, &format!("m-{number}")).await;
        assert_eq!(there.json(TALK).await["event_count"], number + 1);
    }
    // Many questions at once are one question to the log, and each has what was written before it.
    append(&b, "last").await;
    let asked = futures_util::future::join_all((0..20).map(|_| here.json(TALK))).await;
    assert!(asked.iter().all(|talk| talk["event_count"] == 31), "{asked:?}");
    here.end().await;
    there.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reader_can_name_the_entry_that_an_answer_must_have() {
    let (server, scratch) = (Server::with_log(), Scratch::new());
    let a = server.open_apart(&scratch.path("a.db")).await;
    let b = server.open_apart(&scratch.path("b.db")).await;
    let (here, there) = (serve(&a, Consistency::File).await, serve(&b, Consistency::File).await);
    append(&a, "first").await;
    for number in 0..10 {
        let event = format!(r#"{{"id":"e-{number}","kind":"PauseEvent","source":"user"}}"#);
        let request = here.client.post(format!("{}{TALK}/events", here.url)).body(event);
        let request = request.header("content-type", "application/json");
        let answer = request.send().await.unwrap();
        assert!(answer.status().is_success(), "{}", answer.text().await.unwrap());
        let entry = answer.headers()["annals-entry"].clone();
        let request = there.client.get(format!("{}{TALK}", there.url)).header("annals-as-of", &entry);
        let answer = request.send().await.unwrap();
        let has: u64 = answer.headers()["annals-entry"].to_str().unwrap().parse().unwrap();
        assert!(has >= entry.to_str().unwrap().parse().unwrap());
        let talk: serde_json::Value = answer.json().await.unwrap();
        assert_eq!(talk["event_count"], number + 2);
    }
    let request = there.client.get(format!("{}{TALK}", there.url)).header("annals-as-of", "soon");
    assert_eq!(request.send().await.unwrap().status(), StatusCode::BAD_REQUEST);
    here.end().await;
    there.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_whose_file_is_ahead_of_the_log_answers_nothing() {
    let (server, scratch) = (Server::with_log(), Scratch::new());
    let store = server.open_apart(&scratch.path("a.db")).await;
    let served = serve(&store, Consistency::File).await;
    append(&store, "one").await;
    let metric = |text: &str, name: &str| -> f64 {
        let line = text.lines().find(|line| line.starts_with(&format!("{name} "))).unwrap_or_default();
        line.rsplit(' ').next().and_then(|value| value.parse().ok()).unwrap_or(-1.0)
    };
    let text = served.get("/metrics").await.text;
    assert_eq!(metric(&text, "annals_shared_entry"), 2.0, "{text}");
    assert_eq!(metric(&text, "annals_shared_log_entry"), 2.0);
    assert_eq!((metric(&text, "annals_shared_trouble"), metric(&text, "annals_shared_stopped")), (0.0, 0.0));
    let set_back = tokio::task::spawn_blocking({
        let store = store.clone();
        move || {
            let before = server.dump();
            let event = [user_message("two", "text")];
            store.append(&conversation("talk"), Expected::Any, &event).unwrap();
            server.restore(&before);
            let event = [user_message("three", "text")];
            let refused = store.append(&conversation("talk"), Expected::Any, &event);
            (server, refused)
        }
    });
    let (server, refused) = set_back.await.unwrap();
    assert!(refused.is_err());
    let answer = served.get(TALK).await;
    assert_eq!(answer.status, StatusCode::SERVICE_UNAVAILABLE, "{}", answer.text);
    assert!(answer.text.contains("shared log"), "{}", answer.text);
    let ready = served.get("/ready").await;
    assert_eq!(ready.status, StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(served.get("/alive").await.status, StatusCode::OK);
    assert_eq!(metric(&served.get("/metrics").await.text, "annals_shared_stopped"), 1.0);
    served.end().await;
    tokio::task::spawn_blocking(|| drop((server, store))).await.unwrap();
}
