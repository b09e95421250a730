//! What an agent can do: the contract of a tool, how tools are made and run, then one tool a file.
//!
//! A tool checks the arguments that a model gave ([`Tool::action`]) and carries the action out
//! ([`Tool::execute`]). It knows neither the log nor who asked. Its invariant: whatever a command prints or a
//! server answers, the observation is bounded, is valid text and, once it came through [`run`], holds no secret.

mod arguments;
mod client;
mod file;
mod file_editor;
mod finish;
mod glob;
mod grep;
mod invoke_skill;
pub mod locks;
mod manual;
pub mod mcp;
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
pub use locks::Locks;
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

use crate::event::json::Raw;
use crate::event::{Action, Observation, ToolDefinition};
use crate::llm::{Boxed, ToolSchema};
use crate::secret::Mask;

/// Why a tool did not do it. The text is what the model reads of it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ToolError {
    /// The arguments are not what the tool takes: `Error validating tool ..` is put before it.
    #[error("{0}")]
    Arguments(String),
    /// It went wrong in a way that the tool foresaw: `Error executing tool ..` is put before it.
    #[error("{0}")]
    Failed(String),
    /// It went wrong in a way that it did not foresee.
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
    /// The action is another tool's.
    fn foreign(tool: &dyn Tool, action: &Action) -> Self {
        Self::Internal(format!("{} is no action of the tool '{}'", action.kind(), tool.name()))
    }
}

/// What an action needs for itself while it runs (`runtime.md` section 12.3).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Resources {
    /// The tool did not say: one call of it at a time.
    Undeclared,
    /// These, by key: `file:<absolute path>`, `terminal:session`. None: any number at once.
    Keys(Vec<String>),
}

/// Values that commands may need and nobody may read.
pub trait Secrets: Send + Sync {
    /// The values of the secrets whose names the command mentions, as `(name, value)`. A source that has to be
    /// asked first is asked now.
    fn for_command<'a>(&'a self, command: &'a str) -> Boxed<'a, Vec<(String, String)>>;

    /// The text with every known value replaced by `<secret-hidden>`.
    fn mask<'t>(&self, text: &'t str) -> Cow<'t, str>;

    /// The length of the longest known value in bytes; 0 where there is none. Text that comes in pieces is
    /// masked with an overlap of this.
    fn bytes_max(&self) -> usize;

    /// All known values as a mask that can work piece by piece. Without one, long outputs are not kept in files.
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

/// Where a call happens.
#[derive(Clone)]
pub struct Context {
    /// The workspace's folder, absolute.
    pub working_dir: PathBuf,
    /// The conversation's own folder for what tools keep (`TASKS.json`, `observations/`), where it has one.
    pub keep_dir: Option<PathBuf>,
    /// The secrets of the conversation.
    pub secrets: Arc<dyn Secrets>,
    /// Ends the call: the tool stops what it began and answers [`ToolError::Cancelled`].
    pub cancel: CancellationToken,
}

/// Something an agent can do. One value serves one conversation, whose shell or connection it may hold.
pub trait Tool: Send + Sync {
    /// The name that the model calls it by.
    fn name(&self) -> &str;

    /// It as the system prompt event writes it down.
    fn definition(&self) -> &ToolDefinition;

    /// It as the model sees it, before `security_risk` and `summary` are added.
    fn schema(&self) -> ToolSchema;

    /// The action that these arguments mean: a JSON object without nulls, `security_risk` and `summary`.
    ///
    /// # Errors
    /// [`ToolError::Arguments`], in the words that the reference has for it.
    fn action(&self, arguments: Raw<'_>) -> Result<Action, ToolError>;

    /// What the action needs for itself.
    fn resources(&self, action: &Action) -> Resources;

    /// Carries the action out. Anything that blocks runs on a thread of its own. Called through [`run`].
    ///
    /// # Errors
    /// [`ToolError`]; a failure that the tool's observation can tell is an observation.
    fn execute<'a>(
        &'a self,
        action: &'a Action,
        context: &'a Context,
    ) -> Boxed<'a, Result<Observation, ToolError>>;

    /// Ends what it holds: the shell, the connection. Called once, at the end of the conversation.
    fn close(&self) -> Boxed<'_, ()> {
        Box::pin(std::future::ready(()))
    }
}

impl dyn Tool + '_ {
    /// Whether it says of itself that it changes nothing.
    #[must_use]
    pub fn is_read_only(&self) -> bool {
        self.definition().fields.annotations.as_ref().is_some_and(|annotations| annotations.read_only)
    }
}
