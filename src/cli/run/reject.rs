//! `annals reject`: rejects the waiting actions.

use clap::Args;
use serde_json::json;

use super::way::{Folder, Remote};
use super::{check_waiting, go_on};
use crate::cli::Place;
use crate::cli::print::{Output, plural};
use crate::cli::settings::Model;
use crate::error::Result;

/// Reject the waiting actions
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  annals reject 5610a7 --reason 'not on the main branch'
  annals reject 5610a7 --run      and let the agent think of something else")]
pub(in crate::cli) struct Arguments {
    /// The conversation, by the start of its id
    pub id: String,
    /// The reason; it is sent to the agent
    #[arg(long, default_value = "User rejected the action")]
    pub reason: String,
    /// Continue the conversation at once, and watch it
    #[arg(long)]
    pub run: bool,
    #[command(flatten)]
    pub remote: Remote,
    #[command(flatten)]
    pub model: Model,
}

pub(in crate::cli) fn run(place: &Place<'_>, command: &Arguments, output: &Output) -> Result<u8> {
    let served = (&command.remote, &command.model, &Folder::default());
    go_on(place, served, output, &command.id, command.run, async |conversation, way| {
        check_waiting(way, conversation)?;
        let count = conversation.reject_pending_actions(&command.reason).await?;
        if output.json {
            output.value(&json!({ "rejected": count }))?;
        } else if !command.run {
            let (rejected, next) = (plural(count as u64, "action"), way.to_resume(conversation.id()));
            output.line(format!("rejected {rejected}; `{next}` tells the agent and lets it go on"))?;
        }
        Ok(command.run)
    })
}
