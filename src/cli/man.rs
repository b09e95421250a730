//! `annals man`: prints a manual page, or writes all of them to a folder.

use std::path::PathBuf;

use clap::Args;

use super::print::Output;
use super::{DONE, Place, help};
use crate::error::{Error, Result};

/// Print a manual page, or write those of all commands
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  annals man | man -l -                        read the page of the program
  annals man report | man -l -                 read the page of a command
  annals man --to ~/.local/share/man/man1      write all pages; then `man annals-report` shows one")]
pub(super) struct Arguments {
    /// The command; without it, the program
    #[arg(value_name = "COMMAND", value_parser = known)]
    pub command: Option<String>,
    /// Write the pages of all commands to this folder, which is created if it does not exist
    #[arg(long, value_name = "FOLDER", conflicts_with = "command")]
    pub to: Option<PathBuf>,
}

/// Accepts the name of a command.
fn known(name: &str) -> std::result::Result<String, String> {
    match help::command().find_subcommand(name) {
        Some(_) => Ok(name.to_owned()),
        None => Err("there is no such command; `annals --help` lists them".to_owned()),
    }
}

pub(super) fn run(_place: &Place<'_>, command: &Arguments, output: &Output) -> Result<u8> {
    let mut program = help::command();
    // Gives each command its whole name: annals-report.
    program.build();
    if let Some(folder) = &command.to {
        std::fs::create_dir_all(folder).map_err(Error::io("creating", folder))?;
        clap_mangen::generate_to(program, folder).map_err(Error::io("writing to", folder))?;
        output.remark(format!("the manual pages are in {}", folder.display()));
        return Ok(DONE);
    }
    let named = command.command.as_deref().and_then(|name| program.find_subcommand(name)).cloned();
    let mut page = Vec::new();
    // Writing to memory does not fail.
    clap_mangen::Man::new(named.unwrap_or(program))
        .render(&mut page)
        .map_err(Error::io("printing", "a page"))?;
    output.raw(&page)?;
    Ok(DONE)
}
