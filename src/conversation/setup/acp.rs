//! A conversation whose agent is a program that speaks the Agent Client Protocol.
//!
//! The program starts with the first run, not with the first message. It has its own tools and its own memory. Events
//! report what it does. In each turn it receives one message of the user or of a Stop hook. Its permission requests are
//! granted without asking a policy. Source: `docs/reference/acp.md`.

use std::sync::Arc;

use serde_json::{Map, Value, json};
use tokio::sync::Mutex;

use crate::agent::AgentDocument;
use crate::agent::acp::{AcpError, AcpSettings, KIND, Peer, Start};
use crate::agent::prompt;
use crate::conversation::error::{ConversationError, Result};
use crate::conversation::local::{Acp, Equipment, Guide, Local, Program};
use crate::conversation::memory::{Change, Live, common};
use crate::event::{
    ConversationErrorEvent, Event, HookType, Json, Message, Source, SystemPromptEvent, TextContent,
};
use crate::llm::{Boxed, Call, LlmError, Model, Reply, Request, ToolSchema};
use crate::state::ExecutionStatus;

/// The text of the system prompt event. The program's own prompt is not known.
const PROMPT: &str = "This conversation is powered by an ACP server. The system prompt and tools are managed by the ACP \
                      server and are not available for display.";

/// The usage id of a program's costs.
pub(in crate::conversation) const USAGE_ID: &str = "acp-managed";

/// Returns whether the agent is a program.
pub(in crate::conversation) fn is_program(agent: &AgentDocument) -> bool {
    &*agent.kind() == KIND
}

impl Local {
    /// Makes the equipment of a conversation with a program: the hooks, and the program with its session.
    pub(super) async fn ready_program(&self, live: &mut Live) -> Result<Arc<Equipment>> {
        let plugins = self.load_plugins(live).await?;
        let (mut equipment, left_out) = self.make_equipment(&live.base.agent).await?;
        if let Some(config) = self.hook_config() {
            live.set(Change::HookConfig(Json::parse(&config.to_json()).ok()));
        }
        let started = equipment.session(HookType::SessionStart).await;
        live.push_hooks(started.events);
        let begun = match AcpSettings::read(&live.base.agent) {
            Ok(Some(settings)) => self.begin_program(live, settings).await,
            Ok(None) => Err(AcpError::NoCommand),
            Err(error) => Err(error),
        };
        match begun {
            Ok(acp) => {
                if !live.is_prompted {
                    let suffix = acp.suffix.clone().map(TextContent::new);
                    let event = SystemPromptEvent::new(common(Source::Agent), PROMPT, Vec::new());
                    live.push(SystemPromptEvent { dynamic_context: suffix, ..event });
                }
                equipment.acp = Some(Arc::new(acp));
            }
            Err(error) => {
                live.set(Change::Status(ExecutionStatus::Error));
                let detail = self.masked(&error.detail());
                live.push(ConversationErrorEvent::new(common(Source::Agent), error.startup_code(), detail));
                self.commit(live).await?;
                plugins.keep();
                return Err(error.into());
            }
        }
        self.push_left_out(live, &left_out, &[]).await;
        self.commit(live).await?;
        plugins.keep();
        Ok(self.equip(equipment))
    }

    async fn begin_program(
        &self,
        live: &mut Live,
        settings: AcpSettings,
    ) -> std::result::Result<Acp, AcpError> {
        let acp = Acp { suffix: self.program_suffix(live).await, settings, running: Mutex::new(None) };
        let running = self.run_program(live, &acp.settings).await?;
        *acp.running.lock().await = Some(running);
        Ok(acp)
    }

