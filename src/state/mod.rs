//! The state that follows from events, and the one document that changes. Nothing here reads or writes files.
//!
//! [`State`] is the fold. [`BaseDocument`] contains what no event contains. If a conversation has a base state, the live
//! object has the status, stats and last user message of the base state. The fold gives them for any earlier time.

pub(crate) mod base;
pub(crate) mod bill;
pub(crate) mod fold;
pub(crate) mod ledger;
pub(crate) mod metrics;
pub(crate) mod pending;
pub(crate) mod record;
pub(crate) mod saved;
pub(crate) mod status;
pub(crate) mod title;
pub(crate) mod upcast;

pub use base::{BaseDocument, BaseStateError, DOCUMENT_BYTES_MAX, FieldChange};
pub use bill::Bill;
pub use fold::{Confirmation, State};
pub use ledger::{Ledger, Spent, Usage};
pub use metrics::{Cost, Metrics, ResponseLatency, Snapshot, Stats, StatsSnapshot, TokenUsage};
pub use pending::Pending;
pub use record::ModelCall;
pub use status::{AgentExecutionStatus, Effect, ExecutionStatus, UnknownStatus};
pub use title::fallback as fallback_title;
pub use upcast::{BaseStep, UpcastBaseState, upcast_base_state};
