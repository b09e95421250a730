//! `annals completions`: prints a completion script for a shell.

use clap::Args;

use super::print::Output;
use super::{DONE, Place, complete};
use crate::error::Result;

/// Print a completion script for a shell
///
/// The script asks the program itself, so that ids of conversations are completed too: those of the database of --db, of
/// ANNALS_DB, or of annals.db in the current folder, with their titles where the shell shows them.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  annals completions bash > ~/.local/share/bash-completion/completions/annals
  annals completions zsh > ~/.zfunc/_annals   in a folder of fpath
  annals completions fish > ~/.config/fish/completions/annals.fish")]
pub(super) struct Arguments {
    pub shell: clap_complete::Shell,
}

pub(super) fn run(_place: &Place<'_>, command: &Arguments, output: &Output) -> Result<u8> {
    output.raw(&complete::script(command.shell)?)?;
    Ok(DONE)
}
