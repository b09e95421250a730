//! Classifies the refusals of providers by their status and their text.
//!
//! Source: the reference's `exceptions/classifier.py` and `mapping.py` 1.58, applied to what litellm makes of a reply
//! (`exception_mapping_utils.py`). The texts of failures contain no secrets ([`Hidden`]).

use std::time::Duration;

use super::LlmError;
use crate::secret::Mask;

/// The most bytes of a refusal that an error text contains.
pub(super) const TEXT_BYTES_MAX: usize = 4_000;

/// Why one attempt failed, and whether another attempt may help.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Failure {
    pub error: LlmError,
    /// Whether another attempt may help.
    pub again: bool,
    /// How long the provider asks to wait.
    pub wait: Option<Duration>,
}

impl Failure {
    /// Makes a failure that another attempt would repeat.
    pub fn last(error: LlmError) -> Self {
        Self { error, again: false, wait: None }
    }

    /// Makes a failure that another attempt may avoid.
    pub fn passing(error: LlmError) -> Self {
        Self { error, again: true, wait: None }
    }
}

/// Hides secret values in texts.
#[derive(Clone, Default)]
pub(super) struct Hidden(Mask);

impl Hidden {
    /// Hides these values wherever they occur, as they are and as JSON writes them. Values of fewer than four
    /// characters are ignored: they are words rather than secrets.
    pub fn new(values: impl IntoIterator<Item = String>) -> Self {
        let mut hidden: Vec<String> = Vec::new();
        for value in values {
            // For `Bearer key`, the key without the word is hidden, too.
            let bare = value.split_once(' ').map(|(_, bare)| bare.trim().to_owned());
            for value in [Some(value), bare].into_iter().flatten() {
                let value = value.trim().to_owned();
                let escaped = serde_json::Value::from(value.as_str()).to_string();
                hidden.push(escaped.trim_matches('"').to_owned());
                hidden.push(value);
            }
        }
        hidden.retain(|value| value.chars().count() >= 4);
        Self(Mask::new(hidden.iter().map(String::as_str)))
    }

    /// Returns the text with the values hidden.
    pub fn hide(&self, text: &str) -> String {
        self.0.apply(text).into_owned()
    }
}

impl std::fmt::Debug for Hidden {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Hidden")
    }
}

/// A refusal by a provider.
#[derive(Debug, Clone, Copy)]
pub(super) struct Refusal<'a> {
    /// The status of the HTTP answer. `None` for an error inside a stream.
    pub status: Option<u16>,
    /// The body, or the part of it that was read.
    pub body: &'a str,
    /// The value of `Retry-After`.
    pub wait: Option<Duration>,
    /// The provider that refused.
    pub provider: &'a str,
}

const TOO_LONG: &[&str] = &[
    "contextwindowexceedederror",
    "prompt is too long",
    "input length and `max_tokens` exceed context limit",
    "please reduce the length of",
    "exceeds the available context size",
    "context length exceeded",
    "context_length_exceeded",
    "input exceeds the context window",
    "context window exceeds limit",
    "exceed context limit",
    "this model's maximum context length is",
    "model's maximum context limit",
    "is longer than the model's context length",
    "input tokens exceed the configured limit",
    "`inputs` tokens + `max_new_tokens` must be",
    "exceeds the maximum number of tokens allowed",
    "request payload size exceeds",
];

const MALFORMED: &[&str] = &[
    "tool_use ids were found without `tool_result` blocks immediately after",
    "`tool_use` ids were found without `tool_result` blocks immediately after",
    "each `tool_use` block must have a corresponding `tool_result` block in the next message",
    "each tool_use must have a single result",
    "found multiple `tool_result` blocks with id:",
    "unexpected `tool_use_id` found in `tool_result` blocks",
    "each `tool_result` block must have a corresponding `tool_use` block in the previous message",
    "must be followed by tool messages responding to each 'tool_call_id'",
    "failed to parse tool call arguments as json",
];

const AUTHENTICATION: &[&str] = &[
    "invalid api key",
    "incorrect api key provided",
    "invalid x-api-key",
    "api key not valid",
    "unauthorized",
    "missing api key",
    "invalid authentication",
    "incorrect authentication token",
    "access denied",
];

const POLICY: &[&str] = &[
    "content_policy",
    "content filtering policy",
    "output blocked by content filtering",
    "responsibleaipolicyviolation",
    "violating our usage policy",
    "request was rejected as a result of the safety system",
    "your request was rejected as a result of our safety system",
];

