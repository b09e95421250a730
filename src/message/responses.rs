//! Messages in the format of the Responses interface.

use serde_json::{Value, json};

use super::truncate::{TEXT_CHARACTERS_MAX, middle_out};
use crate::event::{Content, Message, MessageToolCall, ReasoningItem, Role};

/// The content of a Responses request: the instructions and the input items.
#[derive(Debug, Clone, PartialEq, Default)]
#[non_exhaustive]
pub struct ResponsesInput {
    /// The texts of the system messages. `None` if they have no text.
    pub instructions: Option<String>,
    /// All other messages.
    pub input: Vec<Value>,
}

/// Converts each message: a string for a system message, else an array of items.
#[must_use]
pub fn responses(messages: &[Message], vision: bool) -> Vec<Value> {
    messages.iter().map(|message| one(message, vision)).collect()
}

/// Converts all messages to one request. A rule separates several system messages.
#[must_use]
pub fn responses_input(messages: &[Message], vision: bool) -> ResponsesInput {
    let mut request = ResponsesInput::default();
    for message in messages {
        match one(message, vision) {
            Value::String(text) => {
                let text = strip(&text);
                match &mut request.instructions {
                    _ if text.is_empty() => {}
                    Some(instructions) => {
                        instructions.push_str("\n\n---\n\n");
                        instructions.push_str(text);
                    }
                    none => *none = Some(text.to_owned()),
                }
            }
            Value::Array(items) => request.input.extend(items),
            _ => {}
        }
    }
    request
}

fn one(message: &Message, vision: bool) -> Value {
    match &message.role {
        Role::System => {
            let texts = message.content.iter().filter_map(Content::as_text).filter(|text| !text.is_empty());
            Value::String(texts.collect::<Vec<_>>().join("\n"))
        }
        Role::User => Value::Array(vec![user(message, vision)]),
        Role::Assistant => Value::Array(assistant(message)),
        Role::Tool => Value::Array(tool(message, vision)),
        Role::Other(_) => Value::Array(Vec::new()),
    }
}

fn user(message: &Message, vision: bool) -> Value {
    let mut parts = Vec::with_capacity(message.content.len());
    for part in &message.content {
        match part {
            Content::Text(text) => parts.push(json!({ "type": "input_text", "text": &*text.text })),
            Content::Image(image) if vision => parts.extend(image.image_urls.iter().map(|url| picture(url))),
            Content::Image(_) | Content::Unknown(_) => {}
        }
    }
    if parts.is_empty() {
        parts.push(json!({ "type": "input_text", "text": "" }));
    }
    json!({ "type": "message", "role": "user", "content": parts })
}

fn assistant(message: &Message) -> Vec<Value> {
    let mut items: Vec<Value> =
        message.responses_reasoning_item.as_ref().and_then(reasoning).into_iter().collect();
    let texts = message.content.iter().filter_map(Content::as_text).filter(|text| !text.is_empty());
    let parts: Vec<Value> = texts.map(|text| json!({ "type": "output_text", "text": text })).collect();
    if !parts.is_empty() {
        items.push(json!({ "type": "message", "role": "assistant", "content": parts }));
    }
    items.extend(message.tool_calls.iter().flatten().map(call));
    items
}

fn tool(message: &Message, vision: bool) -> Vec<Value> {
    let Some(id) = message.tool_call_id.as_deref() else { return Vec::new() };
    let answer = |output: Value| json!({ "type": "function_call_output", "call_id": id, "output": output });
    let mut items = Vec::with_capacity(message.content.len());
    for part in &message.content {
        match part {
            Content::Text(text) => {
                items.push(answer(json!(&*middle_out(&text.text, TEXT_CHARACTERS_MAX, None))));
            }
            Content::Image(image) if vision => {
                items.extend(image.image_urls.iter().map(|url| answer(json!([picture(url)]))));
            }
            Content::Image(_) | Content::Unknown(_) => {}
        }
    }
    items
}

fn picture(url: &str) -> Value {
    json!({ "type": "input_image", "image_url": url, "detail": "auto" })
}

/// Converts a reasoning item. `None` if it has no id, because the interface requires one.
fn reasoning(item: &ReasoningItem) -> Option<Value> {
    let list = |texts: &[crate::event::Text], kind: &str| -> Vec<Value> {
        texts.iter().map(|text| json!({ "type": kind, "text": &**text })).collect()
    };
    let id = item.id.as_deref()?;
    let mut wire = json!({ "type": "reasoning", "id": id, "summary": list(&item.summary, "summary_text") });
    if let Some(content) = item.content.as_deref().filter(|content| !content.is_empty()) {
        wire["content"] = list(content, "reasoning_text").into();
    }
    for (name, text) in [("encrypted_content", &item.encrypted_content), ("status", &item.status)] {
        if let Some(text) = text.as_deref().filter(|text| !text.is_empty()) {
            wire[name] = text.into();
        }
    }
    Some(wire)
}

/// Converts a call. Its id is the interface's own, which begins with `fc`.
fn call(call: &MessageToolCall) -> Value {
    let own = call.responses_item_id.as_deref().filter(|id| !id.is_empty()).map(str::to_owned);
    let id = own.unwrap_or_else(|| {
        if call.id.starts_with("fc") { call.id.to_string() } else { format!("fc_{}", call.id) }
    });
    json!({
        "type": "function_call",
        "id": id,
        "call_id": &*call.id,
        "name": &*call.name,
        "arguments": &*call.arguments,
    })
}

/// Removes white space at both ends, as Python's `strip` does.
fn strip(text: &str) -> &str {
    text.trim_matches(super::chat::is_space)
}
