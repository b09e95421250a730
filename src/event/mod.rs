//! What happened: one event is one JSON text, kept exactly as it came.
//!
//! [`Event`] is the text read into a value with a type of its own for each kind; [`Envelope`] the few members that a log
//! is searched by. Both are read from the payload and neither takes its place: this room never changes
//! what was written, and it does not know where events are kept. Its invariant: whatever it says of an event
//! was read from that event's own payload.

mod action;
mod classify;
mod common;
mod condensation;
mod control;
pub(crate) mod decode;
pub(crate) mod draft;
pub(crate) mod dump;
pub mod envelope;
mod failure;
mod field;
pub mod foreign;
pub mod json;
pub mod kind;
pub(crate) mod message;
pub(crate) mod model;
pub mod new_event;
mod observation;
mod read;
mod seed;
mod system;
mod telemetry;
pub mod terms;
pub mod tool;
pub mod transcript;
mod unknown;
pub mod upcast;
mod value;

use std::borrow::Cow;
use std::sync::Arc;

pub use action::{ActionEvent, Risk};
pub use common::{Common, Given, Source};
pub use condensation::{Condensation, CondensationRequest, CondensationSummaryEvent};
pub use control::{
    ConversationStateUpdateEvent, HookExecutionEvent, HookType, InterruptEvent, PauseEvent,
    SecurityAnalysisEvent,
};
pub use decode::{DecodeError, Mismatch, Unfamiliar, decode, decode_with};
pub use envelope::{Envelope, PayloadError};
pub use failure::{
    ConversationErrorEvent, CriticResult, ErrorClassification, FailureKind, ServerErrorEvent, UserAction,
};
pub use message::{
    Content, ImageContent, Message, MessageEvent, MessageToolCall, Origin, ReasoningItem,
    RedactedThinkingBlock, Role, TextContent, Thinking, ThinkingBlock,
};
pub use new_event::{NewEvent, PAYLOAD_BYTES_MAX};
pub use observation::{AgentErrorEvent, ObservationEvent, REASON, RejectionSource, UserRejectObservation};
pub use seed::UserMessageEvent;
pub use system::{SystemPromptEvent, ToolAnnotations, ToolDefinition, ToolFields};
pub use telemetry::{ACPToolCallEvent, LLMCompletionLogEvent, StreamingDeltaEvent, TokenEvent};
pub use tool::{Action, Observation, TaskItem, TaskStatus};
pub use unknown::Unknown;
pub use value::{Extra, Json, Map, Text, Untabled};

use crate::ids::EventId;
use dump::Out;
use json::Raw;
use model::Reading;

/// One event. Clones share it.
///
/// Every kind of SDK 1.58 has a variant; `Unknown` carries a payload of any other.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// Something was said.
    Message(Arc<MessageEvent>),
    /// The agent asks for a tool.
    Action(Arc<ActionEvent>),
    /// A tool answered.
    Observation(Arc<ObservationEvent>),
    /// A person or a hook refused an action.
    UserReject(Arc<UserRejectObservation>),
    /// A call failed before or instead of an observation.
    AgentError(Arc<AgentErrorEvent>),
    /// What the model was told before anything else.
    SystemPrompt(Arc<SystemPromptEvent>),
    /// Events were forgotten.
    Condensation(Arc<Condensation>),
    /// Someone asks for a condensation.
    CondensationRequest(Arc<CondensationRequest>),
    /// The summary of a condensation, as the model sees it.
    CondensationSummary(Arc<CondensationSummaryEvent>),
    /// A field of the base state changed.
    StateUpdate(Arc<ConversationStateUpdateEvent>),
    /// The run failed.
    ConversationError(Arc<ConversationErrorEvent>),
    /// A person paused the run.
    Pause(Arc<PauseEvent>),
    /// A person interrupted the run.
    Interrupt(Arc<InterruptEvent>),
    /// How risky a batch of actions was found.
    SecurityAnalysis(Arc<SecurityAnalysisEvent>),
    /// A hook ran.
    Hook(Arc<HookExecutionEvent>),
    /// The token ids of one model call.
    Token(Arc<TokenEvent>),
    /// The record of one model call.
    CompletionLog(Arc<LLMCompletionLogEvent>),
    /// A piece of a reply on its way; never in a log.
    StreamingDelta(Arc<StreamingDeltaEvent>),
    /// An external agent called a tool of its own.
    AcpToolCall(Arc<ACPToolCallEvent>),
    /// The server failed; never in a log.
    ServerError(Arc<ServerErrorEvent>),
    /// Something else, kept as it came.
    Unknown(Arc<Unknown>),
}

