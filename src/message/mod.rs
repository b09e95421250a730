//! Messages for a model: made from the events that the model may see, and their forms on the wire.
//!
//! [`messages`] turns a view into messages as the reference does
//! (`docs/reference/messages.md#from-events-to-messages`). [`chat`] and [`responses`] write the messages in the format
//! of a provider's interface. This module is pure. It writes no file, even if the reference writes one ([`Spilled`]).
//! It does not know where events come from or which model is asked.

mod chat;
mod content;
mod responses;
mod truncate;

use std::iter::Peekable;

pub use chat::{ChatChoice, ChatFlags, WireError, chat};
pub use content::{ERROR_HEADER, content, spilled};
pub use responses::{ResponsesInput, responses, responses_input};
#[cfg(feature = "agent")]
pub(crate) use truncate::{NOTICE as CLIPPED, clip, clip_saved};
pub use truncate::{Spilled, TERMINAL_CHARACTERS_MAX, TEXT_CHARACTERS_MAX};

use crate::event::{
    ActionEvent, AgentErrorEvent, Content, Event, Message, ObservationEvent, Role, Text,
    UserRejectObservation, inert,
};
use crate::ids::EventId;

/// Why messages cannot be made from events.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MessageError {
    /// An action other than the first one of a reply has a thought. Only the first action may have one.
    #[error(
        "event {event} carries a thought, which only the first of the actions of reply {llm_response_id:?} may"
    )]
    Thought {
        /// The later action.
        event: EventId,
        /// The reply.
        llm_response_id: Text,
    },
}

/// Returns the messages that a model reads for `events`, in order.
///
/// Adjacent actions of one reply are one message, and adjacent turns of the user are one turn. Events that no model
/// sees are skipped, as in a view. No event is filtered or repaired: a call without an answer stays.
///
/// # Errors
/// [`MessageError::Thought`] if a later action of a reply has a thought. The reference fails there too.
pub fn messages<'a>(events: impl IntoIterator<Item = &'a Event>) -> Result<Vec<Message>, MessageError> {
    let mut events = events.into_iter().filter(|event| event.is_llm_convertible()).peekable();
    let mut messages: Vec<Message> = Vec::new();
    while let Some(event) = events.next() {
        let message = if let Event::Action(first) = event {
            batch(first, &mut events)?
        } else if let Some(message) = message(event) {
            message
        } else {
            continue;
        };
        match messages.last_mut() {
            Some(last) if is_plain_user(last) && is_plain_user(&message) => {
                last.content.extend(message.content)
            }
            Some(_) | None => messages.push(message),
        }
    }
    Ok(messages)
}

impl Event {
    /// Returns the message of this event alone, as [`message()`] makes it. `None` for an event that no model sees. The
    /// name is from seed 000 (`docs/reference/seeds.md#names-of-kinds`).
    #[must_use]
    pub fn to_llm_message(&self) -> Option<Message> {
        message(self)
    }
}

/// Returns the message of one event alone. `None` for an event that no model sees.
///
/// For one of several actions in a reply, this is only a part of the reply's message.
#[must_use]
pub fn message(event: &Event) -> Option<Message> {
    let mut message = match event {
        Event::Message(event) => event.to_llm_message(),
        Event::Action(event) => event.to_llm_message(),
        Event::Observation(event) => observation(event),
        Event::UserReject(event) => rejection(event),
        Event::AgentError(event) => agent_error(event),
        Event::SystemPrompt(event) => event.to_llm_message(),
        Event::CondensationSummary(event) => event.to_llm_message(),
        Event::Condensation(_)
        | Event::CondensationRequest(_)
        | Event::StateUpdate(_)
        | Event::ConversationError(_)
        | Event::Pause(_)
        | Event::Interrupt(_)
        | inert!()
        | Event::Unknown(_) => return None,
    };
    message.forget_unfamiliar();
    Some(message)
}

/// Makes one message from `first` and the actions of the same reply that follow it directly.
fn batch<'a>(
    first: &ActionEvent,
    events: &mut Peekable<impl Iterator<Item = &'a Event>>,
) -> Result<Message, MessageError> {
    let mut message = first.to_llm_message();
    let mut calls = message.tool_calls.take().unwrap_or_default();
    while let Some(Event::Action(next)) = events.next_if(
        |event| matches!(event, Event::Action(next) if next.llm_response_id == first.llm_response_id),
    ) {
        if !next.thought.is_empty() {
            let (event, llm_response_id) = (next.common.id.clone(), next.llm_response_id.clone());
            return Err(MessageError::Thought { event, llm_response_id });
        }
        calls.push(next.tool_call.clone());
    }
    message.tool_calls = Some(calls);
    message.forget_unfamiliar();
    Ok(message)
}

/// Returns whether a message is a plain turn of the user: it answers no call and has no name.
fn is_plain_user(message: &Message) -> bool {
    message.role == Role::User
        && message.tool_calls.is_none()
        && message.tool_call_id.is_none()
        && message.name.is_none()
}

fn observation(event: &ObservationEvent) -> Message {
    let mut parts = content(&event.observation);
    parts.extend(event.extended_content.iter().cloned().map(Content::Text));
    answer(&event.tool_name, &event.tool_call_id, parts)
}

fn rejection(event: &UserRejectObservation) -> Message {
    // If another program recorded the rejection, its model got only the reason.
    let is_foreign = event.extra.iter().any(|(name, _)| name == "provenance");
    let text = match is_foreign {
        true => Content::text(event.rejection_reason.clone()),
        false => Content::text(format!("Action rejected: {}", event.rejection_reason)),
    };
    answer(&event.tool_name, &event.tool_call_id, vec![text])
}

fn agent_error(event: &AgentErrorEvent) -> Message {
    answer(&event.tool_name, &event.tool_call_id, vec![Content::text(event.error.clone())])
}

fn answer(tool_name: &Text, tool_call_id: &Text, parts: Vec<Content>) -> Message {
    Message {
        name: Some(tool_name.clone()),
        tool_call_id: Some(tool_call_id.clone()),
        ..Message::new(Role::Tool, parts)
    }
}
