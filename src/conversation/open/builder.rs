//! Makes a new conversation or resumes a stored one.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, RwLock};

use tokio::sync::watch;

use super::folder;
use crate::agent::definition::{Definition, Definitions};
use crate::agent::{AgentDocument, Analyzer, Policy};
use crate::conversation::error::{ConversationError, Result};
use crate::conversation::host::Host;
use crate::conversation::local::{
    Callback, Conversation, DeltaCallback, Guide, Local, ModelMaker, Objections, Parts, Tasks, WaitCallback,
};
use crate::conversation::memory::{
    Base, Live, OnPause, Sealing, Snapshot, StateUpdates, Stored, check_tags, load,
};
use crate::error::Expected;
use crate::event::Text;
use crate::hook;
use crate::ids::ConversationId;
use crate::llm::Model;
use crate::plugin::{AmbientPlugins, PluginSource};
use crate::secret::registry::Fetch;
use crate::secret::{Cipher, Registry as Secrets, Source};
use crate::state::base::FieldChange;
use crate::store::{Append, BaseStateChange, Store};
use crate::stuck::Thresholds;
use crate::tool::{self, Tool};

/// The options for opening a conversation; see [`Conversation::builder`].
#[must_use]
pub struct Builder {
    pub(in crate::conversation) host: Option<Host>,
    pub(in crate::conversation) id: Option<ConversationId>,
    pub(in crate::conversation) agent: Option<AgentDocument>,
    workspace: Option<PathBuf>,
    pub(in crate::conversation) keep_dir: Option<PathBuf>,
    pub(in crate::conversation) max_iterations: u64,
    pub(in crate::conversation) policy: Option<Policy>,
    pub(in crate::conversation) analyzer: Option<Analyzer>,
    pub(in crate::conversation) tags: Vec<(String, String)>,
    pub(in crate::conversation) secrets: Vec<(String, Source)>,
    fetch: Option<Fetch>,
    pub(in crate::conversation) cipher: Option<Cipher>,
    pub(in crate::conversation) parts: Parts,
}

impl Default for Builder {
    fn default() -> Self {
        Self {
            host: None,
            id: None,
            agent: None,
            workspace: None,
            keep_dir: None,
            max_iterations: 500,
            policy: None,
            analyzer: None,
            tags: Vec::new(),
            secrets: Vec::new(),
            fetch: None,
            cipher: None,
            parts: Parts {
                model: None,
                models: None,
                registry: tool::Registry::builtin(),
                tools: Vec::new(),
                hooks: None,
                guide: None,
                home: None,
                plugins: Vec::new(),
                ambient: AmbientPlugins::None,
                lent: Vec::new(),
                definitions: Definitions::default(),
                depth: 0,
                lender: None,
                callbacks: Vec::new(),
                on_delta: None,
                on_wait: None,
                updates: StateUpdates::Off,
                on_pause: OnPause::Hold,
                max_budget: None,
                thresholds: Some(Thresholds::default()),
            },
        }
    }
}

impl Builder {
    /// Sets the host whose store holds the conversation. Conversations of one file should share a host. Without a host
    /// and without a [`store`](Self::store), the conversation is in memory only.
    pub fn host(mut self, host: &Host) -> Self {
        self.host = Some(host.clone());
        self
    }

    /// Sets the store that holds the conversation, for a program with a single conversation.
    pub fn store(mut self, store: Store) -> Self {
        self.host = Some(Host::new(store));
        self
    }

    /// Sets the conversation's id. A stored conversation with this id is resumed. Without an id, it gets a new one.
    pub fn id(mut self, id: ConversationId) -> Self {
        self.id = Some(id);
        self
    }

    /// Sets the agent. If none is given, a resumed conversation keeps its own agent. An agent that is given to a
    /// resumed conversation must have the kind and every tool of the former agent.
    pub fn agent(mut self, agent: AgentDocument) -> Self {
        self.agent = Some(agent);
        self
    }

    /// Sets the folder to work in. It is made if it is missing. The default is `workspace/project`, and for
    /// [`Builder::load`] the folder that the conversation had.
    pub fn workspace(mut self, folder: impl Into<PathBuf>) -> Self {
        self.workspace = Some(folder.into());
        self
    }

    /// Sets the conversation's own folder for the files of tools, such as task lists and long outputs.
    pub fn keep_dir(mut self, folder: impl Into<PathBuf>) -> Self {
        self.keep_dir = Some(folder.into());
        self
    }