impl Event {
    /// The kinds that SDK 1.58 knows.
    pub const KINDS: &'static [&'static str] = &[
        "MessageEvent",
        "ActionEvent",
        "ObservationEvent",
        "UserRejectObservation",
        "AgentErrorEvent",
        "SystemPromptEvent",
        "Condensation",
        "CondensationRequest",
        "CondensationSummaryEvent",
        "ConversationStateUpdateEvent",
        "ConversationErrorEvent",
        "PauseEvent",
        "InterruptEvent",
        "SecurityAnalysisEvent",
        "HookExecutionEvent",
        "TokenEvent",
        "LLMCompletionLogEvent",
        "StreamingDeltaEvent",
        "ACPToolCallEvent",
        "ServerErrorEvent",
    ];

    /// What every event carries.
    #[must_use]
    pub fn common(&self) -> &Common {
        match self {
            Self::Message(event) => &event.common,
            Self::Action(event) => &event.common,
            Self::Observation(event) => &event.common,
            Self::UserReject(event) => &event.common,
            Self::AgentError(event) => &event.common,
            Self::SystemPrompt(event) => &event.common,
            Self::Condensation(event) => &event.common,
            Self::CondensationRequest(event) => &event.common,
            Self::CondensationSummary(event) => &event.common,
            Self::StateUpdate(event) => &event.common,
            Self::ConversationError(event) => &event.common,
            Self::Pause(event) => &event.common,
            Self::Interrupt(event) => &event.common,
            Self::SecurityAnalysis(event) => &event.common,
            Self::Hook(event) => &event.common,
            Self::Token(event) => &event.common,
            Self::CompletionLog(event) => &event.common,
            Self::StreamingDelta(event) => &event.common,
            Self::AcpToolCall(event) => &event.common,
            Self::ServerError(event) => &event.common,
            Self::Unknown(event) => &event.common,
        }
    }

    /// The name of its kind: the reference's class, or what an unknown payload says.
    #[must_use]
    pub fn kind(&self) -> &str {
        match self {
            Self::Message(_) => "MessageEvent",
            Self::Action(_) => "ActionEvent",
            Self::Observation(_) => "ObservationEvent",
            Self::UserReject(_) => "UserRejectObservation",
            Self::AgentError(_) => "AgentErrorEvent",
            Self::SystemPrompt(_) => "SystemPromptEvent",
            Self::Condensation(_) => "Condensation",
            Self::CondensationRequest(_) => "CondensationRequest",
            Self::CondensationSummary(_) => "CondensationSummaryEvent",
            Self::StateUpdate(_) => "ConversationStateUpdateEvent",
            Self::ConversationError(_) => "ConversationErrorEvent",
            Self::Pause(_) => "PauseEvent",
            Self::Interrupt(_) => "InterruptEvent",
            Self::SecurityAnalysis(_) => "SecurityAnalysisEvent",
            Self::Hook(_) => "HookExecutionEvent",
            Self::Token(_) => "TokenEvent",
            Self::CompletionLog(_) => "LLMCompletionLogEvent",
            Self::StreamingDelta(_) => "StreamingDeltaEvent",
            Self::AcpToolCall(_) => "ACPToolCallEvent",
            Self::ServerError(_) => "ServerErrorEvent",
            Self::Unknown(event) => &event.kind,
        }
    }

    /// The event as a follower of `parent` ([`ROOT`](crate::ids::ROOT): of nothing). An unknown event stays as it
    /// is: its payload is its own.
    #[must_use]
    pub fn with_parent(mut self, parent: &str) -> Self {
        let common = match &mut self {
            Self::Message(event) => &mut Arc::make_mut(event).common,
            Self::Action(event) => &mut Arc::make_mut(event).common,
            Self::Observation(event) => &mut Arc::make_mut(event).common,
            Self::UserReject(event) => &mut Arc::make_mut(event).common,
            Self::AgentError(event) => &mut Arc::make_mut(event).common,
            Self::SystemPrompt(event) => &mut Arc::make_mut(event).common,
            Self::Condensation(event) => &mut Arc::make_mut(event).common,
            Self::CondensationRequest(event) => &mut Arc::make_mut(event).common,
            Self::CondensationSummary(event) => &mut Arc::make_mut(event).common,
            Self::StateUpdate(event) => &mut Arc::make_mut(event).common,
            Self::ConversationError(event) => &mut Arc::make_mut(event).common,
            Self::Pause(event) => &mut Arc::make_mut(event).common,
            Self::Interrupt(event) => &mut Arc::make_mut(event).common,
            Self::SecurityAnalysis(event) => &mut Arc::make_mut(event).common,
            Self::Hook(event) => &mut Arc::make_mut(event).common,
            Self::Token(event) => &mut Arc::make_mut(event).common,
            Self::CompletionLog(event) => &mut Arc::make_mut(event).common,
            Self::StreamingDelta(event) => &mut Arc::make_mut(event).common,
            Self::AcpToolCall(event) => &mut Arc::make_mut(event).common,
            Self::ServerError(event) => &mut Arc::make_mut(event).common,
            Self::Unknown(_) => return self,
        };
        common.parent_id = Some(parent.into());
        self
    }

    /// Its id.
    #[must_use]
    pub fn id(&self) -> &EventId {
        &self.common().id
    }

    /// The model's reply that it came from, where it says so.
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
            | Self::SecurityAnalysis(_)
            | Self::Hook(_)
            | Self::Token(_)
            | Self::CompletionLog(_)
            | Self::StreamingDelta(_)
            | Self::AcpToolCall(_)
            | Self::ServerError(_)
            | Self::Unknown(_) => None,
        }
    }

    /// Whether the model sees it: whether there is a message for it.
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
            | Self::SecurityAnalysis(_)
            | Self::Hook(_)
            | Self::Token(_)
            | Self::CompletionLog(_)
            | Self::StreamingDelta(_)
            | Self::AcpToolCall(_)
            | Self::ServerError(_)
            | Self::Unknown(_) => false,
        }
    }

    /// The event as JSON text, as the reference would write it: `model_dump_json(exclude_none=True)`.
    ///
    /// What the reference wrote comes out byte for byte. An unknown event is its own payload.
    #[must_use]
    pub fn dump(&self) -> String {
        self.written(Out::default())
    }

    /// The event as JSON text with members that are null: the reference's `model_dump_json()`.
    #[must_use]
    pub fn dump_with_nulls(&self) -> String {
        self.written(Out::with_nulls())
    }

    fn written(&self, mut out: Out) -> String {
        match self {
            Self::Message(event) => event.write(&mut out),
            Self::Action(event) => event.write(&mut out),
            Self::Observation(event) => event.write(&mut out),
            Self::UserReject(event) => event.write(&mut out),
            Self::AgentError(event) => event.write(&mut out),
            Self::SystemPrompt(event) => event.write(&mut out),
            Self::Condensation(event) => event.write(&mut out),
            Self::CondensationRequest(event) => event.write(&mut out),
            Self::CondensationSummary(event) => event.write(&mut out),
            Self::StateUpdate(event) => event.write(&mut out),
            Self::ConversationError(event) => event.write(&mut out),
            Self::Pause(event) => event.write(&mut out),
            Self::Interrupt(event) => event.write(&mut out),
            Self::SecurityAnalysis(event) => event.write(&mut out),
            Self::Hook(event) => event.write(&mut out),
            Self::Token(event) => event.write(&mut out),
            Self::CompletionLog(event) => event.write(&mut out),
            Self::StreamingDelta(event) => event.write(&mut out),
            Self::AcpToolCall(event) => event.write(&mut out),
            Self::ServerError(event) => event.write(&mut out),
            Self::Unknown(event) => out.raw(event.payload.text()),
        }
        out.finish()
    }

    /// Reads the body of a known kind; `None` for any other.
    pub(crate) fn read_body<'a>(
        kind: &str,
        members: impl Iterator<Item = (Cow<'a, str>, Raw<'a>)>,
        reading: Reading,
        given: &Given<'_>,
    ) -> Option<Result<Self, DecodeError>> {
        Some(match kind {
            "MessageEvent" => MessageEvent::read(members, reading, given).map(Self::from),
            "ActionEvent" => ActionEvent::read(members, reading, given).map(Self::from),
            "ObservationEvent" => ObservationEvent::read(members, reading, given).map(Self::from),
            "UserRejectObservation" => UserRejectObservation::read(members, reading, given).map(Self::from),
            "AgentErrorEvent" => AgentErrorEvent::read(members, reading, given).map(Self::from),
            "SystemPromptEvent" => SystemPromptEvent::read(members, reading, given).map(Self::from),
            "Condensation" => Condensation::read(members, reading, given).map(Self::from),
            "CondensationRequest" => CondensationRequest::read(members, reading, given).map(Self::from),
            "CondensationSummaryEvent" => {
                CondensationSummaryEvent::read(members, reading, given).map(Self::from)
            }
            "ConversationStateUpdateEvent" => {
                ConversationStateUpdateEvent::read(members, reading, given).map(Self::from)
            }
            "ConversationErrorEvent" => {
                ConversationErrorEvent::read(members, reading, given).map(|event| event.classified().into())
            }
            "PauseEvent" => PauseEvent::read(members, reading, given).map(Self::from),
            "InterruptEvent" => InterruptEvent::read(members, reading, given).map(Self::from),
            "SecurityAnalysisEvent" => SecurityAnalysisEvent::read(members, reading, given).map(Self::from),
            "HookExecutionEvent" => HookExecutionEvent::read(members, reading, given).map(Self::from),
            "TokenEvent" => TokenEvent::read(members, reading, given).map(Self::from),
            "LLMCompletionLogEvent" => LLMCompletionLogEvent::read(members, reading, given).map(Self::from),
            "StreamingDeltaEvent" => StreamingDeltaEvent::read(members, reading, given).map(Self::from),
            "ACPToolCallEvent" => ACPToolCallEvent::read(members, reading, given).map(Self::from),
            "ServerErrorEvent" => ServerErrorEvent::read(members, reading, given).map(Self::from),
            _ => return None,
        })
    }
}

