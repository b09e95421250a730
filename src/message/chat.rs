//! Messages in the format of chat completions, as the reference passes them to its client library.

use serde_json::{Map, Value, json};

use super::truncate::{TEXT_CHARACTERS_MAX, middle_out};
use crate::event::{Content, Message, MessageToolCall, Role, Thinking};

/// What the model and its provider support. All flags are off by default.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct ChatFlags {
    /// Marks where a prompt may be cached: after the system prompt and after the last turn of the user or a tool.
    pub caching: bool,
    /// Sends pictures.
    pub vision: bool,
    /// Sends parts as a list, for a model with an interface for tool calls.
    pub tool_calling: bool,
    /// Sends one string instead of a list, unless there are pictures to send.
    pub strings: bool,
    /// Sends the model's reasoning back to it.
    pub reasoning: bool,
    /// Sends long tool answers whole. Otherwise their middle is cut out, as in the reference.
    pub whole: bool,
}

setters!(ChatFlags {
    caching: bool,
    vision: bool,
    tool_calling: bool,
    strings: bool,
    reasoning: bool,
    whole: bool,
});

/// What a caller chose of [`ChatFlags`]. What is not chosen is as the conversation's own model had it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct ChatChoice {
    /// [`ChatFlags::caching`].
    pub caching: Option<bool>,
    /// [`ChatFlags::vision`].
    pub vision: Option<bool>,
    /// [`ChatFlags::strings`].
    pub strings: Option<bool>,
    /// [`ChatFlags::reasoning`].
    pub reasoning: Option<bool>,
}

setters!(ChatChoice { caching?: bool, vision?: bool, strings?: bool, reasoning?: bool });

impl ChatChoice {
    /// Returns the flags of the model with what was chosen. If the model is unknown, the messages have pictures and are
    /// lists of parts, without marks and reasoning.
    #[must_use]
    pub fn over(self, model: Option<ChatFlags>) -> ChatFlags {
        let model = model.unwrap_or(ChatFlags { vision: true, tool_calling: true, ..ChatFlags::default() });
        ChatFlags {
            caching: self.caching.unwrap_or(model.caching),
            vision: self.vision.unwrap_or(model.vision),
            strings: self.strings.unwrap_or(model.strings),
            reasoning: self.reasoning.unwrap_or(model.reasoning),
            ..model
        }
    }
}

/// Why messages cannot be sent.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WireError {
    /// The last part of the last turn needs a cache mark, but the turn has no parts.
    #[error("message {place} has no content to put a cache mark on")]
    NoContent {
        /// Its place in the list, 0-based.
        place: usize,
    },
    /// A tool's answer does not name the tool.
    #[error("message {place} answers a call and does not name the tool")]
    NoName {
        /// Its place in the list, 0-based.
        place: usize,
    },
}

/// Returns the messages of a chat request.
///
/// # Errors
/// [`WireError`] if the reference would fail, too.
pub fn chat(messages: &[Message], flags: ChatFlags) -> Result<Vec<Value>, WireError> {
    let marks = if flags.caching { Marks::of(messages)? } else { Marks::default() };
    messages.iter().enumerate().map(|(place, message)| one(message, place, &marks, flags)).collect()
}

/// The messages where cache marks are set or removed. Elsewhere, each part's own setting decides.
#[derive(Debug, Default)]
struct Marks {
    system: bool,
    last: Option<usize>,
}

impl Marks {
    fn of(messages: &[Message]) -> Result<Self, WireError> {
        let last = messages.iter().rposition(|message| matches!(message.role, Role::User | Role::Tool));
        match last {
            Some(place) if messages[place].content.is_empty() => Err(WireError::NoContent { place }),
            last => {
                Ok(Self { system: messages.first().is_some_and(|first| first.role == Role::System), last })
            }
        }
    }

    fn has(&self, message: &Message, place: usize, part: usize, own: bool) -> bool {
        if self.last == Some(place) && part + 1 == message.content.len() {
            return true;
        }
        match (self.system && place == 0, part) {
            (true, 0) => true,
            (true, 1) => false,
            _ => own,
        }
    }
}

