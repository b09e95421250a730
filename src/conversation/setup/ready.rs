//! Prepares a conversation once, before the first message or run: plugins, tools, hooks, the system prompt.
//!
//! Order: plugins, tools, servers, the SessionStart hooks, the system prompt, the context from these hooks.
//!
//! Source: `docs/reference/runtime.md#getting-ready` and `docs/reference/runtime.md#system-prompt`.

use std::sync::Arc;

use super::acp;
use crate::agent::prompt::{self, Surroundings};
use crate::conversation::error::{ConversationError, Result};
use crate::conversation::local::{Equipment, Local};
use crate::conversation::memory::{Change, Live, PROMPT_WINDOW, common, note};
use crate::event::{Event, HookType, Json, Source, SystemPromptEvent, TextContent};
use crate::ids::Timestamp;

impl Local {
    /// Returns the conversation's model, tools and hooks. Makes them unless they exist.
    pub(in crate::conversation) async fn ready(&self) -> Result<Arc<Equipment>> {
        if let Some(equipment) = self.equipment() {
            return Ok(self.kept_up(&equipment).unwrap_or(equipment));
        }
        let mut live = self.lock().await?;
        self.ready_within(&mut live).await
    }

    /// Like `ready`, for a caller that holds the lock. Also updates the tools of servers that have changed them.
    pub(in crate::conversation) async fn ready_within(&self, live: &mut Live) -> Result<Arc<Equipment>> {
        if let Some(equipment) = self.equipment() {
            return Ok(self.kept_up(&equipment).unwrap_or(equipment));
        }
        self.refuse_closed()?;
        if acp::is_program(&live.base.agent) {
            return self.ready_program(live).await;
        }
        let plugins = self.load_plugins(live).await?;
        let (mut equipment, left_out) = self.make_equipment(&live.base.agent).await?;
        let mut problems = Vec::new();
        let servers = self.servers_of(&live.base.agent);
        if !servers.is_empty() {
            let (started, failed) = self.start_servers(servers).await?;
            equipment = equipment.with_servers(started);
            problems = failed;
        }
        if let Some(config) = self.hook_config() {
            live.set(Change::HookConfig(Json::parse(&config.to_json()).ok()));
        }
        let started = equipment.session(HookType::SessionStart).await;
        live.push_hooks(started.events);
        self.prompt(live, &equipment)?;
        if let Some(context) = started.context {
            live.push(note(Source::Environment, context));
        }
        self.push_left_out(live, &left_out, &problems).await;
        self.commit(live).await?;
        plugins.keep();
        Ok(self.equip(equipment))
    }

    /// Adds the system prompt, unless one of the first events is one.
    ///
    /// # Errors
    /// [`ConversationError::Unprompted`] if a user message is already there.
    fn prompt(&self, live: &mut Live, equipment: &Equipment) -> Result<()> {
        if live.is_prompted {
            return Ok(());
        }
        let agent = &live.base.agent;
        let is_from_user =
            |event: &Event| matches!(event, Event::Message(message) if message.common.source == Source::User);
        if live.tree.len() <= PROMPT_WINDOW && live.branch.recent().any(is_from_user) {
            return Err(ConversationError::Unprompted { conversation: self.id.clone() });
        }
        let secrets = self.secrets.infos().into_iter().map(|info| (info.name, info.description));
        let secrets: Vec<_> = secrets.collect();
        let time = agent.member("agent_context").is_some() || !secrets.is_empty();
        let guided = equipment.guide.as_ref().map(|guide| guide.surroundings()).unwrap_or_default();
        let around = Surroundings {
            suffix: Some(guided.suffix)
                .filter(|text| !text.is_empty())
                .unwrap_or_else(|| prompt::suffix(agent)),
            secrets,
            // The time to the minute: the first 16 characters of an event's timestamp.
            time: time.then(|| Timestamp::now().to_naive_local().chars().take(16).collect()),
            ..guided
        };
        let event = SystemPromptEvent {
            dynamic_context: prompt::own(&around).map(TextContent::new),
            ..SystemPromptEvent::new(
                common(Source::Agent),
                prompt::fixed(agent),
                equipment.toolbox.definitions(),
            )
        };
        live.push(event);
        Ok(())
    }

    pub(in crate::conversation) fn refuse_closed(&self) -> Result<()> {
        if self.is_closed.load(std::sync::atomic::Ordering::Acquire) {
            return Err(ConversationError::Closed { conversation: self.id.clone() });
        }
        Ok(())
    }
}
