//! Events. One event is one JSON text, which is kept exactly as it came.
//!
//! [`Event`] is the value that is read from the text, with a separate type for each kind. [`Envelope`] holds the few
//! members by which a log is searched. Both are read from the payload, and neither replaces it. This module never
//! changes what was written, and it does not know where events are stored. Its invariant: everything that it reports
//! about an event was read from that event's own payload.

mod action;
mod classify;
mod common;
mod condensation;
mod control;
mod correlation;
pub(crate) mod decode;
pub(crate) mod envelope;
mod failure;
mod field;
pub(crate) mod foreign;
pub mod kind;
mod kinds;
pub(crate) mod message;
pub(crate) mod model;
pub(crate) mod network;
pub(crate) mod new_event;
mod observation;
mod own;
mod own_kinds;
mod read;
mod seed;
mod system;
mod telemetry;
pub(crate) mod terms;
pub mod tool;
pub mod transcript;
mod unknown;
pub mod upcast;
mod value;

/// JSON text, read in place.
pub mod json {
    pub use crate::json::{DEPTH_MAX, Fault, Notes, Object, Raw, scan};
}

pub use action::{ActionEvent, Risk};
pub use common::{Common, Given, Source};
pub use condensation::{Condensation, CondensationRequest, CondensationSummaryEvent};
pub use control::{
    ConversationStateUpdateEvent, HookExecutionEvent, HookType, InterruptEvent, PauseEvent,
    SecurityAnalysisEvent,
};
pub use correlation::Correlation;
pub use decode::{DecodeError, Mismatch, Unfamiliar, decode, decode_with};
pub use envelope::{Envelope, MEMBER_BYTES_MAX, PayloadError};
pub use failure::{
    ConversationErrorEvent, CriticResult, ErrorClassification, FailureKind, ServerErrorEvent, UserAction,
};
pub use foreign::{ForeignFormat, ForeignUsage, Provenance, Record, UnknownFormat};
pub use kinds::Event;
pub(crate) use kinds::inert;
pub use message::{
    Content, ImageContent, Message, MessageEvent, MessageToolCall, Origin, ReasoningItem,
    RedactedThinkingBlock, Role, TextContent, Thinking, ThinkingBlock,
};
pub use new_event::{NewEvent, PAYLOAD_BYTES_MAX};
pub use observation::{AgentErrorEvent, ObservationEvent, REASON, RejectionSource, UserRejectObservation};
pub use own::body;
pub use own_kinds::{OwnKind, OwnKinds, Upcaster};
pub use seed::UserMessageEvent;
pub use system::{SystemPromptEvent, ToolAnnotations, ToolDefinition, ToolFields};
pub use telemetry::{ACPToolCallEvent, LLMCompletionLogEvent, StreamingDeltaEvent, TokenEvent};
pub use terms::{QUERY_WORDS_MAX, Unsearchable};
pub use tool::{Action, Observation, TaskItem, TaskStatus};
pub use unknown::Unknown;
pub use value::{Extra, Json, Map, Text, UnknownValue};