fn one(message: &Message, place: usize, marks: &Marks, flags: ChatFlags) -> Result<Value, WireError> {
    let pictures = flags.vision && message.contains_image();
    let lists = !flags.strings && (flags.caching || flags.vision || flags.tool_calling);
    let mut wire =
        if lists || pictures { list(message, place, marks, flags) } else { string(message, flags.whole) };
    let calls = message.tool_calls.as_deref().filter(|calls| !calls.is_empty());
    match calls.filter(|_| message.role == Role::Assistant) {
        Some(calls) => {
            wire.insert("tool_calls".to_owned(), calls.iter().map(call).collect());
            drop_blank_content(&mut wire);
        }
        None if message.role == Role::Assistant && wire["content"] == json!([]) => {
            wire.insert("content".to_owned(), json!(""));
        }
        None => {}
    }
    if message.role == Role::Tool
        && let Some(id) = &message.tool_call_id
    {
        let name = message.name.as_deref().ok_or(WireError::NoName { place })?;
        wire.insert("tool_call_id".to_owned(), json!(&**id));
        wire.insert("name".to_owned(), json!(name));
    }
    if flags.reasoning
        && let Some(reasoning) = message.reasoning_content.as_deref().filter(|text| !text.is_empty())
    {
        wire.insert("reasoning_content".to_owned(), json!(reasoning));
    }
    Ok(Value::Object(wire))
}

fn string(message: &Message, whole: bool) -> Map<String, Value> {
    let texts: Vec<&str> = message.content.iter().filter_map(Content::as_text).collect();
    let mut text = texts.join("\n").into();
    if message.role == Role::Tool && !whole {
        text = middle_out(&text, TEXT_CHARACTERS_MAX, None);
    }
    object(json!({ "content": &*text, "role": message.role.as_str() }))
}

fn list(message: &Message, place: usize, marks: &Marks, flags: ChatFlags) -> Map<String, Value> {
    let is_tool = message.role == Role::Tool;
    let mut parts = Vec::with_capacity(message.content.len());
    let mut marked = false;
    for (at, part) in message.content.iter().enumerate() {
        let own = match part {
            Content::Text(text) => text.cache_prompt,
            Content::Image(image) => image.cache_prompt,
            Content::Unknown(_) => false,
        };
        let mark = marks.has(message, place, at, own);
        // In a tool's answer, the message has the mark, not its parts.
        marked |= mark && is_tool;
        parts.extend(wire_parts(part, is_tool && !flags.whole, flags.vision, mark && !is_tool));
    }
    let mut wire = object(json!({ "content": parts, "role": message.role.as_str() }));
    if marked {
        wire.insert("cache_control".to_owned(), json!({ "type": "ephemeral" }));
    }
    if message.role == Role::Assistant && !message.thinking_blocks.is_empty() {
        wire.insert("thinking_blocks".to_owned(), message.thinking_blocks.iter().map(thinking).collect());
    }
    wire
}

fn wire_parts(part: &Content, is_cut: bool, vision: bool, mark: bool) -> Vec<Value> {
    let mut wire = match part {
        Content::Text(part) => {
            let text =
                if is_cut { middle_out(&part.text, TEXT_CHARACTERS_MAX, None) } else { part.text.clone() };
            vec![json!({ "type": "text", "text": &*text })]
        }
        Content::Image(part) if vision => {
            let url =
                |url: &crate::event::Text| json!({ "type": "image_url", "image_url": { "url": &**url } });
            part.image_urls.iter().map(url).collect()
        }
        Content::Image(_) => Vec::new(),
        // A part of an unknown kind is sent unchanged.
        Content::Unknown(part) => vec![part.to_value()],
    };
    if mark && let Some(Value::Object(last)) = wire.last_mut() {
        last.insert("cache_control".to_owned(), json!({ "type": "ephemeral" }));
    }
    wire
}

fn thinking(block: &Thinking) -> Value {
    match block {
        Thinking::Shown(block) => {
            json!({ "type": "thinking", "thinking": &*block.thinking, "signature": block.signature.as_deref() })
        }
        Thinking::Redacted(block) => json!({ "type": "redacted_thinking", "data": &*block.data }),
        Thinking::Unknown(block) => block.to_value(),
    }
}

fn call(call: &MessageToolCall) -> Value {
    json!({
        "id": &*call.id,
        "type": "function",
        "function": { "name": &*call.name, "arguments": &*call.arguments },
    })
}

/// Removes text that is only white space, and content that consists of such text.
fn drop_blank_content(wire: &mut Map<String, Value>) {
    let empty = match wire.get_mut("content") {
        Some(Value::String(text)) => is_blank(text),
        Some(Value::Array(parts)) => {
            parts.retain(|part| {
                part["type"] != "text" || part["text"].as_str().is_none_or(|text| !is_blank(text))
            });
            parts.is_empty()
        }
        _ => false,
    };
    if empty {
        wire.remove("content");
    }
}

fn is_blank(text: &str) -> bool {
    text.chars().all(is_space)
}

/// Returns whether Python's `strip` removes the character: Unicode's white space and four control characters.
pub(super) fn is_space(character: char) -> bool {
    character.is_whitespace() || matches!(character, '\u{1c}'..='\u{1f}')
}

fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(members) => members,
        _ => Map::new(),
    }
}
