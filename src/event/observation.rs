//! What came back: a tool's result, an error in its place, or a refusal by a person or a hook.

use super::action::ActionEvent;
use super::common::Common;
use super::decode::DecodeError;
use super::failure::ErrorClassification;
use super::json::Raw;
use super::message::{MessageToolCall, TextContent};
use super::model::{Extra, Field, Reading, Text, event, take, words};
use super::tool::Observation;

words! {
    /// Who refused an action.
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
        /// The provider's name for the call.
        tool_call_id: Text,
        /// What it answered.
        observation: Observation,
        /// The action that it answers.
        action_id: Text,
        /// What the agent's context adds to the answer.
        extended_content: Vec<TextContent> = Vec::new(),
    }
}

event! {
    /// A person or a hook refused an action.
    UserRejectObservation = "UserRejectObservation", from (Environment) {
        /// The tool.
        tool_name: Text,
        /// The provider's name for the call.
        tool_call_id: Text,
        /// Why.
        rejection_reason: Text = Text::from(REASON),
        /// Who.
        rejection_source: RejectionSource = RejectionSource::User,
        /// The action that was refused.
        action_id: Text,
    }
}

event! {
    /// A call failed before or instead of an observation. It answers by `tool_call_id` only.
    AgentErrorEvent = "AgentErrorEvent", from (Agent) {
        /// The tool.
        tool_name: Text,
        /// The provider's name for the call.
        tool_call_id: Text,
        /// What went wrong, as the model is told.
        error: Text,
        /// What kind of failure it is.
        classification: ErrorClassification => read_classification = ErrorClassification::UNKNOWN,
    }
}

/// The reason of a rejection that gives none.
pub const REASON: &str = "User rejected the action";

fn read_classification(raw: Raw<'_>, reading: Reading) -> Result<ErrorClassification, DecodeError> {
    Ok(Option::read(raw, reading)?.unwrap_or(ErrorClassification::UNKNOWN))
}

impl ObservationEvent {
    /// The answer to `action`.
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
    /// A refusal of `action`.
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
    /// The failure of a call; nobody has said of which kind it is.
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
