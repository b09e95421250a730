//! Snapshots of states: an answer is the same with them and without, they follow the log once they are there, and what is
//! taken out of a log is not in them.

use annals::event::Event;
use annals::redact::Finder;
use annals::replay::{Moment, Point};
use annals::state::State;
use annals::store::Redaction;
use annals::tree::Tree;
use annals::{ConversationId, Expected, NewEvent, Sequence, Store};
use proptest::prelude::*;
use rusqlite::Connection;
use rusqlite::types::Value;

use crate::log::{Log, Step, steps};
use crate::support::events::{answered, user_message};
use crate::support::planted::count_bytes;
use crate::support::projected::{assert_same_rows, dump};
use crate::support::{Scratch, assert_sound, conversation, number, rows};

/// The number of events from one snapshot to the next (`docs/format.md`).
const SPACING: u64 = 256;

/// Appends a conversation of `count` messages, in batches.
fn talk(store: &Store, id: &ConversationId, from: u64, count: u64) {
    let message = |number: u64| match number % 2 {
        0 => user_message(&format!("m{number}"), &format!("question {number}")),
        _ => answered(&format!("m{number}"), &format!("answer {number}")),
    };
    for batch in (from..from + count).collect::<Vec<_>>().chunks(200) {
        let events: Vec<NewEvent> = batch.iter().map(|number| message(*number)).collect();
        store.append(id, Expected::Any, &events).unwrap();
    }
}

/// Asks for the state right after the event at `sequence`, and checks how many events it counts.
#[track_caller]
fn ask(store: &Store, id: &ConversationId, sequence: u64) {
    let moment = Moment::new(store, id, Point::Behind(Sequence(sequence))).unwrap();
    let state = moment.state().unwrap();
    assert_eq!((state.whole.event_count(), state.branch.event_count()), (sequence + 1, sequence + 1));
}

fn kept(db: &Connection) -> i64 {
    number(db, "SELECT count(*) FROM state_snapshots")
}

/// The states after the first `length` events, folded from the start: of the whole log, and of the branch that ends at the
/// last event that moves HEAD.
fn folded(events: &[Event], length: usize) -> (State, State) {
    let mut tree = Tree::new();
    for event in &events[..length] {
        let common = event.common();
        tree.push(common.id.as_str(), common.parent_id.as_deref(), event.kind());
    }
    let path = tree.head_after(length).map(|head| tree.path(head).unwrap()).unwrap_or_default();
    (State::of(&events[..length]), State::of(path.into_iter().map(|place| &events[place])))
}

fn long_log() -> impl Strategy<Value = Vec<Step>> {
    let all = prop::collection::vec(steps(400), 4).prop_map(|parts| parts.concat());
    // Stored summaries may have the id of another event, which a store refuses.
    all.prop_map(|steps| steps.into_iter().filter(|step| !matches!(step, Step::Summary { .. })).collect())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 6, max_shrink_iters: 40, ..ProptestConfig::default() })]

    #[test]
    fn a_state_from_a_snapshot_is_that_of_a_fold_from_the_start(steps in long_log(), first in 0..1500_usize) {
        let log = Log::of(&steps);
        let events: Vec<NewEvent> =
            log.events.iter().map(|event| NewEvent::parse(event.dump()).unwrap()).collect();
        let scratch = Scratch::new();
        let store = scratch.open_without_projector();
        let id = conversation("talk");
        for batch in events.chunks(100) {
            store.append(&id, Expected::Any, batch).unwrap();
        }
        let last = events.len() - 1;
        let near = [254, 255, 256, 257, 511, 512, 700, 1023, 1024, last];
        let places = [first.min(last)].into_iter().chain(near).chain((0..last).step_by(97));
        for place in places.filter(|place| *place <= last) {
            let moment = Moment::new(&store, &id, Point::Behind(Sequence(place as u64))).unwrap();
            let state = moment.state().unwrap();
            let (whole, branch) = folded(&log.events, place + 1);
            prop_assert_eq!(&state.whole, &whole, "after {}", place);
            prop_assert_eq!(&state.branch, &branch, "on the branch, after {}", place);
        }
        assert_eq!(kept(&scratch.foreign()) as usize, events.len() / 256);
        assert_sound(&store);
    }
}

