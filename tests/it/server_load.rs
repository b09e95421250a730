//! Sixty-four connections append while sockets follow. No event is lost or repeated, and the order is that of the log.

use std::sync::Arc;

use annals::{ConversationId, Expected, NewEvent, Store};
use futures_util::StreamExt as _;
use serde_json::Value;
use tokio::task::JoinSet;
use tokio_tungstenite::connect_async;
use tokio_tungstenite::tungstenite::Message;

use crate::support::events::payload;
use crate::support::served::{Served, http_client};
use crate::support::{Scratch, all_events};

const WRITERS: usize = 64;
const EACH: usize = 25;
const CONVERSATIONS: usize = 4;
/// The number of sockets of each kind on each conversation.
const SOCKETS: usize = 3;

fn talk(number: usize) -> ConversationId {
    ConversationId::new(&format!("00000000-0000-4000-8000-00000000000{number}")).unwrap()
}

/// Begins a conversation with one event, because a socket needs an existing conversation.
fn begin(store: &Store, id: &ConversationId) {
    let first =
        NewEvent::parse(payload("first", "PauseEvent", serde_json::json!({"source": "user"}))).unwrap();
    store.append(id, Expected::Empty, &[first]).unwrap();
}

/// Appends `EACH` events over one connection to the conversations in turn. Each event has its own request.
async fn write(url: String, writer: usize) {
    let client = http_client();
    for number in 0..EACH {
        let event =
            payload(&format!("{writer}-{number}"), "PauseEvent", serde_json::json!({"source": "user"}));
        let target =
            format!("{url}/api/annals/conversations/{}/events", talk((writer + number) % CONVERSATIONS));
        let answer = client.post(target).body(event).send().await.unwrap();
        assert_eq!(answer.status(), 200);
    }
}

/// Receives `count` events of the log from a socket. Returns their ids, and their sequences if the socket sends them.
async fn listen(url: String, count: usize) -> Vec<(Option<u64>, String)> {
    let (mut socket, _) = connect_async(url).await.unwrap();
    let mut received = Vec::new();
    while received.len() < count {
        let Message::Text(text) = socket.next().await.expect("the socket ended").unwrap() else { continue };
        let frame: Value = serde_json::from_str(&text).unwrap();
        let (sequence, event) = match frame["type"].as_str() {
            Some("durable") => (frame["seq"].as_u64(), &frame["event"]),
            Some(_) => continue,
            None if frame["key"] == "full_state" => continue,
            None => (None, &frame),
        };
        received.push((sequence, event["id"].as_str().unwrap().to_owned()));
    }
    received
}

#[tokio::test(flavor = "multi_thread")]
async fn sockets_and_the_feed_receive_exactly_the_log() {
    let scratch = Scratch::new();
    let store = scratch.open();
    (0..CONVERSATIONS).for_each(|number| begin(&store, &talk(number)));
    let server = Served::start(&store).await;
    let each = 1 + WRITERS * EACH / CONVERSATIONS;

    let mut listeners = JoinSet::new();
    for number in 0..CONVERSATIONS {
        for _ in 0..SOCKETS {
            let events = server.socket(&format!("/sockets/events/{}?resend_mode=all", talk(number)));
            listeners.spawn(async move { (number, listen(events, each).await) });
            let session = server.socket(&format!("/sockets/session/{}?after_seq=-1", talk(number)));
            listeners.spawn(async move { (number, listen(session, each).await) });
        }
    }
    let feed = server.client.get(format!("{}/api/annals/feed?after=0", server.url)).send().await.unwrap();
    let total = each * CONVERSATIONS;
    let follower = tokio::spawn(positions(feed, total));

    let mut writers = JoinSet::new();
    for writer in 0..WRITERS {
        writers.spawn(write(server.url.clone(), writer));
    }
    while let Some(done) = writers.join_next().await {
        done.unwrap();
    }

    let logs: Arc<Vec<Vec<String>>> = Arc::new(
        (0..CONVERSATIONS)
            .map(|number| {
                all_events(&store, &talk(number)).iter().map(|event| event.id.to_string()).collect()
            })
            .collect(),
    );
    assert_eq!(logs.iter().map(Vec::len).sum::<usize>(), total);
    while let Some(received) = listeners.join_next().await {
        let (number, received) = received.unwrap();
        let ids: Vec<&String> = received.iter().map(|(_, id)| id).collect();
        assert_eq!(ids, logs[number].iter().collect::<Vec<_>>(), "conversation {number}");
        for (place, (sequence, _)) in received.iter().enumerate() {
            assert!(
                sequence.is_none_or(|sequence| sequence == place as u64),
                "conversation {number}: {place}"
            );
        }
    }
    assert_eq!(follower.await.unwrap(), (1..=total as u64).collect::<Vec<_>>());
    // The events of each writer are in the order of its requests.
    for log in logs.iter() {
        for writer in 0..WRITERS {
            let own: Vec<usize> = log
                .iter()
                .filter_map(|id| {
                    id.strip_prefix(&format!("{writer}-")).and_then(|number| number.parse().ok())
                })
                .collect();
            assert!(own.is_sorted(), "writer {writer}: {own:?}");
        }
    }
    server.end().await;
}

/// Reads `count` positions from a feed.
async fn positions(mut feed: reqwest::Response, count: usize) -> Vec<u64> {
    let (mut positions, mut buffer) = (Vec::new(), String::new());
    while positions.len() < count {
        let piece = feed.chunk().await.unwrap().expect("the feed ended");
        buffer.push_str(std::str::from_utf8(&piece).unwrap());
        while let Some((one, rest)) = buffer.split_once("\n\n") {
            let id = one.lines().find_map(|line| line.strip_prefix("id: "));
            if let Some(id) = id.filter(|_| !one.contains("event: begin")) {
                positions.push(id.parse().unwrap());
            }
            buffer = rest.to_owned();
        }
    }
    positions
}
