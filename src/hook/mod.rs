//! Hooks: commands and models that are asked before and after what an agent does.
//!
//! [`Config`] lists the hooks. [`Hooks`] runs the hooks of one point and returns their outcomes ([`Outcome`]). The
//! conversation decides what a block means. Nothing here fails: a hook that cannot run, or does not answer in time,
//! gives an outcome that does not block. Outputs are bounded and contain no known secret. Source of the rules:
//! `docs/reference/hooks.md`.

mod command;
pub(crate) mod config;
mod matcher;
mod outcome;
mod prompt;

use std::path::PathBuf;
use std::sync::Arc;

pub use config::{Config, ConfigError, Definition, Group, What};
pub use outcome::{Outcome, Ran, blocking_reason, joined_context};
use serde_json::{Map, Value, json};

use crate::event::HookType;
use crate::llm::Model;
use crate::secret::Registry;

/// The input of a hook: what it is asked about.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct Input {
    /// The tool's name, at the points before and after its use.
    pub tool_name: Option<String>,
    /// The tool's action, as JSON.
    pub tool_input: Option<Value>,
    /// The tool's observation, as JSON.
    pub tool_response: Option<Value>,
    /// The text of the user's message, at the point before it is stored.
    pub message: Option<String>,
    /// Why the agent stops, for example `agent_finished`.
    pub reason: Option<String>,
}

/// The hooks of one conversation.
pub struct Hooks {
    config: Config,
    working_dir: PathBuf,
    session_id: String,
    secrets: Registry,
    model: Option<Arc<dyn Model>>,
    background: command::Background,
}

impl Hooks {
    /// Makes the hooks of `config` for the conversation `session_id` (its UUID with dashes). Commands run in
    /// `working_dir`. Prompt and agent hooks ask `model`.
    #[must_use]
    pub fn new(
        config: Config,
        working_dir: PathBuf,
        session_id: impl Into<String>,
        secrets: Registry,
        model: Option<Arc<dyn Model>>,
    ) -> Self {
        let (session_id, background) = (session_id.into(), command::Background::default());
        Self { config, working_dir, session_id, secrets, model, background }
    }

    /// Returns the configuration.
    #[must_use]
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Runs the hooks of a point, one after the other, in the order of the configuration.
    ///
    /// Before a tool, at a prompt and at a stop, no hook runs after the first one that blocks. At other points, all
    /// hooks run and a block has no effect.
    pub async fn run(&self, point: &HookType, input: &Input) -> Vec<Ran> {
        let ends_at_block =
            matches!(point, HookType::PreToolUse | HookType::UserPromptSubmit | HookType::Stop);
        let text = self.stdin(point, input).to_string();
        let mut ran = Vec::new();
        for definition in self.config.of(point, input.tool_name.as_deref()) {
            let outcome = match &definition.what {
                What::Command { command, waits } => {
                    let call = command::Call {
                        command,
                        working_dir: &self.working_dir,
                        session_id: &self.session_id,
                        point,
                        tool_name: input.tool_name.as_deref(),
                        stdin: &text,
                        timeout: definition.timeout,
                    };
                    if *waits { call.run().await } else { self.background.start(&call) }
                }
                What::Prompt { prompt } | What::Agent { system_prompt: prompt, .. } => {
                    prompt::ask(self.model.as_deref(), prompt, point, &text, definition).await
                }
            };
            self.secrets.resolve().await;
            let mask = self.secrets.mask_known();
            let blocked = outcome.blocked;
            let command = mask.apply(&definition.label()).into_owned();
            ran.push(Ran { command, outcome: outcome.masked(&mask) });
            if blocked && ends_at_block {
                break;
            }
        }
        ran
    }

    /// Kills the hooks that still run in the background.
    pub fn close(&self) {
        self.background.end_all();
    }

    /// Makes the input of a command: one line of JSON with every key, in the reference's order.
    fn stdin(&self, point: &HookType, input: &Input) -> Line {
        let metadata = match &input.reason {
            Some(reason) => json!({ "reason": reason }),
            None => Value::Object(Map::new()),
        };
        Line(vec![
            ("event_type", json!(point.as_str())),
            ("tool_name", json!(input.tool_name)),
            ("tool_input", json!(input.tool_input)),
            ("tool_response", json!(input.tool_response)),
            ("message", json!(input.message)),
            ("session_id", json!(self.session_id)),
            ("working_dir", json!(self.working_dir.to_string_lossy())),
            ("metadata", metadata),
        ])
    }
}

impl Drop for Hooks {
    fn drop(&mut self) {
        self.close();
    }
}

/// A JSON object whose members keep their order.
struct Line(Vec<(&'static str, Value)>);

impl std::fmt::Display for Line {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (place, (name, value)) in self.0.iter().enumerate() {
            let before = if place == 0 { "{" } else { "," };
            write!(out, "{before}\"{name}\":{value}")?;
        }
        out.write_str("}")
    }
}

#[cfg(test)]
mod tests;
