//! Agents: their settings, and how a model's reply is handled.
//!
//! An [`AgentDocument`] is the stored form of an agent. A reply is turned into actions ([`call`]), their risk is rated
//! ([`analyzer`]), and a policy decides whether the user is asked first ([`confirm`]). Outside of the conversation, a
//! model is asked for summaries of forgotten events ([`condenser`]), for titles ([`title`]), for answers about the
//! conversation ([`ask`]) and for a verdict on a goal ([`judge`]). Agents that can be given tasks are in
//! [`definition`]. This module does not know where events are stored, which conversation they belong to or when the
//! next step is due. Invariants: every answer of a model becomes events, and no event contains more than the answer.

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
