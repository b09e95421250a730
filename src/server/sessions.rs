//! Conversations that are open here.
//!
//! A conversation is opened when somebody first wants something of it that may change it; reading needs none. Each has a
//! place of its own, so that opening a long one keeps nobody waiting but those who want the same.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinSet;

use super::App;
use super::failure::Failure;
use super::info::Stored;
use super::meta::Meta;
use super::opening::Opening;
use super::plan::Plan;
use super::session::Session;
use super::together;
use crate::conversation::{Claim, Conversation};
use crate::ids::ConversationId;
use crate::state::ExecutionStatus;
use crate::store::{ConversationFilter, Order};

/// How long what runs may take to come to rest when the server ends, and what hooks say to the end of a conversation.
const REST_PATIENCE: Duration = Duration::from_millis(2500);
const LAST_REST_PATIENCE: Duration = Duration::from_millis(500);
const HOOK_PATIENCE: Duration = Duration::from_secs(1);

/// How many conversations are looked through at once for those whose process is no more.
const ORPHANS_PAGE: usize = 100;

/// What is open here.
pub(super) struct Sessions {
    /// What everything is opened with.
    pub opening: Opening,
    places: Mutex<HashMap<ConversationId, Arc<Place>>>,
    /// One for each conversation that may run now.
    slots: Arc<Semaphore>,
}

/// Where one conversation is open, or is being opened.
type Place = tokio::sync::Mutex<Option<Arc<Session>>>;

impl Sessions {
    /// Nothing is open yet; at most `runs_max` may run at once.
    pub fn new(opening: Opening, runs_max: usize) -> Self {
        Self { opening, places: Mutex::default(), slots: Arc::new(Semaphore::new(runs_max)) }
    }

    /// How many are open here, or are being opened.
    pub fn count(&self) -> usize {
        self.places().values().filter(|place| place.try_lock().map_or(true, |open| open.is_some())).count()
    }

    /// How many more may run now.
    pub fn slots_free(&self) -> usize {
        self.slots.available_permits()
    }

    /// The conversation, if it is open. `None` also while it is being opened.
    pub fn find(&self, id: &ConversationId) -> Option<Arc<Session>> {
        let place = self.places().get(id).map(Arc::clone)?;
        place.try_lock().ok()?.clone()
    }

    /// A slot for a run; 429 where all are taken.
    pub fn slot(&self) -> Result<OwnedSemaphorePermit, Failure> {
        Arc::clone(&self.slots).try_acquire_owned().map_err(|_| Failure::no_capacity())
    }

    /// The conversation, opened where it is not open yet.
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
        let known = id.clone();
        let stored = app.ask(move |store| Stored::read(store, &known)).await?;
        let conversation =
            self.opening.open(app, id, Plan::resumed(&stored).opened(self.opening.cipher.as_ref())).await?;
        let session = Arc::new(Session::new(conversation, &stored));
        *place = Some(Arc::clone(&session));
        Ok(session)
    }

    /// Makes a new conversation; `None` where there is one of that id already.
    pub async fn create(
        &self,
        app: &App,
        id: &ConversationId,
        meta: Meta,
        plan: Plan,
    ) -> Result<Option<Arc<Session>>, Failure> {
        let place = self.place(id);
        let mut open = place.lock().await;
        let known = id.clone();
        let is_known = app.ask(move |store| store.contains(&known));
        if is_known.await? {
            return Ok(None);
        }
        let opened = self.opening.open(app, id, plan).await;
        let known = id.clone();
        let made = match opened {
            Ok(conversation) => {
                let stored = app.ask(move |store| {
                    meta.write(store, &known)?;
                    Stored::read(store, &known)
                });
                stored.await.map(|stored| Session::new(conversation, &stored))
            }
            Err(failure) => Err(failure),
        };
        let session = match made {
            Ok(session) => Arc::new(session),
            Err(failure) => {
                // What was begun is not there; the reason that counts is the first.
                let gone = id.clone();
                let _never_began = app.ask(move |store| store.delete(&gone)).await;
                return Err(failure);
            }
        };
        *open = Some(Arc::clone(&session));
        Ok(Some(session))
    }

    /// Takes in a conversation that was made by another: a fork.
    pub async fn adopt(&self, app: &App, conversation: Conversation, meta: Meta) -> Result<(), Failure> {
        let id = conversation.id().clone();
        conversation.close().await?;
        let known = id.clone();
        app.ask(move |store| meta.write(store, &known)).await?;
        // Opened anew it tells this server's listeners what it does.
        self.open(app, &id).await.map(|_| ())
    }

    /// Refuses what is not to be done to a conversation that another process runs: 409, with which and since when.
    pub async fn refuse_elsewhere(&self, id: &ConversationId) -> Result<(), Failure> {
        let place = self.place(id);
        let open = place.lock().await;
        if open.as_ref().is_some_and(|session| session.conversation.is_running()) {
            return Ok(());
        }
        self.claim(id).await.map(drop)
    }

    /// Keeps every process from running the conversation while what it answers lives; 409 where one does.
    async fn claim(&self, id: &ConversationId) -> Result<Claim, Failure> {
        let host = &self.opening.host;
        match host.claim(id).await? {
            Some(claim) => Ok(claim),
            None => Err(Failure::runs_elsewhere(host.runner(id).flatten())),
        }
    }

    /// Ends what runs, lets go of it and deletes it; nobody opens it in between, and no other process runs it.
    pub async fn delete(&self, app: &App, id: &ConversationId) -> Result<(), Failure> {
        let place = self.place(id);
        let mut open = place.lock().await;
        if let Some(session) = open.take() {
            session.give_up();
            session.conversation.interrupt().await?;
            session.conversation.close().await?;
        }
        let _claim = self.claim(id).await?;
        let known = id.clone();
        app.ask(move |store| store.delete(&known)).await.map(|_| ())
    }

    /// Lets go of what nobody has used for that long, does nothing and has no listeners.
    pub async fn release(&self, app: &App, unused: Duration) {
        for (id, place) in self.all() {
            // Somebody is at it where it is locked.
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
        // Who holds none of them now asks for it under the lock.
        self.places().retain(|_, place| {
            Arc::strong_count(place) > 1 || place.try_lock().map_or(true, |open| open.is_some())
        });
    }

    /// Repairs conversations that were running in a process that is no more: opening one does.
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
            // Looked for again in a while.
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
                // One that cannot be opened is told of to whoever wants it.
                if let Ok(session) = self.open_in(app, id, &mut open).await {
                    session.publish_state(app).await;
                }
            }
        }
    }

    /// Pauses what runs: the server is about to end. What is being opened, or worked at otherwise, is passed over.
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

    /// Ends what still runs and lets go of everything: the server ends.
    pub async fn close_all(&self) {
        let mut closing = JoinSet::new();
        for (_, place) in self.all() {
            closing.spawn(async move {
                let Some(session) = place.lock().await.take() else { return };
                session.come_to_rest(LAST_REST_PATIENCE).await;
                // The server ends whatever happens; what could not be closed is recovered when it is opened again.
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
