//! Random operations against a plain model, in one process and in several that are killed.
//!
//! `model.rs` is the whole contract in a few hundred lines of maps and vectors. `decide.rs` turns random numbers into
//! calls. `check.rs` compares all answers of a store with the model and with what `fold.rs` computes from the payloads.
//! `alone.rs` runs lists of operations over several handles. `kills.rs` runs processes and kills them.

mod actor;
mod alone;
mod call;
mod check;
#[path = "../../it/support/child.rs"]
#[allow(dead_code, reason = "what is shared with the other tests is not all used here")]
mod child;
mod decide;
mod fold;
mod kills;
mod model;
mod payload;
mod prune;
#[path = "../../it/support/random.rs"]
mod random;

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

/// Returns a number from the environment. `None` if it is not set.
pub fn setting(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|value| value.parse().unwrap_or_else(|_| panic!("{name} is a number")))
}

/// The number of seeds that are tried at the same time.
const THREADS: usize = 2;

/// Runs `work` on the seeds from `first` on, in [`THREADS`] threads, while `goes_on` returns true. Stops after three
/// failures. Panics with all failures.
pub fn each_seed(
    first: u64,
    goes_on: impl Fn(u64) -> bool + Sync,
    work: impl Fn(u64) -> check::Checked + Sync,
) {
    let next = AtomicU64::new(first);
    let failures = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if !goes_on(seed) || failures.lock().unwrap().len() >= 3 {
                        return;
                    }
                    if let Err(what) = work(seed) {
                        failures.lock().unwrap().push(what);
                    }
                }
            });
        }
    });
    let failures = failures.into_inner().unwrap();
    assert!(failures.is_empty(), "{}", failures.join("\n\n"));
}

#[test]
fn one_process_answers_as_the_model_does() {
    if let Some(seed) = setting("ANNALS_RIG_SEED") {
        let only = std::env::var("ANNALS_RIG_OPERATIONS").ok();
        let only: Option<Vec<u64>> =
            only.map(|list| list.split(',').map(|number| number.parse().unwrap()).collect());
        return alone::replay(seed, only.as_deref()).unwrap_or_else(|what| panic!("{what}"));
    }
    let first = setting("ANNALS_RIG_FIRST").unwrap_or(1);
    let seeds = setting("ANNALS_RIG_SEEDS").unwrap_or(40);
    each_seed(first, |seed| seed < first + seeds, alone::try_seed);
    println!("rig: {seeds} seeds, {} operations, every answer as the model's", seeds * alone::OPERATIONS);
}

#[test]
fn killed_processes_leave_every_acknowledged_operation_and_none_half_done() {
    const TEST: &str = "simulation::killed_processes_leave_every_acknowledged_operation_and_none_half_done";
    if let Some(role) = child::role() {
        return kills::live(&role);
    }
    let seed = setting("ANNALS_RIG_SEED");
    let kills = setting("ANNALS_RIG_KILLS").unwrap_or(20);
    let figures = Mutex::new(kills::Figures::default());
    // A seed does not decide the moment of a kill, so a given seed is tried until there were as many kills as with
    // others.
    let goes_on = |_| figures.lock().unwrap().kills < kills;
    each_seed(setting("ANNALS_RIG_FIRST").unwrap_or(1), goes_on, |next| {
        let seen = kills::survive(seed.unwrap_or(next), TEST)?;
        figures.lock().unwrap().add(seen);
        Ok(())
    });
    let seen = figures.into_inner().unwrap();
    println!(
        "rig: {} kills in {} files, {} operations acknowledged and there, {} of those under way there and {} not, \
         {} files compared and verified",
        seen.kills, seen.files, seen.acknowledged, seen.there, seen.not_there, seen.compared
    );
}
