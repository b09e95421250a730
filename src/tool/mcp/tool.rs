//! One tool of a server.

use std::sync::Arc;

use rmcp::model::{CallToolRequestParams, CallToolResult, ContentBlock, ResourceContents, Tool as Offered};

use super::expand::{References, expand};
use super::server::{CallFailure, Server};
use super::simplify::simplified;
use crate::event::message::Content;
use crate::event::model::{Field, Map, Reading};
use crate::event::tool::{MCPToolAction, MCPToolObservation};
use crate::event::{
    Action, Extra, ImageContent, Json, Observation, Text, ToolAnnotations, ToolDefinition, ToolFields,
    Unfamiliar,
};
use crate::json::{Out, Raw};
use crate::llm::{Boxed, ToolSchema};
use crate::message::{CLIPPED, clip};
use crate::secret::without_credentials;
use crate::tool::arguments::{self, Parameter};
use crate::tool::{Context, Resources, Secrets, Tool, ToolError};

/// The limit of the text of one answer, in characters. The model is shown less.
const CHARACTERS_MAX: usize = 500_000;

/// The limit of all pictures of one answer, in bytes of their base64 form.
const PICTURE_BYTES_MAX: usize = 24 * 1024 * 1024;

/// A tool of a server.
pub struct McpTool {
    server: Arc<Server>,
    /// The server's own name of the tool.
    own_name: String,
    definition: ToolDefinition,
    schema: ToolSchema,
    parameters: Vec<Parameter>,
    /// The name that the reference gives the class of the arguments.
    class: String,
}

impl McpTool {
    /// Makes the tool that the server offers. `name` is the name for the model. `None` if the offer cannot be written
    /// as JSON, or if its input schema is not an object.
    pub(super) fn new(server: &Arc<Server>, offered: &Offered, name: String) -> Option<Self> {
        let mut wire = serde_json::to_value(offered).ok()?;
        wire["name"] = name.as_str().into();
        let wire = Json::from(&wire);
        let input = wire.raw().get("inputSchema").filter(|input| input.is_object())?;
        let reading = Reading { unfamiliar: Unfamiliar::Keep };
        let annotations = wire.raw().get("annotations");
        let annotations =
            annotations.and_then(|annotations| ToolAnnotations::read(annotations, reading).ok());
        let meta = wire.raw().get("_meta").and_then(|meta| Map::<Json>::read(meta, reading).ok());
        let description: Text = match offered.description.as_deref() {
            Some(description) if !description.is_empty() => description.into(),
            _ => "No description provided".into(),
        };
        Some(Self {
            server: Arc::clone(server),
            own_name: offered.name.to_string(),
            class: format!("MCP{}Action", camel(&offered.name)),
            parameters: arguments::of_schema(input),
            schema: ToolSchema {
                name: name.into(),
                description: description.clone(),
                parameters: simplified(input),
            },
            definition: ToolDefinition {
                kind: "MCPToolDefinition".into(),
                fields: Box::new(ToolFields {
                    description,
                    action_type: "MCPToolAction".into(),
                    observation_type: Some("MCPToolObservation".into()),
                    annotations,
                    meta,
                    mcp_tool: Map::<Json>::read(wire.raw(), reading).ok(),
                    client_tool_name: None,
                    input_schema: None,
                    extra: Extra::NONE,
                }),
            },
        })
    }

    async fn call(&self, action: &MCPToolAction, context: &Context) -> Result<Observation, ToolError> {
        let data = expanded(action, context).await;
        let params = match serde_json::from_str(&data) {
            Ok(serde_json::Value::Object(data)) => {
                CallToolRequestParams::new(self.own_name.clone()).with_arguments(data)
            }
            _ => return Err(ToolError::Internal("the arguments are no JSON that can be sent".to_owned())),
        };
        let outcome = tokio::select! {
            biased;
            () = context.cancel.cancelled() => return Err(ToolError::Cancelled),
            outcome = self.server.call(params) => outcome,
        };
        let name = self.name();
        let (content, is_error) = match outcome {
            Ok(result) => (content(name, &result), result.is_error == Some(true)),
            Err(failure) => {
                let text = failed(name, &failure, &*context.secrets);
                (vec![Content::text(clip(&text, CHARACTERS_MAX, CLIPPED))], true)
            }
        };
        Ok(Observation::Mcp(MCPToolObservation::new(name, content, is_error)))
    }
}

impl Tool for McpTool {
    fn name(&self) -> &str {
        &self.schema.name
    }