impl From<MessageEvent> for Event {
    fn from(event: MessageEvent) -> Self {
        Self::Message(Arc::new(event))
    }
}

impl From<ActionEvent> for Event {
    fn from(event: ActionEvent) -> Self {
        Self::Action(Arc::new(event))
    }
}

impl From<ObservationEvent> for Event {
    fn from(event: ObservationEvent) -> Self {
        Self::Observation(Arc::new(event))
    }
}

impl From<UserRejectObservation> for Event {
    fn from(event: UserRejectObservation) -> Self {
        Self::UserReject(Arc::new(event))
    }
}

impl From<AgentErrorEvent> for Event {
    fn from(event: AgentErrorEvent) -> Self {
        Self::AgentError(Arc::new(event))
    }
}

impl From<SystemPromptEvent> for Event {
    fn from(event: SystemPromptEvent) -> Self {
        Self::SystemPrompt(Arc::new(event))
    }
}

impl From<Condensation> for Event {
    fn from(event: Condensation) -> Self {
        Self::Condensation(Arc::new(event))
    }
}

impl From<CondensationRequest> for Event {
    fn from(event: CondensationRequest) -> Self {
        Self::CondensationRequest(Arc::new(event))
    }
}

impl From<CondensationSummaryEvent> for Event {
    fn from(event: CondensationSummaryEvent) -> Self {
        Self::CondensationSummary(Arc::new(event))
    }
}

