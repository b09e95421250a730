//! Conversations that are open here, and those of them that run.
//!
//! A conversation is opened when somebody first wants something of it that may change it; reading needs none. A run
//! takes one of a bounded number of slots. When a run has ended everybody hears the whole state, after everything
//! that happened in it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::{Value, json};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::App;
use super::failure::Failure;
use super::hub::{Frame, Piece};
use super::info::Stored;
use super::meta::Meta;
use crate::conversation::{Builder, Conversation, ConversationError, Host, StateUpdates};
use crate::error::Error;
use crate::ids::{ConversationId, EventId, Timestamp};
use crate::llm::{Client, ClientOptions, Delta, LlmError, Model, Settings, Transport};
use crate::secret::Cipher;
use crate::store::Store;

/// What is open here.
pub(super) struct Sessions {
    host: Host,
    cipher: Option<Cipher>,
    open: tokio::sync::Mutex<HashMap<ConversationId, Arc<Session>>>,
    /// What the clients of models are made with.
    models: ClientOptions,
    /// One for each conversation that may run now.
    slots: Arc<Semaphore>,
}

/// A conversation that is open here.
pub(super) struct Session {
    /// The conversation.
    pub conversation: Conversation,
    run: Mutex<Run>,
}

/// Whether a run is under way, and whether another is to follow it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Run {
    None,
    Running,
    RunningAndAgain,
}

/// What is to happen where a run is under way already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Busy {
    /// It is refused.
    Refuse,
    /// The run, or another after it, takes up what is new.
    FollowUp,
}

impl Sessions {
    /// Nothing is open yet; at most `runs_max` may run at once.
    ///
    /// # Errors
    /// [`LlmError`] where nothing can travel: the machine's certificates cannot be read.
    pub fn new(store: Store, cipher: Option<Cipher>, runs_max: usize) -> Result<Self, LlmError> {
        Ok(Self {
            models: ClientOptions::new(Transport::new()?),
            host: Host::new(store),
            cipher,
            open: tokio::sync::Mutex::default(),
            slots: Arc::new(Semaphore::new(runs_max)),
        })
    }

    /// What seals secrets.
    pub fn cipher(&self) -> Option<&Cipher> {
        self.cipher.as_ref()
    }

    /// How many are open here.
    pub async fn count(&self) -> usize {
        self.open.lock().await.len()
    }

    /// How many more may run now.
    pub fn slots_free(&self) -> usize {
        self.slots.available_permits()
    }

    /// A slot for a run; 429 where all are taken.
    pub fn slot(&self) -> Result<OwnedSemaphorePermit, Failure> {
        Arc::clone(&self.slots).try_acquire_owned().map_err(|_| Failure::no_capacity())
    }

    /// The conversation, opened where it is not open yet.
    pub async fn open(&self, app: &Arc<App>, id: &ConversationId) -> Result<Arc<Session>, Failure> {
        let mut open = self.open.lock().await;
        if let Some(session) = open.get(id) {
            return Ok(Arc::clone(session));
        }
        let known = id.clone();
        let meta = app
            .ask(move |store| {
                store.conversation(&known)?;
                Meta::read(store, &known)
            })
            .await?;
        let session = self.make(self.builder(app, id, &meta)).await?;
        open.insert(id.clone(), Arc::clone(&session));
        Ok(session)
    }

    /// Makes a new conversation as `set` asks for it; the one of that id where there is one already, which is
    /// told apart by the second value.
    pub async fn create(
        &self,
        app: &Arc<App>,
        id: &ConversationId,
        meta: Meta,
        set: impl FnOnce(Builder) -> Builder,
    ) -> Result<Option<Arc<Session>>, Failure> {
        let mut open = self.open.lock().await;
        let known = id.clone();
        let is_known = app.ask(move |store| match store.conversation(&known) {
            Ok(_) => Ok(true),
            Err(Error::UnknownConversation { .. }) => Ok(false),
            Err(error) => Err(error),
        });
        if is_known.await? {
            return Ok(None);
        }
        let session = self.make(set(self.builder(app, id, &meta))).await?;
        let known = id.clone();
        app.ask(move |store| meta.write(store, &known)).await?;
        open.insert(id.clone(), Arc::clone(&session));
        Ok(Some(session))
    }

