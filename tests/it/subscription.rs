//! Named followers: every event at least once, from where the last one acknowledged, whatever happens in between.

use std::time::Duration;

use annals::store::{FeedEvent, Moment, Restoration};
use annals::{Error, Expected, Options, Position, Store};

use crate::support::child::{self, Running};
use crate::support::events::{event, said};
use crate::support::{Scratch, assert_sound, conversation};

fn ids(page: &[FeedEvent]) -> Vec<&str> {
    page.iter().map(|event| event.event.id.as_str()).collect()
}

fn append(store: &Store, names: &[&str]) {
    let events: Vec<_> = names.iter().map(|name| said(name, "text")).collect();
    store.append(&conversation("talk"), Expected::Any, &events).unwrap();
}

#[test]
fn what_was_not_acknowledged_comes_again_and_what_was_does_not() {
    let scratch = Scratch::new();
    let store = scratch.open();
    append(&store, &["a", "b", "c"]);
    let mut mailer = store.subscription("mailer").unwrap();
    assert_eq!(ids(&mailer.next_page(2, Duration::ZERO).unwrap()), ["a", "b"]);
    assert_eq!(ids(&mailer.next_page(2, Duration::ZERO).unwrap()), ["c"]);
    mailer.acknowledge_to(Position(1)).unwrap();
    // Another handle, as another process would have it.
    let mut again = store.subscription("mailer").unwrap();
    assert_eq!(ids(&again.next_page(10, Duration::ZERO).unwrap()), ["b", "c"]);
    again.acknowledge().unwrap();
    // An older acknowledgement takes nothing back.
    mailer.acknowledge_to(Position(2)).unwrap();
    drop((store, mailer, again));
    let store = scratch.open();
    append(&store, &["d"]);
    assert_eq!(ids(&store.subscription("mailer").unwrap().next_page(10, Duration::ZERO).unwrap()), ["d"]);
    assert_eq!(ids(&store.subscription("other").unwrap().next_page(10, Duration::ZERO).unwrap()).len(), 4);
    let statuses = store.subscriptions().unwrap();
    let known: Vec<_> = statuses.iter().map(|status| (status.name.as_str(), status.position.0)).collect();
    assert_eq!(known, [("mailer", 3), ("other", 0)]);
    assert!(statuses[0].acknowledged_at.is_some() && statuses[1].acknowledged_at.is_none());
    let behind = "SELECT group_concat(name || ' ' || behind, ', ') FROM subscriptions";
    let text: String = scratch.foreign().query_row(behind, [], |row| row.get(0)).unwrap();
    assert_eq!(text, "mailer 1, other 4");
    assert_sound(&store);
}

#[test]
fn only_what_was_delivered_can_be_acknowledged() {
    let scratch = Scratch::new();
    let store = scratch.open();
    append(&store, &["a", "b"]);
    let mut mailer = store.subscription("mailer").unwrap();
    mailer.next_page(1, Duration::ZERO).unwrap();
    assert!(matches!(mailer.acknowledge_to(Position(2)), Err(Error::Subscription { .. })));
    for name in ["", "a\nb", &"x".repeat(201)] {
        assert!(matches!(store.subscription(name), Err(Error::Subscription { .. })), "{name:?}");
    }
    assert!(store.delete_subscription("mailer").unwrap() && !store.delete_subscription("mailer").unwrap());
    assert!(matches!(mailer.acknowledge(), Err(Error::Subscription { .. })));
    assert_eq!(store.subscriptions().unwrap(), []);
}

#[test]
fn it_goes_on_elsewhere_when_it_is_moved() {
    let scratch = Scratch::new();
    let store = scratch.open();
    append(&store, &["a", "b"]);
    let mut mailer = store.subscription("mailer").unwrap();
    mailer.move_to(Position(99)).unwrap();
    assert_eq!(mailer.delivered(), store.head().unwrap());
    append(&store, &["c"]);
    assert_eq!(ids(&mailer.next_page(10, Duration::ZERO).unwrap()), ["c"]);
    mailer.move_to(Position::START).unwrap();
    assert_eq!(ids(&mailer.next_page(10, Duration::ZERO).unwrap()), ["a", "b", "c"]);
    assert_eq!(ids(&store.subscription("mailer").unwrap().next_page(10, Duration::ZERO).unwrap()).len(), 3);
}

