//! The errors of conversations, divided by what the caller can do about them.

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

/// A result with a [`ConversationError`].
pub type Result<T, E = ConversationError> = std::result::Result<T, E>;

/// An error of a conversation.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConversationError {
    /// An error of the store.
    #[error(transparent)]
    Store(#[from] crate::Error),
    /// The run failed. An event reports it, and the status is `error`.
    #[error("Conversation run failed for id={conversation}: {detail}")]
    Run {
        /// The conversation.
        conversation: ConversationId,
        /// The code of the event.
        code: String,
        /// The details.
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
    /// The agent's settings are invalid, or the agent may not resume this conversation.
    #[error(transparent)]
    Agent(#[from] AgentError),
    /// The confirmation policy is invalid.
    #[error(transparent)]
    Policy(#[from] PolicyError),
    /// The security analyzer is invalid.
    #[error(transparent)]
    Analyzer(#[from] AnalyzerError),
    /// The base state belongs to another conversation.
    #[error("Conversation ID mismatch: provided {given}, but persisted state has {persisted}")]
    IdMismatch {
        /// The requested id.
        given: ConversationId,
        /// The id in the base state.
        persisted: String,
    },
    /// The log begins with a user message. A system prompt can no longer be added.
    #[error("{conversation}: a user message comes before any system prompt")]
    Unprompted {
        /// The conversation.
        conversation: ConversationId,
    },
    /// The conversation has no such event.
    #[error("Unknown event_id: {event}")]
    UnknownEvent {
        /// The requested id.
        event: EventId,
    },
    /// The agent has no such tool.
    #[error("Tool '{name}' not found. Available tools: [{}]", quoted(available))]
    UnknownTool {
        /// The requested name.
        name: String,
        /// The tools that the agent has.
        available: Vec<String>,
    },
    /// The tool failed.
    #[error(transparent)]
    Tool(#[from] ToolError),
    /// A model did not answer a request outside of a run.
    #[error(transparent)]
    Model(#[from] LlmError),
    /// The agent has no condenser that handles requests.
    #[error(
        "Cannot condense conversation: {what}. To enable manual condensation, give the agent a summarizing condenser."
    )]
    NoCondenser {
        /// The reason.
        what: String,
    },
    /// The view is too long, or was requested to be shorter, and could not be condensed.
    #[error(transparent)]
    Condense(#[from] CondenseError),
    /// There is no interrupted goal.
    #[error("there is no interrupted goal to resume")]
    NoGoal,
    /// There is no user message to make a title from.
    #[error("No user messages found in conversation events")]
    NoUserMessage,
    /// The agent's program did not start, or failed.
    #[error(transparent)]
    Acp(AcpError),
    /// A plugin cannot be fetched, or is invalid.
    #[error(transparent)]
    Plugin(#[from] PluginError),
    /// The agent's settings register no marketplace to load plugins from.
    #[error("{}", no_marketplace(*has_context))]
    NoMarketplace {
        /// Whether the settings have an `agent_context`.
        has_context: bool,
    },
    /// The tag is invalid, as in the reference.
    #[error("tag {key:?} is refused: keys are lower-case letters and digits, values at most 256 characters")]
    Tag {
        /// The tag's key.
        key: String,
    },
    /// A limit is 0.
    #[error("{setting} must be more than 0")]
    Limit {
        /// The name of the setting.
        setting: &'static str,
    },
    /// The workspace's folder cannot be used.
    #[error("the workspace {path:?} cannot be used: {source}")]
    Workspace {
        /// The folder.
        path: PathBuf,
        /// The system's error.
        source: std::io::Error,
    },
    /// The lock that keeps two processes from running the same conversation cannot be made or taken.
    #[error("the lock {path:?} cannot be taken: {source}")]
    Claim {
        /// The lock's file.
        path: PathBuf,
        /// The system's error.
        source: std::io::Error,
    },
    /// The server of the conversation refused, failed, or cannot be reached.
    #[error(transparent)]
    Remote(#[from] RemoteError),
    /// The work was abandoned: its runtime has ended, or it panicked.
    #[error("{what} ended before it was done")]
    Abandoned {
        /// A description of the work.
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
    /// Returns whether another process wrote first. The caller must read again and decide again.
    pub(super) fn is_conflict(&self) -> bool {
        matches!(self, Self::Store(crate::Error::Conflict { .. } | crate::Error::VersionConflict { .. }))
    }

    /// Returns whether another process has the write lock. The same write may succeed later.
    pub(super) fn is_locked(&self) -> bool {
        matches!(self, Self::Store(crate::Error::Busy { .. }))
    }

    /// Returns the code for an error event: the reference's exception, if it has one for this error.
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
