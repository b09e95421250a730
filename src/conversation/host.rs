//! The resources that conversations of one process share: the store, and the few threads that wait for its disk.

use std::sync::{Arc, OnceLock};

use tokio::sync::Semaphore;

use crate::conversation::claim::{self, Claim, Runner};
use crate::conversation::error::{ConversationError, Result};
use crate::ids::ConversationId;
use crate::llm::{Client, ClientOptions, LlmError, Settings, Transport};
use crate::store::Store;

/// The maximum number of calls of the store at once. Waiting calls share a commit, so more of them would cost threads
/// and gain little.
const CALLS_MAX: usize = 16;

/// The store, for conversations that run. Its calls wait for the disk, so they run on threads of their own.
///
/// Clones share these threads. Conversations of one file should be opened with clones of one host.
#[derive(Debug, Clone)]
pub struct Host {
    store: Store,
    gate: Arc<Semaphore>,
    /// The connections to providers. They are made with the first client.
    transport: Arc<OnceLock<Transport>>,
}

impl Host {
    /// Returns a host of this store.
    #[must_use]
    pub fn new(store: Store) -> Self {
        Self { store, gate: Arc::new(Semaphore::new(CALLS_MAX)), transport: Arc::default() }
    }

    /// Returns a client of the provider in these settings.
    pub(super) fn client(&self, settings: &Settings) -> Result<Client, LlmError> {
        Client::new(settings.clone(), &ClientOptions::new(self.transport()?))
    }

    /// Returns the connections to providers, which all clients of this host share.
    pub(crate) fn transport(&self) -> Result<Transport, LlmError> {
        if let Some(transport) = self.transport.get() {
            return Ok(transport.clone());
        }
        let made = Transport::new()?;
        Ok(self.transport.get_or_init(|| made).clone())
    }

    /// Returns the store.
    #[must_use]
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// Returns whether the conversation runs, in this process or in another process that has the file open.
    #[must_use]
    pub fn is_run(&self, conversation: &ConversationId) -> bool {
        claim::is_taken(&self.store, conversation)
    }

    /// Returns the process that runs the conversation, which may be this one or another one that has the file open.
    /// `None` if it is not run, or if the process is not known: [`Host::is_run`] tells them apart.
    #[must_use]
    pub fn runner(&self, conversation: &ConversationId) -> Option<Runner> {
        claim::runner(&self.store, conversation)
    }

    /// Keeps every process from running the conversation while the returned claim lives. `None` if it is being run.
    pub(crate) async fn claim(&self, conversation: &ConversationId) -> Result<Option<Claim>> {
        Claim::take(&self.store, conversation).await
    }

    /// Runs `work` on a thread that may block. The work is completed even if the caller drops the future.
    pub(super) async fn call<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Store) -> crate::Result<T> + Send + 'static,
    ) -> Result<T> {
        let abandoned = || ConversationError::Abandoned { what: "a call of the store" };
        let permit = Arc::clone(&self.gate).acquire_owned().await.map_err(|_closed| abandoned())?;
        let store = self.store.clone();
        let done = tokio::task::spawn_blocking(move || {
            let _permit = permit;
            work(&store)
        });
        Ok(done.await.map_err(|_panicked| abandoned())??)
    }
}
