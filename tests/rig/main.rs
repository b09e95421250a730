//! The rig tests the promises of the store under injected faults and random operations, for as long as it may run.
//!
//! Sizes come from the environment (`ANNALS_RIG_…`): small by default, large in `.ci/run`. A failure prints a
//! line that replays it. `docs/reliability.md` says what is tested here and why.

mod acts;
mod facts;
mod io;
mod power;
mod random;
mod recording;
mod simulation;
mod vfs;
mod walker;
mod workload;
