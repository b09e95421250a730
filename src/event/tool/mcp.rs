//! Tools of servers (Model Context Protocol) and of clients.

use crate::event::decode::DecodeError;
use crate::event::message::Content;
use crate::event::model::{Extra, Field, Json, Map, Reading, Text, model, take, wire};
use crate::json::{Out, Raw};

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
        /// The content that the model reads.
        content: Vec<Content> = Vec::new(),
        /// Whether it failed.
        is_error: bool = false,
        /// The tool.
        tool_name: Text,
    }
    kind "MCPToolObservation"
    new by hand
}

model! {
    /// The client was notified of the call. It does the work.
    ClientToolObservation: Forbid {
        /// The content that the model reads.
        content: Vec<Content> = Vec::new(),
        /// Whether it failed.
        is_error: bool = false,
    }
    kind "ClientToolObservation"
}

/// Reads a server's description of its tool. Names in snake case become the names of the protocol.
pub(crate) fn read_tool(raw: Raw<'_>, reading: Reading) -> Result<Option<Map<Json>>, DecodeError> {
    let Some(mut tool) = Option::<Map<Json>>::read(raw, reading)? else { return Ok(None) };
    for (key, value) in &mut tool.0 {
        let top = [("input_schema", "inputSchema"), ("output_schema", "outputSchema"), ("meta", "_meta")];
        if let Some(new) = rename(key, &top) {
            *key = new;
        }
        match &**key {
            "annotations" => rename_keys(value, ANNOTATIONS),
            "icons" => rename_keys(value, &[("mime_type", "mimeType")]),
            "execution" => rename_keys(value, &[("task_support", "taskSupport")]),
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
fn rename_keys(value: &mut Json, names: &[(&str, &'static str)]) {
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
    /// Makes the answer of the tool `tool_name`.
    #[must_use]
    pub fn new(tool_name: impl Into<Text>, content: Vec<Content>, is_error: bool) -> Self {
        Self { content, is_error, tool_name: tool_name.into(), extra: Extra::default() }
    }
}
