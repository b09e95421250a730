//! The state that all requests share.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::block_in_place;
use tokio_util::sync::CancellationToken;

use super::bash::Histories;
#[cfg(feature = "postgres")]
use super::homes;
use super::hub::Hub;
use super::info::{Runtime, Skills, Stored};
use super::left_out::LeftOut;
use super::metrics::{Metrics, Work};
use super::opening::Opening;
#[cfg(feature = "postgres")]
use super::replica;
use super::sessions::Sessions;
#[cfg(feature = "otel")]
use super::telemetry::Telemetry;
use super::undelivered::Undelivered;
use super::webhook::Webhooks;
use crate::aio;
use crate::conversation::ConversationError;
use crate::error::{Error, Result};
use crate::ids::ConversationId;
use crate::server::config::Config;
use crate::server::http::ask::ask;
use crate::server::http::budget::Budgets;
use crate::server::http::caller::Keys;
use crate::server::http::failure::Failure;
use crate::server::http::permits::Gates;
use crate::state::ExecutionStatus;
use crate::store::{Append, Appended, Store};

/// The maximum number of open sockets.
const SOCKETS_MAX: usize = 20_000;

/// How often the open conversations are maintained.
const ROUND: Duration = Duration::from_secs(5);

/// The state that all requests share.
pub struct App {
    store: Store,
    config: Arc<Config>,
    keys: Arc<Keys>,
    /// What requests ask the shared log together.
    #[cfg(feature = "postgres")]
    asking: replica::Asking,
    #[cfg(feature = "postgres")]
    desk: homes::Desk,
    started: Instant,
    last_activity: Mutex<Instant>,
    /// The commands that clients ran outside of conversations.
    pub(in crate::server) bash: Histories,
    hub: Hub,
    sessions: Sessions,
    annals: Gates,
    budgets: Budgets,
    metrics: Metrics,
    work: Arc<Work>,
    /// What requests found and could not use.
    left_out: LeftOut,
    webhooks: Webhooks,
    /// Cancelled when the server is to end.
    ending: CancellationToken,
    /// One permit for each socket that may be open.
    sockets: Arc<Semaphore>,
    /// What the collector of telemetry did not get. Set when the server has ended.
    undelivered: OnceLock<Undelivered>,
}

impl App {
    /// Makes the state of a server on this store. Reads only the length of the log. Must be called within a tokio
    /// runtime.
    ///
    /// # Errors
    /// The errors of reading.
    pub fn new(store: Store, config: Config) -> std::result::Result<Self, ConversationError> {
        let now = Instant::now();
        let hub = Hub::start(&store)?;
        let work = Arc::new(Work::default());
        let opening = Opening::new(store.clone(), &config, Arc::clone(&work))?;
        let config = Arc::new(config);
        let keys = Keys::start(&store, &config);
        let key = config.session_keys.first().map(String::as_str);
        Ok(Self {
            webhooks: Webhooks::start(&config.webhooks, key, opening.transport(), &hub, &work),
            sessions: Sessions::new(opening, config.runs_max),
            ending: CancellationToken::new(),
            #[cfg(feature = "postgres")]
            asking: replica::Asking::default(),
            #[cfg(feature = "postgres")]
            desk: homes::Desk::default(),
            sockets: Arc::new(Semaphore::new(SOCKETS_MAX)),
            undelivered: OnceLock::new(),
            hub,
            store,
            config,
            keys,
            started: now,
            last_activity: Mutex::new(now),
            annals: Gates::default(),
            budgets: Budgets::default(),
            metrics: Metrics::default(),
            work,
            left_out: LeftOut::default(),
            bash: Histories::default(),
        })
    }

    /// Repairs conversations that were running in a process that has ended.
    pub async fn repair(&self) {
        if self.store.is_read_only() {
            return;
        }
        self.sessions.repair(self).await;
    }

    /// Maintains conversations until the server ends: closes unused ones, and repairs those that another process left
    /// running when it ended.
    pub async fn look_after(&self) {
        let mut rounds = tokio::time::interval(ROUND);
        rounds.tick().await;
        loop {
            tokio::select! {
                () = self.ending.cancelled() => return,
                _ = rounds.tick() => {}
            }
            self.repair().await;
            if let Some(idle) = self.config.idle_max {
                self.sessions.release(self, idle).await;
            }
        }
    }

    /// Notifies all tasks that the server ends. Sockets are closed.
    pub fn end(&self) {
        self.ending.cancel();
    }

