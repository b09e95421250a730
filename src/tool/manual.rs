//! What a built-in tool says of itself, and how its arguments become an action.

use super::ToolError;
use super::arguments::{self, Parameter};
use crate::event::dump::Out;
use crate::event::json::Raw;
use crate::event::model::{Field, Reading};
use crate::event::tool::catalogue;
use crate::event::{Action, Extra, Text, ToolAnnotations, ToolDefinition, ToolFields, Unfamiliar};
use crate::llm::ToolSchema;

/// A built-in tool's name, description and arguments.
#[derive(Debug)]
pub(super) struct Manual {
    definition: ToolDefinition,
    schema: ToolSchema,
    parameters: &'static [Parameter],
}

/// What a tool does to the world, in the words of the Model Context Protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Effect {
    /// It only reads.
    Reads,
    /// It adds, and twice is as good as once.
    Adds,
    /// It may destroy something in the workspace.
    Changes,
    /// It may destroy something, and it reaches things outside.
    Anything,
}

impl Manual {
    /// The manual of the tool of this class of the reference.
    pub fn new(
        class: &'static str,
        effect: Effect,
        description: impl Into<Text>,
        parameters: &'static [Parameter],
    ) -> Self {
        let (action, observation) =
            catalogue::shapes_of(class).expect("a built-in tool's shapes are in the catalogue");
        let name: Text = catalogue::name_of(class).into();
        let description = description.into();
        let annotations = ToolAnnotations {
            title: (!UNTITLED.contains(&class)).then(|| name.clone()),
            read_only: effect == Effect::Reads,
            destructive: matches!(effect, Effect::Changes | Effect::Anything),
            idempotent: matches!(effect, Effect::Reads | Effect::Adds),
            open_world: effect == Effect::Anything,
            extra: Extra::NONE,
        };
        Self {
            definition: ToolDefinition {
                kind: class.into(),
                fields: Box::new(ToolFields {
                    description: description.clone(),
                    action_type: action.into(),
                    observation_type: Some(observation.into()),
                    annotations: Some(annotations),
                    meta: None,
                    mcp_tool: None,
                    client_tool_name: None,
                    input_schema: None,
                    extra: Extra::NONE,
                }),
            },
            schema: ToolSchema { name, description, parameters: arguments::schema(parameters) },
            parameters,
        }
    }

    /// The name that the model calls the tool by.
    pub fn name(&self) -> &str {
        &self.schema.name
    }

    /// The tool as the system prompt event writes it down.
    pub fn definition(&self) -> &ToolDefinition {
        &self.definition
    }

    /// The tool as the model sees it.
    pub fn schema(&self) -> ToolSchema {
        self.schema.clone()
    }

    /// The action that the arguments mean.
    pub fn action(&self, arguments: Raw<'_>) -> Result<Action, ToolError> {
        let class = &self.definition.fields.action_type;
        arguments::check(class, self.parameters, arguments).map_err(ToolError::Arguments)?;
        let mut out = Out::default();
        out.open("{");
        for (key, value) in arguments.members().filter(|(key, _)| key != "kind") {
            out.key(&key);
            out.raw(value.text());
        }
        out.constant("kind", class);
        out.close("}");
        let text = out.finish();
        Action::read(Raw::checked(&text), Reading { unfamiliar: Unfamiliar::Refuse })
            .map_err(|error| ToolError::Arguments(error.to_string()))
    }
}

/// The tools whose annotations the reference gives no title.
const UNTITLED: &[&str] = &["ThinkTool", "TaskTrackerTool"];