    /// Sets the agent's model. It replaces the model in the agent's settings.
    pub fn model(mut self, model: Arc<dyn Model>) -> Self {
        self.parts.model = Some(model);
        self
    }

    /// Sets the function that makes models from settings: of the agent, of condensers, and of models that the agent
    /// switches to. By default, a model is a client of the provider in its settings.
    pub fn models(mut self, maker: ModelMaker) -> Self {
        self.parts.models = Some(maker);
        self
    }

    /// Sets the registry that makes the tools in the agent's settings. The default has the built-in tools.
    pub fn registry(mut self, registry: tool::Registry) -> Self {
        self.parts.registry = registry;
        self
    }

    /// Adds a tool to the tools in the agent's settings.
    pub fn tool(mut self, tool: Arc<dyn Tool>) -> Self {
        self.parts.tools.push(tool);
        self
    }

    /// Sets the maximum number of steps of one run. The default is 500.
    pub fn max_iterations(mut self, steps: u64) -> Self {
        self.max_iterations = steps;
        self
    }

    /// Sets the maximum cost of all model calls together, in the price table's currency.
    pub fn max_budget(mut self, budget: f64) -> Self {
        self.parts.max_budget = Some(budget);
        self
    }

    /// Sets the limits of stuck detection. `None` switches it off.
    pub fn stuck_detection(mut self, thresholds: Option<Thresholds>) -> Self {
        self.parts.thresholds = thresholds;
        self
    }

    /// Sets which actions wait for the user's consent. Only for a new conversation; a stored one keeps its policy.
    pub fn confirmation_policy(mut self, policy: Policy) -> Self {
        self.policy = Some(policy);
        self
    }

    /// Sets the analyzer that judges risks. Only for a new conversation; a stored one keeps its analyzer.
    pub fn security_analyzer(mut self, analyzer: Analyzer) -> Self {
        self.analyzer = Some(analyzer);
        self
    }

    /// Sets the tags of a new conversation. Keys are lower-case letters and digits, values have at most 256 characters.
    pub fn tags(mut self, tags: Vec<(String, String)>) -> Self {
        self.tags = tags;
        self
    }

    /// Adds a secret. Replaces a secret of the same name.
    pub fn secret(mut self, name: impl Into<String>, source: Source) -> Self {
        self.secrets.push((name.into(), source));
        self
    }

    /// Sets the function that fetches secrets from a URL.
    pub fn fetch(mut self, fetch: Fetch) -> Self {
        self.fetch = Some(fetch);
        self
    }

    /// Sets the cipher that seals stored secrets. Without it, secrets are stored as stars and are lost when the process
    /// ends.
    pub fn cipher(mut self, cipher: Cipher) -> Self {
        self.cipher = Some(cipher);
        self
    }

    /// Sets the home folder of the user that the agent works for, with the user's own skills, memory, agents and
    /// plugins. Without it, the agent has none of them.
    pub fn home(mut self, folder: impl Into<PathBuf>) -> Self {
        self.parts.home = Some(folder.into());
        self
    }

    /// Adds plugins, in this order. If several plugins have an item of the same name, the last one is used. The hooks
    /// of all plugins run. Plugins are fetched with the first message or run. A resumed conversation gets the same
    /// plugins at the same commits again, without being given them again.
    pub fn plugins(mut self, plugins: impl IntoIterator<Item = PluginSource>) -> Self {
        self.parts.plugins.extend(plugins);
        self
    }

    /// Sets which plugins the conversation has without being given them. The default is none.
    pub fn ambient_plugins(mut self, ambient: AmbientPlugins) -> Self {
        self.parts.ambient = ambient;
        self
    }

    /// Adds agents that can be given tasks. Agents in files and built-in agents are also available, unless an agent
    /// given here has the same name.
    pub fn definitions(mut self, definitions: impl IntoIterator<Item = Definition>) -> Self {
        self.parts.definitions.fill(definitions);
        self
    }