    /// Returns a permit for one more socket. `None` if the maximum number is open.
    pub(in crate::server) fn socket_seat(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.sockets).try_acquire_owned().ok()
    }

    /// Makes the exporter that sends events from now on to the configured collector. `None` if no collector is
    /// configured.
    ///
    /// # Errors
    /// The reason if the collector's address cannot be used.
    #[cfg(feature = "otel")]
    pub(in crate::server) fn telemetry(&self) -> std::result::Result<Option<Telemetry>, String> {
        let transport = self.sessions.opening.transport();
        let endpoint = self.config.telemetry.as_deref();
        endpoint.map(|endpoint| Telemetry::new(&self.store, endpoint, transport)).transpose()
    }

    /// Returns what the collector of telemetry did not get, after the server has ended. `None` if it got everything.
    #[must_use]
    pub fn undelivered(&self) -> Option<Undelivered> {
        self.undelivered.get().copied()
    }

    /// Records what the collector of telemetry did not get. A server ends once, so only the first record counts.
    pub(in crate::server) fn record_undelivered(&self, undelivered: Undelivered) {
        let _recorded_already = self.undelivered.set(undelivered);
    }

    /// Returns the token that is cancelled when the server is to end.
    pub(in crate::server) fn ending(&self) -> &CancellationToken {
        &self.ending
    }

    /// Stops commands and pauses running conversations, because the server is about to end.
    pub(in crate::server) async fn rest(&self) {
        tokio::join!(self.bash.stop_all(), self.sessions.rest_all());
    }

    /// Closes everything that is open. Stops what still runs, and sends the webhooks their pending deliveries, for a
    /// short time.
    pub async fn close(&self) {
        self.end();
        self.bash.stop_all().await;
        self.sessions.close_all().await;
        self.webhooks.finish().await;
    }

    /// Sends a conversation's present state to the webhooks.
    pub(in crate::server) async fn announce(&self, id: &ConversationId) {
        if self.webhooks.is_empty() {
            return;
        }
        let known = id.clone();
        // If the conversation was deleted meanwhile, its deletion was announced.
        if let Ok(stored) = self.ask(move |store| Stored::read(store, &known)).await {
            self.webhooks.announce(&stored.info(Skills::Hidden, Runtime::Omitted));
        }
    }

    /// Notifies the webhooks that a conversation is about to be deleted.
    pub(in crate::server) fn announce_deletion(&self, stored: &Stored) {
        if !self.webhooks.is_empty() {
            let mut info = stored.info(Skills::Hidden, Runtime::Omitted);
            info["execution_status"] = ExecutionStatus::Deleting.as_str().into();
            self.webhooks.announce(&info);
        }
    }

    /// Returns the hub, which notifies subscribers of events.
    pub(in crate::server) fn hub(&self) -> &Hub {
        &self.hub
    }

    /// Returns the open conversations.
    pub(in crate::server) fn sessions(&self) -> &Sessions {
        &self.sessions
    }

    /// Returns the permits for requests that take long.
    pub(in crate::server) fn annals(&self) -> &Gates {
        &self.annals
    }

    /// Returns the limits on the bytes that clients may have in memory.
    pub(in crate::server) fn budgets(&self) -> &Budgets {
        &self.budgets
    }

    /// Returns the metrics.
    pub(in crate::server) fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    /// Returns the counts of runs, of calls of models, and of requests to webhooks.
    pub(in crate::server) fn work(&self) -> &Work {
        &self.work
    }

    /// Returns the webhooks.
    pub(in crate::server) fn webhooks(&self) -> &Webhooks {
        &self.webhooks
    }

    /// Returns what requests found and could not use.
    pub(in crate::server) fn left_out(&self) -> &LeftOut {
        &self.left_out
    }

    /// Waits until requests find files, plugins or marketplaces that cannot be used, and returns the problems. Each is
    /// returned once, without credentials. Of more than 1000 that wait, the newest are returned, after a text that says
    /// how many others there were. For one caller at a time.
    pub async fn next_left_out(&self) -> Vec<String> {
        self.left_out.next().await
    }

    /// Returns the store.
    #[must_use]
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// Returns the configuration.
    #[must_use]
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Returns the configuration, for code that keeps it.
    pub(in crate::server) fn shared_config(&self) -> Arc<Config> {
        Arc::clone(&self.config)
    }

    /// Returns the home of commands that belong to no conversation.
    #[cfg(feature = "postgres")]
    pub(in crate::server) fn desk(&self) -> &homes::Desk {
        &self.desk
    }

    /// Returns what requests ask the shared log together.
    #[cfg(feature = "postgres")]
    pub(in crate::server) fn asking(&self) -> &replica::Asking {
        &self.asking
    }

    /// Returns the keys of the server.
    pub(in crate::server) fn keys(&self) -> &Arc<Keys> {
        &self.keys
    }

    /// Returns the time when the server was started.
    pub(in crate::server) fn started(&self) -> Instant {
        self.started
    }

    /// Returns the time of the last activity that counts as use.
    pub(in crate::server) fn last_activity(&self) -> Instant {
        *self.last_activity.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records activity that counts as use.
    pub(in crate::server) fn touch(&self) {
        *self.last_activity.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
    }

    /// Appends. One thread commits for all concurrent appends.
    pub(in crate::server) async fn append(
        &self,
        id: &ConversationId,
        append: Append,
    ) -> Result<Vec<Appended>> {
        // If no other append is under way, this thread commits, which saves waking another one and being woken by it. Other
        // tasks of this thread go on elsewhere meanwhile.
        let may_block = Handle::current().runtime_flavor() == RuntimeFlavor::MultiThread;
        if may_block && self.store.is_free_to_append() {
            let appended =
                catch_unwind(AssertUnwindSafe(|| block_in_place(|| self.store.append_all(id, append))));
            let source = || "the writer panicked; nothing was written".into();
            return appended.unwrap_or_else(|_| Err(Error::Storage { doing: "appending", source: source() }));
        }
        aio::append_all(&self.store, id, append).await
    }

    /// Runs `work` on the store, on a thread that may block.
    pub(in crate::server) async fn ask<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Store) -> Result<T> + Send + 'static,
    ) -> std::result::Result<T, Failure> {
        ask(&self.store, work).await
    }
}
