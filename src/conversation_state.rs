//! A conversation's state with the seed's names: append events, and query the state that follows from them.
//!
//! [`ConversationState`] holds the events of one conversation and folds them as they are appended. Only the events are
//! stored. With a persistence directory, every append is durable when it returns. No other module depends on this one.
//! It serves programs that were written for the seed's interface (`docs/reference/seeds.md#statements`). Use [`Store`]
//! and [`replay`](crate::replay) for branches, views, time travel and many conversations.

use std::collections::HashMap;
use std::ops::Deref;
use std::path::{Path, PathBuf};

use crate::error::{Error, Expected, Result};
use crate::event::{Event, Given, NewEvent, TaskItem, TaskStatus};
use crate::ids::{ConversationId, EventId, ROOT, Sequence};
use crate::state::{Bill, ExecutionStatus, State, Stats};
use crate::store::Store;
use crate::transfer::{ImportOptions, ImportStatus, Importer};
use crate::tree::Tree;

/// The database file of a persistence directory.
const DATABASE: &str = "annals.db";

/// The events of a conversation, and the state derived from them.
///
/// ```
/// # let folder = tempfile::tempdir().expect("a folder");
/// # let conversations = folder.path().join("conversations");
/// use annals::event::{Event, UserMessageEvent};
/// use annals::{ConversationState, ExecutionStatus};
///
/// // Create new state
/// let mut state = ConversationState::new();
///
/// // Append events
/// state.append_event(UserMessageEvent::new("Hello, agent!"))?;
/// # let call = r#"{"id":"a1","timestamp":"2026-01-01T00:00:01","source":"agent","thought":[],"action":{"message":"done","kind":"FinishAction"},
/// #   "tool_name":"finish","tool_call_id":"c1","tool_call":{"id":"c1","name":"finish","arguments":"{}","origin":"completion"},
/// #   "llm_response_id":"r1","kind":"ActionEvent"}"#;
/// # let action_event = annals::event::decode(call, annals::event::Unfamiliar::Refuse)?;
/// state.append_event(action_event)?;
///
/// // Query derived state
/// println!("{}", state.agent_execution_status()); // idle, running, finished, etc.
/// println!("{}", state.iteration()); // number of agent steps
/// println!("{}", state.conversation_history().count()); // all LLM-convertible events
/// # assert_eq!(state.agent_execution_status(), ExecutionStatus::Running);
/// # assert_eq!((state.iteration(), state.conversation_history().count()), (1, 2));
///
/// // Persistence: events are saved as they are appended
/// let mut state = ConversationState::persistent(&conversations, "my-task-123")?;
/// state.append_event(UserMessageEvent::new("Hello, agent!"))?;
///
/// // Load existing conversation
/// # drop(state);
/// let loaded = ConversationState::load(&conversations, "my-task-123")?;
/// assert_eq!(loaded.events().len(), 1); // state is perfectly reconstructed from events
///
/// for event in loaded.conversation_history() {
///     println!("{}", event.kind());
/// }
///
/// // Token and cost tracking
/// let metrics = loaded.metrics();
/// println!("Input tokens: {}", metrics.input_tokens);
/// println!("Output tokens: {}", metrics.output_tokens);
/// println!("Total cost: ${:.4}", metrics.total_cost);
/// println!("LLM calls: {}", metrics.llm_call_count);
///
/// // TODO items managed by the task tracker
/// for task in loaded.task_list() {
///     println!("[{}] {}", if task.done { '✓' } else { ' ' }, task.description);
/// }
///
/// // Replay events
/// println!("Total events: {}", loaded.events().len());
/// for (i, event) in loaded.events().iter().enumerate() {
///     println!("\n--- Event {i}: {} ---\n{event:?}", event.kind());
///
///     // Reconstruct state at this point
///     let mut partial_state = ConversationState::new();
///     for e in &loaded.events()[..=i] {
///         partial_state.append_event(e.clone())?;
///     }
///     println!("Status after event: {}", partial_state.agent_execution_status());
///     println!("Iteration: {}", partial_state.iteration());
/// }
///
/// // The same event sequence always produces the same state
/// let (mut state1, mut state2) = (ConversationState::new(), ConversationState::new());
/// for event in loaded.events().iter() {
///     state1.append_event(event.clone())?;
///     state2.append_event(event.clone())?;
/// }
/// assert_eq!(state1.agent_execution_status(), state2.agent_execution_status());
/// assert_eq!(state1.iteration(), state2.iteration());
/// assert_eq!(state1.conversation_history().count(), state2.conversation_history().count());
///
/// // Serialize, and deserialize with type information
/// let json_str = Event::from(UserMessageEvent::new("Hello")).dump();
/// let event = annals::event::decode(&json_str, annals::event::Unfamiliar::Refuse)?;
/// let Event::Message(message) = &event else { panic!("{event:?}") };
/// assert_eq!(UserMessageEvent::from(&**message).content, "Hello");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct ConversationState {
    id: ConversationId,
    events: ConversationEvents,
    tree: Tree,
    state: State,
    /// The totals in the base state, as they were when the conversation was loaded.
    stored_stats: Option<Stats>,
    store: Option<Store>,
}