    /// Takes over what a conversation that works for `parent` inherits from it.
    pub(in crate::conversation) fn below(mut self, parent: &Local) -> Self {
        let above = &parent.parts;
        self.parts.model.clone_from(&above.model);
        self.parts.models.clone_from(&above.models);
        self.parts.home.clone_from(&above.home);
        self.parts.ambient = above.ambient;
        self.parts.lent = parent.lent_servers();
        self.parts.definitions.clone_from(&above.definitions);
        self.parts.definitions.fill(parent.loaded().named.agents.iter().cloned());
        self.parts.thresholds = above.thresholds;
        self.parts.depth = above.depth + 1;
        self.parts.lender = Some(above.lender.clone().unwrap_or_else(|| parent.secrets.clone()));
        self
    }

    /// Sets the hooks: commands and questions to a model that run at certain points.
    pub fn hooks(mut self, hooks: hook::Config) -> Self {
        self.parts.hooks = Some(hooks);
        self
    }

    /// Sets the guide, which adds skills, rules and memory to what the model reads.
    pub fn guide(mut self, guide: Arc<dyn Guide>) -> Self {
        self.parts.guide = Some(guide);
        self
    }

    /// Adds a callback that receives every event after its commit, in order.
    pub fn callback(mut self, callback: Callback) -> Self {
        self.parts.callbacks.push(callback);
        self
    }

    /// Sets the callback that receives the pieces of replies as they arrive.
    pub fn on_delta(mut self, callback: DeltaCallback) -> Self {
        self.parts.on_delta = Some(callback);
        self
    }

    /// Sets the callback that receives the reason why a run waits: another process keeps the file locked. The run goes on
    /// when the lock is free.
    pub fn on_wait(mut self, callback: WaitCallback) -> Self {
        self.parts.on_wait = Some(callback);
        self
    }

    /// Sets whether changes of the base state become events, as at the reference's server.
    pub fn state_updates(mut self, updates: StateUpdates) -> Self {
        self.parts.updates = updates;
        self
    }

    /// Sets what happens to a step if the run is paused while the model is asked.
    pub fn on_pause(mut self, on_pause: OnPause) -> Self {
        self.parts.on_pause = on_pause;
        self
    }

    /// Opens the conversation: resumes the stored conversation with its id, or makes a new one. If a process ended in
    /// the middle of a run, the unanswered actions are now answered with errors.
    ///
    /// Nothing is run yet: tools, hooks and the model are made with the first message or run.
    ///
    /// # Errors
    /// [`ConversationError::NoAgent`] if a new conversation has no agent, [`ConversationError::Agent`] if the given
    /// agent may not resume the conversation, [`ConversationError::Workspace`] if the folder cannot be used, and the
    /// errors of the store.
    pub async fn open(self) -> Result<Conversation> {
        self.open_where(Missing::Make).await
    }

    /// Opens the stored conversation with this id, like [`Builder::open`]. It never makes a new one. If no folder is
    /// given, the conversation works in the folder that it had.
    ///
    /// # Errors
    /// [`crate::Error::UnknownConversation`] if there is no such conversation, and the errors of [`Builder::open`].
    pub async fn load(self) -> Result<Conversation> {
        self.open_where(Missing::Refuse).await
    }

    async fn open_where(mut self, missing: Missing) -> Result<Conversation> {
        if self.max_iterations == 0 {
            return Err(ConversationError::Limit { setting: "max_iterations" });
        }
        check_tags(&self.tags)?;
        let host = match &self.host {
            Some(host) => host.clone(),
            None => Host::new(Store::in_memory(&crate::Options::default())?),
        };
        let id = self.id.clone().unwrap_or_else(ConversationId::mint);
        let stored = load::stored(&host, &id).await?;
        if missing == Missing::Refuse {
            let unknown = || crate::Error::UnknownConversation { conversation: id.to_string() };
            let base = stored.as_ref().ok_or_else(unknown)?.base.as_ref();
            self.workspace = self.workspace.or_else(|| folder::left_in(&base?.1));
        }
        let working_dir = folder::make(self.workspace.as_deref())?;
        let sealing = Sealing { cipher: self.cipher.clone(), registry: Secrets::new(self.fetch.clone()) };
        let live = match stored {
            Some(stored) => self.resume(&host, &id, stored, &working_dir, sealing).await?,
            None => self.create(&host, &id, &working_dir, sealing).await?,
        };
        let local = Local::new(id, host, live, working_dir, self.keep_dir, self.parts);
        local.recover().await?;
        Ok(Conversation(local))
    }

