//! What all requests share.

use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use tokio_util::sync::CancellationToken;

use super::annals::Gates;
use super::bash::History;
use super::config::Config;
use super::failure::Failure;
use super::hub::Hub;
use super::metrics::Metrics;
use super::sessions::Sessions;
use crate::conversation::ConversationError;
use crate::error::Result;
use crate::store::Store;

/// What all requests share.
pub struct App {
    store: Store,
    config: Config,
    started: Instant,
    last_activity: Mutex<Instant>,
    /// What commands were run outside of conversations.
    pub(super) bash: History,
    hub: Hub,
    sessions: Sessions,
    annals: Gates,
    metrics: Metrics,
    ending: CancellationToken,
}

impl App {
    /// A server over this store. Nothing is read but the log's length.
    ///
    /// # Errors
    /// What reading can meet.
    pub fn new(store: Store, config: Config) -> std::result::Result<Self, ConversationError> {
        let now = Instant::now();
        Ok(Self {
            hub: Hub::start(&store)?,
            sessions: Sessions::new(store.clone(), config.cipher.clone(), config.runs_max)?,
            store,
            config,
            started: now,
            last_activity: Mutex::new(now),
            bash: History::default(),
            annals: Gates::default(),
            metrics: Metrics::default(),
            ending: CancellationToken::new(),
        })
    }

    /// Lets go of everything that is open; what runs is paused.
    pub async fn close(&self) {
        self.sessions.close_all().await;
    }

    /// Who hears what.
    pub(super) fn hub(&self) -> &Hub {
        &self.hub
    }

    /// What is open here.
    pub(super) fn sessions(&self) -> &Sessions {
        &self.sessions
    }

    /// Who may ask for what takes long.
    pub(super) fn annals(&self) -> &Gates {
        &self.annals
    }

    /// What is counted.
    pub(super) fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    /// Cancelled when the server is told to end: answers without an end of their own end then.
    pub(super) fn ending(&self) -> &CancellationToken {
        &self.ending
    }

    /// The store.
    #[must_use]
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// How it is set up.
    #[must_use]
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// When it was started.
    pub(super) fn started(&self) -> Instant {
        self.started
    }

    /// When something last happened that counts as use.
    pub(super) fn last_activity(&self) -> Instant {
        *self.last_activity.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Something happened that counts as use.
    pub(super) fn touch(&self) {
        *self.last_activity.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
    }

    /// Asks the store on a thread that may block.
    pub(super) async fn ask<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Store) -> Result<T> + Send + 'static,
    ) -> std::result::Result<T, Failure> {
        let store = self.store.clone();
        let answer = tokio::task::spawn_blocking(move || work(&store)).await;
        Ok(answer.map_err(|_| Failure::internal("a worker ended unexpectedly"))??)
    }
}
