//! Reads a call from the text of a model.

use serde_json::{Map, Value};

use crate::event::{Content, Message};
use crate::json::Raw;
use crate::llm::body::text_of;
use crate::llm::parsed::{CallParts, call, new_id};
use crate::llm::{LlmError, ToolSchema};

/// Other names that models use for the tools.
const ALIASES: &[(&str, &str)] = &[
    ("str_replace_editor", "file_editor"),
    ("str_replace", "file_editor"),
    ("bash", "terminal"),
    ("execute_bash", "terminal"),
];

/// Returns the message with the call that its text contains, if there is one. Only the text before the call is kept.
///
/// # Errors
/// [`LlmError::FunctionCall`] if the call is invalid. The text of the error is for the model.
pub(in crate::llm) fn read(mut message: Message, tools: &[ToolSchema]) -> Result<Message, LlmError> {
    let Some(text) = message.content.iter().find_map(Content::as_text) else { return Ok(message) };
    let Some(start) = text.find("<function=") else { return Ok(message) };
    let before = text[..start].trim_end();
    let before = before.strip_suffix("<tool_call>").unwrap_or(before).trim_end();
    let before = before.strip_suffix("</think>").unwrap_or(before).trim();
    let rest = &text[start + "<function=".len()..];
    let Some((name, body)) = rest.split_once('>') else { return Ok(message) };
    // A model that stops at the stop word does not write the end of its call.
    let body = body.split("</function").next().unwrap_or(body);
    let tool = tool(name.trim(), tools)?;
    let arguments = arguments(body, tool)?;
    let parts = CallParts {
        id: new_id("toolu_"),
        name: tool.name.to_string(),
        arguments: Value::Object(arguments).to_string(),
    };
    message.content = if before.is_empty() { Vec::new() } else { vec![Content::text(before)] };
    message.tool_calls = Some(vec![call(parts)]);
    Ok(message)
}

fn tool<'t>(name: &str, tools: &'t [ToolSchema]) -> Result<&'t ToolSchema, LlmError> {
    let find = |name: &str| tools.iter().find(|tool| &*tool.name == name);
    let alias = || find(ALIASES.iter().find(|(alias, _)| *alias == name)?.1);
    find(name).or_else(alias).ok_or_else(|| {
        let names: Vec<String> = tools.iter().map(|tool| format!("'{}'", tool.name)).collect();
        LlmError::FunctionCall(format!(
            "Function '{name}' not found in available tools: [{}]",
            names.join(", ")
        ))
    })
}

fn arguments(body: &str, tool: &ToolSchema) -> Result<Map<String, Value>, LlmError> {
    let schema = tool.parameters.raw();
    let properties = schema.get("properties").map(Raw::to_object).unwrap_or_default();
    let refuse = |text: String| Err(LlmError::FunctionCall(text));
    let mut arguments = Map::new();
    for (name, value) in parameters(body) {
        let own = properties.get(name);
        // Models give a security risk with every call. A tool that needs none ignores it.
        if own.is_none() && properties.keys().next().is_some() && name != "security_risk" {
            let allowed: Vec<&str> = properties.keys().collect();
            return refuse(format!(
                "Parameter '{name}' is not allowed for function '{}'. Allowed parameters: {}",
                tool.name,
                allowed.join(", ")
            ));
        }
        let value = typed(name, value, own)?;
        if let Some(words) = own.and_then(|own| own.get("enum")) {
            let words: Vec<String> = words.elements().map(|word| text_of(&parsed(word.text()))).collect();
            if !words.contains(&text_of(&value)) {
                return refuse(format!(
                    "Parameter '{name}' is expected to be one of [{}].",
                    words.join(", ")
                ));
            }
        }
        arguments.insert(name.to_owned(), value);
    }
    let required = schema.get("required").into_iter().flat_map(Raw::elements).filter_map(Raw::as_str);
    let missing: Vec<String> = required
        .filter(|name| name != "security_risk" && !arguments.contains_key(&**name))
        .map(|name| format!("'{name}'"))
        .collect();
    if missing.is_empty() {
        Ok(arguments)
    } else {
        refuse(format!("Missing required parameters for function '{}': {}", tool.name, missing.join(", ")))
    }
}

