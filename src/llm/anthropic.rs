//! Anthropic's messages interface.
//!
//! Requests are made from the format of chat completions ([`chat`]), as the reference's library makes them: tool
//! results go into the user's turn, and thinking comes first in the model's turn, with its signatures.

use serde_json::{Map, Value, json};

use super::body::{Body, array, text_at, text_of};
use super::chat::Prepared;
use super::failure::Failure;
use super::feature::ThinkingMode;
use super::media::of_data_url;
use super::parsed::{CallParts, Parsed, assistant, call, calls, count, no_response};
use super::setup::{Setup, set};
use super::{Delta, LlmError, Request, ToolSchema};
use crate::event::{Content, RedactedThinkingBlock, Thinking, ThinkingBlock};
use crate::message::{ChatFlags, chat};
use crate::state::metrics::TokenUsage;

/// The version of the interface.
const VERSION: &str = "2023-06-01";

/// The most tokens to write if nothing is known of a model. The interface requires a number.
const OUTPUT_TOKENS: u64 = 4_096;

/// The text of a turn without content, because the interface accepts no empty turn.
const NOTHING: &str = "(empty)";

/// Makes a request.
pub(super) fn request(setup: &Setup, request: &Request, stream: bool) -> Result<Prepared, LlmError> {
    let features = &setup.features;
    let settings = &setup.settings;
    let flags = ChatFlags {
        caching: setup.caching,
        vision: features.vision,
        tool_calling: true,
        strings: false,
        reasoning: false,
        whole: false,
    };
    let messages = chat(&request.messages, flags).map_err(|error| LlmError::BadRequest(error.to_string()))?;
    let dialog = Dialog::of(&messages);
    let mut body = Body::default();
    body.set("model", setup.model.as_str());
    if !dialog.system.is_empty() {
        body.set("system", dialog.system);
    }
    let has_calls = dialog.turns.iter().any(|turn| has_part(turn, "tool_use"));
    body.set("messages", dialog.turns);
    if !request.tools.is_empty() {
        body.set_text("tools", array(request.tools.iter().map(tool)));
    } else if has_calls {
        // The interface requires tools if the messages contain tool calls.
        body.set(
            "tools",
            json!([{ "name": "none", "input_schema": { "type": "object" }, "description": "Unused." }]),
        );
    }
    body.set("max_tokens", setup.output_tokens_max.unwrap_or(OUTPUT_TOKENS));
    let mut headers = setup.headers(request.session.as_deref());
    let (thinking, config) = thinking(setup, &messages);
    if features.sampling && thinking.is_none() {
        body.set_some("temperature", settings.temperature);
        body.set_some("top_p", settings.top_p);
        body.set_some("top_k", settings.top_k.map(|count| count as u64));
    }
    if features.thinking == ThinkingMode::Manual
        && setup.thinking_budget().is_some()
        && !headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("anthropic-beta"))
    {
        set(&mut headers, "anthropic-beta", "interleaved-thinking-2025-05-14");
    }
    body.set_some("thinking", thinking);
    body.set_some("output_config", config);
    if stream {
        body.set("stream", true);
    }
    body.extend(&settings.litellm_extra_body);
    set(&mut headers, "anthropic-version", VERSION);
    if let Some(key) = setup.key() {
        set(&mut headers, "x-api-key", key);
    }
    let url = match &setup.base {
        base if base.ends_with("/v1/messages") => base.clone(),
        base if base.ends_with("/v1") => format!("{base}/messages"),
        base => format!("{base}/v1/messages"),
    };
    Ok(Prepared { url, headers, body, stream })
}

