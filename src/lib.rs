//! Annals keeps the history of AI-agent conversations as append-only event logs in one SQLite file.

pub mod chain;
pub mod error;
pub mod event;
pub mod ids;
pub mod state;
pub mod store;
pub mod transfer;
pub mod stuck;
pub mod tree;
pub mod view;

pub use error::{Error, Expected, Result};
pub use event::NewEvent;
pub use ids::{ConversationId, EventId, Position, Sequence, Timestamp, Version};
pub use store::{Options, Store};
