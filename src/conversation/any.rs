//! A conversation here or at a server: one type with the methods of both.
//!
//! An enum, and not a trait: there are two of them and there will be no third that a program brings, the methods are
//! async and take what converts (which a `dyn` trait could only do with boxes), and whoever needs what only one of them
//! has (the store of a local one, the trouble with a server) matches on it and is told so by the compiler.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio::sync::watch;

use super::remote::RemoteConversation;
use super::{
    Conversation, ForkOptions, Goal, GoalOutcome, Recorded, Result, RunOptions, Snapshot, UserMessage,
};
use crate::agent::{Analyzer, Policy};
use crate::event::{ActionEvent, Json};
use crate::ids::{ConversationId, EventId, Sequence};
use crate::llm::Model;
use crate::remote::Server;
use crate::secret::{Info, Source};
use crate::state::{ExecutionStatus, Stats};
use crate::view::View;

/// Where a conversation works, and so where it runs.
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

/// A conversation that runs here or at a server; see [`Builder::open_in`](super::Builder::open_in).
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

/// The same method of whichever it is. Its errors are those of [`Conversation`]'s method, and
/// [`ConversationError::Remote`](super::ConversationError::Remote).
macro_rules! either {
    ($($(#[$doc:meta])* $name:ident($($argument:ident: $type:ty),*) -> $answer:ty;)*) => {
        $(
            $(#[$doc])*
            ///
            /// # Errors
            /// As the methods of that name of [`Conversation`] and [`RemoteConversation`].
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
        /// Says something to the agent; answers the event's id. Nothing runs by it.
        send_message(message: impl Into<UserMessage>) -> EventId;
        /// Runs until the agent has finished or cannot go on by itself; answers how it goes then. Calling this is the
        /// consent to actions that wait for it.
        run() -> ExecutionStatus;
        /// The same within other limits.
        run_with(options: RunOptions) -> ExecutionStatus;
        /// Lets a paused conversation go on.
        resume() -> ExecutionStatus;
        /// Stops the run before its next step.
        pause() -> ();
        /// Ends the run at once, in the middle of whatever it does.
        interrupt() -> ();
        /// Refuses every action that waits, for this reason; answers how many.
        reject_pending_actions(reason: &str) -> usize;
        /// The actions that wait to be carried out or refused.
        pending_actions() -> Vec<Arc<ActionEvent>>;
        /// Sets which actions wait for a person.
        set_confirmation_policy(policy: Policy) -> ();
        /// Which actions wait for a person.
        confirmation_policy() -> Policy;
        /// Whether risks are judged and a person may be asked.
        is_confirmation_mode_active() -> bool;
        /// Sets who judges risks; `None` for nobody.
        set_security_analyzer(analyzer: Option<Analyzer>) -> ();
        /// Sets the tags, all of them.
        set_tags(tags: Vec<(String, String)>) -> ();
        /// Sets the title.
        set_title(title: &str) -> ();
        /// The title, where somebody gave it one.
        title() -> Option<String>;
        /// A title made of the first thing a person said; nothing is stored.
        generate_title(model: Option<Arc<dyn Model>>, length: usize) -> String;
        /// Adds secrets, or puts them in the place of those with their names.
        update_secrets(secrets: Vec<(String, Source)>) -> ();
        /// Lets another model take over, from the next step on.
        switch_llm(llm: &Json) -> ();
        /// Asks the agent's model a question about what was done so far, without a trace.
        ask_agent(question: &str) -> String;
        /// Has what the model sees summed up now.
        condense() -> ();
        /// Moves HEAD; `None` stands before everything.
        navigate_to(event: Option<&EventId>) -> ();
        /// Goes after a goal, until it is reached or the rounds are used up.
        run_goal(goal: &Goal) -> GoalOutcome;
        /// Goes on with the goal that was last interrupted.
        resume_goal(judge: Option<Arc<dyn Model>>) -> GoalOutcome;
        /// Gives the goal up, where one is gone after.
        stop_goal() -> ();
        /// The events from a sequence on, at most `limit` of them, with their bytes; none at the end.
        events(from: Sequence, limit: usize) -> Vec<Recorded>;
        /// The reference's base state, as a JSON object; a remote one has what the server's catalogue knows too.
        state() -> Json;
        /// What model calls took so far.
        stats() -> Stats;
        /// What the model may see.
        view() -> Arc<View>;
        /// Ends what is held here of it: a run that is in this process, or the connection to a server's.
        close() -> ();
    }

    /// Its id.
    #[must_use]
    pub fn id(&self) -> &ConversationId {
        match self {
            Self::Local(local) => local.id(),
            Self::Remote(remote) => remote.id(),
        }
    }

    /// What it looks like now. Never waits.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        match self {
            Self::Local(local) => local.snapshot(),
            Self::Remote(remote) => remote.snapshot(),
        }
    }

    /// How it goes now. Never waits.
    #[must_use]
    pub fn status(&self) -> ExecutionStatus {
        self.snapshot().status
    }

    /// Its snapshots, as they change.
    #[must_use]
    pub fn watch(&self) -> watch::Receiver<Snapshot> {
        match self {
            Self::Local(local) => local.watch(),
            Self::Remote(remote) => remote.watch(),
        }
    }

    /// Whether a run is under way, in this process or at the server.
    #[must_use]
    pub fn is_running(&self) -> bool {
        match self {
            Self::Local(local) => local.is_running(),
            Self::Remote(remote) => remote.is_running(),
        }
    }

    /// Whether somebody else runs it: another process, or the server.
    #[must_use]
    pub fn runs_elsewhere(&self) -> bool {
        match self {
            Self::Local(local) => local.runs_elsewhere(),
            Self::Remote(remote) => remote.is_running(),
        }
    }

    /// Waits until no run is under way.
    pub async fn wait(&self) {
        match self {
            Self::Local(local) => local.wait().await,
            Self::Remote(remote) => remote.wait().await,
        }
    }

    /// The names of its secrets and what they are for.
    ///
    /// # Errors
    /// [`ConversationError::Remote`](super::ConversationError::Remote).
    pub async fn secrets(&self) -> Result<Vec<Info>> {
        match self {
            Self::Local(local) => Ok(local.secrets()),
            Self::Remote(remote) => remote.secrets().await,
        }
    }

    /// A copy of this conversation where it is.
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
