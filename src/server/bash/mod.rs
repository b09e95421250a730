//! Commands that a client runs beside conversations, and what they printed (`api.md` section 8.1).
//!
//! They are no part of any log. [`History`] keeps them in memory while the server runs, bounded: the oldest
//! finished ones go first.

mod event;
mod histories;
mod history;
mod process;
mod routes;

pub(super) use event::{BashCommand, BashEvent, BashOutput};
pub(super) use histories::Histories;
pub(super) use history::History;
pub(super) use routes::{begin, routes};
