//! Making a conversation, or going on with one.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, RwLock};

use tokio::sync::watch;

use super::base::{Base, Sealing};
use super::folder;
use super::live::{Live, OnPause, StateUpdates};
use super::load::{self, Stored};
use super::objection::Objections;
use super::tags::check_tags;
use super::task::Tasks;
use super::{Callback, Conversation, ConversationError, DeltaCallback, Guide, Host, Local, Result, Snapshot};
use crate::agent::definition::{Definition, Definitions};
use crate::agent::{AgentDocument, Analyzer, Policy};
use crate::error::Expected;
use crate::event::Text;
use crate::hook;
use crate::ids::ConversationId;
use crate::llm::{LlmError, Model, Settings};
use crate::plugin::{AmbientPlugins, PluginSource, Server};
use crate::secret::registry::Fetch;
use crate::secret::{Cipher, Registry as Secrets, Source};
use crate::state::base::FieldChange;
use crate::store::{Append, BaseStateChange, Store};
use crate::stuck::Thresholds;
use crate::tool::{self, Tool};

/// Makes the client of a model from its settings, whose secrets are open.
pub type ModelMaker = Arc<dyn Fn(&Settings) -> Result<Arc<dyn Model>, LlmError> + Send + Sync>;

/// How a conversation is opened; see [`Conversation::builder`].
#[must_use]
pub struct Builder {
    pub(super) host: Option<Host>,
    pub(super) id: Option<ConversationId>,
    pub(super) agent: Option<AgentDocument>,
    workspace: Option<PathBuf>,
    pub(super) keep_dir: Option<PathBuf>,
    pub(super) max_iterations: u64,
    pub(super) policy: Option<Policy>,
    pub(super) analyzer: Option<Analyzer>,
    pub(super) tags: Vec<(String, String)>,
    pub(super) secrets: Vec<(String, Source)>,
    fetch: Option<Fetch>,
    pub(super) cipher: Option<Cipher>,
    pub(super) parts: Parts,
}

/// What a conversation is made of that is not written down.
#[derive(Clone)]
pub(super) struct Parts {
    pub model: Option<Arc<dyn Model>>,
    pub models: Option<ModelMaker>,
    pub registry: tool::Registry,
    pub tools: Vec<Arc<dyn Tool>>,
    pub hooks: Option<hook::Config>,
    pub guide: Option<Arc<dyn Guide>>,
    /// A person's folder, where there is one.
    pub home: Option<PathBuf>,
    /// The plugins that it was given.
    pub plugins: Vec<PluginSource>,
    /// Which plugins it has without being given them.
    pub ambient: AmbientPlugins,
    /// The servers that plugins bring to the conversation above.
    pub lent: Vec<Server>,
    /// The agents that can be given tasks, beside those of files.
    pub definitions: Definitions,
    /// How many conversations stand above this one.
    pub depth: usize,
    /// The secrets of the conversation above, for servers that both have and for masking.
    pub lender: Option<Secrets>,
    pub callbacks: Vec<Callback>,
    pub on_delta: Option<DeltaCallback>,
    pub updates: StateUpdates,
    pub on_pause: OnPause,
    pub max_budget: Option<f64>,
    /// `None` where nobody looks for circles.
    pub thresholds: Option<Thresholds>,
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
                updates: StateUpdates::Off,
                on_pause: OnPause::Hold,
                max_budget: None,
                thresholds: Some(Thresholds::default()),
            },
        }
    }
}

impl Builder {
    /// Where the conversation is kept. Several conversations of one file share a host; without one, and without a
    /// [`store`](Self::store), it is kept in memory only.
    pub fn host(mut self, host: &Host) -> Self {
        self.host = Some(host.clone());
        self
    }

    /// Where the conversation is kept, for a program with one of them.
    pub fn store(mut self, store: Store) -> Self {
        self.host = Some(Host::new(store));
        self
    }

    /// Which conversation: one that is there is gone on with, any other is new. A new id where none is given.
    pub fn id(mut self, id: ConversationId) -> Self {
        self.id = Some(id);
        self
    }

    /// The agent. One that is gone on with keeps its own where none is given; one that is given must have
    /// every tool that the model was told of.
    pub fn agent(mut self, agent: AgentDocument) -> Self {
        self.agent = Some(agent);
        self
    }

    /// The folder to work in, made where it is not there; `workspace/project` where none is given, and for [`Builder::load`]
    /// the one that the conversation had.
    pub fn workspace(mut self, folder: impl Into<PathBuf>) -> Self {
        self.workspace = Some(folder.into());
        self
    }

    /// The conversation's own folder for what tools keep: task lists, long outputs.
    pub fn keep_dir(mut self, folder: impl Into<PathBuf>) -> Self {
        self.keep_dir = Some(folder.into());
        self
    }

    /// The model to ask, whatever the agent's settings say.
    pub fn model(mut self, model: Arc<dyn Model>) -> Self {
        self.parts.model = Some(model);
        self
    }

    /// What makes models from settings: the agent's, the condenser's, and those that are switched to. Without it they
    /// are clients of the providers that the settings name.
    pub fn models(mut self, maker: ModelMaker) -> Self {
        self.parts.models = Some(maker);
        self
    }

    /// What makes the tools that the agent's settings name; the built-in ones where none is given.
    pub fn registry(mut self, registry: tool::Registry) -> Self {
        self.parts.registry = registry;
        self
    }

    /// A tool beside those that the agent's settings name.
    pub fn tool(mut self, tool: Arc<dyn Tool>) -> Self {
        self.parts.tools.push(tool);
        self
    }

