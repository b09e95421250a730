//! OpenAI's chat completions, as OpenAI and compatible providers use them.

use serde_json::{Value, json};

use super::body::{Body, array, text_of};
use super::compat::adapt;
use super::failure::Failure;
use super::feature::ThinkingMode;
use super::known::Models;
use super::parsed::{CallParts, Parsed, assistant, call, calls, count, no_response};
use super::provider::Effort;
use super::settings::Settings;
use super::setup::{Setup, set};
use super::{Delta, LlmError, Request, ToolSchema, worded};
use crate::event::model::Text;
use crate::event::{Content, RedactedThinkingBlock, Thinking, ThinkingBlock};
use crate::message::{ChatFlags, chat};
use crate::state::metrics::TokenUsage;

/// The address, the headers and the body of a request.
pub(super) struct Prepared {
    pub url: String,
    pub headers: Vec<(String, String)>,
    pub body: Body,
    /// Whether a streamed reply is requested.
    pub stream: bool,
}

/// Returns how messages are sent to the model with these settings: the JSON of `llm` of an agent in a base state. `None`
/// if the settings cannot be read or name no known provider.
#[must_use]
pub fn chat_flags(llm: &str) -> Option<ChatFlags> {
    let setup = Setup::new(Settings::parse(llm).ok()?, &Models::default()).ok()?;
    Some(flags(&setup))
}

fn flags(setup: &Setup) -> ChatFlags {
    let features = &setup.features;
    ChatFlags {
        caching: setup.caching,
        vision: features.vision,
        tool_calling: setup.settings.native_tool_calling,
        strings: features.strings,
        reasoning: features.send_reasoning,
        whole: false,
    }
}

/// Makes a chat request.
pub(super) fn request(setup: &Setup, request: &Request, stream: bool) -> Result<Prepared, LlmError> {
    let features = &setup.features;
    let settings = &setup.settings;
    let messages =
        chat(&request.messages, flags(setup)).map_err(|error| LlmError::BadRequest(error.to_string()))?;
    let mut body = Body::default();
    body.set("model", setup.model.as_str());
    if request.tools.is_empty() {
        body.set("messages", adapt(messages, setup));
    } else if settings.native_tool_calling {
        body.set("messages", adapt(messages, setup));
        body.set_text("tools", array(request.tools.iter().map(tool)));
    } else {
        body.set("messages", adapt(worded::messages(messages, &request.tools), setup));
        if features.stop_words && settings.disable_stop_word != Some(true) {
            body.set("stop", json!([worded::STOP]));
        }
    }
    body.set_some(setup.provider.tokens_max, setup.output_tokens_max);
    if features.sampling {
        body.set_some("temperature", settings.temperature);
        body.set_some("top_p", settings.top_p);
        body.set_some("top_k", settings.top_k);
    }
    body.set_some("seed", settings.seed);
    let mut headers = setup.headers(request.session.as_deref());
    if features.effort {
        match (setup.provider.effort, setup.effort()) {
            (_, None) => {}
            (Effort::Switch, Some("none")) => body.set("thinking", json!({ "type": "disabled" })),
            (Effort::Switch, Some(_)) => body.set("thinking", json!({ "type": "enabled" })),
            (_, Some(effort)) => body.set("reasoning_effort", effort),
        }
    }
    if features.thinking == ThinkingMode::Manual
        && let Some(budget) = setup.thinking_budget()
    {
        body.set("thinking", json!({ "type": "enabled", "budget_tokens": budget }));
        body.set_some("max_tokens", setup.output_tokens_max);
        if !headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("anthropic-beta")) {
            set(&mut headers, "anthropic-beta", "interleaved-thinking-2025-05-14");
        }
    }
    if features.cache_key {
        body.set_some("prompt_cache_key", request.cache_key.as_deref());
    }
    if setup.provider.name == "openrouter" {
        // With this, OpenRouter reports the cost of the call.
        body.set("usage", json!({ "include": true }));
    }
    if stream {
        body.set("stream", true);
        body.set("stream_options", json!({ "include_usage": true }));
    }
    setup.route(&mut body, request.session.as_deref());
    body.extend(&settings.litellm_extra_body);
    let url = address(setup, "chat/completions");
    authorize(setup, &mut headers);
    Ok(Prepared { url, headers, body, stream })
}

