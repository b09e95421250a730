//! `annals approve`: approves the waiting actions, and continues.

use std::sync::Arc;

use clap::Args;

use super::screen::Screen;
use super::stage::Stage;
use super::way::{Remote, Way};
use super::{check_waiting, drive, settle};
use crate::cli::Place;
use crate::cli::print::Output;
use crate::cli::settings::Model;
use crate::error::Result;

/// Approve the waiting actions, and continue
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  annals show 5610a7      what it wants to do
  annals approve 5610a7")]
pub(in crate::cli) struct Arguments {
    /// The conversation, by the start of its id
    pub id: String,
    #[command(flatten)]
    pub remote: Remote,
    #[command(flatten)]
    pub model: Model,
}

pub(in crate::cli) fn run(place: &Place<'_>, command: &Arguments, output: &Output) -> Result<u8> {
    let way = Way::new(place, &command.remote);
    settle(&way, output, async {
        let stage = Stage::new(place, &command.remote, &command.model, false)?;
        let screen = Arc::new(Screen::new(output.json));
        let conversation = stage.again(&command.id, Some(&screen)).await?;
        check_waiting(&way, &conversation)?;
        drive::drive(&way, &conversation, &screen, output, true).await
    })
}
