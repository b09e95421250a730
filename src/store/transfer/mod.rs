//! What comes from elsewhere: imports of folders, copies from another store, files of other programs.
//!
//! For the room `transfer` at the top, which reads folders and decides what to take. It names `write`, `table` and
//! `engine`.

pub(super) mod carry;
pub(super) mod foreign;
#[cfg(feature = "agent")]
mod fork;
pub(super) mod import;
mod stay_out;