/// Texts about an allowance that is used up. Waiting does not help until the allowance is raised.
const EXHAUSTED: &[&str] =
    &["usage_limit_reached", "insufficient_quota", "budget_exceeded", "budget has been exceeded"];

/// Texts of a provider that is too busy. They come with different statuses.
const OVERLOADED: &[&str] =
    &["overloaded_error", "the model is overloaded", "service tier capacity exceeded"];

/// Classifies a refusal.
pub(super) fn classify(refusal: Refusal<'_>, hidden: &Hidden) -> Failure {
    let low = refusal.body.to_lowercase();
    let has_any = |list: &[&str]| list.iter().any(|words| low.contains(words));
    let status = refusal.status.unwrap_or_else(|| code(refusal.body));
    let text = hidden.hide(&describe(refusal));
    let exhausted = has_any(EXHAUSTED);
    let limited = status == 429 || names_rate_limit(&low) || low.contains("request too large");
    let (error, again) = if has_any(TOO_LONG) || cerebras_length(&low) {
        (LlmError::ContextWindowExceeded(text), false)
    } else if has_any(MALFORMED) {
        (LlmError::MalformedHistory(text), false)
    } else if matches!(status, 401 | 403) || (has_any(AUTHENTICATION) && !limited && status < 500) {
        (LlmError::Authentication(text), false)
    } else if limited {
        (LlmError::RateLimit(text), !exhausted)
    } else if low.contains("invalid_request_error") && low.contains("model_not_found") {
        (LlmError::NotFound(text), false)
    } else if has_any(POLICY) && status < 500 {
        (LlmError::ContentPolicy(text), false)
    } else if has_any(OVERLOADED) {
        (LlmError::ServiceUnavailable(text), true)
    } else {
        match status {
            404 => (LlmError::NotFound(text), false),
            408 | 504 => (LlmError::Timeout(text), !exhausted),
            409 | 425 | 500.. => (LlmError::ServiceUnavailable(text), !exhausted),
            // An error in a stream without a status.
            0 => (LlmError::ServiceUnavailable(text), !exhausted),
            _ => (LlmError::BadRequest(text), false),
        }
    };
    Failure { error, again, wait: refusal.wait }
}

/// Returns whether Gemini refused to cache a prompt because it is too short.
pub(super) fn is_cache_too_small(error: &LlmError) -> bool {
    error.to_string().to_lowercase().contains("minimum token count to start caching")
}

/// Returns whether the text contains `rate limit`. Between the words, there may be separators or nothing.
fn names_rate_limit(low: &str) -> bool {
    low.match_indices("rate").any(|(at, word)| {
        let rest = &low[at + word.len()..];
        rest.trim_start_matches([' ', '_', '-', '\n', '\t']).starts_with("limit")
    })
}

fn cerebras_length(low: &str) -> bool {
    (low.contains("current length is") && low.contains("while limit is"))
        || (low.contains("maximum input length is") && low.contains("tokens"))
}

/// Returns the first code or status in the body that is an HTTP error status, or 0 if there is none.
fn code(body: &str) -> u16 {
    let value: serde_json::Value = serde_json::from_str(body).unwrap_or_default();
    let error = &value["error"];
    let number = |value: &serde_json::Value| {
        value.as_u64().or_else(|| value.as_str()?.parse().ok()).and_then(|number| u16::try_from(number).ok())
    };
    let codes = [&error["code"], &error["status"], &error["status_code"], &value["code"], &value["status"]];
    codes.into_iter().filter_map(number).find(|status| (400..600).contains(status)).unwrap_or(0)
}

/// Describes a refusal: the provider, the status, and the message of the body or the body itself, cut to
/// [`TEXT_BYTES_MAX`].
fn describe(refusal: Refusal<'_>) -> String {
    let value: serde_json::Value = serde_json::from_str(refusal.body).unwrap_or_default();
    // Gemini puts its error into a list with one element.
    let value = value.get(0).unwrap_or(&value);
    let error = value.get("error").unwrap_or(value);
    let message = ["message", "detail", "msg"].iter().find_map(|name| error.get(name)?.as_str());
    let message = message.or_else(|| error.as_str()).unwrap_or(refusal.body.trim());
    let kind = ["type", "code", "status"].iter().find_map(|name| error.get(name)?.as_str());
    let message = cut(message, TEXT_BYTES_MAX);
    let status = refusal.status.map(|status| format!(" answered {status}")).unwrap_or_default();
    let kind = kind.filter(|kind| !message.contains(kind)).map(|kind| format!(" ({})", cut(kind, 100)));
    format!("{}{status}: {message}{}", refusal.provider, kind.unwrap_or_default())
}

