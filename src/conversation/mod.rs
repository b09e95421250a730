//! The conversation loop. Only this module connects the store, the agent, its model and its tools.
//!
//! A [`Conversation`] is a handle on one conversation that can run. It is cheap to clone and can be used from any task.
//! Changes take a lock, in the order of the calls. [`Conversation::snapshot`] never waits. Every event is stored,
//! together with the new HEAD and base state, before a callback receives it.
//!
//! Source: `docs/reference/runtime.md`, except for the corrections that `docs/conformance.md` lists.

mod acp;
mod any;
mod ask;
mod base;
mod branch;
mod builder;
mod claim;
mod close;
mod commit;
mod condense;
mod control;
mod equip;
mod error;
mod execute;
mod folder;
mod fork;
mod goal;
mod guide;
mod hooks;
mod host;
mod live;
mod load;
mod navigate;
mod objection;
mod plug;
mod plugins;
mod read;
mod ready;
mod rebase;
mod recover;
mod remote;
mod run;
mod say;
mod secrets;
mod servers;
mod settings;
mod skills;
mod step;
mod switch;
mod tags;
mod task;
mod tool;

use std::fmt;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, RwLock, Weak};

pub use any::{AnyConversation, Workspace};
pub use builder::{Builder, ModelMaker};
pub(crate) use claim::Claim;
pub use claim::Runner;
pub use equip::has_tool;
pub use error::{ConversationError, Result};
pub use fork::{ForkMetrics, ForkOptions};
pub use goal::{Goal, GoalOutcome, GoalStatus};
pub use guide::{Called, Guide};
pub use host::Host;
pub use live::{OnPause, StateUpdates};
pub use read::Recorded;
pub use remote::RemoteConversation;
pub use run::RunOptions;
pub use say::UserMessage;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::event::Event;
use crate::ids::{ConversationId, EventId};
use crate::llm::Delta;
use crate::state::ExecutionStatus;
use equip::Equipment;
use live::Live;

/// A callback that receives every event in order, after its commit. The conversation is locked during the call. So the
/// callback must be quick, and must not wait for the conversation.
pub type Callback = Arc<dyn Fn(&Event) + Send + Sync>;

/// A callback that receives the pieces of a reply as they arrive, with the id of the event that will hold the whole
/// reply.
pub type DeltaCallback = Arc<dyn Fn(&EventId, &Delta) + Send + Sync>;

/// A conversation that can run.
#[derive(Debug, Clone)]
pub struct Conversation(Arc<Local>);

/// The visible state of a conversation at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Snapshot {
    /// The execution status.
    pub status: ExecutionStatus,
    /// The number of events.
    pub event_count: u64,
    /// The event at HEAD. `None` if HEAD is before the first event.
    pub head: Option<EventId>,
    /// The id of the last user message.
    pub last_user_message: Option<EventId>,
}

/// A conversation that runs in this process.
struct Local {
    id: ConversationId,
    host: Host,
    live: tokio::sync::Mutex<Live>,
    shown: watch::Sender<Snapshot>,
    working_dir: PathBuf,
    keep_dir: Option<PathBuf>,
    secrets: crate::secret::Registry,
    /// A weak reference to this value, for its tools.
    me: Weak<Local>,
    tasks: task::Tasks,
    parts: builder::Parts,
    /// The contents of its plugins. `None` until they are loaded.
    plugins: RwLock<Option<Arc<plugins::Loaded>>>,
    /// The model, the tools and the hooks. `None` until they are made.
    equipment: RwLock<Option<Arc<Equipment>>>,
    /// The run in progress.
    running: Mutex<Option<Running>>,
    /// Records whether Stop hooks are being asked about the end of a run.
    objections: objection::Objections,
    /// The tasks that still have to store the cost of a model call.
    accounts: Mutex<Vec<tokio::task::JoinHandle<()>>>,
    is_closed: AtomicBool,
}

/// A run in progress. `cancel` ends it; `ended` is cancelled when it has ended.
#[derive(Debug, Clone)]
struct Running {
    cancel: CancellationToken,
    ended: CancellationToken,
}

impl fmt::Debug for Local {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Local").field("id", &self.id).field("shown", &*self.shown.borrow()).finish()
    }
}

impl Conversation {
    /// Returns a [`Builder`], which opens a conversation.
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// Resumes a stored conversation with default settings. Use [`Builder::load`] to choose settings.
    ///
    /// # Errors
    /// As [`Builder::load`].
    pub async fn load(host: &Host, id: ConversationId) -> Result<Self> {
        Self::builder().host(host).id(id).load().await
    }

    /// Returns the conversation's id.
    #[must_use]
    pub fn id(&self) -> &ConversationId {
        &self.0.id
    }

    /// Returns the host, whose store contains the conversation.
    #[must_use]
    pub fn host(&self) -> &Host {
        &self.0.host
    }

    /// Returns the current snapshot. Never waits.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        self.0.shown.borrow().clone()
    }

    /// Returns the current status. Never waits.
    #[must_use]
    pub fn status(&self) -> ExecutionStatus {
        self.0.shown.borrow().status
    }

    /// Returns a receiver of the latest snapshot. It is notified of every change.
    #[must_use]
    pub fn watch(&self) -> watch::Receiver<Snapshot> {
        self.0.shown.subscribe()
    }
}