impl From<ConversationStateUpdateEvent> for Event {
    fn from(event: ConversationStateUpdateEvent) -> Self {
        Self::StateUpdate(Arc::new(event))
    }
}

impl From<ConversationErrorEvent> for Event {
    fn from(event: ConversationErrorEvent) -> Self {
        Self::ConversationError(Arc::new(event))
    }
}

impl From<PauseEvent> for Event {
    fn from(event: PauseEvent) -> Self {
        Self::Pause(Arc::new(event))
    }
}

impl From<InterruptEvent> for Event {
    fn from(event: InterruptEvent) -> Self {
        Self::Interrupt(Arc::new(event))
    }
}

impl From<SecurityAnalysisEvent> for Event {
    fn from(event: SecurityAnalysisEvent) -> Self {
        Self::SecurityAnalysis(Arc::new(event))
    }
}

impl From<HookExecutionEvent> for Event {
    fn from(event: HookExecutionEvent) -> Self {
        Self::Hook(Arc::new(event))
    }
}

impl From<TokenEvent> for Event {
    fn from(event: TokenEvent) -> Self {
        Self::Token(Arc::new(event))
    }
}

impl From<LLMCompletionLogEvent> for Event {
    fn from(event: LLMCompletionLogEvent) -> Self {
        Self::CompletionLog(Arc::new(event))
    }
}

impl From<StreamingDeltaEvent> for Event {
    fn from(event: StreamingDeltaEvent) -> Self {
        Self::StreamingDelta(Arc::new(event))
    }
}

impl From<ACPToolCallEvent> for Event {
    fn from(event: ACPToolCallEvent) -> Self {
        Self::AcpToolCall(Arc::new(event))
    }
}

impl From<ServerErrorEvent> for Event {
    fn from(event: ServerErrorEvent) -> Self {
        Self::ServerError(Arc::new(event))
    }
}

impl From<Unknown> for Event {
    fn from(event: Unknown) -> Self {
        Self::Unknown(Arc::new(event))
    }
}
