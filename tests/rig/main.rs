//! The rig: what the store promises, held against faults and against chance, for as long as one lets it run.
//!
//! Sizes come from the environment (`ANNALS_RIG_…`): small by default, large in `.ci/run`. What fails prints a
//! line that replays it. `docs/reliability.md` says what is tested here and what for.

mod facts;
mod io;
mod power;
mod random;
mod recording;
mod simulation;
mod vfs;
mod workload;
