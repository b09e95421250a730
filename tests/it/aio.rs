//! The store for async programs: a dropped future loses no data, and a waiting future takes no thread.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::task::{Context, Waker};
use std::time::{Duration, Instant};

use annals::store::EventQuery;
use annals::{ConversationId, Error, Expected, Options, Position, Sequence, aio};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::oneshot;

use crate::support::child::{self, Running};
use crate::support::events::{event, user_message};
use crate::support::{Scratch, assert_sound, conversation};

/// The time limit of a wait. A test that passes needs much less.
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
    store.append(talk, Expected::Any, vec![user_message(name, "text")]).await.unwrap();
}

#[tokio::test]
async fn events_are_read_back_and_conflicts_are_reported() {
    let scratch = Scratch::new();
    let store = aio::Store::open_with(scratch.database(), Options::default()).await.unwrap();
    let talk = conversation("talk");
    let places = store
        .append(&talk, Expected::Empty, vec![user_message("a", "one"), user_message("b", "two")])
        .await
        .unwrap();
    assert_eq!(places.iter().map(|place| place.sequence).collect::<Vec<_>>(), [Sequence(0), Sequence(1)]);
    let stale = store.append(&talk, Expected::Exact(1), vec![user_message("c", "three")]).await;
    assert!(matches!(stale, Err(Error::Conflict { .. })), "{stale:?}");
    assert_eq!(store.events(&talk, EventQuery::default(), 10).await.unwrap().events.len(), 2);
    let id = talk.clone();
    assert_eq!(store.run(move |store| store.conversation(&id)).await.unwrap().event_count, 2);
    assert_sound(store.blocking());
}

