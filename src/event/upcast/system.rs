//! Steps for the tools that a system prompt lists.

use std::borrow::Cow;

use crate::event::tool::catalogue::{self, OwnTools};
use crate::json::{Draft, Members};

use super::message::is;
use super::tool_call::new_name;

/// Until 1.6 the tools were listed in the format of chat completions: `{type: "function", function: {name, ..}}`.
///
/// A tool that comes with the reference becomes its definition. Any other tool becomes a tool of a server.
pub(super) fn tool_definitions(event: &mut Members<'_>) -> bool {
    each_tool(event, |tool| {
        if tool.has("kind") {
            return false;
        }
        let Some(function) = tool.object("function") else { return false };
        let name = function.str("name").map(Cow::into_owned).unwrap_or_default();
        let description = function.remove("description").unwrap_or(Draft::json("\"\""));
        let schema = function.remove("parameters").unwrap_or(Draft::json("{\"type\":\"object\"}"));
        tool.remove("function");
        tool.remove("type");
        let name = new_name(&name).map_or(name, str::to_owned);
        let built_in =
            catalogue::class_of(&name).and_then(|class| Some((class, catalogue::shapes_of(class)?)));
        match built_in {
            Some((class, (action, observation))) => {
                tool.set("description", description);
                tool.set_text("action_type", action);
                tool.set_text("observation_type", observation);
                tool.set_text("kind", class);
            }
            None => {
                let mcp = [
                    ("name", Draft::text(name)),
                    ("description", description.clone()),
                    ("inputSchema", schema),
                ];
                tool.set("description", description);
                tool.set_text("action_type", "MCPToolAction");
                tool.set_text("observation_type", "MCPToolObservation");
                tool.set("mcp_tool", Draft::object_of(mcp));
                tool.set_text("kind", "MCPToolDefinition");
            }
        }
        true
    })
}

/// A tool whose class the reference does not have (`DelegateTool`, until 1.22) becomes a tool of a client, because such a
/// tool may have any name. A tool of the agent's own stays.
pub(super) fn gone_tools(event: &mut Members<'_>, own: &OwnTools) -> bool {
    each_tool(event, |tool| {
        let Some(class) = tool.str("kind").map(Cow::into_owned) else { return false };
        let name = catalogue::name_of(&class).into_owned();
        if catalogue::knows(&class) || own.has(&name) {
            return false;
        }
        tool.set_text("client_tool_name", name);
        tool.set("input_schema", Draft::json(r#"{"type":"object","properties":{}}"#));
        tool.set_text("kind", "ClientTool");
        let known =
            |kinds: &[&str], kind: Option<Cow<'_, str>>| kind.is_none_or(|kind| kinds.contains(&&*kind));
        if !known(crate::event::Action::KINDS, tool.str("action_type")) {
            tool.set_text("action_type", "MCPToolAction");
        }
        if !known(crate::event::Observation::KINDS, tool.str("observation_type")) {
            tool.set_text("observation_type", "ClientToolObservation");
        }
        true
    })
}

fn each_tool(event: &mut Members<'_>, mut raise: impl FnMut(&mut Members<'_>) -> bool) -> bool {
    if !is(event, "SystemPromptEvent") {
        return false;
    }
    let Some(tools) = event.get_mut("tools").and_then(Draft::array) else { return false };
    let mut changed = false;
    for tool in tools.iter_mut().filter_map(Draft::object) {
        changed |= raise(tool);
    }
    changed
}
