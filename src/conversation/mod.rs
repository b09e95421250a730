//! The loop: where the store, the agent, its model and its tools meet, and nowhere else.
//!
//! A [`Conversation`] is a handle on one conversation that can run: cheap to clone, usable from any task. Whatever
//! changes it waits in line, first come first served; reading never waits. Everything that happens is an
//! event in the store before anybody hears of it, together with HEAD and the base state it leads to.
//!
//! Source: `runtime.md`, but for what `docs/conformance.md` lists as mended.

mod error;

use std::sync::Arc;

pub use error::{ConversationError, Result};

use crate::agent::{AgentDocument, Analyzer, Policy};
use crate::event::{Event, Message, Observation, Text};
use crate::ids::{ConversationId, EventId};
use crate::llm::{Delta, Model};
use crate::state::ExecutionStatus;

/// Hears every event once it is committed, in order. Called while the conversation waits: it must be quick, and must
/// not wait for the conversation.
pub type Callback = Arc<dyn Fn(&Event) + Send + Sync>;

/// Hears the pieces of a reply on their way, with the id of the event that will hold the whole.
pub type DeltaCallback = Arc<dyn Fn(&EventId, &Delta) + Send + Sync>;

/// A conversation that can run.
#[derive(Debug, Clone)]
pub struct Conversation(Arc<Local>);

/// What a conversation looks like from outside at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Snapshot {
    /// How it goes.
    pub status: ExecutionStatus,
    /// How many events there are.
    pub event_count: u64,
    /// Where HEAD is; `None` before everything.
    pub head: Option<EventId>,
    /// A person's last message.
    pub last_user_message: Option<EventId>,
}

/// Where a fork begins and what it takes along.
#[derive(Debug, Clone, Default)]
pub struct ForkOptions {
    /// Its id; a new one where none is given.
    pub id: Option<ConversationId>,
    /// Copy only the branch up to this event; else the whole log.
    pub from_event: Option<EventId>,
    /// Another agent than this one's.
    pub agent: Option<AgentDocument>,
    /// Its tags.
    pub tags: Vec<(String, String)>,
    /// Take along what model calls have cost so far.
    pub keep_metrics: KeepMetrics,
}

/// Whether a fork takes along what model calls have cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum KeepMetrics {
    /// It begins with nothing spent.
    #[default]
    No,
    /// It begins with what was spent.
    Yes,
}

/// What a run may use up. What is `None` is as the conversation was opened with.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct RunOptions {
    /// The most steps of this run; more than 0.
    pub max_iterations: Option<u64>,
    /// The most that all model calls of the conversation may have cost, in the price table's currency.
    pub max_budget: Option<f64>,
}

#[derive(Debug)]
struct Local {
    id: ConversationId,
}

impl Conversation {
    /// Its id.
    #[must_use]
    pub fn id(&self) -> &ConversationId {
        &self.0.id
    }
}

/// The signatures that are coming; see the commit.
#[expect(dead_code, reason = "signatures for those who build on them")]
trait Coming: Sized {
    fn snapshot(&self) -> Snapshot;
    fn watch(&self) -> tokio::sync::watch::Receiver<Snapshot>;
    async fn send_message(&self, message: Message, sender: Option<Text>) -> Result<EventId>;
    async fn run(&self) -> Result<ExecutionStatus>;
    async fn run_with(&self, options: RunOptions) -> Result<ExecutionStatus>;
    async fn pause(&self) -> Result<()>;
    async fn interrupt(&self) -> Result<()>;
    async fn reject_pending_actions(&self, reason: &str) -> Result<usize>;
    async fn ask_agent(&self, question: &str) -> Result<String>;
    async fn condense(&self) -> Result<()>;
    async fn fork(&self, options: ForkOptions) -> Result<Self>;
    async fn navigate_to(&self, event: Option<&EventId>) -> Result<()>;
    async fn generate_title(&self, model: Option<Arc<dyn Model>>, length: usize) -> Result<String>;
    async fn execute_tool(&self, name: &str, arguments: &str) -> Result<Observation>;
    async fn set_confirmation_policy(&self, policy: Policy) -> Result<()>;
    async fn set_security_analyzer(&self, analyzer: Option<Analyzer>) -> Result<()>;
    async fn switch_llm(&self, llm: &crate::event::Json) -> Result<()>;
    async fn set_tags(&self, tags: Vec<(String, String)>) -> Result<()>;
    async fn close(&self) -> Result<()>;
}