    /// Takes in a conversation that was made by another: a fork.
    pub async fn adopt(&self, app: &Arc<App>, conversation: Conversation, meta: Meta) -> Result<(), Failure> {
        let id = conversation.id().clone();
        conversation.close().await?;
        let known = id.clone();
        app.ask(move |store| meta.write(store, &known)).await?;
        // Opened anew it tells this server's listeners what it does.
        self.open(app, &id).await.map(|_| ())
    }

    /// Ends what runs and lets go of it; its data stays.
    pub async fn close(&self, id: &ConversationId) -> Result<(), Failure> {
        let session = self.open.lock().await.remove(id);
        if let Some(session) = session {
            session.conversation.interrupt().await?;
            session.conversation.close().await?;
        }
        Ok(())
    }

    /// Pauses what runs and lets go of everything: the server ends.
    pub async fn close_all(&self) {
        let all: Vec<Arc<Session>> = self.open.lock().await.drain().map(|(_, session)| session).collect();
        for session in all {
            // The server ends whatever happens; what could not be closed is recovered when it is opened again.
            if session.conversation.is_running() {
                let _ended = session.conversation.interrupt().await;
            }
            let _closed = session.conversation.close().await;
        }
    }

    async fn make(&self, builder: Builder) -> Result<Arc<Session>, Failure> {
        let conversation = builder.open().await?;
        Ok(Arc::new(Session { conversation, run: Mutex::new(Run::None) }))
    }

    /// What every conversation of this server is opened with.
    fn builder(&self, app: &Arc<App>, id: &ConversationId, meta: &Meta) -> Builder {
        let folder = app.config().conversations_dir.join(id.folder_name());
        let options = self.models.clone();
        let models = Arc::new(move |settings: &Settings| -> Result<Arc<dyn Model>, LlmError> {
            Ok(Arc::new(Client::new(settings.clone(), &options)?))
        });
        let (hub, conversation) = (app.hub().clone(), id.clone());
        let orders: Mutex<HashMap<String, u64>> = Mutex::default();
        let on_delta = Arc::new(move |item: &EventId, delta: &Delta| {
            if let Some(piece) = piece(&orders, item, delta) {
                hub.publish(&conversation, 0, Frame::Piece(Arc::new(piece)));
            }
        });
        let mut builder = Conversation::builder()
            .host(&self.host)
            .id(id.clone())
            .keep_dir(folder)
            .models(models)
            .on_delta(on_delta)
            .state_updates(StateUpdates::On);
        if let Some(cipher) = &self.cipher {
            builder = builder.cipher(cipher.clone());
        }
        if let Some(working_dir) = meta.get("workspace").get("working_dir").and_then(Value::as_str) {
            builder = builder.workspace(working_dir);
        }
        builder
    }
}

/// The frames of a piece of a reply.
fn piece(orders: &Mutex<HashMap<String, u64>>, item: &EventId, delta: &Delta) -> Option<Piece> {
    let mut orders = orders.lock().unwrap_or_else(PoisonError::into_inner);
    let item_id = item.as_str().to_owned();
    let (kind, content) = match delta {
        Delta::Text(text) => ("text", text),
        Delta::Reasoning(text) => ("reasoning", text),
        Delta::Restart => {
            orders.remove(&item_id);
            let session =
                json!({"type": "item_aborted", "item_id": item_id, "attempt": 0, "reason": "retry"});
            return Some(Piece { item_id, session, event: None });
        }
    };
    // Only the item under way is of interest.
    if !orders.contains_key(&item_id) {
        orders.clear();
    }
    let order = orders.entry(item_id.clone()).or_insert(0);
    let session = json!({
        "type": "delta", "item_id": item_id, "attempt": 0, "order": *order, "kind": kind, "content": content,
    });
    *order += 1;
    let field = if kind == "text" { "content" } else { "reasoning_content" };
    let event = json!({
        "id": EventId::mint().as_str(), "timestamp": Timestamp::now().to_naive_local(), "source": "agent",
        field: content, "kind": "StreamingDeltaEvent",
    });
    Some(Piece { item_id, session, event: Some(event.to_string()) })
}

