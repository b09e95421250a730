//! Why a model did not answer.

/// Why a model did not answer, by what the caller can do about it.
///
/// The names are those of the reference's exceptions (`LLMAuthenticationError`, ..: `runtime.md` section 2.4), which
/// end up as the code of an error event. Texts are the provider's with every secret masked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LlmError {
    /// The key is wrong or has expired.
    #[error("{0}")]
    Authentication(String),
    /// Too many requests; later it may work.
    #[error("{0}")]
    RateLimit(String),
    /// The messages are more than the model reads.
    #[error("{0}")]
    ContextWindowExceeded(String),
    /// The provider's filter blocked the request or the reply.
    #[error("{0}")]
    ContentPolicy(String),
    /// The messages do not follow the provider's rules: a call without an answer, two answers for one call.
    #[error("{0}")]
    MalformedHistory(String),
    /// The provider refused the request for another reason.
    #[error("{0}")]
    BadRequest(String),
    /// The provider does not have the model, or nothing is at this address.
    #[error("{0}")]
    NotFound(String),
    /// The model reads less than an agent needs, so that it was not even asked.
    #[error("{0}")]
    ContextWindowTooSmall(String),
    /// No answer in time.
    #[error("{0}")]
    Timeout(String),
    /// The provider could not be reached or failed.
    #[error("{0}")]
    ServiceUnavailable(String),
    /// An answer without content.
    #[error("{0}")]
    NoResponse(String),
    /// A call in the answer is not one: the model is told.
    #[error("{0}")]
    FunctionCall(String),
    /// The caller ended it.
    #[error("the call was cancelled")]
    Cancelled,
}

impl LlmError {
    /// The reference's name of it: the code of the error event.
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