    fn definition(&self) -> &ToolDefinition {
        &self.definition
    }

    fn schema(&self) -> ToolSchema {
        self.schema.clone()
    }

    fn action(&self, arguments: Raw<'_>) -> Result<Action, ToolError> {
        arguments::check(&self.class, &self.parameters, arguments).map_err(ToolError::Arguments)?;
        let data = arguments::coerced(&self.parameters, arguments);
        let data = data.iter().map(|(key, value)| (key.as_str().into(), Json::from(Raw::checked(value))));
        Ok(Action::Mcp(MCPToolAction { data: Map(data.collect()), extra: Extra::NONE }))
    }

    fn resources(&self, _: &Action) -> Resources {
        Resources::Keys(vec![format!("mcp:{}:{}", self.server.config.name, self.own_name)])
    }

    fn execute<'a>(
        &'a self,
        action: &'a Action,
        context: &'a Context,
    ) -> Boxed<'a, Result<Observation, ToolError>> {
        Box::pin(async move {
            match action {
                Action::Mcp(action) => self.call(action, context).await,
                other => Err(ToolError::foreign(self, other)),
            }
        })
    }
}

/// Returns the text for the model of a call that failed, without secrets. A failure may name the server's address. Known
/// secrets are masked first, because one would not be recognised if a part of it is hidden already.
fn failed(name: &str, failure: &CallFailure, secrets: &dyn Secrets) -> String {
    let text = match failure {
        CallFailure::Unconnected(reason) => format!("MCP client not connected for tool '{name}'. {reason}"),
        CallFailure::TimedOut(limit) => format!(
            "MCP tool '{name}' timed out after {} seconds. The tool server may be unresponsive or the operation is \
             taking too long. Consider retrying or using an alternative approach.",
            limit.as_secs_f64()
        ),
        CallFailure::Refused(reason) => format!("Error calling MCP tool {name}: {reason}"),
    };
    without_credentials(&secrets.mask(&text))
}

/// Returns the arguments as JSON text. References to secrets are replaced by their values.
async fn expanded(action: &MCPToolAction, context: &Context) -> String {
    let mut out = Out::default();
    action.data.write(&mut out);
    let text = out.finish();
    if !text.contains('$') {
        return text;
    }
    let secrets = context.secrets.for_command(&text).await;
    let value = |name: &str| secrets.iter().find(|(known, _)| known == name).map(|(_, value)| value.clone());
    let mut out = Out::default();
    write_expanded(&mut out, Raw::checked(&text), &value);
    out.finish()
}

fn write_expanded(out: &mut Out, raw: Raw<'_>, value: &dyn Fn(&str) -> Option<String>) {
    if raw.is_object() {
        out.open("{");
        for (key, member) in raw.members() {
            out.key(&expand(&key, References::All, value));
            write_expanded(out, member, value);
        }
        out.close("}");
    } else if raw.is_array() {
        out.open("[");
        for element in raw.elements() {
            out.next();
            write_expanded(out, element, value);
        }
        out.close("]");
    } else if let Some(text) = raw.as_str() {
        out.text(&expand(&text, References::All, value));
    } else {
        out.raw(raw.text());
    }
}

/// Returns the content of a result for the model. A text names each part that cannot be shown.
fn content(name: &str, result: &CallToolResult) -> Vec<Content> {
    let mut content = vec![Content::text(format!("[Tool '{name}' executed.]"))];
    let (mut characters, mut pictures) = (CHARACTERS_MAX, PICTURE_BYTES_MAX);
    let mut text = |content: &mut Vec<Content>, text: &str| {
        let shown = clip(text, characters.max(CLIPPED.len()), CLIPPED);
        characters = characters.saturating_sub(shown.chars().count());
        content.push(Content::text(shown));
    };
    for block in &result.content {
        match block {
            ContentBlock::Text(block) => text(&mut content, &block.text),
            ContentBlock::Image(block) if block.data.len() <= pictures => {
                pictures -= block.data.len();
                let url = format!("data:{};base64,{}", block.mime_type, block.data);
                content.push(Content::Image(ImageContent::new(vec![url.into()])));
            }
            ContentBlock::Image(block) => {
                text(
                    &mut content,
                    &format!("[A picture of {} bytes is too large to be shown.]", block.data.len()),
                );
            }
            ContentBlock::Resource(block) => match &block.resource {
                ResourceContents::TextResourceContents { uri, text: inner, .. } => {
                    text(&mut content, &format!("[{uri}]\n{inner}"));
                }
                _ => text(&mut content, "[A resource that is no text cannot be shown.]"),
            },
            ContentBlock::ResourceLink(link) => text(&mut content, &format!("[{}: {}]", link.name, link.uri)),
            _ => text(&mut content, "[A sound cannot be shown.]"),
        }
    }
    if result.content.is_empty()
        && let Some(structured) = &result.structured_content
    {
        text(&mut content, &structured.to_string());
    }
    content
}

