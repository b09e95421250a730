//! What the agent asked for: a tool call, and how risky it was found.

use super::common::Common;
use super::failure::CriticResult;
use super::message::{Content, Message, MessageToolCall, ReasoningItem, Role, TextContent, Thinking};
use super::model::{Extra, Text, event, take, words};
use super::tool::Action;

words! {
    /// How risky an action is.
    Risk {
        /// Nobody has said.
        Unknown = "UNKNOWN",
        /// It only reads.
        Low = "LOW",
        /// It changes the project.
        Medium = "MEDIUM",
        /// It reaches beyond the project.
        High = "HIGH",
    }
}

event! {
    /// The agent asks for a tool. Several with one `llm_response_id` are one reply of the model.
    ActionEvent = "ActionEvent", from (Agent) {
        /// What the model said with the call; only the first of a reply's actions has it.
        thought: Vec<TextContent>,
        /// What the model thought, as text.
        reasoning_content: Option<Text> = None,
        /// What the model thought, in its provider's blocks.
        thinking_blocks: Vec<Thinking> = Vec::new(),
        /// What the model thought, as an item of the Responses interface.
        responses_reasoning_item: Option<Box<ReasoningItem>> = None,
        /// The checked action; `None` where the call was not valid and an error follows.
        action: Option<Action> = None,
        /// The tool.
        tool_name: Text,
        /// The provider's name for the call.
        tool_call_id: Text,
        /// The call as the model made it.
        tool_call: MessageToolCall,
        /// The model's reply that it came from.
        llm_response_id: Text,
        /// How risky it is.
        security_risk: Risk = Risk::Unknown,
        /// What a critic thinks of it.
        critic_result: Option<Box<CriticResult>> = None,
        /// What it does, in a few words.
        summary: Option<Text> = None,
    }
}

impl ActionEvent {
    /// A call without thoughts. `action` is `None` where the call is not valid.
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

    /// The message of this call alone; one of several in a reply has a part of it only.
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
