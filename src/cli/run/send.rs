//! `annals send`: sends a message to an agent.

use clap::Args;
use serde_json::json;

use super::go_on;
use super::way::{Folder, Remote};
use crate::cli::Place;
use crate::cli::print::Output;
use crate::cli::settings::Model;
use crate::error::Result;

/// Send a message to an agent
///
/// A running agent receives the message at its next step, in whichever process it runs. Otherwise the agent receives
/// it when it is resumed.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  annals send 5610a7 'the tests are in t/, by the way'
  annals send 5610a7 'and now the documentation' --run")]
pub(in crate::cli) struct Arguments {
    /// The conversation, by the start of its id
    pub id: String,
    /// The message
    pub text: String,
    /// Continue the conversation at once, and watch it
    #[arg(long)]
    pub run: bool,
    #[command(flatten)]
    pub folder: Folder,
    #[command(flatten)]
    pub remote: Remote,
    #[command(flatten)]
    pub model: Model,
}

pub(in crate::cli) fn run(place: &Place<'_>, command: &Arguments, output: &Output) -> Result<u8> {
    let served = (&command.remote, &command.model, &command.folder);
    go_on(place, served, output, &command.id, command.run, async |conversation, way| {
        let runs = conversation.runs_elsewhere();
        let event = conversation.send_message(command.text.as_str()).await?;
        if !command.run || runs {
            if output.json {
                output.value(&json!({ "event": event.as_str(), "runs": runs }))?;
            } else if runs {
                output.line("sent; the running agent receives it at its next step")?;
            } else {
                let next = way.to_resume(conversation.id());
                output.line(format!("sent; `{next}` runs the agent"))?;
            }
        }
        Ok(command.run && !runs)
    })
}
