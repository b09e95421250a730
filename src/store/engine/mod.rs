//! The engine (SQLite) itself: its errors, its transactions, its reading connections, and the memory that a statement
//! may use.
//!
//! For all other rooms. It knows no table, and names no other room.

mod error;
pub(super) mod heap;
pub(super) mod readers;
pub(super) mod transaction;

pub(super) use error::{
    Doing, Stop, corrupt, damage, is_busy, is_damage, is_fatal, is_known_id, memory_bytes, place, stop,
    translate,
};