#[test]
fn snapshots_begin_with_the_first_question_and_follow_the_log() {
    let scratch = Scratch::new();
    let store = scratch.open_without_projector();
    let (long, other, short) = (conversation("long"), conversation("other"), conversation("short"));
    for (id, count) in [(&long, 3 * SPACING), (&other, 3 * SPACING), (&short, SPACING - 1)] {
        talk(&store, id, 0, count);
    }
    store.catch_up().unwrap();
    let db = scratch.foreign();
    assert_eq!(kept(&db), 0, "no question was about a past");
    ask(&store, &short, SPACING - 2);
    ask(&store, &long, SPACING - 2);
    assert_eq!(kept(&db), 0);
    ask(&store, &long, 2 * SPACING);
    assert_eq!(kept(&db), 2, "up to the place that was asked for");
    ask(&store, &long, 3 * SPACING - 1);
    talk(&store, &long, 3 * SPACING, 2 * SPACING);
    talk(&store, &other, 3 * SPACING, 2 * SPACING);
    store.catch_up().unwrap();
    let of_long = "SELECT count(*) FROM state_snapshots WHERE conversation_id = 'long'";
    assert_eq!((kept(&db), number(&db, of_long)), (5, 5), "they follow where they are");
    let before = dump(&db);
    store.maintenance().rebuild(&[], &mut |_| ()).unwrap();
    assert_same_rows(&dump(&db), &before);
    assert_sound(&store);
}

#[test]
fn a_store_that_is_read_only_answers_without_new_snapshots() {
    let scratch = Scratch::new();
    let id = conversation("talk");
    talk(&scratch.open_without_projector(), &id, 0, 5 * SPACING);
    let options = annals::Options::default().read_only(true);
    let reader = Store::open_with(scratch.database(), &options).unwrap();
    ask(&reader, &id, 4 * SPACING);
    assert_eq!(kept(&scratch.foreign()), 0);
}

#[test]
fn a_large_state_is_kept_more_rarely_and_a_very_large_one_not() {
    for (bytes, sequences) in
        [(10, "255,511,767,1023,1279"), (70_000, "255,1023,1279"), (1_100_000, "511,767,1023,1279")]
    {
        let scratch = Scratch::new();
        let store = scratch.open_without_projector();
        let id = conversation("talk");
        talk(&store, &id, 0, SPACING - 1);
        let large = "x".repeat(bytes);
        store.append(&id, Expected::Any, &[answered("large", &large)]).unwrap();
        talk(&store, &id, SPACING, 4 * SPACING);
        ask(&store, &id, 5 * SPACING - 1);
        let db = scratch.foreign();
        let kept = "SELECT group_concat(sequence) FROM state_snapshots";
        assert_eq!(rows(&db, kept), [[Value::Text(sequences.into())]], "{bytes} bytes");
        let largest = "SELECT max(octet_length(whole) + octet_length(branch)) FROM state_snapshots";
        assert!(number(&db, largest) <= 2 << 20);
        let moment = Moment::new(&store, &id, Point::Behind(Sequence(SPACING - 1))).unwrap();
        assert_eq!(moment.state().unwrap().branch.final_response(), large);
        ask(&store, &id, 300);
        assert_sound(&store);
    }
}

/// What follows the log holds the write lock, and reads at most 8 MiB for a snapshot.
#[test]
fn after_large_payloads_the_next_question_makes_the_snapshot() {
    let scratch = Scratch::new();
    let store = scratch.open_without_projector();
    let id = conversation("talk");
    talk(&store, &id, 0, SPACING);
    ask(&store, &id, SPACING - 1);
    let db = scratch.foreign();
    let large = |number: u64| user_message(&format!("large{number}"), &"word ".repeat(8000));
    for part in 0..4 {
        let events: Vec<NewEvent> = (part * 64..(part + 1) * 64).map(large).collect();
        store.append(&id, Expected::Any, &events).unwrap();
        store.catch_up().unwrap();
    }
    assert_eq!(kept(&db), 0, "a question about the first 256 events folds them");
    ask(&store, &id, 2 * SPACING - 1);
    assert_eq!(kept(&db), 2);
    let events: Vec<NewEvent> = (256..512).map(large).collect();
    store.append(&id, Expected::Any, &events).unwrap();
    store.catch_up().unwrap();
    assert_eq!(kept(&db), 2, "10 MB are not read under the lock");
    ask(&store, &id, 3 * SPACING - 1);
    assert_eq!(kept(&db), 3);
    assert_sound(&store);
}

