//! Somebody else's machine: what is said to an agent-server, and what is heard from it.
//!
//! A [`Server`] is where it is and which key opens it; a client asks it over HTTP, bounded in time and size. A
//! follower hears a conversation through the server's cursor socket, each event once and in the order of the server's
//! log, whatever happens to the connection: what a socket may have lost is read from the log. Both speak the contract
//! of `api.md`, to Annals' server and to the reference's alike.
//!
//! It does not know what a conversation is to a program: that is [`crate::conversation::RemoteConversation`]. Its
//! invariant: the key is in no error, no log and no debug print.

mod client;
mod error;
mod follow;
mod frame;
mod log;
mod mirror;
mod seen;
mod server;
mod socket;

pub(crate) use client::{Client, Method, SLOW};
pub use error::RemoteError;
pub(crate) use follow::{Begin, Follower, Listener};
pub(crate) use log::Cursor;
pub(crate) use seen::Seen;
pub use server::{Server, VERSION_MIN};

/// The result of what can go wrong between here and a server.
pub type Result<T, E = RemoteError> = std::result::Result<T, E>;
