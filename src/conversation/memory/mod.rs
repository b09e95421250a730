//! A conversation in memory, as values: the base state, the active branch, and the draft of the next write.
//!
//! It is read from the store as a whole, changed in one place, and read again where it may differ from the store. The
//! room asks the store only through a [`Host`](crate::conversation::Host). It knows no model, no tool and no run.

mod base;
mod branch;
mod live;
pub(super) mod load;
mod rebase;
mod snapshot;
mod tags;

pub(super) use base::{Base, Change, Sealing};
pub(super) use branch::Branch;
pub(super) use live::{Draft, GOAL, LEFT_OUT, Live, PROMPT_WINDOW, common, note, updated};
pub use live::{OnPause, StateUpdates};
pub(super) use load::Stored;
pub(super) use rebase::rebase;
pub use snapshot::Snapshot;
pub(super) use tags::check_tags;
