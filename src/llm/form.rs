//! The interface that a model is asked through, and the reply that is assembled from its stream.

use serde_json::Value;

use super::chat::Prepared;
use super::failure::{Failure, Hidden};
use super::parsed::Parsed;
use super::provider::Protocol;
use super::setup::Setup;
use super::{Delta, LlmError, Request, anthropic, chat, gemini, responses};

/// An interface, with the reply that is assembled from a stream.
#[derive(Debug)]
pub(super) enum Form {
    Chat(chat::Assembly),
    Responses(responses::Assembly),
    Anthropic(anthropic::Assembly),
    Gemini(gemini::Assembly),
}

impl Form {
    /// Returns the interface that suits the model.
    pub fn of(setup: &Setup) -> Self {
        match setup.provider.protocol {
            Protocol::OpenAi if setup.features.responses => Self::Responses(responses::Assembly::default()),
            Protocol::OpenAi => Self::Chat(chat::Assembly::default()),
            Protocol::Anthropic => Self::Anthropic(anthropic::Assembly::default()),
            Protocol::Gemini => Self::Gemini(gemini::Assembly::default()),
        }
    }

    /// Makes the request in the format of the interface.
    pub fn request(&self, setup: &Setup, request: &Request, stream: bool) -> Result<Prepared, LlmError> {
        match self {
            Self::Chat(_) => chat::request(setup, request, stream),
            Self::Responses(_) => responses::request(setup, request, stream),
            Self::Anthropic(_) => anthropic::request(setup, request, stream),
            Self::Gemini(_) => gemini::request(setup, request, stream),
        }
    }

    /// Reads a whole reply, which is JSON.
    pub fn parse(&self, text: &str) -> Result<Parsed, Failure> {
        let reply: Value = serde_json::from_str(text).unwrap_or_default();
        match self {
            Self::Chat(_) => chat::parse(&reply),
            Self::Responses(_) => responses::parse(&reply),
            Self::Anthropic(_) => anthropic::parse(&reply, text),
            Self::Gemini(_) => gemini::parse(&reply, text),
        }
    }

    /// Takes a piece of a stream, as a value and as text. Returns whether the stream is complete.
    pub fn feed(
        &mut self,
        piece: &Value,
        text: &str,
        on_delta: &mut dyn FnMut(Delta),
        provider: &str,
        hidden: &Hidden,
    ) -> Result<bool, Failure> {
        match self {
            // The usage follows after the end of the reply, and then `[DONE]`.
            Self::Chat(assembly) => assembly.feed(piece, on_delta),
            Self::Responses(assembly) => return assembly.feed(piece, on_delta, provider, hidden),
            Self::Anthropic(assembly) => return Ok(assembly.feed(piece, on_delta)),
            Self::Gemini(assembly) => assembly.feed(piece, text, on_delta),
        }
        Ok(false)
    }

    /// Returns the reply. Fails if the stream ended before the reply was complete.
    pub fn finish(self) -> Result<Parsed, Failure> {
        match self {
            Self::Chat(assembly) => assembly.finish(),
            Self::Responses(assembly) => assembly.finish(),
            Self::Anthropic(assembly) => assembly.finish(),
            Self::Gemini(assembly) => assembly.finish(),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    /// Words that occur in replies, and a few that do not.
    const WORDS: &[&str] = &[
        "choices",
        "message",
        "delta",
        "content",
        "tool_calls",
        "index",
        "function",
        "name",
        "arguments",
        "id",
        "type",
        "function_call",
        "usage",
        "thinking_blocks",
        "thinking",
        "signature",
        "data",
        "text",
        "output",
        "response",
        "response.completed",
        "response.output_item.done",
        "item",
        "summary",
        "content_block_start",
        "content_block",
        "tool_use",
        "input",
        "content_block_delta",
        "input_json_delta",
        "partial_json",
        "message_start",
        "message_stop",
        "candidates",
        "parts",
        "functionCall",
        "args",
        "thought",
        "finishReason",
        "finish_reason",
        "stop",
        "reasoning",
        "0",
        "",
        "é",
    ];

    fn word() -> impl Strategy<Value = String> {
        prop::sample::select(WORDS).prop_map(str::to_owned)
    }

    fn any_value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<f64>().prop_map(Value::from),
            word().prop_map(Value::from),
        ];
        leaf.prop_recursive(6, 40, 5, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::vec((word(), inner), 0..6)
                    .prop_map(|members| Value::Object(members.into_iter().collect())),
            ]
        })
    }

    fn forms() -> [Form; 4] {
        [
            Form::Chat(Default::default()),
            Form::Responses(Default::default()),
            Form::Anthropic(Default::default()),
            Form::Gemini(Default::default()),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

        /// Every answer of a provider gives a reply or a failure.
        #[test]
        fn no_answer_causes_a_panic(pieces in prop::collection::vec(any_value(), 0..6)) {
            for mut form in forms() {
                for piece in &pieces {
                    let text = piece.to_string();
                    drop(form.parse(&text));
                    drop(form.feed(piece, &text, &mut |_| {}, "p", &Hidden::default()));
                }
                drop(form.finish());
            }
        }
    }

    #[test]
    fn too_many_calls_are_rejected() {
        let calls: Vec<Value> =
            (0..2_000).map(|n| json!({ "id": n.to_string(), "function": { "name": "f" } })).collect();
        let reply = json!({ "choices": [{ "message": { "tool_calls": calls } }] });
        let failure = forms()[0].parse(&reply.to_string()).unwrap_err();
        assert!(failure.error.to_string().contains("2000 calls"), "{failure:?}");
    }
}
