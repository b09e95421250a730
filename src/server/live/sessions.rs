//! The open conversations of this server.
//!
//! A conversation is opened for the first request that may change it. Reading does not need it to be open. Each
//! conversation has a lock of its own, so that opening a long one delays only requests for the same conversation.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinSet;

use super::App;
#[cfg(feature = "postgres")]
use super::homes;
use super::info::Stored;
use super::meta::Meta;
use super::opening::Opening;
use super::plan::Plan;
use super::session::Session;
use super::together;
use crate::conversation::{Claim, Conversation, Obstacle};
use crate::ids::ConversationId;
use crate::server::http::failure::Failure;
use crate::state::ExecutionStatus;
use crate::store::{ConversationFilter, Order, acting};

/// How long active runs may take to pause when the server ends: at first, and at last. And how long the hooks for the
/// end of a conversation may take.
const REST_PATIENCE: Duration = Duration::from_millis(2500);
const LAST_REST_PATIENCE: Duration = Duration::from_millis(500);
const HOOK_PATIENCE: Duration = Duration::from_secs(1);

/// The page size of the search for conversations whose process no longer exists.
const ORPHANS_PAGE: usize = 100;

/// The open conversations of this server.
pub(in crate::server) struct Sessions {
    /// The parts with which every conversation is opened.
    pub opening: Opening,
    places: Mutex<HashMap<ConversationId, Arc<Place>>>,
    /// One permit for each conversation that may run now.
    slots: Arc<Semaphore>,
}

/// The entry of one conversation. It is locked while the conversation is being opened.
type Place = tokio::sync::Mutex<Option<Arc<Session>>>;

impl Sessions {
    /// Makes it without open conversations. At most `runs_max` conversations may run at once.
    pub fn new(opening: Opening, runs_max: usize) -> Self {
        Self { opening, places: Mutex::default(), slots: Arc::new(Semaphore::new(runs_max)) }
    }

    /// Returns the number of conversations that are open or being opened.
    pub fn count(&self) -> usize {
        self.places().values().filter(|place| place.try_lock().map_or(true, |open| open.is_some())).count()
    }

    /// Returns how many more conversations may run now.
    pub fn slots_free(&self) -> usize {
        self.slots.available_permits()
    }

    /// The conversation, if it is open. `None` also while it is being opened.
    pub fn find(&self, id: &ConversationId) -> Option<Arc<Session>> {
        let place = self.places().get(id).map(Arc::clone)?;
        place.try_lock().ok()?.clone()
    }

    /// Returns a slot for a run; 429 if all slots are taken.
    pub fn slot(&self) -> Result<OwnedSemaphorePermit, Failure> {
        Arc::clone(&self.slots).try_acquire_owned().map_err(|_| Failure::no_capacity())
    }

    /// Returns the conversation, and opens it unless it is already open.
    pub async fn open(&self, app: &App, id: &ConversationId) -> Result<Arc<Session>, Failure> {
        let place = self.place(id);
        let mut open = place.lock().await;
        if let Some(session) = &*open {
            session.touch();
            return Ok(Arc::clone(session));
        }
        self.open_in(app, id, &mut open).await
    }

    async fn open_in(
        &self,
        app: &App,
        id: &ConversationId,
        place: &mut Option<Arc<Session>>,
    ) -> Result<Arc<Session>, Failure> {
        // The other servers ask this one from now on.
        #[cfg(feature = "postgres")]
        let home = homes::settle(app, id).await?;
        let known = id.clone();
        let stored = app.ask(move |store| Stored::read(store, &known)).await?;
        let conversation =
            self.opening.open(app, id, Plan::resumed(&stored).opened(self.opening.cipher.as_ref())).await?;
        let session = Session::new(conversation, &stored);
        #[cfg(feature = "postgres")]
        let session = session.at(home);
        let session = Arc::new(session);
        *place = Some(Arc::clone(&session));
        Ok(session)
    }

    /// Creates a conversation; `None` if there is already one with that id.
    pub async fn create(
        &self,
        app: &App,
        id: &ConversationId,
        meta: Meta,
        plan: Plan,
        by: Option<String>,
    ) -> Result<Option<Arc<Session>>, Failure> {
        let place = self.place(id);
        let mut open = place.lock().await;
        let known = id.clone();
        let is_known = app.ask(move |store| store.contains(&known));
        if is_known.await? {
            return Ok(None);
        }
        #[cfg(feature = "postgres")]
        let home = homes::settle(app, id).await?;
        let opened = self.opening.open(app, id, plan).await;
        let known = id.clone();
        let made = match opened {
            Ok(conversation) => {
                let stored = app.ask(move |store| {
                    acting(by.as_deref(), || meta.write(store, &known))?;
                    Stored::read(store, &known)
                });
                stored.await.map(|stored| Session::new(conversation, &stored))
            }
            Err(failure) => Err(failure),
        };
        let session = match made {
            #[cfg(feature = "postgres")]
            Ok(session) => Arc::new(session.at(home)),
            #[cfg(not(feature = "postgres"))]
            Ok(session) => Arc::new(session),
            Err(failure) => {
                // The incomplete conversation is deleted. The client gets the first error.
                let incomplete = id.clone();
                let _never_created = app.ask(move |store| store.retention().delete(&incomplete)).await;
                return Err(failure);
            }
        };
        *open = Some(Arc::clone(&session));
        Ok(Some(session))
    }

    /// Takes over a conversation that was made from another one: a fork.
    pub async fn adopt(&self, app: &App, conversation: Conversation, meta: Meta) -> Result<(), Failure> {
        let id = conversation.id().clone();
        conversation.close().await?;
        let known = id.clone();
        app.ask(move |store| meta.write(store, &known)).await?;
        // Opened again by this server, it notifies this server's subscribers.
        self.open(app, &id).await.map(|_| ())
    }

