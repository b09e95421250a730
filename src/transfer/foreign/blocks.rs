//! The blocks of a model's message, as Anthropic writes them.

use super::content;
use super::translation::is_member;
use crate::event::{Content, TextContent, Thinking};
use crate::json::Raw;

/// The blocks of one line of the model.
#[derive(Default)]
pub(super) struct Blocks<'a> {
    pub content: Vec<Content>,
    pub thinking: Vec<Thinking>,
    pub calls: Vec<ToolUse<'a>>,
    /// Whether a block violates the format.
    pub broken: bool,
}

/// A call of a tool.
pub(super) struct ToolUse<'a> {
    pub id: String,
    pub name: String,
    pub input: Raw<'a>,
}

impl<'a> Blocks<'a> {
    /// Adds a block.
    pub fn take(&mut self, block: Raw<'a>) {
        match content::kind(block).as_deref() {
            Some("thinking" | "redacted_thinking") => match content::thinking(block) {
                Some(thinking) => self.thinking.push(thinking),
                None => self.broken = true,
            },
            Some("tool_use") => {
                let text = |member: &str| {
                    let text = block.get(member).and_then(Raw::as_text)?;
                    is_member(&text).then(|| text.into_owned())
                };
                match (text("id"), text("name"), block.get("input")) {
                    (Some(id), Some(name), Some(input)) => self.calls.push(ToolUse { id, name, input }),
                    _ => self.broken = true,
                }
            }
            _ => self.content.push(content::part(block)),
        }
    }

    /// Returns the content as an action's thought. `None` unless all of it is text.
    pub fn thought(&self) -> Option<Vec<TextContent>> {
        self.content
            .iter()
            .map(|part| match part {
                Content::Text(text) => Some(text.clone()),
                Content::Image(_) | Content::Unknown(_) => None,
            })
            .collect()
    }
}