impl Session {
    /// Begins a run in the background, or sees to it that one takes up what is new.
    ///
    /// # Errors
    /// 409 where one is under way and `busy` says so, 429 where no slot is free.
    pub fn start(self: &Arc<Self>, app: &Arc<App>, busy: Busy) -> Result<(), Failure> {
        let mut run = self.run.lock().unwrap_or_else(PoisonError::into_inner);
        match (*run, busy) {
            (Run::Running | Run::RunningAndAgain, Busy::Refuse) => return Err(Failure::running()),
            (Run::Running | Run::RunningAndAgain, Busy::FollowUp) => {
                *run = Run::RunningAndAgain;
                return Ok(());
            }
            (Run::None, Busy::Refuse | Busy::FollowUp) => {}
        }
        let slot = app.sessions().slot()?;
        *run = Run::Running;
        drop(run);
        let (session, app) = (Arc::clone(self), Arc::clone(app));
        tokio::spawn(async move { session.run(&app, slot).await });
        Ok(())
    }

    async fn run(&self, app: &App, slot: OwnedSemaphorePermit) {
        loop {
            // What went wrong is an event already; where even that failed there is nobody to tell.
            let outcome = self.conversation.run().await;
            let mut run = self.run.lock().unwrap_or_else(PoisonError::into_inner);
            let again = *run == Run::RunningAndAgain && outcome.is_ok() && self.has_news();
            *run = if again { Run::Running } else { Run::None };
            if !again {
                break;
            }
        }
        drop(slot);
        self.publish_state(app).await;
    }

    /// Whether a message waits that no run has seen.
    fn has_news(&self) -> bool {
        self.conversation.status() == crate::state::ExecutionStatus::Idle
    }

    /// Lets everybody hear the whole state, after everything that has happened.
    pub async fn publish_state(&self, app: &App) {
        let id = self.conversation.id().clone();
        // It is shown at the next occasion where it cannot be read now.
        if let Ok((text, after)) = snapshot(app, &id).await {
            app.hub().publish(&id, after, Frame::Transient(text.into()));
        }
    }
}

/// The whole state as an event that is in no log, and how many events it comes after.
pub(super) async fn snapshot(app: &App, id: &ConversationId) -> Result<(String, u64), Failure> {
    let id = id.clone();
    let stored = app.ask(move |store| read(store, &id)).await?;
    let after = stored.row.event_count;
    let event = json!({
        "id": EventId::mint().as_str(), "timestamp": Timestamp::now().to_naive_local(),
        "source": "environment", "key": "full_state", "value": stored.full_state(),
        "kind": "ConversationStateUpdateEvent",
    });
    Ok((event.to_string(), after))
}

/// Everything that is stored of a conversation but its events.
pub(super) fn read(store: &Store, id: &ConversationId) -> Result<Stored, Error> {
    let row = store.conversation(id)?;
    of_row(store, row)
}

/// The same of one whose row is known.
pub(super) fn of_row(store: &Store, row: crate::store::Conversation) -> Result<Stored, Error> {
    let document = store.base_state(&row.id)?.map(|state| state.document);
    Ok(Stored { document, meta: Meta::read(store, &row.id)?, children: store.children(&row.id)?, row })
}

impl From<ConversationError> for Failure {
    fn from(error: ConversationError) -> Self {
        match error {
            ConversationError::Store(error) => error.into(),
            ConversationError::Running { .. } => Self::running(),
            ConversationError::UnknownEvent { .. } => Self::not_found(error.to_string()),
            ConversationError::NoAgent
            | ConversationError::Agent(_)
            | ConversationError::Policy(_)
            | ConversationError::Analyzer(_)
            | ConversationError::Tag { .. }
            | ConversationError::Limit { .. }
            | ConversationError::Workspace { .. } => Self::unprocessable(error.to_string()),
            ConversationError::NoCondenser { .. } => Self::conflict(error.to_string()),
            ConversationError::Closed { .. } => Self::bad("inactive_service"),
            error => Self::internal(error.to_string()),
        }
    }
}
