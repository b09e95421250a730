//! Annals keeps the history of AI-agent conversations as append-only event logs in one SQLite file.
//!
//! An event is one JSON object, as the agent's software wrote it. Annals keeps it byte for byte, in order,
//! durably, and derives everything else from it: what a list of conversations shows, HEAD and base state,
//! transcripts, tool calls, costs, full-text search. It reads and writes the folders of OpenHands
//! conversations, of every age.
//!
//! It **is** an embedded store with a command line: no server is needed, any thread and any process of one
//! machine may use the file, and every SQLite tool can read it. It is **not** a database for many machines
//! (keep the file on a local disk), not a message broker, and it never changes what it was given.
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
//! use annals::store::EventQuery;
//! use annals::{ConversationId, Expected, NewEvent, Sequence, Store};
//!
//! # let folder = tempfile::tempdir().expect("a folder");
//! # let path = folder.path().join("annals.db");
//! let store = Store::open(&path)?;
//! let task = ConversationId::new("my-task-123")?;
//!
//! // The payload is checked once, at the door; from here on appending cannot fail for its content.
//! let asked = NewEvent::parse(
//!     r#"{"id":"e1","source":"user","llm_message":{"role":"user","content":[{"type":"text","text":"Run the tests"}]},"kind":"MessageEvent"}"#,
//! )?;
//! let places = store.append(&task, Expected::Empty, &[asked.clone()])?;
//! assert_eq!(places[0].sequence, Sequence(0)); // durable from here on
//!
//! // A retry of the same bytes is answered with where they are; a stale expectation is told both numbers.
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
//! # Where to go on
//!
//! * [`Store`] is the way in: appending, reading, following, searching, verifying. Its methods say what
//!   they cost and how they fail.
//! * [`transfer`] takes folders in and writes them out.
//! * `docs/format.md` in the repository is the read contract of the file, for programs that are not this
//!   one; `docs/architecture.md` says why it is built as it is; `examples/many_conversations.rs` is a host
//!   with many threads.
//!
//! The features `cli`, `server` and `agent` add programs around the store; without them (`default-features
//! = false`) the crate is the store alone, synchronous and small.

// The server uses more of the rooms below it than a build without the server does.
#![cfg_attr(all(feature = "agent", not(feature = "server")), allow(dead_code, unused_imports))]

#[cfg(feature = "agent")]
pub mod agent;
pub mod audit;
pub mod chain;
#[cfg(feature = "cli")]
pub mod cli;
#[cfg(feature = "agent")]
pub mod conversation;
pub mod conversation_state;
pub mod doctor;
pub mod error;
pub mod event;
#[cfg(feature = "agent")]
mod git;
#[cfg(feature = "agent")]
pub mod hook;
pub mod ids;
#[cfg(feature = "agent")]
pub mod llm;
pub mod message;
#[cfg(feature = "server")]
pub mod page;
#[cfg(feature = "agent")]
pub mod plugin;
pub mod redact;
#[cfg(feature = "agent")]
pub mod remote;
pub mod replay;
#[cfg(feature = "agent")]
pub mod secret;
#[cfg(feature = "server")]
pub mod server;
#[cfg(feature = "agent")]
pub mod skill;
pub mod state;
pub mod store;
pub mod stuck;
#[cfg(feature = "agent")]
pub mod tool;
pub mod transfer;
pub mod tree;
pub mod untrusted;
pub mod view;
pub mod visualizer;

pub use conversation_state::ConversationState;
pub use error::{Error, Expected, Result};
pub use event::NewEvent;
pub use ids::{ConversationId, EventId, Position, Sequence, Timestamp, Version};
pub use state::{AgentExecutionStatus, ExecutionStatus};
pub use store::{Options, Store};

/// The examples of `README.md` are doctests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
