//! Loads a further plugin into an open conversation.

use std::sync::Arc;

use super::plugins::descriptions;
use crate::conversation::error::{ConversationError, Result};
use crate::conversation::local::{Conversation, Equipment, Guide, Local};
use crate::conversation::memory::{Change, Live, note};
use crate::event::{HookType, Json, Source};
use crate::plugin::{Plugin, Resolved};

impl Conversation {
    /// Loads a plugin from the marketplaces in the agent's `registered_marketplaces`. `reference` is `name` or
    /// `name@marketplace`. The plugin's contents are available from the next step on. Existing tools keep their state.
    ///
    /// # Errors
    /// [`ConversationError::NoMarketplace`] if no marketplace is registered, [`ConversationError::Plugin`] if the
    /// plugin cannot be fetched or read, and the errors of the store.
    pub async fn load_plugin(&self, reference: &str) -> Result<()> {
        let local = &self.0;
        local.refuse_closed()?;
        let mut live = local.lock_between().await?;
        let plugins = local.load_plugins(&mut live).await?;
        let (mut marketplaces, _) = local.marketplaces(&live.base.agent).await?;
        if marketplaces.is_empty() {
            let has_context = live.base.agent.member("agent_context").is_some();
            return Err(ConversationError::NoMarketplace { has_context });
        }
        let fetcher = local.fetcher();
        let source = marketplaces.resolve(reference, &fetcher).await?;
        let (plugin, commit) = local.fetch_plugin(&source, &fetcher).await?;
        let mut loaded = (*local.loaded()).clone();
        loaded.named.add(&plugin);
        loaded.left_out.extend(descriptions(&plugin.problems));
        loaded.resolved.push(Resolved::of(&source, commit));
        local.record(&mut live, &[], &loaded);
        let added = local.set_loaded(loaded);
        let equipment = local.equipment();
        let plugged = match &equipment {
            Some(equipment) => Some(local.plug(&mut live, equipment, &plugin).await?),
            None => None,
        };
        local.commit(&mut live).await?;
        added.keep();
        plugins.keep();
        if let (Some(old), Some(new)) = (equipment, plugged) {
            if let Some(hooks) = old.hooks.as_ref().filter(|_| has_hooks(&plugin)) {
                hooks.close();
            }
            drop(local.equip(new));
        }
        Ok(())
    }

    /// Returns the sources and commits of the loaded plugins, except those found in folders. Empty before the first
    /// message or run.
    #[must_use]
    pub fn resolved_plugins(&self) -> Vec<Resolved> {
        self.0.loaded().resolved.clone()
    }
}

impl Local {
    /// Returns a copy of `equipment` with the contents of the plugin added. If the plugin has hooks, the hooks of
    /// `equipment` have to be closed once the copy is used.
    async fn plug(&self, live: &mut Live, equipment: &Equipment, plugin: &Plugin) -> Result<Equipment> {
        let mut new = equipment.clone();
        if let Some(guided) = self.shelf(&live.base.agent, self.loaded().ambient.skills.clone()).await? {
            self.give_skills(&mut new.toolbox, &guided)?;
            if self.parts.guide.is_none() {
                new.guide = Some(guided as Arc<dyn Guide>);
            }
        }
        let mut problems = Vec::new();
        if !plugin.servers.is_empty() && new.acp.is_none() {
            problems = self.more_servers(&mut new, plugin.servers.clone()).await?;
        }
        self.push_more_left_out(live, &descriptions(&plugin.problems), &problems).await;
        new.show();
        if has_hooks(plugin) {
            // The hooks so far are notified of the end of a session, as in the reference.
            live.push_hooks(equipment.session(HookType::SessionEnd).await.events);
            new.hooks = self.make_hooks(&new.model);
            if let Some(config) = self.hook_config() {
                live.set(Change::HookConfig(Json::parse(&config.to_json()).ok()));
            }
            let started = new.session(HookType::SessionStart).await;
            live.push_hooks(started.events);
            if let Some(context) = started.context {
                live.push(note(Source::Environment, context));
            }
        }
        Ok(new)
    }
}

fn has_hooks(plugin: &Plugin) -> bool {
    plugin.hooks.as_ref().is_some_and(|hooks| !hooks.is_empty())
}
