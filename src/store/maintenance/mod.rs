//! Work on a whole file or conversation: backup and restore, checks, deletion, redaction, pruning, upgrade.
//!
//! Most of what it changes is recorded in the administrative log. It names every other room but `write`.

pub(super) mod backup;
pub(super) mod delete;
pub(super) mod examine;
pub(super) mod lacking;
pub(super) mod lost_row;
pub(super) mod redact;
pub(super) mod retention;
pub(super) mod secrets;
pub(super) mod upgrade;
pub(super) mod verify;
pub(super) mod wipe;
