//! The status of a conversation, and how each event changes it.
//!
//! This is the automaton of `docs/reference/seeds.md#derived-state`. It is pure: the same events always give the same
//! status.

use std::fmt;
use std::str::FromStr;

use super::title::is_blank;
use super::upcast::current_field;
use crate::event::{Content, Envelope, Event, Given, RejectionSource, Source, inert, kind, transcript};
use crate::ids::EventId;
use crate::json::{Object, Raw};

/// The status of a conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum ExecutionStatus {
    /// Nothing runs. The conversation waits for a message.
    #[default]
    Idle,
    /// The agent works.
    Running,
    /// The run was paused.
    Paused,
    /// Actions wait for the user's confirmation.
    WaitingForConfirmation,
    /// The agent reported that it is done.
    Finished,
    /// The run failed.
    Error,
    /// The agent repeated itself.
    Stuck,
    /// The conversation is being deleted. The reference sends this status to webhooks and never stores it.
    Deleting,
}

impl ExecutionStatus {
    /// All statuses, in the order above.
    pub const ALL: [Self; 8] = [
        Self::Idle,
        Self::Running,
        Self::Paused,
        Self::WaitingForConfirmation,
        Self::Finished,
        Self::Error,
        Self::Stuck,
        Self::Deleting,
    ];

    /// Returns the name in JSON, SQL and on the command line.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::Running => "running",
            Self::Paused => "paused",
            Self::WaitingForConfirmation => "waiting_for_confirmation",
            Self::Finished => "finished",
            Self::Error => "error",
            Self::Stuck => "stuck",
            Self::Deleting => "deleting",
        }
    }

    /// Returns the name as seed 000 prints it (`docs/reference/seeds.md#names-of-the-state`), such as
    /// `WAITING_FOR_CONFIRMATION`. [`FromStr`] reads both names.
    #[must_use]
    pub fn name(self) -> String {
        self.as_str().to_ascii_uppercase()
    }

    /// Returns whether a run has ended: finished, error or stuck.
    #[must_use]
    pub fn is_terminal(self) -> bool {
        matches!(self, Self::Finished | Self::Error | Self::Stuck)
    }
}

/// The name of [`ExecutionStatus`] in seed 000 (`docs/reference/seeds.md#names-of-the-state`).
pub type AgentExecutionStatus = ExecutionStatus;

impl fmt::Display for ExecutionStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The error for a text that is not the name of a status.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{text:?} is not a status; there are idle, running, paused, waiting_for_confirmation, finished, error, stuck, \
     deleting"
)]
#[non_exhaustive]
pub struct UnknownStatus {
    /// The text.
    pub text: String,
}

impl FromStr for ExecutionStatus {
    type Err = UnknownStatus;

    /// Reads a name in upper or lower case, because the seed writes `WAITING_FOR_CONFIRMATION`.
    fn from_str(text: &str) -> Result<Self, UnknownStatus> {
        Self::ALL
            .into_iter()
            .find(|status| status.as_str().eq_ignore_ascii_case(text))
            .ok_or_else(|| UnknownStatus { text: text.to_owned() })
    }
}

/// The effect of one event on the status.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// The status does not change.
    Keep,
    /// The status changes to this one.
    Set(ExecutionStatus),
    /// The user sent a message: a finished or stuck conversation becomes idle.
    Spoken,
    /// The user rejected an action: the conversation becomes idle, unless other actions still wait for a decision.
    Refused,
}

impl Effect {
    /// Returns the effect of one event, from its payload. It is for writers, and does not decode the whole payload.
    #[must_use]
    pub fn of(envelope: &Envelope, payload: &str) -> Self {
        use ExecutionStatus::{Error, Finished, Paused, Running};
        let object = || Object::of(payload);
        match kind::canonical(&envelope.kind) {
            kind::STATE_UPDATE => {
                let object = object();
                let status = object
                    .text("key")
                    .zip(object.get("value"))
                    .and_then(|(key, value)| of_update(&key, value));
                status.map_or(Self::Keep, Self::Set)
            }
            kind::MESSAGE => match envelope.source.as_deref() {
                Some("user") => Self::Spoken,
                Some("agent") => {
                    let text = transcript::Line::read(&envelope.kind, &object()).to_text();
                    Self::Set(if is_blank(&text) { Running } else { Finished })
                }
                None if envelope.kind == "user_message" => Self::Spoken,
                None if envelope.kind == "agent_message" => Self::Set(Finished),
                _ => Self::Set(Running),
            },
            kind::OBSERVATION if envelope.tool_name.as_deref() == Some("finish") => Self::Set(Finished),
            kind::ACTION
            | kind::OBSERVATION
            | kind::AGENT_ERROR
            | kind::CONDENSATION
            | kind::CONDENSATION_REQUEST => Self::Set(Running),
            kind::REJECTION => {
                let source = object().text("rejection_source");
                if source.as_deref() == Some("hook") { Self::Set(Running) } else { Self::Refused }
            }
            kind::PAUSE | kind::INTERRUPT => Self::Set(Paused),
            kind::CONVERSATION_ERROR => Self::Set(Error),
            // Events of OpenHands V0 are only imported. They are converted to this version first.
            other if other.starts_with("action:") || other.starts_with("observation:") => {
                let id = envelope.id.clone().unwrap_or_else(EventId::mint);
                let given = Given { id: Some(&id), timestamp: None };
                Event::read(payload, &given).map_or(Self::Keep, |event| Self::of_event(&event))
            }
            _ => Self::Keep,
        }
    }

