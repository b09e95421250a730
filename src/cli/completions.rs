//! `annals completions`: prints a completion script for a shell.

use clap::Args;

use super::print::Output;
use super::{DONE, Place, help};
use crate::error::Result;

/// Print a completion script for a shell
#[derive(Debug, Args)]
#[command(after_help = "Example:
  annals completions bash > ~/.local/share/bash-completion/completions/annals")]
pub(super) struct Arguments {
    pub shell: clap_complete::Shell,
}

pub(super) fn run(_place: &Place<'_>, command: &Arguments, output: &Output) -> Result<u8> {
    let mut text = Vec::new();
    clap_complete::generate(command.shell, &mut help::command(), "annals", &mut text);
    output.raw(&text)?;
    Ok(DONE)
}