    /// The most steps of one run; 500 where none is given.
    pub fn max_iterations(mut self, steps: u64) -> Self {
        self.max_iterations = steps;
        self
    }

    /// The most that all model calls together may cost, in the price table's currency.
    pub fn max_budget(mut self, budget: f64) -> Self {
        self.parts.max_budget = Some(budget);
        self
    }

    /// When the agent is found to go in circles; `None` for never.
    pub fn stuck_detection(mut self, thresholds: Option<Thresholds>) -> Self {
        self.parts.thresholds = thresholds;
        self
    }

    /// Which actions wait for a person. Of a new conversation; one that is there keeps its own.
    pub fn confirmation_policy(mut self, policy: Policy) -> Self {
        self.policy = Some(policy);
        self
    }

    /// Who judges risks. Of a new conversation; one that is there keeps its own.
    pub fn security_analyzer(mut self, analyzer: Analyzer) -> Self {
        self.analyzer = Some(analyzer);
        self
    }

    /// Tags of a new conversation: lower-case letters and digits, values of at most 256 characters.
    pub fn tags(mut self, tags: Vec<(String, String)>) -> Self {
        self.tags = tags;
        self
    }

    /// A secret, in the place of one that is there by that name.
    pub fn secret(mut self, name: impl Into<String>, source: Source) -> Self {
        self.secrets.push((name.into(), source));
        self
    }

    /// How secrets are looked up.
    pub fn fetch(mut self, fetch: Fetch) -> Self {
        self.fetch = Some(fetch);
        self
    }

    /// What seals secrets for the disk. Without it they are kept as stars and are lost with the process.
    pub fn cipher(mut self, cipher: Cipher) -> Self {
        self.cipher = Some(cipher);
        self
    }

    /// The folder of the person that the agent works for, where their own skills, memory, agents and plugins are.
    /// Without it there are none.
    pub fn home(mut self, folder: impl Into<PathBuf>) -> Self {
        self.parts.home = Some(folder.into());
        self
    }

    /// Plugins, in this order: of what several bring under one name the last counts, and hooks are all asked. They are
    /// fetched with the first message or run; going on with the conversation has the same commits again, without being
    /// given them again.
    pub fn plugins(mut self, plugins: impl IntoIterator<Item = PluginSource>) -> Self {
        self.parts.plugins.extend(plugins);
        self
    }

    /// Which plugins the conversation has without being given them; none where nobody says.
    pub fn ambient_plugins(mut self, ambient: AmbientPlugins) -> Self {
        self.parts.ambient = ambient;
        self
    }

    /// Agents that can be given tasks. Those of files, and those that come with Annals, are there too, where these have
    /// none of their names.
    pub fn definitions(mut self, definitions: impl IntoIterator<Item = Definition>) -> Self {
        self.parts.definitions.fill(definitions);
        self
    }

    /// A conversation that works for another.
    pub(super) fn below(mut self, parent: &Local) -> Self {
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

    /// Commands and questions to run at certain points.
    pub fn hooks(mut self, hooks: hook::Config) -> Self {
        self.parts.hooks = Some(hooks);
        self
    }

    /// Somebody who adds to what the model reads: skills, rules, memory.
    pub fn guide(mut self, guide: Arc<dyn Guide>) -> Self {
        self.parts.guide = Some(guide);
        self
    }

    /// Somebody who hears every event once it is committed, after those that came before.
    pub fn callback(mut self, callback: Callback) -> Self {
        self.parts.callbacks.push(callback);
        self
    }

    /// Somebody who hears the pieces of replies on their way.
    pub fn on_delta(mut self, callback: DeltaCallback) -> Self {
        self.parts.on_delta = Some(callback);
        self
    }

    /// Whether changes of the base state become events, as the reference's server has it.
    pub fn state_updates(mut self, updates: StateUpdates) -> Self {
        self.parts.updates = updates;
        self
    }

    /// What becomes of a step whose model is asked while somebody pauses the run.
    pub fn on_pause(mut self, on_pause: OnPause) -> Self {
        self.parts.on_pause = on_pause;
        self
    }

    /// Opens the conversation: makes it where there is none of its id, and goes on with it where there is. What
    /// a process left unfinished that ended in the middle of a run is answered then.
    ///
    /// Nothing is run yet: tools, hooks and the model are made with the first message or run.
    ///
    /// # Errors
    /// [`ConversationError::NoAgent`] for a new conversation without one, [`ConversationError::Agent`] where the
    /// given one may not go on with it, [`ConversationError::Workspace`], and what the store can meet.
    pub async fn open(self) -> Result<Conversation> {
        self.open_where(Missing::Make).await
    }

    /// Opens the conversation of this id as it was left: as [`Builder::open`], but it makes none, and where no folder is given
    /// it works in the one that it had.
    ///
    /// # Errors
    /// [`crate::Error::UnknownConversation`] where there is none, and as [`Builder::open`].
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
            Append { expected: Expected::Empty, events: Vec::new(), base_state: Some(change), head: None };
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
                    // A source that cannot be read hides no conversation: it stays in the document until it is replaced.
                    let _unreadable = sealing.registry.load(registry, sealing.cipher.as_ref());
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
            // Events alone, as an import or the facade leaves them: a new base state for an old log.
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
    pub(super) fn new(
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

/// What is to happen where there is no conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Missing {
    Make,
    Refuse,
}

fn text(path: &Path) -> Text {
    path.to_string_lossy().as_ref().into()
}
