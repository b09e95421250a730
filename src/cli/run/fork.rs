//! `annals fork`: copies a conversation, to continue it differently.

use std::sync::Arc;

use clap::Args;
use serde_json::json;

use super::screen::Screen;
use super::stage::Stage;
use super::way::{Remote, Way};
use super::{drive, settle};
use crate::cli::print::Output;
use crate::cli::settings::Model;
use crate::cli::{DONE, Place};
use crate::conversation::{ForkMetrics, ForkOptions};
use crate::error::Result;

/// Copy a conversation, to continue it differently
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  annals fork 5610a7                     all of it
  annals events 5610a7                   list the events
  annals fork 5610a7 --from 3f1c --run   continue after that event, and watch")]
pub(in crate::cli) struct Arguments {
    /// The conversation, by the start of its id
    pub id: String,
    /// The last event to copy, by its sequence or the start of its id
    #[arg(long, value_name = "EVENT")]
    pub from: Option<String>,
    /// Also copy the cost of model calls
    #[arg(long)]
    pub keep_cost: bool,
    /// Continue the copy at once, and watch it
    #[arg(long)]
    pub run: bool,
    #[command(flatten)]
    pub model: Model,
}

pub(in crate::cli) fn run(place: &Place<'_>, command: &Arguments, output: &Output) -> Result<u8> {
    let here = Remote::default();
    let way = Way::new(place, &here);
    settle(&way, output, async {
        let stage = Stage::new(place, &here, &command.model, false)?;
        let source = stage.again(&command.id, None).await?;
        let from_event = match &command.from {
            None => None,
            Some(text) => Some(stage.event(source.id(), text)?),
        };
        let metrics = if command.keep_cost { ForkMetrics::Keep } else { ForkMetrics::Reset };
        let copy = source.fork(ForkOptions { from_event, metrics, ..ForkOptions::default() }).await?;
        let id = copy.id().clone();
        copy.close().await?;
        source.close().await?;
        if output.json {
            output.value(&json!({ "conversation": id.as_str(), "events": copy.snapshot().event_count }))?;
        } else if !command.run {
            let next = way.to_resume_with_message(&id);
            output.line(format!("{id}\n`{next}` continues it"))?;
        }
        if !command.run {
            return Ok(DONE);
        }
        let screen = Arc::new(Screen::new(output.json));
        let copy = stage.again(id.as_str(), Some(&screen)).await?;
        drive::drive(&way, &copy, &screen, output, false).await
    })
}
