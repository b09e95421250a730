//! What follows from events, and the one document that changes: folds and values, without a file.
//!
//! [`State`] is the fold; [`BaseDocument`] is what no event tells. Where a conversation has a base state, its
//! status, stats and last user message count for the live object; the fold answers for any moment before.

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
