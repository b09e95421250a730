//! Measured and forwarded data: tokens, logs of model calls, pieces of replies, tool calls of external agents.

use super::model::{Json, Text, event, take};

event! {
    /// The token ids of one model call, as a local inference server reports them.
    TokenEvent = "TokenEvent", from () {
        /// The token ids of the prompt.
        prompt_token_ids: Vec<i64>,
        /// The token ids of the reply.
        response_token_ids: Vec<i64>,
    }
}

event! {
    /// The record of one model call.
    LLMCompletionLogEvent = "LLMCompletionLogEvent", from (Environment) {
        /// The name of the file that the record would be written to.
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
    /// A piece of a reply that is being received. The event is sent on sockets and never stored in a log.
    StreamingDeltaEvent = "StreamingDeltaEvent", from (Agent) {
        /// A piece of the reply's text.
        content: Option<Text> = None,
        /// A piece of the model's reasoning.
        reasoning_content: Option<Text> = None,
    }
}

event! {
    /// An external agent called a tool of its own, through the Agent Client Protocol.
    ACPToolCallEvent = "ACPToolCallEvent", from (Agent) {
        /// The agent's id of the call.
        tool_call_id: Text,
        /// What the call does.
        title: Text,
        /// The status of the call.
        status: Option<Text> = None,
        /// The kind of tool.
        tool_kind: Option<Text> = None,
        /// The input of the call.
        raw_input: Option<Json> = None,
        /// The output of the call.
        raw_output: Option<Json> = None,
        /// The content that the call shows.
        content: Option<Vec<Json>> = None,
        /// Whether the call failed.
        is_error: bool = false,
    }
}
