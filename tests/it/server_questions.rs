//! Queries that would never end, sent to a server. It keeps answering, and it stops the queries of clients that have
//! left.

use annals::Expected;
use reqwest::{Method, StatusCode};
use serde_json::json;

use crate::support::events::user_message;
use crate::support::served::Served;
#[cfg(unix)]
use crate::support::statements::{growing, straight};
use crate::support::{Scratch, conversation};

/// A query that runs until its time limit.
const ENDLESS: &str = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT max(x) FROM n";

#[tokio::test(flavor = "multi_thread")]
async fn ten_endless_queries_do_not_block_the_server() {
    let scratch = Scratch::new();
    let store = scratch.open();
    store.append(&conversation("talk"), Expected::Empty, &[user_message("a", "hello")]).unwrap();
    let server = Served::start(&store).await;
    let url = format!("{}/api/annals/query", server.url);
    let endless = || {
        let body = json!({"sql": ENDLESS, "limits": {"seconds": 30}}).to_string();
        tokio::spawn(server.client.post(&url).body(body).send())
    };
    let asked: Vec<_> = (0..10).map(|_| endless()).collect();

    // Four queries run at a time. Meanwhile all others are refused, at once or soon.
    let small = json!({"sql": "SELECT count(*) FROM events"});
    let refused = loop {
        let request = server.client.post(&url).body(small.to_string()).send().await.unwrap();
        if request.status() == StatusCode::SERVICE_UNAVAILABLE {
            break request;
        }
    };
    assert_eq!(refused.headers()["retry-after"], "1");
    assert_eq!(server.get("/health").await.status, StatusCode::OK);
    assert_eq!(server.get("/api/annals/conversations").await.status, StatusCode::OK);
    let event = user_message("b", "still there").payload().to_owned();
    let path = format!("{}/api/annals/conversations/talk/events", server.url);
    assert_eq!(server.client.post(path).body(event).send().await.unwrap().status(), StatusCode::OK);

    // The clients leave, and their queries are stopped long before their time limit.
    asked.iter().for_each(tokio::task::JoinHandle::abort);
    for one in asked {
        let _aborted = one.await;
    }
    let answer = loop {
        let answer = server.ask(Method::POST, "/api/annals/query", Some(&small)).await;
        if answer.status != StatusCode::SERVICE_UNAVAILABLE {
            break answer;
        }
    };
    assert_eq!(answer.json()["rows"], json!([[2]]));

    // A server that ends does not wait for the queries either.
    let last: Vec<_> = (0..4).map(|_| endless()).collect();
    while server.ask(Method::POST, "/api/annals/query", Some(&small)).await.status == StatusCode::OK {}
    server.end().await;
    for one in last {
        let answer = one.await.unwrap().unwrap();
        assert_eq!(answer.status(), StatusCode::SERVICE_UNAVAILABLE);
        assert!(answer.text().await.unwrap().contains("ended before it was done"));
    }
}

#[cfg(unix)]
#[tokio::test(flavor = "multi_thread")]
async fn statements_that_escape_the_engines_checks_do_not_block_the_server() {
    let scratch = Scratch::new();
    let store = scratch.open();
    store.append(&conversation("talk"), Expected::Empty, &[user_message("a", "hello")]).unwrap();
    let server = Served::start(&store).await;
    let limits = json!({"seconds": 1});
    let url = format!("{}/api/annals/query", server.url);
    let ask = async |sql: String| {
        let body = json!({"sql": sql, "limits": limits}).to_string();
        loop {
            let answer = server.client.post(&url).body(body.clone()).send().await.unwrap();
            // 503 means that other queries are running; then it is sent again.
            if answer.status() != StatusCode::SERVICE_UNAVAILABLE {
                assert_eq!(answer.status(), StatusCode::UNPROCESSABLE_ENTITY, "{sql:.200}");
                return;
            }
        }
    };
    let asked = futures_util::future::join_all(growing().into_iter().chain(straight()).map(ask));
    let others = async {
        loop {
            assert_eq!(server.get("/health").await.status, StatusCode::OK);
            assert_eq!(server.get("/api/annals/conversations").await.status, StatusCode::OK);
        }
    };
    tokio::select! {
        _ = asked => {}
        () = others => {}
    }
    server.end().await;
}
