//! Following the log: there is no gap and no duplicate, with several writers and with slow readers.

use std::time::Duration;

use annals::store::{EventQuery, FeedEvent, FeedPlace, Follower};
use annals::{ConversationId, Error, Expected, Options, Position, Sequence, Store};

use crate::support::child::{self, Running};
use crate::support::events::{pause, user_message};
use crate::support::{Scratch, all_events, assert_error, conversation, without_projector};

/// Longer than any test takes. A follower that waits this long was not woken.
const LONG: Duration = Duration::from_secs(120);

/// Reads `count` events, at most `limit` at a time.
fn read(feed: &mut Follower, count: usize, limit: usize) -> Vec<FeedEvent> {
    let mut seen = Vec::new();
    while seen.len() < count {
        let page = feed.next_page(limit, LONG).unwrap();
        assert!((1..=limit).contains(&page.len()), "a page of {} after {}", page.len(), seen.len());
        seen.extend(page);
    }
    assert_eq!(seen.len(), count);
    seen
}

fn positions(events: &[FeedEvent]) -> Vec<u64> {
    events.iter().map(|event| event.event.position.0).collect()
}

fn sequences(events: &[FeedEvent]) -> Vec<u64> {
    events.iter().map(|event| event.event.sequence.0).collect()
}

/// Appends `count` events named after `writer`, to conversations `talk-0` to `talk-2` in turn.
fn write(store: &Store, writer: &str, count: usize) {
    for number in 0..count {
        let talk = conversation(&format!("talk-{}", number % 3));
        store.append(&talk, Expected::Any, &[pause(&format!("{writer}-{number}"))]).unwrap();
    }
}

#[test]
fn a_follower_of_everything_sees_every_event_once_while_many_write() {
    let scratch = Scratch::new();
    for store in [scratch.open(), Store::in_memory(&Options::default()).unwrap()] {
        let mut feed = store.follow(Position::START);
        let (writers, each) = (6, 30);
        let seen = std::thread::scope(|scope| {
            for writer in 0..writers {
                let store = &store;
                scope.spawn(move || write(store, &writer.to_string(), each));
            }
            read(&mut feed, writers * each, 7)
        });
        assert_eq!(positions(&seen), (1..=(writers * each) as u64).collect::<Vec<_>>());
        for talk in (0..3).map(|number| conversation(&format!("talk-{number}"))) {
            let followed: Vec<_> = seen.iter().filter(|event| event.conversation == talk).collect();
            let stored = all_events(&store, &talk);
            assert_eq!(followed.into_iter().map(|event| event.event.clone()).collect::<Vec<_>>(), stored);
        }
        assert_eq!(feed.next_page(10, Duration::ZERO).unwrap(), []);
        assert_eq!(feed.place(), FeedPlace::Log(Position((writers * each) as u64)));
    }
}

#[test]
fn a_follower_of_one_conversation_sees_nothing_of_the_others() {
    let scratch = Scratch::new();
    let store = scratch.open();
    write(&store, "before", 9);
    let mut feed = store.follow_conversation(&conversation("talk-1"), Some(Sequence(0)));
    let seen = std::thread::scope(|scope| {
        scope.spawn(|| write(&store, "after", 30));
        read(&mut feed, 2 + 10, 4)
    });
    assert_eq!(sequences(&seen), (1..13).collect::<Vec<_>>());
    assert!(seen.iter().all(|event| event.conversation == conversation("talk-1")));
    assert_eq!(feed.next_page(10, Duration::ZERO).unwrap(), []);
}

#[test]
fn a_slow_reader_gets_later_events_page_by_page() {
    let store = Store::in_memory(&without_projector()).unwrap();
    let mut feed = store.follow(Position::START);
    let mut seen = Vec::new();
    for round in 0..20 {
        write(&store, &round.to_string(), 5);
        seen.extend(read(&mut feed, 2, 2)); // falls behind further and further
    }
    seen.extend(read(&mut feed, 60, 11));
    assert_eq!(positions(&seen), (1..=100).collect::<Vec<_>>());
}

#[test]
fn a_follower_may_start_at_any_place() {
    let store = Store::in_memory(&without_projector()).unwrap();
    write(&store, "a", 9);
    let places = |from: u64| positions(&store.follow(Position(from)).next_page(100, Duration::ZERO).unwrap());
    assert_eq!(places(0), (1..=9).collect::<Vec<_>>());
    assert_eq!(places(4), (5..=9).collect::<Vec<_>>());
    assert_eq!(places(9), Vec::<u64>::new());
    let talk = conversation("talk-0");
    let from = |from: u64| {
        let page = store
            .follow_conversation(&talk, from.checked_sub(1).map(Sequence))
            .next_page(100, Duration::ZERO);
        sequences(&page.unwrap())
    };
    assert_eq!((from(0), from(2), from(3)), (vec![0, 1, 2], vec![2], vec![]));
}

