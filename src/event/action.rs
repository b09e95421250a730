//! The agent's actions: a tool call and its risk.

use super::common::Common;
use super::failure::CriticResult;
use super::message::{Content, Message, MessageToolCall, ReasoningItem, Role, TextContent, Thinking};
use super::model::{Extra, Text, event, take, words};
use super::tool::Action;

words! {
    /// The risk of an action.
    Risk {
        /// The risk was not rated.
        Unknown = "UNKNOWN",
        /// The action only reads.
        Low = "LOW",
        /// The action changes the project.
        Medium = "MEDIUM",
        /// The action has effects outside the project.
        High = "HIGH",
    }
}

event! {
    /// A tool call of the agent. Actions with the same `llm_response_id` belong to one reply of the model.
    ActionEvent = "ActionEvent", from (Agent) {
        /// The model's text with the call. Only the first action of a reply has it.
        thought: Vec<TextContent>,
        /// The model's reasoning, as text.
        reasoning_content: Option<Text> = None,
        /// The model's reasoning, in the provider's blocks.
        thinking_blocks: Vec<Thinking> = Vec::new(),
        /// The model's reasoning, as an item of the Responses API.
        responses_reasoning_item: Option<Box<ReasoningItem>> = None,
        /// The checked action. `None` if the call was invalid; an error follows then.
        action: Option<Action> = None,
        /// The tool's name.
        tool_name: Text,
        /// The provider's id for the call.
        tool_call_id: Text,
        /// The call as the model made it.
        tool_call: MessageToolCall,
        /// The id of the model's reply.
        llm_response_id: Text,
        /// The rated risk.
        security_risk: Risk = Risk::Unknown,
        /// A critic's rating of the action.
        critic_result: Option<Box<CriticResult>> = None,
        /// A short description of the action.
        summary: Option<Text> = None,
    }
    new by hand
}

impl ActionEvent {
    /// Makes an action without text and reasoning. `action` is `None` for an invalid call.
    #[must_use]
    pub fn new(
        common: Common,
        tool_call: MessageToolCall,
        llm_response_id: impl Into<Text>,
        action: Option<Action>,
    ) -> Self {
        Self {
            common,
            thought: Vec::new(),
            reasoning_content: None,
            thinking_blocks: Vec::new(),
            responses_reasoning_item: None,
            action,
            tool_name: tool_call.name.clone(),
            tool_call_id: tool_call.id.clone(),
            tool_call,
            llm_response_id: llm_response_id.into(),
            security_risk: Risk::Unknown,
            critic_result: None,
            summary: None,
            extra: Extra::default(),
        }
    }

    /// Returns the message with only this call. A reply with several calls has more than this.
    #[must_use]
    pub fn to_llm_message(&self) -> Message {
        Message {
            tool_calls: Some(vec![self.tool_call.clone()]),
            reasoning_content: self.reasoning_content.clone(),
            thinking_blocks: self.thinking_blocks.clone(),
            responses_reasoning_item: self.responses_reasoning_item.as_deref().cloned(),
            ..Message::new(Role::Assistant, self.thought.iter().cloned().map(Content::Text).collect())
        }
    }
}
