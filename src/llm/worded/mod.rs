//! Tool calls as text, for models without an interface for them: for agents whose settings say
//! `native_tool_calling: false`. The system prompt describes the tools, calls and their answers are texts, and a call is
//! read from the text of the model.
//!
//! The form of a call is the reference's (`mixins/fn_call_converter.py` 1.58):
//!
//! ```text
//! <function=terminal>
//! <parameter=command>ls</parameter>
//! </function>
//! ```

mod read;

use serde_json::{Value, json};

pub(super) use read::read;

use super::ToolSchema;
use super::body::text_of;

/// The stop word, so that a model stops at the end of its first call.
pub(super) const STOP: &str = "</function";

const FORM: &str = "To call one, answer in this form and write nothing behind it:\n\n\
    <function=name_of_the_function>\n\
    <parameter=name_of_a_parameter>value</parameter>\n\
    <parameter=name_of_another>\n\
    A value\n\
    of several lines\n\
    </parameter>\n\
    </function>\n\n\
    <IMPORTANT>\n\
    - A call begins with <function= and ends with </function>.\n\
    - Every parameter that is required must be there.\n\
    - Call one function at a time. What you think may stand BEFORE the call, never behind it.\n\
    - Where no function is needed, answer in plain words and do not speak of functions.\n\
    </IMPORTANT>\n";

/// Returns the messages of a chat request, with the tools described in the system prompt and every call as text.
pub(super) fn messages(mut messages: Vec<Value>, tools: &[ToolSchema]) -> Vec<Value> {
    let description = format!("\n\nYou have these functions:\n\n{}\n{FORM}", describe(tools));
    match messages.first_mut().filter(|first| first["role"] == "system") {
        Some(system) => append(system, &description),
        None => messages.insert(0, json!({ "role": "system", "content": description.trim_start() })),
    }
    for message in &mut messages {
        if message["role"] == "assistant" {
            let calls: Vec<String> = match message["tool_calls"].take() {
                Value::Array(calls) => calls.iter().map(call).collect(),
                _ => Vec::new(),
            };
            if let Some(members) = message.as_object_mut() {
                members.remove("tool_calls");
                members.entry("content").or_insert_with(|| "".into());
            }
            if !calls.is_empty() {
                append(message, &format!("\n\n{}", calls.join("\n")));
            }
        } else if message["role"] == "tool" {
            let answer = answer(message);
            *message = answer;
        }
    }
    messages
}

/// Returns a call as text.
fn call(call: &Value) -> String {
    let function = &call["function"];
    let arguments: Value =
        function["arguments"].as_str().and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default();
    let mut text = format!("<function={}>", text_of(&function["name"]));
    for (name, value) in arguments.as_object().into_iter().flatten() {
        let value = text_of(value);
        let value = if value.contains('\n') { format!("\n{value}\n") } else { value };
        text.push_str(&format!("\n<parameter={name}>{value}</parameter>"));
    }
    text + "\n</function>"
}

/// Returns a tool's answer as a message of the user.
fn answer(message: &Value) -> Value {
    let head = format!("EXECUTION RESULT of [{}]:\n", message["name"].as_str().unwrap_or("function"));
    let content = match &message["content"] {
        Value::String(text) => Value::String(head + text),
        Value::Array(parts) => {
            let mut parts = parts.clone();
            match parts.iter_mut().find(|part| part["type"] == "text") {
                Some(first) => first["text"] = format!("{head}{}", text_of(&first["text"])).into(),
                None => parts.insert(0, json!({ "type": "text", "text": head })),
            }
            if let (Some(mark), Some(last)) = (message.get("cache_control"), parts.last_mut()) {
                last["cache_control"] = mark.clone();
            }
            parts.into()
        }
        _ => Value::String(head),
    };
    json!({ "role": "user", "content": content })
}

