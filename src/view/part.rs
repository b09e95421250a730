//! The role of an event in a view: whether the model sees it, and which other events it belongs to.

use crate::event::{Condensation, Event, inert};

/// The role of an entry in a view, as far as the properties must know it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Part<'e> {
    /// A tool call.
    Action {
        /// The provider's id of the call.
        call: &'e str,
        /// The id of the model's reply that it came from. The actions of one reply are a batch.
        response: &'e str,
        /// Whether it carries thinking blocks, which begin a tool loop.
        thinks: bool,
    },
    /// An answer to a tool call: a result, an error in its place, or a rejection.
    Answer {
        /// The provider's id of the call.
        call: &'e str,
    },
    /// Anything else: the system prompt, a message, a summary.
    Said,
}

/// The effect of an event on a view.
pub(super) enum Effect<'e> {
    /// The event is added at the end.
    See(Part<'e>),
    /// Other events are forgotten.
    Condense(&'e Condensation),
    /// A condensation is requested.
    Request,
    /// The view does not change.
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
            | Event::Pause(_)
            | Event::Interrupt(_)
            | inert!()
            | Event::Unknown(_) => Self::Nothing,
        }
    }
}

impl<'e> Part<'e> {
    /// Returns the role of an event in a view. A view holds only events that are seen, so the last arm is never used.
    pub(super) fn of(event: &'e Event) -> Self {
        match Effect::of(event) {
            Effect::See(part) => part,
            Effect::Condense(_) | Effect::Request | Effect::Nothing => Part::Said,
        }
    }
}
