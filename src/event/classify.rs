//! Classifies errors by their code and their detail.
//!
//! The first match counts: a specific code, then words in the detail, then a code that wraps various errors.
//!
//! Source: `docs/reference/events.md#failures`, and the reference's behaviour.

use super::failure::{ErrorClassification, FailureKind};

/// Codes that alone determine the class.
const CODES: &[(&[&str], ErrorClassification)] = &[
    (&["LLMAuthenticationError", "ACPAuthRequired"], ErrorClassification::settings(FailureKind::Auth)),
    (&["LLMRateLimitError"], ErrorClassification::retry(FailureKind::RateLimit)),
    (&["MaxBudgetReached"], ErrorClassification::settings(FailureKind::Quota)),
    (
        &[
            "LLMBadRequestError",
            "ACPInitError",
            "ACPSpawnError",
            "ACPPromptError",
            "NotFoundError",
            "LibTmuxException",
        ],
        ErrorClassification::settings(FailureKind::Config),
    ),
    (
        &["LLMContextWindowExceedError", "LLMMalformedConversationHistoryError"],
        ErrorClassification::retry(FailureKind::AgentAction),
    ),
    (
        &["MaxIterationsReached", "ConversationOwnershipLostError"],
        ErrorClassification::lasting(FailureKind::AgentAction),
    ),
    (
        &["KeyError", "AssertionError", "PydanticSerializationError", "AttributeError", "TypeError"],
        ErrorClassification::lasting(FailureKind::Internal),
    ),
];

/// Words in a detail that determine the class, in lower case.
const WORDS: &[(&[&str], ErrorClassification)] = &[
    (
        &[
            "invalid api key",
            "incorrect api key",
            "authentication required",
            "invalid bearer token",
            "invalid proxy server token",
            "unauthorized",
            "error code: 401",
            "status\": 401",
            "token_not_found",
            "api key is missing",
        ],
        ErrorClassification::settings(FailureKind::Auth),
    ),
    (
        &[
            "weekly usage limit",
            "daily quota",
            "session usage limit",
            "insufficient balance",
            "more credits",
            "budget has been exceeded",
        ],
        ErrorClassification::settings(FailureKind::Quota),
    ),
    (&["rate limit", "error code: 429", "status\": 429"], ErrorClassification::retry(FailureKind::RateLimit)),
    (
        &[
            "provider not provided",
            "no models loaded",
            "does not support thinking",
            "model is no longer available",
            "model not found",
            "invalid params",
            "inactive_service",
            "powershell is not available",
        ],
        ErrorClassification::settings(FailureKind::Config),
    ),
    (
        &[
            "timeout",
            "connection error",
            "connection closed",
            "service temporarily unavailable",
            "bad gateway",
            "cloudflare",
            "cannot connect",
            "name or service not known",
            "error code: 5",
        ],
        ErrorClassification::retry(FailureKind::Transient),
    ),
    (
        &[
            "on_token callback",
            "duplicate tool names",
            "list_tools",
            "on_tools_changed",
            "surrogates not allowed",
        ],
        ErrorClassification::lasting(FailureKind::Internal),
    ),
];

/// Codes that wrap various errors of a provider or the network.
const WRAPPERS: &[&str] = &[
    "LLMServiceUnavailableError",
    "LLMTimeoutError",
    "ReadTimeout",
    "LLMNoResponseError",
    "MCPTimeoutError",
    "BadGatewayError",
    "HTTPStatusError",
    "RequestError",
    "CloudflareError",
    "OpenAIError",
    "APIError",
    "BaseLLMException",
    "AnthropicError",
    "OpenRouterException",
    "OllamaError",
];

impl ErrorClassification {
    /// Returns the class of an error with this code and detail.
    #[must_use]
    pub fn classify(code: &str, detail: &str) -> Self {
        if let Some((_, known)) = CODES.iter().find(|(codes, _)| codes.contains(&code)) {
            return known.clone();
        }
        let detail = detail.to_lowercase();
        let matches = |words: &[&str]| words.iter().any(|word| detail.contains(word));
        if let Some((_, known)) = WORDS.iter().find(|(words, _)| matches(words)) {
            return known.clone();
        }
        if WRAPPERS.contains(&code) { Self::retry(FailureKind::Transient) } else { Self::UNKNOWN }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The expected values are the reference's answers for the same codes and details.
    #[test]
    fn a_code_then_the_detail_then_a_wrapper_decides() {
        for (code, detail, kind, retryable, user_action) in [
            ("LLMAuthenticationError", "rate limit", "auth", false, "settings"),
            ("KeyError", "Invalid API key", "internal", false, "none"),
            ("APIError", "Error code: 429 - slow down", "rate_limit", true, "retry"),
            ("APIError", "Error code: 502", "transient", true, "retry"),
            ("APIError", "who knows", "transient", true, "retry"),
            ("RuntimeError", "UNAUTHORIZED", "auth", false, "settings"),
            ("RuntimeError", "who knows", "unknown", false, "none"),
            ("MaxIterationsReached", "", "agent_action", false, "none"),
            ("LLMContextWindowExceedError", "", "agent_action", true, "retry"),
        ] {
            let class = ErrorClassification::classify(code, detail);
            assert_eq!(
                (class.kind.as_str(), class.retryable, class.user_action.as_str()),
                (kind, retryable, user_action),
                "{code} {detail}"
            );
        }
    }
}
