//! The failures of an agent program that speaks the Agent Client Protocol.

use serde_json::Value;

/// The longest description of a failure, in characters.
const DETAIL_CHARACTERS_MAX: usize = 500;

/// The JSON-RPC error code of a program that requires a login.
const AUTH_REQUIRED: i64 = -32000;

/// Words in an error message which mean that a login is required.
const AUTH: &[&str] = &[
    "unauthorized",
    "invalid api key",
    "invalid_api_key",
    "invalid x-api-key",
    "expired",
    "please run /login",
];

/// A failure of the program or of its settings.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum AcpError {
    /// The program cannot be started.
    #[error("{0}")]
    Spawn(String),
    /// The program answered a request with an error.
    #[error("{}", refusal_text(*code, message, data))]
    Refused {
        /// The JSON-RPC error code.
        code: i64,
        /// The program's error message.
        message: String,
        /// Further details from the program; null if there are none.
        data: Value,
    },
    /// The program did not start in time.
    #[error("ACP server startup timed out after {0:.0}s.")]
    StartupTimeout(f64),
    /// The program has ended, or cannot be reached any more.
    #[error("{0}")]
    Gone(String),
    /// The agent's settings ask for something that only other kinds of agents support.
    #[error("ACPAgent does not support {0}; the ACP server manages its own")]
    Unsupported(&'static str),
    /// The agent's settings name no program.
    #[error("the agent's acp_command names no program")]
    NoCommand,
    /// The call was cancelled.
    #[error("the call was cancelled")]
    Cancelled,
}

impl AcpError {
    /// Returns the failure's text, cut to a length that fits into an event.
    #[must_use]
    pub fn detail(&self) -> String {
        self.to_string().chars().take(DETAIL_CHARACTERS_MAX).collect()
    }

    /// Returns whether a retry may succeed.
    #[must_use]
    pub fn is_passing(&self) -> bool {
        matches!(self, Self::Refused { code: -32603, .. } | Self::Gone(_))
    }

    /// Returns the code of the error event for a program that failed to start.
    #[must_use]
    pub fn startup_code(&self) -> &'static str {
        match self {
            error if error.is_auth() => "ACPAuthRequired",
            Self::StartupTimeout(_) => "ACPStartupTimeout",
            Self::Spawn(_) => "ACPSpawnError",
            Self::Refused { .. }
            | Self::Gone(_)
            | Self::Unsupported(_)
            | Self::NoCommand
            | Self::Cancelled => "ACPInitError",
        }
    }

    /// Returns the code of the error event for a failed turn.
    #[must_use]
    pub fn turn_code(&self) -> &'static str {
        let text = self.to_string().to_lowercase();
        if text.contains("usage policy") || text.contains("content policy") {
            "UsagePolicyRefusal"
        } else if self.is_auth() {
            "ACPAuthRequired"
        } else {
            "ACPPromptError"
        }
    }

    fn is_auth(&self) -> bool {
        if matches!(self, Self::Refused { code: AUTH_REQUIRED, .. }) {
            return true;
        }
        let text = self.to_string().to_lowercase();
        let mut words = text.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_');
        AUTH.iter().any(|word| text.contains(word)) || words.any(|word| matches!(word, "401" | "403"))
    }
}

fn refusal_text(code: i64, message: &str, data: &Value) -> String {
    let more = match data {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        Value::Object(members) => {
            let text = ["message", "details", "detail", "error"]
                .iter()
                .find_map(|name| members.get(*name)?.as_str());
            text.map_or_else(|| data.to_string(), str::to_owned)
        }
        other => other.to_string(),
    };
    if more.is_empty() || more == message {
        format!("[{code}] {message}")
    } else {
        format!("[{code}] {message}: {more}")
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn failures_are_reported_and_named_as_the_reference_does_it() {
        let refused =
            |code, message: &str, data| AcpError::Refused { code, message: message.to_owned(), data };
        let auth = refused(-32000, "Authentication required", Value::Null);
        assert_eq!(
            (&*auth.detail(), auth.turn_code()),
            ("[-32000] Authentication required", "ACPAuthRequired")
        );
        let inner = refused(-32603, "Internal error", json!({"details": "HTTP 401 from upstream"}));
        assert_eq!(inner.detail(), "[-32603] Internal error: HTTP 401 from upstream");
        assert_eq!((inner.startup_code(), inner.is_passing()), ("ACPAuthRequired", true));
        let policy = refused(-32603, "Internal error", json!("violates our Usage Policy"));
        assert_eq!(policy.turn_code(), "UsagePolicyRefusal");
        assert_eq!(AcpError::Spawn("x".into()).startup_code(), "ACPSpawnError");
        assert_eq!(AcpError::StartupTimeout(90.0).startup_code(), "ACPStartupTimeout");
        assert_eq!(refused(-32602, "a4011b", Value::Null).turn_code(), "ACPPromptError");
        assert_eq!(AcpError::Gone("z".repeat(900)).detail().len(), 500);
    }
}
