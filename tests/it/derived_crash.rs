//! Processes are killed (SIGKILL) while they rebuild derived objects. The next load must complete the rebuild.

use annals::store::{Durability, ObjectKind, derived_objects};
use annals::{Expected, NewEvent, Options, Sequence, Store};

use crate::support::child::{self, Role, Running};
use crate::support::events::{command, printed, said};
use crate::support::projected::{assert_same_rows, dump};
use crate::support::random::Random;
use crate::support::{Scratch, assert_sound, conversation};

const TEST: &str =
    "derived_crash::after_a_kill_during_a_rebuild_of_derived_objects_the_next_load_completes_it";

/// The number of databases.
const DATABASES: u64 = 6;
/// The number of processes that run on each database.
const KILLS: u64 = 4;
/// The number of events in each database: enough for several steps of a rebuild.
const EVENTS: u64 = 3000;

#[test]
fn after_a_kill_during_a_rebuild_of_derived_objects_the_next_load_completes_it() {
    if let Some(role) = child::role() {
        return rebuild_until_killed(&role);
    }
    let scratch = Scratch::new();
    let options = Options { durability: Durability::Normal, ..crate::support::still() };
    let store = Store::open_with(scratch.database(), &options).unwrap();
    for batch in 0..EVENTS / 1000 {
        let events: Vec<NewEvent> = (0..1000).map(|number| numbered_event(batch * 1000 + number)).collect();
        store.append(&conversation("talk"), Expected::Any, &events).unwrap();
    }
    store.search("find", &Default::default(), 1, &mut |_| ()).unwrap();
    store.catch_up().unwrap();
    drop(store);
    let before = dump(&scratch.foreign());
    let drops: String = derived_objects()
        .unwrap()
        .iter()
        .filter(|object| object.kind != ObjectKind::View && !object.name.starts_with("transcript_search_"))
        .map(|object| format!("DROP {} IF EXISTS {};", object.kind.as_str(), object.name))
        .collect();
    let harms = [
        &drops,
        "DELETE FROM projection",
        "UPDATE projection SET version = version + 1",
        "UPDATE projection SET position = position / 2",
        "DROP TABLE usage_stale; DROP TABLE transcript_search_data",
        "UPDATE transcript_line SET role = 'x'; DELETE FROM tool_call",
    ];
    let mut random = Random::new(7);
    for round in 0..DATABASES {
        let harm = harms[usize::try_from(round).unwrap() % harms.len()];
        let copy = Scratch::new();
        std::fs::copy(scratch.database(), copy.database()).unwrap();
        copy.foreign().execute_batch(harm).unwrap();
        for _ in 0..KILLS {
            let role = if random.below(2) == 0 { "load" } else { "rebuild" };
            let mut running = Running::start(child::command(TEST, role, &copy.database()));
            let mut lines = running.take_lines();
            // The process is killed after so many lines, unless it ends before that.
            let steps = random.below(8);
            let done = (0..steps).any(|_| lines.next().is_none_or(|line| line == "done"));
            if !done {
                running.kill();
            }
        }
        let store = Store::open_with(copy.database(), &options).unwrap();
        store.transcript(&conversation("talk"), Sequence(0), 1).unwrap();
        if harm.starts_with("UPDATE transcript_line") {
            store.rebuild(&[], &mut |_| ()).unwrap();
        }
        assert_same_rows(&dump(&copy.foreign()), &before);
        assert_eq!(
            store.search("find", &Default::default(), 1000, &mut |_| ()).unwrap().len(),
            1000,
            "{harm}"
        );
        assert_sound(&store);
        assert_eq!(store.verify_projections(&mut |_| ()).unwrap().findings, [], "{harm}");
    }
}

fn numbered_event(number: u64) -> NewEvent {
    let (id, call) = (number.to_string(), format!("c{}", number / 3));
    match number % 3 {
        0 => said(&id, "find me"),
        1 => command(&id, &call, "make"),
        _ => printed(&id, &(number - 1).to_string(), &call, "fine", 0),
    }
}

/// Runs in the process that is killed.
fn rebuild_until_killed(role: &Role) {
    let store = Store::open_with(&role.database, &crate::support::still()).unwrap();
    child::report("open");
    store.tell_loading(|_| child::report("step"));
    if role.name == "load" {
        store.catch_up().unwrap();
    } else {
        store.rebuild(&[], &mut |_| child::report("step")).unwrap();
    }
    child::report("done");
}