/// Returns the beginning of a text, with at most `bytes_max` bytes.
pub(super) fn cut(text: &str, bytes_max: usize) -> &str {
    &text[..text.floor_char_boundary(bytes_max)]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code_of(status: u16, body: &str) -> (&'static str, bool) {
        let refusal = Refusal { status: Some(status), body, wait: None, provider: "openai" };
        let failure = classify(refusal, &Hidden::default());
        (failure.error.code(), failure.again)
    }

    #[test]
    fn refusals_are_classified_by_status_and_text() {
        for (status, body, code, again) in [
            (400, r#"{"error":{"message":"bad"}}"#, "LLMBadRequestError", false),
            (401, "", "LLMAuthenticationError", false),
            (403, "", "LLMAuthenticationError", false),
            (400, r#"{"error":{"message":"Invalid API key"}}"#, "LLMAuthenticationError", false),
            (404, "", "NotFoundError", false),
            (408, "", "LLMTimeoutError", true),
            (409, "", "LLMServiceUnavailableError", true),
            (413, "", "LLMBadRequestError", false),
            (422, "", "LLMBadRequestError", false),
            (429, "", "LLMRateLimitError", true),
            (429, r#"{"error":{"code":"insufficient_quota"}}"#, "LLMRateLimitError", false),
            (429, r#"{"error":{"message":"Budget has been exceeded"}}"#, "LLMRateLimitError", false),
            (400, "Rate-Limit reached", "LLMRateLimitError", true),
            (500, "", "LLMServiceUnavailableError", true),
            (502, "<html>", "LLMServiceUnavailableError", true),
            (503, "", "LLMServiceUnavailableError", true),
            (504, "", "LLMTimeoutError", true),
            (
                529,
                r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#,
                "LLMServiceUnavailableError",
                true,
            ),
            (400, "This model's maximum context length is 8192 tokens", "LLMContextWindowExceedError", false),
            (400, "prompt is too long: 210000 tokens > 200000 maximum", "LLMContextWindowExceedError", false),
            (
                400,
                "messages.1: `tool_use` ids were found without `tool_result` blocks immediately after: x",
                "LLMMalformedConversationHistoryError",
                false,
            ),
            (
                400,
                "{\"error\":{\"code\":\"content_policy_violation\"}}",
                "LLMContentPolicyViolationError",
                false,
            ),
            (
                400,
                r#"{"error":{"type":"invalid_request_error","code":"model_not_found"}}"#,
                "NotFoundError",
                false,
            ),
        ] {
            assert_eq!(code_of(status, body), (code, again), "{status} {body}");
        }
    }

    #[test]
    fn an_error_within_a_stream_is_classified_by_its_own_code() {
        let classify = |body| {
            let refusal = Refusal { status: None, body, wait: None, provider: "openrouter" };
            classify(refusal, &Hidden::default())
        };
        assert_eq!(
            classify(r#"{"error":{"code":"429","message":"slow"}}"#).error.code(),
            "LLMRateLimitError"
        );
        let unknown = classify(r#"{"error":{"message":"odd"}}"#);
        assert_eq!((unknown.error.code(), unknown.again), ("LLMServiceUnavailableError", true));
        assert_eq!(unknown.error.to_string(), "openrouter: odd");
    }

    #[test]
    fn the_text_of_a_refusal_has_no_secrets_and_is_cut() {
        let hidden =
            Hidden::new(["sk-secret\"1".to_owned(), "Bearer other-key".to_owned(), "abc".to_owned()]);
        let body =
            format!(r#"{{"error":{{"message":"no sk-secret\"1, no other-key, abc {}"}}}}"#, "é".repeat(9000));
        let refusal = Refusal { status: Some(400), body: &body, wait: None, provider: "openai" };
        let text = classify(refusal, &hidden).error.to_string();
        assert!(
            text.starts_with("openai answered 400: no <secret-hidden>, no <secret-hidden>, abc é"),
            "{}",
            &text[..80]
        );
        assert!(text.len() < 4_100);
        assert_eq!(hidden.hide(r#"{"k":"sk-secret\"1"}"#), r#"{"k":"<secret-hidden>"}"#);
    }
}
