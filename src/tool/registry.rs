//! Makes the tools that an agent's settings name, and holds the tools of one conversation.

use std::path::PathBuf;
use std::sync::Arc;

use super::schema::{RiskField, schema_for_model};
use super::{ClientTool, FileEditor, Finish, Glob, Grep, TaskTracker, Think, Tool, ToolError};
use crate::event::tool::catalogue;
use crate::event::{Json, Text, ToolDefinition};
use crate::json::Raw;
use crate::llm::ToolSchema;

/// One entry of an agent's `tools`: the name of a tool and its parameters.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Spec {
    /// The name of a tool, such as `terminal`, or of a set of tools.
    pub name: Text,
    /// The parameters: a JSON object.
    pub params: Json,
}

setters!(Spec { name, params: Json });

impl Spec {
    /// Makes an entry without parameters.
    #[must_use]
    pub fn new(name: impl Into<Text>) -> Self {
        Self { name: name.into(), params: Json::empty_object() }
    }

    /// Reads `{"name": .., "params": {..}}`. Missing or null parameters become an empty object.
    ///
    /// # Errors
    /// [`RegistryError::Spec`] if it has another shape or the name is blank.
    pub fn read(raw: Raw<'_>) -> Result<Self, RegistryError> {
        let refused = || RegistryError::Spec { text: raw.text().chars().take(200).collect() };
        let name = raw.get("name").and_then(Raw::as_str).filter(|name| !name.trim().is_empty());
        let params = raw.get("params").filter(|params| !params.is_null());
        if params.is_some_and(|params| !params.is_object()) {
            return Err(refused());
        }
        Ok(Self {
            name: (&*name.ok_or_else(refused)?).into(),
            params: params.map_or_else(Json::empty_object, Json::from),
        })
    }
}

/// The environment for which tools are made.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Making {
    /// The workspace's folder, absolute.
    pub working_dir: PathBuf,
    /// Whether the agent's model can see pictures.
    pub has_vision: bool,
}

impl Making {
    /// Makes the environment of a workspace. The agent's model sees no pictures.
    #[must_use]
    pub fn new(working_dir: impl Into<PathBuf>) -> Self {
        Self { working_dir: working_dir.into(), has_vision: false }
    }
}

setters!(Making { working_dir, has_vision: bool });

/// Makes the tools of one name. These are several if it is the name of a set.
pub type Maker = Arc<dyn Fn(&Spec, &Making) -> Result<Vec<Arc<dyn Tool>>, RegistryError> + Send + Sync>;

/// Why tools could not be made.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RegistryError {
    /// An entry of `tools` is not `{"name": .., "params": {..}}`.
    #[error("not the name and parameters of a tool: {text}")]
    Spec {
        /// The beginning of the entry.
        text: String,
    },
    /// No tool of that name is registered.
    #[error("ToolDefinition '{name}' is not registered")]
    Unknown {
        /// The name.
        name: String,
    },
    /// The tool does not take these parameters.
    #[error("tool {name:?}: {reason}")]
    Params {
        /// The tool.
        name: String,
        /// Why they were rejected.
        reason: String,
    },
    /// A client's tool has the name of a registered tool.
    #[error(
        "Client tool name '{name}' collides with an existing non-client tool. Choose a unique client tool name."
    )]
    Taken {
        /// The name.
        name: String,
    },
    /// Two tools have the same name.
    #[error("Duplicate tool names found: {}", names.join(", "))]
    Duplicate {
        /// The names.
        names: Vec<String>,
    },
}

impl From<RegistryError> for ToolError {
    fn from(error: RegistryError) -> Self {
        Self::Failed(error.to_string())
    }
}

/// The makers of tools, by name.
#[derive(Clone, Default)]
pub struct Registry {
    makers: Vec<(Text, Maker)>,
}

impl Registry {
    /// Returns a registry with the tools that come with Annals and need only a workspace.
    #[must_use]
    pub fn builtin() -> Self {
        let mut registry = Self::default();
        registry.add("finish", plain(|_| Arc::new(Finish::default())));
        registry.add("think", plain(|_| Arc::new(Think::default())));
        #[cfg(unix)]
        registry.add(
            "terminal",
            Arc::new(|spec, making| {
                let setting = super::TerminalSetting::read(spec, making)?;
                Ok(vec![Arc::new(super::Terminal::new(setting))])
            }),
        );
        registry.add("file_editor", plain(|making| Arc::new(FileEditor::new(making))));
        registry.add("glob", plain(|making| Arc::new(Glob::new(making))));
        registry.add("grep", plain(|making| Arc::new(Grep::new(making))));
        registry.add("task_tracker", plain(|_| Arc::new(TaskTracker::default())));
        registry
    }

