//! `annals ask`: asks the agent about what it did, without a trace in the conversation.

use clap::Args;
use serde_json::json;

use super::settle;
use super::stage::Stage;
use super::way::{Remote, Way};
use crate::cli::print::{Output, harmless};
use crate::cli::settings::Model;
use crate::cli::{DONE, Place};
use crate::error::Result;

/// Ask the agent about what it did, without a trace in the conversation
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  annals ask 5610a7 'why did you delete the cache?'")]
pub(in crate::cli) struct Arguments {
    /// The conversation, by the start of its id
    pub id: String,
    /// The question
    pub question: String,
    #[command(flatten)]
    pub remote: Remote,
    #[command(flatten)]
    pub model: Model,
}

pub(in crate::cli) fn run(place: &Place<'_>, command: &Arguments, output: &Output) -> Result<u8> {
    settle(&Way::new(place, &command.remote), output, async {
        let stage = Stage::new(place, &command.remote, &command.model, false)?;
        let conversation = stage.again(&command.id, None).await?;
        let answer = conversation.ask_agent(&command.question).await?;
        conversation.close().await?;
        if output.json {
            output.value(&json!({ "answer": answer }))?;
        } else {
            output.line(harmless(&answer))?;
        }
        Ok(DONE)
    })
}
