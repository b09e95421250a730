//! Tools of servers (Model Context Protocol) and of clients.

use crate::event::decode::DecodeError;
use crate::event::dump::Out;
use crate::event::json::Raw;
use crate::event::message::Content;
use crate::event::model::{Extra, Field, Json, Map, Reading, Text, model, take, wire};

model! {
    /// Calls a server's tool.
    MCPToolAction: Forbid {
        /// The arguments.
        data: Map<Json> = Map::default(),
    }
    kind "MCPToolAction"
}

model! {
    /// What the server's tool answered.
    MCPToolObservation: Forbid {
        /// What the model is told.
        content: Vec<Content> = Vec::new(),
        /// Whether it failed.
        is_error: bool = false,
        /// The tool.
        tool_name: Text,
    }
    kind "MCPToolObservation"
}

model! {
    /// The client was told of the call; it does the work.
    ClientToolObservation: Forbid {
        /// What the model is told.
        content: Vec<Content> = Vec::new(),
        /// Whether it failed.
        is_error: bool = false,
    }
    kind "ClientToolObservation"
}

/// A server's description of its tool, with the protocol's own spelling whichever way it came.
pub(crate) fn read_tool(raw: Raw<'_>, reading: Reading) -> Result<Option<Map<Json>>, DecodeError> {
    let Some(mut tool) = Option::<Map<Json>>::read(raw, reading)? else { return Ok(None) };
    for (key, value) in &mut tool.0 {
        let top = [("input_schema", "inputSchema"), ("output_schema", "outputSchema"), ("meta", "_meta")];
        if let Some(new) = rename(key, &top) {
            *key = new;
        }
        match &**key {
            "annotations" => respell(value, ANNOTATIONS),
            "icons" => respell(value, &[("mime_type", "mimeType")]),
            "execution" => respell(value, &[("task_support", "taskSupport")]),
            _ => {}
        }
    }
    Ok(Some(tool))
}

const ANNOTATIONS: &[(&str, &str)] = &[
    ("read_only_hint", "readOnlyHint"),
    ("destructive_hint", "destructiveHint"),
    ("idempotent_hint", "idempotentHint"),
    ("open_world_hint", "openWorldHint"),
];

fn rename(key: &str, names: &[(&str, &'static str)]) -> Option<Text> {
    names.iter().find(|(old, _)| *old == key).map(|(_, new)| Text::from(*new))
}

/// Renames the keys of an object, or of each object in a list.
fn respell(value: &mut Json, names: &[(&str, &'static str)]) {
    let mut out = Out::default();
    let object = |out: &mut Out, object: Raw<'_>| {
        out.open("{");
        for (key, member) in object.members() {
            out.key(rename(&key, names).as_deref().unwrap_or(&key));
            out.raw(member.text());
        }
        out.close("}");
    };
    let raw = value.raw();
    if raw.is_object() {
        object(&mut out, raw);
    } else if raw.is_array() {
        out.open("[");
        for element in raw.elements() {
            out.next();
            if element.is_object() { object(&mut out, element) } else { out.raw(element.text()) }
        }
        out.close("]");
    } else {
        return;
    }
    *value = Json::written(out);
}

impl MCPToolObservation {
    /// What `tool_name` answered.
    #[must_use]
    pub fn new(tool_name: impl Into<Text>, content: Vec<Content>, is_error: bool) -> Self {
        Self { content, is_error, tool_name: tool_name.into(), extra: Extra::default() }
    }
}
