//! Failures and judgements: what kind of failure an error is, the failures of a run, and what a critic thinks.

use super::common::Common;
use super::decode::{DecodeError, Mismatch};
use super::json::Raw;
use super::model::{Extra, Field, Json, Map, Reading, Text, event, model, take, wire, words};

words! {
    /// What a failure comes from.
    FailureKind {
        /// Who may call was not proven.
        Auth = "auth",
        /// Nothing is left to spend.
        Quota = "quota",
        /// Too much in too short a time.
        RateLimit = "rate_limit",
        /// A setting.
        Config = "config",
        /// Something that passes.
        Transient = "transient",
        /// What the agent did.
        AgentAction = "agent_action",
        /// A defect.
        Internal = "internal",
        /// Nobody has said.
        Unknown = "unknown",
    }
}

words! {
    /// What a person can do about a failure.
    UserAction {
        /// Nothing.
        None = "none",
        /// Try again.
        Retry = "retry",
        /// Change a setting.
        Settings = "settings",
    }
}

model! {
    /// What kind of failure an error is.
    ErrorClassification: Forbid {
        /// What it comes from.
        kind: FailureKind,
        /// Whether trying again may help.
        retryable: bool,
        /// What a person can do.
        user_action: UserAction = UserAction::None,
        /// A name to ask someone about.
        error_id: Option<Text> = None,
    }
}

model! {
    /// What a critic thinks of an event and what went before.
    CriticResult: Drop {
        /// How likely it is a success, 0 to 1.
        score: f64 => read_score,
        /// Why.
        message: Option<Text>,
        /// More about it, free-form.
        metadata: Option<Map<Json>> = None,
    }
}

event! {
    /// The run failed.
    ConversationErrorEvent = "ConversationErrorEvent", from () {
        /// What failed: mostly the name of an exception.
        code: Text,
        /// How.
        detail: Text,
        /// What kind of failure it is; what is read always has one.
        classification: Option<ErrorClassification> = None,
    }
}

event! {
    /// The server failed. Sent on sockets, never in a log.
    ServerErrorEvent = "ServerErrorEvent", from () {
        /// What failed.
        code: Text,
        /// How.
        detail: Text,
    }
}

fn read_score(raw: Raw<'_>, reading: Reading) -> Result<f64, DecodeError> {
    let score = f64::read(raw, reading)?;
    if (0.0..=1.0).contains(&score) {
        Ok(score)
    } else {
        Err(DecodeError::new(Mismatch::Bounds { bounds: "0 to 1" }))
    }
}

impl ErrorClassification {
    /// Nobody has said what kind of failure it is.
    pub const UNKNOWN: Self = Self::of(FailureKind::Unknown, false, UserAction::None);

    /// The agent can do better: a malformed call, an argument a tool refuses.
    pub const AGENT_ACTION: Self = Self::of(FailureKind::AgentAction, true, UserAction::Retry);

    /// A defect, or a process that died: what a server says of a call that a restart cut short.
    pub const INTERNAL: Self = Self::of(FailureKind::Internal, false, UserAction::None);

    /// Trying again may help.
    pub(super) const fn retry(kind: FailureKind) -> Self {
        Self::of(kind, true, UserAction::Retry)
    }

    /// Another setting may help.
    pub(super) const fn settings(kind: FailureKind) -> Self {
        Self::of(kind, false, UserAction::Settings)
    }

    /// Nothing helps.
    pub(super) const fn lasting(kind: FailureKind) -> Self {
        Self::of(kind, false, UserAction::None)
    }

    const fn of(kind: FailureKind, retryable: bool, user_action: UserAction) -> Self {
        Self { kind, retryable, user_action, error_id: None, extra: Extra::NONE }
    }
}

impl ConversationErrorEvent {
    /// A failure, classified by its code and detail.
    #[must_use]
    pub fn new(common: Common, code: impl Into<Text>, detail: impl Into<Text>) -> Self {
        let event = Self {
            common,
            code: code.into(),
            detail: detail.into(),
            classification: None,
            extra: Extra::default(),
        };
        event.classified()
    }

    /// The same event with a classification.
    #[must_use]
    pub(crate) fn classified(mut self) -> Self {
        if self.classification.is_none() {
            self.classification = Some(ErrorClassification::classify(&self.code, &self.detail));
        }
        self
    }
}
