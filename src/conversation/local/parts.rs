//! What the caller gave to a conversation and the store does not hold.

use std::path::PathBuf;
use std::sync::Arc;

use super::guide::Guide;
use crate::agent::definition::Definitions;
use crate::conversation::memory::{OnPause, StateUpdates};
use crate::error::Error;
use crate::event::Event;
use crate::hook;
use crate::ids::EventId;
use crate::llm::{Delta, LlmError, Model, Settings};
use crate::plugin::{AmbientPlugins, PluginSource, Server};
use crate::secret::Registry as Secrets;
use crate::stuck::Thresholds;
use crate::tool::{self, Tool};

/// A callback that receives every event in order, after its commit. The conversation is locked during the call. So the
/// callback must be quick, and must not wait for the conversation.
pub type Callback = Arc<dyn Fn(&Event) + Send + Sync>;

/// A callback that receives the pieces of a reply as they arrive, with the id of the event that will hold the whole
/// reply.
pub type DeltaCallback = Arc<dyn Fn(&EventId, &Delta) + Send + Sync>;

/// A callback that receives the reason for which a run waits before it can write, once for each wait.
pub type WaitCallback = Arc<dyn Fn(&Error) + Send + Sync>;

/// A function that makes the client of a model from settings with decrypted secrets.
pub type ModelMaker = Arc<dyn Fn(&Settings) -> Result<Arc<dyn Model>, LlmError> + Send + Sync>;

/// The parts of a conversation that are not stored.
#[derive(Clone)]
pub(in crate::conversation) struct Parts {
    pub model: Option<Arc<dyn Model>>,
    pub models: Option<ModelMaker>,
    pub registry: tool::Registry,
    pub tools: Vec<Arc<dyn Tool>>,
    pub hooks: Option<hook::Config>,
    pub guide: Option<Arc<dyn Guide>>,
    /// The user's home folder.
    pub home: Option<PathBuf>,
    /// The plugins that the caller gave.
    pub plugins: Vec<PluginSource>,
    /// Which plugins the conversation has without being given them.
    pub ambient: AmbientPlugins,
    /// The tool servers from the plugins of the parent conversation.
    pub lent: Vec<Server>,
    /// The agents for tasks, in addition to the agents in files.
    pub definitions: Definitions,
    /// The number of conversations above this one.
    pub depth: usize,
    /// The secrets of the topmost conversation, for shared servers and for masking.
    pub lender: Option<Secrets>,
    pub callbacks: Vec<Callback>,
    pub on_delta: Option<DeltaCallback>,
    pub on_wait: Option<WaitCallback>,
    pub updates: StateUpdates,
    pub on_pause: OnPause,
    pub max_budget: Option<f64>,
    /// The limits of stuck detection. `None` if it is off.
    pub thresholds: Option<Thresholds>,
}
