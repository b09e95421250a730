//! What the conversations of one process share: the store, and the few threads that wait for its disk.

use std::sync::{Arc, OnceLock};

use tokio::sync::Semaphore;

use super::claim::{Claim, Runner};
use super::{ConversationError, Result};
use crate::ids::ConversationId;
use crate::llm::{Client, ClientOptions, LlmError, Settings, Transport};
use crate::store::Store;

/// How many calls of the store may wait for the disk at once. Those that do share a commit, so more of them cost
/// threads and gain little.
const CALLS_MAX: usize = 16;

/// The store, for conversations that run: its calls wait for the disk, and must not keep others waiting.
///
/// Clones share the threads. Conversations of one file should be opened with clones of one host.
#[derive(Debug, Clone)]
pub struct Host {
    store: Store,
    gate: Arc<Semaphore>,
    /// The connections to providers, once somebody is asked.
    transport: Arc<OnceLock<Transport>>,
}

impl Host {
    /// A host of this store.
    #[must_use]
    pub fn new(store: Store) -> Self {
        Self { store, gate: Arc::new(Semaphore::new(CALLS_MAX)), transport: Arc::default() }
    }

    /// A client of the provider that these settings name.
    pub(super) fn client(&self, settings: &Settings) -> Result<Client, LlmError> {
        let transport = match self.transport.get() {
            Some(transport) => transport.clone(),
            None => {
                let made = Transport::new()?;
                self.transport.get_or_init(|| made).clone()
            }
        };
        Client::new(settings.clone(), &ClientOptions::new(transport))
    }

    /// The store itself.
    #[must_use]
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// Whether a run of the conversation is under way, in this process or any other that has the file open.
    #[must_use]
    pub fn is_run(&self, conversation: &ConversationId) -> bool {
        super::claim::is_taken(&self.store, conversation)
    }

    /// Who runs the conversation, in this process or any other that has the file open; the inner `None` where that is not
    /// known.
    #[must_use]
    pub fn runner(&self, conversation: &ConversationId) -> Option<Option<Runner>> {
        super::claim::runner(&self.store, conversation)
    }

    /// Keeps every process from running the conversation for as long as what it answers lives; `None` where it is run.
    pub(crate) async fn claim(&self, conversation: &ConversationId) -> Result<Option<Claim>> {
        Claim::take(&self.store, conversation).await
    }

    /// Runs `work` on a thread that may wait. It runs to its end also where nobody waits for the answer any more.
    pub(super) async fn call<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Store) -> crate::Result<T> + Send + 'static,
    ) -> Result<T> {
        let gone = || ConversationError::Abandoned { what: "a call of the store" };
        let permit = Arc::clone(&self.gate).acquire_owned().await.map_err(|_closed| gone())?;
        let store = self.store.clone();
        let done = tokio::task::spawn_blocking(move || {
            let _permit = permit;
            work(&store)
        });
        Ok(done.await.map_err(|_panicked| gone())??)
    }
}
