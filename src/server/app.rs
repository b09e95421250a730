//! What all requests share.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;

use super::annals::Gates;
use super::bash::Histories;
use super::budget::Budgets;
use super::config::Config;
use super::failure::Failure;
use super::hub::Hub;
use super::info::{Runtime, Skills, Stored};
use super::metrics::Metrics;
use super::opening::Opening;
use super::sessions::Sessions;
#[cfg(feature = "otel")]
use super::telemetry::Telemetry;
use super::webhook::Webhooks;
use crate::conversation::ConversationError;
use crate::error::{Error, Result};
use crate::ids::ConversationId;
use crate::state::ExecutionStatus;
use crate::store::{Append, Appended, Store};

/// The most sockets at once.
const SOCKETS_MAX: usize = 20_000;

/// How often it is looked after what is open.
const ROUND: Duration = Duration::from_secs(5);

/// What all requests share.
pub struct App {
    store: Store,
    config: Config,
    started: Instant,
    last_activity: Mutex<Instant>,
    /// What commands were run outside of conversations.
    pub(super) bash: Histories,
    hub: Hub,
    sessions: Sessions,
    annals: Gates,
    budgets: Budgets,
    metrics: Metrics,
    webhooks: Webhooks,
    /// Ended when the server is to end.
    ending: CancellationToken,
    /// One for each socket that may be open.
    sockets: Arc<Semaphore>,
}

impl App {
    /// A server over this store. Nothing is read but the log's length. Within a runtime of tokio.
    ///
    /// # Errors
    /// What reading can meet.
    pub fn new(store: Store, config: Config) -> std::result::Result<Self, ConversationError> {
        let now = Instant::now();
        let hub = Hub::start(&store)?;
        let opening = Opening::new(store.clone(), &config)?;
        let key = config.session_keys.first().map(String::as_str);
        Ok(Self {
            webhooks: Webhooks::start(&config.webhooks, key, opening.transport(), &hub),
            sessions: Sessions::new(opening, config.runs_max),
            ending: CancellationToken::new(),
            sockets: Arc::new(Semaphore::new(SOCKETS_MAX)),
            hub,
            store,
            config,
            started: now,
            last_activity: Mutex::new(now),
            annals: Gates::default(),
            budgets: Budgets::default(),
            metrics: Metrics::default(),
            bash: Histories::default(),
        })
    }

    /// Repairs what was running in a process that is no more.
    pub async fn repair(&self) {
        self.sessions.repair(self).await;
    }

    /// Looks after what is open until the server ends: lets go of what nobody uses, and repairs what another process
    /// left behind.
    pub async fn look_after(&self) {
        let mut rounds = tokio::time::interval(ROUND);
        rounds.tick().await;
        loop {
            tokio::select! {
                () = self.ending.cancelled() => return,
                _ = rounds.tick() => {}
            }
            self.sessions.repair(self).await;
            if let Some(idle) = self.config.idle_max {
                self.sessions.release(self, idle).await;
            }
        }
    }

    /// Lets everybody know that the server ends: sockets are closed.
    pub fn end(&self) {
        self.ending.cancel();
    }

    /// A place for one more socket; none where as many are open as may.
    pub(super) fn socket_seat(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.sockets).try_acquire_owned().ok()
    }

    /// What tells the collector of the configuration what happens from now on.
    ///
    /// # Errors
    /// Why it cannot be told.
    #[cfg(feature = "otel")]
    pub(super) fn telemetry(&self) -> std::result::Result<Option<Telemetry>, String> {
        let transport = self.sessions.opening.transport();
        let endpoint = self.config.telemetry.as_deref();
        endpoint.map(|endpoint| Telemetry::new(&self.store, endpoint, transport)).transpose()
    }

    /// Ended when the server is to end.
    pub(super) fn ending(&self) -> &CancellationToken {
        &self.ending
    }

    /// Has what runs come to rest: the server is about to end.
    pub(super) async fn rest(&self) {
        tokio::join!(self.bash.stop_all(), self.sessions.rest_all());
    }

    /// Lets go of everything that is open; what runs is paused, and whoever is told of events is told all of them.
    pub async fn close(&self) {
        self.end();
        self.bash.stop_all().await;
        self.sessions.close_all().await;
        self.webhooks.finish().await;
    }

    /// Tells the webhooks how a conversation is.
    pub(super) async fn announce(&self, id: &ConversationId) {
        if self.webhooks.is_empty() {
            return;
        }
        let known = id.clone();
        // One that is gone again is announced by whoever deleted it.
        if let Ok(stored) = self.ask(move |store| Stored::read(store, &known)).await {
            self.webhooks.announce(&stored.info(Skills::Hidden, Runtime::Untold));
        }
    }

    /// Tells the webhooks that a conversation is about to go.
    pub(super) fn announce_deletion(&self, stored: &Stored) {
        if !self.webhooks.is_empty() {
            let mut info = stored.info(Skills::Hidden, Runtime::Untold);
            info["execution_status"] = ExecutionStatus::Deleting.as_str().into();
            self.webhooks.announce(&info);
        }
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

    /// How many bytes clients may have in memory.
    pub(super) fn budgets(&self) -> &Budgets {
        &self.budgets
    }

    /// What is counted.
    pub(super) fn metrics(&self) -> &Metrics {
        &self.metrics
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

    /// Appends without a thread that waits: however many do, one thread commits for all of them.
    pub(super) async fn append(&self, id: &ConversationId, append: Append) -> Result<Vec<Appended>> {
        let (tell, told) = tokio::sync::oneshot::channel();
        let runtime = tokio::runtime::Handle::current();
        let done = move |answer| {
            let _whoever_asked_left = tell.send(answer);
        };
        self.store.append_later(id, append, done, move |lead| {
            runtime.spawn_blocking(move || drop(lead));
        });
        told.await
            .unwrap_or_else(|_| Err(Error::Corrupt { what: "the writer left without an answer".into() }))
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
