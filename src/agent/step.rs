//! One step of an agent that asks a language model: from the model's view to its answer.
//!
//! This module writes nothing and carries out nothing. The caller turns the [`Thought`] into events. Source:
//! `docs/reference/runtime.md#step` and `docs/reference/runtime.md#errors-of-a-step`.

use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use crate::event::{Content, Message, Role, Text};
use crate::llm::{Call, Delta, LlmError, Model, Reply, Request, ToolSchema};
use crate::message::{self, MessageError};
use crate::state::title::is_blank;
use crate::view::View;

/// The message to the model after a provider's filter blocked its answer.
const FILTERED: &str = "Your previous response was blocked by the model's content filter. Please continue, \
                        rephrasing to avoid the flagged content.";

/// The message to the model after an answer without text and tool calls.
pub const NUDGE: &str = "Your last response did not include a function call or a message. Please use a tool to \
                         proceed with the task.";

/// The tool that inspects images for a model without vision.
const INSPECTOR: &str = "inspect_image_with_vision";

/// The inputs of one call of the model.
#[non_exhaustive]
pub struct Question<'a> {
    /// The view of the conversation for the model.
    pub view: &'a View,
    /// The model.
    pub model: &'a Arc<dyn Model>,
    /// The schemas of the tools that the model may call.
    pub tools: &'a [ToolSchema],
    /// The conversation's id, for the provider's cache and for the logs of a proxy.
    pub conversation: Text,
    /// Whether the view can be condensed on request.
    pub can_condense: bool,
    /// Cancels the call.
    pub cancel: &'a CancellationToken,
    /// The callback that receives the pieces of the reply.
    pub on_delta: Option<&'a (dyn Fn(Delta) + Send + Sync)>,
}

/// The result of asking the model.
#[derive(Debug)]
pub enum Thought {
    /// The model answered.
    Replied(Reply),
    /// The model was not asked, because it cannot see the images in the view. This message takes its answer's place.
    Blind(Message),
    /// The model has to be asked again, after this text as a user message.
    Feedback(String),
    /// The view is too long or malformed. It has to be condensed first.
    TooMuch {
        /// Whether the provider rejected the view as malformed. The view has to be rebuilt before it is condensed.
        is_malformed: bool,
    },
}

/// Why a step failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StepError {
    /// The model did not answer.
    #[error(transparent)]
    Model(#[from] LlmError),
    /// The view cannot be turned into messages.
    #[error(transparent)]
    Messages(#[from] MessageError),
}

/// The kind of a model's reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReplyKind {
    /// The reply calls tools.
    Calls,
    /// The reply contains text.
    Said,
    /// The reply contains only reasoning.
    OnlyThought,
    /// The reply contains nothing.
    Empty,
}

impl ReplyKind {
    /// Returns the kind of a reply. If several kinds apply, it is the first in the order above.
    #[must_use]
    pub fn of(message: &Message) -> Self {
        let calls = message.tool_calls.as_ref().is_some_and(|calls| !calls.is_empty());
        let has_text = message.content.iter().filter_map(Content::as_text).any(|text| !is_blank(text));
        let has_reasoning = message.responses_reasoning_item.is_some()
            || message.reasoning_content.is_some()
            || !message.thinking_blocks.is_empty();
        match (calls, has_text, has_reasoning) {
            (true, _, _) => Self::Calls,
            (false, true, _) => Self::Said,
            (false, false, true) => Self::OnlyThought,
            (false, false, false) => Self::Empty,
        }
    }
}

