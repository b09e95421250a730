//! The store for async programs: nothing is lost where a future is dropped, and waiting costs no thread.

use std::time::Duration;

use annals::store::EventQuery;
use annals::{ConversationId, Error, Expected, Options, Position, Sequence, aio};

use crate::support::child::{self, Running};
use crate::support::events::{event, said};
use crate::support::{Scratch, assert_sound, conversation};

/// Whatever is waited for comes well before.
const PATIENCE: Duration = Duration::from_secs(120);

fn open(scratch: &Scratch) -> aio::Store {
    aio::Store::from(scratch.open())
}

async fn next(feed: &mut aio::Follower, limit: usize) -> Vec<String> {
    let page =
        tokio::time::timeout(PATIENCE, feed.next_page(limit)).await.expect("events come in time").unwrap();
    page.into_iter().map(|event| event.event.id.as_str().to_owned()).collect()
}

async fn append(store: &aio::Store, talk: &ConversationId, name: &str) {
    store.append(talk, Expected::Any, vec![said(name, "text")]).await.unwrap();
}

#[tokio::test]
async fn events_come_back_and_conflicts_are_told() {
    let scratch = Scratch::new();
    let store = aio::Store::open_with(scratch.database(), Options::default()).await.unwrap();
    let talk = conversation("talk");
    let places =
        store.append(&talk, Expected::Empty, vec![said("a", "one"), said("b", "two")]).await.unwrap();
    assert_eq!(places.iter().map(|place| place.sequence).collect::<Vec<_>>(), [Sequence(0), Sequence(1)]);
    let stale = store.append(&talk, Expected::Exact(1), vec![said("c", "three")]).await;
    assert!(matches!(stale, Err(Error::Conflict { .. })), "{stale:?}");
    assert_eq!(store.events(&talk, EventQuery::default(), 10).await.unwrap().events.len(), 2);
    let asked = talk.clone();
    assert_eq!(store.run(move |store| store.conversation(&asked)).await.unwrap().event_count, 2);
    assert_sound(store.blocking());
}

/// Futures are dropped at every point that they can be dropped at: after each poll.
#[tokio::test]
async fn a_page_that_was_dropped_comes_again() {
    let scratch = Scratch::new();
    let store = open(&scratch);
    let talk = conversation("talk");
    let mut feed = store.follow(Position::START);
    let mut seen = Vec::new();
    for number in 0..20 {
        append(&store, &talk, &format!("e{number:02}")).await;
        for polls in 0..4 {
            // Polled that often, and dropped.
            let mut dropped = Box::pin(feed.next_page(1));
            for _ in 0..polls {
                let waker = std::task::Waker::noop();
                if let std::task::Poll::Ready(page) =
                    dropped.as_mut().poll(&mut std::task::Context::from_waker(waker))
                {
                    seen.extend(page.unwrap().into_iter().map(|event| event.event.id.as_str().to_owned()));
                    break;
                }
                tokio::task::yield_now().await;
            }
        }
    }
    while seen.len() < 20 {
        seen.extend(next(&mut feed, 7).await);
    }
    let all: Vec<String> = (0..20).map(|number| format!("e{number:02}")).collect();
    assert_eq!(seen, all);
}

#[tokio::test]
async fn an_append_that_was_dropped_is_stored_whole_or_not_at_all_and_can_be_repeated() {
    let scratch = Scratch::new();
    let store = open(&scratch);
    let talk = conversation("talk");
    for number in 0..50 {
        let events: Vec<_> = (0..3).map(|part| said(&format!("e{number:02}-{part}"), "text")).collect();
        let mut dropped = Box::pin(store.append(&talk, Expected::Any, events.clone()));
        let waker = std::task::Waker::noop();
        let _maybe_done = dropped.as_mut().poll(&mut std::task::Context::from_waker(waker));
        drop(dropped);
        store.append(&talk, Expected::Any, events).await.unwrap();
        let count = store.blocking().conversation(&talk).unwrap().event_count;
        assert_eq!(count, (number + 1) * 3);
    }
    assert_sound(store.blocking());
}

#[tokio::test]
async fn a_thousand_followers_wait_without_threads_and_all_get_the_event() {
    let scratch = Scratch::new();
    let store = open(&scratch);
    let talk = conversation("talk");
    append(&store, &talk, "first").await;
    let head = store.blocking().head().unwrap();
    let followers: Vec<_> = (0..1000)
        .map(|_| {
            let mut feed = store.follow(head);
            tokio::spawn(async move { next(&mut feed, 10).await })
        })
        .collect();
    // All of them have looked once and wait: none has finished, and what reads is bounded by the pool.
    for _ in 0..50 {
        tokio::task::yield_now().await;
    }
    append(&store, &talk, "second").await;
    for follower in followers {
        assert_eq!(follower.await.unwrap(), ["second"]);
    }
}

#[tokio::test]
async fn kinds_and_subscriptions_work_as_without_async() {
    let scratch = Scratch::new();
    let store = open(&scratch);
    let talk = conversation("talk");
    append(&store, &talk, "a").await;
    for name in ["r1", "r2"] {
        store.append(&talk, Expected::Any, vec![event(name, "rare", serde_json::json!({}))]).await.unwrap();
    }
    let mut mailer = store.subscription("mailer").await.unwrap().kinds(["rare"]);
    let page = tokio::time::timeout(PATIENCE, mailer.next_page(1)).await.unwrap().unwrap();
    assert_eq!(page[0].event.id.as_str(), "r1");
    mailer.acknowledge().await.unwrap();
    assert!(matches!(mailer.acknowledge_to(Position(99)).await, Err(Error::Subscription { .. })));
    let mut again = store.subscription("mailer").await.unwrap().kinds(["rare"]);
    let page = tokio::time::timeout(PATIENCE, again.next_page(10)).await.unwrap().unwrap();
    assert_eq!(page.len(), 1);
    assert_eq!(page[0].event.id.as_str(), "r2");
    assert_eq!(store.follow_conversation(&talk, Sequence(2)).place(), 2);
}

#[tokio::test]
async fn another_process_appends_and_a_waiting_follower_gets_it() {
    const TEST: &str = "aio::another_process_appends_and_a_waiting_follower_gets_it";
    if let Some(role) = child::role() {
        let store = annals::Store::open(role.database).unwrap();
        store.append(&conversation("talk"), Expected::Any, &[said("theirs", "text")]).unwrap();
        return;
    }
    let scratch = Scratch::new();
    let store = open(&scratch);
    let mut feed = store.follow(Position::START);
    let mut waiting = Box::pin(next(&mut feed, 10));
    // It reads the empty log, and waits.
    for _ in 0..100 {
        let polled = tokio::time::timeout(Duration::from_millis(1), &mut waiting).await;
        assert!(polled.is_err(), "nothing was appended yet");
    }
    let database = scratch.database();
    let appender = tokio::task::spawn_blocking(move || {
        Running::start(child::command(TEST, "appender", &database)).finish();
    });
    assert_eq!(waiting.await, ["theirs"]);
    appender.await.unwrap();
}
