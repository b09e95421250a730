//! A model's reply in the formats of four providers.

use serde_json::{Value, json};

use super::model_server::Said;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Interface {
    Chat,
    Responses,
    Anthropic,
    Gemini,
}

/// The format in which a request must be answered.
#[derive(Debug, Clone, Copy)]
pub struct Form {
    pub interface: Interface,
    pub stream: bool,
}

impl Form {
    pub fn of(path: &str, body: &Value) -> Self {
        let interface = match path {
            path if path.contains("enerateContent") => Interface::Gemini,
            path if path.ends_with("/responses") => Interface::Responses,
            path if path.ends_with("/messages") => Interface::Anthropic,
            _ => Interface::Chat,
        };
        Self { interface, stream: body["stream"] == true || path.contains(":streamGenerateContent") }
    }
}

/// The whole reply.
pub fn whole(interface: Interface, said: &Said) -> String {
    let reply = match interface {
        Interface::Chat => chat(said),
        Interface::Responses => responses(said),
        Interface::Anthropic => anthropic(said),
        Interface::Gemini => gemini(said),
    };
    with_arguments(reply.to_string(), said)
}

/// A placeholder for a call's arguments that are sent as an object. [`with_arguments`] replaces it in the finished
/// text, because a JSON tree would sort the arguments.
fn mark(call: usize) -> String {
    format!("@arguments {call}@")
}

fn with_arguments(text: String, said: &Said) -> String {
    let calls = said.calls.iter().enumerate();
    calls
        .fold(text, |text, (call, (_, _, arguments))| text.replace(&format!("\"{}\"", mark(call)), arguments))
}

/// The reply as the events of a stream, each with its line ends.
pub fn events(interface: Interface, said: &Said) -> Vec<String> {
    match interface {
        Interface::Chat => chat_events(said),
        Interface::Responses => responses_events(said),
        Interface::Anthropic => anthropic_events(said),
        Interface::Gemini => {
            let pieces = gemini_pieces(said).into_iter();
            pieces.map(|piece| with_arguments(format!("data: {piece}\r\n\r\n"), said)).collect()
        }
    }
}

fn id(said: &Said, otherwise: &str) -> String {
    said.id.clone().unwrap_or_else(|| otherwise.to_owned())
}

/// Splits a text into two halves, between two characters.
fn halves(text: &str) -> [&str; 2] {
    let middle = text.char_indices().nth(text.chars().count() / 2).map_or(0, |(at, _)| at);
    let (first, second) = text.split_at(middle);
    [first, second]
}

fn chat_usage([prompt, completion, read, written, reasoning]: [u64; 5]) -> Value {
    let mut usage = json!({
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "total_tokens": prompt + completion,
        "prompt_tokens_details": { "cached_tokens": read },
        "completion_tokens_details": { "reasoning_tokens": reasoning },
    });
    if written > 0 {
        usage["cache_creation_input_tokens"] = written.into();
    }
    usage
}

fn chat(said: &Said) -> Value {
    let mut message = json!({ "role": "assistant", "content": said.text });
    if let Some(reasoning) = &said.reasoning {
        message["reasoning_content"] = reasoning.as_str().into();
    }
    if let Some((thinking, signature)) = &said.thinking {
        message["thinking_blocks"] =
            json!([{ "type": "thinking", "thinking": thinking, "signature": signature }]);
    }
    if !said.calls.is_empty() {
        let call = |(id, name, arguments): &(String, String, String)| json!({ "id": id, "type": "function", "function": { "name": name, "arguments": arguments } });
        message["tool_calls"] = said.calls.iter().map(call).collect();
    }
    json!({
        "id": id(said, "chatcmpl-1"),
        "object": "chat.completion",
        "created": 1,
        "model": "m",
        "choices": [{ "index": 0, "message": message, "finish_reason": "stop" }],
        "usage": chat_usage(said.usage),
    })
}

