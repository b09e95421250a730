//! Subscriptions: each delivers every event at least once, from the last acknowledged position on, whatever happens.

use std::time::Duration;

use annals::store::{Backup, FeedEvent, FeedPlace, RestoreOptions, RestorePoint};
use annals::{Error, Expected, Options, Position, Sequence, Store};

use crate::support::child::{self, Running};
use crate::support::events::{event, user_message};
use crate::support::{Scratch, assert_sound, conversation};

fn ids(page: &[FeedEvent]) -> Vec<&str> {
    page.iter().map(|event| event.event.id.as_str()).collect()
}

fn append(store: &Store, names: &[&str]) {
    let events: Vec<_> = names.iter().map(|name| user_message(name, "text")).collect();
    store.append(&conversation("talk"), Expected::Any, &events).unwrap();
}

#[test]
fn unacknowledged_events_come_again_and_acknowledged_ones_do_not() {
    let scratch = Scratch::new();
    let store = scratch.open();
    append(&store, &["a", "b", "c"]);
    let mut mailer = store.subscription("mailer").unwrap();
    assert_eq!(ids(&mailer.next_page(2, Duration::ZERO).unwrap()), ["a", "b"]);
    assert_eq!(ids(&mailer.next_page(2, Duration::ZERO).unwrap()), ["c"]);
    mailer.acknowledge_to(Position(1)).unwrap();
    // Another handle, like the one of another process.
    let mut again = store.subscription("mailer").unwrap();
    assert_eq!(ids(&again.next_page(10, Duration::ZERO).unwrap()), ["b", "c"]);
    again.acknowledge().unwrap();
    // An acknowledgement of an older position moves nothing back.
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
fn only_delivered_events_can_be_acknowledged() {
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
fn a_moved_subscription_goes_on_from_its_new_position() {
    let scratch = Scratch::new();
    let store = scratch.open();
    append(&store, &["a", "b"]);
    let mut mailer = store.subscription("mailer").unwrap();
    mailer.move_to(Position(99)).unwrap();
    assert_eq!(mailer.delivered(), store.last_position().unwrap());
    append(&store, &["c"]);
    assert_eq!(ids(&mailer.next_page(10, Duration::ZERO).unwrap()), ["c"]);
    mailer.move_to(Position::START).unwrap();
    assert_eq!(ids(&mailer.next_page(10, Duration::ZERO).unwrap()), ["a", "b", "c"]);
    assert_eq!(ids(&store.subscription("mailer").unwrap().next_page(10, Duration::ZERO).unwrap()).len(), 3);
}

/// Asserts that a call failed because the subscription was moved or made again, and that the error says what to do.
#[track_caller]
fn assert_stale(result: Result<(), Error>) {
    let error = result.unwrap_err();
    assert!(matches!(&error, Error::StaleSubscription { name, .. } if name == "mailer"), "{error:?}");
    let text = "the subscription \"mailer\" was moved, or deleted and made again, since this handle was opened; \
                open it again to go on";
    assert_eq!(error.to_string(), text);
}

fn place(store: &Store) -> u64 {
    store.subscriptions().unwrap()[0].position.0
}

#[test]
fn an_older_handle_does_not_acknowledge_for_a_subscription_that_was_deleted_and_made_again() {
    let scratch = Scratch::new();
    let store = scratch.open();
    append(&store, &["a", "b", "c"]);
    let mut old = store.subscription("mailer").unwrap();
    old.next_page(10, Duration::ZERO).unwrap();
    old.acknowledge_to(Position(1)).unwrap();
    assert!(store.delete_subscription("mailer").unwrap());
    let gone = old.acknowledge().unwrap_err();
    let text = "the subscription \"mailer\": it was deleted; opening it again makes a new one";
    assert!(matches!(gone, Error::Subscription { .. }) && gone.to_string() == text, "{gone}");
    let mut new = store.subscription("mailer").unwrap();
    assert_stale(old.acknowledge());
    // This fails too, although it would change nothing: the caller must learn that it reads from another position.
    assert_stale(old.acknowledge_to(Position::START));
    assert_stale(old.move_to(Position(3)));
    assert_eq!(place(&store), 0);
    assert_eq!(ids(&new.next_page(10, Duration::ZERO).unwrap()), ["a", "b", "c"]);
    new.acknowledge_to(Position(2)).unwrap();
    assert_stale(old.acknowledge());
    assert_eq!(place(&store), 2);
    // The caller opens the subscription again, as the error says.
    let mut again = store.subscription("mailer").unwrap();
    assert_eq!(ids(&again.next_page(10, Duration::ZERO).unwrap()), ["c"]);
    again.acknowledge().unwrap();
    new.next_page(10, Duration::ZERO).unwrap();
    new.acknowledge().unwrap();
}

#[test]
fn an_older_handle_does_not_undo_a_move() {
    let scratch = Scratch::new();
    let store = scratch.open();
    append(&store, &["a", "b", "c"]);
    let mut old = store.subscription("mailer").unwrap();
    old.next_page(10, Duration::ZERO).unwrap();
    old.acknowledge().unwrap();
    let mut mover = store.subscription("mailer").unwrap();
    mover.move_to(Position::START).unwrap();
    assert_stale(old.acknowledge());
    assert_stale(old.move_to(Position(3)));
    assert_eq!(place(&store), 0);
    // The old handle stays invalid even if the subscription reaches the old position again.
    assert_eq!(ids(&mover.next_page(2, Duration::ZERO).unwrap()), ["a", "b"]);
    mover.acknowledge().unwrap();
    assert_stale(old.acknowledge());
    assert_eq!(place(&store), 2);
    assert_eq!(ids(&store.subscription("mailer").unwrap().next_page(10, Duration::ZERO).unwrap()), ["c"]);
    // A move to the current position counts as a move too, and so does a move forward.
    let other = store.subscription("mailer").unwrap();
    mover.move_to(Position(2)).unwrap();
    assert_stale(other.acknowledge());
    let other = store.subscription("mailer").unwrap();
    mover.move_to(Position(3)).unwrap();
    assert_stale(other.acknowledge());
    mover.acknowledge().unwrap();
    assert_sound(&store);
}

/// The clock may jump back. Here the subscription was made at a time that is now in the future.
#[test]
fn a_move_is_noticed_even_if_the_clock_went_back() {
    let scratch = Scratch::new();
    let store = scratch.open();
    append(&store, &["a"]);
    store.subscription("mailer").unwrap();
    let later = 4_102_444_800_000_000; // the year 2100
    scratch.foreign().execute("UPDATE subscription SET began_at = ?1", [later]).unwrap();
    let mut old = store.subscription("mailer").unwrap();
    old.next_page(1, Duration::ZERO).unwrap();
    let mut mover = store.subscription("mailer").unwrap();
    for moves in 1..=3 {
        mover.move_to(Position::START).unwrap();
        assert_eq!(store.subscriptions().unwrap()[0].began_at.0, later + moves);
        assert_stale(old.acknowledge());
    }
    mover.next_page(1, Duration::ZERO).unwrap();
    mover.acknowledge().unwrap();
    assert_eq!(place(&store), 1);
}

#[test]
fn a_rare_kind_is_found_anywhere_and_skipped_events_count_as_delivered() {
    let scratch = Scratch::new();
    let store = scratch.open();
    let talk = conversation("talk");
    // More events than one read scans. The first read finds one event of the kind, the second none, the third one.
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
        let mut one = store.follow_conversation(&talk, None).kinds(kinds);
        assert_eq!(ids(&one.next_page(10, Duration::from_secs(60)).unwrap()), ["r1"]);
        assert_eq!(ids(&one.next_page(10, Duration::from_secs(60)).unwrap()), ["r2"]);
        assert!(one.next_page(10, Duration::ZERO).unwrap().is_empty());
        let last = Sequence(store.conversation(&talk).unwrap().event_count - 1);
        assert_eq!(one.place(), FeedPlace::Conversation(Some(last)));
    }
    let mut mailer = store.subscription("mailer").unwrap().kinds(["rare"]);
    assert_eq!(ids(&mailer.next_page(10, Duration::ZERO).unwrap()), ["r1", "r1"]);
    assert_eq!(
        ids(&mailer.next_page(10, Duration::ZERO).unwrap()),
        ["r2", "r2"],
        "stored events are found at once"
    );
    assert!(mailer.next_page(10, Duration::ZERO).unwrap().is_empty());
    mailer.acknowledge().unwrap();
    assert_eq!(store.subscriptions().unwrap()[0].position, store.last_position().unwrap());
}

#[test]
fn a_program_killed_before_it_acknowledges_receives_events_again_and_misses_none() {
    const TEST: &str =
        "subscription::a_program_killed_before_it_acknowledges_receives_events_again_and_misses_none";
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
    // Each process is killed after a few events, at a different place within its page.
    while seen.last() != names.last() {
        let acknowledged = store.subscriptions().unwrap().first().map_or(0, |mailer| mailer.position.0);
        let left = names.len() - usize::try_from(acknowledged).unwrap();
        let mut program = Running::start(child::command(TEST, "mailer", &scratch.database()));
        let mut lines = program.take_lines();
        let count = left.min(4 + seen.len() % 5);
        seen.extend(lines.by_ref().take(count));
        program.kill();
        // The process reports an event before it acknowledges it, so the remaining lines count too.
        seen.extend(lines);
    }
    let mut unique = seen.clone();
    unique.sort();
    unique.dedup();
    assert_eq!(unique, names, "an event is missing");
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

/// Another program set the log back, so later events have positions that were acknowledged before.
#[test]
fn a_subscription_that_is_ahead_of_the_log_delivers_new_events() {
    let scratch = Scratch::new();
    let store = scratch.open();
    append(&store, &["a"]);
    let mut old = store.subscription("mailer").unwrap();
    old.next_page(1, Duration::ZERO).unwrap();
    scratch.foreign().execute("UPDATE subscription SET position = 50", []).unwrap();
    let mut mailer = store.subscription("mailer").unwrap();
    append(&store, &["b", "c"]);
    // Setting the position back is a move: an older handle may have received other events at these positions.
    old.next_page(10, Duration::ZERO).unwrap();
    assert_stale(old.acknowledge());
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
    assert!(store.backup().to_file(&copy).unwrap().is_some());
    store.delete_subscription("mailer").unwrap();
    assert!(store.backup().to_file(&copy).unwrap().is_some());
    assert!(store.backup().to_file(&copy).unwrap().is_none(), "a backup without anything new");
    assert_eq!(Store::open(&copy).unwrap().subscriptions().unwrap(), []);
}

#[test]
fn a_log_restored_to_a_position_delivers_new_events() {
    let scratch = Scratch::new();
    let store = Store::open_with(scratch.database(), &Options::default()).unwrap();
    append(&store, &["a", "b", "c"]);
    let mut mailer = store.subscription("mailer").unwrap();
    mailer.next_page(10, Duration::ZERO).unwrap();
    mailer.acknowledge().unwrap();
    let copy = scratch.path("copy.db");
    store.backup().to_new_file(&copy).unwrap();
    let cut = scratch.path("cut.db");
    Backup::restore(&copy, &cut, &RestoreOptions::from(RestorePoint::Position(Position(2))), &mut |_| ())
        .unwrap();
    let restored = Store::open(&cut).unwrap();
    append(&restored, &["new"]);
    let mut mailer = restored.subscription("mailer").unwrap();
    assert_eq!(ids(&mailer.next_page(10, Duration::ZERO).unwrap()), ["new"]);
}
