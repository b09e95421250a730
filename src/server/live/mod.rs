//! What lives as long as the server: the state that all requests share, the open conversations, and the delivery of
//! events.
//!
//! [`App`] holds it all. `sessions` opens conversations (`opening`, `plan`) and runs them (`session`). `hub` follows
//! the log and notifies sockets and webhooks. `info` and `wire` show conversations and events as clients read them.
//! `keep` reads and changes the server's small files. The room has no routes. It names `http` and the configuration.
//! Within the room, [`App`] and what it holds name each other.

mod app;
pub(super) mod backups;
pub(super) mod bash;
pub(super) mod delivery;
pub(super) mod heads;
#[cfg(feature = "postgres")]
pub(super) mod homes;
pub(super) mod hub;
pub(super) mod info;
pub(super) mod keep;
pub(super) mod left_out;
pub(super) mod meta;
pub(super) mod metrics;
pub(super) mod notice;
mod opening;
mod piece;
pub(super) mod plan;
#[cfg(feature = "postgres")]
pub(super) mod replica;
pub(super) mod secrets;
pub(super) mod session;
mod sessions;
#[cfg(feature = "otel")]
mod telemetry;
mod title;
mod together;
mod undelivered;
mod watched;
mod webhook;
pub(super) mod wire;

pub use app::App;
pub use undelivered::Undelivered;