/// Each future is dropped after zero to three polls, because a future can only be dropped between polls.
#[tokio::test]
async fn a_dropped_page_is_delivered_again() {
    let scratch = Scratch::new();
    let store = open(&scratch);
    let talk = conversation("talk");
    let mut feed = store.follow(Position::START);
    let mut seen = Vec::new();
    for number in 0..20 {
        append(&store, &talk, &format!("e{number:02}")).await;
        for polls in 0..4 {
            // Poll it that many times, then drop it.
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
async fn a_dropped_append_is_stored_whole_or_not_at_all_and_can_be_repeated() {
    let scratch = Scratch::new();
    let store = open(&scratch);
    let talk = conversation("talk");
    for number in 0..50 {
        let events: Vec<_> =
            (0..3).map(|part| user_message(&format!("e{number:02}-{part}"), "text")).collect();
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

/// The names of this process's threads. `None` if the system does not list them.
fn threads() -> Option<Vec<String>> {
    let tasks = std::fs::read_dir("/proc/self/task").ok()?;
    // A thread that ends meanwhile has no name.
    let name = |task: std::io::Result<std::fs::DirEntry>| {
        Some(std::fs::read_to_string(task.ok()?.path().join("comm")).ok()?.trim_end().to_owned())
    };
    Some(tasks.filter_map(name).collect())
}

/// A runtime with one thread, and at most `blocking` threads that may block and end as soon as they have no work.
fn runtime(blocking: usize) -> Runtime {
    let idle = Duration::from_millis(1);
    let mut builder = Builder::new_current_thread();
    builder.enable_all().max_blocking_threads(blocking).thread_keep_alive(idle).build().unwrap()
}

/// The test runs in a process of its own, where no other test starts threads.
#[test]
fn a_thousand_followers_wait_without_threads_and_all_get_the_event() {
    const TEST: &str = "aio::a_thousand_followers_wait_without_threads_and_all_get_the_event";
    const FOLLOWERS: usize = 1000;
    let Some(role) = child::role() else {
        let scratch = Scratch::new();
        Running::start(child::command(TEST, "followers", &scratch.database())).finish();
        return;
    };
    runtime(512).block_on(async {
        let options = Options::default().pool_size(1);
        let store = aio::Store::open_with(role.database, options).await.unwrap();
        let talk = conversation("talk");
        append(&store, &talk, "first").await;
        let head = store.blocking().last_position().unwrap();
        let before = threads();
        let begun = Arc::new(AtomicUsize::new(0));
        let followers: Vec<_> = (0..FOLLOWERS)
            .map(|_| {
                let (mut feed, begun) = (store.follow(head), Arc::clone(&begun));
                tokio::spawn(async move {
                    begun.fetch_add(1, Ordering::Relaxed);
                    next(&mut feed, 10).await
                })
            })
            .collect();
        while begun.load(Ordering::Relaxed) < FOLLOWERS {
            tokio::task::yield_now().await;
        }
        // There is one permit, given in the order of the requests. So each follower has now read the log once.
        store.run(|_| Ok(())).await.unwrap();
        for _ in 0..FOLLOWERS {
            tokio::task::yield_now().await;
        }
        assert!(followers.iter().all(|follower| !follower.is_finished()), "a follower got an event early");
        // The runtime's threads end soon after their work. The watch may stay.
        let read = Instant::now();
        while let (Some(before), Some(now)) = (&before, threads()) {
            if now.len() <= before.len() + 1 {
                break;
            }
            assert!(read.elapsed() < PATIENCE, "{before:?}, and with the followers {now:?}");
            tokio::task::yield_now().await;
        }
        append(&store, &talk, "second").await;
        for follower in followers {
            assert_eq!(follower.await.unwrap(), ["second"]);
        }
        drop(store);
        let dropped = Instant::now();
        while threads().is_some_and(|names| names.iter().any(|name| name.starts_with("annals-"))) {
            assert!(dropped.elapsed() < PATIENCE, "a closed store still has threads: {:?}", threads());
            tokio::task::yield_now().await;
        }
    });
}

/// The test runs in a process of its own, where no other test starts threads.
#[test]
fn a_follower_opens_its_connection_on_a_thread_that_may_block() {
    const TEST: &str = "aio::a_follower_opens_its_connection_on_a_thread_that_may_block";
    let Some(role) = child::role() else {
        let scratch = Scratch::new();
        Running::start(child::command(TEST, "follower", &scratch.database())).finish();
        return;
    };
    runtime(1).block_on(async {
        let store = aio::Store::open_with(role.database, Options::default()).await.unwrap();
        let (begin, begun) = oneshot::channel();
        let (release, released) = mpsc::channel();
        let busy = tokio::task::spawn_blocking(move || {
            begin.send(()).unwrap();
            released.recv().unwrap();
        });
        begun.await.unwrap();
        // The only blocking thread is busy. So opening a connection and starting the watch must wait.
        let before = threads();
        let mut feed = store.follow(Position::START);
        let mut waiting = Box::pin(next(&mut feed, 10));
        for _ in 0..10 {
            assert!(waiting.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
            tokio::task::yield_now().await;
        }
        if let (Some(before), Some(now)) = (before, threads()) {
            assert!(now.len() <= before.len(), "{before:?}, and with the follower {now:?}");
        }
        release.send(()).unwrap();
        busy.await.unwrap();
        append(&store, &conversation("talk"), "a").await;
        assert_eq!(waiting.await, ["a"]);
    });
}

/// A blocking append waits for the commit of the appends before it. That commit must not need the blocked thread.
#[test]
fn appends_are_committed_even_if_every_blocking_thread_waits_for_one() {
    let scratch = Scratch::new();
    let runtime = runtime(1);
    let in_time = runtime.block_on(async {
        let store = open(&scratch);
        let talk = conversation("talk");
        let (begin, begun) = oneshot::channel();
        let (release, released) = mpsc::channel();
        let (blocking, theirs) = (store.blocking().clone(), talk.clone());
        let busy = tokio::task::spawn_blocking(move || {
            begin.send(()).unwrap();
            released.recv().unwrap();
            blocking.append(&theirs, Expected::Any, &[user_message("theirs", "text")]).unwrap();
        });
        begun.await.unwrap();
        // This append is the first in the queue, so it needs a thread that commits.
        let mut ours = Box::pin(append(&store, &talk, "ours"));
        let polled = ours.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        release.send(()).unwrap();
        let both = async {
            if polled.is_pending() {
                ours.await;
            }
            busy.await.unwrap();
            assert_eq!(store.blocking().conversation(&talk).unwrap().event_count, 2);
        };
        tokio::time::timeout(PATIENCE, both).await.is_ok()
    });
    // If the appends wait for each other, this test must fail instead of waiting for them.
    runtime.shutdown_background();
    assert!(in_time, "the two appends wait for each other");
}

#[test]
fn all_handles_of_a_store_share_its_bound() {
    let scratch = Scratch::new();
    let options = Options::default().pool_size(1);
    let store = annals::Store::open_with(scratch.database(), &options).unwrap();
    let (one, other) = (aio::Store::from(store.clone()), aio::Store::from(store));
    runtime(2).block_on(async {
        let (begin, begun) = oneshot::channel();
        let (release, released) = mpsc::channel();
        let (tell, told) = mpsc::channel();
        let first = tokio::spawn(async move {
            let work = move |_: &annals::Store| {
                begin.send(()).unwrap();
                released.recv().unwrap();
                Ok(())
            };
            one.run(work).await
        });
        begun.await.unwrap();
        // The first has one of the two threads, and the only permit.
        let mut second = Box::pin(other.run(move |_| {
            tell.send(()).unwrap();
            Ok(())
        }));
        assert!(second.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        // The other thread takes its work in order: had it work of the second, that would be done now.
        tokio::task::spawn_blocking(|| ()).await.unwrap();
        assert!(told.try_recv().is_err(), "both ran at once");
        release.send(()).unwrap();
        second.await.unwrap();
        first.await.unwrap().unwrap();
    });
}

#[test]
fn a_handle_is_closed_on_a_thread_that_may_block_and_the_last_one_closes_the_file() {
    let scratch = Scratch::new();
    let log = scratch.path("annals.db-wal");
    runtime(1).block_on(async {
        let store = open(&scratch);
        append(&store, &conversation("talk"), "a").await;
        store.clone().close().await;
        assert!(log.exists(), "another handle is left");
        let (begin, begun) = oneshot::channel();
        let (release, released) = mpsc::channel();
        let busy = tokio::task::spawn_blocking(move || {
            begin.send(()).unwrap();
            released.recv().unwrap();
        });
        begun.await.unwrap();
        let mut closing = Box::pin(store.close());
        assert!(closing.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        assert!(log.exists(), "the only thread that may block is busy");
        release.send(()).unwrap();
        busy.await.unwrap();
        closing.await;
        assert!(!log.exists(), "the last connection removes the log");
    });
}

#[tokio::test]
async fn an_old_handle_cannot_acknowledge_for_a_recreated_subscription() {
    let scratch = Scratch::new();
    let store = open(&scratch);
    append(&store, &conversation("talk"), "a").await;
    let mut old = store.subscription("mailer").await.unwrap();
    assert_eq!(old.next_page(10).await.unwrap().len(), 1);
    assert!(store.run(|store| store.delete_subscription("mailer")).await.unwrap());
    let mut new = store.subscription("mailer").await.unwrap();
    let refused = old.acknowledge().await;
    assert!(matches!(refused, Err(Error::StaleSubscription { .. })), "{refused:?}");
    assert_eq!(new.next_page(10).await.unwrap()[0].event.id.as_str(), "a");
    new.acknowledge().await.unwrap();
    assert_eq!(store.run(|store| store.subscriptions()).await.unwrap()[0].position, Position(1));
}

#[tokio::test]
async fn kinds_and_subscriptions_work_as_in_the_blocking_store() {
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
    let place = annals::store::FeedPlace::Conversation(Some(Sequence(1)));
    assert_eq!(store.follow_conversation(&talk, Some(Sequence(1))).place(), place);
}

#[tokio::test]
async fn another_process_appends_and_a_waiting_follower_gets_it() {
    const TEST: &str = "aio::another_process_appends_and_a_waiting_follower_gets_it";
    if let Some(role) = child::role() {
        let store = annals::Store::open(role.database).unwrap();
        store.append(&conversation("talk"), Expected::Any, &[user_message("theirs", "text")]).unwrap();
        return;
    }
    let scratch = Scratch::new();
    let store = open(&scratch);
    let mut feed = store.follow(Position::START);
    let mut waiting = Box::pin(next(&mut feed, 10));
    // The follower reads the empty log and waits.
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
