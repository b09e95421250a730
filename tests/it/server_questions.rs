//! Questions that would never end, asked of a server: it goes on answering, and nothing is left running for those who
//! have left.

use annals::Expected;
use reqwest::{Method, StatusCode};
use serde_json::json;

use crate::support::events::said;
use crate::support::served::Served;
#[cfg(unix)]
use crate::support::statements::{growing, straight};
use crate::support::{Scratch, conversation};

/// Goes on until its time is over.
const ENDLESS: &str = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT max(x) FROM n";

#[tokio::test(flavor = "multi_thread")]
async fn ten_that_never_end_leave_the_server_answering() {
    let scratch = Scratch::new();
    let store = scratch.open();
    store.append(&conversation("talk"), Expected::Empty, &[said("a", "hello")]).unwrap();
    let server = Served::start(&store).await;
    let url = format!("{}/api/annals/query", server.url);
    let endless = || {
        let body = json!({"sql": ENDLESS, "limits": {"seconds": 30}}).to_string();
        tokio::spawn(server.client.post(&url).body(body).send())
    };
    let asked: Vec<_> = (0..10).map(|_| endless()).collect();

    // Four are asked, and as long as they are the others are refused, at once or soon.
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
    let event = said("b", "still there").payload().to_owned();
    let path = format!("{}/api/annals/conversations/talk/events", server.url);
    assert_eq!(server.client.post(path).body(event).send().await.unwrap().status(), StatusCode::OK);

    // Those who asked leave, and their places are free: long before the statements' time would be over.
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

    // A server that ends does not wait for them either.
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
async fn statements_that_the_engine_does_not_look_into_leave_it_answering_too() {
    let scratch = Scratch::new();
    let store = scratch.open();
    store.append(&conversation("talk"), Expected::Empty, &[said("a", "hello")]).unwrap();
    let server = Served::start(&store).await;
    let limits = json!({"seconds": 1});
    let url = format!("{}/api/annals/query", server.url);
    let ask = async |sql: String| {
        let body = json!({"sql": sql, "limits": limits}).to_string();
        loop {
            let answer = server.client.post(&url).body(body.clone()).send().await.unwrap();
            // Others are asked at the moment.
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