/// Returns the address of one of OpenAI's interfaces. Azure's addresses contain the deployment and the version.
pub(super) fn address(setup: &Setup, interface: &str) -> String {
    if setup.provider.name != "azure" {
        return format!("{}/{interface}", setup.base);
    }
    let version = setup.settings.api_version.as_deref().unwrap_or_default();
    format!("{}/openai/deployments/{}/{interface}?api-version={version}", setup.base, setup.model)
}

/// Adds the key to the headers, if there is one.
pub(super) fn authorize(setup: &Setup, headers: &mut Vec<(String, String)>) {
    match setup.key() {
        Some(key) if setup.provider.name == "azure" => set(headers, "api-key", key),
        Some(key) => set(headers, "Authorization", &format!("Bearer {key}")),
        None => {}
    }
}

fn tool(tool: &ToolSchema) -> String {
    let mut function = Body::default();
    function.set("name", &*tool.name);
    function.set("description", &*tool.description);
    function.set_text("parameters", tool.parameters.text().to_owned());
    let mut body = Body::default();
    body.set("type", "function");
    body.set_text("function", function.finish());
    body.finish()
}

/// Reads a whole reply.
pub(super) fn parse(reply: &Value) -> Result<Parsed, Failure> {
    let Some(message) = reply["choices"].get(0).and_then(|choice| choice.get("message")) else {
        return Err(no_response("the reply of the model has no choices"));
    };
    let mut assembly = Assembly::default();
    assembly.take(message, &mut |_| {});
    assembly.id = reply["id"].as_str().unwrap_or_default().to_owned();
    assembly.usage = reply["usage"].clone();
    assembly.finished = true;
    assembly.finish()
}

/// A reply that is assembled from the pieces of a stream.
#[derive(Debug, Default)]
pub(super) struct Assembly {
    id: String,
    content: Option<String>,
    reasoning: String,
    thinking: Vec<Thinking>,
    /// Thinking whose signature has not arrived.
    unsigned: String,
    calls: Vec<(Option<u64>, CallParts)>,
    usage: Value,
    finished: bool,
}

impl Assembly {
    /// Takes a piece of a stream.
    pub fn feed(&mut self, piece: &Value, on_delta: &mut dyn FnMut(Delta)) {
        if self.id.is_empty() {
            self.id = piece["id"].as_str().unwrap_or_default().to_owned();
        }
        if piece["usage"].is_object() {
            self.usage = piece["usage"].clone();
        }
        let Some(choice) = piece["choices"].get(0) else { return };
        self.take(&choice["delta"], on_delta);
        self.finished |= choice["finish_reason"].is_string();
    }

    /// Takes the content of a message, or of a piece of a message.
    fn take(&mut self, message: &Value, on_delta: &mut dyn FnMut(Delta)) {
        let text = content(&message["content"]).or_else(|| message["refusal"].as_str().map(str::to_owned));
        if let Some(text) = text {
            self.content.get_or_insert_default().push_str(&text);
            if !text.is_empty() {
                on_delta(Delta::Text(text));
            }
        }
        let reasoning = ["reasoning_content", "reasoning"].iter().find_map(|name| message[*name].as_str());
        if let Some(text) = reasoning.filter(|text| !text.is_empty()) {
            self.reasoning.push_str(text);
            on_delta(Delta::Reasoning(text.to_owned()));
        }
        for block in message["thinking_blocks"].as_array().into_iter().flatten() {
            self.think(block);
        }
        for part in message["tool_calls"].as_array().into_iter().flatten() {
            self.take_call(part);
        }
    }

    fn think(&mut self, block: &Value) {
        if let Some(data) = block["data"].as_str() {
            self.thinking.push(Thinking::Redacted(RedactedThinkingBlock {
                data: data.into(),
                extra: Default::default(),
            }));
            return;
        }
        self.unsigned.push_str(block["thinking"].as_str().unwrap_or_default());
        if let Some(signature) = block["signature"].as_str().filter(|signature| !signature.is_empty()) {
            self.close_thinking(Some(signature.into()));
        }
    }

