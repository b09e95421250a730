//! A run: turn after turn, step after step, until the agent has finished or is stopped.
//!
//! A step asks the model, shortens what the model sees, carries out the tools' calls, or hands a message to an agent that
//! is a program. The room takes the equipment from `setup` and writes through `local`. It does not know who asked for the
//! run.

mod condense;
mod execute;
mod program;
mod secrets;
mod step;
mod stop;
mod turn;

pub(super) use step::spent;
pub use turn::RunOptions;
