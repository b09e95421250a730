//! The plugins of a conversation: the given ones, those that its agent's marketplaces load into every conversation, and
//! those found in folders.
//!
//! They are loaded once, before anything else is made. The contents of the first two kinds are stored in the agent, as
//! in the reference. Their commits are stored in `agent_state`, so a resumed conversation uses the same commits even if
//! their branches have moved. Folders are searched again each time. A `${NAME}` in a source is replaced by its value
//! only for fetching. Source: `docs/reference/extensions.md#plugins`, and the reference's behaviour.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, PoisonError};

use serde_json::Value;

use crate::agent::AgentDocument;
use crate::conversation::error::{ConversationError, Result};
use crate::conversation::local::{Loaded, Local};
use crate::conversation::memory::{Change, Live};
use crate::event::Json;
use crate::hook;
use crate::json::Raw;
use crate::plugin::{
    AmbientPlugins, Fetcher, Marketplaces, Merged, PATIENCE, Plugin, PluginProblem, PluginSource,
    Registration, Resolved, Server, available, data_root,
};
use crate::skill::{self, Skill};

/// The member of `agent_state` that records the loaded plugins.
pub(in crate::conversation) const RECORD: &str = "resolved_plugins";

impl Local {
    /// Returns the contents of the plugins. Empty before they are loaded.
    pub(in crate::conversation) fn loaded(&self) -> Arc<Loaded> {
        let loaded = self.plugins.read().unwrap_or_else(PoisonError::into_inner);
        loaded.clone().unwrap_or_default()
    }

