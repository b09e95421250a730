//! A conversation in this process or at a server: one type with the methods of both.
//!
//! It is an enum and not a trait for three reasons. There are exactly two kinds, and a program cannot add a third. The
//! methods are async and take convertible arguments, which a `dyn` trait could support only with boxes. And code that
//! needs a feature of one kind, such as the store of a local conversation, can match on the enum.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio::sync::watch;

use crate::agent::{Analyzer, Policy};
use crate::conversation::control::{Goal, GoalOutcome, UserMessage};
use crate::conversation::error::Result;
use crate::conversation::local::{Conversation, Recorded};
use crate::conversation::memory::Snapshot;
use crate::conversation::open::{Builder, ForkOptions};
use crate::conversation::remote::RemoteConversation;
use crate::conversation::run::RunOptions;
use crate::event::{ActionEvent, Json};
use crate::ids::{ConversationId, EventId, Sequence};
use crate::llm::Model;
use crate::remote::Server;
use crate::secret::{Info, Source};
use crate::state::{ExecutionStatus, Stats};
use crate::view::View;

/// The folder that a conversation works in. It decides where the conversation runs.
#[derive(Debug, Clone)]
pub enum Workspace {
    /// A folder of this machine: the conversation runs in this process.
    Folder(PathBuf),
    /// A folder of a server's machine: the conversation runs there.
    Server(Server),
}

impl From<PathBuf> for Workspace {
    fn from(folder: PathBuf) -> Self {
        Self::Folder(folder)
    }
}

impl From<&Path> for Workspace {
    fn from(folder: &Path) -> Self {
        Self::Folder(folder.to_owned())
    }
}

impl From<&str> for Workspace {
    fn from(folder: &str) -> Self {
        Self::Folder(PathBuf::from(folder))
    }
}

impl From<Server> for Workspace {
    fn from(server: Server) -> Self {
        Self::Server(server)
    }
}

impl Builder {
    /// Opens the conversation at its workspace: in this process for a folder, at the server for a server.
    ///
    /// A program that works with one kind also works with the other. Only this call changes:
    ///
    /// ```no_run
    /// # async fn example(agent: annals::agent::AgentDocument) -> Result<(), Box<dyn std::error::Error>> {
    /// use annals::conversation::Conversation;
    /// use annals::remote::Server;
    ///
    /// let here = Conversation::builder().agent(agent.clone()).open_in("workspace/project").await?;
    /// let there = Server::new("https://agents.example.org")?.key("hush").working_dir("/srv/project");
    /// let there = Conversation::builder().agent(agent).open_in(there).await?;
    /// for conversation in [here, there] {
    ///     conversation.send_message("Make the tests pass").await?;
    ///     println!("{}", conversation.run().await?);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`Builder::open`] and [`Builder::open_at`].
    pub async fn open_in(self, workspace: impl Into<Workspace>) -> Result<AnyConversation> {
        match workspace.into() {
            Workspace::Folder(folder) => self.workspace(folder).open().await.map(AnyConversation::Local),
            Workspace::Server(server) => self.open_at(&server).await.map(AnyConversation::Remote),
        }
    }
}

/// A conversation that runs in this process or at a server; see [`Builder::open_in`].
#[derive(Debug, Clone)]
pub enum AnyConversation {
    /// It runs in this process.
    Local(Conversation),
    /// It runs at a server.
    Remote(RemoteConversation),
}

impl From<Conversation> for AnyConversation {
    fn from(conversation: Conversation) -> Self {
        Self::Local(conversation)
    }
}

impl From<RemoteConversation> for AnyConversation {
    fn from(conversation: RemoteConversation) -> Self {
        Self::Remote(conversation)
    }
}

