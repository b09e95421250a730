//! Reads and checks the JSON of a client's message.

use serde_json::Value;

use super::failure::{Failure, Problem};
use crate::conversation::UserMessage;
use crate::event::{Content, ImageContent, Text};

/// Reads a message from an object with a role and content. Unknown members are ignored.
///
/// # Errors
/// 422 with the problem and its location below `place`. Every role except `user` is refused, because only people send
/// messages here.
pub(in crate::server) fn parse(value: &Value, place: &[&str]) -> Result<UserMessage, Failure> {
    let problem = |kind: &'static str, steps: &[&str], message: &str| {
        let steps: Vec<&str> = ["body"].iter().chain(place).chain(steps).copied().collect();
        Failure::from(Problem::new(kind, &steps, message))
    };
    let members = value.as_object().ok_or_else(|| {
        problem(
            "model_attributes_type",
            &[],
            "Input should be a valid dictionary or object to extract fields from",
        )
    })?;
    match members.get("role").map(Value::as_str) {
        None | Some(Some("user")) => {}
        Some(Some("system" | "assistant" | "tool")) => {
            return Err(problem(
                "value_error",
                &["role"],
                "Value error, only user messages are allowed to be sent",
            ));
        }
        Some(_) => {
            return Err(problem(
                "literal_error",
                &["role"],
                "Input should be 'user', 'system', 'assistant' or 'tool'",
            ));
        }
    }
    let parts = match members.get("content") {
        None | Some(Value::Null) => return Ok(UserMessage { content: Vec::new(), sender: None }),
        Some(Value::Array(parts)) => parts,
        Some(_) => return Err(problem("list_type", &["content"], "Input should be a valid list")),
    };
    let mut content = Vec::new();
    for (number, part) in parts.iter().enumerate() {
        let number = number.to_string();
        let text = |name: &str| part.get(name).and_then(Value::as_str);
        content.push(match text("type") {
            Some("text") => {
                let missing = || problem("missing", &["content", &number, "text", "text"], "Field required");
                Content::text(text("text").ok_or_else(missing)?)
            }
            Some("image") => {
                let urls = part.get("image_urls").and_then(Value::as_array);
                let urls: Option<Vec<Text>> =
                    urls.and_then(|urls| urls.iter().map(|url| url.as_str().map(Text::from)).collect());
                let missing = || {
                    problem(
                        "list_type",
                        &["content", &number, "image", "image_urls"],
                        "Input should be a valid list",
                    )
                };
                Content::Image(ImageContent::new(urls.ok_or_else(missing)?))
            }
            Some(_) | None => {
                let message = "Input tag does not match any of the expected tags: 'text', 'image'";
                return Err(problem("union_tag_invalid", &["content", &number], message));
            }
        });
    }
    Ok(UserMessage { content, sender: None })
}
