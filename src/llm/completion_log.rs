//! The record of one call, if the settings request it: what was sent, what was received, what it cost.
//!
//! It contains no key: headers are left out, and secret values are hidden in the text. Source: the reference's
//! `utils/telemetry.py` 1.58, for the name of the file and its members.

use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};

use super::failure::Hidden;
use super::setup::Setup;
use super::{LlmError, Reply};
use crate::untrusted;

/// The record of one call, in the form of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct CompletionLog {
    /// The name of the file: the model, the time, and a random part that makes it unique.
    pub filename: String,
    /// The JSON text.
    pub data: String,
    /// The model.
    pub model: String,
    /// The use that the call is counted under.
    pub usage_id: String,
}

impl CompletionLog {
    pub(super) fn of(
        setup: &Setup,
        sent: &str,
        outcome: Result<&Reply, &LlmError>,
        latency: Duration,
        hidden: &Hidden,
    ) -> Self {
        let model = setup.settings.model.to_string();
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let unique = uuid::Uuid::new_v4().simple().to_string();
        let failed = if outcome.is_err() { "-error" } else { "" };
        let filename =
            format!("{}-{:.3}-{}{failed}.json", model.replace('/', "__"), now.as_secs_f64(), &unique[..4]);
        let mut data = json!({
            "request": serde_json::from_str::<Value>(sent).unwrap_or_default(),
            "context_window": setup.input_tokens_max.unwrap_or(0),
            "cost": 0.0,
            "timestamp": now.as_secs_f64(),
            "latency_sec": latency.as_secs_f64(),
        });
        match outcome {
            Ok(reply) => {
                data["cost"] = reply.cost.unwrap_or(0.0).into();
                data["response"] = json!({
                    "id": &*reply.id,
                    "message": serde_json::from_str::<Value>(&reply.message.to_json()).unwrap_or_default(),
                });
                data["usage_summary"] = json!({
                    "prompt_tokens": reply.usage.prompt_tokens,
                    "completion_tokens": reply.usage.completion_tokens,
                    "reasoning_tokens": reply.usage.reasoning_tokens,
                    "cache_read_tokens": reply.usage.cache_read_tokens,
                });
            }
            Err(error) => data["error"] = json!({ "type": error.code(), "message": error.to_string() }),
        }
        let usage_id = setup.settings.usage_id.to_string();
        Self { filename, data: hidden.hide(&data.to_string()), model, usage_id }
    }

    /// Writes the record into a folder, which is created if it does not exist.
    ///
    /// # Errors
    /// [`std::io::Error`] if the folder cannot be created or the file cannot be written.
    pub fn write(&self, folder: &Path) -> std::io::Result<()> {
        std::fs::create_dir_all(folder)?;
        untrusted::write(&folder.join(&self.filename), self.data.as_bytes())
    }
}