fn chat_events(said: &Said) -> Vec<String> {
    let id = id(said, "chatcmpl-1");
    let mut deltas = vec![json!({ "role": "assistant", "content": "" })];
    for piece in said.reasoning.iter().flat_map(|text| halves(text)) {
        deltas.push(json!({ "reasoning_content": piece }));
    }
    if let Some((thinking, signature)) = &said.thinking {
        for piece in halves(thinking) {
            deltas.push(
                json!({ "thinking_blocks": [{ "type": "thinking", "thinking": piece, "signature": null }] }),
            );
        }
        deltas.push(
            json!({ "thinking_blocks": [{ "type": "thinking", "thinking": "", "signature": signature }] }),
        );
    }
    for piece in said.text.iter().flat_map(|text| halves(text)) {
        deltas.push(json!({ "content": piece }));
    }
    for (index, (id, name, arguments)) in said.calls.iter().enumerate() {
        deltas.push(json!({ "tool_calls": [{
            "index": index, "id": id, "type": "function", "function": { "name": name, "arguments": "" },
        }] }));
        for piece in halves(arguments) {
            deltas.push(json!({ "tool_calls": [{ "index": index, "function": { "arguments": piece } }] }));
        }
    }
    let piece = |delta: Value, finish: Value| {
        let choices = json!([{ "index": 0, "delta": delta, "finish_reason": finish }]);
        json!({ "id": id, "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": choices })
    };
    let mut pieces: Vec<Value> = deltas.into_iter().map(|delta| piece(delta, Value::Null)).collect();
    pieces.push(piece(json!({}), "stop".into()));
    let usage = chat_usage(said.usage);
    pieces.push(json!({ "id": id, "object": "chat.completion.chunk", "choices": [], "usage": usage }));
    let mut events: Vec<String> = pieces.into_iter().map(|piece| format!("data: {piece}\n\n")).collect();
    events.push("data: [DONE]\n\n".to_owned());
    events
}

fn responses(said: &Said) -> Value {
    let mut output = Vec::new();
    if let Some(reasoning) = &said.reasoning {
        output.push(json!({
            "type": "reasoning", "id": "rs_1", "encrypted_content": "sealed",
            "summary": [{ "type": "summary_text", "text": reasoning }],
        }));
    }
    if let Some(text) = &said.text {
        let content = json!([{ "type": "output_text", "text": text, "annotations": [] }]);
        output.push(json!({
            "type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": content,
        }));
    }
    for (index, (id, name, arguments)) in said.calls.iter().enumerate() {
        output.push(json!({
            "type": "function_call", "id": format!("fc_{index}"), "call_id": id, "name": name,
            "arguments": arguments, "status": "completed",
        }));
    }
    let [prompt, completion, read, _, reasoning] = said.usage;
    json!({
        "id": id(said, "resp_1"),
        "object": "response",
        "status": "completed",
        "model": "m",
        "output": output,
        "usage": {
            "input_tokens": prompt,
            "input_tokens_details": { "cached_tokens": read },
            "output_tokens": completion,
            "output_tokens_details": { "reasoning_tokens": reasoning },
            "total_tokens": prompt + completion,
        },
    })
}

fn responses_events(said: &Said) -> Vec<String> {
    let response = responses(said);
    let mut begun = response.clone();
    begun["output"] = json!([]);
    begun["status"] = "in_progress".into();
    let mut events = vec![json!({ "type": "response.created", "response": begun })];
    for (index, item) in response["output"].as_array().unwrap().iter().enumerate() {
        events.push(json!({ "type": "response.output_item.added", "output_index": index, "item": item }));
        let (kind, text) = match item["type"].as_str().unwrap() {
            "reasoning" => ("response.reasoning_summary_text.delta", &item["summary"][0]["text"]),
            "message" => ("response.output_text.delta", &item["content"][0]["text"]),
            _ => ("response.function_call_arguments.delta", &item["arguments"]),
        };
        for piece in halves(text.as_str().unwrap()) {
            events.push(json!({
                "type": kind, "output_index": index, "item_id": item["id"], "delta": piece,
            }));
        }
        events.push(json!({ "type": "response.output_item.done", "output_index": index, "item": item }));
    }
    events.push(json!({ "type": "response.completed", "response": response }));
    let line = |event: Value| format!("event: {}\ndata: {event}\n\n", event["type"].as_str().unwrap());
    events.into_iter().map(line).collect()
}

fn anthropic_usage([prompt, completion, read, written, _]: [u64; 5]) -> Value {
    json!({
        "input_tokens": prompt,
        "output_tokens": completion,
        "cache_read_input_tokens": read,
        "cache_creation_input_tokens": written,
    })
}

fn anthropic(said: &Said) -> Value {
    let mut content = Vec::new();
    if let Some((thinking, signature)) = &said.thinking {
        content.push(json!({ "type": "thinking", "thinking": thinking, "signature": signature }));
    }
    if let Some(sealed) = &said.reasoning {
        content.push(json!({ "type": "redacted_thinking", "data": sealed }));
    }
    if let Some(text) = &said.text {
        content.push(json!({ "type": "text", "text": text }));
    }
    for (call, (id, name, _)) in said.calls.iter().enumerate() {
        content.push(json!({ "type": "tool_use", "id": id, "name": name, "input": mark(call) }));
    }
    json!({
        "id": id(said, "msg_1"),
        "type": "message",
        "role": "assistant",
        "model": "m",
        "content": content,
        "stop_reason": "end_turn",
        "usage": anthropic_usage(said.usage),
    })
}