#[test]
fn what_is_taken_out_of_a_log_is_in_no_snapshot() {
    let scratch = Scratch::new();
    let store = scratch.open_without_projector();
    let (id, gone) = (conversation("talk"), conversation("gone"));
    let secret = "kanarienvogel";
    store.append(&id, Expected::Empty, &[user_message("first", &format!("is {secret} here?"))]).unwrap();
    talk(&store, &id, 1, 3 * SPACING);
    talk(&store, &gone, 0, 3 * SPACING);
    ask(&store, &id, 3 * SPACING - 1);
    ask(&store, &gone, 3 * SPACING - 1);
    let db = scratch.foreign();
    let with_secret = format!("SELECT count(*) FROM state_snapshot WHERE whole LIKE '%{secret}%'");
    assert_eq!(number(&db, &with_secret), 3, "the candidate for the title");
    let finder = Finder::expression(secret).unwrap();
    let what = Redaction::Matches { finder: &finder, values: &[], own: false };
    store.retention().redact(&id, what, "a test").unwrap();
    store.retention().delete(&gone).unwrap();
    assert_eq!((kept(&db), number(&db, &with_secret)), (0, 0));
    assert_eq!(count_bytes(&scratch.database(), secret.as_bytes()), 0);
    ask(&store, &id, 3 * SPACING - 1);
    assert_eq!(kept(&db), 3);
    assert_sound(&store);
}

#[test]
fn rows_of_another_program_are_in_no_ones_way() {
    for harm in [
        "UPDATE state_snapshot SET conversation = (SELECT key FROM conversation WHERE id = 'other')",
        "UPDATE state_snapshot SET sequence = 9223372036854775807 WHERE sequence = 255",
        "UPDATE state_snapshot SET sequence = -9 WHERE sequence = 255",
        "UPDATE state_snapshot SET sequence = 300 WHERE sequence = 255",
    ] {
        let scratch = Scratch::new();
        let store = scratch.open_without_projector();
        let (id, other) = (conversation("talk"), conversation("other"));
        talk(&store, &other, 0, 1);
        talk(&store, &id, 0, 2 * SPACING);
        ask(&store, &id, SPACING);
        let db = scratch.foreign();
        db.execute_batch(harm).unwrap();
        talk(&store, &id, 2 * SPACING, 2 * SPACING);
        store.catch_up().unwrap();
        ask(&store, &other, 0);
        for place in [SPACING, 310, 2 * SPACING, 4 * SPACING - 1] {
            let moment = Moment::new(&store, &id, Point::Behind(Sequence(place))).unwrap();
            assert_eq!(moment.state().unwrap().whole.event_count(), place + 1, "{harm}");
        }
        store.maintenance().rebuild(&["snapshots"], &mut |_| ()).unwrap();
        ask(&store, &id, 4 * SPACING - 1);
        assert_eq!(store.audit().verify_projections(&mut |_| ()).unwrap().findings, [], "{harm}");
    }
}

#[test]
fn a_snapshot_that_another_program_altered_is_found_and_made_again() {
    for harm in [
        "UPDATE state_snapshot SET whole = replace(whole, '\"steps\":', '\"steps\":1') WHERE sequence = 511",
        "UPDATE state_snapshot SET whole = 'nonsense' WHERE sequence = 511",
        "UPDATE state_snapshot SET leaf = 3 WHERE sequence = 511",
    ] {
        let scratch = Scratch::new();
        let store = scratch.open_without_projector();
        let id = conversation("talk");
        talk(&store, &id, 0, 3 * SPACING);
        ask(&store, &id, 3 * SPACING - 1);
        let db = scratch.foreign();
        let before = dump(&db);
        db.execute_batch(harm).unwrap();
        let findings = store.audit().verify_projections(&mut |_| ()).unwrap().findings;
        assert_eq!(findings.len(), 1, "{harm}: {findings:?}");
        assert!(format!("{findings:?}").contains("snapshots"), "{harm}: {findings:?}");
        store.maintenance().rebuild(&["snapshots"], &mut |_| ()).unwrap();
        assert_same_rows(&dump(&db), &before);
        ask(&store, &id, 600);
    }
}
