//! What a conversation runs with: its model, its tools, its hooks. Made once, with the first message or run.

use std::sync::{Arc, PoisonError};

use super::{ConversationError, Local, Result, servers};
use crate::agent::AgentDocument;
use crate::agent::condenser::{self, Kind, Summariser};
use crate::event::json::Raw;
use crate::hook;
use crate::llm::{LlmError, Model, Settings, ToolSchema};
use crate::tool::mcp::Servers;
use crate::tool::{Making, RiskField, Spec, Tool, Toolbox};

/// What a conversation runs with.
#[derive(Clone)]
pub(super) struct Equipment {
    pub model: Arc<dyn Model>,
    pub toolbox: Toolbox,
    /// The tools, in the order the model is told of them.
    pub tools: Vec<Arc<dyn Tool>>,
    /// The tools as the model is shown them in a run.
    pub schemas: Vec<ToolSchema>,
    pub hooks: Option<Arc<hook::Hooks>>,
    /// Who makes a view shorter, in the order in which they are tried.
    pub condensers: Vec<Summariser>,
    /// How many tools may run at once.
    pub tools_at_once: usize,
    /// The servers that some of the tools are of.
    pub servers: Option<Arc<Servers>>,
    /// How often their tools have changed until now.
    pub servers_count: u64,
    /// What a tool's name has to match, but for those that every agent has.
    pub filter: Option<regex::Regex>,
}

impl Equipment {
    /// Shows the model the tools that are there.
    pub fn show(&mut self) {
        self.tools = self.toolbox.iter().cloned().collect();
        self.schemas = self.toolbox.schemas(RiskField::Asked);
    }
}

impl Local {
    /// What it runs with, where it was made.
    pub(super) fn equipment(&self) -> Option<Arc<Equipment>> {
        self.equipment.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn equip(&self, equipment: Equipment) -> Arc<Equipment> {
        let equipment = Arc::new(equipment);
        *self.equipment.write().unwrap_or_else(PoisonError::into_inner) = Some(Arc::clone(&equipment));
        equipment
    }

    /// Makes the model that `llm` describes, or answers the one that was given.
    pub(super) fn make_model(&self, llm: Option<Raw<'_>>) -> Result<Arc<dyn Model>> {
        if let Some(model) = &self.parts.model {
            return Ok(Arc::clone(model));
        }
        let llm = llm.ok_or_else(|| LlmError::BadRequest("the agent has no model".to_owned()))?;
        let settings = Settings::from_raw(llm).map_err(|error| LlmError::BadRequest(error.to_string()))?;
        self.make_model_of(&settings)
    }

    fn make_model_of(&self, settings: &Settings) -> Result<Arc<dyn Model>> {
        Ok(match &self.parts.models {
            Some(maker) => maker(settings)?,
            None => Arc::new(self.host.client(settings)?),
        })
    }

    /// Makes the condensers of an agent. One of a kind that is not known here condenses nothing.
    fn make_condensers(&self, agent: &AgentDocument) -> Result<Vec<Summariser>> {
        let Some(raw) = agent.condenser() else { return Ok(Vec::new()) };
        let kinds = condenser::read(raw).map_err(|error| LlmError::BadRequest(error.to_string()))?;
        let mut made = Vec::new();
        for kind in kinds {
            match kind {
                Kind::Summarising { settings, llm } => {
                    made.push(Summariser { settings, model: self.make_model_of(&llm)? });
                }
                Kind::Nothing | Kind::Unknown(_) => {}
            }
        }
        Ok(made)
    }

    /// Makes the tools of an agent: those it is given, those that every agent has, those of the host.
    fn make_tools(
        &self,
        agent: &AgentDocument,
        model: &dyn Model,
        filter: &Option<regex::Regex>,
    ) -> Result<Toolbox> {
        let making = Making { working_dir: self.working_dir.clone(), has_vision: model.has_vision() };
        let refused = |error: crate::tool::RegistryError| ConversationError::Tool(error.into());
        let mut toolbox = Toolbox::default();
        for spec in agent.tools() {
            toolbox.add(self.parts.registry.make(&spec, &making).map_err(refused)?).map_err(refused)?;
        }
        servers::filtered(&mut toolbox, filter);
        for spec in agent.default_tools().into_iter().map(Spec::new) {
            toolbox.add(self.parts.registry.make(&spec, &making).map_err(refused)?).map_err(refused)?;
        }
        toolbox.add(self.parts.tools.clone()).map_err(refused)?;
        Ok(toolbox)
    }

    /// The same with the model of another agent's settings.
    pub(super) fn with_model(&self, equipment: &Equipment, agent: &AgentDocument) -> Result<Equipment> {
        let condensers = self.make_condensers(agent)?;
        Ok(Equipment { model: self.make_model(agent.llm())?, condensers, ..equipment.clone() })
    }

    /// Makes everything that the agent's settings ask for.
    pub(super) fn make_equipment(&self, agent: &AgentDocument) -> Result<Equipment> {
        let model = self.make_model(agent.llm())?;
        let filter = agent.tool_filter()?;
        let toolbox = self.make_tools(agent, &*model, &filter)?;
        let hooks = self.parts.hooks.as_ref().map(|config| {
            let (folder, id) = (self.working_dir.clone(), self.id.as_str());
            let model = Some(Arc::clone(&model));
            Arc::new(hook::Hooks::new(config.clone(), folder, id, self.secrets.clone(), model))
        });
        Ok(Equipment {
            tools: toolbox.iter().cloned().collect(),
            schemas: toolbox.schemas(RiskField::Asked),
            condensers: self.make_condensers(agent)?,
            tools_at_once: agent.tool_concurrency_limit(),
            toolbox,
            model,
            hooks,
            servers: None,
            servers_count: 0,
            filter,
        })
    }
}
