//! Answers to tool calls: a tool's result, an error instead of it, or a rejection by a person or a hook.

use super::action::ActionEvent;
use super::common::Common;
use super::decode::DecodeError;
use super::failure::ErrorClassification;
use super::message::{MessageToolCall, TextContent};
use super::model::{Extra, Field, Reading, Text, event, take, words};
use super::tool::Observation;
use crate::json::Raw;

words! {
    /// Who rejected an action.
    RejectionSource {
        /// A person.
        User = "user",
        /// A hook.
        Hook = "hook",
    }
}

event! {
    /// A tool answered.
    ObservationEvent = "ObservationEvent", from (Environment) {
        /// The tool.
        tool_name: Text,
        /// The provider's id of the call.
        tool_call_id: Text,
        /// The tool's answer.
        observation: Observation,
        /// The id of the action that it answers.
        action_id: Text,
        /// What the agent's context adds to the answer.
        extended_content: Vec<TextContent> = Vec::new(),
    }
    new by hand
}

event! {
    /// A person or a hook rejected an action.
    UserRejectObservation = "UserRejectObservation", from (Environment) {
        /// The tool.
        tool_name: Text,
        /// The provider's id of the call.
        tool_call_id: Text,
        /// The reason.
        rejection_reason: Text = Text::from(REASON),
        /// Who rejected it.
        rejection_source: RejectionSource = RejectionSource::User,
        /// The id of the action that was rejected.
        action_id: Text,
    }
    new by hand
}

event! {
    /// A call failed before or instead of an observation. Only `tool_call_id` links it to the call.
    AgentErrorEvent = "AgentErrorEvent", from (Agent) {
        /// The tool.
        tool_name: Text,
        /// The provider's id of the call.
        tool_call_id: Text,
        /// The text of the error, which the model reads.
        error: Text,
        /// The class of the failure.
        classification: ErrorClassification => read_classification = ErrorClassification::UNKNOWN,
    }
    new by hand
}

/// The reason of a rejection that does not give one.
pub const REASON: &str = "User rejected the action";

fn read_classification(raw: Raw<'_>, reading: Reading) -> Result<ErrorClassification, DecodeError> {
    Ok(Option::read(raw, reading)?.unwrap_or(ErrorClassification::UNKNOWN))
}

impl ObservationEvent {
    /// Makes the answer to `action`.
    #[must_use]
    pub fn new(common: Common, action: &ActionEvent, observation: Observation) -> Self {
        Self {
            common,
            tool_name: action.tool_name.clone(),
            tool_call_id: action.tool_call_id.clone(),
            observation,
            action_id: action.common.id.as_str().into(),
            extended_content: Vec::new(),
            extra: Extra::default(),
        }
    }
}

impl UserRejectObservation {
    /// Makes a rejection of `action`.
    #[must_use]
    pub fn new(
        common: Common,
        action: &ActionEvent,
        reason: impl Into<Text>,
        source: RejectionSource,
    ) -> Self {
        Self {
            common,
            tool_name: action.tool_name.clone(),
            tool_call_id: action.tool_call_id.clone(),
            rejection_reason: reason.into(),
            rejection_source: source,
            action_id: action.common.id.as_str().into(),
            extra: Extra::default(),
        }
    }
}

impl AgentErrorEvent {
    /// Makes the failure of a call. Its class is unknown.
    #[must_use]
    pub fn new(common: Common, call: &MessageToolCall, error: impl Into<Text>) -> Self {
        Self {
            common,
            tool_name: call.name.clone(),
            tool_call_id: call.id.clone(),
            error: error.into(),
            classification: ErrorClassification::UNKNOWN,
            extra: Extra::default(),
        }
    }
}
