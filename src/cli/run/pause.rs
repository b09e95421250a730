//! `annals pause`: pauses a conversation, whichever process runs it.

use clap::Args;
use serde_json::json;

use super::settle;
use super::stage::Stage;
use super::way::{Remote, Way};
use crate::cli::print::Output;
use crate::cli::settings::Model;
use crate::cli::{DONE, Place, REFUSED};
use crate::error::Result;
use crate::state::ExecutionStatus;

/// Pause a conversation, whichever process runs it
///
/// Running tools finish first. Then nothing more is done until the conversation is resumed.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  annals pause 5610a7
  annals resume 5610a7    when it may continue")]
pub(in crate::cli) struct Arguments {
    /// The conversation, by the start of its id
    pub id: String,
    #[command(flatten)]
    pub remote: Remote,
}

pub(in crate::cli) fn run(place: &Place<'_>, command: &Arguments, output: &Output) -> Result<u8> {
    settle(&Way::new(place, &command.remote), output, async {
        let stage = Stage::new(place, &command.remote, &Model::default(), false)?;
        let conversation = stage.again(&command.id, None).await?;
        if conversation.runs_elsewhere() {
            output.remark("pausing; tools that are running finish first");
        }
        conversation.pause().await?;
        let status = conversation.status();
        if output.json {
            output.value(&json!({ "status": status.as_str() }))?;
        } else {
            output.line(match status {
                ExecutionStatus::Paused => "paused".to_owned(),
                other => format!("it does not run: {other}"),
            })?;
        }
        Ok(if status == ExecutionStatus::Paused { DONE } else { REFUSED })
    })
}
