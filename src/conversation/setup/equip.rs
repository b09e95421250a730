//! The equipment of a conversation: its model, its tools, its hooks. It is made once, with the first message or run.

use std::sync::Arc;

use super::skills::Guided;
use super::{acp, servers};
use crate::agent::AgentDocument;
use crate::agent::condenser::{self, Kind, Summariser};
use crate::agent::definition::Definitions;
use crate::conversation::error::{ConversationError, Result};
use crate::conversation::local::{Equipment, Guide, Local};
use crate::hook;
use crate::json::Raw;
use crate::llm::{LlmError, Model, Settings};
use crate::tool::{Making, RiskField, Spec, Toolbox};

/// The tool that invokes skills.
const SKILLS: &str = "invoke_skill";

impl Local {
    /// Returns the model that the caller gave, or else makes the model that `llm` describes.
    pub(in crate::conversation) fn make_model(&self, llm: Option<Raw<'_>>) -> Result<Arc<dyn Model>> {
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

    /// Makes the condensers of an agent. A condenser of an unknown kind is ignored.
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

    /// Makes the tools of an agent: the tools in its settings, the tools that every agent has, and the caller's tools.
    fn make_tools(
        &self,
        agent: &AgentDocument,
        model: &dyn Model,
        filter: &Option<regex::Regex>,
        guided: Option<&Guided>,
        definitions: Option<&Arc<Definitions>>,
    ) -> Result<Toolbox> {
        let making = Making { working_dir: self.working_dir.clone(), has_vision: model.has_vision() };
        let refused = |error: crate::tool::RegistryError| ConversationError::Tool(error.into());
        let mut toolbox = Toolbox::default();
        for spec in agent.tools() {
            if let Some(definitions) = definitions.filter(|_| is_task(&spec)) {
                toolbox.add(vec![self.task_tool(Arc::clone(definitions))]).map_err(refused)?;
                continue;
            }
            toolbox.add(self.parts.registry.make(&spec, &making).map_err(refused)?).map_err(refused)?;
        }
        servers::filtered(&mut toolbox, filter);
        let mut default = agent.default_tools();
        // Skills that can be invoked by name need the tool for it.
        if guided.is_some_and(|guided| guided.shelf.has_invocable())
            && !default.iter().any(|name| &**name == SKILLS)
        {
            default.push(SKILLS.into());
        }
        for spec in default.into_iter().map(Spec::new) {
            if &*spec.name == SKILLS {
                let none = Arc::default();
                let shelf = guided.map_or(&none, |guided| &guided.shelf);
                toolbox.add(vec![self.invoke_skill(shelf)]).map_err(refused)?;
                continue;
            }
            toolbox.add(self.parts.registry.make(&spec, &making).map_err(refused)?).map_err(refused)?;
        }
        toolbox.add(self.parts.tools.clone()).map_err(refused)?;
        Ok(toolbox)
    }

    /// Replaces the tool that invokes skills. If there is no such tool, adds it if a skill needs it.
    pub(super) fn give_skills(&self, toolbox: &mut Toolbox, guided: &Guided) -> Result<()> {
        if toolbox.get(SKILLS).is_none() && !guided.shelf.has_invocable() {
            return Ok(());
        }
        toolbox.remove(|tool| tool.name() == SKILLS);
        let added = toolbox.add(vec![self.invoke_skill(&guided.shelf)]);
        added.map_err(|error| ConversationError::Tool(error.into()))
    }

    /// Makes the hooks. `None` if there are no hooks.
    pub(super) fn make_hooks(&self, model: &Arc<dyn Model>) -> Option<Arc<hook::Hooks>> {
        let config = self.hook_config()?;
        let (folder, id) = (self.working_dir.clone(), self.id.as_str());
        Some(Arc::new(hook::Hooks::new(config, folder, id, self.secrets.clone(), Some(Arc::clone(model)))))
    }

    /// Returns a copy of the equipment with the model and the condensers of another agent's settings.
    pub(in crate::conversation) fn with_model(
        &self,
        equipment: &Equipment,
        agent: &AgentDocument,
    ) -> Result<Equipment> {
        let condensers = self.make_condensers(agent)?;
        Ok(Equipment { model: self.make_model(agent.llm())?, condensers, ..equipment.clone() })
    }

    /// Makes the equipment for an agent's settings. Also returns the files and plugins that could not be used.
    pub(in crate::conversation) async fn make_equipment(
        &self,
        agent: &AgentDocument,
    ) -> Result<(Equipment, Vec<String>)> {
        let is_program = acp::is_program(agent);
        let model = match is_program && self.parts.model.is_none() {
            true => Arc::new(acp::NoModel),
            false => self.make_model(agent.llm())?,
        };
        let filter = agent.tool_filter()?;
        let loaded = self.loaded();
        let mut left_out = loaded.left_out.clone();
        let guided = self.shelf(agent, loaded.ambient.skills.clone()).await?;
        left_out.extend(guided.iter().flat_map(|guided| guided.left_out.clone()));
        let mut definitions = None;
        if agent.tools().iter().any(is_task) {
            let (found, problems) = self.definitions().await?;
            left_out.extend(problems);
            definitions = Some(found);
        }
        // A program has its own tools.
        let toolbox = match is_program {
            true => Toolbox::default(),
            false => self.make_tools(agent, &*model, &filter, guided.as_deref(), definitions.as_ref())?,
        };
        let hooks = self.make_hooks(&model);
        let equipment = Equipment {
            tools: toolbox.iter().cloned().collect(),
            schemas: toolbox.schemas(RiskField::Asked),
            condensers: if is_program { Vec::new() } else { self.make_condensers(agent)? },
            tools_at_once: agent.tool_concurrency_limit(),
            toolbox,
            model,
            hooks,
            guide: self.parts.guide.clone().or(guided.map(|guided| guided as Arc<dyn Guide>)),
            acp: None,
            servers: None,
            servers_count: 0,
            filter,
        };
        Ok((equipment, left_out))
    }
}

/// Returns whether a conversation with this registry can make the tool of this name.
#[must_use]
pub fn has_tool(registry: &crate::tool::Registry, name: &str) -> bool {
    registry.has(name) || name == SKILLS || is_task(&Spec::new(name))
}

/// Returns whether an entry of `tools` is the tool that gives tasks, or its tool set.
fn is_task(spec: &Spec) -> bool {
    matches!(&*spec.name, "task" | "task_tool_set" | "TaskTool" | "TaskToolSet")
}