/// Returns how the model must think: the members `thinking` and `output_config`.
fn thinking(setup: &Setup, messages: &[Value]) -> (Option<Value>, Option<Value>) {
    let features = &setup.features;
    let effort = setup.effort().filter(|_| features.effort);
    let (thinking, config) = match (features.thinking, effort) {
        (ThinkingMode::Manual, _) if setup.thinking_budget().is_some() => (
            setup.thinking_budget().map(|budget| json!({ "type": "enabled", "budget_tokens": budget })),
            None,
        ),
        (_, None | Some("none")) => (None, None),
        (ThinkingMode::Adaptive, Some(effort)) => {
            let config = json!({ "effort": effort });
            (Some(json!({ "type": "adaptive", "display": "summarized" })), Some(config))
        }
        (_, Some(effort)) => {
            let budget = match effort {
                "minimal" | "low" => 1_024,
                "medium" => 2_048,
                "xhigh" => 8_192,
                "max" => 16_384,
                _ => 4_096,
            };
            (Some(json!({ "type": "enabled", "budget_tokens": budget })), None)
        }
    };
    // If there are tool calls and no thinking at all, thinking cannot be switched on for the next reply.
    let has_thinking = messages.iter().any(|message| message.get("thinking_blocks").is_some());
    let has_calls = messages.iter().any(|message| message.get("tool_calls").is_some());
    (thinking.filter(|_| has_thinking || !has_calls), config)
}

/// A conversation in the form of the interface.
#[derive(Debug, Default)]
struct Dialog {
    system: Vec<Value>,
    turns: Vec<Value>,
}

impl Dialog {
    fn of(messages: &[Value]) -> Self {
        let mut dialog = Self::default();
        for message in messages {
            match message["role"].as_str().unwrap_or_default() {
                "system" => dialog.system.extend(parts(&message["content"])),
                "assistant" => dialog.add("assistant", answer(message)),
                "tool" => dialog.add("user", vec![result(message)]),
                _ => dialog.add("user", parts(&message["content"])),
            }
        }
        if dialog.turns.first().is_none_or(|turn| turn["role"] != "user") {
            dialog.turns.insert(0, turn("user", Vec::new()));
        }
        for turn in &mut dialog.turns {
            if turn["content"] == json!([]) {
                turn["content"] = json!([{ "type": "text", "text": NOTHING }]);
            }
        }
        dialog
    }

    /// Adds the parts to the last turn if it has this role. Otherwise, begins a new turn.
    fn add(&mut self, role: &str, parts: Vec<Value>) {
        match self.turns.last_mut() {
            Some(last) if last["role"] == role => {
                if let Some(content) = last["content"].as_array_mut() {
                    content.extend(parts);
                }
            }
            _ => self.turns.push(turn(role, parts)),
        }
    }
}

fn turn(role: &str, parts: Vec<Value>) -> Value {
    json!({ "role": role, "content": parts })
}

fn has_part(turn: &Value, kind: &str) -> bool {
    turn["content"].as_array().into_iter().flatten().any(|part| part["type"] == kind)
}

/// Converts text and pictures. Blank text is left out, because the interface rejects it.
fn parts(content: &Value) -> Vec<Value> {
    match content {
        Value::String(text) if text.trim().is_empty() => Vec::new(),
        Value::String(text) => vec![json!({ "type": "text", "text": text })],
        Value::Array(parts) => parts.iter().filter_map(part).collect(),
        _ => Vec::new(),
    }
}

fn part(part: &Value) -> Option<Value> {
    let mut made = match part["type"].as_str() {
        Some("text") if part["text"].as_str().is_none_or(|text| text.trim().is_empty()) => return None,
        Some("text") => json!({ "type": "text", "text": part["text"] }),
        Some("image_url") => {
            let url = part["image_url"]["url"].as_str().unwrap_or_default();
            let source = match of_data_url(url) {
                Some((kind, data)) => json!({ "type": "base64", "media_type": kind, "data": data }),
                None => json!({ "type": "url", "url": url }),
            };
            json!({ "type": "image", "source": source })
        }
        _ => part.clone(),
    };
    if let Some(mark) = part.get("cache_control") {
        made["cache_control"] = mark.clone();
    }
    Some(made)
}

fn result(message: &Value) -> Value {
    let mut made = json!({
        "type": "tool_result",
        "tool_use_id": valid_id(message["tool_call_id"].as_str().unwrap_or_default()),
        "content": parts(&message["content"]),
    });
    if let Some(mark) = message.get("cache_control") {
        made["cache_control"] = mark.clone();
    }
    made
}

