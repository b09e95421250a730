//! The settings of an agent that is a separate program.

use std::time::Duration;

use serde_json::{Value, json};

use super::AcpError;
use crate::agent::AgentDocument;
use crate::json::Raw;

/// The kind of an agent that is a separate program.
pub const KIND: &str = "ACPAgent";

/// The command, session options and timeouts of an agent program.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct AcpSettings {
    /// The program and its arguments.
    pub command: Vec<String>,
    /// The mode to set in a session.
    pub session_mode: Option<String>,
    /// The model to set in a session.
    pub model: Option<String>,
    /// The session to resume. It takes precedence over the recorded session.
    pub resume: Option<String>,
    /// The longest time in a turn without an update.
    pub prompt_timeout: Duration,
    /// The longest time until the program has started.
    pub startup_timeout: Duration,
}

impl AcpSettings {
    /// Reads the settings. `None` if the agent is not a separate program.
    ///
    /// # Errors
    /// [`AcpError::NoCommand`], and [`AcpError::Unsupported`] if the agent has tools or a condenser.
    pub fn read(agent: &AgentDocument) -> Result<Option<Self>, AcpError> {
        if &*agent.kind() != KIND {
            return Ok(None);
        }
        let texts = |name: &str| {
            let list = agent.member(name).into_iter().flat_map(Raw::elements);
            list.filter_map(Raw::as_str).map(std::borrow::Cow::into_owned).collect::<Vec<_>>()
        };
        let text = |name: &str| agent.member(name).and_then(Raw::as_str).map(std::borrow::Cow::into_owned);
        let seconds = |name: &str, default: u64| {
            let given = agent.member(name).and_then(Raw::as_f64);
            let given = given.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
            given.filter(|time| !time.is_zero()).unwrap_or(Duration::from_secs(default))
        };
        if !agent.tools().is_empty() {
            return Err(AcpError::Unsupported("custom tools"));
        }
        if agent.condenser().is_some() {
            return Err(AcpError::Unsupported("condenser"));
        }
        let command = [texts("acp_command"), texts("acp_args")].concat();
        if command.first().is_none_or(String::is_empty) {
            return Err(AcpError::NoCommand);
        }
        Ok(Some(Self {
            command,
            session_mode: text("acp_session_mode"),
            model: text("acp_model"),
            resume: text("acp_resume_session_id").filter(|id| !id.bytes().all(|byte| byte == b'*')),
            prompt_timeout: seconds("acp_prompt_timeout", 1800),
            startup_timeout: seconds("acp_startup_timeout", 90),
        }))
    }

    /// Returns the agent's MCP servers in the protocol's form. Servers with a URL are left out unless `takes_http`.
    #[must_use]
    pub fn servers(config: &Value, takes_http: bool) -> Value {
        let config = config.get("mcpServers").unwrap_or(config);
        let pairs = |object: Option<&Value>| -> Vec<Value> {
            let members = object.and_then(Value::as_object).into_iter().flatten();
            members
                .filter_map(|(name, value)| Some(json!({"name": name, "value": value.as_str()?})))
                .collect()
        };
        let servers = config.as_object().into_iter().flatten().filter_map(|(name, server)| {
            if server.get("enabled") == Some(&Value::Bool(false)) {
                return None;
            }
            if let Some(command) = server.get("command").and_then(Value::as_str) {
                let args = server.get("args").cloned().unwrap_or_else(|| json!([]));
                return Some(
                    json!({"name": name, "command": command, "args": args, "env": pairs(server.get("env"))}),
                );
            }
            let url = server.get("url").and_then(Value::as_str).filter(|_| takes_http)?;
            Some(json!({"type": "http", "name": name, "url": url, "headers": pairs(server.get("headers"))}))
        });
        servers.collect()
    }
}
