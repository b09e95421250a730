//! How the tools that an agent's settings name are made, and the ones that one conversation has.

use std::path::PathBuf;
use std::sync::Arc;

use super::schema::{RiskField, schema_for_model};
use super::{ClientTool, FileEditor, Finish, Glob, Grep, TaskTracker, Think, Tool, ToolError};
use crate::event::json::Raw;
use crate::event::tool::catalogue;
use crate::event::{Json, Text, ToolDefinition};
use crate::llm::ToolSchema;

/// One entry of an agent's `tools`: which tool, and what it is made with.
#[derive(Debug, Clone, PartialEq)]
pub struct Spec {
    /// The tool's name, `terminal`, or the name of a set of tools.
    pub name: Text,
    /// What it is made with: a JSON object.
    pub params: Json,
}

impl Spec {
    /// A tool without parameters.
    #[must_use]
    pub fn new(name: impl Into<Text>) -> Self {
        Self { name: name.into(), params: Json::empty_object() }
    }

    /// Reads `{"name": .., "params": {..}}`; missing or null parameters are none.
    ///
    /// # Errors
    /// [`RegistryError::Spec`] where it is of another shape or the name is blank.
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

/// What tools are made for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Making {
    /// The workspace's folder, absolute.
    pub working_dir: PathBuf,
    /// Whether the agent's model can see pictures.
    pub has_vision: bool,
}

/// Makes the tools of one name. Several where the name is that of a set.
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
        /// What is wrong.
        reason: String,
    },
    /// A client's tool would have the name of another.
    #[error(
        "Client tool name '{name}' collides with an existing non-client tool. Choose a unique client tool name."
    )]
    Taken {
        /// The name.
        name: String,
    },
    /// Two tools would be called by one name.
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
    /// The tools that come with Annals and need nothing but a workspace.
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

    /// Adds a maker, or puts it in the place of the one that the name had.
    pub fn add(&mut self, name: impl Into<Text>, maker: Maker) {
        let name = name.into();
        match self.makers.iter_mut().find(|(known, _)| *known == name) {
            Some(place) => place.1 = maker,
            None => self.makers.push((name, maker)),
        }
    }

    /// The names, in the order they were added.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.makers.iter().map(|(name, _)| &**name)
    }

    /// Whether a tool of that name, or of that class, can be made.
    #[must_use]
    pub fn has(&self, name: &str) -> bool {
        let by_class = catalogue::name_of(name);
        self.makers.iter().any(|(known, _)| **known == *name || **known == *by_class)
    }

    /// Makes the tools of one entry. A class (`FinishTool`) stands for its tool; an entry that holds the
    /// description of a client's tool is that tool.
    ///
    /// # Errors
    /// [`RegistryError::Unknown`] where the name is not registered, [`RegistryError::Params`] where the
    /// parameters do not fit, [`RegistryError::Taken`] where a client's tool has the name of a registered one.
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

/// The maker of a tool that takes no parameters.
fn plain(make: impl Fn(&Making) -> Arc<dyn Tool> + Send + Sync + 'static) -> Maker {
    Arc::new(move |spec, making| {
        if let Some((key, _)) = spec.params.raw().members().next() {
            let reason = format!("it does not take the parameter {key:?}");
            return Err(RegistryError::Params { name: spec.name.to_string(), reason });
        }
        Ok(vec![make(making)])
    })
}

/// The tools of one conversation, in the order the model is told of them.
#[derive(Clone, Default)]
pub struct Toolbox {
    tools: Vec<Arc<dyn Tool>>,
}

impl Toolbox {
    /// The tool that is called `name`.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Arc<dyn Tool>> {
        self.tools.iter().find(|tool| tool.name() == name)
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<dyn Tool>> {
        self.tools.iter()
    }

    /// Their names.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.tools.iter().map(|tool| tool.name())
    }

    /// Adds tools.
    ///
    /// # Errors
    /// [`RegistryError::Duplicate`] where a name is there already; then none is added.
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

    /// Removes the tools that `goes` points out.
    pub fn remove(&mut self, goes: impl Fn(&dyn Tool) -> bool) {
        self.tools.retain(|tool| !goes(&**tool));
    }

    /// They as the system prompt event writes them down.
    #[must_use]
    pub fn definitions(&self) -> Vec<ToolDefinition> {
        self.tools.iter().map(|tool| tool.definition().clone()).collect()
    }

    /// They as the model is shown them. A tool that only reads is never asked for a risk.
    #[must_use]
    pub fn schemas(&self, risk: RiskField) -> Vec<ToolSchema> {
        let shown = |tool: &Arc<dyn Tool>| {
            let risk = if tool.is_read_only() { RiskField::Omitted } else { risk };
            schema_for_model(tool.schema(), risk)
        };
        self.tools.iter().map(shown).collect()
    }

    /// Ends what they hold.
    pub async fn close(&self) {
        for tool in &self.tools {
            tool.close().await;
        }
    }
}
