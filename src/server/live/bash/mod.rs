//! Commands that clients run outside of conversations, and their outputs (`docs/reference/workspace.md#commands`).
//!
//! They are not part of any log. [`History`] keeps them in memory while the server runs. It is bounded: the oldest
//! events are removed first.

mod event;
mod histories;
pub(in crate::server) mod history;
pub(in crate::server) mod process;

pub(in crate::server) use event::{BashCommand, BashEvent, BashOutput};
pub(super) use histories::Histories;
pub(in crate::server) use history::History;