/// Converts `get_the-news` to `GetTheNews`. Each word is changed as Python's `capitalize` does.
fn camel(name: &str) -> String {
    let words = name.split(|c: char| c == '_' || c == '-' || c.is_whitespace());
    let mut out = String::new();
    for word in words {
        let mut letters = word.chars();
        if let Some(first) = letters.next() {
            out.extend(first.to_uppercase());
            out.push_str(&letters.as_str().to_lowercase());
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use std::borrow::Cow;

    use super::*;
    use crate::secret::HIDDEN;

    /// A conversation with one secret, which looks like the end of an address.
    struct OneSecret;

    impl Secrets for OneSecret {
        fn for_command<'a>(&'a self, _: &'a str) -> Boxed<'a, Vec<(String, String)>> {
            Box::pin(std::future::ready(Vec::new()))
        }

        fn mask<'t>(&self, text: &'t str) -> Cow<'t, str> {
            text.replace("p@ss/word", HIDDEN).into()
        }

        fn bytes_max(&self) -> usize {
            9
        }
    }

    #[test]
    fn a_failed_call_shows_no_credential_of_an_address() {
        for (address, expected) in [
            ("http://user:s3cret@h/mcp", "http://****@h/mcp"),
            ("http://s3cret@h/mcp", "http://****@h/mcp"),
            ("http://h/mcp?key=s3cret", "http://h/mcp?key=****"),
            ("http://h/mcp?a=1&api_key=s3cret", "http://h/mcp?a=1&api_key=****"),
            ("http://x:p@ss/word@h/mcp", "http://****@h/mcp"),
            ("http://h/mcp?a=1#b", "http://h/mcp?a=1#b"),
        ] {
            let reason = |address: &str| format!("no answer from '{address}', see log");
            let refused = failed("t", &CallFailure::Refused(reason(address)), &OneSecret);
            assert_eq!(refused, format!("Error calling MCP tool t: {}", reason(expected)));
            let unconnected = failed("t", &CallFailure::Unconnected(reason(address)), &OneSecret);
            assert_eq!(unconnected, format!("MCP client not connected for tool 't'. {}", reason(expected)));
        }
    }

    #[test]
    fn the_class_has_the_name_that_the_reference_gives_it() {
        assert_eq!(camel("get_the-big NEWS"), "GetTheBigNews");
        assert_eq!(camel("__x"), "X");
    }

    #[test]
    fn parts_that_cannot_be_shown_are_named_and_the_text_is_limited() {
        let result: CallToolResult = serde_json::from_value(serde_json::json!({
            "content": [
                {"type": "text", "text": "a"},
                {"type": "image", "data": "AA==", "mimeType": "image/png"},
                {"type": "resource", "resource": {"uri": "file:///x", "text": "inside"}},
                {"type": "resource_link", "uri": "file:///y", "name": "y"},
                {"type": "audio", "data": "AA==", "mimeType": "audio/wav"},
                {"type": "text", "text": "z".repeat(2 * CHARACTERS_MAX)},
                {"type": "text", "text": "z".repeat(2 * CHARACTERS_MAX)},
            ],
        }))
        .unwrap();
        let content = content("t", &result);
        let texts: Vec<&str> = content.iter().filter_map(Content::as_text).collect();
        assert_eq!(
            texts[..5],
            [
                "[Tool 't' executed.]",
                "a",
                "[file:///x]\ninside",
                "[y: file:///y]",
                "[A sound cannot be shown.]"
            ]
        );
        assert!(
            matches!(&content[2], Content::Image(image) if &*image.image_urls[0] == "data:image/png;base64,AA==")
        );
        assert!(texts.iter().map(|text| text.len()).sum::<usize>() < CHARACTERS_MAX + 500);
        let structured: CallToolResult =
            serde_json::from_value(serde_json::json!({"structuredContent": {"a": 1}})).unwrap();
        assert_eq!(super::content("t", &structured)[1].as_text(), Some(r#"{"a":1}"#));
    }
}
