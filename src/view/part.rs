//! What an event is to a view: whether the model sees it, and what it hangs together with.

use crate::event::{Condensation, Event};

/// What something in a view is, as far as its properties have to know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Part<'e> {
    /// A tool call.
    Action {
        /// The provider's name for the call.
        call: &'e str,
        /// The model's reply it came from; those of one reply are a batch.
        response: &'e str,
        /// Whether it carries thinking blocks, which begin a tool loop.
        thinks: bool,
    },
    /// What answers a tool call: a result, an error in its place, a refusal.
    Answer {
        /// The provider's name for the call.
        call: &'e str,
    },
    /// Anything else: the system prompt, a message, a summary.
    Said,
}

/// What an event does to a view.
pub(super) enum Effect<'e> {
    /// It is seen, at the end.
    See(Part<'e>),
    /// Others are forgotten.
    Condense(&'e Condensation),
    /// Someone waits for a condensation.
    Request,
    /// Nothing.
    Nothing,
}

impl<'e> Effect<'e> {
    pub(super) fn of(event: &'e Event) -> Self {
        match event {
            Event::SystemPrompt(_) | Event::Message(_) | Event::CondensationSummary(_) => {
                Self::See(Part::Said)
            }
            Event::Action(action) => Self::See(Part::Action {
                call: &action.tool_call_id,
                response: &action.llm_response_id,
                thinks: !action.thinking_blocks.is_empty(),
            }),
            Event::Observation(answer) => Self::See(Part::Answer { call: &answer.tool_call_id }),
            Event::UserReject(answer) => Self::See(Part::Answer { call: &answer.tool_call_id }),
            Event::AgentError(answer) => Self::See(Part::Answer { call: &answer.tool_call_id }),
            Event::Condensation(condensation) => Self::Condense(condensation),
            Event::CondensationRequest(_) => Self::Request,
            Event::StateUpdate(_)
            | Event::ConversationError(_)
            | Event::ServerError(_)
            | Event::Pause(_)
            | Event::Interrupt(_)
            | Event::Hook(_)
            | Event::SecurityAnalysis(_)
            | Event::Token(_)
            | Event::CompletionLog(_)
            | Event::StreamingDelta(_)
            | Event::AcpToolCall(_)
            | Event::Unknown(_) => Self::Nothing,
        }
    }
}

impl<'e> Part<'e> {
    /// What an event in a view is. Nothing gets into one that is not seen, so the last arm is never met.
    pub(super) fn of(event: &'e Event) -> Self {
        match Effect::of(event) {
            Effect::See(part) => part,
            Effect::Condense(_) | Effect::Request | Effect::Nothing => Part::Said,
        }
    }
}
