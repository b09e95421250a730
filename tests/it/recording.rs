//! Recordings of conversations: every step equals the state at that moment, in any order of the steps.

use annals::replay::{Follows, Moment, Point, Recording, Step};
use annals::state::Usage;
use annals::transfer::Importer;
use annals::{ConversationId, Expected, Sequence, Store};
use serde_json::json;

use crate::support::events::{event, user_message};
use crate::support::random::Random;
use crate::support::{Scratch, altered, conversation, folder};

fn with_goldens(scratch: &Scratch) -> Store {
    let store = scratch.open_without_projector();
    Importer::new(&store, Default::default()).import(&folder::golden("conversations"), &mut |_| ()).unwrap();
    store
}

fn recording<'s>(store: &'s Store, id: &str) -> Recording<'s> {
    Recording::new(store, &store.resolve(id).unwrap(), Point::End).unwrap()
}

fn steps(recording: &mut Recording<'_>) -> Vec<Step> {
    (0..recording.len()).map(|place| recording.step(place).unwrap().unwrap()).collect()
}

/// Creates a conversation of many events. Some are so large that only a few fit on a page.
fn long(store: &Store) -> ConversationId {
    let id = conversation("long");
    let text = |n: u64| if n.is_multiple_of(50) { "x".repeat(1 << 20) } else { format!("number {n}") };
    let events: Vec<_> = (0..300).map(|n| user_message(&format!("e{n}"), &text(n))).collect();
    store.append(&id, Expected::Empty, &events).unwrap();
    id
}

#[test]
fn every_step_is_the_state_of_that_moment() {
    let scratch = Scratch::new();
    let store = with_goldens(&scratch);
    for folder in folder::goldens("conversations") {
        let name = folder.file_name().unwrap().to_string_lossy().into_owned();
        let fixture = std::fs::read_to_string(folder.join("base_state.json")).unwrap();
        let id =
            serde_json::from_str::<serde_json::Value>(&fixture).unwrap()["id"].as_str().unwrap().to_owned();
        for step in steps(&mut recording(&store, &id)) {
            let place = step.sequence;
            let moment = Moment::new(&store, &store.resolve(&id).unwrap(), Point::Behind(place)).unwrap();
            let state = moment.state().unwrap();
            // The state finds a stuck agent in the events, but a step shows it only after it is stored.
            if state.stuck.is_none() || moment.is_end() {
                assert_eq!(step.status, state.execution_status, "{name} {place}");
            }
            assert_eq!(step.iteration, state.whole.iteration(), "{name} {place}");
            let known = !state.stats.usage_to_metrics.is_empty();
            let expected = known.then(|| Usage::of(&state.stats));
            let rounded = |cost: Option<f64>| cost.map(|cost| (cost * 1e9).round());
            let rounded = |usage: Usage| {
                let bill = usage.bill;
                altered!(usage, { bill: altered!(bill, { cost: rounded(bill.cost), estimated_cost: rounded(bill.estimated_cost) }) })
            };
            assert_eq!(step.spent.total.map(rounded), expected.map(rounded), "{name} {place}");
        }
    }
}

#[test]
fn steps_are_the_same_in_any_order() {
    let scratch = Scratch::new();
    let store = with_goldens(&scratch);
    let long = long(&store);
    for id in ["coding-task", "condense-rolling"].map(golden_id).into_iter().chain([long.to_string()]) {
        let forwards = steps(&mut recording(&store, &id));
        let mut jumping = recording(&store, &id);
        let mut random = Random::new(7);
        for _ in 0..60 {
            let place = random.below(forwards.len() as u64) as usize;
            assert_eq!(jumping.step(place).unwrap().as_ref(), Some(&forwards[place]), "{id} {place}");
        }
        assert_eq!(jumping.step(forwards.len()).unwrap(), None);
    }
}

fn golden_id(name: &str) -> String {
    let fixture = std::fs::read_to_string(folder::golden("conversations").join(name).join("base_state.json"));
    serde_json::from_str::<serde_json::Value>(&fixture.unwrap()).unwrap()["id"].as_str().unwrap().to_owned()
}

#[test]
fn a_step_knows_what_it_follows_and_answers() {
    let scratch = Scratch::new();
    let store = with_goldens(&scratch);
    let tree = steps(&mut recording(&store, &golden_id("tree-navigate")));
    let follows: Vec<(u64, Follows)> = tree
        .iter()
        .filter(|step| step.follows != Follows::Last)
        .map(|step| (step.sequence.0, step.follows))
        .collect();
    assert_eq!(
        follows,
        [(5, Follows::Earlier(Sequence(0))), (13, Follows::Nothing), (15, Follows::Earlier(Sequence(4))),]
    );
    let hooks = steps(&mut recording(&store, &golden_id("hooks")));
    assert!(hooks.iter().all(|step| step.follows == Follows::Last));
    let task = steps(&mut recording(&store, &golden_id("coding-task")));
    assert_eq!(task[9].answers, Some(Sequence(6)));
    assert_eq!(task[8].answers, None);
}

#[test]
fn elapsed_time_comes_from_the_timestamps_of_the_events() {
    let scratch = Scratch::new();
    let store = scratch.open_without_projector();
    let id = conversation("times");
    let at = |id: &str, time: &str| event(id, "PauseEvent", json!({"timestamp": time}));
    let events = [
        at("a", "2026-01-01T00:00:00"),
        at("b", "2026-01-01T00:00:01.500000"),
        at("back", "2026-01-01T00:00:00"),
        at("never", "once upon a time"),
        at("c", "2026-01-01T00:00:02"),
    ];
    store.append(&id, Expected::Empty, &events).unwrap();
    let mut recording = recording(&store, "times");
    assert_eq!(recording.elapsed(0, 4).unwrap(), 3_500_000);
    assert_eq!(recording.elapsed(1, 99).unwrap(), 2_000_000);
    assert_eq!(recording.elapsed(3, 1).unwrap(), 0);
    let after: Vec<Option<i64>> = steps(&mut recording).iter().map(|step| step.after).collect();
    assert_eq!(after, [None, Some(1_500_000), None, None, Some(2_000_000)]);
}

#[test]
fn a_recording_may_end_at_an_earlier_event() {
    let scratch = Scratch::new();
    let store = with_goldens(&scratch);
    let id = store.resolve(&golden_id("coding-task")).unwrap();
    let mut part = Recording::new(&store, &id, Point::Behind(Sequence(4))).unwrap();
    assert_eq!(part.len(), 5);
    let last = part.step(4).unwrap().unwrap();
    assert_eq!(part.step(5).unwrap(), None);
    // The base state describes the end of the conversation, so it does not count here.
    assert_eq!(last.spent.total.unwrap().prompt_tokens, 7927);
    let mut empty = Recording::new(&store, &id, Point::Start).unwrap();
    assert!(empty.is_empty());
    assert_eq!(empty.step(0).unwrap(), None);
}
