//! Google's `generateContent`, as Google AI Studio offers it.
//!
//! The signature of a call is a part of its id (`call_1__thought__<signature>`), as in the reference's library. The log
//! keeps the id, so the signature is available when the call is sent back.

use serde_json::{Map, Value, json};

use super::body::{Body, array, text_at};
use super::chat::Prepared;
use super::failure::Failure;
use super::media::{kind_of_name, of_data_url};
use super::parsed::{CallParts, Parsed, assistant, call, calls, count, new_id, no_response};
use super::setup::{Setup, set};
use super::{Delta, LlmError, Request, ToolSchema};
use crate::event::{Content, Thinking, ThinkingBlock};
use crate::message::{ChatFlags, chat};
use crate::state::metrics::TokenUsage;

/// The separator between a call's id and its signature.
const SIGNED: &str = "__thought__";

/// A signature for calls that have none. Models that require a signature accept it. Source: Google's document on
/// thought signatures; it is `skip_thought_signature_validator` in base64.
const NO_SIGNATURE: &str = "c2tpcF90aG91Z2h0X3NpZ25hdHVyZV92YWxpZGF0b3I=";

/// Makes a request.
pub(super) fn request(setup: &Setup, request: &Request, stream: bool) -> Result<Prepared, LlmError> {
    let features = &setup.features;
    let settings = &setup.settings;
    let flags = ChatFlags {
        caching: false,
        vision: features.vision,
        tool_calling: true,
        strings: false,
        reasoning: false,
        whole: false,
    };
    let messages = chat(&request.messages, flags).map_err(|error| LlmError::BadRequest(error.to_string()))?;
    let newest = setup.model.contains("gemini-3") || setup.model.contains("gemini-4");
    let mut body = Body::default();
    body.set("contents", contents(&messages, newest));
    let system = messages.iter().filter(|message| message["role"] == "system");
    let system: String = system.flat_map(|message| texts(&message["content"])).collect();
    if !system.is_empty() {
        body.set("system_instruction", json!({ "parts": [{ "text": system }] }));
    }
    if !request.tools.is_empty() {
        let functions = array(request.tools.iter().map(tool));
        body.set_text("tools", format!(r#"[{{"function_declarations":{functions}}}]"#));
    }
    let mut config = Map::new();
    let mut configure = |name: &str, value: Option<Value>| {
        if let Some(value) = value {
            config.insert(name.to_owned(), value);
        }
    };
    configure("max_output_tokens", setup.output_tokens_max.map(Value::from));
    if features.sampling {
        // The newest models work badly with a temperature below their default.
        let temperature = settings.temperature.or(newest.then_some(1.0));
        configure("temperature", temperature.map(Value::from));
        configure("top_p", settings.top_p.map(Value::from));
        configure("top_k", settings.top_k.map(Value::from));
    }
    configure("seed", settings.seed.map(Value::from));
    configure(
        "thinkingConfig",
        setup.effort().filter(|_| features.effort).map(|effort| thinking(effort, newest)),
    );
    if !config.is_empty() {
        body.set("generationConfig", config);
    }
    body.extend(&settings.litellm_extra_body);
    let mut headers = setup.headers(request.session.as_deref());
    if let Some(key) = setup.key() {
        set(&mut headers, "x-goog-api-key", key);
    }
    let what = if stream { "streamGenerateContent?alt=sse" } else { "generateContent" };
    Ok(Prepared { url: format!("{}/models/{}:{what}", setup.base, setup.model), headers, body, stream })
}

fn thinking(effort: &str, newest: bool) -> Value {
    if newest {
        let level = match effort {
            "none" | "minimal" | "low" => "low",
            "medium" => "medium",
            _ => "high",
        };
        return json!({ "thinkingLevel": level, "includeThoughts": effort != "none" });
    }
    let budget = match effort {
        "none" => 0,
        "minimal" => 128,
        "low" => 1_024,
        "medium" => 2_048,
        "xhigh" => 8_192,
        "max" => 16_384,
        _ => 4_096,
    };
    json!({ "thinkingBudget": budget, "includeThoughts": budget > 0 })
}

/// Returns the turns. Consecutive messages of the same role form one turn. Tool results have the role of the user.
fn contents(messages: &[Value], newest: bool) -> Vec<Value> {
    let mut turns: Vec<(&str, bool, Vec<Value>)> = Vec::new();
    for message in messages {
        let is_tool = message["role"] == "tool";
        let (role, parts) = match message["role"].as_str().unwrap_or_default() {
            "system" => continue,
            "assistant" => ("model", answer(message, newest)),
            "tool" => ("user", vec![result(message, newest)]),
            _ => ("user", parts(&message["content"])),
        };
        match turns.last_mut() {
            // Tool results and messages of the user do not share a turn.
            Some((last, was_tool, content)) if *last == role && *was_tool == is_tool => content.extend(parts),
            _ => turns.push((role, is_tool, parts)),
        }
    }
    let turn = |(role, _, mut parts): (&str, bool, Vec<Value>)| {
        if parts.is_empty() {
            parts.push(json!({ "text": " " }));
        }
        json!({ "role": role, "parts": parts })
    };
    turns.into_iter().map(turn).collect()
}

fn texts(content: &Value) -> Vec<&str> {
    match content {
        Value::String(text) => vec![text],
        Value::Array(parts) => parts.iter().filter_map(|part| part["text"].as_str()).collect(),
        _ => Vec::new(),
    }
}

fn parts(content: &Value) -> Vec<Value> {
    match content {
        Value::String(text) if text.is_empty() => Vec::new(),
        Value::String(text) => vec![json!({ "text": text })],
        Value::Array(parts) => parts.iter().filter_map(part).collect(),
        _ => Vec::new(),
    }
}

fn part(part: &Value) -> Option<Value> {
    if let Some(url) = part["image_url"]["url"].as_str() {
        if let Some((kind, data)) = of_data_url(url) {
            return Some(json!({ "inline_data": { "mime_type": kind, "data": data } }));
        }
        return Some(match kind_of_name(url) {
            Some(kind) => json!({ "file_data": { "mime_type": kind, "file_uri": url } }),
            // No type is better than a wrong one: the provider can look for itself.
            None => json!({ "file_data": { "file_uri": url } }),
        });
    }
    part["text"].as_str().map(|text| json!({ "text": text }))
}

/// Converts a message of the model: signed thinking, text and calls.
fn answer(message: &Value, newest: bool) -> Vec<Value> {
    let thinking = message["thinking_blocks"].as_array().into_iter().flatten();
    let signed = thinking.filter(|block| block["type"] == "thinking" && block["signature"].is_string());
    let thought =
        |block: &Value| json!({ "thoughtSignature": block["signature"], "text": block["thinking"] });
    let mut made: Vec<Value> = signed.map(thought).collect();
    made.extend(parts(&message["content"]));
    for (index, call) in message["tool_calls"].as_array().into_iter().flatten().enumerate() {
        let function = &call["function"];
        let args: Option<Map<String, Value>> =
            function["arguments"].as_str().and_then(|text| serde_json::from_str(text).ok());
        let (id, signature) = split_id(call["id"].as_str().unwrap_or_default());
        let mut part =
            json!({ "function_call": { "name": function["name"], "args": args.unwrap_or_default() } });
        if newest {
            part["function_call"]["id"] = id.into();
        }
        // If a turn has several calls, only the first one needs a signature.
        if let Some(signature) = signature.or((newest && index == 0).then_some(NO_SIGNATURE)) {
            part["thoughtSignature"] = signature.into();
        }
        made.push(part);
    }
    made
}

fn result(message: &Value, newest: bool) -> Value {
    let content = texts(&message["content"]).concat();
    let mut response = json!({ "name": message["name"], "response": { "content": content } });
    if newest {
        response["id"] = split_id(message["tool_call_id"].as_str().unwrap_or_default()).0.into();
    }
    let pictures: Vec<Value> =
        parts(&message["content"]).into_iter().filter(|part| part.get("text").is_none()).collect();
    if !pictures.is_empty() {
        response["parts"] = pictures.into();
    }
    json!({ "function_response": response })
}

fn split_id(id: &str) -> (&str, Option<&str>) {
    id.split_once(SIGNED).map_or((id, None), |(id, signature)| (id, Some(signature)))
}

fn tool(tool: &ToolSchema) -> String {
    let mut body = Body::default();
    body.set("name", &*tool.name);
    body.set("description", &*tool.description);
    body.set("parameters", schema(&tool.parameters.to_value()));
    body.finish()
}

/// Returns a schema as the interface accepts it: in OpenAPI's form, without references and unknown keywords. A union
/// with null becomes `nullable`.
fn schema(schema: &Value) -> Value {
    const KNOWN: &[&str] = &[
        "type",
        "format",
        "title",
        "description",
        "nullable",
        "enum",
        "maxItems",
        "minItems",
        "properties",
        "required",
        "minProperties",
        "maxProperties",
        "minLength",
        "maxLength",
        "pattern",
        "anyOf",
        "propertyOrdering",
        "default",
        "items",
        "minimum",
        "maximum",
    ];
    let Value::Object(members) = schema else { return schema.clone() };
    let mut made = Map::new();
    for (name, value) in members.iter().filter(|(name, _)| KNOWN.contains(&name.as_str())) {
        let value = match name.as_str() {
            "properties" => {
                let own = value.as_object().into_iter().flatten();
                own.map(|(name, value)| (name.clone(), self::schema(value))).collect()
            }
            "items" => self::schema(value),
            "anyOf" => value.as_array().into_iter().flatten().map(self::schema).collect(),
            _ => value.clone(),
        };
        made.insert(name.clone(), value);
    }
    if let Some(Value::Array(choices)) = made.get("anyOf") {
        let (null, others): (Vec<Value>, Vec<Value>) =
            choices.iter().cloned().partition(|choice| choice["type"] == "null");
        if !null.is_empty() {
            made.insert("nullable".to_owned(), true.into());
            made.insert("anyOf".to_owned(), others.into());
        }
    }
    Value::Object(made)
}

/// Reads a whole reply.
pub(super) fn parse(reply: &Value, text: &str) -> Result<Parsed, Failure> {
    let mut assembly = Assembly::default();
    assembly.feed(reply, text, &mut |_| {});
    // A reply that is not streamed is complete, whatever its finish reason is.
    assembly.finished |= reply["candidates"].get(0).is_some();
    assembly.finish()
}

/// A reply that is assembled from the pieces of a stream.
#[derive(Debug, Default)]
pub(super) struct Assembly {
    id: String,
    text: Option<String>,
    reasoning: String,
    signature: Option<String>,
    calls: Vec<CallParts>,
    usage: Value,
    /// Why the prompt was blocked, if it was.
    blocked: Option<String>,
    finished: bool,
}

impl Assembly {
    /// Takes a piece of a stream. The arguments of calls are read from its text, so that members keep their order.
    pub fn feed(&mut self, piece: &Value, text: &str, on_delta: &mut dyn FnMut(Delta)) {
        if let Some(id) = piece["responseId"].as_str() {
            id.clone_into(&mut self.id);
        }
        if piece["usageMetadata"].is_object() {
            self.usage = piece["usageMetadata"].clone();
        }
        if let Some(reason) = piece["promptFeedback"]["blockReason"].as_str() {
            self.blocked = Some(reason.to_owned());
        }
        let candidate = &piece["candidates"][0];
        for (place, part) in candidate["content"]["parts"].as_array().into_iter().flatten().enumerate() {
            let place = place.to_string();
            let arguments =
                || text_at(text, &["candidates", "0", "content", "parts", &place, "functionCall", "args"]);
            self.take(part, arguments, on_delta);
        }
        self.finished |= candidate["finishReason"].is_string();
    }

    fn take(
        &mut self,
        part: &Value,
        arguments: impl FnOnce() -> Option<String>,
        on_delta: &mut dyn FnMut(Delta),
    ) {
        let signature = part["thoughtSignature"].as_str();
        if let Some(function) = part.get("functionCall") {
            let own = function["id"].as_str().map_or_else(|| new_id("call_"), str::to_owned);
            let id = signature.map_or_else(|| own.clone(), |signature| format!("{own}{SIGNED}{signature}"));
            let arguments = arguments().unwrap_or_default();
            let name = function["name"].as_str().unwrap_or_default().to_owned();
            self.calls.push(CallParts { id, name, arguments });
            return;
        }
        let Some(text) = part["text"].as_str() else { return };
        if part["thought"] == true {
            self.reasoning.push_str(text);
            self.signature = signature.map(str::to_owned).or(self.signature.take());
            on_delta(Delta::Reasoning(text.to_owned()));
        } else {
            self.text.get_or_insert_default().push_str(text);
            if !text.is_empty() {
                on_delta(Delta::Text(text.to_owned()));
            }
        }
    }

    /// Returns the reply. Fails if the prompt was blocked, or if the reply is not complete.
    pub fn finish(self) -> Result<Parsed, Failure> {
        if let Some(reason) = self.blocked.filter(|_| self.text.is_none() && self.calls.is_empty()) {
            return Err(Failure::last(LlmError::ContentPolicy(format!(
                "gemini blocked the prompt: {reason}"
            ))));
        }
        if !self.finished {
            return Err(no_response("the reply of the model has no candidates"));
        }
        let mut message = assistant(self.text.into_iter().map(Content::text).collect());
        message.tool_calls = calls(self.calls.into_iter().map(call).collect())?;
        if !self.reasoning.is_empty() {
            message.thinking_blocks = vec![Thinking::Shown(ThinkingBlock {
                thinking: self.reasoning.as_str().into(),
                signature: self.signature.map(Into::into),
                extra: Default::default(),
            })];
            message.reasoning_content = Some(self.reasoning.into());
        }
        let usage = &self.usage;
        let reasoning = count(usage, &["thoughtsTokenCount"]);
        let usage = TokenUsage {
            prompt_tokens: count(usage, &["promptTokenCount"]),
            // The interface does not count the tokens of thinking among the tokens of the candidates.
            completion_tokens: count(usage, &["candidatesTokenCount"]).saturating_add(reasoning),
            cache_read_tokens: count(usage, &["cachedContentTokenCount"]),
            reasoning_tokens: reasoning,
            ..TokenUsage::default()
        };
        Ok(Parsed { id: self.id, message, usage, cost: None })
    }
}
