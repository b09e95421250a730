//! The conversation loop. Only this module connects the store, the agent, its model and its tools.
//!
//! A [`Conversation`] is a handle on one conversation that can run. It is cheap to clone and can be used from any task.
//! Changes take a lock, in the order of the calls. [`Conversation::snapshot`] never waits. Every event is stored,
//! together with the new HEAD and base state, before a callback receives it.
//!
//! Source: `docs/reference/runtime.md`, except for the corrections that `docs/conformance.md` lists.
//!
//! The rooms, from top to bottom. Each names only rooms below it; `tests/tidy.rs` holds the table:
//!
//! * `any`: a conversation here or at a server, with the methods of both.
//! * `remote`: a conversation that runs at a server.
//! * `task`: conversations that agents give to other agents.
//! * `open`: new, resumed and copied conversations.
//! * `control`: what a program does with an open conversation beside running it.
//! * `run`: turns, steps, calls of tools.
//! * `setup`: how the model, the tools and the hooks are made.
//! * `local`: one conversation of this process, its lock and its commits.
//! * `memory`: the conversation as values.
//! * `host`, `claim`, `error`: the store, the right to run, and what can go wrong.

mod any;
mod claim;
mod control;
mod error;
mod host;
mod local;
mod memory;
mod open;
mod remote;
mod run;
mod setup;
mod task;

pub use any::{AnyConversation, Workspace};
pub(crate) use claim::Claim;
pub use claim::Runner;
pub use control::{Goal, GoalOutcome, GoalStatus, UserMessage};
pub use error::{ConversationError, Result};
pub use host::Host;
pub use local::{Callback, Called, Conversation, DeltaCallback, Guide, ModelMaker, Recorded, WaitCallback};
pub use memory::{OnPause, Snapshot, StateUpdates};
pub(crate) use open::Obstacle;
pub use open::{Builder, ForkMetrics, ForkOptions};
pub use remote::RemoteConversation;
pub use run::RunOptions;
pub use setup::has_tool;
