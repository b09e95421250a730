//! What a conversation runs with: its model, its tools, its hooks. Made once, with the first message or run.

use std::sync::{Arc, PoisonError};

use super::{ConversationError, Local, Result};
use crate::agent::AgentDocument;
use crate::event::json::Raw;
use crate::hook;
use crate::llm::{LlmError, Model, ToolSchema};
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
    /// How many tools may run at once.
    pub tools_at_once: usize,
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
        let none = || LlmError::BadRequest("the agent has no model, and nobody makes one".to_owned());
        let (maker, llm) = self.parts.models.as_ref().zip(llm).ok_or_else(none)?;
        Ok(maker(llm)?)
    }

    /// Makes the tools of an agent: those it is given, those that every agent has, those of the host.
    pub(super) fn make_tools(&self, agent: &AgentDocument, model: &dyn Model) -> Result<Toolbox> {
        let making = Making { working_dir: self.working_dir.clone(), has_vision: model.has_vision() };
        let refused = |error: crate::tool::RegistryError| ConversationError::Tool(error.into());
        let mut toolbox = Toolbox::default();
        let default = agent.default_tools();
        for spec in agent.tools().into_iter().chain(default.into_iter().map(Spec::new)) {
            let tools = self.parts.registry.make(&spec, &making).map_err(refused)?;
            toolbox.add(tools).map_err(refused)?;
        }
        toolbox.add(self.parts.tools.clone()).map_err(refused)?;
        Ok(toolbox)
    }

    /// The same with the model of another agent's settings.
    pub(super) fn with_model(&self, equipment: &Equipment, agent: &AgentDocument) -> Result<Equipment> {
        Ok(Equipment { model: self.make_model(agent.llm())?, ..equipment.clone() })
    }

    /// Makes everything that the agent's settings ask for.
    pub(super) fn make_equipment(&self, agent: &AgentDocument) -> Result<Equipment> {
        let model = self.make_model(agent.llm())?;
        let toolbox = self.make_tools(agent, &*model)?;
        let hooks = self.parts.hooks.as_ref().map(|config| {
            let (folder, id) = (self.working_dir.clone(), self.id.as_str());
            let model = Some(Arc::clone(&model));
            Arc::new(hook::Hooks::new(config.clone(), folder, id, self.secrets.clone(), model))
        });
        Ok(Equipment {
            tools: toolbox.iter().cloned().collect(),
            schemas: toolbox.schemas(RiskField::Asked),
            tools_at_once: agent.tool_concurrency_limit(),
            toolbox,
            model,
            hooks,
        })
    }
}
