//! What is measured or passed along: tokens, logs of model calls, streaming pieces, calls of external agents.

use super::common::Common;
use super::model::{Extra, Json, Text, event, take};

event! {
    /// The token ids of one model call, as a local inference server tells them.
    TokenEvent = "TokenEvent", from () {
        /// Those of the prompt.
        prompt_token_ids: Vec<i64>,
        /// Those of the reply.
        response_token_ids: Vec<i64>,
    }
}

event! {
    /// The record of one model call.
    LLMCompletionLogEvent = "LLMCompletionLogEvent", from (Environment) {
        /// The file it would be written to.
        filename: Text,
        /// The record: JSON text.
        log_data: Text,
        /// The model.
        model_name: Text = Text::from("unknown"),
        /// What the model was used for.
        usage_id: Text = Text::from("default"),
    }
}

event! {
    /// A piece of a reply on its way. Sent on sockets, never in a log.
    StreamingDeltaEvent = "StreamingDeltaEvent", from (Agent) {
        /// A piece of what the model says.
        content: Option<Text> = None,
        /// A piece of what it thinks.
        reasoning_content: Option<Text> = None,
    }
}

event! {
    /// An external agent called a tool of its own, through the Agent Client Protocol.
    ACPToolCallEvent = "ACPToolCallEvent", from (Agent) {
        /// The agent's name for the call.
        tool_call_id: Text,
        /// What it does.
        title: Text,
        /// How far it got.
        status: Option<Text> = None,
        /// What sort of tool it is.
        tool_kind: Option<Text> = None,
        /// What it was given.
        raw_input: Option<Json> = None,
        /// What it answered.
        raw_output: Option<Json> = None,
        /// What it shows.
        content: Option<Vec<Json>> = None,
        /// Whether it failed.
        is_error: bool = false,
    }
}

impl LLMCompletionLogEvent {
    /// The record `log_data` under the name `filename`.
    #[must_use]
    pub fn new(common: Common, filename: impl Into<Text>, log_data: impl Into<Text>) -> Self {
        Self {
            common,
            filename: filename.into(),
            log_data: log_data.into(),
            model_name: "unknown".into(),
            usage_id: "default".into(),
            extra: Extra::default(),
        }
    }
}