    /// Starts the program and its session, and records the session in the agent's state.
    ///
    /// # Errors
    /// [`AcpError::StartupTimeout`] if the start takes too long.
    pub(in crate::conversation) async fn run_program(
        &self,
        live: &mut Live,
        settings: &AcpSettings,
    ) -> std::result::Result<Program, AcpError> {
        let state = live.base.agent_state.to_value();
        let cwd = self.working_dir.to_string_lossy().into_owned();
        // Programs keep sessions by folder, so a session of another folder cannot be loaded.
        let recorded = state["acp_session_id"].as_str().filter(|_| state["acp_session_cwd"] == cwd.as_str());
        let prior = settings.resume.as_deref().or(recorded);
        let names: Vec<String> = self.secrets.infos().into_iter().map(|info| info.name).collect();
        let env = self.secrets.for_command(&names.join(" ")).await;
        let start = Start { working_dir: self.working_dir.clone(), env };
        let servers = self.servers_of(&live.base.agent).into_iter();
        let servers: Map<String, Value> =
            servers.map(|server| (server.name, server.config.to_value())).collect();
        let startup = async {
            let peer = Peer::start(settings, &start)?;
            let handshake = peer.shake_hands().await?;
            let servers = AcpSettings::servers(&Value::Object(servers.clone()), handshake.takes_http);
            let prior = prior.filter(|_| handshake.can_load);
            let session = peer.session(prior, &cwd, &servers).await?;
            let id = &session.id;
            if let Some(model) = &settings.model {
                let options = session.answer["configOptions"].as_array();
                let by_option =
                    options.is_some_and(|options| options.iter().any(|option| option["id"] == "model"));
                let by_option =
                    by_option || (session.is_resumed && state["acp_model_via_config_option"] == true);
                if by_option {
                    let params = json!({"sessionId": id, "configId": "model", "value": model});
                    peer.request("session/set_config_option", params).await?;
                } else if session.answer.get("models").is_some_and(|models| !models.is_null()) {
                    peer.request("session/set_model", json!({"sessionId": id, "modelId": model})).await?;
                }
            }
            if let Some(mode) = &settings.session_mode {
                peer.request("session/set_mode", json!({"sessionId": id, "modeId": mode})).await?;
            }
            Ok((peer, handshake, session))
        };
        let limit = settings.startup_timeout;
        let begun = tokio::time::timeout(limit, startup).await;
        let (peer, handshake, session) =
            begun.map_err(|_| AcpError::StartupTimeout(limit.as_secs_f64()))??;
        let models = &session.answer["models"];
        let mut set = vec![
            ("acp_agent_name", handshake.name.into()),
            ("acp_agent_version", handshake.version.into()),
            ("acp_session_id", session.id.as_str().into()),
            ("acp_session_cwd", cwd.into()),
            ("acp_supports_runtime_model_switch", (!models.is_null()).into()),
            ("acp_model_via_config_option", session.answer["configOptions"].is_array().into()),
        ];
        if let Some(model) = models["currentModelId"].as_str() {
            set.push(("acp_current_model_id", settings.model.as_deref().unwrap_or(model).into()));
        }
        if !session.is_resumed {
            set.push(("acp_suffix_installed", Value::Null));
        }
        live.remember(set);
        Ok(Program { peer, session: session.id, cost: 0.0 })
    }

    /// Returns the program's text about this conversation: skills, secrets, and additions of the agent's settings.
    async fn program_suffix(&self, live: &Live) -> Option<String> {
        let agent = &live.base.agent;
        let guided = self.shelf(agent, self.loaded().ambient.skills.clone()).await.ok().flatten();
        let around = guided.map(|guided| Guide::surroundings(&*guided)).unwrap_or_default();
        let secrets = self.secrets.infos().into_iter().map(|info| (info.name, info.description)).collect();
        prompt::own(&prompt::Surroundings { secrets, ..around })
    }

    pub(in crate::conversation) fn masked(&self, text: &str) -> String {
        self.secrets.mask_known().apply(text).into_owned()
    }
}

impl Live {
    /// Sets members of the agent's state. Null removes a member.
    pub(in crate::conversation) fn remember(&mut self, set: Vec<(&str, Value)>) {
        let mut state = match self.base.agent_state.to_value() {
            Value::Object(members) => members,
            _ => Map::new(),
        };
        for (name, value) in set {
            match value {
                Value::Null => drop(state.remove(name)),
                value => drop(state.insert(name.to_owned(), value)),
            }
        }
        self.set(Change::AgentState(Json::from(&Value::Object(state))));
    }
}

/// The model of an agent that is a program. It rejects every request.
pub(super) struct NoModel;

impl Model for NoModel {
    fn name(&self) -> &str {
        USAGE_ID
    }

    fn usage_id(&self) -> &str {
        USAGE_ID
    }

    fn has_vision(&self) -> bool {
        true
    }

    fn input_tokens_max(&self) -> Option<u64> {
        None
    }

    fn count_tokens(&self, _: &[Message], _: &[ToolSchema]) -> u64 {
        0
    }

    fn complete<'a>(&'a self, _: Request, _: Call<'a>) -> Boxed<'a, std::result::Result<Reply, LlmError>> {
        let error =
            LlmError::BadRequest("the agent is a separate program; there is no model to ask".to_owned());
        Box::pin(std::future::ready(Err(error)))
    }
}

/// Returns whether the program must answer the event.
pub(in crate::conversation) fn is_prompt(event: &Event) -> bool {
    let Event::Message(message) = event else { return false };
    match message.common.source {
        Source::User => true,
        Source::Environment => message
            .llm_message
            .content
            .first()
            .and_then(|part| part.as_text())
            .is_some_and(|text| text.starts_with("[Stop hook feedback]")),
        _ => false,
    }
}

impl From<AcpError> for ConversationError {
    fn from(error: AcpError) -> Self {
        Self::Acp(error)
    }
}