/// Converts a message of the model: its thinking, if it is signed, its text and its calls.
fn answer(message: &Value) -> Vec<Value> {
    let thinking = message["thinking_blocks"].as_array().into_iter().flatten();
    let signed = |block: &&Value| block["type"] != "thinking" || block["signature"].is_string();
    let mut made: Vec<Value> = thinking.filter(signed).cloned().collect();
    made.extend(parts(&message["content"]));
    for call in message["tool_calls"].as_array().into_iter().flatten() {
        let function = &call["function"];
        let input: Option<Map<String, Value>> =
            function["arguments"].as_str().and_then(|text| serde_json::from_str(text).ok());
        made.push(json!({
            "type": "tool_use",
            "id": valid_id(call["id"].as_str().unwrap_or_default()),
            "name": function["name"],
            "input": input.unwrap_or_default(),
        }));
    }
    made
}

/// Returns an id with the characters that the interface accepts: letters, digits, `_` and `-`. An id of Gemini loses
/// its signature.
fn valid_id(id: &str) -> String {
    let id = id.split("__thought__").next().unwrap_or(id);
    let id: String = id
        .chars()
        .map(
            |character| {
                if character.is_ascii_alphanumeric() || "_-".contains(character) { character } else { '_' }
            },
        )
        .collect();
    if id.is_empty() { "_".to_owned() } else { id }
}

fn tool(tool: &ToolSchema) -> String {
    let mut body = Body::default();
    body.set("type", "custom");
    body.set("name", &*tool.name);
    body.set("description", &*tool.description);
    body.set_text("input_schema", tool.parameters.text().to_owned());
    body.finish()
}

/// Reads a whole reply. The arguments of calls are read from its text, so that their members keep their order.
pub(super) fn parse(reply: &Value, text: &str) -> Result<Parsed, Failure> {
    let Some(blocks) = reply["content"].as_array() else {
        return Err(no_response("the reply of the model has no content"));
    };
    let mut assembly = Assembly::default();
    assembly.begin(reply);
    for (place, block) in blocks.iter().enumerate() {
        assembly.open(block, &mut |_| {});
        if let Some(Block::Call(call)) = &mut assembly.block {
            call.arguments = text_at(text, &["content", &place.to_string(), "input"]).unwrap_or_default();
        }
        assembly.close();
    }
    assembly.finished = true;
    assembly.finish()
}

/// A reply that is assembled from the pieces of a stream.
#[derive(Debug, Default)]
pub(super) struct Assembly {
    id: String,
    text: Option<String>,
    thinking: Vec<Thinking>,
    calls: Vec<CallParts>,
    /// The block that is open.
    block: Option<Block>,
    usage: Map<String, Value>,
    finished: bool,
}

#[derive(Debug)]
enum Block {
    Thinking { thinking: String, signature: String },
    Call(CallParts),
}

impl Assembly {
    /// Takes a piece of a stream. Returns whether the reply is complete.
    pub fn feed(&mut self, piece: &Value, on_delta: &mut dyn FnMut(Delta)) -> bool {
        match piece["type"].as_str().unwrap_or_default() {
            "message_start" => self.begin(&piece["message"]),
            "content_block_start" => self.open(&piece["content_block"], on_delta),
            "content_block_delta" => self.take(&piece["delta"], on_delta),
            "content_block_stop" => self.close(),
            "message_delta" => {
                self.count(&piece["usage"]);
                self.finished |= piece["delta"]["stop_reason"].is_string();
            }
            "message_stop" => {
                self.finished = true;
                return true;
            }
            _ => {}
        }
        false
    }

    fn begin(&mut self, message: &Value) {
        self.id = message["id"].as_str().unwrap_or_default().to_owned();
        self.count(&message["usage"]);
    }

    fn count(&mut self, usage: &Value) {
        for (name, value) in usage.as_object().into_iter().flatten().filter(|(_, value)| !value.is_null()) {
            self.usage.insert(name.clone(), value.clone());
        }
    }