fn anthropic_events(said: &Said) -> Vec<String> {
    let message = anthropic(said);
    let mut begun = message.clone();
    begun["content"] = json!([]);
    begun["usage"]["output_tokens"] = 1.into();
    let mut events = vec![json!({ "type": "message_start", "message": begun }), json!({ "type": "ping" })];
    for (index, block) in message["content"].as_array().unwrap().iter().enumerate() {
        let mut start = block.clone();
        let mut deltas = Vec::new();
        let text = |name: &str| block[name].as_str().unwrap().to_owned();
        match block["type"].as_str().unwrap() {
            "thinking" => {
                start["thinking"] = "".into();
                start["signature"] = "".into();
                let thinking = text("thinking");
                deltas.extend(
                    halves(&thinking).map(|piece| json!({ "type": "thinking_delta", "thinking": piece })),
                );
                deltas.push(json!({ "type": "signature_delta", "signature": text("signature") }));
            }
            "text" => {
                start["text"] = "".into();
                let text = text("text");
                deltas.extend(halves(&text).map(|piece| json!({ "type": "text_delta", "text": piece })));
            }
            "tool_use" => {
                start["input"] = json!({});
                let input = with_arguments(block["input"].to_string(), said);
                let pieces = halves(&input);
                deltas
                    .extend(pieces.map(|piece| json!({ "type": "input_json_delta", "partial_json": piece })));
            }
            _ => {}
        }
        events.push(json!({ "type": "content_block_start", "index": index, "content_block": start }));
        for delta in deltas {
            events.push(json!({ "type": "content_block_delta", "index": index, "delta": delta }));
        }
        events.push(json!({ "type": "content_block_stop", "index": index }));
    }
    events.push(json!({
        "type": "message_delta",
        "delta": { "stop_reason": "end_turn" },
        "usage": { "output_tokens": said.usage[1] },
    }));
    events.push(json!({ "type": "message_stop" }));
    let line = |event: Value| format!("event: {}\ndata: {event}\n\n", event["type"].as_str().unwrap());
    events.into_iter().map(line).collect()
}

fn gemini_parts(said: &Said) -> Vec<Value> {
    let mut parts = Vec::new();
    if let Some(reasoning) = &said.reasoning {
        parts.push(json!({ "text": reasoning, "thought": true }));
    }
    if let Some(text) = &said.text {
        parts.push(json!({ "text": text }));
    }
    for (index, (_, name, _)) in said.calls.iter().enumerate() {
        let mut part = json!({ "functionCall": { "name": name, "args": mark(index) } });
        if let Some((_, signature)) = said.thinking.as_ref().filter(|_| index == 0) {
            part["thoughtSignature"] = signature.as_str().into();
        }
        parts.push(part);
    }
    parts
}

fn gemini_reply(said: &Said, parts: Vec<Value>, last: bool) -> Value {
    let [prompt, completion, read, _, reasoning] = said.usage;
    let mut candidate = json!({ "content": { "role": "model", "parts": parts }, "index": 0 });
    if last {
        candidate["finishReason"] = "STOP".into();
    }
    json!({
        "responseId": id(said, "gemini-1"),
        "candidates": [candidate],
        "usageMetadata": {
            "promptTokenCount": prompt,
            "cachedContentTokenCount": read,
            "thoughtsTokenCount": reasoning,
            "candidatesTokenCount": completion - reasoning.min(completion),
            "totalTokenCount": prompt + completion,
        },
    })
}

fn gemini(said: &Said) -> Value {
    gemini_reply(said, gemini_parts(said), true)
}

fn gemini_pieces(said: &Said) -> Vec<Value> {
    let mut pieces = Vec::new();
    for part in gemini_parts(said) {
        match part["text"].as_str() {
            Some(text) => {
                for half in halves(text) {
                    let mut piece = part.clone();
                    piece["text"] = half.into();
                    pieces.push(vec![piece]);
                }
            }
            None => pieces.push(vec![part]),
        }
    }
    let count = pieces.len();
    let reply = |(index, parts)| gemini_reply(said, parts, index + 1 == count);
    pieces.into_iter().enumerate().map(reply).collect()
}
