//! `/api/annals/feed`: sends every event of the file once and in order, even if several threads write and the client
//! reconnects often.

use std::collections::BTreeMap;

use annals::store::FeedEvent;
use annals::{Expected, Options, Position, Store};
use proptest::prelude::*;
use reqwest::Response;
use serde_json::Value;

use crate::support::conversation;
use crate::support::events::{event, pause};
use crate::support::served::Served;

/// One event of a stream.
#[derive(Debug, Clone, PartialEq)]
struct Sent {
    id: u64,
    kind: String,
    data: Value,
}

/// A client that reads the stream as the standard describes it.
struct Client {
    response: Response,
    buffer: String,
}

impl Client {
    async fn open(server: &Served, query: &str, last: Option<u64>) -> Self {
        let mut request = server.client.get(format!("{}/api/annals/feed{query}", server.url));
        if let Some(last) = last {
            request = request.header("last-event-id", last.to_string());
        }
        let response = request.send().await.unwrap();
        assert_eq!(response.status(), 200);
        assert_eq!(response.headers()["content-type"], "text/event-stream");
        Self { response, buffer: String::new() }
    }

    /// The next event; `None` at the end of the stream.
    async fn next(&mut self) -> Option<Sent> {
        loop {
            if let Some((one, rest)) = self.buffer.split_once("\n\n") {
                let mut fields: BTreeMap<String, Vec<String>> = BTreeMap::new();
                for (name, value) in one.lines().filter_map(|line| line.split_once(": ")) {
                    fields.entry(name.to_owned()).or_default().push(value.to_owned());
                }
                self.buffer = rest.to_owned();
                let Some(data) = fields.get("data") else { continue };
                return Some(Sent {
                    id: fields["id"][0].parse().unwrap(),
                    kind: fields.get("event").map_or_else(|| "message".to_owned(), |kind| kind[0].clone()),
                    data: serde_json::from_str(&data.join("\n")).unwrap(),
                });
            }
            let piece = self.response.chunk().await.unwrap()?;
            self.buffer.push_str(std::str::from_utf8(&piece).unwrap());
        }
    }

    /// The next `count` events of the log.
    async fn take(&mut self, count: usize) -> Vec<Sent> {
        let mut taken = Vec::new();
        while taken.len() < count {
            let sent = self.next().await.expect("the stream ended");
            if sent.kind == "message" {
                taken.push(sent);
            }
        }
        taken
    }
}

/// Returns the events of the log after the position `after`.
fn logged(store: &Store, after: u64) -> Vec<(u64, String, u64, Value)> {
    let mut follower = store.follow(Position(after));
    let mut all = Vec::new();
    loop {
        let page = follower.next_page(1000, std::time::Duration::ZERO).unwrap();
        if page.is_empty() {
            return all;
        }
        all.extend(page.into_iter().map(|FeedEvent { conversation, event, .. }| {
            let payload = serde_json::from_str(&event.payload).unwrap();
            (event.position.0, conversation.to_string(), event.sequence.0, payload)
        }));
    }
}

fn received(sent: &[Sent]) -> Vec<(u64, String, u64, Value)> {
    sent.iter()
        .map(|sent| {
            assert_eq!(sent.data["position"], sent.id);
            (
                sent.id,
                sent.data["conversation"].as_str().unwrap().to_owned(),
                sent.data["sequence"].as_u64().unwrap(),
                sent.data["event"].clone(),
            )
        })
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_feed_begins_at_the_requested_position_and_continues() {
    let store = Store::in_memory(&Options::default()).unwrap();
    let talk = conversation("talk");
    let spread = "{\n  \"id\": \"e1\",\r\n  \"kind\": \"PauseEvent\"\n}";
    store.append(&talk, Expected::Any, &[pause("e0"), annals::NewEvent::parse(spread).unwrap()]).unwrap();
    let server = Served::start(&store).await;
    let mut whole = Client::open(&server, "?after=0", None).await;
    let mut live = Client::open(&server, "", None).await;
    let mut back = Client::open(&server, "?after=0", Some(1)).await;
    for (client, after) in [(&mut whole, 0), (&mut live, 2), (&mut back, 1)] {
        let begin = client.next().await.unwrap();
        assert_eq!((begin.id, &*begin.kind, begin.data["after"].as_u64()), (after, "begin", Some(after)));
    }
    store
        .append(&talk, Expected::Any, &[event("e2", "PauseEvent", serde_json::json!({"text": "a\nb"}))])
        .unwrap();
    assert_eq!(received(&whole.take(3).await), logged(&store, 0));
    assert_eq!(received(&back.take(2).await), logged(&store, 1));
    assert_eq!(received(&live.take(1).await), logged(&store, 2));
    // The server ends although clients are still connected.
    server.end().await;
    assert_eq!(whole.next().await, None);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_number_of_followers_is_bounded() {
    let store = Store::in_memory(&Options::default()).unwrap();
    let server = Served::start(&store).await;
    let mut clients = Vec::new();
    let refused = loop {
        let response = server.client.get(format!("{}/api/annals/feed", server.url)).send().await.unwrap();
        if response.status() != 200 {
            break response.status();
        }
        clients.push(response);
        assert!(clients.len() <= 1000, "more than a thousand clients were accepted");
    };
    assert_eq!((refused.as_u16(), clients.len()), (429, 64));
    server.end().await;
}

/// What happens while a client reads a feed.
#[derive(Debug, Clone)]
struct Course {
    /// The number of events that each writer appends.
    writers: Vec<u8>,
    /// The number of conversations to which they append.
    conversations: u8,
    /// The number of events after which the client disconnects and reconnects, for each of its visits.
    visits: Vec<u8>,
}

fn course() -> impl Strategy<Value = Course> {
    (prop::collection::vec(1u8..40, 1..4), 1u8..4, prop::collection::vec(0u8..30, 0..5))
        .prop_map(|(writers, conversations, visits)| Course { writers, conversations, visits })
}

async fn run(course: &Course) {
    let store = Store::in_memory(&Options::default()).unwrap();
    store.append(&conversation("before"), Expected::Any, &[pause("first")]).unwrap();
    let server = Served::start(&store).await;
    let total = 1 + course.writers.iter().map(|count| usize::from(*count)).sum::<usize>();
    let writers: Vec<_> = course
        .writers
        .iter()
        .enumerate()
        .map(|(writer, count)| {
            let (store, count, conversations) = (store.clone(), *count, course.conversations);
            tokio::task::spawn_blocking(move || {
                for number in 0..count {
                    let talk = conversation(&format!("talk-{}", number % conversations));
                    store.append(&talk, Expected::Any, &[pause(&format!("{writer}-{number}"))]).unwrap();
                }
            })
        })
        .collect();
    let mut seen: Vec<Sent> = Vec::new();
    for visit in course.visits.iter().map(|count| usize::from(*count)).chain([usize::MAX]) {
        let mut client = Client::open(&server, "?after=0", seen.last().map(|last| last.id)).await;
        let wanted = visit.min(total - seen.len());
        seen.extend(client.take(wanted).await);
    }
    for writer in writers {
        writer.await.unwrap();
    }
    assert_eq!(received(&seen), logged(&store, 0));
    let ids: Vec<u64> = seen.iter().map(|sent| sent.id).collect();
    assert_eq!(ids, (1..=total as u64).collect::<Vec<_>>());
    server.end().await;
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn every_event_is_sent_exactly_once_however_often_the_client_reconnects(course in course()) {
        tokio::runtime::Runtime::new().unwrap().block_on(run(&course));
    }
}