/// The events of a conversation, in order: a slice that also finds them by id.
#[derive(Debug, Clone, Default)]
pub struct ConversationEvents {
    list: Vec<Event>,
    places: HashMap<EventId, usize>,
}

impl ConversationEvents {
    /// Returns the event with this id.
    #[must_use]
    pub fn by_id(&self, id: &str) -> Option<&Event> {
        self.place(id).map(|place| &self.list[place])
    }

    /// Returns the place of the event with this id.
    #[must_use]
    pub fn place(&self, id: &str) -> Option<usize> {
        EventId::new(id).ok().and_then(|id| self.places.get(&id).copied())
    }

    fn push(&mut self, event: Event) {
        self.places.insert(event.id().clone(), self.list.len());
        self.list.push(event);
    }
}

impl Deref for ConversationEvents {
    type Target = [Event];

    fn deref(&self) -> &[Event] {
        &self.list
    }
}

/// The tokens and costs of model calls, with the seed's names.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
#[non_exhaustive]
pub struct ConversationMetrics {
    /// Tokens sent.
    pub input_tokens: u64,
    /// Tokens received.
    pub output_tokens: u64,
    /// Cost, in the price table's currency.
    ///
    /// It is the sum of the known costs, so it is 0 if none is known; `bill` tells these apart.
    pub total_cost: f64,
    /// What is known of the cost, and an estimate of the rest.
    pub bill: Bill,
    /// The number of calls that are recorded one by one.
    pub llm_call_count: u64,
}

/// An item of the task list, with the seed's names.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ConversationTask {
    /// The work to do.
    pub description: String,
    /// Whether it is done.
    pub done: bool,
    /// Remarks.
    pub notes: String,
}

impl From<&TaskItem> for ConversationTask {
    fn from(item: &TaskItem) -> Self {
        Self {
            description: item.title.to_string(),
            done: item.status == TaskStatus::Done,
            notes: item.notes.to_string(),
        }
    }
}

impl Default for ConversationState {
    fn default() -> Self {
        Self::new()
    }
}

impl ConversationState {
    /// Makes the state of a new conversation, in memory, with a new id.
    #[must_use]
    pub fn new() -> Self {
        Self::empty(ConversationId::mint(), None)
    }

    /// Opens the state of a stored conversation. Starts an empty one if it does not exist yet.
    ///
    /// `persistence_dir` is a folder, which gets the database `annals.db`, or a database file.
    ///
    /// # Errors
    /// [`Error::Id`] if `conversation_id` is not a valid id, and the errors of opening and reading the store.
    pub fn persistent(persistence_dir: impl AsRef<Path>, conversation_id: &str) -> Result<Self> {
        let store = Store::open(database(persistence_dir.as_ref()))?;
        Self::of(store, ConversationId::new(conversation_id)?)
    }

    /// Loads the state of an existing conversation. It is in the database of `persistence_dir`, or in a subfolder with
    /// files as the SDK or the seed writes them. Such a folder is first imported into the database.
    ///
    /// # Errors
    /// [`Error::UnknownConversation`] if the conversation does not exist, and the errors of importing, opening and
    /// reading.
    pub fn load(persistence_dir: impl AsRef<Path>, conversation_id: &str) -> Result<Self> {
        let directory = persistence_dir.as_ref();
        let id = ConversationId::new(conversation_id)?;
        let unknown = || Error::UnknownConversation { conversation: id.to_string() };
        let database = database(directory);
        if database.is_file() {
            let store = Store::open(&database)?;
            if store.contains(&id)? {
                return Self::of(store, id);
            }
        }
        let folders = [directory.join(id.folder_name()), directory.join(id.as_str())];
        let folder = folders.into_iter().find(|folder| folder.is_dir()).ok_or_else(unknown)?;
        let store = Store::open(&database)?;
        let options = ImportOptions { id: Some(id.clone()), ..ImportOptions::default() };
        let reports = Importer::new(&store, options).import(&folder, &mut |_| ())?;
        if reports.iter().all(|report| report.status == ImportStatus::Failed) {
            return Err(unknown());
        }
        Self::of(store, id)
    }

    /// Loads the state of a conversation from an open store. The conversation need not exist yet.
    ///
    /// # Errors
    /// The errors of reading the store.
    pub fn of(store: Store, id: ConversationId) -> Result<Self> {
        let mut state = Self::empty(id, None);
        match store.base_state(&state.id) {
            Ok(stored) => {
                let id = state.id.clone();
                state.stored_stats = stored.and_then(|stored| {
                    stored.document.current_field("stats").map(|stats| Stats::read(stats.raw()))
                });
                store.scan(&id, Sequence(0), |stored| {
                    let id = EventId::new(stored.id)?;
                    let given = Given { id: Some(&id), timestamp: None };
                    let event = Event::read(stored.payload, &given)
                        .map_err(|source| Error::Undecodable { sequence: stored.sequence, source })?;
                    state.take(event);
                    Ok(true)
                })?;
            }
            Err(Error::UnknownConversation { .. }) => {}
            Err(error) => return Err(error),
        }
        state.store = Some(store);
        Ok(state)
    }