    /// Returns the effect of one event.
    #[must_use]
    pub fn of_event(event: &Event) -> Self {
        use ExecutionStatus::{Error, Finished, Paused, Running};
        match event {
            Event::StateUpdate(update) => {
                of_update(&update.key, update.value.raw()).map_or(Self::Keep, Self::Set)
            }
            Event::Message(message) => match message.common.source {
                Source::User => Self::Spoken,
                Source::Agent => {
                    let parts = message.llm_message.content.iter().filter_map(Content::as_text);
                    let added = message.extended_content.iter().map(|part| &*part.text);
                    Self::Set(if parts.chain(added).all(is_blank) { Running } else { Finished })
                }
                Source::Environment | Source::Hook | Source::Other(_) => Self::Set(Running),
            },
            Event::Observation(answer) if &*answer.tool_name == "finish" => Self::Set(Finished),
            Event::Action(_)
            | Event::Observation(_)
            | Event::AgentError(_)
            | Event::Condensation(_)
            | Event::CondensationRequest(_) => Self::Set(Running),
            Event::UserReject(refusal) => match refusal.rejection_source {
                RejectionSource::Hook => Self::Set(Running),
                RejectionSource::User | RejectionSource::Other(_) => Self::Refused,
            },
            Event::Pause(_) | Event::Interrupt(_) => Self::Set(Paused),
            Event::ConversationError(_) => Self::Set(Error),
            Event::SystemPrompt(_) | Event::CondensationSummary(_) | inert!() | Event::Unknown(_) => {
                Self::Keep
            }
        }
    }

    /// Returns the status after this effect on `status`.
    #[must_use]
    pub fn apply(self, status: ExecutionStatus) -> ExecutionStatus {
        match self {
            Self::Keep => status,
            Self::Set(status) => status,
            Self::Refused => ExecutionStatus::Idle,
            Self::Spoken if matches!(status, ExecutionStatus::Finished | ExecutionStatus::Stuck) => {
                ExecutionStatus::Idle
            }
            Self::Spoken => status,
        }
    }
}

/// Returns the status in a state update of `key` to `value`. It is the value itself, or is in a snapshot of all fields.
pub(super) fn of_update(key: &str, value: Raw<'_>) -> Option<ExecutionStatus> {
    match key {
        "execution_status" | "agent_status" => value.as_str()?.parse().ok(),
        "full_state" => current_field(value, "execution_status")?.raw().as_str()?.parse().ok(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ExecutionStatus::{Error, Finished, Idle, Paused, Running, Stuck};

    fn fold(payloads: &[&str]) -> ExecutionStatus {
        payloads.iter().fold(Idle, |status, payload| {
            Effect::of(&Envelope::read(payload).unwrap().0, payload).apply(status)
        })
    }

    const USER: &str =
        r#"{"kind":"MessageEvent","source":"user","llm_message":{"role":"user","content":[]}}"#;
    const ACTION: &str = r#"{"kind":"ActionEvent","source":"agent"}"#;
    const DONE: &str = r#"{"kind":"ObservationEvent","source":"environment","tool_name":"finish"}"#;

    #[test]
    fn the_status_follows_the_events() {
        for (payloads, status) in [
            (&[][..], Idle),
            (&[USER], Idle),
            (&[USER, ACTION], Running),
            (&[USER, ACTION, DONE], Finished),
            (&[USER, ACTION, DONE, USER], Idle),
            (
                &[
                    USER,
                    r#"{"kind":"MessageEvent","source":"agent","llm_message":{"role":"assistant","content":"hi"}}"#,
                ],
                Finished,
            ),
            (
                &[
                    USER,
                    r#"{"kind":"MessageEvent","source":"agent","llm_message":{"role":"assistant","content":" "}}"#,
                ],
                Running,
            ),
            (&[ACTION, r#"{"kind":"UserRejectObservation","rejection_source":"user"}"#], Idle),
            (&[ACTION, r#"{"kind":"UserRejectObservation","rejection_source":"hook"}"#], Running),
            (&[ACTION, r#"{"kind":"PauseEvent"}"#], Paused),
            (&[ACTION, r#"{"kind":"PauseEvent"}"#, USER], Paused),
            (&[ACTION, r#"{"kind":"ConversationErrorEvent"}"#], Error),
            (
                &[
                    ACTION,
                    r#"{"kind":"ConversationStateUpdateEvent","key":"execution_status","value":"stuck"}"#,
                ],
                Stuck,
            ),
            (
                &[
                    r#"{"kind":"ConversationStateUpdateEvent","key":"full_state","value":{"execution_status":"finished"}}"#,
                ],
                Finished,
            ),
            (&[DONE, r#"{"kind":"FromTheFuture"}"#], Finished),
            (&[DONE, r#"{"kind":"user_message","content":"more"}"#], Idle),
        ] {
            assert_eq!(fold(payloads), status, "{payloads:?}");
        }
    }

    #[test]
    fn names_are_read_in_any_case() {
        assert_eq!("WAITING_FOR_CONFIRMATION".parse(), Ok(ExecutionStatus::WaitingForConfirmation));
        assert!("asleep".parse::<ExecutionStatus>().is_err());
    }
}
