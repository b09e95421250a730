//! Getting ready, once, before the first message or run: hooks, tools, the system prompt.
//!
//! Order: plugins, the hooks' settings and what they say of the session, tools, the system prompt, the session's context.
//! Source: `runtime.md` sections 0 and 3.4.

use std::sync::Arc;

use super::base::Change;
use super::equip::Equipment;
use super::live::{Live, PROMPT_WINDOW, common, note};
use super::{ConversationError, Local, Result, acp};
use crate::agent::prompt::{self, Surroundings};
use crate::event::{Event, HookType, Json, Source, SystemPromptEvent, TextContent};
use crate::ids::Timestamp;

impl Local {
    /// Everything the conversation runs with; made now where it was not yet.
    pub(super) async fn ready(&self) -> Result<Arc<Equipment>> {
        if let Some(equipment) = self.equipment() {
            return Ok(equipment);
        }
        let mut live = self.lock().await?;
        self.ready_within(&mut live).await
    }

    /// The same for somebody who holds the conversation.
    pub(super) async fn ready_within(&self, live: &mut Live) -> Result<Arc<Equipment>> {
        if let Some(equipment) = self.equipment() {
            return Ok(self.kept_up(&equipment).unwrap_or(equipment));
        }
        self.refuse_closed()?;
        if acp::is_program(&live.base.agent) {
            return self.ready_program(live).await;
        }
        self.load_plugins(live).await?;
        let mut equipment = self.make_equipment(&live.base.agent).await?;
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
        self.push_problems(live, problems);
        self.commit(live).await?;
        Ok(self.equip(equipment))
    }

    /// Tells the model what it is, unless one of the first events does so already.
    fn prompt(&self, live: &mut Live, equipment: &Equipment) -> Result<()> {
        if live.is_prompted {
            return Ok(());
        }
        let agent = &live.base.agent;
        let said =
            |event: &Event| matches!(event, Event::Message(said) if said.common.source == Source::User);
        if live.tree.len() <= PROMPT_WINDOW && live.branch.recent().any(said) {
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
            // To the minute: the beginning of the time that events bear.
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

    pub(super) fn refuse_closed(&self) -> Result<()> {
        if self.is_closed.load(std::sync::atomic::Ordering::Acquire) {
            return Err(ConversationError::Closed { conversation: self.id.clone() });
        }
        Ok(())
    }
}
