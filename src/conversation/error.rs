//! What can go wrong with a conversation that runs, by what the caller can do about it.

use std::path::PathBuf;

use crate::agent::AgentError;
use crate::agent::acp::AcpError;
use crate::agent::analyzer::AnalyzerError;
use crate::agent::condenser::CondenseError;
use crate::agent::confirm::PolicyError;
use crate::ids::{ConversationId, EventId};
use crate::llm::LlmError;
use crate::plugin::PluginError;
use crate::remote::RemoteError;
use crate::tool::ToolError;

/// The result of what can go wrong with a conversation.
pub type Result<T, E = ConversationError> = std::result::Result<T, E>;

/// What can go wrong with a conversation that runs.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConversationError {
    /// The store refused or failed.
    #[error(transparent)]
    Store(#[from] crate::Error),
    /// The run failed; an event says so, and the status is `error`.
    #[error("Conversation run failed for id={conversation}: {detail}")]
    Run {
        /// The conversation.
        conversation: ConversationId,
        /// What failed: the code of the event.
        code: String,
        /// How.
        detail: String,
    },
    /// The conversation is running already, in this process or another.
    #[error("{conversation} is running already")]
    Running {
        /// The conversation.
        conversation: ConversationId,
    },
    /// The conversation was closed.
    #[error("{conversation} is closed")]
    Closed {
        /// The conversation.
        conversation: ConversationId,
    },
    /// A new conversation needs an agent.
    #[error("agent is required when initializing a new conversation")]
    NoAgent,
    /// The agent is none, or may not go on with this conversation.
    #[error(transparent)]
    Agent(#[from] AgentError),
    /// The policy is none.
    #[error(transparent)]
    Policy(#[from] PolicyError),
    /// The analyzer is none.
    #[error(transparent)]
    Analyzer(#[from] AnalyzerError),
    /// The base state is of another conversation.
    #[error("Conversation ID mismatch: provided {given}, but persisted state has {persisted}")]
    IdMismatch {
        /// The conversation that was asked for.
        given: ConversationId,
        /// The one that the base state names.
        persisted: String,
    },
    /// The log begins with a person's message, and it is too late to tell the model what it is.
    #[error("{conversation}: a user message stands before any system prompt")]
    Unprompted {
        /// The conversation.
        conversation: ConversationId,
    },
    /// The conversation has no such event.
    #[error("Unknown event_id: {event}")]
    UnknownEvent {
        /// What was asked for.
        event: EventId,
    },
    /// The agent has no such tool.
    #[error("Tool '{name}' not found. Available tools: [{}]", quoted(available))]
    UnknownTool {
        /// What was asked for.
        name: String,
        /// Those it has.
        available: Vec<String>,
    },
    /// The tool did not do it.
    #[error(transparent)]
    Tool(#[from] ToolError),
    /// A model that was asked on the side did not answer.
    #[error(transparent)]
    Model(#[from] LlmError),
    /// The agent has no condenser that can be asked to condense.
    #[error(
        "Cannot condense conversation: {what}. To enable manual condensation, give the agent a summarizing condenser."
    )]
    NoCondenser {
        /// What it has instead.
        what: String,
    },
    /// What the model sees could not be made shorter, and has to be.
    #[error(transparent)]
    Condense(#[from] CondenseError),
    /// No goal was interrupted.
    #[error("there is no goal to go on with")]
    NoGoal,
    /// Nothing was said that a title could be made of.
    #[error("No user messages found in conversation events")]
    NoUserMessage,
    /// The agent's program did not come up, or failed.
    #[error(transparent)]
    Acp(AcpError),
    /// A plugin cannot be had, or is none.
    #[error(transparent)]
    Plugin(#[from] PluginError),
    /// The agent's settings register no marketplace that a plugin could be of.
    #[error("{}", no_marketplace(*has_context))]
    NoMarketplace {
        /// Whether they have an `agent_context`.
        has_context: bool,
    },
    /// A tag that the reference would not take.
    #[error("tag {key:?} is refused: keys are lower-case letters and digits, values at most 256 characters")]
    Tag {
        /// Its key.
        key: String,
    },
    /// A limit that nothing could be done within.
    #[error("{setting} must be more than 0")]
    Limit {
        /// Which one.
        setting: &'static str,
    },
    /// The workspace's folder cannot be used.
    #[error("the workspace {path:?} cannot be used: {source}")]
    Workspace {
        /// The folder.
        path: PathBuf,
        /// The system's account.
        source: std::io::Error,
    },
    /// The lock that keeps two processes from running one conversation cannot be had.
    #[error("the lock {path:?} cannot be had: {source}")]
    Claim {
        /// Its file.
        path: PathBuf,
        /// The system's account.
        source: std::io::Error,
    },
    /// The server where the conversation is refused, failed, or is not there.
    #[error(transparent)]
    Remote(#[from] RemoteError),
    /// The work was given up: the runtime that it ran on has ended, or it panicked.
    #[error("{what} ended before it was done")]
    Abandoned {
        /// What was being done.
        what: &'static str,
    },
}

fn no_marketplace(has_context: bool) -> &'static str {
    match has_context {
        true => {
            "No marketplaces registered. Configure registered_marketplaces in AgentContext to use load_plugin()."
        }
        false => {
            "No agent context available. Configure agent_context with registered_marketplaces to use load_plugin()."
        }
    }
}

fn quoted(names: &[String]) -> String {
    names.iter().map(|name| format!("'{name}'")).collect::<Vec<_>>().join(", ")
}

impl ConversationError {
    /// Whether another process wrote first: read again and decide again.
    pub(super) fn is_conflict(&self) -> bool {
        matches!(self, Self::Store(crate::Error::Conflict { .. } | crate::Error::VersionConflict { .. }))
    }

    /// The name of the failure in an error event: the reference's exception where it has one.
    #[must_use]
    pub fn code(&self) -> String {
        match self {
            Self::Run { code, .. } => code.clone(),
            Self::Model(error) => error.code().to_owned(),
            Self::Condense(error) => error.code().to_owned(),
            Self::UnknownTool { .. } => "KeyError".to_owned(),
            Self::Store(_) => "StoreError".to_owned(),
            Self::Acp(error) => error.startup_code().to_owned(),
            Self::Tool(_) => "ToolError".to_owned(),
            Self::Plugin(_) => "PluginFetchError".to_owned(),
            Self::Remote(_) => "RemoteError".to_owned(),
            Self::Abandoned { .. } => "RuntimeError".to_owned(),
            Self::Workspace { .. } | Self::Claim { .. } => "OSError".to_owned(),
            Self::Unprompted { .. } => "AssertionError".to_owned(),
            Self::Running { .. }
            | Self::Closed { .. }
            | Self::NoAgent
            | Self::Agent(_)
            | Self::Policy(_)
            | Self::Analyzer(_)
            | Self::IdMismatch { .. }
            | Self::UnknownEvent { .. }
            | Self::NoCondenser { .. }
            | Self::NoGoal
            | Self::NoUserMessage
            | Self::NoMarketplace { .. }
            | Self::Tag { .. }
            | Self::Limit { .. } => "ValueError".to_owned(),
        }
    }
}
