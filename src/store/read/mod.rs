//! What a caller reads: events, conversations, transcripts, search, the feed of new events, and SQL of the caller's own.
//!
//! A read changes nothing but a subscription's place and derived tables. The room names `file`, `derived`, `table` and
//! `engine`, and not `write`.

// What most callers read comes first: the page of `Store` lists its methods in the order of these lines.
pub(super) mod events;
pub(super) mod feed;
pub(super) mod subscription;

mod beginning;
pub(super) mod breakdown;
mod correlated;
pub(super) mod facts;
pub(super) mod folded;
pub(super) mod heads;
pub(super) mod history;
pub(super) mod list;
pub(super) mod mark;
#[cfg(feature = "aio")]
pub(super) mod notification;
mod own;
pub(super) mod projected;
pub(super) mod query;
pub(super) mod search;
#[cfg(feature = "server")]
pub(super) mod server_keys;
mod shown;
mod tree;
mod typed;
pub(super) mod usage;
