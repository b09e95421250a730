//! One step of an agent that asks a language model: from what the model may see to what it answered.
//!
//! Nothing is written here and nothing is carried out; whoever asked turns the [`Thought`] into events. Source:
//! `runtime.md` sections 2.4 and 3.3.

use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use crate::event::{Content, Message, Role, Text};
use crate::llm::{Call, Delta, LlmError, Model, Reply, Request, ToolSchema};
use crate::message::{self, MessageError};
use crate::state::title::is_blank;
use crate::view::View;

/// What the model is told when a provider's filter blocked what it said.
const FILTERED: &str = "Your previous response was blocked by the model's content filter. Please continue, \
                        rephrasing to avoid the flagged content.";

/// What the model is told when it said nothing and asked for nothing.
pub const NUDGE: &str = "Your last response did not include a function call or a message. Please use a tool to \
                         proceed with the task.";

/// The tool that looks at pictures for a model that cannot.
const INSPECTOR: &str = "inspect_image_with_vision";

/// What a model is asked with.
pub struct Question<'a> {
    /// What it may see.
    pub view: &'a View,
    /// Who is asked.
    pub model: &'a Arc<dyn Model>,
    /// The tools it may call, as it is shown them.
    pub tools: &'a [ToolSchema],
    /// The conversation, for the provider's cache and a proxy's books.
    pub conversation: Text,
    /// Whether somebody can make the view shorter when asked to.
    pub can_condense: bool,
    /// Ends the call.
    pub cancel: &'a CancellationToken,
    /// Hears the pieces of the reply.
    pub on_delta: Option<&'a (dyn Fn(Delta) + Send + Sync)>,
}

/// What came of asking.
#[derive(Debug)]
pub enum Thought {
    /// The model answered.
    Replied(Reply),
    /// The model cannot see the pictures that it was sent, and was not asked: this is said in its place.
    Blind(Message),
    /// The model is to be told this, as if a person had said it, and asked again.
    Told(String),
    /// There is too much to see, or it is not in order: it has to be made shorter first.
    TooMuch {
        /// Whether the view has to be made anew before: the provider found it out of order.
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
    /// What the model may see makes no messages.
    #[error(transparent)]
    Messages(#[from] MessageError),
}

/// What sort of reply a model gave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReplyKind {
    /// It asks for tools.
    Calls,
    /// It says something.
    Said,
    /// It thought, and kept it to itself.
    OnlyThought,
    /// Nothing.
    Empty,
}

impl ReplyKind {
    /// What sort of reply this is; of several the first in the order above.
    #[must_use]
    pub fn of(message: &Message) -> Self {
        let calls = message.tool_calls.as_ref().is_some_and(|calls| !calls.is_empty());
        let says = message.content.iter().filter_map(Content::as_text).any(|text| !is_blank(text));
        let thought = message.responses_reasoning_item.is_some()
            || message.reasoning_content.is_some()
            || !message.thinking_blocks.is_empty();
        match (calls, says, thought) {
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
/// [`StepError`] where it did not answer and telling it so, or making the view shorter, would not help.
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
        Err(LlmError::FunctionCall(text)) => Ok(Thought::Told(text)),
        Err(LlmError::ContentPolicy(_)) => Ok(Thought::Told(FILTERED.to_owned())),
        Err(LlmError::ContextWindowExceeded(_)) if question.can_condense => {
            Ok(Thought::TooMuch { is_malformed: false })
        }
        Err(LlmError::MalformedHistory(_)) if question.can_condense => {
            Ok(Thought::TooMuch { is_malformed: true })
        }
        Err(error) => Err(error.into()),
    }
}

/// What is said in the place of a model that cannot see.
fn cannot_see(model: &str) -> Message {
    let text = format!(
        "I received your image, but the currently selected model ({model}) does not support image understanding. \
         Please switch to a multimodal model to analyze the image."
    );
    Message::new(Role::Assistant, vec![Content::text(text)])
}

/// Puts, in the last message of a person with pictures, the way to look at each in its place.
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
    fn pictures_become_pointers_in_the_last_message_that_has_some() {
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
