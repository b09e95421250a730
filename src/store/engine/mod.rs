//! The engine (SQLite) itself: its errors, its transactions, its reading connections, the memory that a statement may
//! use, the functions that statements of others may call, spans of the work with it, the URIs of files, the files that
//! it has open and their locks, how a commit is written, and the user for whom a thread writes.
//!
//! For all other rooms. It knows no table, and names no other room.

pub(super) mod acting;
mod error;
#[cfg(unix)]
pub(super) mod files;
pub(super) mod forks;
pub(super) mod functions;
pub(super) mod generation;
pub(super) mod heap;
pub(super) mod joined;
pub(super) mod parts;
pub(super) mod readers;
pub(in crate::store) mod strangers;
pub(super) mod trace;
pub(super) mod transaction;
pub(super) mod uri;
mod value;

pub(super) use error::{
    Stop, WhileDoing, corrupt, damage, is_busy, is_damage, is_fatal, is_known_id, is_of_statement,
    memory_bytes, place, stop, translate,
};
pub use value::SqlValue;