/// Converts a text to the type that its schema requires.
fn typed(name: &str, text: &str, own: Option<Raw<'_>>) -> Result<Value, LlmError> {
    let kind = own.and_then(|own| own.get("type")).and_then(Raw::as_str);
    match kind.as_deref() {
        Some("integer") => match text.parse::<i64>() {
            Ok(number) => Ok(number.into()),
            Err(_) => {
                Err(LlmError::FunctionCall(format!("Parameter '{name}' is expected to be an integer.")))
            }
        },
        Some("array") => match parsed(text) {
            list @ Value::Array(_) => Ok(list),
            _ => Err(LlmError::FunctionCall(format!("Parameter '{name}' is expected to be an array."))),
        },
        // These may also be texts, which are checked later.
        Some("number" | "boolean" | "object") => match parsed(text) {
            Value::Null => Ok(text.into()),
            value => Ok(value),
        },
        _ => Ok(text.into()),
    }
}

fn parsed(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_default()
}

/// Returns the parameters of a call: `<parameter=name>value</parameter>`, or `<parameter=name=value</parameter>` as
/// some models write them.
fn parameters(body: &str) -> impl Iterator<Item = (&str, &str)> {
    body.split("<parameter=").skip(1).filter_map(|part| {
        let (part, _) = part.split_once("</parameter>")?;
        let end = part.find(['>', '='])?;
        Some((part[..end].trim(), part[end + 1..].trim()))
    })
}

#[cfg(test)]
mod tests {
    use super::super::tests::tools;
    use super::*;
    use crate::llm::parsed::assistant;

    fn read_text(text: &str) -> Result<(Option<String>, Option<String>), String> {
        let message =
            read(assistant(vec![Content::text(text)]), &tools()).map_err(|error| error.to_string())?;
        let before = message.content.iter().find_map(Content::as_text).map(str::to_owned);
        Ok((before, message.tool_calls.map(|calls| format!("{} {}", calls[0].name, calls[0].arguments))))
    }

    #[test]
    fn a_call_is_read_in_every_form_that_models_write() {
        let ls = Some(r#"terminal {"command":"ls"}"#.to_owned());
        let thought = Some("I look.".to_owned());
        for text in [
            "I look.\n\n<function=terminal>\n<parameter=command>ls</parameter>\n</function>",
            "I look.<function=terminal><parameter=command>\nls\n</parameter>\n</function>\nand more",
            "I look.\n<function=terminal>\n<parameter=command>ls</parameter>\n</",
            "I look.\n<function=terminal>\n<parameter=command>ls</parameter>\n",
            "I look.\n<function=execute_bash>\n<parameter=command=ls</parameter>\n</function>",
            "I look.</think>\n<tool_call><function=terminal>\n<parameter=command>ls</parameter>\n</function></tool_call>",
        ] {
            let (before, call) = read_text(text).unwrap();
            assert_eq!(call, ls, "{text}");
            assert!(before == thought, "{text}: {before:?}");
        }
        assert_eq!(read_text("Just words.").unwrap(), (Some("Just words.".to_owned()), None));
        let typed = "<function=terminal><parameter=command>a = b > c</parameter><parameter=timeout>3</parameter>\
             <parameter=list>[\"x\"]</parameter><parameter=security_risk>LOW</parameter></function>";
        let expected = r#"terminal {"command":"a = b > c","list":["x"],"security_risk":"LOW","timeout":3}"#;
        assert_eq!(read_text(typed).unwrap(), (None, Some(expected.to_owned())));
    }

    #[test]
    fn an_invalid_call_is_an_error_for_the_model() {
        let call = |inside: &str| format!("<function=terminal>{inside}</function>");
        for (text, error) in [
            (
                "<function=fly></function>".to_owned(),
                "Function 'fly' not found in available tools: ['terminal']",
            ),
            (call(""), "Missing required parameters for function 'terminal': 'command'"),
            (
                call("<parameter=cmd>ls</parameter>"),
                "Parameter 'cmd' is not allowed for function 'terminal'.",
            ),
            (
                call("<parameter=timeout>soon</parameter>"),
                "Parameter 'timeout' is expected to be an integer.",
            ),
            (call("<parameter=list>x</parameter>"), "Parameter 'list' is expected to be an array."),
            (call("<parameter=mode>c</parameter>"), "Parameter 'mode' is expected to be one of [a, b]."),
        ] {
            assert!(read_text(&text).unwrap_err().starts_with(error), "{text}: {:?}", read_text(&text));
        }
    }
}
