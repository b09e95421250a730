//! Who decides: what an agent is, and what becomes of a model's reply.
//!
//! An [`AgentDocument`] is the agent as it is written down. From a reply come actions ([`call`]), their risks
//! ([`analyzer`]) and whether a person is asked first ([`confirm`]). Beside the conversation a model is asked for summaries
//! of what is forgotten ([`condenser`]), titles ([`title`]), answers about what was done ([`ask`]) and whether a goal is
//! reached ([`judge`]). Agents that can be given tasks are in [`definition`]. Nothing here knows where events are
//! kept, which conversation they belong to or when the next step is due. Its invariants: whatever a
//! model answers becomes events, and no event holds more than the model answered.

pub mod acp;
pub mod analyzer;
pub mod aside;
pub mod ask;
pub mod call;
pub mod condenser;
pub mod confirm;
pub mod definition;
mod document;
pub mod judge;
pub mod prompt;
pub mod step;
pub mod title;

pub use analyzer::Analyzer;
pub use confirm::Policy;
pub use document::{AgentDocument, AgentError};
