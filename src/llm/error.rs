//! Why a model did not reply.

/// Why a model did not reply. The variants differ in what the caller can do about it.
///
/// The names are those of the reference's exceptions (`LLMAuthenticationError`, ..:
/// `docs/reference/runtime.md#errors-of-a-step`), which become the code of an error event. The texts are the
/// provider's, with every secret masked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LlmError {
    /// The key is wrong or has expired.
    #[error("{0}")]
    Authentication(String),
    /// There were too many requests. A later call may succeed.
    #[error("{0}")]
    RateLimit(String),
    /// The messages have more tokens than the model reads.
    #[error("{0}")]
    ContextWindowExceeded(String),
    /// The provider's filter blocked the request or the reply.
    #[error("{0}")]
    ContentPolicy(String),
    /// The messages break the provider's rules, for example by a call without an answer or with two answers.
    #[error("{0}")]
    MalformedHistory(String),
    /// The provider refused the request for another reason.
    #[error("{0}")]
    BadRequest(String),
    /// The provider does not have the model, or there is nothing at this address.
    #[error("{0}")]
    NotFound(String),
    /// The model reads fewer tokens than an agent needs, so it was not asked.
    #[error("{0}")]
    ContextWindowTooSmall(String),
    /// There was no reply in time.
    #[error("{0}")]
    Timeout(String),
    /// The provider could not be reached or failed.
    #[error("{0}")]
    ServiceUnavailable(String),
    /// The reply has no content.
    #[error("{0}")]
    NoResponse(String),
    /// A call in the reply is invalid. The text is for the model.
    #[error("{0}")]
    FunctionCall(String),
    /// The caller cancelled the call.
    #[error("the call was cancelled")]
    Cancelled,
}

impl LlmError {
    /// Returns the reference's name of the error, which is the code of the error event.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::Authentication(_) => "LLMAuthenticationError",
            Self::RateLimit(_) => "LLMRateLimitError",
            Self::ContextWindowExceeded(_) => "LLMContextWindowExceedError",
            Self::ContentPolicy(_) => "LLMContentPolicyViolationError",
            Self::MalformedHistory(_) => "LLMMalformedConversationHistoryError",
            Self::BadRequest(_) => "LLMBadRequestError",
            Self::NotFound(_) => "NotFoundError",
            Self::ContextWindowTooSmall(_) => "LLMContextWindowTooSmallError",
            Self::Timeout(_) => "LLMTimeoutError",
            Self::ServiceUnavailable(_) => "LLMServiceUnavailableError",
            Self::NoResponse(_) => "LLMNoResponseError",
            Self::FunctionCall(_) => "FunctionCallValidationError",
            Self::Cancelled => "CancelledError",
        }
    }
}
