//! `annals resume`: continues a conversation, and shows it.

use clap::Args;

use super::go_on;
use super::way::{Folder, Remote};
use crate::cli::Place;
use crate::cli::print::Output;
use crate::cli::settings::Model;
use crate::error::Result;

/// Continue a conversation, and watch it
///
/// The agent learns which actions were interrupted; nothing is done twice. If actions wait for consent, you are asked
/// about them first.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  annals resume 5610a7
  annals resume 5610a7 'use the other parser'   send a message first
  annals resume 5610a7 --model openai/gpt-5     with another model
  annals resume 5610a7 --workspace ~/project    in another folder")]
pub(in crate::cli) struct Arguments {
    /// The conversation, by the start of its id
    pub id: String,
    /// A message to send to the agent first
    pub text: Option<String>,
    #[command(flatten)]
    pub folder: Folder,
    #[command(flatten)]
    pub remote: Remote,
    #[command(flatten)]
    pub model: Model,
}

pub(in crate::cli) fn run(place: &Place<'_>, command: &Arguments, output: &Output) -> Result<u8> {
    let served = (&command.remote, &command.model, &command.folder);
    go_on(place, served, output, &command.id, true, async |conversation, _way| {
        if let Some(text) = &command.text {
            conversation.send_message(text.as_str()).await?;
        }
        Ok(true)
    })
}
