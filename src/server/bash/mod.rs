//! Commands that clients run outside of conversations, and their outputs (`docs/reference/workspace.md#commands`).
//!
//! They are not part of any log. [`History`] keeps them in memory while the server runs. It is bounded: the oldest
//! events are removed first.

mod event;
mod histories;
mod history;
mod process;
mod routes;

pub(super) use event::{BashCommand, BashEvent, BashOutput};
pub(super) use histories::Histories;
pub(super) use history::History;
pub(super) use routes::{begin, routes};
