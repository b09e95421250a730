//! What can go wrong with a program that speaks the protocol.

use serde_json::Value;

/// How much of what went wrong is told, in characters.
const DETAIL_CHARACTERS_MAX: usize = 500;

/// The code by which a program says that somebody has to log in.
const AUTH_REQUIRED: i64 = -32000;

/// Words by which a failure says that somebody has to log in.
const AUTH: &[&str] = &[
    "unauthorized",
    "invalid api key",
    "invalid_api_key",
    "invalid x-api-key",
    "expired",
    "please run /login",
];

/// What can go wrong.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum AcpError {
    /// The program cannot be started.
    #[error("{0}")]
    Spawn(String),
    /// It refused.
    #[error("{}", told(*code, message, data))]
    Refused {
        /// JSON-RPC's number.
        code: i64,
        /// In its words.
        message: String,
        /// What else it says of it; null for nothing.
        data: Value,
    },
    /// It did not come up in time.
    #[error("ACP server startup timed out after {0:.0}s.")]
    StartupTimeout(f64),
    /// It has ended, or cannot be reached any more.
    #[error("{0}")]
    Gone(String),
    /// The agent's settings ask for what only other agents have.
    #[error("ACPAgent does not support {0}; the ACP server manages its own")]
    Unsupported(&'static str),
    /// The agent's settings name no program.
    #[error("the agent's acp_command names no program")]
    NoCommand,
    /// The call was given up.
    #[error("the call was cancelled")]
    Cancelled,
}

impl AcpError {
    /// What is told of it: cut to a length that an event shows.
    #[must_use]
    pub fn detail(&self) -> String {
        self.to_string().chars().take(DETAIL_CHARACTERS_MAX).collect()
    }

    /// Whether the same may work a little later.
    #[must_use]
    pub fn is_passing(&self) -> bool {
        matches!(self, Self::Refused { code: -32603, .. } | Self::Gone(_))
    }

    /// The code of the event where the program did not come up.
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

    /// The code of the event where a turn failed.
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

fn told(code: i64, message: &str, data: &Value) -> String {
    let more = match data {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        Value::Object(members) => {
            let said = ["message", "details", "detail", "error"]
                .iter()
                .find_map(|name| members.get(*name)?.as_str());
            said.map_or_else(|| data.to_string(), str::to_owned)
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
    fn failures_are_told_and_named_as_the_reference_does_it() {
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
