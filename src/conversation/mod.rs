//! The loop: where the store, the agent, its model and its tools meet, and nowhere else.
//!
//! A [`Conversation`] is a handle on one conversation that can run: cheap to clone, usable from any task. Whatever
//! changes it waits in line, first come first served; reading never waits. Everything that happens is an
//! event in the store before anybody hears of it, together with HEAD and the base state it leads to.
//!
//! Source: `runtime.md`, but for what `docs/conformance.md` lists as mended.

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

/// Hears every event once it is committed, in order. Called while the conversation waits: it must be quick, and must
/// not wait for the conversation.
pub type Callback = Arc<dyn Fn(&Event) + Send + Sync>;

/// Hears the pieces of a reply on their way, with the id of the event that will hold the whole.
pub type DeltaCallback = Arc<dyn Fn(&EventId, &Delta) + Send + Sync>;

/// A conversation that can run.
#[derive(Debug, Clone)]
pub struct Conversation(Arc<Local>);

/// What a conversation looks like from outside at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Snapshot {
    /// How it goes.
    pub status: ExecutionStatus,
    /// How many events there are.
    pub event_count: u64,
    /// Where HEAD is; `None` before everything.
    pub head: Option<EventId>,
    /// A person's last message.
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
    /// Itself, for tools that work for it.
    me: Weak<Local>,
    tasks: task::Tasks,
    parts: builder::Parts,
    /// What its plugins bring, once they were loaded.
    plugins: RwLock<Option<Arc<plugins::Loaded>>>,
    /// What it runs with, once it was made.
    equipment: RwLock<Option<Arc<Equipment>>>,
    /// The run that is under way.
    running: Mutex<Option<Running>>,
    /// Whether its end is still to be agreed to.
    objections: objection::Objections,
    /// Costs that are about to be written down.
    accounts: Mutex<Vec<tokio::task::JoinHandle<()>>>,
    is_closed: AtomicBool,
}

/// A run that is under way: what ends it, and what tells that it has ended.
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
    /// Opens a conversation: [`Builder`] says how.
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// Goes on with a conversation as it was left; [`Builder::load`] with more of one's own.
    ///
    /// # Errors
    /// As [`Builder::load`].
    pub async fn load(host: &Host, id: ConversationId) -> Result<Self> {
        Self::builder().host(host).id(id).load().await
    }

    /// Its id.
    #[must_use]
    pub fn id(&self) -> &ConversationId {
        &self.0.id
    }

    /// Where it is kept.
    #[must_use]
    pub fn host(&self) -> &Host {
        &self.0.host
    }

    /// What it looks like now. Never waits.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        self.0.shown.borrow().clone()
    }

    /// How it goes now. Never waits.
    #[must_use]
    pub fn status(&self) -> ExecutionStatus {
        self.0.shown.borrow().status
    }

    /// Its snapshots, as they change.
    #[must_use]
    pub fn watch(&self) -> watch::Receiver<Snapshot> {
        self.0.shown.subscribe()
    }
}
