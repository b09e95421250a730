//! The definition of a built-in tool, and the conversion of its arguments into an action.

use super::ToolError;
use super::arguments::{self, Parameter};
use crate::event::model::{Field, Reading};
use crate::event::tool::catalogue;
use crate::event::{Action, Extra, Text, ToolAnnotations, ToolDefinition, ToolFields, Unfamiliar};
use crate::json::{Out, Raw};
use crate::llm::ToolSchema;

/// A built-in tool's name, description and arguments.
#[derive(Debug)]
pub(super) struct Manual {
    definition: ToolDefinition,
    schema: ToolSchema,
    parameters: &'static [Parameter],
}

/// The effects of a tool, in the terms of the Model Context Protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Effect {
    /// The tool only reads.
    Reads,
    /// The tool adds something. A second equal call changes nothing more.
    Adds,
    /// The tool may destroy something in the workspace.
    Changes,
    /// The tool may destroy something, and it can reach things outside the workspace.
    Anything,
}

impl Manual {
    /// Makes the manual of a tool. `class` is the name of its class in the reference.
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

    /// Returns the name by which the model calls the tool.
    pub fn name(&self) -> &str {
        &self.schema.name
    }

    /// Returns the tool as the system prompt event records it.
    pub fn definition(&self) -> &ToolDefinition {
        &self.definition
    }

    /// Returns the tool as the model sees it.
    pub fn schema(&self) -> ToolSchema {
        self.schema.clone()
    }

    /// Checks the arguments and converts them into an action.
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

/// The tools whose annotations have no title in the reference.
const UNTITLED: &[&str] = &["ThinkTool", "TaskTrackerTool"];
