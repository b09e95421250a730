//! The instructions that the model has before anything else: the system prompt, and the tools.

use super::common::Common;
use super::decode::{DecodeError, Mismatch};
use super::message::{Content, Message, Role, TextContent};
use super::model::{Extra, Field, Json, Map, Model, Reading, Text, event, model, take, wire};
use super::tool::{Action, Observation, catalogue, mcp};
use crate::json::{Out, Raw};

model! {
    /// Hints about a tool, with the names of the Model Context Protocol.
    ToolAnnotations: Drop {
        /// Its display name.
        title: Option<Text> = None,
        /// Whether it changes nothing.
        read_only @ "readOnlyHint": bool = false,
        /// Whether it may destroy something.
        destructive @ "destructiveHint": bool = true,
        /// Whether a second call with the same arguments has no further effect.
        idempotent @ "idempotentHint": bool = false,
        /// Whether it works with things outside the agent's own environment.
        open_world @ "openWorldHint": bool = true,
    }
}

model! {
    /// The members that every tool has. `kind` and `title` are written after them.
    ToolFields: Drop {
        /// What the model reads about the tool.
        description: Text,
        /// The class of its actions.
        action_type: Text,
        /// The class of its observations.
        observation_type: Option<Text> = None,
        /// What calling it may do.
        annotations: Option<ToolAnnotations> = None,
        /// Members for programs, which the model does not read.
        meta: Option<Map<Json>> = None,
        /// The tool as its MCP server described it.
        mcp_tool: Option<Map<Json>> => mcp::read_tool = None,
        /// Its name, if the client of a server runs it.
        client_tool_name: Option<Text> = None,
        /// The JSON schema of its arguments, if it has no class.
        input_schema: Option<Map<Json>> = None,
    }
    dropped "kind" | "title" | "executor" | "prompt_guidance" | "response_schema"
}

/// A tool, as the model received it. It does not contain how the tool is run.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct ToolDefinition {
    /// The class: `TerminalTool`, `MCPToolDefinition`, ..
    pub kind: Text,
    /// The members.
    pub fields: Box<ToolFields>,
}

impl ToolDefinition {
    /// The name that the model calls. A tool of a server or a client has its own name. For any other tool, the name
    /// follows from the class.
    #[must_use]
    pub fn name(&self) -> Text {
        let own = match &*self.kind {
            "MCPToolDefinition" => {
                let name = self.fields.mcp_tool.as_ref().and_then(|tool| tool.get("name"));
                name.and_then(|name| name.raw().as_str().map(|name| Text::from(&*name)))
            }
            "ClientTool" => self.fields.client_tool_name.clone(),
            _ => None,
        };
        own.unwrap_or_else(|| catalogue::name_of(&self.kind).into())
    }

    /// Its display name.
    #[must_use]
    pub fn title(&self) -> Text {
        let annotated = self.fields.annotations.as_ref().and_then(|annotations| annotations.title.clone());
        annotated.filter(|title| !title.is_empty()).unwrap_or_else(|| self.name())
    }
}

impl ToolDefinition {
    /// The tool as one JSON object, in the reference's form.
    #[must_use]
    pub fn to_json(&self) -> Json {
        let mut out = Out::default();
        self.write(&mut out);
        Json::written(out)
    }
}

impl Field for ToolDefinition {
    fn read(raw: Raw<'_>, reading: Reading) -> Result<Self, DecodeError> {
        let members = super::model::members(raw)?;
        let kind = super::model::kind_of(&members)?;
        if !reading.keeps() && !catalogue::knows(&kind) {
            return Err(DecodeError::new(Mismatch::Kind { of: "tool", kind: kind.into_owned() }));
        }
        let fields = ToolFields::read_members(members.into_iter(), reading)?;
        if !reading.keeps() {
            known("action", &fields.action_type, Action::KINDS)
                .map_err(|error| error.within("action_type"))?;
            if let Some(observation) = &fields.observation_type {
                known("observation", observation, Observation::KINDS)
                    .map_err(|error| error.within("observation_type"))?;
            }
        }
        Ok(Self { kind: (&*kind).into(), fields: Box::new(fields) })
    }

    fn write(&self, out: &mut Out) {
        out.open("{");
        self.fields.write_members(out);
        out.constant("kind", &self.kind);
        out.constant("title", &self.title());
        out.close("}");
    }
}

fn known(of: &'static str, kind: &str, kinds: &[&str]) -> Result<(), DecodeError> {
    if kinds.contains(&kind) || (of == "action" && kind.starts_with(super::model::CLIENT_ACTION)) {
        return Ok(());
    }
    Err(DecodeError::new(Mismatch::Kind { of, kind: kind.to_owned() }))
}

event! {
    /// The instructions that the model has before anything else.
    SystemPromptEvent = "SystemPromptEvent", from (Agent) {
        /// The part that is the same in every conversation.
        system_prompt: TextContent,
        /// The tools that the model received.
        tools: Vec<ToolDefinition>,
        /// The part for this conversation only. An empty text still counts as a part.
        dynamic_context: Option<TextContent> = None,
    }
    new by hand
}

impl SystemPromptEvent {
    /// Makes a system prompt with its tools.
    #[must_use]
    pub fn new(common: Common, system_prompt: impl Into<Text>, tools: Vec<ToolDefinition>) -> Self {
        Self {
            common,
            system_prompt: TextContent::new(system_prompt),
            tools,
            dynamic_context: None,
            extra: Extra::default(),
        }
    }

    /// The message that the model reads.
    #[must_use]
    pub fn to_llm_message(&self) -> Message {
        let parts = std::iter::once(&self.system_prompt).chain(&self.dynamic_context);
        Message::new(Role::System, parts.cloned().map(Content::Text).collect())
    }
}