    fn open(&mut self, block: &Value, on_delta: &mut dyn FnMut(Delta)) {
        self.close();
        let text = |name: &str| block[name].as_str().unwrap_or_default().to_owned();
        match block["type"].as_str().unwrap_or_default() {
            "text" => self.add_text(&text("text"), on_delta),
            "thinking" => {
                let (thinking, signature) = (text("thinking"), text("signature"));
                if !thinking.is_empty() {
                    on_delta(Delta::Reasoning(thinking.clone()));
                }
                self.block = Some(Block::Thinking { thinking, signature });
            }
            "redacted_thinking" => {
                let data = text("data").into();
                let block = RedactedThinkingBlock { data, extra: Default::default() };
                self.thinking.push(Thinking::Redacted(block));
            }
            "tool_use" => {
                let input = &block["input"];
                // In a stream, the input is empty at first. Its text follows in pieces.
                let is_empty = input.as_object().is_some_and(Map::is_empty) || input.is_null();
                let arguments = if is_empty { String::new() } else { text_of(input) };
                self.block = Some(Block::Call(CallParts { id: text("id"), name: text("name"), arguments }));
            }
            _ => {}
        }
    }

    fn take(&mut self, delta: &Value, on_delta: &mut dyn FnMut(Delta)) {
        let text = |name: &str| delta[name].as_str().unwrap_or_default();
        match (delta["type"].as_str().unwrap_or_default(), &mut self.block) {
            ("text_delta", _) => self.add_text(text("text"), on_delta),
            ("thinking_delta", Some(Block::Thinking { thinking, .. })) => {
                thinking.push_str(text("thinking"));
                on_delta(Delta::Reasoning(text("thinking").to_owned()));
            }
            ("signature_delta", Some(Block::Thinking { signature, .. })) => {
                signature.push_str(text("signature"))
            }
            ("input_json_delta", Some(Block::Call(call))) => call.arguments.push_str(text("partial_json")),
            _ => {}
        }
    }

    fn add_text(&mut self, text: &str, on_delta: &mut dyn FnMut(Delta)) {
        self.text.get_or_insert_default().push_str(text);
        if !text.is_empty() {
            on_delta(Delta::Text(text.to_owned()));
        }
    }

    fn close(&mut self) {
        match self.block.take() {
            Some(Block::Thinking { thinking, signature }) => {
                let signature = (!signature.is_empty()).then(|| signature.into());
                let block = ThinkingBlock { thinking: thinking.into(), signature, extra: Default::default() };
                self.thinking.push(Thinking::Shown(block));
            }
            Some(Block::Call(call)) => self.calls.push(call),
            None => {}
        }
    }

    /// Returns the reply. Fails if the stream ended before the reply was complete.
    pub fn finish(mut self) -> Result<Parsed, Failure> {
        if !self.finished {
            let error = "the stream ended before the reply did".to_owned();
            return Err(Failure::passing(LlmError::ServiceUnavailable(error)));
        }
        self.close();
        let mut message = assistant(self.text.into_iter().map(Content::text).collect());
        message.tool_calls = calls(self.calls.into_iter().map(call).collect())?;
        let shown = self.thinking.iter().filter_map(|block| match block {
            Thinking::Shown(block) => Some(&*block.thinking),
            Thinking::Redacted(_) | Thinking::Unknown(_) => None,
        });
        let reasoning: String = shown.collect();
        message.reasoning_content = (!reasoning.is_empty()).then(|| reasoning.into());
        message.thinking_blocks = self.thinking;
        let usage = Value::Object(self.usage);
        let read = count(&usage, &["cache_read_input_tokens"]);
        let written = count(&usage, &["cache_creation_input_tokens"]);
        // The interface does not count the tokens of the cache among the input tokens.
        let usage = TokenUsage {
            prompt_tokens: count(&usage, &["input_tokens"]).saturating_add(read).saturating_add(written),
            completion_tokens: count(&usage, &["output_tokens"]),
            cache_read_tokens: read,
            cache_write_tokens: written,
            ..TokenUsage::default()
        };
        Ok(Parsed { id: self.id, message, usage, cost: None })
    }
}
