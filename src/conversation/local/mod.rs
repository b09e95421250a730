//! One conversation of this process: its handle, what it holds, its lock and its commits.
//!
//! Every room above works on a [`Local`], through methods of its own. The methods of this room suffice to change the
//! memory, to write it, to read the log, and to ask the hooks. The room names `memory` and what lies below it. It does
//! not know how equipment is made or how a run goes.

mod commit;
mod equipment;
mod guide;
mod hooks;
mod objection;
mod parts;
mod plugins;
mod read;
mod tasks;

use std::fmt;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError, RwLock, Weak};

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

pub(super) use commit::REBASES_MAX;
pub(super) use equipment::{Acp, Equipment, Program};
pub use guide::{Called, Guide};
pub(super) use objection::Objections;
pub(super) use parts::Parts;
pub use parts::{Callback, DeltaCallback, ModelMaker, WaitCallback};
pub(super) use plugins::Loaded;
pub use read::Recorded;
pub(super) use tasks::{Tasks, Terms};

use crate::conversation::host::Host;
use crate::conversation::memory::{Live, Snapshot};
use crate::ids::ConversationId;
use crate::secret::Registry;
use crate::state::ExecutionStatus;

/// A conversation that can run.
#[derive(Debug, Clone)]
pub struct Conversation(pub(in crate::conversation) Arc<Local>);

/// A conversation that runs in this process.
pub(in crate::conversation) struct Local {
    pub id: ConversationId,
    pub host: Host,
    pub live: tokio::sync::Mutex<Live>,
    pub shown: watch::Sender<Snapshot>,
    pub working_dir: PathBuf,
    pub keep_dir: Option<PathBuf>,
    pub secrets: Registry,
    /// A weak reference to this value, for its tools.
    pub me: Weak<Local>,
    pub tasks: Tasks,
    pub parts: Parts,
    /// The contents of its plugins. `None` until they are loaded.
    pub plugins: RwLock<Option<Arc<Loaded>>>,
    /// The model, the tools and the hooks. `None` until they are made.
    pub equipment: RwLock<Option<Arc<Equipment>>>,
    /// The run in progress.
    pub running: Mutex<Option<Running>>,
    /// Records whether Stop hooks are being asked about the end of a run.
    pub objections: Objections,
    /// The tasks that still have to store the cost of a model call.
    pub accounts: Mutex<Vec<tokio::task::JoinHandle<()>>>,
    pub is_closed: AtomicBool,
}

/// A run in progress. `cancel` ends it; `ended` is cancelled when it has ended.
#[derive(Debug, Clone)]
pub(in crate::conversation) struct Running {
    pub cancel: CancellationToken,
    pub ended: CancellationToken,
}

impl fmt::Debug for Local {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Local").field("id", &self.id).field("shown", &*self.shown.borrow()).finish()
    }
}

impl Conversation {
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

impl Local {
    /// Returns the run in progress in this process.
    pub(in crate::conversation) fn running(&self) -> Option<Running> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
