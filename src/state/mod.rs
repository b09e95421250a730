//! The state that follows from events, and the one document that changes. Nothing here reads or writes files.
//!
//! [`State`] is the fold. [`BaseDocument`] contains what no event contains. If a conversation has a base state, the live
//! object has the status, stats and last user message of the base state. The fold gives them for any earlier time.

pub mod base;
pub mod fold;
pub mod ledger;
pub mod metrics;
pub mod pending;
pub mod record;
pub mod status;
pub mod title;
pub mod upcast;

pub use base::BaseDocument;
pub use fold::{Confirmation, State};
pub use ledger::{Ledger, Spent, Usage};
pub use metrics::{Metrics, Stats, TokenUsage};
pub use pending::Pending;
pub use record::ModelCall;
pub use status::{AgentExecutionStatus, ExecutionStatus};