    /// Adds a maker. It replaces an earlier maker of the same name.
    pub fn add(&mut self, name: impl Into<Text>, maker: Maker) {
        let name = name.into();
        match self.makers.iter_mut().find(|(known, _)| *known == name) {
            Some(place) => place.1 = maker,
            None => self.makers.push((name, maker)),
        }
    }

    /// Returns the names, in the order in which they were added.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.makers.iter().map(|(name, _)| &**name)
    }

    /// Returns whether a tool of that name or class can be made.
    #[must_use]
    pub fn has(&self, name: &str) -> bool {
        let by_class = catalogue::name_of(name);
        self.makers.iter().any(|(known, _)| **known == *name || **known == *by_class)
    }

    /// Makes the tools of one entry. A class name (`FinishTool`) means its tool. An entry with the description of a
    /// client's tool makes that tool.
    ///
    /// # Errors
    /// [`RegistryError::Unknown`] if the name is not registered, [`RegistryError::Params`] if the parameters are
    /// invalid, [`RegistryError::Taken`] if a client's tool has the name of a registered one.
    pub fn make(&self, spec: &Spec, making: &Making) -> Result<Vec<Arc<dyn Tool>>, RegistryError> {
        let find = |name: &str| self.makers.iter().find(|(known, _)| **known == *name);
        let known = find(&spec.name).or_else(|| find(&catalogue::name_of(&spec.name)));
        if let Some(tool) = ClientTool::of_spec(spec) {
            return match known {
                Some(_) => Err(RegistryError::Taken { name: spec.name.to_string() }),
                None => Ok(vec![Arc::new(tool?)]),
            };
        }
        let (_, maker) = known.ok_or_else(|| RegistryError::Unknown { name: spec.name.to_string() })?;
        maker(spec, making)
    }
}

/// Returns a maker of a tool that takes no parameters.
fn plain(make: impl Fn(&Making) -> Arc<dyn Tool> + Send + Sync + 'static) -> Maker {
    Arc::new(move |spec, making| {
        if let Some((key, _)) = spec.params.raw().members().next() {
            let reason = format!("it does not take the parameter {key:?}");
            return Err(RegistryError::Params { name: spec.name.to_string(), reason });
        }
        Ok(vec![make(making)])
    })
}

/// The tools of one conversation, in the order in which the model reads them.
#[derive(Clone, Default)]
pub struct Toolbox {
    tools: Vec<Arc<dyn Tool>>,
}

impl Toolbox {
    /// Returns the tool with this name. `None` if there is none.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Arc<dyn Tool>> {
        self.tools.iter().find(|tool| tool.name() == name)
    }

    /// Returns all tools.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<dyn Tool>> {
        self.tools.iter()
    }

    /// Returns the names of all tools.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.tools.iter().map(|tool| tool.name())
    }

    /// Adds tools.
    ///
    /// # Errors
    /// [`RegistryError::Duplicate`] if a name occurs twice or is taken. Then no tool is added.
    pub fn add(&mut self, tools: Vec<Arc<dyn Tool>>) -> Result<(), RegistryError> {
        let mut names: Vec<String> = Vec::new();
        for (at, tool) in tools.iter().enumerate() {
            let again = tools[..at].iter().any(|earlier| earlier.name() == tool.name());
            if again || self.get(tool.name()).is_some() {
                names.push(tool.name().to_owned());
            }
        }
        if !names.is_empty() {
            return Err(RegistryError::Duplicate { names });
        }
        self.tools.extend(tools);
        Ok(())
    }

    /// Removes the tools for which `is_removed` returns true.
    pub fn remove(&mut self, is_removed: impl Fn(&dyn Tool) -> bool) {
        self.tools.retain(|tool| !is_removed(&**tool));
    }

    /// Returns the tools as the system prompt event records them.
    #[must_use]
    pub fn definitions(&self) -> Vec<ToolDefinition> {
        self.tools.iter().map(|tool| tool.definition().clone()).collect()
    }

    /// Returns the tools as the model sees them. A tool that only reads never has `security_risk`.
    #[must_use]
    pub fn schemas(&self, risk: RiskField) -> Vec<ToolSchema> {
        let shown = |tool: &Arc<dyn Tool>| {
            let risk = if tool.is_read_only() { RiskField::Omitted } else { risk };
            schema_for_model(tool.schema(), risk)
        };
        self.tools.iter().map(shown).collect()
    }

    /// Closes all tools.
    pub async fn close(&self) {
        for tool in &self.tools {
            tool.close().await;
        }
    }
}
