//! [`Event`], and the one list of its kinds.
//!
//! A kind needs a struct (the macro `event!` in `model.rs`) and one line in the list below. The list generates the code
//! that is the same for all kinds. In all other places where the kind matters, a `match` names all kinds, so that the
//! compiler finds the places that a new kind must change. The kinds that are only recorded stand in a list of their own:
//! the model does not see them, and they change nothing. `inert!()` names them in a `match`, all at once.

use std::borrow::Cow;
use std::sync::Arc;

use super::common::{Common, Given};
use super::decode::DecodeError;
use super::model::{Reading, Text};
use super::unknown::Unknown;
use super::{
    ACPToolCallEvent, ActionEvent, AgentErrorEvent, Condensation, CondensationRequest,
    CondensationSummaryEvent, ConversationErrorEvent, ConversationStateUpdateEvent, HookExecutionEvent,
    InterruptEvent, LLMCompletionLogEvent, MessageEvent, ObservationEvent, PauseEvent, SecurityAnalysisEvent,
    ServerErrorEvent, StreamingDeltaEvent, SystemPromptEvent, TokenEvent, UserRejectObservation,
};
use crate::ids::EventId;
use crate::json::{Out, Raw};

/// Makes [`Event`] from the two lists of its kinds: `Variant(Struct)`, each with its doc comment. `then` names a method
/// that completes what was read.
macro_rules! events {
    (
        $(#[$meta:meta])*
        effective { $( $(#[$effective_meta:meta])* $effective:ident($read:ty) $(then $then:ident)? ),* $(,)? }
        inert { $( $(#[$inert_meta:meta])* $inert:ident($record:ty) ),* $(,)? }
    ) => {
        /// All kinds that are only recorded, as a pattern.
        macro_rules! inert {
            () => { $( $crate::event::Event::$inert(_) )|* };
        }
        pub(crate) use inert;

        all_events! {
            $(#[$meta])*
            {
                $( $(#[$effective_meta])* $effective($read) $(then $then)?, )*
                $( $(#[$inert_meta])* $inert($record), )*
            }
        }
    };
}

/// Makes [`Event`], and the code that is the same for all kinds.
macro_rules! all_events {
    (
        $(#[$meta:meta])*
        { $( $(#[$variant_meta:meta])* $variant:ident($event:ty) $(then $then:ident)? ),* $(,)? }
    ) => {
        $(#[$meta])*
        #[derive(Debug, Clone, PartialEq)]
        #[non_exhaustive]
        pub enum Event {
            $( $(#[$variant_meta])* $variant(Arc<$event>), )*
            /// An event of any other kind, kept as it came.
            Unknown(Arc<Unknown>),
        }

        impl Event {
            /// The kinds that SDK 1.58 knows.
            pub const KINDS: &'static [&'static str] = &[$(<$event>::KIND),*];

            /// The members that every event has.
            #[must_use]
            pub fn common(&self) -> &Common {
                match self {
                    $( Self::$variant(event) => &event.common, )*
                    Self::Unknown(event) => &event.common,
                }
            }

            /// The name of its kind: the reference's class, or the `kind` of an unknown payload.
            #[must_use]
            pub fn kind(&self) -> &str {
                match self {
                    $( Self::$variant(_) => <$event>::KIND, )*
                    Self::Unknown(event) => &event.kind,
                }
            }

            /// The event as a child of `parent`; [`ROOT`](crate::ids::ROOT) makes it a root. An unknown event stays
            /// as it is, because its payload is never changed.
            #[must_use]
            pub fn with_parent(mut self, parent: &str) -> Self {
                let common = match &mut self {
                    $( Self::$variant(event) => &mut Arc::make_mut(event).common, )*
                    Self::Unknown(_) => return self,
                };
                common.parent_id = Some(parent.into());
                self
            }

            fn written(&self, mut out: Out) -> String {
                match self {
                    $( Self::$variant(event) => event.write(&mut out), )*
                    Self::Unknown(event) => out.raw(event.payload.text()),
                }
                out.finish()
            }

            /// Reads the body of a known kind; `None` for any other kind.
            pub(crate) fn read_body<'a>(
                kind: &str,
                members: impl Iterator<Item = (Cow<'a, str>, Raw<'a>)>,
                reading: Reading,
                given: &Given<'_>,
            ) -> Option<Result<Self, DecodeError>> {
                Some(match kind {
                    $( <$event>::KIND => {
                        <$event>::read(members, reading, given).map(|event| event$(.$then())?.into())
                    } )*
                    _ => return None,
                })
            }
        }

        $( impl From<$event> for Event {
            fn from(event: $event) -> Self {
                Self::$variant(Arc::new(event))
            }
        } )*

        impl From<Unknown> for Event {
            fn from(event: Unknown) -> Self {
                Self::Unknown(Arc::new(event))
            }
        }
    };
}

events! {
    /// One event. Clones share it.
    ///
    /// Every kind of SDK 1.58 has a variant; `Unknown` holds a payload of any other kind.
    effective {
        /// A message of the user, the agent or the environment.
        Message(MessageEvent),
        /// The agent asks for a tool.
        Action(ActionEvent),
        /// A tool answered.
        Observation(ObservationEvent),
        /// A person or a hook rejected an action.
        UserReject(UserRejectObservation),
        /// A call failed before or instead of an observation.
        AgentError(AgentErrorEvent),
        /// The instructions that the model has before anything else.
        SystemPrompt(SystemPromptEvent),
        /// Events were forgotten.
        Condensation(Condensation),
        /// A condensation was asked for.
        CondensationRequest(CondensationRequest),
        /// The summary of a condensation, as the model sees it.
        CondensationSummary(CondensationSummaryEvent),
        /// A field of the base state changed.
        StateUpdate(ConversationStateUpdateEvent),
        /// The run failed.
        ConversationError(ConversationErrorEvent) then classified,
        /// A person paused the run.
        Pause(PauseEvent),
        /// A person interrupted the run.
        Interrupt(InterruptEvent),
    }
    inert {
        /// The risk that was found in a batch of actions.
        SecurityAnalysis(SecurityAnalysisEvent),
        /// A hook ran.
        Hook(HookExecutionEvent),
        /// The token ids of one model call.
        Token(TokenEvent),
        /// The record of one model call.
        CompletionLog(LLMCompletionLogEvent),
        /// A piece of a reply that is being received; never in a log.
        StreamingDelta(StreamingDeltaEvent),
        /// An external agent called a tool of its own.
        AcpToolCall(ACPToolCallEvent),
        /// The server failed; never in a log.
        ServerError(ServerErrorEvent),
    }
}

impl Event {
    /// Its id.
    #[must_use]
    pub fn id(&self) -> &EventId {
        &self.common().id
    }

    /// The id of the model's reply that it came from, if the event names one.
    #[must_use]
    pub fn reply(&self) -> Option<&Text> {
        match self {
            Self::Action(action) => Some(&action.llm_response_id),
            Self::Message(message) => message.llm_response_id.as_ref(),
            Self::Condensation(condensation) => Some(&condensation.llm_response_id),
            Self::Observation(_)
            | Self::UserReject(_)
            | Self::AgentError(_)
            | Self::SystemPrompt(_)
            | Self::CondensationRequest(_)
            | Self::CondensationSummary(_)
            | Self::StateUpdate(_)
            | Self::ConversationError(_)
            | Self::Pause(_)
            | Self::Interrupt(_)
            | inert!()
            | Self::Unknown(_) => None,
        }
    }

    /// Whether the model sees it, as a message that is made from it.
    #[must_use]
    pub fn is_llm_convertible(&self) -> bool {
        match self {
            Self::Message(_)
            | Self::Action(_)
            | Self::Observation(_)
            | Self::UserReject(_)
            | Self::AgentError(_)
            | Self::SystemPrompt(_)
            | Self::CondensationSummary(_) => true,
            Self::Condensation(_)
            | Self::CondensationRequest(_)
            | Self::StateUpdate(_)
            | Self::ConversationError(_)
            | Self::Pause(_)
            | Self::Interrupt(_)
            | inert!()
            | Self::Unknown(_) => false,
        }
    }

    /// The event as JSON text, as the reference would write it: `model_dump_json(exclude_none=True)`.
    ///
    /// An event that the reference wrote is written byte for byte as it was. For an unknown event, its payload.
    #[must_use]
    pub fn dump(&self) -> String {
        self.written(Out::default())
    }

    /// The event as JSON text with members that are null: the reference's `model_dump_json()`.
    #[must_use]
    pub fn dump_with_nulls(&self) -> String {
        self.written(Out::with_nulls())
    }
}