#[test]
fn a_follower_goes_on_after_a_deletion() {
    let store = Store::in_memory(&without_projector()).unwrap();
    write(&store, "a", 6);
    let mut feed = store.follow(Position::START);
    let mut one = store.follow_conversation(&conversation("talk-2"), None);
    assert_eq!(positions(&read(&mut feed, 4, 4)), [1, 2, 3, 4]);
    store.retention().delete(&conversation("talk-2")).unwrap(); // the one with the newest position
    store.append(&conversation("talk-0"), Expected::Any, &[user_message("next", "on")]).unwrap();
    assert_eq!(positions(&read(&mut feed, 2, 4)), [5, 7], "a position is never given twice");
    let gone = Error::UnknownConversation { conversation: "talk-2".into() };
    assert_error(one.next_page(4, Duration::ZERO), &gone);
}

#[test]
fn events_of_another_process_reach_followers_of_every_kind_of_store() {
    const TEST: &str = "feed::events_of_another_process_reach_followers_of_every_kind_of_store";
    if let Some(role) = child::role() {
        write(&Store::open(&role.database).unwrap(), &role.name, 45);
        return;
    }
    let scratch = Scratch::new();
    let store = scratch.open();
    write(&store, "before", 3);
    let read_only = Options::default().read_only(true);
    let reader = Store::open_with(scratch.database(), &read_only).unwrap();
    let talk: ConversationId = conversation("talk-1");
    let children = ["one", "two"].map(|name| Running::start(child::command(TEST, name, &scratch.database())));
    std::thread::scope(|scope| {
        let (store, reader, talk) = (&store, &reader, &talk);
        // Each follower waits while the children start and while they write.
        scope.spawn(move || {
            let seen = read(&mut store.follow(Position(3)), 90 + 30, 5);
            assert_eq!(positions(&seen), (4..=123).collect::<Vec<_>>());
        });
        scope.spawn(move || {
            let seen = read(&mut reader.follow(Position::START), 123, 100);
            assert_eq!(positions(&seen), (1..=123).collect::<Vec<_>>());
        });
        scope.spawn(move || {
            let seen = read(&mut reader.follow_conversation(talk, None), 1 + 30 + 10, 3);
            assert_eq!(sequences(&seen), (0..41).collect::<Vec<_>>());
        });
        write(store, "meanwhile", 30);
    });
    children.into_iter().for_each(|child| assert_eq!(child.finish(), Vec::<String>::new()));
}

#[test]
fn a_follower_may_wait_for_ever_and_start_beyond_the_end() {
    let store = Store::in_memory(&Options::default().busy_timeout(Duration::MAX)).unwrap();
    let mut feed = store.follow(Position::START);
    std::thread::scope(|scope| {
        scope.spawn(|| write(&store, "a", 1));
        assert_eq!(feed.next_page(10, Duration::MAX).unwrap().len(), 1);
    });
    let talk = conversation("talk-0");
    for far in [u64::MAX, i64::MAX as u64 + 1, i64::MAX as u64] {
        assert_eq!(store.follow(Position(far)).next_page(10, Duration::ZERO).unwrap(), []);
        let mut one = store.follow_conversation(&talk, Some(Sequence(far)));
        assert_eq!(one.next_page(10, Duration::ZERO).unwrap(), []);
        let from = EventQuery::default().from(Sequence(far));
        assert_eq!(store.events(&talk, &from, 10).unwrap().events, []);
        assert_eq!(store.count_events(&talk, &from).unwrap(), 0);
        let to = EventQuery::default().to(Sequence(far));
        assert_eq!(store.events(&talk, &to, 10).unwrap().events.len(), 1);
        store.scan(&talk, Sequence(far), |_| panic!("there is no such event")).unwrap();
        assert_eq!(store.transcript(&talk, Sequence(far), 10).unwrap(), []);
        assert_eq!(store.tool_calls(&talk, Sequence(far), 10).unwrap(), []);
        let state = store.base_state_at(&talk, Sequence(far)).unwrap();
        assert_eq!(state, store.base_state(&talk).unwrap());
    }
}