    /// Checks that no other process runs the conversation. Otherwise 409, with that process and the time since when it
    /// runs.
    pub async fn refuse_elsewhere(&self, id: &ConversationId) -> Result<(), Failure> {
        let place = self.place(id);
        let open = place.lock().await;
        if open.as_ref().is_some_and(|session| session.conversation.is_running()) {
            return Ok(());
        }
        self.claim(id).await.map(drop)
    }

    /// Returns a claim. While it exists, no process can run the conversation. 409 if a process already runs it.
    async fn claim(&self, id: &ConversationId) -> Result<Claim, Failure> {
        let host = &self.opening.host;
        match host.claim(id).await? {
            Some(claim) => Ok(claim),
            None => Err(Failure::runs_elsewhere(host.runner(id))),
        }
    }

    /// Ends the active run, closes the conversation and deletes it. Meanwhile it cannot be opened, and no other process
    /// can run it.
    ///
    /// The administrative log names `by`, the holder of a named key. `None`: the user who runs the server.
    pub async fn delete(&self, app: &App, id: &ConversationId, by: Option<String>) -> Result<(), Failure> {
        let place = self.place(id);
        let mut open = place.lock().await;
        if let Some(session) = open.take() {
            session.give_up();
            session.conversation.interrupt().await?;
            session.conversation.close().await?;
        }
        let _claim = self.claim(id).await?;
        let known = id.clone();
        app.ask(move |store| acting(by.as_deref(), || store.retention().delete(&known))).await.map(|_| ())
    }

    /// Closes conversations that were not used for the given time, have no active run and have no subscribers.
    pub async fn release(&self, app: &App, unused: Duration) {
        for (id, place) in self.all() {
            // A locked conversation is in use.
            let Ok(mut open) = place.try_lock() else { continue };
            let is_over = open.as_ref().is_some_and(|session| {
                Arc::strong_count(session) == 1
                    && !session.is_busy()
                    && session.unused() >= unused
                    && app.hub().listeners(&id) == 0
            });
            if is_over && let Some(session) = open.take() {
                let _unwritten = session.conversation.close().await;
            }
        }
        // No other task can get one of these entries meanwhile, because that needs the lock.
        self.places().retain(|_, place| {
            Arc::strong_count(place) > 1 || place.try_lock().map_or(true, |open| open.is_some())
        });
    }

    /// Repairs conversations that were running in a process that no longer exists, by opening them.
    pub async fn repair(&self, app: &App) {
        let filter = ConversationFilter {
            statuses: vec![ExecutionStatus::Running.as_str().to_owned()],
            ..ConversationFilter::default()
        };
        let mut after = None;
        loop {
            let (filter, from) = (filter.clone(), after.clone());
            let page = app
                .ask(move |store| store.conversations(&filter, Order::Created, from.as_ref(), ORPHANS_PAGE));
            // If the search fails, it is repeated later.
            let Ok(page) = page.await else { return };
            let ids: Vec<ConversationId> = page.conversations.into_iter().map(|row| row.id).collect();
            for id in &ids {
                self.repair_one(app, id).await;
            }
            after = ids.last().cloned();
            if ids.len() < ORPHANS_PAGE {
                return;
            }
        }
    }

    async fn repair_one(&self, app: &App, id: &ConversationId) {
        if self.opening.host.is_run(id) {
            return;
        }
        let place = self.place(id);
        let mut open = place.lock().await;
        match open.take() {
            Some(session) if !session.is_orphaned() => *open = Some(session),
            opened => {
                if let Some(session) = opened {
                    let _unwritten = session.conversation.close().await;
                }
                let known = id.clone();
                let obstacles = app.ask(move |store| Obstacle::all(store, &known)).await;
                if obstacles.is_ok_and(|obstacles| !obstacles.is_empty()) {
                    // It was imported while it ran elsewhere. Its record stays as it is.
                    return;
                }
                // If it cannot be opened, the next request for it gets the error.
                if let Ok(session) = self.open_in(app, id, &mut open).await {
                    session.publish_state(app).await;
                }
            }
        }
    }

    /// Pauses all active runs, because the server is about to end. Conversations that are locked, for example because
    /// they are being opened, are skipped.
    pub async fn rest_all(&self) {
        let mut resting = JoinSet::new();
        for (_, place) in self.all() {
            resting.spawn(async move {
                let session = place.try_lock().ok().and_then(|open| open.clone());
                if let Some(session) = session {
                    session.come_to_rest(REST_PATIENCE).await;
                }
            });
        }
        together::ended(resting).await;
    }

    /// Ends the remaining runs and closes all conversations, because the server ends.
    pub async fn close_all(&self) {
        let mut closing = JoinSet::new();
        for (_, place) in self.all() {
            closing.spawn(async move {
                let Some(session) = place.lock().await.take() else { return };
                session.come_to_rest(LAST_REST_PATIENCE).await;
                // The server ends in any case. A conversation that is not closed is recovered when it is opened again.
                let _closed = session.conversation.close_within(HOOK_PATIENCE).await;
            });
        }
        together::ended(closing).await;
    }

    fn place(&self, id: &ConversationId) -> Arc<Place> {
        Arc::clone(self.places().entry(id.clone()).or_default())
    }

    fn all(&self) -> Vec<(ConversationId, Arc<Place>)> {
        self.places().iter().map(|(id, place)| (id.clone(), Arc::clone(place))).collect()
    }

    fn places(&self) -> MutexGuard<'_, HashMap<ConversationId, Arc<Place>>> {
        self.places.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
