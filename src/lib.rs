//! Annals keeps the history of AI-agent conversations as append-only event logs in one SQLite file.
//!
//! An event is one JSON object, as the agent's software wrote it. Annals stores events byte for byte, in order and
//! durably. It derives everything else from them: the list of conversations, HEAD and base state, transcripts, tool
//! calls, costs, full-text search. It reads and writes the folders of OpenHands conversations of every version.
//!
//! It **is** an embedded store with a command line: no server is needed, any thread and any process of one
//! machine may use the file, and every SQLite tool can read it. It is **not** a database for many machines
//! (keep the file on a local disk) and not a message broker. It never changes an event that it was given, unless a
//! person redacts or deletes it.
//!
//! ```text
//!  append ──► event ──► store ──► log ─────────► pages, scans, feed, export
//!  import ──►  (check)    │        │
//!                         │        └──────────► projections: transcript, tool calls, usage, tasks, search
//!                         └─► catalogue, HEAD, base state (same transaction)
//! ```
//!
//! # One conversation
//!
//! ```
//! use annals::{ConversationId, EventQuery, Expected, NewEvent, Sequence, Store};
//!
//! # let folder = tempfile::tempdir().expect("a folder");
//! # let path = folder.path().join("annals.db");
//! let store = Store::open(&path)?;
//! let task = ConversationId::new("my-task-123")?;
//!
//! // The payload is checked once, here. After that, appending cannot fail because of its content.
//! let asked = NewEvent::parse(
//!     r#"{"id":"e1","source":"user","llm_message":{"role":"user","content":[{"type":"text","text":"Run the tests"}]},"kind":"MessageEvent"}"#,
//! )?;
//! let places = store.append(&task, Expected::Empty, &[asked.clone()])?;
//! assert_eq!(places[0].sequence, Sequence(0)); // durable from here on
//!
//! // A retry with the same bytes returns their place. A wrong expectation is an error with both numbers.
//! assert!(store.append(&task, Expected::Empty, &[asked])?[0].known);
//! let late = NewEvent::parse(r#"{"id":"e2","kind":"PauseEvent"}"#)?;
//! let error = store.append(&task, Expected::Exact(7), &[late]).unwrap_err();
//! assert_eq!(error.to_string(), "my-task-123: expected 7 events, found 1");
//!
//! let page = store.events(&task, &EventQuery::default(), 100)?;
//! assert_eq!(page.events[0].kind, "MessageEvent");
//! assert_eq!(store.conversation(&task)?.title.as_deref(), Some("Run the tests"));
//! # Ok::<(), annals::Error>(())
//! ```
//!
//! # Further reading
//!
//! * [`Store`] is the entry point: it appends, reads, follows, searches and verifies. Its methods describe their cost
//!   and their errors.
//! * [`store`] has the values that its methods take and return, [`event`] the events, [`error`] what can go wrong.
//! * [`transfer`] imports and exports folders. [`audit`] makes reports and proofs, [`doctor`] examines and repairs a file,
//!   [`replay`] shows a conversation as it was at any point.
//! * In the repository, `docs/format.md` specifies the file for other programs that read it, `docs/architecture.md`
//!   explains the design, and `examples/many_conversations.rs` shows a host with many threads.
//!
//! The feature `tracing` adds spans of the store's work. The features `cli`, `server` and `agent` add programs around the
//! store. Without them (`default-features = false`), the crate is the store alone, synchronous and small.

// The library returns errors, or expects with the reason why it cannot fail. It never prints: the macros panic if the
// output is closed. The command line writes with src/cli/print.rs.
#![warn(clippy::print_stderr, clippy::print_stdout, clippy::unwrap_used)]
// A database that is open must not be opened by plain calls: src/untrusted.rs has the door.
#![cfg_attr(not(test), warn(clippy::disallowed_methods))]
// A build without the server leaves some items of the other modules unused.
#![cfg_attr(all(feature = "agent", not(feature = "server")), allow(dead_code, unused_imports))]

#[macro_use]
mod setters;

#[cfg(feature = "agent")]
pub mod agent;
#[cfg(feature = "aio")]
pub mod aio;
pub mod audit;
pub mod chain;
#[cfg(feature = "cli")]
pub mod cli;
#[cfg(feature = "agent")]
pub mod conversation;
mod conversation_state;
pub mod doctor;
pub mod error;
pub mod event;
#[cfg(feature = "agent")]
mod git;
#[cfg(feature = "agent")]
pub mod hook;
mod hunks;
mod ids;
#[cfg(all(unix, any(feature = "agent", feature = "cli")))]
mod ignored;
mod json;
#[cfg(feature = "agent")]
pub mod llm;
// Without the command line, only the server uses it.
#[cfg(feature = "server")]
#[cfg_attr(not(feature = "cli"), allow(dead_code, unused_imports))]
mod mcp;
pub mod message;
#[cfg(feature = "server")]
mod page;
mod partial;
#[cfg(feature = "agent")]
pub mod plugin;
mod price;
#[cfg(feature = "agent")]
mod program;
pub mod redact;
#[cfg(feature = "agent")]
pub mod remote;
pub mod replay;
#[cfg(feature = "agent")]
pub mod secret;
#[cfg(feature = "server")]
pub mod server;
#[cfg(feature = "postgres")]
pub mod shared;
#[cfg(feature = "agent")]
mod shell;
#[cfg(feature = "agent")]
pub mod skill;
pub mod state;
pub mod store;
pub mod stuck;
#[cfg(feature = "agent")]
pub mod tool;
pub mod transfer;
pub mod tree;
// The store alone reads few files of other parties.
#[cfg_attr(not(feature = "agent"), allow(dead_code))]
mod untrusted;
pub mod view;
pub mod visualizer;

pub use conversation_state::{ConversationEvents, ConversationMetrics, ConversationState, ConversationTask};
pub use error::{Error, ErrorClass, Expected, Result};
pub use event::NewEvent;
pub use ids::{
    CONVERSATION_ID_BYTES_MAX, ConversationId, EVENT_ID_BYTES_MAX, EventId, IdError, Position, ROOT,
    Sequence, Timestamp, Version,
};
pub use state::{AgentExecutionStatus, ExecutionStatus};
pub use store::{Append, Appended, EventQuery, FeedEvent, Follower, Leaf, Options, Store, StoredEvent};

/// The examples of `README.md` are doctests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
