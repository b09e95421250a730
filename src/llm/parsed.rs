//! The content of a reply, in the same form for every interface.

use serde_json::Value;

use super::LlmError;
use super::failure::Failure;
use crate::event::{Content, Message, MessageToolCall, Role};
use crate::state::metrics::TokenUsage;

/// The most calls that one reply may contain.
const CALLS_MAX: usize = 1_024;

/// A reply that was read.
#[derive(Debug, Clone)]
pub(super) struct Parsed {
    /// The provider's id of the reply. It may be empty.
    pub id: String,
    pub message: Message,
    pub usage: TokenUsage,
    /// The cost, if the provider reports it.
    pub cost: Option<f64>,
}

/// The parts of a call, which a stream completes piece by piece.
#[derive(Debug, Clone, Default)]
pub(super) struct CallParts {
    pub id: String,
    pub name: String,
    pub arguments: String,
}

/// Makes a message of the model.
pub(super) fn assistant(content: Vec<Content>) -> Message {
    Message::new(Role::Assistant, content)
}

/// Makes a call. A call without an id gets one, so that it can be answered.
pub(super) fn call(parts: CallParts) -> MessageToolCall {
    let id = if parts.id.is_empty() { new_id("call_") } else { parts.id };
    let arguments = if parts.arguments.is_empty() { "{}".to_owned() } else { parts.arguments };
    MessageToolCall::new(id, parts.name, arguments)
}

/// Returns the calls of a reply. `None`, not an empty list, if there are none. Fails if there are too many.
pub(super) fn calls(calls: Vec<MessageToolCall>) -> Result<Option<Vec<MessageToolCall>>, Failure> {
    if calls.len() > CALLS_MAX {
        let error =
            format!("the model made {} calls in one reply, at most {CALLS_MAX} are allowed", calls.len());
        return Err(Failure::last(LlmError::ServiceUnavailable(error)));
    }
    Ok((!calls.is_empty()).then_some(calls))
}

/// Makes a unique id.
pub(super) fn new_id(prefix: &str) -> String {
    format!("{prefix}{}", uuid::Uuid::new_v4().simple())
}

/// Returns the first of these members that is a number, or 0 if there is none.
pub(super) fn count(value: &Value, names: &[&str]) -> u64 {
    let number = |name: &&str| {
        let number = &value[*name];
        number.as_u64().or_else(|| number.as_f64().map(|number| number as u64))
    };
    names.iter().find_map(number).unwrap_or(0)
}

/// Makes the failure of a reply without usable content. Another attempt may be better.
pub(super) fn no_response(what: &str) -> Failure {
    Failure::passing(LlmError::NoResponse(what.to_owned()))
}