/// Asks the model once.
///
/// # Errors
/// [`StepError`] if the model did not answer, and neither a message to it nor a shorter view would help.
pub async fn ask(question: Question<'_>) -> Result<Thought, StepError> {
    let mut messages = message::messages(question.view.events())?;
    let latest = messages.iter().rfind(|message| message.role == Role::User);
    if !question.model.has_vision() && latest.is_some_and(Message::contains_image) {
        if !question.tools.iter().any(|tool| &*tool.name == INSPECTOR) {
            return Ok(Thought::Blind(cannot_see(question.model.name())));
        }
        point_to_images(&mut messages);
    }
    let request = Request {
        tools: question.tools.to_vec(),
        cache_key: Some(question.conversation.clone()),
        session: Some(question.conversation.clone()),
        ..Request::new(messages)
    };
    let call = Call { on_delta: question.on_delta, ..Call::new(question.cancel) };
    match question.model.complete(request, call).await {
        Ok(reply) => Ok(Thought::Replied(reply)),
        Err(LlmError::FunctionCall(text)) => Ok(Thought::Feedback(text)),
        Err(LlmError::ContentPolicy(_)) => Ok(Thought::Feedback(FILTERED.to_owned())),
        Err(LlmError::ContextWindowExceeded(_)) if question.can_condense => {
            Ok(Thought::TooMuch { is_malformed: false })
        }
        Err(LlmError::MalformedHistory(_)) if question.can_condense => {
            Ok(Thought::TooMuch { is_malformed: true })
        }
        Err(error) => Err(error.into()),
    }
}

/// Returns the answer in the place of a model without vision.
fn cannot_see(model: &str) -> Message {
    let text = format!(
        "I received your image, but the currently selected model ({model}) does not support image understanding. \
         Please switch to a multimodal model to analyze the image."
    );
    Message::new(Role::Assistant, vec![Content::text(text)])
}

/// Replaces the images of the last user message that has images by texts that say how to inspect them.
fn point_to_images(messages: &mut [Message]) {
    let with_images = |message: &&mut Message| message.role == Role::User && message.contains_image();
    let Some(message) = messages.iter_mut().rev().find(with_images) else { return };
    let mut number = 0..;
    let parts = std::mem::take(&mut message.content);
    for part in parts {
        match part {
            Content::Image(image) => {
                for (_, at) in image.image_urls.iter().zip(&mut number) {
                    message.content.push(Content::text(format!(
                        "[Image {at} is attached to the latest user message. Use the {INSPECTOR} tool with \
                         image_index={at} to inspect it.]"
                    )));
                }
            }
            other @ (Content::Text(_) | Content::Unknown(_)) => message.content.push(other),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::{ImageContent, MessageToolCall};

    #[test]
    fn a_reply_is_one_of_four() {
        let said = |text: &str| Message::new(Role::Assistant, vec![Content::text(text)]);
        assert_eq!(ReplyKind::of(&said(" \n")), ReplyKind::Empty);
        assert_eq!(ReplyKind::of(&said("x")), ReplyKind::Said);
        let thought = Message { reasoning_content: Some("hm".into()), ..said("") };
        assert_eq!(ReplyKind::of(&thought), ReplyKind::OnlyThought);
        let none = Message { tool_calls: Some(Vec::new()), ..said("x") };
        assert_eq!(ReplyKind::of(&none), ReplyKind::Said);
        let calls = Message { tool_calls: Some(vec![MessageToolCall::new("c", "t", "{}")]), ..said("x") };
        assert_eq!(ReplyKind::of(&calls), ReplyKind::Calls);
    }

    #[test]
    fn images_become_pointers_in_the_last_message_that_has_images() {
        let image = || Content::Image(ImageContent::new(vec!["a".into(), "b".into()]));
        let user = |parts| Message::new(Role::User, parts);
        let mut messages = [
            user(vec![image()]),
            user(vec![Content::text("x"), image(), image()]),
            user(vec![Content::text("y")]),
        ];
        point_to_images(&mut messages);
        assert!(messages[0].contains_image() && !messages[1].contains_image());
        let texts: Vec<&str> = messages[1].content.iter().filter_map(Content::as_text).collect();
        assert_eq!(texts.len(), 5);
        assert!(texts[4].starts_with("[Image 3 is attached") && texts[4].contains("image_index=3"));
    }
}
