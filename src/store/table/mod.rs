//! The tables that hold the truth, one file for each: the log of events, and what is kept beside it.
//!
//! A table is written by its own file only. The other rooms call these files; nothing here knows who asks. It names
//! `engine`.

pub(super) mod admin;
pub(super) mod archive;
pub(super) mod arrival;
pub(super) mod attachment;
pub(super) mod base_state;
pub(super) mod catalogue;
pub(super) mod change;
pub(super) mod copied;
pub(super) mod guards;
pub(super) mod kept;
pub(super) mod log;
pub(super) mod origin;
pub(super) mod related;
pub(super) mod repair;
pub(super) mod replica;
pub(super) mod row;
pub(super) mod server_key;
pub(super) mod stale;
