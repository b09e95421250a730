//! Agents: their settings, and how a model's reply is handled.
//!
//! An [`AgentDocument`] is the stored form of an agent. A host makes one, and gives it to
//! [`conversation::Builder`](crate::conversation::Builder). A [`Policy`] decides whether a person is asked before an action
//! is carried out, by the risk that an [`Analyzer`] finds. [`Definitions`] are the agents that can be given tasks.
//!
//! Inside, a reply is turned into actions (`call`), their risk is rated (`analyzer`), and a policy decides whether the user
//! is asked first (`confirm`). Outside of the conversation, a model is asked for summaries of forgotten events
//! (`condenser`), for titles (`title`), for answers about the conversation (`ask`) and for a verdict on a goal (`judge`).
//! This module does not know where events are stored, which conversation they belong to or when the next step is due.
//! Invariants: every answer of a model becomes events, and no event contains more than the answer.

pub(crate) mod acp;
pub(crate) mod analyzer;
pub(crate) mod aside;
pub(crate) mod ask;
pub(crate) mod call;
pub(crate) mod condenser;
pub(crate) mod confirm;
pub(crate) mod definition;
mod document;
pub(crate) mod judge;
pub(crate) mod prompt;
pub(crate) mod step;
pub(crate) mod title;

pub use acp::AcpError;
pub use analyzer::{Analysis, Analyzer, AnalyzerError};
pub use condenser::CondenseError;
pub use confirm::{Policy, PolicyError};
pub use definition::{Condensing, Definition, DefinitionProblem, Definitions};
pub use document::{AgentDocument, AgentError};
pub use judge::Verdict;
