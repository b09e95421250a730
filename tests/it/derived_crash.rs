//! Processes are killed (SIGKILL) while they rebuild derived objects. The next load must complete the rebuild.

use std::sync::{Mutex, PoisonError};

use annals::store::{Durability, ObjectKind, derived_objects};
use annals::{Expected, NewEvent, Options, Sequence, Store};
use rusqlite::Connection;
use rusqlite::types::Value;

use crate::derived::{Restored, damages};
use crate::support::child::{self, Role, Running};
use crate::support::events::{command, printed, user_message};
use crate::support::projected::{assert_same_rows, dump};
use crate::support::random::Random;
use crate::support::{Scratch, assert_sound, conversation};

const TEST: &str =
    "derived_crash::after_a_kill_during_a_rebuild_of_derived_objects_the_next_load_completes_it";

/// The number of databases. Each has other damage.
const DATABASES: usize = 30;
/// The number of processes that run on each database.
const KILLS: u64 = 2;
/// The number of events in each database: enough for two steps of the projections and four of the search index.
const EVENTS: u64 = 1800;

fn options() -> Options {
    crate::support::without_projector().durability(Durability::Normal)
}

#[test]
fn after_a_kill_during_a_rebuild_of_derived_objects_the_next_load_completes_it() {
    if let Some(role) = child::role() {
        return rebuild_until_killed(&role);
    }
    let scratch = Scratch::new();
    let store = Store::open_with(scratch.database(), &options()).unwrap();
    let events: Vec<NewEvent> = (0..EVENTS).map(numbered_event).collect();
    store.append(&conversation("talk"), Expected::Any, &events).unwrap();
    store.search("find", &Default::default(), 1, &mut |_| ()).unwrap();
    store.catch_up().unwrap();
    drop(store);
    let wanted = dump(&scratch.foreign());
    let harms = Mutex::new(harms(&scratch.foreign()).into_iter().zip(1_u64..));
    let next = || harms.lock().unwrap_or_else(PoisonError::into_inner).next();
    let check = || {
        let mut tried = 0;
        while let Some((harm, seed)) = next() {
            let copy = Scratch::new();
            std::fs::copy(scratch.database(), copy.database()).unwrap();
            assert_restored(&copy, &harm, &mut Random::new(seed), &wanted);
            tried += 1;
        }
        tried
    };
    let tried: usize = std::thread::scope(|scope| {
        let lanes: Vec<_> = (0..2).map(|_| scope.spawn(check)).collect();
        lanes.into_iter().map(|lane| lane.join().unwrap()).sum()
    });
    assert_eq!(tried, DATABASES);
}

/// Damage as SQL, and when it must be restored.
type Harm = (String, Restored);

/// Six damages to many objects, and others that are drawn from all damages to single objects.
fn harms(db: &Connection) -> Vec<Harm> {
    let drops: String = derived_objects()
        .unwrap()
        .iter()
        .filter(|object| object.kind != ObjectKind::View && !object.name.starts_with("transcript_search_"))
        .map(|object| format!("DROP {} IF EXISTS {};", object.kind.as_str(), object.name))
        .collect();
    let of_many = [
        drops.as_str(),
        "DELETE FROM projection",
        "UPDATE projection SET version = version + 1",
        "UPDATE projection SET position = position / 2",
        "DROP TABLE usage_stale; DROP TABLE transcript_search_data",
    ];
    let mut harms: Vec<Harm> = of_many.map(|sql| (sql.to_owned(), Restored::OnLoad)).into();
    harms.push(("UPDATE transcript_line SET role = 'x'; DELETE FROM tool_call".into(), Restored::OnRequest));
    let mut all = damages(db);
    let mut random = Random::new(7);
    while harms.len() < DATABASES {
        let drawn = usize::try_from(random.below(all.len() as u64)).unwrap();
        let damage = all.swap_remove(drawn);
        harms.push((damage.sql, damage.restored));
    }
    harms
}

/// Damages the database, kills processes that restore it, and asserts that the next one completes that.
#[track_caller]
fn assert_restored(copy: &Scratch, (harm, restored): &Harm, random: &mut Random, wanted: &[Vec<Vec<Value>>]) {
    // Without this pragma, SQLite rejects a rename if a view is broken.
    copy.foreign()
        .execute_batch(&format!("PRAGMA legacy_alter_table = ON; {harm}"))
        .unwrap_or_else(|error| panic!("{harm}: {error}"));
    for _ in 0..KILLS {
        let role = if random.below(2) == 0 { "load" } else { "rebuild" };
        let mut running = Running::start(child::command(TEST, role, &copy.database()));
        let mut lines = running.take_lines();
        // The process is killed after so many lines, unless it is done before that.
        let is_done = (0..random.below(8)).any(|_| {
            let line = lines.next().unwrap_or_else(|| panic!("{harm}: the process failed ({role})"));
            line == "done"
        });
        if !is_done {
            running.kill();
        }
    }
    let store =
        Store::open_with(copy.database(), &options()).unwrap_or_else(|error| panic!("{harm}: {error}"));
    if *restored == Restored::OnRequest {
        store.maintenance().rebuild(&[], &mut |_| ()).unwrap_or_else(|error| panic!("{harm}: {error}"));
    }
    store.transcript(&conversation("talk"), Sequence(0), 1).unwrap_or_else(|error| panic!("{harm}: {error}"));
    let found = store.search("find", &Default::default(), 1000, &mut |_| ());
    let found = found.unwrap_or_else(|error| panic!("{harm}: {error}"));
    assert_eq!(found.len() as u64, EVENTS / 3, "{harm}");
    let now = dump(&copy.foreign());
    assert!(now.len() == wanted.len(), "{harm}");
    assert_same_rows(&now, wanted);
    assert_sound(&store);
    assert_eq!(store.audit().verify_projections(&mut |_| ()).unwrap().findings, [], "{harm}");
}

fn numbered_event(number: u64) -> NewEvent {
    let (id, call) = (number.to_string(), format!("c{}", number / 3));
    match number % 3 {
        0 => user_message(&id, "find me"),
        1 => command(&id, &call, "make"),
        _ => printed(&id, &(number - 1).to_string(), &call, "fine", 0),
    }
}

/// Runs in the process that is killed.
fn rebuild_until_killed(role: &Role) {
    let store = Store::open_with(&role.database, &crate::support::without_projector()).unwrap();
    child::report("open");
    store.maintenance().on_rebuild_progress(|_| child::report("step"));
    if role.name == "load" {
        store.catch_up().unwrap();
    } else {
        store.maintenance().rebuild(&[], &mut |_| child::report("step")).unwrap();
    }
    child::report("done");
}