/// Appends to the last text of a message.
fn append(message: &mut Value, more: &str) {
    let content = &mut message["content"];
    if let Value::String(text) = content {
        text.push_str(more);
        *text = text.trim_start().to_owned();
    } else if let Value::Array(parts) = content {
        match parts.last_mut().filter(|last| last["type"] == "text") {
            Some(last) => last["text"] = format!("{}{more}", text_of(&last["text"])).trim_start().into(),
            None => parts.push(json!({ "type": "text", "text": more.trim_start() })),
        }
    } else {
        *content = more.trim_start().into();
    }
}

/// Describes the tools as text.
fn describe(tools: &[ToolSchema]) -> String {
    let mut text = String::new();
    for (number, tool) in tools.iter().enumerate() {
        let number = number + 1;
        text.push_str(&format!(
            "---- BEGIN FUNCTION #{number}: {} ----\nDescription: {}\n",
            tool.name, tool.description
        ));
        let schema = tool.parameters.raw();
        let required = |name: &str| {
            let names = schema.get("required");
            names.is_some_and(|names| names.elements().any(|one| one.as_str().as_deref() == Some(name)))
        };
        let parameters: Vec<_> =
            schema.get("properties").map(|all| all.members().collect()).unwrap_or_default();
        if parameters.is_empty() {
            text.push_str("It takes no parameters.\n");
        } else {
            text.push_str("Parameters:\n");
        }
        for (place, (name, own)) in parameters.iter().enumerate() {
            let string = |member: &str| own.get(member).and_then(|value| value.as_str());
            let kind = string("type").unwrap_or_else(|| "any".into());
            let status = if required(name) { "required" } else { "optional" };
            let description = string("description").unwrap_or_default();
            text.push_str(&format!("  ({}) {name} ({kind}, {status}): {description}\n", place + 1));
            // A parameter with parts or fixed values is shown with its schema.
            for member in ["enum", "items", "properties", "anyOf", "oneOf", "allOf"] {
                if let Some(value) = own.get(member) {
                    text.push_str(&format!("      {member}: {}\n", value.text()));
                }
            }
        }
        text.push_str(&format!("---- END FUNCTION #{number} ----\n"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::Json;

    pub(super) fn tools() -> Vec<ToolSchema> {
        let parameters = r#"{"type":"object","properties":{"command":{"type":"string","description":"What to run."},"timeout":{"type":"integer"},"mode":{"type":"string","enum":["a","b"]},"list":{"type":"array","items":{"type":"string"}}},"required":["command","security_risk"]}"#;
        vec![ToolSchema {
            name: "terminal".into(),
            description: "Runs it.".into(),
            parameters: Json::parse(parameters).unwrap(),
        }]
    }

    #[test]
    fn tools_calls_and_answers_become_text() {
        let call = json!({ "id": "c", "type": "function", "function": {
            "name": "terminal", "arguments": "{\"command\":\"a\\nb\",\"timeout\":3}" } });
        let converted = messages(
            vec![
                json!({ "role": "system", "content": [{ "type": "text", "text": "Help." }] }),
                json!({ "role": "assistant", "tool_calls": [call] }),
                json!({ "role": "tool", "tool_call_id": "c", "name": "terminal", "cache_control": { "type": "ephemeral" },
                    "content": [{ "type": "text", "text": "done" }] }),
            ],
            &tools(),
        );
        let system = converted[0]["content"][0]["text"].as_str().unwrap();
        assert!(
            system
                .starts_with("Help.\n\nYou have these functions:\n\n---- BEGIN FUNCTION #1: terminal ----\n")
        );
        assert!(system.contains("  (1) command (string, required): What to run.\n"), "{system}");
        assert!(system.contains("  (3) mode (string, optional): \n      enum: [\"a\",\"b\"]\n"), "{system}");
        let call_text = "<function=terminal>\n<parameter=command>\na\nb\n</parameter>\n<parameter=timeout>3</parameter>\n</function>";
        assert_eq!(converted[1], json!({ "role": "assistant", "content": call_text }));
        let result = json!({ "type": "text", "text": "EXECUTION RESULT of [terminal]:\ndone", "cache_control": { "type": "ephemeral" } });
        assert_eq!(converted[2], json!({ "role": "user", "content": [result] }));
    }
}
