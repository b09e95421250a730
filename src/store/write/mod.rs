//! How events get into the log: the contract of an append, the one writer with its queue, and the thread that makes
//! projections follow.
//!
//! For [`Store`](crate::store::Store) and for imports. It names every room but those that read, transfer and maintain.

pub(super) mod append;
mod document;
mod keeping;
mod known;
mod later;
mod leading;
#[cfg(feature = "aio")]
pub(super) mod leads;
mod mend;
pub(super) mod order;
mod outcome;
pub(super) mod projector;
pub(super) mod queue;
mod retry;
pub(super) mod writer;
