//! The file: where it is, how it is opened, whether it is still the same, its write-ahead log, and the signal after a
//! commit.
//!
//! For the rooms that write and read. Opening a file compares its schema and upgrades it, so this room names `derived`,
//! `table` and `engine`.

pub(super) mod checkpoint;
pub(super) mod damaged_log;
pub(super) mod database;
pub(super) mod frames;
pub(super) mod orphan;
pub(super) mod other_log;
pub(super) mod place;
pub(super) mod presence;
pub(super) mod signal;
pub(super) mod write_log;
