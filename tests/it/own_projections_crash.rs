//! Processes with a projection of their own are killed (SIGKILL) while they append. What is left is whole.

use annals::{Expected, Store};

use crate::support::child::{self, Role, Running};
use crate::support::parcels::{NAME, Parcels, dump, quick, shipped, wanted, with};
use crate::support::random::Random;
use crate::support::{Scratch, assert_sound, conversation, number};

const TEST: &str = "own_projections_crash::after_a_kill_the_rows_are_those_of_the_events_that_are_there";

/// The number of processes that are killed.
const KILLS: u64 = 8;

#[test]
fn after_a_kill_the_rows_are_those_of_the_events_that_are_there() {
    if let Some(role) = child::role() {
        return append_until_killed(&role);
    }
    let scratch = Scratch::new();
    let mut random = Random::new(11);
    let mut last = 0;
    for round in 0..KILLS {
        // In some rounds the child first has to make its tables again, in several steps.
        if round % 3 == 2 {
            let other = Store::open_with(scratch.database(), &quick()).unwrap();
            let events: Vec<_> =
                (0..2500).map(|event| shipped(&format!("o{round}-{event}"), "UPS", "x")).collect();
            other.append(&conversation("other"), Expected::Any, &events).unwrap();
            other.maintenance().drop_own_projection(NAME).unwrap();
        }
        let mut running = Running::start(child::command(TEST, &round.to_string(), &scratch.database()));
        let mut lines = running.take_lines();
        assert_eq!(lines.next().as_deref(), Some("open"));
        for _ in 0..random.below(30) {
            last = lines.next().expect("it appends until it is killed").parse().unwrap();
        }
        running.kill();
        let db = scratch.foreign();
        let read_up_to =
            "SELECT coalesce((SELECT position FROM projection WHERE name = 'own:shop.parcels'), 0)";
        let position = number(&db, read_up_to);
        assert!(position >= last, "an acknowledged append is not projected: {position} < {last}");
        if position == number(&db, "SELECT max(position) FROM event") {
            assert_eq!(dump(&db), wanted(&db, 1));
        }
    }
    let store = Store::open_with(scratch.database(), &with(Parcels::default())).unwrap();
    store.catch_up_own().unwrap();
    let db = scratch.foreign();
    assert_eq!(dump(&db), wanted(&db, 1));
    assert_sound(&store);
}

/// Runs in the process that is killed: appends, and reports each position.
fn append_until_killed(role: &Role) {
    let store = Store::open_with(&role.database, &with(Parcels::default())).unwrap();
    child::report("open");
    for event in 0.. {
        let event = shipped(&format!("r{}-{event}", role.name), "DHL", "x");
        let places = store.append(&conversation("talk"), Expected::Any, &[event]).unwrap();
        child::report(&places[0].position.0.to_string());
    }
}