    /// Sets the contents of the plugins, until the change that records them is committed or dropped.
    pub(super) fn set_loaded(&self, loaded: Loaded) -> Loading<'_> {
        let mut plugins = self.plugins.write().unwrap_or_else(PoisonError::into_inner);
        Loading { local: self, before: plugins.replace(Arc::new(loaded)), is_undone: true }
    }

    fn are_loaded(&self) -> bool {
        self.plugins.read().unwrap_or_else(PoisonError::into_inner).is_some()
    }

    /// Loads the plugins, unless they are already loaded, and records their contents. The caller commits the record and
    /// then keeps what is returned.
    pub(in crate::conversation) async fn load_plugins(&self, live: &mut Live) -> Result<Loading<'_>> {
        if self.are_loaded() {
            return Ok(Loading { local: self, before: None, is_undone: false });
        }
        let fetcher = self.fetcher();
        let (mut marketplaces, wrong) = self.marketplaces(&live.base.agent).await?;
        // A marketplace that cannot be fetched is left out, as in the reference.
        let (auto, skills, mut problems) = marketplaces.auto_loaded(&fetcher).await;
        problems.extend(wrong);
        let recorded = recorded(live);
        let mut wanted = self.parts.plugins.clone();
        if recorded.is_none() {
            wanted.splice(0..0, auto);
        }
        let mut loaded = Loaded { left_out: descriptions(&problems), ..Loaded::default() };
        let mut names: Vec<String> = Vec::new();
        for (source, known) in sources(recorded.unwrap_or_default(), wanted) {
            let (plugin, commit) = self.fetch_plugin(&source, &fetcher).await?;
            names.push(plugin.name().to_owned());
            loaded.named.add(&plugin);
            loaded.left_out.extend(descriptions(&plugin.problems));
            loaded.resolved.push(known.unwrap_or_else(|| Resolved::of(&source, commit)));
        }
        let (ambient, problems) = self.ambient_plugins().await?;
        loaded.left_out.extend(descriptions(&problems));
        for plugin in ambient.iter().filter(|plugin| !names.iter().any(|name| name == plugin.name())) {
            loaded.ambient.add(plugin);
            loaded.left_out.extend(descriptions(&plugin.problems));
        }
        if self.parts.depth > 0 {
            // The conversation of a task already gets the servers of its parent.
            loaded.ambient.servers.clear();
        }
        self.record(live, &skills, &loaded);
        Ok(self.set_loaded(loaded))
    }

    /// Records the contents and the commits of the plugins that have a source.
    pub(in crate::conversation) fn record(&self, live: &mut Live, skills: &[Skill], loaded: &Loaded) {
        let agent = with_skills(&live.base.agent, skills, &loaded.named.skills);
        let agent = with_servers(&agent, &loaded.named.servers);
        live.set(Change::Agent(agent));
        if !loaded.resolved.is_empty() {
            let resolved: Vec<Value> = loaded.resolved.iter().map(Resolved::to_json).collect();
            live.remember(vec![(RECORD, resolved.into())]);
        }
    }

    /// Returns the fetcher for plugins.
    pub(super) fn fetcher(&self) -> Fetcher {
        let mut fetcher = match &self.parts.home {
            Some(home) => Fetcher::of_home(home),
            None => Fetcher { cache: None, home: None, ..Fetcher::of_home(&PathBuf::new()) },
        };
        let own = || self.keep_dir.as_ref().map(|folder| folder.join("plugins"));
        fetcher.cache = fetcher.cache.or_else(own);
        Fetcher { patience: PATIENCE, ..fetcher }
    }

    /// Fetches and reads a plugin. Also returns its commit.
    pub(super) async fn fetch_plugin(
        &self,
        source: &PluginSource,
        fetcher: &Fetcher,
    ) -> Result<(Plugin, Option<String>)> {
        let (source, hidden) = self.expanded(source.clone()).await?;
        let fetched = fetcher.fetch(&source, &hidden).await?;
        let data = match &self.parts.home {
            Some(home) => Some(data_root(home)),
            None => self.keep_dir.as_ref().map(|folder| folder.join("plugin-data")),
        };
        let read = tokio::task::spawn_blocking(move || Plugin::read(&fetched.folder, data.as_deref()));
        let plugin = read.await.map_err(|_| ConversationError::Abandoned { what: "reading a plugin" })?;
        Ok((plugin?, fetched.commit))
    }

    /// Returns the marketplaces that an agent's settings register, with the values of secrets in their sources. Also
    /// returns the problems of registrations that cannot be used.
    pub(super) async fn marketplaces(
        &self,
        agent: &AgentDocument,
    ) -> Result<(Marketplaces, Vec<PluginProblem>)> {
        let context = agent.member("agent_context").filter(|context| context.is_object());
        let (mut registered, problems) = context.map(Registration::read_all).unwrap_or_default();
        let mut hidden = Vec::new();
        for registration in &mut registered {
            let (source, used) = self.expanded(registration.source.clone()).await?;
            registration.source = source;
            hidden.extend(used);
        }
        Ok((Marketplaces::new(registered).hiding(hidden), problems))
    }

    /// Replaces the names of secrets in a source by their values. Also returns these values. Only the secrets that the
    /// source names are resolved.
    async fn expanded(&self, source: PluginSource) -> Result<(PluginSource, Vec<String>)> {
        if source.references().is_empty() {
            return Ok((source, Vec::new()));
        }
        let mut values = HashMap::new();
        for name in source.references() {
            if let Some(secret) = self.secrets.value(&name).await {
                values.insert(name, secret.expose().to_owned());
            }
        }
        Ok(source.expanded(&|name| values.get(name).cloned()))
    }

    /// Returns the plugins found in folders, and the problems of those that are left out.
    async fn ambient_plugins(&self) -> Result<(Vec<Plugin>, Vec<PluginProblem>)> {
        let (home, project) = match self.parts.ambient {
            AmbientPlugins::None => return Ok((Vec::new(), Vec::new())),
            AmbientPlugins::Own => (self.parts.home.clone(), None),
            AmbientPlugins::All => (self.parts.home.clone(), Some(self.working_dir.clone())),
        };
        let found = tokio::task::spawn_blocking(move || available(home.as_deref(), project.as_deref()));
        found.await.map_err(|_| ConversationError::Abandoned { what: "looking for plugins" })
    }

    /// Returns the hooks: first the given ones, then those of plugins. `None` if there are none.
    pub(in crate::conversation) fn hook_config(&self) -> Option<hook::Config> {
        let loaded = self.loaded();
        let more = loaded.named.hooks.clone().and(&loaded.ambient.hooks);
        match &self.parts.hooks {
            None => (!more.is_empty()).then_some(more),
            Some(own) => Some(own.clone().ending_in(&more)),
        }
    }

    /// Returns the servers of the agent's settings, then those of the parent conversation and of plugins. A later
    /// server replaces an earlier one of the same name.
    pub(super) fn servers_of(&self, agent: &AgentDocument) -> Vec<Server> {
        let config = agent.member("mcp_config").filter(|config| config.is_object());
        let config = config.map(|config| {
            config.get("mcpServers").filter(|inner| inner.is_object() || inner.is_null()).unwrap_or(config)
        });
        let own = config.into_iter().flat_map(Raw::members).map(|(name, config)| Server {
            name: name.into_owned(),
            config: Json::from(config),
            is_literal: false,
        });
        let mut all = Merged { servers: own.collect(), ..Merged::default() };
        all.extend(&Merged { servers: self.lent_servers(), ..Merged::default() });
        all.servers
    }

    /// Returns the servers of the parent conversation's plugins and of this conversation's plugins.
    pub(in crate::conversation) fn lent_servers(&self) -> Vec<Server> {
        let loaded = self.loaded();
        let mut all = Merged { servers: self.parts.lent.clone(), ..Merged::default() };
        for servers in [&loaded.named.servers, &loaded.ambient.servers] {
            all.extend(&Merged { servers: servers.clone(), ..Merged::default() });
        }
        all.servers
    }
}

