//! OpenAI's Responses interface. Requests ask OpenAI to store nothing.

use serde_json::{Value, json};

use super::body::{Body, array};
use super::chat::{Prepared, address, authorize};
use super::failure::{Failure, Hidden, Refusal, classify};
use super::parsed::{CallParts, Parsed, assistant, call, calls, count, no_response};
use super::setup::Setup;
use super::{Delta, LlmError, Request, ToolSchema};
use crate::event::model::Text;
use crate::event::{Content, MessageToolCall, Origin, ReasoningItem};
use crate::message::responses_input;
use crate::state::metrics::TokenUsage;

/// Makes a request.
pub(super) fn request(setup: &Setup, request: &Request, stream: bool) -> Result<Prepared, LlmError> {
    let features = &setup.features;
    let settings = &setup.settings;
    let input = responses_input(&request.messages, features.vision);
    let mut body = Body::default();
    body.set("model", setup.model.as_str());
    body.set_some("instructions", input.instructions);
    body.set("input", input.input);
    if !request.tools.is_empty() {
        body.set_text("tools", array(request.tools.iter().map(tool)));
    }
    body.set("tool_choice", "auto");
    body.set("store", false);
    body.set_some("max_output_tokens", setup.output_tokens_max);
    if features.sampling {
        body.set_some("temperature", settings.temperature);
    }
    if features.effort {
        if settings.enable_encrypted_reasoning {
            body.set("include", json!(["reasoning.encrypted_content"]));
        }
        let mut reasoning = json!({});
        if let Some(effort) = setup.effort() {
            reasoning["effort"] = effort.into();
        }
        if let (Some(summary), Some(_)) = (&settings.reasoning_summary, &settings.reasoning_effort) {
            reasoning["summary"] = (&**summary).into();
        }
        if reasoning != json!({}) {
            body.set("reasoning", reasoning);
        }
    }
    if features.cache_retention {
        body.set_some("prompt_cache_retention", settings.prompt_cache_retention.as_deref());
    }
    if features.cache_key {
        body.set_some("prompt_cache_key", request.cache_key.as_deref());
    }
    if stream {
        body.set("stream", true);
    }
    setup.route(&mut body, request.session.as_deref());
    body.extend(&settings.litellm_extra_body);
    let mut headers = setup.headers(request.session.as_deref());
    authorize(setup, &mut headers);
    Ok(Prepared { url: address(setup, "responses"), headers, body, stream })
}

fn tool(tool: &ToolSchema) -> String {
    let mut body = Body::default();
    body.set("type", "function");
    body.set("name", &*tool.name);
    body.set("description", &*tool.description);
    body.set_text("parameters", tool.parameters.text().to_owned());
    body.set("strict", false);
    body.finish()
}

/// Reads a whole reply.
pub(super) fn parse(reply: &Value) -> Result<Parsed, Failure> {
    let Some(output) = reply["output"].as_array() else {
        return Err(no_response("the reply of the model has no output"));
    };
    parsed(reply, output)
}

/// A reply that is assembled from the pieces of a stream.
#[derive(Debug, Default)]
pub(super) struct Assembly {
    /// The finished items. Some endpoints leave them out of the whole reply.
    items: Vec<Value>,
    whole: Option<Value>,
}

impl Assembly {
    /// Takes a piece of a stream. Returns whether the reply is complete.
    pub fn feed(
        &mut self,
        piece: &Value,
        on_delta: &mut dyn FnMut(Delta),
        provider: &str,
        hidden: &Hidden,
    ) -> Result<bool, Failure> {
        let refused = |error: &Value| {
            let body = json!({ "error": error }).to_string();
            classify(Refusal { status: None, body: &body, wait: None, provider }, hidden)
        };
        let delta = piece["delta"].as_str().filter(|delta| !delta.is_empty());
        match piece["type"].as_str().unwrap_or_default() {
            "response.output_text.delta" | "response.refusal.delta" => {
                delta.into_iter().for_each(|text| on_delta(Delta::Text(text.to_owned())));
            }
            "response.reasoning_summary_text.delta" | "response.reasoning_text.delta" => {
                delta.into_iter().for_each(|text| on_delta(Delta::Reasoning(text.to_owned())));
            }
            "response.output_item.done" => self.items.push(piece["item"].clone()),
            "response.completed" | "response.incomplete" => {
                self.whole = Some(piece["response"].clone());
                return Ok(true);
            }
            "response.failed" => return Err(refused(&piece["response"]["error"])),
            "error" => return Err(refused(piece)),
            _ => {}
        }
        Ok(false)
    }

    /// Returns the reply. Fails if the stream ended before the reply was complete.
    pub fn finish(self) -> Result<Parsed, Failure> {
        let Some(whole) = self.whole else {
            return Err(no_response("the stream ended before the reply did"));
        };
        match whole["output"].as_array() {
            Some(output) if !output.is_empty() => parsed(&whole, output),
            _ => parsed(&whole, &self.items),
        }
    }
}

fn parsed(reply: &Value, output: &[Value]) -> Result<Parsed, Failure> {
    let mut texts: Vec<&str> = Vec::new();
    let mut made = Vec::new();
    let mut item = None;
    for part in output {
        match part["type"].as_str().unwrap_or_default() {
            "message" => {
                let parts = part["content"].as_array().into_iter().flatten();
                let found =
                    parts.filter_map(|part| part["text"].as_str().or_else(|| part["refusal"].as_str()));
                texts.extend(found.filter(|text| !text.is_empty()));
            }
            "function_call" => made.push(function_call(part)),
            "reasoning" => item = Some(reasoning(part)),
            _ => {}
        }
    }
    let text = texts.join("\n");
    let text = text.trim();
    let mut message = assistant(if text.is_empty() { Vec::new() } else { vec![Content::text(text)] });
    message.tool_calls = calls(made)?;
    message.responses_reasoning_item = item;
    let usage = &reply["usage"];
    let usage = TokenUsage {
        prompt_tokens: count(usage, &["input_tokens"]),
        completion_tokens: count(usage, &["output_tokens"]),
        cache_read_tokens: count(&usage["input_tokens_details"], &["cached_tokens"]),
        reasoning_tokens: count(&usage["output_tokens_details"], &["reasoning_tokens"]),
        ..TokenUsage::default()
    };
    let id = reply["id"].as_str().unwrap_or_default().to_owned();
    Ok(Parsed { id, message, usage, cost: None })
}

fn function_call(item: &Value) -> MessageToolCall {
    let text = |name: &str| item[name].as_str().unwrap_or_default().to_owned();
    let (item_id, call_id) = (text("id"), text("call_id"));
    let id = if call_id.is_empty() { item_id.clone() } else { call_id };
    let made = call(CallParts { id, name: text("name"), arguments: text("arguments") });
    MessageToolCall {
        responses_item_id: (!item_id.is_empty()).then(|| item_id.into()),
        origin: Origin::Responses,
        ..made
    }
}

fn reasoning(item: &Value) -> ReasoningItem {
    let text = |name: &str| item[name].as_str().map(Text::from);
    let texts = |name: &str| -> Vec<Text> {
        let parts = item[name].as_array().into_iter().flatten();
        parts.filter_map(|part| part["text"].as_str().map(Text::from)).collect()
    };
    let content = texts("content");
    ReasoningItem {
        id: text("id"),
        summary: texts("summary"),
        content: (!content.is_empty()).then_some(content),
        encrypted_content: text("encrypted_content"),
        status: text("status"),
        extra: Default::default(),
    }
}