    fn close_thinking(&mut self, signature: Option<Text>) {
        let thinking = std::mem::take(&mut self.unsigned);
        let block = ThinkingBlock { thinking: thinking.into(), signature, extra: Default::default() };
        self.thinking.push(Thinking::Shown(block));
    }

    fn take_call(&mut self, part: &Value) {
        // Other kinds of calls are ignored.
        if part["type"].as_str().is_some_and(|kind| kind != "function") {
            return;
        }
        let index = part["index"].as_u64();
        let id = part["id"].as_str().unwrap_or_default();
        let function = &part["function"];
        let name = function["name"].as_str().unwrap_or_default();
        // A piece belongs to the call with its index. Without an index, it belongs to the call with its id, or to the
        // last call if it has neither an id nor a name. Otherwise it begins a new call.
        let known = self.calls.iter_mut().rev().find(|(known, call)| match (index, known) {
            (Some(index), Some(known)) => index == *known && (id.is_empty() || call.id == id),
            _ => id.is_empty() && name.is_empty() || (!id.is_empty() && call.id == id),
        });
        let call = match known {
            Some((_, call)) => call,
            None => {
                self.calls.push((index, CallParts::default()));
                let (_, call) = self.calls.last_mut().expect("a call was pushed");
                call
            }
        };
        if call.id.is_empty() {
            id.clone_into(&mut call.id);
        }
        if call.name.is_empty() {
            name.clone_into(&mut call.name);
        }
        match &function["arguments"] {
            Value::Null => {}
            arguments => call.arguments.push_str(&text_of(arguments)),
        }
    }

    /// Returns the reply. Fails if the stream ended before the reply was complete.
    pub fn finish(mut self) -> Result<Parsed, Failure> {
        if !self.finished {
            let error = "the stream ended before the reply did".to_owned();
            return Err(Failure::passing(LlmError::ServiceUnavailable(error)));
        }
        if !self.unsigned.is_empty() {
            self.close_thinking(None);
        }
        let mut reasoning = self.reasoning;
        let mut content = self.content;
        if reasoning.is_empty()
            && let Some((thinking, rest)) = content.as_deref().and_then(split_thinking)
        {
            (reasoning, content) = (thinking.to_owned(), Some(rest.to_owned()));
        }
        let mut message = assistant(content.into_iter().map(Content::text).collect());
        message.tool_calls = calls(self.calls.into_iter().map(|(_, parts)| call(parts)).collect())?;
        message.reasoning_content = (!reasoning.is_empty()).then(|| reasoning.into());
        message.thinking_blocks = self.thinking;
        let cost = self.usage["cost"].as_f64();
        Ok(Parsed { id: self.id, message, usage: usage(&self.usage), cost })
    }
}

/// Returns the text, or the joined texts of a list of parts.
fn content(content: &Value) -> Option<String> {
    match content {
        Value::String(text) => Some(text.clone()),
        Value::Array(parts) => Some(parts.iter().filter_map(|part| part["text"].as_str()).collect()),
        _ => None,
    }
}

/// Splits the text between the tags in which local models think from the text that follows.
fn split_thinking(content: &str) -> Option<(&str, &str)> {
    ["think", "thinking"].iter().find_map(|tag| {
        let inside = content.strip_prefix('<')?.strip_prefix(tag)?.strip_prefix('>')?;
        inside.split_once(&format!("</{tag}>"))
    })
}

/// Returns the tokens of a reply. Providers have different names for the tokens of a cache.
fn usage(usage: &Value) -> TokenUsage {
    let prompt = &usage["prompt_tokens_details"];
    let read = count(prompt, &["cached_tokens"]);
    let written = count(prompt, &["cache_creation_tokens", "cache_write_tokens"]);
    let or = |known: u64, names: &[&str]| if known > 0 { known } else { count(usage, names) };
    TokenUsage {
        prompt_tokens: count(usage, &["prompt_tokens"]),
        completion_tokens: count(usage, &["completion_tokens"]),
        cache_read_tokens: or(read, &["cache_read_input_tokens", "prompt_cache_hit_tokens", "cached_tokens"]),
        cache_write_tokens: or(written, &["cache_creation_input_tokens"]),
        reasoning_tokens: count(&usage["completion_tokens_details"], &["reasoning_tokens"]),
        ..TokenUsage::default()
    }
}
