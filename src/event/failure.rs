//! Failures and ratings: the class of a failure, the failures of a run and of the server, and a critic's rating.

use super::common::Common;
use super::decode::{DecodeError, Mismatch};
use super::model::{Extra, Field, Json, Map, Reading, Text, event, model, take, wire, words};
use crate::json::Raw;

words! {
    /// The cause of a failure.
    FailureKind {
        /// The credentials are missing or wrong.
        Auth = "auth",
        /// The budget or quota is used up.
        Quota = "quota",
        /// Too many requests in a short time.
        RateLimit = "rate_limit",
        /// A wrong setting.
        Config = "config",
        /// A temporary problem.
        Transient = "transient",
        /// Something that the agent did.
        AgentAction = "agent_action",
        /// A defect of the software.
        Internal = "internal",
        /// The cause is not known.
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
    /// The class of a failure.
    ErrorClassification: Forbid {
        /// The cause.
        kind: FailureKind,
        /// Whether trying again may help.
        retryable: bool,
        /// What a person can do.
        user_action: UserAction = UserAction::None,
        /// An id under which the failure is known, for example in a log.
        error_id: Option<Text> = None,
    }
}

model! {
    /// A critic's rating of an event and of the events before it.
    CriticResult: Drop {
        /// The probability of success, 0 to 1.
        score: f64 => read_score,
        /// The reason.
        message: Option<Text>,
        /// More details, free-form.
        metadata: Option<Map<Json>> = None,
    }
}

event! {
    /// The run failed.
    ConversationErrorEvent = "ConversationErrorEvent", from () {
        /// The error code, usually the name of an exception.
        code: Text,
        /// A description of the failure.
        detail: Text,
        /// The class of the failure. An event that was read always has one.
        classification: Option<ErrorClassification> = None,
    }
    new by hand
}

event! {
    /// The server failed. The event is sent on sockets and never stored in a log.
    ServerErrorEvent = "ServerErrorEvent", from () {
        /// The error code.
        code: Text,
        /// A description of the failure.
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
    /// A failure of an unknown class.
    pub const UNKNOWN: Self = Self::of(FailureKind::Unknown, false, UserAction::None);

    /// A mistake that the agent can correct: a malformed call, or an argument that a tool rejects.
    pub const AGENT_ACTION: Self = Self::of(FailureKind::AgentAction, true, UserAction::Retry);

    /// A defect, or a process that died. The server gives this class to a call that a restart interrupted.
    pub const INTERNAL: Self = Self::of(FailureKind::Internal, false, UserAction::None);

    /// A failure after which a retry may help.
    pub(super) const fn retry(kind: FailureKind) -> Self {
        Self::of(kind, true, UserAction::Retry)
    }

    /// A failure for which another setting may help.
    pub(super) const fn settings(kind: FailureKind) -> Self {
        Self::of(kind, false, UserAction::Settings)
    }

    /// A failure for which neither a retry nor another setting helps.
    pub(super) const fn lasting(kind: FailureKind) -> Self {
        Self::of(kind, false, UserAction::None)
    }

    const fn of(kind: FailureKind, retryable: bool, user_action: UserAction) -> Self {
        Self { kind, retryable, user_action, error_id: None, extra: Extra::NONE }
    }
}

impl ConversationErrorEvent {
    /// Makes a failure and classifies it by its code and detail.
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

    /// The same event with a classification. An existing one is kept.
    #[must_use]
    pub(crate) fn classified(mut self) -> Self {
        if self.classification.is_none() {
            self.classification = Some(ErrorClassification::classify(&self.code, &self.detail));
        }
        self
    }
}