/// Defines methods that call the method of the same name of the local or the remote conversation.
macro_rules! either {
    ($($(#[$doc:meta])* $name:ident($($argument:ident: $type:ty),*) -> $answer:ty;)*) => {
        $(
            $(#[$doc])*
            ///
            /// # Errors
            /// As the methods of the same name of [`Conversation`] and [`RemoteConversation`].
            pub async fn $name(&self, $($argument: $type),*) -> Result<$answer> {
                match self {
                    Self::Local(local) => local.$name($($argument),*).await,
                    Self::Remote(remote) => remote.$name($($argument),*).await,
                }
            }
        )*
    };
}

impl AnyConversation {
    either! {
        /// Sends a message to the agent. Returns the id of its event. Does not start a run.
        send_message(message: impl Into<UserMessage>) -> EventId;
        /// Runs until the agent has finished or cannot continue by itself. Returns the status then. Calling this gives
        /// consent to all actions that wait for it.
        run() -> ExecutionStatus;
        /// Runs within other limits.
        run_with(options: RunOptions) -> ExecutionStatus;
        /// Resumes a paused conversation.
        resume() -> ExecutionStatus;
        /// Stops the run before its next step.
        pause() -> ();
        /// Ends the run at once, even in the middle of a step.
        interrupt() -> ();
        /// Rejects all waiting actions for this reason. Returns their number.
        reject_pending_actions(reason: &str) -> usize;
        /// Returns the actions that wait to be carried out or rejected.
        pending_actions() -> Vec<Arc<ActionEvent>>;
        /// Sets which actions wait for the user's consent.
        set_confirmation_policy(policy: Policy) -> ();
        /// Returns which actions wait for the user's consent.
        confirmation_policy() -> Policy;
        /// Returns whether risks are judged and the user may be asked.
        is_confirmation_mode_active() -> bool;
        /// Sets the analyzer that judges risks. `None`: no analyzer.
        set_security_analyzer(analyzer: Option<Analyzer>) -> ();
        /// Replaces all tags.
        set_tags(tags: Vec<(String, String)>) -> ();
        /// Sets the title.
        set_title(title: &str) -> ();
        /// Returns the title. `None` if no title was set.
        title() -> Option<String>;
        /// Makes a title from the first user message. Does not store it.
        generate_title(model: Option<Arc<dyn Model>>, length: usize) -> String;
        /// Adds secrets. Replaces secrets of the same names.
        update_secrets(secrets: Vec<(String, Source)>) -> ();
        /// Switches to another model from the next step on.
        switch_llm(llm: &Json) -> ();
        /// Asks the agent's model a question about the conversation so far. Adds no event.
        ask_agent(question: &str) -> String;
        /// Summarizes now what the model sees.
        condense() -> ();
        /// Moves HEAD to an event. `None`: before the first event.
        navigate_to(event: Option<&EventId>) -> ();
        /// Pursues a goal until it is reached or the rounds are used up.
        run_goal(goal: &Goal) -> GoalOutcome;
        /// Resumes the goal that was last interrupted.
        resume_goal(judge: Option<Arc<dyn Model>>) -> GoalOutcome;
        /// Gives up the goal, if one is being pursued.
        stop_goal() -> ();
        /// Returns at most `limit` events with their bytes, from a sequence on. Empty at the end of the log.
        events(from: Sequence, limit: usize) -> Vec<Recorded>;
        /// Returns the reference's base state as a JSON object. A remote state also has the server's catalogue fields.
        state() -> Json;
        /// Returns the usage and cost of model calls so far.
        stats() -> Stats;
        /// Returns the view, which is what the model may see.
        view() -> Arc<View>;
        /// Closes the conversation in this process: ends a local run, or the connection to the server.
        close() -> ();
    }

    /// Returns the conversation's id.
    #[must_use]
    pub fn id(&self) -> &ConversationId {
        match self {
            Self::Local(local) => local.id(),
            Self::Remote(remote) => remote.id(),
        }
    }

    /// Returns the current snapshot. Never waits.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        match self {
            Self::Local(local) => local.snapshot(),
            Self::Remote(remote) => remote.snapshot(),
        }
    }

    /// Returns the current status. Never waits.
    #[must_use]
    pub fn status(&self) -> ExecutionStatus {
        self.snapshot().status
    }

    /// Returns a receiver of the latest snapshot. It is notified of every change.
    #[must_use]
    pub fn watch(&self) -> watch::Receiver<Snapshot> {
        match self {
            Self::Local(local) => local.watch(),
            Self::Remote(remote) => remote.watch(),
        }
    }

    /// Returns whether a run is in progress, in this process or at the server.
    #[must_use]
    pub fn is_running(&self) -> bool {
        match self {
            Self::Local(local) => local.is_running(),
            Self::Remote(remote) => remote.is_running(),
        }
    }

    /// Returns whether another process or the server runs the conversation.
    #[must_use]
    pub fn runs_elsewhere(&self) -> bool {
        match self {
            Self::Local(local) => local.runs_elsewhere(),
            Self::Remote(remote) => remote.is_running(),
        }
    }

    /// Waits until no run is in progress.
    pub async fn wait(&self) {
        match self {
            Self::Local(local) => local.wait().await,
            Self::Remote(remote) => remote.wait().await,
        }
    }

    /// Returns the names of the secrets and their descriptions.
    ///
    /// # Errors
    /// [`ConversationError::Remote`](crate::conversation::ConversationError::Remote) if the server fails.
    pub async fn secrets(&self) -> Result<Vec<Info>> {
        match self {
            Self::Local(local) => Ok(local.secrets()),
            Self::Remote(remote) => remote.secrets().await,
        }
    }

    /// Copies the conversation, in the same store or at the same server.
    ///
    /// # Errors
    /// As [`Conversation::fork`] and [`RemoteConversation::fork`].
    pub async fn fork(&self, options: ForkOptions) -> Result<Self> {
        Ok(match self {
            Self::Local(local) => Self::Local(local.fork(options).await?),
            Self::Remote(remote) => Self::Remote(remote.fork(options).await?),
        })
    }
}