/// The contents of plugins before the change that records them is committed. Dropping it takes them back, as the change
/// is dropped then, so that they are loaded and recorded again.
#[must_use = "dropping it takes the plugins back"]
pub(in crate::conversation) struct Loading<'a> {
    local: &'a Local,
    /// What was loaded before.
    before: Option<Arc<Loaded>>,
    is_undone: bool,
}

impl Loading<'_> {
    /// Keeps the contents, because the record is committed.
    pub fn keep(mut self) {
        self.is_undone = false;
    }
}

impl Drop for Loading<'_> {
    fn drop(&mut self) {
        if self.is_undone {
            *self.local.plugins.write().unwrap_or_else(PoisonError::into_inner) = self.before.take();
        }
    }
}

/// Returns problems as texts.
pub(super) fn descriptions(problems: &[PluginProblem]) -> Vec<String> {
    problems.iter().map(ToString::to_string).collect()
}

/// Returns the plugins that were recorded when they were last loaded. `None` if there is no such record.
fn recorded(live: &Live) -> Option<Vec<Resolved>> {
    let state = live.base.agent_state.to_value();
    let list = state.get(RECORD)?.as_array()?;
    Some(list.iter().filter_map(Resolved::of_json).collect())
}

/// Returns the sources to fetch: first the recorded plugins at their commits, then the new ones. If a recorded source
/// is given again, the given text is used, because it may contain credentials.
fn sources(recorded: Vec<Resolved>, mut wanted: Vec<PluginSource>) -> Vec<(PluginSource, Option<Resolved>)> {
    let mut sources = Vec::new();
    for known in recorded {
        let pinned = known.pinned();
        let source = match wanted.iter().position(|source| known.is_of(source)) {
            Some(place) => PluginSource { source: wanted.remove(place).source, ..pinned },
            None => pinned,
        };
        sources.push((source, Some(known)));
    }
    sources.extend(wanted.into_iter().map(|source| (source, None)));
    sources
}

/// Returns the agent with skills added to its context. A skill in `more` is added only if its name is new. A skill in
/// `plugins` replaces an existing one of its name.
fn with_skills(agent: &AgentDocument, more: &[Skill], plugins: &[Skill]) -> AgentDocument {
    if more.is_empty() && plugins.is_empty() {
        return agent.clone();
    }
    let context = agent.member("agent_context").filter(|context| context.is_object());
    let mut context = context.map_or_else(|| serde_json::json!({}), |context| Json::from(context).to_value());
    let mut skills = match context.get_mut("skills").map(Value::take) {
        Some(Value::Array(skills)) => skills,
        Some(_) | None => Vec::new(),
    };
    let place = |skills: &[Value], name: &str| skills.iter().position(|known| known["name"] == name);
    for skill in more {
        if place(&skills, &skill.name).is_none() {
            skills.push(skill::written(skill));
        }
    }
    for skill in plugins {
        match place(&skills, &skill.name) {
            Some(place) => skills[place] = skill::written(skill),
            None => skills.push(skill::written(skill)),
        }
    }
    context["skills"] = skills.into();
    agent.with("agent_context", Some(&Json::from(&context)))
}

/// Returns the agent with these servers in its `mcp_config`.
fn with_servers(agent: &AgentDocument, servers: &[Server]) -> AgentDocument {
    if servers.is_empty() {
        return agent.clone();
    }
    let config = agent.member("mcp_config").map(|config| Json::from(config).to_value());
    let mut config = match config {
        Some(Value::Object(mut config)) => match config.remove("mcpServers") {
            Some(Value::Object(inner)) => inner,
            Some(_) | None => config,
        },
        Some(_) | None => serde_json::Map::new(),
    };
    config.extend(servers.iter().map(|server| (server.name.clone(), server.config.to_value())));
    agent.with("mcp_config", Some(&Json::from(&Value::Object(config))))
}