    fn empty(id: ConversationId, store: Option<Store>) -> Self {
        Self {
            id,
            events: ConversationEvents::default(),
            tree: Tree::new(),
            state: State::new(),
            stored_stats: None,
            store,
        }
    }

    /// Returns the conversation's id.
    #[must_use]
    pub fn id(&self) -> &ConversationId {
        &self.id
    }

    /// Appends an event and returns its place. An event without a parent follows the last event that is part of the
    /// tree, as in the reference. If the same event is already there, byte for byte, its existing place is returned.
    ///
    /// # Errors
    /// [`Error::DuplicateEvent`], [`Error::UnknownParent`], [`Error::Conflict`] if another process has appended to the
    /// conversation since it was loaded (load it again), and the errors of writing. Nothing is changed in these cases.
    pub fn append_event(&mut self, event: impl Into<Event>) -> Result<Sequence> {
        let event: Event = event.into();
        if let Some(known) = self.events.by_id(event.id().as_str()) {
            let place = Sequence(self.events.place(event.id().as_str()).unwrap_or_default() as u64);
            let stamped = self.stamp(event.clone(), Some(known));
            return if *known == event || *known == stamped {
                Ok(place)
            } else {
                Err(self.duplicate(&event, place))
            };
        }
        let event = self.stamp(event, None);
        let payload = NewEvent::parse(event.dump())?;
        let place = Sequence(self.events.len() as u64);
        match &self.store {
            Some(store) => {
                store.append(&self.id, Expected::Exact(place.0), &[payload])?;
            }
            None => self.check_parent(&event)?,
        }
        self.take(event);
        Ok(place)
    }

    fn duplicate(&self, event: &Event, place: Sequence) -> Error {
        Error::DuplicateEvent { conversation: self.id.clone(), event: event.id().clone(), sequence: place.0 }
    }

    /// Returns the event with a parent: its own, that of `known`, or the last event of the tree.
    fn stamp(&self, event: Event, known: Option<&Event>) -> Event {
        if event.common().parent_id.is_some() || !crate::event::kind::moves_head(event.kind()) {
            return event;
        }
        let parent = match known {
            Some(known) => known.common().parent_id.as_deref(),
            None => self.tree.head_after(self.tree.len()).and_then(|place| self.tree.id(place)),
        };
        event.with_parent(parent.unwrap_or(ROOT))
    }

    fn check_parent(&self, event: &Event) -> Result<()> {
        match event.common().named_parent() {
            Some(parent) if self.events.place(parent).is_none() => Err(Error::UnknownParent {
                conversation: self.id.clone(),
                event: event.id().clone(),
                parent: parent.to_owned(),
            }),
            _ => Ok(()),
        }
    }

    fn take(&mut self, event: Event) {
        self.tree.push(event.id().as_str(), event.common().parent_id.as_deref(), event.kind());
        self.state.apply(&event);
        self.events.push(event);
    }

    /// Brings the derived tables of the database up to date. The events themselves need no saving: every append is
    /// durable when it returns. Does nothing for a state in memory.
    ///
    /// # Errors
    /// The errors of the store.
    pub fn save(&self) -> Result<()> {
        self.store.as_ref().map_or(Ok(()), Store::catch_up)
    }

    /// Returns the execution status that follows from the events.
    #[must_use]
    pub fn agent_execution_status(&self) -> ExecutionStatus {
        self.state.execution_status()
    }

    /// Returns the number of the agent's steps.
    #[must_use]
    pub fn iteration(&self) -> u64 {
        self.state.iteration()
    }

    /// Returns the events that become messages to the model, in order. Includes condensed events.
    pub fn conversation_history(&self) -> impl Iterator<Item = &Event> {
        self.events.iter().filter(|event| event.is_llm_convertible())
    }

    /// Returns the tokens and costs of model calls: from the events, or else from the stored base state.
    #[must_use]
    pub fn metrics(&self) -> ConversationMetrics {
        let stats = self.state.stats().or(self.stored_stats.as_ref()).cloned().unwrap_or_default();
        let combined = stats.combined();
        ConversationMetrics {
            input_tokens: combined.accumulated_token_usage.prompt_tokens,
            output_tokens: combined.accumulated_token_usage.completion_tokens,
            total_cost: combined.accumulated_cost,
            bill: stats.bill(),
            llm_call_count: combined.calls() as u64,
        }
    }

    /// Returns the agent's task list in its latest version.
    #[must_use]
    pub fn task_list(&self) -> Vec<ConversationTask> {
        self.state.task_list().iter().map(ConversationTask::from).collect()
    }

    /// Returns the events, in order.
    #[must_use]
    pub fn events(&self) -> &ConversationEvents {
        &self.events
    }
}

/// Returns the path of the database of a persistence directory.
fn database(directory: &Path) -> PathBuf {
    let is_file = directory.is_file() || directory.extension().is_some_and(|extension| extension == "db");
    if is_file { directory.to_owned() } else { directory.join(DATABASE) }
}