    async fn create(
        &self,
        host: &Host,
        id: &ConversationId,
        working_dir: &Path,
        sealing: Sealing,
    ) -> Result<Live> {
        let agent = self.agent.clone().ok_or(ConversationError::NoAgent)?;
        sealing.registry.update(self.secrets.iter().cloned());
        let base = Base {
            persistence_dir: self.keep_dir.as_deref().map(text),
            max_iterations: self.max_iterations,
            stuck_detection: self.parts.thresholds.is_some(),
            policy: self.policy.clone().unwrap_or_default(),
            analyzer: self.analyzer.clone(),
            tags: self.tags.clone(),
            ..Base::new(agent, folder::workspace(working_dir))
        };
        let fields = base.written(id, &sealing);
        let change = BaseStateChange { expected: None, fields };
        let append =
            Append { expected: Expected::Empty, events: Vec::new(), base_state: Some(change), leaf: None };
        let named = id.clone();
        host.call(move |store| store.append_all(&named, append)).await?;
        let stored = load::stored(host, id).await?;
        let unknown = || crate::Error::UnknownConversation { conversation: id.to_string() };
        stored.ok_or_else(unknown)?.into_live(id, base, sealing, self.parts.updates)
    }

    async fn resume(
        &self,
        host: &Host,
        id: &ConversationId,
        stored: Stored,
        working_dir: &Path,
        sealing: Sealing,
    ) -> Result<Live> {
        let document = stored.base.as_ref().map(|(_, document)| document);
        let persisted = match document {
            Some(document) => {
                if let Some(registry) = document.field("secret_registry") {
                    // An unreadable secret does not prevent opening. It stays in the document until it is replaced.
                    let _ignored = sealing.registry.load(registry, sealing.cipher.as_ref());
                }
                Base::read(document, id, sealing.cipher.as_ref())?
            }
            None => None,
        };
        sealing.registry.update(self.secrets.iter().cloned());
        let mut base = match (persisted, &self.agent) {
            (Some(mut base), Some(agent)) => {
                agent.verify(&base.agent)?;
                base.agent = agent.clone();
                base
            }
            (Some(base), None) => base,
            // An import or the facade may leave events without a base state. The old log gets a new base state.
            (None, Some(agent)) => Base {
                policy: self.policy.clone().unwrap_or_default(),
                analyzer: self.analyzer.clone(),
                tags: self.tags.clone(),
                ..Base::new(agent.clone(), folder::workspace(working_dir))
            },
            (None, None) => return Err(ConversationError::NoAgent),
        };
        base.workspace = folder::workspace(working_dir);
        base.max_iterations = self.max_iterations;
        base.stuck_detection = self.parts.thresholds.is_some();
        base.persistence_dir = self.keep_dir.as_deref().map(text).or(base.persistence_dir);
        let before = document.cloned();
        let mut live = stored.into_live(id, base, sealing, self.parts.updates)?;
        let fields = live.base.written(id, &live.sealing);
        let is_new = |change: &FieldChange| live.sealing.is_new(before.as_ref(), change);
        let fields: Vec<FieldChange> = fields.into_iter().filter(is_new).collect();
        if !fields.is_empty() {
            let change = BaseStateChange { expected: before.is_some().then_some(live.version), fields };
            let named = id.clone();
            let version = host.call(move |store| store.save_base_state(&named, change)).await?;
            live.version = version;
        }
        Ok(live)
    }
}

impl Local {
    pub(in crate::conversation) fn new(
        id: ConversationId,
        host: Host,
        live: Live,
        working_dir: PathBuf,
        keep_dir: Option<PathBuf>,
        parts: Parts,
    ) -> Arc<Self> {
        let (shown, _) = watch::channel(Snapshot::of(&live));
        Arc::new_cyclic(|me| Self {
            id,
            host,
            me: me.clone(),
            tasks: Tasks::default(),
            secrets: live.sealing.registry.clone(),
            live: tokio::sync::Mutex::new(live),
            shown,
            working_dir,
            keep_dir,
            parts,
            plugins: RwLock::new(None),
            equipment: RwLock::new(None),
            running: Mutex::new(None),
            objections: Objections::default(),
            accounts: Mutex::default(),
            is_closed: std::sync::atomic::AtomicBool::new(false),
        })
    }
}

/// What to do if the conversation does not exist.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Missing {
    Make,
    Refuse,
}

fn text(path: &Path) -> Text {
    path.to_string_lossy().as_ref().into()
}
