//! The tools of an agent: the interface of a tool, how tools are made and run, and one file for each tool.
//!
//! A tool checks the arguments that a model gave ([`Tool::action`]) and carries out the action ([`Tool::execute`]). It
//! has no access to the log and does not know its caller. Invariant: whatever a command prints or a server answers, the
//! observation is bounded and valid text, and after [`run`] it contains no secret.

mod arguments;
mod client;
mod file;
mod file_editor;
mod finish;
mod glob;
mod grep;
mod invoke_skill;
pub(crate) mod locks;
mod manual;
pub(crate) mod mcp;
mod registry;
mod run;
mod schema;
mod search;
mod task;
mod task_tracker;
#[cfg(unix)]
mod terminal;
mod think;
mod worker;

use std::borrow::Cow;
use std::path::PathBuf;
use std::sync::Arc;

pub use client::ClientTool;
pub use file_editor::FileEditor;
pub use finish::Finish;
pub use glob::Glob;
pub use grep::Grep;
pub use invoke_skill::{InvokeSkill, SkillSource};
pub use locks::{HeldLocks, Locks};
pub use registry::{Maker, Making, Registry, RegistryError, Spec, Toolbox};
pub use run::run;
pub use schema::{RiskField, schema_for_model};
pub use task::{Task, TaskRunner};
pub use task_tracker::TaskTracker;
#[cfg(unix)]
pub use terminal::{Terminal, TerminalSetting};
pub use think::Think;
use tokio_util::sync::CancellationToken;
pub use worker::blocking;

use crate::event::{Action, Observation, ToolDefinition};
use crate::json::Raw;
use crate::llm::{Boxed, ToolSchema};
use crate::secret::Mask;

/// Why a tool did not carry out an action. The model reads the text.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ToolError {
    /// The arguments are invalid. The text is prefixed with `Error validating tool ..`.
    #[error("{0}")]
    Arguments(String),
    /// The action failed in a way that the tool expects. The text is prefixed with `Error executing tool ..`.
    #[error("{0}")]
    Failed(String),
    /// The action failed in an unexpected way.
    #[error("{0}")]
    Internal(String),
    /// A resource that another call holds did not become free in time.
    #[error("{0}")]
    ResourceTimeout(String),
    /// The run was interrupted.
    #[error("the call was cancelled")]
    Cancelled,
}

impl ToolError {
    /// Returns the error for an action of another tool.
    fn foreign(tool: &dyn Tool, action: &Action) -> Self {
        Self::Internal(format!("{} is no action of the tool '{}'", action.kind(), tool.name()))
    }
}

/// The resources that no other call may use while an action runs (`docs/reference/calls.md#locks`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Resources {
    /// The tool does not declare its resources. Only one of its calls runs at a time.
    Undeclared,
    /// The keys of the resources, such as `file:<absolute path>` or `terminal:session`. Calls without keys never wait.
    Keys(Vec<String>),
}

/// Secret values that commands may use. They must not be shown.
pub trait Secrets: Send + Sync {
    /// Returns the secrets whose names the command mentions, as `(name, value)`. A value that comes from another source
    /// is fetched now.
    fn for_command<'a>(&'a self, command: &'a str) -> Boxed<'a, Vec<(String, String)>>;

    /// Returns the text with every known value replaced by `<secret-hidden>`.
    fn mask<'t>(&self, text: &'t str) -> Cow<'t, str>;

    /// Returns the length of the longest known value in bytes, or 0 if there is none. Text that comes in pieces is
    /// masked with an overlap of this length.
    fn bytes_max(&self) -> usize;

    /// Returns a mask of all known values that works piece by piece. Without one, long outputs are not kept in files.
    fn known(&self) -> Option<Mask> {
        None
    }
}

/// No secrets: nothing is exported and nothing is masked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct NoSecrets;

impl Secrets for NoSecrets {
    fn for_command<'a>(&'a self, _command: &'a str) -> Boxed<'a, Vec<(String, String)>> {
        Box::pin(std::future::ready(Vec::new()))
    }

    fn mask<'t>(&self, text: &'t str) -> Cow<'t, str> {
        Cow::Borrowed(text)
    }

    fn bytes_max(&self) -> usize {
        0
    }

    fn known(&self) -> Option<Mask> {
        Some(Mask::default())
    }
}

/// The environment of a call.
#[derive(Clone)]
#[non_exhaustive]
pub struct Context {
    /// The workspace's folder, absolute.
    pub working_dir: PathBuf,
    /// The conversation's own folder for the files of tools (`TASKS.json`, `observations/`), if it has one.
    pub keep_dir: Option<PathBuf>,
    /// The secrets of the conversation.
    pub secrets: Arc<dyn Secrets>,
    /// Cancels the call: the tool stops its work and returns [`ToolError::Cancelled`].
    pub cancel: CancellationToken,
}

impl Context {
    /// Makes the environment of a call in a workspace: without a folder for files, without secrets, not cancelled.
    #[must_use]
    pub fn new(working_dir: impl Into<PathBuf>) -> Self {
        let (secrets, cancel) = (Arc::new(NoSecrets), CancellationToken::new());
        Self { working_dir: working_dir.into(), keep_dir: None, secrets, cancel }
    }
}

setters!(Context { working_dir, keep_dir?: PathBuf, secrets: Arc<dyn Secrets>, cancel: CancellationToken });

/// A tool of an agent. Each value belongs to one conversation and may hold its shell or connection.
pub trait Tool: Send + Sync {
    /// Returns the name by which the model calls the tool.
    fn name(&self) -> &str;

    /// Returns the tool as the system prompt event records it.
    fn definition(&self) -> &ToolDefinition;

    /// Returns the tool as the model sees it, without `security_risk` and `summary`, which are added later.
    fn schema(&self) -> ToolSchema;

    /// Converts arguments into an action. They are a JSON object without nulls, `security_risk` and `summary`.
    ///
    /// # Errors
    /// [`ToolError::Arguments`] if the arguments are invalid, in the reference's words.
    fn action(&self, arguments: Raw<'_>) -> Result<Action, ToolError>;

    /// Returns the resources that the action needs exclusively.
    fn resources(&self, action: &Action) -> Resources;

    /// Carries out the action. Blocking work runs on its own thread. Call it through [`run`].
    ///
    /// # Errors
    /// [`ToolError`] if the action failed. A failure that an observation of the tool can express is an observation.
    fn execute<'a>(
        &'a self,
        action: &'a Action,
        context: &'a Context,
    ) -> Boxed<'a, Result<Observation, ToolError>>;

    /// Ends the tool's shell or connection. Called once, at the end of the conversation.
    fn close(&self) -> Boxed<'_, ()> {
        Box::pin(std::future::ready(()))
    }
}

impl dyn Tool + '_ {
    /// Returns whether the tool's annotations say that it only reads.
    #[must_use]
    pub fn is_read_only(&self) -> bool {
        self.definition().fields.annotations.as_ref().is_some_and(|annotations| annotations.read_only)
    }
}