#[test]
fn a_rare_kind_is_found_wherever_it_is_and_the_rest_counts_as_delivered() {
    let scratch = Scratch::new();
    let store = scratch.open();
    let talk = conversation("talk");
    // More than one read looks at, with one event of the kind in the first, none in the second, one in the third.
    let mut number = 0;
    let mut many = |count: usize| {
        for _ in 0..count / 1000 {
            let events: Vec<_> = (0..1000)
                .map(|_| {
                    number += 1;
                    event(&format!("n{number}"), "PauseEvent", serde_json::json!({}))
                })
                .collect();
            store.append(&talk, Expected::Any, &events).unwrap();
        }
    };
    let rare = |name: &str| {
        let rare = event(name, "rare", serde_json::json!({}));
        store.append(&conversation("other"), Expected::Any, std::slice::from_ref(&rare)).unwrap();
        store.append(&talk, Expected::Any, &[rare]).unwrap();
    };
    many(1000);
    rare("r1");
    many(21_000);
    rare("r2");
    many(1000);
    for kinds in [vec!["rare"], vec!["rare", "not there", "with \" and '"]] {
        let mut feed = store.follow(Position::START).kinds(kinds.clone());
        assert_eq!(ids(&feed.next_page(1, Duration::from_secs(60)).unwrap()), ["r1"]);
        assert_eq!(ids(&feed.next_page(10, Duration::from_secs(60)).unwrap()), ["r1"]);
        assert_eq!(ids(&feed.next_page(10, Duration::from_secs(60)).unwrap()), ["r2", "r2"]);
        assert!(feed.next_page(10, Duration::ZERO).unwrap().is_empty());
        let mut one = store.follow_conversation(&talk, annals::Sequence(0)).kinds(kinds);
        assert_eq!(ids(&one.next_page(10, Duration::from_secs(60)).unwrap()), ["r1"]);
        assert_eq!(ids(&one.next_page(10, Duration::from_secs(60)).unwrap()), ["r2"]);
        assert!(one.next_page(10, Duration::ZERO).unwrap().is_empty());
        assert_eq!(one.place(), store.conversation(&talk).unwrap().event_count);
    }
    let mut mailer = store.subscription("mailer").unwrap().kinds(["rare"]);
    assert_eq!(ids(&mailer.next_page(10, Duration::ZERO).unwrap()), ["r1", "r1"]);
    assert_eq!(
        ids(&mailer.next_page(10, Duration::ZERO).unwrap()),
        ["r2", "r2"],
        "what is stored is found at once"
    );
    assert!(mailer.next_page(10, Duration::ZERO).unwrap().is_empty());
    mailer.acknowledge().unwrap();
    assert_eq!(store.subscriptions().unwrap()[0].position, store.head().unwrap());
}

