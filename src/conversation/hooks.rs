//! Where others may speak up in a conversation: before and after tools, at its beginning and end, when a
//! person says something and when the agent wants to stop.
//!
//! This room says when a hook is asked and what its answer does; what a hook is, someone else knows. Source:
//! `runtime.md` section 7.

use crate::event::{ActionEvent, HookExecutionEvent, Json, MessageEvent, ObservationEvent, Text};
use crate::ids::ConversationId;
use crate::llm::Boxed;

/// What hooks answered, all that were asked at one point together.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct HookAnswer {
    /// What is written down: one event for each that ran, in order.
    pub events: Vec<HookExecutionEvent>,
    /// Why what they were asked about must not happen; `None` where it may.
    pub blocked: Option<Text>,
    /// What the model is to know.
    pub context: Option<Text>,
}

/// Hooks of one conversation. Each method answers in bounded time and fails by its events, never otherwise.
pub trait Hooks: Send + Sync {
    /// Their settings, as the base state keeps them under `hook_config`.
    fn config(&self) -> Option<Json>;

    /// Before an action is written down. A block refuses it when it is due.
    fn pre_tool_use<'a>(&'a self, action: &'a ActionEvent) -> Boxed<'a, HookAnswer>;

    /// After a tool answered, before the answer is written down. Blocks are of no consequence.
    fn post_tool_use<'a>(
        &'a self,
        observation: &'a ObservationEvent,
        action: Option<&'a ActionEvent>,
    ) -> Boxed<'a, HookAnswer>;

    /// Before a message of source `user` is written down. A block keeps the model from being asked; context
    /// is added to the message.
    fn user_prompt_submit<'a>(&'a self, message: &'a MessageEvent) -> Boxed<'a, HookAnswer>;

    /// Before the system prompt. Context becomes a message after it.
    fn session_start<'a>(&'a self, conversation: &'a ConversationId) -> Boxed<'a, HookAnswer>;

    /// When the conversation is closed.
    fn session_end<'a>(&'a self, conversation: &'a ConversationId) -> Boxed<'a, HookAnswer>;

    /// When the agent has finished; `reason` is `agent_finished`. A block lets it go on, told why.
    fn stop<'a>(&'a self, reason: &'a str) -> Boxed<'a, HookAnswer>;
}
