//! What a reply says, whichever interface it came by.

use serde_json::Value;

use super::LlmError;
use super::failure::Failure;
use crate::event::{Content, Message, MessageToolCall, Role};
use crate::state::metrics::TokenUsage;

/// The most calls that are taken from one reply.
const CALLS_MAX: usize = 1_024;

/// A reply, read.
#[derive(Debug, Clone)]
pub(super) struct Parsed {
    /// The provider's name for it; may be empty.
    pub id: String,
    pub message: Message,
    pub usage: TokenUsage,
    /// What the provider says that it cost.
    pub cost: Option<f64>,
}

/// A call in the making, as a stream brings it.
#[derive(Debug, Clone, Default)]
pub(super) struct CallParts {
    pub id: String,
    pub name: String,
    pub arguments: String,
}

/// A message of the model.
pub(super) fn assistant(content: Vec<Content>) -> Message {
    Message::new(Role::Assistant, content)
}

/// A call; one without an id gets one, so that it can be answered.
pub(super) fn call(parts: CallParts) -> MessageToolCall {
    let id = if parts.id.is_empty() { new_id("call_") } else { parts.id };
    let arguments = if parts.arguments.is_empty() { "{}".to_owned() } else { parts.arguments };
    MessageToolCall::new(id, parts.name, arguments)
}

/// The calls of a reply: none is none, not an empty list.
pub(super) fn calls(calls: Vec<MessageToolCall>) -> Result<Option<Vec<MessageToolCall>>, Failure> {
    if calls.len() > CALLS_MAX {
        let error = format!("the model made {} calls in one reply, {CALLS_MAX} are taken", calls.len());
        return Err(Failure::last(LlmError::ServiceUnavailable(error)));
    }
    Ok((!calls.is_empty()).then_some(calls))
}

/// A name that nothing else has.
pub(super) fn new_id(prefix: &str) -> String {
    format!("{prefix}{}", uuid::Uuid::new_v4().simple())
}

/// The first of these members that is a count; 0 without any.
pub(super) fn count(value: &Value, names: &[&str]) -> u64 {
    let number = |name: &&str| {
        let number = &value[*name];
        number.as_u64().or_else(|| number.as_f64().map(|number| number as u64))
    };
    names.iter().find_map(number).unwrap_or(0)
}

/// A reply in which nothing can be read, of which another may be better.
pub(super) fn no_response(what: &str) -> Failure {
    Failure::passing(LlmError::NoResponse(what.to_owned()))
}