#[test]
fn a_program_that_is_killed_between_work_and_acknowledgement_sees_it_again_and_misses_nothing() {
    const TEST: &str = "subscription::a_program_that_is_killed_between_work_and_acknowledgement_sees_it_again_and_misses_nothing";
    if let Some(role) = child::role() {
        let store = Store::open(role.database).unwrap();
        let mut mailer = store.subscription("mailer").unwrap();
        loop {
            for event in mailer.next_page(3, Duration::from_secs(600)).unwrap() {
                child::report(event.event.id.as_str());
            }
            mailer.acknowledge().unwrap();
        }
    }
    let scratch = Scratch::new();
    let store = scratch.open();
    let names: Vec<String> = (0..60).map(|number| format!("e{number:02}")).collect();
    append(&store, &names.iter().map(String::as_str).collect::<Vec<_>>());
    let mut seen: Vec<String> = Vec::new();
    // Each run is killed after a few events, at another place within its page.
    while seen.last() != names.last() {
        let acknowledged = store.subscriptions().unwrap().first().map_or(0, |mailer| mailer.position.0);
        let left = names.len() - usize::try_from(acknowledged).unwrap();
        let mut program = Running::start(child::command(TEST, "mailer", &scratch.database()));
        let mut lines = program.take_lines();
        let count = left.min(4 + seen.len() % 5);
        seen.extend(lines.by_ref().take(count));
        program.kill();
        // What it reported until then was reported before it was acknowledged.
        seen.extend(lines);
    }
    let mut unique = seen.clone();
    unique.sort();
    unique.dedup();
    assert_eq!(unique, names, "nothing is missed");
    for (before, after) in seen.iter().zip(&seen[1..]) {
        let step = |name: &String| names.iter().position(|known| known == name).unwrap() as i64;
        assert!(step(after) - step(before) <= 1, "{before} is followed by {after}");
    }
    assert_sound(&store);
}

#[test]
fn an_acknowledgement_of_nothing_new_writes_nothing() {
    let scratch = Scratch::new();
    let store = scratch.open();
    append(&store, &["a", "b"]);
    let mut mailer = store.subscription("mailer").unwrap();
    mailer.next_page(2, Duration::ZERO).unwrap();
    mailer.acknowledge().unwrap();
    let before = store.subscriptions().unwrap();
    mailer.acknowledge().unwrap();
    mailer.acknowledge_to(Position(1)).unwrap();
    assert_eq!(store.subscriptions().unwrap(), before);
}

/// Another program set the file back: what is appended afterwards has positions that were acknowledged before.
#[test]
fn a_subscription_that_is_ahead_of_the_log_delivers_what_comes() {
    let scratch = Scratch::new();
    let store = scratch.open();
    append(&store, &["a"]);
    store.subscription("mailer").unwrap();
    scratch.foreign().execute("UPDATE subscription SET position = 50", []).unwrap();
    let mut mailer = store.subscription("mailer").unwrap();
    append(&store, &["b", "c"]);
    assert_eq!(ids(&mailer.next_page(1, Duration::ZERO).unwrap()), ["b"]);
    mailer.acknowledge().unwrap();
    drop(mailer);
    assert_eq!(ids(&store.subscription("mailer").unwrap().next_page(9, Duration::ZERO).unwrap()), ["c"]);
}

#[test]
fn a_backup_that_is_continued_forgets_a_deleted_subscription() {
    let scratch = Scratch::new();
    let store = scratch.open();
    append(&store, &["a"]);
    store.subscription("mailer").unwrap();
    let copy = scratch.path("copy.db");
    assert!(store.back_up_to_file(&copy).unwrap().is_some());
    store.delete_subscription("mailer").unwrap();
    assert!(store.back_up_to_file(&copy).unwrap().is_some());
    assert!(store.back_up_to_file(&copy).unwrap().is_none(), "nothing is new");
    assert_eq!(Store::open(&copy).unwrap().subscriptions().unwrap(), []);
}

#[test]
fn a_log_that_was_cut_delivers_what_comes_after_the_cut() {
    let scratch = Scratch::new();
    let store = Store::open_with(scratch.database(), &Options::default()).unwrap();
    append(&store, &["a", "b", "c"]);
    let mut mailer = store.subscription("mailer").unwrap();
    mailer.next_page(10, Duration::ZERO).unwrap();
    mailer.acknowledge().unwrap();
    let copy = scratch.path("copy.db");
    store.backup(&copy).unwrap();
    let cut = scratch.path("cut.db");
    Store::restore(&copy, &cut, &Restoration::from(Moment::Position(Position(2))), &mut |_| ()).unwrap();
    let restored = Store::open(&cut).unwrap();
    append(&restored, &["new"]);
    let mut mailer = restored.subscription("mailer").unwrap();
    assert_eq!(ids(&mailer.next_page(10, Duration::ZERO).unwrap()), ["new"]);
}
