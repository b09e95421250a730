//! The client of an agent-server on another machine.
//!
//! A [`Server`] has the address and the key of a server. A client sends HTTP requests to it, with limits on time and
//! size. A follower receives a conversation through the server's cursor socket: each event once and in the order of the
//! server's log, even if connections fail. Events that a socket may have lost are read from the log. Both follow the
//! contract of `docs/reference/server.md`, for Annals' server and for the reference's.
//!
//! This module does not know the program's view of a conversation: that is [`crate::conversation::RemoteConversation`].
//! Its invariant: no error, no log and no debug print contains the key.

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

/// The result of an operation on a server.
pub type Result<T, E = RemoteError> = std::result::Result<T, E>;
